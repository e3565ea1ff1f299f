//! `nsde moments`: one Gaussian through one network, in the units of the network.

use crate::args::{MomentsArgs, Net};
use crate::output::{json_numbers, json_rows, load_forecaster, misuse, print, short, table};
use anyhow::{Result, bail};
use nsde::NetworkMoments;
use std::io::{self, Write};

/// Prints mean, covariance and expected Jacobian of the network's output.
pub fn run(args: &MomentsArgs) -> Result<()> {
    let model = load_forecaster(&args.model)?;
    let (name, network) = match args.net {
        Net::Drift => ("drift", Some(model.sde.drift())),
        Net::Diffusion => ("diffusion", model.sde.diffusion().network()),
    };
    let Some(network) = network else {
        let kind = model.sde.diffusion().kind();
        return misuse(format!(
            "--net diffusion: the diffusion of this model is `{kind}` and has no network"
        ));
    };
    let (mean, cov, width) = (&args.mean.0, &args.cov.0, network.input());
    if mean.len() != width {
        return misuse(format!("--mean: the {name} net reads {width} numbers, {} are given", mean.len()));
    }
    if cov.len() != width * width {
        let found = cov.len();
        return misuse(format!(
            "--cov: the {name} net needs {width}×{width} = {} numbers, {found} are given",
            width * width
        ));
    }
    let result = network.moments(mean, cov, args.activations.moments())?;
    if result.mean.iter().chain(&result.cov).chain(&result.jac).any(|x| !x.is_finite()) {
        bail!("the moments of the {name} net overflow; give a smaller mean or covariance");
    }
    print(|out| if args.json { document(out, &result, width) } else { tables(out, &result, width) })
}

fn document(out: &mut dyn Write, m: &NetworkMoments, width: usize) -> io::Result<()> {
    write!(out, "{{\"mean\":")?;
    json_numbers(out, &m.mean)?;
    write!(out, ",\n\"cov\":")?;
    json_rows(out, &m.cov, m.mean.len())?;
    write!(out, ",\n\"jac\":")?;
    json_rows(out, &m.jac, width)?;
    writeln!(out, "}}")
}

fn tables(out: &mut dyn Write, m: &NetworkMoments, width: usize) -> io::Result<()> {
    let parts =
        [("mean", &m.mean, 1), ("covariance", &m.cov, m.mean.len()), ("expected Jacobian", &m.jac, width)];
    for (name, numbers, columns) in parts {
        writeln!(out, "{name}")?;
        let rows: Vec<Vec<String>> =
            numbers.chunks(columns).map(|row| row.iter().map(|x| short(*x)).collect()).collect();
        table(out, &rows, 0)?;
    }
    Ok(())
}
