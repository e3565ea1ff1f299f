//! Training: gradients of every objective, descent from many seeds, resumption, recovery of known laws.

use nsde::data::{Dataset, Series};
use nsde::simulate::{Recording, spiral};
use nsde::train::{
    Architecture, ForecastTask, Objective, Progress, Task, TrainOptions, TrainState, WindowOptions, advance,
    load_checkpoint, save_checkpoint,
};
use nsde::{Method, NeuralSde, Options, Scaling, Unscented};
use nsde_check::{directional, random_vec, sampling::uniform, seeded};

fn recording(paths: usize, rows: usize, seed: u64) -> Recording {
    Recording { paths, rows, spacing: 0.1, substeps: 20, seed }
}

/// Throws away rows at random (irregular times) and single values (missing).
fn thin(data: &mut Dataset, rows: f64, values: f64, seed: u64) {
    let rng = &mut seeded(seed);
    for s in &mut data.series {
        let mut kept = Series { name: s.name.clone(), times: vec![], values: vec![], inputs: vec![] };
        for n in 0..s.rows() {
            if n == 0 || uniform(0.0, 1.0, rng) >= rows {
                kept.times.push(s.times[n]);
                for x in &s.values[2 * n..2 * n + 2] {
                    kept.values.push(if uniform(0.0, 1.0, rng) < values { f64::NAN } else { *x });
                }
            }
        }
        *s = kept;
    }
}

fn unit() -> Scaling {
    Scaling::new(vec![0.1, -0.2], vec![0.4, 0.3]).unwrap()
}

fn task(
    data: &Dataset,
    held: Option<&Dataset>,
    options: Options,
    objective: Objective,
    horizons: &[usize],
    how: &Architecture,
    seed: u64,
) -> ForecastTask {
    let noise: &[f64] = &[1.0, 1.2];
    let sde = how.build(2, 0, noise, seed).unwrap();
    let cut = WindowOptions { horizon: 1, max_dt: 0.1, init_var: 1e-6, stride: 1 };
    ForecastTask::new(sde, options, objective, data, held, &unit(), None, horizons, &cut).unwrap()
}

fn small() -> Architecture {
    Architecture {
        hidden: vec![8],
        noise_hidden: vec![4],
        activation: "tanh".into(),
        ..Architecture::default()
    }
}

#[test]
fn every_objective_has_the_gradient_of_its_loss() {
    let mut data = spiral(recording(6, 12, 1));
    thin(&mut data, 0.3, 0.2, 2);
    let kernels =
        [Method::Bmm, Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 9, seed: 1 }];
    for method in kernels {
        for objective in [Objective::Likelihood, Objective::SquaredError] {
            for diffusion in ["diagonal", "full", "constant", "none"] {
                if diffusion == "none" && objective == Objective::Likelihood {
                    continue;
                }
                let how = Architecture { diffusion: diffusion.into(), ..small() };
                let task =
                    task(&data, None, Options { method, ..Options::default() }, objective, &[1, 4], &how, 3);
                let p = task.parameters();
                for stage in 0..2 {
                    let mut gradient = vec![0.0; p.len()];
                    let examples = [0, 3, 5];
                    task.gradient(&p, stage, &examples, 7, &mut gradient).unwrap();
                    let v = random_vec(p.len(), &mut seeded(5));
                    let slope = directional(
                        |eps| {
                            let moved: Vec<f64> = p.iter().zip(&v).map(|(a, b)| a + eps * b).collect();
                            task.gradient(&moved, stage, &examples, 7, &mut vec![0.0; p.len()]).unwrap()
                        },
                        1e-5,
                    );
                    let pulled: f64 = gradient.iter().zip(&v).map(|(a, b)| a * b).sum();
                    assert!(
                        (slope - pulled).abs() < 1e-6 * (slope.abs() + 0.1),
                        "{method:?} {objective:?} {diffusion} stage {stage}: differences {slope}, adjoint {pulled}"
                    );
                }
            }
        }
    }
}

fn run(task: &ForecastTask, options: &TrainOptions, state: &mut TrainState) {
    while let Progress::Step { .. } = advance(task, options, task.stages(), state).unwrap() {}
}

