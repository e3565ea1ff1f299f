//! Sums and scalings along the rows of matrices.

use super::real::in_vectors;
use super::share::by_halves;
use super::{Mat, Real};
use pulp::{Simd, WithSimd};

/// `out_i = Σ_k a_ik b_ik`.
pub(crate) fn dots<T: Real>(out: &mut [T], a: &Mat<T>, b: &Mat<T>) {
    T::dispatch(Dots { out, a, b: Other::Rows(b) });
}

/// `out = A x`.
pub(crate) fn times<T: Real>(out: &mut [T], a: &Mat<T>, x: &[T]) {
    T::dispatch(Dots { out, a, b: Other::Same(x) });
}

/// `out = A x`, `A` given once for all lanes as its transpose and in every lane.
pub(crate) fn times_weights<T: Real>(out: &mut [T], shared_t: &Mat<T::One>, a: &Mat<T>, x: &[T]) {
    if T::LANES == 1 {
        times(out, a, x);
    } else {
        T::dispatch_narrow(TimesShared { out, a_t: shared_t, x });
    }
}

/// Eight entries of the result at a time, a column of weights after the other.
struct TimesShared<'a, T: Real> {
    out: &'a mut [T],
    a_t: &'a Mat<T::One>,
    x: &'a [T],
}

impl<T: Real> WithSimd for TimesShared<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        const ABREAST: usize = 8;
        let TimesShared { out, a_t, x } = self;
        let (out, x) = (T::as_simd_mut::<S>(out), &T::as_simd::<S>(x)[..a_t.rows]);
        for (block, out) in out[..a_t.cols].chunks_mut(ABREAST).enumerate() {
            let first = block * ABREAST;
            let mut sums = [T::splat(simd, T::ZERO); ABREAST];
            for (row, x) in a_t.data.chunks_exact(a_t.stride).zip(x) {
                // The rows of weights are padded with zeros to more than eight.
                for (sum, w) in sums.iter_mut().zip(&row[first..first + ABREAST]) {
                    *sum = T::vfma(simd, T::spread(simd, *w), *x, *sum);
                }
            }
            out.copy_from_slice(&sums[..out.len()]);
        }
    }
}

/// `out += Aᵀ x`, `A` given once for all lanes; what is zero in all lanes of `x` costs nothing.
pub(crate) fn add_weighted<T: Real>(out: &mut [T], a: &Mat<T::One>, x: &[T]) {
    for (j, x) in x.iter().enumerate().filter(|(_, x)| **x != T::ZERO) {
        if T::LANES == 1 {
            for x in T::flat(&[*x]) {
                add_multiple(&mut T::flat_mut(out)[..a.cols], *x, a.row(j));
            }
        } else {
            T::dispatch_narrow(AddSpread { out: &mut out[..a.cols], x: *x, row: a.row(j) });
        }
    }
}

/// `out_i += w_i x` with weights that all lanes share.
struct AddSpread<'a, T: Real> {
    out: &'a mut [T],
    x: T,
    row: &'a [T::One],
}

impl<T: Real> WithSimd for AddSpread<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let x = T::splat(simd, self.x);
        for (to, w) in T::as_simd_mut::<S>(self.out).iter_mut().zip(self.row) {
            *to = T::vfma(simd, T::spread(simd, *w), x, *to);
        }
    }
}

/// `out_i += x y_i`.
pub(crate) fn add_multiple<T: Real>(out: &mut [T], x: T, y: &[T]) {
    in_vectors::<T>(
        #[inline(always)]
        || {
            for (to, y) in out.iter_mut().zip(y) {
                *to += x * *y;
            }
        },
    );
}

/// `out = a + x b`, shared by the cores.
pub(crate) fn sum<T: Real>(out: &mut Mat<T>, a: &Mat<T>, x: T, b: &Mat<T>) {
    let stride = out.stride;
    by_halves(&mut out.data, out.rows, |to, rows| {
        let (a, b) = (&a.data[rows.start * stride..], &b.data[rows.start * stride..]);
        in_vectors::<T>(
            #[inline(always)]
            || {
                for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
                    *to = *a + x * *b;
                }
            },
        );
    });
}

