//! Cholesky factor of a covariance, in `f64`: for likelihoods (strict) and for sigma points
//! (semi-definite), with the adjoint of the latter.

use super::Real;
use super::dispatch::arch;
use super::elementary::fma;
use super::real::LANES;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// A pivot below this share of its diagonal entry is rounding noise of a singular matrix.
pub(crate) const PIVOT_NOISE: f64 = 1e-14;

/// Lower Cholesky factor, row-major, in place of the lower triangle of `a`; the upper triangle
/// becomes zero. Fails with the index and value of the first pivot that is not positive.
pub(crate) fn factor_strict(a: &mut [f64], n: usize) -> Result<(), (usize, f64)> {
    match factor(a, n, 0.0) {
        (0, _) => Ok(()),
        (_, bad) => Err(bad),
    }
}

/// Like [`factor_strict`], but a pivot that is zero up to rounding gives a zero column: the
/// factor of a singular covariance. Returns how many pivots were zero.
pub(crate) fn factor_semidefinite(a: &mut [f64], n: usize) -> usize {
    factor(a, n, PIVOT_NOISE).0
}

/// A dot product in sixteen partial sums, which the compiler turns into vectors.
#[inline(always)]
fn dot<S: Simd>(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 16];
    let (a16, b16) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f64 = a16.remainder().iter().zip(b16.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a16.zip(b16) {
        for k in 0..16 {
            sums[k] = fma::<S>(x[k], y[k], sums[k]);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Returns the number of pivots at or below `noise` of their diagonal, and the first of them.
fn factor(a: &mut [f64], n: usize, noise: f64) -> (usize, (usize, f64)) {
    arch().dispatch(Factor { a, n, noise })
}

struct Factor<'a> {
    a: &'a mut [f64],
    n: usize,
    noise: f64,
}

impl WithSimd for Factor<'_> {
    type Output = (usize, (usize, f64));

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let Factor { a, n, noise } = self;
        bands::<S>(a, n, noise)
    }
}

/// Rows that share what they read of the rows above them.
const BLOCK: usize = 8;

/// `L_ij = (A_ij − Σ_k L_ik L_jk) / L_jj`; a zero pivot leaves a zero column.
#[inline(always)]
fn entry<S: Simd>(row: &mut [f64], above: &[f64], j: usize) {
    let root = above[j];
    row[j] = if root == 0.0 { 0.0 } else { (row[j] - dot::<S>(&row[..j], &above[..j])) / root };
}

/// Rows below a band are worth the cores' while from this many multiplications on.
const WORTH_SHARING: usize = 1 << 18;

/// Columns of a band, of a matrix that is worth sharing.
const BAND: usize = 64;

/// Band by band of columns: first the rows on the diagonal, then, shared over the cores, all rows below. Every
/// entry is the same sum on any number of cores.
#[inline(always)]
fn bands<S: Simd>(a: &mut [f64], n: usize, noise: f64) -> (usize, (usize, f64)) {
    let mut bad = 0;
    let mut first = (0, 0.0);
    let band = if n * n * BAND / 2 < WORTH_SHARING { n } else { BAND };
    for start in (0..n).step_by(band.max(1)) {
        let end = n.min(start + band);
        let (done, below) = a.split_at_mut(end * n);
        let done = &mut done[start * n..];
        diagonal::<S>(done, n, start, noise, &mut bad, &mut first);
        let done = &*done;
        let group = |rows| arch().dispatch(Below { rows, done, n, start });
        let work = (n - end) * (end - start) * end;
        if work < WORTH_SHARING || rayon::current_num_threads() < 2 {
            below.chunks_mut(BLOCK * n).for_each(group);
        } else {
            below.par_chunks_mut(BLOCK * n).for_each(group);
        }
    }
    (bad, first)
}

/// The columns from `start` on, as many as `done` has rows, of some rows below these.
struct Below<'a> {
    rows: &'a mut [f64],
    done: &'a [f64],
    n: usize,
    start: usize,
}

impl WithSimd for Below<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Below { rows, done, n, start } = self;
        for rows in rows.chunks_mut(2 * n) {
            for (four, above) in done.chunks_exact(4 * n).enumerate() {
                if rows.len() == 2 * n {
                    subtract::<S, 2>(simd, rows, above, n, start, start + 4 * four);
                } else {
                    subtract::<S, 1>(simd, rows, above, n, start, start + 4 * four);
                }
            }
        }
        for (j, above) in done.chunks_exact(n).enumerate() {
            for row in rows.chunks_exact_mut(n) {
                entry::<S>(&mut row[start..], &above[start..], j);
            }
        }
    }
}

