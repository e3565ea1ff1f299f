//! Maximum likelihood for time series (Sec. 6.4, Eqs. 41–46): one-step, multi-step, and the neural ODE.
//!
//! ```text
//! max_θ Σ_windows Σ_rows log N(x_row | μ_k(θ), Σ_k(θ))
//! ```
//!
//! # Departs from the paper
//! The paper prints argmax E[p]; the likelihood is argmax E[log p]. A row with missing values counts
//! with the marginal of what was observed.

use super::kept::Kept;
use super::trainer::Task;
use super::window::{Window, WindowOptions, windows};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::gaussian::nll_pull;
use crate::layer::{Layer, Linear};
use crate::model::Scaling;
use crate::network::Network;
use crate::sde::{Diffusion, NeuralSde};
use crate::solver::{Method, Options, Rollout, Trajectory};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// What is minimised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The negative log-likelihood of the predicted Gaussians.
    #[default]
    Likelihood,
    /// The squared error of the predicted means: a neural ODE.
    SquaredError,
}

/// The networks of a model to be fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Architecture {
    /// Widths of the drift's hidden layers.
    pub hidden: Vec<usize>,
    /// Widths of the diffusion's hidden layers.
    pub noise_hidden: Vec<usize>,
    /// Activation of the hidden layers, by its name in the model file.
    pub activation: String,
    /// Probability to keep a hidden unit; 1 for no dropout.
    pub keep: f64,
    /// `diagonal`, `full`, `constant` or `none`.
    pub diffusion: String,
}

impl Default for Architecture {
    fn default() -> Self {
        Architecture {
            hidden: vec![50, 50],
            noise_hidden: vec![50],
            activation: "relu".into(),
            keep: 1.0,
            diffusion: "diagonal".into(),
        }
    }
}

/// The drift starts this much smaller than PyTorch would start it, so that long rollouts begin calm.
const CALM: f64 = 0.1;

impl Architecture {
    /// Random networks. `noise` is the size of the diffusion to begin with, per dimension.
    pub fn build(&self, state: usize, inputs: usize, noise: &[f64], seed: u64) -> Result<NeuralSde> {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let activation = Layer::activation(&self.activation).ok_or_else(|| Error::Architecture {
            net: "activation".into(),
            why: format!("`{}` is not known; use one of {}", self.activation, Layer::ACTIVATIONS.join(", ")),
        })?;
        if !(self.keep > 0.0 && self.keep <= 1.0) {
            return Err(Error::Range { what: "keep".into(), value: self.keep, must: "in (0, 1]" });
        }
        let net = |width: usize, hidden: &[usize], output: usize, rng: &mut ChaCha8Rng| {
            Network::perceptron(width, hidden, output, activation.clone(), self.keep, rng)
        };
        let drift = scale_last(net(state + inputs, &self.hidden, state, rng)?, CALM, None)?;
        let diffusion = match self.diffusion.as_str() {
            "diagonal" => {
                // softplus(bias) = noise
                let bias: Vec<f64> = noise.iter().map(|s| s.max(1e-3).exp_m1().ln()).collect();
                let net = scale_last(net(state, &self.noise_hidden, state, rng)?, CALM, Some(&bias))?;
                let mut layers = net.layers().to_vec();
                layers.push(Layer::Softplus);
                Diffusion::Diagonal(Network::new(state, layers)?)
            }
            "full" => {
                let mut bias = Vec::new();
                for (i, s) in noise.iter().enumerate() {
                    bias.extend((0..=i).map(|c| if c == i { *s } else { 0.0 }));
                }
                let count = state * (state + 1) / 2;
                Diffusion::Full(scale_last(net(state, &self.noise_hidden, count, rng)?, CALM, Some(&bias))?)
            }
            "constant" => Diffusion::ConstantDiagonal(noise.to_vec()),
            "none" => Diffusion::None,
            other => {
                return Err(Error::Architecture {
                    net: "diffusion".into(),
                    why: format!("`{other}` is not known; use diagonal, full, constant or none"),
                });
            }
        };
        NeuralSde::new(state, inputs, drift, diffusion)
    }
}

