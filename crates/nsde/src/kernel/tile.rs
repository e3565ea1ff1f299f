//! Small dense products by a register tile of six rows and two vectors.

use super::{Mat, Real};
use pulp::{Simd, WithSimd};

/// The left factor of a product: a matrix, or its transpose without moving it.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a, T> {
    Plain(&'a Mat<T>),
    Transposed(&'a Mat<T>),
}

impl<T: Real> Left<'_, T> {
    fn rows(self) -> usize {
        match self {
            Left::Plain(m) => m.rows,
            Left::Transposed(m) => m.cols,
        }
    }

    fn inner(self) -> usize {
        match self {
            Left::Plain(m) => m.cols,
            Left::Transposed(m) => m.rows,
        }
    }
}

/// Which entries of a square product are wanted.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    All,
    /// The result is symmetric: compute its lower triangle and mirror it, so that it is
    /// symmetric to the last bit. This is the one place where covariances are symmetrised.
    Symmetric,
}

/// `out = keep·out + scale·left·right`.
///
/// Cost `2·rows·inner·cols` flop, about half of it for [`Part::Symmetric`].
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
    pulp::Arch::new().dispatch(Product { out, keep, scale, left, right, part });
}

struct Product<'a, T> {
    out: &'a mut Mat<T>,
    keep: bool,
    scale: T,
    left: Left<'a, T>,
    right: &'a Mat<T>,
    part: Part,
}

/// Rows of a tile: 6 × 2 accumulators, two right vectors and one broadcast fill 15 of 16 registers.
const TILE_ROWS: usize = 6;

impl<T: Real> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Product { out, keep, scale, left, right, part } = self;
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        let (rows, cols, stride) = (out.rows, out.cols, out.stride / lanes);
        let vectors = cols.div_ceil(lanes);
        // Rows are split evenly, so that no thin tail of one row is left over.
        let bands = rows.div_ceil(TILE_ROWS).max(1);
        let mut first = 0;
        for band in 0..bands {
            let height = (rows - first).div_ceil(bands - band);
            let wanted = match part {
                Part::All => vectors,
                Part::Symmetric => (first + height).div_ceil(lanes).min(vectors),
            };
            let to = T::as_simd_mut::<S>(&mut out.data[first * out.stride..(first + height) * out.stride]);
            let from = T::as_simd::<S>(&right.data);
            let across = right.stride / lanes;
            let mut v = 0;
            while v < wanted {
                let width = (wanted - v).min(2);
                macro_rules! tile {
                    ($m:literal) => {
                        if width == 2 {
                            tile::<T, S, $m, 2>(simd, to, stride, v, keep, scale, left, first, from, across)
                        } else {
                            tile::<T, S, $m, 1>(simd, to, stride, v, keep, scale, left, first, from, across)
                        }
                    };
                }
                match height {
                    1 => tile!(1),
                    2 => tile!(2),
                    3 => tile!(3),
                    4 => tile!(4),
                    5 => tile!(5),
                    _ => tile!(6),
                }
                v += width;
            }
            first += height;
        }
        if part == Part::Symmetric {
            mirror(out);
        }
    }
}

#[inline(always)]
fn tile<T: Real, S: Simd, const M: usize, const N: usize>(
    simd: S,
    out: &mut [T::Vector<S>],
    stride: usize,
    v: usize,
    keep: bool,
    scale: T,
    left: Left<'_, T>,
    first: usize,
    right: &[T::Vector<S>],
    across: usize,
) {
    let mut sum = [[T::splat(simd, T::ZERO); N]; M];
    match left {
        Left::Plain(a) => {
            let rows: [&[T]; M] = std::array::from_fn(|i| a.row(first + i));
            for (k, r) in right.chunks_exact(across).enumerate().take(a.cols) {
                let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[v + n]);
                for i in 0..M {
                    let x = T::splat(simd, rows[i][k]);
                    for n in 0..N {
                        sum[i][n] = T::vfma(simd, x, r[n], sum[i][n]);
                    }
                }
            }
        }
        Left::Transposed(a) => {
            for (l, r) in a.data.chunks_exact(a.stride).zip(right.chunks_exact(across)) {
                let l: [T; M] = std::array::from_fn(|i| l[first + i]);
                let r: [T::Vector<S>; N] = std::array::from_fn(|n| r[v + n]);
                for i in 0..M {
                    let x = T::splat(simd, l[i]);
                    for n in 0..N {
                        sum[i][n] = T::vfma(simd, x, r[n], sum[i][n]);
                    }
                }
            }
        }
    }
    let scale = T::splat(simd, scale);
    for i in 0..M {
        for n in 0..N {
            let to = &mut out[i * stride + v + n];
            *to = if keep { T::vfma(simd, scale, sum[i][n], *to) } else { T::vmul(simd, scale, sum[i][n]) };
        }
    }
}

/// Copies the lower triangle onto the upper one.
pub(crate) fn mirror<T: Real>(m: &mut Mat<T>) {
    for i in 0..m.rows {
        for j in i + 1..m.cols {
            m.data[i * m.stride + j] = m.data[j * m.stride + i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(a: &Mat<f64>, b: &Mat<f64>) -> Vec<f64> {
        let mut c = vec![0.0; a.rows * b.cols];
        for i in 0..a.rows {
            for j in 0..b.cols {
                c[i * b.cols + j] = (0..a.cols).map(|k| a.at(i, k) * b.at(k, j)).sum();
            }
        }
        c
    }

    fn filled<T: Real>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
        let mut x = seed;
        let values: Vec<f64> = (0..rows * cols)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 40) as f64 / (1u64 << 24) as f64 - 0.5
            })
            .collect();
        Mat::from_f64(rows, cols, &values)
    }

    fn check<T: Real>(tolerance: f64) {
        for (m, k, n) in [(1, 1, 1), (2, 3, 5), (7, 50, 9), (13, 4, 17), (50, 50, 50), (6, 9, 33)] {
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
                got.get_f64(&mut dense);
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
    fn symmetric_product_is_symmetric_to_the_bit() {
        for n in [1, 3, 8, 23, 50] {
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
