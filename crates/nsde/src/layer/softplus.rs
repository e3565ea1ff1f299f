//! The softplus `ln(1 + eʰ)`; its derivative is the logistic function.

use super::sigmoid::{Sigmoid, logistic_in};
use super::sigmoidal::Sigmoidal;
use crate::kernel::elementary::ln_1p;
use pulp::Simd;
use std::f64::consts::PI;

pub(crate) struct Softplus;

impl Sigmoidal for Softplus {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let [y, d, d2, _] = Sigmoid.derivatives(h);
        [h.max(0.0) + (-h.abs()).exp().ln_1p(), y, d, d2]
    }

    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        let [e, y, d] = logistic_in::<S>(h);
        [h.max(0.0) + ln_1p::<S>(e), y, d, d * (1.0 - 2.0 * y)]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (0.0, 1.0)]
    }

    fn pole(&self) -> f64 {
        PI
    }
}
