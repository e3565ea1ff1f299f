//! `nsde fit-table`: regression and classification with an SDE as a layer, and their scores.

use crate::args::{at_least_one, whole};
use crate::command::evaluate::EvaluateArgs;
use crate::dataset::nearest;
use crate::output::{self, misuse, note, print, short};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::Args;
use nsde::head::{Example, LinearHead, SdeLayer, SoftmaxHead, SoftmaxObjective, Start};
use nsde::metric::{Predictive, Scores, classification, regression};
use nsde::train::{
    self, Architecture, ClassificationTask, RegressionTask, TrainOptions, TrainState, advance,
};
use nsde::{Linear, Model, Options};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  nsde fit-table houses.csv --target price
  nsde fit-table iris.csv --label species --latent 6 --output iris.safetensors
  nsde fit-table gestures.csv --label gesture --series-column run
  nsde evaluate houses.safetensors --data held-out.csv

Every row is an example; with --series-column every series is one, and its rows drive the SDE step by step. Features
and targets are standardised, and the model remembers how. The held-out examples are drawn at random.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Key of the model's `extra`.
const KEY: &str = "table";
/// Diffusion to begin with.
const NOISE: f64 = 0.1;
/// Variance of the start.
const INIT_VAR: f64 = 1e-6;
/// A sequence has no features to begin at: its state has at least this many dimensions by default.
const SEQUENCE_LATENT: usize = 4;

/// Arguments of `nsde fit-table`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["target", "label"]))]
pub struct FitTable {
    /// Data: CSV with a header, one example per row
    pub data: PathBuf,
    /// Regression: the columns to predict
    #[arg(long, value_name = "Y,…", value_delimiter = ',')]
    pub target: Vec<String>,
    /// Classification: the column of the class, any text
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// Column that tells series apart: each is one sequence to be classified
    #[arg(long, value_name = "COLUMN", requires = "label", conflicts_with = "target")]
    pub series_column: Option<String>,
    /// Feature columns [default: every numeric column that is not used otherwise]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Steps of the flow; a sequence makes one per row
    #[arg(long, value_name = "K", default_value = "8", value_parser = at_least_one)]
    pub flow_steps: usize,
    /// Size of a step of the flow
    #[arg(long, value_name = "DT", default_value = "0.5", allow_negative_numbers = true)]
    pub flow_dt: f64,
    /// Dimensions of the SDE [default: the number of features; for sequences at least 4]
    #[arg(long, value_name = "D", value_parser = at_least_one)]
    pub latent: Option<usize>,
    /// Widths of the hidden layers of both networks
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "40", value_parser = at_least_one)]
    pub hidden: Vec<usize>,
    /// Probability to keep a hidden unit (1: no dropout)
    #[arg(long, value_name = "P", default_value = "0.9", allow_negative_numbers = true)]
    pub keep: f64,
    /// Updates in all
    #[arg(long, value_name = "N", default_value = "1500", value_parser = at_least_one)]
    pub steps: usize,
    /// Examples per update
    #[arg(long, value_name = "N", default_value = "32", value_parser = at_least_one)]
    pub batch: usize,
    /// Peak learning rate
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true)]
    pub rate: f64,
    /// Seed of everything
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = whole)]
    pub seed: u64,
    /// Share of the examples held out for validation
    #[arg(long, value_name = "SHARE", default_value = "0.1", allow_negative_numbers = true)]
    pub validation: f64,
    /// Where the model goes [default: the data's name with .safetensors]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// What a model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Regression,
    Classification,
    Sequences,
}

/// The columns of a model and their scalings, as they stand in the model file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Meta {
    kind: Kind,
    features: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    series_column: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
    feature_mean: Vec<f64>,
    feature_std: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    target_mean: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    target_std: Vec<f64>,
}

