//! The logistic function `1/(1 + e^{−h})`.

use super::sigmoidal::Sigmoidal;
use crate::kernel::elementary::exp;
use pulp::Simd;
use std::f64::consts::PI;

pub(crate) struct Sigmoid;

/// `1/(1 + e^{−h})`, without overflow and with full relative accuracy in the left tail.
fn logistic(h: f64) -> f64 {
    if h >= 0.0 {
        1.0 / (1.0 + (-h).exp())
    } else {
        let e = h.exp();
        e / (1.0 + e)
    }
}

/// `e^{−|h|}`, `1/(1 + e^{−h})` and its derivative, without a branch.
#[inline(always)]
pub(super) fn logistic_in<S: Simd>(h: f64) -> [f64; 3] {
    let e = exp::<S>(-h.abs().min(700.0));
    let inverse = 1.0 / (1.0 + e);
    let y = if h >= 0.0 { inverse } else { e * inverse };
    [e, y, e * inverse * inverse]
}

impl Sigmoidal for Sigmoid {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let y = logistic(h);
        let d = y * logistic(-h);
        [y, d, d * (1.0 - 2.0 * y), d * (1.0 - 6.0 * d)]
    }

    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        let [_, y, d] = logistic_in::<S>(h);
        [y, d, d * (1.0 - 2.0 * y), d * (1.0 - 6.0 * d)]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (1.0, 0.0)]
    }

    fn pole(&self) -> f64 {
        PI
    }
}
