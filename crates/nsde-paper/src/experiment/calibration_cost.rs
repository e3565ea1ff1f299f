//! Fig. 1: how many Monte Carlo particles are as well calibrated as BMM, and how many cost as much.
//!
//! The paper does not say which toy it draws. Ours is a pendulum with friction that is pushed at random,
//!
//! ```text
//! dθ = ω dt     dω = (−2 sin θ − 0.3 ω) dt + 0.5 dw
//! ```

use super::Experiment;
use crate::cells::{Done, Order};
use crate::fit::{Fit, Recipe};
use crate::outcome::{Outcome, number};
use crate::particles::{Judge, moments};
use crate::run::Run;
use crate::statistics::{deviation, mean};
use anyhow::Result;
use nsde::data::{Dataset, Series, TimeAxis};
use nsde::{Gaussian, Method, NeuralSde, Options, Precision, Rollout, Solver, Trajectory};
use nsde_report::{LineSeries, Lines, lines};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "calibration-cost",
    paper: "Fig. 1",
    about: "particles that Monte Carlo needs to be as calibrated as BMM, and as expensive",
    run,
};

/// Numbers of particles.
const PARTICLES: [usize; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Time between rows, and the step of Euler–Maruyama of the models.
const SPACING: f64 = 0.1;

#[derive(Serialize)]
struct Settings {
    fit: Fit,
    train_paths: usize,
    test_paths: usize,
    rows: usize,
    /// Seconds for which each forecast is repeated when it is timed.
    timed: f64,
}

#[derive(Serialize, Deserialize)]
struct Cell {
    /// ECPE of BMM, and of each number of particles.
    bmm: f64,
    particles: Vec<f64>,
}

/// Seconds for one forecast.
#[derive(Serialize, Deserialize)]
struct Times {
    bmm: f64,
    particles: Vec<f64>,
}

fn run(run: &Run) -> Result<()> {
    let settings = Settings {
        fit: Fit {
            hidden: vec![50, 50],
            noise_hidden: Some(vec![50]),
            keep: 0.8,
            horizon: 10,
            steps: run.size(2000, 40),
            batch: 16,
            dt: SPACING,
            init_var: 1e-6,
            weight_decay: 0.0,
            recipe: Recipe::Ours,
            members: 1,
            look: None,
            moved: None,
            again: false,
        },
        train_paths: run.size(128, 16),
        test_paths: run.size(512, 32),
        rows: run.size(41, 11),
        timed: run.size(0.5, 0.02),
    };
    let runs = run.repetitions(10, 2);
    let cells: Vec<(String, u64)> = (0..runs as u64).map(|r| (format!("run-{r}"), run.seed + r)).collect();
    let done = run.cells(Order::Together, &settings, &cells, |seed| cell(&settings, *seed))?;
    let timing = [("times".to_string(), run.seed)];
    let times = run.cells(Order::InTurn, &settings, &timing, |seed| measure(&settings, *seed))?;
    report(run, &settings, &done, &times[0])
}

/// Paths of the pendulum from random starts, simulated with a hundred steps between rows.
fn pendulum(paths: usize, rows: usize, seed: u64) -> Dataset {
    let dt = SPACING / 100.0;
    let series = (0..paths).map(|path| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(path as u64);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let (mut angle, mut speed) = (normal(), normal());
        let mut values = vec![angle, speed];
        for _ in 1..rows {
            for _ in 0..100 {
                let push = -2.0 * angle.sin() - 0.3 * speed;
                (angle, speed) = (angle + dt * speed, speed + dt * push + 0.5 * dt.sqrt() * normal());
            }
            values.extend([angle, speed]);
        }
        let times = (0..rows).map(|n| n as f64 * SPACING).collect();
        Series { name: path.to_string(), times, values, inputs: Vec::new() }
    });
    Dataset {
        columns: vec!["angle".into(), "speed".into()],
        input_columns: Vec::new(),
        series: series.collect(),
        time: TimeAxis::default(),
        notes: Vec::new(),
    }
}

/// The held-out paths have other numbers than any training set.
fn test_paths(settings: &Settings, seed: u64) -> Dataset {
    pendulum(settings.test_paths, settings.rows, seed ^ (1 << 40))
}

