//! The mixture head: several Gaussians of the target read from one state, for answers with more than one mode.

use super::{Head, affine, file};
use crate::error::{Error, Result, dimension};
use crate::gaussian::{Gaussian, nll, nll_pull};
use crate::layer::Linear;
use crate::metric::Mixture;
use crate::model::Tensor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `K` affine maps with noise of their own, and `K` weights that the mean of the state decides on.
///
/// ```text
/// x ~ N(μ, Σ)   ⇒   p(y) = Σ_k π_k N(y | W_k μ + b_k, W_k Σ W_kᵀ + diag(exp ν_k)),   π = softmax(Vμ + c)
/// ```
///
/// With one component it is a [`LinearHead`](super::LinearHead) with noise. The map `linear` has the rows of
/// `W_1, …, W_K`, then those of `V`: `K (O + 1)` outputs for targets of `O` numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureHead {
    linear: Linear,
    /// `ν_1, …, ν_K`, `[K, O]`.
    noise: Vec<f64>,
    components: usize,
}

/// A component's law, and the logarithm of its weight.
struct Component {
    log_weight: f64,
    law: Gaussian,
}

impl MixtureHead {
    /// A head of `components` Gaussians with the logarithms `log_var` of their noise, `[K, O]`.
    pub fn new(linear: Linear, log_var: Vec<f64>, components: usize) -> Result<Self> {
        let refuse = |what: &str, value: f64, must| Err(Error::Range { what: what.into(), value, must });
        if components == 0 {
            return refuse("head: components", 0.0, "at least 1");
        }
        if log_var.is_empty() || !log_var.len().is_multiple_of(components) {
            return refuse("head: log-variances", log_var.len() as f64, "as many for every component");
        }
        dimension("head: rows of the affine map", log_var.len() + components, linear.output())?;
        if let Some(bad) = log_var.iter().find(|x| !x.is_finite()) {
            return refuse("log-variance of the noise", *bad, "finite");
        }
        Ok(MixtureHead { linear, noise: log_var, components })
    }

    /// Number of Gaussians.
    pub fn components(&self) -> usize {
        self.components
    }

    /// The components, cut out of the moments of all rows of the affine map.
    fn parts(&self, mean: &[f64], cov: &[f64]) -> Result<Vec<Component>> {
        let all = affine::push(&self.linear, mean, cov)?;
        let (o, rows) = (self.targets(), all.dim());
        let logits = &all.mean[self.noise.len()..];
        let (log_sum, _) = log_sum_exp(logits);
        let component = |k: usize| {
            let first = k * o;
            let mut law = Gaussian { mean: all.mean[first..first + o].to_vec(), cov: vec![0.0; o * o] };
            for i in 0..o {
                let row = (first + i) * rows + first;
                law.cov[i * o..(i + 1) * o].copy_from_slice(&all.cov[row..row + o]);
                law.cov[i * o + i] += self.noise[first + i].exp();
            }
            Component { log_weight: logits[k] - log_sum, law }
        };
        Ok((0..self.components).map(component).collect())
    }
}

/// `log π_k − nll_k` of every component.
fn joint(parts: &[Component], target: &[f64]) -> Result<Vec<f64>> {
    parts.iter().map(|p| Ok(p.log_weight - nll(&p.law.mean, &p.law.cov, target)?)).collect()
}

/// `log Σ exp`, and each term's share of the sum.
fn log_sum_exp(logs: &[f64]) -> (f64, Vec<f64>) {
    let top = logs.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    if top == f64::NEG_INFINITY {
        return (top, vec![1.0 / logs.len() as f64; logs.len()]);
    }
    let sum: f64 = logs.iter().map(|l| (l - top).exp()).sum();
    (top + sum.ln(), logs.iter().map(|l| (l - top).exp() / sum).collect())
}

impl Head for MixtureHead {
    type Target = [f64];
    type Prediction = Mixture;

    fn linear(&self) -> &Linear {
        &self.linear
    }

    fn targets(&self) -> usize {
        self.noise.len() / self.components
    }

    fn parameters(&self) -> Vec<f64> {
        [self.linear.weight(), self.linear.bias(), &self.noise].concat()
    }

    fn set_parameters(&mut self, flat: &[f64]) -> Result<()> {
        dimension("head: parameters", self.parameter_count(), flat.len())?;
        let (weight, rest) = flat.split_at(self.linear.weight.len());
        let (bias, noise) = rest.split_at(self.linear.bias.len());
        self.linear.weight.copy_from_slice(weight);
        self.linear.bias.copy_from_slice(bias);
        self.noise.copy_from_slice(noise);
        Ok(())
    }

    fn predict(&self, mean: &[f64], cov: &[f64]) -> Result<Mixture> {
        let parts = self.parts(mean, cov)?;
        let weights = parts.iter().map(|p| p.log_weight.exp()).collect();
        Mixture::new(weights, parts.into_iter().map(|p| p.law).collect())
    }

    /// `−log Σ_k π_k N(y | m_k, S_k)`, by log-sum-exp.
    fn nll(&self, mean: &[f64], cov: &[f64], target: &[f64]) -> Result<f64> {
        Ok(-log_sum_exp(&joint(&self.parts(mean, cov)?, target)?).0)
    }

