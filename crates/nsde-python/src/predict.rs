//! Predictions and samples of whole batches, written into arrays `[steps, batch, …]`.

use crate::error::Result;
use crate::model::{ArrayOut, Model, array};
use crate::options::SolverOptions;
use crate::solver;
use crate::start::{Arrays, Batch};
use nsde::{Error, Gaussian, Method, Options, Rollout, Stats, Trajectory};
use pyo3::prelude::*;
use std::sync::Arc;

/// Trajectories that are at work at a time: their starts and paths are all that is copied.
const PIECE: usize = 256;

/// How often guards acted: `(diagonal_raised, exp_clamped, zero_pivot)`.
pub type Guards = (u64, u64, u64);

pub fn guards(stats: Stats) -> Guards {
    (stats.diagonal_raised, stats.exp_clamped, stats.zero_pivot)
}

type Moments<'py> = (ArrayOut<'py>, ArrayOut<'py>, Guards);

/// Calls `each(i, path)` with the moments of every trajectory, in the units of the data.
pub fn each_path(
    model: &Arc<nsde::Model>,
    options: Options,
    batch: &Batch<'_>,
    mut each: impl FnMut(usize, &Trajectory) -> nsde::Result<()>,
) -> nsde::Result<Guards> {
    let solver = solver::ready(model, options)?;
    // Streams of random numbers are counted within a call.
    let piece = if matches!(options.method, Method::MonteCarlo { .. }) { batch.count } else { PIECE };
    let mut total = (0, 0, 0);
    for first in (0..batch.count).step_by(piece.max(1)) {
        let range = first..(first + piece).min(batch.count);
        let starts: Vec<Gaussian> =
            range.clone().map(|i| batch.start(model, i)).collect::<nsde::Result<_>>()?;
        let inputs: Vec<Vec<f64>> = range.map(|i| batch.inputs(model, i)).collect();
        let rollouts: Vec<Rollout<'_>> = (starts.iter().zip(&inputs))
            .map(|(start, inputs)| Rollout { start, dts: batch.dts, inputs })
            .collect();
        let (mut paths, stats) = solver.solve_with_stats(&rollouts).map_err(|e| moved(e, first))?;
        for (i, path) in paths.iter_mut().enumerate() {
            model.to_data_trajectory(path);
            each(first + i, path)?;
        }
        let (a, b, c) = guards(stats);
        total = (total.0 + a, total.1 + b, total.2 + c);
    }
    Ok(total)
}

/// The error with its trajectory counted from the beginning of the batch.
fn moved(error: Error, first: usize) -> Error {
    match error {
        Error::NonFinite { trajectory, step } => Error::NonFinite { trajectory: trajectory + first, step },
        other => other,
    }
}

/// Means `[K, B, D]`, covariances `[K, B, D, D]`, and the guards that acted.
#[pyfunction]
pub fn predict<'py>(
    py: Python<'py>,
    this: &Model,
    arrays: Arrays<'_>,
    options: SolverOptions,
) -> Result<Moments<'py>> {
    let (model, options) = (this.get(), options.read()?);
    let batch = arrays.batch(&model)?;
    let (steps, count, d) = (batch.dts.len(), batch.count, model.sde.state());
    let (means, covs, guards) = py.detach(|| -> nsde::Result<_> {
        let mut means = vec![0.0; steps * count * d];
        let mut covs = vec![0.0; steps * count * d * d];
        let guards = each_path(&model, options, &batch, |i, path| {
            for k in 0..steps {
                let at = k * count + i;
                means[at * d..(at + 1) * d].copy_from_slice(path.mean(k));
                covs[at * d * d..(at + 1) * d * d].copy_from_slice(path.cov(k));
                if path.mean(k).iter().chain(path.cov(k)).any(|x| !x.is_finite()) {
                    return Err(Error::NonFinite { trajectory: i, step: k });
                }
            }
            Ok(())
        })?;
        Ok((means, covs, guards))
    })?;
    Ok((array(py, means, &[steps, count, d])?, array(py, covs, &[steps, count, d, d])?, guards))
}

/// Euler–Maruyama paths `[N, K, B, D]`; the options ask for Monte Carlo with `N` samples.
#[pyfunction]
pub fn sample<'py>(
    py: Python<'py>,
    this: &Model,
    arrays: Arrays<'_>,
    options: SolverOptions,
) -> Result<ArrayOut<'py>> {
    let (model, options) = (this.get(), options.read()?);
    let batch = arrays.batch(&model)?;
    let (steps, count, d) = (batch.dts.len(), batch.count, model.sde.state());
    let samples = if let Method::MonteCarlo { samples, .. } = options.method { samples } else { 0 };
    let states = py.detach(|| -> nsde::Result<_> {
        let solver = solver::ready(&model, options)?;
        let mut all = vec![0.0; samples * steps * count * d];
        for i in 0..count {
            let (start, inputs) = (batch.start(&model, i)?, batch.inputs(&model, i));
            let rollout = Rollout { start: &start, dts: batch.dts, inputs: &inputs };
            let mut states = solver.sample(i, rollout)?;
            model.to_data_samples(&mut states);
            for (at, x) in states.chunks_exact(d).enumerate() {
                let (k, n) = (at / samples, at % samples);
                all[((n * steps + k) * count + i) * d..][..d].copy_from_slice(x);
            }
        }
        Ok(all)
    })?;
    Ok(array(py, states, &[samples, steps, count, d])?)
}
