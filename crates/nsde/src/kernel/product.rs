//! Products of small dense matrices: which entries of which factors, and who computes them.
//!
//! Large products are split by rows over the cores, which does not change the order in which an entry is summed. How a
//! part is computed is told in `tile.rs`, in `thin.rs` for right factors that fill no vector, and in `abreast.rs` for packs.

use super::abreast::{Packs, times_weights};
use super::share::{join, pieces};
use super::thin::{THIN, Thin};
use super::tile::TILE_ROWS;
use super::transpose::mirror;
use super::{Mat, Real};
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
pub(super) enum Inner {
    /// The first of them.
    Rows(usize),
    /// Those on and below the diagonal, up to this one.
    Triangle(usize),
}

impl Inner {
    pub fn rows(self) -> usize {
        match self {
            Inner::Rows(n) | Inner::Triangle(n) => n,
        }
    }

    /// The first row that counts for the columns from `column` on.
    #[inline(always)]
    pub fn first(self, column: usize) -> usize {
        match self {
            Inner::Rows(_) => 0,
            Inner::Triangle(n) => column.min(n),
        }
    }
}

/// What a product is added to.
#[derive(Clone, Copy)]
pub(super) enum Onto<'a, T> {
    Nothing,
    Itself,
    /// A multiple of a matrix of the same size.
    Other(T, &'a Mat<T>),
}

/// Some rows of a product.
pub(super) struct Product<'a, T: Real> {
    /// The storage of these rows.
    pub out: &'a mut [T],
    pub rows: Range<usize>,
    pub stride: usize,
    pub keep: Onto<'a, T>,
    pub scale: T,
    pub left: Left<'a, T>,
    pub right: &'a Mat<T>,
    pub inner: Inner,
    pub part: Part,
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
