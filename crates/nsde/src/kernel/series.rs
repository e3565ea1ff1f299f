//! The series for the covariance of activations, beyond its linear term (METHOD: one calculus).
//!
//! ```text
//! S_ij = Σ_{n=2..N} ρ_ijⁿ e_n(i) e_n(j),      ρ_ij = C_ij / (σ_i σ_j),   e_n = E[u(h) He_n(z)] / √n!
//! ```
//!
//! No transcendental function per entry: a polynomial in `ρ_ij`. Every term is a Schur product of
//! positive semi-definite matrices, so any number of terms is safe.

use super::{Mat, Real};
use crate::kernel::tile::mirror;
use pulp::{Simd, WithSimd};

/// `out_ij = d_i d_j R_ij + S_ij` off the diagonal; the diagonal of `out` is left to the caller.
///
/// `coef` holds `e_2, e_3, …` in its rows; the first `orders` of them are used. Cost about
/// `orders · n²` fused multiply-adds.
pub(crate) fn push<T: Real>(
    out: &mut Mat<T>,
    cov: &Mat<T>,
    resid: Option<&Mat<T>>,
    inv_sd: &[T],
    slope: &[T],
    coef: &Mat<T>,
    orders: usize,
) {
    pulp::Arch::new().dispatch(Push { out, cov, resid, inv_sd, slope, coef, orders });
}

struct Push<'a, T> {
    out: &'a mut Mat<T>,
    cov: &'a Mat<T>,
    resid: Option<&'a Mat<T>>,
    inv_sd: &'a [T],
    slope: &'a [T],
    coef: &'a Mat<T>,
    orders: usize,
}

impl<T: Real> WithSimd for Push<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Push { out, cov, resid, inv_sd, slope, coef, orders } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let (n, stride) = (out.rows, out.stride);
        let across = coef.stride / lanes;
        let table = T::as_simd::<S>(&coef.data);
        let inv = T::as_simd::<S>(inv_sd);
        let slopes = T::as_simd::<S>(slope);
        for i in 0..n {
            let vectors = (i + 1).div_ceil(lanes);
            let row = i * stride..(i + 1) * stride;
            let from = &T::as_simd::<S>(&cov.data[row.clone()])[..vectors];
            let to = &mut T::as_simd_mut::<S>(&mut out.data[row.clone()])[..vectors];
            let inv_i = T::splat(simd, inv_sd[i]);
            for v in 0..vectors {
                let rho = T::vmul(simd, T::vmul(simd, from[v], inv_i), inv[v]);
                let mut sum = T::splat(simd, T::ZERO);
                for k in (0..orders).rev() {
                    let e = T::splat(simd, coef.data[k * coef.stride + i]);
                    let term = T::vmul(simd, e, table[k * across + v]);
                    sum = T::vfma(simd, sum, rho, term);
                }
                to[v] = T::vmul(simd, sum, T::vmul(simd, rho, rho));
            }
            if let Some(resid) = resid {
                let from = &T::as_simd::<S>(&resid.data[row])[..vectors];
                let slope_i = T::splat(simd, slope[i]);
                for v in 0..vectors {
                    let dd = T::vmul(simd, slope_i, slopes[v]);
                    to[v] = T::vfma(simd, dd, from[v], to[v]);
                }
            }
        }
        mirror(out);
    }
}

/// Orders handled in registers at a time by [`pull`].
const BLOCK: usize = 8;

/// Adjoint of [`push`] in the covariance and the coefficients.
///
/// ```text
/// cov_bar_ij  = out_bar_ij / (σ_i σ_j) · Σ_n n ρⁿ⁻¹ e_n(i) e_n(j)      i ≠ j, diagonal zero
/// sums[n, i]  = 2 Σ_{j≠i} out_bar_ij ρ_ijⁿ e_n(j)                      the cotangent of e_n(i)
/// ```
pub(crate) fn pull<T: Real>(
    cov_bar: &mut Mat<T>,
    sums: &mut Mat<T>,
    out_bar: &Mat<T>,
    cov: &Mat<T>,
    inv_sd: &[T],
    coef: &Mat<T>,
    orders: usize,
    scratch: &mut Mat<T>,
) {
    pulp::Arch::new().dispatch(Pull { cov_bar, sums, out_bar, cov, inv_sd, coef, orders, scratch });
}

struct Pull<'a, T> {
    cov_bar: &'a mut Mat<T>,
    sums: &'a mut Mat<T>,
    out_bar: &'a Mat<T>,
    cov: &'a Mat<T>,
    inv_sd: &'a [T],
    coef: &'a Mat<T>,
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
        let vectors = n.div_ceil(lanes);
        let across = coef.stride / lanes;
        let table = T::as_simd::<S>(&coef.data);
        let inv = T::as_simd::<S>(inv_sd);
        let zero = T::splat(simd, T::ZERO);
        let (weight, rest) = scratch.data.split_at_mut(stride);
        let (rho, rest) = rest.split_at_mut(stride);
        let (power, _) = rest.split_at_mut(stride);
        for i in 0..n {
            let row = i * stride..(i + 1) * stride;
            weight.copy_from_slice(&out_bar.data[row.clone()]);
            weight[i] = T::ZERO;
            let weight = T::as_simd::<S>(weight);
            let rho = T::as_simd_mut::<S>(rho);
            let power = T::as_simd_mut::<S>(power);
            let from = T::as_simd::<S>(&cov.data[row.clone()]);
            let to = T::as_simd_mut::<S>(&mut cov_bar.data[row]);
            let inv_i = T::splat(simd, inv_sd[i]);
            for v in 0..vectors {
                rho[v] = T::vmul(simd, T::vmul(simd, from[v], inv_i), inv[v]);
                power[v] = rho[v];
                to[v] = zero;
            }
            let mut k0 = 0;
            while k0 < orders {
                let block = (orders - k0).min(BLOCK);
                // The coefficients of row i, times n, for the derivative of the polynomial.
                let mut lead = [zero; BLOCK];
                for b in 0..block {
                    let order = T::of((k0 + b + 2) as f64);
                    lead[b] = T::splat(simd, order * coef.data[(k0 + b) * coef.stride + i]);
                }
                let mut total = [zero; BLOCK];
                for v in 0..vectors {
                    let (r, w) = (rho[v], weight[v]);
                    let mut p = power[v];
                    let mut sum = to[v];
                    for b in 0..block {
                        let pe = T::vmul(simd, p, table[(k0 + b) * across + v]);
                        sum = T::vfma(simd, lead[b], pe, sum);
                        total[b] = T::vfma(simd, w, T::vmul(simd, pe, r), total[b]);
                        p = T::vmul(simd, p, r);
                    }
                    power[v] = p;
                    to[v] = sum;
                }
                for b in 0..block {
                    let t = T::vsum(simd, total[b]);
                    sums.data[(k0 + b) * sums.stride + i] = t + t;
                }
                k0 += block;
            }
            for v in 0..vectors {
                let scale = T::vmul(simd, T::vmul(simd, weight[v], inv_i), inv[v]);
                to[v] = T::vmul(simd, to[v], scale);
            }
        }
    }
}
