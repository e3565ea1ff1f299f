//! The calibration curve: how often intervals hold the truth, and how often they promise to (Sec. 6.1, ECPE).

use super::{FEW, SQUARE, dash_of, or};
use crate::axis::{Axis, short};
use crate::chart::Chart;
use crate::layer::{DASHED, Layer, Shape};
use crate::plot::Plot;
use crate::scene::Marker;
use crate::theme::Ink;

/// Coverage of one forecaster.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// Name; "forecast" if empty.
    pub name: String,
    /// Nominal coverage, from 0 to 1.
    pub nominal: Vec<f64>,
    /// Empirical coverage at each nominal one, from 0 to 1.
    pub empirical: Vec<f64>,
    /// Expected coverage probability error, shown in the title (one curve) or the legend (several).
    pub ecpe: Option<f64>,
}

/// Empirical against nominal coverage of one forecaster or several.
#[derive(Clone, Debug, Default)]
pub struct CalibrationCurve {
    /// Title; "Calibration" if empty. The ECPE of a single curve is added to it.
    pub title: String,
    /// The curves.
    pub curves: Vec<Calibration>,
}

/// Empirical against nominal coverage, with the diagonal of perfect calibration.
///
/// Below the diagonal a forecast is too sure of itself, above it too careful.
pub fn calibration_curve(data: &CalibrationCurve) -> Chart {
    let mut title = or(&data.title, "Calibration");
    let ideal = Layer::new(Shape::Line(vec![[0.0, 0.0], [1.0, 1.0]]), Ink::Muted).width(1.5);
    let mut layers = vec![ideal.dash(DASHED).label("perfectly calibrated").rank(1)];
    for (i, curve) in data.curves.iter().enumerate() {
        let mut name = or(&curve.name, "forecast");
        match curve.ecpe {
            Some(ecpe) if data.curves.len() == 1 => title = format!("{title}: ECPE {}", short(ecpe)),
            Some(ecpe) => name = format!("{name}: ECPE {}", short(ecpe)),
            None => {}
        }
        let line = Layer::line(&curve.nominal, &curve.empirical, Ink::Series(i)).dash(dash_of(i));
        layers.push(line.label(&name));
        if curve.nominal.len() <= FEW {
            let points = Layer::points(&curve.nominal, &curve.empirical, Ink::Series(i));
            layers.push(points.marker(Marker::of(i), 3.4).label(&name));
        }
    }
    let unit = |label: &str| Axis { range: Some([0.0, 1.0]), ..Axis::new(label) };
    Plot {
        name: "calibration-curve",
        title,
        x: unit("nominal coverage"),
        y: unit("empirical coverage"),
        layers,
        height: SQUARE,
        ..Plot::default()
    }
    .draw()
}
