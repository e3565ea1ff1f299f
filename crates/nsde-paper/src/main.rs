//! The experiments of the paper, one command each: `nsde-paper NAME` writes `results/NAME/`.

mod baseline;
mod cells;
mod cholesky;
mod cluster;
mod comparison;
mod contest;
mod data;
mod experiment;
mod fit;
mod forecast;
mod heat;
mod ksg;
mod look;
mod machine;
mod method;
mod outcome;
mod particles;
mod points;
mod prepare;
mod progress;
mod protocol;
mod run;
mod search;
mod standard;
mod statistics;
mod summary;

use anyhow::{Context, Result, bail};
use clap::Parser;
use run::Run;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs an experiment of the paper and writes its data, charts and a page of results
#[derive(Debug, Parser)]
#[command(version, name = "nsde-paper")]
struct Args {
    /// Which experiment (see --list); `summary`: one page of all results; `prepare`: make the folder of data from --from
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Explain the names
    #[arg(long)]
    list: bool,
    /// A small version for a first look, in seconds; without --dir it goes to target/quick
    #[arg(long)]
    quick: bool,
    /// Seed of everything
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repetitions, in place of the experiment's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Of `uci`, `classification` and `air-quality`, only a set, a method, or one cell: `boston`, `energy-bmm`, `mnist-lstm`,
    /// `energy-bmm-3`, `diffwgp`; what is finished stays on the page
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Where the folder of the experiment goes [default: results]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Folder of the measured data [default: $NSDE_DATA, or else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Of `prepare`: the folder that holds the downloads (docs/data.md)
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Throw away what an earlier start has finished
    #[arg(long)]
    fresh: bool,
}

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> Result<()> {
    if args.list {
        for e in experiment::ALL {
            println!("{:<20}{:<26}{}", e.name, e.paper, e.about);
        }
        return Ok(());
    }
    let name = args.name.as_deref().unwrap_or_default();
    if name == "summary" {
        let folder = args.dir.clone().unwrap_or_else(|| "results".into());
        println!("{}", summary::write(&folder)?.display());
        return Ok(());
    }
    if name == "prepare" {
        let from = args
            .from
            .as_deref()
            .context("`prepare` makes data from downloads: name their folder by --from DIR")?;
        return prepare::prepare(from, &data::Data::new(args.data.as_deref()));
    }
    if args.from.is_some() {
        bail!("--from belongs to `prepare`");
    }
    let Some(chosen) = experiment::ALL.iter().find(|e| e.name == name) else {
        let names: Vec<_> = experiment::ALL.iter().map(|e| e.name).collect();
        bail!("there is no experiment `{name}`; choose one of {}", names.join(", "));
    };
    if args.only.is_some() && !["uci", "classification", "air-quality"].contains(&name) {
        bail!("`{name}` has no parts; --only is for uci, classification and air-quality");
    }
    let dir =
        args.dir.clone().unwrap_or_else(|| if args.quick { "target/quick".into() } else { "results".into() });
    let run = Run {
        name: chosen.name,
        paper: chosen.paper,
        quick: args.quick,
        seed: args.seed,
        runs: args.runs.map(|n| n as usize),
        only: args.only.clone(),
        folder: dir.join(chosen.name),
        data: data::Data::new(args.data.as_deref()),
        began: std::time::Instant::now(),
        commits: std::sync::Mutex::default(),
    };
    let cells = run.folder.join("cells");
    if args.fresh && cells.exists() {
        std::fs::remove_dir_all(&cells).with_context(|| format!("cannot empty {}", cells.display()))?;
    }
    std::fs::create_dir_all(&cells).with_context(|| format!("cannot create {}", cells.display()))?;
    if !args.fresh {
        cells::unpack(&run.folder)?;
    }
    (chosen.run)(&run).with_context(|| format!("experiment {name}"))?;
    cells::pack(&run.folder)?;
    println!("{}", run.folder.join("README.md").display());
    Ok(())
}
