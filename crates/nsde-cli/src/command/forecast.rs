//! `nsde forecast`: the law of the coming steps after the last rows of a table.

use crate::args::{SolverArgs, SplitArgs, at_least_one};
use crate::command::evaluate::guards;
use crate::dataset::{self, DataArgs, clock, plain, state_names};
use crate::future::{Future, future};
use crate::output::{exact, json_numbers, json_rows, load_forecaster, misuse, note, one_line};
use crate::rollout::{calibration, laws, quantile, region_radius, spread, stretched, wanted_calibration};
use crate::sheet::{SheetArgs, headings};
use anyhow::{Result, bail};
use clap::Args;
use nsde::calibrate::Calibration;
use nsde::data::{Dataset, Series, nearest};
use nsde::metric::{INTERVALS, Mixture};
use nsde::{Ensemble, Gaussian, Model, Rollout};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

/// Most numbers that one run may hold (16 GB): more is a slip of the finger, and would end in an abort.
const MOST_NUMBERS: usize = 1 << 31;

const EXAMPLES: &str = "\
Examples:
  nsde forecast model.safetensors --data tank.csv --steps 24
  nsde forecast model.safetensors --data tank.csv --from 2014-03-01T12:00:00Z --steps 24 --quantiles 0.1,0.5,0.9
  nsde forecast model.safetensors --data tank.csv --steps 24 --future-inputs plan.csv --json

Each forecast starts at the last measured row of a series (at or before --from), and takes --steps steps of the
model's dt. Columns: series, t, step, and for every state its mean, sd and quantiles. A calibrated model adds the
sd after calibration and the radius of the conformal regions, in Mahalanobis distance after the temperature;
with --calibrated all other columns are after calibration too.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Arguments of `nsde forecast`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForecastArgs {
    /// Model file (.safetensors)
    pub model: PathBuf,
    #[command(flatten)]
    pub data: DataArgs,
    /// Start at the last row at or before this time, a number or an RFC 3339 stamp [default: the last row]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Number of steps
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    pub steps: usize,
    /// Only this series
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Control inputs after the last row: a table with the model's input columns, one row per step or with times
    #[arg(long, value_name = "FILE")]
    pub future_inputs: Option<PathBuf>,
    /// Add the covariances
    #[arg(long)]
    pub cov: bool,
    /// Use the calibration stored in the model for all columns
    #[arg(long)]
    pub calibrated: bool,
    #[command(flatten)]
    pub solver: SolverArgs,
    #[command(flatten)]
    pub split: SplitArgs,
    #[command(flatten)]
    pub sheet: SheetArgs,
}

/// One series and what the model says about its future.
struct Forecast<'a> {
    series: &'a Series,
    /// The row it starts from.
    row: usize,
    laws: Vec<Mixture>,
}

/// What is printed beside the laws.
struct Sheet<'a> {
    model: &'a Model,
    data: &'a Dataset,
    names: Vec<String>,
    quantiles: Vec<f64>,
    calibration: Option<Calibration>,
    /// All columns are after calibration.
    calibrated: bool,
    cov: bool,
}

