//! Where the answer is known: linear SDEs, one hidden layer by brute force, the plain form of a step.

mod common;

use common::{activations, gaussian, linear, network, sdes};
use nsde::{
    Diffusion, Gaussian, Layer, Linear, Method, Moments, Network, NeuralSde, Options, Rollout, Solver,
    Unscented,
};
use nsde_check::{Activation, Flow, assert_slices_close, linear as known, plain, random_vec, seeded};

fn linear_sde(d: usize, a: &[f64], b: &[f64], l: &[f64]) -> NeuralSde {
    let layer = Linear::new(d, d, a.to_vec(), b.to_vec()).unwrap();
    let drift = Network::new(d, vec![Layer::Linear(layer)]).unwrap();
    NeuralSde::new(d, 0, drift, Diffusion::ConstantFull(l.to_vec())).unwrap()
}

fn lower(d: usize, values: Vec<f64>) -> Vec<f64> {
    let mut l = values;
    (0..d).for_each(|i| (i + 1..d).for_each(|j| l[i * d + j] = 0.0));
    l
}

/// A stable random linear system.
fn system(d: usize, seed: u64) -> (Vec<f64>, Vec<f64>, Vec<f64>, Gaussian) {
    let rng = &mut seeded(seed);
    let mut a: Vec<f64> = random_vec(d * d, rng).iter().map(|x| 0.3 * x).collect();
    (0..d).for_each(|i| a[i * d + i] -= 1.0);
    (a, random_vec(d, rng), lower(d, random_vec(d * d, rng)), gaussian(d, 0.5, rng))
}

#[test]
fn linear_drift_follows_the_discrete_recursion() {
    for d in [1, 2, 5, 12] {
        let (a, b, l, start) = system(d, d as u64);
        let sde = linear_sde(d, &a, &b, &l);
        let dts = [0.05; 40];
        let (mean, cov) = known::discrete(&a, &b, &l, &start.mean, &start.cov, 0.05, 40);
        for method in [Method::Bmm, Method::Cubature(Unscented::default())] {
            for moments in [Moments::Series { terms: 8 }, Moments::Exact, Moments::Paper] {
                let solver = Solver::new(&sde, Options { method, moments, ..Options::default() }).unwrap();
                let rollout = Rollout { start: &start, dts: &dts, inputs: &[] };
                let t = &solver.solve(&[rollout]).unwrap()[0];
                assert_slices_close(t.mean(39), &mean, 1e-13, 1e-13);
                assert_slices_close(t.cov(39), &cov, 1e-13, 1e-13);
            }
        }
    }
}

#[test]
fn linear_drift_converges_to_the_continuous_law_at_first_order() {
    let (a, b, l, start) = system(3, 5);
    let sde = linear_sde(3, &a, &b, &l);
    let solver = Solver::new(&sde, Options::default()).unwrap();
    let (mean, cov) = known::continuous(&a, &b, &l, &start.mean, &start.cov, 1.0);
    let error = |steps: usize| {
        let dts = vec![1.0 / steps as f64; steps];
        let t = &solver.solve(&[Rollout { start: &start, dts: &dts, inputs: &[] }]).unwrap()[0];
        let k = steps - 1;
        let worst = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        worst(t.mean(k), &mean).max(worst(t.cov(k), &cov))
    };
    let errors: Vec<f64> = [50, 100, 200, 400, 800].iter().map(|n| error(*n)).collect();
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((order - 1.0).abs() < 0.05, "observed order {order}, errors {errors:?}");
    }
}

fn reference(u: &Layer) -> Activation {
    match u {
        Layer::LeakyRelu { slope } => Activation::LeakyRelu { slope: *slope },
        other => nsde_check::by_name(other.kind()).unwrap(),
    }
}

/// The plain form of a network, activations by brute-force quadrature.
fn plain_network(net: &Network, h: &Flow) -> Flow {
    net.layers().iter().fold(h.clone(), |h, layer| match layer {
        Layer::Linear(l) => plain::affine(l.weight(), l.bias(), &h),
        Layer::Dropout { keep } => plain::dropout(*keep, &h),
        Layer::Identity => h,
        Layer::Residual(inner) => plain::residual(&h, |g| plain_network(inner, g)),
        u => plain::elementwise_with(&h, reference(u)),
    })
}

#[test]
fn one_hidden_layer_with_exact_moments_equals_brute_force() {
    for u in activations() {
        let rng = &mut seeded(41);
        let net = network(2, &[5], 3, &u, 1.0, rng);
        let start = gaussian(2, 0.6, rng);
        let got = net.moments(&start.mean, &start.cov, Moments::Exact).unwrap();
        let want = plain_network(&net, &Flow::start(&start.mean, &start.cov));
        for (got, want) in
            [(&got.mean, want.mean_vec()), (&got.cov, want.cov_rows()), (&got.jac, want.jac_rows())]
        {
            assert_slices_close(got, &want, 1e-9, 1e-9);
        }
    }
}

