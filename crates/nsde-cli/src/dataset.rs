//! The table a model is used on: which columns of a file are its state, its inputs, its time.

use crate::output::{misuse, note};
use anyhow::Result;
use clap::Args;
use nsde::Model;
use nsde::data::{Dataset, LoadOptions, Note, TimeUnit, load, nearest};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of data, and the parts of its columns. Whatever is not given is as it was in training.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Table of measurements: CSV (also .gz), .npy or .npz
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Column of times, numbers or RFC 3339 stamps [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub time: Option<String>,
    /// Column that tells series apart [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub series_column: Option<String>,
    /// Columns of the state [default: those of the model]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub state: Option<Vec<String>>,
    /// Columns of the control inputs [default: those of the model]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub inputs: Option<Vec<String>>,
    /// Unit of time for stamps: s, min, h or d [default: as in training]
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
}

/// What training wrote about itself: a value at a path of keys below `training`.
pub(crate) fn training<'a>(model: &'a Model, keys: &[&str]) -> Option<&'a Value> {
    let at = |value: Option<&'a Value>, key: &&str| value?.get(key);
    keys.iter().fold(model.extra.get("training"), at).filter(|value| !value.is_null())
}

fn text(model: &Model, key: &str) -> Option<String> {
    training(model, &["data", key]).and_then(Value::as_str).map(String::from)
}

fn texts(model: &Model, key: &str) -> Option<Vec<String>> {
    let list = training(model, &["data", key])?.as_array()?;
    list.iter().map(|name| name.as_str().map(String::from)).collect()
}

/// Names of the state's dimensions, if the model knows them.
pub(crate) fn state_names(model: &Model) -> Option<Vec<String>> {
    let state = model.sde.state();
    let of_model = || model.columns.as_ref().map(|names| names.iter().take(state).cloned().collect());
    of_model().or_else(|| texts(model, "columns")).filter(|names: &Vec<String>| names.len() == state)
}

/// Names of the control inputs, if the model knows them.
pub(crate) fn input_names(model: &Model) -> Option<Vec<String>> {
    let (state, inputs) = (model.sde.state(), model.sde.inputs());
    let of_model = || {
        let names = model.columns.as_ref().filter(|names| names.len() == state + inputs)?;
        Some(names[state..].to_vec())
    };
    of_model().or_else(|| texts(model, "input_columns")).filter(|names| names.len() == inputs)
}

/// Which columns to read from the file.
pub(crate) fn options(model: &Model, args: &DataArgs) -> Result<LoadOptions> {
    let state = chosen("--state", &args.state, state_names(model), model.sde.state(), "states")?;
    let inputs = chosen("--inputs", &args.inputs, input_names(model), model.sde.inputs(), "control inputs")?;
    let inputs = match inputs {
        Some(names) => names,
        None if model.sde.inputs() == 0 => Vec::new(),
        None => {
            return misuse(format!(
                "the model has {} control inputs and does not name their columns; give --inputs",
                model.sde.inputs()
            ));
        }
    };
    Ok(LoadOptions {
        series_column: args.series_column.clone().or_else(|| text(model, "series_column")),
        time_column: args.time.clone().or_else(|| text(model, "time_column")),
        state_columns: state,
        input_columns: inputs,
        time_unit: args.time_unit.or_else(|| trained_unit(model)),
    })
}

/// The unit in which the model counts time, if it was trained on stamps.
fn trained_unit(model: &Model) -> Option<TimeUnit> {
    let of_settings = || training(model, &["settings", "data", "time_unit"]).and_then(Value::as_str);
    text(model, "time_unit").or_else(|| of_settings().map(String::from))?.parse().ok()
}

/// The columns asked for, in the order of the model.
fn chosen(
    flag: &str,
    asked: &Option<Vec<String>>,
    known: Option<Vec<String>>,
    count: usize,
    what: &str,
) -> Result<Option<Vec<String>>> {
    let Some(asked) = asked else { return Ok(known.filter(|names| !names.is_empty())) };
    if asked.len() != count {
        return misuse(format!("{flag}: the model has {count} {what}, {} columns are given", asked.len()));
    }
    let Some(known) = known else { return Ok(Some(asked.clone())) };
    if let Some(stranger) = asked.iter().find(|name| !known.contains(name)) {
        let near = nearest(stranger, &known).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        return misuse(format!(
            "{flag}: `{stranger}` is not among the columns of the model ({}){near}",
            known.join(", ")
        ));
    }
    if let Some(missing) = known.iter().find(|name| !asked.contains(name)) {
        return misuse(format!("{flag}: column `{missing}` of the model is left out"));
    }
    Ok(Some(known))
}

/// Reads the table for a model, and tells what the reader noticed.
pub(crate) fn read(model: &Model, args: &DataArgs) -> Result<Dataset> {
    let options = options(model, args)?;
    let data = read_table(&args.data, &options)?;
    check(model, &data)?;
    tell(model, &data, &options);
    Ok(data)
}

/// [`load`], where a path that is no file is a misuse.
pub(crate) fn read_table(path: &Path, options: &LoadOptions) -> Result<Dataset> {
    match load(path, options) {
        Err(e) if !path.is_file() => misuse(e.to_string()),
        done => Ok(done?),
    }
}

/// Whether model and data have the same sizes.
pub(crate) fn check(model: &Model, data: &Dataset) -> Result<()> {
    let sides = [
        ("states", "--state", model.sde.state(), &data.columns),
        ("control inputs", "--inputs", model.sde.inputs(), &data.input_columns),
    ];
    for (what, flag, wanted, found) in sides {
        if wanted != found.len() {
            let names = if found.len() > 8 { String::new() } else { format!(" ({})", found.join(", ")) };
            return misuse(format!(
                "the model has {wanted} {what}, the data have {}{names}; choose with {flag}",
                found.len()
            ));
        }
    }
    Ok(())
}

fn tell(model: &Model, data: &Dataset, options: &LoadOptions) {
    for remark in &data.notes {
        // That the model's own time column was found needs no words.
        if !matches!(remark, Note::TimeByName { .. } | Note::LeftOut { .. }) {
            note(&remark.to_string());
        }
    }
    if let (Some(unit), None) = (data.time.unit, options.time_unit) {
        note(&format!(
            "times are counted in {unit}, and so must be the model's dt = {}; else give --time-unit",
            model.dt
        ));
    }
}

/// A time as a user reads it: a stamp if the data have stamps.
pub(crate) fn clock(data: &Dataset, t: f64) -> String {
    data.time.stamp(t).unwrap_or_else(|| Value::from(plain(t)).to_string())
}

/// A time without the rounding of its sum: 0.15, not 0.15000000000000002.
pub(crate) fn plain(t: f64) -> f64 {
    format!("{t:.14e}").parse().unwrap_or(t)
}
