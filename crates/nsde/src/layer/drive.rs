//! Control inputs: what they add to the first layer, `W_u u`.
//!
//! They are known, so only the mean feels them. Many are zero, of words all but one: those cost nothing.

use super::linear::Linear;
use crate::kernel::{Mat, Real, rows};

/// The weights of the control inputs in a first layer over `[x, u]`.
pub(crate) struct Drive<T: Real> {
    /// `W_uᵀ`, once for all lanes.
    weight_t: Mat<T::One>,
    state: usize,
}

impl<T: Real> Drive<T> {
    pub fn new(layer: &Linear, state: usize) -> Self {
        let mut out = Drive { weight_t: Mat::zeros(layer.input() - state, layer.output()), state };
        out.load(layer);
        out
    }

    /// Takes over changed parameters.
    pub fn load(&mut self, layer: &Linear) {
        for (i, row) in layer.weight().chunks_exact(layer.input()).enumerate() {
            for (j, w) in row[self.state..].iter().enumerate() {
                *self.weight_t.at_mut(j, i) = T::One::of(*w);
            }
        }
    }

    pub fn inputs(&self) -> usize {
        self.weight_t.rows
    }

    pub fn grad(&self) -> Mat<T> {
        Mat::zeros(self.weight_t.rows, self.weight_t.cols)
    }

    /// Adds `W_u u` to the mean.
    pub fn push(&self, u: &[T], mean: &mut [T]) {
        rows::add_weighted(mean, &self.weight_t, u);
    }
}

/// Adjoint of [`Drive::push`]: adds `u mean_barᵀ` to the gradient.
pub(crate) fn pull<T: Real>(grad: &mut Mat<T>, u: &[T], mean_bar: &[T]) {
    for (j, u) in u.iter().enumerate().filter(|(_, u)| **u != T::ZERO) {
        rows::add_multiple(grad.row_mut(j), *u, mean_bar);
    }
}
