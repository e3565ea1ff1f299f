//! Windows: a start row of a series, the steps to the rows after it, and what was observed there.

use crate::data::{Dataset, Series};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::model::Scaling;

/// A stretch of one series, in the units of the networks.
#[derive(Clone, Debug)]
pub struct Window {
    /// Which series.
    pub series: usize,
    /// Row of the start.
    pub row: usize,
    /// The start: what was measured with `init_var`, what was not with the spread of the data.
    pub start: Gaussian,
    /// Step sizes; a gap longer than the largest step takes several.
    pub dts: Vec<f64>,
    /// Control inputs, `[steps, inputs]`, held between rows.
    pub inputs: Vec<f64>,
    /// For each row after the start: the number of steps taken when it is reached, and its values
    /// (`NaN` where nothing was measured).
    pub targets: Vec<(usize, Vec<f64>)>,
}

/// How windows are cut.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// Rows after the start.
    pub horizon: usize,
    /// Largest step.
    pub max_dt: f64,
    /// Variance of a measured start, in the units of the data.
    pub init_var: f64,
    /// Rows between the starts of consecutive windows.
    pub stride: usize,
}

/// Most steps a single gap may take: a longer one is a break in the series, not a step.
const MAX_STEPS_PER_GAP: f64 = 10_000.0;

/// Cuts every window of `horizon` rows out of `data`. Starts where nothing at all was measured, and
/// windows without a single measured target, are left out.
pub fn windows(
    data: &Dataset,
    scaling: &Scaling,
    inputs_scaling: Option<&Scaling>,
    options: &WindowOptions,
) -> Result<Vec<Window>> {
    let mut out = Vec::new();
    for (index, series) in data.series.iter().enumerate() {
        let mut row = 0;
        while row + options.horizon < series.rows() {
            if let Some(w) = window(data.dim(), index, series, row, scaling, inputs_scaling, options)? {
                out.push(w);
            }
            row += options.stride.max(1);
        }
    }
    Ok(out)
}

/// The window that starts at `row`, or `None` if it has nothing to learn from.
pub fn window(
    dim: usize,
    index: usize,
    series: &Series,
    row: usize,
    scaling: &Scaling,
    inputs_scaling: Option<&Scaling>,
    options: &WindowOptions,
) -> Result<Option<Window>> {
    let values = |n: usize| {
        let mut x = series.values[n * dim..(n + 1) * dim].to_vec();
        scaling.points_to_net(&mut x);
        x
    };
    let Some(start) = start(&values(row), scaling, options.init_var) else { return Ok(None) };
    let width = series.inputs.len() / series.rows().max(1);
    let mut w =
        Window { series: index, row, start, dts: Vec::new(), inputs: Vec::new(), targets: Vec::new() };
    for n in row..row + options.horizon {
        let gap = series.times[n + 1] - series.times[n];
        // A gap that is a whole number of steps up to rounding takes just that number.
        let count = (gap / options.max_dt - 1e-9).ceil().max(1.0);
        if count > MAX_STEPS_PER_GAP {
            return Err(Error::Range {
                what: format!("steps in the gap after row {n} of series `{}`", series.name),
                value: count,
                must: "at most 10,000 (raise --max-dt, or split the series there)",
            });
        }
        let mut u = series.inputs[n * width..(n + 1) * width].to_vec();
        if let Some(s) = inputs_scaling {
            s.points_to_net(&mut u);
        }
        for _ in 0..count as usize {
            w.dts.push(gap / count);
            w.inputs.extend_from_slice(&u);
        }
        w.targets.push((w.dts.len(), values(n + 1)));
    }
    let empty = w.targets.iter().all(|(_, x)| x.iter().all(|x| x.is_nan()));
    Ok((!empty).then_some(w))
}

/// The start at a measured row, in the units of the networks; `None` if nothing was measured.
pub fn start(x: &[f64], scaling: &Scaling, init_var: f64) -> Option<Gaussian> {
    let d = x.len();
    if x.iter().all(|x| x.is_nan()) {
        return None;
    }
    let mut out = Gaussian { mean: vec![0.0; d], cov: vec![0.0; d * d] };
    for i in 0..d {
        // In these units the data have mean 0 and variance 1: the best guess at what was not seen.
        let (mean, var) = if x[i].is_nan() { (0.0, 1.0) } else { (x[i], init_var / scaling.std[i].powi(2)) };
        out.mean[i] = mean;
        out.cov[i * d + i] = var;
    }
    Some(out)
}
