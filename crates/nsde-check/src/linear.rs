//! The linear SDE `dx = (A x + b) dt + L dw`, whose moments are known: in Euler steps, and in continuous time.

use nalgebra::{DMatrix, DVector};

use crate::flow::{matrix, rows};

/// Largest `‖A‖ t` for which one matrix exponential is taken; longer times are doubled up from it.
const SHORT: f64 = 0.5;

/// Mean and row-major covariance after `steps` steps of Euler–Maruyama of size `dt`.
///
/// ```text
/// μ' = (I + Δt A) μ + Δt b        Σ' = (I + Δt A) Σ (I + Δt A)ᵀ + Δt L Lᵀ
/// ```
///
/// `a` is n × n and `l` n × m for any m ≥ 0, row-major, with n the length of `mean`.
#[track_caller]
pub fn discrete(
    a: &[f64],
    b: &[f64],
    l: &[f64],
    mean: &[f64],
    cov: &[f64],
    dt: f64,
    steps: usize,
) -> (Vec<f64>, Vec<f64>) {
    let n = mean.len();
    let step = Transition {
        linear: DMatrix::identity(n, n) + matrix(a, n, n) * dt,
        shift: DVector::from_column_slice(b) * dt,
        noise: noise(l, n) * dt,
    };
    let (mut m, mut c) = (DVector::from_column_slice(mean), matrix(cov, n, n));
    for _ in 0..steps {
        (m, c) = step.apply(&m, &c);
    }
    (m.as_slice().to_vec(), rows(&c))
}

/// Mean and row-major covariance of the exact law at time `t`, arguments as in [`discrete`].
///
/// Van Loan: the noise of a short time is a block of a matrix exponential. The law of a long time is that of
/// `t/2^k`, composed with itself k times, which stays stable where the exponential of `−A t` would not.
#[track_caller]
pub fn continuous(
    a: &[f64],
    b: &[f64],
    l: &[f64],
    mean: &[f64],
    cov: &[f64],
    t: f64,
) -> (Vec<f64>, Vec<f64>) {
    let n = mean.len();
    let (a, b, noise) = (matrix(a, n, n), DVector::from_column_slice(b), noise(l, n));
    let doublings = halvings(norm(&a) * t.abs(), SHORT);
    let short = t / 2f64.powi(doublings);

    // exp(h [A Q; 0 −Aᵀ]) = [F G; 0 F⁻ᵀ], and the noise is G Fᵀ.
    let mut block = DMatrix::zeros(2 * n, 2 * n);
    block.view_mut((0, 0), (n, n)).copy_from(&a);
    block.view_mut((0, n), (n, n)).copy_from(&noise);
    block.view_mut((n, n), (n, n)).copy_from(&-a.transpose());
    let van_loan = expm(&(block * short));
    // exp(h [A b; 0 0]) = [F ∫F b; 0 1].
    let mut bordered = DMatrix::zeros(n + 1, n + 1);
    bordered.view_mut((0, 0), (n, n)).copy_from(&a);
    bordered.view_mut((0, n), (n, 1)).copy_from(&b);
    let border = expm(&(bordered * short));

    let linear = van_loan.view((0, 0), (n, n)).into_owned();
    let mut law = Transition {
        noise: van_loan.view((0, n), (n, n)) * linear.transpose(),
        shift: border.view((0, n), (n, 1)).column(0).into_owned(),
        linear,
    };
    for _ in 0..doublings {
        let (shift, noise) = law.apply(&law.shift, &law.noise);
        law = Transition { linear: &law.linear * &law.linear, shift, noise };
    }
    let (m, c) = law.apply(&DVector::from_column_slice(mean), &matrix(cov, n, n));
    (m.as_slice().to_vec(), rows(&((&c + c.transpose()) * 0.5)))
}

/// `x' = linear · x + shift + N(0, noise)`.
struct Transition {
    linear: DMatrix<f64>,
    shift: DVector<f64>,
    noise: DMatrix<f64>,
}

impl Transition {
    /// Moments after the transition.
    fn apply(&self, mean: &DVector<f64>, cov: &DMatrix<f64>) -> (DVector<f64>, DMatrix<f64>) {
        let next_mean = &self.linear * mean + &self.shift;
        (next_mean, &self.linear * cov * self.linear.transpose() + &self.noise)
    }
}

