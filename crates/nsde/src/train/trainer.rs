//! The training loop: mini-batches, Adam, averaged weights, validation, and a state that can be saved.
//!
//! Every random choice is a function of the seed and the number of the step. So the state is all it
//! takes to go on after an interruption, and the result is the same to the last bit.

use super::adam::{Adam, clip};
use crate::error::{Error, Result};
use crate::random;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Something that can be trained: a loss with a gradient, over numbered examples.
pub trait Task: Sync {
    /// Number of training examples in a stage of the curriculum.
    fn examples(&self, stage: usize) -> usize;

    /// Mean loss over some examples of a stage at `parameters`; adds its gradient to `gradient`.
    ///
    /// `seed` differs from step to step, for losses that sample.
    fn gradient(
        &self,
        parameters: &[f64],
        stage: usize,
        examples: &[usize],
        seed: u64,
        gradient: &mut [f64],
    ) -> Result<f64>;

    /// The score on held-out data, lower is better; `None` if there is no such data.
    fn validate(&self, parameters: &[f64]) -> Result<Option<f64>>;
}

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainOptions {
    /// Updates in all, shared equally between the stages of the curriculum.
    pub steps: usize,
    /// Examples per update.
    pub batch: usize,
    /// Peak learning rate; it rises over the first 2 % of the steps and falls like a cosine to 1 %.
    pub rate: f64,
    /// `false`: the learning rate stays at its peak.
    pub decay_rate: bool,
    /// Decoupled weight decay (AdamW).
    pub weight_decay: f64,
    /// Largest length of a gradient; longer ones are scaled down.
    pub clip: f64,
    /// Decay of the moving average of the weights that is validated and kept; 0 for none.
    pub average: f64,
    /// Updates between validations.
    pub validate_every: usize,
    /// Validations without improvement after which training stops; 0 for never.
    pub patience: usize,
    /// Seed of everything.
    pub seed: u64,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            steps: 3000,
            batch: 16,
            rate: 3e-3,
            decay_rate: true,
            weight_decay: 0.0,
            clip: 10.0,
            average: 0.99,
            validate_every: 100,
            patience: 0,
            seed: 0,
        }
    }
}

impl TrainOptions {
    /// The learning rate of update `step`.
    pub fn rate_at(&self, step: usize) -> f64 {
        if !self.decay_rate {
            return self.rate;
        }
        let total = self.steps.max(1) as f64;
        let warm = (0.02 * total).ceil();
        let t = step as f64;
        if t < warm {
            return self.rate * (t + 1.0) / warm;
        }
        let phase = ((t - warm) / (total - warm).max(1.0)).min(1.0);
        self.rate * (0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * phase).cos()))
    }

    /// Whether the numbers make sense.
    pub fn check(&self) -> Result<()> {
        let range =
            |what: &str, value: f64, must: &'static str| Err(Error::Range { what: what.into(), value, must });
        if self.steps == 0 {
            return range("steps", 0.0, "at least 1");
        }
        if self.batch == 0 {
            return range("batch", 0.0, "at least 1");
        }
        if self.validate_every == 0 {
            return range("validate_every", 0.0, "at least 1");
        }
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return range("rate", self.rate, "positive");
        }
        if self.clip.is_nan() || self.clip <= 0.0 {
            return range("clip", self.clip, "positive");
        }
        if !(self.weight_decay.is_finite() && self.weight_decay >= 0.0) {
            return range("weight_decay", self.weight_decay, "not negative");
        }
        if !(0.0..1.0).contains(&self.average) {
            return range("average", self.average, "in [0, 1)");
        }
        Ok(())
    }
}

/// One line of the training history.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Updates made so far.
    pub step: usize,
    /// Stage of the curriculum.
    pub stage: usize,
    /// Mean training loss since the last record.
    pub loss: f64,
    /// Score on held-out data.
    pub validation: Option<f64>,
}

/// Everything that training needs to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    /// Steps done, counting those that were skipped.
    pub step: usize,
    /// Weights.
    pub parameters: Vec<f64>,
    /// Their moving average.
    pub average: Vec<f64>,
    /// The optimiser.
    pub adam: Adam,
    /// Weights of the best validation so far.
    pub best: Vec<f64>,
    /// Its score, and the step it was made at.
    pub best_score: Option<(f64, usize)>,
    /// Validations since then.
    pub stale: usize,
    /// Steps whose loss or gradient was not finite.
    pub skipped: usize,
    /// Sum and number of the losses since the last record.
    pub running: (f64, usize),
    /// The history.
    pub history: Vec<Record>,
}