/// Forecasts and prints.
pub fn run(args: &ForecastArgs) -> Result<()> {
    let model = load_forecaster(&args.model)?;
    let data = dataset::read(&model, &args.data)?;
    let starts = starts(args, &data)?;
    let ensemble = Ensemble::from_model(&model)?;
    check_memory(args, starts.len() * ensemble.models.len(), model.sde.state())?;
    wanted_calibration(&model, args.calibrated)?;
    let future = future(&model, &data, args)?;

    let spread = spread(&model, &data);
    let dts = vec![model.dt; args.steps];
    let mut begins = Vec::with_capacity(starts.len());
    for &(index, row) in &starts {
        begins.push((
            start(&model, &data, index, row, &spread),
            inputs(&future, &model, &data, index, row, args)?,
        ));
    }
    let batch: Vec<Rollout<'_>> =
        begins.iter().map(|(start, inputs)| Rollout { start, dts: &dts, inputs }).collect();
    let splitting = args.split.splitting(&args.solver)?;
    let (laws, stats) = laws(&ensemble, args.solver.options(), splitting, &batch)?;
    guards(stats);

    let calibration = calibration(&model)?;
    let mut forecasts = Vec::with_capacity(starts.len());
    for (&(index, row), mut laws) in starts.iter().zip(laws) {
        if let Some(c) = calibration.as_ref().filter(|_| args.calibrated) {
            laws = laws.iter().map(|law| stretched(law, c.temperature)).collect::<Result<_>>()?;
        }
        forecasts.push(Forecast { series: &data.series[index], row, laws });
    }
    let sheet = Sheet {
        model: &model,
        data: &data,
        names: state_names(&model).unwrap_or_else(|| data.columns.clone()),
        quantiles: args.sheet.quantiles().to_vec(),
        calibration,
        calibrated: args.calibrated,
        cov: args.cov,
    };
    args.sheet.write(|out| sheet.csv(out, &forecasts), |out| sheet.document(out, &forecasts))
}

fn check_memory(args: &ForecastArgs, paths: usize, state: usize) -> Result<()> {
    let numbers = [args.steps, paths, state, state + 1].iter().try_fold(1usize, |n, f| n.checked_mul(*f));
    if numbers.is_none_or(|n| n > MOST_NUMBERS) {
        return misuse(format!(
            "--steps {} do not fit into memory; take fewer steps, or one --series",
            args.steps
        ));
    }
    if args.solver.samples.checked_mul(state).is_none_or(|n| n > MOST_NUMBERS) {
        return misuse(format!("--samples {} do not fit into memory; take fewer", args.solver.samples));
    }
    Ok(())
}

/// The series to forecast, each with the row it starts from.
fn starts(args: &ForecastArgs, data: &Dataset) -> Result<Vec<(usize, usize)>> {
    let chosen: Vec<usize> = match &args.series {
        None => (0..data.series.len()).collect(),
        Some(name) => match data.series.iter().position(|series| series.name == *name) {
            Some(index) => vec![index],
            None => {
                let names: Vec<String> = data.series.iter().map(|series| series.name.clone()).collect();
                let near = nearest(name, &names).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                return misuse(format!("--series: there is no series `{name}`{near}"));
            }
        },
    };
    let from = args.from.as_deref().map(|text| when(text, data)).transpose()?;
    let dim = data.dim();
    let mut out = Vec::with_capacity(chosen.len());
    let mut late = Vec::new();
    for index in chosen {
        let series = &data.series[index];
        let usable = |row: &usize| {
            from.is_none_or(|from| series.times[*row] <= from)
                && series.values[row * dim..(row + 1) * dim].iter().any(|x| !x.is_nan())
        };
        match (0..series.rows()).rev().find(usable) {
            Some(row) => out.push((index, row)),
            None => late.push(series),
        }
    }
    if let Some(first) = late.first() {
        let when = args.from.as_deref().map_or(String::new(), |from| format!(" at or before --from {from}"));
        let why = format!(
            "series `{}` has no measured row{when}; it begins at {}",
            first.name,
            clock(data, first.times[0])
        );
        if out.is_empty() {
            return misuse(why);
        }
        let others = if late.len() > 1 { format!(" ({} series alike)", late.len()) } else { String::new() };
        note(&format!("{why}: it is left out{others}"));
    }
    Ok(out)
}

/// A time on the command line.
fn when(text: &str, data: &Dataset) -> Result<f64> {
    let stamps = data.time.origin.is_some();
    match (data.time.time(text), text.trim().parse::<f64>()) {
        (Some(time), _) => Ok(time),
        (None, Ok(time)) if !stamps && time.is_finite() => Ok(time),
        _ if stamps => misuse(format!(
            "--from: `{text}` is not a time stamp, such as {}",
            data.time.origin.as_deref().unwrap_or_default()
        )),
        _ => misuse(format!("--from: `{text}` is not a number, but the times of the data are")),
    }
}

