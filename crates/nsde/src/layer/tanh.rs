//! The hyperbolic tangent.

use super::sigmoid::logistic_in;
use super::sigmoidal::Sigmoidal;
use pulp::Simd;
use std::f64::consts::FRAC_PI_2;

pub(crate) struct Tanh;

impl Sigmoidal for Tanh {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let t = h.tanh();
        let d = 1.0 - t * t;
        [t, d, -2.0 * t * d, d * (6.0 * t * t - 2.0)]
    }

    /// `tanh h = 2/(1 + e^{−2h}) − 1`.
    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        let [_, y, d] = logistic_in::<S>(2.0 * h);
        let (t, d) = (2.0 * y - 1.0, 4.0 * d);
        [t, d, -2.0 * t * d, d * (6.0 * t * t - 2.0)]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(-1.0, 0.0), (1.0, 0.0)]
    }

    fn pole(&self) -> f64 {
        FRAC_PI_2
    }
}
