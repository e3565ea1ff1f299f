//! Missing coordinates: an observation has NaN where nothing was seen, and the prediction is marginalised.

use crate::error::{Error, Result};

/// Indices of the observed coordinates, those that are not NaN. An infinite value is an error.
pub(crate) fn observed(x: &[f64]) -> Result<Vec<usize>> {
    if let Some(i) = x.iter().position(|v| v.is_infinite()) {
        let what = format!("coordinate {i} of the observation");
        return Err(Error::Range { what, value: x[i], must: "finite, or NaN for missing" });
    }
    Ok((0..x.len()).filter(|&i| !x[i].is_nan()).collect())
}

/// Mean, covariance and observation restricted to `index`.
pub(crate) fn marginal(
    mean: &[f64],
    cov: &[f64],
    x: &[f64],
    index: &[usize],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let pick = |from: &[f64]| -> Vec<f64> { index.iter().map(|&i| from[i]).collect() };
    let cov = index.iter().flat_map(|&i| index.iter().map(move |&j| cov[i * mean.len() + j])).collect();
    (pick(mean), cov, pick(x))
}

/// Whether every number is finite.
pub(crate) fn finite(values: &[f64], what: &str) -> Result<()> {
    match values.iter().find(|v| !v.is_finite()) {
        Some(&value) => Err(Error::Range { what: format!("an entry of the {what}"), value, must: "finite" }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_of_missing_coordinates_go() {
        let x = [1.0, f64::NAN, 3.0];
        let index = observed(&x).unwrap();
        assert_eq!(index, [0, 2]);
        let cov = [11.0, 12.0, 13.0, 21.0, 22.0, 23.0, 31.0, 32.0, 33.0];
        let (mean, cov, x) = marginal(&[0.1, 0.2, 0.3], &cov, &x, &index);
        assert_eq!(mean, [0.1, 0.3]);
        assert_eq!(cov, [11.0, 13.0, 31.0, 33.0]);
        assert_eq!(x, [1.0, 3.0]);
    }

    #[test]
    fn an_infinite_observation_is_refused() {
        assert!(observed(&[0.0, f64::NEG_INFINITY]).is_err());
        assert!(observed(&[f64::NAN; 2]).unwrap().is_empty());
    }
}
