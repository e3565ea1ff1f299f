//! Bars: named series over categories, with error bars; for benchmarks of every kind.

use super::{WIDE, or};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::figure::lines::level_layer;
use crate::layer::{Layer, Shape, triples};
use crate::plot::Plot;
use crate::theme::Ink;

/// Share of a category's room that its bars fill.
const FILLED: f64 = 0.8;

/// A named series with one value per category.
#[derive(Clone, Debug, Default)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// One value per category; NaN for none.
    pub values: Vec<f64>,
    /// Lower ends of the error bars, in the units of `values`; empty for none.
    pub lower: Vec<f64>,
    /// Upper ends of the error bars, in the units of `values`; empty for none.
    pub upper: Vec<f64>,
}

impl BarSeries {
    /// A series without error bars.
    pub fn new(name: impl Into<String>, values: Vec<f64>) -> Self {
        BarSeries { name: name.into(), values, ..BarSeries::default() }
    }

    /// The same series with bars of `±error`, such as standard errors.
    pub fn with_error(mut self, error: &[f64]) -> Self {
        self.lower = self.values.iter().zip(error).map(|(y, e)| y - e).collect();
        self.upper = self.values.iter().zip(error).map(|(y, e)| y + e).collect();
        self
    }

    /// The same series with error bars from `lower` to `upper`.
    pub fn with_bounds(self, lower: Vec<f64>, upper: Vec<f64>) -> Self {
        BarSeries { lower, upper, ..self }
    }
}

/// Several series over the same categories.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Title; may be empty.
    pub title: String,
    /// Label of the categories; may be empty.
    pub x_label: String,
    /// Label of the values.
    pub y_label: String,
    /// Names of the categories; long ones are turned, very long ones cut.
    pub categories: Vec<String>,
    /// Logarithmic axis: bars start at its lower end, and values that are not positive are left out.
    pub y_log: bool,
    /// The series, side by side in their order.
    pub series: Vec<BarSeries>,
    /// Named levels to compare with, drawn dashed.
    pub levels: Vec<(String, f64)>,
}

/// Series as bars side by side, with error bars where they are given.
pub fn bars(data: &Bars) -> Chart {
    let width = FILLED / data.series.len().max(1) as f64;
    let left = |category: usize, series: usize| category as f64 - 0.5 * FILLED + width * series as f64;
    let mut layers = Vec::new();
    for (i, series) in data.series.iter().enumerate() {
        let known = series.values.iter().take(data.categories.len()).enumerate();
        // A hair of page between neighbours.
        let bars = known.map(|(k, &v)| [left(k, i) + 0.03 * width, left(k, i) + 0.97 * width, v]).collect();
        layers.push(Layer::new(Shape::Bars(bars), Ink::Series(i)).label(or(&series.name, &data.y_label)));
    }
    for (i, series) in data.series.iter().enumerate() {
        let middles: Vec<f64> = (0..data.categories.len()).map(|k| left(k, i) + 0.5 * width).collect();
        let errors = triples(&middles, &series.lower, &series.upper);
        if !errors.is_empty() {
            // On a bar of text colour only the page's colour is seen; a rim serves both.
            layers.push(Layer::new(Shape::Errors(errors.clone()), Ink::Surface).width(3.0));
            layers.push(Layer::new(Shape::Errors(errors), Ink::Text).width(1.5));
        }
    }
    layers.extend(data.levels.iter().enumerate().map(|(i, (name, level))| level_layer(name, *level, i)));
    let ends = [-0.5, data.categories.len() as f64 - 0.5];
    Plot {
        name: "bars",
        title: data.title.clone(),
        x: Axis { range: Some(ends), categories: data.categories.clone(), ..Axis::new(&data.x_label) },
        y: Axis { log: data.y_log, include: vec![0.0], ..Axis::new(&data.y_label) },
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw()
}
