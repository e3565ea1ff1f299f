//! Products of matrices of packs ([`lanes`](super::lanes)): one entry is a vector, or half of one, so rows have no
//! ragged ends and a transpose costs nothing on the way.
//!
//! A left factor of weights is broadcast, entry by entry, against two columns of the right factor that stay in
//! the first-level cache (`tile.rs`). A left factor of packs is as large as the right one: there six of its rows
//! stay, and the columns of the right factor pass by.

use super::aligned::{LINE, Line};
use super::tile::{Left, Part, pieces};
use super::{Mat, Real};
use bytemuck::{Zeroable, cast, cast_slice_mut};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Rows of a tile, and its columns: 12 accumulators, or 6 of twice the size.
const ROWS: usize = 6;
const COLUMNS: usize = 2;

/// So many terms of the inner sum at a time: six rows of them take 24 kB.
const TERMS: usize = 128;
const FEW: usize = 16;

/// Bytes of a pack.
const PACK: usize = 32;

/// Packs in a vector: one or two.
#[inline(always)]
fn per_vector<T: Real, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
}

/// Vectors in the columns of a tile, of `left` that are left over.
#[inline(always)]
fn width<T: Real, S: Simd>(left: usize) -> usize {
    left.min(COLUMNS / per_vector::<T, S>())
}

/// Calls `$f::<T, S, M, N>` for a tile of `$rows × $columns`.
macro_rules! by_size {
    ($rows:expr, $columns:expr, $f:ident::<$t:ty, $s:ty>($($arg:expr),* $(,)?)) => {
        match ($rows, $columns) {
            (1, 1) => $f::<$t, $s, 1, 1>($($arg),*),
            (2, 1) => $f::<$t, $s, 2, 1>($($arg),*),
            (3, 1) => $f::<$t, $s, 3, 1>($($arg),*),
            (4, 1) => $f::<$t, $s, 4, 1>($($arg),*),
            (5, 1) => $f::<$t, $s, 5, 1>($($arg),*),
            (6, 1) => $f::<$t, $s, 6, 1>($($arg),*),
            (1, _) => $f::<$t, $s, 1, 2>($($arg),*),
            (2, _) => $f::<$t, $s, 2, 2>($($arg),*),
            (3, _) => $f::<$t, $s, 3, 2>($($arg),*),
            (4, _) => $f::<$t, $s, 4, 2>($($arg),*),
            (5, _) => $f::<$t, $s, 5, 2>($($arg),*),
            _ => $f::<$t, $s, 6, 2>($($arg),*),
        }
    };
}

/// `out = keep·out + scale·left·right` of packs; what [`product`](super::tile::product) does for them.
pub(crate) struct Packs<'a, T: Real> {
    pub out: &'a mut [T],
    pub rows: Range<usize>,
    pub stride: usize,
    pub keep: bool,
    pub scale: T,
    pub left: Left<'a, T>,
    pub right: &'a Mat<T>,
    pub part: Part,
}

/// `out = R + J Jᵀ` below the diagonal and next to it.
pub(crate) fn gram<T: Real>(out: &mut Mat<T>, resid: Option<&Mat<T>>, jac: &Mat<T>) {
    let work = out.rows * out.rows * jac.cols / 2;
    let (rows, stride) = (0..out.rows, out.stride);
    Gram { out: &mut out.data, rows, stride, resid, jac }.share(pieces(work));
}

/// Some rows of it.
struct Gram<'a, T> {
    out: &'a mut [T],
    rows: Range<usize>,
    stride: usize,
    resid: Option<&'a Mat<T>>,
    jac: &'a Mat<T>,
}

impl<T: Real> Gram<'_, T> {
    fn share(self, pieces: usize) {
        let count = self.rows.len();
        if pieces < 2 || count < 2 * ROWS {
            return T::dispatch(self);
        }
        let Gram { out, rows, stride, resid, jac } = self;
        // Most of a triangle's work lies in its last rows.
        let half = (count * 7 / 10).next_multiple_of(ROWS).min(count - 1);
        let (above, below) = out.split_at_mut(half * stride);
        let (top, bottom) = (rows.start..rows.start + half, rows.start + half..rows.end);
        rayon::join(
            || Gram { out: above, rows: top, stride, resid, jac }.share(pieces / 2),
            || Gram { out: below, rows: bottom, stride, resid, jac }.share(pieces - pieces / 2),
        );
    }
}

impl<T: Real> WithSimd for Gram<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Gram { out, rows, stride, resid, jac } = self;
        let from = T::as_simd::<S>(&jac.data);
        let across = jac.stride / per_vector::<T, S>();
        let terms = jac.cols.div_ceil(per_vector::<T, S>());
        for local in bands(rows.len()) {
            let (first, height) = (rows.start + local.start, local.len());
            let to = &mut out[local.start * stride..local.end * stride];
            let resid = resid.map(|r| &r.data[first * stride..(first + height) * stride]);
            let end = first + height;
            for v in (0..end).step_by(COLUMNS) {
                by_size!(
                    height,
                    COLUMNS.min(end - v),
                    gram_tile::<T, S>(simd, &mut *to, stride, v, resid, from, across, first, terms)
                );
            }
        }
    }
}

