//! A plot: axes, grid, layers and words laid out on the page so that nothing overlaps.

use crate::axis::{Axis, Scale, Ticks, widest};
use crate::chart::{Chart, slug};
use crate::font::Font;
use crate::layer::{Frame, Layer, Shape};
use crate::legend::Legend;
use crate::scene::{Anchor, Mark, Stroke};
use crate::theme::Ink;

/// Width of every chart: wide enough for words of 14 units, narrow enough for them to be read on a phone.
pub(crate) const WIDTH: f64 = 480.0;
/// Free space around the picture.
const MARGIN: f64 = 12.0;
/// How far marks may reach over the frame, so that lines and points on the edge are whole.
const OVERHANG: f64 = 5.0;
/// Farther out than this nothing is drawn; it keeps coordinates small where a range cuts the data.
const FAR: f64 = 20_000.0;

/// What a chart is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plot {
    /// The name of the chart's files.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// A remark under the title.
    pub(crate) note: Option<String>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) layers: Vec<Layer>,
    /// Height of the frame, without words.
    pub(crate) height: f64,
    /// One unit is as long on both axes.
    pub(crate) equal: bool,
}

/// How the names of categories are set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Names {
    /// On one or two lines, this wide.
    Upright(f64),
    /// On one line, turned by [`TURN`] degrees.
    Turned,
}

const TURN: f64 = -35.0;
/// A turned name longer than this is cut.
const LONGEST: f64 = 130.0;

struct Layout {
    sx: Scale,
    sy: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame for Layout {
    fn x(&self, value: f64) -> Option<f64> {
        let place = self.left + self.sx.at(value)? * (self.right - self.left);
        Some(place.clamp(-FAR, FAR))
    }
    fn y(&self, value: f64) -> Option<f64> {
        let place = self.bottom - self.sy.at(value)? * (self.bottom - self.top);
        Some(place.clamp(-FAR, FAR))
    }
    fn left(&self) -> f64 {
        self.left
    }
    fn right(&self) -> f64 {
        self.right
    }
    fn top(&self) -> f64 {
        self.top
    }
    fn bottom(&self) -> f64 {
        self.bottom
    }
}

impl Plot {
    /// The finished picture.
    pub(crate) fn draw(self) -> Chart {
        let mut marks = Vec::new();
        let room = WIDTH - 2.0 * MARGIN;
        let mut y = MARGIN;
        for line in Font::TITLE.wrap(&self.title, room, 3) {
            marks.push(Mark::text([MARGIN, y + 14.0], line, Font::TITLE, Ink::Text, Anchor::Start));
            y += 21.0;
        }
        for line in self.note.iter().flat_map(|note| Font::TICK.wrap(note, room, 2)) {
            marks.push(Mark::text([MARGIN, y + 13.0], line, Font::TICK, Ink::Muted, Anchor::Start));
            y += 19.0;
        }
        let legend = Legend::new(&self.layers, room);
        legend.draw([MARGIN, y + 2.0], &mut marks);
        y += 2.0 + legend.height() + 10.0;

        let bottom = self.draw_frame(y, &mut marks);
        let mut alt = format!("{}. {} against {}.", self.title, self.y.label, self.x.label);
        if !legend.names().is_empty() {
            alt += &format!(" Shown: {}.", legend.names().join(", "));
        }
        Chart { name: slug(self.name), title: self.title, alt, size: [WIDTH, bottom.ceil()], marks }
    }

