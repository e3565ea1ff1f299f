//! `nsde fit`: from a table of measurements to a model that forecasts a distribution.

use crate::dataset;
use crate::output::{self, misuse};
use crate::settings::Settings;
use crate::training::{Fingerprint, ResumeArgs, Run, Saved, default_output, interrupts, wrote};
use anyhow::{Context, Result};
use clap::Args;
use nsde::data::Dataset;
use nsde::train::{self, ForecastTask, TrainState, WindowOptions};
use nsde::{Ensemble, Model, Scaling};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  nsde fit tank.csv
  nsde fit arm.csv.gz --series-column run --time t --state q1,q2 --inputs tau1,tau2 --horizon 1,10,50
  nsde fit tank.csv --config settings.toml --output tank.safetensors
  nsde fit tank.csv --print-config > settings.toml

Interrupt it with Ctrl-C and go on later with the same command and --resume.

Exit status: 0 done, 1 failed or interrupted, 2 misused.";

/// Arguments of `nsde fit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Fit {
    /// Data: CSV (also gzipped), .npy, .npz
    pub data: PathBuf,
    /// Where the model goes [default: the data's name with .safetensors]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Settings in a TOML file; flags override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print all settings as TOML and stop
    #[arg(long)]
    pub print_config: bool,
    #[command(flatten)]
    pub resume: ResumeArgs,
    /// Say nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub columns: Columns,
    /// Share of the data held out for validation
    #[arg(long, value_name = "SHARE")]
    pub validation: Option<f64>,
    /// Rows after the start of a training window; several, e.g. 1,10,50, for a curriculum
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub horizon: Vec<usize>,
    /// Largest step; a longer gap takes several [default: the median spacing]
    #[arg(long, value_name = "DT")]
    pub max_dt: Option<f64>,
    /// Variance of a measured start
    #[arg(long, value_name = "VAR")]
    pub init_var: Option<f64>,
    /// Transition kernel: bmm, cubature or mc
    #[arg(long)]
    pub method: Option<String>,
    /// Particles for mc
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Moments of activations: series, exact or paper
    #[arg(long)]
    pub moments: Option<String>,
    /// Covariance of hidden units: full, structured or diagonal
    #[arg(long)]
    pub covariance: Option<String>,
    /// Scalar type of the kernels: f64 or f32
    #[arg(long)]
    pub precision: Option<String>,
    /// Widths of the drift's hidden layers
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub hidden: Vec<usize>,
    /// Activation of the hidden layers
    #[arg(long)]
    pub activation: Option<String>,
    /// Probability to keep a hidden unit (1: no dropout)
    #[arg(long, value_name = "P")]
    pub keep: Option<f64>,
    /// Diffusion: diagonal, full, constant or none
    #[arg(long)]
    pub diffusion: Option<String>,
    /// Fit a neural ODE: squared error, no diffusion
    #[arg(long)]
    pub ode: bool,
    /// Members of an ensemble
    #[arg(long, value_name = "M")]
    pub members: Option<usize>,
    /// Updates in all
    #[arg(long, value_name = "N")]
    pub steps: Option<usize>,
    /// Windows per update
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Peak learning rate
    #[arg(long, value_name = "RATE")]
    pub rate: Option<f64>,
    /// Validations without improvement after which training stops (0: never)
    #[arg(long, value_name = "N")]
    pub patience: Option<usize>,
    /// Seed of everything
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
}

/// Which columns play which part.
#[derive(Debug, Args)]
pub struct Columns {
    /// Time column: numbers or RFC 3339 stamps
    #[arg(long, value_name = "COLUMN")]
    pub time: Option<String>,
    /// Unit of time for stamps: s, min, h or d
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<String>,
    /// Column that tells series apart
    #[arg(long, value_name = "COLUMN")]
    pub series_column: Option<String>,
    /// State columns [default: every numeric column that is not used otherwise]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Control-input columns
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub inputs: Vec<String>,
}

