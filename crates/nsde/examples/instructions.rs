//! Four kernels to be counted by `bench/instructions.sh` under callgrind: `instructions NAME` runs one of
//! them in `measured`, the only function that is counted.

use nsde::{Diffusion, Gaussian, Layer, Network, NeuralSde, Options, Precision, Rollout, Solver, Trajectory};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Repetitions: enough for the counts to be those of the steady state.
const REPEAT: usize = 10;

#[inline(never)]
fn measured(run: &mut dyn FnMut() -> nsde::Result<()>) -> nsde::Result<()> {
    for _ in 0..REPEAT {
        run()?;
    }
    Ok(())
}

fn sde(dim: usize, width: usize) -> nsde::Result<NeuralSde> {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let drift = Network::perceptron(dim, &[width, width], dim, Layer::Relu, 0.8, rng)?;
    let noise = Network::perceptron(dim, &[width], dim, Layer::Relu, 0.8, rng)?;
    NeuralSde::new(dim, 0, drift, Diffusion::Diagonal(noise))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let (dim, width, precision) = match name.as_str() {
        "forward" | "gradient" => (2, 50, Precision::F64),
        "wide" => (34, 100, Precision::F32),
        "abreast" => (2, 50, Precision::F32),
        other => return Err(format!("`{other}` is not forward, gradient, wide or abreast").into()),
    };
    let solver = Solver::new(&sde(dim, width)?, Options { precision, ..Options::default() })?;
    let start = Gaussian::isotropic(vec![0.3; dim], 0.1)?;
    let rollout = Rollout { start: &start, dts: &[0.05; 4], inputs: &[] };
    let mut out = Trajectory::zeros(dim, 4);
    let mut predictor = solver.predictor();
    let mut predict = || predictor.predict(rollout, &mut out);
    let mut gradient = || {
        let last = |_: usize, t: &Trajectory, bar: &mut Trajectory| {
            bar.at_mut(3).1.fill(1.0);
            Ok(t.cov(3).iter().sum())
        };
        let some = [rollout; 8];
        solver.gradient(if name == "abreast" { &some } else { &some[..1] }, last).map(drop)
    };
    // One thread, so that all of the work is in `measured`.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    pool.install(|| -> nsde::Result<()> {
        if name == "gradient" || name == "abreast" {
            gradient()?;
            measured(&mut gradient)
        } else {
            predict()?;
            measured(&mut predict)
        }
    })?;
    Ok(())
}
