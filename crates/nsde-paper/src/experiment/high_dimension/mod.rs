//! Fig. 8: Ornstein–Uhlenbeck processes of growing dimension, forecast by BMM and by particles.

mod cloud;
mod frame;
mod judge;
mod process;
mod report;
mod task;

use super::Experiment;
use crate::cells::Order;
use crate::points::generator;
use crate::run::Run;
use crate::statistics::median;
use anyhow::Result;
use cloud::Cloud;
use frame::Frame;
use judge::{Score, score};
use ndarray::{Array1, Array2};
use nsde::train::{Progress, TrainOptions, TrainState, advance};
use nsde::{Gaussian, Method, NeuralSde, Options, Precision, Predictor, Rollout, Solver, Trajectory};
use process::{DT, Process, ROWS, Reading};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use task::OneStep;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "high-dimension",
    paper: "Fig. 8",
    about: "Ornstein–Uhlenbeck processes of 2 to 512 dimensions: BMM against √D … D⁴ particles",
    run,
};

/// Numbers of particles as powers of the dimension.
const POWERS: [(&str, f64); 5] = [("√D", 0.5), ("D", 1.0), ("D²", 2.0), ("D³", 3.0), ("D⁴", 4.0)];

/// The number of particles of a power.
fn samples(dim: usize, power: f64) -> usize {
    ((dim as f64).powf(power).round() as usize).max(2)
}

#[derive(Serialize)]
struct Settings {
    train_paths: usize,
    test_paths: usize,
    /// Updates at the smallest and at the largest dimensions.
    updates: [usize; 2],
    batch: usize,
    /// Most operations that a forecast by particles may take.
    work: f64,
}

impl Settings {
    /// Updates and learning rate. Chosen by held-out likelihood on processes of other seeds: where there are more
    /// parameters than the data can tell apart, less of both.
    fn training(&self, dim: usize) -> (usize, f64) {
        let [small, large] = self.updates;
        ((32 * small / dim).clamp(large, small), if dim <= 32 { 3e-3 } else { 1e-3 })
    }

    /// Whether so many particles are affordable: networks, noise and second moments are four products.
    fn affordable(&self, dim: usize, samples: usize) -> bool {
        8.0 * (dim * dim * samples * ROWS) as f64 <= self.work
    }
}

#[derive(Clone, Copy, Serialize)]
struct Place {
    dim: usize,
    reading: Reading,
    repetition: usize,
}

#[derive(Serialize, Deserialize)]
struct Cell {
    /// One-step NLL of the model on the test paths beyond that of the exact transition.
    excess: f64,
    bmm: Score,
    /// The analytic law itself: what is left of ECPE is the scatter of the test paths.
    law: Score,
    /// As many of [`POWERS`] as were affordable.
    particles: Vec<Score>,
}

/// Seconds per step.
#[derive(Serialize, Deserialize)]
struct Times {
    bmm: f64,
    /// The same in single precision.
    single: f64,
    /// With `S = D` particles: the library's kernel in double precision, and the products of matrices of this
    /// experiment in single precision.
    library: f64,
    products: f64,
}

fn run(run: &Run) -> Result<()> {
    let dims: &[usize] = run.size(&[2, 4, 8, 16, 32, 64, 128, 256, 512], &[2, 8]);
    let settings = Settings {
        train_paths: 100,
        test_paths: 100,
        updates: run.size([10_000, 800], [60, 60]),
        batch: run.size(256, 64),
        work: run.size(3e11, 1e8),
    };
    let (mut cells, mut timing) = (Vec::new(), Vec::new());
    for dim in dims {
        for reading in [Reading::Printed, Reading::Root] {
            // The largest ones take minutes each.
            let full = match dim {
                512.. => 2,
                128.. => 3,
                64.. => 5,
                _ => 10,
            };
            for repetition in 0..run.repetitions(full, 2) {
                let place = Place { dim: *dim, reading, repetition };
                cells.push((format!("{}-dim-{dim}-run-{repetition}", reading.name()), place));
            }
        }
        let place = Place { dim: *dim, reading: Reading::Printed, repetition: 0 };
        timing.push((format!("times-dim-{dim}"), place));
    }
    let done = run.cells(Order::Together, &settings, &cells, |place| cell(&settings, run.seed, place))?;
    let least = run.size(0.5, 0.0);
    let times = run.cells(Order::InTurn, &settings, &timing, |p| measure(&settings, run.seed, p, least))?;
    report::write(run, &settings, dims, &cells, &done, &timing, &times)
}

/// Streams of random numbers that no two cells share: process, weights, training paths, test paths.
fn stream(place: &Place, part: u64) -> u64 {
    let reading = u64::from(place.reading == Reading::Root);
    (part << 60) + (reading << 56) + ((place.dim as u64) << 32) + ((place.repetition as u64) << 16)
}

