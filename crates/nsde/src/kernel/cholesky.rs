//! Cholesky factor of a covariance, in `f64`: for likelihoods (strict) and for sigma points
//! (semi-definite), with the adjoint of the latter.

use super::elementary::fma;
use pulp::{Simd, WithSimd};

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
    pulp::Arch::new().dispatch(Factor { a, n, noise })
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
        columns::<S>(a, n, noise)
    }
}

#[inline(always)]
fn columns<S: Simd>(a: &mut [f64], n: usize, noise: f64) -> (usize, (usize, f64)) {
    let mut bad = 0;
    let mut first = (0, 0.0);
    for j in 0..n {
        let diagonal = a[j * n + j];
        let row = &a[j * n..j * n + j];
        let pivot = diagonal - dot::<S>(row, row);
        if pivot > noise * diagonal.abs() && pivot.is_finite() {
            let root = pivot.sqrt();
            a[j * n + j] = root;
            let (upper, lower) = a.split_at_mut((j + 1) * n);
            let row = &upper[j * n..j * n + j];
            for below in lower.chunks_exact_mut(n) {
                below[j] = (below[j] - dot::<S>(&below[..j], row)) / root;
            }
        } else {
            if bad == 0 {
                first = (j, pivot);
            }
            bad += 1;
            for i in j..n {
                a[i * n + j] = 0.0;
            }
        }
        for i in 0..j {
            a[i * n + j] = 0.0;
        }
    }
    (bad, first)
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
