//! The Rust side of the Python package `nsde`: plain functions over NumPy arrays, with the GIL released.
//!
//! What users see is in `python/src/nsde`, which checks shapes and types before it calls these.

mod error;
mod gradient;
mod layers;
mod metrics;
mod model;
mod network;
mod options;
mod predict;
mod series;
mod solver;
mod start;
mod table;
mod trainer;

use pyo3::prelude::*;

/// The module `nsde._core`.
#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("Error", m.py().get_type::<error::Error>())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<model::Model>()?;
    m.add_class::<trainer::Trainer>()?;
    m.add_function(wrap_pyfunction!(predict::predict, m)?)?;
    m.add_function(wrap_pyfunction!(predict::sample, m)?)?;
    m.add_function(wrap_pyfunction!(gradient::nll, m)?)?;
    m.add_function(wrap_pyfunction!(gradient::nll_and_grad, m)?)?;
    m.add_function(wrap_pyfunction!(gradient::vjp, m)?)?;
    m.add_function(wrap_pyfunction!(table::regress, m)?)?;
    m.add_function(wrap_pyfunction!(table::classify, m)?)?;
    m.add_function(wrap_pyfunction!(network::moments, m)?)?;
    m.add_function(wrap_pyfunction!(network::evaluate, m)?)?;
    m.add_function(wrap_pyfunction!(series::forecast_trainer, m)?)?;
    m.add_function(wrap_pyfunction!(table::regression_trainer, m)?)?;
    m.add_function(wrap_pyfunction!(table::classification_trainer, m)?)?;
    m.add_function(wrap_pyfunction!(metrics::scores, m)?)?;
    m.add_function(wrap_pyfunction!(metrics::marginals, m)?)?;
    m.add_function(wrap_pyfunction!(metrics::classification, m)?)?;
    m.add_function(wrap_pyfunction!(metrics::normal_quantile, m)?)?;
    Ok(())
}
