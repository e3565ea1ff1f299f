//! The continuous ranked probability score of a Gaussian and of a mixture of Gaussians, in closed form.

use crate::gaussian::special::{cdf, pdf};
use std::f64::consts::PI;

/// CRPS of `N(mean, sd²)` against `x`, in the units of `x`; smaller is better.
///
/// ```text
/// ∫ (F(y) − 1{y ≥ x})² dy = σ (z(2Φ(z) − 1) + 2φ(z) − 1/√π)        z = (x − μ)/σ
/// ```
///
/// The absolute error at `sd = 0`. Not a score of the paper, which has MSE, NLL and ECPE; unlike the NLL it
/// stays finite for a bad forecast.
pub fn crps_gaussian(mean: f64, sd: f64, x: f64) -> f64 {
    expected_distance(x - mean, sd) - sd / PI.sqrt()
}

/// CRPS of the mixture `Σ_k w_k N(m_k, s_k²)` against `x`; `weights` sum to one. Costs the square of the
/// number of components.
///
/// ```text
/// E|X − x| − ½ E|X − X'| = Σ_k w_k A(x − m_k, s_k) − ½ Σ_kl w_k w_l A(m_k − m_l, √(s_k² + s_l²))
/// A(d, s) = E|d + s z| = d(2Φ(d/s) − 1) + 2 s φ(d/s)
/// ```
///
/// # Panics
/// If the three slices differ in length.
#[track_caller]
pub fn crps_mixture(weights: &[f64], means: &[f64], sds: &[f64], x: f64) -> f64 {
    let n = weights.len();
    assert!(
        means.len() == n && sds.len() == n,
        "{n} weights, {} means, {} deviations",
        means.len(),
        sds.len()
    );
    let mut score = 0.0;
    for k in 0..n {
        // The term k = l of the double sum is A(0, √2 s) = 2s/√π.
        score += weights[k] * (expected_distance(x - means[k], sds[k]) - weights[k] * sds[k] / PI.sqrt());
        for l in 0..k {
            let between = expected_distance(means[k] - means[l], sds[k].hypot(sds[l]));
            score -= weights[k] * weights[l] * between;
        }
    }
    score
}

/// `E|d + s z|` for a standard normal `z`.
fn expected_distance(d: f64, s: f64) -> f64 {
    let z = d.abs() / s;
    // Also where s is zero or so small that z overflows: a point.
    if !z.is_finite() || s == 0.0 {
        return d.abs();
    }
    // 2Φ − 1 = 1 − 2Φ(−z), which is exact in the tail.
    d.abs() * (1.0 - 2.0 * cdf(-z)) + 2.0 * s * pdf(z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::activation::normal_cdf;
    use nsde_check::{assert_close, assert_close_abs, integrate};

    /// `∫ (F(y) − 1{y ≥ x})² dy`, the definition.
    fn by_definition(weights: &[f64], means: &[f64], sds: &[f64], x: f64) -> f64 {
        let below = |y: f64| -> f64 {
            weights.iter().zip(means).zip(sds).map(|((w, m), s)| w * normal_cdf((y - m) / s)).sum()
        };
        let mut breaks = means.to_vec();
        breaks.push(x);
        let square = |y: f64| if y < x { below(y).powi(2) } else { (1.0 - below(y)).powi(2) };
        integrate(-60.0, 60.0, &breaks, 0.0, square)
    }

    #[test]
    fn the_gaussian_score_is_its_definition() {
        for (mean, sd, x) in [(0.0, 1.0, 0.0), (0.3, 0.5, 2.0), (-1.0, 2.0, -4.0), (0.0, 0.2, 3.0)] {
            assert_close(crps_gaussian(mean, sd, x), by_definition(&[1.0], &[mean], &[sd], x), 1e-11);
        }
        assert_close(crps_gaussian(0.0, 1.0, 0.0), (2f64.sqrt() - 1.0) / PI.sqrt(), 1e-14);
    }

    #[test]
    fn the_mixture_score_is_its_definition() {
        let (weights, means, sds) = ([0.2, 0.5, 0.3], [-2.0, 0.4, 3.0], [0.3, 1.2, 0.7]);
        for x in [-6.0, -2.0, 0.0, 1.7, 3.0, 9.0] {
            let want = by_definition(&weights, &means, &sds, x);
            assert_close(crps_mixture(&weights, &means, &sds, x), want, 1e-11);
        }
    }

    #[test]
    fn one_component_is_a_gaussian_however_often_it_is_repeated() {
        for x in [-3.0, 0.1, 2.5] {
            let want = crps_gaussian(0.4, 0.9, x);
            assert_close(crps_mixture(&[1.0], &[0.4], &[0.9], x), want, 1e-15);
            assert_close(crps_mixture(&[0.25; 4], &[0.4; 4], &[0.9; 4], x), want, 1e-14);
        }
    }

    #[test]
    fn a_point_has_its_distance() {
        assert_eq!(crps_gaussian(1.0, 0.0, 3.5), 2.5);
        assert_eq!(crps_gaussian(1.0, 0.0, 1.0), 0.0);
        assert_close_abs(crps_gaussian(1.0, 1e-300, 3.5), 2.5, 0.0);
        // Two equal points: E|X − x| − ½E|X − X'| = 2 − ½.
        assert_eq!(crps_mixture(&[0.5, 0.5], &[0.0, 2.0], &[0.0, 0.0], 3.0), 1.5);
    }
}
