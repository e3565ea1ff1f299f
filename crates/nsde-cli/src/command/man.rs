//! `nsde man`: manual pages.

use crate::args::{Cli, Man};
use crate::output::{misuse, print};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man as Page;

/// Prints the main page, or writes all pages into a directory.
pub fn run(args: &Man) -> Result<()> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Page::new(Cli::command()).render(&mut page)?;
        return print(|out| out.write_all(&page));
    };
    if let Err(e) = std::fs::create_dir_all(dir) {
        return misuse(format!("{}: {e}", dir.display()));
    }
    clap_mangen::generate_to(Cli::command(), dir).with_context(|| dir.display().to_string())
}
