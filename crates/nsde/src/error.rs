//! Why a call failed: variants carry the numbers a caller needs.

use std::path::PathBuf;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A vector, matrix or list has the wrong size.
    #[error("{what}: expected {expected}, found {found}")]
    Dimension {
        /// Which quantity.
        what: String,
        /// The size that fits.
        expected: usize,
        /// The size that was given.
        found: usize,
    },
    /// A number is outside the range its meaning allows.
    #[error("{what} is {value}, but must be {must}")]
    Range {
        /// Which quantity.
        what: String,
        /// The offending value.
        value: f64,
        /// The allowed range, in words.
        must: &'static str,
    },
    /// A matrix that must be a covariance is not one.
    #[error("{what} is not a covariance: {why}")]
    NotCovariance {
        /// Which matrix.
        what: String,
        /// Asymmetry or the most negative eigen-direction found.
        why: String,
    },
    /// A likelihood needs a strictly positive definite covariance.
    #[error(
        "covariance is not positive definite at pivot {pivot} (value {value:e}); \
         give the model some diffusion or start from a wider Gaussian"
    )]
    NotPositiveDefinite {
        /// Index of the first bad pivot.
        pivot: usize,
        /// Its value.
        value: f64,
    },
    /// The moments left the range of floating-point numbers.
    #[error(
        "moments overflow at step {step} of trajectory {trajectory}: the dynamics diverge; \
         use a smaller step, fewer steps, or a drift that is bounded"
    )]
    NonFinite {
        /// Which trajectory of the batch.
        trajectory: usize,
        /// Index of the step that first produced a non-finite number.
        step: usize,
    },
    /// A network is put together in a way that cannot work.
    #[error("{net}: {why}")]
    Architecture {
        /// Which network, or which layer of it.
        net: String,
        /// What does not fit.
        why: String,
    },
    /// Too many steps of a training run gave a loss or gradient that is not finite.
    #[error(
        "training stopped at step {step}: {skipped} steps had a loss or gradient that is not finite; \
         use a smaller learning rate, a shorter horizon, or a smaller step size"
    )]
    Training {
        /// The step at which it was given up.
        step: usize,
        /// How many steps were skipped.
        skipped: usize,
    },
    /// A model file cannot be understood.
    #[error("{}: {why}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A table of data cannot be used.
    #[error("{}: {}{why}", path.display(), line.map(|n| format!("line {n}: ")).unwrap_or_default())]
    Data {
        /// The file.
        path: PathBuf,
        /// The line to blame, counted from 1, if there is one.
        line: Option<u64>,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
}

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn dimension(what: impl Into<String>, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Dimension { what: what.into(), expected, found }) }
}
