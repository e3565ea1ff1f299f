//! The protocol of a forecasting experiment (Sec. 6.4), in one place: what is learned from, how long, and what
//! is scored. Methods are exchangeable: see [`Method`].

use crate::fit::{Fit, Recipe, Rows};
use crate::method::Method;
use crate::particles::{Judge, Scored, moments};
use crate::statistics::deviation;
use anyhow::Result;
use nsde::Gaussian;
use nsde::data::{Dataset, Series};
use nsde::metric::Mixture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// How every method of an experiment is trained and scored.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// Networks and training of the neural SDEs; the others take snippets, updates and rates from here.
    pub fit: Fit,
    /// Particles of the methods that train on samples.
    pub train_particles: usize,
    /// Numbers of particles whose Gaussians are scored, ascending; as many as the last are drawn.
    pub test_particles: Vec<usize>,
    /// Most Gaussians of a mixture.
    pub components: usize,
    /// Paths that start alike share this many rollouts of a method that samples: path `i` is scored against
    /// rollout `i` modulo this.
    pub shared: usize,
    /// The rows that are scored, counted from the start of the forecast.
    pub scored: Range<usize>,
}

impl Protocol {
    /// The paper's protocol for states of dimension `dim` with rows `dt` apart, `scored` rows after the start.
    pub fn new(dim: usize, dt: f64, hidden: usize, horizon: usize, scored: Range<usize>) -> Self {
        Protocol {
            fit: Fit {
                hidden: vec![hidden; 2],
                noise_hidden: Some(vec![hidden]),
                keep: 0.8,
                horizon,
                steps: 3000,
                batch: 16,
                dt,
                init_var: 1e-6,
                weight_decay: 0.0,
                recipe: Recipe::Paper,
                members: 1,
                look: None,
                moved: None,
                again: false,
            },
            // As many function evaluations as cubature has.
            train_particles: 2 * (2 * dim + 1),
            test_particles: vec![1, 2, 4, 8, 2 * (2 * dim + 1), 16, 32, 64, 128, 256, 512],
            components: 32,
            shared: 4,
            scored,
        }
    }

    /// The same with another training.
    pub fn with(&self, fit: &Fit) -> Self {
        Protocol { fit: fit.clone(), ..self.clone() }
    }
}

/// The forecast of one path, after each of its steps.
pub enum Forecast {
    /// Points: no uncertainty.
    Mean(Vec<Vec<f64>>),
    /// Gaussians.
    Gaussian(Vec<Gaussian>),
    /// Mixtures of Gaussians.
    Mixture(Vec<Mixture>),
    /// Particles, `[steps, samples, D]`.
    Particles(Vec<f64>),
}

/// Something that forecasts a path from its first row.
pub trait Forecaster {
    /// What the way to predict is called: `bmm`, `particles`, …
    fn name(&self) -> &'static str;
    /// Whether another `index` gives another forecast.
    fn samples(&self) -> bool;
    /// The forecast of all rows of `series` after the first; `index` numbers the forecasts that are drawn.
    fn forecast(&self, index: usize, series: &Series) -> Result<Forecast>;
}

/// The scores of one way to predict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// [`Forecaster::name`].
    pub prediction: String,
    /// Number of particles behind each Gaussian.
    pub particles: Option<usize>,
    /// The scores.
    pub scored: Scored,
}

/// A forecast with a larger error than this many variances of the data has run away.
const RUN_AWAY: f64 = 100.0;

/// What is scored.
#[derive(Clone, Copy)]
pub struct Test<'a> {
    /// The series.
    pub data: &'a Dataset,
    /// The columns that are scored; `None` for all.
    pub columns: Option<&'a [usize]>,
}

/// Trains `method` on `train` and scores all its ways to predict. A forecast that runs away has no scores:
/// its lines are missing, and whoever reports them says so.
pub fn evaluate(
    protocol: &Protocol,
    method: Method,
    train: &Dataset,
    test: &Dataset,
    seed: u64,
) -> Result<Vec<Line>> {
    let tests = [Test { data: test, columns: None }];
    Ok(evaluate_all(method.predictions(), protocol, method, Rows::all(train), &tests, seed)?.remove(0))
}

