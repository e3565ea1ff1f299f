//! `nsde fit-table`: regression and classification with an SDE as a layer (Secs. 6.2 and 6.3).

use super::arguments::FitTable;
use super::examples::{Examples, scaling, standardise};
use super::meta::{KEY, Kind, Meta};
use super::random::Random;
use super::text::Table;
use crate::output::{misuse, note};
use crate::training::{CHECKPOINT_EVERY, Fingerprint, Run, Saved, default_output, interrupts, wrote};
use anyhow::{Result, bail};
use nsde::head::{LinearHead, SdeLayer, SoftmaxHead, SoftmaxObjective, Start};
use nsde::train::{Architecture, ClassificationTask, RegressionTask, Task, TrainOptions, TrainState};
use nsde::{Linear, Model, Options};
use serde_json::json;
use std::time::Instant;

/// Diffusion to begin with.
const NOISE: f64 = 0.1;
/// Variance of the start.
const INIT_VAR: f64 = 1e-6;
/// A sequence has no features to begin at: its state has at least this many dimensions by default.
const SEQUENCE_LATENT: usize = 4;

impl FitTable {
    /// Which columns play which part.
    fn meta(&self, table: &Table) -> Result<Meta> {
        let used: Vec<&String> = self.target.iter().chain(&self.label).chain(&self.series_column).collect();
        used.iter().try_for_each(|name| table.column(name).map(|_| ()))?;
        if let Some((_, twice)) = used.iter().enumerate().find(|(i, name)| used[..*i].contains(name)) {
            return misuse(format!("column `{twice}` cannot play two parts"));
        }
        let mut features = self.state.clone();
        if features.is_empty() {
            let (numeric, text) = table.features(&used);
            if !text.is_empty() && !self.quiet {
                note(&format!("left out, as they hold no number: {}", text.join(", ")));
            }
            features = numeric;
        }
        let twice = |(i, name): &(usize, &String)| used.contains(name) || features[..*i].contains(name);
        if let Some((_, name)) = features.iter().enumerate().find(twice) {
            return misuse(format!("--state: column `{name}` cannot play two parts"));
        }
        if features.is_empty() {
            bail!("{}: no numeric column is left for the features", table.path);
        }
        let mut classes = Vec::new();
        if let Some(label) = &self.label {
            classes = table.texts(label)?.into_iter().map(String::from).collect();
            classes.sort();
            classes.dedup();
            if classes.len() < 2 {
                bail!("{}: column `{label}` has one class only, `{}`", table.path, classes.concat());
            }
        }
        let kind = match (&self.label, &self.series_column) {
            (None, _) => Kind::Regression,
            (Some(_), None) => Kind::Classification,
            (Some(_), Some(_)) => Kind::Sequences,
        };
        Ok(Meta {
            kind,
            features,
            targets: self.target.clone(),
            label: self.label.clone(),
            series_column: self.series_column.clone(),
            classes,
            feature_mean: Vec::new(),
            feature_std: Vec::new(),
            target_mean: Vec::new(),
            target_std: Vec::new(),
        })
    }

    /// A start, an SDE and a head with random weights.
    fn layer<H>(
        &self,
        meta: &Meta,
        outputs: usize,
        random: &mut Random,
        head: impl FnOnce(Linear) -> Result<H>,
    ) -> Result<SdeLayer<H>> {
        let (features, sequences) = (meta.features.len(), meta.kind == Kind::Sequences);
        let state = self.latent.unwrap_or(if sequences { features.max(SEQUENCE_LATENT) } else { features });
        let networks = Architecture {
            hidden: self.hidden.clone(),
            noise_hidden: self.hidden.clone(),
            keep: self.keep,
            ..Architecture::default()
        };
        let inputs = if sequences { features } else { 0 };
        let start = if sequences {
            Start::Learned(vec![0.0; state])
        } else if state == features {
            Start::Features
        } else {
            Start::Embedding(random.linear(features, state)?)
        };
        Ok(SdeLayer {
            start,
            sde: networks.build(state, inputs, &vec![NOISE; state], self.seed)?,
            head: head(random.linear(state, outputs)?)?,
            dt: self.flow_dt,
            steps: self.flow_steps,
            init_var: INIT_VAR,
            options: Options::default(),
        })
    }

    fn train(
        &self,
        task: &dyn Task,
        parameters: Vec<f64>,
        data: &Examples,
        saved: &Saved,
    ) -> Result<TrainState> {
        let options = TrainOptions {
            steps: self.steps,
            batch: self.batch,
            rate: self.rate,
            // A short run must not remember its beginning.
            average: (1.0 - 10.0 / self.steps as f64).clamp(0.0, 0.99),
            validate_every: (self.steps / 20).clamp(1, 100),
            seed: self.seed,
            ..TrainOptions::default()
        };
        let mut print = Fingerprint::new(&(self, &data.labels))?;
        print.numbers(data.features.iter().chain(&data.targets).flatten());
        let run = Run {
            label: "fit",
            options: &options,
            stages: 1,
            checkpoint_every: CHECKPOINT_EVERY,
            fingerprint: print.finish(),
            quiet: self.quiet,
        };
        run.train(task, parameters, Some(saved), &*interrupts()?)
    }