    /// With `r_k` the posterior of component `k`: `∂ℓ/∂nll_k = r_k` and `∂ℓ/∂(Vμ + c)_k = π_k − r_k`.
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
        let parts = self.parts(mean, cov)?;
        let (log_sum, posterior) = log_sum_exp(&joint(&parts, target)?);
        let (o, rows) = (self.targets(), self.linear.output());
        let mut all_bar = Gaussian { mean: vec![0.0; rows], cov: vec![0.0; rows * rows] };
        let noise_grad = grad.len() - self.noise.len();
        for (k, (part, r)) in parts.iter().zip(&posterior).enumerate() {
            let first = k * o;
            let mut law_bar = Gaussian { mean: vec![0.0; o], cov: vec![0.0; o * o] };
            let Gaussian { mean: m_bar, cov: s_bar } = &mut law_bar;
            nll_pull(&part.law.mean, &part.law.cov, target, bar * r, m_bar, s_bar)?;
            all_bar.mean[first..first + o].copy_from_slice(m_bar);
            for i in 0..o {
                let row = (first + i) * rows + first;
                all_bar.cov[row..row + o].copy_from_slice(&s_bar[i * o..(i + 1) * o]);
                grad[noise_grad + first + i] += s_bar[i * o + i] * self.noise[first + i].exp();
            }
            all_bar.mean[self.noise.len() + k] = bar * (part.log_weight.exp() - r);
        }
        affine::pull(&self.linear, mean, cov, &all_bar, mean_bar, cov_bar, grad);
        Ok(-log_sum)
    }

    fn write(&self, description: &mut Map<String, Value>, tensors: &mut BTreeMap<String, Tensor>) {
        description.insert("type".into(), "mixture".into());
        file::put_linear(tensors, "head", &self.linear);
        let shape = vec![self.components, self.targets()];
        tensors.insert("head.noise".into(), Tensor { shape, values: self.noise.clone() });
    }

    fn read(description: &Map<String, Value>, tensors: &BTreeMap<String, Tensor>) -> Result<Self> {
        file::expect_kind(description, "mixture")?;
        let linear = file::take_linear(tensors, "head")?;
        match tensors.get("head.noise") {
            Some(Tensor { shape, values }) if shape.len() == 2 => {
                MixtureHead::new(linear, values.clone(), shape[0])
            }
            _ => Err(file::refuse("a mixture needs `head.noise` of shape [components, targets]".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::LinearHead;
    use crate::head::regression::tests::check_pull;
    use nsde_check::{assert_close, random_spd, random_vec, seeded};

    fn sample(d: usize, o: usize, k: usize, seed: u64) -> MixtureHead {
        let rng = &mut seeded(seed);
        let linear = Linear::random(d, k * (o + 1), rng).unwrap();
        MixtureHead::new(linear, random_vec(k * o, rng), k).unwrap()
    }

    #[test]
    fn pull_is_the_adjoint_of_the_likelihood() {
        for seed in 0..20 {
            check_pull(&sample(4, 1 + seed as usize % 2, 1 + seed as usize % 4, seed), 4, seed);
        }
    }

    #[test]
    fn one_component_is_a_linear_head_with_noise() {
        let rng = &mut seeded(1);
        let head = sample(3, 2, 1, 2);
        let linear =
            Linear::new(3, 2, head.linear.weight()[..6].to_vec(), head.linear.bias()[..2].to_vec()).unwrap();
        let plain = LinearHead::new(linear).with_noise(head.noise.clone()).unwrap();
        let (mean, cov, y) = (random_vec(3, rng), random_spd(3, 3, rng), random_vec(2, rng));
        assert_close(head.nll(&mean, &cov, &y).unwrap(), plain.nll(&mean, &cov, &y).unwrap(), 1e-14);
    }

    /// The likelihood is that of the mixture it predicts, whose density sums to one.
    #[test]
    fn the_likelihood_is_the_density_of_the_prediction() {
        let rng = &mut seeded(3);
        let head = sample(3, 1, 3, 4);
        let (mean, cov) = (random_vec(3, rng), random_spd(3, 3, rng));
        let law = head.predict(&mean, &cov).unwrap();
        let density = |y: f64| (-head.nll(&mean, &cov, &[y]).unwrap()).exp();
        for y in [-3.0, 0.2, 5.0] {
            assert_close(-density(y).ln(), law.nll(&[y]).unwrap(), 1e-13);
        }
        let sum: f64 = (-4000..4000).map(|i| 0.01 * density(0.01 * f64::from(i))).sum();
        assert_close(sum, 1.0, 1e-9);
        assert!(head.nll(&mean, &cov, &[1e4]).unwrap().is_finite(), "far away too");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let linear = Linear::random(3, 4, &mut seeded(5)).unwrap();
        let new = |log_var: &[f64], k: usize| MixtureHead::new(linear.clone(), log_var.to_vec(), k);
        assert_eq!(new(&[0.0, 0.0], 2).unwrap().targets(), 1);
        assert!(new(&[], 0).is_err() && new(&[], 2).is_err() && new(&[0.0; 3], 2).is_err());
        assert!(new(&[0.0; 4], 2).is_err() && new(&[0.0, f64::NAN], 2).is_err());
    }
}
