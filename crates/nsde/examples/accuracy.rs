//! Prints the accuracy table of `docs/accuracy.md`: `cargo run --release --example accuracy`.

#[path = "../tests/common/accuracy.rs"]
mod accuracy;

use accuracy::{MODES, activations, errors};

fn main() {
    println!("# Accuracy of activation covariances\n");
    println!(
        "Written by `cargo run --release -p nsde --example accuracy`; checked by `tests/accuracy.rs`.\n"
    );
    println!(
        "References: adaptive quadrature in one and two dimensions (`nsde-check`), which shares no code."
    );
    println!("Each cell is the largest error / the root-mean-square error of `Cov[u(x), u(y)]` over means");
    println!(
        "−4σ … 4σ and 20 equally spaced correlations in (−1, 1); the largest error also over ρ = ±0.999."
    );
    println!("Errors are absolute, for `exp` relative to the product of the two means.");
    println!("The last column is the largest error of mean, variance and expected Jacobian in any mode.");
    println!(
        "`paper` is the paper's formula for `relu` and `leaky_relu`, elsewhere the series with 8 terms.\n"
    );
    for var in [0.01, 1.0, 16.0] {
        println!("## Variance {var}\n");
        print!("| activation |");
        MODES.iter().for_each(|(name, _)| print!(" {name} |"));
        println!(" first moments |");
        println!("|---|{}", "---|".repeat(MODES.len() + 1));
        for (name, layer, reference) in activations() {
            // A log-normal of variance e³² is no activation any more.
            if name == "exp" && var > 1.0 {
                continue;
            }
            let all = errors(&layer, reference, var);
            print!("| {name} |");
            all.iter().for_each(|e| print!(" {:.1e} / {:.1e} |", e.max, e.rms));
            println!(" {:.1e} |", all.iter().map(|e| e.first).fold(0.0, f64::max));
        }
        println!();
    }
}
