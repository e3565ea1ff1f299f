//! The paper's formula for the covariance of two rectifiers, beyond its linear term (Sec. 4.2, Eqs. 23–26),
//! corrected:
//!
//! ```text
//! Cov/(σ_iσ_j) ≈ ρ (Φ_iΦ_j + g/2π · exp(−q))          g = asin ρ − ρ/(1+ρ̄),  ρ̄ = √(1−ρ²)
//!     q = ρ (α_i² + α_j²)/(2g(1+ρ̄)) − (asin ρ − ρ) α_iα_j/(gρ)
//! ```
//!
//! # Departs from the paper
//! As printed, Eq. 23 keeps the product of the means, `g` has a plus, and the exponential lacks
//! the factor `ρ`. Decided by `every_activation_and_mode_is_as_accurate_as_documented`.
//!
//! # One polynomial serves value and derivatives
//! With `w = 2/(1+ρ̄)`, `u = ρw/2 = tan(½ asin ρ)` and `x = u² = w − 1`, the only transcendental function
//! of `ρ` is `p(x) = ((1+x) 2atan(u)/u − 2)/x − 1`, smooth on `[0, 1]`. Nothing is 0/0 at `ρ = 0`:
//!
//! ```text
//! D = 1 + xp      g = uD/w     asin ρ = ρ(D + w)/2     v = u(1+p)/2
//! q = w/D (½α_i² + ½α_j² − v α_iα_j)                   E = exp(−q)/2π
//! K     = ½ρ² D E                                       the entry is κ² σ_iσ_j K
//! K_ρ   = ½ρ E (D + w − Y)                              Y = ρ/(ρ̄(1+ρ̄)) (2vq − (1−p) α_iα_j)
//! K_α_i = −½ρ² E w (α_i − v α_j)
//! ```
//!
//! In the code `α` carries a factor `√log₂e`, so that `exp` is a power of two. One long loop would wait for
//! its own results, hence several short ones over a buffer with a few rows.

use super::elementary::{ABREAST, vector_exp2, vector_polynomial};
use super::mat::padded;
use super::{Mat, Real, Single};
use crate::gaussian::special::TAIL;
use pulp::{Simd, WithSimd};
use std::f64::consts::{LN_2, LOG2_E, PI};

/// `|ρ|` is kept this far below one in the derivative, which grows like `1/√(1 − ρ²)` there.
const RHO_MAX: f64 = 1.0 - 1e-6;

/// Rows are taken together until they have this many entries: enough to hide the latency of a pass, and
/// all columns of the buffer stay in the first cache.
const fn entries<T: Real>() -> usize {
    if T::LANES == 1 { 256 } else { 64 }
}

/// Columns of the buffer; three are enough for the value.
const COLUMNS: usize = 7;

/// `p(x)` on `[0, 1]`: the interpolant in the Chebyshev nodes, computed to 40 digits. Error relative to
/// `1 + p` below 4e-8.
pub(crate) const POLYNOMIAL_F32: [f32; 8] = [
    0.3333333,
    -0.26666263,
    0.114198335,
    -0.06275062,
    0.037183676,
    -0.019830864,
    0.0075075417,
    -0.0013861061,
];

/// The same for `f64`. Error relative to `1 + p` below 2e-16.
pub(crate) const POLYNOMIAL_F64: [f64; 18] = [
    0.33333333333333315,
    -0.2666666666665575,
    0.11428571427387697,
    -0.06349206298073229,
    0.04040402868496747,
    -0.027971863425007428,
    0.02051127857372906,
    -0.015676076694043823,
    0.012334420002507882,
    -0.00984390488905908,
    0.007770307721492635,
    -0.0058245148494936,
    0.003926498969966028,
    -0.0022365983543089895,
    0.0010049608919745316,
    -0.00032744648049993873,
    6.792605051561815e-05,
    -6.6805728676047095e-06,
];

/// The units of a layer, and scratch.
pub(crate) struct Units<T> {
    /// `α √log₂e` with `α = m/σ`, and half its square.
    alpha: Vec<T>,
    half: Vec<T>,
    /// `σ` and `1/σ`; all four are zero for a point mass and where the kink is out of reach.
    sd: Vec<T>,
    inv_sd: Vec<T>,
    /// What the adjoint sums up for each unit.
    sums: Mat<T>,
    buffer: Mat<T>,
}

