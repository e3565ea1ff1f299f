//! Units: the networks see `(x − mean)/std`, users see `x`.

use crate::error::{Error, Result, dimension};

/// Mean and standard deviation of each dimension of the data a model was trained on.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Subtracted first.
    pub mean: Vec<f64>,
    /// Divided by then; finite and positive.
    pub std: Vec<f64>,
}

impl Scaling {
    /// Checks that the numbers are finite and the deviations positive.
    pub fn new(mean: Vec<f64>, std: Vec<f64>) -> Result<Self> {
        let scaling = Scaling { mean, std };
        scaling.check("scaling", scaling.mean.len())?;
        Ok(scaling)
    }

    pub(crate) fn check(&self, what: &str, dim: usize) -> Result<()> {
        dimension(format!("`{what}`: length of `mean`"), dim, self.mean.len())?;
        dimension(format!("`{what}`: length of `std`"), dim, self.std.len())?;
        if let Some(bad) = self.mean.iter().find(|x| !x.is_finite()) {
            return Err(Error::Range {
                what: format!("`{what}`: an entry of `mean`"),
                value: *bad,
                must: "finite",
            });
        }
        if let Some(bad) = self.std.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
            let what = format!("`{what}`: an entry of `std`");
            return Err(Error::Range { what, value: *bad, must: "finite and positive" });
        }
        Ok(())
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// `(x − mean)/std` for every row of `points`, `[…, D]`.
    pub fn points_to_net(&self, points: &mut [f64]) {
        for row in points.chunks_mut(self.dim().max(1)) {
            for ((x, mean), std) in row.iter_mut().zip(&self.mean).zip(&self.std) {
                *x = (*x - mean) / std;
            }
        }
    }

    /// `x·std + mean` for every row of `points`, `[…, D]`.
    pub fn points_to_data(&self, points: &mut [f64]) {
        for row in points.chunks_mut(self.dim().max(1)) {
            for ((x, mean), std) in row.iter_mut().zip(&self.mean).zip(&self.std) {
                *x = *x * std + mean;
            }
        }
    }

    /// `Σ_ij / (std_i std_j)`, which stays exactly symmetric.
    pub fn cov_to_net(&self, cov: &mut [f64]) {
        self.each_cov(cov, |c, std| c / std);
    }

    /// `Σ_ij std_i std_j`, which stays exactly symmetric.
    pub fn cov_to_data(&self, cov: &mut [f64]) {
        self.each_cov(cov, |c, std| c * std);
    }

    fn each_cov(&self, cov: &mut [f64], f: impl Fn(f64, f64) -> f64) {
        for (row, std_i) in cov.chunks_mut(self.dim().max(1)).zip(&self.std) {
            for (c, std_j) in row.iter_mut().zip(&self.std) {
                *c = f(*c, std_i * std_j);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_identity() {
        let scaling = Scaling::new(vec![1.5, -20.0, 0.0], vec![2.0, 0.125, 4.0]).unwrap();
        let (points, cov) =
            ([1.0, 2.0, 3.0, -4.0, 5.5, 0.0], [4.0, 1.0, 0.5, 1.0, 3.0, -1.0, 0.5, -1.0, 2.0]);
        let (mut p, mut c) = (points, cov);
        scaling.points_to_net(&mut p);
        scaling.cov_to_net(&mut c);
        assert_eq!(p[..3], [-0.25, 176.0, 0.75]);
        assert_eq!((c[0], c[1], c[3], c[5]), (1.0, 4.0, 4.0, -2.0));
        scaling.points_to_data(&mut p);
        scaling.cov_to_data(&mut c);
        assert_eq!((p, c), (points, cov));
    }

    #[test]
    fn impossible_units_are_refused() {
        for (mean, std) in [
            (vec![0.0], vec![0.0]),
            (vec![0.0], vec![-1.0]),
            (vec![0.0], vec![f64::INFINITY]),
            (vec![f64::NAN], vec![1.0]),
            (vec![0.0, 0.0], vec![1.0]),
        ] {
            assert!(Scaling::new(mean.clone(), std.clone()).is_err(), "{mean:?} {std:?}");
        }
    }
}
