//! PNG: the same marks as pixels, words drawn from the bundled font.

use tiny_skia::{
    FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use crate::scene::{Anchor, Fill, Mark, Stroke};
use crate::theme::{Ink, Theme};

/// Pixels for one unit of the page: sharp on a phone, and 1440 pixels wide.
const SCALE: f32 = 3.0;

/// The whole picture as the bytes of a PNG file.
pub(crate) fn encode(marks: &[Mark], size: [f64; 2], theme: Theme) -> Vec<u8> {
    let [w, h] = size.map(|v| (v as f32 * SCALE).ceil() as u32);
    let mut pixels = Pixmap::new(w, h).expect("a picture has a size, and the legend is kept short");
    let [r, g, b] = theme.rgb(Ink::Surface);
    pixels.fill(tiny_skia::Color::from_rgba8(r, g, b, 255));
    let mut canvas = Canvas { pixels, theme, mask: None };
    for mark in marks {
        canvas.mark(mark);
    }
    canvas.pixels.encode_png().expect("writing to memory cannot fail")
}

struct Canvas {
    pixels: Pixmap,
    theme: Theme,
    mask: Option<Mask>,
}

impl Canvas {
    fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Path { lines, closed, stroke, fill, .. } => {
                let mut pen = PathBuilder::new();
                for line in lines {
                    for (i, &[x, y]) in line.iter().enumerate() {
                        if i == 0 { pen.move_to(x as f32, y as f32) } else { pen.line_to(x as f32, y as f32) }
                    }
                    if *closed {
                        pen.close();
                    }
                }
                self.draw(pen.finish(), *stroke, *fill);
            }
            Mark::Circle { centre: [x, y], radius, stroke, fill, .. } => {
                self.draw(PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32), *stroke, *fill);
            }
            Mark::Rect { corner, size, stroke, fill, .. } => {
                self.draw(rect(*corner, *size).map(PathBuilder::from_rect), *stroke, *fill);
            }
            Mark::Text { at: [x, y], content, font, ink, anchor, turn } => {
                let shift = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => -0.5 * font.width(content),
                    Anchor::End => -font.width(content),
                };
                let mut pen = Pen(PathBuilder::new());
                font.outline(content, &mut pen);
                let place = Transform::from_translate(shift as f32, 0.0)
                    .post_concat(Transform::from_rotate(*turn as f32))
                    .post_translate(*x as f32, *y as f32);
                let path = pen.0.finish().and_then(|path| path.transform(place));
                self.draw(path, None, Some(Fill { ink: *ink, opacity: 1.0 }));
            }
            Mark::Clip { corner, size, marks } => {
                let mut mask =
                    Mask::new(self.pixels.width(), self.pixels.height()).expect("the picture has a size");
                if let Some(frame) = rect(*corner, *size) {
                    let scale = Transform::from_scale(SCALE, SCALE);
                    mask.fill_path(&PathBuilder::from_rect(frame), FillRule::Winding, true, scale);
                }
                let outer = self.mask.replace(mask);
                for mark in marks {
                    self.mark(mark);
                }
                self.mask = outer;
            }
        }
    }

    /// A path without length or area is none, and leaves no trace.
    fn draw(&mut self, path: Option<Path>, stroke: Option<Stroke>, fill: Option<Fill>) {
        let Some(path) = path else { return };
        let scale = Transform::from_scale(SCALE, SCALE);
        if let Some(Fill { ink, opacity }) = fill {
            let paint = self.paint(ink, opacity);
            self.pixels.fill_path(&path, &paint, FillRule::Winding, scale, self.mask.as_ref());
        }
        if let Some(Stroke { ink, width, dash }) = stroke {
            let stroke = tiny_skia::Stroke {
                width: width as f32,
                line_cap: if dash.is_empty() { LineCap::Round } else { LineCap::Butt },
                line_join: LineJoin::Round,
                dash: StrokeDash::new(dash.iter().map(|&d| d as f32).collect(), 0.0),
                ..Default::default()
            };
            let paint = self.paint(ink, 1.0);
            self.pixels.stroke_path(&path, &paint, &stroke, scale, self.mask.as_ref());
        }
    }

    fn paint(&self, ink: Ink, opacity: f64) -> Paint<'static> {
        let [r, g, b] = self.theme.rgb(ink);
        let mut paint = Paint { anti_alias: true, ..Paint::default() };
        paint.set_color_rgba8(r, g, b, (255.0 * opacity).round() as u8);
        paint
    }
}

fn rect(corner: [f64; 2], size: [f64; 2]) -> Option<Rect> {
    Rect::from_xywh(corner[0] as f32, corner[1] as f32, size[0] as f32, size[1] as f32)
}

/// Lets the font draw into a path.
struct Pen(PathBuilder);

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}