/// A model of white coordinates, and these.
fn train(settings: &Settings, seed: u64, place: &Place, process: &Process) -> Result<(NeuralSde, Frame)> {
    let paths = process.paths(settings.train_paths, seed, stream(place, 1));
    let frame = Frame::new(&paths)?;
    let white: Vec<_> = paths.iter().map(|p| frame.white_path(p)).collect();
    let task = OneStep::new(&white)?;
    let mut sde = task.start(&mut generator(seed, stream(place, 2)))?;
    let (steps, rate) = settings.training(place.dim);
    let options = TrainOptions {
        steps,
        rate,
        batch: settings.batch,
        seed: seed + place.repetition as u64,
        ..TrainOptions::default()
    };
    let mut state = TrainState::new(sde.parameters());
    while advance(&task, &options, 1, &mut state)? != Progress::Done {}
    sde.set_parameters(state.result())?;
    Ok((sde, frame))
}

fn cell(settings: &Settings, seed: u64, place: &Place) -> Result<Cell> {
    let dim = place.dim;
    let process = Process::random(dim, place.reading, &mut generator(seed, stream(place, 0)));
    let (sde, frame) = train(settings, seed, place, &process)?;
    let test = process.paths(settings.test_paths, seed, stream(place, 3));
    let test: Vec<_> = test.iter().map(|p| frame.white_path(p)).collect();
    let laws = process.laws();
    let steps = OneStep::new(&test)?;
    let noise = Gaussian { mean: process.centre.to_vec(), cov: process.step_noise() };
    let exact = frame.white_law(&noise);
    let excess = steps.all(&sde.parameters())? - steps.exact(&exact.mean, &exact.cov)?;
    let judge = |forecast: &[Gaussian], singular: bool| score(&frame, forecast, &laws, &test, singular);
    let start = frame.white(Array1::zeros(dim).view());
    let bmm = judge(&bmm(&sde, &start)?, false)?;
    let white: Vec<Gaussian> = laws.iter().map(|law| frame.white_law(law)).collect();
    let law = judge(&white, false)?;
    let cloud = Cloud::new(&sde)?;
    let mut particles = Vec::new();
    for (k, (_, power)) in POWERS.iter().enumerate() {
        let count = samples(dim, *power);
        if !settings.affordable(dim, count) {
            break;
        }
        let forecast = cloud.forecast(&start, count, seed ^ (stream(place, 4) + ((k as u64) << 8)));
        particles.push(judge(&forecast, count <= dim)?);
    }
    Ok(Cell { excess, bmm, law, particles })
}

/// BMM's forecast of all rows from a point.
fn bmm(sde: &NeuralSde, start: &[f64]) -> Result<Vec<Gaussian>> {
    let start = Gaussian::isotropic(start.to_vec(), 0.0)?;
    let dts = [DT; ROWS];
    let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
    let path = &Solver::new(sde, Options::default())?.solve(&[rollout])?[0];
    Ok((0..ROWS).map(|k| path.gaussian(k)).collect())
}

/// Median seconds of a step on one core; the weights do not matter, so they are hardly trained.
fn measure(settings: &Settings, seed: u64, place: &Place, least: f64) -> Result<Times> {
    let dim = place.dim;
    let settings = Settings { updates: [1, 1], ..*settings };
    let process = Process::random(dim, place.reading, &mut generator(seed, stream(place, 0)));
    let (sde, _) = train(&settings, seed, place, &process)?;
    let start = Gaussian::isotropic(vec![0.0; dim], 0.5)?;
    let rollout = Rollout { start: &start, dts: &[DT], inputs: &[] };
    let repeat = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let (mut seconds, began) = (Vec::new(), Instant::now());
        while seconds.len() < 3 || began.elapsed().as_secs_f64() < least {
            let before = Instant::now();
            work()?;
            seconds.push(before.elapsed().as_secs_f64());
        }
        Ok(median(&seconds))
    };
    let count = samples(dim, 1.0);
    let mut out = Trajectory::zeros(dim, 1);
    let mut by = |method: Method, precision: Precision| -> Result<f64> {
        let solver = Solver::new(&sde, Options { method, precision, ..Options::default() })?;
        let mut predictor: Predictor<'_> = solver.predictor();
        repeat(&mut || Ok(predictor.predict(rollout, &mut out)?))
    };
    let (bmm, single) = (by(Method::Bmm, Precision::F64)?, by(Method::Bmm, Precision::F32)?);
    let library = by(Method::MonteCarlo { samples: count, seed }, Precision::F64)?;
    let (cloud, rng) = (Cloud::new(&sde)?, &mut generator(seed, 0));
    let mut x = Array2::zeros((count, dim));
    let mut second = 0.0;
    let products = repeat(&mut || {
        x = cloud.step(&x, rng);
        second += x.t().dot(&x)[[0, 0]];
        Ok(())
    })?;
    Ok(Times { bmm, single, library, products })
}
