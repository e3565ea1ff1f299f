//! The experiments, one file each, and the list of them.

pub mod air_quality;
mod augmented_dropout;
mod calibration_cost;
pub mod classification;
mod double_well;
mod dropout;
mod high_dimension;
mod integration_error;
pub mod lotka_volterra;
mod mutual_information;
pub mod robot;
pub mod uci;

use crate::run::Run;
use anyhow::Result;

/// An experiment: `run` computes its cells and writes its folder.
pub struct Experiment {
    /// Its name on the command line, and of its folder.
    pub name: &'static str,
    /// Figure or table of the paper.
    pub paper: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// What it does.
    pub run: fn(&Run) -> Result<()>,
}

/// All experiments, in the order of the paper; each file says what it is.
pub const ALL: &[Experiment] = &[
    calibration_cost::EXPERIMENT,
    mutual_information::EXPERIMENT,
    dropout::EXPERIMENT,
    integration_error::EXPERIMENT,
    double_well::EXPERIMENT,
    uci::EXPERIMENT,
    uci::RECIPES,
    classification::EXPERIMENT,
    lotka_volterra::EXPERIMENT,
    air_quality::EXPERIMENT,
    robot::EXPERIMENT,
    high_dimension::EXPERIMENT,
    augmented_dropout::EXPERIMENT,
];
