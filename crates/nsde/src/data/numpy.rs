//! NumPy files: one array (`.npy`) or several by name (`.npz`).

use super::builder::{Builder, Counting};
use super::cell::{Cell, quote};
use super::note::{LeftOut, Note};
use super::{Dataset, LoadOptions, data_error, zip};
use crate::error::Result;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the array in `bytes`: `[rows]`, `[rows, columns]` or `[series, rows, columns]`.
///
/// Columns are named `x0`, `x1`, …
pub(super) fn read_npy(path: &Path, bytes: &[u8], options: &LoadOptions) -> Result<Dataset> {
    let states = Array::read(bytes).map_err(|why| data_error(path, None, why))?;
    Tables { states, times: None, inputs: None, notes: Vec::new() }.load(path, options)
}

/// Reads the archive in `bytes`: `x` or `data`, or else the only array, holds the states, `t` the times,
/// `u` the inputs, whose columns are named `u0`, `u1`, …
pub(super) fn read_npz(path: &Path, bytes: &[u8], options: &LoadOptions) -> Result<Dataset> {
    Tables::unpack(bytes).map_err(|why| data_error(path, None, why))?.load(path, options)
}

/// Numbers with a shape, the last axis contiguous.
#[derive(Debug, PartialEq)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    fn read(bytes: &[u8]) -> Result<Array, String> {
        let cut_off = || "the NumPy array is cut off".to_string();
        let rest = bytes.strip_prefix(MAGIC).ok_or("this is not a NumPy array")?;
        let (version, rest) = rest.split_at_checked(2).ok_or_else(cut_off)?;
        let (length, rest) = match version[0] {
            1 => rest.split_first_chunk().map(|(n, rest)| (u16::from_le_bytes(*n).into(), rest)),
            _ => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        }
        .ok_or_else(cut_off)?;
        let (header, content) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        let header = std::str::from_utf8(header).map_err(|_| "the header of the NumPy array is not text")?;
        let (number, fortran, shape) = describe(header)?;

        let count = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
        let length = count.and_then(|count| count.checked_mul(number.size));
        let content = length.and_then(|length| content.get(..length)).ok_or_else(cut_off)?;
        let data: Vec<f64> = content.chunks_exact(number.size).map(|raw| number.value(raw)).collect();
        Ok(if fortran {
            Array { data: last_axis_first(&data, &shape), shape }
        } else {
            Array { shape, data }
        })
    }
}

/// How one number is stored.
#[derive(Clone, Copy)]
struct Number {
    float: bool,
    size: usize,
    big_endian: bool,
}

impl Number {
    fn read(descr: &str) -> Option<Number> {
        let mut signs = descr.chars();
        let big_endian = match signs.next()? {
            '<' | '=' | '|' => false,
            '>' => true,
            _ => return None,
        };
        let float = match signs.next()? {
            'f' => true,
            'i' => false,
            _ => return None,
        };
        let size = match signs.as_str() {
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        Some(Number { float, size, big_endian })
    }

    fn value(self, raw: &[u8]) -> f64 {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..self.size];
        bytes.copy_from_slice(raw);
        if self.big_endian {
            bytes.reverse();
        }
        match (&*bytes, self.float) {
            (&[a, b, c, d], true) => f32::from_le_bytes([a, b, c, d]).into(),
            (&[a, b, c, d], false) => i32::from_le_bytes([a, b, c, d]).into(),
            (&[a, b, c, d, e, f, g, h], true) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (&[a, b, c, d, e, f, g, h], false) => i64::from_le_bytes([a, b, c, d, e, f, g, h]) as f64,
            _ => unreachable!("`Number::read` gives no other size"),
        }
    }
}

/// Reads `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.
fn describe(header: &str) -> Result<(Number, bool, Vec<usize>), String> {
    let unclear = || format!("the header {} of the NumPy array is not understood", quote(header));
    let after = |key: &str| {
        let (_, value) = header.split_once(&format!("'{key}':")).ok_or_else(unclear)?;
        Ok::<_, String>(value.trim_start())
    };
    let descr = after("descr")?;
    let named = descr.strip_prefix('\'').and_then(|descr| descr.split('\'').next());
    let number = named.and_then(Number::read).ok_or_else(|| match named {
        Some(name) => format!("the type {} is not supported; save with .astype(float)", quote(name)),
        None => "arrays with named fields are not supported; save numbers only".to_string(),
    })?;
    let fortran = match after("fortran_order")? {
        text if text.starts_with("True") => true,
        text if text.starts_with("False") => false,
        _ => return Err(unclear()),
    };
    let shape =
        after("shape")?.strip_prefix('(').and_then(|shape| shape.split_once(')')).ok_or_else(unclear)?.0;
    let axes = shape.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape = axes
        .map(|axis| axis.trim_end_matches('L').parse().map_err(|_| unclear()))
        .collect::<Result<_, _>>()?;
    Ok((number, fortran, shape))
}