/// `M` rows from `first` on times `N` rows from `v` on, of `terms` vectors.
#[inline(always)]
fn gram_tile<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    out: &mut [T],
    stride: usize,
    v: usize,
    resid: Option<&[T]>,
    jac: &[T::Vector<S>],
    across: usize,
    first: usize,
    terms: usize,
) {
    let left: [&[T::Vector<S>]; M] = std::array::from_fn(|i| &jac[(first + i) * across..][..terms]);
    let right: [&[T::Vector<S>]; N] = std::array::from_fn(|n| &jac[(v + n) * across..][..terms]);
    let mut total = [[T::splat(simd, T::ZERO); N]; M];
    for k in 0..terms {
        for i in 0..M {
            for n in 0..N {
                total[i][n] = T::vfma(simd, left[i][k], right[n][k], total[i][n]);
            }
        }
    }
    for i in 0..M {
        for n in 0..N {
            let (at, x) = (i * stride + v + n, T::vsum(simd, total[i][n]));
            out[at] = resid.map_or(x, |r| x + r[at]);
        }
    }
}

/// Rows, split evenly into bands of at most six.
fn bands(count: usize) -> impl Iterator<Item = Range<usize>> {
    let bands = count.div_ceil(ROWS);
    (0..bands).map(move |b| b * count / bands..(b + 1) * count / bands)
}

impl<T: Real> WithSimd for Packs<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // To clear the room for many terms takes longer than a small product.
        if self.right.rows <= FEW { self.run::<S, FEW>(simd) } else { self.run::<S, TERMS>(simd) }
    }
}

impl<T: Real> Packs<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const TERMS: usize>(self, simd: S) {
        let Packs { out, rows, stride, keep, scale, left, right, part } = self;
        let lanes = per_vector::<T, S>();
        let scale = T::splat(simd, scale);
        let mut room = [[Line::zeroed(); ROWS * PACK / LINE]; TERMS];
        let band: &mut [T] = cast_slice_mut(room.as_flattened_mut());
        let (stride, across) = (stride / lanes, right.stride / lanes);
        let out = T::as_simd_mut::<S>(out);
        let from = T::as_simd::<S>(&right.data);
        for local in bands(rows.len()) {
            let first = rows.start + local.start;
            let height = local.len();
            let end = if part == Part::All { right.cols } else { right.cols.min(first + height) };
            let vectors = end.div_ceil(lanes);
            let to = &mut out[local.start * stride..local.end * stride];
            for start in (0..right.rows).step_by(TERMS) {
                let terms = start..right.rows.min(start + TERMS);
                let band = &mut band[..terms.len() * height];
                match left {
                    Left::Plain(a) => {
                        for i in 0..height {
                            let row = &a.row(first + i)[terms.clone()];
                            for (to, x) in band.chunks_exact_mut(height).zip(row) {
                                to[i] = *x;
                            }
                        }
                    }
                    Left::Transposed(a) => {
                        let a = a.data[terms.start * a.stride..terms.end * a.stride].chunks_exact(a.stride);
                        for (to, row) in band.chunks_exact_mut(height).zip(a) {
                            // Not `copy_from_slice`: a call for every few vectors.
                            for (to, x) in to.iter_mut().zip(&row[first..first + height]) {
                                *to = *x;
                            }
                        }
                    }
                    // Their tile broadcasts them (`tile.rs`).
                    Left::Shared(_) => return,
                }
                let keep = keep || start > 0;
                let right = &from[terms.start * across..terms.end * across];
                for v in (0..vectors).step_by(COLUMNS / lanes) {
                    by_size!(
                        height,
                        width::<T, S>(vectors - v),
                        tile::<T, S>(simd, &mut *to, stride, v, keep, scale, band, right, across)
                    );
                }
            }
        }
    }
}

/// `M` rows of the left factor, side by side in `band`, times `N` vectors of the right factor from `v` on.
#[inline(always)]
fn tile<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    out: &mut [T::Vector<S>],
    stride: usize,
    v: usize,
    keep: bool,
    scale: T::Vector<S>,
    band: &[T],
    right: &[T::Vector<S>],
    across: usize,
) {
    let mut total = [[T::splat(simd, T::ZERO); N]; M];
    for (l, r) in band.as_chunks::<M>().0.iter().zip(right.chunks_exact(across)) {
        let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[v + n]);
        for i in 0..M {
            let x = T::splat(simd, l[i]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
            }
        }
    }
    for i in 0..M {
        for n in 0..N {
            let to = &mut out[i * stride + v + n];
            let x = total[i][n];
            *to = if keep { T::vfma(simd, scale, x, *to) } else { T::vmul(simd, scale, x) };
        }
    }
}