/// The same for some ways to predict and several tests of one training: the lines of each test.
pub fn evaluate_all(
    predictions: &[&'static str],
    protocol: &Protocol,
    method: Method,
    rows: Rows<'_>,
    tests: &[Test<'_>],
    seed: u64,
) -> Result<Vec<Vec<Line>>> {
    let forecasters = match method.train(predictions, protocol, rows, seed) {
        Ok(forecasters) => forecasters,
        Err(error) => match error.downcast_ref::<nsde::Error>() {
            Some(nsde::Error::Training { .. }) => Vec::new(),
            _ => return Err(error),
        },
    };
    let mut all = Vec::new();
    for test in tests {
        let limit = RUN_AWAY * variance(test.data);
        let mut lines = Vec::new();
        for who in &forecasters {
            match score(protocol, who.as_ref(), *test) {
                Ok(found) => lines.extend(found.into_iter().filter(|l| l.scored.mse < limit)),
                Err(error) => match error.downcast_ref::<nsde::Error>() {
                    Some(nsde::Error::NonFinite { .. }) => {}
                    _ => return Err(error),
                },
            }
        }
        all.push(lines);
    }
    Ok(all)
}

/// What a search compares: trains `method` and scores it by [`Method::plain`] with the most particles; `None` if it diverged.
pub fn trial(
    protocol: &Protocol,
    method: Method,
    rows: Rows<'_>,
    test: &Dataset,
    seed: u64,
) -> Result<Option<Scored>> {
    let tests = [Test { data: test, columns: None }];
    let found = evaluate_all(&[method.plain()], protocol, method, rows, &tests, seed)?.remove(0);
    Ok(found.last().map(|line| line.scored))
}

impl Forecast {
    /// The forecast of some columns of `dim`.
    fn columns(self, dim: usize, keep: &[usize]) -> Result<Forecast> {
        let pick = |x: &[f64]| keep.iter().map(|i| x[*i]).collect::<Vec<_>>();
        let law = |g: &Gaussian| {
            let cov = keep.iter().flat_map(|i| keep.iter().map(move |j| g.cov[i * dim + j])).collect();
            Gaussian { mean: pick(&g.mean), cov }
        };
        Ok(match self {
            Forecast::Mean(points) => Forecast::Mean(points.iter().map(|x| pick(x)).collect()),
            Forecast::Gaussian(laws) => Forecast::Gaussian(laws.iter().map(law).collect()),
            Forecast::Mixture(laws) => {
                let some = |m: &Mixture| {
                    Mixture::new(m.weights().to_vec(), m.components().iter().map(law).collect())
                };
                Forecast::Mixture(laws.iter().map(some).collect::<nsde::Result<_>>()?)
            }
            Forecast::Particles(values) => Forecast::Particles(values.chunks(dim).flat_map(pick).collect()),
        })
    }
}

/// The mean variance of the columns.
fn variance(data: &Dataset) -> f64 {
    let dim = data.dim();
    let column = |i: usize| -> Vec<f64> {
        let values = data.series.iter().flat_map(|s| s.values.iter().skip(i).step_by(dim));
        values.copied().filter(|x| x.is_finite()).collect()
    };
    (0..dim).map(|i| deviation(&column(i)).powi(2)).sum::<f64>() / dim as f64
}

/// Forecasts every series of `test` from its first row and scores it on the rows of the protocol.
fn score(protocol: &Protocol, who: &dyn Forecaster, test: Test<'_>) -> Result<Vec<Line>> {
    let Test { data: test, columns } = test;
    let dim = test.dim();
    let scored = columns.map_or(dim, <[usize]>::len);
    let most = protocol.test_particles.last().copied().unwrap_or(2);
    let mut whole = Judge::default();
    let mut clouds = vec![Judge::default(); protocol.test_particles.len()];
    let mut alike: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
    for (i, series) in test.series.iter().enumerate() {
        let bits = series.values[..dim].iter().chain(&series.inputs).map(|x| x.to_bits());
        alike.entry(bits.collect()).or_default().push(i);
    }
    let mut index = 0;
    for group in alike.values() {
        let rollouts = if who.samples() { protocol.shared.min(group.len()) } else { 1 };
        for r in 0..rollouts {
            let mut forecast = who.forecast(index, &test.series[group[r]])?;
            if let Some(keep) = columns {
                forecast = forecast.columns(dim, keep)?;
            }
            index += 1;
            for i in group.iter().skip(r).step_by(rollouts) {
                let series = &test.series[*i];
                let rows = protocol.scored.start..protocol.scored.end.min(series.rows());
                for row in rows {
                    let x = &series.values[row * dim..(row + 1) * dim];
                    let x = columns.map_or(x.to_vec(), |keep| keep.iter().map(|i| x[*i]).collect());
                    let x = x.as_slice();
                    let k = row - 1;
                    match &forecast {
                        Forecast::Mean(points) => whole.mean(&points[k], x),
                        Forecast::Gaussian(laws) => whole.gaussian(&laws[k], x)?,
                        Forecast::Mixture(laws) => whole.mixture(&laws[k], x)?,
                        Forecast::Particles(values) => {
                            let cloud = &values[k * most * scored..(k + 1) * most * scored];
                            for (judge, samples) in clouds.iter_mut().zip(&protocol.test_particles) {
                                judge.gaussian(&moments(cloud, scored, *samples), x)?;
                            }
                        }
                    }
                }
            }
        }
    }
    let line = |particles: Option<usize>, judge: &Judge| Line {
        prediction: who.name().into(),
        particles,
        scored: judge.scored(),
    };
    Ok(match whole.empty() {
        false => vec![line(None, &whole)],
        true => protocol.test_particles.iter().zip(&clouds).map(|(s, j)| line(Some(*s), j)).collect(),
    })
}
