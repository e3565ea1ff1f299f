//! `nsde evaluate`: how good the forecasts of a model are on data it has not seen.

use super::table::meta::Meta;
use crate::dataset;
use crate::output::{load, note, print, short, table};
use crate::rollout::{Evaluation, Protocol, ScoreArgs, run as roll};
use anyhow::Result;
use clap::Args;
use nsde::data::Dataset;
use nsde::metric::{INTERVALS, Report, StepSummary, Summary};
use nsde::{Model, Stats};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  nsde evaluate model.safetensors --data held-out.csv --horizon 10
  nsde evaluate model.safetensors --data held-out.csv --from-start --skip 100 --json

Every forecast starts at a measured row, and every row after it is scored: mean squared error per value, negative
log-likelihood of the row, ECPE (error of the coverage of ellipsoids), CRPS, coverage and width of central
intervals. What was not measured does not count. Step n is the n-th row after the start.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Fewest steps that a table shows, if there are so many.
const FEW_STEPS: usize = 5;

/// Arguments of `nsde evaluate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EvaluateArgs {
    #[command(flatten)]
    pub what: ScoreArgs,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Scores and prints.
pub fn run(args: &EvaluateArgs) -> Result<()> {
    let model = load(&args.what.model)?;
    if let Some(meta) = Meta::of(&model)? {
        return super::table::evaluate::run(&model, &meta, args);
    }
    let data = dataset::read(&model, &args.what.data)?;
    let how = args.what.protocol()?;
    let found = roll(&model, &data, &how)?;
    notes(&found);
    print(|out| {
        if args.json {
            writeln!(out, "{:#}", document(&found, &how, args))
        } else {
            tables(out, &found, &how)
        }
    })
}

/// Scores of the forecasts that a protocol asks for.
pub(crate) fn evaluate(model: &Model, data: &Dataset, how: &Protocol) -> Result<Report> {
    Ok(roll(model, data, how)?.report)
}

/// What deserves a word beside the scores.
pub(crate) fn notes(found: &Evaluation) {
    if found.singular > 0 {
        note(&format!(
            "{} rows have a forecast without spread: their likelihood is zero, their NLL infinite",
            found.singular
        ));
    }
    guards(found.stats);
}

/// Says which guards of the solver acted.
pub(crate) fn guards(stats: Stats) {
    if stats != Stats::default() {
        note(&format!(
            "guards acted: {} variances raised, {} exponentials cut, {} zero pivots",
            stats.diagonal_raised, stats.exp_clamped, stats.zero_pivot
        ));
    }
}

fn document(found: &Evaluation, how: &Protocol, args: &EvaluateArgs) -> Value {
    let mut out = Map::new();
    out.insert("model".into(), json!(args.what.model.display().to_string()));
    out.insert("data".into(), json!(args.what.data.data.display().to_string()));
    out.insert("protocol".into(), protocol(found, how));
    out.insert("singular".into(), json!(found.singular));
    if let Some((coverage, rows)) = &found.regions {
        let region = |k: usize| json!({"level": INTERVALS[k], "coverage": coverage[k]});
        let levels: Vec<Value> = (0..INTERVALS.len()).map(region).collect();
        out.insert("regions".into(), json!({"rows": rows, "levels": levels}));
    }
    if let Ok(Value::Object(report)) = serde_json::to_value(&found.report) {
        out.extend(report);
    }
    Value::Object(out)
}

fn protocol(found: &Evaluation, how: &Protocol) -> Value {
    json!({
        "from_start": how.from_start,
        "horizon": found.horizon,
        "stride": found.stride,
        "skip": how.skip,
        "windows": found.windows,
        "calibrated": how.calibrated,
    })
}

/// The protocol in words.
pub(crate) fn protocol_words(found: &Evaluation, how: &Protocol) -> String {
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let mut text = match found.stride {
        None => format!(
            "{} forecast{}, one per series from its first row, up to {} rows long",
            found.windows,
            s(found.windows),
            found.horizon
        ),
        Some(stride) => format!(
            "{} forecast{} of {} row{}, {stride} row{} apart",
            found.windows,
            s(found.windows),
            found.horizon,
            s(found.horizon),
            s(stride)
        ),
    };
    if how.skip > 0 {
        text += &format!(", the first {} rows not scored", how.skip);
    }
    if how.calibrated {
        text += ", calibrated";
    }
    text
}

