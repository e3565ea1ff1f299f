//! The SiLU (swish) `h/(1 + e^{−h})`.

use super::sigmoid::Sigmoid;
use super::sigmoidal::Sigmoidal;
use pulp::Simd;
use std::f64::consts::PI;

pub(crate) struct Silu;

/// Derivatives of `h·y(h)` from those of `y`.
#[inline(always)]
fn times_h(h: f64, [y, d, d2, d3]: [f64; 4]) -> [f64; 4] {
    [h * y, y + h * d, 2.0 * d + h * d2, 3.0 * d2 + h * d3]
}

impl Sigmoidal for Silu {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        times_h(h, Sigmoid.derivatives(h))
    }

    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        times_h(h, Sigmoid.derivatives_in::<S>(h))
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (0.0, 1.0)]
    }

    fn pole(&self) -> f64 {
        PI
    }
}
