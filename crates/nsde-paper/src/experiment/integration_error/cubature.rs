//! The unscented transform (Eq. 35) by products of matrices, to be timed: `O(HD² + H²D + D³)`, as the paper
//! counts it. The library's kernel has room for noise that depends on the state and takes `O(D⁴)`.

use super::problem::Problem;
use crate::cholesky::cholesky;
use crate::points::{Step, forward, steps};
use anyhow::{Context, Result};
use ndarray::{Array2, Axis};

/// A network ready for points, in single precision.
pub struct Cubature {
    net: Vec<Step>,
}

impl Cubature {
    /// For the tanh network of a problem.
    pub fn new(problem: &Problem) -> Result<Self> {
        Ok(Cubature { net: steps(&problem.network(false)?)? })
    }

    /// Mean and covariance of `x + f(x)` from `2D` points (the weight of the central one is 0).
    pub fn step(&self, mean: &[f64], cov: &[f64]) -> Result<(Vec<f32>, Array2<f32>)> {
        let d = mean.len();
        let root = cholesky(cov, d).context("the covariance is singular")?;
        let spread = (d as f64).sqrt();
        let points = Array2::from_shape_fn((2 * d, d), |(p, i)| {
            let away = spread * root[i * d + p % d];
            (if p < d { mean[i] + away } else { mean[i] - away }) as f32
        });
        let all = forward(&self.net, &points, |_, _, _| {});
        let after = all.last().context("the network has layers")? + &points;
        let centre = after.sum_axis(Axis(0)) / (2 * d) as f32;
        let gap = after - &centre;
        Ok((centre.to_vec(), gap.t().dot(&gap) / (2 * d) as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde::{Gaussian, Method, Options, Rollout, Solver, Unscented};

    #[test]
    fn products_give_what_the_library_gives() {
        let problem = Problem::random(5, 7, 3, 0).unwrap();
        let (mean, cov) = Cubature::new(&problem).unwrap().step(&problem.mean, &problem.cov()).unwrap();
        let start = Gaussian::new(problem.mean.clone(), problem.cov()).unwrap();
        let method = Method::Cubature(Unscented::default());
        let solver =
            Solver::new(&problem.sde(false).unwrap(), Options { method, ..Options::default() }).unwrap();
        let path = &solver.solve(&[Rollout { start: &start, dts: &[1.0], inputs: &[] }]).unwrap()[0];
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-4 * (1.0 + b.abs());
        assert!(mean.iter().zip(path.mean(0)).all(|(a, b)| close(*a, *b)));
        assert!(cov.iter().zip(path.cov(0)).all(|(a, b)| close(*a, *b)));
    }
}
