//! Training on time series (Sec. 6.4): from arrays to a run.

use crate::error::{Result, refuse};
use crate::options::SolverOptions;
use crate::trainer::{Job, Trainer};
use nsde::data::{Dataset, Series, TimeAxis};
use nsde::train::{Architecture, ForecastTask, Objective, TrainOptions, WindowOptions};
use nsde::{Model, Scaling};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde::Deserialize;

/// Everything that decides a fit, apart from the data; Python sends it as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    networks: Architecture,
    optimiser: TrainOptions,
    solver: SolverOptions,
    objective: Objective,
    /// Rows after the start of a window, one per stage; empty: ten, or what the data allow.
    horizon: Vec<usize>,
    validation: f64,
    standardise: bool,
    init_var: f64,
    /// Largest step; nothing: the median spacing.
    max_dt: Option<f64>,
}

/// The horizon that nobody asked for.
const HORIZON: usize = 10;

/// Times `[N]`, states `[N, D]` and inputs `[N, U]` of one series.
type Arrays<'py> = (PyReadonlyArray1<'py, f64>, PyReadonlyArray2<'py, f64>, PyReadonlyArray2<'py, f64>);

/// A run that fits a model to `series`.
#[pyfunction]
pub fn forecast_trainer(
    py: Python<'_>,
    series: Vec<Arrays<'_>>,
    columns: Vec<String>,
    input_columns: Vec<String>,
    settings: &str,
) -> Result<Trainer> {
    let settings: Settings = match serde_json::from_str(settings) {
        Ok(settings) => settings,
        Err(e) => return refuse(format!("settings: {e}")),
    };
    let one = |(name, (times, values, inputs)): (usize, &Arrays<'_>)| Series {
        name: name.to_string(),
        times: times.as_array().to_vec(),
        values: values.as_array().iter().copied().collect(),
        inputs: inputs.as_array().iter().copied().collect(),
    };
    let data = Dataset {
        columns,
        input_columns,
        series: series.iter().enumerate().map(one).collect(),
        time: TimeAxis { column: None, unit: None, origin: None },
        notes: Vec::new(),
    };
    drop(series);
    let options = settings.solver.read()?;
    let (job, optimiser) = py.detach(|| prepare(data, settings, options))?;
    Trainer::new(job, optimiser)
}

fn prepare(data: Dataset, settings: Settings, options: nsde::Options) -> Result<(Job, TrainOptions)> {
    let Settings {
        networks,
        optimiser,
        objective,
        mut horizon,
        validation,
        standardise,
        init_var,
        max_dt,
        ..
    } = settings;
    let (train, held_out) = if validation > 0.0 {
        let (train, held_out) = data.split_tail(validation)?;
        (train, Some(held_out))
    } else {
        (data, None)
    };
    let longest = train.series.iter().map(Series::rows).max().unwrap_or(0);
    if horizon.is_empty() {
        horizon.push(HORIZON.min(longest.saturating_sub(1)).max(1));
    }
    let all: Vec<usize> = (0..train.series.len()).collect();
    let scaling = if standardise {
        let (mean, std) = train.scaling(&all);
        Scaling::new(mean, std)?
    } else {
        Scaling::new(vec![0.0; train.dim()], vec![1.0; train.dim()])?
    };
    let inputs_scaling = if train.inputs() > 0 {
        let (mean, std) = train.input_scaling(&all);
        Some(Scaling::new(mean, std)?)
    } else {
        None
    };
    let max_dt = match max_dt.or_else(|| train.median_spacing().map(plain)) {
        Some(dt) if dt.is_finite() && dt > 0.0 => dt,
        Some(dt) => return refuse(format!("max_dt: expected a positive number, found {dt}")),
        None => return refuse("X: expected a series of at least two rows"),
    };
    let noise = increments(&train, &scaling);
    let sde = networks.build(train.dim(), train.inputs(), &noise, optimiser.seed)?;
    let mut frame = Model::new(sde.clone(), max_dt)?;
    frame.init_var = init_var;
    frame.scaling = standardise.then(|| scaling.clone());
    frame.inputs_scaling = inputs_scaling.clone();
    frame.columns = Some(train.columns.iter().chain(&train.input_columns).cloned().collect());
    let cut = WindowOptions { horizon: 1, max_dt, init_var, stride: 1 };
    let units = inputs_scaling.as_ref();
    let task = ForecastTask::new(
        sde,
        options,
        objective,
        &train,
        held_out.as_ref(),
        &scaling,
        units,
        &horizon,
        &cut,
    )?;
    Ok((Job::Forecast { task, frame: Box::new(frame) }, optimiser))
}

/// A time without the rounding of a difference: 0.1, not 0.10000000000000009.
fn plain(t: f64) -> f64 {
    format!("{t:.14e}").parse().unwrap_or(t)
}

/// The deviation of `Δx/√Δt` per column, in the units of the networks: the diffusion to begin with.
fn increments(data: &Dataset, scaling: &Scaling) -> Vec<f64> {
    let d = data.dim();
    let mut sums = vec![(0.0, 0usize); d];
    for series in &data.series {
        for n in 1..series.rows() {
            let root = (series.times[n] - series.times[n - 1]).sqrt();
            for i in 0..d {
                let change = series.values[n * d + i] - series.values[(n - 1) * d + i];
                let step = change / scaling.std[i] / root;
                if step.is_finite() {
                    sums[i].0 += step * step;
                    sums[i].1 += 1;
                }
            }
        }
    }
    sums.iter().map(|(sum, n)| (sum / (*n).max(1) as f64).sqrt().max(1e-3)).collect()
}
