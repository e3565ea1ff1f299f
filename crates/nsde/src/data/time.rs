//! The time column: numbers or stamps, turned into strictly increasing numbers.

use super::cell::{Cell, Value, quote};
use super::stamp::{SECOND, Stamp};
use std::fmt;
use std::str::FromStr;

/// A unit of time into which stamps are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeUnit {
    /// `s`
    Second,
    /// `min`
    Minute,
    /// `h`
    Hour,
    /// `d`, of 24 hours
    Day,
}

impl TimeUnit {
    /// Every unit, the smallest first.
    pub const ALL: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Minute, TimeUnit::Hour, TimeUnit::Day];

    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.whole_seconds() as f64
    }

    fn whole_seconds(self) -> i128 {
        match self {
            TimeUnit::Second => 1,
            TimeUnit::Minute => 60,
            TimeUnit::Hour => 3600,
            TimeUnit::Day => 86_400,
        }
    }

    /// The largest unit in which `spacing` nanoseconds are at least 1; seconds if there is none.
    fn fitting(spacing: i128) -> TimeUnit {
        let fits = |unit: &TimeUnit| unit.whole_seconds() * SECOND <= spacing;
        TimeUnit::ALL.into_iter().rev().find(fits).unwrap_or(TimeUnit::Second)
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TimeUnit::Second => "s",
            TimeUnit::Minute => "min",
            TimeUnit::Hour => "h",
            TimeUnit::Day => "d",
        })
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    /// Reads what [`Display`](fmt::Display) writes: `s`, `min`, `h` or `d`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |unit: &TimeUnit| unit.to_string() == text;
        let unknown = || format!("{} is no unit of time; choose s, min, h or d", quote(text));
        TimeUnit::ALL.into_iter().find(named).ok_or_else(unknown)
    }
}

/// What the numbers in [`Series::times`](super::Series::times) mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeAxis {
    /// The column they come from; `None` if rows were counted.
    pub column: Option<String>,
    /// Their unit, if the column holds stamps.
    pub unit: Option<TimeUnit>,
    /// The earliest stamp of the file, as written: it is time 0.
    pub origin: Option<String>,
}

impl TimeAxis {
    /// The stamp at `time`, to the nanosecond and at the offset of the origin; `None` if times are numbers.
    pub fn stamp(&self, time: f64) -> Option<String> {
        let origin = Stamp::read(self.origin.as_deref()?)?;
        let nanos = origin.nanos + (time * self.unit?.seconds() * SECOND as f64).round() as i128;
        Some(Stamp { nanos, ..origin }.to_string())
    }

    /// The time of a stamp, inverse to [`stamp`](TimeAxis::stamp); `None` if times are numbers, or `stamp` is
    /// not one. A stamp without an offset is at that of the origin.
    pub fn time(&self, stamp: &str) -> Option<f64> {
        let origin = Stamp::read(self.origin.as_deref()?)?;
        let stamp = Stamp::read(stamp)?;
        let ahead = if stamp.offset.is_none() { origin.offset.unwrap_or(0) } else { 0 };
        let nanos = stamp.nanos - i128::from(ahead) * 60 * SECOND - origin.nanos;
        Some(nanos as f64 / (self.unit?.whole_seconds() * SECOND) as f64)
    }
}

/// Times as they are read, one per row of the file.
pub(super) struct TimeColumn {
    pub name: String,
    times: Times,
}

enum Times {
    /// No row yet: the first one decides.
    Undecided,
    Numbers(Vec<f64>),
    Stamps {
        nanos: Vec<i128>,
        has_offset: bool,
        earliest: (i128, String),
    },
}

impl TimeColumn {
    pub fn new(name: String) -> Self {
        TimeColumn { name, times: Times::Undecided }
    }

    /// Adds the time of the next row.
    pub fn push(&mut self, cell: Cell<'_>) -> Result<(), String> {
        let value = match cell {
            Cell::Missing => Value::Missing,
            Cell::Number(x) => Value::of(x),
            Cell::Text(text) => Value::read(text),
            Cell::Stamp(_) => Value::Text,
        };
        match (value, &mut self.times) {
            (Value::Number(x), Times::Numbers(times)) => times.push(x),
            (Value::Number(x), times @ Times::Undecided) => *times = Times::Numbers(vec![x]),
            (Value::Number(x), Times::Stamps { .. }) => {
                return Err(format!("column `{}` holds time stamps, but here the number {x}", self.name));
            }
            (Value::Missing, _) => return Err(format!("column `{}`: the time is missing", self.name)),
            (Value::Infinite, _) => return Err(format!("column `{}`: the time is infinite", self.name)),
            (Value::Text | Value::DecimalComma, _) => self.push_stamp(cell)?,
        }
        Ok(())
    }