/// The start at a row: what was measured with `init_var`, what was not as wide as the data.
fn start(
    model: &Model,
    data: &Dataset,
    index: usize,
    row: usize,
    (mean, std): &(Vec<f64>, Vec<f64>),
) -> Gaussian {
    let dim = data.dim();
    let x = &data.series[index].values[row * dim..(row + 1) * dim];
    let mut start = Gaussian { mean: x.to_vec(), cov: vec![0.0; dim * dim] };
    for i in 0..dim {
        let missing = x[i].is_nan();
        start.mean[i] = if missing { mean[i] } else { x[i] };
        start.cov[i * dim + i] = if missing { std[i] * std[i] } else { model.init_var };
    }
    start
}

/// The control inputs of every step, row-major.
fn inputs(
    future: &Future,
    model: &Model,
    data: &Dataset,
    index: usize,
    row: usize,
    args: &ForecastArgs,
) -> Result<Vec<f64>> {
    let series = &data.series[index];
    let mut out = Vec::with_capacity(args.steps * model.sde.inputs());
    if model.sde.inputs() == 0 {
        return Ok(out);
    }
    for k in 0..args.steps {
        let t = series.times[row] + k as f64 * model.dt;
        match future.at(index, t, k, model.dt) {
            Some(u) => out.extend_from_slice(u),
            None if args.future_inputs.is_some() => {
                bail!(
                    "series `{}`: no control inputs for step {} (t = {}); \
                     add rows to the file of --future-inputs, or take fewer --steps",
                    series.name,
                    k + 1,
                    clock(data, t)
                )
            }
            None => {
                return misuse(format!(
                    "series `{}`: no control inputs for step {} (t = {}); add rows with {} and empty states \
                     to the data, or give --future-inputs FILE",
                    series.name,
                    k + 1,
                    clock(data, t),
                    data.input_columns.join(", ")
                ));
            }
        }
    }
    Ok(out)
}

