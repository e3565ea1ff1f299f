//! Trajectories that are computed side by side get what each of them gets alone.

mod common;

use common::{MODES, gaussian, linear, network, sdes};
use nsde::{
    CovarianceForm, Diffusion, Gaussian, Layer, Network, NeuralSde, Options, Precision, Rollout, Solver,
    Trajectory,
};
use nsde_check::{random_vec, seeded};
use rand_chacha::ChaCha8Rng;

/// Any function that sees every moment, and every trajectory differently.
fn objective(i: usize, t: &Trajectory, bar: &mut Trajectory) -> nsde::Result<f64> {
    let mut value = 0.0;
    for k in 0..t.steps() {
        let (mean_bar, cov_bar) = bar.at_mut(k);
        for (place, (x, bar)) in
            t.mean(k).iter().chain(t.cov(k)).zip(mean_bar.iter_mut().chain(cov_bar)).enumerate()
        {
            let weight = (1.0 + (place * 3 + k + i) as f64).sin();
            value += weight * x;
            *bar += weight;
        }
    }
    Ok(value)
}

fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    let scale = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance * scale, "{what}: {g} against {w}");
    }
}

/// Batches with full bundles and half-empty ones, and loners between them.
fn check(what: &str, sde: &NeuralSde, options: Options, tolerance: f64) {
    for batch in [21, 7, 3] {
        let steps: Vec<usize> = (0..batch).map(|b| if b == 9 || b == 20 { 2 } else { 3 }).collect();
        check_batch(&format!("{what}, {batch}"), sde, options, tolerance, &steps, random_vec);
    }
}

/// A batch with steps of any size, so many each, and `inputs` of any kind.
fn check_batch(
    what: &str,
    sde: &NeuralSde,
    options: Options,
    tolerance: f64,
    steps: &[usize],
    inputs: impl Fn(usize, &mut ChaCha8Rng) -> Vec<f64>,
) {
    let rng = &mut seeded(5);
    let d = sde.state();
    let starts: Vec<Gaussian> = steps.iter().map(|_| gaussian(d, 0.2, rng)).collect();
    let dts: Vec<Vec<f64>> =
        steps.iter().map(|n| random_vec(*n, rng).iter().map(|x| 0.05 + 0.02 * x.abs()).collect()).collect();
    let us: Vec<Vec<f64>> = steps.iter().map(|n| inputs(n * sde.inputs(), rng)).collect();
    let batch: Vec<Rollout<'_>> = (starts.iter().zip(&dts).zip(&us))
        .map(|((start, dts), inputs)| Rollout { start, dts, inputs })
        .collect();
    let solver = Solver::new(sde, options).unwrap();
    let together = solver.solve(&batch).unwrap();
    let gradient = solver.gradient(&batch, objective).unwrap();
    let mut sum = vec![0.0; gradient.parameters.len()];
    let mut value = 0.0;
    for (i, rollout) in batch.iter().enumerate() {
        let alone = &solver.solve(std::slice::from_ref(rollout)).unwrap()[0];
        for k in 0..steps[i] {
            close(&format!("{what}: mean of {i} after {k}"), together[i].mean(k), alone.mean(k), tolerance);
            close(&format!("{what}: covariance of {i}"), together[i].cov(k), alone.cov(k), tolerance);
        }
        let one = solver.gradient(std::slice::from_ref(rollout), |_, t, bar| objective(i, t, bar)).unwrap();
        let (bar, want) = (&gradient.starts[i], &one.starts[0]);
        close(&format!("{what}: cotangent of start {i}"), &bar.mean, &want.mean, 10.0 * tolerance);
        close(&format!("{what}: cotangent of spread {i}"), &bar.cov, &want.cov, 10.0 * tolerance);
        value += one.value;
        for (sum, x) in sum.iter_mut().zip(&one.parameters) {
            *sum += x;
        }
    }
    close(&format!("{what}: value"), &[gradient.value], &[value], 10.0 * tolerance);
    close(&format!("{what}: gradient"), &gradient.parameters, &sum, 10.0 * tolerance);
}

fn both(what: &str, sde: &NeuralSde, options: Options) {
    check(what, sde, options, 1e-11);
    check(what, sde, Options { precision: Precision::F32, ..options }, 1e-4);
}

#[test]
fn every_diffusion_and_mode() {
    let rng = &mut seeded(1);
    for u in [Layer::Relu, Layer::Tanh] {
        for (kind, sde) in sdes(3, 2, &u, rng).iter().enumerate() {
            for moments in MODES {
                let what = format!("{} {moments:?} diffusion {kind}", u.kind());
                both(&what, sde, Options { moments, ..Options::default() });
            }
        }
    }
}

