//! Charts of a model on data: forecasts against the truth, and whether their intervals hold.

use crate::rollout::{Evaluation, Protocol, quantile};
use nsde::Gaussian;
use nsde::data::{Dataset, Series};
use nsde::metric::{Mixture, Summary, chi_squared_quantile};
use nsde::train::Window;
use nsde_report::{
    Band, Calibration, CalibrationCurve, Chart, CoverageOverHorizon, ErrorOverHorizon, FanChart, LineSeries,
    LossCurves, PhasePortrait, PitHistogram, Trace, calibration_curve, coverage_over_horizon,
    error_over_horizon, fan_chart, loss_curves, phase_portrait, pit_histogram,
};
use serde_json::Value;

/// The intervals of a fan chart.
const BANDS: [f64; 3] = [0.5, 0.8, 0.95];
/// The region of a phase portrait.
const REGION: f64 = 0.95;
/// Outlines in a phase portrait.
const ELLIPSES: usize = 6;
/// Points of an outline.
const OUTLINE: usize = 72;
/// Bands wider than this many times the range of the truth are cut.
const WIDEST: f64 = 6.0;
/// Other series with the same start that a fan chart shows.
const PATHS: usize = 6;

/// A window with the laws at its start and at every row after it.
pub(crate) struct Shown {
    pub window: Window,
    pub laws: Vec<Mixture>,
}

impl Shown {
    /// `laws` are those at the target rows.
    pub fn new(window: &Window, laws: &[Mixture]) -> nsde::Result<Self> {
        let start = Mixture::equal(vec![window.start.clone()])?;
        Ok(Shown { window: window.clone(), laws: [start].into_iter().chain(laws.iter().cloned()).collect() })
    }

    /// Rows of the series, the start first.
    fn rows(&self) -> std::ops::Range<usize> {
        self.window.row..self.window.row + self.laws.len()
    }
}

/// What the time axis shows.
pub(crate) fn time_label(data: &Dataset) -> String {
    match (&data.time.column, data.time.unit, &data.time.origin) {
        (_, Some(unit), Some(origin)) => format!("{unit} since {origin}"),
        (Some(column), ..) => column.clone(),
        _ if data.median_spacing() == Some(1.0) => "row".into(),
        _ => "time".into(),
    }
}

/// The other series that start at the same time in the very same state.
pub(crate) fn alike<'a>(
    data: &'a Dataset,
    shown: &Shown,
    how: &Protocol,
) -> impl Iterator<Item = &'a Series> {
    let dim = data.dim();
    let start = move |s: &Series| {
        s.values.iter().take(dim).chain(s.times.first()).map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let (own, from_start) = (shown.window.series, how.from_start && shown.window.row == 0);
    let wanted = start(&data.series[own]);
    let others =
        data.series.iter().enumerate().filter(move |(n, s)| from_start && *n != own && start(s) == wanted);
    others.map(|(_, s)| s)
}

/// One state of one window: the truth, also shortly before, and the forecast.
pub(crate) fn fan(data: &Dataset, shown: &Shown, i: usize, how: &Protocol) -> Chart {
    let (dim, series) = (data.dim(), &data.series[shown.window.series]);
    let rows = shown.rows();
    let before = rows.start.saturating_sub((rows.len() / 3).max(3));
    let trace = |series: &Series, rows: std::ops::Range<usize>| Trace {
        time: series.times[rows.clone()].to_vec(),
        value: rows.map(|row| series.values[row * dim + i]).collect(),
    };
    let of = |f: &dyn Fn(&Mixture) -> f64| shown.laws.iter().map(f).collect::<Vec<f64>>();
    let band = |level: f64| Band {
        level,
        lower: of(&|law| quantile(law, i, 0.5 - 0.5 * level)),
        upper: of(&|law| quantile(law, i, 0.5 + 0.5 * level)),
    };
    // Other series that set out from the very same point show what could have come.
    let paths: Vec<Trace> = alike(data, shown, how).take(PATHS).map(|s| trace(s, 0..s.rows())).collect();
    let name = &data.columns[i];
    let title = if data.series.len() > 1 { format!("{name}, series {}", series.name) } else { name.clone() };
    let truth = trace(series, before..rows.end);
    let bands = BANDS.map(band).to_vec();
    let chart = fan_chart(&FanChart {
        title,
        y_range: cut(&truth, &bands),
        x_label: time_label(data),
        y_label: name.clone(),
        truth,
        time: series.times[rows.clone()].to_vec(),
        mean: of(&|law| law.moments().mean[i]),
        bands,
        begin: (before < rows.start).then_some(series.times[rows.start]),
        paths,
    });
    chart.named(&format!("fan-{name}"))
}

/// Where to cut bands that are so wide that the truth would look flat; none if they fit.
fn cut(truth: &Trace, bands: &[Band]) -> Option<[f64; 2]> {
    let range = |values: &mut dyn Iterator<Item = &f64>| {
        let ends = |[low, high]: [f64; 2], x: &f64| [low.min(*x), high.max(*x)];
        values.filter(|x| x.is_finite()).fold([f64::INFINITY, f64::NEG_INFINITY], ends)
    };
    let [low, high] = range(&mut truth.value.iter());
    let [bottom, top] = range(&mut bands.iter().flat_map(|b| b.lower.iter().chain(&b.upper)));
    let span = high - low;
    let outgrown = span > 0.0 && span.is_finite() && top - bottom > WIDEST * span;
    outgrown.then_some([low - 0.5 * WIDEST * span, high + 0.5 * WIDEST * span])
}

