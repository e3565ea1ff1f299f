//! The softmax of Gaussian logits (Sec. 6.3): `E[softmax(ℓ)]` by deterministic rules, and the DVI objective.
//!
//! # Departs from the paper
//! The paper takes the moments of its softmax from DVI. `exp(E[log p])` renormalised is the softmax of the
//! mean, so the uncertainty cancels; the predictive probability is `E[softmax]`.

use super::affine::axpy;
use crate::gaussian::special::INV_SQRT_2PI;
use crate::kernel::cholesky::{factor_pull, factor_semidefinite};

/// The two-class rule reaches this many standard deviations.
const REACH: f64 = 12.0;
/// Widest spacing of its nodes in standard deviations, and in units of the logit: both exact to 1e-14, as
/// the logistic function has its nearest pole at distance `π` and the error is `exp(−2π²/spacing)`.
const SPACING: (f64, f64) = (0.5, 0.6);
/// Least spacing in standard deviations: bounds the work for logits whose deviation exceeds 200.
const SPACING_LEAST: f64 = 0.003;
/// Below this standard deviation the derivative in the variance is taken from the second derivative of
/// the logistic function: the quotient `∂/∂sd / 2sd` would lose its digits.
const NARROW: f64 = 1e-5;

/// `−log E[softmax(ℓ)_label]` for `ℓ ~ N(mean, cov)`; adds `bar` times its derivatives.
///
/// Two classes: the trapezoidal rule over `ℓ₁ − ℓ₀`. More: the cubature rule of degree three, `2K` points
/// `mean ± √K · L_c` of equal weight with the columns of `cov = L Lᵀ`. A column of a zero pivot (`cov` may
/// be singular) stays at the mean and passes nothing back, which is right as long as the rank stays.
///
/// # Accuracy
/// Two classes: 1e-13 relative. More: the largest error of a probability is about 0.002, 0.01, 0.04 at
/// deviations 0.5, 1, 2 of the logits; the softmax of the mean is off by 0.025, 0.06, 0.15.
pub(super) fn nll_pull(
    mean: &[f64],
    cov: &[f64],
    label: usize,
    bar: f64,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
) -> f64 {
    if mean.len() == 2 {
        return binary_pull(mean, cov, label, bar, mean_bar, cov_bar);
    }
    let k = mean.len();
    let (factor, points) = points(mean, cov);
    let logs: Vec<f64> = points.chunks_exact(k).map(|p| p[label] - log_sum_exp(p)).collect();
    let total = log_sum_exp(&logs);
    let root = (k as f64).sqrt();
    let mut factor_bar = vec![0.0; k * k];
    for (q, p) in points.chunks_exact(k).enumerate() {
        let share = (logs[q] - total).exp();
        let lse = log_sum_exp(p);
        let (column, sign) = (q / 2, if q % 2 == 0 { root } else { -root });
        for i in 0..k {
            let slope = bar * share * ((p[i] - lse).exp() - f64::from(i == label));
            mean_bar[i] += slope;
            if i >= column {
                factor_bar[i * k + column] += sign * slope;
            }
        }
    }
    factor_pull(&factor, k, &mut factor_bar, cov_bar);
    (logs.len() as f64).ln() - total
}

/// `E[softmax(ℓ)]` by the rules of [`nll_pull`].
pub(super) fn probabilities(mean: &[f64], cov: &[f64]) -> Vec<f64> {
    let k = mean.len();
    if k == 2 {
        let one = |label| (-nll_pull(mean, cov, label, 0.0, &mut [0.0; 2], &mut [0.0; 4])).exp();
        return vec![one(0), one(1)];
    }
    let (_, points) = points(mean, cov);
    let mut out = vec![0.0; k];
    for p in points.chunks_exact(k) {
        axpy(0.5 / k as f64, &softmax(p), &mut out);
    }
    out
}

/// The Cholesky factor, and the points `+` and `−` of its first column, of its second, ….
fn points(mean: &[f64], cov: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let k = mean.len();
    let mut factor = cov.to_vec();
    factor_semidefinite(&mut factor, k);
    let root = (k as f64).sqrt();
    let mut points = Vec::with_capacity(2 * k * k);
    for column in 0..k {
        for sign in [root, -root] {
            points.extend((0..k).map(|i| mean[i] + sign * factor[i * k + column]));
        }
    }
    (factor, points)
}

