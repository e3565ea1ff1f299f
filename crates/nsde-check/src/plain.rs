//! Moment matching as the paper writes it: one trajectory, dense matrices, every integral by quadrature.

use nalgebra::{DMatrix, DVector};

use crate::activation::{Activation, by_name};
pub use crate::flow::Flow;
use crate::flow::{matrix, rows};
use crate::quadrature::{covariance_2d, normal_expectation};

/// The affine layer `W h + b` (Eqs. 21–22); `w` is row-major with as many rows as `b`.
#[track_caller]
pub fn affine(w: &[f64], b: &[f64], h: &Flow) -> Flow {
    let w = matrix(w, b.len(), h.mean.len());
    Flow {
        mean: &w * &h.mean + DVector::from_column_slice(b),
        cov: &w * &h.cov * w.transpose(),
        jac: &w * &h.jac,
    }
}

/// Dropout `h ⊙ β / keep` with `β_i ~ Bernoulli(keep)` (Eqs. 28–31).
#[track_caller]
pub fn dropout(keep: f64, h: &Flow) -> Flow {
    assert!(0.0 < keep && keep <= 1.0, "keep = {keep} is no probability to keep");
    let mut out = h.clone();
    for i in 0..h.mean.len() {
        out.cov[(i, i)] += (1.0 - keep) / keep * (h.cov[(i, i)] + h.mean[i] * h.mean[i]);
    }
    out
}

/// The activation called `name`, on every entry: moments and Jacobian by quadrature, covariance entry by entry.
///
/// # Panics
/// When [`by_name`] does not know the name.
#[track_caller]
pub fn elementwise(h: &Flow, name: &str) -> Flow {
    match by_name(name) {
        Some(u) => elementwise_with(h, u),
        None => panic!("no activation is called {name}"),
    }
}

/// [`elementwise`] for an activation at hand.
#[track_caller]
pub fn elementwise_with(h: &Flow, u: Activation) -> Flow {
    let n = h.mean.len();
    let kinks = u.kinks();
    let expect = |i: usize, f: &dyn Fn(f64) -> f64| normal_expectation(h.mean[i], h.cov[(i, i)], kinks, f);
    let mean = DVector::from_fn(n, |i, _| expect(i, &|x| u.value(x)));
    let slope = DVector::from_fn(n, |i, _| expect(i, &|x| u.derivative(x)));
    let mut cov = DMatrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let (means, vars) = ([h.mean[i], h.mean[j]], [h.cov[(i, i)], h.cov[(j, j)]]);
            let entry = covariance_2d(means, vars, h.cov[(i, j)], kinks, |x| u.value(x), |y| u.value(y));
            cov[(i, j)] = entry;
            cov[(j, i)] = entry;
        }
    }
    Flow { mean, cov, jac: DMatrix::from_diagonal(&slope) * &h.jac }
}

/// The residual block `h + g(h)`.
///
/// `g` is handed `h` with `jac = I` and returns its moments with `G = E[∂g/∂h]`; the cross covariance
/// `Cov[h, g] = Cov[h] Gᵀ` is Stein's.
#[track_caller]
pub fn residual(h: &Flow, g: impl Fn(&Flow) -> Flow) -> Flow {
    let n = h.mean.len();
    let identity = DMatrix::identity(n, n);
    let branch = g(&Flow { jac: identity.clone(), ..h.clone() });
    let cross = &h.cov * branch.jac.transpose();
    Flow {
        mean: &h.mean + &branch.mean,
        cov: &h.cov + &branch.cov + &cross + cross.transpose(),
        jac: (identity + &branch.jac) * &h.jac,
    }
}

