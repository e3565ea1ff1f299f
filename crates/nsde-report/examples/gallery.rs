//! Draws an example of every chart, and a report of them: `cargo run --example gallery -- DIR`.

use std::path::PathBuf;

use nsde_report::*;

/// A small generator of normal numbers, so that the pictures are the same everywhere.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

fn counted(n: usize) -> Vec<f64> {
    (1..=n).map(|i| i as f64).collect()
}

fn text(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| w.to_string()).collect()
}

fn loss(noise: &mut Noise, density: bool) -> Chart {
    let steps = counted(120);
    let curve = |k: f64, noise: &mut Noise, over: f64| {
        let fall = 40.0 * (-k / 7.0).exp() + 2.0 * (-k / 30.0).exp() + 0.05 + over * k;
        let loss = fall * (1.0 + 0.06 * noise.normal());
        if density { 1e3 * (-k / 1.3).exp() + fall.ln() + 0.05 * noise.normal() } else { loss }
    };
    let training = steps.iter().map(|&k| curve(k, noise, 0.0)).collect();
    let validation =
        steps.iter().map(|&k| if k % 3.0 == 0.0 { curve(k, noise, 0.001) } else { f64::NAN }).collect();
    let y_label = if density { "negative log-likelihood" } else { "loss" }.into();
    loss_curves(&LossCurves { steps, training, validation, y_label, ..LossCurves::default() })
}

fn fan(noise: &mut Noise, dense: bool) -> Chart {
    let dt = if dense { 0.02 } else { 0.25 };
    let (n, begin) = ((15.0 / dt) as usize, 5.0);
    let path = |noise: &mut Noise, from: f64| {
        let (mut drift, mut trace) = (0.0, Trace::default());
        for i in 0..=n {
            let t = i as f64 * dt;
            if t >= from {
                drift += 0.16 * dt.sqrt() * noise.normal();
                trace.time.push(t);
                trace.value.push((1.1 * t).sin() * (-0.05 * t).exp() + drift);
            }
        }
        trace
    };
    let mut truth = path(noise, 0.0);
    if !dense {
        truth.value[30] = f64::NAN;
        truth.value[31] = f64::NAN;
    }
    let start = truth.value[(begin / dt) as usize] - (1.1 * begin).sin() * (-0.05 * begin).exp();
    let time: Vec<f64> = (0..=n).map(|i| i as f64 * dt).filter(|t| *t >= begin).collect();
    let mean: Vec<f64> = time.iter().map(|t| (1.1 * t).sin() * (-0.05 * t).exp() + start).collect();
    let band = |level, z: f64| {
        let half: Vec<f64> = time.iter().map(|t| z * 0.16 * (t - begin + 0.02).sqrt()).collect();
        let edge = |sign: f64| mean.iter().zip(&half).map(|(m, h)| m + sign * h).collect();
        Band { level, lower: edge(-1.0), upper: edge(1.0) }
    };
    let bands = vec![band(0.5, 0.674), band(0.8, 1.282), band(0.95, 1.96)];
    let mut paths = Vec::new();
    if dense {
        for _ in 0..6 {
            let mut p = path(noise, begin);
            p.value.iter_mut().for_each(|v| *v += start);
            paths.push(p);
        }
    }
    fan_chart(&FanChart {
        title: if dense { "Prey, 750 observations" } else { "Prey, sparse observations with a gap" }.into(),
        x_label: "time, years".into(),
        y_label: "prey, thousands".into(),
        truth,
        time,
        mean,
        bands,
        begin: Some(begin),
        paths,
        ..FanChart::default()
    })
}

fn calibration(several: bool) -> Chart {
    let nominal: Vec<f64> = (1..20).map(|i| i as f64 * 0.05).collect();
    let curve = |name: &str, bend: f64, ecpe| Calibration {
        name: name.into(),
        nominal: nominal.clone(),
        empirical: nominal.iter().map(|p| p - bend * p * (1.0 - p)).collect(),
        ecpe: Some(ecpe),
    };
    let mut curves = vec![curve("BMM", 0.08, 0.0134)];
    if several {
        curves.push(curve("cubature", 0.5, 0.0832));
        curves.push(curve("Monte Carlo, 8 paths", -0.35, 0.0581));
    }
    calibration_curve(&CalibrationCurve { curves, ..CalibrationCurve::default() })
}