impl<T: Real> Units<T> {
    pub fn zeros(units: usize) -> Self {
        let zero = || vec![T::ZERO; padded::<T>(units)];
        Units {
            alpha: zero(),
            half: zero(),
            sd: zero(),
            inv_sd: zero(),
            sums: Mat::zeros(3, units),
            buffer: Mat::zeros(COLUMNS, entries::<T>() + padded::<T>(units) + ABREAST * padded::<T>(1)),
        }
    }

    /// Takes mean and standard deviation of the units.
    pub fn set(&mut self, mean: &[T::One], sd: &[T::One]) {
        for i in 0..mean.len() {
            let (mean, sd) = (mean[i].f64(), sd[i].f64());
            let alpha = mean / sd;
            let live = sd > 0.0 && alpha.abs() <= TAIL;
            let keep = |to: &mut [T], x: f64| {
                to[i / T::LANES].set_lane(i % T::LANES, if live { x } else { 0.0 });
            };
            keep(&mut self.alpha, alpha * LOG2_E.sqrt());
            keep(&mut self.half, 0.5 * LOG2_E * alpha * alpha);
            keep(&mut self.sd, sd);
            keep(&mut self.inv_sd, 1.0 / sd);
        }
    }
}

/// The rows from `first` on that make a block, and how many vectors they have below the diagonal, rounded
/// up to what goes abreast; beyond the rows the buffer holds what was there before.
#[inline(always)]
fn block<T: Real>(first: usize, n: usize, lanes: usize) -> (std::ops::Range<usize>, usize) {
    let (mut end, mut vectors) = (first, 0);
    while end < n && vectors * lanes < entries::<T>() {
        vectors += end.div_ceil(lanes);
        end += 1;
    }
    (first..end, vectors.next_multiple_of(ABREAST))
}

/// `out_ij = d_i d_j R_ij + κ² σ_iσ_j K_ij` below the diagonal, which is left to the caller.
///
/// Cost about 1.5 ns per entry in `f32`, 4 ns in `f64`.
pub(crate) fn push<T: Real>(
    out: &mut Mat<T>,
    cov: &Mat<T>,
    resid: Option<&Mat<T>>,
    slope: &[T],
    kink: f64,
    units: &mut Units<T>,
) {
    T::dispatch_rows(out.cols, Push { out, cov, resid, slope, kink, units });
}

struct Push<'a, T> {
    out: &'a mut Mat<T>,
    cov: &'a Mat<T>,
    resid: Option<&'a Mat<T>>,
    slope: &'a [T],
    kink: f64,
    units: &'a mut Units<T>,
}

