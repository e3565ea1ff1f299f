//! Positive semi-definiteness: 100,000 random steps, from the harmless to the absurd.

mod common;

use common::activations;
use nsde::{
    CovarianceForm, Diffusion, Gaussian, Layer, Linear, Moments, Network, NeuralSde, Options, Rollout, Solver,
};
use nsde_check::{psd_ratio, random_vec, sampling::uniform, seeded};
use rand::Rng;
use rayon::prelude::*;

fn pick<'a, T>(items: &'a [T], rng: &mut impl Rng) -> &'a T {
    &items[(rng.next_u32() as usize) % items.len()]
}

/// A covariance: full rank, rank one, zero, correlation ±1; variances from 1e-300 to 1e8.
fn covariance(d: usize, rng: &mut impl Rng) -> Vec<f64> {
    let deviation: Vec<f64> = match rng.next_u32() % 4 {
        // all ordinary
        0 => (0..d).map(|_| uniform(0.1, 2.0, rng)).collect(),
        // all the same, of any size
        1 => vec![10f64.powf(0.5 * uniform(-300.0, 8.0, rng)); d],
        // each of its own size
        2 => (0..d).map(|_| 10f64.powf(0.5 * uniform(-300.0, 8.0, rng))).collect(),
        _ => (0..d).map(|_| 10f64.powf(0.5 * uniform(-12.0, 8.0, rng))).collect(),
    };
    let rank = *pick(&[0, 1, 1, d, d, d], rng);
    let root: Vec<f64> = match rng.next_u32() % 3 {
        // correlations exactly ±1
        0 => {
            (0..d * rank.min(1)).map(|_| if rng.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 }).collect()
        }
        _ => random_vec(d * rank, rng),
    };
    let rank = root.len() / d.max(1);
    let mut cov = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..=i {
            let dot: f64 = (0..rank).map(|k| root[i * rank + k] * root[j * rank + k]).sum();
            cov[i * d + j] = dot * deviation[i] * deviation[j];
            cov[j * d + i] = cov[i * d + j];
        }
    }
    cov
}

fn random_network(input: usize, output: usize, rng: &mut impl Rng) -> Network {
    let depth = 1 + rng.next_u32() % 4;
    let mut layers = Vec::new();
    let mut width = input;
    let dense = |from: usize, to: usize, rng: &mut dyn Rng| {
        let scale = 10f64.powf(uniform(-1.0, 1.0, &mut &mut *rng)) / (from as f64).sqrt();
        let mut values = |n: usize| (0..n).map(|_| scale * uniform(-1.7, 1.7, &mut &mut *rng)).collect();
        let (w, b) = (values(from * to), values(to));
        Layer::Linear(Linear::new(from, to, w, b).unwrap())
    };
    for _ in 0..depth {
        // Narrow ones are cheap and as treacherous; a tenth of them goes to 64.
        let next = 1 + rng.next_u32() as usize % if rng.next_u32().is_multiple_of(10) { 64 } else { 12 };
        layers.push(dense(width, next, rng));
        width = next;
        layers.push(pick(&activations(), rng).clone());
        if rng.next_u32().is_multiple_of(3) {
            layers.push(Layer::Dropout { keep: uniform(0.1, 1.0, rng) });
        }
        if rng.next_u32().is_multiple_of(6) {
            let inner =
                Network::new(width, vec![dense(width, width, rng), pick(&activations(), rng).clone()])
                    .unwrap();
            layers.push(Layer::Residual(inner));
        }
    }
    layers.push(dense(width, output, rng));
    Network::new(input, layers).unwrap()
}

/// Products of numbers below this are subnormal: nothing is left of their relative accuracy.
const SUBNORMAL: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// Runs `count` random single steps; returns the worst ratio of smallest to largest eigenvalue.
fn torture(count: usize, moments: Moments, seed: u64) -> f64 {
    torture_with(count, Options { moments, ..Options::default() }, seed)
}

/// In parts of a thousand steps, each with a stream of its own, shared over the cores.
fn torture_with(count: usize, options: Options, seed: u64) -> f64 {
    const PART: usize = 1000;
    let part = |p: usize| torture_part(PART.min(count - p * PART), options, (seed << 32) + p as u64);
    (0..count.div_ceil(PART)).into_par_iter().map(part).reduce(|| 0.0, f64::min)
}

fn torture_part(count: usize, options: Options, seed: u64) -> f64 {
    let moments = options.moments;
    let rng = &mut seeded(seed);
    let mut worst = 0.0_f64;
    for case in 0..count {
        let d = 1 + rng.next_u32() as usize % 5;
        let diffusion = match rng.next_u32() % 3 {
            0 => Diffusion::None,
            1 => Diffusion::Diagonal(random_network(d, d, rng)),
            _ => Diffusion::Full(random_network(d, d * (d + 1) / 2, rng)),
        };
        let sde = NeuralSde::new(d, 0, random_network(d, d, rng), diffusion).unwrap();
        let far = 10f64.powf(uniform(-2.0, 5.0, rng));
        let mean = random_vec(d, rng).iter().map(|x| far * x).collect();
        let start = Gaussian { mean, cov: covariance(d, rng) };
        let dt = 10f64.powf(uniform(-3.0, 0.0, rng));
        let solver = Solver::new(&sde, options).unwrap();
        match solver.solve(&[Rollout { start: &start, dts: &[dt], inputs: &[] }]) {
            Ok(t) => {
                let cov = t[0].cov(0);
                assert!(t[0].mean(0).iter().chain(cov).all(|x| x.is_finite()), "case {case}");
                let ratio = psd_ratio(cov, d);
                // Subnormal numbers have no digits left to judge.
                if cov.iter().all(|c| c.abs() < SUBNORMAL) {
                    continue;
                }
                assert!(
                    ratio >= -1e-12,
                    "case {case} {moments:?}: smallest eigenvalue is {ratio:e} of the largest: {sde:?} from {start:?}"
                );
                worst = worst.min(ratio);
            }
            Err(e) => panic!("case {case}: {e}"),
        }
    }
    worst
}

/// Steps per mode: `NSDE_STEPS`, or what a test run can afford.
fn steps(default: usize) -> usize {
    std::env::var("NSDE_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn series_steps_stay_positive_semidefinite() {
    println!("series: worst ratio {:e}", torture(steps(50_000), Moments::default(), 1));
}

#[test]
fn series_steps_stay_positive_semidefinite_with_another_seed() {
    println!("series: worst ratio {:e}", torture(steps(50_000), Moments::default(), 4));
}

/// Fewer steps than the series by default, because each costs twenty times as much.
#[test]
fn exact_steps_stay_positive_semidefinite() {
    println!("exact: worst ratio {:e}", torture(steps(4_000), Moments::Exact, 2));
}

#[test]
fn structured_and_diagonal_steps_stay_positive_semidefinite() {
    for covariance in [CovarianceForm::Structured, CovarianceForm::Diagonal] {
        torture_with(10_000, Options { covariance, ..Options::default() }, 5);
    }
}

#[test]
fn few_and_many_terms_stay_positive_semidefinite() {
    for terms in [1, 2, 3, 20] {
        torture(1000, Moments::Series { terms }, 3);
    }
}
