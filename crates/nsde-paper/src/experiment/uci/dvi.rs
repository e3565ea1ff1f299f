//! Deterministic variational inference (Wu et al.), the second rival of Table 1: one hidden layer of 50 units with Gaussian weights.
//!
//! The network has two outputs, the answer's mean `m` and the logarithm `ℓ` of its noise (theirs is heteroscedastic too). With
//! one hidden layer and independent weights the hidden units are independent given the input, so the moments of the
//! outputs are exact, and so is the expected likelihood of outputs that are jointly Gaussian:
//!
//! ```text
//! h_j ~ N(m_j, s_j),   E = E[h⁺], V = Var[h⁺]
//! (m, ℓ) ~ N(μ, S),    μ = W E + b,   S_ab = Σ_j W_aj W_bj V_j + δ_ab (Σ_j v_aj (V_j + E_j²) + v_a)
//! E[log N(y | m, e^ℓ)] = −½ (log 2π + μ_ℓ + ((y − μ_m + S_mℓ)² + S_mm) exp(S_ℓℓ/2 − μ_ℓ))
//! ELBO = Σ_rows E[log N(y | m, e^ℓ)] − KL(weights ‖ N(0, prior)),   prior learned per layer
//! ```
//!
//! Predicted is the Gaussian with the moments of `y`: mean `μ_m`, variance `S_mm + exp(μ_ℓ + S_ℓℓ/2)`.

use super::dropout::batch;
use super::table::Part;
use crate::baseline::Weights;
use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Width of the hidden layer.
const HIDDEN: usize = 50;
/// Logarithm of the variance that all weights begin with.
const BEGIN: f32 = -9.0;

/// An affine map with Gaussian weights.
struct Bayes {
    weight: Tensor,
    bias: Tensor,
    log_weight: Tensor,
    log_bias: Tensor,
    /// Logarithm of the prior's variance, learned (empirical Bayes).
    log_prior: Tensor,
}

impl Bayes {
    fn new(weights: &mut Weights, input: usize, output: usize) -> Result<Bayes> {
        let bound = 1.0 / (input as f32).sqrt();
        Ok(Bayes {
            weight: weights.uniform(&[input, output], bound)?,
            bias: weights.uniform(&[output], bound)?,
            log_weight: weights.constant(&[input, output], BEGIN)?,
            log_bias: weights.constant(&[output], BEGIN)?,
            log_prior: weights.constant(&[1], -1.0)?,
        })
    }

    /// Mean and variance of `x W + b` for `x` with independent coordinates of this mean and variance.
    fn apply(&self, mean: &Tensor, var: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let out = mean.matmul(&self.weight)?.broadcast_add(&self.bias)?;
        let mut second = mean.sqr()?;
        let mut spread = Tensor::zeros_like(&out)?;
        if let Some(var) = var {
            second = (second + var)?;
            spread = var.matmul(&self.weight.sqr()?)?;
        }
        let spread =
            (spread + second.matmul(&self.log_weight.exp()?)?)?.broadcast_add(&self.log_bias.exp()?)?;
        Ok((out, spread))
    }

    /// `KL(N(w, v) ‖ N(0, p))`, summed.
    fn divergence(&self) -> Result<Tensor> {
        let one = |mean: &Tensor, log_var: &Tensor| -> Result<Tensor> {
            let ratio = (log_var.exp()? + mean.sqr()?)?.broadcast_mul(&self.log_prior.neg()?.exp()?)?;
            let log = log_var.broadcast_sub(&self.log_prior)?;
            Ok(((ratio - log)? - 1.0)?.sum_all()?)
        };
        Ok(((one(&self.weight, &self.log_weight)? + one(&self.bias, &self.log_bias)?)? * 0.5)?)
    }
}

/// A trained network.
pub struct Dvi {
    first: Bayes,
    second: Bayes,
}

/// Moments of the two outputs for each row, `[N, 1]` each.
struct Outputs {
    mean: Tensor,
    var: Tensor,
    /// Of the logarithm of the noise.
    log_mean: Tensor,
    log_var: Tensor,
    /// Between the mean and that logarithm.
    cov: Tensor,
}

impl Outputs {
    /// Twice the expected negative log-likelihood of the answers `y`, less its constant.
    fn loss(&self, y: &Tensor) -> Result<Tensor> {
        let square = (((y - &self.mean)? + &self.cov)?.sqr()? + &self.var)?;
        Ok((&self.log_mean + (square * ((&self.log_var * 0.5)? - &self.log_mean)?.exp()?)?)?.mean_all()?)
    }
}

