//! The page of Fig. 4: claims, charts and data.

use super::{EXACT, Errors, MODES, Place, SERIES, Times};
use crate::cells::Done;
use crate::outcome::{Outcome, number};
use crate::run::Run;
use crate::statistics::{mean, median, standard_error};
use anyhow::Result;
use nsde_report::{LineSeries, Lines, lines};

/// What was computed.
pub struct Found<'a> {
    /// Dimensions.
    pub dims: &'a [usize],
    /// Widths.
    pub widths: &'a [usize],
    /// Random networks of each size.
    pub repetitions: usize,
    /// Pairs of points behind a reference.
    pub pairs: usize,
}

type Cells<T> = [(String, T)];

/// All errors of one size of network.
struct Table<'a> {
    cells: &'a Cells<Place>,
    done: &'a [Done<Vec<Errors>>],
}

impl Table<'_> {
    fn all(&self, dim: usize, width: usize, f: &dyn Fn(&Errors) -> f64) -> Vec<f64> {
        let here = self.cells.iter().zip(self.done);
        let here = here.filter(|((_, p), _)| p.dim == dim && p.width == width);
        here.flat_map(|(_, d)| d.value.iter().map(f)).collect()
    }

    fn line(&self, name: String, dims: &[usize], width: usize, f: &dyn Fn(&Errors) -> f64) -> LineSeries {
        let x = dims.iter().map(|d| *d as f64).collect();
        let values: Vec<Vec<f64>> = dims.iter().map(|d| self.all(*d, width, f)).collect();
        let error: Vec<f64> = values.iter().map(|v| standard_error(v)).collect();
        LineSeries::new(name, x, values.iter().map(|v| mean(v)).collect()).with_error(&error)
    }
}

