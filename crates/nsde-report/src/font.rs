//! The bundled font: widths and outlines of words, without opening a file.
//!
//! A browser draws the words of an SVG in its own font. DejaVu Sans is wider than the usual ones, so what fits
//! when measured here fits there.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static REGULAR: LazyLock<Face> = LazyLock::new(|| {
    Face::parse(include_bytes!("../assets/DejaVuSans-subset.ttf"), 0).expect("bundled font")
});
static BOLD: LazyLock<Face> = LazyLock::new(|| {
    Face::parse(include_bytes!("../assets/DejaVuSans-Bold-subset.ttf"), 0).expect("bundled font")
});

/// Size and weight of words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Font {
    pub(crate) size: f64,
    pub(crate) bold: bool,
}

impl Font {
    pub(crate) const TITLE: Font = Font { size: 16.0, bold: true };
    pub(crate) const LABEL: Font = Font { size: 14.0, bold: false };
    pub(crate) const TICK: Font = Font { size: 13.5, bold: false };

    fn face(self) -> &'static Face<'static> {
        if self.bold { &BOLD } else { &REGULAR }
    }

    fn scale(self) -> f64 {
        self.size / f64::from(self.face().units_per_em())
    }

    /// A character the font lacks is drawn as its empty box.
    fn glyph(self, c: char) -> GlyphId {
        self.face().glyph_index(c).unwrap_or(GlyphId(0))
    }

    fn advance(self, c: char) -> f64 {
        f64::from(self.face().glyph_hor_advance(self.glyph(c)).unwrap_or(0)) * self.scale()
    }

    /// Width of `text`, in the units of `size`.
    pub(crate) fn width(self, text: &str) -> f64 {
        text.chars().map(|c| self.advance(c)).sum()
    }

    /// `text`, or its beginning and an ellipsis if it is wider than `room`.
    pub(crate) fn fit(self, text: &str, room: f64) -> String {
        if self.width(text) <= room {
            return text.to_owned();
        }
        let mut used = self.width("…");
        let kept: String = text
            .chars()
            .take_while(|&c| {
                used += self.advance(c);
                used <= room
            })
            .collect();
        format!("{}…", kept.trim_end())
    }

    /// `text` in at most `most` lines no wider than `room`, broken at spaces; what is left over is cut.
    pub(crate) fn wrap(self, text: &str, room: f64, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let full = lines.len() == most;
            match lines.last_mut() {
                Some(line) if full || self.width(&format!("{line} {word}")) <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.iter().map(|line| self.fit(line, room)).collect()
    }

    /// Draws the outlines of `text` into `pen`, from the origin to the right, upward negative as on a screen.
    pub(crate) fn outline(self, text: &str, pen: &mut impl OutlineBuilder) {
        let scale = self.scale() as f32;
        let mut x = 0.0;
        for c in text.chars() {
            self.face().outline_glyph(self.glyph(c), &mut Placed { pen, x: x as f32, scale });
            x += self.advance(c);
        }
    }
}

/// Moves a glyph from the font's units, upward positive, to its place in the line.
struct Placed<'a, P> {
    pen: &'a mut P,
    x: f32,
    scale: f32,
}

impl<P: OutlineBuilder> Placed<'_, P> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl<P: OutlineBuilder> OutlineBuilder for Placed<'_, P> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.pen.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.pen.curve_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.pen.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_what_axes_and_formulas_need() {
        for c in "0123456789−×⁻⁰¹²³⁴⁵⁶⁷⁸⁹±≤≥ΔμσΣρ…–%₀₁→∞√é".chars()
        {
            assert_ne!(Font::LABEL.glyph(c), GlyphId(0), "{c}");
            assert_ne!(Font::TITLE.glyph(c), GlyphId(0), "{c}");
        }
    }

    #[test]
    fn a_long_text_is_cut_to_the_room_it_has() {
        let font = Font::LABEL;
        assert_eq!(font.fit("short", 100.0), "short");
        let cut = font.fit(&"word ".repeat(40), 100.0);
        assert!(cut.ends_with('…') && font.width(&cut) <= 100.0);
    }

    #[test]
    fn lines_are_no_wider_than_the_room_and_no_more_than_allowed() {
        let font = Font::TITLE;
        let lines = font.wrap("a fairly long title that will not fit into one line of the chart", 200.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| font.width(line) <= 200.0));
        assert!(font.wrap("  ", 200.0, 2).is_empty());
    }
}
