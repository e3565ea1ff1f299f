//! The sine `u(h) = sin h`: every moment in closed form.

use super::smoothed::{PairRest, Rest, Smoothed};
use std::f64::consts::FRAC_PI_2;

pub(crate) struct Sin;

/// Below this variance the closed form of the rest cancels, and its own series is used.
const SMALL_VAR: f64 = 0.1;

/// Terms of that series; the next one is below `0.1¹⁴/14!` of the variance.
const SMALL_TERMS: usize = 14;

impl Sin {
    /// `e_n`, any `n ≥ 1`: `sin(m + nπ/2) exp(n ln σ − s/2) / √n!`.
    fn coefficient(n: usize, mean: f64, sd: f64) -> f64 {
        let log = n as f64 * sd.ln() - 0.5 * sd * sd - 0.5 * libm::lgamma(n as f64 + 1.0);
        (mean + (n % 4) as f64 * FRAC_PI_2).sin() * log.exp()
    }
}

impl Smoothed for Sin {
    fn value(&self, h: f64) -> f64 {
        h.sin()
    }

    fn slope(&self, h: f64) -> f64 {
        h.cos()
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        let (sin, cos) = mean.sin_cos();
        let damp = (-0.5 * sd * sd).exp();
        [damp * sin, damp * cos, -damp * sin, -damp * cos]
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        for (k, e) in e.iter_mut().enumerate() {
            *e = Sin::coefficient(k + 2, mean, sd);
        }
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        let s = sd * sd;
        if s < SMALL_VAR {
            // S = Σ e_n²,  ∂e_n/∂m = √(n+1) e_{n+1}/σ,  and S depends on s through σⁿ e^{−s/2}.
            let mut out = Rest::default();
            for n in 2..SMALL_TERMS {
                let e = Sin::coefficient(n, mean, sd);
                let next = Sin::coefficient(n + 1, mean, sd);
                out.value += e * e;
                out.d_mean += 2.0 * e * ((n + 1) as f64).sqrt() * next / sd;
                out.d_var += e * e * (n as f64 / s - 1.0);
            }
            return out;
        }
        let (damp, cos2) = ((-s).exp(), mean.cos() * mean.cos());
        let (missing, sin_double, cos_double) = (-(-s).exp_m1(), (2.0 * mean).sin(), (2.0 * mean).cos());
        // Var = ½(1 − e^{−s})(1 + cos 2m · e^{−s}), the linear part is s e^{−s} cos² m.
        let variance = 0.5 * missing * (missing + 2.0 * cos2 * damp);
        Rest {
            value: (variance - s * damp * cos2).max(0.0),
            d_mean: -missing * sin_double * damp + s * damp * sin_double,
            d_var: 0.5 * damp * (1.0 + cos_double * damp)
                - 0.5 * missing * cos_double * damp
                - damp * cos2 * (1.0 - s),
        }
    }

    fn has_pairs(&self, _: f64) -> bool {
        true
    }

    fn pair(&self, a: (f64, f64), b: (f64, f64), rho: f64, _: bool) -> PairRest {
        let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
        let cov = rho.clamp(-1.0, 1.0) * sd_i * sd_j;
        let (sin_i, cos_i) = m_i.sin_cos();
        let (sin_j, cos_j) = m_j.sin_cos();
        let s = 0.5 * (sd_i * sd_i + sd_j * sd_j);
        // e^{−s} times cosh B − 1 and sinh B − B, formed without overflow or cancellation.
        let (even, odd, cosh_less) = if cov.abs() < 0.5 {
            let (mut even, mut odd, mut term) = (0.0, 0.0, 1.0);
            for n in 1..20 {
                term *= cov / n as f64;
                if n % 2 == 0 {
                    even += term;
                } else if n > 1 {
                    odd += term;
                }
            }
            let damp = (-s).exp();
            (damp * even, damp * odd, damp * even)
        } else {
            let (up, down, flat) = ((cov - s).exp(), (-cov - s).exp(), (-s).exp());
            let even = 0.5 * (up + down) - flat;
            (even, 0.5 * (up - down) - cov * flat, even)
        };
        let linear = cov * (-s).exp();
        let value = sin_i * sin_j * even + cos_i * cos_j * odd;
        PairRest {
            value,
            // d(cosh B − 1)/dB = sinh B = odd + B,  d(sinh B − B)/dB = cosh B − 1
            d_cov: sin_i * sin_j * (odd + linear) + cos_i * cos_j * cosh_less,
            d_mean: [cos_i * sin_j * even - sin_i * cos_j * odd, sin_i * cos_j * even - cos_i * sin_j * odd],
            d_var: [-0.5 * value; 2],
        }
    }
}
