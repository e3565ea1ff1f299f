//! The ELU: `h` above zero, `eʰ − 1` below. Smoothed derivatives in closed form.

use super::sigmoidal::{Sigmoidal, Weighted};
use super::smoothed::{PairRest, Rest, Smoothed};
use crate::gaussian::special::{INV_SQRT_2PI, TAIL, angles, cdf, mills, pdf, plackett_exponent, softrelu};
use crate::kernel::legendre;
use std::f64::consts::PI;
use std::sync::OnceLock;

pub(crate) struct Elu;

/// The function itself, for quadratures that split at its kink.
struct Curve;

impl Sigmoidal for Curve {
    fn derivatives(&self, h: f64) -> [f64; 4] {
        if h > 0.0 { [h, 1.0, 0.0, 0.0] } else { [h.exp_m1(), h.exp(), h.exp(), h.exp()] }
    }

    fn asymptotes(&self) -> [(f64, f64); 2] {
        [(-1.0, 0.0), (0.0, 1.0)]
    }

    fn pole(&self) -> f64 {
        unreachable!("the trapezoidal rule is not for a function with a kink")
    }
}

/// Up to this deviation the closed forms lose no digits; beyond it the shared quadrature serves.
const NARROW: f64 = 3.0;

/// Above this deviation the integrand of the exact pair formula is too peaked for its rule, and a
/// long series takes over, good to about 1e-8 of the variance at correlations near ±1.
const PAIR_SD_MAX: f64 = 2.0;
const LONG_TERMS: usize = 400;

/// `E[eʰ 1(h < 0)] = e^{m + s/2} Φ(−α − σ) = φ(α) · Mills(α + σ)`.
fn tail_exp(mean: f64, sd: f64) -> f64 {
    let a = mean / sd;
    if a + sd > 0.0 { pdf(a) * mills(a + sd) } else { (mean + 0.5 * sd * sd).exp() * cdf(-a - sd) }
}

/// Calls `each(z, weight)` over a rule in `z` that splits at the kink.
fn split_rule(kink: f64, each: &mut dyn FnMut(f64, f64)) {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    let rule = RULE.get_or_init(|| legendre::rule(16));
    let edges = [-9.5, -6.0, -3.0, -1.0, 1.0, 3.0, 6.0, 9.5];
    let panel = |from: f64, to: f64, each: &mut dyn FnMut(f64, f64)| {
        for (x, w) in rule {
            let z = from + (to - from) * x;
            each(z, w * (to - from) * pdf(z));
        }
    };
    for e in edges.windows(2) {
        if e[0] < kink && kink < e[1] {
            panel(e[0], kink, each);
            panel(kink, e[1], each);
        } else {
            panel(e[0], e[1], each);
        }
    }
}

impl Smoothed for Elu {
    fn value(&self, h: f64) -> f64 {
        Curve.derivatives(h)[0]
    }

    fn slope(&self, h: f64) -> f64 {
        Curve.derivatives(h)[1]
    }

