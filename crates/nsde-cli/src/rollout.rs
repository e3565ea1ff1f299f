//! Rolls a model out over windows of data, and scores what it forecast against what came true.

use crate::args::{SolverArgs, SplitArgs, at_least_one, whole};
use crate::dataset::{self, DataArgs, training};
use crate::output::misuse;
use anyhow::{Context, Result};
use clap::Args;
use nsde::calibrate::Calibration;
use nsde::data::Dataset;
use nsde::metric::{CoordinateScore, INTERVALS, Mixture, Predictive, Report, Score, Scores, normal_quantile};
use nsde::mixture::Splitting;
use nsde::train::{Window, WindowOptions};
use nsde::{Ensemble, Error, Gaussian, Model, Options, Rollout, Scaling, Stats};
use serde_json::Value;
use std::path::PathBuf;

/// The horizon where neither the user nor the training says.
const DEFAULT_HORIZON: usize = 10;
/// Numbers that the rollouts of one batch may take (128 MB).
const BATCH_NUMBERS: usize = 1 << 24;

/// Which forecasts are made and scored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protocol {
    /// Rows after the start of a window; `None`: as in training.
    pub horizon: Option<usize>,
    /// Rows between the starts of windows; `None`: the horizon, so that windows do not overlap.
    pub stride: Option<usize>,
    /// One window per series, from its first row to its last.
    pub from_start: bool,
    /// Rows at the beginning of each window, its start included, that are not scored.
    pub skip: usize,
    /// Multiply covariances by the temperature of the model's calibration.
    pub calibrated: bool,
    /// The solver.
    pub options: Options,
    /// How Gaussians split, if they do.
    pub splitting: Option<Splitting>,
}

/// Windows on the command line.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Rows to forecast from each start [default: as in training, else 10]
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    pub horizon: Option<usize>,
    /// Rows between starts [default: the horizon, so that forecasts do not overlap]
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    pub stride: Option<usize>,
    /// Forecast each series once, from its first row to its last
    #[arg(long, conflicts_with_all = ["horizon", "stride"])]
    pub from_start: bool,
    /// Do not score the first rows of each forecast, its start included
    #[arg(long, value_name = "ROWS", default_value = "0", value_parser = rows, allow_negative_numbers = true)]
    pub skip: usize,
}

fn rows(text: &str) -> Result<usize, String> {
    whole(text).map(|n| n as usize)
}

impl WindowArgs {
    /// The protocol that was asked for.
    pub fn protocol(&self, solver: &SolverArgs, split: &SplitArgs, calibrated: bool) -> Result<Protocol> {
        Ok(Protocol {
            horizon: self.horizon,
            stride: self.stride,
            from_start: self.from_start,
            skip: self.skip,
            calibrated,
            options: solver.options(),
            splitting: split.splitting(solver)?,
        })
    }
}

/// Model, data and protocol on the command line: which forecasts are scored.
#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// Model file (.safetensors)
    pub model: PathBuf,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub windows: WindowArgs,
    /// Use the calibration stored in the model
    #[arg(long)]
    pub calibrated: bool,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[command(flatten)]
    pub split: SplitArgs,
}

impl ScoreArgs {
    /// The protocol that was asked for.
    pub fn protocol(&self) -> Result<Protocol> {
        self.windows.protocol(&self.solver, &self.split, self.calibrated)
    }
}

/// The calibration stored in a model, if there is one.
pub(crate) fn calibration(model: &Model) -> Result<Option<Calibration>> {
    let Some(value) = model.extra.get("calibration").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let calibration: Calibration = serde_json::from_value(value.clone())
        .context("the calibration in the model cannot be read; run `nsde calibrate` again")?;
    calibration.check()?;
    Ok(Some(calibration))
}

/// The calibration, where it was asked for.
pub(crate) fn wanted_calibration(model: &Model, wanted: bool) -> Result<Option<Calibration>> {
    match calibration(model)? {
        None if wanted => {
            misuse("--calibrated: the model is not calibrated; run `nsde calibrate` on held-out data first")
        }
        found => Ok(found.filter(|_| wanted)),
    }
}

