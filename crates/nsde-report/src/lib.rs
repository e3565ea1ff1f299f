//! Charts of forecasts and their calibration, and a report that shows them: plain numbers in, pictures out.
//!
//! Every chart is a function from a small struct of `Vec<f64>` to a [`Chart`], which gives an SVG or a PNG for
//! a light or a dark page. A [`Report`] puts charts, words and tables into one HTML file that needs neither
//! network nor script. Nothing here knows a model: whoever has numbers can draw them.
//!
//! | question | chart |
//! | --- | --- |
//! | Did training converge? | [`loss_curves`] |
//! | What does a forecast look like? | [`fan_chart`], [`phase_portrait`] |
//! | Can its intervals be trusted? | [`calibration_curve`], [`pit_histogram`], [`coverage_over_horizon`] |
//! | How wrong is it, and when? | [`error_over_horizon`] |
//! | How do methods compare? | [`bars`], [`lines`] |
//!
//! # What holds for all charts
//!
//! - A value that cannot be shown (NaN, infinite, not positive on a logarithmic axis) leaves a gap, never a
//!   line across it. Without any value the chart says "no data".
//! - Arrays that belong together are drawn as far as the shortest goes.
//! - Series differ in colour (Okabe and Ito's, safe for colour-blind readers) and in marker or dash. Lines
//!   keep a contrast of 3:1 to the page, words one of 4.5:1.
//! - Names stand in a legend above the plot, where they cover no data.
//!
//! # Example
//!
//! ```
//! use nsde_report::{Report, Section, Table, CoverageOverHorizon, coverage_over_horizon};
//!
//! let chart = coverage_over_horizon(&CoverageOverHorizon {
//!     steps: vec![1.0, 2.0, 3.0],
//!     coverage: vec![(0.5, vec![0.52, 0.49, 0.47]), (0.95, vec![0.96, 0.95, 0.93])],
//!     ..CoverageOverHorizon::default()
//! });
//! let report = Report {
//!     title: "Lotka–Volterra".into(),
//!     subtitle: "held-out trajectories".into(),
//!     sections: vec![Section {
//!         heading: "Calibration".into(),
//!         paragraphs: vec!["Intervals hold what they promise.".into()],
//!         charts: vec![(chart, "Coverage at every step of the forecast.".into())],
//!         tables: vec![Table {
//!             caption: "Scores".into(),
//!             header: vec!["method".into(), "NLL".into()],
//!             rows: vec![vec!["BMM".into(), "−1.32".into()]],
//!         }],
//!     }],
//! };
//! let dir = tempfile::tempdir()?;
//! report.write_html(dir.path().join("report.html"))?;
//! report.write_charts(dir.path().join("charts"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axis;
mod chart;
mod figure;
mod file;
mod font;
mod html;
mod layer;
mod legend;
#[cfg(test)]
mod overlap;
mod plot;
mod png;
mod polyline;
mod report;
mod scene;
mod svg;
mod theme;

pub use chart::Chart;
pub use figure::bars::{BarSeries, Bars, bars};
pub use figure::calibration::{Calibration, CalibrationCurve, calibration_curve};
pub use figure::coverage::{CoverageOverHorizon, coverage_over_horizon};
pub use figure::error::{ErrorOverHorizon, error_over_horizon};
pub use figure::fan::{Band, FanChart, Trace, fan_chart};
pub use figure::lines::{LineSeries, Lines, lines};
pub use figure::loss::{LossCurves, loss_curves};
pub use figure::phase::{PhasePortrait, phase_portrait};
pub use figure::pit::{PitHistogram, pit_histogram};
pub use file::Error;
pub use report::{Report, Section, Table};
pub use theme::Theme;
