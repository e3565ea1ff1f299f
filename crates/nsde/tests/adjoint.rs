//! Every adjoint against central differences, along random directions of parameters and start.

mod common;

use common::{MODES, activations, gaussian, linear, network, sdes};
use nsde::{
    CovarianceForm, Diffusion, Gaussian, Layer, Method, Moments, Network, NeuralSde, Options, Precision,
    Result, Rollout, Solver, Trajectory, Unscented, nll, nll_pull,
};
use nsde_check::{assert_close, directional, random_spd, random_vec, seeded};

/// A smooth objective that reads every moment at every step with its own random weight.
struct Probe {
    weights: Trajectory,
}

impl Probe {
    fn new(d: usize, steps: usize, seed: u64) -> Self {
        let rng = &mut seeded(seed);
        let mut weights = Trajectory::zeros(d, steps);
        for k in 0..steps {
            let (mean, cov) = weights.at_mut(k);
            mean.copy_from_slice(&random_vec(d, rng));
            cov.copy_from_slice(&random_vec(d * d, rng));
        }
        Probe { weights }
    }

    fn value(&self, t: &Trajectory) -> f64 {
        (0..t.steps())
            .map(|k| {
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                dot(t.mean(k), self.weights.mean(k)) + dot(t.cov(k), self.weights.cov(k))
            })
            .sum()
    }

    fn add_bar(&self, bar: &mut Trajectory) {
        for k in 0..bar.steps() {
            let (mean, cov) = bar.at_mut(k);
            mean.iter_mut().zip(self.weights.mean(k)).for_each(|(a, b)| *a += b);
            cov.iter_mut().zip(self.weights.cov(k)).for_each(|(a, b)| *a += b);
        }
    }
}

/// Compares the gradient of a probe with differences along random directions.
fn check(name: &str, sde: &NeuralSde, options: Options, scale: f64, tolerance: f64) {
    let rng = &mut seeded(7);
    let (d, n) = (sde.state(), sde.inputs());
    let steps = 3;
    let starts = [gaussian(d, scale, rng), gaussian(d, scale, rng)];
    let dts = [[0.1, 0.05, 0.2], [0.07, 0.13, 0.1]];
    let inputs = [random_vec(n * steps, rng), random_vec(n * steps, rng)];
    let probe = Probe::new(d, steps, 3);
    let rollouts = |starts: &[Gaussian]| -> Vec<(Gaussian, usize)> {
        starts.iter().cloned().enumerate().map(|(i, s)| (s, i)).collect()
    };
    let value = |sde: &NeuralSde, starts: &[Gaussian]| -> f64 {
        let solver = Solver::new(sde, options).unwrap();
        let owned = rollouts(starts);
        let batch: Vec<_> =
            owned.iter().map(|(s, i)| Rollout { start: s, dts: &dts[*i], inputs: &inputs[*i] }).collect();
        solver.solve(&batch).unwrap().iter().map(|t| probe.value(t)).sum()
    };
    let solver = Solver::new(sde, options).unwrap();
    let batch: Vec<_> =
        (0..2).map(|i| Rollout { start: &starts[i], dts: &dts[i], inputs: &inputs[i] }).collect();
    let whole = |_: usize, t: &Trajectory, bar: &mut Trajectory| -> Result<f64> {
        probe.add_bar(bar);
        Ok(probe.value(t))
    };
    let gradient = solver.gradient(&batch, whole).unwrap();
    assert_close(gradient.value, value(sde, &starts), 1e-12);

    // All parameters at once, several directions.
    let flat = sde.parameters();
    for direction in 0..4 {
        let v = random_vec(flat.len(), rng);
        let slope = directional(
            |eps| {
                let mut moved = sde.clone();
                let p: Vec<f64> = flat.iter().zip(&v).map(|(a, b)| a + eps * b).collect();
                moved.set_parameters(&p).unwrap();
                value(&moved, &starts)
            },
            2e-5,
        );
        let pulled: f64 = gradient.parameters.iter().zip(&v).map(|(a, b)| a * b).sum();
        assert!(
            (slope - pulled).abs() <= tolerance * (slope.abs().max(pulled.abs()) + 0.1),
            "{name}: parameters, direction {direction}: differences {slope}, adjoint {pulled}"
        );
    }
    // The start.
    for direction in 0..4 {
        let moves: Vec<(Vec<f64>, Vec<f64>)> =
            (0..2).map(|_| (random_vec(d, rng), random_spd(d, d, rng))).collect();
        let slope = directional(
            |eps| {
                let moved: Vec<Gaussian> = starts
                    .iter()
                    .zip(&moves)
                    .map(|(s, (m, c))| Gaussian {
                        mean: s.mean.iter().zip(m).map(|(a, b)| a + eps * b).collect(),
                        cov: s.cov.iter().zip(c).map(|(a, b)| a + eps * scale * b).collect(),
                    })
                    .collect();
                value(sde, &moved)
            },
            2e-5,
        );
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let pulled: f64 = gradient
            .starts
            .iter()
            .zip(&moves)
            .map(|(bar, (m, c))| dot(&bar.mean, m) + scale * dot(&bar.cov, c))
            .sum();
        assert!(
            (slope - pulled).abs() <= tolerance * (slope.abs().max(pulled.abs()) + 0.1),
            "{name}: start, direction {direction}: differences {slope}, adjoint {pulled}"
        );
    }
}