impl Dvi {
    /// Maximises the evidence lower bound for `updates` of 32 rows.
    pub fn train(part: &Part, updates: usize, seed: u64) -> Result<Dvi> {
        let dim = part.x.len() / part.rows();
        let mut weights = Weights::new(seed);
        let net = Dvi {
            first: Bayes::new(&mut weights, dim, HIDDEN)?,
            second: Bayes::new(&mut weights, HIDDEN, 2)?,
        };
        let options = ParamsAdamW { lr: 3e-3, weight_decay: 0.0, ..ParamsAdamW::default() };
        let mut adam = AdamW::new(weights.into_vars(), options)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 41));
        for step in 0..updates {
            let phase = std::f64::consts::PI * step as f64 / updates as f64;
            adam.set_learning_rate(3e-3 * (0.01 + 0.99 * 0.5 * (1.0 + phase.cos())));
            let (x, y) = batch(part, &mut rng)?;
            let loss = net.outputs(&x)?.loss(&y)?;
            let kl = ((net.first.divergence()? + net.second.divergence()?)? * (1.0 / part.rows() as f64))?;
            adam.backward_step(&((loss * 0.5)? + kl)?)?;
        }
        Ok(net)
    }

    fn outputs(&self, x: &Tensor) -> Result<Outputs> {
        let (m, s) = self.first.apply(x, None)?;
        let sd = s.sqrt()?;
        let a = (&m / &sd)?;
        let cdf = (((&a * std::f64::consts::FRAC_1_SQRT_2)?.erf()? + 1.0)? * 0.5)?;
        let pdf = ((a.sqr()? * -0.5)?.exp()? * (0.5 / std::f64::consts::PI).sqrt())?;
        let soft = (&pdf + (&a * &cdf)?)?;
        let mean = (&sd * &soft)?;
        // Var = σ²(Φ + α·SR − SR²); rounding must not make it negative.
        let var = ((cdf + (a * &soft)?)? - soft.sqr()?)?.relu()?;
        let var = (var * s)?;
        let (mean, spread) = self.second.apply(&mean, Some(&var))?;
        let column = |t: &Tensor, k: usize| t.narrow(1, k, 1);
        let both = (column(&self.second.weight, 0)? * column(&self.second.weight, 1)?)?;
        Ok(Outputs {
            mean: column(&mean, 0)?,
            var: column(&spread, 0)?,
            log_mean: column(&mean, 1)?,
            log_var: column(&spread, 1)?,
            cov: var.matmul(&both)?,
        })
    }

    /// Mean and variance of the target for each row.
    pub fn predict(&self, part: &Part) -> Result<(Vec<f64>, Vec<f64>)> {
        let x: Vec<f32> = part.x.iter().map(|v| *v as f32).collect();
        let x = Tensor::from_vec(x, (part.rows(), part.x.len() / part.rows()), &Device::Cpu)?;
        let out = self.outputs(&x)?;
        let noise = (out.log_mean + (out.log_var * 0.5)?)?.exp()?;
        let list = |t: Tensor| -> Result<Vec<f64>> {
            Ok(t.flatten_all()?.to_vec1::<f32>()?.iter().map(|v| f64::from(*v)).collect())
        };
        Ok((list(out.mean)?, list((out.var + noise)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardNormal};

    fn tensor(x: f32) -> Tensor {
        Tensor::from_vec(vec![x], (1, 1), &Device::Cpu).unwrap()
    }

    /// Against a sum over a grid of `m` and `ℓ`, which are `μ + root·z` for independent normals `z`.
    #[test]
    fn the_loss_is_an_expected_likelihood() {
        let root = [[0.7, 0.0], [-0.3, 0.4]];
        let (m, l, y) = (0.3, -0.5, 1.1);
        let out = Outputs {
            mean: tensor(m as f32),
            var: tensor(0.49),
            log_mean: tensor(l as f32),
            log_var: tensor(0.25),
            cov: tensor(-0.21),
        };
        let found = f64::from(out.loss(&tensor(y as f32)).unwrap().to_scalar::<f32>().unwrap());
        let mut sum = 0.0;
        let grid = || (-160..=160).map(|k| 0.05 * f64::from(k));
        for a in grid() {
            for b in grid() {
                let (m, l) = (m + root[0][0] * a, l + root[1][0] * a + root[1][1] * b);
                let weight = (-0.5 * (a * a + b * b)).exp() * 0.0025 / (2.0 * std::f64::consts::PI);
                sum += weight * (l + (y - m).powi(2) * (-l).exp());
            }
        }
        assert!((found - sum).abs() < 1e-5, "{found} and {sum}");
    }

    #[test]
    fn it_learns_noise_that_depends_on_the_input() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let x: Vec<f64> = (0..400).map(|_| normal()).collect();
        let deviation = |x: f64| if x > 0.0 { 0.5 } else { 0.1 };
        let y = x.iter().map(|x| x + deviation(*x) * normal()).collect();
        let net = Dvi::train(&Part { x, y }, 2000, 1).unwrap();
        let (mean, var) = net.predict(&Part { x: vec![-1.0, 1.0], y: vec![0.0; 2] }).unwrap();
        for (k, x) in [-1.0, 1.0].into_iter().enumerate() {
            assert!((mean[k] - x).abs() < 0.15, "mean {} at {x}", mean[k]);
            let ratio = var[k].sqrt() / deviation(x);
            assert!((0.7..1.6).contains(&ratio), "deviation {} at {x}", var[k].sqrt());
        }
    }
}
