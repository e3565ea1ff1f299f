//! The hyperbolic tangent.

use super::sigmoidal::Sigmoidal;
use std::f64::consts::FRAC_PI_2;

pub(crate) struct Tanh;

impl Sigmoidal for Tanh {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let t = h.tanh();
        let d = 1.0 - t * t;
        [t, d, -2.0 * t * d, d * (6.0 * t * t - 2.0)]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(-1.0, 0.0), (1.0, 0.0)]
    }

    fn pole(&self) -> f64 {
        FRAC_PI_2
    }
}
