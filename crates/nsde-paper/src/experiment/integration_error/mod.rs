//! Fig. 4: error and time of vertical moment matching and of cubature, over dimension and width.

mod cubature;
mod problem;
mod reference;
mod report;

use super::Experiment;
use crate::cells::Order;
use crate::points::generator;
use crate::run::Run;
use crate::statistics::median;
use anyhow::Result;
use cubature::Cubature;
use nsde::{Gaussian, Method, Moments, Options, Rollout, Solver, Trajectory, Unscented};
use problem::Problem;
use reference::Half;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "integration-error",
    paper: "Fig. 4",
    about: "error of a network's mean and Jacobian by moment matching and cubature, its causes, and the time",
    run,
};

/// How activations may be computed.
const MODES: [(&str, Moments); 3] =
    [("paper", Moments::Paper), ("series", Moments::Series { terms: 8 }), ("exact", Moments::Exact)];
const SERIES: usize = 1;
const EXACT: usize = 2;
/// Repetitions that are computed and saved together.
const CHUNK: usize = 8;

/// What the results depend on.
#[derive(Serialize)]
struct Settings {
    pairs: usize,
}

/// Sizes of a network, and repetitions `first..first + count`.
#[derive(Clone, Copy, Serialize)]
struct Place {
    dim: usize,
    width: usize,
    first: usize,
    count: usize,
}

/// Relative squared errors of one repetition, each free of the noise of the reference (so that it may come out
/// below zero where there is no error to be seen).
#[derive(Clone, Serialize, Deserialize)]
struct Errors {
    /// Of the mean, by each of [`MODES`].
    mean: [f64; 3],
    /// Of the expected Jacobian, by each of [`MODES`].
    jac: [f64; 3],
    /// Of the mean, if only the input of the last activation is taken as Gaussian, with its true moments.
    last: f64,
    /// Distance of the means of `paper` and `series` from that of `exact`.
    formula: [f64; 2],
    /// Of the mean by cubature, tanh network without dropout.
    cubature: f64,
    /// Of the mean by moment matching (`series`), the same tanh network.
    tanh: f64,
    /// Squared relative standard error of the reference itself, ReLU network.
    noise: f64,
}

/// Seconds per call.
#[derive(Serialize, Deserialize)]
struct Times {
    vmm: [f64; 3],
    /// By products of matrices, and by the library's kernel.
    cubature: f64,
    library_cubature: f64,
}

fn run(run: &Run) -> Result<()> {
    let dims: &[usize] = run.size(&[2, 4, 8, 16, 32, 64, 128], &[2, 8]);
    let widths: &[usize] = run.size(&[16, 32, 64, 128], &[8, 16]);
    let repetitions = run.repetitions(64, 2);
    let settings = Settings { pairs: run.size(1 << 17, 1 << 10) };
    let (mut cells, mut timing) = (Vec::new(), Vec::new());
    for width in widths {
        for dim in dims {
            for first in (0..repetitions).step_by(CHUNK) {
                let count = CHUNK.min(repetitions - first);
                let place = Place { dim: *dim, width: *width, first, count };
                cells.push((format!("dim-{dim}-width-{width}-from-{first}"), place));
            }
            let place = Place { dim: *dim, width: *width, first: 0, count: 1 };
            timing.push((format!("times-dim-{dim}-width-{width}"), place));
        }
    }
    let done = run.cells(Order::Together, &settings, &cells, |place| {
        let each = (place.first..place.first + place.count).map(|r| errors(&settings, run.seed, place, r));
        each.collect::<Result<Vec<Errors>>>()
    })?;
    let least = run.size(0.2, 0.0);
    let times = run.cells(Order::InTurn, &settings, &timing, |place| measure(run.seed, place, least))?;
    let found = report::Found { dims, widths, repetitions, pairs: settings.pairs };
    report::write(run, &found, &cells, &done, &timing, &times)
}

/// `(a₁ − b)·(a₂ − b) / a₁·a₂`: the relative squared error of `b`, without the noise of the halves.
fn relative(a: [&[f64]; 2], b: [&[f64]; 2]) -> f64 {
    let dot = |f: &dyn Fn(usize) -> f64| (0..a[0].len()).map(f).sum::<f64>();
    dot(&|i| (a[0][i] - b[0][i]) * (a[1][i] - b[1][i])) / dot(&|i| a[0][i] * a[1][i])
}

