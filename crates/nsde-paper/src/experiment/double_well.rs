//! Fig. 5: the double well `dx = 4x(1 − x²) dt + dw`, a process with two modes.
//!
//! The paper clusters the paths, fits a model to each mode and mixes their forecasts. Beside it: one model
//! for all paths, whose Gaussians split where they bend (`nsde::mixture`), without any clustering.

use super::Experiment;
use crate::cells::{Done, Order};
use crate::cluster::two_means;
use crate::fit::{Fit, Recipe};
use crate::outcome::{Outcome, number};
use crate::run::Run;
use crate::statistics::{mean, printed};
use anyhow::Result;
use nsde::data::{Dataset, Series, TimeAxis};
use nsde::metric::Mixture;
use nsde::mixture::{self, Splitting};
use nsde::{Gaussian, Method, NeuralSde, Options, Precision, Rollout, Solver};
use nsde_report::{LineSeries, Lines, lines};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "double-well",
    paper: "Fig. 5",
    about: "a process with two modes: a model per mode, and one model whose Gaussians split",
    run,
};

/// Time between rows, Euler–Maruyama steps between them in the simulation, and rows after the start.
const SPACING: f64 = 0.05;
const SUBSTEPS: usize = 20;
const STEPS: usize = 40;
/// Steps after which densities are compared.
const SHOWN: [usize; 4] = [5, 10, 20, 40];
/// Ends and points of the axis of the densities.
const EDGE: f64 = 2.2;
const GRID: usize = 89;
/// The three forecasts, in the order of all tables.
const LAWS: [&str; 3] = ["one Gaussian", "a model per mode", "split Gaussians"];

#[derive(Serialize)]
struct Settings {
    per_mode: Fit,
    one: Fit,
    paths: usize,
    reference: usize,
    splitting: (usize, f64),
}

/// How a law fares against the reference at one time.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Fared {
    nll: f64,
    crps: f64,
    /// Largest distance of the distribution functions (Kolmogorov–Smirnov).
    distance: f64,
}

#[derive(Serialize, Deserialize)]
struct Cell {
    /// `[law][time]`.
    fared: Vec<Vec<Fared>>,
    /// `[law][time][grid]`, and of the reference `[time][grid]`.
    densities: Vec<Vec<Vec<f64>>>,
    reference: Vec<Vec<f64>>,
    /// Mean and deviation of each mode's model at every step, and its weight.
    modes: Vec<(f64, Vec<[f64; 2]>)>,
    /// Sampled paths of each mode's model, as many as its weight says.
    paths: Vec<Vec<Vec<f64>>>,
    /// Components of the split mixture at each step.
    components: Vec<usize>,
}

fn run(run: &Run) -> Result<()> {
    let fit = Fit {
        hidden: vec![50, 50],
        noise_hidden: Some(vec![50]),
        keep: 1.0,
        horizon: 10,
        steps: run.size(1500, 30),
        batch: 16,
        dt: SPACING,
        init_var: 1e-6,
        weight_decay: 0.0,
        recipe: Recipe::Ours,
        members: 1,
        look: None,
        moved: None,
        again: false,
    };
    let splitting = Splitting::default();
    let settings = Settings {
        one: Fit { horizon: 1, batch: 128, ..fit.clone() },
        per_mode: fit,
        paths: run.size(256, 64),
        reference: run.size(100_000, 2_000),
        splitting: (splitting.most, splitting.tolerance),
    };
    let runs = run.repetitions(10, 2) as u64;
    let cells: Vec<(String, u64)> = (0..runs).map(|r| (format!("run-{r}"), run.seed + r)).collect();
    let done = run.cells(Order::Together, &settings, &cells, |seed| cell(&settings, splitting, *seed))?;
    report(run, &settings, &done)
}