/// Takes what the columns before `start` contribute off four columns from `first` on, of `M` rows: a tile, which reads
/// every number once for several sums. `start` is a multiple of [`BAND`], so there are whole vectors.
#[inline(always)]
fn subtract<S: Simd, const M: usize>(
    simd: S,
    rows: &mut [f64],
    above: &[f64],
    n: usize,
    start: usize,
    first: usize,
) {
    let mut total = [[simd.splat_f64s(0.0); 4]; M];
    let mut left: [&[S::f64s]; M] = [&[]; M];
    let mut right: [&[S::f64s]; 4] = [&[]; 4];
    for i in 0..M {
        left[i] = S::as_simd_f64s(&rows[i * n..][..start]).0;
    }
    let terms = left[0].len();
    for j in 0..4 {
        right[j] = &S::as_simd_f64s(&above[j * n..][..start]).0[..terms];
    }
    for k in 0..terms {
        for i in 0..M {
            for j in 0..4 {
                total[i][j] = simd.mul_add_e_f64s(left[i][k], right[j][k], total[i][j]);
            }
        }
    }
    for i in 0..M {
        for j in 0..4 {
            rows[i * n + first + j] -= simd.reduce_sum_f64s(total[i][j]);
        }
    }
}

/// The rows of a band on the diagonal, which begins at `start`; all columns before it are there.
#[inline(always)]
fn diagonal<S: Simd>(
    a: &mut [f64],
    n: usize,
    start: usize,
    noise: f64,
    bad: &mut usize,
    first: &mut (usize, f64),
) {
    let count = a.len() / n;
    for block in (0..count).step_by(BLOCK) {
        let (done, rest) = a.split_at_mut(block * n);
        for (j, above) in done.chunks_exact(n).enumerate() {
            for row in rest.chunks_exact_mut(n).take(BLOCK) {
                entry::<S>(row, above, start + j);
            }
        }
        for i in block..count.min(block + BLOCK) {
            let (done, rest) = rest.split_at_mut((i - block) * n);
            let row = &mut rest[..n];
            for (j, above) in done.chunks_exact(n).enumerate() {
                entry::<S>(row, above, start + block + j);
            }
            let place = start + i;
            let diagonal = row[place];
            let pivot = diagonal - dot::<S>(&row[..place], &row[..place]);
            if pivot > noise * diagonal.abs() && pivot.is_finite() {
                row[place] = pivot.sqrt();
            } else {
                if *bad == 0 {
                    *first = (place, pivot);
                }
                *bad += 1;
                row[place] = 0.0;
            }
            row[place + 1..].fill(0.0);
        }
    }
}

/// [`factor_semidefinite`] of the matrices in all lanes of `T`, `a[(i·n + j)·LANES + lane]`.
pub(crate) fn factor_abreast<T: Real>(a: &mut [f64], n: usize) {
    T::dispatch(Abreast { a, n, lane: std::marker::PhantomData::<T> });
}

struct Abreast<'a, T> {
    a: &'a mut [f64],
    n: usize,
    lane: std::marker::PhantomData<T>,
}

impl<T: Real> WithSimd for Abreast<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        const { assert!(T::LANES <= LANES) }
        let Abreast { a, n, .. } = self;
        let width = n * T::LANES;
        // Column by column: the rows below a pivot do not wait for each other.
        for j in 0..n {
            let (done, below) = a.split_at_mut((j + 1) * width);
            let row = &mut done[j * width..];
            let pivot = remainder::<T, S>(row, row, j);
            for (lane, pivot) in pivot.iter().enumerate().take(T::LANES) {
                let diagonal = &mut row[j * T::LANES + lane];
                let live = *pivot > PIVOT_NOISE * diagonal.abs() && pivot.is_finite();
                *diagonal = if live { pivot.sqrt() } else { 0.0 };
            }
            row[(j + 1) * T::LANES..].fill(0.0);
            for below in below.chunks_exact_mut(width) {
                let rest = remainder::<T, S>(below, row, j);
                for (lane, rest) in rest.iter().enumerate().take(T::LANES) {
                    let root = row[j * T::LANES + lane];
                    below[j * T::LANES + lane] = if root == 0.0 { 0.0 } else { rest / root };
                }
            }
        }
    }
}

/// `A_ij − Σ_{k<j} L_ik L_jk` in every lane, in two chains.
#[inline(always)]
fn remainder<T: Real, S: Simd>(row: &[f64], above: &[f64], j: usize) -> [f64; LANES] {
    let mut sums = [[0.0; LANES]; 2];
    let pairs = row[..j * T::LANES].chunks(2 * T::LANES).zip(above[..j * T::LANES].chunks(2 * T::LANES));
    for (x, y) in pairs {
        let terms = x.chunks_exact(T::LANES).zip(y.chunks_exact(T::LANES));
        for (sum, (x, y)) in sums.iter_mut().zip(terms) {
            for lane in 0..T::LANES {
                sum[lane] = fma::<S>(x[lane], y[lane], sum[lane]);
            }
        }
    }
    let mut out = [0.0; LANES];
    for lane in 0..T::LANES {
        out[lane] = row[j * T::LANES + lane] - (sums[0][lane] + sums[1][lane]);
    }
    out
}

/// Solves `L y = x` in place.
pub(crate) fn solve_lower(l: &[f64], n: usize, x: &mut [f64]) {
    for i in 0..n {
        let mut v = x[i];
        for k in 0..i {
            v -= l[i * n + k] * x[k];
        }
        x[i] = v / l[i * n + i];
    }
}

