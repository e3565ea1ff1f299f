//! Kernels over widths and batches, forward and forward + backward: `cargo bench -p nsde`.
//!
//! `cargo bench -p nsde -- quick` runs a subset for everyday use.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nsde::{
    Diffusion, Gaussian, Layer, Method, Moments, Network, NeuralSde, Options, Precision, Rollout, Solver,
    Trajectory, Unscented,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Duration;

fn sde(dim: usize, width: usize) -> NeuralSde {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let drift = Network::perceptron(dim, &[width, width], dim, Layer::Relu, 0.8, rng).unwrap();
    let noise = Network::perceptron(dim, &[width], dim, Layer::Relu, 0.8, rng).unwrap();
    NeuralSde::new(dim, 0, drift, Diffusion::Diagonal(noise)).unwrap()
}

fn bench(
    c: &mut Criterion,
    name: &str,
    dim: usize,
    width: usize,
    batch: usize,
    steps: usize,
    options: Options,
) {
    let sde = sde(dim, width);
    let solver = Solver::new(&sde, options).unwrap();
    let start = Gaussian::isotropic(vec![0.3; dim], 0.1).unwrap();
    let dts = vec![0.05; steps];
    let rollouts = vec![Rollout { start: &start, dts: &dts, inputs: &[] }; batch];
    let mut group = c.benchmark_group(name);
    group.sample_size(10).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200));
    let id = format!("D{dim}_H{width}_B{batch}_K{steps}");
    group.bench_function(BenchmarkId::new("forward", &id), |b| b.iter(|| solver.solve(&rollouts).unwrap()));
    let last = |_: usize, t: &Trajectory, bar: &mut Trajectory| {
        let k = t.steps() - 1;
        bar.at_mut(k).0.fill(1.0);
        bar.at_mut(k).1.fill(1.0);
        Ok(t.mean(k).iter().chain(t.cov(k)).sum())
    };
    group.bench_function(BenchmarkId::new("gradient", &id), |b| {
        b.iter(|| solver.gradient(&rollouts, last).unwrap());
    });
    group.finish();
}

fn kernels(c: &mut Criterion) {
    let single = Options { precision: Precision::F32, ..Options::default() };
    bench(c, "quick_bmm", 2, 50, 16, 10, Options::default());
    for width in [10, 50, 100, 128, 512] {
        for batch in [1, 16, 32] {
            bench(c, "bmm_series_f64", 8, width, batch, 2, Options::default());
            bench(c, "bmm_series_f32", 8, width, batch, 2, single);
        }
    }
    for width in [10, 50, 100] {
        for moments in [Moments::Exact, Moments::Paper] {
            let name = format!("bmm_{moments:?}").to_lowercase();
            bench(c, &name, 8, width, 16, 2, Options { moments, ..Options::default() });
        }
        for method in [Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 64, seed: 1 }] {
            let name = if matches!(method, Method::Cubature(_)) { "cubature" } else { "monte_carlo_64" };
            bench(c, name, 8, width, 16, 2, Options { method, ..Options::default() });
        }
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