/// Paths from 0, `[path][row]`.
fn simulate(paths: usize, seed: u64) -> Vec<Vec<f64>> {
    let dt = SPACING / SUBSTEPS as f64;
    let one = |path: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(path as u64);
        let mut x = 0.0_f64;
        let mut values = vec![x];
        for _ in 0..STEPS {
            for _ in 0..SUBSTEPS {
                let z: f64 = StandardNormal.sample(&mut rng);
                x += dt * 4.0 * x * (1.0 - x * x) + dt.sqrt() * z;
            }
            values.push(x);
        }
        values
    };
    (0..paths).into_par_iter().map(one).collect()
}

fn dataset<'a>(paths: impl Iterator<Item = &'a Vec<f64>>) -> Dataset {
    let times: Vec<f64> = (0..=STEPS).map(|n| n as f64 * SPACING).collect();
    let series = |(i, values): (usize, &Vec<f64>)| Series {
        name: i.to_string(),
        times: times.clone(),
        values: values.clone(),
        inputs: Vec::new(),
    };
    Dataset {
        columns: vec!["x".into()],
        input_columns: Vec::new(),
        series: paths.enumerate().map(series).collect(),
        time: TimeAxis::default(),
        notes: Vec::new(),
    }
}

fn train(fit: &Fit, data: &Dataset, seed: u64) -> Result<NeuralSde> {
    fit.train(data, Options { precision: Precision::F32, ..Options::default() }, seed)
}

fn cell(settings: &Settings, splitting: Splitting, seed: u64) -> Result<Cell> {
    let paths = simulate(settings.paths, seed);
    let start = Gaussian::isotropic(vec![0.0], settings.one.init_var)?;
    let dts = [SPACING; STEPS];
    let way = Rollout { start: &start, dts: &dts, inputs: &[] };

    // The paper's way: cluster, one model per mode, the mixture of both.
    let slices: Vec<&[f64]> = paths.iter().map(|p| &p[..]).collect();
    let upper = two_means(&slices);
    let mut modes = Vec::new();
    let mut drawn = Vec::new();
    for side in [false, true] {
        let own: Vec<&Vec<f64>> =
            paths.iter().zip(&upper).filter(|(_, u)| **u == side).map(|(p, _)| p).collect();
        let weight = own.len() as f64 / paths.len() as f64;
        let sde = train(&settings.per_mode, &dataset(own.into_iter()), seed)?;
        let path = Solver::new(&sde, Options::default())?.solve(&[way])?.remove(0);
        modes.push((weight, (0..STEPS).map(|k| path.gaussian(k)).collect::<Vec<_>>()));
        let samples = ((20.0 * weight).round() as usize).max(2);
        let method = Method::MonteCarlo { samples, seed };
        let cloud = Solver::new(&sde, Options { method, ..Options::default() })?.sample(0, way)?;
        let path = |s: usize| (0..STEPS).map(|k| cloud[k * samples + s]).collect::<Vec<_>>();
        drawn.push((0..samples).map(path).collect());
    }
    // Ours: one model, once with one Gaussian and once with as many as it takes.
    let sde = train(&settings.one, &dataset(paths.iter()), seed)?;
    let solver = Solver::new(&sde, Options::default())?;
    let single = solver.solve(&[way])?.remove(0);
    let split = mixture::rollout(&solver, way, splitting)?;

    // The same true paths judge every run; they are no run's training paths.
    let truth = simulate(settings.reference, u64::MAX);
    let (mut fared, mut densities) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    let mut reference = Vec::new();
    for step in SHOWN {
        let mut points: Vec<f64> = truth.iter().map(|p| p[step]).collect();
        points.sort_by(f64::total_cmp);
        reference.push(histogram(&points));
        let weights = modes.iter().map(|(w, _)| *w).collect();
        let per_mode = Mixture::new(weights, modes.iter().map(|(_, m)| m[step - 1].clone()).collect())?;
        let laws = [Mixture::equal(vec![single.gaussian(step - 1)])?, per_mode, split[step - 1].clone()];
        for (l, law) in laws.iter().enumerate() {
            fared[l].push(judge(law, &points)?);
            let density = |x: f64| Ok((-law.nll(&[x])?).exp());
            densities[l].push(grid().map(density).collect::<Result<Vec<_>>>()?);
        }
    }
    let summary = |g: &Gaussian| [g.mean[0], g.cov[0].sqrt()];
    Ok(Cell {
        fared,
        densities,
        reference,
        modes: modes.iter().map(|(w, m)| (*w, m.iter().map(summary).collect())).collect(),
        paths: drawn,
        components: split.iter().map(|l| l.components().len()).collect(),
    })
}