/// One step of BMM in the printed form (Eqs. 8, 10, 20); returns mean and row-major covariance.
///
/// ```text
/// μ' = μ + Δt a
/// Σ' = Σ + Δt² B + Δt (J Σ + Σ Jᵀ) + Δt Q
/// ```
///
/// `drift` holds `a`, `B` and `J`, that is, the drift network applied to [`Flow::start`]`(mean, cov)`;
/// `noise` is `Q = E[L Lᵀ]`, row-major.
#[track_caller]
pub fn bmm_step(mean: &[f64], cov: &[f64], drift: &Flow, noise: &[f64], dt: f64) -> (Vec<f64>, Vec<f64>) {
    let n = mean.len();
    let (cov, noise) = (matrix(cov, n, n), matrix(noise, n, n));
    let next_mean = DVector::from_column_slice(mean) + &drift.mean * dt;
    let spread = &drift.jac * &cov;
    let next_cov = &cov + &drift.cov * (dt * dt) + (&spread + spread.transpose()) * dt + noise * dt;
    (next_mean.as_slice().to_vec(), rows(&next_cov))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close_abs, assert_slices_close};
    use crate::linear;
    use crate::sampling::{normal, random_spd, random_vec, sample_moments, seeded, standard_errors, uniform};

    fn random_flow(n: usize, seed: u64) -> Flow {
        let mut rng = seeded(seed);
        Flow::start(&random_vec(n, &mut rng), &random_spd(n, n, &mut rng))
    }

    #[test]
    fn relu_meets_the_value_of_the_method_page() {
        let out = elementwise(&Flow::start(&[0.5, -0.3], &[1.0, 0.6, 0.6, 1.0]), "relu");
        assert_close_abs(out.cov[(0, 1)], 0.182_365_68, 5e-9);
    }

    #[test]
    fn identity_changes_nothing() {
        let h = random_flow(3, 1);
        let out = elementwise(&h, "identity");
        assert_slices_close(&out.cov_rows(), &h.cov_rows(), 1e-14, 1e-13);
        assert_slices_close(&out.jac_rows(), &h.jac_rows(), 1e-14, 0.0);
    }

    #[test]
    fn a_residual_of_an_affine_map_is_affine() {
        let h = random_flow(3, 2);
        let mut rng = seeded(3);
        let (mut w, b) = (random_vec(9, &mut rng), random_vec(3, &mut rng));
        let sum = residual(&h, |h| affine(&w, &b, h));
        (0..3).for_each(|i| w[i * 4] += 1.0);
        let direct = affine(&w, &b, &h);
        assert_slices_close(&sum.mean_vec(), &direct.mean_vec(), 1e-14, 1e-14);
        assert_slices_close(&sum.cov_rows(), &direct.cov_rows(), 1e-13, 1e-13);
        assert_slices_close(&sum.jac_rows(), &direct.jac_rows(), 1e-14, 1e-14);
    }

    /// One layer, dropout and residual: no approximation is involved, so samples must agree.
    #[test]
    fn one_residual_block_matches_samples() {
        let h = random_flow(2, 4);
        let out = residual(&h, |h| dropout(0.7, &elementwise(h, "tanh")));
        let root = h.cov.clone().cholesky().map(|c| c.l()).expect("the covariance has full rank");
        let (mut rng, mut samples) = (seeded(5), Vec::new());
        for _ in 0..20_000 {
            let z = [normal(&mut rng), normal(&mut rng)];
            for i in 0..2 {
                let x = h.mean[i] + root[(i, 0)] * z[0] + root[(i, 1)] * z[1];
                let kept = uniform(0.0, 1.0, &mut rng) < 0.7;
                samples.push(x + if kept { x.tanh() / 0.7 } else { 0.0 });
            }
        }
        let (mean, cov) = sample_moments(&samples, 2);
        let (of_mean, of_cov) = standard_errors(&samples, 2);
        for i in 0..2 {
            assert_close_abs(mean[i], out.mean[i], 5.0 * of_mean[i]);
        }
        for k in 0..4 {
            assert_close_abs(cov[k], out.cov[(k / 2, k % 2)], 5.0 * of_cov[k]);
        }
    }

    #[test]
    fn a_linear_drift_takes_the_euler_step() {
        let mut rng = seeded(6);
        let (a, b, l) = (random_vec(9, &mut rng), random_vec(3, &mut rng), random_vec(6, &mut rng));
        let (mean, cov) = (random_vec(3, &mut rng), random_spd(3, 3, &mut rng));
        let root = matrix(&l, 3, 2);
        let drift = affine(&a, &b, &Flow::start(&mean, &cov));
        let (next_mean, next_cov) = bmm_step(&mean, &cov, &drift, &rows(&(&root * root.transpose())), 0.1);
        let (euler_mean, euler_cov) = linear::discrete(&a, &b, &l, &mean, &cov, 0.1, 1);
        assert_slices_close(&next_mean, &euler_mean, 1e-14, 1e-14);
        assert_slices_close(&next_cov, &euler_cov, 1e-14, 1e-13);
    }
}
