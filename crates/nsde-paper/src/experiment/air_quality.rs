//! Table 4, columns 3 and 4, and Fig. 7b: all methods on the air of Beijing, 34 columns by the hour.

use super::Experiment;
use crate::contest::Contest;
use crate::fit::Recipe;
use crate::method::Method;
use crate::outcome::Outcome;
use crate::protocol::{Protocol, Test, evaluate_all};
use crate::run::Run;
use crate::standard::{Standard, dataset};
use crate::statistics::mean;
use anyhow::{Result, bail};
use nsde::data::{Dataset, Series};
use serde::Serialize;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "air-quality",
    paper: "Table 4, columns 3 and 4, and Fig. 7b",
    about: "forecasts of all methods for the air of Beijing, 34 columns",
    run,
};

/// Hours of 2014 and 2015.
const TRAINED: usize = 17_520;
/// The last hours of them choose the weights that are kept: sixty days.
const VALIDATED: usize = 1_440;
/// Hours of 2016 that are forecast.
const TESTED: usize = 48;
/// The weather of Dongsi is that of Tiantan, in every row.
const REPEATED: [&str; 4] = ["Dongsi_TEMP", "Dongsi_PRES", "Dongsi_DEWP", "Dongsi_RAIN"];

#[derive(Serialize)]
struct Settings {
    protocol: Protocol,
    rows: usize,
}

/// MSE and NLL as the paper prints them.
pub fn published(method: Method) -> [&'static str; 2] {
    match method {
        Method::LstmDeterministic => ["1.59(0.08)", "–"],
        Method::TransformerDeterministic => ["1.41(0.12)", "–"],
        Method::LstmStochastic => ["2.37(0.04)", "55.79(0.43)"],
        Method::TransformerStochastic => ["2.49(0.05)", "55.43(0.44)"],
        Method::Node => ["1.85(0.15)", "–"],
        Method::DiffWgp => ["2.39(0.04)", "46.92(0.75)"],
        Method::MonteCarlo => ["1.90(0.07)", "43.84(0.75)"],
        Method::OneStep => ["1.75(0.09)", "62.53(0.96)"],
        Method::Cubature => ["1.45(0.04)", "37.84(0.39)"],
        Method::Bmm => ["1.44(0.10)", "34.30(0.50)"],
        Method::BmmPlus => ["–", "–"],
    }
}

fn run(run: &Run) -> Result<()> {
    let (columns, rows) = run.data.table("air_quality/beijing_34_2014-2016.csv.gz")?;
    if columns.len() != 34 || rows.len() < TRAINED + TESTED {
        bail!("the table of air quality has {} columns and {} rows", columns.len(), rows.len());
    }
    let tested = run.size(TESTED, 4);
    let mut protocol = Protocol::new(34, 1.0, 100, 10, 1..tested);
    // What `lotka-volterra` found to be better for every method.
    protocol.fit.recipe = Recipe::Falling;
    protocol.test_particles = vec![2, 4, 8, 16, 32, 64, 128, protocol.train_particles, 256, 512];
    if run.quick {
        protocol.fit.hidden = vec![8; 2];
        protocol.fit.noise_hidden = Some(vec![8]);
        protocol.fit.steps = 2;
        protocol.fit.horizon = 2;
        protocol.train_particles = 4;
        protocol.test_particles = vec![2, 4];
    }
    let settings = Settings { protocol, rows: run.size(TRAINED, 300) };
    let part = |from: usize, to: usize| {
        let times = (from..to).map(|n| n as f64).collect();
        let series =
            Series { name: "air".into(), times, values: rows[from..to].concat(), inputs: Vec::new() };
        dataset(&columns, &[], vec![series])
    };
    let units = Standard::new(&part(0, TRAINED));
    let cut = TRAINED - run.size(VALIDATED, 50);
    let train = units.apply(&part(TRAINED - settings.rows, cut));
    let held_out = units.apply(&part(cut, TRAINED));
    let test = units.apply(&part(TRAINED, TRAINED + tested));
    let eve = units.apply(&part(TRAINED - 1, TRAINED + tested - 1));
    let independent: Vec<usize> = (0..34).filter(|i| !REPEATED.contains(&columns[*i].as_str())).collect();
    let tests = [
        Test { data: &test, columns: None },
        Test { data: &test, columns: Some(&independent) },
        Test { data: &eve, columns: None },
    ];

    let contest = Contest::hold(run, &Method::ALL, &settings.protocol, &settings, |method, seed| {
        let protocol = settings.protocol.with(&method.usual(&settings.protocol.fit));
        evaluate_all(method.predictions(), &protocol, method, &train, Some(&held_out), &tests, seed)
    })?;
    report(run, &settings, &contest, &train, &test)
}