fn grid() -> impl Iterator<Item = f64> {
    (0..GRID).map(|i| -EDGE + 2.0 * EDGE * i as f64 / (GRID - 1) as f64)
}

/// Share of the points near each place of the grid, as a density.
fn histogram(points: &[f64]) -> Vec<f64> {
    let width = 2.0 * EDGE / (GRID - 1) as f64;
    let below = |x: f64| points.partition_point(|p| *p < x) as f64;
    let near = |x: f64| (below(x + 0.5 * width) - below(x - 0.5 * width)) / (width * points.len() as f64);
    grid().map(near).collect()
}

/// Scores of `law` against sorted points. NLL and distance use up to 20,000 of them, CRPS up to 2,000.
fn judge(law: &Mixture, points: &[f64]) -> Result<Fared> {
    let n = points.len();
    let every = |most: usize| points.iter().enumerate().step_by((n / most).max(1));
    let nll = every(20_000).map(|(_, x)| Ok(law.nll(&[*x])?)).collect::<Result<Vec<f64>>>()?;
    let crps: Vec<f64> = every(2_000).map(|(_, x)| law.crps(0, *x)).collect();
    let apart = |(i, x): (usize, &f64)| (law.cdf(0, *x) - (i as f64 + 0.5) / n as f64).abs();
    Ok(Fared { nll: mean(&nll), crps: mean(&crps), distance: every(20_000).map(apart).fold(0.0, f64::max) })
}

fn report(run: &Run, settings: &Settings, done: &[Done<Cell>]) -> Result<()> {
    let mut out = Outcome::new(run);
    let all = |law: usize, time: usize, pick: fn(&Fared) -> f64| {
        done.iter().map(|d| pick(&d.value.fared[law][time])).collect::<Vec<_>>()
    };
    let last = SHOWN.len() - 1;
    let nll = |law: usize| mean(&all(law, last, |f| f.nll));
    let verdict = |yes: bool| if yes { "confirmed" } else { "contradicted" };
    out.claim(
        "Clustering and a model per mode let BMM forecast two modes",
        &format!("NLL at t = 2: {:.3} against {:.3} of one Gaussian", nll(1), nll(0)),
        verdict(nll(1) < nll(0)),
    );
    out.claim(
        "Beyond the paper: one model, no clustering, Gaussians that split",
        &format!(
            "NLL at t = 2: {:.3}, up to {} components",
            nll(2),
            done.iter().flat_map(|d| &d.value.components).max().unwrap_or(&0)
        ),
        if nll(2) <= nll(1) { "at least as good as a model per mode" } else { "worse than a model per mode" },
    );
    out.heading("Scores against the true law");
    let mut table = Vec::new();
    for (t, step) in SHOWN.iter().enumerate() {
        for (l, name) in LAWS.iter().enumerate() {
            table.push(vec![
                format!("{}", *step as f64 * SPACING),
                (*name).into(),
                format!("{:.3}", mean(&all(l, t, |f| f.nll))),
                format!("{:.4}", mean(&all(l, t, |f| f.crps))),
                printed(&all(l, t, |f| f.distance)),
            ]);
        }
    }
    out.table(&["t", "forecast", "NLL", "CRPS", "distance of the distribution functions"], &table);
    out.text("Mean over the runs, in brackets the standard error; the reference has its own sampling error.");
    charts(&mut out, &done[0].value)?;
    data(&mut out, done)?;
    let about = format!(
        "`dx = 4x(1 − x²) dt + dw` from x = 0: {} training paths to t = 2, values every {SPACING} s. Per mode: two-means over \
         whole paths, then a neural SDE (1–50–50–1 and 1–50–1, no dropout) per cluster by BMM with a horizon of 10 steps; the \
         weights are the shares of the clusters. One model: the same networks on all paths, trained on single steps, where \
         the likelihood is exact whatever the modes. The judge is the true process with {} paths.",
        settings.paths, settings.reference
    );
    let seconds = done.iter().map(|d| d.seconds).sum();
    out.finish(&about, &format!("{} runs; the charts show the first", done.len()), seconds)
}

