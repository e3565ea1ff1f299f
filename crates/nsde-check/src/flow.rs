//! What travels down a network in the plain form: mean, covariance and expected Jacobian.

use nalgebra::{DMatrix, DVector};

/// What travels down the network: `h ~ N(mean, cov)`, and `jac = E[∂h/∂x]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// `E[h]`, of length n.
    pub mean: DVector<f64>,
    /// `Cov[h]`, n × n.
    pub cov: DMatrix<f64>,
    /// `E[∂h/∂x]`, n × (dimension of x).
    pub jac: DMatrix<f64>,
}

impl Flow {
    /// From slices; `cov` and `jac` are row-major with as many rows as `mean`.
    #[track_caller]
    pub fn new(mean: &[f64], cov: &[f64], jac: &[f64]) -> Self {
        let n = mean.len();
        Flow {
            mean: DVector::from_column_slice(mean),
            cov: matrix(cov, n, n),
            jac: matrix(jac, n, jac.len() / n),
        }
    }

    /// The input of a network: `jac = I`.
    #[track_caller]
    pub fn start(mean: &[f64], cov: &[f64]) -> Self {
        let n = mean.len();
        let jac = DMatrix::identity(n, n);
        Flow { mean: DVector::from_column_slice(mean), cov: matrix(cov, n, n), jac }
    }

    /// `mean` as a vector.
    pub fn mean_vec(&self) -> Vec<f64> {
        self.mean.as_slice().to_vec()
    }

    /// `cov`, row-major.
    pub fn cov_rows(&self) -> Vec<f64> {
        rows(&self.cov)
    }

    /// `jac`, row-major.
    pub fn jac_rows(&self) -> Vec<f64> {
        rows(&self.jac)
    }
}

/// A matrix from its row-major entries.
#[track_caller]
pub(crate) fn matrix(entries: &[f64], rows: usize, cols: usize) -> DMatrix<f64> {
    assert_eq!(entries.len(), rows * cols, "not a {rows} × {cols} matrix");
    DMatrix::from_row_slice(rows, cols, entries)
}

/// The entries of a matrix, row-major.
pub(crate) fn rows(m: &DMatrix<f64>) -> Vec<f64> {
    m.transpose().as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_come_back_in_row_order() {
        let flow = Flow::new(&[1.0, 2.0], &[3.0, 4.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(flow.mean_vec(), [1.0, 2.0]);
        assert_eq!(flow.cov_rows(), [3.0, 4.0, 4.0, 5.0]);
        assert_eq!(flow.jac_rows(), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(flow.jac[(0, 2)], 8.0);
    }
}
