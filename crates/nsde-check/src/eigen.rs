//! Eigenvalues of symmetric matrices by cyclic Jacobi rotations.

/// Largest `|m_ij − m_ji|` that still counts as symmetric, relative to the largest entry.
const ASYMMETRY: f64 = 1e-9;

/// Sweeps after which Jacobi gives up; ten are many.
const MAX_SWEEPS: usize = 60;

/// Eigenvalues of the symmetric row-major `n × n` matrix `m`, ascending, each within about 1e-15 of the largest.
///
/// The matrix is scaled by its largest entry first, so that neither 1e-300 nor 1e+200 harms.
///
/// # Panics
/// When `m` has not `n²` entries, holds a value that is not finite, or is not symmetric.
#[track_caller]
pub fn symmetric_eigenvalues(m: &[f64], n: usize) -> Vec<f64> {
    assert_eq!(m.len(), n * n, "not an n × n matrix");
    let scale = m.iter().fold(0.0, |s: f64, x| s.max(x.abs()));
    assert!(m.iter().all(|x| x.is_finite()), "matrix holds a value that is not finite");
    if scale == 0.0 {
        return vec![0.0; n];
    }
    let mut a: Vec<Vec<f64>> = m.chunks(n).map(|row| row.iter().map(|x| x / scale).collect()).collect();
    for i in 0..n {
        for j in 0..i {
            let apart = (a[i][j] - a[j][i]).abs();
            assert!(apart <= ASYMMETRY, "entries ({i}, {j}) and ({j}, {i}) differ by {apart:.2e} relative");
            let middle = 0.5 * (a[i][j] + a[j][i]);
            (a[i][j], a[j][i]) = (middle, middle);
        }
    }
    for sweep in 0.. {
        assert!(sweep < MAX_SWEEPS, "Jacobi did not converge");
        if !sweep_once(&mut a) {
            break;
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| scale * a[i][i]).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// One rotation for every entry beside the diagonal that is not negligible; says whether there was one.
fn sweep_once(a: &mut [Vec<f64>]) -> bool {
    let n = a.len();
    let mut rotated = false;
    for p in 0..n {
        for q in p + 1..n {
            // The scaled matrix has largest entry 1: what is this small moves no eigenvalue by an ulp of it.
            if a[p][q].abs() <= 1e-18 {
                continue;
            }
            rotated = true;
            let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
            let tangent = 1f64.copysign(theta) / (theta.abs() + theta.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let sine = tangent * cosine;
            let apq = a[p][q];
            a[p][p] -= tangent * apq;
            a[q][q] += tangent * apq;
            (a[p][q], a[q][p]) = (0.0, 0.0);
            for k in (0..n).filter(|&k| k != p && k != q) {
                let (kp, kq) = (a[k][p], a[k][q]);
                a[k][p] = cosine * kp - sine * kq;
                a[k][q] = sine * kp + cosine * kq;
                (a[p][k], a[q][k]) = (a[k][p], a[k][q]);
            }
        }
    }
    rotated
}

/// Smallest over largest eigenvalue of a symmetric row-major `n × n` matrix: not below 0 (but for rounding) exactly
/// if it is positive semi-definite.
///
/// 0 for the zero matrix; −1 if no eigenvalue is positive though the matrix is not zero.
#[track_caller]
pub fn psd_ratio(m: &[f64], n: usize) -> f64 {
    let values = symmetric_eigenvalues(m, n);
    match (values.first(), values.last()) {
        (Some(&0.0), Some(&0.0)) | (None, _) | (_, None) => 0.0,
        (_, Some(&largest)) if largest <= 0.0 => -1.0,
        (Some(smallest), Some(largest)) => smallest / largest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close, assert_slices_close};
    use crate::sampling::{random_spd, random_vec, seeded};

    /// The second difference matrix of order `n`, whose eigenvalues are `2 − 2 cos(kπ/(n+1))`.
    fn second_difference(n: usize, scale: f64) -> Vec<f64> {
        let entry = |i: usize, j: usize| [2.0, -1.0].get(i.abs_diff(j)).copied().unwrap_or(0.0) * scale;
        (0..n * n).map(|k| entry(k / n, k % n)).collect()
    }

    #[test]
    fn known_eigenvalues_are_met_at_every_scale() {
        let n = 12;
        for scale in [1.0, 1e-300, 1e200] {
            let angle = |k: usize| k as f64 * std::f64::consts::PI / (n + 1) as f64;
            let expected: Vec<f64> = (1..=n).map(|k| scale * (2.0 - 2.0 * angle(k).cos())).collect();
            assert_slices_close(
                &symmetric_eigenvalues(&second_difference(n, scale), n),
                &expected,
                4e-15 * scale,
                0.0,
            );
        }
    }

    #[test]
    fn trace_and_squares_are_kept() {
        let mut rng = seeded(1);
        let n = 20;
        let noise = random_vec(n * n, &mut rng);
        let m: Vec<f64> = (0..n * n).map(|k| noise[k] + noise[k % n * n + k / n]).collect();
        let values = symmetric_eigenvalues(&m, n);
        assert_close(values.iter().map(|v| v * v).sum(), m.iter().map(|x| x * x).sum(), 1e-14);
        let trace: f64 = (0..n).map(|i| m[i * n + i]).sum();
        assert_slices_close(&[values.iter().sum()], &[trace], 1e-13, 0.0);
    }

    #[test]
    fn rank_deficient_products_are_semi_definite() {
        let ratio = psd_ratio(&random_spd(15, 4, &mut seeded(2)), 15);
        assert!(ratio.abs() < 2e-15, "{ratio:e}");
    }

    #[test]
    fn the_ratio_of_special_matrices_is_as_documented() {
        assert_eq!(psd_ratio(&[0.0; 9], 3), 0.0);
        assert_eq!(psd_ratio(&[], 0), 0.0);
        assert_eq!(psd_ratio(&[-1.0, 0.0, 0.0, -2.0], 2), -1.0);
        assert_close(psd_ratio(&[1.0, 2.0, 2.0, 1.0], 2), -1.0 / 3.0, 1e-15);
        assert_close(psd_ratio(&[2.0, 1.0, 1.0, 2.0], 2), 1.0 / 3.0, 1e-15);
    }

    #[test]
    #[should_panic(expected = "differ by")]
    fn an_unsymmetric_matrix_is_refused() {
        symmetric_eigenvalues(&[1.0, 0.5, 0.4, 1.0], 2);
    }
}