impl Fit {
    fn settings(&self) -> Result<Settings> {
        let mut s = match &self.config {
            Some(path) => Settings::read(path)?,
            None => Settings::default(),
        };
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(value) = from {
                *to = value.clone();
            }
        }
        fn set_list<T: Clone>(to: &mut Vec<T>, from: &[T]) {
            if !from.is_empty() {
                *to = from.to_vec();
            }
        }
        let Columns { time, time_unit, series_column, state, inputs } = &self.columns;
        s.data.time = time.clone().or(s.data.time);
        s.data.time_unit = time_unit.clone().or(s.data.time_unit);
        s.data.series_column = series_column.clone().or(s.data.series_column);
        set_list(&mut s.data.state, state);
        set_list(&mut s.data.inputs, inputs);
        set(&mut s.data.validation, &self.validation);
        set_list(&mut s.train.horizon, &self.horizon);
        s.horizon_given |= !self.horizon.is_empty();
        set(&mut s.model.max_dt, &self.max_dt);
        set(&mut s.model.init_var, &self.init_var);
        set(&mut s.train.method, &self.method);
        set(&mut s.train.samples, &self.samples);
        set(&mut s.train.moments, &self.moments);
        set(&mut s.train.covariance, &self.covariance);
        set(&mut s.train.precision, &self.precision);
        set_list(&mut s.model.networks.hidden, &self.hidden);
        set(&mut s.model.networks.activation, &self.activation);
        set(&mut s.model.networks.keep, &self.keep);
        set(&mut s.model.networks.diffusion, &self.diffusion);
        set(&mut s.model.members, &self.members);
        set(&mut s.train.optimiser.steps, &self.steps);
        set(&mut s.train.optimiser.batch, &self.batch);
        set(&mut s.train.optimiser.rate, &self.rate);
        set(&mut s.train.optimiser.patience, &self.patience);
        set(&mut s.train.optimiser.seed, &self.seed);
        if self.ode {
            s.train.objective = train::Objective::SquaredError;
            s.model.networks.diffusion = "none".into();
        }
        Ok(s)
    }
}

/// Runs the command.
pub fn run(args: &Fit) -> Result<()> {
    let mut settings = args.settings()?;
    if args.print_config {
        let text = settings.to_toml()?;
        return output::print(|out| out.write_all(text.as_bytes()));
    }
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.data));
    let data = nsde::data::load(&args.data, &settings.data.load_options()?)?;
    if !args.quiet {
        data.notes.iter().for_each(|n| output::note(&n.to_string()));
    }
    if !settings.horizon_given {
        shorten(&mut settings, &data, args.quiet);
    }
    let stop = interrupts()?;
    let job = Job { settings: &settings, data: &data, source: Some(&args.data), quiet: args.quiet };
    let prepared = job.prepare()?;
    let began = Instant::now();
    let (mut saved, mut states) = (Vec::new(), Vec::new());
    for member in 0..settings.model.members.max(1) {
        let beside = Saved::beside(&path, member, args.resume);
        states.push(job.train(&prepared, member, Some(&beside), &stop)?);
        saved.push(beside);
    }
    let model = job.model(&prepared, &states, began.elapsed().as_secs_f64())?;
    model.save(&path)?;
    saved.iter().for_each(Saved::remove);
    if !args.quiet {
        let skipped = states.iter().map(|s| s.skipped).sum();
        let parameters = model.sde.parameter_count();
        wrote(parameters, job.score_name(), states[0].best_score, skipped, &path);
    }
    Ok(())
}

