//! Data that nobody would draw on purpose still give a sound picture.

mod common;

use common::{check, check_svg, words};
use nsde_report::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Empty, single, equal, broken, huge, tiny, far away, unsorted and merely odd series.
fn nasty() -> Vec<Vec<f64>> {
    vec![
        vec![],
        vec![0.0],
        vec![7.0],
        vec![NAN],
        vec![NAN; 5],
        vec![3.0; 6],
        vec![0.0; 6],
        vec![-4.0; 3],
        vec![1.0, NAN, 2.0, NAN, 3.0],
        vec![INF, 1.0, -INF, 2.0],
        vec![1e308, -1e308, 1e308],
        vec![f64::MAX, f64::MIN],
        vec![1e-320, 2e-320, 3e-320],
        vec![f64::MIN_POSITIVE, 1.0],
        vec![1e-300, 1e300, 1.0],
        vec![1e15, 1e15 + 1.0, 1e15 + 2.0],
        vec![1.0, 1.0 + f64::EPSILON],
        vec![-1e-9, 0.0, 1e-9],
        vec![5.0, 1.0, 4.0, 2.0],
        (0..1600).map(|i| f64::from(i).sin() * 1e6).collect(),
    ]
}

#[track_caller]
fn check_all(draw: impl Fn(&[f64], &[f64]) -> Chart) {
    let steps: Vec<f64> = (0..1600).map(f64::from).collect();
    for values in nasty() {
        check(&draw(&steps[..values.len()], &values));
    }
    for odd in nasty().iter().filter(|v| v.len() < 10) {
        check_svg(&draw(odd, &[1.0, 2.0, 3.0, NAN, 5.0]));
    }
}

#[test]
fn loss_curves_survive() {
    check_all(|x, y| {
        let (steps, training, validation) = (x.to_vec(), y.to_vec(), y.iter().rev().copied().collect());
        loss_curves(&LossCurves { steps, training, validation, best: Some(99), ..LossCurves::default() })
    });
}

#[test]
fn fan_charts_survive() {
    check_all(|x, y| {
        let (time, mean) = (x.to_vec(), y.to_vec());
        let trace = Trace { time: time.clone(), value: mean.clone() };
        let upper = y.iter().map(|v| v + v.abs()).collect();
        let band = Band { level: NAN, lower: mean.clone(), upper };
        let bands = vec![band.clone(), Band { level: 0.5, ..band }];
        let (begin, paths) = (x.first().copied(), vec![trace.clone(), Trace::default()]);
        fan_chart(&FanChart { truth: trace, time, mean, bands, begin, paths, ..FanChart::default() })
    });
}

#[test]
fn calibration_charts_survive() {
    check_all(|x, y| {
        let (nominal, empirical) = (x.to_vec(), y.to_vec());
        let curve = Calibration { nominal, empirical, ecpe: y.first().copied(), ..Calibration::default() };
        calibration_curve(&CalibrationCurve { curves: vec![curve], ..CalibrationCurve::default() })
    });
    check_all(|_, y| pit_histogram(&PitHistogram { counts: y.to_vec(), ..PitHistogram::default() }));
    check_all(|x, y| {
        pit_histogram(&PitHistogram { independent: x.first().copied(), ..PitHistogram::from_values(y, 7) })
    });
    check_all(|x, y| {
        let (steps, coverage) = (x.to_vec(), vec![(0.5, y.to_vec()), (NAN, vec![])]);
        coverage_over_horizon(&CoverageOverHorizon { steps, coverage, ..CoverageOverHorizon::default() })
    });
}

#[test]
fn error_and_phase_charts_survive() {
    check_all(|x, y| {
        let series = vec![LineSeries::new("", x.to_vec(), y.to_vec())];
        let floor = Some((String::new(), y.to_vec()));
        error_over_horizon(&ErrorOverHorizon { series, floor, ..ErrorOverHorizon::default() })
    });
    for equal_axes in [false, true] {
        check_all(|x, y| {
            let path = (x.to_vec(), y.to_vec());
            let (truth, mean, ellipses) = (path.clone(), path.clone(), vec![path.clone(), path]);
            phase_portrait(&PhasePortrait { truth, mean, ellipses, equal_axes, ..PhasePortrait::default() })
        });
    }
}

#[test]
fn bars_and_lines_survive() {
    for log in [false, true] {
        check_all(|x, y| {
            let series = vec![LineSeries::new("", x.to_vec(), y.to_vec()).with_error(y)];
            let levels = vec![(String::new(), y.first().copied().unwrap_or(NAN))];
            lines(&Lines { x_log: log, y_log: log, series, levels, ..Lines::default() })
        });
        check_all(|x, y| {
            let categories = x.iter().take(40).map(|v| v.to_string()).collect();
            let series = vec![BarSeries::new("", y.to_vec()).with_error(y), BarSeries::default()];
            bars(&Bars { categories, y_log: log, series, ..Bars::default() })
        });
    }
    for range in [[NAN, 1.0], [2.0, 1.0], [1.0, 1.0], [-INF, INF], [0.0, 1e-300], [-1e308, 1e308]] {
        let series = vec![LineSeries::new("", vec![1.0, 2.0], vec![1.0, 2.0])];
        let (x_range, y_range) = (Some(range), Some(range));
        check(&lines(&Lines { x_range, y_range, series, ..Lines::default() }));
    }
}

#[test]
fn without_data_a_chart_says_so() {
    let charts = [
        loss_curves(&LossCurves::default()),
        fan_chart(&FanChart::default()),
        pit_histogram(&PitHistogram::default()),
        coverage_over_horizon(&CoverageOverHorizon::default()),
        error_over_horizon(&ErrorOverHorizon::default()),
        phase_portrait(&PhasePortrait::default()),
        bars(&Bars::default()),
        lines(&Lines::default()),
    ];
    for chart in charts {
        assert!(words(&chart).contains(&"no data".to_owned()), "{}", chart.name());
    }
}
