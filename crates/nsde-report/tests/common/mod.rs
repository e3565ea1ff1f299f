//! What the tests of pictures share: a reader of SVG that trusts nothing.

use nsde_report::{Chart, Theme};
use roxmltree::{Document, Node};

/// Checks that the SVG is sound and the PNG not empty.
#[track_caller]
pub fn check(chart: &Chart) {
    check_svg(chart);
    check_png(chart);
}

/// Parses the SVG of a chart in both themes, and checks every coordinate.
#[track_caller]
pub fn check_svg(chart: &Chart) {
    for theme in [Theme::Light, Theme::Dark] {
        let svg = chart.svg(theme);
        let document = Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
        for node in document.descendants().filter(Node::is_element) {
            check_numbers(node);
        }
    }
}

/// Decodes the PNG and counts what is not background. One theme is enough: the other differs in colours only.
#[track_caller]
pub fn check_png(chart: &Chart) {
    let pixels = tiny_skia::Pixmap::decode_png(&chart.png(Theme::Dark)).expect("a PNG");
    assert_eq!(pixels.width(), 1440);
    assert_eq!(pixels.height(), (3.0 * chart.size()[1]) as u32);
    let first = pixels.pixels()[0];
    let inked = pixels.pixels().iter().filter(|p| **p != first).count();
    assert!(inked > 1000, "only {inked} pixels of {} are inked", chart.name());
}

#[track_caller]
fn check_numbers(node: Node) {
    let geometry =
        ["x", "y", "cx", "cy", "r", "width", "height", "d", "viewBox", "transform", "stroke-dasharray"];
    for attribute in node.attributes().filter(|a| geometry.contains(&a.name())) {
        let value = attribute.value();
        let words = value.split(|c: char| c.is_whitespace() || "MLZ(),".contains(c));
        for word in words.filter(|w| !w.is_empty() && *w != "rotate") {
            let number: f64 = word.parse().unwrap_or_else(|_| panic!("{word:?} in {value}"));
            assert!(number.is_finite() && number.abs() <= 20_000.0, "{number} in {value}");
            let size = ["width", "height", "r"].contains(&attribute.name());
            assert!(!size || number >= 0.0, "{} of {number}", attribute.name());
        }
    }
}

/// How many marks of a class the chart has.
#[allow(dead_code)]
pub fn count(chart: &Chart, class: &str) -> usize {
    let svg = chart.svg(Theme::Light);
    let document = Document::parse(&svg).expect("well-formed");
    document.descendants().filter(|n| n.attribute("class") == Some(class)).count()
}

/// How many separate lines all paths of a class have together.
#[allow(dead_code)]
pub fn pieces(chart: &Chart, class: &str) -> usize {
    let svg = chart.svg(Theme::Light);
    let document = Document::parse(&svg).expect("well-formed");
    let paths = document.descendants().filter(|n| n.attribute("class") == Some(class));
    paths.filter_map(|n| n.attribute("d")).map(|d| d.matches('M').count()).sum()
}

/// All words of the chart.
#[allow(dead_code)]
pub fn words(chart: &Chart) -> Vec<String> {
    let svg = chart.svg(Theme::Light);
    let document = Document::parse(&svg).expect("well-formed");
    let texts = document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts.filter_map(|n| n.text().map(str::to_owned)).collect()
}
