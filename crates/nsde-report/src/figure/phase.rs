//! The phase portrait: two states against each other, with the spread of the forecast at some steps.

use super::{FEW, SQUARE, or};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::{Layer, Shape, pairs};
use crate::plot::Plot;
use crate::scene::Marker;
use crate::theme::Ink;

/// Two states of one trajectory and of its forecast.
#[derive(Clone, Debug, Default)]
pub struct PhasePortrait {
    /// Title; "Phase portrait" if empty.
    pub title: String,
    /// Name and unit of the first state; "state 1" if empty.
    pub x_label: String,
    /// Name and unit of the second state; "state 2" if empty.
    pub y_label: String,
    /// What was observed: the first state, and the second.
    pub truth: (Vec<f64>, Vec<f64>),
    /// Mean of the forecast: the first state, and the second.
    pub mean: (Vec<f64>, Vec<f64>),
    /// Outlines of the forecast's spread at some steps, each as the first state and the second; closed when
    /// drawn.
    pub ellipses: Vec<(Vec<f64>, Vec<f64>)>,
    /// What the outlines are, such as "95 % region"; "spread" if empty.
    pub ellipse_label: String,
    /// Both states have the same unit, and one unit shall be as long on both axes.
    pub equal_axes: bool,
}

/// Truth and forecast of two states as paths in the plane; a ring marks where each begins.
pub fn phase_portrait(data: &PhasePortrait) -> Chart {
    let mut layers = Vec::new();
    let curves: Vec<_> = data.ellipses.iter().map(|(x, y)| pairs(x, y)).collect();
    if !curves.is_empty() {
        let spread = Layer::new(Shape::Polygons(curves), Ink::Series(0)).width(1.0).opacity(0.14);
        layers.push(spread.label(or(&data.ellipse_label, "spread")));
    }
    let (x, y) = &data.mean;
    layers.push(Layer::line(x, y, Ink::Series(0)).halo().label("forecast mean").rank(-1));
    let (tx, ty) = &data.truth;
    layers.push(Layer::line(tx, ty, Ink::Text).width(1.25).halo().label("truth").rank(-2));
    if tx.len().min(ty.len()) <= FEW {
        layers.push(Layer::points(tx, ty, Ink::Text).marker(Marker::Circle, 2.6).label("truth").rank(-2));
    }
    let first = |x: &[f64], y: &[f64]| pairs(x, y).into_iter().find(|p| p.iter().all(|v| v.is_finite()));
    for (start, ink) in [(first(x, y), Ink::Series(0)), (first(tx, ty), Ink::Text)] {
        if let Some(start) = start {
            let ring = Layer::new(Shape::Points(vec![start]), ink).marker(Marker::Ring, 4.5);
            layers.push(if ink == Ink::Text { ring.label("start") } else { ring });
        }
    }
    Plot {
        name: "phase-portrait",
        title: or(&data.title, "Phase portrait"),
        x: Axis::new(or(&data.x_label, "state 1")),
        y: Axis::new(or(&data.y_label, "state 2")),
        layers,
        height: SQUARE,
        equal: data.equal_axes,
        ..Plot::default()
    }
    .draw()
}
