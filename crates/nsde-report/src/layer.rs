//! A layer of a plot: data with a way to draw them, turned into marks.

use crate::polyline::{outline, runs, thinned};
use crate::scene::{Fill, Mark, Marker, Point, Stroke};
use crate::theme::Ink;

/// What is drawn, in the values of the data. Missing values (NaN, infinite, not positive on a log axis) leave
/// a gap.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A line through `(x, y)`; a lone point between gaps becomes a dot.
    Line(Vec<[f64; 2]>),
    /// A marker at every `(x, y)`.
    Points(Vec<[f64; 2]>),
    /// The area between the edges `(x, lower, upper)`.
    Band(Vec<[f64; 3]>),
    /// Closed curves.
    Polygons(Vec<Vec<[f64; 2]>>),
    /// Bars `(left, right, value)` from zero, or from the bottom of a log axis.
    Bars(Vec<[f64; 3]>),
    /// Error bars `(x, lower, upper)`.
    Errors(Vec<[f64; 3]>),
    /// A line at one height from side to side.
    Level(f64),
    /// A line at one place from bottom to top.
    Moment(f64),
}

/// Dashes for reference lines.
pub(crate) const DASHED: &[f64] = &[6.0, 4.0];
/// Dots for lines that matter less.
pub(crate) const DOTTED: &[f64] = &[2.0, 3.0];

/// A shape and how it looks. Layers with the same label share one entry of the legend.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) shape: Shape,
    pub(crate) ink: Ink,
    pub(crate) width: f64,
    pub(crate) dash: &'static [f64],
    pub(crate) marker: Marker,
    pub(crate) radius: f64,
    pub(crate) opacity: f64,
    /// A rim of page colour keeps a line apart from what lies under it.
    pub(crate) halo: bool,
    pub(crate) label: Option<String>,
    /// Lower ranks come first in the legend; among equals the order of drawing holds.
    pub(crate) rank: i32,
}

impl Layer {
    pub(crate) fn new(shape: Shape, ink: Ink) -> Layer {
        let width = match shape {
            Shape::Line(_) => 2.25,
            Shape::Band(_) | Shape::Polygons(_) => 0.75,
            _ => 1.5,
        };
        Layer {
            shape,
            ink,
            width,
            dash: &[],
            marker: Marker::Circle,
            radius: 3.2,
            opacity: 1.0,
            halo: false,
            label: None,
            rank: 0,
        }
    }

    /// A line through the pairs of `x` and `y`, as far as both go.
    pub(crate) fn line(x: &[f64], y: &[f64], ink: Ink) -> Layer {
        Layer::new(Shape::Line(pairs(x, y)), ink)
    }

    pub(crate) fn points(x: &[f64], y: &[f64], ink: Ink) -> Layer {
        Layer::new(Shape::Points(pairs(x, y)), ink)
    }

    pub(crate) fn width(self, width: f64) -> Layer {
        Layer { width, ..self }
    }

    pub(crate) fn dash(self, dash: &'static [f64]) -> Layer {
        Layer { dash, ..self }
    }

    pub(crate) fn marker(self, marker: Marker, radius: f64) -> Layer {
        Layer { marker, radius, ..self }
    }

    pub(crate) fn opacity(self, opacity: f64) -> Layer {
        Layer { opacity, ..self }
    }

    pub(crate) fn halo(self) -> Layer {
        Layer { halo: true, ..self }
    }

    pub(crate) fn label(self, label: impl Into<String>) -> Layer {
        Layer { label: Some(label.into()), ..self }
    }

    pub(crate) fn rank(self, rank: i32) -> Layer {
        Layer { rank, ..self }
    }

    pub(crate) fn stroke(&self) -> Stroke {
        Stroke { ink: self.ink, width: self.width, dash: self.dash }
    }

    /// The rim of a pale bar: a tint alone is too pale to be told from the page.
    pub(crate) fn rim(&self) -> Option<Stroke> {
        (edge(self.ink) != self.ink).then(|| Stroke::solid(edge(self.ink), 1.0))
    }

    /// All values along `x`.
    pub(crate) fn xs(&self) -> Vec<f64> {
        match &self.shape {
            Shape::Line(points) | Shape::Points(points) => points.iter().map(|p| p[0]).collect(),
            Shape::Band(items) | Shape::Errors(items) => items.iter().map(|p| p[0]).collect(),
            Shape::Polygons(curves) => curves.iter().flatten().map(|p| p[0]).collect(),
            Shape::Bars(bars) => bars.iter().flat_map(|b| [b[0], b[1]]).collect(),
            Shape::Level(_) => vec![],
            Shape::Moment(x) => vec![*x],
        }
    }

    /// All values along `y`.
    pub(crate) fn ys(&self) -> Vec<f64> {
        match &self.shape {
            Shape::Line(points) | Shape::Points(points) => points.iter().map(|p| p[1]).collect(),
            Shape::Band(items) | Shape::Errors(items) => items.iter().flat_map(|p| [p[1], p[2]]).collect(),
            Shape::Polygons(curves) => curves.iter().flatten().map(|p| p[1]).collect(),
            Shape::Bars(bars) => bars.iter().map(|b| b[2]).collect(),
            Shape::Level(y) => vec![*y],
            Shape::Moment(_) => vec![],
        }
    }

