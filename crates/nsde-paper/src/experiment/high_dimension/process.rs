//! The Ornstein–Uhlenbeck process of Fig. 8, its paths and its law.
//!
//! ```text
//! dx = (λ − x) dt + Γ dw      x(t) ~ N(λ(1 − e⁻ᵗ), (1 − e⁻²ᵗ)/2 · ΓΓᵀ) from x(0) = 0
//! ```

use crate::points::generator;
use ndarray::{Array1, Array2};
use nsde::Gaussian;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

/// Seconds between rows, and rows after the start.
pub const DT: f64 = 0.1;
pub const ROWS: usize = 100;

/// How the Wishart matrix `W ~ W(I, D)` enters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Reading {
    /// `Γ = W`, as the paper prints it: the noise grows with the dimension.
    Printed,
    /// `ΓΓᵀ = W/D`: every coordinate has noise of about 1.
    Root,
}

impl Reading {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Printed => "printed",
            Reading::Root => "root",
        }
    }
}

/// A process.
pub struct Process {
    /// `λ`.
    pub centre: Array1<f64>,
    /// `Γ`.
    pub noise: Array2<f64>,
}

impl Process {
    /// The process of a repetition.
    pub fn random(dim: usize, reading: Reading, rng: &mut impl Rng) -> Self {
        let centre = Array1::from_shape_simple_fn(dim, || StandardNormal.sample(rng));
        let a = Array2::from_shape_simple_fn((dim, dim), || StandardNormal.sample(rng));
        let noise: Array2<f64> = match reading {
            Reading::Printed => a.dot(&a.t()),
            Reading::Root => a / (dim as f64).sqrt(),
        };
        Process { centre, noise }
    }

    /// The laws of all rows after the start.
    pub fn laws(&self) -> Vec<Gaussian> {
        let square = self.noise.dot(&self.noise.t());
        let law = |k: usize| {
            let t = DT * k as f64;
            let cov = &square * (0.5 * (1.0 - (-2.0 * t).exp()));
            Gaussian {
                mean: (&self.centre * (1.0 - (-t).exp())).to_vec(),
                cov: cov.iter().copied().collect(),
            }
        };
        (1..=ROWS).map(law).collect()
    }

    /// The covariance of the noise of one step.
    pub fn step_noise(&self) -> Vec<f64> {
        let spread = 0.5 * (1.0 - (-2.0 * DT).exp());
        self.noise.dot(&self.noise.t()).iter().map(|s| spread * s).collect()
    }

    /// Paths from 0, each `[ROWS + 1, D]`, drawn from the exact transition.
    pub fn paths(&self, count: usize, seed: u64, stream: u64) -> Vec<Array2<f64>> {
        let dim = self.centre.len();
        let (keep, spread) = ((-DT).exp(), (0.5 * (1.0 - (-2.0 * DT).exp())).sqrt());
        let path = |p: usize| {
            let rng = &mut generator(seed, stream + p as u64);
            let z = Array2::from_shape_simple_fn((ROWS, dim), || StandardNormal.sample(rng));
            let push = z.dot(&self.noise.t()) * spread + &self.centre * (1.0 - keep);
            let mut x = Array2::zeros((ROWS + 1, dim));
            for k in 0..ROWS {
                let next = &x.row(k) * keep + push.row(k);
                x.row_mut(k + 1).assign(&next);
            }
            x
        };
        (0..count).map(path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sampling: 5 standard errors.
    #[test]
    fn paths_have_the_analytic_law() {
        let process = Process::random(3, Reading::Printed, &mut generator(1, 0));
        let paths = process.paths(4000, 2, 0);
        for k in [1, 20] {
            let law = &process.laws()[k - 1];
            for i in 0..3 {
                let x: Vec<f64> = paths.iter().map(|p| p[[k, i]]).collect();
                let (m, v) = (crate::statistics::mean(&x), crate::statistics::deviation(&x).powi(2));
                let var = law.cov[i * 4];
                assert!((m - law.mean[i]).abs() < 5.0 * (var / 4000.0).sqrt());
                assert!((v - var).abs() < 5.0 * var * (2.0_f64 / 4000.0).sqrt());
            }
        }
    }
}