/// How many times smaller the median becomes per doubling of dimension and of width: a plane through the
/// logarithms, by least squares.
fn shrinking(table: &Table<'_>, found: &Found<'_>, f: &dyn Fn(&Errors) -> f64) -> [f64; 2] {
    let (mut dims, mut widths, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for dim in found.dims {
        for width in found.widths {
            let value = median(&table.all(*dim, *width, f));
            if value > 0.0 {
                dims.push((*dim as f64).log2());
                widths.push((*width as f64).log2());
                values.push(value.log2());
            }
        }
    }
    // Dimension and width need not be orthogonal where points are missing: two normal equations.
    let centred = |x: &[f64]| x.iter().map(|v| v - mean(x)).collect::<Vec<_>>();
    let (d, w, y) = (centred(&dims), centred(&widths), centred(&values));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let det = dot(&d, &d) * dot(&w, &w) - dot(&d, &w).powi(2);
    let by_dim = (dot(&y, &d) * dot(&w, &w) - dot(&y, &w) * dot(&d, &w)) / det;
    let by_width = (dot(&y, &w) * dot(&d, &d) - dot(&y, &d) * dot(&d, &w)) / det;
    [(-by_dim).exp2(), (-by_width).exp2()]
}

/// Writes everything.
pub fn write(
    run: &Run,
    found: &Found<'_>,
    cells: &Cells<Place>,
    done: &[Done<Vec<Errors>>],
    timing: &Cells<Place>,
    times: &[Done<Times>],
) -> Result<()> {
    let table = Table { cells, done };
    let mut out = Outcome::new(run);
    claims(&mut out, &table, found, timing, times);
    charts(&mut out, &table, found)?;
    causes(&mut out, &table, found)?;
    time_chart(&mut out, found, timing, times)?;
    data(&mut out, cells, done)?;
    let mut rows = Vec::new();
    for ((_, p), t) in timing.iter().zip(times) {
        let mut row = vec![p.dim.to_string(), p.width.to_string()];
        row.extend(
            t.value.vmm.iter().chain([&t.value.cubature, &t.value.library_cubature]).map(|t| number(*t)),
        );
        rows.push(row);
    }
    out.times(
        &["dim", "width", "vmm_paper", "vmm_series", "vmm_exact", "cubature", "cubature_library"],
        &rows,
    )?;
    let about = format!(
        "Random networks D → H → H → H → D (PyTorch's first weights), `x ~ N(μ, Σ)` with μ ~ N(0, I), Σ ~ W(I, D). \
         VMM is judged on ReLU with dropout of rate 0.2 after each, cubature (unscented, 2D + 1 points, α = 1, β = κ = 0) \
         on tanh without dropout, as in the paper; VMM on the same tanh network stands beside it. Errors are \
         `‖r − r̂‖²/‖r‖²`.\n\nThe reference has {} points per network in pairs μ ± Az with the same masks; the last \
         affine layer is applied to means, which takes its dropout out of the noise. The paper takes 10⁷ points and \
         lets their noise count as error. Here the points are two independent halves, and `(r₁ − r̂)·(r₂ − r̂)` \
         estimates the squared error without it: fewer points per network, and more networks in the same time. \
         Where nothing of an error is left, such an estimate scatters around zero.",
        2 * found.pairs
    );
    let seconds: f64 =
        done.iter().map(|d| d.seconds).sum::<f64>() + times.iter().map(|t| t.seconds).sum::<f64>();
    let repetitions = format!("{} random networks of each size (the paper: 512)", found.repetitions);
    out.finish(&about, &repetitions, seconds)
}

fn claims(
    out: &mut Outcome<'_>,
    table: &Table<'_>,
    found: &Found<'_>,
    timing: &Cells<Place>,
    times: &[Done<Times>],
) {
    let verdict = |yes: bool| if yes { "confirmed" } else { "contradicted" };
    let (low, high) = (found.dims[0], found.dims[found.dims.len() - 1]);
    let (narrow, wide) = (found.widths[0], found.widths[found.widths.len() - 1]);
    let mid = |dim, width, f: &dyn Fn(&Errors) -> f64| median(&table.all(dim, width, f));
    let both = |f: &dyn Fn(&Errors) -> f64| {
        let [by_dim, by_width] = shrinking(table, found, f);
        let text = format!(
            "median {:.1e} at D = {low}, H = {narrow} and {:.1e} at D = {high}, H = {wide}; per doubling the error is \
             divided by {by_dim:.2} (dimension) and {by_width:.2} (width)",
            mid(low, narrow, f),
            mid(high, wide, f)
        );
        let yes = match (by_dim > 1.0, by_width > 1.0) {
            (true, true) => "confirmed",
            (true, false) => "confirmed for the dimension, contradicted for the width",
            (false, true) => "confirmed for the width, contradicted for the dimension",
            (false, false) => "contradicted",
        };
        (text, yes)
    };
    let (text, yes) = both(&|e| e.mean[SERIES]);
    out.claim("VMM's error shrinks with width and dimension", &text, yes);
    let (text, yes) = both(&|e| e.jac[SERIES]);
    out.claim("the error of the expected Jacobian shrinks with width and dimension", &text, yes);
    let (vmm, cubature) = (mid(low, wide, &|e| e.mean[SERIES]), mid(low, wide, &|e| e.cubature));
    out.claim(
        "for low dimensions VMM's error is about that of cubature",
        &format!("D = {low}, H = {wide}: median {vmm:.1e} and {cubature:.1e}"),
        verdict((vmm / cubature).ln().abs() < 3_f64.ln()),
    );
    let (same, other) = (mid(high, wide, &|e| e.tanh), mid(high, wide, &|e| e.cubature));
    out.claim(
        "(not shown) on the same tanh network",
        &format!("D = {high}, H = {wide}: VMM {same:.1e}, cubature {other:.1e} (medians)"),
        if same < other { "VMM is the better" } else { "cubature is the better" },
    );
    let (all, last) = (mid(high, wide, &|e| e.mean[EXACT]), mid(high, wide, &|e| e.last));
    let formula = [mid(high, wide, &|e| e.formula[0]), mid(high, wide, &|e| e.formula[1])];
    out.claim(
        "(not shown) what causes VMM's error",
        &format!(
            "D = {high}, H = {wide}, medians: exact formulas leave {all:.1e}, of which the Gaussian assumption at the \
             last activation alone makes {last:.1e}; the paper's formula moves the mean by {:.1e}, the series by {:.1e}",
            formula[0], formula[1]
        ),
        if formula[0] < all { "the Gaussian assumption dominates" } else { "the formula dominates" },
    );
    let at = |dim: usize, width: usize| {
        timing.iter().zip(times).find(|((_, p), _)| p.dim == dim && p.width == width).map(|(_, t)| &t.value)
    };
    if let (Some(most), Some(thin), Some(flat)) = (at(high, wide), at(high, narrow), at(low, wide)) {
        out.claim(
            "VMM takes about 10 ms up to D = H = 128",
            &format!("{:.2} ms (series), {:.2} ms (paper's formula)", 1e3 * most.vmm[1], 1e3 * most.vmm[0]),
            verdict(most.vmm[1] <= 0.012),
        );
        let growth = |a: f64, b: f64| format!("{:.1}", a / b);
        out.claim(
            "dimension is the bottleneck of cubature and barely matters to VMM; width is that of VMM and barely matters \
             to cubature",
            &format!(
                "D from {low} to {high} at H = {wide}: VMM × {}, cubature × {}; H from {narrow} to {wide} at D = {high}: \
                 VMM × {}, cubature × {}",
                growth(most.vmm[1], flat.vmm[1]),
                growth(most.cubature, flat.cubature),
                growth(most.vmm[1], thin.vmm[1]),
                growth(most.cubature, thin.cubature)
            ),
            verdict(most.cubature / flat.cubature > most.vmm[1] / flat.vmm[1]),
        );
    }
}

fn frame(title: &str, y_label: &str, series: Vec<LineSeries>) -> Lines {
    Lines {
        title: title.into(),
        x_label: "dimension D".into(),
        y_label: y_label.into(),
        x_log: true,
        y_log: true,
        series,
        ..Lines::default()
    }
}

fn charts(out: &mut Outcome<'_>, table: &Table<'_>, found: &Found<'_>) -> Result<()> {
    let each = |name: &str, widths: &[usize], f: &dyn Fn(&Errors) -> f64| -> Vec<LineSeries> {
        widths.iter().map(|w| table.line(format!("{name} H = {w}"), found.dims, *w, f)).collect()
    };
    let ends = [found.widths[0], found.widths[found.widths.len() - 1]];
    let mut series = each("VMM", found.widths, &|e| e.mean[SERIES]);
    series.extend(each("cubature", &ends, &|e| e.cubature));
    let chart = frame("Error of the mean", "relative error", series);
    out.chart(
        lines(&chart),
        "integration",
        "Fig. 4a: mean over the networks, bars are standard errors; VMM on ReLU with dropout, cubature on tanh.",
    )?;
    let chart =
        frame("Error of the Jacobian", "relative error", each("VMM", found.widths, &|e| e.jac[SERIES]));
    out.chart(lines(&chart), "jacobian", "Fig. 4c: the expected Jacobian of the ReLU network with dropout.")?;
    let mut series = each("VMM", &ends, &|e| e.tanh);
    series.extend(each("cubature", &ends, &|e| e.cubature));
    let chart = frame("Both on the same tanh network", "relative error", series);
    out.chart(lines(&chart), "same-network", "Not in the paper: VMM and cubature on the same network.")
}

fn causes(out: &mut Outcome<'_>, table: &Table<'_>, found: &Found<'_>) -> Result<()> {
    out.heading("Causes");
    out.text(
        "With exact formulas the moments of the second hidden layer's input are exact, whatever the network: all that \
         is wrong comes from taking that input, and the next one, as Gaussian. \"Last layer only\" takes the true \
         (Monte Carlo) mean and variance at the input of the last activation and is wrong by the shape of that one law \
         alone. \"Formula\" is the distance between the mean by that formula and the mean by exact ones.",
    );
    let width = found.widths[found.widths.len() / 2];
    let line = |name: &str, f: &dyn Fn(&Errors) -> f64| table.line(name.to_owned(), found.dims, width, f);
    let chart = frame(
        &format!("Causes of the error of the mean, H = {width}"),
        "relative error",
        vec![
            line("exact formulas: all", &|e| e.mean[EXACT]),
            line("last layer only", &|e| e.last),
            line("formula: paper", &|e| e.formula[0]),
            line("formula: series", &|e| e.formula[1]),
        ],
    );
    out.chart(lines(&chart), "causes", "Mean over the networks, bars are standard errors.")?;
    let mut rows = Vec::new();
    for width in found.widths {
        for dim in found.dims {
            let cell = |f: &dyn Fn(&Errors) -> f64| {
                let all = table.all(*dim, *width, f);
                format!("{:.1e} ({:.1e})", mean(&all), median(&all))
            };
            rows.push(vec![
                width.to_string(),
                dim.to_string(),
                cell(&|e| e.mean[0]),
                cell(&|e| e.mean[1]),
                cell(&|e| e.mean[2]),
                cell(&|e| e.last),
                cell(&|e| e.formula[0]),
                cell(&|e| e.formula[1]),
                cell(&|e| e.noise),
            ]);
        }
    }
    out.text(
        "Means over the networks (and medians). The noise is that which a plain comparison would have added.",
    );
    let header = [
        "H",
        "D",
        "paper",
        "series",
        "exact",
        "last layer only",
        "formula: paper",
        "formula: series",
        "noise of the reference",
    ];
    out.table(&header, &rows);
    Ok(())
}

fn time_chart(
    out: &mut Outcome<'_>,
    found: &Found<'_>,
    timing: &Cells<Place>,
    times: &[Done<Times>],
) -> Result<()> {
    let line = |name: String, width: usize, f: &dyn Fn(&Times) -> f64| {
        let here = timing.iter().zip(times).filter(|((_, p), _)| p.width == width);
        let (x, y) = here.map(|((_, p), t)| (p.dim as f64, 1e3 * f(&t.value))).unzip();
        LineSeries::new(name, x, y)
    };
    let ends = [found.widths[0], found.widths[found.widths.len() - 1]];
    let mut series = Vec::new();
    for width in found.widths {
        series.push(line(format!("VMM H = {width}"), *width, &|t| t.vmm[SERIES]));
    }
    for width in ends {
        series.push(line(format!("cubature H = {width}"), width, &|t| t.cubature));
    }
    let chart = frame("Time of one step on one core", "milliseconds", series);
    out.chart(
        lines(&chart),
        "times",
        "Fig. 4b: median time of one step (mean, covariance and cross-covariance), VMM in double precision, \
         cubature by bare products of matrices in single precision; differs from run to run.",
    )
}

fn data(out: &mut Outcome<'_>, cells: &Cells<Place>, done: &[Done<Vec<Errors>>]) -> Result<()> {
    let mut rows = Vec::new();
    for ((_, p), d) in cells.iter().zip(done) {
        for (r, e) in d.value.iter().enumerate() {
            let mut row = [p.dim, p.width, p.first + r].map(|n| n.to_string()).to_vec();
            let values = e.mean.iter().chain(&e.jac).chain([&e.last]).chain(&e.formula);
            row.extend(values.chain([&e.cubature, &e.tanh, &e.noise]).map(|x| number(*x)));
            rows.push(row);
        }
    }
    let mut header: Vec<String> = ["dim", "width", "network"].map(String::from).to_vec();
    header.extend(MODES.map(|(name, _)| format!("mean_{name}")));
    header.extend(MODES.map(|(name, _)| format!("jacobian_{name}")));
    header.push("mean_last_layer_only".into());
    header.extend(MODES[..EXACT].iter().map(|(name, _)| format!("formula_{name}")));
    header.extend(["cubature_tanh", "vmm_tanh", "reference_noise"].map(String::from));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    out.data("errors", "relative squared errors of every network", &header, &rows)
}