fn charts(out: &mut Outcome<'_>, first: &Cell) -> Result<()> {
    let times: Vec<f64> = (1..=STEPS).map(|k| k as f64 * SPACING).collect();
    // Several curves of one colour are one series with gaps between them.
    let together = |name: String, curves: &[Vec<f64>]| {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for curve in curves {
            x.extend(times.iter().chain([&f64::NAN]));
            y.extend(curve.iter().chain([&f64::NAN]));
        }
        LineSeries::new(name, x, y)
    };
    let chart = |title: &str, series: Vec<LineSeries>| Lines {
        title: title.into(),
        x_label: "time".into(),
        y_label: "x".into(),
        y_range: Some([-EDGE, EDGE]),
        series,
        ..Lines::default()
    };
    let names = ["lower", "upper"];
    let mode = |(name, (weight, moments)): (&str, &(f64, Vec<[f64; 2]>))| {
        let at = |z: f64| moments.iter().map(|m| m[0] + z * m[1]).collect::<Vec<_>>();
        together(format!("{name} mode, weight {weight:.2}"), &[at(-2.0), at(0.0), at(2.0)])
    };
    let series = names.into_iter().zip(&first.modes).map(mode).collect();
    let predictions = lines(&chart("A model per mode, predicted by BMM", series));
    out.chart(predictions, "predictions", "Fig. 5a: mean and two deviations of each mode's model.")?;
    let series =
        names.into_iter().zip(&first.paths).map(|(name, p)| together(format!("{name} mode"), p)).collect();
    let sampled = lines(&chart("A model per mode, sampled paths", series));
    out.chart(sampled, "paths", "Fig. 5b: twenty paths of the two models.")?;
    for (t, step) in SHOWN.iter().enumerate() {
        let time = *step as f64 * SPACING;
        let x: Vec<f64> = grid().collect();
        let mut series: Vec<LineSeries> = LAWS
            .iter()
            .zip(&first.densities)
            .map(|(name, d)| LineSeries::new(*name, x.clone(), d[t].clone()))
            .collect();
        series.push(LineSeries::new("true law", x, first.reference[t].clone()));
        let chart = Lines {
            title: format!("Densities at t = {time}"),
            x_label: "x".into(),
            y_label: "density".into(),
            x_range: Some([-EDGE, EDGE]),
            series,
            ..Lines::default()
        };
        out.chart(lines(&chart), &format!("density-{step:02}"), &format!("Densities at t = {time}."))?;
    }
    Ok(())
}

fn data(out: &mut Outcome<'_>, done: &[Done<Cell>]) -> Result<()> {
    let mut rows = Vec::new();
    for (r, d) in done.iter().enumerate() {
        for (name, times) in LAWS.iter().zip(&d.value.fared) {
            for (step, f) in SHOWN.iter().zip(times) {
                let time = number(*step as f64 * SPACING);
                let scores = [f.nll, f.crps, f.distance].map(number);
                rows.push([vec![r.to_string(), (*name).into(), time], scores.to_vec()].concat());
            }
        }
    }
    out.data("scores", "every run", &["run", "forecast", "t", "nll", "crps", "distance"], &rows)?;
    let first = &done[0].value;
    let mut rows = Vec::new();
    for (t, step) in SHOWN.iter().enumerate() {
        for (i, x) in grid().enumerate() {
            let mut row = vec![number(*step as f64 * SPACING), number(x)];
            row.extend(first.densities.iter().map(|d| number(d[t][i])));
            row.push(number(first.reference[t][i]));
            rows.push(row);
        }
    }
    let header = ["t", "x", "one_gaussian", "model_per_mode", "split", "truth"];
    out.data("densities", "the curves of the charts", &header, &rows)
}