impl<T: Real> WithSimd for Push<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Push { out, cov, resid, slope, kink, units } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let n = out.rows;
        let Units { alpha, half, sd, inv_sd, buffer, .. } = units;
        let [alphas, halves, sds, invs, slopes] =
            [&*alpha, half, sd, inv_sd, slope].map(|x| T::as_simd::<S>(x));
        let mut columns = buffer.data.chunks_exact_mut(buffer.stride);
        let [rho, w, v] = std::array::from_fn(|_| T::as_simd_mut::<S>(columns.next().unwrap_or_default()));
        let constant = |x: f64| T::splat(simd, T::of(x));
        let at = |x: &[T], i: usize| T::splat(simd, x[i]);
        let mut first = 0;
        while first < n {
            let (rows, vectors) = block::<T>(first, n, lanes);
            first = rows.end;
            let (rho, w, v) = (&mut rho[..vectors], &mut w[..vectors], &mut v[..vectors]);
            let mut start = 0;
            for i in rows.clone() {
                let m = i.div_ceil(lanes);
                let from = &T::as_simd::<S>(&cov.data[i * cov.stride..])[..m];
                let (rho, w) = (&mut rho[start..start + m], &mut w[start..start + m]);
                let (inv_i, invs) = (at(inv_sd, i), &invs[..m]);
                for k in 0..m {
                    let (r, bar) = angle::<T, S>(simd, from[k], inv_i, invs[k]);
                    rho[k] = r;
                    w[k] = T::vdiv(simd, constant(2.0), T::vadd(simd, constant(1.0), bar));
                }
                start += m;
            }
            for k in (0..vectors).step_by(ABREAST) {
                let to = k..k + ABREAST;
                let (rho, w, v) = (&mut rho[to.clone()], &mut w[to.clone()], &mut v[to]);
                let here = shape::<T, S>(simd, rho, w);
                for l in 0..ABREAST {
                    v[l] = here.v[l];
                    // −w/D and ρ²D.
                    w[l] = T::vdiv(simd, T::vmul(simd, here.w[l], constant(-1.0)), here.d[l]);
                    rho[l] = T::vmul(simd, T::vmul(simd, here.rho[l], here.rho[l]), here.d[l]);
                }
            }
            let mut start = 0;
            for i in rows.clone() {
                let m = i.div_ceil(lanes);
                let all = start..start + m;
                let (lead, over, v) = (&mut rho[all.clone()], &w[all.clone()], &mut v[all]);
                let (alphas, halves, sds) = (&alphas[..m], &halves[..m], &sds[..m]);
                let (minus_alpha, half_i) = (T::splat(simd, -alpha[i]), at(half, i));
                let scale = T::splat(simd, T::of(kink * kink / (4.0 * PI)) * sd[i]);
                for k in 0..m {
                    lead[k] = T::vmul(simd, lead[k], T::vmul(simd, scale, sds[k]));
                    let squares = T::vadd(simd, half_i, halves[k]);
                    let form = T::vfma(simd, v[k], T::vmul(simd, minus_alpha, alphas[k]), squares);
                    v[k] = T::vmax(simd, T::vmul(simd, over[k], form), T::splat(simd, T::EXPONENT_MIN));
                }
                start += m;
            }
            for k in (0..vectors).step_by(ABREAST) {
                let (lead, v) = (&mut rho[k..k + ABREAST], &v[k..k + ABREAST]);
                let power = vector_exp2::<T, S>(simd, std::array::from_fn(|l| v[l]));
                for l in 0..ABREAST {
                    lead[l] = T::vmul(simd, lead[l], power[l]);
                }
            }
            let mut start = 0;
            for i in rows {
                let m = i.div_ceil(lanes);
                let value = &rho[start..start + m];
                let to = &mut T::as_simd_mut::<S>(&mut out.data[i * out.stride..])[..m];
                match resid {
                    Some(resid) => {
                        let from = &T::as_simd::<S>(&resid.data[i * resid.stride..])[..m];
                        let (slope_i, slopes) = (at(slope, i), &slopes[..m]);
                        for k in 0..m {
                            to[k] = T::vfma(simd, T::vmul(simd, slope_i, slopes[k]), from[k], value[k]);
                        }
                    }
                    None => to.copy_from_slice(value),
                }
                start += m;
            }
        }
    }
}

/// `ρ` and `ρ̄`.
#[inline(always)]
fn angle<T: Real, S: Simd>(
    simd: S,
    cov: T::Vector<S>,
    inv_i: T::Vector<S>,
    inv_j: T::Vector<S>,
) -> (T::Vector<S>, T::Vector<S>) {
    let one = T::splat(simd, T::ONE);
    let rho = T::vmul(simd, T::vmul(simd, cov, inv_i), inv_j);
    let rho = T::vmax(simd, T::vmin(simd, rho, one), T::splat(simd, -T::ONE));
    (rho, T::vsqrt(simd, T::vmul(simd, T::vsub(simd, one, rho), T::vadd(simd, one, rho))))
}

/// `ρ`, `w`, `p`, `D` and `v`, several vectors abreast.
struct Shape<V> {
    rho: [V; ABREAST],
    w: [V; ABREAST],
    p: [V; ABREAST],
    d: [V; ABREAST],
    v: [V; ABREAST],
}

#[inline(always)]
fn shape<T: Real, S: Simd>(simd: S, rho: &[T::Vector<S>], w: &[T::Vector<S>]) -> Shape<T::Vector<S>> {
    let constant = |x: f64| T::splat(simd, T::of(x));
    let (one, half) = (constant(1.0), constant(0.5));
    let rho: [T::Vector<S>; ABREAST] = std::array::from_fn(|l| rho[l]);
    let w: [T::Vector<S>; ABREAST] = std::array::from_fn(|l| w[l]);
    let u: [_; ABREAST] = std::array::from_fn(|l| T::vmul(simd, T::vmul(simd, rho[l], half), w[l]));
    let x = u.map(|u| T::vmul(simd, u, u));
    let p = vector_polynomial::<T, S>(simd, x, T::PAPER);
    Shape {
        rho,
        w,
        p,
        d: std::array::from_fn(|l| T::vfma(simd, x[l], p[l], one)),
        v: std::array::from_fn(|l| T::vmul(simd, u[l], T::vfma(simd, half, p[l], half))),
    }
}

