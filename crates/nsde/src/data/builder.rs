//! From rows of cells to a [`Dataset`]: every format is read through here.

use super::cell::{Cell, quote};
use super::column::Column;
use super::note::{LeftOut, Note};
use super::role::{Role, Roles};
use super::scan::scan;
use super::time::{TimeAxis, TimeColumn};
use super::{Dataset, LoadOptions, MAX_STATES, Series, data_error};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// How a message names the place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// By the line of a text file.
    Lines,
    /// By the index in an array, counted from 0.
    Rows,
}

/// Takes rows one by one; rows of one series must come in the order of time.
pub(super) struct Builder<'a> {
    path: &'a Path,
    options: &'a LoadOptions,
    counting: Counting,
    /// For each column of the file, where its cells go.
    targets: Vec<Target>,
    columns: Vec<Column>,
    time: Option<TimeColumn>,
    time_by_name: bool,
    series: Labels,
    /// Line or index of each row.
    places: Vec<u64>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy)]
enum Target {
    Nowhere,
    Series,
    Time,
    Column(usize),
}

/// Names of the series in order of first appearance, and which one each row belongs to.
#[derive(Default)]
struct Labels {
    names: Vec<String>,
    index: HashMap<String, usize>,
    of_row: Vec<usize>,
    current: usize,
}

impl Labels {
    fn enter(&mut self, name: &str) {
        self.current = match self.index.get(name) {
            Some(known) => *known,
            None => {
                self.names.push(name.to_string());
                *self.index.entry(name.to_string()).or_insert(self.names.len() - 1)
            }
        };
    }
}

impl<'a> Builder<'a> {
    /// Hands out the parts of the columns `names`; `header` is the line they are on.
    pub fn new(
        path: &'a Path,
        names: &[String],
        header: Option<u64>,
        counting: Counting,
        options: &'a LoadOptions,
    ) -> Result<Self> {
        let roles = Roles::choose(names, options).map_err(|why| data_error(path, header, why))?;
        let (mut targets, mut columns, mut time) = (Vec::new(), Vec::new(), None);
        for (name, role) in names.iter().zip(&roles.of_column) {
            targets.push(match role {
                Role::Unused => Target::Nowhere,
                Role::Series => Target::Series,
                Role::Time => {
                    time = Some(TimeColumn::new(name.clone()));
                    Target::Time
                }
                Role::State { .. } | Role::Input { .. } => {
                    columns.push(Column::new(name.clone(), *role));
                    Target::Column(columns.len() - 1)
                }
            });
        }
        let mut series = Labels::default();
        if options.series_column.is_none() {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            series.enter(file.split('.').next().unwrap_or_default());
        }
        let (time_by_name, places, notes) = (roles.time_by_name, Vec::new(), roles.notes);
        Ok(Builder { path, options, counting, targets, columns, time, time_by_name, series, places, notes })
    }

    /// Adds a note of the reader's.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// The rows that follow belong to the series `name`.
    pub fn enter_series(&mut self, name: &str) {
        if self.places.is_empty() {
            self.series = Labels::default();
        }
        self.series.enter(name);
    }