impl Sheet<'_> {
    /// The columns after `series`, `t` and `step`.
    fn header(&self) -> Vec<String> {
        let mut out = Vec::new();
        for name in &self.names {
            out.extend(headings(name, &self.quantiles));
            if self.calibration.is_some() && !self.calibrated {
                out.push(format!("{name}_sd_calibrated"));
            }
        }
        if self.calibration.is_some() {
            out.extend(INTERVALS.map(|level| format!("region{}", 100.0 * level)));
        }
        if self.cov {
            for i in 0..self.names.len() {
                out.extend((0..=i).map(|j| format!("cov_{}_{}", self.names[i], self.names[j])));
            }
        }
        out
    }

    /// Time of step `k`, counted from 0.
    fn time(&self, f: &Forecast<'_>, k: usize) -> f64 {
        plain(f.series.times[f.row] + (k + 1) as f64 * self.model.dt)
    }

    fn sd(law: &Gaussian, i: usize) -> f64 {
        law.cov[i * law.dim() + i].max(0.0).sqrt()
    }

    fn quantiles(&self, law: &Mixture, i: usize) -> Vec<f64> {
        self.quantiles.iter().map(|p| quantile(law, i, *p)).collect()
    }

    fn radius(&self, c: &Calibration, k: usize, level: f64) -> Option<f64> {
        region_radius(self.model, c, (k + 1) as f64 * self.model.dt, k + 1, level)
    }

    fn csv(&self, out: &mut dyn Write, forecasts: &[Forecast<'_>]) -> io::Result<()> {
        let mut table = csv::Writer::from_writer(out);
        let first = ["series", "t", "step"].map(String::from);
        table.write_record(first.into_iter().chain(self.header()))?;
        for f in forecasts {
            for (k, law) in f.laws.iter().enumerate() {
                let matched = law.moments();
                let dim = matched.dim();
                let mut row =
                    vec![one_line(&f.series.name), clock(self.data, self.time(f, k)), (k + 1).to_string()];
                for i in 0..dim {
                    row.extend([exact(matched.mean[i]), exact(Self::sd(&matched, i))]);
                    row.extend(self.quantiles(law, i).into_iter().map(exact));
                    if let Some(c) = self.calibration.as_ref().filter(|_| !self.calibrated) {
                        row.push(exact(Self::sd(&matched, i) * c.temperature.sqrt()));
                    }
                }
                if let Some(c) = &self.calibration {
                    // Unbounded: the region is everything.
                    row.extend(INTERVALS.map(|level| self.radius(c, k, level).map_or("inf".into(), exact)));
                }
                if self.cov {
                    for i in 0..dim {
                        row.extend((0..=i).map(|j| exact(matched.cov[i * dim + j])));
                    }
                }
                table.write_record(row)?;
            }
        }
        table.flush()
    }

    fn document(&self, out: &mut dyn Write, forecasts: &[Forecast<'_>]) -> io::Result<()> {
        write!(
            out,
            "{{\"dt\":{},\"columns\":{},\"quantiles\":{},\"calibrated\":{},\"temperature\":{},\"series\":[",
            Value::from(self.model.dt),
            json!(self.names),
            json!(self.quantiles),
            self.calibrated,
            json!(self.calibration.as_ref().map(|c| c.temperature)),
        )?;
        for (n, f) in forecasts.iter().enumerate() {
            let start = f.series.times[f.row];
            write!(
                out,
                "{}\n{{\"series\":{},\"start\":{{\"row\":{},\"t\":{}}},\"steps\":[",
                if n > 0 { "," } else { "" },
                json!(f.series.name),
                f.row,
                self.json_time(start)
            )?;
            for (k, law) in f.laws.iter().enumerate() {
                writeln!(out, "{}", if k > 0 { "," } else { "" })?;
                self.step(out, f, k, law)?;
            }
            write!(out, "]}}")?;
        }
        writeln!(out, "]}}")
    }

    /// A stamp if the data have stamps.
    fn json_time(&self, t: f64) -> Value {
        self.data.time.stamp(t).map_or_else(|| plain(t).into(), Value::from)
    }

    fn step(&self, out: &mut dyn Write, f: &Forecast<'_>, k: usize, law: &Mixture) -> io::Result<()> {
        let matched = law.moments();
        let dim = matched.dim();
        let sd: Vec<f64> = (0..dim).map(|i| Self::sd(&matched, i)).collect();
        write!(out, "{{\"step\":{},\"t\":{},\"mean\":", k + 1, self.json_time(self.time(f, k)))?;
        json_numbers(out, &matched.mean)?;
        write!(out, ",\"sd\":")?;
        json_numbers(out, &sd)?;
        write!(out, ",\"quantiles\":[")?;
        for i in 0..dim {
            write!(out, "{}", if i > 0 { "," } else { "" })?;
            json_numbers(out, &self.quantiles(law, i))?;
        }
        write!(out, "]")?;
        if self.cov {
            write!(out, ",\"cov\":")?;
            json_rows(out, &matched.cov, dim)?;
        }
        if let Some(c) = &self.calibration {
            if !self.calibrated {
                let sd: Vec<f64> = sd.iter().map(|sd| sd * c.temperature.sqrt()).collect();
                write!(out, ",\"sd_calibrated\":")?;
                json_numbers(out, &sd)?;
            }
            let region = |level: f64| json!({"level": level, "radius": self.radius(c, k, level)});
            write!(out, ",\"regions\":{}", json!(INTERVALS.map(region)))?;
        }
        if law.components().len() > 1 {
            write!(out, ",\"weights\":")?;
            json_numbers(out, law.weights())?;
            write!(out, ",\"means\":[")?;
            for (n, part) in law.components().iter().enumerate() {
                write!(out, "{}", if n > 0 { "," } else { "" })?;
                json_numbers(out, &part.mean)?;
            }
            write!(out, "],\"covs\":[")?;
            for (n, part) in law.components().iter().enumerate() {
                write!(out, "{}", if n > 0 { "," } else { "" })?;
                json_rows(out, &part.cov, dim)?;
            }
            write!(out, "]")?;
        }
        write!(out, "}}")
    }
}
