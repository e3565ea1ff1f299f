//! Dropout as a Bayesian approximation (Gal and Ghahramani), the first rival of Table 1: one hidden layer of 50 units,
//! dropout before each layer, predictions by samples.

use super::table::Part;
use crate::baseline::{Affine, Weights};
use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Width of the hidden layer.
const HIDDEN: usize = 50;
/// Samples of a prediction.
const SAMPLES: usize = 256;

/// A trained network.
pub struct Dropout {
    first: Affine,
    second: Affine,
    rate: f64,
    dim: usize,
    seed: u64,
}

/// Zeros with probability `rate`, `1/(1 − rate)` else.
fn mask(rate: f64, shape: (usize, usize), rng: &mut ChaCha8Rng) -> Result<Tensor> {
    let keep = 1.0 - rate;
    let one = |rng: &mut ChaCha8Rng| f64::from(rng.next_u32()) / f64::from(u32::MAX) < keep;
    let values: Vec<f32> =
        (0..shape.0 * shape.1).map(|_| if one(rng) { (1.0 / keep) as f32 } else { 0.0 }).collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

impl Dropout {
    /// Trains on squared error for `updates` of 32 rows, with weight decay 1e-4.
    pub fn train(part: &Part, rate: f64, updates: usize, seed: u64) -> Result<Dropout> {
        let dim = part.x.len() / part.rows();
        let mut weights = Weights::new(seed);
        let net = Dropout {
            first: weights.affine(dim, HIDDEN)?,
            second: weights.affine(HIDDEN, 1)?,
            rate,
            dim,
            seed,
        };
        let options = ParamsAdamW { lr: 1e-3, weight_decay: 1e-4, ..ParamsAdamW::default() };
        let mut adam = AdamW::new(weights.into_vars(), options)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 41));
        for _ in 0..updates {
            let (x, y) = batch(part, &mut rng)?;
            let loss = (net.sample(&x, &mut rng)? - y)?.sqr()?.mean_all()?;
            adam.backward_step(&loss)?;
        }
        Ok(net)
    }

    /// One output per row, with fresh masks.
    fn sample(&self, x: &Tensor, rng: &mut ChaCha8Rng) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let x = (x * mask(self.rate, (rows, self.dim), rng)?)?;
        let h = (self.first.apply(&x)?.relu()? * mask(self.rate, (rows, HIDDEN), rng)?)?;
        Ok(self.second.apply(&h)?)
    }

    /// Samples of the output for each row, `[N][samples]`.
    pub fn predict(&self, part: &Part) -> Result<Vec<Vec<f64>>> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (1 << 42));
        let x: Vec<f32> = part.x.iter().map(|v| *v as f32).collect();
        let x = Tensor::from_vec(x, (part.rows(), self.dim), &Device::Cpu)?;
        let mut out = vec![Vec::with_capacity(SAMPLES); part.rows()];
        for _ in 0..SAMPLES {
            let y = self.sample(&x, &mut rng)?.flatten_all()?.to_vec1::<f32>()?;
            out.iter_mut().zip(y).for_each(|(row, y)| row.push(f64::from(y)));
        }
        Ok(out)
    }
}

/// 32 random rows.
pub fn batch(part: &Part, rng: &mut ChaCha8Rng) -> Result<(Tensor, Tensor)> {
    let dim = part.x.len() / part.rows();
    let (mut x, mut y) = (Vec::with_capacity(32 * dim), Vec::with_capacity(32));
    for _ in 0..32 {
        let i = (rng.next_u64() % part.rows() as u64) as usize;
        x.extend(part.x[i * dim..(i + 1) * dim].iter().map(|v| *v as f32));
        y.push(part.y[i] as f32);
    }
    Ok((Tensor::from_vec(x, (32, dim), &Device::Cpu)?, Tensor::from_vec(y, (32, 1), &Device::Cpu)?))
}
