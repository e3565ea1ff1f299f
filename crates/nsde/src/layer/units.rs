//! What an activation layer knows of each of its units by itself, one array per quantity.

use super::smoothed::{Rest, Smoothed};
use crate::kernel::Mat;

/// Smoothed derivatives, Hermite coefficients and the rest of every unit.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    /// `c_0 … c_3`.
    pub c: [Vec<f64>; 4],
    /// The diagonal beyond the linear term, and its derivatives.
    pub rest: Vec<f64>,
    pub rest_mean: Vec<f64>,
    pub rest_var: Vec<f64>,
    /// `e_2, e_3, …` in the rows.
    pub e: Mat<f64>,
    /// For those who compute them.
    pub scratch: [Vec<f64>; 3],
    column: Vec<f64>,
}

impl Units {
    pub fn zeros(units: usize, orders: usize) -> Self {
        let zero = || vec![0.0; units];
        Units {
            c: std::array::from_fn(|_| zero()),
            rest: zero(),
            rest_mean: zero(),
            rest_var: zero(),
            e: Mat::zeros(orders, units),
            scratch: std::array::from_fn(|_| zero()),
            column: vec![0.0; orders],
        }
    }

    /// One unit after the other, the first `orders` coefficients of each.
    pub fn fill(&mut self, u: &(impl Smoothed + ?Sized), mean: &[f64], sd: &[f64], orders: usize) {
        for i in 0..self.rest.len() {
            let column = &mut self.column[..orders];
            let (c, rest) = if sd[i] > 0.0 {
                u.expand(mean[i], sd[i], column)
            } else {
                column.fill(0.0);
                (u.smooth(mean[i], 0.0), Rest::default())
            };
            for (k, e) in column.iter().enumerate() {
                *self.e.at_mut(k, i) = *e;
            }
            for (to, c) in self.c.iter_mut().zip(c) {
                to[i] = c;
            }
            self.rest[i] = rest.value;
            self.rest_mean[i] = rest.d_mean;
            self.rest_var[i] = rest.d_var;
        }
    }
}
