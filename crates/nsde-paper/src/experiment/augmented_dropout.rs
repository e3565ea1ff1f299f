//! Sec. 4.3.2: dropout as an augmented state. The paper lets masks follow an Ornstein–Uhlenbeck process, so
//! that they last for seconds; its algorithm, like ours, draws them afresh at every step.
//!
//! ```text
//! correlated:  dβ = −β/2 dt + dw,  mask = [Φ(β) > 1 − q]/q        fresh:  mask ~ Bernoulli(q)/q at every step
//! ```
//!
//! The printed `r(β) = sgn(Φ(β) − (1−q))` gives ±1; what is meant is (1 + r)/2.

use super::Experiment;
use crate::cells::{Done, Order};
use crate::fit::{Fit, Recipe};
use crate::outcome::{Outcome, number};
use crate::points::{Step, forward, fresh, generator, normals, steps};
use crate::run::Run;
use crate::statistics::{mean, standard_error};
use anyhow::{Context, Result};
use ndarray::Array2;
use nsde::metric::normal_quantile;
use nsde::simulate::{Recording, spiral};
use nsde::{Diffusion, Gaussian, NeuralSde, Options, Rollout, Solver};
use nsde_report::{LineSeries, Lines, lines};
use serde::{Deserialize, Serialize};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "augmented-dropout",
    paper: "Sec. 4.3.2",
    about: "dropout masks that last (the paper's augmented state) against fresh ones (what BMM computes)",
    run,
};

/// Steps `Δt`; the model was trained with that of [`TRAINED`].
const DTS: [f64; 7] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];
const TRAINED: f64 = 0.05;
/// Seconds of the forecast: several times the two seconds that a mask lasts.
const SPAN: f64 = 6.0;
const START: [f64; 2] = [1.0, 0.0];

#[derive(Serialize)]
struct Settings {
    fit: Fit,
    particles: usize,
    span: f64,
}

/// Mean and covariance of the state at the end.
#[derive(Clone, Serialize, Deserialize)]
struct Law {
    mean: Vec<f64>,
    cov: Vec<f64>,
}

/// For each `Δt`: masks that last, fresh masks, BMM.
#[derive(Serialize, Deserialize)]
struct Cell(Vec<[Law; 3]>);

const READINGS: [&str; 3] = ["correlated", "fresh", "bmm"];

fn run(run: &Run) -> Result<()> {
    let settings = Settings {
        fit: Fit {
            hidden: vec![50, 50],
            noise_hidden: Some(vec![50]),
            keep: 0.8,
            horizon: 10,
            steps: run.size(2000, 30),
            batch: 16,
            dt: TRAINED,
            init_var: 1e-6,
            weight_decay: 0.0,
            recipe: Recipe::Paper,
            members: 1,
            look: None,
            moved: None,
            again: false,
        },
        particles: run.size(10_000, 200),
        span: SPAN,
    };
    let runs = run.repetitions(10, 2);
    let cells: Vec<(String, u64)> = (0..runs as u64).map(|r| (format!("run-{r}"), run.seed + r)).collect();
    let done = run.cells(Order::Together, &settings, &cells, |seed| cell(&settings, *seed))?;
    report(run, &settings, &done)
}

fn cell(settings: &Settings, seed: u64) -> Result<Cell> {
    let data = spiral(Recording { paths: 64, rows: 41, spacing: TRAINED, substeps: 20, seed });
    let sde = settings.fit.train(&data, Options::default(), seed)?;
    let mut laws = Vec::new();
    for (place, dt) in DTS.iter().enumerate() {
        let count = (settings.span / dt).round() as usize;
        let lasting = particles(&sde, settings, *dt, count, true, seed ^ (1 << 40), place as u64)?;
        let redrawn = particles(&sde, settings, *dt, count, false, seed ^ (1 << 41), place as u64)?;
        let start = Gaussian::isotropic(START.to_vec(), 0.0)?;
        let dts = vec![*dt; count];
        let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
        let path = &Solver::new(&sde, Options::default())?.solve(&[rollout])?[0];
        let end = path.gaussian(count - 1);
        laws.push([lasting, redrawn, Law { mean: end.mean, cov: end.cov }]);
    }
    Ok(Cell(laws))
}

