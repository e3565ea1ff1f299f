//! Deterministic variational inference (Wu et al.), the second rival of Table 1: one hidden layer of 50 units with Gaussian weights.
//!
//! With one hidden layer and independent weights the hidden units are independent given the input, so the moments
//! of the output are exact:
//!
//! ```text
//! h_j ~ N(m_j, s_j),   E = E[h⁺], V = Var[h⁺]        y ~ N(w·E + b, Σ_j (w_j² V_j + v_j (V_j + E_j²)) + v_b + noise)
//! ELBO = Σ_rows E[log N(y | f, noise)] − KL(weights ‖ N(0, prior)),   prior learned per layer
//! ```

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
    log_noise: Tensor,
}

impl Dvi {
    /// Maximises the evidence lower bound for `updates` of 32 rows.
    pub fn train(part: &Part, updates: usize, seed: u64) -> Result<Dvi> {
        let dim = part.x.len() / part.rows();
        let mut weights = Weights::new(seed);
        let net = Dvi {
            first: Bayes::new(&mut weights, dim, HIDDEN)?,
            second: Bayes::new(&mut weights, HIDDEN, 1)?,
            log_noise: weights.constant(&[1], -1.0)?,
        };
        let options = ParamsAdamW { lr: 3e-3, weight_decay: 0.0, ..ParamsAdamW::default() };
        let mut adam = AdamW::new(weights.into_vars(), options)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 41));
        for step in 0..updates {
            let phase = std::f64::consts::PI * step as f64 / updates as f64;
            adam.set_learning_rate(3e-3 * (0.01 + 0.99 * 0.5 * (1.0 + phase.cos())));
            let (x, y) = batch(part, &mut rng)?;
            let (mean, var) = net.moments(&x)?;
            let square = ((mean - y)?.sqr()? + var)?;
            let loss = square.broadcast_mul(&net.log_noise.neg()?.exp()?)?.broadcast_add(&net.log_noise)?;
            let kl = ((net.first.divergence()? + net.second.divergence()?)? * (1.0 / part.rows() as f64))?;
            adam.backward_step(&((loss.mean_all()? * 0.5)? + kl)?)?;
        }
        Ok(net)
    }

    /// Mean and variance of the function's value for each row, without the noise.
    fn moments(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (m, s) = self.first.apply(x, None)?;
        let sd = s.sqrt()?;
        let a = (&m / &sd)?;
        let cdf = (((&a * std::f64::consts::FRAC_1_SQRT_2)?.erf()? + 1.0)? * 0.5)?;
        let pdf = ((a.sqr()? * -0.5)?.exp()? * (0.5 / std::f64::consts::PI).sqrt())?;
        let soft = (&pdf + (&a * &cdf)?)?;
        let mean = (&sd * &soft)?;
        // Var = σ²(Φ + α·SR − SR²); rounding must not make it negative.
        let var = ((cdf + (a * &soft)?)? - soft.sqr()?)?.relu()?;
        self.second.apply(&mean, Some(&(var * s)?))
    }

    /// Mean and variance of the target for each row.
    pub fn predict(&self, part: &Part) -> Result<(Vec<f64>, Vec<f64>)> {
        let x: Vec<f32> = part.x.iter().map(|v| *v as f32).collect();
        let x = Tensor::from_vec(x, (part.rows(), part.x.len() / part.rows()), &Device::Cpu)?;
        let (mean, var) = self.moments(&x)?;
        let noise = f64::from(self.log_noise.exp()?.to_vec1::<f32>()?[0]);
        let list = |t: Tensor| -> Result<Vec<f64>> {
            Ok(t.flatten_all()?.to_vec1::<f32>()?.iter().map(|v| f64::from(*v)).collect())
        };
        Ok((list(mean)?, list(var)?.iter().map(|v| v + noise).collect()))
    }
}
