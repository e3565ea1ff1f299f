//! Gaussians (Sec. 3.1): a mean and a full covariance, their validity and their density.

mod density;
pub(crate) mod special;

pub use density::{mahalanobis, nll, nll_pull};

use crate::error::{Error, Result, dimension};
use crate::kernel::product::{Left, Part, product};
use crate::kernel::real::in_vectors;
use crate::kernel::{Mat, cholesky};

/// `N(mean, cov)`, the covariance row-major and full. Also used for cotangents `(∂ℓ/∂μ, ∂ℓ/∂Σ)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    /// `μ`, length `D`.
    pub mean: Vec<f64>,
    /// `Σ`, row-major `[D, D]`.
    pub cov: Vec<f64>,
}

impl Gaussian {
    /// Checks that the numbers are finite and that `cov` is a covariance.
    pub fn new(mean: Vec<f64>, cov: Vec<f64>) -> Result<Self> {
        check(&mean, &cov, mean.len(), "start")?;
        Ok(Gaussian { mean, cov })
    }

    /// An isotropic Gaussian, `Σ = var · I`; a point if `var` is zero.
    pub fn isotropic(mean: Vec<f64>, var: f64) -> Result<Self> {
        let d = mean.len();
        let mut cov = vec![0.0; d * d];
        for i in 0..d {
            cov[i * d + i] = var;
        }
        Gaussian::new(mean, cov)
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }
}

/// A covariance may differ from its transpose, and from the square of its Cholesky factor, by this
/// share of the two deviations: what a file written with nine digits holds.
const COVARIANCE_NOISE: f64 = 1e-8;

/// Whether all entries beside the diagonal are zero, as at the start of most trajectories.
fn is_diagonal(cov: &[f64], dim: usize) -> bool {
    let mut diagonal = true;
    in_vectors::<f64>(
        #[inline(always)]
        || {
            let rows = cov.chunks_exact(dim.max(1)).enumerate();
            // No branch within a row, so that it goes in vectors.
            diagonal = rows.fold(true, |all, (i, row)| {
                all && row[..i].iter().fold(true, |all, x| all & (*x == 0.0))
                    && row[i + 1..].iter().fold(true, |all, x| all & (*x == 0.0))
            });
        },
    );
    diagonal
}

/// Whether a matrix is symmetric to the bit. Square by square, because the entries of a column are far apart.
fn is_symmetric(cov: &[f64], dim: usize) -> bool {
    const SIDE: usize = 16;
    let mut symmetric = true;
    for top in (0..dim).step_by(SIDE) {
        for left in (0..=top).step_by(SIDE) {
            for i in top..dim.min(top + SIDE) {
                for j in left..i.min(left + SIDE) {
                    symmetric &= cov[i * dim + j] == cov[j * dim + i];
                }
            }
        }
    }
    symmetric
}

pub(crate) fn check(mean: &[f64], cov: &[f64], dim: usize, what: &str) -> Result<()> {
    dimension(format!("{what}: mean"), dim, mean.len())?;
    dimension(format!("{what}: entries of the covariance"), dim * dim, cov.len())?;
    let diagonal = is_diagonal(cov, dim);
    let every = if diagonal { dim + 1 } else { 1 };
    for (name, values, every) in [("mean", mean, 1), ("covariance", cov, every)] {
        if let Some(bad) = values.iter().step_by(every).find(|x| !x.is_finite()) {
            return Err(Error::Range {
                what: format!("{what}: an entry of the {name}"),
                value: *bad,
                must: "finite",
            });
        }
    }
    let refuse = |why: String| Err(Error::NotCovariance { what: format!("{what}: covariance"), why });
    for i in 0..dim {
        if cov[i * dim + i] < 0.0 {
            return refuse(format!("variance {i} is {}", cov[i * dim + i]));
        }
    }
    if diagonal {
        return Ok(());
    }
    let roots: Vec<f64> = (0..dim).map(|i| cov[i * dim + i].sqrt()).collect();
    let scale = |i: usize, j: usize| roots[i] * roots[j];
    for i in 0..if is_symmetric(cov, dim) { 0 } else { dim } {
        for j in 0..i {
            let (a, b) = (cov[i * dim + j], cov[j * dim + i]);
            if a != b && (a - b).abs() > COVARIANCE_NOISE * (scale(i, j) + a.abs()) {
                return refuse(format!(
                    "entries [{i}, {j}] = {a} and [{j}, {i}] = {b} differ; it must be symmetric"
                ));
            }
        }
    }
    let mut factor = cov.to_vec();
    cholesky::factor_semidefinite(&mut factor, dim);
    let root = Mat::from_f64(dim, dim, &factor);
    let (mut root_t, mut square) = (root.clone(), root.clone());
    root_t.transpose_from(&root);
    product(&mut square, false, 1.0, Left::Transposed(&root_t), &root_t, Part::Lower);
    for i in 0..dim {
        for j in 0..=i {
            let square = square.at(i, j);
            if (square - cov[i * dim + j]).abs() > COVARIANCE_NOISE * scale(i, j) + f64::MIN_POSITIVE {
                return refuse(format!(
                    "it is indefinite (seen at entry [{i}, {j}]); no eigenvalue may be negative"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_and_tiny_covariances_are_accepted() {
        for cov in [
            vec![0.0; 4],
            vec![1.0, 1.0, 1.0, 1.0],
            vec![1.0, -1.0, -1.0, 1.0],
            vec![1e-300, 0.0, 0.0, 1e8],
            vec![1e-300, 1e-146, 1e-146, 1e8],
        ] {
            Gaussian::new(vec![0.0; 2], cov.clone()).unwrap_or_else(|e| panic!("{cov:?}: {e}"));
        }
    }

    #[test]
    fn what_is_not_a_covariance_is_refused() {
        for cov in [
            vec![1.0, 0.5, 0.4, 1.0],
            vec![1.0, 2.0, 2.0, 1.0],
            vec![-1.0, 0.0, 0.0, 1.0],
            vec![0.0, 1e-3, 1e-3, 1.0],
            vec![1.0, f64::NAN, f64::NAN, 1.0],
            vec![1.0, 0.0, 0.0],
        ] {
            assert!(Gaussian::new(vec![0.0; 2], cov.clone()).is_err(), "{cov:?}");
        }
    }
}
