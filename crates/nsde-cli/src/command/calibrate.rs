//! `nsde calibrate`: learns from held-out data how far the spread of a model's forecasts can be trusted.

use crate::args::{SolverArgs, SplitArgs};
use crate::command::evaluate::{guards, protocol_words};
use crate::dataset::{self, DataArgs, training};
use crate::output::{Misuse, load_forecaster, misuse, note, print, short, table};
use crate::rollout::{Protocol, WindowArgs, cut, roll, run as score};
use anyhow::Result;
use clap::Args;
use nsde::calibrate::{Calibration, HeldOut};
use nsde::data::Dataset;
use nsde::metric::INTERVALS;
use nsde::{Gaussian, Model};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  nsde calibrate model.safetensors --data held-out.csv --horizon 10

Learns a temperature, which multiplies the covariances, and for each step the radii of conformal regions: the
Mahalanobis distances within which 50, 80, 90 and 95 % of new rows fall. Both go into the model, in place unless
--output says otherwise. Give data that training has not seen, with as many independent forecasts as you can:
the region of 95 % needs at least 19 per step.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Arguments of `nsde calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// Model file (.safetensors)
    pub model: PathBuf,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub windows: WindowArgs,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[command(flatten)]
    pub split: SplitArgs,
    /// Write the calibrated model here [default: in place]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Calibrates, saves, and prints what changed.
pub fn run(args: &CalibrateArgs) -> Result<()> {
    let mut model = load_forecaster(&args.model)?;
    let data = dataset::read(&model, &args.data)?;
    let how = args.windows.protocol(&args.solver, &args.split, false)?;
    if let (Some(trained), Some(given)) =
        (training(&model, &["data", "file"]).and_then(Value::as_str), args.data.data.file_name())
        && given.to_string_lossy() == trained
    {
        note("the file has the name of the one the model was trained on; calibrate on data it has not seen");
    }
    let before = score(&model, &data, &how)?;
    guards(before.stats);
    let calibration = calibrate(&mut model, &data, &how)?;
    let warm = Protocol { calibrated: true, ..how.clone() };
    let after = score(&model, &data, &warm)?;
    let output = args.output.as_ref().unwrap_or(&args.model);
    model.save(output).map_err(|e| Misuse(e.to_string()))?;

    let unbounded = |level: f64| calibration.radii.iter().any(|r| r.level == level && r.radius.is_none());
    if let Some(level) = INTERVALS.into_iter().find(|level| unbounded(*level)) {
        let fewest = calibration.radii.iter().map(|r| r.count).min().unwrap_or(0);
        note(&format!(
            "too few forecasts to promise a region of {} % at every step (the fewest are {fewest}, 95 % needs 19): \
             it is unbounded there",
            100.0 * level
        ));
    }
    let (Some(b), Some(a)) = (&before.report.overall, &after.report.overall) else {
        return misuse("nothing was measured to calibrate with");
    };
    let inside = after.regions.map(|(coverage, _)| coverage);
    print(|out| {
        if args.json {
            let document = json!({
                "output": output.display().to_string(),
                "calibration": model.extra["calibration"],
                "before": b,
                "after": a,
                "regions": inside.map(|c| INTERVALS.iter().zip(c).map(|(l, c)| json!({"level": l, "coverage": c})).collect::<Vec<_>>()),
            });
            return writeln!(out, "{document:#}");
        }
        writeln!(out, "{}", protocol_words(&before, &how))?;
        let noise = 2.0 * (2.0 / calibration.coordinates as f64).sqrt();
        let judged = match calibration.temperature - 1.0 {
            gap if gap.abs() <= noise => "as sure of itself as it may be",
            gap if gap > 0.0 => "too sure of itself",
            _ => "too careful",
        };
        writeln!(out, "temperature {}: the model was {judged}\n", short(calibration.temperature))?;
        comparison(out, b, a, inside)?;
        writeln!(out, "\nsaved {}", output.display())
    })
}

/// Fits the calibration on the windows of a protocol, and stores it in the model.
pub(crate) fn calibrate(model: &mut Model, data: &Dataset, how: &Protocol) -> Result<Calibration> {
    let cut = cut(model, data, how)?;
    let mut forecasts: Vec<(usize, Gaussian, Vec<f64>)> = Vec::new();
    roll(model, how, &cut.windows, |w, laws| {
        for (n, (law, (_, x))) in laws.iter().zip(&w.targets).enumerate() {
            if n + 1 >= how.skip {
                forecasts.push((n + 1, law.moments(), x.clone()));
            }
        }
        Ok(())
    })?;
    let held: Vec<HeldOut<'_>> = forecasts
        .iter()
        .map(|(step, law, x)| HeldOut { step: *step, mean: &law.mean, cov: &law.cov, observation: x })
        .collect();
    let calibration = Calibration::fit(&held)?;
    let mut stored = serde_json::to_value(&calibration)?;
    stored["spacing"] = json!(data.median_spacing());
    model.extra.insert("calibration".into(), stored);
    Ok(calibration)
}

fn comparison(
    out: &mut dyn Write,
    before: &nsde::metric::Summary,
    after: &nsde::metric::Summary,
    regions: Option<[f64; INTERVALS.len()]>,
) -> io::Result<()> {
    let percent = |x: f64| format!("{:.1}", 100.0 * x);
    let mut rows = vec![["", "before", "after", "conformal region"].map(String::from).to_vec()];
    for (k, level) in INTERVALS.into_iter().enumerate() {
        rows.push(vec![
            format!("coverage of {} %", 100.0 * level),
            percent(before.intervals[k].coverage),
            percent(after.intervals[k].coverage),
            regions.map_or(String::new(), |r| percent(r[k])),
        ]);
    }
    for (name, b, a) in
        [("NLL", before.nll, after.nll), ("ECPE", before.ecpe, after.ecpe), ("CRPS", before.crps, after.crps)]
    {
        rows.push(vec![name.into(), short(b), short(a)]);
    }
    table(out, &rows, 1)
}
