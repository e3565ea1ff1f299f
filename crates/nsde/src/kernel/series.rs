//! The series for the covariance of activations, beyond its linear term (METHOD: one calculus).
//!
//! ```text
//! S_ij = Σ_{n=2..N} ρ_ijⁿ e_n(i) e_n(j),      ρ_ij = C_ij / (σ_i σ_j),   e_n = E[u(h) He_n(z)] / √n!
//! ```
//!
//! No transcendental function per entry: a polynomial in `ρ_ij`. Every term is a Schur product of
//! positive semi-definite matrices, so any number of terms is safe. Only one triangle is computed.

use super::abreast::{BAND, gram_rows};
use super::share::{join, pieces_of_bytes};
use super::{Mat, Real};
use pulp::{Simd, WithSimd};
use std::cell::Cell;
use std::f64::consts::FRAC_1_SQRT_2;
use std::ops::Range;

/// Orders handled in registers at a time.
const BLOCK: usize = 8;

/// Calls `$f::<T, S, B>` with the number of orders in a block as a constant, so that it is unrolled.
macro_rules! by_block {
    ($block:expr, $f:ident::<$t:ty, $s:ty>($($arg:expr),* $(,)?)) => {
        match $block {
            1 => $f::<$t, $s, 1>($($arg),*),
            2 => $f::<$t, $s, 2>($($arg),*),
            3 => $f::<$t, $s, 3>($($arg),*),
            4 => $f::<$t, $s, 4>($($arg),*),
            5 => $f::<$t, $s, 5>($($arg),*),
            6 => $f::<$t, $s, 6>($($arg),*),
            7 => $f::<$t, $s, 7>($($arg),*),
            _ => $f::<$t, $s, 8>($($arg),*),
        }
    };
}

/// Where the covariance of the input comes from.
pub(crate) enum Source<'a, T> {
    /// It is there, below the diagonal.
    Cov(&'a Mat<T>),
    /// It is `J Jᵀ + R`, with the columns of `Jᵀ` over `σ` given: some rows of their product at a time, in the `band`,
    /// which stays in the first-level cache.
    White { jac_t: &'a Mat<T>, band: &'a mut Mat<T> },
}

/// `out_ij = d_i d_j R_ij + S_ij` below the diagonal, which is left to the caller.
///
/// `coef` holds `e_2, e_3, …` in its rows, lane by lane; the first `orders` of them are used. Cost about
/// `orders · n²/2` fused multiply-adds.
pub(crate) fn push<T: Real>(
    out: &mut Mat<T>,
    source: Source<'_, T>,
    resid: Option<&Mat<T>>,
    inv_sd: &[T],
    slope: &[T],
    coef: &Mat<T::One>,
    orders: usize,
) {
    let (n, stride, columns) = (out.rows, out.stride, out.cols);
    let run = |out: &mut [T], rows, source| {
        T::dispatch_rows(columns, Push { out, rows, stride, source, resid, inv_sd, slope, coef, orders });
    };
    match source {
        Source::Cov(cov) if pieces_of_bytes(size_of_val(&*out.data)) > 1 => {
            // Half of a triangle.
            let half = (n as f64 * FRAC_1_SQRT_2) as usize;
            let (above, below) = out.data.split_at_mut(half * stride);
            join(|| run(above, 0..half, Source::Cov(cov)), || run(below, half..n, Source::Cov(cov)));
        }
        source => run(&mut out.data, 0..n, source),
    }
}

/// Some rows of a push.
struct Push<'a, T: Real> {
    /// Their storage.
    out: &'a mut [T],
    rows: Range<usize>,
    stride: usize,
    source: Source<'a, T>,
    resid: Option<&'a Mat<T>>,
    inv_sd: &'a [T],
    slope: &'a [T],
    coef: &'a Mat<T::One>,
    orders: usize,
}

impl<T: Real> WithSimd for Push<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let all = self.rows.clone();
        let band = if let Source::White { .. } = self.source { BAND } else { all.len() };
        for start in all.clone().step_by(band.max(1)) {
            let rows = start..all.end.min(start + band);
            if let Source::White { jac_t, band } = &mut self.source {
                gram_rows::<T, S>(simd, &mut band.data, band.stride, None, jac_t, rows.clone());
            }
            self.rows::<S>(simd, rows);
        }
    }
}

