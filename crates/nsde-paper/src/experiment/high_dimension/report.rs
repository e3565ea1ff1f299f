//! The page of Fig. 8: claims, charts and data.

use super::judge::Score;
use super::process::{ROWS, Reading};
use super::{Cell, POWERS, Place, Settings, Times, samples};
use crate::cells::Done;
use crate::outcome::{Outcome, number};
use crate::run::Run;
use crate::statistics::{mean, median};
use anyhow::Result;
use nsde_report::{LineSeries, Lines, lines};

type Cells = [(String, Place)];

/// All runs of one reading.
struct Runs<'a> {
    cells: &'a Cells,
    done: &'a [Done<Cell>],
    dims: &'a [usize],
    reading: Reading,
}

impl Runs<'_> {
    /// A score at each dimension, averaged over the runs; NaN where it was too expensive.
    fn line(&self, name: &str, f: &dyn Fn(&Cell) -> Option<f64>) -> LineSeries {
        let x: Vec<f64> = self.dims.iter().map(|d| *d as f64).collect();
        LineSeries::new(name, x, self.dims.iter().map(|d| self.at(*d, f)).collect())
    }

    fn at(&self, dim: usize, f: &dyn Fn(&Cell) -> Option<f64>) -> f64 {
        let here = self.cells.iter().zip(self.done);
        let here = here.filter(|((_, p), _)| p.dim == dim && p.reading == self.reading);
        let all: Vec<f64> = here.filter_map(|(_, d)| f(&d.value)).collect();
        mean(&all)
    }

    fn lines(&self, f: &dyn Fn(&Score) -> f64) -> Vec<LineSeries> {
        let mut series = vec![self.line("BMM", &|c| Some(f(&c.bmm)))];
        for (k, (name, _)) in POWERS.iter().enumerate() {
            series.push(self.line(&format!("S = {name}"), &|c| c.particles.get(k).map(f)));
        }
        series
    }
}

/// Writes everything.
pub fn write(
    run: &Run,
    settings: &Settings,
    dims: &[usize],
    cells: &Cells,
    done: &[Done<Cell>],
    timing: &Cells,
    times: &[Done<Times>],
) -> Result<()> {
    let mut out = Outcome::new(run);
    let readings = [Reading::Printed, Reading::Root].map(|reading| Runs { cells, done, dims, reading });
    let last = dims[dims.len() - 1];
    claims(&mut out, &readings, last);
    let both = &times[times.len() - 1].value;
    let seconds = |t: f64| format!("{:.1} ms", 1e3 * t);
    out.claim(
        "S = D particles have the same computational complexity as BMM",
        &format!(
            "a step at D = {last} on one core, in double precision: BMM {}, S = D particles {} by the library's \
             kernel; in single precision: BMM {}, S = D particles {} by bare products of matrices",
            seconds(both.bmm),
            seconds(both.library),
            seconds(both.single),
            seconds(both.products)
        ),
        match (both.bmm <= both.library, both.single <= both.products) {
            (true, true) => "BMM is within the time of either",
            (true, false) => "BMM is within the time of the library's particles, not of bare products",
            (false, _) => "BMM takes longer",
        },
    );
    out.claim(
        "particles run out of 32 GB of memory beyond S = D",
        "never here: particles move in batches, and only sums are kept; lines end where a forecast takes too long",
        "a matter of code, not of the method",
    );
    fitted(&mut out, &readings);
    for runs in &readings {
        section(&mut out, runs)?;
    }
    out.text(
        "Where the ECPE of particles no longer changes from D² to D⁴, what separates it from BMM's is not the scatter of \
         sampling: the law of the model itself is not the Gaussian that BMM makes of it. Units that are rectified \
         away let a path escape, so that many particles are wider than the data; the analytic law is a Gaussian.",
    );
    let series = |name: &str, f: &dyn Fn(&Times) -> f64| {
        let x = timing.iter().map(|(_, p)| p.dim as f64).collect();
        LineSeries::new(name, x, times.iter().map(|t| 1e3 * f(&t.value)).collect())
    };
    let chart = Lines {
        title: "Time of a step on one core".into(),
        x_label: "dimension D".into(),
        y_label: "milliseconds".into(),
        x_log: true,
        y_log: true,
        series: vec![
            series("BMM", &|t| t.bmm),
            series("BMM (f32)", &|t| t.single),
            series("S = D, library", &|t| t.library),
            series("S = D, bare products (f32)", &|t| t.products),
        ],
        ..Lines::default()
    };
    out.heading("Time");
    out.chart(lines(&chart), "times", "Median over repeated steps; differs from run to run.")?;
    data(&mut out, cells, done)?;
    let rows: Vec<Vec<String>> = timing
        .iter()
        .zip(times)
        .map(|((_, p), t)| {
            let t = &t.value;
            vec![p.dim.to_string(), number(t.bmm), number(t.single), number(t.library), number(t.products)]
        })
        .collect();
    out.times(&["dim", "bmm", "bmm_single", "particles_library", "particles_products"], &rows)?;
    let about = format!(
        "`dx = (λ − x) dt + Γ dw` from x(0) = 0 (the paper does not say where paths begin), λ ~ N(0, I), {} training and \
         {} test paths of {ROWS} rows, Δt = 0.1 s, drawn from the exact transition. The drift D → D → D (ReLU) and a \
         constant lower-triangular diffusion are trained on one-step likelihood for {} (up to D = 32) to {} (D = 512) \
         updates of Adam with {} pairs each, at 3e-3 and, beyond D = 32, 1e-3, in coordinates in which the increments of the training paths are white, a tenth of these paths held \
         out to choose the weights. Hidden biases begin at 1: D rectified units can make a linear drift in D \
         dimensions only while they are active, and from PyTorch's biases many never are. The same model then forecasts all rows \
         by BMM and by S particles. Errors of mean and covariance are against the analytic law.\n\n\
         **How Γ enters.** Printed is Γ ~ W(I, D) in front of dw. Then the noise grows like D, while λ stays about 1 \
         per coordinate: the stationary law has a trace of about D³, its mean a squared length of about D. The mean \
         of S particles is off by a relative error of about D²/S, so that the paper's \"less than 1 %\" at S = √D \
         cannot come from the printed process. The second reading, ΓΓᵀ = W/D with W ~ W(I, D), has noise of about 1; \
         there it is about 1/(2S) late in a path.",
        settings.train_paths,
        settings.test_paths,
        settings.training(2).0,
        settings.training(512).0,
        settings.batch
    );
    let seconds = done.iter().map(|d| d.seconds).sum::<f64>() + times.iter().map(|t| t.seconds).sum::<f64>();
    let count = |dim: usize| cells.iter().filter(|(_, p)| p.dim == dim).count() / 2;
    let counts: Vec<String> = dims.iter().map(|d| format!("{} at D = {d}", count(*d))).collect();
    out.finish(&about, &format!("runs per reading: {} (the paper: 20)", counts.join(", ")), seconds)
}

