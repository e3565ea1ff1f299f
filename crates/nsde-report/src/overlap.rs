//! A test of the layout: no words on other words, none off the page, whatever the data.

use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::Layer;
use crate::plot::Plot;
use crate::scene::{Anchor, Mark};
use crate::theme::Ink;
use crate::{BarSeries, Bars, LineSeries, Lines, bars, lines};

/// The rectangle words fill, as left, top, right and bottom; words that are turned by a slant are left out.
fn boxes(chart: &Chart) -> Vec<(String, [f64; 4])> {
    let mut found = Vec::new();
    for mark in &chart.marks {
        let Mark::Text { at: [x, y], content, font, anchor, turn, .. } = mark else { continue };
        let width = font.width(content);
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -0.5 * width,
            Anchor::End => -width,
        };
        // Letters reach three quarters of their size above the line and a fifth below.
        let (up, down) = (0.75 * font.size, 0.2 * font.size);
        if *turn == 0.0 {
            found.push((content.clone(), [x + start, y - up, x + start + width, y + down]));
        } else if *turn == -90.0 {
            found.push((content.clone(), [x - up, y - start - width, x + down, y - start]));
        }
    }
    found
}

#[track_caller]
fn assert_tidy(chart: &Chart) {
    let [width, height] = chart.size;
    let boxes = boxes(chart);
    for (i, (word, a)) in boxes.iter().enumerate() {
        let inside = a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= width && a[3] <= height;
        assert!(inside, "{word:?} at {a:?} leaves the page of {width} × {height}");
        for (other, b) in &boxes[i + 1..] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{word:?} at {a:?} covers {other:?} at {b:?}");
        }
    }
}

/// Spans from the ordinary to the absurd.
fn spans() -> Vec<[f64; 2]> {
    let mut spans =
        vec![[0.0, 0.0], [1e9, 1e9 + 1.0], [-1e300, 1e300], [99.0, 101.0], [-0.001, 0.0], [1e-7, 1.0]];
    for power in -12..=12 {
        for factor in [1.0, 1.7, 3.3, 9.9] {
            let size = factor * 10f64.powi(power);
            spans.extend([[0.0, size], [-size, size], [size, 1.01 * size], [size, 100.0 * size]]);
        }
    }
    spans
}

fn diagonal(x: [f64; 2], y: [f64; 2], log: [bool; 2], equal: bool) -> Chart {
    let axis = |label: &str, log| Axis { log, ..Axis::new(label) };
    Plot {
        name: "test",
        title: "A title that is long enough to need more than the one line that most titles need".into(),
        note: Some("A note".into()),
        x: axis("a label of the horizontal axis that is rather long, and longer than it should be", log[0]),
        y: axis("a label of the vertical axis, rather long", log[1]),
        layers: vec![Layer::line(&x, &y, Ink::Series(0)).label("line")],
        height: 230.0,
        equal,
    }
    .draw()
}

#[test]
fn words_stay_apart_over_all_spans() {
    for span in spans() {
        assert_tidy(&diagonal(span, [0.0, 1.0], [false, false], false));
        assert_tidy(&diagonal([0.0, 1.0], span, [false, false], false));
        assert_tidy(&diagonal(span, span, [true, true], false));
        assert_tidy(&diagonal(span, [0.0, 10.0], [false, false], true));
    }
}

#[test]
fn a_crowded_legend_stays_tidy() {
    let name = |i: usize| format!("method {i} {}", "with a longer name ".repeat(i % 6));
    let series = (0..60).map(|i| LineSeries::new(name(i), vec![0.0, 1.0], vec![0.0, i as f64])).collect();
    let chart = lines(&Lines { series, x_label: "x".into(), y_label: "y".into(), ..Lines::default() });
    assert_tidy(&chart);
    assert!(chart.size[1] < 1200.0, "{:?}", chart.size);
    assert!(boxes(&chart).iter().any(|(word, _)| word == "and 36 more"));
}

#[test]
fn categories_are_upright_wrapped_or_turned_but_never_on_each_other() {
    let tidy = |names: &[&str]| {
        let categories: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        let series = vec![BarSeries::new("a", vec![1.0; names.len()])];
        let chart = bars(&Bars { categories, series, y_label: "value".into(), ..Bars::default() });
        assert_tidy(&chart);
        let turned = |m: &&Mark| matches!(m, Mark::Text { turn, .. } if *turn != 0.0 && *turn != -90.0);
        chart.marks.iter().filter(turned).count()
    };
    assert_eq!(tidy(&["a", "b", "c"]), 0);
    assert_eq!(tidy(&["boston housing", "naval propulsion", "power plant"]), 0);
    assert_eq!(tidy(&["incomprehensibilities"; 8]), 8);
    assert_eq!(tidy(&["a very long name of a data set that nobody remembers"; 3]), 3);
    let crowd = tidy(&["crowded"; 100]);
    assert!((5..40).contains(&crowd), "{crowd}");
    assert_eq!(tidy(&[]), 0);
}
