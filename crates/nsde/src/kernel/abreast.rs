//! Products of matrices of packs ([`lanes`](super::lanes)): one entry is a vector, or half of one, so rows have no
//! ragged ends and a transpose costs nothing on the way.
//!
//! A left factor of weights is broadcast, entry by entry, against two columns of the right factor that stay in
//! the first-level cache (`tile.rs`). A left factor of packs is as large as the right one: there six of its rows
//! stay, and the columns of the right factor pass by.

use super::aligned::{LINE, Line};
use super::product::{Left, Part};
use super::real::in_vectors;
use super::share::pieces;
use super::tile::tall;
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
            (7, 1) => $f::<$t, $s, 7, 1>($($arg),*),
            (8, 1) => $f::<$t, $s, 8, 1>($($arg),*),
            (9, 1) => $f::<$t, $s, 9, 1>($($arg),*),
            (10, 1) => $f::<$t, $s, 10, 1>($($arg),*),
            (1, _) => $f::<$t, $s, 1, 2>($($arg),*),
            (2, _) => $f::<$t, $s, 2, 2>($($arg),*),
            (3, _) => $f::<$t, $s, 3, 2>($($arg),*),
            (4, _) => $f::<$t, $s, 4, 2>($($arg),*),
            (5, _) => $f::<$t, $s, 5, 2>($($arg),*),
            _ => $f::<$t, $s, 6, 2>($($arg),*),
        }
    };
}

/// `out = keep·out + scale·left·right` of packs; what [`product`](super::product::product) does for them.
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

/// Rows of `J Jᵀ` that are computed together, and vectors of a tile of them.
pub(crate) const BAND: usize = 6;
const WIDE: usize = 2;

/// `out = R + J Jᵀ` below the diagonal and next to it.
pub(crate) fn gram<T: Real>(out: &mut Mat<T>, resid: Option<&Mat<T>>, jac_t: &Mat<T>) {
    T::dispatch(Gram { out, resid, jac_t });
}

struct Gram<'a, T> {
    out: &'a mut Mat<T>,
    resid: Option<&'a Mat<T>>,
    jac_t: &'a Mat<T>,
}

impl<T: Real> WithSimd for Gram<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Gram { out, resid, jac_t } = self;
        let stride = out.stride;
        for rows in bands(out.rows, BAND) {
            let to = &mut out.data[rows.start * stride..rows.end * stride];
            gram_rows::<T, S>(simd, to, stride, resid, jac_t, rows);
        }
    }
}

/// Up to [`BAND`] of its rows.
#[inline(always)]
pub(super) fn gram_rows<T: Real, S: Simd>(
    simd: S,
    out: &mut [T],
    stride: usize,
    resid: Option<&Mat<T>>,
    jac_t: &Mat<T>,
    rows: Range<usize>,
) {
    let vectors = rows.end.div_ceil(per_vector::<T, S>());
    for v in (0..vectors).step_by(WIDE) {
        let width = WIDE.min(vectors - v);
        by_size!(rows.len(), width, gram_tile::<T, S>(simd, out, stride, resid, jac_t, rows.start, v));
    }
}

/// `M` rows from `first` on, `N` vectors of each from `v` on.
#[inline(always)]
fn gram_tile<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    out: &mut [T],
    stride: usize,
    resid: Option<&Mat<T>>,
    jac_t: &Mat<T>,
    first: usize,
    v: usize,
) {
    let mut total = [[T::splat(simd, T::ZERO); N]; M];
    if let Some(resid) = resid {
        let rows = resid.data.chunks_exact(resid.stride).skip(first);
        for (total, row) in total.iter_mut().zip(rows) {
            total.copy_from_slice(&T::as_simd::<S>(row)[v..v + N]);
        }
    }
    for row in jac_t.data.chunks_exact(jac_t.stride) {
        let left: [T; M] = std::array::from_fn(|i| row[first + i]);
        let right: [T::Vector<S>; N] = std::array::from_fn(|n| T::as_simd::<S>(row)[v + n]);
        for i in 0..M {
            let x = T::splat(simd, left[i]);
            for n in 0..N {
                total[i][n] = T::vfma(simd, x, right[n], total[i][n]);
            }
        }
    }
    for (total, row) in total.iter().zip(out.chunks_exact_mut(stride)) {
        T::as_simd_mut::<S>(row)[v..v + N].copy_from_slice(total);
    }
}

