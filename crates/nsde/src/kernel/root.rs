//! A triangular root of covariances of packs, in their own precision: `R = L Lᵀ`.
//!
//! With it `W R Wᵀ = (W L)(W L)ᵀ`: two halves of a product and a sixth for the root, in place of one and a half. As
//! long as the pivots are more than rounding, `L Lᵀ` is `R` up to rounding relative to the variances.

use super::{Mat, Real, Single};
use pulp::{Simd, WithSimd};

/// Rows of a tile, and its columns.
const ROWS: usize = 6;
const COLUMNS: usize = 2;

/// A pivot of fewer units in the last place of its variance may be rounding: then there is no root.
const PIVOT_UNITS: f64 = 1000.0;

/// What takes the place of the pivot of a variance that is zero: nothing, but one can divide by it.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// Puts `L` in the lower triangle of `root`; that of `R` is read. Above them is anything. Gives up, and says so, where
/// `R` is singular or nearly so in any lane.
pub(crate) fn root<T: Real>(root: &mut Mat<T>, of: &Mat<T>) -> bool {
    T::dispatch_narrow(Root { root, of })
}

struct Root<'a, T> {
    root: &'a mut Mat<T>,
    of: &'a Mat<T>,
}

impl<T: Real> WithSimd for Root<'_, T> {
    type Output = bool;

    /// Two columns at a time, from the rows on the diagonal down.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> bool {
        let n = self.of.rows;
        for j in (0..n).step_by(COLUMNS) {
            let mut pivots = None;
            for i in (j..n).step_by(ROWS) {
                let fine = match n - i {
                    1 if i == j => self.last::<S>(simd, j),
                    1 => self.tile::<S, 1>(simd, i, j, &mut pivots),
                    2 => self.tile::<S, 2>(simd, i, j, &mut pivots),
                    3 => self.tile::<S, 3>(simd, i, j, &mut pivots),
                    4 => self.tile::<S, 4>(simd, i, j, &mut pivots),
                    5 => self.tile::<S, 5>(simd, i, j, &mut pivots),
                    _ => self.tile::<S, ROWS>(simd, i, j, &mut pivots),
                };
                if !fine {
                    return false;
                }
            }
        }
        true
    }
}

/// Two pivots: their reciprocals, and the entry between them.
#[derive(Clone, Copy)]
struct Pivots<V> {
    first: V,
    second: V,
    between: V,
}

