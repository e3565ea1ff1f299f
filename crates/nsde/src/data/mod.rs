//! Tables of measurements over time: one or many series, from a file to arrays a fit can use.
//!
//! [`load`] reads CSV (also tab- or semicolon-separated, also gzipped), NumPy `.npy` and `.npz`, and
//! Parquet if the crate is built with the feature `parquet`. What is in the file is told apart by its
//! first bytes, not by its name. Nothing is filled in, sorted or dropped in silence: what the reader
//! decides by itself is in [`Dataset::notes`], and what it cannot decide is an error with a line number.
//!
//! ```
//! use nsde::data::{LoadOptions, load};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("tank.csv");
//! std::fs::write(&path, "time,level,valve\n0,1.5,0\n1,1.4,1\n2,NA,\n").unwrap();
//! let options = LoadOptions { input_columns: vec!["valve".into()], ..LoadOptions::default() };
//! let data = load(&path, &options)?;
//! assert_eq!((data.dim(), data.inputs(), data.rows()), (1, 1, 3));
//! assert!(data.series[0].values[2].is_nan());
//! # Ok::<(), nsde::Error>(())
//! ```

mod builder;
mod cell;
mod column;
mod delimited;
#[cfg(feature = "parquet")]
mod fallible;
mod nearest;
mod note;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
mod role;
mod scan;
mod source;
mod split;
mod stamp;
mod summary;
mod time;
mod zip;

pub use nearest::nearest;
pub use note::{LeftOut, Note};
pub use source::load;
pub use time::{TimeAxis, TimeUnit};

use crate::error::Error;
use std::path::Path;

/// Largest number of state columns [`load`] accepts: the covariance of a state has this size squared.
pub const MAX_STATES: usize = 2_000;

/// Tables of measurements over time: one or many series with the same columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Names of the state columns, in the order of [`Series::values`].
    pub columns: Vec<String>,
    /// Names of the control inputs, in the order of [`Series::inputs`].
    pub input_columns: Vec<String>,
    /// The series, in the order in which their names first appear in the file.
    pub series: Vec<Series>,
    /// What the times mean.
    pub time: TimeAxis,
    /// What the reader found or decided; they describe the whole file.
    pub notes: Vec<Note>,
}

/// Measurements of one trajectory, `N` rows in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the series column says, or the name of the file if there is only one series.
    pub name: String,
    /// Strictly increasing times, `[N]`.
    pub times: Vec<f64>,
    /// The state, `[N, D]` by rows; `NaN` where it was not measured.
    pub values: Vec<f64>,
    /// The inputs, `[N, U]` by rows. Row `n` acts between the times `n` and `n+1`, so the last row is
    /// never used; it is 0 where the file has none.
    pub inputs: Vec<f64>,
}

/// Which column plays which part.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The column that tells series apart; without it the file is one series (or, for a
    /// three-dimensional array, one series per entry of the first axis).
    pub series_column: Option<String>,
    /// The column of times, numbers or stamps. `None`: a column named `t` or `time` in either case, or
    /// else rows are equally spaced at 0, 1, 2, …
    pub time_column: Option<String>,
    /// The columns of the state, in order. `None`: every numeric column that is not used otherwise.
    pub state_columns: Option<Vec<String>>,
    /// The columns of control inputs, in order.
    pub input_columns: Vec<String>,
    /// The unit into which time stamps are converted. `None`: the largest in which the median spacing is
    /// at least 1. Times given as numbers are kept as they are.
    pub time_unit: Option<TimeUnit>,
}

impl Series {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }
}

/// The error about the file at `path`, with a line if one is to blame.
fn data_error(path: &Path, line: Option<u64>, why: impl Into<String>) -> Error {
    Error::Data { path: path.to_path_buf(), line, why: why.into() }
}

#[cfg(test)]
mod tests;