    /// Adds a row with one cell per column; `place` is its line or index.
    pub fn row<'c>(&mut self, place: u64, cells: impl IntoIterator<Item = Cell<'c>>) -> Result<()> {
        let row = self.places.len();
        self.places.push(place);
        for (n, cell) in cells.into_iter().enumerate() {
            match self.targets[n] {
                Target::Nowhere => {}
                Target::Series => self.label(cell).map_err(|why| self.blame(row, why))?,
                Target::Time => {
                    if let Some(time) = &mut self.time {
                        time.push(cell).map_err(|why| self.blame_time(Some(row), why))?;
                    }
                }
                Target::Column(n) => {
                    self.columns[n].push(row, cell).map_err(|(row, why)| self.blame(row, why))?;
                }
            }
        }
        self.series.of_row.push(self.series.current);
        Ok(())
    }

    fn label(&mut self, cell: Cell<'_>) -> Result<(), String> {
        match cell {
            Cell::Text(text) if !text.trim().is_empty() => self.series.enter(text.trim()),
            Cell::Number(x) if !x.is_nan() => self.series.enter(&x.to_string()),
            Cell::Stamp(stamp) => self.series.enter(&stamp.to_string()),
            _ => {
                let column = self.options.series_column.as_deref().unwrap_or_default();
                return Err(format!("column {}: the name of the series is missing", quote(column)));
            }
        }
        Ok(())
    }

    /// Checks the table as a whole, and gives it out.
    pub fn finish(mut self) -> Result<Dataset> {
        if self.places.is_empty() {
            return Err(data_error(self.path, None, "there are column names, but no rows"));
        }
        let (states, inputs) = self.sort_columns()?;
        let mut rows_of = vec![Vec::new(); self.series.names.len()];
        for (row, series) in self.series.of_row.iter().enumerate() {
            rows_of[*series].push(row);
        }
        self.check_lengths(&rows_of)?;
        self.check_inputs(&inputs, &rows_of)?;
        let (times, axis) = self.times(&rows_of)?;
        self.notes.extend(scan(&states, &inputs));
        self.note_single_rows(&rows_of);

        let series = self.series.names.into_iter().zip(&rows_of).map(|(name, rows)| Series {
            name,
            times: rows.iter().map(|row| times[*row]).collect(),
            values: gather(&states, rows, f64::NAN),
            inputs: gather(&inputs, rows, 0.0),
        });
        let series = series.collect();
        let names = |columns: Vec<Column>| columns.into_iter().map(|column| column.name).collect();
        Ok(Dataset {
            columns: names(states),
            input_columns: names(inputs),
            series,
            time: axis,
            notes: self.notes,
        })
    }

    /// States and inputs in the order asked for, without columns of text.
    fn sort_columns(&mut self) -> Result<(Vec<Column>, Vec<Column>)> {
        let (mut states, mut inputs) = (Vec::new(), Vec::new());
        for column in std::mem::take(&mut self.columns) {
            match (column.role, column.text()) {
                (Role::Input { order }, _) => inputs.push((order, column)),
                (Role::State { order, .. }, None) => states.push((order, column)),
                (_, text) => {
                    let why = LeftOut::Text { example: text.unwrap_or_default().to_string() };
                    self.notes.push(Note::LeftOut { column: column.name, why });
                }
            }
        }
        let in_order = |mut columns: Vec<(usize, Column)>| -> Vec<Column> {
            columns.sort_by_key(|(order, _)| *order);
            columns.into_iter().map(|(_, column)| column).collect()
        };
        let (states, inputs) = (in_order(states), in_order(inputs));
        let whole = |why: String| Err(data_error(self.path, None, why));
        if states.is_empty() {
            return whole("no column of numbers is left for the state".into());
        }
        if states.len() > MAX_STATES {
            return whole(format!(
                "{0} state columns are more than {MAX_STATES}: so many dimensions need a covariance of \
                 {0} × {0} numbers; \
                 choose columns with --state",
                states.len()
            ));
        }
        if let Some(empty) = states.iter().find(|column| column.values.iter().all(|x| x.is_nan())) {
            let name = &empty.name;
            return whole(format!(
                "every value of column `{name}` is missing; choose other columns with --state"
            ));
        }
        Ok((states, inputs))
    }

    fn check_lengths(&self, rows_of: &[Vec<usize>]) -> Result<()> {
        if rows_of.iter().any(|rows| rows.len() > 1) {
            return Ok(());
        }
        let first = quote(&self.series.names[0]);
        let why = match (&self.options.series_column, rows_of.len()) {
            (Some(column), 2..) => format!(
                "every series has a single row (the first is {first}), and change needs two; \
                 is `{column}` the column that tells series apart?"
            ),
            _ => format!("series {first} has a single row, and change needs two"),
        };
        Err(data_error(self.path, None, why))
    }

    /// Inputs act from one row to the next: all but the last row of a series must have them.
    fn check_inputs(&self, inputs: &[Column], rows_of: &[Vec<usize>]) -> Result<()> {
        let mut gap: Option<(usize, &Column)> = None;
        for rows in rows_of {
            for &row in &rows[..rows.len().saturating_sub(1)] {
                let missing = inputs.iter().find(|input| input.values[row].is_nan());
                if let Some(input) = missing.filter(|_| gap.is_none_or(|(first, _)| row < first)) {
                    gap = Some((row, input));
                }
            }
        }
        let Some((row, input)) = gap else { return Ok(()) };
        let (name, series) = (&input.name, quote(&self.series.names[self.series.of_row[row]]));
        Err(self.blame(
            row,
            format!(
                "column `{name}`: an input is missing; only the last row of series {series} can do without"
            ),
        ))
    }

    /// One number per row of the file.
    fn times(&mut self, rows_of: &[Vec<usize>]) -> Result<(Vec<f64>, TimeAxis)> {
        let unit = self.options.time_unit;
        let Some(time) = self.time.take() else {
            if let Some(unit) = unit {
                let why = format!("the time unit {unit} needs a column of time stamps; name it with --time");
                return Err(data_error(self.path, None, why));
            }
            let mut times = vec![0.0; self.places.len()];
            for rows in rows_of {
                rows.iter().enumerate().for_each(|(n, row)| times[*row] = n as f64);
            }
            return Ok((times, TimeAxis::default()));
        };
        if let Some((row, mut why)) = time.first_disorder(&self.series.of_row, &self.series.names) {
            if self.series.names.len() == 1 && self.options.series_column.is_none() {
                why.push_str(
                    "; if there are several series, name the column that tells them apart with --series-column",
                );
            }
            return Err(self.blame_time(Some(row), why));
        }
        time.finish(rows_of, unit).map_err(|why| self.blame_time(None, why))
    }

    fn note_single_rows(&mut self, rows_of: &[Vec<usize>]) {
        let single = |n: &usize| rows_of[*n].len() == 1;
        if let Some(first) = (0..rows_of.len()).find(single) {
            let count = (0..rows_of.len()).filter(single).count();
            self.notes.push(Note::SingleRow { series: self.series.names[first].clone(), count });
        }
    }

    fn blame_time(&self, row: Option<usize>, mut why: String) -> Error {
        if self.time_by_name {
            why.push_str(
                " (the column was taken as time because of its name; choose with --time or --state)",
            );
        }
        match row {
            Some(row) => self.blame(row, why),
            None => data_error(self.path, None, why),
        }
    }

    /// The error about one row.
    fn blame(&self, row: usize, why: String) -> Error {
        let place = self.places[row];
        match self.counting {
            Counting::Lines => data_error(self.path, Some(place), why),
            Counting::Rows => {
                let series = if self.series.names.len() > 1 && self.options.series_column.is_none() {
                    let of_row = self.series.of_row.get(row).copied();
                    format!("series {}, ", quote(&self.series.names[of_row.unwrap_or(self.series.current)]))
                } else {
                    String::new()
                };
                data_error(self.path, None, format!("{series}row {place} (counted from 0): {why}"))
            }
        }
    }
}

/// `columns` at `rows`, by rows, with `filler` for what is missing.
fn gather(columns: &[Column], rows: &[usize], filler: f64) -> Vec<f64> {
    let cell =
        |row: usize, column: &Column| Some(column.values[row]).filter(|x| !x.is_nan()).unwrap_or(filler);
    rows.iter().flat_map(|row| columns.iter().map(move |column| cell(*row, column))).collect()
}
