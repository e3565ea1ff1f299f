//! The affine regression head `y = W x + b` (Sec. 6.2): `p(y) = ∫ p(x) p(y|x) dx` in closed form.

use super::{Head, affine, file};
use crate::error::{Error, Result, dimension};
use crate::gaussian::{Gaussian, nll, nll_pull};
use crate::layer::Linear;
use crate::model::Tensor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `y = W x + b + noise` with `D + 1` parameters per output, or `D + 2` with observation noise.
///
/// ```text
/// x ~ N(μ, Σ)   ⇒   y ~ N(Wμ + b, WΣWᵀ + diag(exp ν))
/// ```
///
/// Without noise, more outputs than state dimensions have a singular covariance and no likelihood.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearHead {
    linear: Linear,
    noise: Option<Vec<f64>>,
}

impl LinearHead {
    /// A head without observation noise, as in the paper.
    pub fn new(linear: Linear) -> Self {
        LinearHead { linear, noise: None }
    }

    /// Adds learned observation noise: the logarithm `ν` of its variance, for each output.
    pub fn with_noise(self, log_var: Vec<f64>) -> Result<Self> {
        dimension("head: observation noise", self.linear.output(), log_var.len())?;
        if let Some(bad) = log_var.iter().find(|x| !x.is_finite()) {
            return Err(Error::Range {
                what: "log-variance of the noise".into(),
                value: *bad,
                must: "finite",
            });
        }
        Ok(LinearHead { noise: Some(log_var), ..self })
    }

    /// Log-variances of the observation noise, if there is any.
    pub fn noise(&self) -> Option<&[f64]> {
        self.noise.as_deref()
    }
}

impl Head for LinearHead {
    type Target = [f64];
    type Prediction = Gaussian;

    fn linear(&self) -> &Linear {
        &self.linear
    }

    fn targets(&self) -> usize {
        self.linear.output()
    }

    fn parameters(&self) -> Vec<f64> {
        [self.linear.weight(), self.linear.bias(), self.noise().unwrap_or_default()].concat()
    }

    fn set_parameters(&mut self, flat: &[f64]) -> Result<()> {
        dimension("head: parameters", self.parameter_count(), flat.len())?;
        let (weight, rest) = flat.split_at(self.linear.weight.len());
        let (bias, noise) = rest.split_at(self.linear.bias.len());
        self.linear.weight.copy_from_slice(weight);
        self.linear.bias.copy_from_slice(bias);
        if let Some(own) = &mut self.noise {
            own.copy_from_slice(noise);
        }
        Ok(())
    }

    fn predict(&self, mean: &[f64], cov: &[f64]) -> Result<Gaussian> {
        let mut y = affine::push(&self.linear, mean, cov)?;
        let o = y.dim();
        for (i, log_var) in self.noise().unwrap_or_default().iter().enumerate() {
            y.cov[i * o + i] += log_var.exp();
        }
        Ok(y)
    }

    /// `½(log det 2πS + (y − m)ᵀ S⁻¹ (y − m))` with the predictive moments `m`, `S`.
    fn nll(&self, mean: &[f64], cov: &[f64], target: &[f64]) -> Result<f64> {
        let y = self.predict(mean, cov)?;
        nll(&y.mean, &y.cov, target)
    }

    fn pull(
        &self,
        mean: &[f64],
        cov: &[f64],
        target: &[f64],
        bar: f64,
        mean_bar: &mut [f64],
        cov_bar: &mut [f64],
        grad: &mut [f64],
    ) -> Result<f64> {
        let y = self.predict(mean, cov)?;
        let o = y.dim();
        let mut y_bar = Gaussian { mean: vec![0.0; o], cov: vec![0.0; o * o] };
        let value = nll_pull(&y.mean, &y.cov, target, bar, &mut y_bar.mean, &mut y_bar.cov)?;
        let first = self.linear.weight.len() + o;
        for (i, log_var) in self.noise().unwrap_or_default().iter().enumerate() {
            grad[first + i] += y_bar.cov[i * o + i] * log_var.exp();
        }
        affine::pull(&self.linear, mean, cov, &y_bar, mean_bar, cov_bar, grad);
        Ok(value)
    }