/// Adjoint of [`push`] through `K` at the units it was given, `out_bar` symmetric.
///
/// ```text
/// cov_bar_ij   = κ² out_bar_ij K_ρ                                           i > j, diagonal zero
/// mean_bar_i  += 2κ² Σ_{j≠i} out_bar_ij σ_j K_α_i
/// var_bar_i   += κ² Σ_{j≠i} out_bar_ij σ_j/σ_i (K − α_i K_α_i − ρ K_ρ)       at fixed covariance
/// ```
///
/// With `T = ½ρ² E out_bar_ij` both follow from the sums over `j` of `σ_j Tw`, `σ_j α_j Twv` and
/// `σ_j T (Y − w)`. Cost about one and a half times that of [`push`].
pub(crate) fn pull<T: Real>(
    cov_bar: &mut Mat<T>,
    mean_bar: &mut [T],
    var_bar: &mut [T],
    out_bar: &Mat<T>,
    cov: &Mat<T>,
    kink: f64,
    units: &mut Units<T>,
) {
    units.sums.fill_zero();
    T::dispatch_rows(cov.cols, Pull { cov_bar, out_bar, cov, kink, units });
    units.finish(mean_bar, var_bar, kink);
}

impl<T: Real> Units<T> {
    /// From the sums to the cotangents of mean and variance.
    fn finish(&self, mean_bar: &mut [T], var_bar: &mut [T], kink: f64) {
        let square = kink * kink / (4.0 * PI);
        let (mean_scale, var_scale) = (T::of(-2.0 * square * LN_2.sqrt()), T::of(square));
        let ln_2 = T::of(LN_2);
        let [first, second, third] = std::array::from_fn(|k| self.sums.row(k));
        for i in 0..self.sums.cols {
            let turn = self.alpha[i] * first[i] - second[i];
            mean_bar[i] += mean_scale * turn;
            var_bar[i] += var_scale * self.inv_sd[i] * (third[i] + ln_2 * self.alpha[i] * turn);
        }
    }
}

struct Pull<'a, T> {
    cov_bar: &'a mut Mat<T>,
    out_bar: &'a Mat<T>,
    cov: &'a Mat<T>,
    kink: f64,
    units: &'a mut Units<T>,
}

