//! The report: sections of words, charts and tables.

use std::collections::HashSet;
use std::path::Path;

use crate::chart::Chart;
use crate::file::{self, Error};
use crate::html;
use crate::theme::Theme;

/// A report, written as one self-contained HTML file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The title of the page.
    pub title: String,
    /// A line under the title; may be empty.
    pub subtitle: String,
    /// The sections, in reading order.
    pub sections: Vec<Section>,
}

/// One part of a report. All words are plain text; nothing in them is taken for markup.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Paragraphs of text.
    pub paragraphs: Vec<String>,
    /// Charts, each with a caption (which may be empty).
    pub charts: Vec<(Chart, String)>,
    /// Tables, after the charts.
    pub tables: Vec<Table>,
}

/// A table of text. Columns of numbers are set to the right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Words above the table; may be empty.
    pub caption: String,
    /// The heads of the columns.
    pub header: Vec<String>,
    /// The rows; a short one is filled with empty cells.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// The page: style and pictures inline, no script, nothing fetched.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Writes [`html`](Report::html) to a file, whole or not at all.
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        file::write(path.as_ref(), self.html().as_bytes())
    }

    /// Writes every chart as `NAME.svg` and `NAME.png` (light theme) into `dir`, created where missing.
    ///
    /// A name that occurs again gets a number: `fan-chart`, `fan-chart-2`. Returns the names in reading order.
    pub fn write_charts(&self, dir: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let dir = dir.as_ref();
        file::folder(dir)?;
        let charts: Vec<&Chart> =
            self.sections.iter().flat_map(|s| &s.charts).map(|(chart, _)| chart).collect();
        let names = distinct(charts.iter().map(|c| c.name()));
        for (chart, name) in charts.iter().zip(&names) {
            chart.write_svg(dir.join(format!("{name}.svg")), Theme::Light)?;
            chart.write_png(dir.join(format!("{name}.png")), Theme::Light)?;
        }
        Ok(names)
    }
}

/// `names`, numbered where one occurs again.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let free = |name: &str| {
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        candidates.find(|name| taken.insert(name.clone())).expect("numbers do not end")
    };
    names.map(free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_occur_again_are_numbered() {
        assert_eq!(distinct(["a", "b", "a", "a-2", "a"].into_iter()), ["a", "b", "a-2", "a-2-2", "a-3"]);
    }
}
