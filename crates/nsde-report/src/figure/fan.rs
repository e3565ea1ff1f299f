//! The fan chart: one state over time, its forecast, and how sure the forecast is.

use super::{FEW, WIDE, or, percent};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::{DASHED, Layer, Shape, pairs, triples};
use crate::plot::Plot;
use crate::theme::{BANDS, Ink};

/// A central interval of the forecast at every time.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Probability of the interval, such as 0.95.
    pub level: f64,
    /// Lower ends, at the times of the forecast.
    pub lower: Vec<f64>,
    /// Upper ends, at the times of the forecast.
    pub upper: Vec<f64>,
}

/// Values over time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Times.
    pub time: Vec<f64>,
    /// Values at these times; NaN leaves a gap.
    pub value: Vec<f64>,
}

/// One state of a trajectory with its forecast.
#[derive(Clone, Debug, Default)]
pub struct FanChart {
    /// Title; "Forecast" if empty.
    pub title: String,
    /// Label of the time axis; "time" if empty.
    pub x_label: String,
    /// Name and unit of the state; "state" if empty.
    pub y_label: String,
    /// What was observed, before the forecast and beyond.
    pub truth: Trace,
    /// Times of the forecast.
    pub time: Vec<f64>,
    /// Mean of the forecast at `time`.
    pub mean: Vec<f64>,
    /// Intervals of the forecast at `time`, in any order.
    pub bands: Vec<Band>,
    /// Ends of the vertical axis, in place of those of the data: for bands that outgrow what they surround.
    pub y_range: Option<[f64; 2]>,
    /// When the forecast begins; none to leave the line out.
    pub begin: Option<f64>,
    /// Observed or simulated sample paths, drawn thin and grey; may be empty.
    pub paths: Vec<Trace>,
}

/// Truth, forecast mean and intervals of one state over time.
///
/// The truth is drawn as points while there are few of them, and as a line otherwise.
pub fn fan_chart(data: &FanChart) -> Chart {
    let mut bands: Vec<&Band> = data.bands.iter().collect();
    bands.sort_by(|a, b| b.level.total_cmp(&a.level));
    let mut layers: Vec<Layer> = Vec::new();
    for (i, band) in bands.iter().enumerate() {
        // Tints spread from the palest (widest) to the fullest; a lone band takes the middle one.
        let tint = match bands.len() {
            1 => BANDS / 2,
            n => (i * (BANDS - 1) + (n - 1) / 2) / (n - 1),
        };
        let shape = Shape::Band(triples(&data.time, &band.lower, &band.upper));
        // Drawn is the widest first; the legend counts upward.
        layers.push(Layer::new(shape, Ink::Band(tint)).label(percent(band.level)).rank(-1 - i as i32));
    }
    let first = -1 - bands.len() as i32;
    for path in &data.paths {
        let line = Layer::line(&path.time, &path.value, Ink::Faint).width(0.8);
        layers.push(line.label("sample paths"));
    }
    if let Some(begin) = data.begin {
        layers.push(Layer::new(Shape::Moment(begin), Ink::Muted).dash(DASHED).label("forecast begins"));
    }
    layers
        .push(Layer::line(&data.time, &data.mean, Ink::Series(0)).halo().label("forecast mean").rank(first));
    let truth = &data.truth;
    if pairs(&truth.time, &truth.value).len() <= 2 * FEW {
        let line = Layer::line(&truth.time, &truth.value, Ink::Text).width(1.0);
        layers.push(line.label("truth").rank(first - 1));
        layers.push(Layer::points(&truth.time, &truth.value, Ink::Text).label("truth").rank(first - 1));
    } else {
        layers.push(
            Layer::line(&truth.time, &truth.value, Ink::Text)
                .width(1.5)
                .halo()
                .label("truth")
                .rank(first - 1),
        );
    }
    Plot {
        name: "fan-chart",
        title: or(&data.title, "Forecast"),
        x: Axis { tight: true, ..Axis::new(or(&data.x_label, "time")) },
        y: Axis { range: data.y_range, ..Axis::new(or(&data.y_label, "state")) },
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw()
}
