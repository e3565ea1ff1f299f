//! Table 4, columns 3 and 4, and Fig. 7b: all methods on the air of Beijing, 34 columns by the hour.

mod choice;

use super::Experiment;
use crate::contest::Contest;
use crate::fit::{Recipe, Rows};
use crate::method::Method;
use crate::outcome::Outcome;
use crate::protocol::{Protocol, Test, evaluate_all};
use crate::run::Run;
use crate::search::{self, Choice};
use crate::standard::{Standard, dataset};
use crate::statistics::mean;
use anyhow::{Result, bail};
use nsde::data::{Dataset, Series};
use serde::Serialize;
use std::iter::once;
use std::ops::Range;

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
/// Hours between the starts of stretches, where there are many.
const WEEK: usize = 168;
/// Stretches of 2016.
const WEEKS: usize = 52;
/// The column of the year.
const YEAR: usize = 0;
/// The weather of Dongsi is that of Tiantan, in every row.
const REPEATED: [&str; 4] = ["Dongsi_TEMP", "Dongsi_PRES", "Dongsi_DEWP", "Dongsi_RAIN"];

#[derive(Serialize)]
struct Settings {
    protocol: Protocol,
    rows: usize,
    weeks: usize,
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

/// The table, and the standard units of its training rows.
struct Air {
    columns: Vec<String>,
    rows: Vec<Vec<f64>>,
    units: Standard,
}

impl Air {
    fn read(run: &Run) -> Result<Air> {
        let (columns, rows) = run.data.table("air_quality/beijing_34_2014-2016.csv.gz")?;
        if columns.len() != 34 || rows.len() < TRAINED + WEEKS * WEEK {
            bail!("the table of air quality has {} columns and {} rows", columns.len(), rows.len());
        }
        let units = Standard::new(&series(&columns, &rows, once(0..TRAINED)));
        Ok(Air { columns, rows, units })
    }

    /// A year, in standard units.
    fn year(&self) -> f64 {
        let year = |row: usize| self.part(row..row + 1).series[0].values[YEAR];
        year(TRAINED) - year(TRAINED - 1)
    }

    /// A range of rows as one series.
    fn part(&self, rows: Range<usize>) -> Dataset {
        self.units.apply(&series(&self.columns, &self.rows, once(rows)))
    }

    /// What trains of these rows, what chooses the weights, and all of them. The last rows choose, in the year that is to be forecast:
    /// without that nobody would see what a model makes of a year that it was not trained on.
    fn training(&self, run: &Run, rows: Range<usize>) -> [Dataset; 3] {
        let rows = rows.end - run.size(rows.len(), 300)..rows.end;
        let cut = rows.end - run.size(VALIDATED, 50);
        let mut held_out = self.part(cut..rows.end);
        let years = held_out.series[0].values.iter_mut().skip(YEAR).step_by(self.columns.len());
        years.for_each(|year| *year += self.year());
        [self.part(rows.start..cut), held_out, self.part(rows)]
    }

