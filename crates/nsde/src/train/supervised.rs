//! Examples with answers, some of them held out: what regression and classification share (Secs. 6.2 and 6.3).

use super::kept::Kept;
use super::trainer::Task;
use crate::error::{Error, Result, dimension};
use crate::head::{Example, Head, SdeLayer};
use crate::model::Model;
use std::borrow::Borrow;

/// A layer with head `H` to be fitted to answers of type `Y`.
///
/// [`RegressionTask`](super::RegressionTask) and [`ClassificationTask`](super::ClassificationTask) are its two kinds.
pub struct SupervisedTask<H, Y> {
    pub(super) layer: SdeLayer<H>,
    /// What the starts read, `[N, F]`.
    pub(super) features: Vec<f64>,
    /// What drives the SDE, `[T, U]` each; empty if nothing does.
    pub(super) sequences: Vec<Vec<f64>>,
    /// One per example.
    pub(super) answers: Vec<Y>,
    train: Vec<usize>,
    held_out: Vec<usize>,
    solver: Kept,
}

impl<H: Head, Y: Borrow<H::Target>> SupervisedTask<H, Y> {
    /// Examples that were checked; those `held_out` are for validation only.
    pub(super) fn split(
        layer: SdeLayer<H>,
        features: Vec<f64>,
        sequences: Vec<Vec<f64>>,
        answers: Vec<Y>,
        held_out: &[usize],
    ) -> Result<Self> {
        let (train, held_out) = split(answers.len(), held_out)?;
        let solver = Kept::default();
        Ok(SupervisedTask { layer, features, sequences, answers, train, held_out, solver })
    }

    /// The weights to begin with: those of the SDE, of the head, of the start.
    pub fn parameters(&self) -> Vec<f64> {
        self.layer.parameters()
    }

    /// The layer with these weights.
    pub fn layer(&self, parameters: &[f64]) -> Result<SdeLayer<H>> {
        self.layer.with_parameters(parameters)
    }

    /// The layer with these weights as a model, to be saved; [`SdeLayer::from_model`] reads it.
    pub fn to_model(&self, parameters: &[f64]) -> Result<Model> {
        self.layer(parameters)?.to_model()
    }

    /// What the layer with these weights says about each row of `features`.
    pub(super) fn predict_rows(&self, parameters: &[f64], features: &[f64]) -> Result<Vec<H::Prediction>> {
        let layer = self.layer(parameters)?;
        let width = layer.start.features(layer.sde.state());
        whole_rows("features", features, width)?;
        let rows: Vec<_> = features.chunks(width).map(|features| Example { features, inputs: &[] }).collect();
        layer.predict(&rows)
    }

    fn rows(&self, rows: impl Iterator<Item = usize> + Clone) -> (Vec<Example<'_>>, Vec<&H::Target>) {
        let f = self.layer.start.features(self.layer.sde.state());
        let example = |i: usize| Example {
            features: &self.features[i * f..(i + 1) * f],
            inputs: self.sequences.get(i).map_or(&[], Vec::as_slice),
        };
        (rows.clone().map(example).collect(), rows.map(|i| self.answers[i].borrow()).collect())
    }
}

impl<H: Head, Y: Borrow<H::Target> + Sync> Task for SupervisedTask<H, Y> {
    fn examples(&self, _stage: usize) -> usize {
        self.train.len()
    }

    fn gradient(
        &self,
        parameters: &[f64],
        _stage: usize,
        examples: &[usize],
        seed: u64,
        gradient: &mut [f64],
    ) -> Result<f64> {
        let (batch, answers) = self.rows(examples.iter().map(|i| self.train[*i]));
        let layer = self.layer(parameters)?;
        let options = layer.seeded(|_| seed);
        self.solver.with(&layer.sde, options, |solver| layer.gradient_by(solver, &batch, &answers, gradient))
    }

    fn validate(&self, parameters: &[f64]) -> Result<Option<f64>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let (batch, answers) = self.rows(self.held_out.iter().copied());
        self.layer(parameters)?.score(&batch, &answers).map(Some)
    }
}

/// The rows that are not held out, and those that are, both in order.
fn split(count: usize, held_out: &[usize]) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut out = vec![false; count];
    for &i in held_out {
        let row = out.get_mut(i).ok_or_else(|| Error::Range {
            what: format!("held-out row (of {count})"),
            value: i as f64,
            must: "less than the number of rows",
        })?;
        *row = true;
    }
    let (held_out, train): (Vec<usize>, Vec<usize>) = (0..count).partition(|i| out[*i]);
    if train.is_empty() {
        return Err(Error::Range { what: "rows to train on".into(), value: 0.0, must: "at least 1" });
    }
    Ok((train, held_out))
}

/// The number of rows of `width` in `values`.
pub(super) fn whole_rows(what: &str, values: &[f64], width: usize) -> Result<usize> {
    if width == 0 {
        return Err(Error::Range { what: format!("{what} per row"), value: 0.0, must: "at least 1" });
    }
    let rows = values.len() / width;
    dimension(format!("{what} (rows of {width})"), rows * width, values.len())?;
    Ok(rows)
}

/// Refuses NaN and infinities.
pub(super) fn finite(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().find(|x| !x.is_finite()) {
        Some(bad) => Err(Error::Range { what: format!("a {what}"), value: *bad, must: "finite" }),
        None => Ok(()),
    }
}
