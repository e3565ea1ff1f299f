//! `nsde`: forecasts from model files on the command line.

mod args;
mod command;
mod inputs;
mod output;
mod start;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::misused(&error),
    };
    let done = match &cli.command {
        Command::Predict(args) => command::predict::run(args),
        Command::Moments(args) => command::moments::run(args),
        Command::Inspect(args) => command::inspect::run(args),
        Command::Completions(args) => command::completions::run(args),
        Command::Man(args) => command::man::run(args),
    };
    output::status(done)
}
