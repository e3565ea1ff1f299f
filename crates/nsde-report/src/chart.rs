//! A chart: one finished picture with a name, in two themes and two formats.

use std::path::Path;

use crate::file::{self, Error};
use crate::scene::Mark;
use crate::svg::Palette;
use crate::theme::Theme;
use crate::{png, svg};

/// A finished picture. Made by the functions of this crate, such as [`fan_chart`](crate::fan_chart).
///
/// ```
/// use nsde_report::{LossCurves, Theme, loss_curves};
///
/// let chart = loss_curves(&LossCurves {
///     steps: vec![1.0, 2.0, 3.0],
///     training: vec![2.0, 1.2, 0.9],
///     validation: vec![2.1, 1.4, 1.5],
///     ..LossCurves::default()
/// });
/// assert_eq!(chart.name(), "loss-curves");
/// assert!(chart.svg(Theme::Dark).starts_with("<svg"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) name: String,
    pub(crate) title: String,
    /// What the picture shows, in words.
    pub(crate) alt: String,
    pub(crate) size: [f64; 2],
    pub(crate) marks: Vec<Mark>,
}

impl Chart {
    /// The name its files have, of lower-case letters, digits and hyphens.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words above the picture.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Width and height in units of the page: 480 wide, with letters of 14.
    pub fn size(&self) -> [f64; 2] {
        self.size
    }

    /// The same chart under another name; whatever is no letter or digit becomes a hyphen.
    pub fn named(self, name: &str) -> Chart {
        Chart { name: slug(name), ..self }
    }

    /// A self-contained SVG document with a background.
    pub fn svg(&self, theme: Theme) -> String {
        svg::document(&self.marks, self.size, &self.alt, Palette::Fixed(theme))
    }

    /// The bytes of a PNG file, 1440 pixels wide.
    pub fn png(&self, theme: Theme) -> Vec<u8> {
        png::encode(&self.marks, self.size, theme)
    }

    /// Writes [`svg`](Chart::svg) to a file, whole or not at all.
    pub fn write_svg(&self, path: impl AsRef<Path>, theme: Theme) -> Result<(), Error> {
        file::write(path.as_ref(), self.svg(theme).as_bytes())
    }

    /// Writes [`png`](Chart::png) to a file, whole or not at all.
    pub fn write_png(&self, path: impl AsRef<Path>, theme: Theme) -> Result<(), Error> {
        file::write(path.as_ref(), &self.png(theme))
    }

    /// An `svg` element that takes its colours from the page around it.
    pub(crate) fn inline(&self) -> String {
        svg::document(&self.marks, self.size, &self.alt, Palette::Page)
    }
}

/// Lower-case letters, digits and single hyphens; "chart" if nothing is left.
pub(crate) fn slug(name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    if words.is_empty() { "chart".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_a_file_name() {
        assert_eq!(slug("Fan chart: x₁ / ../Y"), "fan-chart-x-y");
        assert_eq!(slug("…"), "chart");
    }
}