/// Shortens a horizon that nobody asked for to what the training part allows, and says so.
fn shorten(settings: &mut Settings, data: &Dataset, quiet: bool) {
    let rows = |data: &Dataset| data.series.iter().map(|s| s.rows()).max().unwrap_or(0);
    // Nothing is held out, or what cannot be split is refused later.
    let longest = match data.split_tail(settings.data.validation) {
        Ok((train, _)) => rows(&train),
        Err(_) => rows(data),
    };
    let most = longest.saturating_sub(1).max(1);
    for horizon in settings.train.horizon.iter_mut().filter(|horizon| **horizon > most) {
        if !quiet {
            output::note(&format!(
                "the longest training series has {longest} rows: the horizon is {most} instead of {horizon}"
            ));
        }
        *horizon = most;
    }
}

/// A fit: settings and data.
pub struct Job<'a> {
    pub settings: &'a Settings,
    pub data: &'a Dataset,
    pub source: Option<&'a Path>,
    pub quiet: bool,
}

/// What is fixed before the first update.
pub struct Prepared {
    train: Dataset,
    held_out: Option<Dataset>,
    scaling: Scaling,
    inputs_scaling: Option<Scaling>,
    max_dt: f64,
    noise: Vec<f64>,
}

/// A prime apart, so that the members of an ensemble share no stream.
const MEMBER_SEED: u64 = 1_000_003;

