//! The Cholesky factor of one covariance as an upper triangle, in `f64`: `Σ = Uᵀ U`.
//!
//! Rows of `U` stand in padded rows of memory, so all work is in whole vectors, and a row needs only rows above it. Band by
//! band of rows: the band itself, then what it contributes to all rows below, which the cores share. Every entry is the same
//! sum on any number of cores.

use super::Mat;
use super::cholesky::PIVOT_NOISE;
use super::dispatch::arch;
use super::elementary::fma;
use super::share::{join, pieces};
use pulp::{Simd, WithSimd};

/// Rows of a band: so many terms are taken off the rows below at a time.
const BAND: usize = 32;

/// Rows of a tile; rows that are left over go one by one.
const ROWS: usize = 8;

/// Puts `U` in place of the upper triangle of a symmetric positive semi-definite matrix, and zeros below it. A pivot that is
/// zero up to rounding gives a row of zeros. The lower triangle must be finite, but does not count.
///
/// Cost `n³/6` multiplications.
pub(crate) fn factor_upper(a: &mut Mat<f64>) {
    let (n, stride) = (a.rows, a.stride);
    for start in (0..n).step_by(BAND) {
        let end = n.min(start + BAND);
        let (band, below) = a.data[start * stride..].split_at_mut((end - start) * stride);
        arch().dispatch(Band { rows: band, stride, start, n });
        let work = (n - end) * (n - end) / 2 * (end - start);
        Below { rows: below, band, stride, first: end, n }.share(pieces(work));
    }
    for i in 1..n {
        a.row_mut(i)[..i].fill(0.0);
    }
}

/// Vectors that hold the columns from `from` on, up to `n`, and what else shares them.
#[inline(always)]
fn vectors<S: Simd>(from: usize, n: usize) -> std::ops::Range<usize> {
    let lanes = size_of::<S::f64s>() / size_of::<f64>();
    from / lanes..n.div_ceil(lanes)
}

/// `A_iv − Σ_k U_ki U_kv` over the rows of `above`, of `M` rows from the column `i` on.
#[inline(always)]
fn rest<S: Simd, const M: usize>(
    simd: S,
    rows: &[f64],
    above: &[f64],
    stride: usize,
    i: usize,
    v: usize,
) -> [S::f64s; M] {
    let mut total = [simd.splat_f64s(0.0); M];
    for above in above.chunks_exact(stride) {
        let (left, right) = (&above[i..i + M], S::as_simd_f64s(above).0[v]);
        for m in 0..M {
            total[m] = simd.mul_add_e_f64s(simd.splat_f64s(left[m]), right, total[m]);
        }
    }
    for (total, row) in total.iter_mut().zip(rows.chunks_exact(stride)) {
        *total = simd.sub_f64s(S::as_simd_f64s(row).0[v], *total);
    }
    total
}

/// The rows of a band, which begins at the row and column `start`.
struct Band<'a> {
    rows: &'a mut [f64],
    stride: usize,
    start: usize,
    n: usize,
}

impl WithSimd for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Band { rows, stride, start, n } = self;
        let count = rows.len() / stride;
        let mut i = 0;
        while i < count {
            let (above, rows) = rows.split_at_mut(i * stride);
            i += if count - i >= ROWS {
                block::<S, ROWS>(simd, rows, above, stride, start + i, n)
            } else {
                block::<S, 1>(simd, rows, above, stride, start + i, n)
            };
        }
    }
}

/// `M` rows of a band from the one with the number `i` on; returns their number.
#[inline(always)]
fn block<S: Simd, const M: usize>(
    simd: S,
    rows: &mut [f64],
    above: &[f64],
    stride: usize,
    i: usize,
    n: usize,
) -> usize {
    let rows = &mut rows[..M * stride];
    // What is left of the square on the diagonal, and its factor.
    let mut square = [[0.0; M]; M];
    let mut variances = [0.0; M];
    for m in 0..M {
        variances[m] = rows[m * stride + i + m];
    }
    let lanes = size_of::<S::f64s>() / size_of::<f64>();
    for v in vectors::<S>(i, i + M) {
        let part = rest::<S, M>(simd, rows, above, stride, i, v);
        for (to, part) in square.iter_mut().zip(&part) {
            let part: &[f64] = bytemuck::cast_slice(std::slice::from_ref(part));
            for (lane, x) in part.iter().enumerate() {
                if let Some(to) = (v * lanes + lane).checked_sub(i).and_then(|k| to.get_mut(k)) {
                    *to = *x;
                }
            }
        }
    }
    // A row without a pivot is divided by infinity: then it is zero.
    let (mut roots, mut divisors) = ([0.0; M], [f64::INFINITY; M]);
    for m in 0..M {
        let pivot = square[m][m];
        if pivot > PIVOT_NOISE * variances[m].abs() && pivot.is_finite() {
            roots[m] = pivot.sqrt();
            divisors[m] = roots[m];
        }
        for k in m + 1..M {
            square[m][k] /= divisors[m];
        }
        for l in m + 1..M {
            for k in l..M {
                square[l][k] = fma::<S>(-square[m][l], square[m][k], square[l][k]);
            }
        }
    }
    for v in vectors::<S>(i, n) {
        let mut x = rest::<S, M>(simd, rows, above, stride, i, v);
        for m in 0..M {
            for l in 0..m {
                let factor = simd.splat_f64s(-square[l][m]);
                x[m] = simd.mul_add_e_f64s(factor, x[l], x[m]);
            }
            x[m] = simd.div_f64s(x[m], simd.splat_f64s(divisors[m]));
        }
        for (row, x) in rows.chunks_exact_mut(stride).zip(&x) {
            S::as_mut_simd_f64s(row).0[v] = *x;
        }
    }
    for m in 0..M {
        rows[m * stride + i + m] = roots[m];
    }
    M
}