#[test]
fn bmm_for_every_activation_and_mode() {
    for u in activations() {
        for moments in MODES {
            let rng = &mut seeded(11);
            // A chain of exponentials explodes; one of them is enough.
            let hidden: &[usize] = if u == Layer::Exp { &[5] } else { &[5, 4] };
            let drift = network(3, hidden, 2, &u, 0.8, rng);
            let noise = network(2, &[4], 2, &u, 0.9, rng);
            let sde = NeuralSde::new(2, 1, drift, Diffusion::Diagonal(noise)).unwrap();
            let options = Options { moments, ..Options::default() };
            check(&format!("{} {moments:?}", u.kind()), &sde, options, 0.5, 1e-6);
        }
    }
}

#[test]
fn bmm_for_few_and_many_terms() {
    for terms in [1, 2, 3, 9, 10, 20] {
        let rng = &mut seeded(13);
        let drift = network(2, &[6, 5], 2, &Layer::Tanh, 0.8, rng);
        let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.2])).unwrap();
        let options = Options { moments: Moments::Series { terms }, ..Options::default() };
        check(&format!("{terms} terms"), &sde, options, 0.7, 1e-6);
    }
}

#[test]
fn bmm_from_narrow_and_wide_starts() {
    // Narrow: as from a measured point. Wide: quadratures take their other branch at σ > 3.
    for (scale, tolerance) in [(1e-6, 1e-6), (60.0, 1e-6)] {
        for u in
            [Layer::Relu, Layer::Tanh, Layer::Softplus, Layer::Elu, Layer::Gelu, Layer::Silu, Layer::Sigmoid]
        {
            let rng = &mut seeded(17);
            let drift = network(2, &[5, 4], 2, &u, 1.0, rng);
            let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.2])).unwrap();
            check(
                &format!("{} from Σ of size {scale}", u.kind()),
                &sde,
                Options::default(),
                scale,
                tolerance,
            );
        }
    }
}