impl Meta {
    fn read(value: &Value) -> Result<Self> {
        let meta: Meta =
            serde_json::from_value(value.clone()).with_context(|| format!("the model's `{KEY}`"))?;
        let (f, o) = (meta.features.len(), meta.targets.len());
        let labelled = meta.label.is_some() && meta.classes.len() > 1;
        let whole = meta.feature_mean.len() == f
            && meta.feature_std.len() == f
            && meta.target_mean.len() == o
            && meta.target_std.len() == o
            && if meta.kind == Kind::Regression { o > 0 } else { labelled };
        if !whole {
            bail!("the model's `{KEY}`: its lists do not fit each other");
        }
        Ok(meta)
    }
}

/// A CSV file as text.
struct Table {
    path: String,
    header: Vec<String>,
    /// Line and cells.
    rows: Vec<(u64, Vec<String>)>,
}

impl Table {
    fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = output::read(path)?;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        if bytes.starts_with(b"\x1f\x8b") {
            bail!("{name}: this is gzipped; unpack it");
        }
        let Ok(text) = std::str::from_utf8(bytes) else { bail!("{name}: this is not text in UTF-8") };
        let first = text.lines().next().unwrap_or_default();
        let delimiter = [b',', b';', b'\t'].into_iter().find(|d| first.as_bytes().contains(d));
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .delimiter(delimiter.unwrap_or(b','))
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        let (mut record, mut header) = (csv::StringRecord::new(), None);
        while reader.read_record(&mut record).with_context(|| name.clone())? {
            let line = record.position().map_or(0, csv::Position::line);
            let cells: Vec<String> = record.iter().map(String::from).collect();
            let Some(width) = header.as_ref().map(Vec::len) else {
                header = Some(cells);
                continue;
            };
            if cells.len() != width {
                bail!("{name}: line {line}: {} cells, but the header has {width}", cells.len());
            }
            rows.push((line, cells));
        }
        let Some(header) = header else { bail!("{name}: the file is empty") };
        if let Some(twice) = header.iter().enumerate().find(|(i, h)| header[..*i].contains(h)) {
            bail!("{name}: line 1: two columns are named `{}`", twice.1);
        }
        if rows.is_empty() {
            bail!("{name}: there is a header, but no row");
        }
        Ok(Table { path: name, header, rows })
    }

    fn column(&self, wanted: &str) -> Result<usize> {
        if let Some(i) = self.header.iter().position(|h| h == wanted) {
            return Ok(i);
        }
        let near = nearest(wanted, &self.header).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        misuse(format!("{}: there is no column `{wanted}`{near}", self.path))
    }

    /// A column of text, no cell empty.
    fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let i = self.column(name)?;
        let cell = |(line, cells): &'_ (u64, Vec<String>)| match cells[i].is_empty() {
            true => bail!("{}: line {line}: column `{name}` is empty", self.path),
            false => Ok(()),
        };
        self.rows.iter().try_for_each(cell)?;
        Ok(self.rows.iter().map(|(_, cells)| cells[i].as_str()).collect())
    }

    /// Columns of numbers, row by row.
    fn numbers(&self, names: &[String]) -> Result<Vec<Vec<f64>>> {
        let columns = names.iter().map(|n| self.column(n)).collect::<Result<Vec<_>>>()?;
        let one = |(line, cells): &(u64, Vec<String>)| {
            let cell = |i: &usize| match number(&cells[*i]) {
                Some(x) => Ok(x),
                None => bail!(
                    "{}: line {line}, column `{}`: `{}` is not a finite number",
                    self.path,
                    self.header[*i],
                    cells[*i]
                ),
            };
            columns.iter().map(cell).collect()
        };
        self.rows.iter().map(one).collect()
    }

    /// Every column with a number in it that is not used otherwise, and the others.
    fn features(&self, used: &[&String]) -> (Vec<String>, Vec<String>) {
        let free = self.header.iter().enumerate().filter(|(_, h)| !used.contains(h));
        let (numeric, text): (Vec<_>, Vec<_>) =
            free.partition(|(i, _)| self.rows.iter().any(|(_, cells)| number(&cells[*i]).is_some()));
        let names = |list: Vec<(usize, &String)>| list.into_iter().map(|(_, h)| h.clone()).collect();
        (names(numeric), names(text))
    }
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|x: &f64| x.is_finite())
}

