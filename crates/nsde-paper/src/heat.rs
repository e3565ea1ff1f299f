//! A square matrix as a picture: a coloured cell per entry, white at zero, blue above and red below.
//!
//! The picture has no words; whoever shows it says in its caption what the darkest colour means.

use anyhow::{Context, Result};
use tiny_skia::{Color, Paint, Pixmap, Rect, Transform};

/// Width and height of the picture.
const SIZE: f32 = 480.0;
/// Pixels per unit of it in a PNG.
const SCALE: f32 = 2.0;
const BLUE: [f64; 3] = [0.0, 68.0, 136.0];
const RED: [f64; 3] = [160.0, 40.0, 20.0];

/// A matrix `[n, n]` with lines after some of its rows and columns, which part it into blocks.
pub struct Heat<'a> {
    /// Entries, row by row.
    pub values: &'a [f64],
    /// Number of rows.
    pub n: usize,
    /// Places of the lines.
    pub blocks: &'a [usize],
}

/// A rectangle `[left, top, width, height]` and its colour.
type Patch = ([f32; 4], [u8; 3]);

impl Heat<'_> {
    fn patches(&self) -> Vec<Patch> {
        let top = self.values.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let side = SIZE / self.n as f32;
        let mut all = vec![([0.0, 0.0, SIZE, SIZE], [255; 3])];
        for (k, value) in self.values.iter().enumerate() {
            let share = if top > 0.0 { value / top } else { 0.0 };
            let full = if share < 0.0 { RED } else { BLUE };
            let colour = full.map(|c| (255.0 + (c - 255.0) * share.abs()).round() as u8);
            let (row, column) = ((k / self.n) as f32, (k % self.n) as f32);
            all.push(([column * side, row * side, side, side], colour));
        }
        // The lines of the blocks, and the rim.
        for block in self.blocks.iter().chain([&0, &self.n]) {
            let at = (*block as f32 * side - 0.75).clamp(0.0, SIZE - 1.5);
            all.push(([at, 0.0, 1.5, SIZE], [0; 3]));
            all.push(([0.0, at, SIZE, 1.5], [0; 3]));
        }
        all
    }

    /// The picture as an SVG document; `about` says in words what it shows.
    pub fn svg(&self, about: &str) -> String {
        let escaped = about.replace('&', "&amp;").replace('<', "&lt;");
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" width=\"{SIZE}\" \
             height=\"{SIZE}\" role=\"img\" shape-rendering=\"crispEdges\">\n<title>{escaped}</title>\n"
        );
        for ([x, y, w, h], [r, g, b]) in self.patches() {
            text += &format!(
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>\n"
            );
        }
        text + "</svg>\n"
    }

    /// The picture as the bytes of a PNG file.
    pub fn png(&self) -> Result<Vec<u8>> {
        let pixels = (SIZE * SCALE) as u32;
        let mut canvas = Pixmap::new(pixels, pixels).context("a picture has a size")?;
        let mut paint = Paint { anti_alias: false, ..Paint::default() };
        for ([x, y, w, h], [r, g, b]) in self.patches() {
            paint.set_color(Color::from_rgba8(r, g, b, 255));
            let rect = Rect::from_xywh(x, y, w, h).context("a patch has a size")?;
            canvas.fill_rect(rect, &paint, Transform::from_scale(SCALE, SCALE), None);
        }
        Ok(canvas.encode_png()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_entry_is_darkest_and_zero_is_white() {
        let heat = Heat { values: &[2.0, 0.0, -1.0, 1.0], n: 2, blocks: &[1] };
        let patches = heat.patches();
        assert_eq!(patches[1].1, [0, 68, 136]);
        assert_eq!(patches[2].1, [255; 3]);
        assert!(patches[3].1[0] > patches[3].1[2]);
        assert_eq!(patches.len(), 1 + 4 + 6);
        assert!(heat.png().unwrap().starts_with(b"\x89PNG"));
        assert_eq!(heat.svg("a < b").matches("<rect").count(), 11);
    }
}