#[test]
fn residual_blocks_and_odd_orders_of_layers() {
    let rng = &mut seeded(19);
    let inner = Network::new(
        4,
        vec![linear(4, 6, 1.0, rng), Layer::Tanh, Layer::Dropout { keep: 0.7 }, linear(6, 4, 1.0, rng)],
    )
    .unwrap();
    let outer =
        Network::new(4, vec![Layer::Relu, Layer::Residual(inner.clone()), linear(4, 4, 1.0, rng)]).unwrap();
    let nets = [
        vec![linear(2, 4, 1.0, rng), Layer::Residual(inner.clone()), Layer::Silu, linear(4, 2, 1.0, rng)],
        vec![
            linear(2, 4, 1.0, rng),
            Layer::Relu,
            Layer::Residual(outer),
            Layer::Identity,
            linear(4, 2, 1.0, rng),
        ],
        vec![Layer::Dropout { keep: 0.6 }, Layer::Sin, linear(2, 2, 1.0, rng), Layer::Tanh],
        vec![Layer::Identity],
        vec![],
    ];
    for (i, layers) in nets.into_iter().enumerate() {
        let drift = Network::new(2, layers).unwrap();
        let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.2])).unwrap();
        for moments in MODES {
            let options = Options { moments, ..Options::default() };
            check(&format!("net {i} {moments:?}"), &sde, options, 0.5, 1e-6);
        }
        for method in [Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 5, seed: 1 }] {
            check(&format!("net {i} {method:?}"), &sde, Options { method, ..Options::default() }, 0.5, 1e-6);
        }
    }
}

#[test]
fn every_kernel_for_every_diffusion() {
    for u in [Layer::Tanh, Layer::Gelu] {
        for sde in sdes(3, 2, &u, &mut seeded(23)) {
            for method in [
                Method::Bmm,
                Method::Cubature(Unscented::default()),
                Method::Cubature(Unscented { alpha: 0.7, beta: 2.0, kappa: 1.0 }),
                Method::MonteCarlo { samples: 7, seed: 5 },
            ] {
                let name = format!("{} {:?} {method:?}", u.kind(), sde.diffusion().kind());
                check(&name, &sde, Options { method, ..Options::default() }, 0.4, 1e-6);
            }
        }
    }
}

/// The forms that neglect part of the covariance, for every diffusion and through residual blocks.
#[test]
fn structured_and_diagonal_covariances() {
    for covariance in [CovarianceForm::Structured, CovarianceForm::Diagonal] {
        let options = Options { covariance, ..Options::default() };
        for u in [Layer::Relu, Layer::Tanh] {
            for sde in sdes(3, 2, &u, &mut seeded(29)) {
                let name = format!("{} {:?} {covariance:?}", u.kind(), sde.diffusion().kind());
                check(&name, &sde, options, 0.4, 1e-6);
            }
        }
        let rng = &mut seeded(31);
        let inner =
            Network::new(4, vec![linear(4, 5, 1.0, rng), Layer::Relu, linear(5, 4, 1.0, rng)]).unwrap();
        let layers = vec![
            linear(2, 4, 1.0, rng),
            Layer::Residual(inner.clone()),
            Layer::Dropout { keep: 0.7 },
            Layer::Residual(inner),
            Layer::Silu,
            linear(4, 2, 1.0, rng),
            Layer::Tanh,
        ];
        let drift = Network::new(2, layers).unwrap();
        let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.2])).unwrap();
        check(&format!("residual {covariance:?}"), &sde, options, 0.5, 1e-6);
    }
}

/// Six hundred tapes of 25 kB or more are not all kept: steps are recorded again on the way back.
#[test]
fn rollouts_too_long_for_their_tapes() {
    const STEPS: usize = 600;
    let d = 12;
    let rng = &mut seeded(23);
    let drift = network(d, &[24], d, &Layer::Tanh, 0.9, rng);
    let noise = network(d, &[8], d, &Layer::Tanh, 0.9, rng);
    let sde = NeuralSde::new(d, 0, drift, Diffusion::Diagonal(noise)).unwrap();
    let (start, dts, probe) = (gaussian(d, 0.5, rng), [0.002; STEPS], Probe::new(d, STEPS, 3));
    let v = random_vec(sde.parameter_count(), rng);
    for method in
        [Method::Bmm, Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 50, seed: 5 }]
    {
        let options = Options { method, ..Options::default() };
        let batch = [Rollout { start: &start, dts: &dts, inputs: &[] }];
        let whole = |_: usize, t: &Trajectory, bar: &mut Trajectory| -> Result<f64> {
            probe.add_bar(bar);
            Ok(probe.value(t))
        };
        let gradient = Solver::new(&sde, options).unwrap().gradient(&batch, whole).unwrap();
        let slope = directional(
            |eps| {
                let mut moved = sde.clone();
                let p: Vec<f64> = sde.parameters().iter().zip(&v).map(|(a, b)| a + eps * b).collect();
                moved.set_parameters(&p).unwrap();
                probe.value(&Solver::new(&moved, options).unwrap().solve(&batch).unwrap()[0])
            },
            2e-5,
        );
        let pulled: f64 = gradient.parameters.iter().zip(&v).map(|(a, b)| a * b).sum();
        assert!(
            (slope - pulled).abs() <= 1e-6 * (slope.abs() + 1.0),
            "{method:?}: {slope}, adjoint {pulled}"
        );
    }
}

