//! Heads (Secs. 6.2–6.3): an SDE as a layer of continuous depth, and what predicts from its end.
//!
//! ```text
//! features → x(0) → dx = f dt + L dw for K steps → x(T) ~ N(μ, Σ) → y = W x + b, or softmax(W x + b)
//! ```
//!
//! The head sees the last Gaussian only, and marginalises it: in closed form for regression, by a rule
//! over the logits for classification.
//!
//! ```
//! use nsde::head::{Example, LinearHead, SdeLayer, Start};
//! use nsde::{Diffusion, Layer, Linear, NeuralSde, Network, Options};
//!
//! // Features decay for one unit of time; the head adds the two.
//! let drift = Network::new(2, vec![Layer::Linear(Linear::new(2, 2, vec![-1.0, 0.0, 0.0, -1.0], vec![0.0; 2])?)])?;
//! let layer = SdeLayer {
//!     start: Start::Features,
//!     sde: NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.4]))?,
//!     head: LinearHead::new(Linear::new(2, 1, vec![1.0, 1.0], vec![0.0])?),
//!     dt: 0.1,
//!     steps: 10,
//!     init_var: 0.0,
//!     options: Options::default(),
//! };
//! let y = &layer.predict(&[Example { features: &[1.0, 2.0], inputs: &[] }])?[0];
//! assert!((y.mean[0] - 3.0 * 0.9_f64.powi(10)).abs() < 1e-12);
//! # Ok::<(), nsde::Error>(())
//! ```

mod affine;
mod expectation;
mod file;
mod layer;
mod mixture;
mod regression;
mod softmax;
mod start;

pub use layer::{Example, SdeLayer};
pub use mixture::MixtureHead;
pub use regression::LinearHead;
pub use softmax::{SoftmaxHead, SoftmaxObjective};
pub use start::Start;

use crate::error::Result;
use crate::layer::Linear;
use crate::model::Tensor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What turns the Gaussian `x ~ N(mean, cov)` at the end of a flow into a prediction.
///
/// The set is closed, as models are saved: [`LinearHead`], [`MixtureHead`] and [`SoftmaxHead`].
pub trait Head: sealed::Sealed + Clone + Sync {
    /// What is observed: a vector, or the number of a class.
    type Target: ?Sized + Sync;
    /// What is predicted: a Gaussian, a mixture of some, or the probabilities of the classes.
    type Prediction: Send;

    /// The affine map `W x + b` it begins with.
    fn linear(&self) -> &Linear;

    /// Numbers in a target: the outputs of a regression, one for a class.
    fn targets(&self) -> usize;

    /// Number of parameters.
    fn parameter_count(&self) -> usize {
        self.parameters().len()
    }

    /// All parameters, flat: `W` row by row, `b`, then what else there is.
    fn parameters(&self) -> Vec<f64>;

    /// Takes over a flat parameter vector.
    fn set_parameters(&mut self, flat: &[f64]) -> Result<()>;

    /// The predictive distribution.
    fn predict(&self, mean: &[f64], cov: &[f64]) -> Result<Self::Prediction>;

    /// `−log p(target)` of the predictive distribution.
    fn nll(&self, mean: &[f64], cov: &[f64], target: &Self::Target) -> Result<f64>;

    /// The training loss with its adjoint: adds `bar` times its derivatives to the cotangents of
    /// `mean` and `cov` and, in the order of [`parameters`](Head::parameters), to `grad`.
    fn pull(
        &self,
        mean: &[f64],
        cov: &[f64],
        target: &Self::Target,
        bar: f64,
        mean_bar: &mut [f64],
        cov_bar: &mut [f64],
        grad: &mut [f64],
    ) -> Result<f64>;

    /// Writes its kind and options into `description`, its arrays into `tensors`.
    fn write(&self, description: &mut Map<String, Value>, tensors: &mut BTreeMap<String, Tensor>);

    /// Undoes [`write`](Head::write).
    fn read(description: &Map<String, Value>, tensors: &BTreeMap<String, Tensor>) -> Result<Self>;
}

mod sealed {
    /// Keeps the set of heads closed.
    pub trait Sealed {}
    impl Sealed for super::LinearHead {}
    impl Sealed for super::MixtureHead {}
    impl Sealed for super::SoftmaxHead {}
}
