//! Coverage over the horizon: whether intervals keep their promise at every step.

use super::{FEW, SQUARE, or, percent};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::{DASHED, Layer, Shape};
use crate::plot::Plot;
use crate::scene::Marker;
use crate::theme::Ink;

/// Share of the truth inside the intervals, step by step.
#[derive(Clone, Debug, Default)]
pub struct CoverageOverHorizon {
    /// Title; "Coverage over the horizon" if empty.
    pub title: String,
    /// What `steps` counts; "step" if empty.
    pub x_label: String,
    /// Steps of the forecast, or times.
    pub steps: Vec<f64>,
    /// Nominal level such as 0.95, and the empirical coverage at each step, both from 0 to 1.
    pub coverage: Vec<(f64, Vec<f64>)>,
}

/// Coverage of each interval over the steps, beside its nominal level (dashed, in the same colour).
pub fn coverage_over_horizon(data: &CoverageOverHorizon) -> Chart {
    let mut layers = Vec::new();
    for (i, (level, _)) in data.coverage.iter().enumerate() {
        layers.push(Layer::new(Shape::Level(100.0 * level), Ink::Series(i)).dash(DASHED));
    }
    for (i, (level, coverage)) in data.coverage.iter().enumerate() {
        let coverage: Vec<f64> = coverage.iter().map(|c| 100.0 * c).collect();
        let name = percent(*level);
        layers.push(Layer::line(&data.steps, &coverage, Ink::Series(i)).label(&name));
        if coverage.len() <= FEW {
            let points = Layer::points(&data.steps, &coverage, Ink::Series(i));
            layers.push(points.marker(Marker::of(i), 3.0).label(&name));
        }
    }
    // A level that is nowhere stands for all the dashed ones in the legend.
    layers.push(Layer::new(Shape::Level(f64::NAN), Ink::Muted).dash(DASHED).label("nominal"));
    Plot {
        name: "coverage-over-horizon",
        title: or(&data.title, "Coverage over the horizon"),
        x: Axis { counts: true, ..Axis::new(or(&data.x_label, "step")) },
        y: Axis { include: vec![100.0], ..Axis::new("coverage, %") },
        layers,
        height: 0.8 * SQUARE,
        ..Plot::default()
    }
    .draw()
}