/// Rows, split evenly into bands of at most so many.
fn bands(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let bands = count.div_ceil(most);
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
        for local in bands(rows.len(), ROWS) {
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
                    Left::Lower(_) | Left::Upper(_) | Left::Shared(_) => return,
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
    let diagonal = None;
    TimesWeights { out: &mut out.data, stride, columns, of: symmetric, weights_t, diagonal }
        .share(pieces(work));
}

/// `out = Tᵀ Wᵀ` for a lower triangle `T`, whose diagonal counts so many times: half the work, and nobody reads what is
/// above the diagonal.
pub(crate) fn triangle_times_weights<T: Real>(
    out: &mut Mat<T>,
    triangle: &Mat<T>,
    diagonal: f64,
    weights_t: &Mat<T::One>,
) {
    let work = triangle.rows * triangle.rows * weights_t.cols / 2;
    let (columns, stride) = (0..triangle.rows, out.stride);
    let diagonal = Some(diagonal);
    TimesWeights { out: &mut out.data, stride, columns, of: triangle, weights_t, diagonal }
        .share(pieces(work));
}

/// Some columns of `R`, or of `T`, which are rows of the product.
struct TimesWeights<'a, T: Real> {
    out: &'a mut [T],
    stride: usize,
    columns: Range<usize>,
    of: &'a Mat<T>,
    weights_t: &'a Mat<T::One>,
    /// What the diagonal of a triangle counts.
    diagonal: Option<f64>,
}

impl<T: Real> TimesWeights<'_, T> {
    /// Shares the columns over the cores.
    fn share(self, pieces: usize) {
        let count = self.columns.len();
        if pieces < 2 || count < 2 * COLUMNS {
            return T::dispatch(self);
        }
        let TimesWeights { out, stride, columns, of, weights_t, diagonal } = self;
        let few = pieces / 2;
        // Most of a triangle's work lies in its first columns.
        let share = count * few / pieces * if diagonal.is_some() { 3 } else { 5 } / 5;
        let cut = share.next_multiple_of(COLUMNS);
        let (above, below) = out.split_at_mut(cut * stride);
        let (left, right) = (columns.start..columns.start + cut, columns.start + cut..columns.end);
        rayon::join(
            || TimesWeights { out: above, stride, columns: left, of, weights_t, diagonal }.share(few),
            || {
                TimesWeights { out: below, stride, columns: right, of, weights_t, diagonal }
                    .share(pieces - few)
            },
        );
    }
}

/// Columns that a panel has at most, and rows in which the diagonal crosses it.
const ACROSS: usize = 4;

impl<T: Real> WithSimd for TimesWeights<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let TimesWeights { out, stride, columns, of, weights_t, diagonal } = self;
        let lanes = per_vector::<T, S>();
        let n = of.rows;
        let from = T::as_simd::<S>(&of.data);
        let across = of.stride / lanes;
        let mut room = [Line::zeroed(); TERMS];
        let panel = T::as_simd_mut::<S>(cast_slice_mut(&mut room));
        // What a triangle has of the rows in which the diagonal crosses a panel.
        let mut mask = [[T::ZERO; ACROSS]; ACROSS];
        for i in 0..ACROSS {
            mask[i][..i].fill(T::ONE);
            mask[i][i] = T::of(diagonal.unwrap_or(1.0));
        }
        let vectors = columns.len().div_ceil(lanes);
        // Few rows of weights would wait for their own sums, and a panel would not pay.
        let few = weights_t.cols <= ROWS / 2;
        let wide = if few { 2 } else { COLUMNS / lanes };
        let most = tall::<T, S>();
        for (v, to) in (0..vectors).step_by(wide).zip(out.chunks_mut(wide * lanes * stride)) {
            let width = wide.min(vectors - v);
            let v = columns.start / lanes + v;
            let begin = if diagonal.is_some() { v * lanes } else { 0 };
            let mut start = begin;
            while start < n {
                let crossed = diagonal.is_some() && start == begin;
                let end = n.min(start + if few && crossed { width * lanes } else { TERMS });
                let source = &from[start * across..end * across];
                let right = if few && !crossed {
                    (source, across, v)
                } else {
                    for (to, row) in panel.chunks_exact_mut(width).zip(source.chunks_exact(across)) {
                        to[0] = row[v];
                        if width == 2 {
                            to[1] = row[v + 1];
                        }
                    }
                    if crossed {
                        for (to, mask) in panel.chunks_exact_mut(width).zip(&mask).take(width * lanes) {
                            for (to, mask) in to.iter_mut().zip(T::as_simd::<S>(mask)) {
                                *to = T::vmul(simd, *to, *mask);
                            }
                        }
                    }
                    (&panel[..(end - start) * width], width, 0)
                };
                let weights = &weights_t.data[start * weights_t.stride..end * weights_t.stride];
                for band in bands(weights_t.cols, most) {
                    let (row, keep, across) = (band.start, start > begin, weights_t.stride);
                    by_size!(
                        band.len(),
                        width,
                        weights_tile::<T, S>(simd, &mut *to, stride, row, keep, right, weights, across)
                    );
                }
                start = end;
            }
        }
    }
}