    /// What is forecast from each of these rows.
    fn stretches(&self, run: &Run, starts: impl Iterator<Item = usize>) -> Dataset {
        let ranges = starts.map(|start| start..start + run.size(TESTED, 4));
        self.units.apply(&series(&self.columns, &self.rows, ranges))
    }
}

/// Ranges of rows, each a series.
fn series(columns: &[String], rows: &[Vec<f64>], ranges: impl Iterator<Item = Range<usize>>) -> Dataset {
    let series = ranges.map(|range| Series {
        name: "air".into(),
        times: range.clone().map(|n| n as f64).collect(),
        values: rows[range].concat(),
        inputs: Vec::new(),
    });
    dataset(columns, &[], series.collect())
}

fn run(run: &Run) -> Result<()> {
    let air = Air::read(run)?;
    let tested = run.size(TESTED, 4);
    let mut protocol = Protocol::new(34, 1.0, 100, 10, 1..tested);
    // What `lotka-volterra` found to be better for every method.
    protocol.fit.recipe = Recipe::Falling;
    protocol.fit.look = Some(tested - 1);
    protocol.test_particles = vec![2, 4, 8, 16, 32, 64, 128, protocol.train_particles, 256, 512];
    if run.quick {
        protocol.fit.hidden = vec![8; 2];
        protocol.fit.noise_hidden = Some(vec![8]);
        protocol.fit.steps = 2;
        protocol.fit.horizon = 2;
        protocol.train_particles = 4;
        protocol.test_particles = vec![2, 4];
    }
    let settings = Settings { protocol, rows: run.size(TRAINED, 300), weeks: run.size(WEEKS, 2) };
    let [train, held_out, whole] = air.training(run, 0..TRAINED);
    let test = air.stretches(run, once(TRAINED));
    let eve = air.stretches(run, once(TRAINED - 1));
    let weeks = air.stretches(run, (TRAINED..).step_by(WEEK).take(settings.weeks));
    let independent: Vec<usize> = (0..34).filter(|i| !REPEATED.contains(&air.columns[*i].as_str())).collect();
    let tests = [
        Test { data: &test, columns: None },
        Test { data: &test, columns: Some(&independent) },
        Test { data: &eve, columns: None },
        Test { data: &weeks, columns: None },
    ];

    let rows = Rows { train: &train, held_out: Some(&held_out), whole: Some(&whole) };
    let choices = choice::choose(run, &settings.protocol, &air)?;
    let trainings = choice::trainings(&choices, &settings.protocol.fit);
    let contest =
        Contest::hold_searched(run, &trainings, &settings.protocol, &settings, |method, fit, seed| {
            let protocol = settings.protocol.with(fit);
            evaluate_all(method.predictions(), &protocol, method, rows, &tests, seed)
        })?;
    let year = choice::stretches(run, &air);
    report(run, &settings, &choices, &contest, [&train, &test, &weeks, &year])
}

fn report(
    run: &Run,
    settings: &Settings,
    choices: &[Choice],
    contest: &Contest<'_>,
    [train, test, weeks, year]: [&Dataset; 4],
) -> Result<()> {
    let all = contest.comparison(0, "Air quality", "", published);
    let independent = contest.comparison(1, "Air quality, 30 columns", "-independent", |_| ["", ""]);
    let eve = contest.comparison(2, "Air quality, from 2015", "-from-2015", |_| ["", ""]);
    let many = contest.comparison(3, "Air quality, weeks of 2016", "-weeks", |_| ["", ""]);
    let mut out = Outcome::new(run);
    let bmm = all.of(Method::Bmm, "bmm", None);
    let good = !bmm.mse.is_empty() && mean(&bmm.nll) <= 34.30 && mean(&bmm.mse) <= 1.44;
    out.claim(
        "NSDE-BMM: MSE 1.44(0.10), NLL 34.30(0.50)",
        &format!("MSE {}, NLL {}", bmm.mse(), bmm.nll(true)),
        if good { "both reached" } else { "not both reached" },
    );
    all.claims(&mut out);
    many.claims(&mut out);

    out.heading("Scores on all 34 columns");
    all.table(&mut out, None);
    out.text(&format!(
        "In standard units. A forecast of no change has MSE {:.2}, one of the training mean {:.2}. **The 34 columns have rank 30 at most:** \
         temperature, pressure, dew point and rain of Tiantan and Dongsi are the same measurements. A model that knew this would have an \
         infinite likelihood; the NLL above is finite only because every model puts independent noise on each column. \
         The paper does not mention it.",
        error(test, first),
        error(test, |_| average(train)),
    ));
    all.charts(&mut out)?;
    out.heading("Every week of 2016");
    many.table(&mut out, None);
    out.text(&format!(
        "The same models, asked for {} stretches of {TESTED} hours, from the first hour of every week of 2016; the first of them is that of the paper. Two days say \
         little about a method, a hundred say more. Nothing was chosen by them. A forecast of no change has MSE {:.2}.",
        settings.weeks,
        error(weeks, first),
    ));
    many.charts(&mut out)?;
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
    choice::report(&mut out, &settings.protocol.fit, choices, error(year, first))?;
    all.data(&mut out)?;
    independent.data(&mut out)?;
    eve.data(&mut out)?;
    many.data(&mut out)?;
    let fit = &settings.protocol.fit;
    let about = format!(
        "Protocol: hourly rows of 2014 and 2015 train; the last {VALIDATED} choose the weights, and train only where the search says *all rows*. One forecast from the first hour \
         of 2016 is scored on those that follow, up to the {TESTED}th. Columns are \
         standardised by 2014 and 2015. Hidden layers of 100, batch 16, horizon {}, {} updates of Adam at a rate that rises to 1e-3 and falls like a cosine (what \
         `lotka-volterra` found better for every method), one Euler step of Δt = 1 per hour, dropout rate 0.2 or what the search says (none for NODE and cubature), `Σ₀ = 1e-6 I`. The \
         paper's test is this single stretch of two days, so all runs share their data and differ in first weights and batches only.\n\n\
         **The year.** `year` is −1 or 1 in all training rows, in standard units, and 3 throughout the test: every model extrapolates. On rows of 2014 \
         and 2015 we saw what that does. BMM, trained on 2014, forecast the last weeks of 2014 over 47 hours as well as before when its training went on, and 2015 ever worse \
         (one run, after 500 and 3000 updates: an MSE of 0.67 and 0.73 on the former, 1.07 and 2.03 on the latter, of which the hour of the day had 0.9 and 5.3), while \
         with weight decay of 1, or with copies of the rows in later years, it stayed near 1 on 2015 (single runs of a program that was not kept; the table of the search below has what a command repeats). So such copies, and weight decay, are tried for every method, as said below, and the rows that choose the weights of a neural \
         SDE have their `year` raised by one: kept are those that forecast these rows best over {} hours, by their NLL (NODE: MSE), of {} looks. LSTM, Transformer and \
         diffWGP keep the last weights.\n\n\
         **Test scores that were seen before:** earlier versions of this page had none of this, and chose weights by forecasts over {} hours. With a rate that \
         stays BMM had an MSE of 1.02 and an NLL of 10.0 in one run, and 1.89 and 15.4 with kernels whose last digits differ (NODE 0.74, then 0.90; NSDE-MC 1.60 and \
         17.6; diffWGP 1.64 and 25.0); with one that falls 1.85(0.18) and -5.3(1.8) in five runs (NSDE-MC 2.46 and 1.8, NODE 1.50, a Transformer 1.35). That MSE, \
         above the paper's, made us look for its cause.\n\n\
         diffWGP is an SDE of Gaussian processes with a Wishart diffusion, whose figures the paper copies from its authors. Ours is an implementation of \
         our own: 100 inducing points, a learning rate of 0.01 and four sampled paths per snippet as theirs, ten factors (theirs are not \
         printed in the paper), and as many snippets as all methods have here. The paper follows these authors' setup, \
         and their published program starts its forecast from the first hour of 2016, as the main table here does.",
        fit.horizon,
        fit.steps,
        TESTED - 1,
        fit.steps / fit.train_options(0).validate_every,
        fit.horizon,
    );
    contest.finish(search::seconds(choices), &[], out, &about)
}

/// Mean squared error over the rows that are scored, of a forecast that stays where it is.
fn error(test: &Dataset, forecast: impl Fn(&Series) -> Vec<f64>) -> f64 {
    let mut squares = Vec::new();
    for series in &test.series {
        let still = forecast(series);
        for x in series.values.chunks(still.len()).skip(1) {
            squares.extend(x.iter().zip(&still).map(|(x, m)| (x - m).powi(2)));
        }
    }
    mean(&squares)
}

/// The first row.
fn first(series: &Series) -> Vec<f64> {
    series.values[..series.values.len() / series.rows()].to_vec()
}

/// The mean of each column.
fn average(data: &Dataset) -> Vec<f64> {
    let column = |i: usize| data.series[0].values.iter().skip(i).step_by(34).copied().collect::<Vec<_>>();
    (0..34).map(|i| mean(&column(i))).collect()
}
