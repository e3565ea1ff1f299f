//! diffWGP, an SDE whose drift and diffusion are Gaussian processes (Jørgensen, Deisenroth and Salimbeni, 2020); an implementation of
//! our own.
//!
//! ```text
//! x' = x + f(x) + S(x) w + √c v,    S(x) = A J(x),    w, v ~ N(0, I)        one step of a row's length
//! ```
//!
//! `f` is the conditional mean of `D` processes given their values at inducing points. `J(x)` holds `ρ × ρ` processes that are drawn at
//! every step, so that `S Sᵀ` follows a Wishart process; `A` lifts it to `D` dimensions. All processes share a squared-exponential
//! kernel and its inducing points. Training maximises the evidence bound: the mean log-density of the rows of a snippet under
//! `N(x, S Sᵀ + c)` along sampled paths, less the distance of the inducing values from their prior.

use super::low_rank::log_density;
use super::recurrent::{Training, snippets};
use super::weights::Weights;
use super::whiten::whitening;
use anyhow::{Result, ensure};
use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use nsde::data::Dataset;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

/// Inducing points, as the authors have.
const INDUCING: usize = 100;
/// Processes in a row and in a column of `J`, `ρ`: the paper does not print its authors' choice.
const FACTORS: usize = 10;
/// Sampled paths of a snippet, as the authors have.
const PATHS: usize = 4;
/// The authors' learning rate; its schedule is that of the others.
const RATE: f64 = 1e-2;
/// Share of the kernel's variance that is added to its diagonal.
const JITTER: f64 = 1e-4;
/// Least variance of a process that is drawn, which the inducing points may know exactly, and of the first noise of a column that
/// stands still.
const LEAST: f64 = 1e-6;

/// The processes, and what is learned of them.
pub struct Wishart {
    /// Inducing points `[M, D]`, logarithms of the kernel's lengths `[D]` and of its variance `[1]`.
    points: Tensor,
    log_lengths: Tensor,
    log_variance: Tensor,
    /// Whitened inducing values: of the drift `[M, D]`, of `J` with their deviations' logarithms `[M, ρ²]`.
    drift: Tensor,
    factor: Tensor,
    log_deviation: Tensor,
    /// `A`, `[D, ρ]`, and `log c`, `[D]`.
    lift: Tensor,
    log_noise: Tensor,
    seed: u64,
}

/// A kernel matrix's whitening, made once per update or rollout.
struct Prepared {
    scaled_points: Tensor,
    whitening: Tensor,
}

/// Normal numbers.
fn normal(rng: &mut ChaCha8Rng, shape: &[usize]) -> candle_core::Result<Tensor> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| StandardNormal.sample(rng)).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)
}