fn train(settings: &Settings, seed: u64) -> Result<NeuralSde> {
    let data = pendulum(settings.train_paths, settings.rows, seed);
    settings.fit.train(&data, Options { precision: Precision::F32, ..Options::default() }, seed)
}

fn cell(settings: &Settings, seed: u64) -> Result<Cell> {
    let sde = train(settings, seed)?;
    let test = test_paths(settings, seed);
    let most = PARTICLES[PARTICLES.len() - 1];
    let bmm = Solver::new(&sde, Options::default())?;
    let method = Method::MonteCarlo { samples: most, seed };
    let mc = Solver::new(&sde, Options { method, ..Options::default() })?;
    let dts = vec![SPACING; settings.rows - 1];
    let mut by_bmm = Judge::default();
    let mut by_particles = vec![Judge::default(); PARTICLES.len()];
    for (i, series) in test.series.iter().enumerate() {
        let start = Gaussian::isotropic(series.values[..2].to_vec(), settings.fit.init_var)?;
        let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
        let path = &bmm.solve(&[rollout])?[0];
        let cloud = mc.sample(i, rollout)?;
        for k in 0..dts.len() {
            let x = &series.values[2 * (k + 1)..2 * (k + 2)];
            by_bmm.gaussian(&path.gaussian(k), x)?;
            let particles = &cloud[k * most * 2..(k + 1) * most * 2];
            for (judge, samples) in by_particles.iter_mut().zip(PARTICLES) {
                judge.gaussian(&moments(particles, 2, samples), x)?;
            }
        }
    }
    let ecpe = |judge: &Judge| judge.scored().ecpe.unwrap_or(1.0);
    Ok(Cell { bmm: ecpe(&by_bmm), particles: by_particles.iter().map(ecpe).collect() })
}

/// Seconds for one forecast of all rows from one start, on one core: the shortest of many, which other
/// work on the machine disturbs least.
fn measure(settings: &Settings, seed: u64) -> Result<Times> {
    let sde = train(settings, seed)?;
    let dts = vec![SPACING; settings.rows - 1];
    let start = Gaussian::isotropic(vec![1.0, 0.0], settings.fit.init_var)?;
    let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
    let time = |method: Method| -> Result<f64> {
        let solver = Solver::new(&sde, Options { method, ..Options::default() })?;
        let mut predictor = solver.predictor();
        let mut out = Trajectory::zeros(2, dts.len());
        let mut seconds = Vec::new();
        let began = Instant::now();
        while seconds.len() < 20 || began.elapsed().as_secs_f64() < settings.timed {
            let before = Instant::now();
            predictor.predict(rollout, &mut out)?;
            seconds.push(before.elapsed().as_secs_f64());
        }
        Ok(seconds.into_iter().fold(f64::INFINITY, f64::min))
    };
    let bmm = time(Method::Bmm)?;
    let particles =
        PARTICLES.iter().map(|s| time(Method::MonteCarlo { samples: *s, seed })).collect::<Result<_>>()?;
    Ok(Times { bmm, particles })
}

/// Where the broken line through the points `(x, y)` first falls to `level` (or rises to it).
fn crossing(x: &[f64], y: &[f64], level: f64) -> Option<f64> {
    let place = y.windows(2).position(|w| (w[0] - level) * (w[1] - level) <= 0.0 && w[0] != w[1])?;
    let share = (level - y[place]) / (y[place + 1] - y[place]);
    Some(x[place] + share * (x[place + 1] - x[place]))
}