impl TrainState {
    /// The beginning.
    pub fn new(parameters: Vec<f64>) -> Self {
        TrainState {
            step: 0,
            average: parameters.clone(),
            adam: Adam::new(parameters.len()),
            best: parameters.clone(),
            best_score: None,
            stale: 0,
            skipped: 0,
            running: (0.0, 0),
            history: Vec::new(),
            parameters,
        }
    }

    /// The weights to use: the best validated ones, else the average (or the last, without one).
    pub fn result(&self) -> &[f64] {
        if self.best_score.is_some() { &self.best } else { &self.average }
    }
}

/// Why [`advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A step was made (or skipped).
    Step {
        /// Its loss; `None` if it was skipped.
        loss: Option<f64>,
    },
    /// All steps are done, or patience ran out.
    Done,
}

/// Up to this many skipped steps are always forgiven; beyond, up to a tenth of all.
const SKIPS_FORGIVEN: usize = 10;

/// Makes one step; `stages` is the length of the curriculum.
pub fn advance(
    task: &dyn Task,
    options: &TrainOptions,
    stages: usize,
    state: &mut TrainState,
) -> Result<Progress> {
    let out_of_patience = options.patience > 0 && state.stale >= options.patience;
    if state.step >= options.steps || out_of_patience {
        return Ok(Progress::Done);
    }
    let stage = (state.step * stages / options.steps).min(stages - 1);
    let mut rng = random::stream(options.seed, usize::MAX, state.step);
    let n = task.examples(stage);
    let examples: Vec<usize> = (0..options.batch).map(|_| (rng.next_u64() % n as u64) as usize).collect();
    let mut gradient = vec![0.0; state.parameters.len()];
    let loss = match task.gradient(&state.parameters, stage, &examples, rng.next_u64(), &mut gradient) {
        Ok(loss) if loss.is_finite() && gradient.iter().all(|g| g.is_finite()) => Some(loss),
        Ok(_) | Err(Error::NonFinite { .. } | Error::NotPositiveDefinite { .. }) => None,
        Err(other) => return Err(other),
    };
    if let Some(loss) = loss {
        clip(&mut gradient, options.clip);
        let rate = options.rate_at(state.step);
        state.adam.update(&mut state.parameters, &gradient, rate, options.weight_decay);
        // The average forgets its beginning faster than its own memory would.
        let updates = state.adam.updates as f64;
        let keep = options.average.min((1.0 + updates) / (10.0 + updates));
        let keep = if options.average == 0.0 { 0.0 } else { keep };
        for (a, p) in state.average.iter_mut().zip(&state.parameters) {
            *a = keep * *a + (1.0 - keep) * p;
        }
        state.running.0 += loss;
        state.running.1 += 1;
    } else {
        state.skipped += 1;
        if state.skipped > SKIPS_FORGIVEN.max((state.step + 1) / 10) {
            return Err(Error::Training { step: state.step, skipped: state.skipped });
        }
    }
    state.step += 1;
    if state.step.is_multiple_of(options.validate_every) || state.step == options.steps {
        validate(task, stage, state)?;
    }
    Ok(Progress::Step { loss })
}

fn validate(task: &dyn Task, stage: usize, state: &mut TrainState) -> Result<()> {
    let score = match task.validate(&state.average) {
        Ok(score) => score.filter(|s| s.is_finite()),
        // A model that diverges on held-out data is simply a bad one.
        Err(Error::NonFinite { .. } | Error::NotPositiveDefinite { .. }) => None,
        Err(other) => return Err(other),
    };
    let (sum, count) = state.running;
    state.history.push(Record {
        step: state.step,
        stage,
        loss: if count > 0 { sum / count as f64 } else { f64::NAN },
        validation: score,
    });
    state.running = (0.0, 0);
    match score {
        Some(score) if state.best_score.is_none_or(|(best, _)| score < best) => {
            state.best_score = Some((score, state.step));
            state.best.copy_from_slice(&state.average);
            state.stale = 0;
        }
        _ => state.stale += 1,
    }
    Ok(())
}
