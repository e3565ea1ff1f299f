//! Networks on many points at once: the plain Monte Carlo that the moments are judged by.

use anyhow::{Result, bail};
use ndarray::{Array1, Array2};
use nsde::{Layer, Network};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

/// One layer, in single precision; a point is a row.
pub enum Step {
    /// `x Wᵀ + b`.
    Affine {
        /// `Wᵀ`, `[input, output]`.
        weight: Array2<f32>,
        /// `b`.
        bias: Array1<f32>,
    },
    /// `max(0, x)`.
    Relu,
    /// `tanh x`.
    Tanh,
    /// Multiplication by a mask of zeros and `1/keep`.
    Dropout {
        /// Probability to keep a unit.
        keep: f64,
    },
}

/// The layers of `net`; those that the paper's experiments have.
pub fn steps(net: &Network) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for layer in net.layers() {
        steps.push(match layer {
            Layer::Linear(l) => Step::Affine {
                weight: Array2::from_shape_fn((l.input(), l.output()), |(i, o)| {
                    l.weight()[o * l.input() + i] as f32
                }),
                bias: l.bias().iter().map(|b| *b as f32).collect(),
            },
            Layer::Relu => Step::Relu,
            Layer::Tanh => Step::Tanh,
            Layer::Dropout { keep } => Step::Dropout { keep: *keep },
            other => bail!("a {} layer on many points is not needed anywhere yet", other.kind()),
        });
    }
    Ok(steps)
}

/// The points after every layer. `mask(place, keep, points)` multiplies by the mask of the dropout at that
/// place of the list.
pub fn forward(
    steps: &[Step],
    x: &Array2<f32>,
    mut mask: impl FnMut(usize, f64, &mut Array2<f32>),
) -> Vec<Array2<f32>> {
    let mut all: Vec<Array2<f32>> = Vec::with_capacity(steps.len());
    for (place, step) in steps.iter().enumerate() {
        let x = all.last().unwrap_or(x);
        all.push(match step {
            Step::Affine { weight, bias } => x.dot(weight) + bias,
            Step::Relu => x.mapv(|x| x.max(0.0)),
            Step::Tanh => x.mapv(f32::tanh),
            Step::Dropout { keep } => {
                let mut x = x.clone();
                mask(place, *keep, &mut x);
                x
            }
        });
    }
    all
}

/// Multiplies by fresh masks.
pub fn fresh(keep: f64, points: &mut Array2<f32>, rng: &mut impl Rng) {
    let kept = (1.0 / keep) as f32;
    points.mapv_inplace(|x| if uniform(rng) < keep { kept * x } else { 0.0 });
}

/// Uniform in `[0, 1)` with 32 bits.
pub fn uniform(rng: &mut impl Rng) -> f64 {
    f64::from(rng.next_u32()) / 4_294_967_296.0
}

/// Standard normal numbers.
pub fn normals(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f32> {
    Array2::from_shape_simple_fn((rows, columns), || StandardNormal.sample(rng))
}

/// A generator of its own for each `stream` of a seed.
pub fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_of_the_library() {
        let rng = &mut generator(1, 0);
        let relu = Network::perceptron(3, &[5, 4], 2, Layer::Relu, 1.0, rng).unwrap();
        let tanh = Network::perceptron(3, &[5, 4], 2, Layer::Tanh, 1.0, rng).unwrap();
        let x = normals(6, 3, rng);
        for net in [relu, tanh] {
            let out = forward(&steps(&net).unwrap(), &x, |_, _, _| {}).pop().unwrap();
            for (x, out) in x.rows().into_iter().zip(out.rows()) {
                let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                for (a, b) in net.eval(&x, None).unwrap().iter().zip(out) {
                    assert!((a - f64::from(*b)).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn masks_keep_the_mean() {
        let mut points = Array2::from_elem((1000, 100), 1.0);
        fresh(0.8, &mut points, &mut generator(2, 0));
        // Sampling, 5 standard errors of 1e5 values with variance 0.25.
        assert!((points.mean().unwrap() - 1.0).abs() < 5.0 * 0.5 / 1e5_f32.sqrt());
        assert!(points.iter().all(|x| *x == 0.0 || *x == 1.25));
    }
}