fn claims(out: &mut Outcome<'_>, readings: &[Runs<'_>; 2], last: usize) {
    let verdict = |yes: bool| if yes { "confirmed" } else { "contradicted" };
    for runs in readings {
        let name = runs.reading.name();
        let dims: Vec<usize> = runs.dims.to_vec();
        let equal = |d: usize| runs.at(d, &|c| c.particles.get(1).map(|s| s.ecpe));
        let ours = |d: usize| runs.at(d, &|c| Some(c.bmm.ecpe));
        let all: Vec<f64> = dims.iter().map(|d| equal(*d)).collect();
        out.claim(
            &format!("S = D particles are uncalibrated in every dimension ({name})"),
            &format!(
                "ECPE {:.3} to {:.3} over the dimensions; BMM {:.3} at D = {last}",
                all.iter().copied().fold(f64::INFINITY, f64::min),
                all.iter().copied().fold(0.0, f64::max),
                ours(last)
            ),
            verdict(dims.iter().all(|d| equal(*d) > ours(*d) && equal(*d) > 0.1)),
        );
        let most = |c: &Cell| c.particles.last().map(|s| s.ecpe);
        let wins = dims.iter().filter(|d| runs.at(**d, &most) >= ours(**d)).count();
        let gaps: Vec<f64> = dims.iter().map(|d| runs.at(*d, &most) - ours(*d)).collect();
        out.claim(
            &format!("particles never reach the ECPE of BMM, not even D⁴ ({name})"),
            &format!(
                "the largest affordable S has an ECPE at least BMM's in {wins} of {} dimensions; median difference {:.4}",
                dims.len(),
                median(&gaps)
            ),
            verdict(wins == dims.len()),
        );
        let root: Vec<f64> =
            dims.iter().map(|d| runs.at(*d, &|c| c.particles.first().map(|s| s.mean))).collect();
        out.claim(
            &format!("S = √D gives the mean with less than 1 % of relative error ({name})"),
            &format!("{:.2e} at D = {}, {:.2e} at D = {last}", root[0], dims[0], root[root.len() - 1]),
            verdict(root.iter().all(|e| *e < 0.01)),
        );
        let bmm = |f: &dyn Fn(&Score) -> f64| runs.at(last, &|c| Some(f(&c.bmm)));
        let cloud = |f: &dyn Fn(&Score) -> f64| runs.at(last, &|c| c.particles.get(1).map(f));
        out.claim(
            &format!("(not shown) error against the analytic law at D = {last} ({name})"),
            &format!(
                "mean: BMM {:.2e}, S = D {:.2e}; covariance: BMM {:.2e}, S = D {:.2e}",
                bmm(&|s| s.mean),
                cloud(&|s| s.mean),
                bmm(&|s| s.cov),
                cloud(&|s| s.cov)
            ),
            if bmm(&|s| s.mean) <= cloud(&|s| s.mean) && bmm(&|s| s.cov) <= cloud(&|s| s.cov) {
                "BMM is at least as accurate in both"
            } else {
                "BMM is not the more accurate in both"
            },
        );
    }
}

