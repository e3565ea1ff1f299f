//! A sheet of predictions: its quantiles, its format, and where it goes.

use crate::output::print;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;

/// The quantiles where nobody says which.
const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// Quantiles, format and destination on the command line.
#[derive(Debug, Args)]
pub struct SheetArgs {
    /// Quantiles to give for every column [default: 0.05,0.5,0.95]
    #[arg(long, value_name = "P,Q,…", value_delimiter = ',', value_parser = probability, allow_hyphen_values = true)]
    pub quantiles: Option<Vec<f64>>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// The same as --format json
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Formats of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Format {
    /// A table, one row per prediction
    Csv,
    /// One document
    Json,
}

fn probability(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("a quantile must be a number between 0 and 1, both excluded".into()),
    }
}

impl SheetArgs {
    /// The quantiles asked for.
    pub fn quantiles(&self) -> &[f64] {
        self.quantiles.as_deref().unwrap_or(&QUANTILES)
    }

    /// Writes the format asked for to where it shall go; a file appears as a whole or not at all.
    pub fn write(
        &self,
        csv: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        document: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let write = |out: &mut dyn Write| match self.json || self.format == Format::Json {
            true => document(out),
            false => csv(out),
        };
        match &self.output {
            None => print(write),
            Some(path) => {
                let mut bytes = Vec::new();
                write(&mut bytes).context("predictions")?;
                Ok(nsde::train::write_atomically(path, &bytes)?)
            }
        }
    }
}

/// `NAME_mean`, `NAME_sd`, then one column per quantile.
pub fn headings(name: &str, quantiles: &[f64]) -> Vec<String> {
    let first = [format!("{name}_mean"), format!("{name}_sd")].into_iter();
    first.chain(quantiles.iter().map(|p| format!("{name}_q{}", quantile_name(*p)))).collect()
}

/// `05` for 0.05, `50` for 0.5, `975` for 0.975.
fn quantile_name(p: f64) -> String {
    let digits = format!("{p}");
    let digits = digits.strip_prefix("0.").unwrap_or(&digits);
    format!("{digits:0<2}")
}

#[cfg(test)]
mod tests {
    use super::quantile_name;

    #[test]
    fn quantiles_have_names_of_two_digits_or_more() {
        for (p, name) in
            [(0.05, "05"), (0.5, "50"), (0.95, "95"), (0.025, "025"), (0.975, "975"), (0.1, "10")]
        {
            assert_eq!(quantile_name(p), name);
        }
    }
}