impl<T: Real> Push<'_, T> {
    /// All orders of some rows.
    #[inline(always)]
    fn rows<S: Simd>(&mut self, simd: S, rows: Range<usize>) {
        let orders = self.orders;
        if orders == 0 {
            return self.block::<S, 0>(simd, rows, 0, true);
        }
        let mut top = orders;
        while top > 0 {
            let first = (top - 1) / BLOCK * BLOCK;
            macro_rules! block {
                ($($n:literal)*) => {
                    match top - first {
                        $($n => self.block::<S, $n>(simd, rows.clone(), first, top == orders),)*
                        _ => self.block::<S, BLOCK>(simd, rows.clone(), first, top == orders),
                    }
                };
            }
            block!(1 2 3 4 5 6 7);
            top = first;
        }
    }

    /// `B` orders from `first` on, by Horner's rule on top of what `out` holds of the higher ones; with the last of
    /// them the linear part.
    #[inline(always)]
    fn block<S: Simd, const B: usize>(&mut self, simd: S, rows: Range<usize>, first: usize, highest: bool) {
        let Push { out, rows: Range { start, .. }, stride, source, resid, inv_sd, slope, coef, .. } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let inv = T::as_simd::<S>(inv_sd);
        let slopes = T::as_simd::<S>(slope);
        let mut orders: [&[T]; B] = [&[]; B];
        for b in 0..B {
            orders[b] = T::packs(&coef.data[(first + b) * coef.stride..][..coef.stride]);
        }
        let (from, across, white) = match source {
            Source::Cov(cov) => (&cov.data[rows.start * cov.stride..], cov.stride, false),
            Source::White { band, .. } => (&band.data[..], band.stride, true),
        };
        let to = out[(rows.start - *start) * *stride..].chunks_exact_mut(*stride);
        for (i, (to, from)) in rows.zip(to.zip(from.chunks_exact(across))) {
            let vectors = (i + 1).div_ceil(lanes);
            let from = &T::as_simd::<S>(from)[..vectors];
            let to = &mut T::as_simd_mut::<S>(to)[..vectors];
            let (inv_i, inv) = (T::splat(simd, inv_sd[i]), &inv[..vectors]);
            let mut lead = [T::splat(simd, T::ZERO); B];
            let mut table: [&[T::Vector<S>]; B] = [&[]; B];
            for b in 0..B {
                lead[b] = T::splat(simd, orders[b][i]);
                table[b] = &T::as_simd::<S>(orders[b])[..vectors];
            }
            let resid = resid.map(|r| &T::as_simd::<S>(&r.data[i * r.stride..])[..vectors]);
            let (slope_i, slopes) = (T::splat(simd, slope[i]), &slopes[..vectors]);
            for v in 0..vectors {
                let rho = match resid {
                    None if white => from[v],
                    Some(r) if white => T::vfma(simd, T::vmul(simd, r[v], inv_i), inv[v], from[v]),
                    _ => T::vmul(simd, T::vmul(simd, from[v], inv_i), inv[v]),
                };
                let mut sum = if highest { T::splat(simd, T::ZERO) } else { to[v] };
                for b in (0..B).rev() {
                    sum = T::vfma(simd, sum, rho, T::vmul(simd, lead[b], table[b][v]));
                }
                if first == 0 {
                    sum = T::vmul(simd, sum, T::vmul(simd, rho, rho));
                    if let Some(resid) = resid {
                        sum = T::vfma(simd, T::vmul(simd, slope_i, slopes[v]), resid[v], sum);
                    }
                }
                to[v] = sum;
            }
        }
    }
}

