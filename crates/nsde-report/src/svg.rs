//! SVG: the marks of a picture as text.

use std::fmt::{self, Display, Write};

use crate::scene::{Anchor, Fill, Mark, Point, Stroke};
use crate::theme::{Ink, Theme};

/// Families tried in turn; the metrics the layout was made with are the widest of them.
const FAMILY: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif";

/// Where the colours come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Palette {
    /// Written out, for a file of its own.
    Fixed(Theme),
    /// Left to the style sheet of the page the picture stands in.
    Page,
}

/// The whole picture. `alt` is what a screen reader says.
pub(crate) fn document(marks: &[Mark], size: [f64; 2], alt: &str, palette: Palette) -> String {
    let [w, h] = size.map(Number);
    let mut out = String::new();
    let alt = Escaped(alt);
    out.push_str("<svg ");
    if let Palette::Fixed(_) = palette {
        write!(out, "xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" ").expect("string");
    }
    write!(out, "viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{alt}\" font-family=\"{FAMILY}\">")
        .expect("string");
    let mut writer = Writer { out, palette };
    if let Palette::Fixed(_) = palette {
        write!(writer.out, "<title>{alt}</title>").expect("string");
        let fill = Some(Fill { ink: Ink::Surface, opacity: 1.0 });
        writer.mark(&Mark::Rect { class: "page", corner: [0.0; 2], size, stroke: None, fill });
    }
    for mark in marks {
        writer.mark(mark);
    }
    writer.out.push_str("</svg>\n");
    writer.out
}

struct Writer {
    out: String,
    palette: Palette,
}

impl Writer {
    fn mark(&mut self, mark: &Mark) {
        self.try_mark(mark).expect("writing to a string cannot fail");
    }

    fn try_mark(&mut self, mark: &Mark) -> fmt::Result {
        match mark {
            Mark::Path { class, lines, closed, stroke, fill } => {
                write!(self.out, "<path class=\"{class}\" d=\"")?;
                for line in lines {
                    self.polyline(line, *closed)?;
                }
                self.out.push('"');
                self.paint(*stroke, *fill)?;
                self.out.push_str("/>\n");
            }
            Mark::Circle { class, centre: [x, y], radius, stroke, fill } => {
                let (x, y, r) = (Number(*x), Number(*y), Number(*radius));
                write!(self.out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"")?;
                self.paint(*stroke, *fill)?;
                self.out.push_str("/>\n");
            }
            Mark::Rect { class, corner, size, stroke, fill } => {
                write!(self.out, "<rect class=\"{class}\" {}", Frame(*corner, *size))?;
                self.paint(*stroke, *fill)?;
                self.out.push_str("/>\n");
            }
            Mark::Text { at: [x, y], content, font, ink, anchor, turn } => {
                let (x, y, size) = (Number(*x), Number(*y), Number(font.size));
                write!(self.out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"")?;
                if font.bold {
                    self.out.push_str(" font-weight=\"700\"");
                }
                match anchor {
                    Anchor::Start => {}
                    Anchor::Middle => self.out.push_str(" text-anchor=\"middle\""),
                    Anchor::End => self.out.push_str(" text-anchor=\"end\""),
                }
                if *turn != 0.0 {
                    write!(self.out, " transform=\"rotate({} {x} {y})\"", Number(*turn))?;
                }
                self.colour("fill", Some(*ink))?;
                writeln!(self.out, ">{}</text>", Escaped(content))?;
            }
            // A nested svg cuts at its frame, and unlike a clip path needs no name that is unique in the page.
            Mark::Clip { corner, size, marks } => {
                let [x, y] = corner.map(Number);
                let [w, h] = size.map(Number);
                writeln!(self.out, "<svg {} viewBox=\"{x} {y} {w} {h}\">", Frame(*corner, *size))?;
                for mark in marks {
                    self.try_mark(mark)?;
                }
                self.out.push_str("</svg>\n");
            }
        }
        Ok(())
    }

    fn polyline(&mut self, line: &[Point], closed: bool) -> fmt::Result {
        for (i, &[x, y]) in line.iter().enumerate() {
            let pen = if i == 0 { 'M' } else { 'L' };
            write!(self.out, "{pen}{} {}", Number(x), Number(y))?;
        }
        if closed {
            self.out.push('Z');
        }
        Ok(())
    }

    fn paint(&mut self, stroke: Option<Stroke>, fill: Option<Fill>) -> fmt::Result {
        if let Some(Fill { opacity, .. }) = fill
            && opacity < 1.0
        {
            write!(self.out, " fill-opacity=\"{}\"", Number(opacity))?;
        }
        if let Some(Stroke { width, dash, .. }) = stroke {
            let width = Number(width);
            write!(self.out, " stroke-width=\"{width}\" stroke-linejoin=\"round\"")?;
            if dash.is_empty() {
                self.out.push_str(" stroke-linecap=\"round\"");
            } else {
                let dash: Vec<_> = dash.iter().map(|&d| Number(d).to_string()).collect();
                write!(self.out, " stroke-dasharray=\"{}\"", dash.join(" "))?;
            }
        }
        match self.palette {
            Palette::Fixed(_) => {
                self.colour("fill", fill.map(|f| f.ink))?;
                if let Some(stroke) = stroke {
                    self.colour("stroke", Some(stroke.ink))?;
                }
                Ok(())
            }
            Palette::Page => {
                self.out.push_str(" style=\"");
                match fill {
                    Some(fill) => write!(self.out, "fill:var({})", fill.ink.property())?,
                    None => self.out.push_str("fill:none"),
                }
                if let Some(stroke) = stroke {
                    write!(self.out, ";stroke:var({})", stroke.ink.property())?;
                }
                self.out.push('"');
                Ok(())
            }
        }
    }

    fn colour(&mut self, what: &str, ink: Option<Ink>) -> fmt::Result {
        match (ink, self.palette) {
            (None, _) => write!(self.out, " {what}=\"none\""),
            (Some(ink), Palette::Fixed(theme)) => write!(self.out, " {what}=\"{}\"", theme.hex(ink)),
            (Some(ink), Palette::Page) => write!(self.out, " style=\"{what}:var({})\"", ink.property()),
        }
    }
}

/// A coordinate: two decimals at most, none where none are needed.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        // Adding zero turns a negative zero into a positive one.
        write!(f, "{}", rounded + 0.0)
    }
}

/// Place and size of a rectangle, as attributes.
struct Frame(Point, [f64; 2]);

impl Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [x, y] = self.0.map(Number);
        let [w, h] = self.1.map(Number);
        write!(f, "x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"")
    }
}

/// Text that may stand between tags and between quotes, in XML and HTML alike.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                // XML has no way at all to write these.
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        let shown: Vec<_> = [1.0, 1.2345, -0.001, 100.0, 0.1 + 0.2].map(|v| Number(v).to_string()).into();
        assert_eq!(shown, ["1", "1.23", "0", "100", "0.3"]);
    }

    #[test]
    fn markup_in_a_text_becomes_text() {
        let shown = Escaped("<b a=\"1\" b='2'>&\u{0}\n").to_string();
        assert_eq!(shown, "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\u{fffd} ");
    }
}
