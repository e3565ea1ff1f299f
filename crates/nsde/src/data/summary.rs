//! Sizes, spacing and scale of a data set.

use super::Dataset;

impl Dataset {
    /// Number of state columns, `D`.
    pub fn dim(&self) -> usize {
        self.columns.len()
    }

    /// Number of control inputs, `U`.
    pub fn inputs(&self) -> usize {
        self.input_columns.len()
    }

    /// Number of rows of all series together.
    pub fn rows(&self) -> usize {
        self.series.iter().map(|series| series.rows()).sum()
    }

    /// Median time from one row to the next over all series; `None` if no series has two rows, which
    /// [`load`](super::load) never gives.
    pub fn median_spacing(&self) -> Option<f64> {
        let spacing = self.series.iter().flat_map(|series| series.times.windows(2).map(|t| t[1] - t[0]));
        let mut spacing: Vec<f64> = spacing.collect();
        spacing.sort_unstable_by(f64::total_cmp);
        let n = spacing.len();
        // Half of each: the sum of two large numbers may overflow.
        (n > 0).then(|| 0.5 * spacing[(n - 1) / 2] + 0.5 * spacing[n / 2])
    }

    /// Mean and standard deviation of each state column over the series with the given indices, `[D]` each.
    ///
    /// Missing values do not count, and the deviation divides by the number of those that do. A column that
    /// is constant there gets its value as mean and **1 as deviation**, so that it can be divided by; a
    /// column without any value there gets 0 and 1.
    ///
    /// # Panics
    /// If an index is not that of a series.
    #[track_caller]
    pub fn scaling(&self, series: &[usize]) -> (Vec<f64>, Vec<f64>) {
        let values = |column: usize| {
            let of_series = |n: &usize| {
                self.series[*n].values.get(column..).unwrap_or(&[]).iter().step_by(self.dim()).copied()
            };
            mean_and_std(series.iter().flat_map(of_series).filter(|x| !x.is_nan()))
        };
        (0..self.dim()).map(values).unzip()
    }

    /// The same for the inputs, `[U]` each. The last row of each series does not count: it is never used.
    ///
    /// # Panics
    /// If an index is not that of a series.
    #[track_caller]
    pub fn input_scaling(&self, series: &[usize]) -> (Vec<f64>, Vec<f64>) {
        let values = |column: usize| {
            let of_series = |n: &usize| {
                let used = self.series[*n].rows().saturating_sub(1);
                self.series[*n]
                    .inputs
                    .get(column..)
                    .unwrap_or(&[])
                    .iter()
                    .step_by(self.inputs())
                    .take(used)
                    .copied()
            };
            mean_and_std(series.iter().flat_map(of_series))
        };
        (0..self.inputs()).map(values).unzip()
    }
}

/// Two passes: the second one sums squares of deviations, which do not cancel.
fn mean_and_std(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let Some(first) = values.clone().next() else { return (0.0, 1.0) };
    if values.clone().all(|x| x == first) {
        return (first, 1.0);
    }
    let count = values.clone().count() as f64;
    // Measured from the first value: a mean far from 0 costs no digits.
    let mean = first + values.clone().map(|x| x - first).sum::<f64>() / count;
    let std = (values.map(|x| (x - mean) * (x - mean)).sum::<f64>() / count).sqrt();
    (mean, if std > 0.0 { std } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use crate::data::{Dataset, Series, TimeAxis};

    fn data() -> Dataset {
        let series = |name: &str, times: &[f64], values: &[f64], inputs: &[f64]| Series {
            name: name.into(),
            times: times.into(),
            values: values.into(),
            inputs: inputs.into(),
        };
        let nan = f64::NAN;
        Dataset {
            columns: vec!["a".into(), "b".into(), "c".into()],
            input_columns: vec!["u".into()],
            series: vec![
                series(
                    "1",
                    &[0.0, 1.0, 4.0],
                    &[1e9, 5.0, nan, nan, 5.0, nan, 1e9 + 2.0, nan, nan],
                    &[1.0, 3.0, 100.0],
                ),
                series("2", &[0.0, 2.0], &[1e9 + 7.0, 6.0, 1.0, 1e9, 5.0, 2.0], &[5.0, 0.0]),
            ],
            time: TimeAxis::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn sizes_and_spacing_are_over_all_series() {
        let mut data = data();
        assert_eq!((data.dim(), data.inputs(), data.rows()), (3, 1, 5));
        assert_eq!(data.median_spacing(), Some(2.0)); // of 1, 3, 2
        data.series.truncate(1);
        assert_eq!(data.median_spacing(), Some(2.0)); // between 1 and 3
        data.series.clear();
        assert_eq!(data.median_spacing(), None);
    }

    #[test]
    fn the_scale_ignores_what_is_missing() {
        let (mean, std) = data().scaling(&[0]);
        assert_eq!(mean, [1e9 + 1.0, 5.0, 0.0]);
        assert_eq!(std, [1.0, 1.0, 1.0]); // ±1; constant; nothing there
        let (mean, std) = data().scaling(&[0, 1]);
        assert_eq!(mean[0], 1e9 + 2.25);
        assert_eq!(std[0], 8.1875_f64.sqrt()); // (2.25² + 0.25² + 4.75² + 2.25²)/4
        assert_eq!((mean[2], std[2]), (1.5, 0.5));
    }

    #[test]
    fn inputs_of_last_rows_do_not_count() {
        assert_eq!(data().input_scaling(&[0]), (vec![2.0], vec![1.0]));
        let (mean, std) = data().input_scaling(&[0, 1]);
        assert_eq!((mean[0], std[0]), (3.0, (8.0_f64 / 3.0).sqrt()));
        assert_eq!(data().input_scaling(&[1]), (vec![5.0], vec![1.0]));
    }
}
