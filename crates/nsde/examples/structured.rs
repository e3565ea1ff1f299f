//! What neglecting part of the hidden covariance costs: `--covariance structured` and `diagonal` against
//! `full` and Monte Carlo, over width and depth: `cargo run --release -p nsde --example structured`.
//!
//! Prints the document `docs/structured.md`.

use nsde::{
    CovarianceForm, Diffusion, Gaussian, Layer, Method, Network, NeuralSde, Options, Rollout, Solver,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Instant;

const DIM: usize = 4;
const STEPS: usize = 20;
const NETS: u64 = 5;
const PATHS: usize = 20_000;

fn net(width: usize, depth: usize, keep: f64, seed: u64) -> nsde::Result<NeuralSde> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    // Twice the usual weights, so that the nonlinearity matters.
    let mut double = |output: usize, hidden: &[usize]| -> nsde::Result<Network> {
        let net = Network::perceptron(DIM, hidden, output, Layer::Relu, keep, rng)?;
        let layers = net.layers().iter().map(|layer| match layer {
            Layer::Linear(l) => {
                let weight = l.weight().iter().map(|w| 2.0 * w).collect();
                Ok(Layer::Linear(nsde::Linear::new(l.input(), l.output(), weight, l.bias().to_vec())?))
            }
            other => Ok(other.clone()),
        });
        Network::new(DIM, layers.collect::<nsde::Result<_>>()?)
    };
    let drift = double(DIM, &vec![width; depth])?;
    let noise = double(DIM, &[width])?;
    NeuralSde::new(DIM, 0, drift, Diffusion::Diagonal(noise))
}

/// Relative distance of the last covariances, in the Frobenius norm.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

fn main() -> nsde::Result<()> {
    println!("# What `--covariance structured` and `diagonal` cost\n");
    println!("Written by `cargo run --release -p nsde --example structured`; do not edit.\n");
    println!(
        "`full` carries the whole covariance of hidden units, O(H³) per layer. `structured` keeps `J Σ Jᵀ` and\n\
         a diagonal: the covariance that dropout and nonlinearity make between *different* units of a layer is\n\
         neglected, O(H² D). `diagonal` also cuts the state's covariance to its variances. Random ReLU networks\n\
         with weights twice as large as PyTorch starts them, D = {DIM}, {STEPS} steps of 0.05 from N(0.3, 0.1),\n\
         mean of {NETS} networks: relative error of the covariance after the last step (Frobenius norm), and\n\
         time against `full`. Monte Carlo: {PATHS} paths; its own noise is about 0.015.\n"
    );
    println!(
        "| width | hidden layers | keep | full to MC | structured to MC | structured to full | diagonal to full | time structured / full |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let start = Gaussian::isotropic(vec![0.3; DIM], 0.1)?;
    let dts = [0.05; STEPS];
    let rollout = [Rollout { start: &start, dts: &dts, inputs: &[] }];
    for keep in [1.0, 0.8] {
        for depth in [1, 2, 3] {
            for width in [8, 32, 128] {
                let (mut errors, mut seconds) = ([0.0; 4], [0.0; 2]);
                for seed in 0..NETS {
                    let sde = net(width, depth, keep, seed)?;
                    let cov = |options: Options| -> nsde::Result<(Vec<f64>, f64)> {
                        let solver = Solver::new(&sde, options)?;
                        if options.method == Method::Bmm {
                            // Warms up, for the clock.
                            solver.solve(&rollout)?;
                        }
                        let began = Instant::now();
                        let out = solver.solve(&rollout)?;
                        Ok((out[0].cov(STEPS - 1).to_vec(), began.elapsed().as_secs_f64()))
                    };
                    let form = |covariance| Options { covariance, ..Options::default() };
                    let (full, slow) = cov(form(CovarianceForm::Full))?;
                    let (structured, fast) = cov(form(CovarianceForm::Structured))?;
                    let (diagonal, _) = cov(form(CovarianceForm::Diagonal))?;
                    let method = Method::MonteCarlo { samples: PATHS, seed };
                    let (truth, _) = cov(Options { method, ..Options::default() })?;
                    let pairs =
                        [(&full, &truth), (&structured, &truth), (&structured, &full), (&diagonal, &full)];
                    for (sum, (a, b)) in errors.iter_mut().zip(pairs) {
                        *sum += distance(a, b) / NETS as f64;
                    }
                    seconds[0] += fast;
                    seconds[1] += slow;
                }
                let [a, b, c, d] = errors;
                let ratio = seconds[0] / seconds[1];
                println!("| {width} | {depth} | {keep} | {a:.3} | {b:.3} | {c:.4} | {d:.3} | {ratio:.2} |");
            }
        }
    }
    Ok(())
}