/// Examples in the units of the data.
struct Data {
    /// The features of a row, or of all the rows of a sequence.
    features: Vec<Vec<f64>>,
    targets: Vec<Vec<f64>>,
    labels: Vec<usize>,
}

impl Data {
    fn new(table: &Table, meta: &Meta, series_column: Option<&String>) -> Result<Self> {
        let rows = table.numbers(&meta.features)?;
        let targets = table.numbers(&meta.targets)?;
        let Some(label) = &meta.label else {
            return Ok(Data { features: rows, targets, labels: Vec::new() });
        };
        let mut classes = Vec::with_capacity(rows.len());
        for (text, (line, _)) in table.texts(label)?.into_iter().zip(&table.rows) {
            match meta.classes.iter().position(|c| c == text) {
                Some(class) => classes.push(class),
                None => bail!(
                    "{}: line {line}: class `{text}` is not among those of the model ({})",
                    table.path,
                    meta.classes.join(", ")
                ),
            }
        }
        let Some(column) = series_column.filter(|_| meta.kind == Kind::Sequences) else {
            return Ok(Data { features: rows, targets, labels: classes });
        };
        let mut index = std::collections::HashMap::new();
        let (mut features, mut labels) = (Vec::<Vec<f64>>::new(), Vec::new());
        for (n, name) in table.texts(column)?.into_iter().enumerate() {
            let series = *index.entry(name).or_insert(features.len());
            if series == features.len() {
                features.push(Vec::new());
                labels.push(classes[n]);
            }
            if labels[series] != classes[n] {
                bail!(
                    "{}: line {}: series `{name}` changes its class from `{}` to `{}`",
                    table.path,
                    table.rows[n].0,
                    meta.classes[labels[series]],
                    meta.classes[classes[n]]
                );
            }
            features[series].extend(&rows[n]);
        }
        Ok(Data { features, targets, labels })
    }

    fn len(&self) -> usize {
        self.features.len()
    }

    /// Features in the units of the networks.
    fn scaled_features(&self, meta: &Meta) -> Vec<Vec<f64>> {
        self.features.iter().map(|x| standardise(x, &meta.feature_mean, &meta.feature_std)).collect()
    }
}

fn standardise(x: &[f64], mean: &[f64], std: &[f64]) -> Vec<f64> {
    let d = mean.len().max(1);
    x.iter().enumerate().map(|(i, x)| (x - mean[i % d]) / std[i % d]).collect()
}

/// Mean and deviation of the columns of rows of `width`; a constant column has deviation one.
fn scaling<'a>(parts: impl Iterator<Item = &'a Vec<f64>> + Clone, width: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = || parts.clone().flat_map(|p| p.chunks_exact(width.max(1)));
    let n = rows().count().max(1) as f64;
    let mean: Vec<f64> = (0..width).map(|i| rows().map(|r| r[i]).sum::<f64>() / n).collect();
    let std = |i: usize| {
        let s = (rows().map(|r| (r[i] - mean[i]).powi(2)).sum::<f64>() / n).sqrt();
        if s > 1e-12 * mean[i].abs() && s.is_normal() { s } else { 1.0 }
    };
    let std = (0..width).map(std).collect();
    (mean, std)
}