/// Two states of one window in the plane.
pub(crate) fn phase(data: &Dataset, shown: &Shown) -> Chart {
    let (dim, series) = (data.dim(), &data.series[shown.window.series]);
    let truth = |i: usize| shown.rows().map(|row| series.values[row * dim + i]).collect::<Vec<f64>>();
    let laws: Vec<Gaussian> = shown.laws.iter().map(Mixture::moments).collect();
    let mean = |i: usize| laws.iter().map(|law| law.mean[i]).collect::<Vec<f64>>();
    let last = laws.len() - 1;
    // Shares of the golden ratio: even steps may fall on the same phase of a cycle.
    let share = |k: usize| (k as f64 * 0.618_033_988_75).fract();
    let mut steps: Vec<usize> = (1..=ELLIPSES).map(|k| (share(k) * last as f64).ceil() as usize).collect();
    steps.sort_unstable();
    steps.dedup();
    phase_portrait(&PhasePortrait {
        x_label: data.columns[0].clone(),
        y_label: data.columns[1].clone(),
        truth: (truth(0), truth(1)),
        mean: (mean(0), mean(1)),
        ellipses: steps.iter().map(|k| ellipse(&laws[*k])).collect(),
        ellipse_label: format!("{} % region", 100.0 * REGION),
        ..PhasePortrait::default()
    })
}

/// The outline of the region of [`REGION`] of a Gaussian in two dimensions.
fn ellipse(law: &Gaussian) -> (Vec<f64>, Vec<f64>) {
    let radius = chi_squared_quantile(REGION, 2).sqrt();
    let l11 = law.cov[0].max(0.0).sqrt();
    let l21 = if l11 > 0.0 { law.cov[2] / l11 } else { 0.0 };
    let l22 = (law.cov[3] - l21 * l21).max(0.0).sqrt();
    let point = |k: usize| {
        let (s, c) = (std::f64::consts::TAU * k as f64 / OUTLINE as f64).sin_cos();
        (law.mean[0] + radius * l11 * c, law.mean[1] + radius * (l21 * c + l22 * s))
    };
    (0..OUTLINE).map(point).unzip()
}

/// Loss over the steps of training, as its history tells it.
pub(crate) fn losses(history: &[Value], score: &str, best: Option<f64>) -> Chart {
    let of = |key: &str| -> Vec<f64> {
        history.iter().map(|r| r.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)).collect()
    };
    let (steps, validation) = (of("step"), of("validation"));
    let validation = if validation.iter().all(|v| v.is_nan()) { Vec::new() } else { validation };
    loss_curves(&LossCurves {
        x_label: "step".into(),
        y_label: score.into(),
        best: best.and_then(|best| steps.iter().position(|s| *s == best)).filter(|_| !validation.is_empty()),
        steps,
        training: of("loss"),
        validation,
        ..LossCurves::default()
    })
}

/// Empirical against nominal coverage of the ellipsoids, for one evaluation or several.
pub(crate) fn calibration(curves: &[(&str, &Summary)]) -> Chart {
    let curve = |(name, s): &(&str, &Summary)| Calibration {
        name: (*name).into(),
        nominal: s.calibration.iter().map(|p| p.level).collect(),
        empirical: s.calibration.iter().map(|p| p.empirical).collect(),
        ecpe: Some(s.ecpe),
    };
    calibration_curve(&CalibrationCurve { curves: curves.iter().map(curve).collect(), ..Default::default() })
}

/// The histogram of the probability integral transform. Rows of one forecast move together, so that each
/// forecast counts as one independent value per state.
pub(crate) fn pit(found: &Evaluation, overall: &Summary, dim: usize) -> Chart {
    pit_histogram(&PitHistogram {
        counts: overall.pit.iter().map(|n| *n as f64).collect(),
        independent: Some((found.windows * dim) as f64),
        ..PitHistogram::default()
    })
}

/// Coverage of every interval over the steps.
pub(crate) fn coverage(found: &Evaluation) -> Chart {
    let steps = &found.report.steps;
    let levels = steps.first().map_or(Vec::new(), |s| s.summary.intervals.iter().map(|i| i.level).collect());
    let of = |k: usize| steps.iter().map(|s| s.summary.intervals[k].coverage).collect::<Vec<f64>>();
    coverage_over_horizon(&CoverageOverHorizon {
        x_label: "row after the start".into(),
        steps: steps.iter().map(|s| s.step as f64).collect(),
        coverage: levels.iter().enumerate().map(|(k, level)| (*level, of(k))).collect(),
        ..CoverageOverHorizon::default()
    })
}

/// A score over the steps.
pub(crate) fn score(found: &Evaluation, name: &str, of: impl Fn(&Summary) -> f64) -> Chart {
    let steps = &found.report.steps;
    let x = steps.iter().map(|s| s.step as f64).collect();
    let y = steps.iter().map(|s| of(&s.summary)).collect();
    error_over_horizon(&ErrorOverHorizon {
        x_label: "row after the start".into(),
        score: name.into(),
        series: vec![LineSeries { name: String::new(), x, y, lower: Vec::new(), upper: Vec::new() }],
        ..ErrorOverHorizon::default()
    })
}
