//! What the baselines share: one-step training, and rollouts that feed predictions back.
//!
//! A network predicts the change to the next row; a stochastic one also the logarithm of its variance, per
//! coordinate, and is then rolled out with samples.

use super::Kind;
use super::lstm::Lstm;
use super::transformer::Transformer;
use super::weights::Weights;
use candle_core::{Device, Result, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use nsde::data::Dataset;
use nsde::train::TrainOptions;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

/// A network over rows that come one after the other.
pub trait Network {
    /// The state before the first row.
    fn begin(&self, batch: usize) -> Result<Vec<Tensor>>;
    /// Reads a row `[batch, input]` and gives its output.
    fn step(&self, x: &Tensor, state: &mut Vec<Tensor>) -> Result<Tensor>;
    /// Outputs for all rows of `[batch, rows, input]` at once.
    fn sequence(&self, x: &Tensor) -> Result<Tensor>;
}

/// How to train.
#[derive(Clone, Debug)]
pub struct Training {
    /// Rows of a snippet, without the last target.
    pub rows: usize,
    /// Updates, snippets per update, learning rate, and the seed of everything. There is neither clipping nor averaging.
    pub adam: TrainOptions,
}

/// A trained network.
pub struct Baseline {
    network: Box<dyn Network>,
    dim: usize,
    /// Control inputs, which are read beside the row.
    inputs: usize,
    stochastic: bool,
    seed: u64,
}

/// Trains on snippets of `data` by squared error, or by likelihood if `stochastic`.
pub fn train(kind: Kind, stochastic: bool, data: &Dataset, how: &Training) -> Result<Baseline> {
    let seed = how.adam.seed;
    let dim = data.dim();
    let output = if stochastic { 2 * dim } else { dim };
    let mut weights = Weights::new(seed);
    let input = dim + data.inputs();
    let network: Box<dyn Network> = match kind {
        Kind::Lstm => Box::new(Lstm::new(&mut weights, input, output)?),
        Kind::Transformer => Box::new(Transformer::new(&mut weights, input, output, how.rows)?),
    };
    let adam =
        ParamsAdamW { lr: how.adam.rate, weight_decay: how.adam.weight_decay, ..ParamsAdamW::default() };
    let mut adam = AdamW::new(weights.into_vars(), adam)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 41));
    for step in 0..how.adam.steps {
        adam.set_learning_rate(how.adam.rate_at(step));
        let (x, change) = snippets(data, how, &mut rng)?;
        let out = network.sequence(&x)?;
        let mean = out.narrow(2, 0, dim)?;
        let square = (&change - mean)?.sqr()?;
        let loss = if stochastic {
            let log_var = out.narrow(2, dim, dim)?;
            (square * log_var.neg()?.exp()?)?.add(&log_var)?.sum_all()?
        } else {
            square.sum_all()?
        };
        adam.backward_step(&(loss * (0.5 / how.adam.batch as f64))?)?;
    }
    Ok(Baseline { network, dim, inputs: data.inputs(), stochastic, seed })
}

/// Rows of random snippets, `[batch, rows, dim + inputs]`, and the changes to the rows after them, `[batch, rows, dim]`.
pub fn snippets(data: &Dataset, how: &Training, rng: &mut ChaCha8Rng) -> Result<(Tensor, Tensor)> {
    let (dim, inputs) = (data.dim(), data.inputs());
    let (mut x, mut change) = (Vec::new(), Vec::new());
    for _ in 0..how.adam.batch {
        let series = &data.series[(rng.next_u64() % data.series.len() as u64) as usize];
        let first = (rng.next_u64() % (series.rows() - how.rows) as u64) as usize;
        for row in first..first + how.rows {
            let (now, next) = series.values[row * dim..(row + 2) * dim].split_at(dim);
            x.extend(now.iter().map(|v| *v as f32));
            x.extend(series.inputs[row * inputs..(row + 1) * inputs].iter().map(|v| *v as f32));
            change.extend(now.iter().zip(next).map(|(now, next)| (next - now) as f32));
        }
    }
    let x = Tensor::from_vec(x, (how.adam.batch, how.rows, dim + inputs), &Device::Cpu)?;
    Ok((x, Tensor::from_vec(change, (how.adam.batch, how.rows, dim), &Device::Cpu)?))
}