    /// Trains on standardised examples.
    fn fit(
        &self,
        data: &Examples,
        meta: &Meta,
        held_out: &[usize],
        random: &mut Random,
        saved: &Saved,
    ) -> Result<(Model, TrainState)> {
        let features = data.scaled_features(meta);
        if meta.kind == Kind::Regression {
            let outputs = meta.targets.len();
            let layer = self.layer(meta, outputs, random, |linear| {
                let state = linear.input();
                let head = LinearHead::new(linear);
                // More targets than dimensions have no likelihood without noise of their own.
                Ok(if outputs > state { head.with_noise(vec![2.0 * NOISE.ln(); outputs])? } else { head })
            })?;
            let scaled = |y: &Vec<f64>| standardise(y, &meta.target_mean, &meta.target_std);
            let targets: Vec<f64> = data.targets.iter().flat_map(scaled).collect();
            let task = RegressionTask::new(layer, features.concat(), targets, held_out)?;
            let state = self.train(&task, task.parameters(), data, saved)?;
            return Ok((task.to_model(state.result())?, state));
        }
        let head = |linear| Ok(SoftmaxHead::new(linear, SoftmaxObjective::Expected)?);
        let layer = self.layer(meta, meta.classes.len(), random, head)?;
        let labels = data.labels.clone();
        let task = if meta.kind == Kind::Sequences {
            ClassificationTask::from_sequences(layer, features, labels, held_out)?
        } else {
            ClassificationTask::new(layer, features.concat(), labels, held_out)?
        };
        let state = self.train(&task, task.parameters(), data, saved)?;
        Ok((task.to_model(state.result())?, state))
    }
}

/// Runs the command.
pub fn run(args: &FitTable) -> Result<()> {
    if !(0.0..1.0).contains(&args.validation) {
        return misuse(format!("--validation: {} is not in [0, 1)", args.validation));
    }
    if !(args.flow_dt.is_finite() && args.flow_dt > 0.0) {
        return misuse(format!("--flow-dt: {} is not positive", args.flow_dt));
    }
    let table = Table::read(&args.data)?;
    let mut meta = args.meta(&table)?;
    let data = Examples::with_answers(&table, &meta, None)?;
    let n = data.len();
    let mut count = (args.validation * n as f64).round() as usize;
    if args.validation > 0.0 {
        count = count.max(1);
    }
    if count >= n {
        bail!("{}: {n} examples are too few; {count} of them would be held out", table.path);
    }
    let mut random = Random(args.seed);
    let held_out = random.choose(n, count);
    let mut trained = vec![true; n];
    held_out.iter().for_each(|i| trained[*i] = false);
    fn kept<'a>(all: &'a [Vec<f64>], trained: &'a [bool]) -> impl Iterator<Item = &'a Vec<f64>> + Clone {
        all.iter().zip(trained).filter(|(_, t)| **t).map(|(x, _)| x)
    }
    (meta.feature_mean, meta.feature_std) = scaling(kept(&data.features, &trained), meta.features.len());
    (meta.target_mean, meta.target_std) = scaling(kept(&data.targets, &trained), meta.targets.len());

    let path = args.output.clone().unwrap_or_else(|| default_output(&args.data));
    let saved = Saved::beside(&path, 0, args.resume);
    let began = Instant::now();
    let (mut model, state) = args.fit(&data, &meta, &held_out, &mut random, &saved)?;
    // A likelihood in the units of the data.
    let shift: f64 = meta.target_std.iter().map(|s| s.ln()).sum();
    let best = state.best_score.map(|(score, step)| (score + shift, step));
    model.extra.insert(KEY.into(), serde_json::to_value(&meta)?);
    let training = json!({
        "history": serde_json::to_value(&state.history)?,
        "data": {"file": args.data.file_name().map(|f| f.to_string_lossy()), "rows": table.rows.len(), "examples": n},
        "score": "NLL",
        "best_score": best.map(|(score, _)| score),
        "best_step": best.map(|(_, step)| step),
        "steps": state.step,
        "skipped": state.skipped,
        "seconds": (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        "version": env!("CARGO_PKG_VERSION"),
    });
    model.extra.insert("training".into(), training);
    model.save(&path)?;
    saved.remove();
    if !args.quiet {
        wrote(state.parameters.len(), "NLL", best, state.skipped, &path);
    }
    Ok(())
}