impl Job<'_> {
    /// Splits, scales, and finds the step and the size of the noise.
    pub fn prepare(&self) -> Result<Prepared> {
        let s = self.settings;
        if s.train.horizon.is_empty() || s.train.horizon.contains(&0) {
            return misuse("--horizon: needs at least one number, each at least 1");
        }
        if !(0.0..1.0).contains(&s.data.validation) {
            return misuse(format!("--validation: {} is not in [0, 1)", s.data.validation));
        }
        let (train, held_out) = if s.data.validation > 0.0 {
            let (train, held_out) = self.data.split_tail(s.data.validation)?;
            (train, Some(held_out))
        } else {
            (self.data.clone(), None)
        };
        let all: Vec<usize> = (0..train.series.len()).collect();
        let unit = |n: usize| Scaling::new(vec![0.0; n], vec![1.0; n]);
        let scaling = if s.data.standardise {
            let (mean, std) = train.scaling(&all);
            Scaling::new(mean, std)?
        } else {
            unit(train.dim())?
        };
        let inputs_scaling = match train.inputs() {
            0 => None,
            _ => {
                let (mean, std) = train.input_scaling(&all);
                Some(Scaling::new(mean, std)?)
            }
        };
        let max_dt = match s.model.max_dt {
            // 0.1 rather than the 0.10000000000000009 of a difference of two times.
            0.0 => dataset::plain(train.median_spacing().context("the data have no two rows in one series")?),
            dt if dt.is_finite() && dt > 0.0 => dt,
            dt => return misuse(format!("--max-dt: {dt} is not positive")),
        };
        if !(s.model.init_var.is_finite() && s.model.init_var >= 0.0) {
            return misuse(format!("--init-var: {} is negative or not finite", s.model.init_var));
        }
        let noise = increments(&train, &scaling);
        Ok(Prepared { train, held_out, scaling, inputs_scaling, max_dt, noise })
    }

    fn task(&self, p: &Prepared, seed: u64) -> Result<ForecastTask> {
        let s = self.settings;
        let sde = s.model.networks.build(p.train.dim(), p.train.inputs(), &p.noise, seed)?;
        let cut = WindowOptions { horizon: 1, max_dt: p.max_dt, init_var: s.model.init_var, stride: 1 };
        Ok(ForecastTask::new(
            sde,
            s.train.options()?,
            s.train.objective,
            &p.train,
            p.held_out.as_ref(),
            &p.scaling,
            p.inputs_scaling.as_ref(),
            &s.train.horizon,
            &cut,
        )?)
    }

    /// Trains one member, from the beginning or from where it was.
    pub fn train(
        &self,
        p: &Prepared,
        member: usize,
        saved: Option<&Saved>,
        stop: &AtomicBool,
    ) -> Result<TrainState> {
        let mut optimiser = self.settings.train.optimiser.clone();
        optimiser.seed = optimiser.seed.wrapping_add(member as u64 * MEMBER_SEED);
        let task = self.task(p, optimiser.seed)?;
        let label = if self.settings.model.members > 1 { format!("member {member}") } else { "fit".into() };
        let run = Run {
            label: &label,
            options: &optimiser,
            stages: task.stages(),
            checkpoint_every: self.settings.train.checkpoint_every,
            fingerprint: self.fingerprint(member)?,
            quiet: self.quiet,
        };
        run.train(&task, task.parameters(), saved, stop)
    }

    /// Puts the trained members together.
    pub fn model(&self, p: &Prepared, states: &[TrainState], seconds: f64) -> Result<Model> {
        let s = self.settings;
        let mut models = Vec::with_capacity(states.len());
        for (member, state) in states.iter().enumerate() {
            let seed = s.train.optimiser.seed.wrapping_add(member as u64 * MEMBER_SEED);
            let mut model = Model::new(self.task(p, seed)?.sde(state.result())?, p.max_dt)?;
            model.init_var = s.model.init_var;
            model.scaling = s.data.standardise.then(|| p.scaling.clone());
            model.inputs_scaling = p.inputs_scaling.clone();
            model.columns = Some(p.train.columns.iter().chain(&p.train.input_columns).cloned().collect());
            models.push(model);
        }
        let mut model = Ensemble { models }.into_model()?;
        let state = &states[0];
        let training = serde_json::json!({
            "settings": serde_json::to_value(s)?,
            "history": serde_json::to_value(&state.history)?,
            "data": {
                "file": self.source.and_then(|f| f.file_name()).map(|f| f.to_string_lossy()),
                "rows": self.data.rows(),
                "series": self.data.series.len(),
                "columns": self.data.columns,
                "input_columns": self.data.input_columns,
                "time_column": s.data.time.clone().or_else(|| self.data.time.column.clone()),
                "time_unit": self.data.time.unit.map(|u| u.to_string()),
                "series_column": s.data.series_column,
            },
            "score": self.score_name(),
            "best_score": state.best_score.map(|(score, _)| score),
            "best_step": state.best_score.map(|(_, step)| step),
            "steps": state.step,
            "skipped": states.iter().map(|s| s.skipped).sum::<usize>(),
            "seconds": (seconds * 10.0).round() / 10.0,
            "version": env!("CARGO_PKG_VERSION"),
        });
        model.extra.insert("training".into(), training);
        Ok(model)
    }

    fn score_name(&self) -> &'static str {
        match self.settings.train.objective {
            train::Objective::Likelihood => "NLL",
            train::Objective::SquaredError => "squared error",
        }
    }

    /// Identifies settings, member and data, so that a checkpoint is not taken for another's.
    fn fingerprint(&self, member: usize) -> Result<String> {
        let mut print = Fingerprint::new(self.settings)?;
        print.eat(&member.to_le_bytes());
        for series in &self.data.series {
            print.numbers(series.times.iter().chain(&series.values).chain(&series.inputs));
        }
        Ok(print.finish())
    }
}

/// The deviation of `Δx/√Δt` per column, in the units of the networks: the diffusion to begin with.
fn increments(data: &Dataset, scaling: &Scaling) -> Vec<f64> {
    let d = data.dim();
    let mut sums = vec![(0.0, 0usize); d];
    for series in &data.series {
        for n in 1..series.rows() {
            let root = (series.times[n] - series.times[n - 1]).sqrt();
            for i in 0..d {
                let step =
                    (series.values[n * d + i] - series.values[(n - 1) * d + i]) / scaling.std[i] / root;
                if step.is_finite() {
                    sums[i].0 += step * step;
                    sums[i].1 += 1;
                }
            }
        }
    }
    sums.iter().map(|(sum, n)| (sum / (*n).max(1) as f64).sqrt().max(1e-3)).collect()
}
