//! A product whose right factor has so few columns that they fill no vector.

use super::{Mat, Real};
use bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

/// Columns of a right factor that fill no vector.
pub(super) const THIN: usize = 4;

/// A product with a thin right factor: vectors along the rows of `left`, which is transposed.
pub(super) struct Thin<'a, T> {
    pub out: &'a mut [T],
    pub stride: usize,
    pub keep: bool,
    pub scale: T,
    pub left: &'a Mat<T>,
    pub right: &'a Mat<T>,
    pub terms: usize,
}

impl<T: Real> WithSimd for Thin<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let vectors = self.left.cols.div_ceil(size_of::<T::Vector<S>>() / size_of::<T>());
        for column in 0..self.right.cols {
            let mut v = 0;
            while v < vectors {
                v += match vectors - v {
                    1 => self.strip::<S, 1>(simd, column, v),
                    2 | 3 => self.strip::<S, 2>(simd, column, v),
                    _ => self.strip::<S, 4>(simd, column, v),
                }
            }
        }
    }
}

impl<T: Real> Thin<'_, T> {
    /// `N` vectors of a column from `v` on; returns their number.
    #[inline(always)]
    fn strip<S: Simd, const N: usize>(&mut self, simd: S, column: usize, v: usize) -> usize {
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let across = self.left.stride / lanes;
        // Even and odd terms in two chains, which do not wait for each other.
        let (mut even, mut odd) = ([T::splat(simd, T::ZERO); N], [T::splat(simd, T::ZERO); N]);
        let left = T::as_simd::<S>(&self.left.data);
        let right = self.right;
        for k in (0..self.terms).step_by(2) {
            let (l, r) = (&left[k * across + v..][..N], T::splat(simd, right.at(k, column)));
            for n in 0..N {
                even[n] = T::vfma(simd, r, l[n], even[n]);
            }
            if k + 1 < self.terms {
                let (l, r) = (&left[(k + 1) * across + v..][..N], T::splat(simd, right.at(k + 1, column)));
                for n in 0..N {
                    odd[n] = T::vfma(simd, r, l[n], odd[n]);
                }
            }
        }
        let sums: [T::Vector<S>; N] = std::array::from_fn(|n| T::vadd(simd, even[n], odd[n]));
        let rows = self.out.chunks_exact_mut(self.stride).skip(v * lanes);
        for (row, x) in rows.zip(cast_slice::<_, T>(&sums)) {
            let x = self.scale * *x;
            row[column] = if self.keep { row[column] + x } else { x };
        }
        N
    }
}