/// [`nll_pull`] for two classes: `−log E[σ(±d)]`, `d ~ N(m₁ − m₀, S₁₁ + S₀₀ − S₀₁ − S₁₀)`.
fn binary_pull(
    mean: &[f64],
    cov: &[f64],
    label: usize,
    bar: f64,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
) -> f64 {
    let sign = if label == 1 { 1.0 } else { -1.0 };
    let centre = sign * (mean[1] - mean[0]);
    // Rounding may leave a singular covariance a variance just below zero.
    let sd = (cov[0] + cov[3] - cov[1] - cov[2]).max(0.0).sqrt();
    let step = SPACING.0.min(SPACING.1 / sd).max(SPACING_LEAST);
    let nodes = (REACH / step).ceil() as i32;
    // log(weight · σ(x)) at each node, and x.
    let terms = || {
        (-nodes..=nodes).map(|n| {
            let z = f64::from(n) * step;
            let x = centre + sd * z;
            (z, x, (step * INV_SQRT_2PI).ln() - 0.5 * z * z - log_sum_exp(&[0.0, -x]))
        })
    };
    let largest = terms().fold(f64::NEG_INFINITY, |a, t| a.max(t.2));
    let total: f64 = terms().map(|t| (t.2 - largest).exp()).sum();
    let value = -(largest + total.ln());
    // −∂/∂centre and −∂/∂sd of the value.
    let (mut by_centre, mut by_sd) = (0.0, 0.0);
    for (z, x, log) in terms() {
        let slope = (log - largest).exp() / total / (1.0 + x.exp());
        by_centre += slope;
        by_sd += slope * z;
    }
    let by_var = if sd < NARROW {
        let p = 1.0 / (1.0 + (-centre).exp());
        0.5 * (1.0 - p) * (1.0 - 2.0 * p)
    } else {
        0.5 * by_sd / sd
    };
    mean_bar[1] -= bar * sign * by_centre;
    mean_bar[0] += bar * sign * by_centre;
    for (at, s) in cov_bar.iter_mut().zip([1.0, -1.0, -1.0, 1.0]) {
        *at -= bar * s * by_var;
    }
    value
}

