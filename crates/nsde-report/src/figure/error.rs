//! Error over the horizon: how a score grows with the steps of the forecast.

use super::{WIDE, or};
use crate::axis::Axis;
use crate::chart::{Chart, slug};
use crate::figure::lines::{LineSeries, series_layers};
use crate::layer::{DASHED, Layer, Shape};
use crate::plot::Plot;
use crate::theme::Ink;

/// A score at every step: RMSE, NLL or another. One chart shows one score; call twice for two.
#[derive(Clone, Debug, Default)]
pub struct ErrorOverHorizon {
    /// Title; the score and "over the horizon" if empty.
    pub title: String,
    /// What the steps count; "step" if empty.
    pub x_label: String,
    /// Name of the score; "RMSE" if empty.
    pub score: String,
    /// The score of one method or several, at each step.
    pub series: Vec<LineSeries>,
    /// What no method can beat, and its name: one value for all steps, or one per step of the first series.
    pub floor: Option<(String, Vec<f64>)>,
}

/// A score over the steps of the forecast, with the floor it cannot go below.
pub fn error_over_horizon(data: &ErrorOverHorizon) -> Chart {
    let score = or(&data.score, "RMSE");
    let mut layers = Vec::new();
    if let Some((name, values)) = &data.floor {
        let floor = match (values.as_slice(), data.series.first()) {
            ([value], _) => Shape::Level(*value),
            (values, Some(series)) => Layer::line(&series.x, values, Ink::Text).shape,
            (_, None) => Shape::Level(f64::NAN),
        };
        let floor = Layer::new(floor, Ink::Text).width(1.5).dash(DASHED);
        layers.push(floor.label(or(name, "floor")).rank(1));
    }
    for (i, series) in data.series.iter().enumerate() {
        layers.extend(series_layers(series, i, &score));
    }
    let chart = Plot {
        name: "error-over-horizon",
        title: or(&data.title, &format!("{score} over the horizon")),
        x: Axis { counts: true, ..Axis::new(or(&data.x_label, "step")) },
        y: Axis::new(&score),
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw();
    chart.named(&format!("{}-over-horizon", slug(&score)))
}
