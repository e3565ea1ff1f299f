//! Everything that can be written on the command line.

use crate::output::misuse;
use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nsde::mixture::Splitting;
use nsde::{CovarianceForm, Method, Moments, Options, Precision, Unscented};
use std::path::PathBuf;

/// Forecast distributions from neural stochastic differential equations, without sampling.
#[derive(Debug, Parser)]
#[command(name = "nsde", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate, fit, forecast, evaluate and report on an embedded example
    Demo(crate::command::demo::Demo),
    /// Fit a neural SDE to a table of measurements over time
    Fit(Box<crate::command::fit::Fit>),
    /// Fit a regression or a classification with an SDE as a layer
    FitTable(Box<crate::command::table::arguments::FitTable>),
    /// Apply a regression or a classification to the rows of a table
    PredictTable(crate::command::table::predict::PredictTable),
    /// Predict mean and covariance of the state over the next steps
    Predict(Predict),
    /// Push one Gaussian through one network of a model
    Moments(MomentsArgs),
    /// Show what a model file holds
    Inspect(Inspect),
    /// Forecast the rows after the end of a table
    Forecast(crate::command::forecast::ForecastArgs),
    /// Score the forecasts of a model on data it has not seen
    Evaluate(crate::command::evaluate::EvaluateArgs),
    /// Learn from held-out data how far the spread of a model can be trusted
    Calibrate(crate::command::calibrate::CalibrateArgs),
    /// Write a report with charts of a model and its forecasts
    Report(crate::command::report::ReportArgs),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write all of them
    Man(Man),
}

const PREDICT_EXAMPLES: &str = "\
Examples:
  nsde predict lv.safetensors --x0 3,5 --steps 100
  nsde predict lv.safetensors --start start.json --json > forecast.json
  nsde predict lv.safetensors --x0 3,5 --method mc --samples 1000 --seed 1 --json --paths

The start file holds {\"mean\": [D numbers], \"cov\": [D rows of D numbers]}; without `cov`, and with
--x0, the covariance is `init_var`·I of the model. All numbers are in the units of the data.

Exit status: 0 done, 1 failed (bad data), 2 misused.";

/// Arguments of `nsde predict`.
#[derive(Debug, Args)]
#[command(after_help = PREDICT_EXAMPLES)]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub struct Predict {
    /// Model file (.safetensors)
    pub model: PathBuf,
    /// Start at this point: one number per dimension of the state
    #[arg(long, group = "from", value_name = "A,B,…", value_parser = numbers, allow_hyphen_values = true)]
    pub x0: Option<Numbers>,
    /// Start from a Gaussian in a JSON file
    #[arg(long, group = "from", value_name = "FILE")]
    pub start: Option<PathBuf>,
    /// Number of steps
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one, allow_negative_numbers = true)]
    pub steps: usize,
    /// Step size [default: the model's]
    #[arg(long, value_name = "DT", value_parser = positive, allow_hyphen_values = true)]
    pub dt: Option<f64>,
    /// Control inputs: a CSV file with a header and one row per step
    #[arg(long, value_name = "FILE")]
    pub inputs: Option<PathBuf>,
    #[command(flatten)]
    pub solver: SolverArgs,
    /// Spread of the points for `cubature`
    #[arg(long, value_name = "α", default_value = "1", value_parser = finite, allow_hyphen_values = true)]
    pub alpha: f64,
    /// Weight of the central point in the covariance for `cubature`
    #[arg(long, value_name = "β", default_value = "0", value_parser = finite, allow_hyphen_values = true)]
    pub beta: f64,
    /// Secondary scaling for `cubature`
    #[arg(long, value_name = "κ", default_value = "0", value_parser = finite, allow_hyphen_values = true)]
    pub kappa: f64,
    /// Scalar type of the networks
    #[arg(long, value_enum, default_value_t = Scalar::F64)]
    pub precision: Scalar,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
    /// Add the paths of `mc` to the JSON document, as "samples"
    #[arg(long, requires = "json")]
    pub paths: bool,
}

impl Predict {
    /// The solver that was asked for.
    pub fn options(&self) -> Options {
        let mut options = self.solver.options();
        if let Method::Cubature(points) = &mut options.method {
            *points = Unscented { alpha: self.alpha, beta: self.beta, kappa: self.kappa };
        }
        options.precision = match self.precision {
            Scalar::F64 => Precision::F64,
            Scalar::F32 => Precision::F32,
        };
        options
    }
}