/// Solves `Lᵀ y = x` in place.
pub(crate) fn solve_upper(l: &[f64], n: usize, x: &mut [f64]) {
    for i in (0..n).rev() {
        let mut v = x[i];
        for k in i + 1..n {
            v -= l[k * n + i] * x[k];
        }
        x[i] = v / l[i * n + i];
    }
}

/// Adjoint of the Cholesky factorisation: from `∂ℓ/∂L` (lower) to the symmetric `∂ℓ/∂A`.
///
/// Runs the factorisation backwards, column by column. Columns with a zero pivot do not move
/// (their derivative does not exist) and pass nothing on. `l_bar` is used up.
pub(crate) fn factor_pull(l: &[f64], n: usize, l_bar: &mut [f64], a_bar: &mut [f64]) {
    for j in (0..n).rev() {
        let root = l[j * n + j];
        if root == 0.0 {
            continue;
        }
        for i in j + 1..n {
            // L_ij = x / root,  x = A_ij − Σ_k L_ik L_jk
            let x_bar = l_bar[i * n + j] / root;
            l_bar[j * n + j] -= x_bar * l[i * n + j];
            a_bar[i * n + j] += 0.5 * x_bar;
            a_bar[j * n + i] += 0.5 * x_bar;
            for k in 0..j {
                l_bar[i * n + k] -= x_bar * l[j * n + k];
                l_bar[j * n + k] -= x_bar * l[i * n + k];
            }
        }
        // root = √pivot,  pivot = A_jj − Σ_k L_jk²
        let pivot_bar = 0.5 * l_bar[j * n + j] / root;
        a_bar[j * n + j] += pivot_bar;
        for k in 0..j {
            l_bar[j * n + k] -= 2.0 * pivot_bar * l[j * n + k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix that is worth sharing, of rank `rank`: the factor squares to it, and one thread or three
    /// give the same bits.
    #[test]
    fn every_lane_is_the_factor_of_its_matrix() {
        use crate::kernel::lanes::{F32x8, F64x4, supported};
        fn check<T: Real>() {
            for n in [1usize, 2, 5, 17, 34] {
                // Lane `l` has rank `n − l`.
                let matrices: Vec<Vec<f64>> = (0..T::LANES)
                    .map(|lane| {
                        let rank = n.saturating_sub(lane).max(1);
                        let at = |i: usize, k: usize| ((i * 13 + k * 7 + lane) % 17) as f64 / 7.0 - 1.0;
                        (0..n * n).map(|e| (0..rank).map(|k| at(e / n, k) * at(e % n, k)).sum()).collect()
                    })
                    .collect();
                let mut together: Vec<f64> =
                    (0..n * n).flat_map(|e| matrices.iter().map(move |m| m[e])).collect();
                factor_abreast::<T>(&mut together, n);
                for (lane, mut alone) in matrices.into_iter().enumerate() {
                    let scale = alone.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                    let full = alone.clone();
                    factor_semidefinite(&mut alone, n);
                    let factor: Vec<f64> = together.iter().skip(lane).step_by(T::LANES).copied().collect();
                    // Columns of pivots that are rounding may differ; the product must not.
                    for e in 0..n * n {
                        let (i, j) = (e / n, e % n);
                        let product: f64 = (0..n).map(|k| factor[i * n + k] * factor[j * n + k]).sum();
                        assert!((product - full[e]).abs() <= 1e-6 * scale, "{n} lane {lane}");
                    }
                    if lane == 0 {
                        assert!(factor.iter().zip(&alone).all(|(x, y)| (x - y).abs() <= 1e-9 * scale.sqrt()));
                    }
                }
            }
        }
        if supported() {
            check::<F32x8>();
            check::<F64x4>();
        }
    }

    #[test]
    fn bands_give_the_factor_on_any_number_of_threads() {
        let n = 201;
        for rank in [n, 150] {
            let root =
                |i: usize, k: usize| ((i * 37 + k * 101) as f64 * 0.61).sin() + f64::from(i == k) * 9.0;
            let entry = |i: usize, j: usize| (0..rank).map(|k| root(i, k) * root(j, k)).sum::<f64>();
            let a: Vec<f64> = (0..n * n).map(|p| entry(p / n, p % n)).collect();
            let on = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut l = a.clone();
                let zero = pool.install(|| factor_semidefinite(&mut l, n));
                (l, zero)
            };
            let (l, zero) = on(1);
            assert_eq!(zero, n - rank);
            assert_eq!(on(3), (l.clone(), zero));
            for i in 0..n {
                for j in 0..n {
                    let square: f64 = (0..n).map(|k| l[i * n + k] * l[j * n + k]).sum();
                    let scale = (a[i * n + i] * a[j * n + j]).sqrt();
                    assert!((square - a[i * n + j]).abs() < 1e-12 * scale, "{i} {j}");
                }
            }
        }
    }
}