/// Adjoint of [`push`] in the covariance and the coefficients.
///
/// ```text
/// cov_bar_ij  = out_bar_ij / (σ_i σ_j) · Σ_n n ρⁿ⁻¹ e_n(i) e_n(j)      i > j, diagonal zero
/// sums[n, i]  = 2 Σ_{j≠i} out_bar_ij ρ_ijⁿ e_n(j)                      the cotangent of e_n(i)
/// ```
///
/// `out_bar` is symmetric. `scratch` has rows as long as those of `cov`: two, and one for each order.
pub(crate) fn pull<T: Real>(
    cov_bar: &mut Mat<T>,
    sums: &mut Mat<T>,
    out_bar: &Mat<T>,
    cov: &Mat<T>,
    inv_sd: &[T],
    coef: &Mat<T::One>,
    orders: usize,
    scratch: &mut Mat<T>,
) {
    sums.fill_zero();
    T::dispatch_rows(cov.cols, Pull { cov_bar, sums, out_bar, cov, inv_sd, coef, orders, scratch });
}

struct Pull<'a, T: Real> {
    cov_bar: &'a mut Mat<T>,
    sums: &'a mut Mat<T>,
    out_bar: &'a Mat<T>,
    cov: &'a Mat<T>,
    inv_sd: &'a [T],
    coef: &'a Mat<T::One>,
    orders: usize,
    scratch: &'a mut Mat<T>,
}

impl<T: Real> WithSimd for Pull<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pull { cov_bar, sums, out_bar, cov, inv_sd, coef, orders, scratch } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let (n, stride) = (cov.rows, cov.stride);
        let (coef, along) = (T::packs(&coef.data), coef.stride / T::LANES);
        let across = along / lanes;
        let table = T::as_simd::<S>(coef);
        let inv = T::as_simd::<S>(inv_sd);
        let zero = T::splat(simd, T::ZERO);
        // Single numbers are kept apart from what is read as vectors, and added at the end.
        let (rho, weight) = scratch.data.split_at_mut(scratch.stride);
        let (weight, own) = weight.split_at_mut(scratch.stride);
        let mut left = [T::ZERO; 2 * MOST_LANES];
        left[..lanes].fill(T::ONE);
        for i in 0..n {
            let vectors = (i + 1).div_ceil(lanes);
            let row = i * stride..(i + 1) * stride;
            let rho = &mut T::as_simd_mut::<S>(rho)[..vectors];
            let power = &mut T::as_simd_mut::<S>(weight)[..vectors];
            let bar = &T::as_simd::<S>(&out_bar.data[row.clone()])[..vectors];
            let from = &T::as_simd::<S>(&cov.data[row.clone()])[..vectors];
            let to = &mut T::as_simd_mut::<S>(&mut cov_bar.data[row])[..vectors];
            let inv_i = T::splat(simd, inv_sd[i]);
            for v in 0..vectors {
                rho[v] = T::vmul(simd, T::vmul(simd, from[v], inv_i), inv[v]);
                // weight · ρⁿ⁻¹, for n = 2 first.
                power[v] = T::vmul(simd, bar[v], rho[v]);
                to[v] = zero;
            }
            // Left of the diagonal.
            let last = vectors - 1;
            power[last] = T::vmul(simd, power[last], T::as_simd::<S>(&left[lanes - (i - last * lanes)..])[0]);
            for first in (0..orders).step_by(BLOCK) {
                let lead = |k: usize| coef[k * along + i];
                let block = (orders - first).min(BLOCK);
                by_block!(
                    block,
                    gather::<T, S>(
                        simd, to, power, rho, lead, table, across, &mut *sums, &mut *own, first, i
                    )
                );
            }
            for v in 0..vectors {
                to[v] = T::vmul(simd, to[v], T::vmul(simd, inv_i, inv[v]));
            }
        }
        for (to, own) in sums.data.iter_mut().zip(&own[..orders * stride]) {
            *to += *own;
        }
    }
}

/// As many numbers as any vector has.
const MOST_LANES: usize = 16;

