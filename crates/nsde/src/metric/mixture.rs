//! Mixtures of Gaussians, `Σ_k w_k N(μ_k, Σ_k)`: what an ensemble or several starts predict.

use super::Predictive;
use super::marginal::Marginal;
use super::missing::{finite, marginal, observed};
use crate::error::{Error, Result, dimension};
use crate::gaussian::{self, Gaussian};

/// Weights may miss the sum one by this much; they are then divided by their sum.
const WEIGHT_NOISE: f64 = 1e-6;

/// A mixture of Gaussians of one dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    weights: Vec<f64>,
    components: Vec<Gaussian>,
}

impl Mixture {
    /// Checks that there is a component, that the sizes agree, and that the weights are not negative and
    /// sum to one (within 1e-6; they are normalised).
    pub fn new(weights: Vec<f64>, components: Vec<Gaussian>) -> Result<Self> {
        dimension("mixture: weights", components.len(), weights.len())?;
        let Some(first) = components.first() else {
            return Err(Error::Range {
                what: "mixture: components".into(),
                value: 0.0,
                must: "at least one",
            });
        };
        for (k, part) in components.iter().enumerate() {
            gaussian::check(&part.mean, &part.cov, first.dim(), &format!("mixture: component {k}"))?;
        }
        if let Some(&value) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            let what = "mixture: a weight".into();
            return Err(Error::Range { what, value, must: "finite and not negative" });
        }
        let sum: f64 = weights.iter().sum();
        if (sum - 1.0).abs() > WEIGHT_NOISE {
            return Err(Error::Range { what: "mixture: sum of the weights".into(), value: sum, must: "one" });
        }
        Ok(Mixture { weights: weights.iter().map(|w| w / sum).collect(), components })
    }

    /// A mixture of equal weights.
    pub fn equal(components: Vec<Gaussian>) -> Result<Self> {
        let n = components.len();
        Mixture::new(vec![1.0 / n as f64; n], components)
    }

    /// `w_k`, which sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The Gaussians.
    pub fn components(&self) -> &[Gaussian] {
        &self.components
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.components[0].dim()
    }

    /// Mean and covariance of the mixture: the Gaussian with its first two moments.
    ///
    /// ```text
    /// μ = Σ_k w_k μ_k        Σ = Σ_k w_k (Σ_k + (μ_k − μ)(μ_k − μ)ᵀ)
    /// ```
    pub fn moments(&self) -> Gaussian {
        let d = self.dim();
        let (mut mean, mut cov) = (vec![0.0; d], vec![0.0; d * d]);
        for (w, part) in self.weights.iter().zip(&self.components) {
            for i in 0..d {
                mean[i] += w * part.mean[i];
            }
        }
        for (w, part) in self.weights.iter().zip(&self.components) {
            for i in 0..d {
                for j in 0..d {
                    let between = (part.mean[i] - mean[i]) * (part.mean[j] - mean[j]);
                    cov[i * d + j] += w * (part.cov[i * d + j] + between);
                }
            }
        }
        Gaussian { mean, cov }
    }

    /// `−log Σ_k w_k N(x | μ_k, Σ_k)` over the coordinates of `x` that are not NaN, by log-sum-exp. Zero if
    /// none is observed; fails if a component with weight is singular.
    pub fn nll(&self, x: &[f64]) -> Result<f64> {
        dimension("observation", self.dim(), x.len())?;
        let index = observed(x)?;
        let mut logs = Vec::with_capacity(self.weights.len());
        for (w, part) in self.weights.iter().zip(&self.components) {
            if *w > 0.0 {
                let (mean, cov, x) = marginal(&part.mean, &part.cov, x, &index);
                finite(&mean, "mean")?;
                logs.push(w.ln() - gaussian::nll(&mean, &cov, &x)?);
            }
        }
        let top = logs.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        if top == f64::NEG_INFINITY {
            return Ok(f64::INFINITY);
        }
        Ok(-top - logs.iter().map(|l| (l - top).exp()).sum::<f64>().ln())
    }

    /// `P(x_i ≤ x)` of coordinate `i`.
    ///
    /// # Panics
    /// If there is no coordinate `i`; so do [`quantile`](Mixture::quantile) and [`crps`](Mixture::crps).
    #[track_caller]
    pub fn cdf(&self, i: usize, x: f64) -> f64 {
        self.coordinate(i).cdf(x)
    }

    /// The smallest `x` with `P(x_i ≤ x) ≥ p`, by bisection to the last digit.
    #[track_caller]
    pub fn quantile(&self, i: usize, p: f64) -> f64 {
        self.coordinate(i).quantile(p)
    }

    /// CRPS of coordinate `i` against `x`, see [`crps_mixture`](super::crps_mixture).
    #[track_caller]
    pub fn crps(&self, i: usize, x: f64) -> f64 {
        self.coordinate(i).crps(x)
    }

    #[track_caller]
    fn coordinate(&self, i: usize) -> Marginal {
        assert!(i < self.dim(), "coordinate {i} of {}", self.dim());
        Marginal::new(Predictive::Mixture(self), i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::sampling::{normal, uniform};
    use nsde_check::{assert_close, assert_close_abs, integrate, sample_moments, seeded, standard_errors};

    fn two() -> Mixture {
        let first = Gaussian::new(vec![0.5, -1.0], vec![1.0, 0.3, 0.3, 0.5]).unwrap();
        let second = Gaussian::new(vec![-2.0, 1.0], vec![0.4, -0.1, -0.1, 0.2]).unwrap();
        Mixture::new(vec![0.3, 0.7], vec![first, second]).unwrap()
    }

    /// N(x | m, S) in two dimensions, with determinant and inverse written out.
    fn density(m: &[f64], s: &[f64], x: [f64; 2]) -> f64 {
        let det = s[0] * s[3] - s[1] * s[2];
        let (a, b) = (x[0] - m[0], x[1] - m[1]);
        let square = (s[3] * a * a - 2.0 * s[1] * a * b + s[0] * b * b) / det;
        (-0.5 * square).exp() / (2.0 * std::f64::consts::PI * det.sqrt())
    }

    #[test]
    fn the_likelihood_is_that_of_the_sum_of_densities() {
        let mixture = two();
        for x in [[0.0, 0.0], [0.5, -1.0], [-3.0, 2.0], [4.0, -2.0]] {
            let parts = mixture.components();
            let sum: f64 = (0..2).map(|k| [0.3, 0.7][k] * density(&parts[k].mean, &parts[k].cov, x)).sum();
            assert_close_abs(mixture.nll(&x).unwrap(), -sum.ln(), 1e-13);
        }
    }

    #[test]
    fn a_missing_coordinate_is_integrated_out() {
        let mixture = two();
        let joint = |y: f64| (-mixture.nll(&[0.7, y]).unwrap()).exp();
        let mass = integrate(-15.0, 15.0, &[-1.0, 1.0], 0.0, joint);
        assert_close_abs(mixture.nll(&[0.7, f64::NAN]).unwrap(), -mass.ln(), 1e-12);
        assert_close_abs(mixture.nll(&[f64::NAN; 2]).unwrap(), 0.0, 1e-15);
    }

    #[test]
    fn a_far_observation_does_not_underflow() {
        let nll = two().nll(&[1e4, 0.0]).unwrap();
        // Σ_1⁻¹ has 0.5/0.41 in its first entry: the wider component decides.
        assert!(nll.is_finite() && (nll / (0.5 * 1e8 * 0.5 / 0.41) - 1.0).abs() < 1e-3, "{nll}");
    }

    #[test]
    fn the_moments_are_those_of_its_draws() {
        let (mixture, mut rng) = (two(), seeded(1));
        let mut draws = Vec::new();
        for _ in 0..100_000 {
            let part = &mixture.components()[usize::from(uniform(0.0, 1.0, &mut rng) >= 0.3)];
            let (a, b) = (normal(&mut rng), normal(&mut rng));
            let first = part.cov[0].sqrt();
            let slope = part.cov[1] / first;
            let rest = (part.cov[3] - slope * slope).sqrt();
            draws.extend([part.mean[0] + first * a, part.mean[1] + slope * a + rest * b]);
        }
        let (mean, cov) = sample_moments(&draws, 2);
        let (mean_error, cov_error) = standard_errors(&draws, 2);
        let moments = mixture.moments();
        for i in 0..2 {
            assert_close_abs(moments.mean[i], mean[i], 5.0 * mean_error[i]);
        }
        for k in 0..4 {
            assert_close_abs(moments.cov[k], cov[k], 5.0 * cov_error[k]);
        }
    }

    #[test]
    fn coordinates_answer_for_themselves() {
        let mixture = two();
        for p in [0.01, 0.4, 0.9] {
            assert_close(mixture.cdf(1, mixture.quantile(1, p)), p, 1e-13);
        }
        let want = super::super::crps_mixture(&[0.3, 0.7], &[0.5, -2.0], &[1.0, 0.4f64.sqrt()], 0.2);
        assert_eq!(mixture.crps(0, 0.2), want);
    }

    #[test]
    fn what_is_not_a_mixture_is_refused() {
        let point = |d: usize| Gaussian::isotropic(vec![0.0; d], 1.0).unwrap();
        for (weights, components) in [
            (vec![], vec![]),
            (vec![1.0], vec![point(1), point(1)]),
            (vec![0.5, 0.5], vec![point(1), point(2)]),
            (vec![1.5, -0.5], vec![point(1), point(1)]),
            (vec![0.5, 0.4], vec![point(1), point(1)]),
            (vec![f64::NAN, 1.0], vec![point(1), point(1)]),
        ] {
            assert!(Mixture::new(weights.clone(), components).is_err(), "{weights:?}");
        }
        assert!(Mixture::equal(vec![]).is_err());
        assert!(two().nll(&[0.0]).is_err());
    }
}
