//! What an activation layer knows of each of its units by itself, one array per quantity.

use super::smoothed::{Rest, Smoothed};
use crate::kernel::{Mat, Single};
use std::any::Any;

/// Smoothed derivatives, Hermite coefficients and the rest of every unit, in all lanes.
#[derive(Clone, Debug)]
pub(crate) struct Units<E> {
    /// Mean and standard deviation of the input.
    pub mean: Vec<E>,
    pub sd: Vec<E>,
    /// `c_0 … c_3`.
    pub c: [Vec<E>; 4],
    /// The diagonal beyond the linear term, and its derivatives.
    pub rest: Vec<E>,
    pub rest_mean: Vec<E>,
    pub rest_var: Vec<E>,
    /// `e_2, e_3, …` in the rows.
    pub e: Mat<E>,
    /// For those who compute them.
    pub scratch: [Vec<E>; 4],
    column: Vec<f64>,
}

impl<E: Single> Units<E> {
    pub fn zeros(units: usize, orders: usize) -> Self {
        let zero = || vec![E::ZERO; units];
        Units {
            mean: zero(),
            sd: zero(),
            c: std::array::from_fn(|_| zero()),
            rest: zero(),
            rest_mean: zero(),
            rest_var: zero(),
            e: Mat::zeros(orders, units),
            scratch: std::array::from_fn(|_| zero()),
            column: vec![0.0; orders],
        }
    }

    /// Everything from mean and deviation, with the first `orders` coefficients.
    pub fn expand(&mut self, u: &dyn Smoothed, orders: usize) {
        let any: &mut dyn Any = self;
        if let Some(single) = any.downcast_mut::<Units<f32>>() {
            u.expand_single(single, orders);
        } else if let Some(double) = any.downcast_mut::<Units<f64>>() {
            u.expand_double(double, orders);
        }
    }

    /// One unit after the other, the first `orders` coefficients of each.
    pub fn fill(&mut self, u: &(impl Smoothed + ?Sized), orders: usize) {
        for i in 0..self.rest.len() {
            self.fill_one(u, i, orders);
        }
    }

    /// Unit `i`.
    pub fn fill_one(&mut self, u: &(impl Smoothed + ?Sized), i: usize, orders: usize) {
        let (mean, sd) = (self.mean[i].f64(), self.sd[i].f64());
        let column = &mut self.column[..orders];
        let (c, rest) = if sd > 0.0 {
            u.expand(mean, sd, column)
        } else {
            column.fill(0.0);
            (u.smooth(mean, 0.0), Rest::default())
        };
        for (k, e) in column.iter().enumerate() {
            *self.e.at_mut(k, i) = E::of(*e);
        }
        for (to, c) in self.c.iter_mut().zip(c) {
            to[i] = E::of(c);
        }
        self.rest[i] = E::of(rest.value);
        self.rest_mean[i] = E::of(rest.d_mean);
        self.rest_var[i] = E::of(rest.d_var);
    }
}
