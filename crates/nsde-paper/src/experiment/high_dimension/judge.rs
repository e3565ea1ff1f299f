//! Scores of a forecast from one start for many paths: the covariance of a row is factored once for all of
//! them.

use super::frame::Frame;
use super::process::ROWS;
use crate::cholesky::{cholesky, solve};
use anyhow::Result;
use ndarray::Array2;
use nsde::Gaussian;
use nsde::metric::{CalibrationPoint, LEVELS, chi_squared_cdf, ecpe};
use serde::{Deserialize, Serialize};

/// How good a forecast is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Score {
    /// Error of the coverage over all rows and paths (Eq. 36). A singular covariance covers nothing.
    pub ecpe: f64,
    /// `1/K Σ_k ‖r_k − r̂_k‖²/‖r_k‖²` against the mean of the analytic law.
    pub mean: f64,
    /// The same of the covariance, by Frobenius' norm.
    pub cov: f64,
}

/// Scores `forecast`, in the coordinates of `frame`, against the analytic `law`, and in the same coordinates
/// against `paths`.
pub fn score(
    frame: &Frame,
    forecast: &[Gaussian],
    law: &[Gaussian],
    paths: &[Array2<f64>],
    singular: bool,
) -> Result<Score> {
    let relative = |a: &[f64], b: &[f64]| {
        let gap: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
        gap / b.iter().map(|b| b * b).sum::<f64>()
    };
    let (mut mean, mut cov) = (0.0, 0.0);
    for (forecast, law) in forecast.iter().zip(law) {
        let forecast = frame.coloured(forecast)?;
        mean += relative(&forecast.mean, &law.mean) / ROWS as f64;
        cov += relative(&forecast.cov, &law.cov) / ROWS as f64;
    }
    Ok(Score { ecpe: coverage(forecast, paths, singular), mean, cov })
}

fn coverage(forecast: &[Gaussian], paths: &[Array2<f64>], singular: bool) -> f64 {
    let mut inside = [0_u64; LEVELS.len()];
    for (k, law) in forecast.iter().enumerate() {
        let dim = law.mean.len();
        let factor = if singular { None } else { cholesky(&law.cov, dim) };
        for path in paths {
            // On a covariance without volume the distance is infinite: outside of all but the last region.
            let region = factor.as_ref().map_or(1.0, |factor| {
                let mut away: Vec<f64> = path.row(k + 1).iter().zip(&law.mean).map(|(x, m)| x - m).collect();
                solve(factor, &mut away);
                chi_squared_cdf(away.iter().map(|u| u * u).sum(), dim)
            });
            for (count, level) in inside.iter_mut().zip(LEVELS) {
                *count += u64::from(region <= level);
            }
        }
    }
    let all = (forecast.len() * paths.len()) as f64;
    let point = |j: usize| CalibrationPoint { level: LEVELS[j], empirical: inside[j] as f64 / all };
    ecpe(&(0..LEVELS.len()).map(point).collect::<Vec<_>>())
}
