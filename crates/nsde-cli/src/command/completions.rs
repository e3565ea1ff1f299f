//! `nsde completions`: a completion script for a shell.

use crate::args::{Cli, Completions};
use crate::output::print;
use anyhow::Result;
use clap::CommandFactory;

/// Prints the script.
pub fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "nsde", &mut script);
    print(|out| out.write_all(&script))
}