#[test]
fn every_form_of_the_covariance() {
    let rng = &mut seeded(2);
    for (kind, sde) in sdes(3, 0, &Layer::Relu, rng).iter().enumerate() {
        for covariance in [CovarianceForm::Structured, CovarianceForm::Diagonal] {
            both(&format!("{covariance:?} {kind}"), sde, Options { covariance, ..Options::default() });
        }
    }
}

#[test]
fn every_activation() {
    let rng = &mut seeded(3);
    for u in common::activations() {
        // Small weights: exponentials of anything else leave the range of `f32`.
        let scale = if u == Layer::Exp { 0.1 } else { 1.0 };
        let mut net = |input, width, output| {
            let layers = vec![
                linear(input, width, scale, rng),
                u.clone(),
                Layer::Dropout { keep: 0.9 },
                linear(width, output, scale, rng),
            ];
            Network::new(input, layers).unwrap()
        };
        let sde = NeuralSde::new(2, 1, net(3, 6, 2), Diffusion::Diagonal(net(2, 4, 2))).unwrap();
        both(u.kind(), &sde, Options::default());
    }
}

#[test]
fn residual_blocks_and_odd_widths() {
    let rng = &mut seeded(4);
    let (d, inputs) = (5, 3);
    let block = network(13, &[7], 13, &Layer::Relu, 0.9, rng);
    let layers = vec![
        linear(d + inputs, 13, 1.0, rng),
        Layer::Relu,
        Layer::Residual(block),
        Layer::LeakyRelu { slope: 0.2 },
        Layer::Identity,
        linear(13, d, 1.0, rng),
    ];
    let drift = Network::new(d + inputs, layers).unwrap();
    let diffusion = Diffusion::Diagonal(network(d, &[11, 23], d, &Layer::Relu, 0.7, rng));
    both("residual", &NeuralSde::new(d, inputs, drift, diffusion).unwrap(), Options::default());
}

#[test]
fn the_widths_of_the_paper() {
    let rng = &mut seeded(6);
    for (d, inputs, hidden, small) in [(2, 0, 50, 50), (9, 3, 50, 50), (34, 0, 100, 100), (1, 0, 128, 1)] {
        let drift = network(d + inputs, &[hidden, hidden], d, &Layer::Relu, 0.8, rng);
        let diffusion = Diffusion::Diagonal(network(d, &[small], d, &Layer::Relu, 0.8, rng));
        let sde = NeuralSde::new(d, inputs, drift, diffusion).unwrap();
        both(&format!("width {hidden}"), &sde, Options::default());
    }
}

#[test]
fn words_of_reviews_of_different_lengths() {
    const WORDS: usize = 140;
    let rng = &mut seeded(7);
    let drift = network(4 + WORDS, &[9], 4, &Layer::Relu, 0.8, rng);
    let sde =
        NeuralSde::new(4, WORDS, drift, Diffusion::Diagonal(network(4, &[5], 4, &Layer::Relu, 0.8, rng)));
    let sde = sde.unwrap();
    // Row by row one word, but for the first row, which has none.
    let words = |n: usize, _: &mut ChaCha8Rng| {
        let word = |k: usize| if k / WORDS == 0 { WORDS } else { (7 * k / WORDS + n) % WORDS };
        (0..n).map(|k| f64::from(u8::from(k % WORDS == word(k)))).collect()
    };
    // Bundles that are nearly full, one that is not worth it, and one whose last trajectory is alone for long.
    let steps = [5, 6, 6, 7, 7, 7, 8, 8, 1, 1, 1, 1, 1, 1, 1, 30, 4, 4, 5, 5, 5, 5, 5, 9];
    for (precision, tolerance) in [(Precision::F64, 1e-11), (Precision::F32, 1e-4)] {
        let options = Options { precision, ..Options::default() };
        check_batch("words", &sde, options, tolerance, &steps, words);
    }
}

#[test]
fn inputs_into_a_network_that_does_not_begin_with_a_linear_layer() {
    let rng = &mut seeded(8);
    let layers = vec![Layer::Tanh, linear(5, 6, 1.0, rng), Layer::Relu, linear(6, 3, 1.0, rng)];
    let drift = Network::new(5, layers).unwrap();
    let sde = NeuralSde::new(3, 2, drift, Diffusion::ConstantDiagonal(vec![0.3; 3])).unwrap();
    both("tanh first", &sde, Options::default());
}
