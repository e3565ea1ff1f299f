//! A product by a register tile of six rows, or ten, and a cache line of columns.
//!
//! Where the right factor outgrows the first-level cache, so many of its columns at a time are copied
//! into a panel that stays there while all rows of the left factor pass by. That does not change the order in which an
//! entry is summed.

use super::aligned::{LINE, Line};
use super::product::{Left, Onto, Part, Product};
use super::{Mat, Real};
use bytemuck::{Zeroable, cast_slice_mut};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Rows of a tile: with two vectors of AVX2, 6 × 2 accumulators, two right vectors and one broadcast fill 15 of 16
/// registers. AVX-512 takes one vector, of the same 64 bytes, and broadcasts straight from memory.
pub(super) const TILE_ROWS: usize = 6;

/// With vectors of a whole line there are twice as many registers: fewer tiles, which begin and end less often.
const TALL_ROWS: usize = 10;

/// Rows of a tile of a single vector.
#[inline(always)]
pub(super) fn tall<T: Real, S: Simd>() -> usize {
    if size_of::<T::Vector<S>>() == LINE { TALL_ROWS } else { TILE_ROWS }
}

/// Rows of a panel, of a cache line each: half of a first-level cache.
const PANEL_ROWS: usize = 256;

/// Right factors of up to this many bytes stay in the first-level cache by themselves.
const CACHED: usize = 24 * 1024;

/// Nor does a panel pay for so few rows of the right factor: a column of lines of them stays by itself too.
const FEW: usize = 128;

/// Below this many rows of the left factor a panel does not pay.
const WORTH_PACKING: usize = 24;

impl<T: Real> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let vectors = self.right.cols.div_ceil(lanes);
        let wide = (LINE / size_of::<T::Vector<S>>()).min(2);
        let Product { inner, .. } = self;
        let last = inner.rows();
        let across = self.right.stride / lanes;
        let from = T::as_simd::<S>(&self.right.data);
        let to = T::as_simd_mut::<S>(self.out);
        let Product { rows, stride, scale, left, part, .. } = self;
        let (keep, onto) = match self.keep {
            Onto::Nothing => (false, None),
            Onto::Itself => (true, None),
            Onto::Other(factor, m) => (false, Some((factor, &m.data[rows.start * stride..]))),
        };
        let bands = Bands { rows, lanes, stride: stride / lanes, scale, left, part, onto };
        if size_of_val(from) <= CACHED || last <= FEW || bands.rows.len() < WORTH_PACKING {
            for v in (0..vectors).step_by(wide) {
                let first = inner.first(v * lanes);
                let from = (&from[first * across..], across, v);
                bands.run(simd, to, v, (vectors - v).min(wide), keep, first..last, from);
            }
            return;
        }
        let mut room = [Line::zeroed(); PANEL_ROWS];
        let panel = T::as_simd_mut::<S>(cast_slice_mut(&mut room));
        for v in (0..vectors).step_by(wide) {
            let width = (vectors - v).min(wide);
            let begin = inner.first(v * lanes);
            for first in (begin..last).step_by(PANEL_ROWS) {
                let sum = first..last.min(first + PANEL_ROWS);
                let source = from[sum.start * across..sum.end * across].chunks_exact(across);
                for (to, row) in panel.chunks_exact_mut(wide).zip(source) {
                    to[0] = row[v];
                    if width == 2 {
                        to[1] = row[v + 1];
                    }
                }
                bands.run(simd, to, v, width, keep || first > begin, sum, (&*panel, wide, 0));
            }
        }
    }
}

/// What the tiles of a product have in common.
struct Bands<'a, T: Real> {
    rows: Range<usize>,
    lanes: usize,
    /// Vectors from one row of the output to the next.
    stride: usize,
    scale: T,
    left: Left<'a, T>,
    part: Part,
    /// What a multiple of is added to the first terms, from the first row on, if it is not the output itself.
    onto: Option<(T, &'a [T])>,
}

