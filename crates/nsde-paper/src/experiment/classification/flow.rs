//! A neural SDE that is driven by a sequence and ends in a softmax (Sec. 6.3, Eqs. 42–44).
//!
//! A word is an input of 1,000 numbers, one of them 1: the first layer of the drift is then its embedding. Such
//! rows would not fit into memory for all reviews, so they are written out for one batch at a time.

use super::problem::{Kind, Problem};
use crate::baseline::Sequences;
use crate::progress;
use crate::statistics::mean;
use anyhow::Result;
use nsde::head::{Example, Head, SdeLayer, SoftmaxHead, SoftmaxObjective, Start};
use nsde::train::{Progress, Task, TrainOptions, TrainState, advance, load_checkpoint, save_checkpoint};
use nsde::{Diffusion, Layer, Linear, Network, NeuralSde, Options, Precision};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::path::Path;

/// Width of the latent state.
pub const STATE: usize = 32;
/// Width of the hidden layers.
pub const HIDDEN: usize = 50;
/// Sequences whose predictions are made at a time.
const PIECE: usize = 50;
/// Updates between two saves of the training.
const SAVE_EVERY: usize = 200;

/// Training of an SDE on a problem.
struct Driven<'a> {
    layer: SdeLayer<SoftmaxHead>,
    problem: &'a Problem,
}

/// Time of one row.
pub fn dt(kind: Kind) -> f64 {
    match kind {
        Kind::Digits => 0.5,
        Kind::Reviews => 0.1,
    }
}

/// The paper's networks: two hidden layers in the drift, one in the diffusion, which reads the state only.
pub fn layer(
    problem: &Problem,
    hidden: usize,
    keep: f64,
    method: nsde::Method,
    seed: u64,
) -> Result<SdeLayer<SoftmaxHead>> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let inputs = match &problem.sequences {
        Sequences::Rows(_, n) | Sequences::Words(_, n) => *n,
    };
    let drift = Network::perceptron(STATE + inputs, &[hidden; 2], STATE, Layer::Relu, keep, rng)?;
    let drift = louder(drift, STATE, inputs, problem.kind)?;
    let noise = Network::perceptron(STATE, &[hidden], STATE, Layer::Relu, keep, rng)?;
    let head = SoftmaxHead::new(Linear::random(STATE, problem.classes, rng)?, SoftmaxObjective::Expected)?;
    Ok(SdeLayer {
        start: Start::Zero,
        sde: NeuralSde::new(STATE, inputs, drift, Diffusion::Diagonal(noise))?,
        head,
        dt: dt(problem.kind),
        steps: 1,
        init_var: 1e-6,
        options: Options { method, precision: Precision::F32, ..Options::default() },
    })
}

/// The first weights of words are drawn as if a row had as many numbers as the state, not a thousand: only one of
/// them is not zero.
fn louder(net: Network, state: usize, inputs: usize, kind: Kind) -> Result<Network> {
    if kind == Kind::Digits {
        return Ok(net);
    }
    let mut layers = net.layers().to_vec();
    if let Some(Layer::Linear(l)) = layers.first_mut() {
        let width = state + inputs;
        let factor = (width as f64 / (state + 1) as f64).sqrt();
        let weight = l.weight().iter().map(|w| factor * w).collect();
        *l = Linear::new(l.input(), l.output(), weight, l.bias().to_vec())?;
    }
    Ok(Network::new(net.input(), layers)?)
}

impl Driven<'_> {
    /// The inputs of some sequences, written out.
    fn inputs(&self, rows: &[usize]) -> Vec<Vec<f64>> {
        let one = |i: &usize| match &self.problem.sequences {
            Sequences::Rows(all, _) => all[*i].clone(),
            Sequences::Words(all, words) => {
                let mut out = vec![0.0; all[*i].len() * words];
                all[*i].iter().enumerate().for_each(|(n, word)| out[n * words + *word as usize] = 1.0);
                out
            }
        };
        rows.iter().map(one).collect()
    }

    /// Does `work` on the layer with these weights, some sequences and their classes.
    fn with<T>(
        &self,
        parameters: &[f64],
        rows: &[usize],
        work: impl FnOnce(&SdeLayer<SoftmaxHead>, &[Example<'_>], &[&usize]) -> nsde::Result<T>,
    ) -> nsde::Result<T> {
        let inputs = self.inputs(rows);
        let batch: Vec<_> = inputs.iter().map(|inputs| Example { features: &[], inputs }).collect();
        let answers: Vec<&usize> = rows.iter().map(|i| &self.problem.labels[*i]).collect();
        work(&self.layer.with_parameters(parameters)?, &batch, &answers)
    }
}

impl Task for Driven<'_> {
    fn examples(&self, _stage: usize) -> usize {
        self.problem.train.len()
    }

    fn gradient(
        &self,
        parameters: &[f64],
        _stage: usize,
        examples: &[usize],
        seed: u64,
        gradient: &mut [f64],
    ) -> nsde::Result<f64> {
        let mut rows: Vec<usize> = examples.iter().map(|i| self.problem.train[*i]).collect();
        // Sequences of like length go side by side.
        rows.sort_by_key(|i| (self.problem.sequences.length(*i), *i));
        self.with(parameters, &rows, |layer, batch, answers| layer.gradient(batch, answers, seed, gradient))
    }

    fn validate(&self, parameters: &[f64]) -> nsde::Result<Option<f64>> {
        let mut sum = 0.0;
        for rows in self.problem.held_out.chunks(PIECE) {
            let score = self.with(parameters, rows, |layer, batch, answers| layer.score(batch, answers))?;
            sum += score * rows.len() as f64;
        }
        Ok(Some(sum / self.problem.held_out.len().max(1) as f64))
    }
}

/// Trains, and predicts the probabilities of the classes for the test part, `[N, classes]`. The training is saved in
/// `file` as it goes, and taken up from there.
pub fn classify(
    layer: SdeLayer<SoftmaxHead>,
    problem: &Problem,
    how: &TrainOptions,
    file: &Path,
) -> Result<Vec<f64>> {
    let task = Driven { layer, problem };
    let fingerprint = serde_json::to_string(how)?;
    let begin = || TrainState::new(task.layer.parameters());
    let mut state = match file.is_file() {
        true => {
            load_checkpoint(file, &fingerprint, task.layer.parameters().len()).unwrap_or_else(|_| begin())
        }
        false => begin(),
    };
    let bar = progress::Progress::new("training", state.step / SAVE_EVERY, how.steps / SAVE_EVERY);
    let mut losses = Vec::new();
    loop {
        match advance(&task, how, 1, &mut state)? {
            Progress::Done => break,
            Progress::Step { loss } => losses.extend(loss),
        }
        if state.step.is_multiple_of(SAVE_EVERY) {
            save_checkpoint(file, &fingerprint, &state)?;
            bar.finished(&format!("update {}, loss {:.4}", state.step, mean(&losses)));
            losses.clear();
        }
    }
    drop(bar);
    let mut all = Vec::with_capacity(problem.test.len() * problem.classes);
    for rows in problem.test.chunks(PIECE) {
        let p = task.with(state.result(), rows, |layer, batch, _| layer.predict(batch))?;
        all.extend(p.concat());
    }
    Ok(all)
}

/// Number of parameters.
pub fn parameters(layer: &SdeLayer<SoftmaxHead>) -> usize {
    layer.sde.parameter_count() + layer.head.parameter_count()
}
