//! The air of Beijing: four columns of the clock and ten of each of three stations, gaps filled on a line.

use super::{Made, row, text};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Stations, in the order of the columns.
const STATIONS: [&str; 3] = ["Shunyi", "Tiantan", "Dongsi"];
/// Columns of the clock.
const CLOCK: [&str; 4] = ["year", "month", "day", "hour"];
/// Columns of a station.
const MEASURED: [&str; 10] = ["PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN"];
/// Years that are kept.
const YEARS: std::ops::RangeInclusive<i32> = 2014..=2016;

/// The table.
pub fn make(from: &Path) -> Result<Vec<Made>> {
    let mut names: Vec<String> = CLOCK.map(str::to_owned).into();
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for station in STATIONS {
        let table = Table::read(&from.join(format!("PRSA_Data_{station}_20130301-20170228.csv")))?;
        if columns.is_empty() {
            columns = CLOCK.iter().map(|name| table.column(name)).collect::<Result<_>>()?;
        }
        for measured in MEASURED {
            names.push(format!("{station}_{measured}"));
            let mut column = table.column(measured)?;
            fill(&mut column);
            columns.push(column);
        }
    }
    let rows = columns[0].len();
    ensure!(columns.iter().all(|c| c.len() == rows), "the stations have different numbers of rows");
    let mut out = names.join(",") + "\n";
    for n in (0..rows).filter(|n| YEARS.contains(&(columns[0][*n] as i32))) {
        out += &row(&columns.iter().map(|c| c[n]).collect::<Vec<_>>());
    }
    Ok(vec![Made { name: "air_quality/beijing_34_2014-2016.csv.gz".into(), content: out.into() }])
}

/// A published table: quoted names, `NA` for what is missing.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(path: &Path) -> Result<Table> {
        let text = text(path)?;
        let cells = |line: &str| line.split(',').map(|x| x.trim_matches('"').to_owned()).collect::<Vec<_>>();
        let mut lines = text.lines().map(cells);
        let names = lines.next().unwrap_or_default();
        Ok(Table { names, rows: lines.collect() })
    }

    /// A column; `NaN` where there is no number.
    fn column(&self, name: &str) -> Result<Vec<f64>> {
        let i = self
            .names
            .iter()
            .position(|n| n == name)
            .with_context(|| format!("there is no column {name}"))?;
        let cell = |row: &Vec<String>| match row.get(i).map(String::as_str) {
            Some("NA") => Ok(f64::NAN),
            Some(x) => x.parse().with_context(|| format!("column {name}: {x} is not a number")),
            None => Err(anyhow::anyhow!("a row has no column {name}")),
        };
        self.rows.iter().map(cell).collect()
    }
}

/// Fills gaps on the line between their neighbours; what has none on one side stays.
fn fill(column: &mut [f64]) {
    let mut last: Option<usize> = None;
    for n in 0..column.len() {
        if column[n].is_nan() {
            continue;
        }
        if let Some(last) = last {
            let (from, slope) = (column[last], (column[n] - column[last]) / (n - last) as f64);
            for k in last + 1..n {
                column[k] = from + slope * (k - last) as f64;
            }
        }
        last = Some(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_on_a_line() {
        let mut column = [f64::NAN, 1.0, f64::NAN, f64::NAN, 7.0, 8.0, f64::NAN];
        fill(&mut column);
        assert_eq!(column[1..6], [1.0, 3.0, 5.0, 7.0, 8.0]);
        assert!(column[0].is_nan() && column[6].is_nan());
    }
}
