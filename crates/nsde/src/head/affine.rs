//! The affine map of a Gaussian (Eq. 21) in plain `f64`: `N(μ, Σ) → N(Wμ + b, WΣWᵀ)`, and its adjoint.

use crate::error::{Result, dimension};
use crate::gaussian::Gaussian;
use crate::layer::Linear;

/// `W x + b` for a point.
pub(super) fn at(linear: &Linear, x: &[f64]) -> Vec<f64> {
    let row = |i: usize| &linear.weight[i * linear.input..(i + 1) * linear.input];
    (0..linear.output).map(|i| linear.bias[i] + dot(row(i), x)).collect()
}

/// Adjoint of [`at`] in the parameters: adds to `grad`, which holds `W̄`, then `b̄`.
pub(super) fn at_pull(x: &[f64], out_bar: &[f64], grad: &mut [f64]) {
    let (weight, bias) = grad.split_at_mut(x.len() * out_bar.len());
    for (row, bar) in weight.chunks_exact_mut(x.len().max(1)).zip(out_bar) {
        axpy(*bar, x, row);
    }
    axpy(1.0, out_bar, bias);
}

/// Moments of `W x + b`. Costs `O·D² + O²·D`.
pub(super) fn push(linear: &Linear, mean: &[f64], cov: &[f64]) -> Result<Gaussian> {
    let (d, o) = (linear.input, linear.output);
    dimension("head: state", d, mean.len())?;
    dimension("head: entries of the covariance", d * d, cov.len())?;
    let half = weight_cov(linear, cov);
    let mut out = Gaussian { mean: at(linear, mean), cov: vec![0.0; o * o] };
    for i in 0..o {
        for j in 0..=i {
            let x = dot(&half[i * d..(i + 1) * d], &linear.weight[j * d..(j + 1) * d]);
            out.cov[i * o + j] = x;
            out.cov[j * o + i] = x;
        }
    }
    Ok(out)
}

/// Adjoint of [`push`] for a symmetric `out_bar.cov`: adds to all the cotangents.
///
/// ```text
/// W̄ = m̄ μᵀ + 2 S̄ W Σ     b̄ = m̄     μ̄ = Wᵀ m̄     Σ̄ = Wᵀ S̄ W
/// ```
pub(super) fn pull(
    linear: &Linear,
    mean: &[f64],
    cov: &[f64],
    out_bar: &Gaussian,
    mean_bar: &mut [f64],
    cov_bar: &mut [f64],
    grad: &mut [f64],
) {
    let (d, o) = (linear.input, linear.output);
    at_pull(mean, &out_bar.mean, &mut grad[..o * d + o]);
    let half = weight_cov(linear, cov);
    let mut bar_weight = vec![0.0; d];
    for i in 0..o {
        let w = &linear.weight[i * d..(i + 1) * d];
        axpy(out_bar.mean[i], w, mean_bar);
        bar_weight.fill(0.0); // row i of S̄ W
        for j in 0..o {
            let s = out_bar.cov[i * o + j];
            axpy(s, &linear.weight[j * d..(j + 1) * d], &mut bar_weight);
            axpy(2.0 * s, &half[j * d..(j + 1) * d], &mut grad[i * d..(i + 1) * d]);
        }
        for a in 0..d {
            axpy(w[a], &bar_weight, &mut cov_bar[a * d..(a + 1) * d]);
        }
    }
}

/// `W Σ`.
fn weight_cov(linear: &Linear, cov: &[f64]) -> Vec<f64> {
    let d = linear.input;
    let mut out = vec![0.0; linear.output * d];
    for (row, w) in out.chunks_exact_mut(d).zip(linear.weight.chunks_exact(d)) {
        for a in 0..d {
            axpy(w[a], &cov[a * d..(a + 1) * d], row);
        }
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `y += a x`.
pub(super) fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{Random, assert_slices_close, random_spd, random_vec, seeded};

    fn sample(rng: &mut Random) -> (Linear, Vec<f64>, Vec<f64>) {
        (Linear::random(4, 3, rng).unwrap(), random_vec(4, rng), random_spd(4, 4, rng))
    }

    #[test]
    fn moments_are_those_written_out_by_index() {
        let (l, mean, cov) = sample(&mut seeded(1));
        let y = push(&l, &mean, &cov).unwrap();
        for i in 0..3 {
            let m: f64 = (0..4).map(|a| l.weight()[i * 4 + a] * mean[a]).sum::<f64>() + l.bias()[i];
            assert!((y.mean[i] - m).abs() < 1e-14);
            for j in 0..3 {
                let mut s = 0.0;
                for a in 0..4 {
                    for b in 0..4 {
                        s += l.weight()[i * 4 + a] * cov[a * 4 + b] * l.weight()[j * 4 + b];
                    }
                }
                assert!((y.cov[i * 3 + j] - s).abs() < 1e-14);
            }
        }
    }

    /// A point is a Gaussian without covariance, in both directions.
    #[test]
    fn points_agree_with_gaussians_of_no_width() {
        let rng = &mut seeded(2);
        let (l, mean, _) = sample(rng);
        assert_eq!(push(&l, &mean, &[0.0; 16]).unwrap().mean, at(&l, &mean));
        let out_bar = Gaussian { mean: random_vec(3, rng), cov: random_spd(3, 3, rng) };
        let (mut a, mut b) = ([0.0; 15], [0.0; 15]);
        at_pull(&mean, &out_bar.mean, &mut a);
        pull(&l, &mean, &[0.0; 16], &out_bar, &mut [0.0; 4], &mut [0.0; 16], &mut b);
        assert_slices_close(&a, &b, 0.0, 0.0);
        assert!(push(&l, &mean[1..], &[0.0; 16]).is_err() && push(&l, &mean, &[0.0; 9]).is_err());
    }
}
