//! The likelihood of observations under a model, and gradients by the library's adjoints.

use crate::error::{Result, refuse};
use crate::model::{ArrayOut, Model, array};
use crate::options::SolverOptions;
use crate::predict::each_path;
use crate::solver;
use crate::start::{Arrays, Batch};
use nsde::{Gaussian, Rollout, Trajectory, nll_pull};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

type Array<'py> = PyReadonlyArrayDyn<'py, f64>;

/// `−log p` of the coordinates of `x` that are not NaN, and its cotangents times `bar`.
fn row(
    mean: &[f64],
    cov: &[f64],
    x: &[f64],
    bar: f64,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
) -> nsde::Result<f64> {
    let d = x.len();
    let seen: Vec<usize> = (0..d).filter(|i| !x[*i].is_nan()).collect();
    if seen.is_empty() {
        return Ok(0.0);
    }
    let n = seen.len();
    let pick = |v: &[f64]| seen.iter().map(|i| v[*i]).collect::<Vec<_>>();
    let part: Vec<f64> = seen.iter().flat_map(|i| seen.iter().map(move |j| cov[i * d + j])).collect();
    let (mut m, mut c) = (vec![0.0; n], vec![0.0; n * n]);
    let value = nll_pull(&pick(mean), &part, &pick(x), bar, &mut m, &mut c)?;
    for (a, i) in seen.iter().enumerate() {
        mean_bar[*i] += m[a];
        for (b, j) in seen.iter().enumerate() {
            cov_bar[i * d + j] += c[a * n + b];
        }
    }
    Ok(value)
}

/// Observations `[K, B, D]`, NaN where nothing was measured.
struct Observations<'a> {
    values: &'a [f64],
    count: usize,
    dim: usize,
    /// One over the number of rows with an observation: what a row counts in the mean.
    weight: f64,
}

impl<'a> Observations<'a> {
    fn new(y: &'a Array<'_>, batch: &Batch<'_>, dim: usize) -> Result<Self> {
        let shape = [batch.dts.len(), batch.count, dim];
        let values = match y.as_slice() {
            Ok(values) if y.shape() == shape => values,
            _ => return refuse(format!("y: expected shape {shape:?}, found {:?}", y.shape())),
        };
        if values.iter().any(|x| x.is_infinite()) {
            return refuse("y: an observation is infinite, but must be finite, or NaN where it is missing");
        }
        let rows = values.chunks(dim).filter(|x| x.iter().any(|x| !x.is_nan())).count();
        if rows == 0 {
            return refuse("y: there is no observation");
        }
        Ok(Observations { values, count: batch.count, dim, weight: 1.0 / rows as f64 })
    }

    fn row(&self, k: usize, i: usize) -> &[f64] {
        &self.values[(k * self.count + i) * self.dim..][..self.dim]
    }
}

/// Starts and inputs of all trajectories, in the units of the networks.
fn rollouts(model: &nsde::Model, batch: &Batch<'_>) -> nsde::Result<Vec<(Gaussian, Vec<f64>)>> {
    (0..batch.count).map(|i| Ok((batch.start(model, i)?, batch.inputs(model, i)))).collect()
}

fn borrow<'a>(own: &'a [(Gaussian, Vec<f64>)], dts: &'a [f64]) -> Vec<Rollout<'a>> {
    own.iter().map(|(start, inputs)| Rollout { start, dts, inputs }).collect()
}

/// Mean of `−log p` over all rows with an observation, in the units of the data.
#[pyfunction]
pub fn nll(
    py: Python<'_>,
    this: &Model,
    arrays: Arrays<'_>,
    y: Array<'_>,
    options: SolverOptions,
) -> Result<f64> {
    let (model, options) = (this.get(), options.read()?);
    let batch = arrays.batch(&model)?;
    let d = model.sde.state();
    let y = Observations::new(&y, &batch, d)?;
    let mut sum = 0.0;
    py.detach(|| {
        let (mut mean_bar, mut cov_bar) = (vec![0.0; d], vec![0.0; d * d]);
        each_path(&model, options, &batch, |i, path| {
            for k in 0..path.steps() {
                let x = y.row(k, i);
                sum += row(path.mean(k), path.cov(k), x, 0.0, &mut mean_bar, &mut cov_bar)?;
            }
            Ok(())
        })
    })?;
    Ok(sum * y.weight)
}

