//! What a kink leaves behind: the moments of `x⁺` and of the step `1(x > 0)` beyond their linear part.

use super::sigmoidal::{LONG_TERMS_MAX, hermite_ratios};
use super::smoothed::{PairRest, Rest};
use super::units::Units;
use crate::gaussian::special::{TAIL, angles, cdf, cdf2, pdf, plackett, softrelu};
use crate::kernel::dispatch::arch;
use crate::kernel::elementary::Elementary;
use pulp::{Simd, WithSimd};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::OnceLock;

/// `c_0 … c_3` of the ReLU (METHOD, section 2): `σ SR(α)`, `Φ(α)`, `φ(α)/σ`, `−α φ(α)/σ²`.
///
/// A point mass (`sd = 0`) has `c_0 = m⁺` and `c_1` = 0, ½ or 1; the delta functions of the
/// higher derivatives are taken as zero there.
pub(crate) fn relu_smooth(mean: f64, sd: f64) -> [f64; 4] {
    if sd == 0.0 {
        let slope = if mean > 0.0 {
            1.0
        } else if mean < 0.0 {
            0.0
        } else {
            0.5
        };
        return [mean.max(0.0), slope, 0.0, 0.0];
    }
    let a = mean / sd;
    let density = pdf(a);
    let c0 = if a > TAIL { mean } else { sd * softrelu(a) };
    let c2 = density / sd;
    let c3 = if density == 0.0 { 0.0 } else { -(a * density / sd) / sd };
    [c0, cdf(a), c2, c3]
}

/// Adds `scale · e_n` of the ReLU to `e[n − 2]`, `n ≥ 2`: `e_n = (−1)ⁿ He_{n−2}(α) φ(α) σ / √n!`.
pub(crate) fn add_relu_hermite(mean: f64, sd: f64, scale: f64, e: &mut [f64]) {
    let a = mean / sd;
    add_relu_hermite_at(a, pdf(a) * sd * scale, e);
}

/// The same, with `φ(α) σ scale` at hand.
fn add_relu_hermite_at(a: f64, lead: f64, e: &mut [f64]) {
    if lead == 0.0 {
        return;
    }
    // Hermite polynomials over √k!, times φ, so that neither factor overflows; the sign goes into α.
    let ratios = hermite_ratios();
    let (mut now, mut before) = (lead, 0.0);
    for (k, e) in e.iter_mut().enumerate() {
        // 1/√((k+1)(k+2)), and the recurrence from he_k to he_{k+1}.
        let next = ratios[k].0;
        let (first, second) = if k == 0 { (1.0, 0.0) } else { ratios[k - 1] };
        *e += now * next * first;
        (now, before) = (-a * now * first - before * second, now);
    }
}

/// Everything about a ReLU unit from one `erfc` and one `exp`; sets `e`.
pub(crate) fn relu_expand(mean: f64, sd: f64, e: &mut [f64]) -> ([f64; 4], Rest) {
    e.fill(0.0);
    let a = mean / sd;
    if a.abs() > TAIL {
        return (relu_smooth(mean, sd), Rest::default());
    }
    let density = pdf(a);
    let left = -a.abs();
    let tail = cdf(left);
    let up = if a > 0.0 { 1.0 - tail } else { tail };
    // SR in the left tail, and its mirror image SR(α) = α + SR(−α).
    let sr_left = (density + left * tail).max(0.0);
    let sr = if a > 0.0 { a + sr_left } else { sr_left };
    add_relu_hermite_at(a, density * sd, e);
    ([sd * sr, up, density / sd, -(a * density / sd) / sd], relu_rest_at(mean, sd, density, tail, sr_left))
}

/// Everything about a whole layer of leaky rectifiers `λh + (1 − λ)h⁺` at once, in vectors.
pub(crate) fn expand_all<E: Elementary>(slope: f64, units: &mut Units<E>, orders: usize) {
    arch().dispatch(ExpandAll { slope, units, orders, factors: factors() });
}

/// `−1/√n` and `−(n − 3)/√(n(n − 1))`, `n ≥ 2`: from `e_{n−1}` and `e_{n−2}` to `e_n`.
fn factors() -> &'static [(f64, f64)] {
    static FACTORS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    FACTORS.get_or_init(|| {
        let factor =
            |n: usize| (-(n as f64).sqrt().recip(), -(n as f64 - 3.0) / ((n * (n - 1)) as f64).sqrt());
        (2..LONG_TERMS_MAX + 4).map(factor).collect()
    })
}

struct ExpandAll<'a, E> {
    slope: f64,
    units: &'a mut Units<E>,
    orders: usize,
    factors: &'a [(f64, f64)],
}

