//! The arguments of `nsde fit-table`.

use crate::args::{at_least_one, whole};
use crate::training::ResumeArgs;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nsde fit-table houses.csv --target price
  nsde fit-table iris.csv --label species --latent 6 --output iris.safetensors
  nsde fit-table gestures.csv --label gesture --series-column run
  nsde evaluate houses.safetensors --data held-out.csv
  nsde predict-table houses.safetensors --data new.csv

Every row is an example; with --series-column every series is one, and its rows drive the SDE step by step. Features
and targets are standardised, and the model remembers how. The held-out examples are drawn at random.
Interrupt it with Ctrl-C and go on later with the same command and --resume.

Exit status: 0 done, 1 failed (bad data) or interrupted, 2 misused.";

/// Arguments of `nsde fit-table`. What is serialised decides the weights, apart from the data.
#[derive(Debug, Args, Serialize)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["target", "label"]))]
pub struct FitTable {
    /// Data: CSV with a header, one example per row
    #[serde(skip)]
    pub data: PathBuf,
    /// Regression: the columns to predict
    #[arg(long, value_name = "Y,…", value_delimiter = ',')]
    pub target: Vec<String>,
    /// Classification: the column of the class, any text
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// Column that tells series apart: each is one sequence to be classified
    #[arg(long, value_name = "COLUMN", requires = "label", conflicts_with = "target")]
    pub series_column: Option<String>,
    /// Feature columns [default: every numeric column that is not used otherwise]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Steps of the flow; a sequence makes one per row
    #[arg(long, value_name = "K", default_value = "8", value_parser = at_least_one)]
    pub flow_steps: usize,
    /// Size of a step of the flow
    #[arg(long, value_name = "DT", default_value = "0.5", allow_negative_numbers = true)]
    pub flow_dt: f64,
    /// Dimensions of the SDE [default: the number of features; for sequences at least 4]
    #[arg(long, value_name = "D", value_parser = at_least_one)]
    pub latent: Option<usize>,
    /// Widths of the hidden layers of both networks
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "40", value_parser = at_least_one)]
    pub hidden: Vec<usize>,
    /// Probability to keep a hidden unit (1: no dropout)
    #[arg(long, value_name = "P", default_value = "0.9", allow_negative_numbers = true)]
    pub keep: f64,
    /// Updates in all
    #[arg(long, value_name = "N", default_value = "1500", value_parser = at_least_one)]
    pub steps: usize,
    /// Examples per update
    #[arg(long, value_name = "N", default_value = "32", value_parser = at_least_one)]
    pub batch: usize,
    /// Peak learning rate
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true)]
    pub rate: f64,
    /// Seed of everything
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = whole)]
    pub seed: u64,
    /// Share of the examples held out for validation
    #[arg(long, value_name = "SHARE", default_value = "0.1", allow_negative_numbers = true)]
    pub validation: f64,
    /// Where the model goes [default: the data's name with .safetensors]
    #[arg(long, short, value_name = "FILE")]
    #[serde(skip)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub resume: ResumeArgs,
    /// Say nothing but errors
    #[arg(long, short)]
    #[serde(skip)]
    pub quiet: bool,
}