enum Other<'a, T> {
    Rows(&'a Mat<T>),
    Same(&'a [T]),
}

struct Dots<'a, T> {
    out: &'a mut [T],
    a: &'a Mat<T>,
    b: Other<'a, T>,
}

impl<T: Real> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Dots { out, a, b } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let vectors = a.cols.div_ceil(lanes);
        for (i, to) in out.iter_mut().enumerate().take(a.rows) {
            let x = &T::as_simd::<S>(&a.data[i * a.stride..(i + 1) * a.stride])[..vectors];
            let y = match b {
                Other::Rows(b) => &T::as_simd::<S>(&b.data[i * b.stride..(i + 1) * b.stride])[..vectors],
                Other::Same(b) => &T::as_simd::<S>(b)[..vectors],
            };
            // Two chains, so that a short row does not wait for itself.
            let zero = T::splat(simd, T::ZERO);
            let (mut even, mut odd) = (zero, zero);
            let (mut xs, mut ys) = (x.chunks_exact(2), y.chunks_exact(2));
            for (x, y) in xs.by_ref().zip(ys.by_ref()) {
                even = T::vfma(simd, x[0], y[0], even);
                odd = T::vfma(simd, x[1], y[1], odd);
            }
            if let ([x], [y]) = (xs.remainder(), ys.remainder()) {
                even = T::vfma(simd, *x, *y, even);
            }
            *to = T::vsum(simd, T::vadd(simd, even, odd));
        }
    }
}

/// `out_ij = s_i a_ij`.
pub(crate) fn scale<T: Real>(out: &mut Mat<T>, a: &Mat<T>, s: &[T]) {
    T::dispatch(Scale { out, a, s, factor: T::ONE, keep: false });
}

/// `out_ij += factor s_i a_ij`.
pub(crate) fn add_scaled<T: Real>(out: &mut Mat<T>, a: &Mat<T>, s: &[T], factor: T) {
    T::dispatch(Scale { out, a, s, factor, keep: true });
}

struct Scale<'a, T> {
    out: &'a mut Mat<T>,
    a: &'a Mat<T>,
    s: &'a [T],
    factor: T,
    keep: bool,
}

impl<T: Real> WithSimd for Scale<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Scale { out, a, s, factor, keep } = self;
        let rows = out.data.chunks_exact_mut(out.stride).zip(a.data.chunks_exact(a.stride));
        for ((to, from), s) in rows.zip(s) {
            let s = T::splat(simd, factor * *s);
            for (to, from) in T::as_simd_mut::<S>(to).iter_mut().zip(T::as_simd::<S>(from)) {
                *to = if keep { T::vfma(simd, s, *from, *to) } else { T::vmul(simd, s, *from) };
            }
        }
    }
}

/// `out_ij = a_ij s_j`, shared by the cores.
pub(crate) fn scale_columns<T: Real>(out: &mut Mat<T>, a: &Mat<T>, s: &[T]) {
    let stride = out.stride;
    by_halves(&mut out.data, out.rows, |out, rows| {
        let a = &a.data[rows.start * a.stride..];
        T::dispatch(ScaleColumns { out, a, stride, s, factor: T::ONE, keep: false });
    });
}

/// `out_ij += factor a_ij s_j`.
pub(crate) fn add_scaled_columns<T: Real>(out: &mut Mat<T>, a: &Mat<T>, s: &[T], factor: T) {
    let (out, a, stride) = (&mut out.data, &a.data, a.stride);
    T::dispatch(ScaleColumns { out, a, stride, s, factor, keep: true });
}

struct ScaleColumns<'a, T> {
    out: &'a mut [T],
    a: &'a [T],
    stride: usize,
    s: &'a [T],
    factor: T,
    keep: bool,
}

