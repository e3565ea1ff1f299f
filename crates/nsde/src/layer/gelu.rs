//! The GELU `u(h) = h Φ(h)` (the exact one): smoothed derivatives in closed form.

use super::sigmoidal::{LONG_TERMS_MAX, Sigmoidal, Weighted};
use super::smoothed::{Rest, Smoothed};
use super::tabled;
use super::units::Units;
use crate::gaussian::special::{cdf, pdf};
use crate::kernel::elementary::Elementary;
use pulp::Simd;

pub(crate) struct Gelu;

/// The function itself, for the quadrature of its second moment, and of everything for a whole layer at once.
pub(super) struct Curve;

/// `u … u'''` from `φ(h)` and `Φ(h)`: `Φ⁽ⁿ⁾` are Hermite polynomials times `φ`.
#[inline(always)]
fn derivatives(h: f64, p: f64, q: f64) -> [f64; 4] {
    [h * q, q + h * p, (2.0 - h * h) * p, h * (h * h - 4.0) * p]
}

impl Sigmoidal for Curve {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        derivatives(h, pdf(h), cdf(h))
    }

    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        let (p, tail) = f64::density_and_tail::<S>(h.abs().min(f64::FAR));
        derivatives(h, p, if h > 0.0 { 1.0 - tail } else { tail })
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(0.0, 0.0), (0.0, 1.0)]
    }

    /// No pole: the function is entire, but its smoothing scale is one.
    fn pole(&self) -> f64 {
        2.0
    }
}

impl Smoothed for Gelu {
    fn value(&self, h: f64) -> f64 {
        h * cdf(h)
    }

    fn slope(&self, h: f64) -> f64 {
        cdf(h) + h * pdf(h)
    }

    /// With `p` the density of `N(0, 1+s)` at `m`: `c_0 = mΦ(t) + s p`, `c_1 = Φ(t) − p'`,
    /// `c_n = p⁽ⁿ⁻²⁾ − p⁽ⁿ⁾`.
    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        let v = 1.0 + sd * sd;
        let t = mean / v.sqrt();
        let p = pdf(t) / v.sqrt();
        let (x, x2) = (mean / v, mean * mean / (v * v));
        if p == 0.0 {
            return [mean * cdf(t), cdf(t), 0.0, 0.0];
        }
        [mean * cdf(t) + sd * sd * p, cdf(t) + x * p, p * (1.0 - x2 + 1.0 / v), p * x * (x2 - 3.0 / v - 1.0)]
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        e.fill(0.0);
        let v = 1.0 + sd * sd;
        let t = mean / v.sqrt();
        let p = pdf(t) / v.sqrt();
        if p == 0.0 {
            return;
        }
        // c_n σⁿ/√n! with p⁽ᵏ⁾ = (−1)ᵏ p He_k(t)/v^{k/2}:  (−1)ⁿ p [σ² qⁿ⁻² he_{n−2}/√(n(n−1)) − qⁿ he_n],
        // q = σ/√v < 1.
        let q = sd / v.sqrt();
        let (mut low, mut mid) = (p, t * q * p); // qᵏ he_k p for k = n−2, n−1
        let mut sign = 1.0;
        for (k, e) in e.iter_mut().enumerate() {
            let n = k as f64 + 2.0;
            let high = q * (t * mid - (n - 1.0).sqrt() * q * low) / n.sqrt();
            *e = sign * (sd * sd * low / (n * (n - 1.0)).sqrt() - high);
            sign = -sign;
            (low, mid) = (mid, high);
        }
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        Weighted::of(&Curve, mean, sd).rest()
    }

    fn expand_double(&self, units: &mut Units<f64>, orders: usize) {
        tabled::expand_double(&Curve, units, orders);
    }

    fn expand_single(&self, units: &mut Units<f32>, orders: usize) {
        tabled::expand_single(&Curve, units, orders);
    }

    /// Coefficients fall like `(σ²/(1+σ²))^{n/2}`.
    fn long_terms(&self, sd: f64) -> usize {
        (30.0 * (1.0 + sd * sd)).min(LONG_TERMS_MAX as f64) as usize
    }
}