fn report(
    run: &Run,
    settings: &Settings,
    contest: &Contest<'_>,
    train: &Dataset,
    test: &Dataset,
) -> Result<()> {
    let all = contest.comparison(0, "Air quality", "", published);
    let independent = contest.comparison(1, "Air quality, 30 columns", "-independent", |_| ["", ""]);
    let eve = contest.comparison(2, "Air quality, from 2015", "-from-2015", |_| ["", ""]);
    let mut out = Outcome::new(run);
    let bmm = all.of(Method::Bmm, "bmm", None);
    let good = !bmm.mse.is_empty() && mean(&bmm.nll) <= 34.30 && mean(&bmm.mse) <= 1.44;
    out.claim(
        "NSDE-BMM: MSE 1.44(0.10), NLL 34.30(0.50)",
        &format!("MSE {}, NLL {}", bmm.mse(), bmm.nll(true)),
        if good { "both reached" } else { "not both reached" },
    );
    all.claims(&mut out);

    out.heading("Scores on all 34 columns");
    all.table(&mut out, None);
    out.text(&format!(
        "In standard units. A forecast of no change has MSE {:.2}, one of the training mean {:.2}. **The 34 columns have rank 30 at most:** \
         temperature, pressure, dew point and rain of Tiantan and Dongsi are the same measurements. A model that knew this would have an \
         infinite likelihood; the NLL above is finite only because every model puts independent noise on each column. `year` is −1 or 1 in all training rows and 3 \
         throughout the forecast, so every model extrapolates from its first step, and runs differ. The paper does not mention either.",
        error(test, |_| test.series[0].values[..34].to_vec()),
        error(test, |_| average(train)),
    ));
    all.charts(&mut out)?;
    out.heading("Scores on the 30 independent columns");
    independent.table(&mut out, None);
    out.text("The same forecasts, without the weather of Dongsi: the NLL that can be compared.");
    independent.charts(&mut out)?;
    out.heading("From the last hour of 2015");
    eve.table(&mut out, None);
    out.text(
        "The same models, started an hour earlier. The paper does not say which hour its forecast starts from; that of the \
         setup it follows is the first of 2016. At the turn of the year \
         the columns `year`, `month`, `day` and `hour` jump by two to three standard deviations at once; `year` did so once in the training \
         part. No model foresees that, so from this start the clock alone decides the scores. **This start was ours at first, and these scores were \
         seen** in a full run (same methods, same settings) before the first hour of 2016 was made the start of the main table; nothing \
         else was changed then.",
    );
    all.data(&mut out)?;
    independent.data(&mut out)?;
    eve.data(&mut out)?;
    let fit = &settings.protocol.fit;
    let about = format!(
        "Protocol: hourly rows of 2014 and 2015 train, all but the last {VALIDATED}, which choose the weights that are kept (LSTM and \
         Transformer keep the last ones); one forecast from the first hour of 2016 is scored on those that follow, up to the {TESTED}th. Columns are \
         standardised by 2014 and 2015. Hidden layers of 100, batch 16, horizon {}, {} updates of Adam at a rate that rises to 1e-3 and falls like a cosine, one Euler step of Δt = 1 per \
         hour, dropout rate 0.2 (none for NODE and cubature), `Σ₀ = 1e-6 I`. The paper's test is this single stretch of two days, so all \
         runs share their data and differ in first weights and batches only.\n\n\
         The paper does not print whether the rate stays or falls; `lotka-volterra` compares both on data of its own, and falling is better \
         there for every method. Here the rate stayed at first, in one run of each method: BMM had an MSE of 1.02 and an NLL of 10.0 (NODE 0.74, NSDE-MC 1.60 and \
         17.6), and later, with the same seed but kernels whose last digits differ, 1.89 and 15.4 (NODE 0.90, NSDE-MC the same, diffWGP 1.64 and 25.0). So \
         one run says little. These scores were seen before the rate was made to fall for all methods and BMM was given more runs.\n\n\
         diffWGP is an SDE of Gaussian processes with a Wishart diffusion, whose figures the paper copies from its authors. Ours is an implementation of \
         our own: 100 inducing points, a learning rate of 0.01 and four sampled paths per snippet as theirs, ten factors (theirs are not \
         printed in the paper), and as many snippets as all methods have here. The paper follows these authors' setup, \
         and their published program starts its forecast from the first hour of 2016, as the main table here does.",
        fit.horizon, fit.steps
    );
    contest.finish(out, &about)
}

/// Mean squared error of a forecast over the rows that are scored.
fn error(test: &Dataset, forecast: impl Fn(usize) -> Vec<f64>) -> f64 {
    let values = &test.series[0].values;
    let row = |n: usize| {
        let x = &values[n * 34..(n + 1) * 34];
        x.iter().zip(forecast(n)).map(|(x, m)| (x - m).powi(2)).sum::<f64>() / 34.0
    };
    let rows = test.series[0].rows();
    (1..rows).map(row).sum::<f64>() / (rows - 1) as f64
}

/// The mean of each column.
fn average(data: &Dataset) -> Vec<f64> {
    let column = |i: usize| data.series[0].values.iter().skip(i).step_by(34).copied().collect::<Vec<_>>();
    (0..34).map(|i| mean(&column(i))).collect()
}
