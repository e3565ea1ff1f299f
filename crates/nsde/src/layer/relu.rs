//! The rectifier `u(h) = max(0, h)` (Sec. 4.2, Eqs. 23–27).

use super::rectified;
use super::smoothed::{PairRest, Rest, Smoothed};
use super::units::Units;

pub(crate) struct Relu;

impl Smoothed for Relu {
    fn value(&self, h: f64) -> f64 {
        h.max(0.0)
    }

    fn slope(&self, h: f64) -> f64 {
        rectified::relu_smooth(h, 0.0)[1]
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        rectified::relu_smooth(mean, sd)
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        e.fill(0.0);
        rectified::add_relu_hermite(mean, sd, 1.0, e);
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        rectified::relu_rest(mean, sd)
    }

    fn expand(&self, mean: f64, sd: f64, e: &mut [f64]) -> ([f64; 4], Rest) {
        rectified::relu_expand(mean, sd, e)
    }

    fn expand_double(&self, units: &mut Units<f64>, orders: usize) {
        rectified::expand_all(0.0, units, orders);
    }

    fn expand_single(&self, units: &mut Units<f32>, orders: usize) {
        rectified::expand_all(0.0, units, orders);
    }

    fn has_pairs(&self, _: f64) -> bool {
        true
    }

    fn pair(&self, a: (f64, f64), b: (f64, f64), rho: f64, partials: bool) -> PairRest {
        rectified::relu_pair_exact(a, b, rho, partials)
    }

    fn kink(&self) -> Option<f64> {
        Some(1.0)
    }
}
