//! Where the flow of an SDE layer begins (Sec. 6.2: at the features; Sec. 6.3: at a common point).

use super::affine;
use crate::layer::Linear;

/// Where the flow begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// At the features themselves, as many as the state has dimensions.
    Features,
    /// At a learned affine map of the features.
    Embedding(Linear),
    /// At a learned point; there are no features.
    Learned(Vec<f64>),
    /// At the origin; there are no features.
    Zero,
}

impl Start {
    /// The name used in model files.
    pub fn kind(&self) -> &'static str {
        match self {
            Start::Features => "features",
            Start::Embedding(_) => "embedding",
            Start::Learned(_) => "learned",
            Start::Zero => "zero",
        }
    }

    /// Number of features it reads for a state of `state` dimensions.
    pub fn features(&self, state: usize) -> usize {
        match self {
            Start::Features => state,
            Start::Embedding(linear) => linear.input(),
            Start::Learned(_) | Start::Zero => 0,
        }
    }

    pub(super) fn parameters(&self) -> Vec<f64> {
        match self {
            Start::Embedding(linear) => [linear.weight(), linear.bias()].concat(),
            Start::Learned(x) => x.clone(),
            Start::Features | Start::Zero => Vec::new(),
        }
    }

    pub(super) fn set_parameters(&mut self, flat: &[f64]) {
        match self {
            Start::Embedding(linear) => {
                let (weight, bias) = flat.split_at(linear.weight.len());
                linear.weight.copy_from_slice(weight);
                linear.bias.copy_from_slice(bias);
            }
            Start::Learned(x) => x.copy_from_slice(flat),
            Start::Features | Start::Zero => {}
        }
    }

    /// The point itself.
    pub(super) fn point(&self, state: usize, features: &[f64]) -> Vec<f64> {
        match self {
            Start::Features => features.to_vec(),
            Start::Embedding(linear) => affine::at(linear, features),
            Start::Learned(x) => x.clone(),
            Start::Zero => vec![0.0; state],
        }
    }

    /// Adjoint of [`point`](Start::point) in the parameters: adds to `grad`.
    pub(super) fn point_pull(&self, features: &[f64], point_bar: &[f64], grad: &mut [f64]) {
        match self {
            Start::Embedding(_) => affine::at_pull(features, point_bar, grad),
            Start::Learned(_) => affine::axpy(1.0, point_bar, grad),
            Start::Features | Start::Zero => {}
        }
    }
}
