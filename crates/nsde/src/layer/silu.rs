//! The SiLU (swish) `h/(1 + e^{−h})`.

use super::sigmoid::Sigmoid;
use super::sigmoidal::Sigmoidal;
use std::f64::consts::PI;

pub(crate) struct Silu;

impl Sigmoidal for Silu {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let [y, d, d2, d3] = Sigmoid.derivatives(h);
        [h * y, y + h * d, 2.0 * d + h * d2, 3.0 * d2 + h * d3]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (0.0, 1.0)]
    }

    fn pole(&self) -> f64 {
        PI
    }
}