impl<E: Elementary> WithSimd for ExpandAll<'_, E> {
    type Output = ();

    /// Several short loops, so that the compiler makes vectors of each.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let ExpandAll { slope, units, orders, factors } = self;
        let n = units.rest.len();
        let (slope, kink) = (E::of(slope), E::of(1.0 - slope));
        let (zero, one, two, half) = (E::ZERO, E::ONE, E::of(2.0), E::of(0.5));
        let Units { mean, sd, c: [c0, c1, c2, c3], rest, rest_mean, rest_var, e, scratch, .. } = units;
        let (mean, sd) = (&mean[..n], &sd[..n]);
        let [alpha, density, tail, inverse] = scratch;
        let (alpha, density) = (&mut alpha[..n], &mut density[..n]);
        let (tail, inverse) = (&mut tail[..n], &mut inverse[..n]);
        // A point mass counts as deviation 1 without density.
        let safe = |sd: E| if sd > zero { sd } else { one };
        for i in 0..n {
            let inv = one / safe(sd[i]);
            let a = mean[i] * inv;
            let a = if a > E::FAR { E::FAR } else { a };
            let a = if a < -E::FAR { -E::FAR } else { a };
            let (d, t) = E::density_and_tail::<S>(a.abs());
            let live = sd[i] > zero && a.abs() < E::FAR;
            alpha[i] = a;
            inverse[i] = inv;
            density[i] = if live { d } else { zero };
            tail[i] = if live { t } else { zero };
        }
        let (c0, c1, c2, c3) = (&mut c0[..n], &mut c1[..n], &mut c2[..n], &mut c3[..n]);
        let (rest, rest_mean, rest_var) = (&mut rest[..n], &mut rest_mean[..n], &mut rest_var[..n]);
        for i in 0..n {
            let (s, a, d, t) = (safe(sd[i]), alpha[i], density[i], tail[i]);
            let x = a.abs();
            // SR in the left tail; σ SR(α) = m⁺ + σ SR(−|α|).
            let sr = (d - x * t).positive();
            let up = if mean[i] > zero { one - t } else { t };
            let up = if sd[i] == zero && mean[i] == zero { half } else { up };
            c0[i] = slope * mean[i] + kink * (mean[i].positive() + s * sr);
            c1[i] = slope + kink * up;
            c2[i] = kink * (d * inverse[i]);
            c3[i] = -kink * (a * d * inverse[i] * inverse[i]);
            // As in `relu_rest_at`.
            let unit = kink * kink * (t - x * sr - sr * sr - t * t).positive();
            let turn = kink * kink * (d + sr - x * t - two * sr * t - two * t * d);
            let turn = if mean[i] > zero { -turn } else { turn };
            rest[i] = s * s * unit;
            rest_mean[i] = s * turn;
            rest_var[i] = unit - half * a * turn;
            // What `add_relu_hermite_at` leads with, less the root of 2! of its first term.
            density[i] = E::of(FRAC_1_SQRT_2) * kink * s * d;
        }
        // √n e_n = −α e_{n−1} − (n − 3)/√(n−1) e_{n−2}, all units abreast.
        let stride = e.stride;
        if orders > 0 {
            e.row_mut(0)[..n].copy_from_slice(density);
        }
        for (k, (fast, slow)) in factors.iter().enumerate().take(orders).skip(1) {
            let (fast, slow) = (E::of(*fast), E::of(*slow));
            let (done, next) = e.data.split_at_mut(k * stride);
            let (now, before) = (&done[(k - 1) * stride..][..n], &done[k.saturating_sub(2) * stride..][..n]);
            let next = &mut next[..n];
            for i in 0..n {
                next[i] = E::fma::<S>(fast * alpha[i], now[i], slow * before[i]);
            }
        }
    }
}

/// Adds `scale · e_n` of the step to `e[n − 2]`, `n ≥ 2`: `e_n = (−1)ⁿ⁻¹ He_{n−1}(α) φ(α) / √n!`.
pub(crate) fn add_step_hermite(mean: f64, sd: f64, scale: f64, e: &mut [f64]) {
    let a = mean / sd;
    let density = pdf(a);
    if density == 0.0 || scale == 0.0 {
        return;
    }
    let (mut now, mut before) = (a * density * scale, density * scale);
    let mut sign = -1.0;
    for (k, e) in e.iter_mut().enumerate() {
        // `now` is he_{n−1} φ with n = k + 2.
        let n = k as f64 + 2.0;
        *e += sign * now / n.sqrt();
        sign = -sign;
        (now, before) = ((a * now - (n - 1.0).sqrt() * before) / n.sqrt(), now);
    }
}