#[test]
fn training_descends_from_ten_seeds_without_a_bad_step() {
    let data = spiral(recording(8, 30, 3));
    for seed in 0..10 {
        let task = task(
            &data,
            None,
            Options::default(),
            Objective::Likelihood,
            &[5],
            &Architecture::default(),
            seed,
        );
        let options =
            TrainOptions { steps: 120, validate_every: 20, batch: 8, seed, ..TrainOptions::default() };
        let mut state = TrainState::new(task.parameters());
        run(&task, &options, &mut state);
        let (first, last) = (state.history[0].loss, state.history[5].loss);
        assert!(last < first, "seed {seed}: {first} to {last}");
        assert_eq!(state.skipped, 0, "seed {seed}");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let data = spiral(recording(8, 20, 3));
    let (train, held) = data.split_tail(0.25).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.checkpoint");
    for method in [Method::Bmm, Method::MonteCarlo { samples: 8, seed: 1 }] {
        let task = || {
            task(
                &train,
                Some(&held),
                Options { method, ..Options::default() },
                Objective::Likelihood,
                &[1, 3],
                &small(),
                1,
            )
        };
        let options = TrainOptions { steps: 40, validate_every: 7, batch: 4, ..TrainOptions::default() };
        let mut whole = TrainState::new(task().parameters());
        run(&task(), &options, &mut whole);
        for stop in [1, 13, 20, 39] {
            let mut state = TrainState::new(task().parameters());
            while state.step < stop {
                advance(&task(), &options, 2, &mut state).unwrap();
            }
            save_checkpoint(&file, "x", &state).unwrap();
            let mut again = load_checkpoint(&file, "x", state.parameters.len()).unwrap();
            run(&task(), &options, &mut again);
            assert_eq!(again, whole, "{method:?}, stopped at {stop}");
        }
    }
}

/// The stationary covariance of a fitted linear SDE, by running it for long.
fn stationary(sde: &NeuralSde, scaling: &Scaling) -> Vec<f64> {
    let solver = nsde::Solver::new(sde, Options::default()).unwrap();
    let start = nsde::Gaussian::isotropic(vec![0.0; 2], 0.1).unwrap();
    let dts = vec![0.05; 400];
    let path = &solver.solve(&[nsde::Rollout { start: &start, dts: &dts, inputs: &[] }]).unwrap()[0];
    let cov = path.cov(399);
    (0..4).map(|k| cov[k] * scaling.std[k / 2] * scaling.std[k % 2]).collect()
}

/// 100 paths of an Ornstein–Uhlenbeck process: also irregular, also with missing values.
#[test]
fn an_ornstein_uhlenbeck_process_is_recovered() {
    for (rows, values) in [(0.0, 0.0), (0.4, 0.0), (0.0, 0.2)] {
        let mut data = spiral(Recording { paths: 100, rows: 600, spacing: 0.05, substeps: 20, seed: 11 });
        thin(&mut data, rows, values, 13);
        // A linear drift and constant noise: what the process is made of.
        let how = Architecture { hidden: vec![], diffusion: "constant".into(), ..Architecture::default() };
        let sde = how.build(2, 0, &[1.0, 1.0], 1).unwrap();
        let cut = WindowOptions { horizon: 1, max_dt: 0.05, init_var: 1e-6, stride: 1 };
        let task = ForecastTask::new(
            sde,
            Options::default(),
            Objective::Likelihood,
            &data,
            None,
            &unit(),
            None,
            &[5],
            &cut,
        )
        .unwrap();
        let options =
            TrainOptions { steps: 1500, batch: 128, rate: 2e-2, average: 0.99, ..TrainOptions::default() };
        let mut state = TrainState::new(task.parameters());
        run(&task, &options, &mut state);
        let cov = stationary(&task.sde(state.result()).unwrap(), &unit());
        // The law of the Euler chain with a step of 0.05 is 0.125/(1 − 2.5·0.05) wide; what was fitted
        // is the chain that matches the continuous process, whose covariance is 0.125·I.
        let error: f64 =
            [cov[0] - 0.125, cov[1], cov[2], cov[3] - 0.125].iter().map(|e| e * e).sum::<f64>().sqrt();
        let size = 0.125 * 2f64.sqrt();
        assert!(error < 0.05 * size, "thinned by {rows}, {values} missing: {cov:?}");
    }
}