fn tables(out: &mut dyn Write, found: &Evaluation, how: &Protocol) -> io::Result<()> {
    writeln!(out, "{}", protocol_words(found, how))?;
    let Some(overall) = &found.report.overall else { return writeln!(out, "nothing was measured to score") };
    let (scores, intervals) = score_rows(overall, &found.report.steps);
    writeln!(out)?;
    table(out, &scores, 1)?;
    writeln!(out, "\ncoverage in % (mean width) of central intervals")?;
    table(out, &intervals, 1)?;
    if let Some((coverage, rows)) = &found.regions {
        writeln!(out, "\ncoverage in % of conformal regions, {rows} complete rows")?;
        let head = INTERVALS.map(|level| format!("{} %", 100.0 * level)).to_vec();
        table(out, &[head, coverage.map(|c| format!("{:.1}", 100.0 * c)).to_vec()], 0)?;
    }
    Ok(())
}

/// Two tables, of scores and of intervals: a head, the whole, and some steps.
pub(crate) fn score_rows(overall: &Summary, steps: &[StepSummary]) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let head = ["", "rows", "MSE", "RMSE", "NLL", "ECPE", "CRPS"].map(String::from).to_vec();
    let levels = INTERVALS.map(|level| format!("{} %", 100.0 * level));
    let (mut scores, mut intervals) = (vec![head], vec![[String::new()].into_iter().chain(levels).collect()]);
    let some = some_steps(steps);
    let all = [("overall".to_string(), overall)].into_iter();
    for (name, s) in all.chain(some.into_iter().map(|s| (format!("step {}", s.step), &s.summary))) {
        let numbers = [s.mse_per_coordinate, s.rmse, s.nll, s.ecpe, s.crps].map(short);
        scores.push([name.clone(), s.count.to_string()].into_iter().chain(numbers).collect());
        let cell = |i: &nsde::metric::IntervalSummary| {
            format!("{:.1} ({})", 100.0 * i.coverage, digits(i.mean_width))
        };
        intervals.push([name].into_iter().chain(s.intervals.iter().map(cell)).collect());
    }
    (scores, intervals)
}

/// Three significant digits.
pub(crate) fn digits(x: f64) -> String {
    let exponent = format!("{x:.2e}").split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    match exponent {
        -4..6 => format!("{x:.*}", (2 - exponent).max(0) as usize),
        _ => format!("{x:.2e}"),
    }
}

/// The first and the last step, and round numbers between; evenly spread ones if that is too few.
pub(crate) fn some_steps(steps: &[StepSummary]) -> Vec<&StepSummary> {
    let round = |n: usize| {
        let mut n = n;
        while n >= 10 && n.is_multiple_of(10) {
            n /= 10;
        }
        [1, 2, 5].contains(&n)
    };
    let (first, last) = (steps.first().map(|s| s.step), steps.last().map(|s| s.step));
    let shown = |s: &&StepSummary| Some(s.step) == first || Some(s.step) == last || round(s.step);
    let round: Vec<_> = steps.iter().filter(shown).collect();
    let few = FEW_STEPS.min(steps.len());
    if round.len() >= few {
        return round;
    }
    (0..few).map(|k| &steps[k * (steps.len() - 1) / (few - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde::metric::{Predictive, Scores};

    #[test]
    fn tables_show_a_few_steps() {
        let shown = |first: usize, last: usize| {
            let mut scores = Scores::new();
            for step in first..=last {
                scores.push(step, Predictive::Gaussian { mean: &[0.0], cov: &[1.0] }, &[0.5]).unwrap();
            }
            some_steps(&scores.report().steps).iter().map(|s| s.step).collect::<Vec<_>>()
        };
        assert_eq!(shown(1, 1), [1]);
        assert_eq!(shown(1, 4), [1, 2, 3, 4]);
        assert_eq!(shown(1, 30), [1, 2, 5, 10, 20, 30]);
        assert_eq!(shown(100, 199), [100, 124, 149, 174, 199]);
    }
}
