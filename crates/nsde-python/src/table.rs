//! Regression and classification with an SDE as a layer (Secs. 6.2 and 6.3): from arrays to a run, and predictions.

use crate::error::{Result, refuse};
use crate::model::{ArrayOut, Model, array};
use crate::options::SolverOptions;
use crate::trainer::{Job, Trainer};
use nsde::head::{Example, Head, LinearHead, SdeLayer, SoftmaxHead, SoftmaxObjective, Start};
use nsde::train::{Architecture, ClassificationTask, RegressionTask, TrainOptions};
use nsde::{Linear, Options};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Deserialize;

/// Everything that decides a fit, apart from the data; Python sends it as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    networks: Architecture,
    optimiser: TrainOptions,
    solver: SolverOptions,
    /// Dimensions of the SDE; nothing: the number of features.
    latent: Option<usize>,
    flow_steps: usize,
    flow_dt: f64,
}

/// Diffusion, and deviation of the observation noise, to begin with.
const NOISE: f64 = 0.1;
/// Variance of the start.
const INIT_VAR: f64 = 1e-6;

fn settings(json: &str) -> Result<Settings> {
    match serde_json::from_str(json) {
        Ok(settings) => Ok(settings),
        Err(e) => refuse(format!("settings: {e}")),
    }
}

/// A start, an SDE and a head with random weights.
fn layer<H>(
    s: &Settings,
    features: usize,
    outputs: usize,
    head: impl FnOnce(Linear) -> nsde::Result<H>,
) -> Result<SdeLayer<H>> {
    let state = s.latent.unwrap_or(features);
    // The networks draw from the seed itself.
    let rng = &mut ChaCha8Rng::seed_from_u64(s.optimiser.seed);
    rng.set_stream(1);
    let start = if state == features {
        Start::Features
    } else {
        Start::Embedding(Linear::random(features, state, rng)?)
    };
    Ok(SdeLayer {
        start,
        sde: s.networks.build(state, 0, &vec![NOISE; state], s.optimiser.seed)?,
        head: head(Linear::random(state, outputs, rng)?)?,
        dt: s.flow_dt,
        steps: s.flow_steps,
        init_var: INIT_VAR,
        options: s.solver.read()?,
    })
}

/// A run that fits `targets [N, O]` to `features [N, F]`, both standardised; `held_out` rows are for validation.
#[pyfunction]
pub fn regression_trainer(
    features: PyReadonlyArray2<'_, f64>,
    targets: PyReadonlyArray2<'_, f64>,
    held_out: Vec<usize>,
    settings_json: &str,
) -> Result<Trainer> {
    let s = settings(settings_json)?;
    let outputs = targets.as_array().ncols();
    let layer = layer(&s, features.as_array().ncols(), outputs, |linear| {
        // More targets than dimensions have no likelihood without noise of their own.
        let noisy = outputs > linear.input();
        let head = LinearHead::new(linear);
        if noisy { head.with_noise(vec![2.0 * NOISE.ln(); outputs]) } else { Ok(head) }
    })?;
    let flat = |a: &PyReadonlyArray2<'_, f64>| a.as_array().iter().copied().collect::<Vec<_>>();
    let task = RegressionTask::new(layer, flat(&features), flat(&targets), &held_out)?;
    Trainer::new(Job::Regression(task), s.optimiser)
}

/// A run that fits the classes `labels [N]` to `features [N, F]`.
#[pyfunction]
pub fn classification_trainer(
    features: PyReadonlyArray2<'_, f64>,
    labels: PyReadonlyArray1<'_, i64>,
    classes: usize,
    held_out: Vec<usize>,
    settings_json: &str,
) -> Result<Trainer> {
    let s = settings(settings_json)?;
    let head = |linear| SoftmaxHead::new(linear, SoftmaxObjective::Expected);
    let layer = layer(&s, features.as_array().ncols(), classes, head)?;
    let labels = labels.as_array().iter().map(|y| *y as usize).collect();
    let features = features.as_array().iter().copied().collect();
    let task = ClassificationTask::new(layer, features, labels, &held_out)?;
    Trainer::new(Job::Classification(task), s.optimiser)
}

fn laws<H: Head>(
    py: Python<'_>,
    model: &Model,
    features: &PyReadonlyArray2<'_, f64>,
    options: Options,
) -> Result<Vec<H::Prediction>> {
    let layer = SdeLayer::<H>::from_model(&model.get(), options)?;
    let width = features.as_array().ncols().max(1);
    let flat: Vec<f64> = features.as_array().iter().copied().collect();
    let rows: Vec<Example<'_>> =
        flat.chunks(width).map(|features| Example { features, inputs: &[] }).collect();
    Ok(py.detach(|| layer.predict(&rows))?)
}

/// Means `[N, O]` and covariances `[N, O, O]` of the targets, in the units of training.
#[pyfunction]
pub fn regress<'py>(
    py: Python<'py>,
    this: &Model,
    features: PyReadonlyArray2<'_, f64>,
    options: SolverOptions,
) -> Result<(ArrayOut<'py>, ArrayOut<'py>)> {
    let found = laws::<LinearHead>(py, this, &features, options.read()?)?;
    let (n, o) = (found.len(), found.first().map_or(0, |y| y.mean.len()));
    let means = found.iter().flat_map(|y| y.mean.iter().copied()).collect();
    let covs = found.iter().flat_map(|y| y.cov.iter().copied()).collect();
    Ok((array(py, means, &[n, o])?, array(py, covs, &[n, o, o])?))
}

/// Probabilities of the classes, `[N, classes]`.
#[pyfunction]
pub fn classify<'py>(
    py: Python<'py>,
    this: &Model,
    features: PyReadonlyArray2<'_, f64>,
    options: SolverOptions,
) -> Result<ArrayOut<'py>> {
    let rows = laws::<SoftmaxHead>(py, this, &features, options.read()?)?;
    let (n, classes) = (rows.len(), rows.first().map_or(0, Vec::len));
    Ok(array(py, rows.concat(), &[n, classes])?)
}
