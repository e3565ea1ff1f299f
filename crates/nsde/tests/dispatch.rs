//! Every instruction set gives the same moments and gradients, up to rounding.

mod common;

use common::{gaussian, network};
use nsde::{Diffusion, Gaussian, Layer, Moments, NeuralSde, Options, Precision, Rollout, Solver, Trajectory};
use nsde_check::{random_vec, seeded};
use std::process::Command;

/// Relative to the largest entry: sums run in another order, and portable code does not fuse. The derivative of the
/// paper's formula enlarges that where units are fully correlated, as all are behind a state of one dimension.
const DOUBLE: f64 = 1e-10;
const SINGLE: f64 = 1e-5;

/// In what a child process prints, the results of one problem.
const MARK: &str = "result ";

/// The process chooses its instructions once, so this test is run again by [`instruction_sets_agree`], as a child with
/// `NSDE_SIMD` set; by itself it only has to work.
#[test]
fn print_results() {
    let rng = &mut seeded(11);
    // Narrow, ragged and wide rows; batches that go side by side, with some left over.
    for (state, inputs, width) in [(1, 0, 5), (2, 0, 50), (9, 3, 33), (34, 0, 40), (70, 0, 130)] {
        let net = |rng: &mut _| network(state + inputs, &[width, width], state, &Layer::Relu, 0.8, rng);
        let sde = NeuralSde::new(state, inputs, net(rng), Diffusion::Diagonal(net(rng))).unwrap();
        let starts: Vec<Gaussian> = (0..17).map(|_| gaussian(state, 0.1, rng)).collect();
        let (dts, us) = ([0.05, 0.1], random_vec(2 * inputs, rng));
        let batch: Vec<_> = starts.iter().map(|start| Rollout { start, dts: &dts, inputs: &us }).collect();
        for moments in [Moments::default(), Moments::Paper] {
            for precision in [Precision::F64, Precision::F32] {
                let solver = Solver::new(&sde, Options { moments, precision, ..Options::default() }).unwrap();
                let sum = |_: usize, t: &Trajectory, bar: &mut Trajectory| {
                    let (mean_bar, cov_bar) = bar.at_mut(1);
                    mean_bar.fill(1.0);
                    cov_bar.fill(1.0);
                    Ok(t.mean(1).iter().chain(t.cov(1)).sum())
                };
                let name = format!("{state} {width} {moments:?} {precision:?}").replace(' ', "_");
                let show = |what: &str, x: &mut dyn Iterator<Item = f64>| {
                    let shown: Vec<String> = x.map(|x| format!("{x:e}")).collect();
                    println!("{MARK}{name}_{what} {}", shown.join(" "));
                };
                let paths = solver.solve(&batch).unwrap();
                show("mean", &mut paths.iter().flat_map(|p| p.mean(1).to_vec()));
                show("cov", &mut paths.iter().flat_map(|p| p.cov(1).to_vec()));
                let gradient = solver.gradient(&batch, sum).unwrap();
                show("gradient", &mut gradient.parameters.iter().copied());
                show("start", &mut gradient.starts.iter().flat_map(|s| s.cov.clone()));
            }
        }
    }
}

/// What a process says that uses at most these instructions.
fn results(simd: &str) -> Vec<(String, Vec<f64>)> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["print_results", "--exact", "--nocapture", "--test-threads", "1"])
        .env("NSDE_SIMD", simd)
        .output()
        .unwrap();
    assert!(child.status.success(), "{simd}: {}", String::from_utf8_lossy(&child.stderr));
    let shown = String::from_utf8(child.stdout).unwrap();
    let lines = shown.lines().filter_map(|line| line.split_once(MARK));
    lines
        .map(|(_, line)| {
            let mut words = line.split(' ');
            (words.next().unwrap().to_string(), words.map(|x| x.parse().unwrap()).collect())
        })
        .collect()
}

#[test]
fn instruction_sets_agree() {
    let best = results("");
    assert_eq!(best.len(), 5 * 2 * 2 * 4);
    for simd in ["avx2", "portable"] {
        for ((name, got), (other, want)) in results(simd).iter().zip(&best) {
            assert_eq!((name, got.len()), (other, want.len()));
            let scale = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
            let worst = got.iter().zip(want).fold(0.0, |m: f64, (g, w)| m.max((g - w).abs())) / scale;
            let allowed = if name.contains("F32") { SINGLE } else { DOUBLE };
            assert!(worst <= allowed, "{simd}, {name}: {worst:e}");
        }
    }
}
