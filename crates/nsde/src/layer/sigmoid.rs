//! The logistic function `1/(1 + e^{−h})`.

use super::sigmoidal::Sigmoidal;
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

impl Sigmoidal for Sigmoid {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        let y = logistic(h);
        let d = y * logistic(-h);
        [y, d, d * (1.0 - 2.0 * y), d * (1.0 - 6.0 * d)]
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (1.0, 0.0)]
    }

    fn pole(&self) -> f64 {
        PI
    }
}
