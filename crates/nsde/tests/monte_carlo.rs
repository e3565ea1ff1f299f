//! Moments against samples: every layer and mode, Monte Carlo paths against an independent simulation,
//! and BMM against both.

mod common;

use common::{activations, gaussian, network};
use nsde::{
    Diffusion, Gaussian, Layer, Method, Moments, Network, NeuralSde, Options, Rollout, Solver, Unscented,
};
use nsde_check::{random_vec, sample_moments, sampling, seeded, standard_errors};

/// Draws from a Gaussian by its Cholesky factor, written out here.
fn draw(g: &Gaussian, rng: &mut impl rand::Rng) -> Vec<f64> {
    let d = g.mean.len();
    let mut l = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..=i {
            let s: f64 = (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum();
            let x = g.cov[i * d + j] - s;
            l[i * d + j] = if i == j { x.max(0.0).sqrt() } else { x / l[j * d + j] };
        }
    }
    let z = random_vec(d, rng);
    (0..d).map(|i| g.mean[i] + (0..=i).map(|c| l[i * d + c] * z[c]).sum::<f64>()).collect()
}

/// The error of the approximation in a deviation of one, and five standard errors.
fn within(got: &[f64], want: &[f64], errors: &[f64], slack: f64, what: &str) {
    for ((g, w), e) in got.iter().zip(want).zip(errors) {
        assert!((g - w).abs() < 5.0 * e + slack, "{what}: {g} against {w} ± {e}");
    }
}

#[test]
fn one_activation_layer_matches_its_own_samples() {
    for u in activations() {
        for keep in [1.0, 0.7] {
            let rng = &mut seeded(61);
            let mut layers = vec![common::linear(2, 3, 0.8, rng), u.clone()];
            if keep < 1.0 {
                layers.push(Layer::Dropout { keep });
            }
            let net = Network::new(2, layers).unwrap();
            let start = gaussian(2, 0.4, rng);
            let n = 40_000;
            let mut samples = Vec::with_capacity(n * 3);
            for _ in 0..n {
                let x = draw(&start, rng);
                samples.extend(net.eval(&x, Some(rng)).unwrap());
            }
            let (mean, cov) = sample_moments(&samples, 3);
            let (mean_error, cov_error) = standard_errors(&samples, 3);
            for moments in common::MODES {
                let got = net.moments(&start.mean, &start.cov, moments).unwrap();
                let slack = if moments == Moments::Paper { 5e-3 } else { 5e-4 };
                let what = format!("{} keep {keep} {moments:?}", u.kind());
                within(&got.mean, &mean, &mean_error, 1e-9, &what);
                within(&got.cov, &cov, &cov_error, slack, &what);
            }
        }
    }
}

fn toy(rng: &mut impl rand::Rng) -> NeuralSde {
    let drift = network(2, &[16], 2, &Layer::Tanh, 0.9, rng);
    NeuralSde::new(2, 0, drift, Diffusion::Diagonal(network(2, &[8], 2, &Layer::Sigmoid, 1.0, rng))).unwrap()
}

#[test]
fn particles_follow_euler_maruyama() {
    let rng = &mut seeded(67);
    let sde = toy(rng);
    let start = gaussian(2, 0.2, rng);
    let dts = [0.1; 5];
    let n = 20_000;
    // Written out: one path after the other, masks fresh at every step.
    let mut samples = Vec::new();
    let Diffusion::Diagonal(noise) = sde.diffusion() else { unreachable!() };
    for _ in 0..n {
        let mut x = draw(&start, rng);
        for dt in dts {
            let f = sde.drift().eval(&x, Some(rng)).unwrap();
            let l = noise.eval(&x, Some(rng)).unwrap();
            for i in 0..2 {
                x[i] += dt * f[i] + dt.sqrt() * l[i] * sampling::normal(rng);
            }
        }
        samples.extend(x);
    }
    let (mean, cov) = sample_moments(&samples, 2);
    let (mean_error, cov_error) = standard_errors(&samples, 2);
    let both = |e: &[f64]| e.iter().map(|e| e * 2f64.sqrt()).collect::<Vec<_>>();
    let options = Options { method: Method::MonteCarlo { samples: n, seed: 3 }, ..Options::default() };
    let solver = Solver::new(&sde, options).unwrap();
    let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
    let t = &solver.solve(&[rollout]).unwrap()[0];
    within(t.mean(4), &mean, &both(&mean_error), 0.0, "particles");
    within(t.cov(4), &cov, &both(&cov_error), 0.0, "particles");
    // The particles themselves are available, and are those behind the moments.
    let all = solver.sample(0, rollout).unwrap();
    assert_eq!(all.len(), 5 * n * 2);
    let (again, _) = sample_moments(&all[4 * n * 2..], 2);
    within(t.mean(4), &again, &[1e-12; 2], 0.0, "sample()");
    // BMM is deterministic and close: its own error is that of the Gaussian assumption.
    let bmm = &Solver::new(&sde, Options::default()).unwrap().solve(&[rollout]).unwrap()[0];
    within(bmm.mean(4), &mean, &mean_error, 5e-3, "bmm");
    within(bmm.cov(4), &cov, &cov_error, 2e-2, "bmm");
}

#[test]
fn cubature_takes_dropout_as_the_identity() {
    let rng = &mut seeded(71);
    let sde = toy(rng);
    let start = gaussian(2, 1e-6, rng);
    let options = Options { method: Method::Cubature(Unscented::default()), ..Options::default() };
    let t = &Solver::new(&sde, options)
        .unwrap()
        .solve(&[Rollout { start: &start, dts: &[0.1], inputs: &[] }])
        .unwrap()[0];
    // Nearly a point: the drift without masks.
    let f = sde.drift().eval(&start.mean, None).unwrap();
    for i in 0..2 {
        assert!((t.mean(0)[i] - start.mean[i] - 0.1 * f[i]).abs() < 1e-6);
    }
}