/// `B` orders of a row of the adjoint, from `first` on.
#[inline(always)]
fn gather<T: Real, S: Simd, const B: usize>(
    simd: S,
    to: &mut [T::Vector<S>],
    power: &mut [T::Vector<S>],
    rho: &[T::Vector<S>],
    lead: impl Fn(usize) -> T,
    table: &[T::Vector<S>],
    across: usize,
    sums: &mut Mat<T>,
    own: &mut [T],
    first: usize,
    i: usize,
) {
    // n e_n(i) for the derivative of the polynomial, 2 e_n(i) for the cotangents of e_n(j).
    // (Loops, because `from_fn` is not always inlined.)
    let count = to.len();
    let (power, rho) = (&mut power[..count], &rho[..count]);
    let (mut slopes, mut twice) = ([T::splat(simd, T::ZERO); B], [T::splat(simd, T::ZERO); B]);
    let mut rows: [&[T::Vector<S>]; B] = [&[]; B];
    for b in 0..B {
        let lead = lead(first + b);
        slopes[b] = T::splat(simd, T::of((first + b + 2) as f64) * lead);
        twice[b] = T::splat(simd, lead + lead);
        rows[b] = &table[(first + b) * across..][..count];
    }
    let mut total = [T::splat(simd, T::ZERO); B];
    let stride = sums.stride;
    let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
    let rest = Cell::from_mut(T::as_simd_mut::<S>(&mut sums.data[first * stride..])).as_slice_of_cells();
    let mut others: [&[Cell<T::Vector<S>>]; B] = [&[]; B];
    for b in 0..B {
        others[b] = &rest[b * stride / lanes..][..count];
    }
    for v in 0..count {
        let r = rho[v];
        let (mut p, mut slope) = (power[v], to[v]);
        for b in 0..B {
            let pe = T::vmul(simd, p, rows[b][v]);
            slope = T::vfma(simd, slopes[b], pe, slope);
            total[b] = T::vfma(simd, pe, r, total[b]);
            p = T::vmul(simd, p, r);
            others[b][v].set(T::vfma(simd, p, twice[b], others[b][v].get()));
        }
        (power[v], to[v]) = (p, slope);
    }
    for b in 0..B {
        let t = T::vsum(simd, total[b]);
        own[(first + b) * stride + i] = t + t;
    }
}

/// Adjoint of the linear part `d_i d_j R_ij`: sets `resid_bar = d_i d_j out_bar_ij + cov_bar_ij` and
/// `dots_i = Σ_j out_bar_ij d_j R_ij`.
pub(crate) fn pull_linear<T: Real>(
    resid_bar: &mut Mat<T>,
    dots: &mut [T],
    out_bar: &Mat<T>,
    slope: &[T],
    resid: &Mat<T>,
    cov_bar: &Mat<T>,
) {
    T::dispatch(PullLinear { resid_bar, dots, out_bar, slope, resid, cov_bar });
}

struct PullLinear<'a, T> {
    resid_bar: &'a mut Mat<T>,
    dots: &'a mut [T],
    out_bar: &'a Mat<T>,
    slope: &'a [T],
    resid: &'a Mat<T>,
    cov_bar: &'a Mat<T>,
}

impl<T: Real> WithSimd for PullLinear<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let PullLinear { resid_bar, dots, out_bar, slope, resid, cov_bar } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let (n, stride) = (resid.rows, resid.stride);
        let vectors = n.div_ceil(lanes);
        let slopes = &T::as_simd::<S>(slope)[..vectors];
        for i in 0..n {
            let row = i * stride..(i + 1) * stride;
            let bar = &T::as_simd::<S>(&out_bar.data[row.clone()])[..vectors];
            let resid = &T::as_simd::<S>(&resid.data[row.clone()])[..vectors];
            let cov = &T::as_simd::<S>(&cov_bar.data[row.clone()])[..vectors];
            let to = &mut T::as_simd_mut::<S>(&mut resid_bar.data[row])[..vectors];
            let slope_i = T::splat(simd, slope[i]);
            let mut sum = T::splat(simd, T::ZERO);
            for v in 0..vectors {
                let t = T::vmul(simd, bar[v], slopes[v]);
                sum = T::vfma(simd, t, resid[v], sum);
                to[v] = T::vfma(simd, slope_i, t, cov[v]);
            }
            dots[i] = T::vsum(simd, sum);
        }
    }
}
