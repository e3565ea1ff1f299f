//! The legend: a sample and a name for everything drawn, in rows above the plot.

use crate::font::Font;
use crate::layer::{Layer, Shape, edge};
use crate::scene::{Anchor, Fill, Mark, Point, Stroke};
use crate::theme::Ink;

/// Distance from a sample to its name, distance between entries, and height of a row.
const NEAR: f64 = 5.0;
const APART: f64 = 14.0;
const ROW: f64 = 21.0;
/// More entries than this are counted, not shown.
const MOST: usize = 24;

/// An entry at its place: `x` from the left of the legend, `row` from its top.
struct Entry<'a> {
    x: f64,
    row: usize,
    /// Room of the sample, as wide as its widest layer needs.
    sample: f64,
    name: String,
    layers: Vec<&'a Layer>,
}

/// Entries laid out in rows.
pub(crate) struct Legend<'a> {
    entries: Vec<Entry<'a>>,
}

impl<'a> Legend<'a> {
    /// Lays out the labelled layers in rows no wider than `room`.
    pub(crate) fn new(layers: &'a [Layer], room: f64) -> Legend<'a> {
        let mut named: Vec<(&str, Vec<&Layer>)> = Vec::new();
        let mut ranked: Vec<&Layer> = layers.iter().collect();
        ranked.sort_by_key(|layer| layer.rank);
        for layer in ranked {
            let Some(label) = layer.label.as_deref() else { continue };
            match named.iter_mut().find(|(name, _)| *name == label) {
                Some((_, shared)) => shared.push(layer),
                None => named.push((label, vec![layer])),
            }
        }
        let hidden = named.len().saturating_sub(MOST);
        named.truncate(MOST);
        let more = format!("and {hidden} more");
        if hidden > 0 {
            named.push((&more, vec![]));
        }
        let (mut x, mut row) = (0.0, 0);
        let mut entries = Vec::new();
        for (name, layers) in named {
            let sample = layers.iter().map(|layer| sample_width(layer)).fold(0.0, f64::max);
            let name = Font::LABEL.fit(name, room - sample - NEAR);
            let width = sample + NEAR + Font::LABEL.width(&name);
            if x > 0.0 && x + width > room {
                (x, row) = (0.0, row + 1);
            }
            entries.push(Entry { x, row, sample, name, layers });
            x += width + APART;
        }
        Legend { entries }
    }

    pub(crate) fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |last| ROW * (last.row + 1) as f64)
    }

    /// The names, for those who hear the picture.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|e| e.name.as_str()).collect()
    }

    /// Draws the rows from the corner `[x, y]` on.
    pub(crate) fn draw(&self, [left, top]: Point, marks: &mut Vec<Mark>) {
        for entry in &self.entries {
            let (x, y) = (left + entry.x, top + ROW * (entry.row as f64 + 0.5));
            for layer in &entry.layers {
                draw_sample(layer, [x, y], entry.sample, marks);
            }
            let at = [x + entry.sample + NEAR, y + 0.36 * Font::LABEL.size];
            marks.push(Mark::text(at, &entry.name, Font::LABEL, Ink::Text, Anchor::Start));
        }
    }
}

fn sample_width(layer: &Layer) -> f64 {
    match layer.shape {
        Shape::Line(_) | Shape::Level(_) => 26.0,
        Shape::Band(_) => 20.0,
        Shape::Points(_) | Shape::Polygons(_) | Shape::Bars(_) => 14.0,
        Shape::Errors(_) | Shape::Moment(_) => 8.0,
    }
}

/// A layer in miniature, `width` wide from `x` on and centred at height `y`.
fn draw_sample(layer: &Layer, [x, y]: Point, width: f64, marks: &mut Vec<Mark>) {
    let class = "sample";
    let middle = x + 0.5 * width;
    let fill = Some(Fill { ink: layer.ink, opacity: layer.opacity });
    match &layer.shape {
        Shape::Line(_) | Shape::Level(_) => {
            marks.push(Mark::segment(class, [x + 1.0, y], [x + width - 1.0, y], layer.stroke()));
        }
        Shape::Points(_) => {
            marks.push(match layer.marker.draw([middle, y], layer.radius.min(5.5), layer.ink) {
                Mark::Path { lines, closed, stroke, fill, .. } => {
                    Mark::Path { class, lines, closed, stroke, fill }
                }
                Mark::Circle { centre, radius, stroke, fill, .. } => {
                    Mark::Circle { class, centre, radius, stroke, fill }
                }
                other => other,
            })
        }
        Shape::Band(_) => {
            let stroke = Some(Stroke::solid(edge(layer.ink), layer.width));
            marks.push(Mark::Rect {
                class,
                corner: [x + 1.0, y - 6.0],
                size: [width - 2.0, 12.0],
                stroke,
                fill,
            });
        }
        Shape::Polygons(_) => {
            let stroke = Some(layer.stroke());
            marks.push(Mark::Circle { class, centre: [middle, y], radius: 6.0, stroke, fill });
        }
        Shape::Bars(_) => {
            let (corner, size) = ([middle - 7.0, y - 6.0], [14.0, 12.0]);
            marks.push(Mark::Rect { class, corner, size, stroke: layer.rim(), fill });
        }
        Shape::Errors(_) => {
            let lines = vec![
                vec![[middle, y - 7.0], [middle, y + 7.0]],
                vec![[middle - 3.5, y - 7.0], [middle + 3.5, y - 7.0]],
                vec![[middle - 3.5, y + 7.0], [middle + 3.5, y + 7.0]],
            ];
            marks.push(Mark::Path { class, lines, closed: false, stroke: Some(layer.stroke()), fill: None });
        }
        Shape::Moment(_) => {
            marks.push(Mark::segment(class, [middle, y - 8.0], [middle, y + 8.0], layer.stroke()));
        }
    }
}