/// Masks of a network: one array per dropout layer, of states `β` or of nothing.
struct Masks {
    beta: Vec<Array2<f32>>,
}

impl Masks {
    /// One β per particle and unit, from the stationary law.
    fn new(net: &[Step], particles: usize, rng: &mut impl rand::Rng) -> Self {
        let (mut width, mut beta) = (0, Vec::new());
        for step in net {
            match step {
                Step::Affine { bias, .. } => width = bias.len(),
                Step::Dropout { .. } => beta.push(normals(particles, width, rng)),
                Step::Relu | Step::Tanh => {}
            }
        }
        Masks { beta }
    }

    /// The exact law of the Ornstein–Uhlenbeck process after `dt`.
    fn advance(&mut self, dt: f64, rng: &mut impl rand::Rng) {
        let (keep, add) = ((-0.5 * dt).exp() as f32, (1.0 - (-dt).exp()).sqrt() as f32);
        for beta in &mut self.beta {
            *beta *= keep;
            *beta += &(normals(beta.nrows(), beta.ncols(), rng) * add);
        }
    }
}

/// The law of Euler–Maruyama particles at the end.
fn particles(
    sde: &NeuralSde,
    settings: &Settings,
    dt: f64,
    count: usize,
    lasting: bool,
    seed: u64,
    stream: u64,
) -> Result<Law> {
    let noise = match sde.diffusion() {
        Diffusion::Diagonal(net) => net,
        _ => anyhow::bail!("the diffusion was fitted as a network"),
    };
    let nets = [steps(sde.drift())?, steps(noise)?];
    let rng = &mut generator(seed, stream);
    let mut masks = nets.each_ref().map(|net| Masks::new(net, settings.particles, rng));
    let mut x = Array2::from_shape_fn((settings.particles, 2), |(_, i)| START[i] as f32);
    for _ in 0..count {
        let mut out = Vec::new();
        for (net, masks) in nets.iter().zip(&masks) {
            let mut layer = 0;
            let all = forward(net, &x, |_, keep, points| {
                if lasting {
                    let bound = normal_quantile(1.0 - keep) as f32;
                    let kept = (1.0 / keep) as f32;
                    points.zip_mut_with(&masks.beta[layer], |x, b| {
                        *x = if *b > bound { kept * *x } else { 0.0 }
                    });
                } else {
                    fresh(keep, points, rng);
                }
                layer += 1;
            });
            out.extend(all.into_iter().last());
        }
        let [drift, spread] = out.as_slice() else { anyhow::bail!("a network has no layers") };
        let zeta = normals(settings.particles, 2, rng);
        x = x + drift * dt as f32 + spread * &zeta * (dt as f32).sqrt();
        if lasting {
            masks.iter_mut().for_each(|m| m.advance(dt, rng));
        }
    }
    let values: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let law = crate::particles::moments(&values, 2, settings.particles);
    Ok(Law { mean: law.mean, cov: law.cov })
}

fn spread(law: &Law) -> f64 {
    law.cov[0] + law.cov[3]
}

