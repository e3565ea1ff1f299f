//! The vectorised formula against the scalar one, written out.

use super::*;
use crate::kernel::Single;
use crate::layer::smoothed::PairRest;

/// Below this `u² = (ρ/(1+ρ̄))²` the quotients are 0/0 and a series serves.
const SERIES: f64 = 0.02;

/// One entry beyond the linear term from `(mean, sd)` of both, with its partials: arctangent and all,
/// with `G = 2 atan(u)/u − 1` and `c/u = H`: `g = uG`, `q = (α_i²+α_j²)/2G − c α_iα_j`.
fn reference(a: (f64, f64), b: (f64, f64), rho: f64, partials: bool) -> PairRest {
    let ((m_i, sd_i), (m_j, sd_j)) = (a, b);
    let (a_i, a_j) = (m_i / sd_i, m_j / sd_j);
    if a_i.abs() > TAIL || a_j.abs() > TAIL {
        return PairRest::default();
    }
    let rho = rho.clamp(-1.0, 1.0);
    let bar = ((1.0 - rho) * (1.0 + rho)).sqrt();
    let u = rho / (1.0 + bar);
    let x = u * u;
    // G(x) and c/u = H(x), with their derivatives in x.
    let (g, g_x, h, h_x) = if x < SERIES {
        // G = 1 + 2Σ_{k≥1} (−x)ᵏ/(2k+1);  ((1+x)(G+1) − 2)/x = 4 Σ_{k≥0} (−x)ᵏ/((2k+1)(2k+3)).
        let (mut g, mut g_x, mut n, mut n_x) = (1.0, 0.0, 0.0, 0.0);
        let mut power = 1.0; // (−x)ᵏ
        let mut lower = 0.0; // −(−x)ᵏ⁻¹, its derivative over k
        for k in 0..12 {
            let kf = k as f64;
            if k > 0 {
                g += 2.0 * power / (2.0 * kf + 1.0);
                g_x += 2.0 * kf * lower / (2.0 * kf + 1.0);
            }
            let weight = 4.0 / ((2.0 * kf + 1.0) * (2.0 * kf + 3.0));
            n += weight * power;
            n_x += weight * kf * lower;
            lower = -power;
            power *= -x;
        }
        (g, g_x, 0.5 * n / g, 0.5 * (n_x * g - n * g_x) / (g * g))
    } else {
        let root = u.abs();
        let g = 2.0 * root.atan() / root - 1.0;
        let g_x = (1.0 / (1.0 + x) - 0.5 * (g + 1.0)) / x;
        let n = ((1.0 + x) * (g + 1.0) - 2.0) / x;
        let n_x = ((g + 1.0) + (1.0 + x) * g_x - n) / x;
        (g, g_x, 0.5 * n / g, 0.5 * (n_x * g - n * g_x) / (g * g))
    };
    let (squares, product) = (a_i * a_i + a_j * a_j, a_i * a_j);
    let q = 0.5 * squares / g - u * h * product;
    let tail = (-q).exp() / (2.0 * PI);
    let unit = rho * u * g * tail;
    let mut out = PairRest { value: sd_i * sd_j * unit, ..Default::default() };
    if partials {
        let safe = ((1.0 - rho.abs().min(RHO_MAX)) * (1.0 + rho.abs().min(RHO_MAX))).sqrt();
        let u_rho = 1.0 / (safe * (1.0 + safe));
        let x_rho = 2.0 * u * u_rho;
        let q_rho = -0.5 * squares / (g * g) * g_x * x_rho - (u_rho * h + u * h_x * x_rho) * product;
        // d(ρg)/dρ = asin ρ = u(G + 1)
        let d_rho = u * (g + 1.0) * tail - unit * q_rho;
        let d_a = |here: f64, other: f64| -unit * (here / g - u * h * other);
        let (d_i, d_j) = (d_a(a_i, a_j), d_a(a_j, a_i));
        out.d_cov = d_rho;
        out.d_mean = [sd_j * d_i, sd_i * d_j];
        // σ_iσ_j K(α_i, α_j, ρ) at fixed covariance: ∂/∂σ_i² = σ_j/(2σ_i) (K − α_i K_α − ρ K_ρ).
        out.d_var = [
            0.5 * sd_j / sd_i * (unit - a_i * d_i - rho * d_rho),
            0.5 * sd_i / sd_j * (unit - a_j * d_j - rho * d_rho),
        ];
    }
    out
}

const ALPHA: [f64; 9] = [-5.0, -1.3125, -0.25, 0.0, 0.375, 1.0, 2.75, 40.0, -41.0];
const SD: [f64; 4] = [1.0, 0.0, 0.5, 4.0];
const RHO: [f64; 17] = [
    0.0, 1e-12, -1e-5, 0.01, 0.1, -0.25, 0.28, 0.3, -0.5, 0.8, -0.95, 0.999, -0.999998, 0.9999995, 1.0, -1.0,
    1.00001,
];
const KINK: f64 = 0.75;

/// Everything over a grid against [`reference`], relative to the sum of absolute values.
struct Check<T> {
    tolerance: f64,
    real: std::marker::PhantomData<T>,
}