/// The negative log-likelihood of observations at every step, through all kernels.
#[test]
fn likelihood_of_a_whole_window() {
    let (d, steps) = (2, 8);
    let rng = &mut seeded(29);
    let sde = &sdes(d, 0, &Layer::Relu, rng)[0];
    let start = Gaussian::isotropic(random_vec(d, rng), 1e-4).unwrap();
    let seen: Vec<Vec<f64>> = (0..steps).map(|_| random_vec(d, rng)).collect();
    let dts = vec![0.1; steps];
    for method in
        [Method::Bmm, Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 12, seed: 5 }]
    {
        let options = Options { method, ..Options::default() };
        let batch = [Rollout { start: &start, dts: &dts, inputs: &[] }];
        let gradient = Solver::new(sde, options)
            .unwrap()
            .gradient(&batch, |_, t, bar| {
                (0..steps)
                    .map(|k| {
                        let (mean_bar, cov_bar) = bar.at_mut(k);
                        nll_pull(t.mean(k), t.cov(k), &seen[k], 1.0, mean_bar, cov_bar)
                    })
                    .sum()
            })
            .unwrap();
        let v = random_vec(sde.parameter_count(), rng);
        let flat = sde.parameters();
        let slope = directional(
            |eps| {
                let mut moved = sde.clone();
                let p: Vec<f64> = flat.iter().zip(&v).map(|(a, b)| a + eps * b).collect();
                moved.set_parameters(&p).unwrap();
                let t = &Solver::new(&moved, options).unwrap().solve(&batch).unwrap()[0];
                (0..steps).map(|k| nll(t.mean(k), t.cov(k), &seen[k]).unwrap()).sum()
            },
            1e-5,
        );
        let pulled: f64 = gradient.parameters.iter().zip(&v).map(|(a, b)| a * b).sum();
        assert_close(slope, pulled, 1e-6);
    }
}

#[test]
fn single_precision_is_close_to_double() {
    let rng = &mut seeded(31);
    for sde in sdes(2, 1, &Layer::Relu, rng) {
        for method in
            [Method::Bmm, Method::Cubature(Unscented::default()), Method::MonteCarlo { samples: 50, seed: 5 }]
        {
            let start = gaussian(2, 0.1, rng);
            let (dts, inputs) = (vec![0.05; 20], random_vec(20, rng));
            let batch = [Rollout { start: &start, dts: &dts, inputs: &inputs }];
            let probe = Probe::new(2, 20, 3);
            let run = |precision| {
                let solver = Solver::new(&sde, Options { method, precision, ..Options::default() }).unwrap();
                let gradient = |_: usize, t: &Trajectory, bar: &mut Trajectory| {
                    probe.add_bar(bar);
                    Ok(probe.value(t))
                };
                solver.gradient(&batch, gradient).unwrap()
            };
            let (wide, narrow) = (run(Precision::F64), run(Precision::F32));
            assert_close(wide.value, narrow.value, 1e-4);
            let scale = wide.parameters.iter().map(|x| x.abs()).fold(0.0, f64::max);
            for (a, b) in wide.parameters.iter().zip(&narrow.parameters) {
                assert!((a - b).abs() < 1e-4 * scale, "{a} {b}");
            }
        }
    }
}