/// Scales the weights of the last layer, and sets its biases or scales them too.
fn scale_last(net: Network, factor: f64, bias: Option<&[f64]>) -> Result<Network> {
    let mut layers = net.layers().to_vec();
    if let Some(Layer::Linear(l)) = layers.last_mut() {
        let weight = l.weight().iter().map(|w| factor * w).collect();
        let bias = bias.map_or_else(|| l.bias().iter().map(|b| factor * b).collect(), <[f64]>::to_vec);
        *l = Linear::new(l.input(), l.output(), weight, bias)?;
    }
    Network::new(net.input(), layers)
}

/// A neural SDE to be fitted to the windows of a data set.
pub struct ForecastTask {
    sde: NeuralSde,
    options: Options,
    solver: Kept,
    objective: Objective,
    /// One list of windows per stage of the curriculum.
    stages: Vec<Vec<Window>>,
    held_out: Vec<Window>,
    /// `Σ log std`: turns a likelihood into the units of the data.
    log_scale: Vec<f64>,
}

impl ForecastTask {
    /// Windows of each horizon from `train`, and of the last one, side by side, from `held_out`.
    pub fn new(
        sde: NeuralSde,
        options: Options,
        objective: Objective,
        train: &Dataset,
        held_out: Option<&Dataset>,
        scaling: &Scaling,
        inputs_scaling: Option<&Scaling>,
        horizons: &[usize],
        cut: &WindowOptions,
    ) -> Result<Self> {
        let longest = train.series.iter().map(|s| s.rows()).max().unwrap_or(0);
        let mut stages = Vec::with_capacity(horizons.len());
        for horizon in horizons {
            let cut = WindowOptions { horizon: *horizon, ..cut.clone() };
            let list = windows(train, scaling, inputs_scaling, &cut)?;
            if list.is_empty() {
                return Err(Error::Range {
                    what: format!("horizon (the longest training series has {longest} rows)"),
                    value: *horizon as f64,
                    must: "at least 1 and shorter than a training series",
                });
            }
            stages.push(list);
        }
        let last = horizons.last().copied().unwrap_or(1);
        let held_out = match held_out {
            Some(data) => {
                let longest = data.series.iter().map(|s| s.rows()).max().unwrap_or(1);
                let horizon = last.min(longest.saturating_sub(1)).max(1);
                let cut = WindowOptions { horizon, stride: horizon, ..cut.clone() };
                windows(data, scaling, inputs_scaling, &cut)?
            }
            None => Vec::new(),
        };
        Ok(ForecastTask {
            sde,
            options,
            solver: Kept::default(),
            objective,
            stages,
            held_out,
            log_scale: scaling.std.iter().map(|s| s.ln()).collect(),
        })
    }

    /// The weights as they are now.
    pub fn parameters(&self) -> Vec<f64> {
        self.sde.parameters()
    }

    /// The SDE with these weights.
    pub fn sde(&self, parameters: &[f64]) -> Result<NeuralSde> {
        let mut sde = self.sde.clone();
        sde.set_parameters(parameters)?;
        Ok(sde)
    }

    /// Number of stages of the curriculum.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// The options, with samples drawn from `seed`.
    fn seeded(&self, seed: u64) -> Options {
        let mut options = self.options;
        if let Method::MonteCarlo { samples, .. } = options.method {
            options.method = Method::MonteCarlo { samples, seed };
        }
        options
    }