    /// `c_0 = σ SR(α) + T − Φ(−α)`, `c_1 = Φ(α) + T`, `c_2 = T`, `c_3 = T − φ(α)/σ`, `T = E[eʰ 1(h<0)]`.
    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        if sd == 0.0 {
            return Curve.derivatives(mean);
        }
        let a = mean / sd;
        let t = tail_exp(mean, sd);
        // T − Φ(−α) = E[(eʰ − 1) 1(h<0)]; for a narrow Gaussian far below zero that is expm1.
        let below = if a < -TAIL && a + sd <= 0.0 { (mean + 0.5 * sd * sd).exp_m1() } else { t - cdf(-a) };
        let above = if a > TAIL { mean } else { sd * softrelu(a) };
        [above + below, cdf(a) + t, t, t - pdf(a) / sd]
    }

    /// `σⁿc_n`: `a_2 = σ²T`, `a_{n+1} = σ a_n − (−1)ⁿ σ² He_{n−2}(α) φ(α)`.
    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        if sd > NARROW {
            return Weighted::of(&Curve, mean, sd).hermite(e);
        }
        let a = mean / sd;
        let mut now = sd * sd * tail_exp(mean, sd) / 2f64.sqrt();
        let (mut he, mut before) = (pdf(a) * sd * sd, 0.0); // σ² φ he_k
        let mut sign = 1.0;
        for (k, e) in e.iter_mut().enumerate() {
            *e = now;
            // e_{n+1} = (σ e_n − ± σ² φ he_{n−2} √((n−2)!/n!)) / √(n+1)
            let (k, n) = (k as f64, k as f64 + 2.0);
            now = (sd * now - sign * he / (n * (n - 1.0)).sqrt()) / (n + 1.0).sqrt();
            sign = -sign;
            (he, before) = ((a * he - k.sqrt() * before) / (k + 1.0).sqrt(), he);
        }
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        let here = Weighted::of(&Curve, mean, sd);
        if sd > NARROW { here.rest() } else { here.narrow_rest(|each| split_rule(-mean / sd, each)) }
    }

    fn has_pairs(&self, sd: f64) -> bool {
        sd <= PAIR_SD_MAX
    }

    /// With `u'' = eʰ 1(h<0)` and `G(b) = E[u''(x) u''(y)]` at covariance `b`, Price's theorem gives
    /// the entry beyond the linear term as `∫₀ᴮ (B − b) G(b) db`; here with `b = σ_iσ_j sin θ`.
    fn pair(&self, a: (f64, f64), b: (f64, f64), rho: f64, partials: bool) -> PairRest {
        let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
        let (a_i, a_j) = (m_i / sd_i, m_j / sd_j);
        if a_i > TAIL || a_j > TAIL {
            return PairRest::default();
        }
        let rho = rho.clamp(-1.0, 1.0);
        let scale = sd_i * sd_j;
        let mut out = PairRest::default();
        angles(rho, |theta, weight| {
            let (r, root) = theta.sin_cos();
            let w = weight * root * scale;
            let reach = (rho - r) * scale;
            let both = both_below(a, b, r);
            out.value += w * reach * both;
            if partials {
                out.d_cov += w * both;
                let (first, second) = shifted(a, b, r, root, both);
                out.d_mean[0] += w * reach * first;
                out.d_var[0] += 0.5 * w * reach * second;
                let (first, second) = shifted(b, a, r, root, both);
                out.d_mean[1] += w * reach * first;
                out.d_var[1] += 0.5 * w * reach * second;
            }
        });
        out
    }

    fn long_terms(&self, _: f64) -> usize {
        LONG_TERMS
    }
}

/// `E[e^{x+y} 1(x<0) 1(y<0)]` at correlation `r`: a tilted bivariate normal, by Plackett's integral
/// with the tilt taken into the exponent.
fn both_below(a: (f64, f64), b: (f64, f64), r: f64) -> f64 {
    let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
    let log = m_i + m_j + 0.5 * (sd_i * sd_i + sd_j * sd_j) + r * sd_i * sd_j;
    let (p, q) = (-m_i / sd_i - sd_i - r * sd_j, -m_j / sd_j - sd_j - r * sd_i);
    let mut sum = 0.0;
    angles(r, |theta, weight| sum += weight * (log - plackett_exponent(p, q, theta)).exp());
    // e^log Φ(p) Φ(q), each tail as density times Mills' ratio.
    let side = |x: f64| if x < 0.0 { (-0.5 * x * x, INV_SQRT_2PI * mills(-x)) } else { (0.0, cdf(x)) };
    let ((e_p, f_p), (e_q, f_q)) = (side(p), side(q));
    ((log + e_p + e_q).exp() * f_p * f_q + sum / (2.0 * PI)).max(0.0)
}

/// `∂G/∂m_i = E[u'''(x) u''(y)]` and `∂²G/∂m_i² = E[u''''(x) u''(y)]`, where
/// `u''' = u'' − δ` and `u'''' = u'' − δ − δ'`.
fn shifted(a: (f64, f64), b: (f64, f64), r: f64, root: f64, both: f64) -> (f64, f64) {
    let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
    let a_i = m_i / sd_i;
    let density = INV_SQRT_2PI * (-0.5 * a_i * a_i).exp() / sd_i;
    // y given x = 0
    let (mean, sd) = (m_j - r * sd_j * a_i, (sd_j * root).max(f64::MIN_POSITIVE));
    let below = tail_exp(mean, sd);
    let edge = pdf(mean / sd) / sd;
    let at_zero = density * below;
    // E[δ'(x) k(x)] = −(p k)'(0) with p'(0) = p α/σ and k' = (r σ_j/σ_i)(T − edge).
    let slope = density * (a_i / sd_i * below + r * sd_j / sd_i * (below - edge));
    (both - at_zero, both - at_zero + slope)
}
