//! Small dense products by a register tile of six rows, or ten, and a cache line of columns.
//!
//! Where the right factor outgrows the first-level cache, so many of its columns at a time are copied
//! into a panel that stays there while all rows of the left factor pass by. Large products are split by
//! rows over the cores. Neither changes the order in which an entry is summed.

use super::abreast::{Packs, times_weights};
use super::aligned::{LINE, Line};
use super::share::{join, pieces};
use super::transpose::mirror;
use super::{Mat, Real};
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The left factor of a product: a matrix, or its transpose without moving it. The transpose is the
/// faster one (a tile finds its rows side by side) and also serves for symmetric matrices.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a, T: Real> {
    Plain(&'a Mat<T>),
    Transposed(&'a Mat<T>),
    /// A symmetric matrix, of which the lower triangle is read. Not for packs.
    Lower(&'a Mat<T>),
    /// An upper triangle with zeros below it, which cost nothing. Not for packs.
    Upper(&'a Mat<T>),
    /// The transpose of weights that all lanes share.
    Shared(&'a Mat<T::One>),
}

impl<T: Real> Left<'_, T> {
    fn rows(self) -> usize {
        match self {
            Left::Plain(m) | Left::Lower(m) | Left::Upper(m) => m.rows,
            Left::Transposed(m) => m.cols,
            Left::Shared(m) => m.cols,
        }
    }

    fn inner(self) -> usize {
        match self {
            Left::Plain(m) | Left::Lower(m) | Left::Upper(m) => m.cols,
            Left::Transposed(m) => m.rows,
            Left::Shared(m) => m.rows,
        }
    }
}

/// Which entries of a square product are wanted.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    All,
    /// The lower triangle and what shares a vector with it; the rest of `out` keeps what it had.
    Lower,
    /// The result is symmetric: compute its lower triangle and mirror it, so that it is
    /// symmetric to the last bit. This is the one place where covariances are symmetrised.
    Symmetric,
}

/// `out = keep·out + scale·left·right`.
///
/// Cost `2·rows·inner·cols` flop, about half of it for a triangle.
pub(crate) fn product<T: Real>(
    out: &mut Mat<T>,
    keep: bool,
    scale: T,
    left: Left<'_, T>,
    right: &Mat<T>,
    part: Part,
) {
    debug_assert_eq!(left.rows(), out.rows);
    debug_assert_eq!(left.inner(), right.rows);
    debug_assert_eq!(right.cols, out.cols);
    if out.rows == 0 {
        return;
    }
    let (rows, stride) = (0..out.rows, out.stride);
    let inner = Inner::Rows(right.rows);
    let keep = if keep { Onto::Itself } else { Onto::Nothing };
    Product { out: &mut out.data, rows, stride, keep, scale, left, right, inner, part }.split();
    if part == Part::Symmetric {
        mirror(out);
    }
}

/// The lower triangle of `out = factor·onto + left·right`, and what shares a vector with it. Not for packs.
pub(crate) fn product_onto<T: Real>(
    out: &mut Mat<T>,
    factor: T,
    onto: &Mat<T>,
    left: Left<'_, T>,
    right: &Mat<T>,
) {
    debug_assert_eq!(T::LANES, 1);
    debug_assert_eq!((out.rows, out.cols), (onto.rows, onto.cols));
    debug_assert_eq!((left.rows(), left.inner(), right.cols), (out.rows, right.rows, out.cols));
    let (rows, stride) = (0..out.rows, out.stride);
    let (inner, part, keep) = (Inner::Rows(right.rows), Part::Lower, Onto::Other(factor, onto));
    Product { out: &mut out.data, rows, stride, keep, scale: T::ONE, left, right, inner, part }.split();
}

/// From so many outputs on [`product_by_weights`] reads the lower triangle alone: to mirror it would cost more than
/// tiles that are less tall.
const WIDE: usize = 128;

/// Whether it does.
pub(crate) fn reads_lower<T: Real>(outputs: usize) -> bool {
    T::LANES == 1 && outputs >= WIDE
}

/// `out = R Wᵀ` for a symmetric `R`; `weights_t` and `shared_t` are `Wᵀ`, or any other right factor, in every lane and
/// once for all.
pub(crate) fn product_by_weights<T: Real>(
    out: &mut Mat<T>,
    symmetric: &Mat<T>,
    weights_t: &Mat<T>,
    shared_t: &Mat<T::One>,
) {
    if T::LANES == 1 {
        let lower = reads_lower::<T>(weights_t.cols);
        let left = if lower { Left::Lower(symmetric) } else { Left::Transposed(symmetric) };
        product(out, false, T::ONE, left, weights_t, Part::All);
    } else {
        times_weights(out, symmetric, shared_t);
    }
}

/// `out = left·right` where `right` is a lower triangle on top of rows of zeros: about half the work.
pub(crate) fn product_by_triangle<T: Real>(out: &mut Mat<T>, left: Left<'_, T>, right: &Mat<T>) {
    debug_assert_eq!(left.rows(), out.rows);
    debug_assert_eq!(left.inner(), right.rows);
    debug_assert_eq!(right.cols, out.cols);
    Product { inner: Inner::Triangle(right.cols), ..Product::all(out, left, right) }.split();
}

/// `out = left·right` of two left factors with as many rows: to the other cores it is one piece of work.
pub(crate) fn products<T: Real>(
    right: &Mat<T>,
    (out, left): (&mut Mat<T>, Left<'_, T>),
    (out_too, left_too): (&mut Mat<T>, Left<'_, T>),
) {
    fn share<T: Real>(one: Product<'_, T>, other: Product<'_, T>, pieces: usize) {
        if pieces < 2 || one.rows.len() < 2 * TILE_ROWS || one.rows != other.rows {
            one.run();
            return other.run();
        }
        let few = pieces / 2;
        let (one, other) = (one.halves(pieces), other.halves(pieces));
        join(|| share(one.0, other.0, few), || share(one.1, other.1, pieces - few));
    }
    let work = (left.rows() + left_too.rows()) * right.rows * right.cols;
    share(Product::all(out, left, right), Product::all(out_too, left_too, right), pieces(work));
}

/// Which rows of the right factor are not zero.
#[derive(Clone, Copy)]
enum Inner {
    /// The first of them.
    Rows(usize),
    /// Those on and below the diagonal, up to this one.
    Triangle(usize),
}

impl Inner {
    fn rows(self) -> usize {
        match self {
            Inner::Rows(n) | Inner::Triangle(n) => n,
        }
    }

    /// The first row that counts for the columns from `column` on.
    #[inline(always)]
    fn first(self, column: usize) -> usize {
        match self {
            Inner::Rows(_) => 0,
            Inner::Triangle(n) => column.min(n),
        }
    }
}

/// What a product is added to.
#[derive(Clone, Copy)]
enum Onto<'a, T> {
    Nothing,
    Itself,
    /// A multiple of a matrix of the same size.
    Other(T, &'a Mat<T>),
}

/// Some rows of a product.
struct Product<'a, T: Real> {
    /// The storage of these rows.
    out: &'a mut [T],
    rows: Range<usize>,
    stride: usize,
    keep: Onto<'a, T>,
    scale: T,
    left: Left<'a, T>,
    right: &'a Mat<T>,
    inner: Inner,
    part: Part,
}

impl<'a, T: Real> Product<'a, T> {
    /// All of `left·right`.
    fn all(out: &'a mut Mat<T>, left: Left<'a, T>, right: &'a Mat<T>) -> Self {
        let (rows, stride, inner) = (0..out.rows, out.stride, Inner::Rows(right.rows));
        let (keep, scale, part) = (Onto::Nothing, T::ONE, Part::All);
        Product { out: &mut out.data, rows, stride, keep, scale, left, right, inner, part }
    }

    /// Computes the rows, on more than one core if there is enough to do.
    fn split(self) {
        if matches!(self.left, Left::Transposed(_)) && T::LANES == 1 && self.is_thin() {
            // Its sums run in another order: never split, they are the same on any number of cores.
            return self.run();
        }
        let work = self.rows.len() * self.inner.rows() * self.right.cols;
        self.share(pieces(work));
    }

    fn run(self) {
        match self.left {
            Left::Plain(_) | Left::Transposed(_) if T::LANES > 1 => {
                let Product { out, rows, stride, scale, left, right, part, .. } = self;
                let keep = matches!(self.keep, Onto::Itself);
                T::dispatch_narrow(Packs { out, rows, stride, keep, scale, left, right, part });
            }
            Left::Transposed(left) if self.is_thin() => {
                let Product { out, stride, scale, right, inner, .. } = self;
                let keep = matches!(self.keep, Onto::Itself);
                T::dispatch_rows(
                    left.cols,
                    Thin { out, stride, keep, scale, left, right, terms: inner.rows() },
                );
            }
            _ => T::dispatch_rows(self.right.cols, self),
        }
    }

    /// Whether the right factor has so few columns that vectors had better run down the rows.
    fn is_thin(&self) -> bool {
        let (rows, columns) = (self.rows.len(), self.right.cols);
        self.part == Part::All && columns <= THIN && rows > 4 * columns && rows == self.left.rows()
    }

    fn share(self, pieces: usize) {
        let count = self.rows.len();
        if pieces < 2 || count < 2 * TILE_ROWS {
            return self.run();
        }
        let few = pieces / 2;
        let (top, bottom) = self.halves(pieces);
        join(|| top.share(few), || bottom.share(pieces - few));
    }

    /// Two parts of as much work as half of so many pieces, and the others.
    fn halves(self, pieces: usize) -> (Self, Self) {
        let count = self.rows.len();
        let Product { out, rows, stride, keep, scale, left, right, inner, part } = self;
        let share = (pieces / 2) as f64 / pieces as f64;
        let half = match (part, left) {
            // Most of a triangle's work lies in its first rows, or in its last ones.
            (_, Left::Upper(m)) => {
                let (a, b) = ((m.cols - rows.start) as f64, (m.cols - rows.end) as f64);
                a - (a * a - share * (a * a - b * b)).sqrt()
            }
            (Part::All, _) => share * count as f64,
            (Part::Lower | Part::Symmetric, _) => {
                let (a, b) = (rows.start as f64, rows.end as f64);
                (a * a + share * (b * b - a * a)).sqrt() - a
            }
        };
        let half = (half as usize).clamp(1, count - 1);
        let (above, below) = out.split_at_mut(half * stride);
        let (top, bottom) = (rows.start..rows.start + half, rows.start + half..rows.end);
        (
            Product { out: above, rows: top, stride, keep, scale, left, right, inner, part },
            Product { out: below, rows: bottom, stride, keep, scale, left, right, inner, part },
        )
    }
}

/// Rows of a tile: with two vectors of AVX2, 6 × 2 accumulators, two right vectors and one broadcast fill 15 of 16
/// registers. AVX-512 takes one vector, of the same 64 bytes, and broadcasts straight from memory.
const TILE_ROWS: usize = 6;

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

/// Columns of a right factor that fill no vector.
const THIN: usize = 4;

/// A product with a thin right factor: vectors along the rows of `left`, which is transposed.
struct Thin<'a, T> {
    out: &'a mut [T],
    stride: usize,
    keep: bool,
    scale: T,
    left: &'a Mat<T>,
    right: &'a Mat<T>,
    terms: usize,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Single;

    fn naive(a: &Mat<f64>, b: &Mat<f64>) -> Vec<f64> {
        let mut c = vec![0.0; a.rows * b.cols];
        for i in 0..a.rows {
            for j in 0..b.cols {
                c[i * b.cols + j] = (0..a.cols).map(|k| a.at(i, k) * b.at(k, j)).sum();
            }
        }
        c
    }

    fn filled<T: Single>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
        let mut x = seed;
        let values: Vec<f64> = (0..rows * cols)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 40) as f64 / (1u64 << 24) as f64 - 0.5
            })
            .collect();
        Mat::from_f64(rows, cols, &values)
    }

    fn check<T: Single>(tolerance: f64) {
        for (m, k, n) in [
            (1, 1, 1),
            (2, 3, 5),
            (7, 50, 9),
            (13, 4, 17),
            (50, 50, 50),
            (6, 9, 33),
            (130, 300, 67),
            (64, 128, 128),
        ] {
            let a = filled::<T>(m, k, 1);
            let b = filled::<T>(k, n, 2);
            let (wide_a, wide_b) = (filled::<f64>(m, k, 1), filled::<f64>(k, n, 2));
            let want = naive(&wide_a, &wide_b);
            let mut got = Mat::<T>::zeros(m, n);
            let mut at = Mat::zeros(k, m);
            at.transpose_from(&a);
            for left in [Left::Plain(&a), Left::Transposed(&at)] {
                product(&mut got, false, T::of(2.0), left, &b, Part::All);
                product(&mut got, true, T::of(-1.0), left, &b, Part::All);
                let mut dense = vec![0.0; m * n];
                got.get_lane(0, &mut dense);
                for (g, w) in dense.iter().zip(&want) {
                    assert!((g - w).abs() < tolerance * k as f64, "{m}×{k}×{n}: {g} against {w}");
                }
                for i in 0..m {
                    let padding = &got.data[i * got.stride + n..(i + 1) * got.stride];
                    assert!(padding.iter().all(|x| *x == T::ZERO));
                }
            }
        }
    }

    #[test]
    fn product_matches_three_loops() {
        check::<f64>(1e-15);
        check::<f32>(1e-6);
    }

    #[test]
    fn thin_products_have_the_same_bits_on_any_number_of_threads() {
        let (a, b) = (filled::<f64>(512, 512, 1), filled::<f64>(512, 2, 2));
        let bits = |threads: usize| -> Vec<u64> {
            let mut out = Mat::zeros(512, 2);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| product(&mut out, false, 1.0, Left::Transposed(&a), &b, Part::All));
            out.data.iter().map(|x| x.to_bits()).collect()
        };
        assert_eq!(bits(1), bits(2));
    }

    #[test]
    fn product_onto_another_matrix_leaves_that_alone() {
        for n in [1, 9, 50, 130] {
            let (a, other) = (filled::<f64>(7, n, 3), filled::<f64>(n, n, 4));
            let (mut kept, mut out) = (other.clone(), filled::<f64>(n, n, 5));
            product(&mut kept, true, 1.0, Left::Transposed(&a), &a, Part::Lower);
            product_onto(&mut out, 1.0, &other, Left::Transposed(&a), &a);
            for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                assert_eq!(kept.at(i, j), out.at(i, j));
            }
        }
    }

    /// What they do not read is not a number.
    #[test]
    fn triangles_on_the_left_stand_for_the_whole_on_any_number_of_threads() {
        for (n, cols) in [(1, 5), (9, 9), (50, 32), (131, 128), (300, 40)] {
            let (a, b) = (filled::<f64>(n, n, 6), filled::<f64>(n, cols, 7));
            let (mut lower, mut symmetric, mut upper) = (a.clone(), a.clone(), a.clone());
            for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                *lower.at_mut(j, i) = f64::NAN;
                *symmetric.at_mut(j, i) = a.at(i, j);
                *upper.at_mut(i, j) = 0.0;
            }
            for (left, whole) in [(Left::Lower(&lower), &symmetric), (Left::Upper(&upper), &upper)] {
                let run = |threads: usize| {
                    let mut out = Mat::zeros(n, cols);
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    pool.install(|| product(&mut out, false, 1.0, left, &b, Part::All));
                    out
                };
                let (one, three) = (run(1), run(3));
                assert!(one.data.iter().zip(&three.data).all(|(x, y)| x.to_bits() == y.to_bits()));
                // Beside another product, with the same bits.
                let (mut beside, mut other) = (Mat::zeros(n, cols), Mat::zeros(n, cols));
                let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
                pool.install(|| products(&b, (&mut other, Left::Plain(whole)), (&mut beside, left)));
                assert!(one.data.iter().zip(&beside.data).all(|(x, y)| x.to_bits() == y.to_bits()));
                for (k, want) in naive(whole, &b).into_iter().enumerate() {
                    assert!((one.at(k / cols, k % cols) - want).abs() < 1e-13, "{n} {cols}");
                }
            }
        }
    }

    #[test]
    fn product_by_triangle_matches_the_whole() {
        for (m, d, u) in [(1, 1, 0), (50, 2, 0), (50, 9, 3), (50, 32, 28), (100, 34, 0), (300, 290, 5)] {
            let a = filled::<f64>(d + u, m, 1);
            let mut root = filled::<f64>(d + u, d, 2);
            for i in 0..d {
                root.row_mut(i)[i + 1..d].fill(0.0);
            }
            for i in d..d + u {
                root.row_mut(i).fill(0.0);
            }
            let (mut whole, mut half) = (Mat::zeros(m, d), Mat::zeros(m, d));
            product(&mut whole, false, 1.0, Left::Transposed(&a), &root, Part::All);
            product_by_triangle(&mut half, Left::Transposed(&a), &root);
            for (x, y) in whole.data.iter().zip(&half.data) {
                assert!((x - y).abs() < 1e-13, "{m}×{d}+{u}: {x} against {y}");
            }
        }
    }

    #[test]
    fn symmetric_product_is_symmetric_to_the_bit() {
        for n in [1, 3, 8, 23, 50, 200] {
            let a = filled::<f64>(n, 7, 3);
            let mut at = Mat::zeros(7, n);
            at.transpose_from(&a);
            let mut full = Mat::zeros(n, n);
            let mut half = Mat::zeros(n, n);
            product(&mut full, false, 1.0, Left::Plain(&a), &at, Part::All);
            product(&mut half, false, 1.0, Left::Plain(&a), &at, Part::Symmetric);
            for i in 0..n {
                for j in 0..n {
                    assert_eq!(half.at(i, j).to_bits(), half.at(j, i).to_bits());
                    assert!((half.at(i, j) - full.at(i, j)).abs() < 1e-15);
                }
                assert!(half.data[i * half.stride + n..(i + 1) * half.stride].iter().all(|x| *x == 0.0));
            }
        }
    }
}
