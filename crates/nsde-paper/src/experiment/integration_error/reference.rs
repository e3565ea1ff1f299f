//! The Monte Carlo that the moments are judged by: mean and expected Jacobian of a network with three hidden
//! layers, from pairs of points `μ ± A z`.
//!
//! What can be done exactly is: the last affine layer (and a dropout before it) acts on means, and the first
//! one on the law of `x`. Every sum is kept in two halves that share no random number, so that products
//! `(r₁ − r̂)·(r₂ − r̂)` estimate `‖r − r̂‖²` without the noise of the reference.

use super::problem::Problem;
use crate::points::{normals, uniform};
use anyhow::{Context, Result};
use ndarray::{Array1, Array2, Axis};
use nsde::{Layer, Moments, Network};
use rand::Rng;

/// Pairs of points that are computed together.
const BATCH: usize = 512;

/// What one half of the points says.
pub struct Half {
    /// `E[f]`.
    pub mean: Vec<f64>,
    /// `E[f]` if the input of the last activation were Gaussian with its true moments.
    pub gaussian_last: Vec<f64>,
    /// `E[∂f/∂x]`, row-major; empty if it was not asked for.
    pub jac: Vec<f64>,
}

/// Sums over points, by unit of the last hidden layer.
struct Sums {
    count: f64,
    active: Array1<f64>,
    input: Array1<f64>,
    square: Array1<f64>,
    /// `Σ v gᵀ` with random signs `v` and `g = (∂a/∂h)ᵀ v`, for the outputs `a` of the last hidden layer and
    /// the inputs `h` of the first.
    jac: Array2<f64>,
}

/// Masks of the first two hidden layers; the third one does not change the mean.
type Masks = Option<[Array2<f32>; 2]>;

/// Two halves of `pairs/2` pairs of points each. `relu`: with ReLU and dropout, with the Jacobian; else with
/// tanh and neither.
pub fn halves(problem: &Problem, relu: bool, pairs: usize, rng: &mut impl Rng) -> Result<[Half; 2]> {
    let inner = Inner::new(problem, relu)?;
    Ok([inner.half(problem, pairs / 2, rng)?, inner.half(problem, pairs / 2, rng)?])
}

/// The layers in between, `[input, output]`, and the law of the first hidden input: `centre + z·root`.
struct Inner {
    relu: bool,
    keep: f64,
    centre: Array1<f32>,
    root: Array2<f32>,
    second: (Array2<f32>, Array1<f32>),
    third: (Array2<f32>, Array1<f32>),
}

impl Inner {
    fn new(problem: &Problem, relu: bool) -> Result<Self> {
        let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Array1<f32>>();
        let layer = |place: usize| -> Result<(Array2<f32>, Array1<f32>)> {
            let (weight, bias) = problem.affine(place)?;
            Ok((weight.t().mapv(|w| w as f32), single(bias.as_slice().context("a whole array")?)))
        };
        let (weight, bias) = problem.affine(0)?;
        let centre = weight.dot(&Array1::from(problem.mean.clone())) + bias;
        // Fewer units than dimensions: a square root of the units' own covariance has fewer columns.
        let wide = weight.dot(&problem.root);
        let units = wide.nrows();
        let root = if wide.ncols() > units {
            let cov = wide.dot(&wide.t());
            let factor = crate::cholesky::cholesky(cov.as_slice().context("a whole array")?, units)
                .context("the covariance of the first hidden layer is singular")?;
            Array2::from_shape_vec((units, units), factor)?
        } else {
            wide
        };
        Ok(Inner {
            relu,
            keep: problem.keep,
            centre: single(centre.as_slice().context("a whole array")?),
            root: root.t().mapv(|x| x as f32),
            second: layer(1)?,
            third: layer(2)?,
        })
    }

    fn half(&self, problem: &Problem, pairs: usize, rng: &mut impl Rng) -> Result<Half> {
        let width = self.centre.len();
        let zero = Array1::zeros(width);
        let mut sums = Sums {
            count: 0.0,
            active: zero.clone(),
            input: zero.clone(),
            square: zero,
            jac: Array2::zeros((width, width)),
        };
        let mut left = pairs;
        while left > 0 {
            let rows = left.min(BATCH);
            left -= rows;
            let z = normals(rows, self.root.nrows(), rng);
            let away = z.dot(&self.root);
            let masks = self.relu.then(|| [(); 2].map(|()| self.mask(rows, width, rng)));
            for h in [&self.centre + &away, &self.centre - &away] {
                self.add(h, &masks, &mut sums, rng);
            }
        }
        self.finish(problem, &sums)
    }

