//! Coordinates in which the noise of a step is about white: `x = c + L₀ y` with `L₀L₀ᵀ Δt` the covariance of the
//! increments. Likelihood and coverage are the same in both; Adam, and single precision, need the second.

use super::process::DT;
use crate::cholesky::{cholesky, solve};
use anyhow::{Context, Result};
use ndarray::{Array1, Array2, ArrayView1, s};
use nsde::Gaussian;

/// `c` and `L₀`.
pub struct Frame {
    centre: Array1<f64>,
    factor: Vec<f64>,
}

impl Frame {
    /// The frame of some paths.
    pub fn new(paths: &[Array2<f64>]) -> Result<Self> {
        let (rows, dim) = paths[0].dim();
        let mut centre = Array1::zeros(dim);
        let mut cov = Array2::<f64>::zeros((dim, dim));
        let count = (paths.len() * (rows - 1)) as f64;
        for path in paths {
            centre += &path.slice(s![1.., ..]).sum_axis(ndarray::Axis(0));
            let steps = &path.slice(s![1.., ..]) - &path.slice(s![..rows - 1, ..]);
            cov += &steps.t().dot(&steps);
        }
        centre /= count;
        cov /= count * DT;
        let flat: Vec<f64> = cov.iter().copied().collect();
        let factor = cholesky(&flat, dim)
            .with_context(|| format!("increments span fewer than {dim} dimensions; take more paths"))?;
        Ok(Frame { centre, factor })
    }

    /// `y` of a point.
    pub fn white(&self, x: ArrayView1<'_, f64>) -> Vec<f64> {
        let mut y = (&x - &self.centre).to_vec();
        solve(&self.factor, &mut y);
        y
    }

    /// `y` of all points of a path.
    pub fn white_path(&self, path: &Array2<f64>) -> Array2<f64> {
        let mut out = path.clone();
        for mut row in out.rows_mut() {
            let y = self.white(row.view());
            row.assign(&Array1::from(y));
        }
        out
    }

    /// The law of `x` for a law of `y`.
    pub fn coloured(&self, law: &Gaussian) -> Result<Gaussian> {
        let d = law.mean.len();
        let factor = Array2::from_shape_vec((d, d), self.factor.clone())?;
        let cov = Array2::from_shape_vec((d, d), law.cov.clone())?;
        let cov = factor.dot(&cov).dot(&factor.t());
        let mean = factor.dot(&Array1::from(law.mean.clone())) + &self.centre;
        Ok(Gaussian { mean: mean.to_vec(), cov: cov.iter().copied().collect() })
    }

    /// The law of `y` for a law of `x`.
    pub fn white_law(&self, law: &Gaussian) -> Gaussian {
        let d = law.mean.len();
        // L⁻¹ Σ L⁻ᵀ: rows first, then, of the transpose, rows again.
        let mut cov = law.cov.clone();
        for _ in 0..2 {
            cov.chunks_mut(d).for_each(|row| solve(&self.factor, row));
            cov = (0..d * d).map(|k| cov[(k % d) * d + k / d]).collect();
        }
        Gaussian { mean: self.white(ArrayView1::from(&law.mean)), cov }
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::{Process, Reading};
    use super::*;
    use crate::points::generator;

    #[test]
    fn there_and_back() {
        let process = Process::random(4, Reading::Printed, &mut generator(3, 0));
        let frame = Frame::new(&process.paths(20, 1, 0)).unwrap();
        let law = &process.laws()[30];
        let back = frame.coloured(&frame.white_law(law)).unwrap();
        let close =
            |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()));
        assert!(close(&back.mean, &law.mean) && close(&back.cov, &law.cov));
    }
}