fn portrait() -> Chart {
    let orbit = |i: usize, a: f64| {
        let t = i as f64 * 0.1;
        let r = (1.0 + a) * (-0.04 * t).exp();
        (1.4 * r * t.cos() + 0.3 * a * (3.1 * t).sin(), r * (t + 0.3).sin())
    };
    let ellipse = |i: usize| {
        let (cx, cy) = orbit(i, 0.0);
        let s = 0.04 + 0.0025 * i as f64;
        let around = (0..60).map(|k| k as f64 * std::f64::consts::TAU / 60.0);
        around
            .map(|p| (cx + s * (1.4 * p.cos() + 0.4 * p.sin()), cy + s * (0.8 * p.sin() - 0.4 * p.cos())))
            .unzip()
    };
    phase_portrait(&PhasePortrait {
        x_label: "position, m".into(),
        y_label: "velocity, m/s".into(),
        truth: (0..90).map(|i| orbit(i, 0.08)).unzip(),
        mean: (0..90).map(|i| orbit(i, 0.0)).unzip(),
        ellipses: (10..90).step_by(13).map(ellipse).collect(),
        ellipse_label: "95 % region".into(),
        equal_axes: true,
        ..PhasePortrait::default()
    })
}

fn coverage(noise: &mut Noise) -> Chart {
    let steps = counted(30);
    let at = |level: f64, noise: &mut Noise| {
        let sd = (level * (1.0 - level) / 400.0).sqrt();
        (level, steps.iter().map(|k| (level - 0.0015 * k + sd * noise.normal()).min(1.0)).collect())
    };
    let coverage = [0.5, 0.8, 0.9, 0.95].map(|level| at(level, noise)).into();
    coverage_over_horizon(&CoverageOverHorizon { steps, coverage, ..CoverageOverHorizon::default() })
}

fn error(score: &str, noise: &mut Noise) -> Chart {
    let x = counted(30);
    let grow = |rate: f64, noise: &mut Noise| -> Vec<f64> {
        x.iter().map(|k| if score == "NLL" { rate * k.ln() - 1.5 } else { rate * k.sqrt() } + 0.01 * noise.normal()).collect()
    };
    let series = vec![
        LineSeries::new("BMM", x.clone(), grow(0.11, noise)),
        LineSeries::new("persistence", x.clone(), grow(0.19, noise)),
    ];
    let floor = (score == "RMSE").then(|| ("observation noise".to_owned(), vec![0.08]));
    error_over_horizon(&ErrorOverHorizon {
        score: score.into(),
        series,
        floor,
        ..ErrorOverHorizon::default()
    })
}

fn benchmark_lines() -> Chart {
    let x: Vec<f64> = (2..=9).map(|p| f64::from(1 << p)).collect();
    let cost = |name: &str, scale: f64, power: f64| {
        let y: Vec<f64> = x.iter().map(|n| scale * n.powf(power)).collect();
        let error: Vec<f64> = y.iter().map(|v| 0.25 * v).collect();
        LineSeries::new(name, x.clone(), y).with_error(&error)
    };
    lines(&Lines {
        title: "Cost of one solve".into(),
        x_label: "width of the hidden layers".into(),
        y_label: "time, ms".into(),
        x_log: true,
        y_log: true,
        series: vec![
            cost("BMM", 2e-4, 2.2),
            cost("cubature", 1e-3, 2.4),
            cost("Monte Carlo, 100 paths", 0.3, 1.1),
            cost("Monte Carlo, 1000 paths", 3.0, 1.1),
        ],
        levels: vec![("real time".into(), 20.0)],
        ..Lines::default()
    })
}

