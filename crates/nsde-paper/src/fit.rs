//! Fitting a neural SDE as the paper does (Sec. 6.4), and with what we add.

use crate::look::Look;
use anyhow::Result;
use nsde::data::Dataset;
use nsde::train::{
    Architecture, ForecastTask, Objective, Progress, Task, TrainOptions, TrainState, WindowOptions, advance,
};
use nsde::{Diffusion, Layer, Network, NeuralSde, Options, Scaling};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;

/// Networks and training of a neural SDE, in the units of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Widths of the drift's hidden layers.
    pub hidden: Vec<usize>,
    /// Widths of the diffusion's hidden layers; `None` for a neural ODE.
    pub noise_hidden: Option<Vec<usize>>,
    /// Probability to keep a hidden unit.
    pub keep: f64,
    /// Rows that are predicted from each start.
    pub horizon: usize,
    /// Updates.
    pub steps: usize,
    /// Snippets per update.
    pub batch: usize,
    /// Step of Euler–Maruyama.
    pub dt: f64,
    /// Variance of a start.
    pub init_var: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// How the networks start and Adam goes.
    pub recipe: Recipe,
    /// Models that are trained alike but for their seeds, and predict together.
    pub members: usize,
    /// Rows of the forecasts that choose the weights, see [`Look`]; windows as in the training choose them where there is none. The
    /// key of a cell has it only where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<usize>,
    /// A column that a model should not care about, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Whether it is trained again, on the rows held out too, for as many updates as were best, see [`Rows::whole`].
    #[serde(skip_serializing_if = "is_false")]
    pub again: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a training has.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// What it learns from.
    pub train: &'a Dataset,
    /// What chooses the weights, if they are chosen: else the last are kept.
    pub held_out: Option<&'a Dataset>,
    /// All of them, for those that are trained again.
    pub whole: Option<&'a Dataset>,
}

impl<'a> Rows<'a> {
    /// All rows train.
    pub fn all(train: &'a Dataset) -> Self {
        Rows { train, held_out: None, whole: None }
    }

    /// The rows `held_out` choose the weights.
    pub fn validated(train: &'a Dataset, held_out: &'a Dataset) -> Self {
        Rows { train, held_out: Some(held_out), whole: None }
    }
}

/// The training rows are there again, with one column moved on a little further in every copy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// The column.
    pub column: usize,
    /// By how much, each time.
    pub by: f64,
    /// Copies.
    pub copies: usize,
}

impl Moved {
    /// The rows as they are, and their copies.
    pub fn apply(&self, data: &Dataset) -> Dataset {
        let mut out = data.clone();
        for copy in 1..=self.copies {
            for mut series in data.series.iter().cloned() {
                let column = series.values.iter_mut().skip(self.column).step_by(data.dim());
                column.for_each(|x| *x += self.by * copy as f64);
                out.series.push(series);
            }
        }
        out
    }
}

/// How the networks start and Adam goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Recipe {
    /// The paper's, as far as it is printed: PyTorch's first weights, Adam at 1e-3 throughout, the last
    /// weights. The diffusion net ends in a linear layer: only `L²` counts.
    Paper,
    /// The same with a learning rate that rises over the first 2 % of the updates and falls like a cosine.
    Falling,
    /// What `nsde fit` does: a calm start, a diffusion net that ends in a softplus, a learning rate that
    /// rises to 3e-3 and falls, clipped gradients, averaged weights.
    Ours,
}

impl Fit {
    /// Fits to `data` by the kernel of `options`; a neural ODE by least squares, else by likelihood.
    pub fn train(&self, data: &Dataset, options: Options, seed: u64) -> Result<NeuralSde> {
        self.train_rows(Rows::all(data), options, seed)
    }

    /// The same, but keeps the weights that are best on the rows held out, if there are any, or is trained again for as long.
    pub fn train_rows(&self, rows: Rows<'_>, options: Options, seed: u64) -> Result<NeuralSde> {
        let task = self.task(rows.train, rows.held_out, options, seed)?;
        let how = self.train_options(seed);
        let mut state = TrainState::new(task.parameters());
        let long = rows.held_out.zip(self.look).map(|(held_out, rows)| Look {
            task: &task,
            options,
            held_out,
            rows,
            dt: self.dt,
            init_var: self.init_var,
            certain: self.noise_hidden.is_none(),
        });
        let looked: &dyn Task = long.as_ref().map_or(&task, |long| long);
        while advance(looked, &how, task.stages(), &mut state)? != Progress::Done {}
        let best = state.best_score.map(|(_, step)| step);
        let Some((whole, best)) = rows.whole.zip(best).filter(|_| self.again) else {
            return Ok(task.sde(state.result())?);
        };
        let task = self.task(whole, None, options, seed)?;
        let mut state = TrainState::new(task.parameters());
        while state.step < best && advance(&task, &how, task.stages(), &mut state)? != Progress::Done {}
        Ok(task.sde(state.result())?)
    }