impl Wishart {
    /// Inducing points are rows of the data, lengths their typical distance, the noise half of what a random walk would have.
    fn new(weights: &mut Weights, data: &Dataset, seed: u64) -> candle_core::Result<Wishart> {
        let dim = data.dim();
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 46));
        let mut points = Vec::with_capacity(INDUCING * dim);
        for _ in 0..INDUCING {
            let series = &data.series[(rng.next_u64() % data.series.len() as u64) as usize];
            let row = (rng.next_u64() % series.rows() as u64) as usize;
            points.extend(series.values[row * dim..(row + 1) * dim].iter().map(|x| *x as f32));
        }
        let (mut walk, mut count) = (vec![0.0; dim], 0.0);
        for series in &data.series {
            for rows in series.values.windows(2 * dim).step_by(dim) {
                (0..dim).for_each(|i| walk[i] += (rows[dim + i] - rows[i]).powi(2));
                count += 1.0;
            }
        }
        let log_noise = walk.iter().map(|w| (0.5 * w / count).max(LEAST).ln() as f32).collect();
        Ok(Wishart {
            points: weights.given(points, &[INDUCING, dim])?,
            log_lengths: weights.constant(&[dim], 0.5 * (dim as f32).ln())?,
            log_variance: weights.constant(&[1], 0.0)?,
            drift: weights.constant(&[INDUCING, dim], 0.0)?,
            factor: weights.uniform(&[INDUCING, FACTORS * FACTORS], 0.1)?,
            log_deviation: weights.constant(&[INDUCING, FACTORS * FACTORS], -1.0)?,
            lift: weights.uniform(&[dim, FACTORS], 0.1)?,
            log_noise: weights.given(log_noise, &[dim])?,
            seed,
        })
    }

    /// Trains on snippets of `data`, which has no control inputs.
    pub fn train(data: &Dataset, how: &Training) -> Result<Wishart> {
        ensure!(data.inputs() == 0, "diffWGP takes no control inputs");
        let seed = how.adam.seed;
        let mut weights = Weights::new(seed);
        let model = Wishart::new(&mut weights, data, seed)?;
        let adam = ParamsAdamW { lr: RATE, weight_decay: how.adam.weight_decay, ..ParamsAdamW::default() };
        let mut adam = AdamW::new(weights.into_vars(), adam)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 41));
        let rows: usize = data.series.iter().map(|s| s.rows()).sum();
        for step in 0..how.adam.steps {
            adam.set_learning_rate(RATE * how.adam.rate_at(step) / how.adam.rate);
            let (now, change) = snippets(data, how, &mut rng)?;
            let bound = model.bound(&now, &(&now + change)?, rows, &mut rng)?;
            adam.backward_step(&bound.neg()?)?;
        }
        Ok(model)
    }

    /// The evidence bound of snippets: rows `now` and those `after` them, `[batch, rows, D]`; the data have `all` rows.
    fn bound(
        &self,
        now: &Tensor,
        after: &Tensor,
        all: usize,
        rng: &mut ChaCha8Rng,
    ) -> candle_core::Result<Tensor> {
        let rows = now.dim(1)?;
        let row = |x: &Tensor, n: usize| x.narrow(1, n, 1)?.squeeze(1)?.repeat((PATHS, 1));
        let prepared = self.prepare()?;
        let noise = self.log_noise.exp()?;
        let mut x = row(now, 0)?;
        let mut fit = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        for n in 0..rows {
            let (next, factor) = self.step(&x, &prepared, rng)?;
            fit = (fit + log_density(&(row(after, n)? - &next)?, &factor, &noise)?.mean_all()?)?;
            x = next;
        }
        fit - (self.distance()? * (rows as f64 / all as f64))?
    }

    /// Kullback–Leibler distance of the whitened inducing values from N(0, I); those of the drift are points.
    fn distance(&self) -> candle_core::Result<Tensor> {
        let spread = ((&self.log_deviation * 2.0)?.exp()? - (&self.log_deviation * 2.0)?)?.sum_all()?;
        let size = (self.drift.sqr()?.sum_all()? + self.factor.sqr()?.sum_all()?)?;
        (size + spread)? * 0.5
    }

    fn prepare(&self) -> candle_core::Result<Prepared> {
        let scaled_points = self.scaled(&self.points)?;
        let unit = Tensor::eye(INDUCING, DType::F32, &Device::Cpu)?;
        let kernel = (self.kernel(&scaled_points, &scaled_points)?
            + unit.broadcast_mul(&(self.log_variance.exp()? * JITTER)?)?)?;
        Ok(Prepared { whitening: whitening(&kernel)?, scaled_points })
    }

    fn scaled(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        x.broadcast_mul(&self.log_lengths.neg()?.exp()?)
    }

    /// `σ² exp(−½ |a − b|²)` of scaled points.
    fn kernel(&self, a: &Tensor, b: &Tensor) -> candle_core::Result<Tensor> {
        let square = |x: &Tensor| x.sqr()?.sum_keepdim(1);
        let products = (a.matmul(&b.t()?.contiguous()?)? * 2.0)?;
        let distance = products.neg()?.broadcast_add(&square(a)?)?.broadcast_add(&square(b)?.t()?)?;
        (distance.relu()? * -0.5)?.exp()?.broadcast_mul(&self.log_variance.exp()?)
    }

    /// A sampled step of the rows of `x`, and the factors `S` of their diffusion, `[n, D, ρ]`.
    fn step(
        &self,
        x: &Tensor,
        prepared: &Prepared,
        rng: &mut ChaCha8Rng,
    ) -> candle_core::Result<(Tensor, Tensor)> {
        let (count, dim) = x.dims2()?;
        let kernel = self.kernel(&self.scaled(x)?, &prepared.scaled_points)?;
        let known = kernel.matmul(&prepared.whitening.t()?.contiguous()?)?;
        let drift = known.matmul(&self.drift)?;
        let mean = known.matmul(&self.factor)?;
        let squares = known.sqr()?;
        let unknown = squares.sum_keepdim(1)?.neg()?.broadcast_add(&self.log_variance.exp()?)?.relu()?;
        let learned = squares.matmul(&(&self.log_deviation * 2.0)?.exp()?)?;
        let deviation = (learned.broadcast_add(&unknown)? + LEAST)?.sqrt()?;
        let drawn = (mean + (deviation * normal(rng, &[count, FACTORS * FACTORS])?)?)?;
        let drawn = drawn.reshape((count, FACTORS, FACTORS))?;
        let factor =
            self.lift.unsqueeze(0)?.broadcast_as((count, dim, FACTORS))?.contiguous()?.matmul(&drawn)?;
        let shaken = factor.matmul(&normal(rng, &[count, FACTORS, 1])?)?.squeeze(2)?;
        let white = normal(rng, &[count, dim])?.broadcast_mul(&(&self.log_noise * 0.5)?.exp()?)?;
        Ok(((((x + drift)? + shaken)? + white)?, factor))
    }

    /// Rolls out `steps` rows from `start`: `[steps, samples, D]`.
    pub fn rollout(&self, index: usize, start: &[f64], steps: usize, samples: usize) -> Result<Vec<f64>> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (1 << 42));
        rng.set_stream(index as u64);
        let first: Vec<f32> = start.iter().map(|x| *x as f32).collect();
        let mut x = Tensor::from_vec(first.repeat(samples), (samples, start.len()), &Device::Cpu)?;
        let prepared = self.prepare()?;
        let mut all = Vec::with_capacity(steps * samples * start.len());
        for _ in 0..steps {
            // Without this the tape of the whole rollout would stay in memory.
            x = self.step(&x, &prepared, &mut rng)?.0.detach();
            all.extend(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|v| f64::from(*v)));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::particles::moments;
    use nsde::data::Series;
    use nsde::train::TrainOptions;

    /// Paths of `x' = 0.9 x + noise` in two dimensions, whose noise has a correlation of 0.8.
    fn pairs() -> Dataset {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let series = (0..32).map(|i| {
            let mut values = vec![normal(), normal()];
            for n in 1..20 {
                let (a, b) = (normal(), normal());
                values.push(0.9 * values[2 * n - 2] + 0.2 * a);
                values.push(0.9 * values[2 * n - 1] + 0.2 * (0.8 * a + 0.6 * b));
            }
            let times = (0..20).map(f64::from).collect();
            Series { name: i.to_string(), times, values, inputs: Vec::new() }
        });
        crate::standard::dataset(&["x".into(), "y".into()], &[], series.collect())
    }

    #[test]
    fn a_decay_and_its_correlated_noise_are_learned() {
        let adam =
            TrainOptions { steps: 150, batch: 16, decay_rate: false, seed: 7, ..TrainOptions::default() };
        let model = Wishart::train(&pairs(), &Training { rows: 3, adam }).unwrap();
        let cloud = model.rollout(0, &[1.0, -1.0], 1, 2000).unwrap();
        let law = moments(&cloud, 2, 2000);
        assert!((law.mean[0] - 0.9).abs() < 0.15 && (law.mean[1] + 0.9).abs() < 0.15, "{law:?}");
        let correlation = law.cov[1] / (law.cov[0] * law.cov[3]).sqrt();
        assert!(correlation > 0.4, "{law:?}");
        assert_eq!(cloud, model.rollout(0, &[1.0, -1.0], 1, 2000).unwrap());
        assert_ne!(cloud, model.rollout(1, &[1.0, -1.0], 1, 2000).unwrap());
    }
}
