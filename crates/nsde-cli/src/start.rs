//! Where a forecast starts: a point on the command line, or a Gaussian in a JSON file.

use crate::args::Predict;
use crate::output::{misuse, read};
use anyhow::{Context, Result, bail};
use nsde::{Gaussian, Model};
use serde_json::Value;

/// The start that `--x0` or `--start` gives, in the units of the data.
pub fn start(args: &Predict, model: &Model) -> Result<Gaussian> {
    let state = model.sde.state();
    if let Some(x0) = &args.x0 {
        if x0.0.len() != state {
            return misuse(format!(
                "--x0: the state has {state} dimensions, {} numbers are given",
                x0.0.len()
            ));
        }
        return Ok(model.start(x0.0.clone())?);
    }
    let Some(path) = &args.start else { return misuse("a start is missing; give --x0 or --start") };
    parse_start(&read(path)?, model).with_context(|| path.display().to_string())
}

/// `{"mean": [D], "cov": [[D×D]]}`; other keys are ignored, so that a step of a forecast is a start.
fn parse_start(text: &[u8], model: &Model) -> Result<Gaussian> {
    let state = model.sde.state();
    let value: Value = serde_json::from_slice(text).context("not JSON")?;
    let numbers = |value: &Value, what: &str| -> Result<Vec<f64>> {
        let list = value.as_array().filter(|list| list.iter().all(Value::is_number));
        let Some(list) = list else { bail!("{what} must be a list of {state} numbers") };
        if list.len() != state {
            bail!("{what} has {} numbers, but the state of the model has {state} dimensions", list.len());
        }
        Ok(list.iter().filter_map(Value::as_f64).collect())
    };
    let Some(mean) = value.get("mean") else {
        bail!("no key `mean`; a start is {{\"mean\": [{state} numbers], \"cov\": [{state} rows]}}")
    };
    let mean = numbers(mean, "`mean`")?;
    match value.get("cov").filter(|cov| !cov.is_null()) {
        None => Ok(model.start(mean)?),
        Some(cov) => {
            let Some(rows) = cov.as_array().filter(|rows| rows.len() == state) else {
                bail!("`cov` must be a list of {state} rows of {state} numbers")
            };
            let mut flat = Vec::new();
            for (i, row) in rows.iter().enumerate() {
                flat.extend(numbers(row, &format!("row {i} of `cov`"))?);
            }
            Ok(Gaussian::new(mean, flat)?)
        }
    }
}
