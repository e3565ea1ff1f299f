//! The softmax classification head (Sec. 6.3): `p(y) = E[softmax(W x + b)_y]` for `x ~ N(μ, Σ)`.

use super::{Head, affine, expectation, file};
use crate::error::{Error, Result, dimension};
use crate::gaussian::Gaussian;
use crate::layer::Linear;
use crate::model::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What training minimises. Predictions and scores are of `E[softmax]` either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoftmaxObjective {
    /// `−log E[p_y]`, the likelihood.
    #[default]
    Expected,
    /// `−E[log p_y]` with the log-sum-exp expanded to second order about the mean, as in deterministic
    /// variational inference (Wu et al.): `−m_y + log Σ exp m + ½(pᵀ diag S − pᵀ S p)`, `p = softmax(m)`.
    /// Exact, it would be an upper bound of the likelihood's objective (Jensen); expanded, it is one for
    /// narrow logits only.
    Dvi,
}

/// `K` classes with logits `W x + b`, `K(D + 1)` parameters. Costs `K·D² + K²·D + K³`.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxHead {
    linear: Linear,
    objective: SoftmaxObjective,
}

impl SoftmaxHead {
    /// One output of `linear` per class, at least two.
    pub fn new(linear: Linear, objective: SoftmaxObjective) -> Result<Self> {
        if linear.output() < 2 {
            return Err(Error::Range {
                what: "classes".into(),
                value: linear.output() as f64,
                must: "at least 2",
            });
        }
        Ok(SoftmaxHead { linear, objective })
    }

    /// Number of classes `K`.
    pub fn classes(&self) -> usize {
        self.linear.output()
    }

    /// What training minimises.
    pub fn objective(&self) -> SoftmaxObjective {
        self.objective
    }

    /// `N(Wμ + b, WΣWᵀ)`, before the softmax.
    pub fn logits(&self, mean: &[f64], cov: &[f64]) -> Result<Gaussian> {
        affine::push(&self.linear, mean, cov)
    }

    fn check(&self, label: usize) -> Result<()> {
        if label >= self.classes() {
            let what = format!("label ({} classes)", self.classes());
            return Err(Error::Range { what, value: label as f64, must: "less than the number of classes" });
        }
        Ok(())
    }
}

impl Head for SoftmaxHead {
    type Target = usize;
    type Prediction = Vec<f64>;

    fn linear(&self) -> &Linear {
        &self.linear
    }

    fn targets(&self) -> usize {
        1
    }

    fn parameters(&self) -> Vec<f64> {
        [self.linear.weight(), self.linear.bias()].concat()
    }

    fn set_parameters(&mut self, flat: &[f64]) -> Result<()> {
        dimension("head: parameters", self.parameter_count(), flat.len())?;
        let (weight, bias) = flat.split_at(self.linear.weight.len());
        self.linear.weight.copy_from_slice(weight);
        self.linear.bias.copy_from_slice(bias);
        Ok(())
    }

    /// `E[softmax]`: one probability per class, in sum 1. Two classes by quadrature to 1e-13, more by `2K`-point
    /// cubature to about 0.01 at a deviation of 1 of the logits.
    fn predict(&self, mean: &[f64], cov: &[f64]) -> Result<Vec<f64>> {
        let l = self.logits(mean, cov)?;
        Ok(expectation::probabilities(&l.mean, &l.cov))
    }

    /// `−log E[p_y]`, whatever training minimises.
    fn nll(&self, mean: &[f64], cov: &[f64], target: &usize) -> Result<f64> {
        self.check(*target)?;
        let l = self.logits(mean, cov)?;
        let k = self.classes();
        let (mut mean_bar, mut cov_bar) = (vec![0.0; k], vec![0.0; k * k]);
        Ok(expectation::nll_pull(&l.mean, &l.cov, *target, 0.0, &mut mean_bar, &mut cov_bar))
    }

    fn pull(
        &self,
        mean: &[f64],
        cov: &[f64],
        target: &usize,
        bar: f64,
        mean_bar: &mut [f64],
        cov_bar: &mut [f64],
        grad: &mut [f64],
    ) -> Result<f64> {
        self.check(*target)?;
        let l = self.logits(mean, cov)?;
        let k = self.classes();
        let mut l_bar = Gaussian { mean: vec![0.0; k], cov: vec![0.0; k * k] };
        let rule = match self.objective {
            SoftmaxObjective::Expected => expectation::nll_pull,
            SoftmaxObjective::Dvi => expectation::dvi_pull,
        };
        let value = rule(&l.mean, &l.cov, *target, bar, &mut l_bar.mean, &mut l_bar.cov);
        affine::pull(&self.linear, mean, cov, &l_bar, mean_bar, cov_bar, grad);
        Ok(value)
    }

