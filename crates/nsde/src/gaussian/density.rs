//! The Gaussian negative log-likelihood `½(log det 2πΣ + (x−μ)ᵀ Σ⁻¹ (x−μ))`, and its adjoint.

use crate::error::{Error, Result, dimension};
use crate::kernel::cholesky::{factor_strict, solve_lower, solve_upper};

fn factor(mean: &[f64], cov: &[f64], x: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
    let d = mean.len();
    dimension("observation", d, x.len())?;
    dimension("entries of the covariance", d * d, cov.len())?;
    let mut l = cov.to_vec();
    factor_strict(&mut l, d).map_err(|(pivot, value)| Error::NotPositiveDefinite { pivot, value })?;
    let mut z: Vec<f64> = x.iter().zip(mean).map(|(x, m)| x - m).collect();
    solve_lower(&l, d, &mut z);
    Ok((l, z))
}

/// `−log N(x | mean, cov)`: no hidden constants, no added jitter; fails if `cov` is singular.
pub fn nll(mean: &[f64], cov: &[f64], x: &[f64]) -> Result<f64> {
    let (l, z) = factor(mean, cov, x)?;
    Ok(value(&l, &z))
}

fn value(l: &[f64], z: &[f64]) -> f64 {
    let d = z.len();
    let log_det: f64 = (0..d).map(|i| 2.0 * l[i * d + i].ln()).sum();
    let square: f64 = z.iter().map(|z| z * z).sum();
    0.5 * (d as f64 * (2.0 * std::f64::consts::PI).ln() + log_det + square)
}

/// The squared Mahalanobis distance `(x−μ)ᵀ Σ⁻¹ (x−μ)`.
pub fn mahalanobis(mean: &[f64], cov: &[f64], x: &[f64]) -> Result<f64> {
    let (_, z) = factor(mean, cov, x)?;
    Ok(z.iter().map(|z| z * z).sum())
}

/// [`nll`] with its adjoint: adds `bar · ∂nll/∂μ` and `bar · ∂nll/∂Σ` to the cotangents.
///
/// ```text
/// ∂nll/∂μ = −v     ∂nll/∂Σ = ½(Σ⁻¹ − v vᵀ)     v = Σ⁻¹(x − μ)
/// ```
pub fn nll_pull(
    mean: &[f64],
    cov: &[f64],
    x: &[f64],
    bar: f64,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
) -> Result<f64> {
    let d = mean.len();
    let (l, z) = factor(mean, cov, x)?;
    let value = value(&l, &z);
    let mut v = z;
    solve_upper(&l, d, &mut v);
    let mut column = vec![0.0; d];
    for i in 0..d {
        mean_bar[i] -= bar * v[i];
        column.fill(0.0);
        column[i] = 1.0;
        solve_lower(&l, d, &mut column);
        solve_upper(&l, d, &mut column);
        for j in 0..d {
            cov_bar[i * d + j] += 0.5 * bar * (column[j] - v[i] * v[j]);
        }
    }
    Ok(value)
}