    /// The loss of one row, in the units of the data, and its cotangents times `bar`.
    fn row(
        &self,
        mean: &[f64],
        cov: &[f64],
        x: &[f64],
        bar: f64,
        mean_bar: &mut [f64],
        cov_bar: &mut [f64],
    ) -> Result<f64> {
        match self.objective {
            Objective::SquaredError => {
                let mut sum = 0.0;
                for i in 0..x.len() {
                    if !x[i].is_nan() {
                        sum += (mean[i] - x[i]).powi(2);
                        mean_bar[i] += bar * 2.0 * (mean[i] - x[i]);
                    }
                }
                Ok(sum)
            }
            Objective::Likelihood => {
                let seen: Vec<usize> = (0..x.len()).filter(|i| !x[*i].is_nan()).collect();
                let units: f64 = seen.iter().map(|i| self.log_scale[*i]).sum();
                if seen.is_empty() {
                    return Ok(0.0);
                }
                if seen.len() == x.len() {
                    return Ok(units + nll_pull(mean, cov, x, bar, mean_bar, cov_bar)?);
                }
                // The marginal of what was observed: rows and columns of the covariance.
                let (d, n) = (x.len(), seen.len());
                let pick = |v: &[f64]| seen.iter().map(|i| v[*i]).collect::<Vec<_>>();
                let part: Vec<f64> =
                    seen.iter().flat_map(|i| seen.iter().map(move |j| cov[i * d + j])).collect();
                let (mut m, mut c) = (vec![0.0; n], vec![0.0; n * n]);
                let value = nll_pull(&pick(mean), &part, &pick(x), bar, &mut m, &mut c)?;
                for (a, i) in seen.iter().enumerate() {
                    mean_bar[*i] += m[a];
                    for (b, j) in seen.iter().enumerate() {
                        cov_bar[i * d + j] += c[a * n + b];
                    }
                }
                Ok(units + value)
            }
        }
    }

    /// Mean loss per row of one window, and its cotangents times `weight`.
    fn window(&self, w: &Window, path: &Trajectory, weight: f64, bar: &mut Trajectory) -> Result<f64> {
        let rows = w.targets.len() as f64;
        let mut sum = 0.0;
        for (step, x) in &w.targets {
            let k = step - 1;
            let (mean_bar, cov_bar) = bar.at_mut(k);
            sum += self.row(path.mean(k), path.cov(k), x, weight / rows, mean_bar, cov_bar)?;
        }
        Ok(sum / rows)
    }
}

impl Task for ForecastTask {
    fn examples(&self, stage: usize) -> usize {
        self.stages[stage].len()
    }

    fn gradient(
        &self,
        parameters: &[f64],
        stage: usize,
        examples: &[usize],
        seed: u64,
        gradient: &mut [f64],
    ) -> Result<f64> {
        let chosen: Vec<&Window> = examples.iter().map(|i| &self.stages[stage][*i]).collect();
        let batch: Vec<Rollout<'_>> =
            chosen.iter().map(|w| Rollout { start: &w.start, dts: &w.dts, inputs: &w.inputs }).collect();
        let weight = 1.0 / batch.len() as f64;
        let result = self.solver.with(&self.sde(parameters)?, self.seeded(seed), |solver| {
            solver.gradient(&batch, |i, path, bar| Ok(weight * self.window(chosen[i], path, weight, bar)?))
        })?;
        for (to, from) in gradient.iter_mut().zip(&result.parameters) {
            *to += from;
        }
        Ok(result.value)
    }

    fn validate(&self, parameters: &[f64]) -> Result<Option<f64>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let batch: Vec<Rollout<'_>> = self
            .held_out
            .iter()
            .map(|w| Rollout { start: &w.start, dts: &w.dts, inputs: &w.inputs })
            .collect();
        let paths = self.solver.with(&self.sde(parameters)?, self.options, |solver| solver.solve(&batch))?;
        let mut sum = 0.0;
        for (w, path) in self.held_out.iter().zip(&paths) {
            let mut unused = Trajectory::zeros(path.dim(), path.steps());
            sum += self.window(w, path, 0.0, &mut unused)?;
        }
        Ok(Some(sum / paths.len() as f64))
    }
}
