//! `nsde report`: one HTML file that shows a model, its forecasts, and whether to trust them.

use crate::charts::{self, Shown};
use crate::command::evaluate::{digits, notes, protocol_words, score_rows};
use crate::command::inspect::{equation, layer_rows};
use crate::dataset::{self, clock};
use crate::output::{Misuse, load_forecaster, print, short};
use crate::rollout::{
    Evaluation, Protocol, ScoreArgs, calibration, cut, roll, run as score, stretched, wanted_calibration,
};
use anyhow::{Context, Result};
use clap::Args;
use nsde::data::Dataset;
use nsde::metric::{Mixture, Summary};
use nsde::{Diffusion, Ensemble, Model};
use nsde_report::{Report, Section, Table};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Most states with a fan chart.
const MOST_STATES: usize = 6;
/// Longest list of values that a table of settings shows.
const LONGEST_VALUE: usize = 80;

const EXAMPLES: &str = "\
Examples:
  nsde report model.safetensors --data held-out.csv
  nsde report model.safetensors --data held-out.csv --from-start --output lv.html --charts figures

The report is one file that needs no network; --charts writes its charts as SVG and PNG too.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Arguments of `nsde report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    #[command(flatten)]
    pub what: ScoreArgs,
    /// The report
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Write the charts as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    pub charts: Option<PathBuf>,
}

/// Writes the report, and says where.
pub fn run(args: &ReportArgs) -> Result<()> {
    let model = load_forecaster(&args.what.model)?;
    let data = dataset::read(&model, &args.what.data)?;
    let how = args.what.protocol()?;
    let path = write_report(&model, &data, &how, &args.output, args.charts.as_deref())?;
    print(|out| {
        writeln!(out, "report  {}", path.display())?;
        match &args.charts {
            Some(dir) => writeln!(out, "charts  {}", dir.display()),
            None => Ok(()),
        }
    })
}

/// Writes the report, and the charts as SVG and PNG; gives the path of the report.
pub(crate) fn write_report(
    model: &Model,
    data: &Dataset,
    how: &Protocol,
    output: &Path,
    charts: Option<&Path>,
) -> Result<PathBuf> {
    let report = compose(model, data, how)?;
    report.write_html(output).map_err(|e| Misuse(e.to_string()))?;
    if let Some(dir) = charts {
        report.write_charts(dir).map_err(|e| Misuse(e.to_string()))?;
    }
    Ok(output.to_path_buf())
}

fn compose(model: &Model, data: &Dataset, how: &Protocol) -> Result<Report> {
    let found = score(model, data, how)?;
    notes(&found);
    let overall = found.report.overall.as_ref().context("nothing was measured to score")?;
    let other = match calibration(model)? {
        Some(_) => Some(score(model, data, &Protocol { calibrated: !how.calibrated, ..how.clone() })?),
        None => None,
    };
    let shown = shown(model, data, how)?;
    let mut sections = vec![summary(&found, overall, how), forecasts(data, &shown, how)];
    sections.push(trust(&found, overall, other.as_ref(), how, data.dim()));
    sections.push(horizon(&found, overall));
    sections.extend(trained(model));
    sections.push(description(model)?);
    let names = data.columns.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
    let more = if data.dim() > 4 { format!(" and {} more", data.dim() - 4) } else { String::new() };
    Ok(Report {
        title: format!("Forecasts of {names}{more}"),
        subtitle: format!(
            "{}, scored on {} rows of {} series",
            equation(model),
            data.rows(),
            data.series.len()
        ),
        sections,
    })
}

/// The windows to look at: the first, the last and one between, fewer if there are many states.
fn shown(model: &Model, data: &Dataset, how: &Protocol) -> Result<Vec<Shown>> {
    let windows = cut(model, data, how)?.windows;
    let count = match data.dim() {
        1 | 2 => 3,
        3 => 2,
        _ => 1,
    };
    let last = windows.len() - 1;
    let mut picked: Vec<usize> = (0..count).map(|k| k * last / (count.max(2) - 1)).collect();
    picked.dedup();
    let picked: Vec<_> = picked.into_iter().map(|k| windows[k].clone()).collect();
    let calibration = wanted_calibration(model, how.calibrated)?;
    let mut out = Vec::with_capacity(picked.len());
    roll(model, how, &picked, |w, laws| {
        let laws: Vec<Mixture> = match &calibration {
            Some(c) => laws.iter().map(|law| stretched(law, c.temperature)).collect::<Result<_>>()?,
            None => laws.to_vec(),
        };
        out.push(Shown::new(w, &laws)?);
        Ok(())
    })?;
    Ok(out)
}

fn table(caption: &str, mut rows: Vec<Vec<String>>) -> Table {
    let header = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
    Table { caption: caption.into(), header, rows }
}

fn summary(found: &Evaluation, overall: &Summary, how: &Protocol) -> Section {
    let ninety = &overall.intervals[2];
    let gap = 100.0 * (ninety.coverage - ninety.level);
    let verdict = match gap {
        g if g < -5.0 => {
            "the model is too sure of itself: its intervals are too narrow; `nsde calibrate` widens them"
        }
        g if g > 5.0 => "the model is too careful: its intervals are wider than they need be",
        _ => "the intervals hold what they promise",
    };
    let values = [
        ("MSE per value", short(overall.mse_per_coordinate)),
        ("RMSE, in the units of the data", short(overall.rmse)),
        ("negative log-likelihood per row (NLL)", short(overall.nll)),
        ("error of the coverage (ECPE)", short(overall.ecpe)),
        ("CRPS, in the units of the data", short(overall.crps)),
        ("rows scored", overall.count.to_string()),
        ("values scored", overall.coordinates.to_string()),
    ];
    let mut rows = vec![vec!["score".into(), "value".into()]];
    rows.extend(values.map(|(name, value)| vec![name.to_string(), value]));
    let mut intervals = vec![["interval", "holds", "mean width"].map(String::from).to_vec()];
    for i in &overall.intervals {
        intervals.push(vec![
            format!("{} %", 100.0 * i.level),
            format!("{:.1} %", 100.0 * i.coverage),
            digits(i.mean_width),
        ]);
    }
    let mut tables = vec![table("Scores of all rows", rows), table("Central intervals", intervals)];
    if let Some((coverage, count)) = &found.regions {
        let mut rows = vec![["conformal region", "holds"].map(String::from).to_vec()];
        let cell =
            |(level, c): (&f64, &f64)| vec![format!("{} %", 100.0 * level), format!("{:.1} %", 100.0 * c)];
        rows.extend(nsde::metric::INTERVALS.iter().zip(coverage).map(cell));
        tables.push(table(&format!("Regions of all states together, {count} complete rows"), rows));
    }
    Section {
        heading: "In short".into(),
        paragraphs: vec![
            format!("{}.", protocol_words(found, how)),
            format!("Of what was promised with 90 %, {:.1} % came true: {verdict}.", 100.0 * ninety.coverage),
        ],
        charts: Vec::new(),
        tables,
    }
}

fn forecasts(data: &Dataset, shown: &[Shown], how: &Protocol) -> Section {
    let mut list = Vec::new();
    for s in shown {
        let series = &data.series[s.window.series];
        let from = clock(data, series.times[s.window.row]);
        for i in 0..data.dim().min(MOST_STATES) {
            let mut caption = format!("{} of {}, forecast from {from}.", data.columns[i], series.name);
            if charts::alike(data, s, how).next().is_some() {
                caption += " Grey: other series that began alike.";
            }
            list.push((charts::fan(data, s, i, how), caption));
        }
    }
    if let (2, Some(s)) = (data.dim(), shown.first()) {
        let series = &data.series[s.window.series].name;
        list.push((charts::phase(data, s), format!("Both states of {series} in the plane.")));
    }
    let mut paragraphs = vec![
        "A forecast is a distribution: half of the truth should lie in the darkest band, 95 % in the palest."
            .into(),
    ];
    if data.dim() > MOST_STATES {
        paragraphs.push(format!("The first {MOST_STATES} of {} states are shown.", data.dim()));
    }
    Section { heading: "Forecasts and truth".into(), paragraphs, charts: list, tables: Vec::new() }
}

fn trust(
    found: &Evaluation,
    overall: &Summary,
    other: Option<&Evaluation>,
    how: &Protocol,
    dim: usize,
) -> Section {
    let names = if how.calibrated { ["calibrated", "as fitted"] } else { ["as fitted", "calibrated"] };
    let mut curves = vec![(names[0], overall)];
    curves.extend(other.and_then(|e| e.report.overall.as_ref()).map(|s| (names[1], s)));
    Section {
        heading: "Can the intervals be trusted?".into(),
        paragraphs: vec![
            "Below the diagonal a forecast is too sure of itself, above it too careful. The histogram is flat if \
             the forecasts are right, high at both ends if they are too sure, and leans to a side if they are biased."
                .into(),
        ],
        charts: vec![
            (charts::calibration(&curves), "Share of rows in the ellipsoid of each level.".into()),
            (charts::pit(found, overall, dim), "Where the truth fell within its forecast.".into()),
        ],
        tables: Vec::new(),
    }
}

fn horizon(found: &Evaluation, overall: &Summary) -> Section {
    let mut list = Vec::new();
    if found.report.steps.len() > 1 {
        list.push((charts::coverage(found), "Coverage of central intervals at every row.".into()));
        list.push((charts::score(found, "RMSE", |s| s.rmse), "Error, in the units of the data.".into()));
        if found.singular == 0 {
            list.push((charts::score(found, "NLL", |s| s.nll), "Negative log-likelihood of a row.".into()));
        }
    }
    let (scores, intervals) = score_rows(overall, &found.report.steps);
    Section {
        heading: "Over the horizon".into(),
        paragraphs: Vec::new(),
        charts: list,
        tables: vec![
            table("Scores", scores),
            table("Coverage in % (mean width) of central intervals", intervals),
        ],
    }
}

fn trained(model: &Model) -> Option<Section> {
    let info = model.extra.get("training")?;
    let mut list = Vec::new();
    let text = |key: &str| info.get(key).and_then(Value::as_str);
    if let Some(history) = info.get("history").and_then(Value::as_array).filter(|h| !h.is_empty()) {
        let best = info.get("best_step").and_then(Value::as_f64);
        let chart = charts::losses(history, text("score").unwrap_or("loss"), best);
        list.push((chart, "Loss over the steps of training; each point is a mean since the last.".into()));
    }
    let mut facts = vec![["", ""].map(String::from).to_vec()];
    for (key, value) in info.as_object().into_iter().flatten() {
        if !["history", "settings", "data"].contains(&key.as_str()) && !value.is_null() {
            facts.push(vec![key.replace('_', " "), words(value)]);
        }
    }
    let mut tables = Vec::new();
    let mut add = |caption: &str, rows: Vec<Vec<String>>| {
        if rows.len() > 1 {
            tables.push(table(caption, rows));
        }
    };
    add("The run", facts);
    for (key, caption) in [("data", "The data it was trained on"), ("settings", "Settings")] {
        let mut rows = vec![["", ""].map(String::from).to_vec()];
        if let Some(value) = info.get(key) {
            flatten(value, "", &mut rows);
        }
        add(caption, rows);
    }
    Some(Section { heading: "How it was trained".into(), paragraphs: Vec::new(), charts: list, tables })
}

/// One row per leaf of a tree of settings.
fn flatten(value: &Value, name: &str, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(value, &name, rows);
            }
        }
        Value::Null => {}
        leaf => rows.push(vec![name.into(), words(leaf)]),
    }
}

/// A value in a table: text without quotes, lists with commas.
fn words(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn description(model: &Model) -> Result<Section> {
    let sde = &model.sde;
    let members = Ensemble::from_model(model)?.models.len();
    let list = |numbers: &[f64]| {
        words(&Value::from(numbers.iter().map(|x| Value::from(short(*x))).collect::<Vec<_>>()))
    };
    let mut facts = vec![
        ["".to_string(), "".to_string()],
        ["equation".into(), equation(model)],
        ["states".into(), sde.state().to_string()],
        ["control inputs".into(), sde.inputs().to_string()],
        ["step size dt".into(), Value::from(model.dt).to_string()],
        ["variance of a measured start".into(), Value::from(model.init_var).to_string()],
        ["parameters".into(), sde.parameter_count().to_string()],
    ];
    if members > 1 {
        facts.push(["members of the ensemble".into(), members.to_string()]);
    }
    if let Some(c) = calibration(model)? {
        facts.push(["temperature of the calibration".into(), short(c.temperature)]);
    }
    for (what, scaling) in [("state", &model.scaling), ("inputs", &model.inputs_scaling)] {
        if let Some(s) = scaling {
            facts.push([format!("scaling of the {what}: mean"), list(&s.mean)]);
            facts.push([format!("scaling of the {what}: deviation"), list(&s.std)]);
        }
    }
    let mut tables = vec![
        table("", facts.into_iter().map(Vec::from).collect()),
        table("Drift f", layer_rows(sde.drift())),
    ];
    let noise = match sde.diffusion() {
        Diffusion::None => "There is no diffusion: the model is a neural ODE.".to_string(),
        Diffusion::ConstantDiagonal(scale) => {
            format!("The diffusion L is constant and diagonal: {}.", list(scale))
        }
        Diffusion::ConstantFull(_) => "The diffusion L is constant and lower triangular.".to_string(),
        other => {
            let shape = if other.kind() == "full" { "lower triangular" } else { "diagonal" };
            tables
                .extend(other.network().map(|net| table(&format!("Diffusion L, {shape}"), layer_rows(net))));
            String::new()
        }
    };
    let paragraphs = if noise.is_empty() { Vec::new() } else { vec![noise] };
    Ok(Section { heading: "The model".into(), paragraphs, charts: Vec::new(), tables })
}
