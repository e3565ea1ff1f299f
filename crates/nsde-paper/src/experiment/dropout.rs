//! Fig. 3: dropout decorrelates activations, and with it the output comes closer to a Gaussian.

use super::Experiment;
use crate::cells::{Done, Order};
use crate::outcome::{Outcome, number};
use crate::points::{forward, fresh, generator, normals, steps};
use crate::run::Run;
use crate::statistics::{mean, median, standard_error};
use anyhow::{Context, Result};
use ndarray::Array2;
use nsde::{Layer, Network};
use nsde_report::{LineSeries, Lines, lines};
use serde::{Deserialize, Serialize};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dropout",
    paper: "Fig. 3",
    about: "correlation of activations and shape of the output, with and without dropout",
    run,
};

/// Probabilities to keep a unit: no dropout, the paper's rate 0.2, and a rate of 0.5.
const KEEPS: [f64; 3] = [1.0, 0.8, 0.5];
const NAMES: [&str; 3] = ["no dropout", "rate 0.2", "rate 0.5"];
const WIDTH: usize = 50;
/// Place of the last layer of the second hidden block (linear, ReLU, dropout).
const SHOWN: usize = 5;
/// Bins of the density, over ±[`REACH`] deviations.
const BINS: usize = 60;
const REACH: f64 = 4.0;

#[derive(Serialize)]
struct Settings {
    input: usize,
    points: usize,
}

/// One random network, under each dropout rate.
#[derive(Serialize, Deserialize)]
struct Cell(Vec<Found>);

#[derive(Serialize, Deserialize)]
struct Found {
    /// Mean absolute correlation of two activations after the second hidden layer, over all pairs of units
    /// that are ever active.
    correlation: f64,
    /// Largest distance between the distribution functions of the output and of its Gaussian.
    distance: f64,
    skewness: f64,
    excess: f64,
    /// Density of the standardised output.
    density: Vec<f64>,
    /// Covariance of the activation map, for the first repetition only.
    cov: Vec<f64>,
}

fn run(run: &Run) -> Result<()> {
    let settings = Settings { input: 2, points: run.size(100_000, 2_000) };
    let runs = run.repetitions(100, 2) as u64;
    let cells: Vec<(String, u64)> = (0..runs).map(|r| (format!("run-{r}"), r)).collect();
    let done = run.cells(Order::Together, &settings, &cells, |r| cell(&settings, run.seed, *r))?;
    report(run, &settings, &done)
}

fn cell(settings: &Settings, seed: u64, repetition: u64) -> Result<Cell> {
    let found = KEEPS.iter().map(|keep| {
        // The same weights and inputs for every rate.
        let rng = &mut generator(seed, 2 * repetition);
        let hidden = [WIDTH; 3];
        let net = Network::perceptron(settings.input, &hidden, 1, Layer::Relu, 0.5, rng)?;
        let layers = net.layers().iter().map(|layer| match layer {
            Layer::Dropout { .. } => Layer::Dropout { keep: *keep },
            other => other.clone(),
        });
        let net = steps(&Network::new(settings.input, layers.collect())?)?;
        let x = normals(settings.points, settings.input, rng);
        let masks = &mut generator(seed, 2 * repetition + 1);
        let all = forward(&net, &x, |_, keep, points| {
            if keep < 1.0 {
                fresh(keep, points, masks);
            }
        });
        let cov = covariance(&all[SHOWN]);
        let output = all.last().context("the network has layers")?;
        let mut found = shape(output.iter().map(|y| f64::from(*y)).collect());
        found.correlation = correlation(&cov);
        if repetition == 0 {
            found.cov = cov;
        }
        Ok(found)
    });
    Ok(Cell(found.collect::<Result<_>>()?))
}

/// Covariance of the columns, row-major.
fn covariance(points: &Array2<f32>) -> Vec<f64> {
    let n = points.nrows() as f32;
    let means = points.sum_axis(ndarray::Axis(0)) / n;
    let centred = points - &means;
    let cov = centred.t().dot(&centred) / (n - 1.0);
    cov.iter().map(|c| f64::from(*c)).collect()
}

/// Mean absolute correlation over all pairs of columns that vary.
fn correlation(cov: &[f64]) -> f64 {
    let var = |i: usize| cov[i * WIDTH + i];
    let mut all = Vec::new();
    for i in 0..WIDTH {
        for j in 0..i {
            if var(i) > 0.0 && var(j) > 0.0 {
                all.push((cov[i * WIDTH + j] / (var(i) * var(j)).sqrt()).abs());
            }
        }
    }
    mean(&all)
}

/// How the law of `y` differs from its Gaussian.
fn shape(mut y: Vec<f64>) -> Found {
    let n = y.len() as f64;
    let m = mean(&y);
    let sd = (y.iter().map(|y| (y - m).powi(2)).sum::<f64>() / n).sqrt();
    y.iter_mut().for_each(|y| *y = (*y - m) / sd);
    y.sort_by(f64::total_cmp);
    let power = |p: i32| y.iter().map(|y| y.powi(p)).sum::<f64>() / n;
    let width = 2.0 * REACH / BINS as f64;
    let mut density = vec![0.0; BINS];
    for y in &y {
        let bin = ((y + REACH) / width).floor();
        if (0.0..BINS as f64).contains(&bin) {
            density[bin as usize] += 1.0 / (n * width);
        }
    }
    let gap = |(i, y): (usize, &f64)| {
        let p = nsde::metric::chi_squared_cdf(y * y, 1);
        let cdf = if *y < 0.0 { 0.5 - 0.5 * p } else { 0.5 + 0.5 * p };
        (cdf - i as f64 / n).abs().max((cdf - (i + 1) as f64 / n).abs())
    };
    let distance = y.iter().enumerate().map(gap).fold(0.0, f64::max);
    let (skewness, excess) = (power(3), power(4) - 3.0);
    Found { correlation: 0.0, distance, skewness, excess, density, cov: Vec::new() }
}