/// `L Lᵀ` for an L of n rows.
#[track_caller]
fn noise(l: &[f64], n: usize) -> DMatrix<f64> {
    let l = matrix(l, n, l.len() / n);
    &l * l.transpose()
}

/// Largest absolute row sum.
fn norm(m: &DMatrix<f64>) -> f64 {
    m.row_iter().map(|row| row.iter().map(|x| x.abs()).sum()).fold(0.0, f64::max)
}

/// How often `size` must be halved to be at most `limit`.
fn halvings(size: f64, limit: f64) -> i32 {
    (size / limit).log2().ceil().max(0.0) as i32
}

/// The matrix exponential: Taylor series of a scaled matrix, squared back.
fn expm(m: &DMatrix<f64>) -> DMatrix<f64> {
    let n = m.nrows();
    let squarings = halvings(norm(m), 0.5);
    let small = m / 2f64.powi(squarings);
    let mut term = DMatrix::identity(n, n);
    let mut sum = term.clone();
    // 0.5^k / k! is below rounding at k = 16.
    for k in 1..=18 {
        term = &term * &small / k as f64;
        sum += &term;
    }
    for _ in 0..squarings {
        sum = &sum * &sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close, assert_close_abs, assert_slices_close};
    use crate::sampling::{random_spd, random_vec, seeded};

    /// dx = (b − θ x) dt + s dw.
    fn ornstein_uhlenbeck(theta: f64, b: f64, s: f64, mean: f64, var: f64, t: f64) -> [f64; 2] {
        let decay = (-theta * t).exp();
        [
            decay * mean + b / theta * (1.0 - decay),
            decay * decay * var + s * s / (2.0 * theta) * (1.0 - decay * decay),
        ]
    }

    #[test]
    fn ornstein_uhlenbeck_is_met_at_short_and_long_times() {
        for t in [1e-6, 0.3, 4.0, 300.0] {
            let [mean, var] = ornstein_uhlenbeck(1.3, 0.4, 0.7, 2.0, 0.5, t);
            let law = continuous(&[-1.3], &[0.4], &[0.7], &[2.0], &[0.5], t);
            assert_close(law.0[0], mean, 1e-13);
            assert_close(law.1[0], var, 1e-13);
        }
    }

    #[test]
    fn a_rotation_turns() {
        let t = 2.7;
        let (mean, cov) =
            continuous(&[0.0, 1.0, -1.0, 0.0], &[0.0; 2], &[1.0, 0.0, 0.0, 1.0], &[1.0, 0.0], &[0.0; 4], t);
        assert_slices_close(&mean, &[t.cos(), -t.sin()], 1e-14, 0.0);
        assert_slices_close(&cov, &[t, 0.0, 0.0, t], 1e-14, 1e-14);
    }

    #[test]
    fn no_drift_is_brownian_motion() {
        let (mean, cov) = continuous(&[0.0], &[2.0], &[3.0], &[1.0], &[0.5], 4.0);
        assert_close(mean[0], 9.0, 1e-15);
        assert_close(cov[0], 36.5, 1e-15);
    }

    #[test]
    fn the_exact_law_is_a_semigroup() {
        let mut rng = seeded(1);
        let (a, b, l) = (random_vec(9, &mut rng), random_vec(3, &mut rng), random_vec(6, &mut rng));
        let (mean, cov) = (random_vec(3, &mut rng), random_spd(3, 3, &mut rng));
        let (m, c) = continuous(&a, &b, &l, &mean, &cov, 0.4);
        let (m, c) = continuous(&a, &b, &l, &m, &c, 0.7);
        let (mean, cov) = continuous(&a, &b, &l, &mean, &cov, 1.1);
        assert_slices_close(&m, &mean, 1e-13, 1e-13);
        assert_slices_close(&c, &cov, 1e-13, 1e-13);
    }

    #[test]
    fn euler_converges_with_order_one() {
        let (a, b, l) = ([-0.5, 1.0, -1.0, -0.3], [0.2, 0.1], [0.4, 0.0, 0.1, 0.3]);
        let (mean, cov) = ([1.0, -1.0], [0.1, 0.0, 0.0, 0.2]);
        let (_, exact) = continuous(&a, &b, &l, &mean, &cov, 1.0);
        let error = |steps: usize| {
            let (_, cov) = discrete(&a, &b, &l, &mean, &cov, 1.0 / steps as f64, steps);
            (cov[0] - exact[0]).abs()
        };
        assert_close_abs((error(200) / error(400)).log2(), 1.0, 0.05);
    }
}