/// The same, and its derivative in every parameter, by name.
#[pyfunction]
pub fn nll_and_grad<'py>(
    py: Python<'py>,
    this: &Model,
    arrays: Arrays<'_>,
    y: Array<'_>,
    options: SolverOptions,
) -> Result<(f64, Bound<'py, PyDict>)> {
    let (model, options) = (this.get(), options.read()?);
    let batch = arrays.batch(&model)?;
    let d = model.sde.state();
    let y = Observations::new(&y, &batch, d)?;
    let result = py.detach(|| {
        let own = rollouts(&model, &batch)?;
        solver::ready(&model, options)?.gradient(&borrow(&own, batch.dts), |i, path, bar| {
            // The likelihood in the units of the networks differs by Σ log std, which has no gradient.
            let mut sum = 0.0;
            for k in 0..path.steps() {
                let mut x = y.row(k, i).to_vec();
                if let Some(s) = &model.scaling {
                    s.points_to_net(&mut x);
                    let seen = |(x, _): &(&f64, &f64)| !x.is_nan();
                    sum += x.iter().zip(&s.std).filter(seen).map(|(_, std)| std.ln()).sum::<f64>();
                }
                let (mean_bar, cov_bar) = bar.at_mut(k);
                sum += row(path.mean(k), path.cov(k), &x, y.weight, mean_bar, cov_bar)?;
            }
            Ok(sum * y.weight)
        })
    })?;
    Ok((result.value, Model::by_name(py, &model, &result.parameters)?))
}

/// Pulls cotangents of means `[K, B, D]` and covariances `[K, B, D, D]` back to the parameters (by name), the
/// means `[B, D]` and the covariances `[B, D, D]` of the starts.
#[pyfunction]
pub fn vjp<'py>(
    py: Python<'py>,
    this: &Model,
    arrays: Arrays<'_>,
    mean_bar: Array<'_>,
    cov_bar: Array<'_>,
    options: SolverOptions,
) -> Result<(Bound<'py, PyDict>, ArrayOut<'py>, ArrayOut<'py>)> {
    let (model, options) = (this.get(), options.read()?);
    let batch = arrays.batch(&model)?;
    let (steps, count, d) = (batch.dts.len(), batch.count, model.sde.state());
    let (Ok(mean), Ok(cov)) = (mean_bar.as_slice(), cov_bar.as_slice()) else {
        return refuse("cotangents: expected C-contiguous arrays");
    };
    if mean.len() != steps * count * d || cov.len() != steps * count * d * d {
        return refuse(format!(
            "cotangents: expected shapes [{steps}, {count}, {d}] and [{steps}, {count}, {d}, {d}]"
        ));
    }
    let std = model.scaling.as_ref().map_or_else(|| vec![1.0; d], |s| s.std.clone());
    let result = py.detach(|| {
        let own = rollouts(&model, &batch)?;
        solver::ready(&model, options)?.gradient(&borrow(&own, batch.dts), |i, _: &Trajectory, bar| {
            for k in 0..steps {
                let at = k * count + i;
                let (mean_bar, cov_bar) = bar.at_mut(k);
                for a in 0..d {
                    mean_bar[a] = mean[at * d + a] * std[a];
                    for b in 0..d {
                        cov_bar[a * d + b] = cov[(at * d + a) * d + b] * std[a] * std[b];
                    }
                }
            }
            Ok(0.0)
        })
    })?;
    let (mut means, mut covs) = (Vec::with_capacity(count * d), Vec::with_capacity(count * d * d));
    for bar in &result.starts {
        for a in 0..d {
            means.push(bar.mean[a] / std[a]);
            covs.extend((0..d).map(|b| bar.cov[a * d + b] / (std[a] * std[b])));
        }
    }
    let parameters = Model::by_name(py, &model, &result.parameters)?;
    Ok((parameters, array(py, means, &[count, d])?, array(py, covs, &[count, d, d])?))
}