impl<T: Real> Root<'_, T> {
    /// `R_ij − Σ_k L_ik L_jk` over the columns before `j`, of `M` rows from `i` on and `N` columns.
    #[inline(always)]
    fn rest<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        i: usize,
        j: usize,
    ) -> [[T::Vector<S>; N]; M] {
        let row = |r: usize| &T::as_simd::<S>(&self.root.data[r * self.root.stride..])[..j];
        // (Loops, because `from_fn` is not always inlined.)
        let mut left: [&[T::Vector<S>]; M] = [&[]; M];
        let mut right: [&[T::Vector<S>]; N] = [&[]; N];
        for m in 0..M {
            left[m] = row(i + m);
        }
        for n in 0..N {
            right[n] = row(j + n);
        }
        let mut total = [[T::splat(simd, T::ZERO); N]; M];
        for k in 0..j {
            for m in 0..M {
                for n in 0..N {
                    total[m][n] = T::vfma(simd, left[m][k], right[n][k], total[m][n]);
                }
            }
        }
        for m in 0..M {
            for n in 0..N {
                total[m][n] = T::vsub(simd, T::splat(simd, self.of.at(i + m, j + n)), total[m][n]);
            }
        }
        total
    }

    /// The root of what is left of a variance, and whether that is more than rounding.
    #[inline(always)]
    fn pivot<S: Simd>(simd: S, rest: T::Vector<S>, variance: T) -> (T::Vector<S>, bool) {
        let least = T::splat(simd, T::of(PIVOT_UNITS * T::One::EPSILON) * variance);
        // A vector is one pack.
        let lack = T::vsum(simd, T::vsub(simd, least, rest)).positive();
        (T::vsqrt(simd, T::vmax(simd, rest, T::splat(simd, T::of(TINY)))), lack == T::ZERO)
    }

    /// Two columns from `j` on of `M` rows from `i` on; rows on the diagonal come first, and leave the pivots.
    #[inline(always)]
    fn tile<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        i: usize,
        j: usize,
        pivots: &mut Option<Pivots<T::Vector<S>>>,
    ) -> bool {
        let mut rest = self.rest::<S, M, COLUMNS>(simd, i, j);
        let (one, next) = (T::splat(simd, T::ONE), M.min(2) - 1);
        let mut diagonal = None;
        let mut fine = true;
        // (Not `get_or_insert_with`, which is not always inlined.)
        let Pivots { first, second, between } = match *pivots {
            Some(known) => known,
            None => {
                let (a, safe_a) = Self::pivot::<S>(simd, rest[0][0], self.of.at(j, j));
                let first = T::vdiv(simd, one, a);
                let between = T::vmul(simd, rest[next][0], first);
                let left = T::vsub(simd, rest[next][1], T::vmul(simd, between, between));
                let (b, safe_b) = Self::pivot::<S>(simd, left, self.of.at(j + 1, j + 1));
                (diagonal, fine) = (Some([a, b]), safe_a && safe_b);
                let new = Pivots { first, second: T::vdiv(simd, one, b), between };
                *pivots = Some(new);
                new
            }
        };
        for [a, b] in &mut rest {
            *a = T::vmul(simd, *a, first);
            *b = T::vmul(simd, T::vsub(simd, *b, T::vmul(simd, *a, between)), second);
        }
        if let Some([a, b]) = diagonal {
            (rest[0][0], rest[next][1]) = (a, b);
        }
        let rows = self.root.data.chunks_exact_mut(self.root.stride).skip(i);
        for (row, rest) in rows.zip(&rest) {
            T::as_simd_mut::<S>(row)[j..j + COLUMNS].copy_from_slice(rest);
        }
        fine
    }

    /// The last of an odd number of columns.
    #[inline(always)]
    fn last<S: Simd>(&mut self, simd: S, j: usize) -> bool {
        let [[rest]] = self.rest::<S, 1, 1>(simd, j, j);
        let (root, fine) = Self::pivot::<S>(simd, rest, self.of.at(j, j));
        T::as_simd_mut::<S>(self.root.row_mut(j))[j] = root;
        fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::lanes::{F32x8, F64x4, supported};

    /// Outer products and a tenth of the identity; the first unit is a point mass in every second lane. With a unit that
    /// copies another one there is no root.
    fn check<T: Real>() {
        for n in [1usize, 2, 3, 9, 17, 50] {
            let at = |i: usize, k: usize, lane: usize| ((i * 13 + k * 7 + lane) % 17) as f64 / 7.0 - 1.0;
            let entry = |i: usize, j: usize, lane: usize| -> f64 {
                let dead = lane % 2 == 1 && (i == 0 || j == 0);
                let sum: f64 = (0..5).map(|k| at(i, k, lane) * at(j, k, lane)).sum();
                if dead { 0.0 } else { sum + if i == j { 0.1 } else { 0.0 } }
            };
            let (mut of, mut l) = (Mat::<T>::zeros(n, n), Mat::<T>::zeros(n, n));
            for i in 0..n {
                for j in 0..n {
                    // Nobody reads above the diagonal.
                    *of.at_mut(i, j) = T::lanes(|lane| if j > i { f64::NAN } else { entry(i, j, lane) });
                }
            }
            assert!(root(&mut l, &of), "{n}");
            for (lane, i) in (0..T::LANES).flat_map(|lane| (0..n).map(move |i| (lane, i))) {
                for j in 0..=i {
                    let square: f64 = (0..=j).map(|k| l.at(i, k).lane(lane) * l.at(j, k).lane(lane)).sum();
                    let scale = (entry(i, i, lane) * entry(j, j, lane)).sqrt();
                    let off = (square - entry(i, j, lane)).abs();
                    assert!(off <= 10.0 * T::One::EPSILON * scale + 2.0 * TINY, "{n} {i} {j} {lane}: {off}");
                }
            }
            if n > 2 {
                for j in 0..n {
                    let from = if j < n - 1 { of.at(n - 2, j.min(n - 2)) } else { of.at(n - 2, n - 2) };
                    *of.at_mut(n - 1, j) = from;
                }
                assert!(!root(&mut l, &of), "{n}");
            }
        }
    }

    #[test]
    fn a_root_squares_to_its_covariance_unless_that_is_singular() {
        if supported() {
            check::<F32x8>();
            check::<F64x4>();
        }
    }
}
