//! Control inputs: a CSV file with a header and one row per step.

use crate::args::Predict;
use crate::output::{misuse, read};
use anyhow::{Context, Result, bail};
use nsde::Model;

/// The control inputs of the first steps, row-major.
pub fn inputs(args: &Predict, model: &Model) -> Result<Vec<f64>> {
    let width = model.sde.inputs();
    match &args.inputs {
        None if width == 0 => Ok(Vec::new()),
        None => misuse(format!(
            "the model needs control inputs; give --inputs FILE, a CSV with a header, {width} columns and {} rows",
            args.steps
        )),
        Some(_) if width == 0 => misuse("--inputs: the model has no control inputs; leave it out"),
        Some(path) => {
            parse_inputs(&read(path)?, width, args.steps).with_context(|| path.display().to_string())
        }
    }
}

fn parse_inputs(text: &[u8], width: usize, steps: usize) -> Result<Vec<f64>> {
    let mut table = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text);
    let header = table.headers()?.len();
    if header != width {
        bail!("line 1: the header names {header} columns, the model needs {width}");
    }
    let mut inputs = Vec::new();
    let mut rows = 0;
    for record in table.records().take(steps) {
        let record = record?;
        if record.len() != width {
            let line = line_of(text, record.position());
            bail!("line {line}: expected {width} columns, found {}", record.len());
        }
        for cell in &record {
            match cell.parse::<f64>() {
                Ok(x) if x.is_finite() => inputs.push(x),
                _ => {
                    let line = line_of(text, record.position());
                    bail!("line {line}: `{}` is not a finite number", cell.escape_debug())
                }
            }
        }
        rows += 1;
    }
    if rows < steps {
        bail!("{steps} steps need {steps} rows after the header, {rows} found; add rows or lower --steps");
    }
    Ok(inputs)
}

/// The line on which a record stands; its own position still counts from the blank lines before it.
fn line_of(text: &[u8], position: Option<&csv::Position>) -> usize {
    let start = position.map_or(0, |p| p.byte() as usize).min(text.len());
    let blank = text[start..].iter().take_while(|b| b.is_ascii_whitespace()).count();
    1 + text[..start + blank].iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_by_line() {
        let read = |text: &str, width, steps| {
            parse_inputs(text.as_bytes(), width, steps).map_err(|e| format!("{e:#}"))
        };
        assert_eq!(read("a,b\n1,2\n-3e2, 4\n5,6\n", 2, 2), Ok(vec![1.0, 2.0, -300.0, 4.0]));
        assert_eq!(read("\u{feff}a\r\n1\r\n", 1, 1), Ok(vec![1.0]));
        for (text, width, why) in [
            ("a\n1\n2\n", 1, "3 steps need 3 rows after the header, 2 found"),
            ("", 1, "the header names 0"),
            ("a\r\n1\r\n\r\n\r\nx", 1, "line 5: `x` is not"),
            ("a\n1\n\nx\n", 1, "line 4: `x` is not"),
            ("a\n1\nNaN\n", 1, "line 3: `NaN` is not a finite number"),
            ("a\n1,2\n", 1, "line 2: expected 1 columns, found 2"),
            ("a,b\n1,2\n", 1, "the header names 2"),
            ("a,b\n1,2\n3,\n", 2, "line 3: `` is not"),
        ] {
            let message = read(text, width, 3).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
        assert!(parse_inputs(b"a\n\xff\n", 1, 1).is_err());
    }
}
