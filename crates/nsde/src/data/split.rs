//! Splits a data set into a part to train on and a part to validate on.

use super::{Dataset, Series};
use crate::error::{Error, Result};

/// Fewest rows of a part of a split series: change needs two.
const FEWEST_ROWS: usize = 2;

impl Dataset {
    /// The first `rows` of every series; shorter ones stay as they are.
    pub fn first_rows(&self, rows: usize) -> Dataset {
        let (dim, inputs) = (self.dim(), self.inputs());
        let mut first = self.clone();
        for series in &mut first.series {
            series.times.truncate(rows);
            series.values.truncate(rows * dim);
            series.inputs.truncate(rows * inputs);
        }
        first
    }

    /// Splits off the end, about `fraction` of it: returns `(train, validation)`.
    ///
    /// Several series are split by series, and the last ones go to validation. A single series is split
    /// by time, and its last rows go to validation; the step from the one part to the other belongs to
    /// neither. Each part has at least one series with two rows. Times stay as they are, and both parts
    /// keep the notes, which describe the whole file. No chance is involved.
    ///
    /// # Errors
    /// If `fraction` is not strictly between 0 and 1, or there is too little to split.
    pub fn split_tail(&self, fraction: f64) -> Result<(Dataset, Dataset)> {
        if !(fraction > 0.0 && fraction < 1.0) {
            let what = "the fraction split off for validation".into();
            return Err(Error::Range { what, value: fraction, must: "strictly between 0 and 1" });
        }
        match &self.series[..] {
            [single] => self.split_rows(single, fraction),
            _ => self.split_series(fraction),
        }
    }

    fn split_rows(&self, series: &Series, fraction: f64) -> Result<(Dataset, Dataset)> {
        let rows = series.rows();
        if rows < 2 * FEWEST_ROWS {
            let what = "the number of rows of a single series to be split".into();
            return Err(Error::Range { what, value: rows as f64, must: "at least 4" });
        }
        let cut = rows - share(fraction, rows).clamp(FEWEST_ROWS, rows - FEWEST_ROWS);
        let part = |from: usize, to: usize| {
            let (dim, inputs) = (self.dim(), self.inputs());
            self.with_series(vec![Series {
                name: series.name.clone(),
                times: series.times[from..to].to_vec(),
                values: series.values[from * dim..to * dim].to_vec(),
                inputs: series.inputs[from * inputs..to * inputs].to_vec(),
            }])
        };
        Ok((part(0, cut), part(cut, rows)))
    }

    fn split_series(&self, fraction: f64) -> Result<(Dataset, Dataset)> {
        let usable: Vec<usize> =
            (0..self.series.len()).filter(|n| self.series[*n].rows() >= FEWEST_ROWS).collect();
        let [first, .., last] = usable[..] else {
            let what = "the number of series with at least two rows to be split".into();
            return Err(Error::Range { what, value: usable.len() as f64, must: "at least 2" });
        };
        // Between the first and the last usable series, so that each part has one.
        let cut = (self.series.len() - share(fraction, self.series.len())).clamp(first + 1, last);
        let (train, validation) = self.series.split_at(cut);
        Ok((self.with_series(train.to_vec()), self.with_series(validation.to_vec())))
    }

    fn with_series(&self, series: Vec<Series>) -> Dataset {
        Dataset {
            columns: self.columns.clone(),
            input_columns: self.input_columns.clone(),
            series,
            time: self.time.clone(),
            notes: self.notes.clone(),
        }
    }
}

/// `fraction` of `whole`, to the nearest integer.
fn share(fraction: f64, whole: usize) -> usize {
    (fraction * whole as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::TimeAxis;

    /// Series of the given lengths; the value tells row and column.
    fn data(lengths: &[usize]) -> Dataset {
        let series = |(n, rows): (usize, &usize)| Series {
            name: n.to_string(),
            times: (0..*rows).map(|row| row as f64).collect(),
            values: (0..2 * rows).map(|at| at as f64).collect(),
            inputs: (0..*rows).map(|row| -(row as f64)).collect(),
        };
        Dataset {
            columns: vec!["a".into(), "b".into()],
            input_columns: vec!["u".into()],
            series: lengths.iter().enumerate().map(series).collect(),
            time: TimeAxis::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_first_rows_are_those_of_shorter_series_too() {
        let first = data(&[5, 2]).first_rows(3);
        assert_eq!((first.series[0].rows(), first.series[1].rows()), (3, 2));
        assert_eq!(first.series[0].values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(first.series[0].inputs, [0.0, -1.0, -2.0]);
    }

    #[test]
    fn one_series_is_split_by_time() {
        let (train, validation) = data(&[10]).split_tail(0.3).unwrap();
        assert_eq!((train.rows(), validation.rows()), (7, 3));
        let tail = &validation.series[0];
        assert_eq!(tail.times, [7.0, 8.0, 9.0]);
        assert_eq!(tail.values, [14.0, 15.0, 16.0, 17.0, 18.0, 19.0]);
        assert_eq!(tail.inputs, [-7.0, -8.0, -9.0]);
        for (fraction, expected) in [(1e-9, 2), (0.999, 8)] {
            assert_eq!(data(&[10]).split_tail(fraction).unwrap().1.rows(), expected);
        }
    }

    #[test]
    fn several_series_are_split_by_series() {
        for (fraction, expected) in [(0.2, 1), (0.01, 1), (0.5, 3), (0.99, 4)] {
            let (train, validation) = data(&[5; 5]).split_tail(fraction).unwrap();
            assert_eq!((train.series.len(), validation.series.len()), (5 - expected, expected), "{fraction}");
            assert_eq!(validation.series.last().unwrap().name, "4");
        }
    }

    #[test]
    fn each_part_has_a_series_that_shows_change() {
        let (train, validation) = data(&[1, 5, 5, 1, 1]).split_tail(0.2).unwrap();
        assert_eq!((train.series.len(), validation.series.len()), (2, 3));
        let (train, _) = data(&[1, 1, 5, 5]).split_tail(0.9).unwrap();
        assert_eq!(train.series.len(), 3);
    }

    #[test]
    fn too_little_data_and_wrong_fractions_are_refused() {
        for fraction in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(data(&[10]).split_tail(fraction).is_err());
        }
        assert!(data(&[3]).split_tail(0.5).is_err());
        assert!(data(&[5, 1]).split_tail(0.5).is_err());
        assert!(data(&[]).split_tail(0.5).is_err());
    }
}