/// `Var[x⁺] − c_1² σ²`: what the best linear predictor leaves. Even in the mean, so it is always
/// taken in the left tail, where nothing cancels.
pub(crate) fn relu_rest(mean: f64, sd: f64) -> Rest {
    let a = -(mean / sd).abs();
    if a < -TAIL {
        return Rest::default();
    }
    relu_rest_at(mean, sd, pdf(a), cdf(a), softrelu(a))
}

/// The same, with `φ`, `Φ` and `SR` in the left tail at hand.
fn relu_rest_at(mean: f64, sd: f64, density: f64, tail: f64, sr: f64) -> Rest {
    let a = -(mean / sd).abs();
    let unit = (tail + a * sr - sr * sr - tail * tail).max(0.0);
    // d/dα of the unit value; `sr' = Φ`.
    let slope = density + sr + a * tail - 2.0 * sr * tail - 2.0 * tail * density;
    let slope = if mean > 0.0 { -slope } else { slope };
    Rest {
        value: sd * sd * unit,
        d_mean: sd * slope,
        // S = σ² s(α), α = m/σ:  ∂S/∂σ² = s − ½ α s'
        d_var: unit - 0.5 * (mean / sd) * slope,
    }
}

/// The part of `Cov[x⁺, y⁺]` beyond `Φ Φ Cov[x, y]`, by one smooth integral (METHOD, section 2):
///
/// ```text
/// σ_iσ_j/2π ∫₀^{asin ρ} (ρ − sin θ) exp(−(α_i² + α_j² − 2α_iα_j sin θ)/(2cos²θ)) dθ
/// ```
pub(crate) fn relu_pair_exact(a: (f64, f64), b: (f64, f64), rho: f64, partials: bool) -> PairRest {
    let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
    let (a_i, a_j) = (m_i / sd_i, m_j / sd_j);
    if a_i.abs() > TAIL || a_j.abs() > TAIL {
        return PairRest::default();
    }
    let rho = rho.clamp(-1.0, 1.0);
    let mut sum = 0.0;
    angles(rho, |theta, weight| sum += weight * (rho - theta.sin()) * plackett(a_i, a_j, theta));
    let mut out = PairRest { value: sd_i * sd_j * sum / (2.0 * PI), ..Default::default() };
    if partials {
        let root = (1.0 - rho * rho).sqrt();
        // α_j given x = 0, and α_i given y = 0, over the conditional deviation.
        let given = |other: f64, here: f64| {
            let shift = other - rho * here;
            if root > 0.0 { shift / root } else { shift.signum() * f64::INFINITY }
        };
        let (phi_i, phi_j, cdf_i, cdf_j) = (pdf(a_i), pdf(a_j), cdf(a_i), cdf(a_j));
        let (on_i, on_j) = (given(a_j, a_i), given(a_i, a_j));
        let both = cdf2(a_i, a_j, rho);
        out.d_cov = both - cdf_i * cdf_j;
        // Cov[1(x>0), y⁺] less the slope of the linear term, Φ_j φ_i ρ.
        let step = |a_j: f64, phi_i: f64, phi_j: f64, cdf_i: f64, cdf_j: f64, on_i: f64, on_j: f64| {
            a_j * (both - cdf_i * cdf_j) + phi_j * (cdf(on_j) - cdf_i) + rho * phi_i * (cdf(on_i) - cdf_j)
        };
        out.d_mean = [
            sd_j * step(a_j, phi_i, phi_j, cdf_i, cdf_j, on_i, on_j),
            sd_i * step(a_i, phi_j, phi_i, cdf_j, cdf_i, on_j, on_i),
        ];
        // ½ Cov[δ(x), y⁺] less ½ c_3(i) c_1(j) C, with c_3 = −α φ/σ².
        let delta = |a_i: f64, a_j: f64, phi_i: f64, cdf_j: f64, on_i: f64| {
            let lifted = if root > 0.0 { root * softrelu_wide(on_i) } else { (a_j - rho * a_i).max(0.0) };
            0.5 * phi_i * (lifted - softrelu(a_j) + rho * a_i * cdf_j)
        };
        out.d_var = [
            sd_j / sd_i * delta(a_i, a_j, phi_i, cdf_j, on_i),
            sd_i / sd_j * delta(a_j, a_i, phi_j, cdf_i, on_j),
        ];
    }
    out
}

fn softrelu_wide(x: f64) -> f64 {
    if x > TAIL { x } else { softrelu(x) }
}