/// The objective of deterministic variational inference (Wu et al. 2019, cited in Sec. 6.3):
/// `−E[log softmax(ℓ)_label]`, the expectation of the log-sum-exp by its second-order Taylor expansion.
///
/// ```text
/// −m_y + log Σ exp m + ½ (pᵀ diag S − pᵀ S p),    p = softmax(m),  ℓ ~ N(m, S)
/// ```
///
/// By Jensen `−E[log p_y] ≥ −log E[p_y]`, so without the expansion this is a bound of the likelihood; the
/// expansion is good for narrow logits and grows without limit for wide ones. Adds `bar` times the derivatives.
pub(super) fn dvi_pull(
    mean: &[f64],
    cov: &[f64],
    label: usize,
    bar: f64,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
) -> f64 {
    let k = mean.len();
    let p = softmax(mean);
    // Half of ∂(pᵀ diag S − pᵀ S p)/∂p, and the term itself.
    let (mut slope, mut spread) = (vec![0.0; k], 0.0);
    for i in 0..k {
        let product: f64 = (0..k).map(|j| cov[i * k + j] * p[j]).sum();
        slope[i] = 0.5 * cov[i * k + i] - product;
        spread += 0.5 * p[i] * (cov[i * k + i] - product);
    }
    let average: f64 = slope.iter().zip(&p).map(|(s, p)| s * p).sum();
    for i in 0..k {
        mean_bar[i] += bar * (p[i] * (1.0 + slope[i] - average) - f64::from(i == label));
        for j in 0..k {
            cov_bar[i * k + j] += 0.5 * bar * p[i] * (f64::from(i == j) - p[j]);
        }
    }
    log_sum_exp(mean) - mean[label] + spread
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let largest = x.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    largest + x.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let lse = log_sum_exp(x);
    x.iter().map(|x| (x - lse).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{
        assert_close, assert_close_abs, directional, normal_expectation, random_spd, random_vec, seeded,
    };

    type Pull = fn(&[f64], &[f64], usize, f64, &mut [f64], &mut [f64]) -> f64;

    fn value(pull: Pull, mean: &[f64], cov: &[f64], label: usize) -> f64 {
        let k = mean.len();
        pull(mean, cov, label, 0.0, &mut vec![0.0; k], &mut vec![0.0; k * k])
    }

    #[test]
    fn both_objectives_pull_back_their_derivatives() {
        for seed in 0..30 {
            let rng = &mut seeded(seed);
            let k = 2 + seed as usize % 4;
            let label = seed as usize % k;
            let mean: Vec<f64> = random_vec(k, rng).iter().map(|x| 2.0 * x).collect();
            let (cov, mean_v, cov_v) = (random_spd(k, k + 1, rng), random_vec(k, rng), random_spd(k, k, rng));
            for pull in [nll_pull as Pull, dvi_pull] {
                let (mut mean_bar, mut cov_bar) = (vec![0.0; k], vec![0.0; k * k]);
                pull(&mean, &cov, label, 1.3, &mut mean_bar, &mut cov_bar);
                let f = |t: f64| {
                    let m: Vec<f64> = mean.iter().zip(&mean_v).map(|(m, v)| m + t * v).collect();
                    let c: Vec<f64> = cov.iter().zip(&cov_v).map(|(c, v)| c + t * v).collect();
                    1.3 * value(pull, &m, &c, label)
                };
                let pulled: f64 = mean_bar.iter().zip(&mean_v).map(|(a, b)| a * b).sum::<f64>()
                    + cov_bar.iter().zip(&cov_v).map(|(a, b)| a * b).sum::<f64>();
                assert_close(directional(f, 1e-4), pulled, 1e-6);
            }
        }
    }

    #[test]
    fn two_classes_match_quadrature_at_every_width() {
        for centre in [-30.0, -3.0, 0.0, 0.4, 6.0] {
            for sd in [0.0, 1e-7, 1e-3, 0.3, 1.0, 3.0, 10.0, 60.0] {
                let cov = [0.7 * sd * sd, 0.1 * sd * sd, 0.1 * sd * sd, 0.5 * sd * sd];
                let mean = [0.2, 0.2 + centre];
                let var: f64 = cov[0] + cov[3] - 2.0 * cov[1];
                let want = normal_expectation(centre, var, &[], |d| 1.0 / (1.0 + (-d).exp()));
                assert_close((-value(nll_pull, &mean, &cov, 1)).exp(), want, 1e-12);
                let p = probabilities(&mean, &cov);
                assert_close_abs(p[0] + p[1], 1.0, 1e-13);
            }
        }
    }

    #[test]
    fn the_variance_derivative_is_continuous_where_its_form_changes() {
        let slope = |sd: f64| {
            let mut cov_bar = [0.0; 4];
            nll_pull(&[0.0, 0.8], &[0.0, 0.0, 0.0, sd * sd], 1, 1.0, &mut [0.0; 2], &mut cov_bar);
            cov_bar[3]
        };
        assert_close(slope(0.99 * NARROW), slope(1.01 * NARROW), 1e-9);
        assert_close(slope(0.0), slope(NARROW), 1e-9);
    }

    /// Against antithetic samples; the tolerance is the documented error of the rule.
    #[test]
    fn cubature_matches_monte_carlo() {
        for (scale, tolerance) in [(0.25, 6e-3), (1.0, 3e-2), (4.0, 1e-1)] {
            for seed in 0..6 {
                let rng = &mut seeded(seed);
                let k = 3 + seed as usize;
                let mean = random_vec(k, rng);
                let cov: Vec<f64> = random_spd(k, k, rng).iter().map(|c| scale * c).collect();
                let mut factor = cov.clone();
                factor_semidefinite(&mut factor, k);
                let mut want = vec![0.0; k];
                let samples = 20_000;
                for _ in 0..samples {
                    let z = random_vec(k, rng);
                    for sign in [1.0, -1.0] {
                        let at = |i: usize| (0..=i).map(|c| factor[i * k + c] * z[c]).sum::<f64>();
                        let l: Vec<f64> = (0..k).map(|i| mean[i] + sign * at(i)).collect();
                        axpy(0.5 / f64::from(samples), &softmax(&l), &mut want);
                    }
                }
                let got = probabilities(&mean, &cov);
                assert_close_abs(got.iter().sum(), 1.0, 1e-14);
                for i in 0..k {
                    assert_close_abs(got[i], want[i], tolerance);
                    assert_close((-value(nll_pull, &mean, &cov, i)).exp(), got[i], 1e-13);
                }
            }
        }
    }

    #[test]
    fn logits_without_width_give_the_softmax() {
        for k in 2..6 {
            let mean = random_vec(k, &mut seeded(k as u64));
            let zero = vec![0.0; k * k];
            for (i, p) in softmax(&mean).iter().enumerate() {
                assert_close(probabilities(&mean, &zero)[i], *p, 1e-14);
                assert_close(value(dvi_pull, &mean, &zero, i), -p.ln(), 1e-13);
            }
        }
    }

    #[test]
    fn far_logits_stay_finite() {
        for mean in [[800.0, -800.0, 0.0], [-1e4, 1e4, 0.0]] {
            for label in 0..3 {
                let cov = random_spd(3, 2, &mut seeded(4));
                assert!(value(nll_pull, &mean, &cov, label).is_finite());
                assert!(value(nll_pull, &mean[..2], &[1.0, 0.0, 0.0, 1.0], label % 2).is_finite());
                assert!(value(dvi_pull, &mean, &cov, label).is_finite());
            }
        }
    }

    /// Jensen: for narrow logits, where the expansion holds, DVI lies above the likelihood.
    #[test]
    fn dvi_is_above_the_likelihood_for_narrow_logits() {
        for seed in 0..20 {
            let rng = &mut seeded(seed);
            let (mean, cov) = (random_vec(4, rng), random_spd(4, 4, rng));
            let cov: Vec<f64> = cov.iter().map(|c| 0.1 * c).collect();
            for label in 0..4 {
                assert!(value(dvi_pull, &mean, &cov, label) > value(nll_pull, &mean, &cov, label));
            }
        }
    }
}