fn report(run: &Run, settings: &Settings, done: &[Done<Cell>], times: &Done<Times>) -> Result<()> {
    let x: Vec<f64> = PARTICLES.iter().map(|s| *s as f64).collect();
    let bmm: Vec<f64> = done.iter().map(|d| d.value.bmm).collect();
    let column = |k: usize| done.iter().map(|d| d.value.particles[k]).collect::<Vec<_>>();
    let y: Vec<f64> = (0..x.len()).map(|k| mean(&column(k))).collect();
    let spread: Vec<f64> = (0..x.len()).map(|k| deviation(&column(k))).collect();
    let level = mean(&bmm);
    let t = &times.value;

    let mut out = Outcome::new(run);
    let match_at = PARTICLES.iter().zip(&y).find(|(_, y)| **y <= level).map(|(s, _)| *s);
    let cost = crossing(&x, &t.particles, t.bmm);
    let needed = match_at.map_or(format!("more than {}", PARTICLES[8]), |s| s.to_string());
    let priced = cost.map_or_else(
        || if t.bmm < t.particles[0] { "fewer than 4".into() } else { "more than 1024".to_string() },
        |c| format!("{c:.0}"),
    );
    let verdict = |yes: bool| if yes { "confirmed" } else { "contradicted" };
    out.claim(
        "Monte Carlo needs at least 64 particles to be as calibrated",
        &format!("{needed} particles (mean ECPE of BMM {level:.4})"),
        verdict(match_at.is_none_or(|s| s >= 64)),
    );
    out.claim(
        "BMM costs as much as 12 particles",
        &format!("as much as {priced} particles, by time on one core"),
        match cost {
            Some(c) if c > 12.0 => "contradicted here: dearer, beside our Monte Carlo",
            None if t.bmm > t.particles[0] => "contradicted here: dearer, beside our Monte Carlo",
            _ => "confirmed",
        },
    );
    let chart = Lines {
        title: "Calibration over the number of particles".into(),
        x_label: "particles".into(),
        y_label: "ECPE".into(),
        x_log: true,
        series: vec![
            LineSeries::new("Monte Carlo", x.clone(), y.clone()).with_error(&spread),
            LineSeries::new("BMM", vec![x[0], x[8]], vec![level; 2])
                .with_error(&[deviation(&bmm), deviation(&bmm)]),
        ],
        ..Lines::default()
    };
    out.chart(
        lines(&chart),
        "calibration",
        "ECPE on held-out paths; bars are standard deviations over the runs.",
    )?;
    let chart = Lines {
        title: "Time of a forecast on one core".into(),
        x_label: "particles".into(),
        y_label: "milliseconds".into(),
        x_log: true,
        y_log: true,
        series: vec![LineSeries::new("Monte Carlo", x, t.particles.iter().map(|t| 1e3 * t).collect())],
        levels: vec![("BMM".into(), 1e3 * t.bmm)],
        ..Lines::default()
    };
    out.chart(lines(&chart), "times", "Shortest time of a forecast of one path; differs from run to run.")?;

    out.text(
        "The Gaussian of many particles has the moments of the model; BMM's Gaussian has them up to its own error. Where \
         Monte Carlo levels off away from the line of BMM, this error is what is left, in favour of one or the other.",
    );
    let mut rows = Vec::new();
    for (r, d) in done.iter().enumerate() {
        rows.push(vec![r.to_string(), "bmm".into(), String::new(), number(d.value.bmm)]);
        for (s, ecpe) in PARTICLES.iter().zip(&d.value.particles) {
            rows.push(vec![r.to_string(), "mc".into(), s.to_string(), number(*ecpe)]);
        }
    }
    out.data("ecpe", "ECPE of every run", &["run", "method", "particles", "ecpe"], &rows)?;
    let mut rows = vec![vec!["bmm".into(), String::new(), number(t.bmm)]];
    rows.extend(
        PARTICLES.iter().zip(&t.particles).map(|(s, t)| vec!["mc".into(), s.to_string(), number(*t)]),
    );
    out.times(&["method", "particles", "seconds"], &rows)?;
    let about = format!(
        "A neural SDE (drift 2–50–50–2, diffusion 2–50–2, dropout rate 0.2) is fitted by BMM to {} paths of a \
         pendulum that is pushed at random, `dθ = ω dt, dω = (−2 sin θ − 0.3 ω) dt + 0.5 dw`; the paper does not \
         say which toy it shows. The same model then forecasts {} held-out paths over {} steps of {SPACING} s, by \
         BMM and by the Gaussian of S Euler–Maruyama particles (covariance with S − 1).",
        settings.train_paths,
        settings.test_paths,
        settings.rows - 1
    );
    let seconds = done.iter().map(|d| d.seconds).sum::<f64>() + times.seconds;
    out.finish(&about, &format!("{} runs, data and training redrawn in each", done.len()), seconds)
}
