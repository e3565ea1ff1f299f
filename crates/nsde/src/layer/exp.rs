//! The exponential `u(h) = exp h`: log-normal moments.

use super::smoothed::{PairRest, Rest, Smoothed};

pub(crate) struct Exp;

/// The logarithm of a mean is kept below this: a unit beyond it is scaled down to the mean `e³⁰ ≈ 1e13`,
/// so that a chain of exponentials stays inside the floating-point range. No useful model is near it.
/// The layer counts how often it was needed (`Stats::exp_clamped`).
pub(crate) const LOG_MAX: f64 = 30.0;

/// A second moment beyond `e⁸⁰` is cut there, and the unit loses its correlations.
const SQUARE_LOG_MAX: f64 = 80.0;

/// `log E[eʰ]`, below its bound.
fn log_mean(mean: f64, sd: f64) -> f64 {
    (mean + 0.5 * sd * sd).min(LOG_MAX)
}

/// Whether the second moment is beyond its bound.
fn is_spread(mean: f64, sd: f64) -> bool {
    2.0 * log_mean(mean, sd) + sd * sd > SQUARE_LOG_MAX
}

impl Exp {
    /// Whether `N(mean, sd²)` reaches a guard.
    pub fn is_clamped(mean: f64, sd: f64) -> bool {
        mean + 0.5 * sd * sd > LOG_MAX || is_spread(mean, sd)
    }
}

/// `e^log (eˣ − 1 − x)`, without overflow where the product is none.
fn exp_m2(log: f64, x: f64) -> f64 {
    if x > 0.5 {
        return (log + x).exp() * (1.0 - (1.0 + x) * (-x).exp());
    }
    if x < -0.5 {
        return log.exp() * (x.exp_m1() - x);
    }
    let (mut sum, mut term) = (0.0, x);
    for n in 2..20 {
        term *= x / n as f64;
        sum += term;
    }
    log.exp() * sum
}

/// `e^log (eˣ − 1)`, without overflow where the product is none.
fn exp_m1(log: f64, x: f64) -> f64 {
    if x > 0.5 { (log + x).exp() * (1.0 - (-x).exp()) } else { log.exp() * x.exp_m1() }
}

impl Smoothed for Exp {
    fn value(&self, h: f64) -> f64 {
        log_mean(h, 0.0).exp()
    }

    fn slope(&self, h: f64) -> f64 {
        log_mean(h, 0.0).exp()
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        [log_mean(mean, sd).exp(); 4]
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        let log = log_mean(mean, sd);
        for (k, e) in e.iter_mut().enumerate() {
            let n = k as f64 + 2.0;
            *e = (log + n * sd.ln() - 0.5 * libm::lgamma(n + 1.0)).min(0.5 * SQUARE_LOG_MAX).exp();
        }
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        if is_spread(mean, sd) {
            return Rest { value: SQUARE_LOG_MAX.exp(), ..Rest::default() };
        }
        // S = E² (e^s − 1 − s) with E = e^{m + s/2};  ∂S/∂s = S + E² (e^s − 1)
        let (log, s) = (2.0 * log_mean(mean, sd), sd * sd);
        let value = exp_m2(log, s);
        Rest { value, d_mean: 2.0 * value, d_var: value + exp_m1(log, s) }
    }

    fn has_pairs(&self, _: f64) -> bool {
        true
    }

    fn pair(&self, a: (f64, f64), b: (f64, f64), rho: f64, _: bool) -> PairRest {
        let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
        if is_spread(m_i, sd_i) || is_spread(m_j, sd_j) {
            return PairRest::default();
        }
        let cov = rho.clamp(-1.0, 1.0) * sd_i * sd_j;
        let log = log_mean(m_i, sd_i) + log_mean(m_j, sd_j);
        let value = exp_m2(log, cov);
        PairRest { value, d_cov: exp_m1(log, cov), d_mean: [value; 2], d_var: [0.5 * value; 2] }
    }
}