/// `out = R Wᵀ` for a symmetric `R` of packs and weights that all lanes share, given as `Wᵀ`.
pub(crate) fn times_weights<T: Real>(out: &mut Mat<T>, symmetric: &Mat<T>, weights_t: &Mat<T::One>) {
    let work = symmetric.rows * symmetric.rows * weights_t.cols;
    let (columns, stride) = (0..symmetric.rows, out.stride);
    TimesWeights { out: &mut out.data, stride, columns, symmetric, weights_t }.share(pieces(work));
}

/// Some columns of `R`, which are rows of the product.
struct TimesWeights<'a, T: Real> {
    out: &'a mut [T],
    stride: usize,
    columns: Range<usize>,
    symmetric: &'a Mat<T>,
    weights_t: &'a Mat<T::One>,
}

impl<T: Real> TimesWeights<'_, T> {
    /// Shares the columns over the cores.
    fn share(self, pieces: usize) {
        let count = self.columns.len();
        if pieces < 2 || count < 2 * COLUMNS {
            return T::dispatch(self);
        }
        let TimesWeights { out, stride, columns, symmetric, weights_t } = self;
        let few = pieces / 2;
        let half = (count * few / pieces).next_multiple_of(COLUMNS);
        let (above, below) = out.split_at_mut(half * stride);
        let (left, right) = (columns.start..columns.start + half, columns.start + half..columns.end);
        rayon::join(
            || TimesWeights { out: above, stride, columns: left, symmetric, weights_t }.share(few),
            || TimesWeights { out: below, stride, columns: right, symmetric, weights_t }.share(pieces - few),
        );
    }
}

impl<T: Real> WithSimd for TimesWeights<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let TimesWeights { out, stride, columns, symmetric, weights_t } = self;
        let lanes = per_vector::<T, S>();
        let n = symmetric.rows;
        let from = T::as_simd::<S>(&symmetric.data);
        let across = symmetric.stride / lanes;
        let mut room = [Line::zeroed(); TERMS];
        let panel = T::as_simd_mut::<S>(cast_slice_mut(&mut room));
        let vectors = columns.len().div_ceil(lanes);
        // Few rows of weights would wait for their own sums, and a panel would not pay.
        let few = weights_t.cols <= ROWS / 2;
        let wide = if few { 2 } else { COLUMNS / lanes };
        for (v, to) in (0..vectors).step_by(wide).zip(out.chunks_mut(wide * lanes * stride)) {
            let width = wide.min(vectors - v);
            let v = columns.start / lanes + v;
            for start in (0..n).step_by(TERMS) {
                let terms = start..n.min(start + TERMS);
                let source = &from[terms.start * across..terms.end * across];
                let right = if few {
                    (source, across, v)
                } else {
                    for (to, row) in panel.chunks_exact_mut(width).zip(source.chunks_exact(across)) {
                        to[0] = row[v];
                        if width == 2 {
                            to[1] = row[v + 1];
                        }
                    }
                    (&panel[..terms.len() * width], width, 0)
                };
                let weights = &weights_t.data[terms.start * weights_t.stride..terms.end * weights_t.stride];
                for band in bands(weights_t.cols) {
                    let (row, keep, across) = (band.start, start > 0, weights_t.stride);
                    by_size!(
                        band.len(),
                        width,
                        weights_tile::<T, S>(simd, &mut *to, stride, row, keep, right, weights, across)
                    );
                }
            }
        }
    }
}

/// `M` rows of weights from `row` on times `N` vectors of columns, stored transposed.
#[inline(always)]
fn weights_tile<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    out: &mut [T],
    stride: usize,
    row: usize,
    keep: bool,
    (right, along, from): (&[T::Vector<S>], usize, usize),
    weights: &[T::One],
    across: usize,
) {
    let lanes = per_vector::<T, S>();
    let mut total = [[T::splat(simd, T::ZERO); N]; M];
    for (l, r) in weights.chunks_exact(across).zip(right.chunks_exact(along)) {
        let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[from + n]);
        let l: [T::One; M] = std::array::from_fn(|i| l[row + i]);
        for i in 0..M {
            let x = T::spread(simd, l[i]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, r[n], total[i][n]);
            }
        }
    }
    for i in 0..M {
        for n in 0..N {
            // Every pack belongs to another row of the output; the last one may be a vector's padding.
            for (q, x) in packs::<T, S>(total[i][n]).into_iter().enumerate().take(lanes) {
                if let Some(to) = out.get_mut((n * lanes + q) * stride + row + i) {
                    if keep {
                        *to += x;
                    } else {
                        *to = x;
                    }
                }
            }
        }
    }
}

/// The packs of a vector; twice the same one if it holds no other.
#[inline(always)]
fn packs<T: Real, S: Simd>(vector: T::Vector<S>) -> [T; 2] {
    if per_vector::<T, S>() == 2 { cast(vector) } else { [cast(vector); 2] }
}