impl<T: Real> WithSimd for ScaleColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ScaleColumns { out, a, stride, s, factor, keep } = self;
        let factor = T::splat(simd, factor);
        let s = T::as_simd::<S>(s);
        for (to, from) in out.chunks_exact_mut(stride).zip(a.chunks_exact(stride)) {
            let (to, from) = (T::as_simd_mut::<S>(to), T::as_simd::<S>(from));
            for ((to, from), s) in to.iter_mut().zip(from).zip(s) {
                let scaled = T::vmul(simd, factor, *s);
                *to = if keep { T::vfma(simd, scaled, *from, *to) } else { T::vmul(simd, scaled, *from) };
            }
        }
    }
}

/// `out_j = Σ_i a_ij b_ij`.
pub(crate) fn column_dots<T: Real>(out: &mut [T], a: &Mat<T>, b: &Mat<T>) {
    out.fill(T::ZERO);
    T::dispatch(ColumnDots { out, a, b });
}

struct ColumnDots<'a, T> {
    out: &'a mut [T],
    a: &'a Mat<T>,
    b: &'a Mat<T>,
}

impl<T: Real> WithSimd for ColumnDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ColumnDots { out, a, b } = self;
        let out = T::as_simd_mut::<S>(out);
        for (a, b) in a.data.chunks_exact(a.stride).zip(b.data.chunks_exact(b.stride)) {
            for ((to, a), b) in out.iter_mut().zip(T::as_simd::<S>(a)).zip(T::as_simd::<S>(b)) {
                *to = T::vfma(simd, *a, *b, *to);
            }
        }
    }
}

/// `out_ij += x_i y_j`.
pub(crate) fn add_outer<T: Real>(out: &mut Mat<T>, x: &[T], y: &[T]) {
    T::dispatch(AddOuter { out, x, y });
}

struct AddOuter<'a, T> {
    out: &'a mut Mat<T>,
    x: &'a [T],
    y: &'a [T],
}

impl<T: Real> WithSimd for AddOuter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddOuter { out, x, y } = self;
        let y = T::as_simd::<S>(y);
        for (to, x) in out.data.chunks_exact_mut(out.stride).zip(x) {
            let x = T::splat(simd, *x);
            for (to, y) in T::as_simd_mut::<S>(to).iter_mut().zip(y) {
                *to = T::vfma(simd, x, *y, *to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_matches_its_formula() {
        for cols in [1, 3, 8, 21, 64] {
            let rows = 5;
            let at = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f64 - 4.0;
            let values: Vec<f64> = (0..rows * cols).map(|k| at(k / cols, k % cols)).collect();
            let a = Mat::<f64>::from_f64(rows, cols, &values);
            let n = super::super::mat::padded::<f64>(cols.max(rows));
            let mut s = vec![0.0; n];
            (0..cols.max(rows)).for_each(|k| s[k] = 0.5 * k as f64 - 1.0);
            let mut x = s.clone();
            x[cols..].fill(0.0);
            let mut out = vec![0.0; n];
            times(&mut out, &a, &x);
            for i in 0..rows {
                assert_eq!(out[i], (0..cols).map(|j| at(i, j) * x[j]).sum::<f64>());
            }
            dots(&mut out, &a, &a);
            assert_eq!(out[2], (0..cols).map(|j| at(2, j) * at(2, j)).sum::<f64>());
            let mut b = a.clone();
            scale(&mut b, &a, &s);
            add_scaled(&mut b, &a, &s, 2.0);
            assert_eq!(b.at(4, cols - 1), 3.0 * s[4] * at(4, cols - 1));
            scale_columns(&mut b, &a, &x);
            add_scaled_columns(&mut b, &a, &x, 2.0);
            assert_eq!(b.at(4, cols - 1), 3.0 * x[cols - 1] * at(4, cols - 1));
            add_outer(&mut b, &s, &x);
            assert_eq!(b.at(3, 0), 3.0 * x[0] * at(3, 0) + s[3] * x[0]);
            column_dots(&mut out[..super::super::mat::padded::<f64>(cols)], &a, &a);
            assert_eq!(out[0], (0..rows).map(|i| at(i, 0) * at(i, 0)).sum::<f64>());
        }
    }
}