    fn write(&self, description: &mut Map<String, Value>, tensors: &mut BTreeMap<String, Tensor>) {
        description.insert("type".into(), "linear".into());
        file::put_linear(tensors, "head", &self.linear);
        if let Some(noise) = self.noise() {
            tensors.insert("head.noise".into(), Tensor { shape: vec![noise.len()], values: noise.to_vec() });
        }
    }

    fn read(description: &Map<String, Value>, tensors: &BTreeMap<String, Tensor>) -> Result<Self> {
        file::expect_kind(description, "linear")?;
        let head = LinearHead::new(file::take_linear(tensors, "head")?);
        match tensors.get("head.noise") {
            Some(noise) => head.with_noise(noise.values.clone()),
            None => Ok(head),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nsde_check::{assert_close, directional, random_spd, random_vec, seeded};

    /// `pull` against differences of `nll` in a random direction of state and parameters.
    pub(in super::super) fn check_pull<H: Head<Target = [f64]>>(head: &H, d: usize, seed: u64) {
        let rng = &mut seeded(seed + 100);
        let (n, o) = (head.parameter_count(), head.targets());
        let (mean, cov, target) = (random_vec(d, rng), random_spd(d, d + 1, rng), random_vec(o, rng));
        let (mean_v, cov_v, par_v) = (random_vec(d, rng), random_spd(d, d, rng), random_vec(n, rng));
        let (mut mean_bar, mut cov_bar, mut grad) = (vec![0.0; d], vec![0.0; d * d], vec![0.0; n]);
        let value = head.pull(&mean, &cov, &target, 0.7, &mut mean_bar, &mut cov_bar, &mut grad).unwrap();
        assert_close(value, head.nll(&mean, &cov, &target).unwrap(), 1e-15);
        let along =
            |x: &[f64], v: &[f64], t: f64| -> Vec<f64> { x.iter().zip(v).map(|(x, v)| x + t * v).collect() };
        let f = |t: f64| {
            let mut moved = head.clone();
            moved.set_parameters(&along(&head.parameters(), &par_v, t)).unwrap();
            0.7 * moved.nll(&along(&mean, &mean_v, t), &along(&cov, &cov_v, t), &target).unwrap()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let pulled = dot(&mean_bar, &mean_v) + dot(&cov_bar, &cov_v) + dot(&grad, &par_v);
        assert_close(directional(f, 1e-4), pulled, 1e-6);
    }

    #[test]
    fn pull_is_the_adjoint_of_the_likelihood() {
        for seed in 0..20 {
            let rng = &mut seeded(seed);
            let (d, o) = (4, 1 + seed as usize % 3);
            let mut head = LinearHead::new(Linear::random(d, o, rng).unwrap());
            if seed % 2 == 1 {
                head = head.with_noise(random_vec(o, rng)).unwrap();
            }
            assert_eq!(head.parameter_count(), o * (d + 1) + if seed % 2 == 1 { o } else { 0 });
            check_pull(&head, d, seed);
        }
    }

    #[test]
    fn more_outputs_than_dimensions_need_noise() {
        let rng = &mut seeded(3);
        let head = LinearHead::new(Linear::random(1, 2, rng).unwrap());
        let none = head.nll(&[0.3], &[1.0], &[0.0, 0.0]);
        assert!(matches!(none, Err(Error::NotPositiveDefinite { .. })));
        let head = head.with_noise(vec![-2.0, -2.0]).unwrap();
        assert!(head.nll(&[0.3], &[1.0], &[0.0, 0.0]).unwrap().is_finite());
        assert!(head.nll(&[0.3], &[1.0], &[0.0]).is_err());
        assert!(head.clone().with_noise(vec![0.0]).is_err());
        assert!(head.with_noise(vec![0.0, f64::NAN]).is_err());
    }
}