fn report(run: &Run, settings: &Settings, done: &[Done<Cell>]) -> Result<()> {
    let over =
        |k: usize, f: &dyn Fn(&Found) -> f64| -> Vec<f64> { done.iter().map(|d| f(&d.value.0[k])).collect() };
    let correlations = over(0, &|f| f.correlation);
    let dropped = over(1, &|f| f.correlation);
    let distances = over(0, &|f| f.distance);
    let closer = over(1, &|f| f.distance);
    let mut out = Outcome::new(run);
    let verdict = |yes: bool| if yes { "confirmed" } else { "contradicted" };
    out.claim(
        "off-diagonals of the covariance of the activation map are suppressed with dropout",
        &format!(
            "mean absolute correlation {:.3} without, {:.3} with dropout of rate 0.2",
            mean(&correlations),
            mean(&dropped)
        ),
        verdict(mean(&dropped) < mean(&correlations)),
    );
    let wins = distances.iter().zip(&closer).filter(|(a, b)| b < a).count();
    out.claim(
        "the output becomes approximately Gaussian",
        &format!(
            "largest distance of the distribution functions {:.3} without, {:.3} with dropout; closer in {wins} of {} \
             networks; but the absolute excess kurtosis goes from {:.2} to {:.2}",
            mean(&distances),
            mean(&closer),
            done.len(),
            mean(&over(0, &|f| f.excess.abs())),
            mean(&over(1, &|f| f.excess.abs()))
        ),
        verdict(mean(&closer) < mean(&distances)),
    );
    let first = &done.first().context("at least one repetition")?.value.0;
    let centres: Vec<f64> =
        (0..BINS).map(|b| -REACH + 2.0 * REACH * (b as f64 + 0.5) / BINS as f64).collect();
    let bell = centres.iter().map(|z| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()).collect();
    let mut series = vec![LineSeries::new("Gaussian", centres.clone(), bell)];
    for k in 0..2 {
        series.push(LineSeries::new(NAMES[k], centres.clone(), first[k].density.clone()));
    }
    let chart = Lines {
        title: "Output of one network, standardised".into(),
        x_label: "output (deviations from its mean)".into(),
        y_label: "density".into(),
        series,
        ..Lines::default()
    };
    out.chart(lines(&chart), "output", "Density of the output of the first network against its Gaussian.")?;
    for k in 0..2 {
        let top = first[k].cov.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let caption = format!(
            "Covariance of the activations after the second hidden layer, {}: white is 0, the darkest blue {top:.3}, \
             red is negative on the same scale.",
            NAMES[k]
        );
        out.matrix(&first[k].cov, WIDTH, &[], ["covariance-without", "covariance-with"][k], &caption)?;
    }
    let rows: Vec<Vec<String>> = (0..KEEPS.len())
        .map(|k| {
            let cell = |f: &dyn Fn(&Found) -> f64| {
                let x = over(k, f);
                format!("{:.3} ± {:.3} ({:.3})", mean(&x), standard_error(&x), median(&x))
            };
            let mut row = vec![NAMES[k].to_string()];
            row.extend([
                cell(&|f| f.correlation),
                cell(&|f| f.distance),
                cell(&|f| f.skewness.abs()),
                cell(&|f| f.excess.abs()),
            ]);
            row
        })
        .collect();
    out.heading("All networks");
    out.text("Mean ± standard error over the networks (and their median).");
    out.table(
        &["", "absolute correlation", "distance", "absolute skewness", "absolute excess kurtosis"],
        &rows,
    );
    let mut rows = Vec::new();
    for (r, d) in done.iter().enumerate() {
        for (name, f) in NAMES.iter().zip(&d.value.0) {
            let mut row = vec![r.to_string(), (*name).into()];
            row.extend([f.correlation, f.distance, f.skewness, f.excess].map(number));
            rows.push(row);
        }
    }
    let header = ["run", "dropout", "absolute_correlation", "distance", "skewness", "excess_kurtosis"];
    out.data("networks", "every network", &header, &rows)?;
    let rows: Vec<Vec<String>> = (0..BINS)
        .map(|b| {
            [centres[b], first[0].density[b], first[1].density[b], first[2].density[b]].map(number).to_vec()
        })
        .collect();
    out.data("output", "densities of the first network", &["output", "none", "rate_0.2", "rate_0.5"], &rows)?;
    let about = format!(
        "x ~ N(0, I) in {} dimensions (the paper does not say how many) passes through random networks with three \
         hidden layers of {WIDTH} ReLU units, with dropout after each ReLU or without; {} points per network. \
         The activation map is that after the second hidden layer.",
        settings.input, settings.points
    );
    let seconds = done.iter().map(|d| d.seconds).sum();
    out.finish(&about, &format!("{} random networks", done.len()), seconds)
}
