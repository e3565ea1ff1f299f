//! Loss curves: training and validation loss, and the best of them.

use super::{FEW, WIDE, lowest, or};
use crate::axis::{Axis, short};
use crate::chart::Chart;
use crate::layer::{DASHED, Layer, Shape};
use crate::plot::Plot;
use crate::scene::Marker;
use crate::theme::Ink;

/// A span of more than this many decades of positive values gets a logarithmic axis.
const DECADES: f64 = 2.0;
/// A span more than this many times that of the lower three quarters is cut, where no logarithm can help.
const OUTLIER: f64 = 12.0;

/// Losses over the course of training.
#[derive(Clone, Debug, Default)]
pub struct LossCurves {
    /// Title; "Training" if empty.
    pub title: String,
    /// What [`steps`](Self::steps) counts; "epoch" if empty.
    pub x_label: String,
    /// What the losses are; "loss" if empty.
    pub y_label: String,
    /// Epoch or step of each loss.
    pub steps: Vec<f64>,
    /// Loss on the training data at `steps`; may be empty.
    pub training: Vec<f64>,
    /// Loss on the validation data at `steps`, NaN where it was not measured; may be empty.
    pub validation: Vec<f64>,
    /// Index into `steps` of the parameters that were kept. If none, the lowest validation loss is marked, or
    /// the lowest training loss where nothing was validated.
    pub best: Option<usize>,
}

/// Training and validation loss over steps, the best value marked.
///
/// The axis is logarithmic if all losses are positive and span more than two decades. Negative losses (as of
/// densities) rule that out; if then a few values at the start dwarf the rest, the view is cut and a note says
/// how many lie outside.
pub fn loss_curves(data: &LossCurves) -> Chart {
    let x_label = or(&data.x_label, "epoch");
    let mut layers = Vec::new();
    let curves = [("training", &data.training, 1, DASHED), ("validation", &data.validation, 0, &[][..])];
    for (name, losses, place, dash) in curves {
        if losses.is_empty() {
            continue;
        }
        // Losses measured now and then are joined; a gap every other step would leave dots only.
        let measured: Vec<_> =
            data.steps.iter().zip(losses).filter(|(_, l)| !l.is_nan()).map(|(&x, &y)| [x, y]).collect();
        let sparse = measured.len() <= FEW;
        layers.push(Layer::new(Shape::Line(measured.clone()), Ink::Series(place)).dash(dash).label(name));
        if sparse {
            let points = Layer::new(Shape::Points(measured), Ink::Series(place));
            layers.push(points.marker(Marker::of(place), 2.8).label(name));
        }
    }
    let judged = if data.validation.is_empty() { &data.training } else { &data.validation };
    let given = data.best.and_then(|i| Some([*data.steps.get(i)?, *judged.get(i)?]));
    let best = given.filter(|p| p.iter().all(|v| v.is_finite())).or_else(|| lowest(&data.steps, judged));
    if let Some([x, y]) = best {
        let label = format!("best: {} at {x_label} {x}", short(y));
        let ring = Layer::new(Shape::Points(vec![[x, y]]), Ink::Text).marker(Marker::Ring, 5.5);
        layers.push(ring.label(label));
    }

    let drawn = data.steps.len();
    let losses = data.training.iter().take(drawn).chain(data.validation.iter().take(drawn));
    let mut losses: Vec<f64> = losses.copied().filter(|v| v.is_finite()).collect();
    losses.sort_by(f64::total_cmp);
    let log = match losses[..] {
        [first, .., last] => first > 0.0 && (last / first).log10() > DECADES,
        _ => false,
    };
    let top = if log { None } else { cut(&losses) };
    let note = top.map(|top| {
        let outside = losses.iter().filter(|v| **v > top).count();
        let (verb, s) = if outside == 1 { ("lies", "") } else { ("lie", "es") };
        format!(
            "{outside} loss{s} {verb} above the frame, up to {}",
            short(*losses.last().expect("some lie above"))
        )
    });
    let range = top.map(|top| [losses[0] - 0.05 * (top - losses[0]), top]);
    Plot {
        name: "loss-curves",
        title: or(&data.title, "Training"),
        note,
        x: Axis { counts: true, ..Axis::new(x_label) },
        y: Axis { log, range, ..Axis::new(or(&data.y_label, "loss")) },
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw()
}

/// Where to cut sorted losses whose largest would flatten the others; none if they fit as they are.
fn cut(sorted: &[f64]) -> Option<f64> {
    let (&first, &last) = (sorted.first()?, sorted.last()?);
    let usual = sorted[(sorted.len() - 1) * 3 / 4] - first;
    (sorted.len() >= 8 && usual > 0.0 && last - first > OUTLIER * usual)
        .then_some(first + 0.4 * OUTLIER * usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outliers_are_cut() {
        let falling: Vec<f64> = (0..100).map(|i| f64::from(i) - 3.0).collect();
        assert_eq!(cut(&falling), None);
        let mut burst = falling.clone();
        burst.push(1e6);
        let top = cut(&burst).unwrap();
        assert!(top > 96.0 && top < 1e3, "{top}");
        assert_eq!(cut(&[1.0, 1.0, 1.0]), None);
        assert_eq!(cut(&[]), None);
    }
}