    /// What Adam works on: windows of `data`.
    fn task(
        &self,
        data: &Dataset,
        held_out: Option<&Dataset>,
        options: Options,
        seed: u64,
    ) -> Result<ForecastTask> {
        let dim = data.dim();
        let objective = match self.noise_hidden {
            Some(_) => Objective::Likelihood,
            None => Objective::SquaredError,
        };
        let scaling = Scaling::new(vec![0.0; dim], vec![1.0; dim])?;
        let cut =
            WindowOptions { horizon: self.horizon, max_dt: self.dt, init_var: self.init_var, stride: 1 };
        let sde = self.networks(data, seed)?;
        let horizons = [self.horizon];
        Ok(ForecastTask::new(sde, options, objective, data, held_out, &scaling, None, &horizons, &cut)?)
    }

    /// How Adam goes.
    pub fn train_options(&self, seed: u64) -> TrainOptions {
        let shared = TrainOptions {
            steps: self.steps,
            batch: self.batch,
            weight_decay: self.weight_decay,
            seed,
            ..TrainOptions::default()
        };
        match self.recipe {
            Recipe::Ours => shared,
            Recipe::Paper | Recipe::Falling => TrainOptions {
                rate: 1e-3,
                decay_rate: self.recipe == Recipe::Falling,
                clip: f64::INFINITY,
                average: 0.0,
                ..shared
            },
        }
    }

    fn networks(&self, data: &Dataset, seed: u64) -> Result<NeuralSde> {
        let dim = data.dim();
        if self.recipe == Recipe::Ours {
            let architecture = Architecture {
                hidden: self.hidden.clone(),
                noise_hidden: self.noise_hidden.clone().unwrap_or_default(),
                keep: self.keep,
                diffusion: if self.noise_hidden.is_some() { "diagonal" } else { "none" }.into(),
                ..Architecture::default()
            };
            return Ok(architecture.build(dim, data.inputs(), &increments(data), seed)?);
        }
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let input = dim + data.inputs();
        let drift = Network::perceptron(input, &self.hidden, dim, Layer::Relu, self.keep, rng)?;
        let diffusion = match &self.noise_hidden {
            Some(hidden) => {
                Diffusion::Diagonal(Network::perceptron(dim, hidden, dim, Layer::Relu, self.keep, rng)?)
            }
            None => Diffusion::None,
        };
        Ok(NeuralSde::new(dim, data.inputs(), drift, diffusion)?)
    }
}

/// The size of the noise if the data were a random walk: `√(mean (Δx)²/Δt)` per column.
fn increments(data: &Dataset) -> Vec<f64> {
    let dim = data.dim();
    let (mut sum, mut count) = (vec![0.0; dim], 0.0_f64);
    for series in &data.series {
        for n in 1..series.rows() {
            let dt = series.times[n] - series.times[n - 1];
            let row = |n: usize| &series.values[n * dim..(n + 1) * dim];
            let step: Vec<f64> = row(n).iter().zip(row(n - 1)).map(|(b, a)| (b - a).powi(2) / dt).collect();
            if step.iter().all(|s| s.is_finite()) {
                sum.iter_mut().zip(&step).for_each(|(sum, s)| *sum += s);
                count += 1.0;
            }
        }
    }
    sum.iter().map(|s| (s / count.max(1.0)).sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::standard::dataset;
    use nsde::data::Series;

    /// A sawtooth of two columns.
    fn rows(count: usize) -> Dataset {
        let values = (0..count).flat_map(|n| [n as f64 % 5.0, 1.0 - n as f64 % 3.0]).collect();
        let times = (0..count).map(|n| n as f64).collect();
        let series = Series { name: "a".into(), times, values, inputs: Vec::new() };
        dataset(&["x".into(), "y".into()], &[], vec![series])
    }

    #[test]
    fn what_is_trained_again_sees_all_rows_and_is_trained_as_long() {
        let (train, held_out, whole) = (rows(20), rows(8), rows(28));
        let usual = Fit { steps: 3, ..Protocol::new(2, 1.0, 4, 2, 1..4).fit };
        let again = Fit { again: true, ..usual.clone() };
        let rows = Rows { train: &train, held_out: Some(&held_out), whole: Some(&whole) };
        let trained = |fit: &Fit| fit.train_rows(rows, Options::default(), 1).unwrap();
        // So few updates are looked at once, after the last: the best are all of them.
        assert_eq!(trained(&again), usual.train(&whole, Options::default(), 1).unwrap());
        assert_ne!(trained(&again), trained(&usual));
    }

    #[test]
    fn a_column_moves_on_with_every_copy() {
        let values = vec![1.0, 5.0, 2.0, 6.0];
        let series = Series { name: "a".into(), times: vec![0.0, 1.0], values, inputs: Vec::new() };
        let data = dataset(&["x".into(), "y".into()], &[], vec![series]);
        let all = Moved { column: 1, by: 10.0, copies: 2 }.apply(&data);
        let values: Vec<&[f64]> = all.series.iter().map(|s| s.values.as_slice()).collect();
        assert_eq!(values, [[1.0, 5.0, 2.0, 6.0], [1.0, 15.0, 2.0, 16.0], [1.0, 25.0, 2.0, 26.0]]);
    }
}