    fn push_stamp(&mut self, cell: Cell<'_>) -> Result<(), String> {
        let (text, stamp) = match cell {
            Cell::Stamp(stamp) => (stamp.to_string(), Some(stamp)),
            Cell::Text(text) => (text.trim().to_string(), Stamp::read(text)),
            Cell::Missing | Cell::Number(_) => return Ok(()),
        };
        let column = &self.name;
        let Some(stamp) = stamp else {
            let what = quote(&text);
            return Err(format!(
                "column `{column}`: {what} is neither a number nor a time stamp such as 2014-01-31T18:00:00Z"
            ));
        };
        let now = stamp.offset.is_some();
        match &mut self.times {
            Times::Numbers(_) => {
                return Err(format!(
                    "column `{column}` holds numbers, but here the time stamp {}",
                    quote(&text)
                ));
            }
            Times::Stamps { has_offset, .. } if *has_offset != now => {
                let (here, before) = if now { ("has an", "none") } else { ("has no", "one") };
                let what = quote(&text);
                return Err(format!(
                    "column `{column}`: {what} {here} offset from UTC, but the stamps before have {before}"
                ));
            }
            Times::Stamps { nanos, earliest, .. } => {
                nanos.push(stamp.nanos);
                if stamp.nanos < earliest.0 {
                    *earliest = (stamp.nanos, text);
                }
            }
            times @ Times::Undecided => {
                let earliest = (stamp.nanos, text);
                *times = Times::Stamps { nanos: vec![stamp.nanos], has_offset: now, earliest };
            }
        }
        Ok(())
    }

    /// The first row whose time does not come after that of the row before it in the same series.
    pub fn first_disorder(&self, series_of_row: &[usize], series: &[String]) -> Option<(usize, String)> {
        let why = |now: String, before: String, row: usize| {
            let (column, name) = (&self.name, quote(&series[series_of_row[row]]));
            let what = if now == before { "is there twice".into() } else { format!("comes after {before}") };
            (
                row,
                format!(
                    "column `{column}`: time {now} {what} in series {name}; times must increase strictly"
                ),
            )
        };
        match &self.times {
            Times::Undecided => None,
            Times::Numbers(times) => {
                let (row, before) = disorder(times, series_of_row, series.len())?;
                Some(why(times[row].to_string(), times[before].to_string(), row))
            }
            Times::Stamps { nanos, has_offset, .. } => {
                let (row, before) = disorder(nanos, series_of_row, series.len())?;
                let show =
                    |row: usize| Stamp { nanos: nanos[row], offset: has_offset.then_some(0) }.to_string();
                Some(why(show(row), show(before), row))
            }
        }
    }

    /// The times as numbers, one per row of the file, and what they mean.
    pub fn finish(
        self,
        rows_of: &[Vec<usize>],
        unit: Option<TimeUnit>,
    ) -> Result<(Vec<f64>, TimeAxis), String> {
        let name = self.name;
        match self.times {
            Times::Undecided => Ok((Vec::new(), TimeAxis { column: Some(name), ..TimeAxis::default() })),
            Times::Numbers(times) => match unit {
                None => Ok((times, TimeAxis { column: Some(name), ..TimeAxis::default() })),
                Some(unit) => Err(format!(
                    "the time unit {unit} is for time stamps, but column `{name}` holds numbers, \
                     which are kept as they are"
                )),
            },
            Times::Stamps { nanos, earliest: (start, origin), .. } => {
                let steps =
                    rows_of.iter().flat_map(|rows| rows.windows(2).map(|n| nanos[n[1]] - nanos[n[0]]));
                let unit = unit.unwrap_or_else(|| TimeUnit::fitting(middle(steps.collect())));
                let scale = (unit.whole_seconds() * SECOND) as f64;
                let times = nanos.iter().map(|n| (n - start) as f64 / scale).collect();
                Ok((times, TimeAxis { column: Some(name), unit: Some(unit), origin: Some(origin) }))
            }
        }
    }
}

/// The first row, in file order, that is not later than the row before it in its series, and that row.
fn disorder<T: PartialOrd>(times: &[T], series_of_row: &[usize], series: usize) -> Option<(usize, usize)> {
    let mut last: Vec<Option<usize>> = vec![None; series];
    for (row, &series) in series_of_row.iter().enumerate() {
        match last[series].replace(row) {
            Some(before) if times[row] <= times[before] => return Some((row, before)),
            _ => {}
        }
    }
    None
}

