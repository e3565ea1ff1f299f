//! The law of one coordinate, a mixture of scalar Gaussians: distribution, quantile and central intervals.

use super::crps::{crps_gaussian, crps_mixture};
use super::normal::normal_quantile;
use super::{INTERVALS, Predictive};
use crate::gaussian::special::cdf;
use std::sync::OnceLock;

/// Bisections after which an interval of `f64` cannot be halved any more.
const MAX_HALVINGS: usize = 2000;

/// `Σ_k w_k N(m_k, s_k²)`, the weights summing to one.
pub(super) struct Marginal {
    weights: Vec<f64>,
    means: Vec<f64>,
    sds: Vec<f64>,
}

impl Marginal {
    /// The law of coordinate `i`.
    pub(super) fn new(law: Predictive<'_>, i: usize) -> Self {
        let deviation = |cov: &[f64], d: usize| cov[i * d + i].max(0.0).sqrt();
        match law {
            Predictive::Gaussian { mean, cov } => {
                Marginal { weights: vec![1.0], means: vec![mean[i]], sds: vec![deviation(cov, mean.len())] }
            }
            Predictive::Mixture(mixture) => Marginal {
                weights: mixture.weights().to_vec(),
                means: mixture.components().iter().map(|c| c.mean[i]).collect(),
                sds: mixture.components().iter().map(|c| deviation(&c.cov, c.dim())).collect(),
            },
        }
    }

    /// `F(x) = Σ_k w_k Φ((x − m_k)/s_k)`.
    pub(super) fn cdf(&self, x: f64) -> f64 {
        self.mass(x, 1.0)
    }

    /// The mass below `x` if `side` is 1, above if it is −1; either keeps its relative accuracy.
    fn mass(&self, x: f64, side: f64) -> f64 {
        let part = |k: usize| {
            let d = side * (x - self.means[k]);
            // A point on x belongs to the lower side.
            let z = if d == 0.0 && self.sds[k] == 0.0 { side * f64::INFINITY } else { d / self.sds[k] };
            self.weights[k] * cdf(z)
        };
        (0..self.weights.len()).map(part).sum::<f64>().min(1.0)
    }

    /// The smallest `x` with `F(x) ≥ p`, by bisection between the quantiles of the components.
    pub(super) fn quantile(&self, p: f64) -> f64 {
        self.quantile_near(p, normal_quantile(p))
    }

    /// The same, for `z = Φ⁻¹(p)`.
    fn quantile_near(&self, p: f64, z: f64) -> f64 {
        let of_part =
            |k: usize| if self.sds[k] == 0.0 { self.means[k] } else { self.means[k] + self.sds[k] * z };
        let parts = (0..self.weights.len()).filter(|&k| self.weights[k] > 0.0).map(of_part);
        let (mut low, mut high) =
            parts.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), q| (q.min(low), q.max(high)));
        if low == high || !z.is_finite() {
            // All agree; or p is 0 or 1, where only point masses can be finite.
            return if z > 0.0 { high } else { low };
        }
        let is_below = |x: f64| if p < 0.5 { self.mass(x, 1.0) < p } else { self.mass(x, -1.0) > 1.0 - p };
        if !is_below(low) {
            return low;
        }
        for _ in 0..MAX_HALVINGS {
            let middle = low + 0.5 * (high - low);
            if middle <= low || middle >= high {
                break;
            }
            if is_below(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// The central intervals `[F⁻¹((1 − p)/2), F⁻¹((1 + p)/2)]` for the levels `p` of [`INTERVALS`].
    pub(super) fn central(&self) -> [(f64, f64); INTERVALS.len()] {
        static DEVIATIONS: OnceLock<[f64; INTERVALS.len()]> = OnceLock::new();
        let z = DEVIATIONS.get_or_init(|| INTERVALS.map(|p| normal_quantile(0.5 * (1.0 + p))));
        std::array::from_fn(|k| {
            let p = INTERVALS[k];
            (self.quantile_near(0.5 * (1.0 - p), -z[k]), self.quantile_near(0.5 * (1.0 + p), z[k]))
        })
    }

    /// CRPS against `x`.
    pub(super) fn crps(&self, x: f64) -> f64 {
        match self.weights.len() {
            1 => crps_gaussian(self.means[0], self.sds[0], x),
            _ => crps_mixture(&self.weights, &self.means, &self.sds, x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{assert_close, assert_close_abs, integrate};

    fn three() -> Marginal {
        Marginal { weights: vec![0.2, 0.5, 0.3], means: vec![-2.0, 0.4, 3.0], sds: vec![0.3, 1.2, 0.7] }
    }

    /// Σ_k w_k N(y | m_k, s_k²), written out.
    fn density(law: &Marginal, y: f64) -> f64 {
        let part = |k: usize| {
            let z = (y - law.means[k]) / law.sds[k];
            law.weights[k] * (-0.5 * z * z).exp() / (law.sds[k] * (2.0 * std::f64::consts::PI).sqrt())
        };
        (0..law.weights.len()).map(part).sum()
    }

    #[test]
    fn the_distribution_is_the_integral_of_the_density() {
        let law = three();
        for x in [-4.0, -2.0, -0.5, 1.0, 3.3, 6.0] {
            let mass = integrate(-40.0, x, &[-2.0, 0.4, 3.0], 0.0, |y| density(&law, y));
            assert_close(law.cdf(x), mass, 1e-12);
        }
    }

    #[test]
    fn the_quantile_leaves_the_probability_below_it() {
        let law = three();
        for p in [1e-9, 0.01, 0.2, 0.5, 0.77, 0.975] {
            let x = law.quantile(p);
            let mass = integrate(-40.0, x, &[-2.0, 0.4, 3.0], 0.0, |y| density(&law, y));
            assert_close(mass, p, 1e-12);
        }
        let above = integrate(law.quantile(1.0 - 1e-9), 40.0, &[], 0.0, |y| density(&law, y));
        assert_close(above, 1.0 - (1.0 - 1e-9), 1e-10);
    }

    #[test]
    fn one_component_has_the_normal_quantile() {
        let law = Marginal { weights: vec![0.5; 2], means: vec![3.0; 2], sds: vec![2.0; 2] };
        let (low, high) = law.central()[3];
        assert_close(high - low, 4.0 * 1.959_963_984_540_054, 1e-14);
        assert_close(low + high, 6.0, 1e-14);
        assert_eq!(law.quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(law.quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn points_are_steps() {
        let law = Marginal { weights: vec![0.4, 0.6], means: vec![1.0, 2.0], sds: vec![0.0, 0.0] };
        assert_eq!([0.9, 1.0, 1.5, 2.0].map(|x| law.cdf(x)), [0.0, 0.4, 0.4, 1.0]);
        assert_eq!([0.0, 0.3, 0.5, 1.0].map(|p| law.quantile(p)), [1.0, 1.0, 2.0, 2.0]);
        assert_close_abs(law.crps(1.0), 0.6 - 0.24, 1e-15);
    }

    #[test]
    fn a_component_without_weight_does_not_matter() {
        let law = Marginal { weights: vec![1.0, 0.0], means: vec![0.0, 1e9], sds: vec![1.0, 1.0] };
        assert_eq!(law.quantile(0.5), 0.0);
    }
}
