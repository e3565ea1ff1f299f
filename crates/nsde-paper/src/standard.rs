//! Standard units: mean 0 and deviation 1 over the rows that are learned from.

use crate::statistics::{deviation, mean};
use nsde::data::{Dataset, Series, TimeAxis};

/// A data set of series with unnamed notes.
pub fn dataset(columns: &[String], inputs: &[String], series: Vec<Series>) -> Dataset {
    Dataset {
        columns: columns.to_vec(),
        input_columns: inputs.to_vec(),
        series,
        time: TimeAxis::default(),
        notes: Vec::new(),
    }
}

/// Shift and scale of every column of the state and the inputs.
pub struct Standard {
    state: Vec<[f64; 2]>,
    inputs: Vec<[f64; 2]>,
}

impl Standard {
    /// Those of `train`; a constant column is shifted only.
    pub fn new(train: &Dataset) -> Self {
        let of = |width: usize, last: bool, pick: fn(&Series) -> &Vec<f64>| -> Vec<[f64; 2]> {
            (0..width)
                .map(|i| {
                    let column = train.series.iter().flat_map(|s| {
                        // The last row of inputs is never used.
                        let rows = pick(s).len() / width - usize::from(last);
                        pick(s).iter().skip(i).step_by(width).take(rows)
                    });
                    let x: Vec<f64> = column.copied().collect();
                    let scale = deviation(&x);
                    [mean(&x), if scale > 1e-9 { scale } else { 1.0 }]
                })
                .collect()
        };
        Standard {
            state: of(train.dim(), false, |s| &s.values),
            inputs: of(train.inputs(), true, |s| &s.inputs),
        }
    }

    /// `data` in these units.
    pub fn apply(&self, data: &Dataset) -> Dataset {
        let mut out = data.clone();
        let scale = |x: &mut [f64], by: &[[f64; 2]]| {
            for row in x.chunks_mut(by.len().max(1)) {
                row.iter_mut().zip(by).for_each(|(x, [shift, scale])| *x = (*x - shift) / scale);
            }
        };
        for series in &mut out.series {
            scale(&mut series.values, &self.state);
            scale(&mut series.inputs, &self.inputs);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_mean_zero_and_deviation_one() {
        let series = Series {
            name: "a".into(),
            times: vec![0.0, 1.0, 2.0],
            values: vec![1.0, 5.0, 2.0, 5.0, 3.0, 5.0],
            inputs: vec![10.0, 30.0, 0.0],
        };
        let data = dataset(&["x".into(), "y".into()], &["u".into()], vec![series]);
        let out = Standard::new(&data).apply(&data).series.remove(0);
        assert_eq!(out.values, [-1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert!((out.inputs[1] - out.inputs[0] - 2f64.sqrt()).abs() < 1e-12);
    }
}