    fn mask(&self, rows: usize, width: usize, rng: &mut impl Rng) -> Array2<f32> {
        let kept = (1.0 / self.keep) as f32;
        let keep = self.keep;
        Array2::from_shape_simple_fn((rows, width), || if uniform(rng) < keep { kept } else { 0.0 })
    }

    fn activate(&self, h: &Array2<f32>) -> Array2<f32> {
        if self.relu { h.mapv(|h| h.max(0.0)) } else { h.mapv(f32::tanh) }
    }

    fn add(&self, h1: Array2<f32>, masks: &Masks, sums: &mut Sums, rng: &mut impl Rng) {
        let masked = |a: Array2<f32>, place: usize| match masks {
            Some(masks) => a * &masks[place],
            None => a,
        };
        let h2 = masked(self.activate(&h1), 0).dot(&self.second.0) + &self.second.1;
        let h3 = masked(self.activate(&h2), 1).dot(&self.third.0) + &self.third.1;
        let total = |x: &Array2<f32>| x.sum_axis(Axis(0)).mapv(f64::from);
        sums.count += h1.nrows() as f64;
        sums.active += &total(&self.activate(&h3));
        sums.input += &total(&h3);
        sums.square += &total(&(&h3 * &h3));
        if masks.is_none() {
            return;
        }
        let gate = |mut g: Array2<f32>, h: &Array2<f32>| {
            g.zip_mut_with(h, |g, h| *g = if *h > 0.0 { *g } else { 0.0 });
            g
        };
        let v = Array2::from_shape_simple_fn(h3.dim(), || if rng.next_u32() >> 31 == 0 { 1.0 } else { -1.0 });
        let g3 = gate(v.clone(), &h3);
        let g2 = gate(masked(g3.dot(&self.third.0.t()), 1), &h2);
        let g1 = gate(masked(g2.dot(&self.second.0.t()), 0), &h1);
        sums.jac += &v.t().dot(&g1).mapv(f64::from);
    }

    fn finish(&self, problem: &Problem, sums: &Sums) -> Result<Half> {
        let n = sums.count;
        let (weight, bias) = problem.affine(3)?;
        let mean = (weight.dot(&(&sums.active / n)) + &bias).to_vec();
        let (input, square) = (&sums.input / n, &sums.square / n);
        let width = input.len();
        let mut cov = vec![0.0; width * width];
        for i in 0..width {
            cov[i * width + i] = (square[i] - input[i] * input[i]).max(0.0);
        }
        let activation = if self.relu { Layer::Relu } else { Layer::Tanh };
        let end = Network::new(width, vec![activation, problem.layer(3)?])?;
        let gaussian_last = end.moments(&input.to_vec(), &cov, Moments::Exact)?.mean;
        let jac = if self.relu {
            let first = problem.affine(0)?.0;
            weight.dot(&(&sums.jac / n)).dot(&first).iter().copied().collect()
        } else {
            Vec::new()
        };
        Ok(Half { mean, gaussian_last, jac })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::generator;

    /// With one unit kept always and weights so that nothing is ever cut off, the network is affine: mean and
    /// Jacobian are known.
    #[test]
    fn an_affine_network_has_its_own_mean_and_jacobian() {
        let mut problem = Problem::random(2, 3, 5, 0).unwrap();
        problem.keep = 1.0;
        for place in 0..3 {
            problem.change(place, |w| 0.01 * w, |_| 10.0).unwrap();
        }
        let [a, b] = halves(&problem, true, 4000, &mut generator(1, 0)).unwrap();
        let (mut jac, mut mean) = (Array2::eye(2), Array1::from(problem.mean.clone()));
        for place in 0..4 {
            let (w, bias) = problem.affine(place).unwrap();
            jac = w.dot(&jac);
            mean = w.dot(&mean) + bias;
        }
        for half in [a, b] {
            for (x, y) in half.mean.iter().zip(&mean) {
                assert!((x - y).abs() < 1e-3, "{x} {y}");
            }
            let size = jac.iter().map(|j: &f64| j.abs()).fold(0.0, f64::max);
            for (x, y) in half.jac.iter().zip(&jac) {
                // Sampling: random signs have a spread of about the number of units.
                assert!((x - y).abs() < 0.2 * size, "{x} {y}");
            }
        }
    }
}
