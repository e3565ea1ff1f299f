//! Euler–Maruyama particles by products of matrices, a few thousand at a time: only sums are kept, so any
//! number of them fits into memory.

use super::process::{DT, ROWS};
use crate::points::{Step, forward, generator, normals, steps};
use anyhow::{Result, bail};
use ndarray::{Array1, Array2};
use nsde::{Diffusion, Gaussian, NeuralSde};

/// Particles that move together.
const BATCH: usize = 2048;

/// The networks in single precision.
pub struct Cloud {
    drift: Vec<Step>,
    /// `√Δt Lᵀ`.
    noise: Array2<f32>,
}

impl Cloud {
    /// For an SDE with a constant diffusion.
    pub fn new(sde: &NeuralSde) -> Result<Self> {
        let Diffusion::ConstantFull(scale) = sde.diffusion() else {
            bail!("the diffusion of this experiment is constant");
        };
        let d = sde.state();
        let root = DT.sqrt();
        let noise = Array2::from_shape_fn((d, d), |(j, i)| (root * scale[i * d + j]) as f32);
        Ok(Cloud { drift: steps(sde.drift())?, noise })
    }

    /// One step for all rows of `x`.
    pub fn step(&self, x: &Array2<f32>, rng: &mut impl rand::Rng) -> Array2<f32> {
        let zeta = normals(x.nrows(), x.ncols(), rng);
        let mut next = zeta.dot(&self.noise) + x;
        if let Some(drift) = forward(&self.drift, x, |_, _, _| {}).last() {
            next.scaled_add(DT as f32, drift);
        }
        next
    }

    /// Mean and covariance (`S − 1`) of `samples` particles after each row, from `start`.
    pub fn forecast(&self, start: &[f64], samples: usize, seed: u64) -> Vec<Gaussian> {
        let d = self.noise.nrows();
        let mut sums = vec![(Array1::<f64>::zeros(d), Array2::<f64>::zeros((d, d))); ROWS];
        let (mut left, mut stream) = (samples, 0);
        while left > 0 {
            let rows = left.min(BATCH);
            left -= rows;
            let rng = &mut generator(seed, stream);
            stream += 1;
            let mut x = Array2::from_shape_fn((rows, d), |(_, i)| start[i] as f32);
            for (sum, square) in &mut sums {
                x = self.step(&x, rng);
                *sum += &x.sum_axis(ndarray::Axis(0)).mapv(f64::from);
                square.zip_mut_with(&x.t().dot(&x), |a, b| *a += f64::from(*b));
            }
        }
        let n = samples as f64;
        let law = |(sum, square): (Array1<f64>, Array2<f64>)| {
            let mean = sum / n;
            let cov = Array2::from_shape_fn((d, d), |(i, j)| {
                (square[[i, j]] - n * mean[i] * mean[j]) / (n - 1.0).max(1.0)
            });
            Gaussian { mean: mean.to_vec(), cov: cov.iter().copied().collect() }
        };
        sums.into_iter().map(law).collect()
    }
}