impl<T: Single> WithSimd for Check<T> {
    type Output = ();

    fn with_simd<S: Simd>(self, simd: S) {
        let n = ALPHA.len() * SD.len();
        // Powers of two, so that ρ itself is not rounded: near ±1 that would count a thousandfold.
        let sd: Vec<f64> = (0..n).map(|i| SD[i % SD.len()]).collect();
        let mean: Vec<f64> =
            (0..n).map(|i| ALPHA[i / SD.len()] * if sd[i] > 0.0 { sd[i] } else { 1.0 }).collect();
        let mut units = Units::<T>::zeros(n);
        let number = |x: &[f64]| x.iter().map(|x| T::of(*x)).collect::<Vec<T>>();
        units.set(&number(&mean), &number(&sd));
        let slope: Vec<T> = (0..padded::<T>(n)).map(|i| T::of(0.125 * (i % 5) as f64)).collect();
        let close = |x: T, y: f64, size: f64, what: &str| {
            let off = (x.f64() - y).abs();
            assert!(off <= self.tolerance * size, "{what}: {x:?} for {y}, {} of {size}", off / size);
        };
        for shift in 0..RHO.len() {
            let rho = |i: usize, j: usize| T::of(RHO[(i + 3 * j + shift) % RHO.len()]).f64();
            let bars = |i: usize, j: usize| ((i * j + i + j) % 7) as f64 - 2.5;
            let fill = |f: &dyn Fn(usize, usize) -> f64| {
                let values: Vec<f64> = (0..n * n).map(|k| f(k / n, k % n)).collect();
                Mat::<T>::from_f64(n, n, &values)
            };
            let cov = fill(&|i, j| rho(i.max(j), i.min(j)) * sd[i] * sd[j]);
            let resid = fill(&|i, j| (i + j) as f64 / 16.0);
            let out_bar = fill(&|i, j| bars(i.max(j), i.min(j)));
            let mut out = Mat::<T>::zeros(n, n);
            let mut cov_bar = fill(&|_, _| f64::NAN);
            let mut bare = Mat::<T>::zeros(n, n);
            let resid_at = Some(&resid);
            Push { out: &mut out, cov: &cov, resid: resid_at, slope: &slope, kink: KINK, units: &mut units }
                .with_simd(simd);
            Push { out: &mut bare, cov: &cov, resid: None, slope: &slope, kink: KINK, units: &mut units }
                .with_simd(simd);
            units.sums.fill_zero();
            Pull { cov_bar: &mut cov_bar, out_bar: &out_bar, cov: &cov, kink: KINK, units: &mut units }
                .with_simd(simd);
            let (mut mean_bar, mut var_bar) = (vec![T::ONE; n], vec![T::ONE; n]);
            units.finish(&mut mean_bar, &mut var_bar, KINK);
            // Value and size of what is summed; one was there before.
            let mut sums = vec![[(1.0, 1.0); 2]; n];
            for i in 0..n {
                assert_eq!(cov_bar.at(i, i), T::ZERO);
                for j in 0..i {
                    let pair = if sd[i] == 0.0 || sd[j] == 0.0 {
                        PairRest::default()
                    } else {
                        reference((mean[i], sd[i]), (mean[j], sd[j]), rho(i, j), true)
                    };
                    let square = KINK * KINK;
                    let here = format!("α {} {}, ρ {}", mean[i] / sd[i], mean[j] / sd[j], rho(i, j));
                    let size = sd[i] * sd[j];
                    close(bare.at(i, j), square * pair.value, size, &here);
                    let linear = slope[i].f64() * slope[j].f64() * resid.at(i, j).f64();
                    close(out.at(i, j), linear + square * pair.value, size + linear, &here);
                    let bar = square * out_bar.at(i, j).f64();
                    close(cov_bar.at(i, j), bar * pair.d_cov, bar.abs() * (1.0 + pair.d_cov.abs()), &here);
                    for (unit, side, other) in [(i, 0, j), (j, 1, i)] {
                        let ratio = if sd[unit] > 0.0 { sd[other] / sd[unit] } else { 0.0 };
                        let parts = [(pair.d_mean[side], sd[other]), (pair.d_var[side], ratio)];
                        for ((value, size), (x, scale)) in sums[unit].iter_mut().zip(parts) {
                            *value += 2.0 * bar * x;
                            *size += 2.0 * bar.abs() * (x.abs() + scale);
                        }
                    }
                }
            }
            for i in 0..n {
                close(mean_bar[i], sums[i][0].0, sums[i][0].1, "mean");
                close(var_bar[i], sums[i][1].0, sums[i][1].1, "variance");
            }
        }
    }
}

#[test]
fn entries_and_adjoint_match_the_formula_on_every_instruction_set() {
    let double = || Check::<f64> { tolerance: 1e-12, real: std::marker::PhantomData };
    let single = || Check::<f32> { tolerance: 1e-5, real: std::marker::PhantomData };
    pulp::Arch::new().dispatch(double());
    double().with_simd(pulp::Scalar);
    pulp::Arch::new().dispatch(single());
    single().with_simd(pulp::Scalar);
}
