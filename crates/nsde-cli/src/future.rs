//! Control inputs beyond the last measurement: rows of the data without a state, or a file of their own.

use crate::command::forecast::ForecastArgs;
use crate::dataset::{self, read_table};
use crate::output::misuse;
use anyhow::Result;
use nsde::Model;
use nsde::data::{Dataset, LoadOptions};

/// Share of a step by which times may differ and still be the same.
const TIME_NOISE: f64 = 1e-6;

/// The known control inputs of each series.
pub(crate) struct Future {
    /// One per series of the data.
    series: Vec<Rows>,
}

/// Inputs and when they begin to act.
#[derive(Clone, Default)]
struct Rows {
    width: usize,
    /// Times in those of the data; empty if rows are steps.
    times: Vec<f64>,
    /// `[N, U]`; NaN where there is none.
    inputs: Vec<f64>,
    /// The inputs count steps of the forecast instead of time.
    by_step: bool,
    /// How long the last row acts.
    last: f64,
}

impl Future {
    /// The inputs of series `index` for the step that begins at `t`, the `k`-th of the forecast.
    pub fn at(&self, index: usize, t: f64, k: usize, dt: f64) -> Option<&[f64]> {
        let rows = self.series.get(index)?;
        let n = if rows.by_step {
            k
        } else {
            // The last row at or before t, unless it has ended.
            let n = rows.times.partition_point(|time| *time <= t + TIME_NOISE * dt).checked_sub(1)?;
            let end = rows.times.get(n + 1).copied().unwrap_or(rows.times[n] + rows.last.max(dt));
            (t < end - TIME_NOISE * dt).then_some(n)?
        };
        let u = rows.inputs.get(n * rows.width..(n + 1) * rows.width)?;
        u.iter().all(|x| x.is_finite()).then_some(u)
    }
}

/// Reads the inputs of a table as if they were its state: what is missing then stays missing.
fn as_state(model: &Model, args: &ForecastArgs) -> Result<LoadOptions> {
    let options = dataset::options(model, &args.data)?;
    Ok(LoadOptions { state_columns: Some(options.input_columns), input_columns: Vec::new(), ..options })
}

fn rows(data: &Dataset, index: usize) -> Rows {
    let series = &data.series[index];
    Rows {
        width: data.dim(),
        times: series.times.clone(),
        inputs: series.values.clone(),
        by_step: false,
        last: data.median_spacing().unwrap_or(0.0),
    }
}

/// All control inputs that are known for the future of `data`.
pub(crate) fn future(model: &Model, data: &Dataset, args: &ForecastArgs) -> Result<Future> {
    let Some(path) = &args.future_inputs else {
        if model.sde.inputs() == 0 {
            return Ok(Future { series: Vec::new() });
        }
        let table = read_table(&args.data.data, &as_state(model, args)?)?;
        return Ok(Future { series: (0..table.series.len()).map(|n| rows(&table, n)).collect() });
    };
    if model.sde.inputs() == 0 {
        return misuse("--future-inputs: the model has no control inputs; leave it out");
    }
    // Columns that a plan may lack: those of series and time.
    let names = header(path);
    let has = |name: &Option<String>| name.as_ref().is_some_and(|name| names.contains(name));
    let mut options = as_state(model, args)?;
    if !has(&options.series_column) {
        options.series_column = None;
    }
    if !has(&options.time_column) {
        options.time_column = None;
    }
    let stamped = data.time.origin.is_some();
    if options.time_column.is_none()
        && !names.iter().any(|n| ["t", "time"].contains(&n.to_lowercase().as_str()))
    {
        options.time_unit = None;
    } else if stamped {
        options.time_unit = data.time.unit;
    }
    let table = read_table(path, &options)?;
    let of_series = |name: &str| {
        let place = match &options.series_column {
            Some(_) => table.series.iter().position(|series| series.name == name),
            None => Some(0),
        };
        let Some(place) = place else { return Ok(Rows::default()) };
        let mut rows = rows(&table, place);
        rows.by_step = table.time.column.is_none();
        if !rows.by_step && stamped != table.time.origin.is_some() {
            return misuse(format!(
                "{}: its times and those of {} must both be numbers, or both be stamps",
                path.display(),
                args.data.data.display()
            ));
        }
        for time in rows.times.iter_mut().filter(|_| stamped) {
            // From the origin of the one file to that of the other.
            let stamp = table.time.stamp(*time);
            *time = stamp.and_then(|stamp| data.time.time(&stamp)).unwrap_or(*time);
        }
        Ok(rows)
    };
    let series: Result<Vec<Rows>> = data.series.iter().map(|series| of_series(&series.name)).collect();
    Ok(Future { series: series? })
}

/// The names in the first line of a CSV file; none if it is another kind of file.
fn header(path: &std::path::Path) -> Vec<String> {
    let table = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path);
    let names = table.and_then(|mut table| table.headers().cloned());
    names.map_or(Vec::new(), |names| names.iter().map(String::from).collect())
}
