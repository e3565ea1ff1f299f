//! Every chart draws what it was given: so many marks, these words.

mod common;

use common::{check, count, pieces, words};
use nsde_report::*;

fn counted(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

fn has(chart: &Chart, word: &str) -> bool {
    words(chart).iter().any(|w| w == word)
}

#[test]
fn loss_curves_mark_the_best() {
    let data = LossCurves {
        steps: counted(5),
        training: vec![5.0, 3.0, 2.0, 1.0, 0.5],
        validation: vec![5.0, f64::NAN, 2.0, 1.5, 1.75],
        ..LossCurves::default()
    };
    let chart = loss_curves(&data);
    check(&chart);
    assert_eq!(count(&chart, "line"), 2);
    assert_eq!(count(&chart, "point"), 5 + 4 + 1);
    assert!(has(&chart, "best: 1.50 at epoch 3"), "{:?}", words(&chart));
    assert!(has(&chart, "loss") && has(&chart, "epoch"));
    let given = loss_curves(&LossCurves { best: Some(4), x_label: "step".into(), ..data });
    assert!(has(&given, "best: 1.75 at step 4"), "{:?}", words(&given));
}

#[test]
fn losses_get_a_log_axis_only_if_positive_over_two_decades() {
    let ticks = |losses: Vec<f64>| {
        let steps = counted(losses.len());
        words(&loss_curves(&LossCurves { steps, training: losses, ..LossCurves::default() }))
    };
    let decades = |w: Vec<String>| ["0.1", "1", "10", "100"].iter().all(|t| w.iter().any(|x| x == t));
    assert!(decades(ticks(vec![100.0, 10.0, 1.0, 0.1])));
    assert!(!decades(ticks(vec![100.0, 10.0, 1.1])));
    assert!(!decades(ticks(vec![100.0, 10.0, 1.0, 0.1, -0.1])));
}

#[test]
fn negative_losses_with_a_burst_are_cut_and_counted() {
    let mut training: Vec<f64> = (0..50).map(|i| -f64::from(i) * 0.02).collect();
    training[0] = 1e6;
    training[1] = 5e3;
    let chart = loss_curves(&LossCurves { steps: counted(50), training, ..LossCurves::default() });
    check(&chart);
    assert!(has(&chart, "2 losses lie above the frame, up to 1.00e6"), "{:?}", words(&chart));
}

#[test]
fn a_fan_has_bands_mean_truth_and_paths() {
    let time = counted(10);
    let band = |level: f64| Band { level, lower: vec![-level; 10], upper: vec![level; 10] };
    let path = Trace { time: time.clone(), value: vec![0.1; 10] };
    let chart = fan_chart(&FanChart {
        truth: Trace { time: counted(20), value: vec![0.5; 20] },
        time,
        mean: vec![0.0; 10],
        bands: vec![band(0.8), band(0.95), band(0.5)],
        begin: Some(2.0),
        paths: vec![path.clone(), path.clone(), path],
        ..FanChart::default()
    });
    check(&chart);
    assert_eq!((count(&chart, "band"), count(&chart, "edge")), (3, 3));
    assert_eq!(count(&chart, "line"), 3 + 1 + 1);
    assert_eq!(count(&chart, "point"), 20);
    assert_eq!(count(&chart, "moment"), 1);
    let legend: Vec<_> = words(&chart).into_iter().skip(1).take(7).collect();
    let expected = ["truth", "forecast mean", "50 %", "80 %", "95 %", "sample paths", "forecast begins"];
    assert_eq!(legend, expected);
}

#[test]
fn a_long_truth_is_a_line_of_bounded_size() {
    let n = 50_000;
    let value = (0..n).map(|i| (i as f64 * 0.37).sin()).collect();
    let chart = fan_chart(&FanChart { truth: Trace { time: counted(n), value }, ..FanChart::default() });
    check(&chart);
    assert_eq!(count(&chart, "point"), 0);
    assert!(chart.svg(Theme::Light).len() < 200_000);
}

#[test]
fn calibration_says_its_error_in_the_title_or_the_legend() {
    let curve = |name: &str| Calibration {
        name: name.into(),
        nominal: vec![0.25, 0.5, 0.75],
        empirical: vec![0.2, 0.5, 0.8],
        ecpe: Some(0.0333),
    };
    let one =
        calibration_curve(&CalibrationCurve { curves: vec![curve("BMM")], ..CalibrationCurve::default() });
    check(&one);
    assert_eq!(one.title(), "Calibration: ECPE 0.0333");
    assert_eq!((count(&one, "line"), count(&one, "point")), (2, 3));
    let two = CalibrationCurve { curves: vec![curve("BMM"), curve("MC")], ..CalibrationCurve::default() };
    let two = calibration_curve(&two);
    assert_eq!(two.title(), "Calibration");
    assert!(has(&two, "MC: ECPE 0.0333"));
}

#[test]
fn a_pit_histogram_has_a_bar_per_bin() {
    let values: Vec<f64> = (0..1000).map(|i| (f64::from(i) + 0.5) / 1000.0).collect();
    let mut data = PitHistogram::from_values(&values, 10);
    data.counts[3] = 0.0;
    let chart = pit_histogram(&data);
    check(&chart);
    assert_eq!((count(&chart, "bar"), count(&chart, "band"), count(&chart, "line")), (10, 1, 3));
    assert!(has(&chart, "uniform") && has(&chart, "density"));
}

#[test]
fn coverage_has_a_nominal_line_per_level() {
    let coverage = [0.5, 0.8, 0.9, 0.95].map(|level| (level, vec![level; 6])).into();
    let data = CoverageOverHorizon { steps: counted(6), coverage, ..CoverageOverHorizon::default() };
    let chart = coverage_over_horizon(&data);
    check(&chart);
    assert_eq!((count(&chart, "line"), count(&chart, "level"), count(&chart, "point")), (4, 4, 24));
    assert!(["50 %", "80 %", "90 %", "95 %", "nominal", "step"].iter().all(|w| has(&chart, w)));
}

#[test]
fn an_error_chart_is_named_after_its_score_and_shows_the_floor() {
    let series = vec![LineSeries::new("BMM", counted(4), vec![0.1, 0.2, 0.3, 0.4])];
    let floor = Some(("noise".into(), vec![0.05]));
    let data = ErrorOverHorizon { series, floor, ..ErrorOverHorizon::default() };
    let chart = error_over_horizon(&data);
    check(&chart);
    assert_eq!((chart.name(), chart.title()), ("rmse-over-horizon", "RMSE over the horizon"));
    assert_eq!((count(&chart, "line"), count(&chart, "level")), (1, 1));
    let floor = Some(("noise".into(), vec![0.05, 0.1, 0.1, 0.1]));
    let per_step = error_over_horizon(&ErrorOverHorizon { floor, score: "NLL".into(), ..data });
    assert_eq!((per_step.name(), count(&per_step, "line")), ("nll-over-horizon", 2));
}

#[test]
fn a_phase_portrait_has_two_paths_and_all_ellipses() {
    let square = (vec![0.0, 1.0, 1.0, 0.0], vec![0.0, 0.0, 1.0, 1.0]);
    let chart = phase_portrait(&PhasePortrait {
        truth: (counted(50), counted(50)),
        mean: (counted(50), vec![3.0; 50]),
        ellipses: vec![square.clone(), square.clone(), square],
        equal_axes: true,
        ..PhasePortrait::default()
    });
    check(&chart);
    assert_eq!((count(&chart, "polygon"), count(&chart, "line"), count(&chart, "point")), (3, 2, 2));
}

#[test]
fn bars_and_lines_have_error_bars_and_levels() {
    let chart = bars(&Bars {
        categories: vec!["a".into(), "b".into(), "c".into()],
        series: vec![
            BarSeries::new("one", vec![1.0, -2.0, 3.0]).with_error(&[0.1, 0.2, 0.3]),
            BarSeries::new("two", vec![1.0, f64::NAN, 3.0]),
        ],
        levels: vec![("chance".into(), 2.0)],
        ..Bars::default()
    });
    check(&chart);
    assert_eq!((count(&chart, "bar"), count(&chart, "error"), count(&chart, "level")), (5, 6, 1));

    let chart = lines(&Lines {
        x_log: true,
        y_log: true,
        series: vec![
            LineSeries::new("one", vec![1.0, 10.0, 100.0], vec![1.0, 2.0, 3.0]).with_error(&[0.5, 0.5, 0.5]),
            LineSeries::new("two", vec![1.0, 10.0, 100.0], vec![1e-3, 0.0, 1e3])
                .with_bounds(vec![5e-4, 0.0, 9e2], vec![2e-3, 1.0, 2e3]),
        ],
        levels: vec![("target".into(), 0.1)],
        ..Lines::default()
    });
    check(&chart);
    // Zero has no place on a log axis: the line breaks into two dots, and one error bar is missing.
    assert_eq!((count(&chart, "line"), count(&chart, "dot"), count(&chart, "error")), (1, 2, 5));
}

#[test]
fn a_given_range_cuts_the_lines() {
    let series = vec![LineSeries::new("", counted(100), counted(100).iter().map(|v| v.exp()).collect())];
    let chart = lines(&Lines { y_range: Some([0.0, 10.0]), series, ..Lines::default() });
    check(&chart);
    assert!(has(&chart, "10") && !words(&chart).iter().any(|w| w.contains('×')));
}

#[test]
fn a_gap_breaks_the_line_and_a_lone_point_becomes_a_dot() {
    let y = vec![1.0, 2.0, f64::NAN, 3.0, f64::INFINITY, 4.0, 5.0, 6.0];
    let chart = lines(&Lines { series: vec![LineSeries::new("", counted(8), y)], ..Lines::default() });
    assert_eq!((count(&chart, "line"), pieces(&chart, "line"), count(&chart, "dot")), (1, 2, 1));
    let gap = vec![0.0, 0.0, f64::NAN, 0.0, 0.0];
    let band = Band { level: 0.5, lower: gap.clone(), upper: vec![1.0; 5] };
    let fan = FanChart { time: counted(5), mean: gap, bands: vec![band], ..FanChart::default() };
    let chart = fan_chart(&fan);
    check(&chart);
    assert_eq!((pieces(&chart, "band"), pieces(&chart, "edge")), (2, 4));
}

#[test]
fn words_from_outside_stay_words() {
    let title = "<script>alert('x')</script> & \"more\"".to_owned();
    let chart = lines(&Lines { title: title.clone(), x_label: "<b>".into(), ..Lines::default() });
    check(&chart);
    assert!(words(&chart).contains(&title));
    assert!(!chart.svg(Theme::Light).contains("<script"));
}
