//! A CSV file as text: the cells of a table, before anybody says what they mean.

use crate::output::{self, misuse};
use anyhow::{Context, Result, bail};
use nsde::data::nearest;
use std::path::Path;

/// A CSV file as text.
pub struct Table {
    /// Where it was read, for messages.
    pub path: String,
    header: Vec<String>,
    /// Line and cells.
    pub rows: Vec<(u64, Vec<String>)>,
}

impl Table {
    /// Reads a file with a header, its cells separated by commas, semicolons or tabs.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = output::read(path)?;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        if bytes.starts_with(b"\x1f\x8b") {
            bail!("{name}: this is gzipped; unpack it");
        }
        let Ok(text) = std::str::from_utf8(bytes) else { bail!("{name}: this is not text in UTF-8") };
        let first = text.lines().next().unwrap_or_default();
        let delimiter = [b',', b';', b'\t'].into_iter().find(|d| first.as_bytes().contains(d));
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .delimiter(delimiter.unwrap_or(b','))
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        let (mut record, mut header) = (csv::StringRecord::new(), None);
        while reader.read_record(&mut record).with_context(|| name.clone())? {
            let line = record.position().map_or(0, csv::Position::line);
            let cells: Vec<String> = record.iter().map(String::from).collect();
            let Some(width) = header.as_ref().map(Vec::len) else {
                header = Some(cells);
                continue;
            };
            if cells.len() != width {
                bail!("{name}: line {line}: {} cells, but the header has {width}", cells.len());
            }
            rows.push((line, cells));
        }
        let Some(header) = header else { bail!("{name}: the file is empty") };
        if let Some(twice) = header.iter().enumerate().find(|(i, h)| header[..*i].contains(h)) {
            bail!("{name}: line 1: two columns are named `{}`", twice.1);
        }
        if rows.is_empty() {
            bail!("{name}: there is a header, but no row");
        }
        Ok(Table { path: name, header, rows })
    }

    /// The place of a column.
    pub fn column(&self, wanted: &str) -> Result<usize> {
        if let Some(i) = self.header.iter().position(|h| h == wanted) {
            return Ok(i);
        }
        let near = nearest(wanted, &self.header).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        misuse(format!("{}: there is no column `{wanted}`{near}", self.path))
    }

    /// A column of text, no cell empty.
    pub fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let i = self.column(name)?;
        let cell = |(line, cells): &'_ (u64, Vec<String>)| match cells[i].is_empty() {
            true => bail!("{}: line {line}: column `{name}` is empty", self.path),
            false => Ok(()),
        };
        self.rows.iter().try_for_each(cell)?;
        Ok(self.rows.iter().map(|(_, cells)| cells[i].as_str()).collect())
    }

    /// Columns of numbers, row by row.
    pub fn numbers(&self, names: &[String]) -> Result<Vec<Vec<f64>>> {
        let columns = names.iter().map(|n| self.column(n)).collect::<Result<Vec<_>>>()?;
        let one = |(line, cells): &(u64, Vec<String>)| {
            let cell = |i: &usize| match number(&cells[*i]) {
                Some(x) => Ok(x),
                None => bail!(
                    "{}: line {line}, column `{}`: `{}` is not a finite number",
                    self.path,
                    self.header[*i],
                    cells[*i]
                ),
            };
            columns.iter().map(cell).collect()
        };
        self.rows.iter().map(one).collect()
    }

    /// Every column with a number in it that is not used otherwise, and the others.
    pub fn features(&self, used: &[&String]) -> (Vec<String>, Vec<String>) {
        let free = self.header.iter().enumerate().filter(|(_, h)| !used.contains(h));
        let (numeric, text): (Vec<_>, Vec<_>) =
            free.partition(|(i, _)| self.rows.iter().any(|(_, cells)| number(&cells[*i]).is_some()));
        let names = |list: Vec<(usize, &String)>| list.into_iter().map(|(_, h)| h.clone()).collect();
        (names(numeric), names(text))
    }
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|x: &f64| x.is_finite())
}
