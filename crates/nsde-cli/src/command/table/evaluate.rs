//! `nsde evaluate` for a model of a table: scores of a regression or a classification.

use super::apply::{classify, regress};
use super::examples::Examples;
use super::meta::{Kind, Meta};
use super::text::Table;
use crate::command::evaluate::EvaluateArgs;
use crate::output::{self, misuse, print, short};
use anyhow::{Context, Result};
use nsde::metric::{Scores, classification, regression};
use nsde::{Gaussian, Model};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Scores and prints.
pub(crate) fn run(model: &Model, meta: &Meta, args: &EvaluateArgs) -> Result<()> {
    let (d, w) = (&args.what.data, &args.what.windows);
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
        ("--calibrated", args.what.calibrated),
    ];
    if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
        return misuse(format!("{flag} is for models that forecast; this one is of `nsde fit-table`"));
    }
    let table = Table::read(&d.data)?;
    let data = Examples::with_answers(&table, meta, d.series_column.as_ref())?;
    let mut document = Map::new();
    document.insert("model".into(), json!(args.what.model.display().to_string()));
    document.insert("data".into(), json!(d.data.display().to_string()));
    document.insert("kind".into(), json!(meta.kind));
    let options = args.what.solver.options();
    let (rows, found) = match meta.kind {
        Kind::Regression => regression_scores(&regress(model, meta, options, &data)?, meta, &data)?,
        _ => class_scores(&classify(model, meta, options, &data)?.concat(), meta, &data)?,
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
fn regression_scores(laws: &[Gaussian], meta: &Meta, data: &Examples) -> Result<Found> {
    let o = meta.targets.len();
    let mut joint = Scores::new();
    for (law, target) in laws.iter().zip(&data.targets) {
        joint.push(1, law, target)?;
    }
    let joint = joint.overall().context("nothing was measured to score")?;
    let mut rows = vec![head(["", "rows", "RMSE", "NLL", "ECPE"])];
    if o > 1 {
        rows.push(cells("overall", data.len(), [joint.rmse, joint.nll, joint.ecpe]));
    }
    let mut targets = Vec::new();
    for (i, name) in meta.targets.iter().enumerate() {
        let mean: Vec<f64> = laws.iter().map(|y| y.mean[i]).collect();
        let var: Vec<f64> = laws.iter().map(|y| y.cov[i * o + i]).collect();
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

fn class_scores(probabilities: &[f64], meta: &Meta, data: &Examples) -> Result<Found> {
    let s = classification::evaluate(probabilities, meta.classes.len(), &data.labels)?;
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