impl<T: Real> WithSimd for Pull<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pull { cov_bar, out_bar, cov, kink, units } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let n = cov.rows;
        let Units { alpha, half, sd, inv_sd, sums, buffer } = units;
        let [alphas, halves, sds, invs] = [&*alpha, half, sd, inv_sd].map(|x| T::as_simd::<S>(x));
        let mut columns = buffer.data.chunks_exact_mut(buffer.stride);
        let lead = columns.next().unwrap_or_default();
        let [rho, w, v, d, p, y] =
            std::array::from_fn(|_| T::as_simd_mut::<S>(columns.next().unwrap_or_default()));
        let constant = |x: f64| T::splat(simd, T::of(x));
        let at = |x: &[T], i: usize| T::splat(simd, x[i]);
        let scale = constant(kink * kink / (4.0 * PI));
        let mut first = 0;
        while first < n {
            let (rows, vectors) = block::<T>(first, n, lanes);
            first = rows.end;
            let [rho, w, v, d, p, y] = [&mut *rho, w, v, d, p, y].map(|x| &mut x[..vectors]);
            let mut start = 0;
            for i in rows.clone() {
                let m = i.div_ceil(lanes);
                let all = start..start + m;
                let from = &T::as_simd::<S>(&cov.data[i * cov.stride..])[..m];
                let (rho, w, y) = (&mut rho[all.clone()], &mut w[all.clone()], &mut y[all]);
                let (inv_i, invs) = (at(inv_sd, i), &invs[..m]);
                let edge = constant(((1.0 - RHO_MAX) * (1.0 + RHO_MAX)).sqrt());
                for k in 0..m {
                    let (r, bar) = angle::<T, S>(simd, from[k], inv_i, invs[k]);
                    rho[k] = r;
                    w[k] = T::vdiv(simd, constant(2.0), T::vadd(simd, constant(1.0), bar));
                    let safe = T::vmax(simd, bar, edge);
                    // ln 2 ρ/(ρ̄(1+ρ̄)).
                    y[k] = T::vdiv(simd, T::vmul(simd, r, constant(LN_2)), T::vfma(simd, safe, safe, safe));
                }
                start += m;
            }
            let power = &mut T::as_simd_mut::<S>(lead)[..vectors];
            for k in (0..vectors).step_by(ABREAST) {
                let here = shape::<T, S>(simd, &rho[k..k + ABREAST], &w[k..k + ABREAST]);
                let to = k..k + ABREAST;
                let (v, d, p) = (&mut v[to.clone()], &mut d[to.clone()], &mut p[to.clone()]);
                let power = &mut power[to];
                for l in 0..ABREAST {
                    (v[l], d[l]) = (here.v[l], here.d[l]);
                    // 1 − p and −w/D.
                    p[l] = T::vsub(simd, constant(1.0), here.p[l]);
                    power[l] = T::vdiv(simd, T::vmul(simd, here.w[l], constant(-1.0)), here.d[l]);
                }
            }
            let mut start = 0;
            for i in rows.clone() {
                let m = i.div_ceil(lanes);
                let all = start..start + m;
                let (power, v, p) = (&mut power[all.clone()], &v[all.clone()], &p[all.clone()]);
                let y = &mut y[all];
                let (alphas, halves) = (&alphas[..m], &halves[..m]);
                let (minus_alpha, half_i) = (T::splat(simd, -alpha[i]), at(half, i));
                for k in 0..m {
                    let squares = T::vadd(simd, half_i, halves[k]);
                    let minus = T::vmul(simd, minus_alpha, alphas[k]);
                    let minus_q = T::vmul(simd, power[k], T::vfma(simd, v[k], minus, squares));
                    let minus_two_v = T::vmul(simd, v[k], constant(-2.0));
                    let turn = T::vfma(simd, minus_two_v, minus_q, T::vmul(simd, p[k], minus));
                    y[k] = T::vmul(simd, y[k], turn);
                    power[k] = T::vmax(simd, minus_q, T::splat(simd, T::EXPONENT_MIN));
                }
                start += m;
            }
            for k in (0..vectors).step_by(ABREAST) {
                let (power, rho) = (&mut power[k..k + ABREAST], &rho[k..k + ABREAST]);
                let raised = vector_exp2::<T, S>(simd, std::array::from_fn(|l| power[l]));
                for l in 0..ABREAST {
                    power[l] = T::vmul(simd, rho[l], raised[l]);
                }
            }
            let mut start = 0;
            for i in rows {
                let m = i.div_ceil(lanes);
                // On and above the diagonal nothing counts.
                lead[start * lanes + i..(start + m) * lanes].fill(T::ZERO);
                let lead = &T::as_simd::<S>(lead)[start..start + m];
                let all = start..start + m;
                let (rho, w, v, d) = (&rho[all.clone()], &w[all.clone()], &v[all.clone()], &d[all.clone()]);
                let y = &y[all];
                let bar = &T::as_simd::<S>(&out_bar.data[i * out_bar.stride..])[..m];
                let to = &mut T::as_simd_mut::<S>(&mut cov_bar.data[i * cov_bar.stride..])[..m];
                let (alphas, sds) = (&alphas[..m], &sds[..m]);
                let (sd_i, sd_alpha) = (at(sd, i), T::splat(simd, sd[i] * alpha[i]));
                let [one_j, two_j, three_j] = {
                    let (a, rest) = sums.data.split_at_mut(sums.stride);
                    let (b, c) = rest.split_at_mut(sums.stride);
                    [a, b, c].map(|x| &mut T::as_simd_mut::<S>(x)[..m])
                };
                let mut total = [T::splat(simd, T::ZERO); 3];
                for k in 0..m {
                    let e = T::vmul(simd, lead[k], bar[k]);
                    let angle = T::vsub(simd, T::vadd(simd, d[k], w[k]), y[k]);
                    to[k] = T::vmul(simd, T::vmul(simd, scale, e), angle);
                    let t = T::vmul(simd, rho[k], e);
                    let tw = T::vmul(simd, t, w[k]);
                    let twv = T::vmul(simd, tw, v[k]);
                    let ty = T::vmul(simd, t, T::vsub(simd, y[k], w[k]));
                    one_j[k] = T::vfma(simd, sd_i, tw, one_j[k]);
                    two_j[k] = T::vfma(simd, sd_alpha, twv, two_j[k]);
                    three_j[k] = T::vfma(simd, sd_i, ty, three_j[k]);
                    total[0] = T::vfma(simd, sds[k], tw, total[0]);
                    total[1] = T::vfma(simd, T::vmul(simd, sds[k], alphas[k]), twv, total[1]);
                    total[2] = T::vfma(simd, sds[k], ty, total[2]);
                }
                for (order, total) in total.into_iter().enumerate() {
                    sums.data[order * sums.stride + i] += T::vsum(simd, total);
                }
                *cov_bar.at_mut(i, i) = T::ZERO;
                start += m;
            }
        }
    }
}

#[cfg(test)]
mod tests;