fn benchmark_bars(long: bool) -> Chart {
    let names: &[&str] = if long {
        &[
            "boston housing",
            "concrete",
            "energy",
            "kin8nm",
            "naval propulsion",
            "power plant",
            "protein",
            "wine",
            "yacht",
        ]
    } else {
        &["boston", "energy", "concrete", "wine"]
    };
    let values =
        |a: f64| -> Vec<f64> { (0..names.len()).map(|i| a + 0.8 * ((i * 7 % 5) as f64) - 0.9).collect() };
    let error: Vec<f64> = (0..names.len()).map(|i| 0.1 + 0.05 * i as f64).collect();
    bars(&Bars {
        title: "Test negative log-likelihood".into(),
        y_label: "NLL, nats".into(),
        categories: text(names),
        series: vec![
            BarSeries::new("BMM", values(0.6)).with_error(&error),
            BarSeries::new("cubature", values(0.9)).with_error(&error),
            BarSeries::new("MC dropout", values(1.2)).with_error(&error),
        ],
        ..Bars::default()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("usage: gallery DIR")?);
    let mut noise = Noise(7);
    let pit: Vec<f64> = (0..900).map(|_| (0.5 + 0.31 * noise.normal()).rem_euclid(1.0)).collect();
    let none = fan_chart(&FanChart { title: "A state nobody observed".into(), ..FanChart::default() });
    let section = |heading: &str, words: &[&str], charts: Vec<(Chart, &str)>| Section {
        heading: heading.into(),
        paragraphs: text(words),
        charts: charts.into_iter().map(|(chart, caption)| (chart, caption.to_owned())).collect(),
        tables: vec![],
    };
    let mut sections = vec![
        section(
            "Training",
            &["Adam on 40 trajectories, early stopping after 30 epochs without progress."],
            vec![
                (loss(&mut noise, false), "Positive losses over three decades: a logarithmic axis."),
                (
                    loss(&mut noise, true).named("loss-density"),
                    "Negative losses: the view is cut where the start dwarfs the rest.",
                ),
            ],
        ),
        section(
            "Forecasts",
            &["Each forecast starts from an observed state and sees nothing after it."],
            vec![
                (fan(&mut noise, true).named("fan-dense"), "Truth, forecast and six sample paths."),
                (fan(&mut noise, false).named("fan-sparse"), "Two observations are missing."),
                (portrait(), "Position and velocity, with regions every 13 steps."),
                (none.named("empty"), "What an empty chart looks like."),
            ],
        ),
        section(
            "Calibration",
            &["A calibrated forecast keeps its promises: no more, no less."],
            vec![
                (calibration(false), "One forecaster, its error in the title."),
                (calibration(true).named("calibration-several"), "Several forecasters."),
                (pit_histogram(&PitHistogram::from_values(&pit, 20)), "900 values in 20 bins."),
                (coverage(&mut noise), "400 trajectories."),
            ],
        ),
        section(
            "Errors",
            &[],
            vec![
                (error("RMSE", &mut noise), "With the floor set by observation noise."),
                (error("NLL", &mut noise), "In nats per state."),
            ],
        ),
        section(
            "Benchmarks",
            &[],
            vec![
                (benchmark_lines(), "Both axes logarithmic."),
                (benchmark_bars(false), "Mean and standard error over 20 splits."),
                (benchmark_bars(true).named("bars-long"), "Long names are turned."),
            ],
        ),
    ];
    sections[2].tables.push(Table {
        caption: "Scores on held-out trajectories".into(),
        header: text(&[
            "method",
            "RMSE",
            "NLL",
            "ECPE",
            "coverage at 50 %",
            "coverage at 95 %",
            "time per forecast",
        ]),
        rows: vec![
            text(&["BMM", "0.412", "−1.32", "0.013", "49 %", "94 %", "1.8 ms"]),
            text(&["cubature", "0.418", "−1.05", "0.083", "43 %", "88 %", "9.1 ms"]),
            text(&["Monte Carlo, 100 paths", "0.415", "−1.21", "0.058", "47 %", "92 %", "41 ms"]),
        ],
    });
    let report = Report {
        title: "Lotka–Volterra: forecast report".into(),
        subtitle: "Model lv-small, 3 August; 40 training and 10 held-out trajectories".into(),
        sections,
    };
    report.write_charts(dir.join("charts"))?;
    for (chart, _) in report.sections.iter().flat_map(|s| &s.charts) {
        chart.write_png(dir.join("charts").join(format!("{}-dark.png", chart.name())), Theme::Dark)?;
    }
    report.write_html(dir.join("report.html"))?;
    Ok(())
}
