//! The exponential `u(h) = exp h`: log-normal moments.

use super::smoothed::{PairRest, Pairwise, Rest, Smoothed};

pub(crate) struct Exp;

/// The logarithms of mean, deviation and coefficients are kept below this, so that a chain of
/// exponentials stays inside the floating-point range. `e³⁰ ≈ 1e13`: no useful model is near it.
/// The layer counts how often it was needed (`Stats::exp_clamped`).
pub(crate) const LOG_MAX: f64 = 30.0;

fn bounded(log: f64) -> f64 {
    log.min(LOG_MAX).exp()
}

impl Exp {
    /// Whether `N(mean, sd²)` reaches the guard.
    pub fn is_clamped(mean: f64, sd: f64) -> bool {
        mean + sd * sd > LOG_MAX
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
        bounded(h)
    }

    fn slope(&self, h: f64) -> f64 {
        bounded(h)
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        [bounded(mean + 0.5 * sd * sd); 4]
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        let log = mean + 0.5 * sd * sd;
        for (k, e) in e.iter_mut().enumerate() {
            let n = k as f64 + 2.0;
            *e = bounded(log + n * sd.ln() - 0.5 * libm::lgamma(n + 1.0));
        }
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        let s = sd * sd;
        if Exp::is_clamped(mean, sd) {
            let value = bounded(mean + s).powi(2);
            return Rest { value, d_mean: 0.0, d_var: 0.0 };
        }
        // S = E² (e^s − 1 − s) with E = e^{m + s/2};  ∂S/∂s = S + E² (e^s − 1)
        let log = 2.0 * mean + s;
        let value = exp_m2(log, s);
        Rest { value, d_mean: 2.0 * value, d_var: value + exp_m1(log, s) }
    }

    fn has_pairs(&self, how: Pairwise, _: f64) -> bool {
        how == Pairwise::Exact
    }

    fn pair(&self, _: Pairwise, a: (f64, f64), b: (f64, f64), rho: f64, _: bool) -> PairRest {
        let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
        if Exp::is_clamped(m_i, sd_i) || Exp::is_clamped(m_j, sd_j) {
            // A guarded unit keeps its variance and loses its correlations.
            return PairRest::default();
        }
        let cov = rho.clamp(-1.0, 1.0) * sd_i * sd_j;
        let log = m_i + m_j + 0.5 * (sd_i * sd_i + sd_j * sd_j);
        let value = exp_m2(log, cov);
        PairRest { value, d_cov: exp_m1(log, cov), d_mean: [value; 2], d_var: [0.5 * value; 2] }
    }
}