    /// The marks, given where values stand on the page.
    pub(crate) fn draw(&self, frame: &impl Frame, marks: &mut Vec<Mark>) {
        match &self.shape {
            Shape::Line(points) => self.draw_line(frame, points, marks),
            Shape::Points(points) => {
                let places = points.iter().filter_map(|&[x, y]| Some([frame.x(x)?, frame.y(y)?]));
                marks.extend(places.map(|place| self.marker.draw(place, self.radius, self.ink)));
            }
            Shape::Band(items) => self.draw_band(frame, items, marks),
            Shape::Polygons(curves) => {
                for curve in curves {
                    let places = curve.iter().map(|&[x, y]| Some([frame.x(x)?, frame.y(y)?]));
                    if let Some(places) = places.collect::<Option<Vec<Point>>>().filter(|p| p.len() > 2) {
                        let fill = Some(Fill { ink: self.ink, opacity: self.opacity });
                        let stroke = Some(self.stroke());
                        marks.push(Mark::Path {
                            class: "polygon",
                            lines: vec![places],
                            closed: true,
                            stroke,
                            fill,
                        });
                    }
                }
            }
            Shape::Bars(bars) => {
                for &[left, right, value] in bars {
                    let (Some(left), Some(right), Some(end)) =
                        (frame.x(left), frame.x(right), frame.y(value))
                    else {
                        continue;
                    };
                    let base = frame.y(0.0).unwrap_or(frame.bottom()).min(frame.bottom()).max(frame.top());
                    let (corner, size) =
                        ([left.min(right), end.min(base)], [(right - left).abs(), (end - base).abs()]);
                    let fill = Some(Fill { ink: self.ink, opacity: self.opacity });
                    marks.push(Mark::Rect { class: "bar", corner, size, stroke: self.rim(), fill });
                }
            }
            Shape::Errors(items) => {
                for &[x, lower, upper] in items {
                    let (Some(x), Some(a), Some(b)) = (frame.x(x), frame.y(lower), frame.y(upper)) else {
                        continue;
                    };
                    let cap = |y| vec![[x - 3.5, y], [x + 3.5, y]];
                    let lines = vec![vec![[x, a], [x, b]], cap(a), cap(b)];
                    let stroke = Some(self.stroke());
                    marks.push(Mark::Path { class: "error", lines, closed: false, stroke, fill: None });
                }
            }
            Shape::Level(y) => {
                if let Some(y) = frame.y(*y) {
                    marks.push(Mark::segment("level", [frame.left(), y], [frame.right(), y], self.stroke()));
                }
            }
            Shape::Moment(x) => {
                if let Some(x) = frame.x(*x) {
                    marks.push(Mark::segment("moment", [x, frame.top()], [x, frame.bottom()], self.stroke()));
                }
            }
        }
    }

    fn draw_line(&self, frame: &impl Frame, points: &[[f64; 2]], marks: &mut Vec<Mark>) {
        let (mut lines, mut dots) = (Vec::new(), Vec::new());
        for run in runs(points.iter().map(|&[x, y]| Some([frame.x(x)?, frame.y(y)?]))) {
            if run.len() == 1 { dots.push(run[0]) } else { lines.push(thinned(run)) }
        }
        if !lines.is_empty() {
            let path = |class, lines, stroke| Mark::Path {
                class,
                lines,
                closed: false,
                stroke: Some(stroke),
                fill: None,
            };
            if self.halo {
                marks.push(path("halo", lines.clone(), Stroke::solid(Ink::Surface, self.width + 2.0)));
            }
            marks.push(path("line", lines, self.stroke()));
        }
        marks.extend(dots.into_iter().map(|centre| {
            let fill = Some(Fill { ink: self.ink, opacity: 1.0 });
            Mark::Circle { class: "dot", centre, radius: self.width.max(1.5), stroke: None, fill }
        }));
    }

    fn draw_band(&self, frame: &impl Frame, items: &[[f64; 3]], marks: &mut Vec<Mark>) {
        let places = items.iter().map(|&[x, a, b]| Some([frame.x(x)?, frame.y(a)?, frame.y(b)?]));
        let mut runs = runs(places);
        for run in &mut runs {
            // A band needs a width to be seen.
            if let &mut [[x, a, b]] = run.as_mut_slice() {
                *run = vec![[x - 3.0, a, b], [x + 3.0, a, b]];
            }
        }
        if runs.is_empty() {
            return;
        }
        let edges: Vec<_> = runs.iter().map(|run| outline(run)).collect();
        let lines =
            edges.iter().map(|[lower, upper]| upper.iter().chain(lower.iter().rev()).copied().collect());
        let fill = Some(Fill { ink: self.ink, opacity: self.opacity });
        marks.push(Mark::Path { class: "band", lines: lines.collect(), closed: true, stroke: None, fill });
        // A tint alone is too pale to be told from the page; its edge is not.
        let stroke = Some(Stroke::solid(edge(self.ink), self.width));
        let lines = edges.into_iter().flatten().collect();
        marks.push(Mark::Path { class: "edge", lines, closed: false, stroke, fill: None });
    }
}

/// The ink of the edge of a band.
pub(crate) fn edge(ink: Ink) -> Ink {
    if let Ink::Band(_) = ink { Ink::Series(0) } else { ink }
}

/// Where the values of the data stand on the page; none if they cannot be shown.
pub(crate) trait Frame {
    fn x(&self, value: f64) -> Option<f64>;
    fn y(&self, value: f64) -> Option<f64>;
    fn left(&self) -> f64;
    fn right(&self) -> f64;
    fn top(&self) -> f64;
    fn bottom(&self) -> f64;
}

/// Pairs of values, as far as both go.
pub(crate) fn pairs(x: &[f64], y: &[f64]) -> Vec<[f64; 2]> {
    x.iter().zip(y).map(|(&x, &y)| [x, y]).collect()
}

/// Triples of values, as far as all go.
pub(crate) fn triples(x: &[f64], lower: &[f64], upper: &[f64]) -> Vec<[f64; 3]> {
    x.iter().zip(lower).zip(upper).map(|((&x, &a), &b)| [x, a, b]).collect()
}