    /// Draws axes, grid and layers from `top` downward, and returns where the picture ends.
    fn draw_frame(&self, top: f64, marks: &mut Vec<Mark>) -> f64 {
        let xs = self.layers.iter().flat_map(Layer::xs);
        let ys = self.layers.iter().flat_map(Layer::ys);
        let anything =
            self.layers.iter().any(|l| !matches!(l.shape, Shape::Level(_) | Shape::Moment(_)) && shown(l));
        let (Some(sx), Some(sy), true) = (Scale::new(&self.x, xs), Scale::new(&self.y, ys), anything) else {
            return self.draw_nothing(top, marks);
        };
        let (layout, tx, ty) = self.lay_out(sx, sy, top);
        let Layout { left, right, bottom, .. } = layout;

        // Bands lie under the grid, so that values can still be read off them; all else lies on it.
        let (under, over): (Vec<_>, Vec<_>) =
            self.layers.iter().partition(|l| matches!(l.shape, Shape::Band(_)));
        // Only a given range can leave data outside the frame.
        let ranged = self.x.range.is_some() || self.y.range.is_some();
        let draw = |layers: Vec<&Layer>, marks: &mut Vec<Mark>| {
            let mut drawn = Vec::new();
            layers.iter().for_each(|layer| layer.draw(&layout, &mut drawn));
            if ranged && !drawn.is_empty() {
                let size = [right - left + 2.0 * OVERHANG, bottom - top + 2.0 * OVERHANG];
                marks.push(Mark::Clip { corner: [left - OVERHANG, top - OVERHANG], size, marks: drawn });
            } else {
                marks.append(&mut drawn);
            }
        };
        draw(under, marks);
        let grid = Stroke::solid(Ink::Grid, 1.0);
        for y in ty.at.iter().filter_map(|&v| layout.y(v)) {
            marks.push(Mark::segment("grid", [left, y], [right, y], grid));
        }
        if self.x.categories.is_empty() {
            for x in tx.at.iter().filter_map(|&v| layout.x(v)) {
                marks.push(Mark::segment("grid", [x, top], [x, bottom], grid));
            }
        }
        let axis = Stroke::solid(Ink::Muted, 1.0);
        // Bars stand on zero, wherever that is; all else stands on the frame.
        let bars = self.layers.iter().any(|l| matches!(l.shape, Shape::Bars(_)));
        let ground = layout.y(0.0).filter(|y| bars && (top..=bottom).contains(y)).unwrap_or(bottom);
        draw(over, marks);
        marks.push(Mark::segment("axis", [left, ground], [right, ground], axis));

        for (&v, label) in ty.at.iter().zip(&ty.labels) {
            let at = [left - 8.0, layout.y(v).expect("ticks lie on the axis") + 0.36 * Font::TICK.size];
            marks.push(Mark::text(at, label, Font::TICK, Ink::Muted, Anchor::End));
        }
        let end = if self.x.categories.is_empty() {
            for (&v, label) in tx.at.iter().zip(&tx.labels) {
                let at = [layout.x(v).expect("ticks lie on the axis"), bottom + 19.0];
                marks.push(Mark::text(at, label, Font::TICK, Ink::Muted, Anchor::Middle));
            }
            bottom + 23.0
        } else {
            self.draw_categories(&layout, marks)
        };
        self.draw_labels(&layout, end, tx.note.as_deref(), ty.note.as_deref(), marks)
    }

    /// Scales and ticks depend on the room, the room on the ticks: settled after a few rounds.
    fn lay_out(&self, sx: Scale, sy: Scale, top: f64) -> (Layout, Ticks, Ticks) {
        let (mut left, mut right) = (60.0, WIDTH - MARGIN);
        let bottom = top + self.height;
        for round in 0.. {
            let mut layout = Layout { sx, sy, left, right, top, bottom };
            if self.equal {
                let span = |s: Scale| s.ends()[1] - s.ends()[0];
                let per_x = span(sx) / (right - left);
                let per_y = span(sy) / self.height;
                if per_x.max(per_y) / per_x.min(per_y) < 1e6 {
                    layout.sx = sx.stretched((per_y / per_x).max(1.0));
                    layout.sy = sy.stretched((per_x / per_y).max(1.0));
                }
            }
            let ty = layout.sy.ticks(7, |_| 2.1 * Font::TICK.size / self.height);
            let tx = layout.sx.ticks(8, |label| (Font::TICK.width(label) + 16.0) / (right - left));
            let title = if self.y.label.is_empty() { 0.0 } else { 22.0 };
            let mut new_left = MARGIN + title + widest(&ty.labels, Font::TICK) + 8.0;
            if let (Some(first), Names::Turned) = (self.x.categories.first(), self.names(right - left)) {
                let reach = Font::TICK.width(first).min(LONGEST) * TURN.to_radians().cos();
                let half = 0.5 * (right - left) / self.x.categories.len() as f64;
                new_left = new_left.max(MARGIN + reach - half + 2.0);
            }
            let new_left = new_left.min(0.5 * WIDTH).ceil();
            let last = tx.at.last().zip(tx.labels.last()).filter(|_| self.x.categories.is_empty());
            let reach = last.map_or(0.0, |(&v, label)| {
                layout.x(v).unwrap_or(right) - right + 0.5 * Font::TICK.width(label) + 6.0
            });
            let new_right = right.min(WIDTH - reach.max(MARGIN)).floor();
            if round > 0 && new_left <= left && new_right >= right {
                return (layout, tx, ty);
            }
            // After the first guess the room only shrinks, a whole unit at a time: this ends.
            left = if round == 0 { new_left } else { left.max(new_left) };
            right = new_right;
        }
        unreachable!("the room cannot shrink for ever")
    }

