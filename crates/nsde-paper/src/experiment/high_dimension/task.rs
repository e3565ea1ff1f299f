//! One-step likelihood (Eqs. 4 and 41) of a drift with one hidden layer and a constant diffusion, for the
//! trainer of the library: from a point, one step of Euler–Maruyama is Gaussian, so no moments are needed.
//!
//! ```text
//! −log p = log |M| + ½‖u‖² + D/2 log 2π     M = √Δt L,  u = M⁻¹ (x' − x − Δt f(x))
//! ```

use super::process::DT;
use crate::cholesky::{cholesky, solve, solve_transposed};
use anyhow::{Context, Result};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use nsde::train::Task;
use nsde::{Diffusion, Layer, Linear, Network, NeuralSde};
use rand::Rng;

/// Pairs of consecutive rows.
pub struct OneStep {
    dim: usize,
    /// `[pairs, D]` each.
    from: Array2<f64>,
    to: Array2<f64>,
    /// The first so many pairs are for training, the others are held out.
    train: usize,
}

/// Views of the flat parameters, in the order of [`NeuralSde::visit`].
struct Weights<'a> {
    first: ArrayView2<'a, f64>,
    first_bias: ArrayView1<'a, f64>,
    second: ArrayView2<'a, f64>,
    second_bias: ArrayView1<'a, f64>,
    noise: ArrayView2<'a, f64>,
}

impl OneStep {
    /// All pairs of the paths, in white coordinates; the last tenth of the paths is held out.
    pub fn new(paths: &[Array2<f64>]) -> Result<Self> {
        let dim = paths[0].ncols();
        let rows = paths[0].nrows() - 1;
        let from: Vec<_> = paths.iter().map(|p| p.slice(s![..rows, ..])).collect();
        let to: Vec<_> = paths.iter().map(|p| p.slice(s![1.., ..])).collect();
        Ok(OneStep {
            dim,
            from: ndarray::concatenate(Axis(0), &from)?,
            to: ndarray::concatenate(Axis(0), &to)?,
            train: (paths.len() - paths.len() / 10) * rows,
        })
    }

    /// The networks to begin with: PyTorch's weights, the last ones ten times smaller, and white noise. Hidden
    /// units begin active (a bias of 1, two to three deviations of what they see): only there can `D` of them
    /// make a linear drift in `D` dimensions.
    pub fn start(&self, rng: &mut impl Rng) -> Result<NeuralSde> {
        let d = self.dim;
        let first = Linear::new(d, d, Linear::random(d, d, rng)?.weight().to_vec(), vec![1.0; d])?;
        let last = Linear::random(d, d, rng)?;
        let calm = Linear::new(d, d, last.weight().iter().map(|w| 0.1 * w).collect(), vec![0.0; d])?;
        let layers = vec![Layer::Linear(first), Layer::Relu, Layer::Linear(calm)];
        let white = Array2::eye(d).iter().copied().collect();
        Ok(NeuralSde::new(d, 0, Network::new(d, layers)?, Diffusion::ConstantFull(white))?)
    }

    /// Mean loss over all pairs.
    pub fn all(&self, parameters: &[f64]) -> Result<f64> {
        let pairs: Vec<usize> = (0..self.from.nrows()).collect();
        Ok(self.loss(&self.weights(parameters)?, &pairs).0)
    }

    /// The same of the exact transition `x' ~ N(c + e^(−Δt) (x − c), S)` in place of a model.
    pub fn exact(&self, centre: &[f64], cov: &[f64]) -> Result<f64> {
        let factor = cholesky(cov, self.dim).context("the noise of a step has no volume")?;
        let (keep, d) = ((-DT).exp(), self.dim);
        let log: f64 = (0..d).map(|i| factor[i * d + i].ln()).sum();
        let mut sum = 0.0;
        for (from, to) in self.from.rows().into_iter().zip(self.to.rows()) {
            let mut away: Vec<f64> =
                (0..d).map(|i| to[i] - centre[i] - keep * (from[i] - centre[i])).collect();
            solve(&factor, &mut away);
            sum += 0.5 * away.iter().map(|u| u * u).sum::<f64>();
        }
        Ok(sum / self.from.nrows() as f64 + log + 0.5 * d as f64 * (2.0 * std::f64::consts::PI).ln())
    }

    fn weights<'a>(&self, flat: &'a [f64]) -> nsde::Result<Weights<'a>> {
        let d = self.dim;
        let expected = 3 * d * d + 2 * d;
        if flat.len() != expected {
            let what = "parameters".into();
            return Err(nsde::Error::Dimension { what, expected, found: flat.len() });
        }
        let square = |at: usize| {
            ArrayView2::from_shape((d, d), &flat[at..at + d * d]).expect("as many values as entries")
        };
        Ok(Weights {
            first: square(0),
            first_bias: ArrayView1::from(&flat[d * d..d * d + d]),
            second: square(d * d + d),
            second_bias: ArrayView1::from(&flat[2 * d * d + d..2 * d * d + 2 * d]),
            noise: square(2 * d * d + 2 * d),
        })
    }

    /// Mean loss over some pairs, and `u` and `M⁻ᵀu` of each with what the drift needs for its gradient.
    fn loss(&self, w: &Weights<'_>, pairs: &[usize]) -> (f64, Forward) {
        let from = self.from.select(Axis(0), pairs);
        let hidden = from.dot(&w.first.t()) + w.first_bias;
        let active = hidden.mapv(|h| h.max(0.0));
        let drift = active.dot(&w.second.t()) + w.second_bias;
        let root = DT.sqrt();
        let factor: Vec<f64> = w.noise.iter().map(|l| root * l).collect();
        let mut white = self.to.select(Axis(0), pairs) - &from - &(drift * DT);
        let mut back = white.clone();
        let mut sum = 0.0;
        for (mut u, mut v) in white.rows_mut().into_iter().zip(back.rows_mut()) {
            if let (Some(u), Some(v)) = (u.as_slice_mut(), v.as_slice_mut()) {
                solve(&factor, u);
                sum += 0.5 * u.iter().map(|u| u * u).sum::<f64>();
                v.copy_from_slice(u);
                solve_transposed(&factor, v);
            }
        }
        let log_det: f64 = w.noise.diag().iter().map(|l| (root * l).abs().ln()).sum();
        let constant = 0.5 * self.dim as f64 * (2.0 * std::f64::consts::PI).ln();
        (sum / pairs.len() as f64 + log_det + constant, Forward { from, active, white, back })
    }
}

