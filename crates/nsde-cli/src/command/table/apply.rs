//! A model of a table applied to examples: laws of the targets, probabilities of the classes.

use super::examples::Examples;
use super::meta::{KEY, Kind, Meta};
use anyhow::{Result, bail};
use nsde::head::{Example, Head, LinearHead, SdeLayer, SoftmaxHead};
use nsde::{Gaussian, Model, Options};

/// The law of the targets of each example, in the units of the data.
pub fn regress(model: &Model, meta: &Meta, options: Options, examples: &Examples) -> Result<Vec<Gaussian>> {
    let mut laws = predict::<LinearHead>(model, meta, options, examples)?;
    let (mean, std) = (&meta.target_mean, &meta.target_std);
    let o = mean.len();
    for y in &mut laws {
        fits("targets", o, y.mean.len())?;
        for i in 0..o {
            y.mean[i] = mean[i] + std[i] * y.mean[i];
            for j in 0..o {
                y.cov[i * o + j] *= std[i] * std[j];
            }
        }
    }
    Ok(laws)
}

/// The probabilities of the classes of each example.
pub fn classify(model: &Model, meta: &Meta, options: Options, examples: &Examples) -> Result<Vec<Vec<f64>>> {
    let found = predict::<SoftmaxHead>(model, meta, options, examples)?;
    found.iter().try_for_each(|p| fits("classes", meta.classes.len(), p.len()))?;
    Ok(found)
}

fn predict<H: Head>(
    model: &Model,
    meta: &Meta,
    options: Options,
    examples: &Examples,
) -> Result<Vec<H::Prediction>> {
    let features = examples.scaled_features(meta);
    let one = |x| match meta.kind {
        Kind::Sequences => Example { features: &[], inputs: x },
        _ => Example { features: x, inputs: &[] },
    };
    let batch: Vec<Example<'_>> = features.iter().map(|x| one(x.as_slice())).collect();
    Ok(SdeLayer::<H>::from_model(model, options)?.predict(&batch)?)
}

fn fits(what: &str, named: usize, found: usize) -> Result<()> {
    if named != found {
        bail!("the model's `{KEY}` names {named} {what}, its head has {found}");
    }
    Ok(())
}
