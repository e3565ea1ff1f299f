//! Errors of activation covariances against adaptive quadrature, over a grid of means and correlations.

use nsde::{Layer, Moments, Network};
use nsde_check::{Activation, covariance_2d, normal_expectation};
use std::thread;

/// Activations of the table, with their references.
pub fn activations() -> Vec<(&'static str, Layer, Activation)> {
    vec![
        ("relu", Layer::Relu, Activation::Relu),
        ("leaky_relu 0.1", Layer::LeakyRelu { slope: 0.1 }, Activation::LeakyRelu { slope: 0.1 }),
        ("elu", Layer::Elu, Activation::Elu),
        ("gelu", Layer::Gelu, Activation::Gelu),
        ("silu", Layer::Silu, Activation::Silu),
        ("tanh", Layer::Tanh, Activation::Tanh),
        ("sigmoid", Layer::Sigmoid, Activation::Sigmoid),
        ("softplus", Layer::Softplus, Activation::Softplus),
        ("sin", Layer::Sin, Activation::Sin),
        ("exp", Layer::Exp, Activation::Exp),
    ]
}

/// The modes of the table.
pub const MODES: [(&str, Moments); 6] = [
    ("series 2", Moments::Series { terms: 2 }),
    ("series 4", Moments::Series { terms: 4 }),
    ("series 8", Moments::Series { terms: 8 }),
    ("series 16", Moments::Series { terms: 16 }),
    ("exact", Moments::Exact),
    ("paper", Moments::Paper),
];

/// Largest and root-mean-square error of one activation in one mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    /// Over all points, those with |ρ| = 0.999 too.
    pub max: f64,
    /// Over the grid that is uniform in ρ.
    pub rms: f64,
    /// Of mean, variance and expected Jacobian, which no mode approximates.
    pub first: f64,
}

/// Correlations: midpoints of twenty cells of (−1, 1), then two near the ends.
fn correlations() -> Vec<(f64, bool)> {
    let mut all: Vec<_> = (0..20).map(|k| ((k as f64 + 0.5) / 10.0 - 1.0, true)).collect();
    all.extend([(-0.999, false), (0.999, false)]);
    all
}

/// Errors of every mode for variances `var`, means `α·√var` with α = −4, …, 4.
///
/// For the exponential the errors are relative to the product of the two means, which span e⁸.
pub fn errors(layer: &Layer, reference: Activation, var: f64) -> Vec<Errors> {
    let sd = var.sqrt();
    let mut cells = Vec::new();
    for i in -4..=4 {
        for j in -4..=i {
            for (rho, uniform) in correlations() {
                cells.push((f64::from(i) * sd, f64::from(j) * sd, rho, uniform));
            }
        }
    }
    let work = |cells: &[(f64, f64, f64, bool)]| {
        let mut out = vec![(Errors::default(), 0usize); MODES.len()];
        let net = Network::new(2, vec![layer.clone()]).unwrap();
        for &(a, b, rho, uniform) in cells {
            let u = |x: f64| reference.value(x);
            let want = covariance_2d([a, b], [var, var], rho * var, reference.kinks(), u, u);
            let mean = normal_expectation(a, var, reference.kinks(), u);
            let slope = normal_expectation(a, var, reference.kinks(), |x| reference.derivative(x));
            let second = normal_expectation(a, var, reference.kinks(), |x| (u(x) - mean).powi(2));
            let scale = if reference == Activation::Exp { (a + b + var).exp() } else { 1.0 };
            let own = if reference == Activation::Exp { (2.0 * a + 2.0 * var).exp() } else { 1.0 };
            for ((_, moments), (errors, count)) in MODES.iter().zip(&mut out) {
                let got = net.moments(&[a, b], &[var, rho * var, rho * var, var], *moments).unwrap();
                let error = (got.cov[1] - want).abs() / scale;
                errors.max = errors.max.max(error);
                if uniform {
                    errors.rms += error * error;
                    *count += 1;
                }
                for (g, w, s) in [
                    (got.mean[0], mean, own.sqrt()),
                    (got.jac[0], slope, own.sqrt()),
                    (got.cov[0], second, own),
                ] {
                    errors.first = errors.first.max((g - w).abs() / s);
                }
            }
        }
        out
    };
    let (left, right) = cells.split_at(cells.len() / 2);
    let (one, two) = thread::scope(|scope| {
        let other = scope.spawn(|| work(right));
        (work(left), other.join().unwrap())
    });
    one.into_iter()
        .zip(two)
        .map(|((a, n), (b, m))| Errors {
            max: a.max.max(b.max),
            rms: ((a.rms + b.rms) / (n + m) as f64).sqrt(),
            first: a.first.max(b.first),
        })
        .collect()
}