fn errors(settings: &Settings, seed: u64, place: &Place, repetition: usize) -> Result<Errors> {
    let problem = Problem::random(place.dim, place.width, seed, repetition as u64)?;
    // Points have other numbers than any problem.
    let stream = repetition as u64 + ((place.dim as u64) << 32) + ((place.width as u64) << 48);
    let rng = &mut generator(seed ^ (1 << 63), stream);
    let relu = reference::halves(&problem, true, settings.pairs, rng)?;
    let tanh = reference::halves(&problem, false, settings.pairs, rng)?;
    let means = |halves: &[Half; 2]| halves.each_ref().map(|h| h.mean.clone());
    let (true_relu, true_tanh) = (means(&relu), means(&tanh));
    let [relu_1, relu_2] = true_relu.each_ref().map(Vec::as_slice);
    let tanh_pair = true_tanh.each_ref().map(Vec::as_slice);
    let cov = problem.cov();
    let net = problem.network(true)?;
    let found = MODES.map(|(_, mode)| net.moments(&problem.mean, &cov, mode));
    let [paper, series, exact] = found;
    let found = [paper?, series?, exact?];
    let apart = |k: usize| {
        let gap: Vec<f64> = found[k].mean.iter().zip(&found[EXACT].mean).map(|(a, b)| a - b).collect();
        gap.iter().map(|g| g * g).sum::<f64>() / relu_1.iter().zip(relu_2).map(|(a, b)| a * b).sum::<f64>()
    };
    let noise: f64 = relu_1.iter().zip(relu_2).map(|(a, b)| (0.5 * (a - b)).powi(2)).sum();
    let size: f64 = relu_1.iter().zip(relu_2).map(|(a, b)| (0.5 * (a + b)).powi(2)).sum();
    let start = Gaussian::new(problem.mean.clone(), cov.clone())?;
    let method = Method::Cubature(Unscented::default());
    let solver = Solver::new(&problem.sde(false)?, Options { method, ..Options::default() })?;
    let path = &solver.solve(&[Rollout { start: &start, dts: &[1.0], inputs: &[] }])?[0];
    // One step of size 1 adds the mean of the network to that of the input.
    let cubature: Vec<f64> = path.mean(0).iter().zip(&problem.mean).map(|(a, b)| a - b).collect();
    let by_tanh = problem.network(false)?.moments(&problem.mean, &cov, MODES[SERIES].1)?.mean;
    let jac = [relu[0].jac.as_slice(), relu[1].jac.as_slice()];
    Ok(Errors {
        mean: [0, 1, 2].map(|k| relative([relu_1, relu_2], [&found[k].mean; 2])),
        jac: [0, 1, 2].map(|k| relative(jac, [&found[k].jac; 2])),
        last: relative([relu_1, relu_2], [&relu[0].gaussian_last, &relu[1].gaussian_last]),
        formula: [apart(0), apart(SERIES)],
        cubature: relative(tanh_pair, [&cubature; 2]),
        tanh: relative(tanh_pair, [&by_tanh; 2]),
        noise: noise / size,
    })
}

/// Median seconds of one step, on one core: mean, covariance and cross-covariance.
fn measure(seed: u64, place: &Place, least: f64) -> Result<Times> {
    let problem = Problem::random(place.dim, place.width, seed, 0)?;
    let start = Gaussian::new(problem.mean.clone(), problem.cov())?;
    let rollout = Rollout { start: &start, dts: &[1.0], inputs: &[] };
    let repeat = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let (mut seconds, began) = (Vec::new(), Instant::now());
        while seconds.len() < 5 || began.elapsed().as_secs_f64() < least {
            let before = Instant::now();
            work()?;
            seconds.push(before.elapsed().as_secs_f64());
        }
        Ok(median(&seconds))
    };
    let time = |relu: bool, options: Options| -> Result<f64> {
        let solver = Solver::new(&problem.sde(relu)?, options)?;
        let mut predictor = solver.predictor();
        let mut out = Trajectory::zeros(place.dim, 1);
        repeat(&mut || Ok(predictor.predict(rollout, &mut out)?))
    };
    let [paper, series, exact] =
        MODES.map(|(_, moments)| time(true, Options { moments, ..Options::default() }));
    let method = Method::Cubature(Unscented::default());
    let products = Cubature::new(&problem)?;
    Ok(Times {
        vmm: [paper?, series?, exact?],
        library_cubature: time(false, Options { method, ..Options::default() })?,
        cubature: repeat(&mut || products.step(&start.mean, &start.cov).map(|_| ()))?,
    })
}
