//! Scores of many predictions at once (Sec. 6.1), over plain arrays.

use crate::error::Result;
use crate::model::{ArrayOut, array};
use nsde::metric::{self, Score, classification as classes};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

/// For each of `N` predictions: `−log p`, the squared Mahalanobis distance, and the probability of the ellipsoid that
/// has the observation on its rim; NaN where nothing was observed.
#[pyfunction]
pub fn scores<'py>(
    py: Python<'py>,
    mean: PyReadonlyArray2<'_, f64>,
    cov: PyReadonlyArray3<'_, f64>,
    y: PyReadonlyArray2<'_, f64>,
) -> Result<(ArrayOut<'py>, ArrayOut<'py>, ArrayOut<'py>)> {
    let (mean, cov, y) = (mean.as_array(), cov.as_array(), y.as_array());
    let n = y.nrows();
    let (mut nll, mut distance, mut region) =
        (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
    for i in 0..n {
        let (m, x) = (mean.row(i).to_vec(), y.row(i).to_vec());
        let c: Vec<f64> = cov.index_axis(numpy::ndarray::Axis(0), i).iter().copied().collect();
        let score = Score::new(metric::Predictive::Gaussian { mean: &m, cov: &c }, &x)?;
        let [a, b, c] = score.map_or([f64::NAN; 3], |s| [s.nll, s.squared_mahalanobis, s.region]);
        nll.push(a);
        distance.push(b);
        region.push(c);
    }
    Ok((array(py, nll, &[n])?, array(py, distance, &[n])?, array(py, region, &[n])?))
}

/// For each scalar prediction `N(mean, var)`: the CRPS and the probability integral transform.
#[pyfunction]
pub fn marginals<'py>(
    py: Python<'py>,
    mean: PyReadonlyArray1<'_, f64>,
    var: PyReadonlyArray1<'_, f64>,
    y: PyReadonlyArray1<'_, f64>,
) -> Result<(ArrayOut<'py>, ArrayOut<'py>)> {
    let (mean, var, y) = (mean.as_array(), var.as_array(), y.as_array());
    let n = y.len();
    let (mut crps, mut pit) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for i in 0..n {
        let law = metric::Predictive::Gaussian { mean: &[mean[i]], cov: &[var[i]] };
        let score = Score::new(law, &[y[i]])?.and_then(|s| s.coordinates.into_iter().next());
        crps.push(score.as_ref().map_or(f64::NAN, |s| s.crps));
        pit.push(score.as_ref().map_or(f64::NAN, |s| s.pit));
    }
    Ok((array(py, crps, &[n])?, array(py, pit, &[n])?))
}

/// Accuracy, NLL and ECE of class probabilities `[N, classes]`.
#[pyfunction]
pub fn classification(
    probabilities: PyReadonlyArray2<'_, f64>,
    labels: PyReadonlyArray1<'_, i64>,
) -> Result<(f64, f64, f64)> {
    let p = probabilities.as_array();
    let labels: Vec<usize> = labels.as_array().iter().map(|y| *y as usize).collect();
    let flat: Vec<f64> = p.iter().copied().collect();
    let found = classes::evaluate(&flat, p.ncols(), &labels)?;
    Ok((found.accuracy, found.nll, found.ece))
}

/// `Φ⁻¹(p)` for `p` in `[0, 1]`.
#[pyfunction]
pub fn normal_quantile(p: f64) -> f64 {
    metric::normal_quantile(p.clamp(0.0, 1.0))
}