/// `R = S + Sᵀ` in the lower triangle of `S`; what is above it keeps what it had.
pub(crate) fn fold<T: Real>(s: &mut Mat<T>) {
    let stride = s.stride;
    in_vectors::<T>(
        #[inline(always)]
        || {
            for i in 0..s.rows {
                let (above, row) = s.data.split_at_mut(i * stride);
                for (to, x) in row[..i].iter_mut().zip(above.chunks_exact(stride)) {
                    *to += x[i];
                }
                row[i] += row[i];
            }
        },
    );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Single;
    use crate::kernel::lanes::{F32x8, F64x4, supported};

    /// Another number in every entry and lane.
    fn at(i: usize, j: usize, lane: usize) -> f64 {
        ((i * 13 + j * 7 + lane * 5) % 17) as f64 / 7.0 - 1.0
    }

    fn check<T: Real>() {
        for (n, outputs) in [(1usize, 1usize), (2, 3), (9, 2), (10, 9), (40, 9), (50, 50), (131, 13)] {
            let mut symmetric = Mat::<T>::zeros(n, n);
            let mut lower = symmetric.clone();
            let mut weights_t = Mat::<T::One>::zeros(n, outputs);
            for i in 0..n {
                for j in 0..n {
                    *symmetric.at_mut(i, j) = T::lanes(|lane| at(i.max(j), i.min(j), lane));
                    // Nobody reads above the diagonal.
                    *lower.at_mut(i, j) = if j > i { T::of(1e3) } else { symmetric.at(i, j) };
                }
                (0..outputs).for_each(|a| *weights_t.at_mut(i, a) = T::One::of(at(a, i, 3)));
            }
            let weight = |a: usize, i: usize| weights_t.at(i, a).f64();
            let close = |got: T, lane: usize, want: f64, what: &str| {
                let tolerance = 60.0 * n as f64 * T::One::EPSILON;
                assert!((got.lane(lane) - want).abs() <= tolerance, "{what} {n} {outputs}: {got:?}, {want}");
            };
            let (mut whole, mut half) = (Mat::zeros(n, outputs), Mat::zeros(n, outputs));
            times_weights(&mut whole, &symmetric, &weights_t);
            triangle_times_weights(&mut half, &lower, 0.5, &weights_t);
            let mut square = Mat::<T>::zeros(outputs, outputs);
            for (a, b) in (0..outputs).flat_map(|a| (0..outputs).map(move |b| (a, b))) {
                *square.at_mut(a, b) =
                    T::lanes(|lane| (0..n).map(|i| weight(a, i) * half.at(i, b).lane(lane)).sum());
            }
            fold(&mut square);
            let mut squares = Mat::<T>::zeros(outputs, outputs);
            gram(&mut squares, None, &half);
            for lane in 0..T::LANES {
                let r = |i: usize, j: usize| symmetric.at(i, j).lane(lane);
                for a in 0..outputs {
                    for i in 0..n {
                        let product: f64 = (0..n).map(|k| r(i, k) * weight(a, k)).sum();
                        close(whole.at(i, a), lane, product, "whole");
                        let below: f64 = (i + 1..n).map(|k| r(k, i) * weight(a, k)).sum();
                        close(half.at(i, a), lane, below + 0.5 * r(i, i) * weight(a, i), "half");
                    }
                    for b in 0..=a {
                        let folded: f64 = (0..n).map(|i| weight(a, i) * whole.at(i, b).lane(lane)).sum();
                        let scale = 20.0 * n as f64;
                        close(square.at(a, b), lane, folded, "fold");
                        let gram: f64 =
                            (0..n).map(|k| half.at(k, a).lane(lane) * half.at(k, b).lane(lane)).sum();
                        assert!(
                            (squares.at(a, b).lane(lane) - gram).abs() <= scale * scale * T::One::EPSILON
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn products_of_packs_match_their_sums() {
        if supported() {
            check::<F32x8>();
            check::<F64x4>();
        }
    }
}