/// A law stretched about its mean, so that its covariance is `temperature` times as large.
pub(crate) fn stretched(law: &Mixture, temperature: f64) -> Result<Mixture> {
    let (centre, root) = (law.moments().mean, temperature.sqrt());
    let component = |part: &Gaussian| Gaussian {
        mean: part.mean.iter().zip(&centre).map(|(m, c)| c + root * (m - c)).collect(),
        cov: part.cov.iter().map(|v| temperature * v).collect(),
    };
    Ok(Mixture::new(law.weights().to_vec(), law.components().iter().map(component).collect())?)
}

/// The cheapest form of a law: closed formulas for one Gaussian.
pub(crate) fn predictive(law: &Mixture) -> Predictive<'_> {
    match law.components() {
        [single] => single.into(),
        _ => law.into(),
    }
}

/// The `p`-quantile of coordinate `i`; of a single Gaussian by its closed form.
pub(crate) fn quantile(law: &Mixture, i: usize, p: f64) -> f64 {
    match law.components() {
        [one] => one.mean[i] + one.cov[i * one.dim() + i].max(0.0).sqrt() * normal_quantile(p),
        _ => law.quantile(i, p),
    }
}

/// Rows to forecast that training had in mind.
fn trained_horizon(model: &Model) -> Option<usize> {
    let value = training(model, &["settings", "train", "horizon"])
        .or_else(|| training(model, &["settings", "horizon"]))?;
    let last = value.as_array().map_or(Some(value), |list| list.last());
    last.and_then(Value::as_u64).map(|n| n as usize).filter(|n| *n > 0)
}

/// Windows in the units of the data, and how they were cut.
pub(crate) struct Cut {
    /// The windows; starts, inputs and targets in the units of the data.
    pub windows: Vec<Window>,
    /// Rows after the start of the longest.
    pub horizon: usize,
    /// Rows between starts; `None` with one window per series.
    pub stride: Option<usize>,
}

/// Cuts the windows of a protocol out of data.
pub(crate) fn cut(model: &Model, data: &Dataset, how: &Protocol) -> Result<Cut> {
    dataset::check(model, data)?;
    let longest = data.series.iter().map(|series| series.rows()).max().unwrap_or(0);
    let most = longest.saturating_sub(1);
    let dim = model.sde.state();
    // Units of the data throughout: nothing is scaled, and what is missing at a start is set below.
    let units = Scaling::new(vec![0.0; dim], vec![1.0; dim])?;
    let mut options = WindowOptions { horizon: 1, max_dt: model.dt, init_var: model.init_var, stride: 1 };
    let (mut windows, stride) = if how.from_start {
        let mut windows = Vec::new();
        for (index, series) in data.series.iter().enumerate() {
            let measured =
                |row: &usize| series.values[row * dim..(row + 1) * dim].iter().any(|x| !x.is_nan());
            let Some(row) = (0..series.rows()).find(measured) else { continue };
            options.horizon = series.rows() - 1 - row;
            if options.horizon > 0 {
                windows.extend(nsde::train::window(dim, index, series, row, &units, None, &options)?);
            }
        }
        (windows, None)
    } else {
        let horizon = match how.horizon {
            Some(horizon) if horizon > most => {
                return misuse(format!(
                    "--horizon {horizon} is too long: the longest series has {longest} rows; use at most {most}"
                ));
            }
            Some(horizon) => horizon,
            None => trained_horizon(model).unwrap_or(DEFAULT_HORIZON).min(most).max(1),
        };
        let stride = how.stride.unwrap_or(horizon);
        options = WindowOptions { horizon, stride, ..options };
        (nsde::train::windows(data, &units, None, &options)?, Some(stride))
    };
    let horizon = windows.iter().map(|w| w.targets.len()).max().unwrap_or(0);
    if windows.is_empty() {
        return misuse(format!(
            "there is no window to forecast: the longest series has {longest} rows, and start and targets need measured values"
        ));
    }
    if how.skip > horizon {
        return misuse(format!(
            "--skip {} leaves nothing to score: forecasts are {horizon} rows long",
            how.skip
        ));
    }
    fill_starts(model, data, &mut windows);
    Ok(Cut { windows, horizon, stride })
}

/// What was not measured at a start is as wide as the data: see [`nsde::train::start`].
fn fill_starts(model: &Model, data: &Dataset, windows: &mut [Window]) {
    let dim = model.sde.state();
    let mut spread = None;
    for w in windows {
        for i in 0..dim {
            if data.series[w.series].values[w.row * dim + i].is_nan() {
                let (mean, std) = spread.get_or_insert_with(|| self::spread(model, data));
                w.start.mean[i] = mean[i];
                w.start.cov[i * dim + i] = std[i] * std[i];
            }
        }
    }
}

