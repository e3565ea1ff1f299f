//! A finished picture: marks in the units of the page, ready to be written as SVG or PNG.

use crate::font::Font;
use crate::theme::Ink;

/// A point of the page: to the right, and down.
pub(crate) type Point = [f64; 2];

/// A stroke: ink, width, and the lengths of dashes and gaps (none: solid).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) ink: Ink,
    pub(crate) width: f64,
    pub(crate) dash: &'static [f64],
}

impl Stroke {
    pub(crate) fn solid(ink: Ink, width: f64) -> Self {
        Stroke { ink, width, dash: &[] }
    }
}

/// A fill: ink, and opacity from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    pub(crate) ink: Ink,
    pub(crate) opacity: f64,
}

/// Which part of a text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The smallest thing drawn. `class` says what it means and stands in the SVG.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// One or several polylines, each closed into a polygon or open.
    Path {
        class: &'static str,
        lines: Vec<Vec<Point>>,
        closed: bool,
        stroke: Option<Stroke>,
        fill: Option<Fill>,
    },
    /// A disc.
    Circle { class: &'static str, centre: Point, radius: f64, stroke: Option<Stroke>, fill: Option<Fill> },
    /// A rectangle from its upper left corner.
    Rect { class: &'static str, corner: Point, size: [f64; 2], stroke: Option<Stroke>, fill: Option<Fill> },
    /// One line of words, its baseline through `at`, turned by `turn` degrees clockwise.
    Text { at: Point, content: String, font: Font, ink: Ink, anchor: Anchor, turn: f64 },
    /// Marks cut off at the rectangle from `corner`.
    Clip { corner: Point, size: [f64; 2], marks: Vec<Mark> },
}

impl Mark {
    /// A straight line.
    pub(crate) fn segment(class: &'static str, from: Point, to: Point, stroke: Stroke) -> Mark {
        Mark::Path { class, lines: vec![vec![from, to]], closed: false, stroke: Some(stroke), fill: None }
    }

    /// Upright words.
    pub(crate) fn text(at: Point, content: impl Into<String>, font: Font, ink: Ink, anchor: Anchor) -> Mark {
        Mark::Text { at, content: content.into(), font, ink, anchor, turn: 0.0 }
    }
}

/// The shape that marks one value; the second sign of a series beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Ring,
}

impl Marker {
    const ALL: [Marker; 6] =
        [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Cross, Marker::Ring];

    /// The marker of the series at place `i`.
    pub(crate) fn of(i: usize) -> Marker {
        Self::ALL[i % Self::ALL.len()]
    }

    /// The marker around `centre`, about `2 radius` wide.
    pub(crate) fn draw(self, centre: Point, radius: f64, ink: Ink) -> Mark {
        let [x, y] = centre;
        let r = radius;
        let fill = Some(Fill { ink, opacity: 1.0 });
        // A rim of page colour keeps overlapping markers apart.
        let rim = Some(Stroke::solid(Ink::Surface, 0.75));
        let polygon = |points: Vec<Point>| Mark::Path {
            class: "point",
            lines: vec![points],
            closed: true,
            stroke: rim,
            fill,
        };
        match self {
            Marker::Circle => Mark::Circle { class: "point", centre, radius, stroke: rim, fill },
            Marker::Ring => Mark::Circle {
                class: "point",
                centre,
                radius,
                stroke: Some(Stroke::solid(ink, 2.0)),
                fill: Some(Fill { ink: Ink::Surface, opacity: 1.0 }),
            },
            Marker::Square => {
                let r = 0.9 * r;
                polygon(vec![[x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r]])
            }
            Marker::Triangle => {
                let r = 1.2 * r;
                polygon(vec![[x, y - r], [x + 0.95 * r, y + 0.7 * r], [x - 0.95 * r, y + 0.7 * r]])
            }
            Marker::Diamond => {
                let r = 1.25 * r;
                polygon(vec![[x, y - r], [x + r, y], [x, y + r], [x - r, y]])
            }
            Marker::Cross => Mark::Path {
                class: "point",
                lines: vec![vec![[x - r, y - r], [x + r, y + r]], vec![[x - r, y + r], [x + r, y - r]]],
                closed: false,
                stroke: Some(Stroke::solid(ink, 2.0)),
                fill: None,
            },
        }
    }
}
