//! A predictor in a control loop does not allocate, a batch keeps its memory; threads and runs do not move a bit.

mod common;

use common::{gaussian, sdes};
use nsde::{
    Diffusion, Gaussian, Layer, Linear, Method, Moments, Network, NeuralSde, Options, Rollout, Solver,
    Trajectory, Unscented,
};
use nsde_check::{random_vec, seeded};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// A counter in front of the system allocator: the one unsafe corner, and only in this test.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steady_prediction_does_not_allocate() {
    let rng = &mut seeded(73);
    for u in [Layer::Relu, Layer::Tanh, Layer::Gelu, Layer::Elu] {
        for sde in sdes(3, 1, &u, rng) {
            for (method, moments) in [
                (Method::Bmm, Moments::default()),
                (Method::Bmm, Moments::Exact),
                (Method::Bmm, Moments::Paper),
                (Method::Cubature(Unscented::default()), Moments::default()),
                (Method::MonteCarlo { samples: 10, seed: 0 }, Moments::default()),
            ] {
                let solver = Solver::new(&sde, Options { method, moments, ..Options::default() }).unwrap();
                let mut predictor = solver.predictor();
                let start = gaussian(3, 0.1, rng);
                let (dts, inputs) = ([0.1; 4], random_vec(4, rng));
                let rollout = Rollout { start: &start, dts: &dts, inputs: &inputs };
                let mut out = Trajectory::zeros(3, 4);
                predictor.predict(rollout, &mut out).unwrap();
                let first = out.clone();
                let before = ALLOCATIONS.with(Cell::get);
                for _ in 0..3 {
                    predictor.predict(rollout, &mut out).unwrap();
                }
                let after = ALLOCATIONS.with(Cell::get);
                assert_eq!(after - before, 0, "{method:?} {moments:?}");
                assert_eq!(first, out);
            }
        }
    }
}

#[test]
fn threads_and_runs_give_the_same_bits() {
    let rng = &mut seeded(79);
    for sde in sdes(3, 1, &Layer::Relu, rng) {
        let starts: Vec<Gaussian> = (0..37).map(|_| gaussian(3, 0.1, rng)).collect();
        // Different lengths, different steps, different inputs.
        let dts: Vec<Vec<f64>> = (0..37).map(|i| vec![0.05 + 0.001 * i as f64; 2 + i % 5]).collect();
        let inputs: Vec<Vec<f64>> = dts.iter().map(|d| random_vec(d.len(), rng)).collect();
        let batch: Vec<Rollout<'_>> =
            (0..37).map(|i| Rollout { start: &starts[i], dts: &dts[i], inputs: &inputs[i] }).collect();
        for method in
            [Method::Bmm, Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 9, seed: 4 }]
        {
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let solver = Solver::new(&sde, Options { method, ..Options::default() }).unwrap();
                pool.install(|| {
                    let paths = solver.solve(&batch).unwrap();
                    let gradient = solver
                        .gradient(&batch, |_, t, bar| {
                            let last = t.steps() - 1;
                            bar.at_mut(last).0.copy_from_slice(t.mean(last));
                            bar.at_mut(last).1.copy_from_slice(t.cov(last));
                            Ok(t.mean(last).iter().chain(t.cov(last)).map(|x| 0.5 * x * x).sum())
                        })
                        .unwrap();
                    let bits: Vec<u64> = gradient.parameters.iter().map(|x| x.to_bits()).collect();
                    (paths, gradient.value.to_bits(), bits, gradient.starts)
                })
            };
            let one = run(1);
            for threads in [1, 2, 3] {
                assert!(run(threads) == one, "{method:?} on {threads} threads");
            }
        }
    }
}

/// Matrices that cores share, transposed Jacobians (from 64 dimensions on) and all that a first layer can be. The path that
/// is recorded for a gradient knows nothing of these: it must agree up to rounding.
#[test]
fn a_wide_trajectory_has_the_same_bits_on_any_number_of_threads() {
    let rng = &mut seeded(80);
    let dim = 128;
    let linear = |rng: &mut _| Layer::Linear(Linear::random(dim, dim, rng).unwrap());
    let inner = Network::perceptron(dim, &[dim], dim, Layer::Tanh, 1.0, rng).unwrap();
    for first in
        [vec![linear(rng)], vec![Layer::Tanh], vec![Layer::Residual(inner), Layer::Dropout { keep: 0.9 }]]
    {
        let layers =
            first.into_iter().chain([Layer::Relu, Layer::Dropout { keep: 0.8 }, linear(rng)]).collect();
        let diffusion = Network::perceptron(dim, &[20], dim, Layer::Relu, 0.8, rng).unwrap();
        let drift = Network::new(dim, layers).unwrap();
        let sde = NeuralSde::new(dim, 0, drift, Diffusion::Diagonal(diffusion)).unwrap();
        let start = gaussian(dim, 0.1, rng);
        let batch = [Rollout { start: &start, dts: &[0.1, 0.05], inputs: &[] }];
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let solver = Solver::new(&sde, Options::default()).unwrap();
            pool.install(|| {
                let path = solver.solve(&batch).unwrap().remove(0);
                let gradient = solver.gradient(&batch, |_, t, bar| {
                    for (a, b) in t.cov(1).iter().chain(t.mean(1)).zip(path.cov(1).iter().chain(path.mean(1)))
                    {
                        assert!((a - b).abs() < 1e-12, "recorded {a}, predicted {b}");
                    }
                    bar.at_mut(1).1.copy_from_slice(t.cov(1));
                    Ok(0.0)
                });
                let gradient = gradient.unwrap();
                let bits: Vec<u64> = gradient.parameters.iter().map(|x| x.to_bits()).collect();
                (path, bits, gradient.starts)
            })
        };
        let one = run(1);
        for threads in [2, 3] {
            assert!(run(threads) == one, "{threads} threads");
        }
    }
}

#[test]
fn a_batch_into_used_memory_is_the_same_and_keeps_the_memory() {
    let rng = &mut seeded(74);
    for sde in sdes(3, 1, &Layer::Relu, rng) {
        let solver = Solver::new(&sde, Options::default()).unwrap();
        let start = gaussian(3, 0.1, rng);
        let inputs = random_vec(5, rng);
        let batch = |count: usize, steps: usize| {
            vec![Rollout { start: &start, dts: &[0.1; 5][..steps], inputs: &inputs[..steps] }; count]
        };
        let mut out = Vec::new();
        // Fewer, more, shorter and longer ones than there is memory of.
        for (count, steps) in [(9, 4), (3, 4), (11, 2), (11, 5)] {
            let batch = batch(count, steps);
            solver.solve_into(&batch, &mut out).unwrap();
            assert_eq!(out, solver.solve(&batch).unwrap());
        }
        let batch = batch(11, 5);
        let place = out[0].mean(0).as_ptr();
        solver.solve_into(&batch, &mut out).unwrap();
        assert_eq!(out[0].mean(0).as_ptr(), place);
    }
}
