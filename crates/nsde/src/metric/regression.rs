//! Scalar regression (Secs. 6.1–6.2): RMSE, NLL and ECPE of Gaussian predictions.

use super::coverage::{CalibrationPoint, Coverage, ecpe};
use super::{chi_squared_cdf, finite};
use crate::error::{Error, Result, dimension};
use crate::gaussian;
use serde::Serialize;

/// How the predictions `N(mean_i, var_i)` fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Number of targets.
    pub count: usize,
    /// `√(1/N Σ (y_i − mean_i)²)`.
    pub rmse: f64,
    /// `1/N Σ ½(log 2π var_i + (y_i − mean_i)²/var_i)`, in the units given: rescale before, not after.
    pub nll: f64,
    /// Expected coverage error of the central intervals, Eqs. 36–38 with `D = 1`.
    pub ecpe: f64,
    /// Share of the targets in the central interval of each level of [`LEVELS`](super::LEVELS).
    pub calibration: Vec<CalibrationPoint>,
}

/// Scores `N(mean_i, var_i)` against `target_i`.
///
/// ```text
/// p̂_j = 1/N Σ_i 1{(y_i − mean_i)²/var_i ≤ χ²_1(p_j)}        ECPE = 1/10 Σ_j |p̂_j − p_j|    Eqs. 36–38
/// ```
///
/// Fails if the lengths differ or are zero, a number is not finite, or a variance is not positive.
pub fn evaluate(mean: &[f64], var: &[f64], target: &[f64]) -> Result<Regression> {
    let n = target.len();
    dimension("regression: means", n, mean.len())?;
    dimension("regression: variances", n, var.len())?;
    if n == 0 {
        return Err(Error::Range {
            what: "regression: number of targets".into(),
            value: 0.0,
            must: "positive",
        });
    }
    finite(mean, "means")?;
    finite(target, "targets")?;
    if let Some(&value) = var.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
        return Err(Error::Range { what: "a variance".into(), value, must: "finite and positive" });
    }
    let (mut square, mut nll, mut coverage) = (0.0, 0.0, Coverage::default());
    for i in 0..n {
        let (m, v, y) = (&mean[i..=i], &var[i..=i], &target[i..=i]);
        square += (y[0] - m[0]).powi(2);
        nll += gaussian::nll(m, v, y)?;
        coverage.add(chi_squared_cdf(gaussian::mahalanobis(m, v, y)?, 1));
    }
    let calibration = coverage.curve();
    Ok(Regression {
        count: n,
        rmse: (square / n as f64).sqrt(),
        nll: nll / n as f64,
        ecpe: ecpe(&calibration),
        calibration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::sampling::normal;
    use nsde_check::{assert_close, assert_close_abs, seeded};

    #[test]
    fn two_targets_are_scored_by_hand() {
        let got = evaluate(&[0.0, 1.0], &[1.0, 4.0], &[0.5, -2.0]).unwrap();
        assert_eq!(got.count, 2);
        assert_close(got.rmse, ((0.25 + 9.0) / 2.0f64).sqrt(), 1e-15);
        let log_2pi = (2.0 * std::f64::consts::PI).ln();
        assert_close(got.nll, 0.25 * (2.0 * log_2pi + 4f64.ln() + 0.25 + 2.25), 1e-14);
        // |z| = 0.5 is in the central 38.3 %, |z| = 1.5 in the central 86.6 %.
        let empirical: Vec<f64> = got.calibration.iter().map(|c| c.empirical).collect();
        assert_eq!(empirical, [0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]);
        assert_close_abs(got.ecpe, (0.1 + 0.2 + 0.3 + 0.1 + 0.0 + 0.1 + 0.2 + 0.3 + 0.1) / 10.0, 1e-15);
    }

    #[test]
    fn right_predictions_are_calibrated() {
        let (n, mut rng) = (20_000, seeded(5));
        let var: Vec<f64> = (0..n).map(|i| 0.5 + (i % 7) as f64).collect();
        let target: Vec<f64> = var.iter().map(|v| 3.0 + v.sqrt() * normal(&mut rng)).collect();
        let got = evaluate(&vec![3.0; n], &var, &target).unwrap();
        for point in &got.calibration {
            let error = (point.level * (1.0 - point.level) / n as f64).sqrt();
            assert_close_abs(point.empirical, point.level, 5.0 * error);
        }
        let entropy: f64 =
            var.iter().map(|v| 0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E * v).ln()).sum();
        assert_close_abs(got.nll, entropy / n as f64, 5.0 * (0.5 / n as f64).sqrt());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(evaluate(&[], &[], &[]).is_err());
        assert!(evaluate(&[0.0], &[1.0, 1.0], &[0.0]).is_err());
        assert!(evaluate(&[0.0, 0.0], &[1.0], &[0.0]).is_err());
        for (m, v, y) in [(f64::NAN, 1.0, 0.0), (0.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 1.0, f64::NAN)] {
            assert!(evaluate(&[m], &[v], &[y]).is_err(), "{m} {v} {y}");
        }
    }
}
