//! Expectations and covariances under two correlated Gaussians, by nested quadrature.

use crate::normal::{GRID, REACH, crossings, density, line, normal_expectation, weigh};
use crate::quadrature::{Scaled, adaptive, with_size};

/// Beyond this |correlation| two variables count as one: the neglected variance is below rounding.
const DEGENERATE: f64 = 1.0 - 4.0 * f64::EPSILON;

/// `E[f(x, y)]` for `(x, y)` Gaussian with means `mean`, variances `var` and covariance `cov`.
///
/// `breaks` are the places where `f` has kinks in `x` or in `y`. Integrates over `x` and, inside, over `y` given
/// `x`; `|ρ| = 1` and zero variances are integrals over a line or a point. Within about 1e-13 of `E|f(x, y)|`.
///
/// # Panics
/// When the variances are negative, or `|ρ| > 1 + 1e-8`.
#[track_caller]
pub fn normal_expectation_2d(
    mean: [f64; 2],
    var: [f64; 2],
    cov: f64,
    breaks: &[f64],
    f: impl Fn(f64, f64) -> f64,
) -> f64 {
    plane(mean, var, cov, breaks, |x, y| with_size(f(x, y)))
}

/// `Cov[u(x), v(y)] = E[(u(x) − E u)(v(y) − E v)]`, arguments as in [`normal_expectation_2d`].
///
/// `breaks` are the kinks of `u` and those of `v`, together. Within about 1e-13 of `E|u·(v − E v)| + E|(u − E u)·v|`.
#[track_caller]
pub fn covariance_2d(
    mean: [f64; 2],
    var: [f64; 2],
    cov: f64,
    breaks: &[f64],
    u: impl Fn(f64) -> f64,
    v: impl Fn(f64) -> f64,
) -> f64 {
    let mean_u = normal_expectation(mean[0], var[0], breaks, &u);
    let mean_v = normal_expectation(mean[1], var[1], breaks, &v);
    plane(mean, var, cov, breaks, |x, y| {
        let (ux, vy) = (u(x), v(y));
        let (du, dv) = (ux - mean_u, vy - mean_v);
        // The differences carry the rounding errors of u and v themselves.
        (du * dv, (du * dv).abs() + (ux * dv).abs() + (du * vy).abs())
    })
}

