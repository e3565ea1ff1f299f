//! The leaky rectifier `u(h) = λh + (1 − λ) max(0, h)`: a line plus a scaled rectifier.

use super::rectified;
use super::relu::Relu;
use super::smoothed::{PairRest, Rest, Smoothed};
use super::units::Units;

pub(crate) struct LeakyRelu {
    /// `λ`, the slope on the negative side.
    pub slope: f64,
}

impl LeakyRelu {
    /// The weight of the rectifier; its square scales everything beyond the linear term.
    fn weight(&self) -> f64 {
        1.0 - self.slope
    }
}

impl Smoothed for LeakyRelu {
    fn value(&self, h: f64) -> f64 {
        self.slope * h + self.weight() * h.max(0.0)
    }

    fn slope(&self, h: f64) -> f64 {
        self.slope + self.weight() * Relu.slope(h)
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        let [c0, c1, c2, c3] = Relu.smooth(mean, sd).map(|c| c * self.weight());
        [c0 + self.slope * mean, c1 + self.slope, c2, c3]
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        Relu.hermite(mean, sd, e);
        e.iter_mut().for_each(|e| *e *= self.weight());
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        let k = self.weight() * self.weight();
        let r = Relu.rest(mean, sd);
        Rest { value: k * r.value, d_mean: k * r.d_mean, d_var: k * r.d_var }
    }

    fn expand_double(&self, units: &mut Units<f64>, orders: usize) {
        rectified::expand_all(self.slope, units, orders);
    }

    fn expand_single(&self, units: &mut Units<f32>, orders: usize) {
        rectified::expand_all(self.slope, units, orders);
    }

    fn has_pairs(&self, _: f64) -> bool {
        true
    }

    fn pair(&self, a: (f64, f64), b: (f64, f64), rho: f64, partials: bool) -> PairRest {
        let k = self.weight() * self.weight();
        let p = Relu.pair(a, b, rho, partials);
        PairRest {
            value: k * p.value,
            d_cov: k * p.d_cov,
            d_mean: p.d_mean.map(|x| k * x),
            d_var: p.d_var.map(|x| k * x),
        }
    }

    fn kink(&self) -> Option<f64> {
        Some(self.weight())
    }
}