/// How far the models are from the truth.
fn fitted(out: &mut Outcome<'_>, readings: &[Runs<'_>; 2]) {
    out.heading("How well the models are fitted");
    let row = |dim: &usize| {
        let parameters = 2 * dim * (dim + 1) + dim * (dim + 1) / 2;
        let excess = |runs: &Runs<'_>| format!("{:.3}", runs.at(*dim, &|c| Some(c.excess)));
        vec![dim.to_string(), parameters.to_string(), excess(&readings[0]), excess(&readings[1])]
    };
    let rows: Vec<Vec<String>> = readings[0].dims.iter().map(row).collect();
    out.table(&["D", "parameters", "excess NLL (printed)", "excess NLL (root)"], &rows);
    out.text(
        "One-step NLL on the test paths beyond that of the exact transition, which no model can beat: nats per step. The \
         training paths have 9,000 steps whatever the dimension, the models O(D²) parameters, so from D = 64 on the drift \
         is mostly noise of estimation, in both predictions alike. Updates and learning rates were chosen by held-out \
         likelihood on processes of other seeds, stopping early by a tenth of the training paths.",
    );
}

fn section(out: &mut Outcome<'_>, runs: &Runs<'_>) -> Result<()> {
    let name = runs.reading.name();
    let title = match runs.reading {
        Reading::Printed => "Γ as printed: Γ ~ W(I, D)",
        Reading::Root => "Γ as a root of W(I, D)/D",
    };
    out.heading(title);
    let frame = |what: &str, log: bool, series: Vec<LineSeries>| Lines {
        title: title.into(),
        x_label: "dimension D".into(),
        y_label: what.into(),
        x_log: true,
        y_log: log,
        series,
        ..Lines::default()
    };
    let mut series = runs.lines(&|s| s.ecpe);
    series.push(runs.line("analytic law", &|c| Some(c.law.ecpe)));
    let chart = frame("ECPE", false, series);
    out.chart(lines(&chart), &format!("ecpe-{name}"), "Left panel of Fig. 8: mean over the runs.")?;
    let chart = frame("relative error of the mean", true, runs.lines(&|s| s.mean));
    out.chart(lines(&chart), &format!("mean-{name}"), "Right panel of Fig. 8: mean over the runs.")?;
    let chart = frame("relative error of the covariance", true, runs.lines(&|s| s.cov));
    out.chart(lines(&chart), &format!("covariance-{name}"), "Not in the paper: the covariance.")
}

fn data(out: &mut Outcome<'_>, cells: &Cells, done: &[Done<Cell>]) -> Result<()> {
    let mut rows = Vec::new();
    for ((_, p), d) in cells.iter().zip(done) {
        let mut row = |method: &str, samples: String, s: &Score| {
            let mut row = vec![p.reading.name().to_string(), p.dim.to_string(), p.repetition.to_string()];
            row.extend([method.to_string(), samples, number(s.ecpe), number(s.mean), number(s.cov)]);
            rows.push(row);
        };
        row("bmm", String::new(), &d.value.bmm);
        row("law", String::new(), &d.value.law);
        for ((_, power), s) in POWERS.iter().zip(&d.value.particles) {
            row("mc", samples(p.dim, *power).to_string(), s);
        }
    }
    let header = ["gamma", "dim", "run", "method", "particles", "ecpe", "mean_error", "cov_error"];
    out.data("scores", "scores of every run", &header, &rows)?;
    let fit = |((_, p), d): (&(String, Place), &Done<Cell>)| {
        let place = [p.reading.name().to_string(), p.dim.to_string(), p.repetition.to_string()];
        place.into_iter().chain([number(d.value.excess)]).collect()
    };
    let rows: Vec<Vec<String>> = cells.iter().zip(done).map(fit).collect();
    out.data("fit", "excess one-step NLL of every model", &["gamma", "dim", "run", "excess_nll"], &rows)
}