    /// How the names of categories are set in a frame of this width.
    fn names(&self, width: f64) -> Names {
        let font = Font::TICK;
        let slot = width / self.x.categories.len() as f64 - 6.0;
        let upright = self.x.categories.iter().all(|name| {
            name.split_whitespace().all(|word| font.width(word) <= slot)
                && font.wrap(name, slot, 3).len() <= 2
        });
        if upright { Names::Upright(slot) } else { Names::Turned }
    }

    /// The names of categories under the axis; returns where they end.
    fn draw_categories(&self, layout: &Layout, marks: &mut Vec<Mark>) -> f64 {
        let font = Font::TICK;
        let width = layout.right - layout.left;
        let names = self.names(width);
        // Turned names need a line's height each; where even that is missing, some are left out.
        let every = (font.size * 1.6 * self.x.categories.len() as f64 / width).ceil().max(1.0) as usize;
        let mut end = layout.bottom;
        for (i, name) in self.x.categories.iter().enumerate() {
            let Some(x) = layout.x(i as f64) else { continue };
            match names {
                Names::Upright(width) => {
                    for (k, line) in font.wrap(name, width, 2).into_iter().enumerate() {
                        let y = layout.bottom + 19.0 + 16.0 * k as f64;
                        marks.push(Mark::text([x, y], line, font, Ink::Muted, Anchor::Middle));
                        end = end.max(y + 4.0);
                    }
                }
                Names::Turned if i % every == 0 => {
                    let (sin, cos) = TURN.abs().to_radians().sin_cos();
                    let content = font.fit(name, ((x - MARGIN) / cos).min(LONGEST));
                    let at = [x + 4.0, layout.bottom + 16.0];
                    end = end.max(at[1] + sin * font.width(&content) + 8.0);
                    let anchor = Anchor::End;
                    marks.push(Mark::Text { at, content, font, ink: Ink::Muted, anchor, turn: TURN });
                }
                Names::Turned => {}
            }
        }
        end
    }

    /// The labels of both axes, with what the ticks leave out; returns where the picture ends.
    fn draw_labels(
        &self,
        layout: &Layout,
        end: f64,
        x_note: Option<&str>,
        y_note: Option<&str>,
        marks: &mut Vec<Mark>,
    ) -> f64 {
        let full = |label: &str, note: Option<&str>| match note {
            Some(note) if label.is_empty() => note.to_owned(),
            Some(note) => format!("{label} ({note})"),
            None => label.to_owned(),
        };
        let font = Font::LABEL;
        let x_label = full(&self.x.label, x_note);
        let mut bottom = end;
        if !x_label.is_empty() {
            let room = WIDTH - 2.0 * MARGIN;
            let content = font.fit(&x_label, room);
            // Centred under the frame, unless that would push it off the page.
            let half = 0.5 * font.width(&content);
            let middle =
                (0.5 * (layout.left + layout.right)).clamp(MARGIN + half, WIDTH - MARGIN - half + 1e-9);
            bottom = end + 18.0;
            marks.push(Mark::text([middle, bottom], content, font, Ink::Text, Anchor::Middle));
        }
        let y_label = full(&self.y.label, y_note);
        if !y_label.is_empty() {
            let content = font.fit(&y_label, layout.bottom - layout.top + 12.0);
            let at = [MARGIN + 13.0, 0.5 * (layout.top + layout.bottom)];
            marks.push(Mark::Text { at, content, font, ink: Ink::Text, anchor: Anchor::Middle, turn: -90.0 });
        }
        bottom + MARGIN
    }

    /// An empty frame that says so.
    fn draw_nothing(&self, top: f64, marks: &mut Vec<Mark>) -> f64 {
        let unit = Scale::new(&Axis::default(), [0.0, 1.0].into_iter()).expect("two values make a scale");
        let bottom = top + self.height;
        let layout = Layout { sx: unit, sy: unit, left: MARGIN + 24.0, right: WIDTH - MARGIN, top, bottom };
        let frame = Mark::Rect {
            class: "frame",
            corner: [layout.left, top],
            size: [layout.right - layout.left, self.height],
            stroke: Some(Stroke::solid(Ink::Grid, 1.0)),
            fill: None,
        };
        marks.push(frame);
        let at = [0.5 * (layout.left + layout.right), 0.5 * (top + bottom) + 5.0];
        marks.push(Mark::text(at, "no data", Font::LABEL, Ink::Muted, Anchor::Middle));
        self.draw_labels(&layout, bottom + 4.0, None, None, marks)
    }
}

/// Whether a layer has any value at all.
fn shown(layer: &Layer) -> bool {
    let any = |values: Vec<f64>| values.iter().any(|v| v.is_finite());
    any(layer.xs()) && any(layer.ys())
}
