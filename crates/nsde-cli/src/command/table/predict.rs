//! `nsde predict-table`: what a model of a table says about the rows of another.

use super::apply::{classify, regress};
use super::examples::Examples;
use super::meta::{Kind, Meta};
use super::text::Table;
use crate::args::SolverArgs;
use crate::output::{exact, load, misuse, one_line};
use crate::sheet::{SheetArgs, headings};
use anyhow::{Result, bail};
use clap::Args;
use nsde::Gaussian;
use nsde::metric::normal_quantile;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nsde predict-table houses.safetensors --data new.csv
  nsde predict-table houses.safetensors --data new.csv --quantiles 0.1,0.9 --output prices.csv
  nsde predict-table iris.safetensors --data new.csv --json

The file needs the feature columns of the model, in any order; others are ignored. There is one row per row of the file,
in its order and counted from 0 (a model of sequences: one per series). Columns of a regression: for every target its
mean, sd and quantiles. Columns of a classification: the most probable class, and the probability of each.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Arguments of `nsde predict-table`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictTable {
    /// Model file of `nsde fit-table` (.safetensors)
    pub model: PathBuf,
    /// Data: CSV with a header
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Column that tells sequences apart [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub series_column: Option<String>,
    #[command(flatten)]
    pub sheet: SheetArgs,
    #[command(flatten)]
    pub solver: SolverArgs,
}

/// What is written: a head and rows of cells, or a document.
struct Sheet {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    document: Map<String, Value>,
}

/// Predicts and writes.
pub fn run(args: &PredictTable) -> Result<()> {
    let model = load(&args.model)?;
    let Some(meta) = Meta::of(&model)? else {
        bail!("{}: this model forecasts time series; use `nsde forecast`", args.model.display());
    };
    if args.series_column.is_some() && meta.kind != Kind::Sequences {
        return misuse("--series-column is for models of sequences; this one reads row by row");
    }
    if args.sheet.quantiles.is_some() && meta.kind != Kind::Regression {
        return misuse("--quantiles is for regressions; this model gives probabilities of classes");
    }
    let table = Table::read(&args.data)?;
    let examples = Examples::read(&table, &meta, args.series_column.as_ref())?;
    let options = args.solver.options();
    let sheet = match meta.kind {
        Kind::Regression => {
            numbers(&meta, &regress(&model, &meta, options, &examples)?, args.sheet.quantiles())
        }
        _ => classes(&meta, &classify(&model, &meta, options, &examples)?, &examples.names),
    };
    let csv = |out: &mut dyn std::io::Write| {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(&sheet.head)?;
        sheet.rows.iter().try_for_each(|row| table.write_record(row))?;
        table.flush()
    };
    args.sheet.write(csv, |out| writeln!(out, "{}", json!(sheet.document)))
}

/// Mean, deviation and quantiles of every target.
fn numbers(meta: &Meta, laws: &[Gaussian], quantiles: &[f64]) -> Sheet {
    let mut head = vec!["row".to_string()];
    head.extend(meta.targets.iter().flat_map(|name| headings(&one_line(name), quantiles)));
    let (mut rows, mut list) = (Vec::with_capacity(laws.len()), Vec::with_capacity(laws.len()));
    for (n, law) in laws.iter().enumerate() {
        let o = law.dim();
        let sd: Vec<f64> = (0..o).map(|i| law.cov[i * o + i].max(0.0).sqrt()).collect();
        let at = |i: usize| quantiles.iter().map(|p| law.mean[i] + sd[i] * normal_quantile(*p)).collect();
        let at: Vec<Vec<f64>> = (0..o).map(at).collect();
        let mut row = vec![n.to_string()];
        for i in 0..o {
            row.extend([law.mean[i], sd[i]].iter().chain(&at[i]).map(|x| exact(*x)));
        }
        rows.push(row);
        list.push(json!({"row": n, "mean": law.mean, "sd": sd, "quantiles": at}));
    }
    let mut document = Map::new();
    document.insert("kind".into(), json!(meta.kind));
    document.insert("targets".into(), json!(meta.targets));
    document.insert("quantiles".into(), json!(quantiles));
    document.insert("rows".into(), list.into());
    Sheet { head, rows, document }
}

/// The most probable class, and the probability of each; sequences have a name, rows a number.
fn classes(meta: &Meta, found: &[Vec<f64>], names: &[String]) -> Sheet {
    let key = if meta.kind == Kind::Sequences { "series" } else { "row" };
    let mut head = vec![key.to_string(), "class".into()];
    head.extend(meta.classes.iter().map(|class| format!("p_{}", one_line(class))));
    let (mut rows, mut list) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
    for (n, p) in found.iter().enumerate() {
        // The first of equals, as the scores count it.
        let best = (0..p.len()).fold(0, |best, i| if p[i] > p[best] { i } else { best });
        let class = &meta.classes[best];
        let name = names.get(n).map_or_else(|| json!(n), |name| json!(name));
        let shown = names.get(n).map_or_else(|| n.to_string(), |name| one_line(name));
        rows.push([shown, one_line(class)].into_iter().chain(p.iter().map(|p| exact(*p))).collect());
        list.push(json!({key: name, "class": class, "probabilities": p}));
    }
    let mut document = Map::new();
    document.insert("kind".into(), json!(meta.kind));
    document.insert("label".into(), json!(meta.label));
    document.insert("classes".into(), json!(meta.classes));
    document.insert("rows".into(), list.into());
    Sheet { head, rows, document }
}