struct Forward {
    from: Array2<f64>,
    active: Array2<f64>,
    white: Array2<f64>,
    back: Array2<f64>,
}

impl Task for OneStep {
    fn examples(&self, _: usize) -> usize {
        self.train
    }

    fn gradient(
        &self,
        parameters: &[f64],
        _: usize,
        examples: &[usize],
        _: u64,
        gradient: &mut [f64],
    ) -> nsde::Result<f64> {
        let w = self.weights(parameters)?;
        let (value, pass) = self.loss(&w, examples);
        let each = 1.0 / examples.len() as f64;
        let drift_bar = &pass.back * (-DT * each);
        let mut hidden_bar = drift_bar.dot(&w.second);
        hidden_bar.zip_mut_with(&pass.active, |g, a| *g = if *a > 0.0 { *g } else { 0.0 });
        let mut noise_bar = pass.back.t().dot(&pass.white) * (-DT.sqrt() * each);
        for i in 0..self.dim {
            noise_bar[[i, i]] += 1.0 / w.noise[[i, i]];
            noise_bar.slice_mut(s![i, i + 1..]).fill(0.0);
        }
        let sum = |bar: &Array2<f64>| -> Array1<f64> { bar.sum_axis(Axis(0)) };
        let (first, second) = (hidden_bar.t().dot(&pass.from), drift_bar.t().dot(&pass.active));
        let (first_bias, second_bias) = (sum(&hidden_bar), sum(&drift_bar));
        let parts = first.iter().chain(&first_bias).chain(&second).chain(&second_bias).chain(&noise_bar);
        gradient.iter_mut().zip(parts).for_each(|(to, from)| *to += from);
        Ok(value)
    }

    fn validate(&self, parameters: &[f64]) -> nsde::Result<Option<f64>> {
        let held_out: Vec<usize> = (self.train..self.from.nrows()).collect();
        if held_out.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.loss(&self.weights(parameters)?, &held_out).0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::{Process, Reading};
    use super::*;
    use crate::points::generator;

    /// In coordinates of its own the exact transition is the law of `process`.
    #[test]
    fn the_exact_loss_is_the_likelihood_of_the_transition() {
        let process = Process::random(3, Reading::Root, &mut generator(4, 0));
        let task = OneStep::new(&process.paths(2, 5, 0)).unwrap();
        let spread = 0.5 * (1.0 - (-2.0 * DT).exp());
        let cov: Vec<f64> = process.noise.dot(&process.noise.t()).iter().map(|s| spread * s).collect();
        let mut expected = 0.0;
        for (from, to) in task.from.rows().into_iter().zip(task.to.rows()) {
            let mean: Vec<f64> =
                from.iter().zip(&process.centre).map(|(x, c)| c + (x - c) * (-DT).exp()).collect();
            expected += nsde::nll(&mean, &cov, &to.to_vec()).unwrap() / task.from.nrows() as f64;
        }
        let found = task.exact(&process.centre.to_vec(), &cov).unwrap();
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn the_loss_is_that_of_the_library_and_has_its_gradient() {
        let process = Process::random(3, Reading::Root, &mut generator(1, 0));
        let task = OneStep::new(&process.paths(4, 3, 0)).unwrap();
        let sde = task.start(&mut generator(2, 0)).unwrap();
        let flat = sde.parameters();
        let pairs = [0, 7, 130];
        let mut gradient = vec![0.0; flat.len()];
        let value = task.gradient(&flat, 0, &pairs, 0, &mut gradient).unwrap();
        let solver = nsde::Solver::new(&sde, nsde::Options::default()).unwrap();
        let mut expected = 0.0;
        for p in pairs {
            let start = nsde::Gaussian::isotropic(task.from.row(p).to_vec(), 0.0).unwrap();
            let rollout = nsde::Rollout { start: &start, dts: &[DT], inputs: &[] };
            let path = &solver.solve(&[rollout]).unwrap()[0];
            expected += nsde::nll(path.mean(0), path.cov(0), &task.to.row(p).to_vec()).unwrap() / 3.0;
        }
        assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        for i in 0..flat.len() {
            // The entries of the diffusion above its diagonal are not parameters.
            if flat[i] == 0.0 && gradient[i] == 0.0 {
                continue;
            }
            let at = |step: f64| {
                let mut moved = flat.clone();
                moved[i] += step;
                task.loss(&task.weights(&moved).unwrap(), &pairs).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-5 * (1.0 + slope.abs()), "{i}: {slope} {}", gradient[i]);
        }
    }
}