#[test]
fn deep_networks_with_dropout_and_residual_blocks_equal_the_plain_form() {
    let rng = &mut seeded(43);
    let inner = Network::new(4, vec![linear(4, 3, 1.0, rng), Layer::Silu, linear(3, 4, 1.0, rng)]).unwrap();
    let layers = vec![
        linear(3, 4, 1.0, rng),
        Layer::Relu,
        Layer::Dropout { keep: 0.8 },
        Layer::Residual(inner),
        Layer::Tanh,
        Layer::Identity,
        linear(4, 3, 1.0, rng),
    ];
    let net = Network::new(3, layers).unwrap();
    for scale in [1e-6, 0.3, 4.0] {
        let start = gaussian(3, scale, rng);
        let got = net.moments(&start.mean, &start.cov, Moments::Exact).unwrap();
        let want = plain_network(&net, &Flow::start(&start.mean, &start.cov));
        assert_slices_close(&got.mean, &want.mean_vec(), 1e-9, 1e-9);
        assert_slices_close(&got.cov, &want.cov_rows(), 1e-9 * scale, 1e-8);
        assert_slices_close(&got.jac, &want.jac_rows(), 1e-9, 1e-8);
    }
}

/// Our congruence form of a step equals the printed one, for every kind of diffusion.
#[test]
fn one_step_equals_the_printed_form() {
    let rng = &mut seeded(47);
    let (d, inputs) = (2, 1);
    for sde in sdes(d, inputs, &Layer::Relu, rng) {
        let start = gaussian(d, 0.4, rng);
        let u = [0.7];
        let dt = 0.2;
        let solver = Solver::new(&sde, Options { moments: Moments::Exact, ..Options::default() }).unwrap();
        let t = &solver.solve(&[Rollout { start: &start, dts: &[dt], inputs: &u }]).unwrap()[0];
        // The input joins the state as a point mass.
        let joined = |net: &Network| {
            let n = net.input();
            let mut mean = start.mean.clone();
            let (mut cov, mut jac) = (vec![0.0; n * n], vec![0.0; n * d]);
            for i in 0..d {
                jac[i * d + i] = 1.0;
                for j in 0..d {
                    cov[i * n + j] = start.cov[i * d + j];
                }
            }
            mean.extend(&u[..n - d]);
            plain_network(net, &Flow::new(&mean, &cov, &jac))
        };
        let noise = match sde.diffusion() {
            Diffusion::Diagonal(net) => {
                let l = joined(net);
                let mut q = vec![0.0; d * d];
                (0..d).for_each(|i| q[i * d + i] = l.cov[(i, i)] + l.mean[i] * l.mean[i]);
                q
            }
            Diffusion::Full(net) => {
                let l = joined(net);
                let place = |i: usize, c: usize| i * (i + 1) / 2 + c;
                let mut q = vec![0.0; d * d];
                for i in 0..d {
                    for j in 0..d {
                        for c in 0..=i.min(j) {
                            let (a, b) = (place(i, c), place(j, c));
                            q[i * d + j] += l.cov[(a, b)] + l.mean[a] * l.mean[b];
                        }
                    }
                }
                q
            }
            Diffusion::ConstantDiagonal(s) => {
                let mut q = vec![0.0; d * d];
                (0..d).for_each(|i| q[i * d + i] = s[i] * s[i]);
                q
            }
            Diffusion::ConstantFull(s) => {
                let mut q = vec![0.0; d * d];
                for i in 0..d {
                    for j in 0..d {
                        q[i * d + j] = (0..d).map(|c| s[i * d + c] * s[j * d + c]).sum();
                    }
                }
                q
            }
            _ => vec![0.0; d * d],
        };
        let drift = joined(sde.drift());
        let (mean, cov) = plain::bmm_step(&start.mean, &start.cov, &drift, &noise, dt);
        assert_slices_close(t.mean(0), &mean, 1e-9, 1e-9);
        assert_slices_close(t.cov(0), &cov, 1e-9, 1e-9);
    }
}

/// A point mass passes a network as a point: the function itself, its Jacobian, no covariance.
#[test]
fn a_point_mass_stays_a_point() {
    for u in activations() {
        let rng = &mut seeded(53);
        let net = network(2, &[4], 2, &u, 1.0, rng);
        let x = random_vec(2, rng);
        for moments in common::MODES {
            let got = net.moments(&x, &[0.0; 4], moments).unwrap();
            assert_slices_close(&got.mean, &net.eval(&x, None).unwrap(), 1e-14, 1e-14);
            assert!(got.cov.iter().all(|c| *c == 0.0), "{}: {:?}", u.kind(), got.cov);
            // … and is the limit of narrow Gaussians, derivatives included.
            let near = net.moments(&x, &[1e-14, 0.0, 0.0, 1e-14], moments).unwrap();
            assert_slices_close(&got.jac, &near.jac, 1e-9, 1e-9);
        }
    }
}