/// Rows below a band, from the one with the number `first` on.
struct Below<'a> {
    rows: &'a mut [f64],
    band: &'a [f64],
    stride: usize,
    first: usize,
    n: usize,
}

impl Below<'_> {
    fn share(self, pieces: usize) {
        let Below { rows, band, stride, first, n } = self;
        let count = rows.len() / stride;
        if pieces < 2 || count < 2 * ROWS {
            return arch().dispatch(Below { rows, band, stride, first, n });
        }
        // Most of a triangle's work lies in its first rows.
        let few = pieces / 2;
        let (a, b) = ((n - first) as f64, (n - first - count) as f64);
        let share = few as f64 / pieces as f64;
        let half = a - (a * a - share * (a * a - b * b)).sqrt();
        let half = (half as usize / ROWS * ROWS).max(ROWS);
        let (above, below) = rows.split_at_mut(half * stride);
        join(
            || Below { rows: above, band, stride, first, n }.share(few),
            || Below { rows: below, band, stride, first: first + half, n }.share(pieces - few),
        );
    }
}

impl WithSimd for Below<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Below { rows, band, stride, first, n } = self;
        for (tile, rows) in rows.chunks_mut(ROWS * stride).enumerate() {
            let i = first + tile * ROWS;
            if rows.len() == ROWS * stride {
                subtract::<S, ROWS>(simd, rows, band, stride, i, n);
            } else {
                for (m, row) in rows.chunks_exact_mut(stride).enumerate() {
                    subtract::<S, 1>(simd, row, band, stride, i + m, n);
                }
            }
        }
    }
}

/// Takes what a band contributes off `M` rows.
#[inline(always)]
fn subtract<S: Simd, const M: usize>(
    simd: S,
    rows: &mut [f64],
    band: &[f64],
    stride: usize,
    i: usize,
    n: usize,
) {
    for v in vectors::<S>(i, n) {
        let rest = rest::<S, M>(simd, rows, band, stride, i, v);
        for (row, rest) in rows.chunks_exact_mut(stride).zip(&rest) {
            S::as_mut_simd_f64s(row).0[v] = *rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gram matrices of rank `rank`, some of them singular and one large enough to be shared: the factor squares to them,
    /// is zero where it must be, and has the same bits on one thread and on three.
    #[test]
    fn a_factor_squares_to_its_covariance_on_any_number_of_threads() {
        for (n, rank) in
            [(1, 1), (2, 2), (7, 7), (9, 4), (32, 32), (34, 34), (50, 20), (131, 131), (300, 150)]
        {
            let at = |i: usize, k: usize| {
                let x = ((i * 37 + k * 101 + i * k * 13) % 97) as f64 / 97.0 - 0.5;
                if i == k { x + 3.0 } else { x }
            };
            let mut a = Mat::<f64>::zeros(n, n);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                // The lower triangle does not count.
                *a.at_mut(i, j) = if j < i { 7.0 } else { (0..rank).map(|k| at(i, k) * at(j, k)).sum() };
            }
            let factor = |threads: usize| {
                let mut u = a.clone();
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| factor_upper(&mut u));
                u
            };
            let u = factor(1);
            assert!(u.data.iter().zip(&factor(3).data).all(|(x, y)| x.to_bits() == y.to_bits()));
            for i in 0..n {
                assert!(u.row(i)[..i].iter().all(|x| *x == 0.0));
                assert!(u.data[i * u.stride + n..(i + 1) * u.stride].iter().all(|x| *x == 0.0));
                for j in i..n {
                    let square: f64 = (0..=i).map(|k| u.at(k, i) * u.at(k, j)).sum();
                    let scale = (a.at(i, i) * a.at(j, j)).sqrt();
                    assert!((square - a.at(i, j)).abs() < 1e-12 * scale, "{n} {rank} {i} {j}");
                }
            }
        }
    }
}
