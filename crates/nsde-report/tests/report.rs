//! A report is one sound file, and its charts are others.

mod common;

use std::fs;

use nsde_report::*;
use roxmltree::{Document, Node, ParsingOptions};

fn chart() -> Chart {
    let series = vec![LineSeries::new("a & b", vec![1.0, 2.0], vec![3.0, 4.0])];
    lines(&Lines {
        title: "Chart <1>".into(),
        x_label: "x".into(),
        y_label: "y".into(),
        series,
        ..Lines::default()
    })
}

fn report() -> Report {
    let table = Table {
        caption: "Scores < 1".into(),
        header: vec!["method".into(), "NLL".into()],
        rows: vec![vec!["<BMM>".into(), "−1.5".into()], vec!["MC".into(), "12".into()], vec!["short".into()]],
    };
    let section = |heading: &str| Section {
        heading: heading.into(),
        paragraphs: vec!["5 < 6 & \"7\"".into()],
        charts: vec![(chart(), "A caption with <em>.".into()), (chart(), String::new())],
        tables: vec![table.clone(), Table::default()],
    };
    Report {
        title: "Report <script>alert(1)</script>".into(),
        subtitle: "it's \"quoted\"".into(),
        sections: vec![section("One </h2>"), section("Two"), section("Three")],
    }
}

/// The page is written so that a reader of XML understands it as well; that proves every tag is closed.
fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options).unwrap_or_else(|e| panic!("{e}"))
}

fn texts(document: &Document, tag: &str) -> Vec<String> {
    let nodes = document.descendants().filter(|n| n.tag_name().name() == tag);
    nodes.map(|n| n.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_page_shows_all_words_as_they_were_given() {
    let html = report().html();
    let page = parse(&html);
    assert_eq!(texts(&page, "h1"), ["Report <script>alert(1)</script>"]);
    assert_eq!(texts(&page, "h2"), ["One </h2>", "Two", "Three"]);
    assert_eq!(texts(&page, "p"), ["it's \"quoted\"", "5 < 6 & \"7\"", "5 < 6 & \"7\"", "5 < 6 & \"7\""]);
    assert_eq!(texts(&page, "figcaption"), ["A caption with <em>."; 3]);
    assert_eq!(texts(&page, "caption"), ["Scores < 1"; 3]);
    assert_eq!(texts(&page, "td")[..6], ["<BMM>", "−1.5", "MC", "12", "short", ""]);
    assert_eq!(texts(&page, "a"), ["One </h2>", "Two", "Three"]);
    assert!(!html.contains("<script") && !html.contains("<em>"));
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let html = report().html();
    let page = parse(&html);
    for node in page.descendants().filter(Node::is_element) {
        assert!(!["script", "img", "iframe", "object"].contains(&node.tag_name().name()));
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on") && attribute.name() != "src");
            let local = attribute.value().starts_with('#') || attribute.value().starts_with("data:");
            assert!(attribute.name() != "href" || local, "{}", attribute.value());
        }
    }
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("url("));
    assert!(!html.contains("@import"));
}

#[test]
fn both_themes_and_the_phone_are_served_by_the_style_sheet() {
    let html = report().html();
    assert!(html.contains("prefers-color-scheme:dark") && html.contains("@media print"));
    assert!(html.contains("width=device-width"));
    let page = parse(&html);
    let pictures: Vec<_> = page.descendants().filter(|n| n.tag_name().name() == "figure").collect();
    assert_eq!(pictures.len(), 6);
    for picture in pictures {
        let svg = picture.children().find(|n| n.tag_name().name() == "svg").expect("a picture");
        assert!(svg.attribute("viewBox").is_some() && svg.attribute("width").is_none());
        assert_eq!(svg.attribute("aria-label"), Some("Chart <1>. y against x. Shown: a & b."));
        // No mark has a colour of its own: all follow the page.
        let painted = svg.descendants().filter(Node::is_element).filter(|n| n.tag_name().name() != "svg");
        for mark in painted {
            assert!(mark.attribute("style").is_some_and(|s| s.contains("var(--")), "{mark:?}");
            assert!(mark.attribute("fill").is_none() && mark.attribute("stroke").is_none());
        }
    }
    // Every colour that is used is defined, once per theme.
    let uses = html.split("var(").skip(1).filter_map(|rest| rest.split(')').next());
    for property in uses {
        assert_eq!(html.matches(&format!("{property}:#")).count(), 2, "{property}");
    }
}

#[test]
fn tables_scroll_in_their_own_box_and_set_numbers_to_the_right() {
    let html = report().html();
    let page = parse(&html);
    let tables: Vec<_> = page.descendants().filter(|n| n.tag_name().name() == "table").collect();
    assert_eq!(tables.len(), 6);
    assert!(tables.iter().all(|t| t.parent().and_then(|p| p.attribute("class")) == Some("scroll")));
    let cells = tables[0].descendants().filter(|n| n.tag_name().name() == "td");
    let classes: Vec<_> = cells.map(|n| n.attribute("class")).collect();
    assert_eq!(classes, [None, Some("number"), None, Some("number"), None, Some("number")]);
}

#[test]
fn files_are_written_under_distinct_names() {
    let dir = tempfile::tempdir().unwrap();
    let report = report();
    report.write_html(dir.path().join("report.html")).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("report.html")).unwrap(), report.html());

    let charts = dir.path().join("deep/charts");
    let names = report.write_charts(&charts).unwrap();
    assert_eq!(names, ["lines", "lines-2", "lines-3", "lines-4", "lines-5", "lines-6"]);
    for name in &names {
        let svg = fs::read_to_string(charts.join(format!("{name}.svg"))).unwrap();
        Document::parse(&svg).unwrap();
        let png = fs::read(charts.join(format!("{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
    assert_eq!(fs::read_dir(&charts).unwrap().count(), 12, "no temporary file is left");
    common::check(&report.sections[0].charts[0].0);
}

#[test]
fn an_empty_report_is_a_page_too() {
    let html = Report::default().html();
    assert!(parse(&html).descendants().any(|n| n.tag_name().name() == "main"));
}

#[test]
fn a_failure_says_which_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = Report::default().write_html(dir.path().join("missing/report.html")).unwrap_err();
    assert!(error.to_string().contains("report.html"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    fs::write(dir.path().join("file"), "x").unwrap();
    assert!(report().write_charts(dir.path().join("file")).is_err());
}