/// Arguments of `nsde moments`.
#[derive(Debug, Args)]
pub struct MomentsArgs {
    /// Model file (.safetensors)
    pub model: PathBuf,
    /// Which network
    #[arg(long, value_enum, default_value_t = Net::Drift)]
    pub net: Net,
    /// Mean of the network's input, in the units of the network
    #[arg(long, value_name = "A,B,…", value_parser = numbers, allow_hyphen_values = true)]
    pub mean: Numbers,
    /// Covariance of the network's input, row by row
    #[arg(long, value_name = "A,B,…", value_parser = numbers, allow_hyphen_values = true)]
    pub cov: Numbers,
    #[command(flatten)]
    pub activations: Activations,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The solver on the command line.
#[derive(Debug, Args)]
pub struct SolverArgs {
    /// How a Gaussian is carried over one step
    #[arg(long, value_enum, default_value_t = Kernel::Bmm)]
    pub method: Kernel,
    /// Number of paths for `mc`
    #[arg(long, value_name = "N", default_value = "1000", value_parser = at_least_two, allow_negative_numbers = true)]
    pub samples: usize,
    /// Seed for `mc`
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = whole, allow_negative_numbers = true)]
    pub seed: u64,
    /// How much of the covariance of hidden units `bmm` carries
    #[arg(long, value_enum, default_value_t = Hidden::Full)]
    pub covariance: Hidden,
    #[command(flatten)]
    pub activations: Activations,
}

impl SolverArgs {
    /// The same for the library.
    pub fn options(&self) -> Options {
        let method = match self.method {
            Kernel::Bmm => Method::Bmm,
            Kernel::Cubature => Method::Cubature(Unscented::default()),
            Kernel::Mc => Method::MonteCarlo { samples: self.samples, seed: self.seed },
        };
        let covariance = match self.covariance {
            Hidden::Full => CovarianceForm::Full,
            Hidden::Structured => CovarianceForm::Structured,
            Hidden::Diagonal => CovarianceForm::Diagonal,
        };
        Options { method, moments: self.activations.moments(), covariance, ..Options::default() }
    }
}

/// Laws of more than one Gaussian.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// Most Gaussians of a forecast: with more than one, a Gaussian that the drift bends is split
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one, allow_negative_numbers = true)]
    pub components: usize,
}

impl SplitArgs {
    /// The same for the library; `None` for a single Gaussian.
    pub fn splitting(&self, solver: &SolverArgs) -> Result<Option<Splitting>> {
        match (self.components, solver.method) {
            (1, _) => Ok(None),
            (_, Kernel::Mc) => {
                misuse("--components: `mc` samples, so its forecasts do not split; leave one out")
            }
            (most, _) => Ok(Some(Splitting { most, ..Splitting::default() })),
        }
    }
}

/// How moments of activations are computed.
#[derive(Debug, Args)]
pub struct Activations {
    /// How the moments of activations are computed
    #[arg(long, value_enum, default_value_t = Mode::Series)]
    pub moments: Mode,
    /// Number of terms of the series
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one, allow_negative_numbers = true)]
    pub terms: usize,
}

impl Activations {
    /// The same for the library.
    pub fn moments(&self) -> Moments {
        match self.moments {
            Mode::Series => Moments::Series { terms: self.terms },
            Mode::Exact => Moments::Exact,
            Mode::Paper => Moments::Paper,
        }
    }
}

/// Arguments of `nsde inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// Model file (.safetensors)
    pub model: PathBuf,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `nsde completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `nsde man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write one page per subcommand into this directory instead
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The three transition kernels.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Kernel {
    /// Bidimensional moment matching
    Bmm,
    /// The unscented transform
    Cubature,
    /// Monte Carlo
    Mc,
}

/// The three ways to the moments of activations.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Mode {
    /// Smoothed derivatives, cut after --terms
    Series,
    /// Exact integrals where there are any
    Exact,
    /// The paper's formula, corrected
    Paper,
}

/// Forms of the covariance of hidden units.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Hidden {
    /// All of it
    Full,
    /// What the state explains, and a diagonal: for wide networks
    Structured,
    /// Structured, and of the state only the variances
    Diagonal,
}

/// Scalar types.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Scalar {
    /// Double precision
    F64,
    /// Single precision
    F32,
}

/// The networks of a model.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Net {
    /// The drift f
    Drift,
    /// The diffusion L
    Diffusion,
}

/// A list of numbers in one argument.
#[derive(Clone, Debug)]
pub struct Numbers(pub Vec<f64>);

fn numbers(text: &str) -> Result<Numbers, String> {
    text.split(',').map(finite).collect::<Result<_, _>>().map(Numbers)
}

fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x),
        Ok(x) => Err(format!("{x} is not finite")),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let x = finite(text)?;
    if x > 0.0 { Ok(x) } else { Err("it must be positive".into()) }
}

pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number that is not negative".into())
}

fn at_least(least: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n >= least => Ok(n),
        _ => Err(format!("it must be a whole number, at least {least}")),
    }
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    at_least(1, text)
}

pub(crate) fn at_least_two(text: &str) -> Result<usize, String> {
    at_least(2, text)
}
