//! `nsde`: fits, forecasts and reports on the command line.

mod args;
mod charts;
mod command;
mod dataset;
mod future;
mod inputs;
mod output;
mod progress;
mod rollout;
mod settings;
mod sheet;
mod start;
mod training;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::misused(&error),
    };
    let done = match &cli.command {
        Command::Demo(args) => command::demo::run(args),
        Command::Fit(args) => command::fit::run(args),
        Command::FitTable(args) => command::table::fit::run(args),
        Command::PredictTable(args) => command::table::predict::run(args),
        Command::Predict(args) => command::predict::run(args),
        Command::Moments(args) => command::moments::run(args),
        Command::Inspect(args) => command::inspect::run(args),
        Command::Forecast(args) => command::forecast::run(args),
        Command::Evaluate(args) => command::evaluate::run(args),
        Command::Calibrate(args) => command::calibrate::run(args),
        Command::Report(args) => command::report::run(args),
        Command::Completions(args) => command::completions::run(args),
        Command::Man(args) => command::man::run(args),
    };
    output::status(done)
}
