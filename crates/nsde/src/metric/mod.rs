//! How good a predictive distribution is (Sec. 6.1, Eqs. 36–39): accuracy, likelihood and calibration.
//!
//! | question | answer |
//! | --- | --- |
//! | one prediction, one observation | [`Score`] |
//! | many of them, per horizon step and overall | [`Scores`], which gives a [`Report`] |
//! | a scalar regression | [`regression::evaluate`] |
//! | a classification | [`classification::evaluate`] |
//!
//! Everything reads plain slices; a coordinate that was not observed is NaN and is left out of the score,
//! the prediction being marginalised over it. Sums run in the order of the calls.
//!
//! ```
//! use nsde::metric::{Predictive, Scores};
//!
//! let mut scores = Scores::new();
//! let forecast = Predictive::Gaussian { mean: &[0.0, 1.0], cov: &[1.0, 0.0, 0.0, 4.0] };
//! scores.push(1, forecast, &[1.0, 1.0])?;
//! scores.push(1, forecast, &[0.0, f64::NAN])?;
//! let overall = scores.overall().expect("two observations");
//! assert_eq!((overall.count, overall.coordinates), (2, 3));
//! assert!((overall.mse_summed - 0.5).abs() < 1e-15);
//! # Ok::<(), nsde::Error>(())
//! ```

pub mod classification;
pub mod regression;

mod chi_squared;
mod coverage;
mod crps;
mod gamma;
mod marginal;
mod missing;
mod mixture;
mod normal;
mod score;
mod scores;
mod tally;

pub use chi_squared::{chi_squared_cdf, chi_squared_quantile};
pub use coverage::{CalibrationPoint, LEVELS, ecpe};
pub use crps::{crps_gaussian, crps_mixture};
pub use mixture::Mixture;
pub use normal::normal_quantile;
pub use score::{CoordinateScore, Score};
pub use scores::{Report, Scores, StepSummary};
pub use tally::{IntervalSummary, PIT_BINS, Summary};

pub(crate) use missing::{finite, marginal, observed};

use crate::gaussian::Gaussian;

/// The levels of the central intervals that are scored per coordinate, and of the conformal regions.
pub const INTERVALS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

/// A predictive distribution over `D` dimensions.
#[derive(Clone, Copy, Debug)]
pub enum Predictive<'a> {
    /// `N(mean, cov)`, the covariance row-major `[D, D]`.
    Gaussian {
        /// `μ`, length `D`.
        mean: &'a [f64],
        /// `Σ`, row-major `[D, D]`.
        cov: &'a [f64],
    },
    /// `Σ_k w_k N(μ_k, Σ_k)`.
    Mixture(&'a Mixture),
}

impl Predictive<'_> {
    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        match self {
            Predictive::Gaussian { mean, .. } => mean.len(),
            Predictive::Mixture(mixture) => mixture.dim(),
        }
    }
}

impl<'a> From<&'a Gaussian> for Predictive<'a> {
    fn from(law: &'a Gaussian) -> Self {
        Predictive::Gaussian { mean: &law.mean, cov: &law.cov }
    }
}

impl<'a> From<&'a Mixture> for Predictive<'a> {
    fn from(law: &'a Mixture) -> Self {
        Predictive::Mixture(law)
    }
}