/// The median; 0 of nothing.
fn middle(mut steps: Vec<i128>) -> i128 {
    steps.sort_unstable();
    match steps.len() {
        0 => 0,
        n => (steps[(n - 1) / 2] + steps[n / 2]) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(texts: &[&str]) -> Result<TimeColumn, String> {
        let mut column = TimeColumn::new("when".into());
        texts.iter().try_for_each(|text| column.push(Cell::Text(text)))?;
        Ok(column)
    }

    fn axis(texts: &[&str], unit: Option<TimeUnit>) -> (Vec<f64>, TimeAxis) {
        let rows: Vec<usize> = (0..texts.len()).collect();
        column(texts).unwrap().finish(&[rows], unit).unwrap()
    }

    #[test]
    fn numbers_are_kept_as_they_are() {
        let (times, axis) = axis(&["3", "3.5", "10"], None);
        assert_eq!(times, [3.0, 3.5, 10.0]);
        assert_eq!(axis, TimeAxis { column: Some("when".into()), unit: None, origin: None });
    }

    #[test]
    fn the_unit_is_the_largest_in_which_the_median_step_is_one() {
        for (texts, unit, last) in [
            (["2014-01-01", "2014-01-02", "2014-01-03"], TimeUnit::Day, 2.0),
            (["2014-01-01", "2014-01-01 23:00", "2014-01-02 22:00"], TimeUnit::Hour, 46.0),
            (["2014-01-01 00:00", "2014-01-01 00:59", "2014-01-01 01:30"], TimeUnit::Minute, 90.0),
            (["2014-01-01 00:00:00", "2014-01-01 00:00:59", "2014-01-01 00:01:20"], TimeUnit::Second, 80.0),
            (
                ["2014-01-01 00:00:00", "2014-01-01 00:00:00.25", "2014-01-01 00:00:00.5"],
                TimeUnit::Second,
                0.5,
            ),
        ] {
            let (times, axis) = axis(&texts, None);
            assert_eq!((axis.unit, times[0], times[2]), (Some(unit), 0.0, last), "{texts:?}");
            assert_eq!(axis.origin.as_deref(), Some(texts[0]));
        }
    }

    #[test]
    fn a_given_unit_wins_and_stamps_come_back() {
        let (times, axis) =
            axis(&["2014-01-01T00:00:00+01:00", "2014-01-01T12:00:00+01:00"], Some(TimeUnit::Day));
        assert_eq!(times, [0.0, 0.5]);
        assert_eq!(axis.stamp(1.25).unwrap(), "2014-01-02T06:00:00+01:00");
        for text in ["2014-01-02T06:00:00+01:00", "2014-01-02 06:00", "2014-01-02T05:00:00Z"] {
            assert_eq!(axis.time(text), Some(1.25), "{text}");
        }
        assert_eq!((axis.time("1.25"), TimeAxis::default().time("2014-01-02")), (None, None));
        assert_eq!(TimeAxis::default().stamp(1.0), None);
        let refused = column(&["1", "2"]).unwrap().finish(&[vec![0, 1]], Some(TimeUnit::Day)).unwrap_err();
        assert!(refused.contains("kept as they are"), "{refused}");
    }

    #[test]
    fn units_read_what_they_print() {
        for unit in TimeUnit::ALL {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
        assert!("week".parse::<TimeUnit>().unwrap_err().contains("choose s, min, h or d"));
    }

    #[test]
    fn a_column_keeps_to_one_kind_of_time() {
        for (texts, part) in [
            (["1", "2014-01-01"], "holds numbers"),
            (["2014-01-01", "1"], "holds time stamps"),
            (["2014-01-01", "soon"], "`soon` is neither"),
            (["2014-01-01T00:00:00Z", "2014-01-01T01:00:00"], "no offset"),
            (["1", "NA"], "missing"),
            (["1", "inf"], "infinite"),
        ] {
            let why = column(&texts).err().unwrap();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn disorder_is_sought_within_each_series() {
        let (series, names) = ([0, 1, 0, 1], ["a".to_string(), "b".to_string()]);
        assert_eq!(column(&["5", "1", "6", "2"]).unwrap().first_disorder(&series, &names), None);
        let (row, why) = column(&["5", "1", "6", "1"]).unwrap().first_disorder(&series, &names).unwrap();
        assert_eq!((row, why.contains("time 1 is there twice in series `b`")), (3, true), "{why}");
        let (row, why) = column(&["5", "1", "4", "1"]).unwrap().first_disorder(&series, &names).unwrap();
        assert_eq!((row, why.contains("time 4 comes after 5 in series `a`")), (2, true), "{why}");
    }
}