/// Mean and deviation of each state: those the model was trained with, or those of the data.
pub(crate) fn spread(model: &Model, data: &Dataset) -> (Vec<f64>, Vec<f64>) {
    match &model.scaling {
        Some(s) => (s.mean.clone(), s.std.clone()),
        None => data.scaling(&(0..data.series.len()).collect::<Vec<_>>()),
    }
}

/// The laws after each step of each rollout.
pub(crate) fn laws(
    ensemble: &Ensemble,
    options: Options,
    splitting: Option<Splitting>,
    batch: &[Rollout<'_>],
) -> Result<(Vec<Vec<Mixture>>, Stats)> {
    Ok(match splitting {
        None => ensemble.predict_with_stats(options, batch)?,
        Some(how) => ensemble.predict_split(options, how, batch)?,
    })
}

/// Rolls out `windows` batch by batch; `each` gets a window and the laws at its target rows.
pub(crate) fn roll(
    model: &Model,
    how: &Protocol,
    windows: &[Window],
    mut each: impl FnMut(&Window, &[Mixture]) -> Result<()>,
) -> Result<Stats> {
    let ensemble = Ensemble::from_model(model)?;
    let dim = model.sde.state();
    let per_step = dim
        .saturating_mul(dim + 1)
        .saturating_mul(2 * ensemble.models.len() * how.splitting.map_or(1, |s| s.most));
    let mut stats = Stats::default();
    let mut rest = windows;
    while !rest.is_empty() {
        let (mut count, mut numbers) = (0, 0usize);
        while count < rest.len() && (count == 0 || numbers < BATCH_NUMBERS) {
            numbers = numbers.saturating_add(rest[count].dts.len().saturating_mul(per_step));
            count += 1;
        }
        let (batch, after) = rest.split_at(count);
        rest = after;
        let rollouts: Vec<Rollout<'_>> =
            batch.iter().map(|w| Rollout { start: &w.start, dts: &w.dts, inputs: &w.inputs }).collect();
        let (laws, acted) = laws(&ensemble, how.options, how.splitting, &rollouts)?;
        stats.add(acted);
        for (w, laws) in batch.iter().zip(laws) {
            let mut laws: Vec<Option<Mixture>> = laws.into_iter().map(Some).collect();
            let at_rows: Vec<Mixture> =
                w.targets.iter().filter_map(|(step, _)| laws[step - 1].take()).collect();
            each(w, &at_rows)?;
        }
    }
    Ok(stats)
}

/// How a protocol went.
pub(crate) struct Evaluation {
    /// The scores.
    pub report: Report,
    /// Number of windows.
    pub windows: usize,
    /// Rows after the start of the longest window.
    pub horizon: usize,
    /// Rows between starts; `None` with one window per series.
    pub stride: Option<usize>,
    /// Points whose covariance was singular: they count as infinitely unlikely.
    pub singular: usize,
    /// Share of complete rows in the conformal region of each level of [`INTERVALS`], with their number.
    pub regions: Option<([f64; INTERVALS.len()], usize)>,
    /// Guards that acted.
    pub stats: Stats,
}

/// Scores all windows of a protocol.
pub(crate) fn run(model: &Model, data: &Dataset, how: &Protocol) -> Result<Evaluation> {
    let cut = cut(model, data, how)?;
    let calibration = wanted_calibration(model, how.calibrated)?;
    let mut scores = Scores::new();
    let mut singular = 0;
    let (mut inside, mut complete) = ([0usize; INTERVALS.len()], 0);
    let stats = roll(model, how, &cut.windows, |w, laws| {
        for (n, (law, (_, x))) in laws.iter().zip(&w.targets).enumerate() {
            let step = n + 1;
            if step < how.skip {
                continue;
            }
            let warm = calibration.as_ref().map(|c| stretched(law, c.temperature)).transpose()?;
            let law = warm.as_ref().unwrap_or(law);
            let score = match Score::new(predictive(law), x) {
                Ok(Some(score)) => score,
                Ok(None) => continue,
                Err(Error::NotPositiveDefinite { .. }) => {
                    singular += 1;
                    without_density(&law.moments(), x)
                }
                Err(e) => return Err(e.into()),
            };
            if let Some(c) = calibration.as_ref().filter(|_| score.dof == x.len()) {
                complete += 1;
                for (k, level) in INTERVALS.into_iter().enumerate() {
                    let radius = region_radius(model, c, time_of(w, n), step, level);
                    inside[k] += usize::from(radius.is_none_or(|r| score.squared_mahalanobis.sqrt() <= r));
                }
            }
            scores.add(step, &score);
        }
        Ok(())
    })?;
    let regions = (complete > 0).then(|| (inside.map(|n| n as f64 / complete as f64), complete));
    Ok(Evaluation {
        report: scores.report(),
        windows: cut.windows.len(),
        horizon: cut.horizon,
        stride: cut.stride,
        singular,
        regions,
        stats,
    })
}

/// Time from the start of a window to its row `n` after the start.
pub(crate) fn time_of(w: &Window, n: usize) -> f64 {
    w.dts[..w.targets[n].0].iter().sum()
}

/// The conformal radius at `time` after the start; `step` decides if the calibration has no spacing.
///
/// Radii are per row of the calibration data, whose spacing `nsde calibrate` stores beside them.
pub(crate) fn region_radius(
    model: &Model,
    c: &Calibration,
    time: f64,
    step: usize,
    level: f64,
) -> Option<f64> {
    let spacing = model.extra.get("calibration").and_then(|c| c.get("spacing")).and_then(Value::as_f64);
    let row = match spacing.filter(|s| *s > 0.0) {
        Some(spacing) => (time / spacing).round().max(1.0) as usize,
        None => step,
    };
    c.region_radius(row, level)
}

/// The score of a law that has no density: right or wrong to the last digit.
fn without_density(law: &Gaussian, x: &[f64]) -> Score {
    let seen: Vec<usize> = (0..x.len()).filter(|i| !x[*i].is_nan()).collect();
    let coordinate = |i: &usize| {
        let (mean, sd) = (law.mean[*i], law.cov[*i * x.len() + *i].max(0.0).sqrt());
        let miss = x[*i] - mean;
        match Score::new(Predictive::Gaussian { mean: &[mean], cov: &[sd * sd] }, &[x[*i]]) {
            Ok(Some(mut score)) => {
                score.coordinates[0].index = *i;
                score.coordinates.swap_remove(0)
            }
            _ => CoordinateScore {
                index: *i,
                pit: 0.5 + 0.5 * if miss == 0.0 { 0.0 } else { miss.signum() },
                crps: miss.abs(),
                inside: [miss == 0.0; INTERVALS.len()],
                width: [0.0; INTERVALS.len()],
            },
        }
    };
    Score {
        dof: seen.len(),
        squared_error: seen.iter().map(|i| (x[*i] - law.mean[*i]).powi(2)).sum(),
        nll: f64::INFINITY,
        squared_mahalanobis: f64::INFINITY,
        region: 1.0,
        coordinates: seen.iter().map(coordinate).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_law_has_its_mean_and_the_temperature_times_its_covariance() {
        let part = |m: [f64; 2], v: f64| Gaussian::new(m.to_vec(), vec![v, 0.1, 0.1, 2.0 * v]).unwrap();
        let law =
            Mixture::new(vec![0.25, 0.75], vec![part([1.0, 2.0], 0.5), part([-1.0, 4.0], 1.0)]).unwrap();
        let (before, after) = (law.moments(), stretched(&law, 4.0).unwrap().moments());
        assert!(before.mean.iter().zip(&after.mean).all(|(b, a)| (b - a).abs() < 1e-14));
        assert!(before.cov.iter().zip(&after.cov).all(|(b, a)| (4.0 * b - a).abs() < 1e-13));
    }

    #[test]
    fn a_law_without_density_still_has_an_error() {
        let law = Gaussian { mean: vec![1.0, 2.0, 3.0], cov: vec![0.0; 9] };
        let score = without_density(&law, &[1.0, f64::NAN, 5.0]);
        assert_eq!((score.dof, score.squared_error, score.nll), (2, 4.0, f64::INFINITY));
        assert_eq!((score.coordinates[0].crps, score.coordinates[1].crps), (0.0, 2.0));
        assert_eq!((score.coordinates[1].index, score.coordinates[1].inside), (2, [false; 4]));
    }
}
