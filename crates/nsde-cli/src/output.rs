//! What the program says: documents and tables on standard output, one line per trouble on standard error.

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// The status for bad data and for what went wrong on the way.
const FAILED: u8 = 1;
/// The status for arguments that cannot be meant.
const MISUSED: u8 = 2;

/// An error of whoever called the program, rather than of the data.
#[derive(Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// An error with status 2.
pub fn misuse<T>(what: impl Into<String>) -> Result<T> {
    Err(Misuse(what.into()).into())
}

/// Reads a file that was named on the command line: that it can be read is up to the caller.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Misuse(format!("{}: {e}", path.display())).into())
}

/// Loads a model; a path that is no file is a misuse, a bad file is bad data.
pub fn load(path: &Path) -> Result<nsde::Model> {
    match nsde::Model::load(path) {
        Ok(model) => Ok(model),
        Err(e) if !path.is_file() => misuse(e.to_string()),
        Err(e) => Err(e.into()),
    }
}

/// Loads a model that forecasts; one of `nsde fit-table` is refused.
pub fn load_forecaster(path: &Path) -> Result<nsde::Model> {
    let model = load(path)?;
    if model.extra.contains_key(crate::command::table::meta::KEY) {
        anyhow::bail!(
            "{}: this is a regression or a classification of `nsde fit-table`; \
             use `nsde predict-table` or `nsde evaluate`",
            path.display()
        );
    }
    Ok(model)
}

/// Writes to standard output as a whole.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).context("standard output")
}

/// A message that is not an error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {}", one_line(text));
}

/// The exit status of a command, after its error was told.
pub fn status(done: Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    let broken_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS; // whoever reads has seen enough
    }
    let misused = error.is::<Misuse>()
        || matches!(
            error.downcast_ref(),
            Some(nsde::Error::Dimension { .. } | nsde::Error::Range { .. } | nsde::Error::Io { .. })
        );
    complain(&format!("{error:#}"));
    ExitCode::from(if misused { MISUSED } else { FAILED })
}

/// The exit status of a command line that clap did not understand (or that asked for help).
pub fn misused(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(MISUSED);
    }
    // The first paragraph says what is wrong, the tips what to do; usage is a `--help` away.
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraphs: Vec<String> =
        text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    complain(&format!("{}; try --help", paragraphs.join("; ")));
    ExitCode::from(MISUSED)
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "error: {}", one_line(text));
}

/// Text that may hold names from files and arguments, without line breaks and escape sequences.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `[1.0,2.0]`, digits that read back to the same numbers.
pub fn json_numbers(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    Ok(serde_json::to_writer(out, numbers)?)
}

/// `[[…],…]`, rows of `columns` numbers.
pub fn json_rows(out: &mut dyn Write, numbers: &[f64], columns: usize) -> io::Result<()> {
    write!(out, "[")?;
    for (i, row) in numbers.chunks(columns.max(1)).enumerate() {
        if i > 0 {
            write!(out, ",")?;
        }
        json_numbers(out, row)?;
    }
    write!(out, "]")
}

/// Digits that read back to the same number.
pub fn exact(x: f64) -> String {
    serde_json::Value::from(x).to_string()
}

/// A number with six significant digits.
pub fn short(x: f64) -> String {
    let digits = 6;
    let exponent = format!("{x:.5e}").split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    match exponent {
        _ if x == 0.0 => "0".into(),
        -4..6 => format!("{x:.*}", (digits - 1 - exponent) as usize),
        _ => format!("{x:.5e}"),
    }
}

/// Rows of cells, every column as wide as its widest cell and aligned to the right (the first `left`
/// columns to the left).
pub fn table(out: &mut dyn Write, rows: &[Vec<String>], left: usize) -> io::Result<()> {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or(0)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = if i < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            line.push_str(if i > 0 { "  " } else { "" });
            line.push_str(&cell);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_have_six_digits() {
        for (x, text) in [
            (0.0, "0"),
            (3.0, "3.00000"),
            (-123.456789, "-123.457"),
            (0.00012345678, "0.000123457"),
            (0.000012345678, "1.23457e-5"),
            (999999.7, "1.00000e6"),
            (999999.2, "999999"),
            (1e300, "1.00000e300"),
        ] {
            assert_eq!(short(x), text);
        }
    }

    #[test]
    fn numbers_read_back_to_the_same_bits() {
        let numbers = [0.1 + 0.2, 1.0 / 3.0, -0.0, 5e-324, f64::MAX, 1e21, 123456789.0];
        let mut bytes = Vec::new();
        json_numbers(&mut bytes, &numbers).unwrap();
        let back: Vec<f64> = serde_json::from_slice(&bytes).unwrap();
        assert!(back.iter().zip(&numbers).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
