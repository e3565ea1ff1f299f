//! Lines: named series over a number, with error bars; for benchmarks of every kind.

use super::{FEW, WIDE, dash_of, or};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::{Layer, Shape, triples};
use crate::plot::Plot;
use crate::scene::Marker;
use crate::theme::Ink;

/// A named series of values over `x`.
#[derive(Clone, Debug, Default)]
pub struct LineSeries {
    /// Name in the legend.
    pub name: String,
    /// Where each value belongs.
    pub x: Vec<f64>,
    /// The values; NaN leaves a gap.
    pub y: Vec<f64>,
    /// Lower ends of the error bars, in the units of `y`; empty for none.
    pub lower: Vec<f64>,
    /// Upper ends of the error bars, in the units of `y`; empty for none.
    pub upper: Vec<f64>,
}

impl LineSeries {
    /// A series without error bars.
    pub fn new(name: impl Into<String>, x: Vec<f64>, y: Vec<f64>) -> Self {
        LineSeries { name: name.into(), x, y, ..LineSeries::default() }
    }

    /// The same series with bars of `±error`, such as standard errors.
    pub fn with_error(mut self, error: &[f64]) -> Self {
        self.lower = self.y.iter().zip(error).map(|(y, e)| y - e).collect();
        self.upper = self.y.iter().zip(error).map(|(y, e)| y + e).collect();
        self
    }

    /// The same series with error bars from `lower` to `upper`.
    pub fn with_bounds(self, lower: Vec<f64>, upper: Vec<f64>) -> Self {
        LineSeries { lower, upper, ..self }
    }
}

/// Several series over one axis.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Title; may be empty.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Logarithmic horizontal axis; values that are not positive are left out.
    pub x_log: bool,
    /// Logarithmic vertical axis; values that are not positive are left out.
    pub y_log: bool,
    /// Ends of the horizontal axis, in place of those of the data.
    pub x_range: Option<[f64; 2]>,
    /// Ends of the vertical axis, in place of those of the data.
    pub y_range: Option<[f64; 2]>,
    /// The series, drawn in their order.
    pub series: Vec<LineSeries>,
    /// Named levels to compare with, drawn dashed.
    pub levels: Vec<(String, f64)>,
}

/// Series as lines, with markers while they are few and error bars where they are given.
pub fn lines(data: &Lines) -> Chart {
    let mut layers: Vec<_> =
        data.series.iter().enumerate().flat_map(|(i, s)| series_layers(s, i, &data.y_label)).collect();
    layers.extend(data.levels.iter().enumerate().map(|(i, (name, level))| level_layer(name, *level, i)));
    Plot {
        name: "lines",
        title: data.title.clone(),
        x: Axis { counts: true, log: data.x_log, range: data.x_range, ..Axis::new(&data.x_label) },
        y: Axis { log: data.y_log, range: data.y_range, ..Axis::new(&data.y_label) },
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw()
}

/// Error bars, line and markers of the series at place `i`; without a name it is called `default`.
pub(crate) fn series_layers(series: &LineSeries, i: usize, default: &str) -> Vec<Layer> {
    let ink = Ink::Series(i);
    let name = or(&series.name, default);
    let mut layers = Vec::new();
    let errors = triples(&series.x, &series.lower, &series.upper);
    if !errors.is_empty() {
        layers.push(Layer::new(Shape::Errors(errors), ink).width(1.25));
    }
    layers.push(Layer::line(&series.x, &series.y, ink).dash(dash_of(i)).label(&name));
    if series.x.len() <= FEW {
        layers.push(Layer::points(&series.x, &series.y, ink).marker(Marker::of(i), 3.6).label(&name));
    }
    layers
}

/// A named level at place `i` among the levels.
pub(crate) fn level_layer(name: &str, level: f64, i: usize) -> Layer {
    let dashes = [crate::layer::DASHED, crate::layer::DOTTED, &[9.0, 3.0, 2.0, 3.0]];
    Layer::new(Shape::Level(level), Ink::Text).dash(dashes[i % 3]).label(name)
}
