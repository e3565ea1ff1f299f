//! `nsde predict`: moments of the state after each step, in the units of the data.

use crate::args::{Kernel, Predict};
use crate::inputs::inputs;
use crate::output::{json_numbers, json_rows, load_forecaster, misuse, note, one_line, print, short, table};
use crate::start::start;
use anyhow::{Result, bail};
use nsde::{Model, Rollout, Stats, Trajectory};
use serde_json::Value;
use std::io::{self, Write};

/// Most numbers that one run may hold (16 GB): more is a slip of the finger, and would end in an abort.
const MOST_NUMBERS: usize = 1 << 31;

/// Predicts and prints.
pub fn run(args: &Predict) -> Result<()> {
    if args.paths && args.solver.method != Kernel::Mc {
        return misuse("--paths: only `--method mc` has paths");
    }
    let model = load_forecaster(&args.model)?;
    let start = start(args, &model)?;
    check_memory(args, model.sde.state())?;
    let inputs = inputs(args, &model)?;
    let dt = args.dt.unwrap_or(model.dt);
    let dts = vec![dt; args.steps];
    let rollout = Rollout { start: &start, dts: &dts, inputs: &inputs };

    let (mut paths, stats) = model.predict_with_stats(args.options(), &[rollout])?;
    let Some(path) = paths.pop() else { bail!("the solver returned nothing") };
    let samples = if args.paths { Some(model.sample(args.options(), 0, rollout)?) } else { None };
    print(|out| {
        if args.json {
            document(out, dt, &path, samples.as_deref(), args.solver.samples)
        } else {
            forecast(out, dt, &path, &model)
        }
    })?;
    notes(args, &model, stats);
    Ok(())
}

fn check_memory(args: &Predict, state: usize) -> Result<()> {
    let fits = |factors: &[usize]| {
        factors.iter().try_fold(1usize, |n, f| n.checked_mul(*f)).is_some_and(|n| n <= MOST_NUMBERS)
    };
    if !fits(&[args.steps, state, state + 1]) {
        return misuse(format!(
            "--steps {} do not fit into memory; go on from the last step with --start",
            args.steps
        ));
    }
    if args.solver.method == Kernel::Mc
        && !fits(&[args.solver.samples, if args.paths { args.steps } else { 1 }, state])
    {
        return misuse(format!("--samples {} do not fit into memory; take fewer", args.solver.samples));
    }
    Ok(())
}

fn notes(args: &Predict, model: &Model, stats: Stats) {
    if args.solver.method == Kernel::Cubature && model.sde.has_dropout() {
        note("dropout acts as the identity under `cubature`; `bmm` and `mc` carry its noise");
    }
    if stats != Stats::default() {
        note(&format!(
            "guards acted: {} variances raised, {} exponentials cut, {} zero pivots",
            stats.diagonal_raised, stats.exp_clamped, stats.zero_pivot
        ));
    }
}

fn time(k: usize, dt: f64) -> f64 {
    (k + 1) as f64 * dt
}

/// A time without the rounding of its sum: 0.15, not 0.15000000000000002.
fn clock(t: f64) -> String {
    let rounded: f64 = format!("{t:.9e}").parse().unwrap_or(t);
    Value::from(rounded).to_string()
}

fn document(
    out: &mut dyn Write,
    dt: f64,
    path: &Trajectory,
    samples: Option<&[f64]>,
    per_step: usize,
) -> io::Result<()> {
    let dim = path.dim();
    write!(out, "{{\"dt\":{},\"steps\":[", Value::from(dt))?;
    for k in 0..path.steps() {
        write!(out, "{}\n{{\"t\":{},\"mean\":", if k > 0 { "," } else { "" }, Value::from(time(k, dt)))?;
        json_numbers(out, path.mean(k))?;
        write!(out, ",\"cov\":")?;
        json_rows(out, path.cov(k), dim)?;
        write!(out, "}}")?;
    }
    write!(out, "]")?;
    if let Some(samples) = samples {
        write!(out, ",\n\"samples\":[")?;
        for (k, states) in samples.chunks(per_step * dim).enumerate() {
            write!(out, "{}", if k > 0 { ",\n" } else { "\n" })?;
            json_rows(out, states, dim)?;
        }
        write!(out, "]")?;
    }
    writeln!(out, "}}")
}

/// `t`, then mean ± standard deviation of each dimension.
fn forecast(out: &mut dyn Write, dt: f64, path: &Trajectory, model: &Model) -> io::Result<()> {
    let dim = path.dim();
    let name = |i: usize| match model.columns.as_ref().and_then(|names| names.get(i)) {
        Some(name) => one_line(name),
        None => format!("x{i}"),
    };
    let mut rows = vec![[String::from("t")].into_iter().chain((0..dim).map(name)).collect::<Vec<_>>()];
    for k in 0..path.steps() {
        let cell = |i: usize| {
            format!("{} ± {}", short(path.mean(k)[i]), short(path.cov(k)[i * dim + i].max(0.0).sqrt()))
        };
        rows.push([clock(time(k, dt))].into_iter().chain((0..dim).map(cell)).collect());
    }
    table(out, &rows, 0)
}
