//! Moments of samples with their standard errors, and seeded random input.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The generator of all tests: the same stream on every machine.
pub type Random = ChaCha8Rng;

/// A generator started at `seed`.
pub fn seeded(seed: u64) -> Random {
    ChaCha8Rng::seed_from_u64(seed)
}

/// One draw from N(0, 1).
pub fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// One draw from the uniform law on `[low, high)`.
pub fn uniform(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    let unit: f64 = rand::distr::StandardUniform.sample(rng);
    low + (high - low) * unit
}

/// `n` independent draws from N(0, 1).
pub fn random_vec(n: usize, rng: &mut impl Rng) -> Vec<f64> {
    (0..n).map(|_| normal(rng)).collect()
}

/// A random positive semi-definite row-major `n × n` matrix of rank `min(rank, n)`, exactly symmetric, with
/// diagonal entries about 1: `A Aᵀ / rank` for an `n × rank` matrix `A` of N(0, 1) entries.
pub fn random_spd(n: usize, rank: usize, rng: &mut impl Rng) -> Vec<f64> {
    let a = random_vec(n * rank, rng);
    let dot = |i: usize, j: usize| -> f64 { (0..rank).map(|k| a[i * rank + k] * a[j * rank + k]).sum() };
    (0..n * n).map(|k| dot(k / n, k % n) / rank.max(1) as f64).collect()
}

/// Mean (`d`) and unbiased covariance (`d × d`, row-major) of `samples` (`S × d`, one sample per row).
///
/// # Panics
/// When the samples are not whole rows, or fewer than two.
#[track_caller]
pub fn sample_moments(samples: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
    let mean = column_means(samples, d);
    let count = samples.len() / d;
    let mut cov = mean_products(samples, &mean, |x, y| x * y);
    cov.iter_mut().for_each(|c| *c *= count as f64 / (count - 1) as f64);
    (mean, cov)
}

/// Standard errors of both results of [`sample_moments`], in the same shapes.
///
/// ```text
/// Var[mean_i] = c_ii / S
/// Var[cov_ij] = (m_ij − c_ij²) / S + (c_ii c_jj + c_ij²) / (S (S − 1)),    m_ij = E[(x_i − μ_i)² (x_j − μ_j)²]
/// ```
#[track_caller]
pub fn standard_errors(samples: &[f64], d: usize) -> (Vec<f64>, Vec<f64>) {
    let (mean, cov) = sample_moments(samples, d);
    let fourth = mean_products(samples, &mean, |x, y| (x * y).powi(2));
    let count = (samples.len() / d) as f64;
    let of_mean = (0..d).map(|i| (cov[i * d + i] / count).sqrt()).collect();
    let of_cov = (0..d * d).map(|k| {
        let (square, product) = (cov[k].powi(2), cov[k / d * (d + 1)] * cov[k % d * (d + 1)]);
        ((fourth[k] - square).max(0.0) / count + (product + square) / (count * (count - 1.0))).sqrt()
    });
    (of_mean, of_cov.collect())
}

/// Mean of every column, in two passes so that a large mean costs no digits.
#[track_caller]
fn column_means(samples: &[f64], d: usize) -> Vec<f64> {
    assert!(d > 0 && samples.len().is_multiple_of(d), "{} values are not rows of {d}", samples.len());
    let count = samples.len() / d;
    assert!(count > 1, "{count} samples have no covariance");
    let average = |shift: &[f64]| -> Vec<f64> {
        let mut sum = vec![0.0; d];
        for row in samples.chunks(d) {
            for i in 0..d {
                sum[i] += row[i] - shift[i];
            }
        }
        (0..d).map(|i| shift[i] + sum[i] / count as f64).collect()
    };
    average(&average(&vec![0.0; d]))
}

/// Mean over the samples of `f(x_i − mean_i, x_j − mean_j)`, for all `i` and `j`.
fn mean_products(samples: &[f64], mean: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let d = mean.len();
    let mut sum = vec![0.0; d * d];
    for row in samples.chunks(d) {
        for i in 0..d {
            for j in 0..d {
                sum[i * d + j] += f(row[i] - mean[i], row[j] - mean[j]);
            }
        }
    }
    let count = (samples.len() / d) as f64;
    sum.iter().map(|s| s / count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close, assert_slices_close};

    #[test]
    fn moments_of_three_points_are_known() {
        let (mean, cov) = sample_moments(&[1.0, 10.0, 2.0, 20.0, 6.0, 0.0], 2);
        assert_slices_close(&mean, &[3.0, 10.0], 1e-15, 0.0);
        assert_slices_close(&cov, &[7.0, -20.0, -20.0, 100.0], 1e-14, 1e-14);
    }

    #[test]
    fn a_large_mean_costs_no_digits() {
        let near = [0.25, 0.5, 1.0, 2.0];
        let far: Vec<f64> = near.iter().map(|x| x + 1e12).collect();
        assert_close(sample_moments(&far, 1).1[0], sample_moments(&near, 1).1[0], 1e-9);
    }

    /// Many small experiments: their spread is what the formula says.
    #[test]
    fn standard_errors_are_the_spread_of_repetitions() {
        let mut rng = seeded(3);
        let (runs, count) = (2000, 20);
        let mut results = Vec::new();
        let mut predicted = [0.0; 3];
        for _ in 0..runs {
            let mut samples = Vec::new();
            for _ in 0..count {
                let (x, z) = (normal(&mut rng), normal(&mut rng));
                samples.extend([x, 0.8 * x + 0.6 * z]);
            }
            let (mean, cov) = sample_moments(&samples, 2);
            let (of_mean, of_cov) = standard_errors(&samples, 2);
            results.extend([mean[0], cov[0], cov[1]]);
            for (sum, error) in predicted.iter_mut().zip([of_mean[0], of_cov[0], of_cov[1]]) {
                *sum += error * error / runs as f64;
            }
        }
        let (_, spread) = sample_moments(&results, 3);
        // The fourth moments of 20 samples are biased by a few over 20.
        for i in 0..3 {
            assert_close(predicted[i], spread[i * 4], 0.2);
        }
    }

    #[test]
    fn a_seed_gives_one_stream() {
        assert_eq!(random_vec(4, &mut seeded(7)), random_vec(4, &mut seeded(7)));
        assert_ne!(random_vec(4, &mut seeded(7)), random_vec(4, &mut seeded(8)));
    }

    #[test]
    fn random_matrices_are_symmetric_and_uniform_draws_in_range() {
        let m = random_spd(5, 2, &mut seeded(9));
        assert!((0..25).all(|k| m[k] == m[k % 5 * 5 + k / 5]));
        let mut rng = seeded(10);
        assert!((0..100).all(|_| (-2.0..3.0).contains(&uniform(-2.0, 3.0, &mut rng))));
    }
}