impl Baseline {
    /// Rolls out `steps` rows from `start`: `[steps, samples, D]`. A deterministic network has one sample.
    /// `inputs` has a row for each step, if there are any.
    pub fn rollout(
        &self,
        index: usize,
        start: &[f64],
        inputs: &[f64],
        steps: usize,
        samples: usize,
    ) -> Result<Vec<f64>> {
        let samples = if self.stochastic { samples } else { 1 };
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (1 << 42));
        rng.set_stream(index as u64);
        let first: Vec<f32> = start.iter().map(|x| *x as f32).collect();
        let mut x = Tensor::from_vec(first.repeat(samples), (samples, self.dim), &Device::Cpu)?;
        let mut state = self.network.begin(samples)?;
        let mut all = Vec::with_capacity(steps * samples * self.dim);
        for k in 0..steps {
            let driven = match self.inputs {
                0 => x.clone(),
                n => {
                    let row: Vec<f32> = inputs[k * n..(k + 1) * n].iter().map(|v| *v as f32).collect();
                    let row = Tensor::from_vec(row.repeat(samples), (samples, n), &Device::Cpu)?;
                    Tensor::cat(&[&x, &row], 1)?
                }
            };
            let out = self.network.step(&driven, &mut state)?.detach();
            // Without this the tape of the whole rollout would stay in memory.
            state.iter_mut().for_each(|s| *s = s.detach());
            x = (x + out.narrow(1, 0, self.dim)?)?;
            if self.stochastic {
                let sd = (out.narrow(1, self.dim, self.dim)? * 0.5)?.exp()?;
                let draws: Vec<f32> =
                    (0..samples * self.dim).map(|_| StandardNormal.sample(&mut rng)).collect();
                x = (x + (sd * Tensor::from_vec(draws, (samples, self.dim), &Device::Cpu)?)?)?;
            }
            all.extend(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|v| f64::from(*v)));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde::data::{Series, TimeAxis};

    /// Paths of `x' = 0.9 x + 0.05 z`.
    fn decay() -> Dataset {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let series = (0..32).map(|i| {
            let mut values = vec![normal()];
            (1..20).for_each(|n| values.push(0.9 * values[n - 1] + 0.05 * normal()));
            let times = (0..20).map(f64::from).collect();
            Series { name: i.to_string(), times, values, inputs: Vec::new() }
        });
        Dataset {
            columns: vec!["x".into()],
            input_columns: Vec::new(),
            series: series.collect(),
            time: TimeAxis::default(),
            notes: Vec::new(),
        }
    }

    fn how() -> Training {
        Training {
            rows: 5,
            adam: TrainOptions {
                steps: 300,
                batch: 16,
                decay_rate: false,
                seed: 7,
                ..TrainOptions::default()
            },
        }
    }

    #[test]
    fn both_networks_learn_a_decay_and_its_noise() {
        let data = decay();
        for kind in [Kind::Lstm, Kind::Transformer] {
            let sure = train(kind, false, &data, &how()).unwrap().rollout(0, &[1.0], &[], 5, 9).unwrap();
            assert_eq!(sure.len(), 5);
            assert!((sure[4] - 0.9f64.powi(5)).abs() < 0.1, "{kind:?} {sure:?}");
            let net = train(kind, true, &data, &how()).unwrap();
            let cloud = net.rollout(0, &[1.0], &[], 1, 2000).unwrap();
            let spread = crate::statistics::deviation(&cloud);
            assert!((0.03..0.09).contains(&spread), "{kind:?} {spread}");
            assert_eq!(cloud, net.rollout(0, &[1.0], &[], 1, 2000).unwrap());
            assert_ne!(cloud, net.rollout(1, &[1.0], &[], 1, 2000).unwrap());
        }
    }
}