    fn write(&self, description: &mut Map<String, Value>, tensors: &mut BTreeMap<String, Tensor>) {
        let objective = match self.objective {
            SoftmaxObjective::Expected => "expected",
            SoftmaxObjective::Dvi => "dvi",
        };
        description.insert("type".into(), "softmax".into());
        description.insert("objective".into(), objective.into());
        file::put_linear(tensors, "head", &self.linear);
    }

    fn read(description: &Map<String, Value>, tensors: &BTreeMap<String, Tensor>) -> Result<Self> {
        file::expect_kind(description, "softmax")?;
        let objective = match description.get("objective") {
            None => SoftmaxObjective::default(),
            Some(value) => serde_json::from_value(value.clone())
                .map_err(|_| file::refuse(format!("`objective` is {value}; use \"expected\" or \"dvi\"")))?,
        };
        SoftmaxHead::new(file::take_linear(tensors, "head")?, objective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{assert_close, directional, random_spd, random_vec, seeded};

    /// Also for more classes than dimensions, where the covariance of the logits is singular.
    #[test]
    fn pull_is_the_adjoint_of_both_objectives() {
        for seed in 0..70 {
            let rng = &mut seeded(seed);
            let (d, k) = (3, [2, 3, 4, 5, 6, 12, 30][seed as usize % 7]);
            let objective = if seed % 2 == 0 { SoftmaxObjective::Expected } else { SoftmaxObjective::Dvi };
            let head = SoftmaxHead::new(Linear::random(d, k, rng).unwrap(), objective).unwrap();
            let n = head.parameter_count();
            let (mean, cov, label) = (random_vec(d, rng), random_spd(d, d + 1, rng), seed as usize % k);
            let (mean_v, cov_v, par_v) = (random_vec(d, rng), random_spd(d, d, rng), random_vec(n, rng));
            let (mut mean_bar, mut cov_bar, mut grad) = (vec![0.0; d], vec![0.0; d * d], vec![0.0; n]);
            head.pull(&mean, &cov, &label, 0.6, &mut mean_bar, &mut cov_bar, &mut grad).unwrap();
            let along = |x: &[f64], v: &[f64], t: f64| -> Vec<f64> {
                x.iter().zip(v).map(|(x, v)| x + t * v).collect()
            };
            let f = |t: f64| {
                let mut moved = head.clone();
                moved.set_parameters(&along(&head.parameters(), &par_v, t)).unwrap();
                let (m, c) = (along(&mean, &mean_v, t), along(&cov, &cov_v, t));
                0.6 * moved
                    .pull(&m, &c, &label, 0.0, &mut vec![0.0; d], &mut vec![0.0; d * d], &mut vec![0.0; n])
                    .unwrap()
            };
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let pulled = dot(&mean_bar, &mean_v) + dot(&cov_bar, &cov_v) + dot(&grad, &par_v);
            assert_close(directional(f, 1e-4), pulled, 1e-6);
        }
    }

    #[test]
    fn scores_are_of_the_predicted_probabilities() {
        let rng = &mut seeded(8);
        for k in [2, 5] {
            for objective in [SoftmaxObjective::Expected, SoftmaxObjective::Dvi] {
                let head = SoftmaxHead::new(Linear::random(3, k, rng).unwrap(), objective).unwrap();
                let (mean, cov) = (random_vec(3, rng), random_spd(3, 3, rng));
                let p = head.predict(&mean, &cov).unwrap();
                for label in 0..k {
                    assert_close(head.nll(&mean, &cov, &label).unwrap(), -p[label].ln(), 1e-12);
                }
                assert!(head.nll(&mean, &cov, &k).is_err());
            }
        }
    }

    #[test]
    fn one_class_is_refused() {
        let linear = Linear::random(3, 1, &mut seeded(1)).unwrap();
        assert!(SoftmaxHead::new(linear, SoftmaxObjective::Expected).is_err());
    }
}
