//! One network on its own: a Gaussian through its layers, or points.

use crate::error::Result;
use crate::layers;
use crate::model::{ArrayOut, array};
use nsde::{Moments, Network};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Mean `[O]`, covariance `[O, O]` and expected Jacobian `[O, I]` of the network's output.
#[pyfunction]
pub fn moments<'py>(
    py: Python<'py>,
    net: &Bound<'_, PyList>,
    mean: PyReadonlyArray1<'_, f64>,
    cov: PyReadonlyArray2<'_, f64>,
    kind: &str,
    terms: usize,
) -> Result<(ArrayOut<'py>, ArrayOut<'py>, ArrayOut<'py>)> {
    let kind = match kind {
        "series" => Moments::Series { terms },
        "exact" => Moments::Exact,
        "paper" => Moments::Paper,
        other => {
            return crate::error::refuse(format!(
                "moments: {other:?} is not known; use 'series', 'exact' or 'paper'"
            ));
        }
    };
    let (mean, cov) = (mean.as_array().to_vec(), cov.as_array().iter().copied().collect::<Vec<_>>());
    let net: Network = layers::read(mean.len(), net)?;
    let out = py.detach(|| net.moments(&mean, &cov, kind))?;
    let (o, i) = (net.output(), net.input());
    Ok((array(py, out.mean, &[o])?, array(py, out.cov, &[o, o])?, array(py, out.jac, &[o, i])?))
}

/// The network on points `[N, I]`, dropout as the identity: `[N, O]`.
#[pyfunction]
pub fn evaluate<'py>(
    py: Python<'py>,
    net: &Bound<'_, PyList>,
    x: PyReadonlyArray2<'_, f64>,
) -> Result<ArrayOut<'py>> {
    let x = x.as_array();
    let (rows, width) = (x.nrows(), x.ncols());
    let net = layers::read(width, net)?;
    let x: Vec<f64> = x.iter().copied().collect();
    let out = py.detach(|| -> nsde::Result<Vec<f64>> {
        let mut out = Vec::with_capacity(rows * net.output());
        for row in x.chunks(width.max(1)) {
            out.extend(net.eval(row, None)?);
        }
        Ok(out)
    })?;
    Ok(array(py, out, &[rows, net.output()])?)
}