/// Expectation over two Gaussians.
#[track_caller]
fn plane(mean: [f64; 2], var: [f64; 2], cov: f64, breaks: &[f64], f: impl Fn(f64, f64) -> Scaled) -> f64 {
    if var[0] == 0.0 {
        return line(mean[1], var[1], breaks, |y| f(mean[0], y)).0;
    }
    if var[1] == 0.0 {
        return line(mean[0], var[0], breaks, |x| f(x, mean[1])).0;
    }
    assert!(var[0] > 0.0 && var[1] > 0.0, "variances {var:?} are negative");
    let (sd_x, sd_y) = (var[0].sqrt(), var[1].sqrt());
    let rho = cov / sd_x / sd_y;
    assert!(rho.abs() <= 1.0 + 1e-8, "correlation {rho} is beyond one");

    // y given x = mean + sd_x·z is N(mean + slope·z, rest²).
    let mut points = [&GRID[..], &crossings(mean[0], sd_x, breaks)].concat();
    if rho.abs() >= DEGENERATE {
        let slope = sd_y.copysign(rho);
        points.extend(crossings(mean[1], slope, breaks));
        return adaptive(points, 0.0, |z| weigh(f(mean[0] + sd_x * z, mean[1] + slope * z), density(z))).0;
    }
    let slope = sd_y * rho;
    let rest = sd_y * ((1.0 - rho) * (1.0 + rho)).sqrt();
    for z in crossings(mean[1], slope, breaks) {
        // Smoothed by y given x, a kink is `rest` wide.
        let wide = 8.0 * rest / slope.abs();
        points.extend([z - wide, z, z + wide].into_iter().filter(|p| p.abs() < REACH));
    }
    adaptive(points, 0.0, |z| {
        weigh(line(mean[1] + slope * z, rest * rest, breaks, |y| f(mean[0] + sd_x * z, y)), density(z))
    })
    .0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::{Activation, NAMES, by_name, normal_cdf};
    use crate::differences::{assert_close, assert_close_abs};
    use crate::quadrature::integrate;

    /// The covariance of two rectified Gaussians of unit variance as one smooth integral (METHOD.md, section 2).
    fn relu_cov(a: [f64; 2], rho: f64) -> f64 {
        let integral = integrate(0.0, rho.asin(), &[], 0.0, |t| {
            let q = (a[0] * a[0] + a[1] * a[1] - 2.0 * a[0] * a[1] * t.sin()) / (2.0 * t.cos().powi(2));
            (rho - t.sin()) * (-q).exp()
        });
        rho * normal_cdf(a[0]) * normal_cdf(a[1]) + integral / (2.0 * std::f64::consts::PI)
    }

    #[test]
    fn covariance_of_relu_is_the_smooth_integral() {
        for rho in [-0.999_999, -0.6, 0.0, 0.3, 0.99, 0.999_999, 1.0 - 1e-11, 1.0 - 1e-15] {
            for mean in [[0.0, 0.0], [0.5, -0.3], [-4.0, 3.0], [4.0, 4.0]] {
                let relu = |x: f64| x.max(0.0);
                let cov = covariance_2d(mean, [1.0, 1.0], rho, &[0.0], relu, relu);
                assert_close_abs(cov, relu_cov(mean, rho), 1e-13);
            }
        }
    }

    #[test]
    fn covariance_of_sin_and_exp_is_the_closed_one() {
        let ([m, n], [s, t]) = ([0.4f64, -1.1], [0.7, 2.0]);
        for rho in [-1.0, -0.9, 0.2, 0.999_999, 1.0] {
            let c: f64 = rho * f64::sqrt(s * t);
            let sin =
                (-(s + t) / 2.0).exp() * (c.exp_m1() * (m - n).cos() - (-c).exp_m1() * (m + n).cos()) / 2.0;
            assert_close_abs(covariance_2d([m, n], [s, t], c, &[], f64::sin, f64::sin), sin, 1e-13);
            let exp = (m + n + (s + t) / 2.0).exp() * c.exp_m1();
            assert_close(covariance_2d([m, n], [s, t], c, &[], f64::exp, f64::exp), exp, 1e-12);
        }
    }

    /// The two orders of integration share no inner integral.
    #[test]
    fn covariance_does_not_depend_on_the_order_of_integration() {
        for u in NAMES.iter().filter_map(|name| by_name(name)) {
            for (mean, var, rho) in [([2.0, -1.0], [0.25, 1.5], 0.8), ([0.3, 0.1], [1.0, 0.01], -0.999_999)] {
                let (f, cov) = (|x| u.value(x), rho * f64::sqrt(var[0] * var[1]));
                let one = covariance_2d(mean, var, cov, u.kinks(), f, f);
                let other = covariance_2d([mean[1], mean[0]], [var[1], var[0]], cov, u.kinks(), f, f);
                assert_close_abs(one, other, 2e-13 * (1.0 + f(mean[0]).abs()));
            }
        }
    }

    /// Near |ρ| = 1 the plane must join the line: the derivative in the covariance is E[u'] E[u'] at most.
    #[test]
    fn perfect_correlation_is_a_line() {
        for u in [Activation::Relu, Activation::Tanh, Activation::Elu] {
            let (f, mean) = (|x| u.value(x), [0.2, -0.4]);
            for sign in [-1.0, 1.0] {
                let line = covariance_2d(mean, [1.0, 4.0], 2.0 * sign, u.kinks(), f, f);
                let near = covariance_2d(mean, [1.0, 4.0], 2.0 * sign * (1.0 - 1e-13), u.kinks(), f, f);
                assert_close_abs(line, near, 1e-12);
            }
            let variance = covariance_2d([0.2, 0.2], [3.0, 3.0], 3.0, u.kinks(), f, f);
            let square = normal_expectation(0.2, 3.0, u.kinks(), |x| f(x) * f(x));
            let expected = square - normal_expectation(0.2, 3.0, u.kinks(), f).powi(2);
            assert_close(variance, expected, 1e-13);
        }
    }

    #[test]
    fn point_masses_have_no_covariance() {
        for var in [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]] {
            assert_close_abs(covariance_2d([0.3, -0.2], var, 0.0, &[], f64::tanh, f64::tanh), 0.0, 1e-16);
        }
        let product = normal_expectation_2d([2.0, 3.0], [0.0, 1.0], 0.0, &[], |x, y| x * y * y);
        assert_close(product, 20.0, 1e-14);
    }

    /// As the variance falls, Cov[u, v] → u'v'·cov, down to where rounding of u itself takes over.
    #[test]
    fn tiny_variances_do_not_stall() {
        let slopes = 0.3f64.cos() * 0.5f64.cos();
        for var in [1e-8, 1e-14, 1e-20] {
            let cov = covariance_2d([0.3, 0.5], [var, var], 0.5 * var, &[0.0], f64::sin, f64::sin);
            assert_close_abs(cov, 0.5 * var * slopes, var * var + 1e-15 * f64::sqrt(var));
        }
    }

    #[test]
    #[should_panic(expected = "beyond one")]
    fn an_impossible_correlation_is_refused() {
        normal_expectation_2d([0.0, 0.0], [1.0, 1.0], 1.1, &[], |x, y| x * y);
    }
}
