//! `nsde.Error`, a `ValueError` with the message of the library.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

pyo3::create_exception!(nsde, Error, PyValueError, "What went wrong, where, and what to do about it.");

/// Why a call failed: in the library, or in Python itself.
pub enum Fail {
    Core(nsde::Error),
    Python(PyErr),
}

/// The result of a call from Python.
pub type Result<T, E = Fail> = std::result::Result<T, E>;

impl From<nsde::Error> for Fail {
    fn from(e: nsde::Error) -> Self {
        Fail::Core(e)
    }
}

impl From<PyErr> for Fail {
    fn from(e: PyErr) -> Self {
        Fail::Python(e)
    }
}

impl From<Fail> for PyErr {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Core(e) => Error::new_err(e.to_string()),
            Fail::Python(e) => e,
        }
    }
}

/// An `nsde.Error` of this crate's own.
pub fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(Fail::Python(Error::new_err(why.into())))
}