impl<T: Real> Bands<'_, T> {
    /// One column of tiles, `width` vectors wide from `v` on; adds the terms `sum` of the inner sum.
    /// `right` is where the right factor stands, its row length and the first vector to take.
    #[inline(always)]
    fn run<S: Simd>(
        &self,
        simd: S,
        out: &mut [T::Vector<S>],
        v: usize,
        width: usize,
        keep: bool,
        sum: Range<usize>,
        right: (&[T::Vector<S>], usize, usize),
    ) {
        // From the diagonal down. Rows are split evenly, so that no thin tail of one row is left over.
        let count = self.rows.len();
        let mut first = match self.part {
            Part::All => 0,
            Part::Lower | Part::Symmetric => (v * self.lanes).saturating_sub(self.rows.start).min(count),
        };
        let most = match self.left {
            // As many rows are as many pointers.
            Left::Plain(_) | Left::Lower(_) | Left::Upper(_) => TILE_ROWS,
            Left::Transposed(_) | Left::Shared(_) => tall::<T, S>(),
        };
        let bands = (count - first).div_ceil(most);
        for band in 0..bands {
            let height = (count - first).div_ceil(bands - band);
            let row = self.rows.start + first;
            let to = &mut out[first * self.stride..(first + height) * self.stride];
            macro_rules! tile {
                ($m:literal) => {
                    if width == 2 {
                        self.tile::<S, $m, 2>(simd, to, v, row, keep, sum.clone(), right)
                    } else {
                        self.tile::<S, $m, 1>(simd, to, v, row, keep, sum.clone(), right)
                    }
                };
            }
            match height {
                1 => tile!(1),
                2 => tile!(2),
                3 => tile!(3),
                4 => tile!(4),
                5 => tile!(5),
                6 => tile!(6),
                7 => self.tile::<S, 7, 1>(simd, to, v, row, keep, sum.clone(), right),
                8 => self.tile::<S, 8, 1>(simd, to, v, row, keep, sum.clone(), right),
                9 => self.tile::<S, 9, 1>(simd, to, v, row, keep, sum.clone(), right),
                _ => self.tile::<S, TALL_ROWS, 1>(simd, to, v, row, keep, sum.clone(), right),
            }
            first += height;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        out: &mut [T::Vector<S>],
        v: usize,
        row: usize,
        keep: bool,
        sum: Range<usize>,
        (right, across, at): (&[T::Vector<S>], usize, usize),
    ) {
        let none = [[T::splat(simd, T::ZERO); N]; M];
        // Some terms of the right factor, and where they begin.
        let from = |first: usize| (&right[(first - sum.start) * across..], across, at);
        let total = match self.left {
            // Tiles that run along the rows of the left factor are not so tall.
            Left::Plain(_) | Left::Lower(_) | Left::Upper(_) if M > TILE_ROWS => none,
            Left::Plain(a) => along::<T, S, M, N>(simd, none, a, row, sum.clone(), from(sum.start)),
            Left::Upper(a) => {
                let first = row.clamp(sum.start, sum.end);
                along::<T, S, M, N>(simd, none, a, row, first..sum.end, from(first))
            }
            Left::Lower(a) => {
                // Its own rows left of the diagonal, the square on it, and the rows below.
                let own = sum.start..row.clamp(sum.start, sum.end);
                let below = (row + M).clamp(sum.start, sum.end)..sum.end;
                let total = along::<T, S, M, N>(simd, none, a, row, own.clone(), from(own.start));
                let total =
                    across_diagonal::<T, S, M, N>(simd, total, a, row, own.end..below.start, from(own.end));
                down::<T, S, M, N>(simd, total, a, row, below.clone(), from(below.start))
            }
            Left::Transposed(a) => down::<T, S, M, N>(simd, none, a, row, sum.clone(), from(sum.start)),
            Left::Shared(a) => {
                let mut total = none;
                let lines = a.data[sum.start * a.stride..sum.end * a.stride].chunks_exact(a.stride);
                for (l, r) in lines.zip(right.chunks_exact(across)) {
                    let l: [T::One; M] = std::array::from_fn(|i| l[row + i]);
                    let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[at + n]);
                    for i in 0..M {
                        let x = T::spread(simd, l[i]);
                        for n in 0..N {
                            total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
                        }
                    }
                }
                total
            }
        };
        let scale = T::splat(simd, self.scale);
        let onto = match self.onto {
            Some((factor, onto)) if !keep => {
                let from = (row - self.rows.start) * self.stride;
                Some((T::splat(simd, factor), &T::as_simd::<S>(onto)[from..]))
            }
            _ => None,
        };
        for i in 0..M {
            for n in 0..N {
                let at = i * self.stride + v + n;
                let to = &mut out[at];
                let x = total[i][n];
                *to = match onto {
                    _ if keep => T::vfma(simd, scale, x, *to),
                    Some((factor, onto)) => T::vfma(simd, scale, x, T::vmul(simd, factor, onto[at])),
                    None => T::vmul(simd, scale, x),
                };
            }
        }
    }
}

/// Terms of some rows of the right factor: from where on, how long, and the first vector to take.
type Terms<'a, V> = (&'a [V], usize, usize);

/// Adds the terms `sum` of a tile whose left factor is read along its rows, from `row` on.
///
/// (Of its own, as the next ones are: accumulators that several loops share do not stay in registers.)
#[inline(always)]
fn along<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    mut total: [[T::Vector<S>; N]; M],
    a: &Mat<T>,
    row: usize,
    sum: Range<usize>,
    (right, across, from): Terms<'_, T::Vector<S>>,
) -> [[T::Vector<S>; N]; M] {
    // (A loop, because `from_fn` is not always inlined.)
    let mut rows: [&[T]; M] = [&[]; M];
    for i in 0..M {
        rows[i] = &a.row(row + i)[sum.clone()];
    }
    for (k, r) in right.chunks_exact(across).enumerate().take(sum.len()) {
        let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[from + n]);
        for i in 0..M {
            let x = T::splat(simd, rows[i][k]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
            }
        }
    }
    total
}

/// The same down its columns.
#[inline(always)]
fn down<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    mut total: [[T::Vector<S>; N]; M],
    a: &Mat<T>,
    row: usize,
    sum: Range<usize>,
    (right, across, from): Terms<'_, T::Vector<S>>,
) -> [[T::Vector<S>; N]; M] {
    let lines = a.data[sum.start * a.stride..sum.end * a.stride].chunks_exact(a.stride);
    for (l, r) in lines.zip(right.chunks_exact(across)) {
        let l: [T; M] = std::array::from_fn(|i| l[row + i]);
        let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[from + n]);
        for i in 0..M {
            let x = T::splat(simd, l[i]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
            }
        }
    }
    total
}

/// The same within the square on the diagonal of a symmetric matrix, of which the lower triangle is read.
#[inline(always)]
fn across_diagonal<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    mut total: [[T::Vector<S>; N]; M],
    a: &Mat<T>,
    row: usize,
    sum: Range<usize>,
    (right, across, from): Terms<'_, T::Vector<S>>,
) -> [[T::Vector<S>; N]; M] {
    for (k, r) in sum.zip(right.chunks_exact(across)) {
        let l: [T; M] = std::array::from_fn(|i| a.at(k.max(row + i), k.min(row + i)));
        let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[from + n]);
        for i in 0..M {
            let x = T::splat(simd, l[i]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
            }
        }
    }
    total
}
