//! Expectations under one Gaussian, by quadrature.
//!
//! Nothing here knows about activations: the caller names the kinks of the integrand.

use crate::quadrature::{Scaled, adaptive, with_size};

/// Standard deviations after which the Gaussian density is zero in `f64`.
pub(crate) const REACH: f64 = 38.0;
/// First panels of a Gaussian integral, in standard deviations.
pub(crate) const GRID: [f64; 9] = [-REACH, -9.0, -4.0, -2.0, 0.0, 2.0, 4.0, 9.0, REACH];

/// `E[f(h)]` for `h ~ N(mean, var)`; `breaks` are the kinks or jumps of `f`. A point mass if `var = 0`.
///
/// Within about 1e-14 of `E|f(h)|`.
#[track_caller]
pub fn normal_expectation(mean: f64, var: f64, breaks: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    line(mean, var, breaks, |h| with_size(f(h))).0
}

/// Density of N(0, 1).
pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The `z` at which `mean + slope·z` meets a break, or the bend that functions have about 0 if that is narrow.
pub(crate) fn crossings(mean: f64, slope: f64, breaks: &[f64]) -> Vec<f64> {
    let bends: &[f64] = if slope.abs() > 2.0 { &[-40.0, -8.0, 0.0, 8.0, 40.0] } else { &[] };
    breaks.iter().chain(bends).map(|b| (b - mean) / slope).filter(|z| z.abs() < REACH).collect()
}

/// Expectation over one Gaussian, of value and scale.
#[track_caller]
pub(crate) fn line(mean: f64, var: f64, breaks: &[f64], f: impl Fn(f64) -> Scaled) -> Scaled {
    assert!(var >= 0.0, "variance {var} is negative");
    let sd = var.sqrt();
    if sd == 0.0 {
        return f(mean);
    }
    let points = [&GRID[..], &crossings(mean, sd, breaks)].concat();
    adaptive(points, 0.0, |z| weigh(f(mean + sd * z), density(z)))
}

/// Value and scale times a weight.
pub(crate) fn weigh((value, size): Scaled, weight: f64) -> Scaled {
    (value * weight, size * weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::normal_cdf;
    use crate::differences::assert_close;

    #[test]
    fn moments_of_relu_are_the_closed_ones() {
        for alpha in [-12.0, -4.0, -0.7, 0.0, 1.3, 4.0] {
            let (mean, sd) = (alpha * 0.6, 0.6);
            let rectified = sd * density(alpha) + mean * normal_cdf(alpha);
            // The closed form cancels in the left tail.
            let tolerance = 1e-14 * (1.0 + alpha * alpha * if alpha < 0.0 { 10.0 } else { 0.0 });
            assert_close(normal_expectation(mean, sd * sd, &[0.0], |h| h.max(0.0)), rectified, tolerance);
            let step = normal_expectation(mean, sd * sd, &[0.0], |h| if h > 0.0 { 1.0 } else { 0.0 });
            assert_close(step, normal_cdf(alpha), 1e-13);
        }
    }

    #[test]
    fn wide_and_narrow_laws_are_met() {
        for var in [0.0, 1e-300, 1e-16, 1e-4, 1.0, 30.0] {
            assert_close(normal_expectation(0.3, var, &[], f64::exp), (0.3 + 0.5 * var).exp(), 1e-13);
        }
        let slope = normal_expectation(3.0, 1e8, &[], |h| h.cosh().powi(-2));
        assert_close(slope, 2.0 * density(3e-4) / 1e4, 1e-8);
        assert_eq!(normal_expectation(0.3, 0.0, &[], f64::sin), 0.3f64.sin());
    }
}
