//! `nsde demo`: the whole job on an embedded default, the paper's Lotka–Volterra data (Sec. 6.4).

use super::fit::Job;
use crate::output;
use crate::rollout::Protocol;
use crate::settings::Settings;
use anyhow::{Context, Result};
use clap::Args;
use nsde::data::Dataset;
use nsde::metric::Scores;
use nsde::simulate::{Recording, lotka_volterra};
use nsde::{Gaussian, Method, Options};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Arguments of `nsde demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where model, data, report and pictures go
    #[arg(long, value_name = "DIR", default_value = "nsde-demo")]
    pub dir: PathBuf,
    /// A small version, under 20 seconds
    #[arg(long)]
    pub quick: bool,
    /// Seed of the simulation and the training
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Instead: multi-step BMM against one-step training and Monte Carlo with 64 particles, three seeds;
    /// the others may train for as many seconds as BMM needs
    #[arg(long, conflicts_with = "quick")]
    pub compare: bool,
    /// Updates of BMM in a comparison
    #[arg(long, value_name = "N", default_value_t = 300, requires = "compare")]
    pub updates: usize,
    /// Say nothing on the way
    #[arg(long, short)]
    pub quiet: bool,
}

/// Rows of a path; the first half trains, the second half tests.
const ROWS: usize = 200;
const TRAINED: usize = 100;

/// Runs the command.
pub fn run(args: &Demo) -> Result<()> {
    if args.compare {
        return compare(args);
    }
    let began = Instant::now();
    std::fs::create_dir_all(&args.dir).with_context(|| args.dir.display().to_string())?;
    let say = |text: String| {
        if !args.quiet {
            output::note(&text);
        }
    };
    let (paths, substeps) = if args.quick { (32, 500) } else { (128, 5000) };
    let how = Recording { paths, rows: ROWS, spacing: 0.05, substeps, seed: args.seed };
    let (data, refused) = lotka_volterra(how);
    say(format!(
        "simulated {paths} Lotka–Volterra paths of {ROWS} values over 10 s at a step of {:.0e} s \
         ({refused} paths left the positive quadrant and were drawn again)",
        0.05 / substeps as f64
    ));
    write_csv(&data, &args.dir.join("lotka-volterra.csv"))?;

    let train = data.first_rows(TRAINED);
    let settings = settings(if args.quick { 300 } else { 1500 }, args.seed);
    let job = Job { settings: &settings, data: &train, source: None, quiet: args.quiet };
    let prepared = job.prepare()?;
    let fitted = Instant::now();
    let state = job.train(&prepared, 0, None, &AtomicBool::new(false))?;
    let model = job.model(&prepared, &[state], fitted.elapsed().as_secs_f64())?;
    let file = args.dir.join("lotka-volterra.safetensors");
    model.save(&file)?;
    say(format!(
        "fitted {} parameters in {:.1} s",
        model.sde.parameter_count(),
        fitted.elapsed().as_secs_f64()
    ));

    // The paper's protocol: one rollout from t = 0, scored on the second half, in the units of the data.
    let protocol = Protocol { from_start: true, skip: TRAINED, ..Protocol::default() };
    let report = crate::command::evaluate::evaluate(&model, &data, &protocol)?;
    let ours = report.overall.context("no forecast could be scored")?;
    let floor = floor(&data)?.context("no data to score")?;
    let page = crate::command::report::write_report(
        &model,
        &data,
        &protocol,
        &args.dir.join("report.html"),
        Some(&args.dir.join("charts")),
    )?;
    output::print(|out| {
        writeln!(
            out,
            "Lotka–Volterra, rollout from t = 0, scored on t = 5 … 9.95 s of {paths} paths, raw units"
        )?;
        writeln!(out, "{:<42}{:>8}{:>8}{:>8}", "", "MSE", "NLL", "ECPE")?;
        let row = |out: &mut dyn Write, name: &str, mse: f64, nll: f64, ecpe: Option<f64>| {
            let ecpe = ecpe.map_or("–".into(), |e| format!("{e:.3}"));
            writeln!(out, "{name:<42}{mse:>8.3}{nll:>8.3}{ecpe:>8}")
        };
        row(out, "this model (BMM)", ours.mse_per_coordinate, ours.nll, Some(ours.ecpe))?;
        row(out, "floor: best Gaussian per step of these data", floor.0, floor.1, Some(floor.2))?;
        row(out, "the paper's BMM (its own data)", 1.75, 4.35, None)?;
        writeln!(out, "model   {}", file.display())?;
        writeln!(out, "report  {}", page.display())?;
        writeln!(out, "charts  {}", args.dir.join("charts").display())?;
        writeln!(out, "took    {:.1} s", began.elapsed().as_secs_f64())
    })
}

/// The paper's networks and windows; all training paths are used, nothing is held out.
fn settings(steps: usize, seed: u64) -> Settings {
    let mut settings = Settings::default();
    settings.data.validation = 0.0;
    settings.data.time = Some("t".into());
    settings.data.series_column = Some("path".into());
    settings.model.networks.keep = 0.8;
    settings.train.optimiser.steps = steps;
    settings.train.optimiser.seed = seed;
    settings
}

/// A way to train, and the kernel that predicts with the result.
struct Contender {
    name: &'static str,
    horizon: usize,
    method: &'static str,
    options: Options,
}

/// Updates that tell how long one takes.
const PROBE: usize = 20;

fn compare(args: &Demo) -> Result<()> {
    let particles = Options { method: Method::MonteCarlo { samples: 64, seed: 0 }, ..Options::default() };
    let bmm = Options::default();
    let contenders = [
        Contender { name: "multi-step BMM", horizon: 10, method: "bmm", options: bmm },
        Contender { name: "one-step, predicted by BMM", horizon: 1, method: "bmm", options: bmm },
        Contender { name: "MC 64, predicted by MC 64", horizon: 10, method: "mc", options: particles },
        Contender { name: "MC 64, predicted by BMM", horizon: 10, method: "mc", options: bmm },
    ];
    // Seconds that BMM took, per seed: all that the others get.
    let mut budget = [0.0; 3];
    let mut lines = Vec::new();
    for c in &contenders {
        let (mut mse, mut nll, mut seconds, mut updates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (i, seed) in (args.seed..args.seed + 3).enumerate() {
            let how = Recording { paths: 128, rows: ROWS, spacing: 0.05, substeps: 500, seed };
            let (data, _) = lotka_volterra(how);
            let train = data.first_rows(TRAINED);
            let fit = |steps: usize| -> Result<(nsde::Model, f64)> {
                let mut settings = settings(steps, seed);
                settings.train.horizon = vec![c.horizon];
                settings.train.method = c.method.into();
                settings.train.precision = "f32".into();
                let job = Job { settings: &settings, data: &train, source: None, quiet: args.quiet };
                let prepared = job.prepare()?;
                let began = Instant::now();
                let state = job.train(&prepared, 0, None, &AtomicBool::new(false))?;
                let took = began.elapsed().as_secs_f64();
                Ok((job.model(&prepared, &[state], 0.0)?, took))
            };
            let steps = if budget[i] > 0.0 {
                let (_, probe) = fit(PROBE)?;
                (budget[i] * PROBE as f64 / probe).max(1.0) as usize
            } else {
                args.updates
            };
            let (model, took) = fit(steps)?;
            if budget[i] == 0.0 {
                budget[i] = took;
            }
            let protocol =
                Protocol { from_start: true, skip: TRAINED, options: c.options, ..Protocol::default() };
            let scores = crate::command::evaluate::evaluate(&model, &data, &protocol)?.overall;
            let scores = scores.context("no forecast could be scored")?;
            mse.push(scores.mse_per_coordinate);
            nll.push(scores.nll);
            seconds.push(took);
            updates.push(steps as f64);
        }
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        let each = nll.iter().map(|x| format!("{x:.2}")).collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "{:<30}{:>8.3}{:>8.3}{:>8.1}{:>9.0}   {each}",
            c.name,
            mean(&mse),
            mean(&nll),
            mean(&seconds),
            mean(&updates)
        ));
    }
    output::print(|out| {
        writeln!(out, "Lotka–Volterra, rollout from t = 0, second half scored, mean of three seeds")?;
        writeln!(
            out,
            "{:<30}{:>8}{:>8}{:>8}{:>9}   NLL of each seed",
            "", "MSE", "NLL", "seconds", "updates"
        )?;
        lines.iter().try_for_each(|l| writeln!(out, "{l}"))
    })
}

/// MSE, NLL and ECPE of the Gaussian with the paths' own mean and covariance at every step: what no
/// Gaussian forecast from t = 0 can beat on these very data.
fn floor(data: &Dataset) -> Result<Option<(f64, f64, f64)>> {
    let n = data.series.len() as f64;
    let mut scores = Scores::new();
    for row in TRAINED..ROWS {
        let at = |s: &nsde::data::Series| [s.values[2 * row], s.values[2 * row + 1]];
        let mut mean = vec![0.0; 2];
        let mut cov = vec![0.0; 4];
        for s in &data.series {
            (0..2).for_each(|i| mean[i] += at(s)[i] / n);
        }
        for s in &data.series {
            for i in 0..2 {
                for j in 0..2 {
                    cov[2 * i + j] += (at(s)[i] - mean[i]) * (at(s)[j] - mean[j]) / n;
                }
            }
        }
        let best = Gaussian::new(mean, cov)?;
        for s in &data.series {
            scores.push(row, &best, &at(s))?;
        }
    }
    Ok(scores.overall().map(|s| (s.mse_per_coordinate, s.nll, s.ecpe)))
}

fn write_csv(data: &Dataset, path: &std::path::Path) -> Result<()> {
    let mut text = String::from("path,t,prey,predator\n");
    for series in &data.series {
        for (t, row) in series.times.iter().zip(series.values.chunks(2)) {
            text.push_str(&format!("{},{t},{},{}\n", series.name, row[0], row[1]));
        }
    }
    Ok(nsde::train::write_atomically(path, text.as_bytes())?)
}