/// From Fortran order, where the first axis is contiguous, to C order.
fn last_axis_first(data: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut index = vec![0; shape.len()];
    let mut strides = vec![1; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let next = |_| {
        let at: usize = index.iter().zip(&strides).map(|(n, stride)| n * stride).sum();
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
        data[at]
    };
    (0..data.len()).map(next).collect()
}

/// The arrays that make up a data set.
struct Tables {
    states: Array,
    times: Option<Array>,
    inputs: Option<Array>,
    notes: Vec<Note>,
}

impl Tables {
    fn unpack(bytes: &[u8]) -> Result<Tables, String> {
        let members = zip::members(bytes)?;
        if members.iter().any(|member| member.name == "[Content_Types].xml") {
            return Err("this is an office document; save the table as CSV".into());
        }
        let name = |n: usize| members[n].name.strip_suffix(".npy").unwrap_or(&members[n].name);
        let find = |wanted: &str| (0..members.len()).find(|n| name(*n) == wanted);
        let read = |n: usize| {
            let array = zip::unpack(bytes, &members[n])?;
            Array::read(&array).map_err(|why| format!("array {}: {why}", quote(name(n))))
        };
        let (times, inputs) = (find("t"), find("u"));
        let others: Vec<usize> =
            (0..members.len()).filter(|n| ![times, inputs].contains(&Some(*n))).collect();
        let states = match (find("x").or(find("data")), &others[..]) {
            (Some(named), _) => named,
            (None, [single]) => *single,
            (None, []) => return Err("the archive has no array of states; call it `x`".into()),
            (None, several) => {
                let names: Vec<String> = several.iter().map(|n| quote(name(*n))).collect();
                return Err(format!(
                    "which array holds the states? call it `x`; there are {}",
                    names.join(", ")
                ));
            }
        };
        let unused = others.iter().filter(|n| **n != states);
        let notes = unused.map(|n| Note::LeftOut { column: name(*n).to_string(), why: LeftOut::Array });
        let notes = notes.collect();
        Ok(Tables {
            states: read(states)?,
            times: times.map(read).transpose()?,
            inputs: inputs.map(read).transpose()?,
            notes,
        })
    }

    fn load(self, path: &Path, options: &LoadOptions) -> Result<Dataset> {
        let whole = |why: String| data_error(path, None, why);
        let several = self.states.shape.len() == 3;
        let (series, rows, dim) = match self.states.shape[..] {
            [rows] => (1, rows, 1),
            [rows, dim] => (1, rows, dim),
            [series, rows, dim] => (series, rows, dim),
            _ => {
                let why = format!(
                    "an array must have shape [rows, columns] or [series, rows, columns], not {:?}",
                    self.states.shape
                );
                return Err(whole(why));
            }
        };
        if several && options.series_column.is_some() {
            return Err(whole(
                "the first axis of the array tells series apart; a series column cannot".into(),
            ));
        }
        let shared_times = match self.times.as_ref().map(|times| &times.shape[..]) {
            Some(shape) if several && shape == [series, rows] => false,
            Some(shape) if shape == [rows] => true,
            Some(shape) => {
                return Err(whole(format!("array `t` has shape {shape:?}, but there are {rows} rows")));
            }
            None => true,
        };
        let (input_rows, inputs) = self.input_shape(several, series, rows).map_err(whole)?;

        let name = |prefix: char| move |n: usize| format!("{prefix}{n}");
        let time = self.times.as_ref().map(|_| "t".to_string());
        let state_names: Vec<String> = (0..dim).map(name('x')).collect();
        let input_names: Vec<String> = (0..inputs).map(name('u')).collect();
        let options = complete(options, &state_names, &input_names, &time);
        let names: Vec<String> = state_names.into_iter().chain(input_names).chain(time).collect();
        let mut builder = Builder::new(path, &names, None, Counting::Rows, &options)?;
        self.notes.into_iter().for_each(|note| builder.note(note));
        let input_data = self.inputs.map(|inputs| inputs.data).unwrap_or_default();
        for n in 0..series {
            if several {
                builder.enter_series(&n.to_string());
            }
            for row in 0..rows {
                let at = (n * rows + row) * dim;
                let states = self.states.data[at..at + dim].iter().map(|x| Cell::Number(*x));
                let at = (n * input_rows + row) * inputs;
                let given = if row < input_rows { &input_data[at..at + inputs] } else { &[] };
                let missing = std::iter::repeat_n(Cell::Missing, inputs - given.len());
                let inputs = given.iter().map(|x| Cell::Number(*x)).chain(missing);
                let at = if shared_times { row } else { n * rows + row };
                let time = self.times.as_ref().map(|times| Cell::Number(times.data[at]));
                builder.row(row as u64, states.chain(inputs).chain(time))?;
            }
        }
        builder.finish()
    }

    /// Rows and columns of the inputs; the last row may be absent, since it is never used.
    fn input_shape(&self, several: bool, series: usize, rows: usize) -> Result<(usize, usize), String> {
        let Some(inputs) = &self.inputs else { return Ok((0, 0)) };
        let (found, columns) = match inputs.shape[..] {
            [n, found, columns] if several && n == series => (found, columns),
            [found, columns] if !several => (found, columns),
            [found] if !several => (found, 1),
            _ => (usize::MAX, 0),
        };
        if found == rows || found == rows.saturating_sub(1) {
            return Ok((found, columns));
        }
        let (states, inputs) = (&self.states.shape, &inputs.shape);
        Err(format!("array `u` has shape {inputs:?}, which does not fit the states of shape {states:?}"))
    }
}

/// Lets the arrays speak for themselves where the caller is silent.
fn complete(
    options: &LoadOptions,
    states: &[String],
    inputs: &[String],
    time: &Option<String>,
) -> LoadOptions {
    let mut options = options.clone();
    if options.time_column.is_none() {
        options.time_column = time.clone();
    }
    let is_used = |options: &LoadOptions, name: &String| {
        let single = options.series_column.iter().chain(&options.time_column);
        single
            .chain(&options.input_columns)
            .chain(options.state_columns.iter().flatten())
            .any(|used| used == name)
    };
    for name in inputs {
        if !is_used(&options, name) {
            options.input_columns.push(name.clone());
        }
    }
    if options.state_columns.is_none() {
        options.state_columns =
            Some(states.iter().filter(|name| !is_used(&options, name)).cloned().collect());
    }
    options
}

#[cfg(test)]
mod tests;
