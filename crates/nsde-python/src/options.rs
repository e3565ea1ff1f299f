//! The options of a solver, by the names that the command line uses.

use crate::error::{Result, refuse};
use nsde::{CovarianceForm, Method, Moments, Options, Precision, Unscented};
use pyo3::FromPyObject;
use serde::Deserialize;

/// What Python hands over: `(method, moments, terms, covariance, precision, samples, seed)`.
#[derive(Clone, Debug, Deserialize, FromPyObject)]
pub struct SolverOptions(String, String, usize, String, String, usize, u64);

impl SolverOptions {
    /// The same for the library.
    pub fn read(&self) -> Result<Options> {
        let SolverOptions(method, moments, terms, covariance, precision, samples, seed) = self;
        let method = match method.as_str() {
            "bmm" => Method::Bmm,
            "cubature" => Method::Cubature(Unscented::default()),
            "mc" => Method::MonteCarlo { samples: *samples, seed: *seed },
            other => return refuse(format!("method: {other:?} is not known; use 'bmm', 'cubature' or 'mc'")),
        };
        let moments = match moments.as_str() {
            "series" => Moments::Series { terms: *terms },
            "exact" => Moments::Exact,
            "paper" => Moments::Paper,
            other => {
                return refuse(format!("moments: {other:?} is not known; use 'series', 'exact' or 'paper'"));
            }
        };
        let covariance = match covariance.as_str() {
            "full" => CovarianceForm::Full,
            "structured" => CovarianceForm::Structured,
            "diagonal" => CovarianceForm::Diagonal,
            other => {
                return refuse(format!(
                    "covariance: {other:?} is not known; use 'full', 'structured' or 'diagonal'"
                ));
            }
        };
        let precision = match precision.as_str() {
            "f64" => Precision::F64,
            "f32" => Precision::F32,
            other => return refuse(format!("precision: {other:?} is not known; use 'f64' or 'f32'")),
        };
        Ok(Options { method, moments, covariance, precision })
    }
}