/// SplitMix64, for the first weights and the held-out examples.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Weights and biases uniform in `±1/√input`, as [`Linear::random`] draws them.
    fn linear(&mut self, input: usize, output: usize) -> Result<Linear> {
        let bound = 1.0 / (input.max(1) as f64).sqrt();
        let mut draw = |n: usize| -> Vec<f64> {
            let one = |_| bound * (2.0 * (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 1.0);
            (0..n).map(one).collect()
        };
        let (weight, bias) = (draw(input * output), draw(output));
        Ok(Linear::new(input, output, weight, bias)?)
    }

    /// Some of the numbers below `n`.
    fn choose(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for i in 0..count {
            let other = i + (self.next() % (n - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(count);
        all
    }
}

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

    fn train(&self, task: &dyn train::Task, parameters: Vec<f64>) -> Result<TrainState> {
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
        options.check()?;
        let mut state = TrainState::new(parameters);
        let mut progress = Progress::new("fit", 0, self.steps, self.quiet);
        while let train::Progress::Step { loss } = advance(task, &options, 1, &mut state)? {
            progress.at(state.step, || {
                let loss = loss.map_or("not finite".into(), |l| format!("{l:.3}"));
                let best = state.best_score.map_or(String::new(), |(b, _)| format!(" validation {b:.4}"));
                format!("loss {loss}{best}")
            });
        }
        progress.finish();
        Ok(state)
    }

    /// Trains on standardised examples.
    fn fit(
        &self,
        data: &Data,
        meta: &Meta,
        held_out: &[usize],
        random: &mut Random,
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
            let state = self.train(&task, task.parameters())?;
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
        let state = self.train(&task, task.parameters())?;
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
    let data = Data::new(&table, &meta, meta.series_column.as_ref())?;
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

    let began = Instant::now();
    let (mut model, state) = args.fit(&data, &meta, &held_out, &mut random)?;
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
    let path = args.output.clone().unwrap_or_else(|| {
        let name = args.data.file_name().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{}.safetensors", name.split('.').next().unwrap_or("model")))
    });
    model.save(&path)?;
    if !args.quiet {
        let score =
            best.map_or(String::new(), |(s, step)| format!(", best validation NLL {s:.4} at step {step}"));
        let skips = match state.skipped {
            0 => String::new(),
            n => format!(", {n} steps skipped (not finite)"),
        };
        note(&format!("{} parameters{score}{skips}; wrote {}", state.parameters.len(), path.display()));
    }
    Ok(())
}

/// `nsde evaluate` for a model of a table; `None` for a model that forecasts.
pub(crate) fn evaluate(model: &Model, args: &EvaluateArgs) -> Option<Result<()>> {
    model.extra.get(KEY).map(|value| Meta::read(value).and_then(|meta| scores(model, &meta, args)))
}

fn scores(model: &Model, meta: &Meta, args: &EvaluateArgs) -> Result<()> {
    let (d, w) = (&args.data, &args.windows);
    let flags = [
        ("--time", d.time.is_some()),
        ("--time-unit", d.time_unit.is_some()),
        ("--state", d.state.is_some()),
        ("--inputs", d.inputs.is_some()),
        ("--series-column", d.series_column.is_some() && meta.kind != Kind::Sequences),
        ("--horizon", w.horizon.is_some()),
        ("--stride", w.stride.is_some()),
        ("--from-start", w.from_start),
        ("--skip", w.skip > 0),
        ("--calibrated", args.calibrated),
    ];
    if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
        return misuse(format!("{flag} is for models that forecast; this one is of `nsde fit-table`"));
    }
    let table = Table::read(&d.data)?;
    let data = Data::new(&table, meta, d.series_column.as_ref().or(meta.series_column.as_ref()))?;
    let features = data.scaled_features(meta);
    let examples: Vec<Example<'_>> = features
        .iter()
        .map(|x| match meta.kind {
            Kind::Sequences => Example { features: &[], inputs: x },
            _ => Example { features: x, inputs: &[] },
        })
        .collect();
    let mut document = Map::new();
    document.insert("model".into(), json!(args.model.display().to_string()));
    document.insert("data".into(), json!(d.data.display().to_string()));
    document.insert("kind".into(), json!(meta.kind));
    let options = args.solver.options();
    let (rows, found) = match meta.kind {
        Kind::Regression => {
            regression_scores(&SdeLayer::from_model(model, options)?, meta, &data, &examples)?
        }
        _ => class_scores(&SdeLayer::from_model(model, options)?, meta, &data, &examples)?,
    };
    document.extend(found);
    print(|out| match args.json {
        true => writeln!(out, "{:#}", Value::Object(document)),
        false => output::table(out, &rows, 1),
    })
}

/// Rows of a table, and what a document says.
type Found = (Vec<Vec<String>>, Map<String, Value>);

fn cells(name: &str, count: usize, numbers: [f64; 3]) -> Vec<String> {
    [name.to_string(), count.to_string()].into_iter().chain(numbers.map(short)).collect()
}

fn head(names: [&str; 5]) -> Vec<String> {
    names.map(String::from).to_vec()
}

/// The joint scores of all targets, and of each alone.
fn regression_scores(
    layer: &SdeLayer<LinearHead>,
    meta: &Meta,
    data: &Data,
    examples: &[Example<'_>],
) -> Result<Found> {
    let o = meta.targets.len();
    let mut found = layer.predict(examples)?;
    let mut joint = Scores::new();
    for (y, target) in found.iter_mut().zip(&data.targets) {
        if y.mean.len() != o {
            bail!("the model's `{KEY}` names {o} targets, its head has {}", y.mean.len());
        }
        for i in 0..o {
            y.mean[i] = meta.target_mean[i] + meta.target_std[i] * y.mean[i];
            for j in 0..o {
                y.cov[i * o + j] *= meta.target_std[i] * meta.target_std[j];
            }
        }
        joint.push(1, Predictive::Gaussian { mean: &y.mean, cov: &y.cov }, target)?;
    }
    let joint = joint.overall().context("nothing was measured to score")?;
    let mut rows = vec![head(["", "rows", "RMSE", "NLL", "ECPE"])];
    if o > 1 {
        rows.push(cells("overall", data.len(), [joint.rmse, joint.nll, joint.ecpe]));
    }
    let mut targets = Vec::new();
    for (i, name) in meta.targets.iter().enumerate() {
        let mean: Vec<f64> = found.iter().map(|y| y.mean[i]).collect();
        let var: Vec<f64> = found.iter().map(|y| y.cov[i * o + i]).collect();
        let truth: Vec<f64> = data.targets.iter().map(|y| y[i]).collect();
        let s = regression::evaluate(&mean, &var, &truth)?;
        rows.push(cells(name, s.count, [s.rmse, s.nll, s.ecpe]));
        let mut one = Map::new();
        one.insert("target".into(), json!(name));
        one.extend(fields(&s)?);
        targets.push(Value::Object(one));
    }
    let mut document = fields(&joint)?;
    document.insert("targets".into(), targets.into());
    Ok((rows, document))
}

fn class_scores(
    layer: &SdeLayer<SoftmaxHead>,
    meta: &Meta,
    data: &Data,
    examples: &[Example<'_>],
) -> Result<Found> {
    let probabilities = layer.predict(examples)?.concat();
    let s = classification::evaluate(&probabilities, meta.classes.len(), &data.labels)?;
    let name = meta.label.as_deref().unwrap_or_default();
    let what = if meta.kind == Kind::Sequences { "series" } else { "rows" };
    let rows =
        vec![head(["", what, "accuracy", "NLL", "ECE"]), cells(name, s.count, [s.accuracy, s.nll, s.ece])];
    let mut document = Map::new();
    document.insert("label".into(), json!(name));
    document.insert("classes".into(), json!(meta.classes));
    document.extend(fields(&s)?);
    Ok((rows, document))
}

fn fields(scores: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(scores)? {
        Value::Object(map) => Ok(map),
        other => Ok(Map::from_iter([("scores".to_string(), other)])),
    }
}