fn report(run: &Run, settings: &Settings, done: &[Done<Cell>]) -> Result<()> {
    let over = |f: &dyn Fn(&[Law; 3]) -> f64, k: usize| -> Vec<f64> {
        done.iter().map(|d| f(&d.value.0[k])).collect()
    };
    let shift = |a: &Law, b: &Law| {
        (a.mean.iter().zip(&b.mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / spread(b)).sqrt()
    };
    let series = |name: &str, f: &dyn Fn(&[Law; 3]) -> f64| {
        let (y, e): (Vec<f64>, Vec<f64>) =
            (0..DTS.len()).map(|k| (mean(&over(f, k)), standard_error(&over(f, k)))).unzip();
        LineSeries::new(name, DTS.to_vec(), y).with_error(&e)
    };
    let lasting = |l: &[Law; 3]| spread(&l[0]) / spread(&l[1]);
    let bmm = |l: &[Law; 3]| spread(&l[2]) / spread(&l[1]);
    let trained = DTS.iter().position(|dt| *dt == TRAINED).context("the step of training is one of all")?;
    let here = mean(&over(&lasting, trained));
    let long = mean(&over(&lasting, DTS.len() - 1));

    let mut out = Outcome::new(run);
    let gap = |k: usize| mean(&over(&|l| shift(&l[0], &l[1]), k));
    out.claim(
        "dropout may be read as an augmented state with Ornstein–Uhlenbeck dynamics",
        &format!(
            "masks that last give {here:.2} times the variance of fresh ones at the step of training, \
             Δt = {TRAINED}, and a mean {:.2} deviations away",
            gap(trained)
        ),
        if (here - 1.0).abs() > 0.05 {
            "a valid SDE, but not the law that the algorithm computes"
        } else {
            "confirmed, the laws are close"
        },
    );
    out.claim(
        "(not said) the readings agree for steps far beyond the two seconds that a mask lasts",
        &format!("ratio of variances {long:.2} at Δt = {}", DTS[DTS.len() - 1]),
        if (long - 1.0).abs() < (here - 1.0).abs() { "they approach each other" } else { "they do not" },
    );
    let worst = (0..DTS.len()).map(|k| (mean(&over(&bmm, k)) - 1.0).abs()).fold(0.0, f64::max);
    out.claim(
        "BMM computes the moments of the process",
        &format!("its variance is within {:.0} % of fresh-mask particles at every Δt", 100.0 * worst),
        "it is the fresh-mask reading that BMM computes",
    );
    let chart = Lines {
        title: "Variance relative to particles with fresh masks".into(),
        x_label: "Δt (s)".into(),
        y_label: "ratio of variances".into(),
        x_log: true,
        series: vec![series("masks that last, particles", &lasting), series("BMM", &bmm)],
        levels: vec![("fresh masks, particles".into(), 1.0)],
        ..Lines::default()
    };
    out.chart(lines(&chart), "variance", "Trace of the covariance at the end; bars are standard errors.")?;
    let part = |name: &str, place: usize| series(name, &move |l: &[Law; 3]| spread(&l[place]));
    let chart = Lines {
        title: format!("Variance after {} s", settings.span),
        x_label: "Δt (s)".into(),
        y_label: "trace of the covariance".into(),
        x_log: true,
        y_log: true,
        series: vec![
            part("masks that last, particles", 0),
            part("fresh masks, particles", 1),
            part("BMM", 2),
        ],
        ..Lines::default()
    };
    out.chart(
        lines(&chart),
        "spread",
        "What fresh masks add to the variance shrinks with Δt; what lasting masks add does not.",
    )?;
    let mut rows = Vec::new();
    for (r, d) in done.iter().enumerate() {
        for (dt, laws) in DTS.iter().zip(&d.value.0) {
            for (name, law) in READINGS.iter().zip(laws) {
                let mut row = vec![r.to_string(), number(*dt), (*name).into()];
                row.extend(law.mean.iter().chain(&law.cov).map(|x| number(*x)));
                rows.push(row);
            }
        }
    }
    let header = ["run", "dt", "reading", "mean_1", "mean_2", "cov_11", "cov_12", "cov_21", "cov_22"];
    out.data("laws", "mean and covariance of the state at the end, for every run", &header, &rows)?;
    let about = format!(
        "A neural SDE (drift 2–50–50–2, diffusion 2–50–2, dropout rate 0.2 in both) is fitted by BMM to a spiral of \
         Ornstein and Uhlenbeck with Δt = {TRAINED} s and fresh masks, as the paper trains. Then its law {} s after \
         ({}, {}) is found in three ways, for several Δt: by {} particles whose masks follow the paper's process \
         (correlated over 2 s, started from its stationary law), by as many with fresh masks at every step, and \
         by BMM. The mask is (1 + r)/2: the printed r gives ±1.",
        settings.span, START[0], START[1], settings.particles
    );
    let seconds = done.iter().map(|d| d.seconds).sum();
    out.finish(&about, &format!("{} runs, data and training redrawn in each", done.len()), seconds)
}
