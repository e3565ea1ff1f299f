//! Table 4, columns 1 and 2, and Fig. 7a: all methods on the stochastic Lotka–Volterra equations.

mod schedule;

use super::Experiment;
use crate::cells::Order;
use crate::contest::Contest;
use crate::method::Method;
use crate::outcome::Outcome;
use crate::particles::{Judge, Scored};
use crate::protocol::{Protocol, evaluate};
use crate::run::Run;
use crate::search::{self, Choice};
use crate::statistics::printed;
use anyhow::Result;
use nsde::Gaussian;
use nsde::data::Dataset;
use nsde::simulate::{Recording, lotka_volterra};
use serde::Serialize;
use std::sync::OnceLock;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "lotka-volterra",
    paper: "Table 4 and Fig. 7a",
    about: "forecasts of all methods, and calibration over the number of particles",
    run,
};

/// Rows of a path; the first half trains, the second half is scored.
const ROWS: usize = 200;
const TRAINED: usize = 100;

#[derive(Serialize)]
struct Settings {
    protocol: Protocol,
    paths: usize,
    substeps: usize,
}

impl Settings {
    /// The paths of a run.
    fn simulate(&self, seed: u64) -> Dataset {
        let (paths, substeps) = (self.paths, self.substeps);
        lotka_volterra(Recording { paths, rows: ROWS, spacing: 0.05, substeps, seed }).0
    }
}

/// MSE and NLL as the paper prints them.
pub fn published(method: Method) -> [&'static str; 2] {
    match method {
        Method::LstmDeterministic => ["1.86(0.02)", "–"],
        Method::TransformerDeterministic => ["1.94(0.04)", "–"],
        Method::LstmStochastic => ["2.41(0.09)", "5.32(0.14)"],
        Method::TransformerStochastic => ["2.19(0.06)", "5.03(0.06)"],
        Method::Node => ["1.98(0.04)", "–"],
        Method::MonteCarlo => ["2.07(0.11)", "4.95(0.44)"],
        Method::OneStep => ["2.44(0.14)", "5.38(0.27)"],
        Method::Cubature => ["1.91(0.08)", "4.84(0.19)"],
        Method::Bmm => ["1.75(0.03)", "4.35(0.15)"],
        Method::DiffWgp | Method::BmmPlus => ["–", "–"],
    }
}

fn run(run: &Run) -> Result<()> {
    let mut protocol = Protocol::new(2, 0.05, 50, 10, TRAINED..ROWS);
    if run.quick {
        protocol.fit.steps = 3;
        protocol.test_particles = vec![1, 2, 10, 16];
        protocol.shared = 2;
    }
    let settings = Settings { protocol, paths: run.size(128, 8), substeps: run.size(5000, 50) };
    let choices = schedule::choose(run, &settings)?;
    let runs = run.repetitions(10, 1);
    // The methods of a run share its data, which take seconds to simulate.
    let data: Vec<OnceLock<Dataset>> = (0..runs).map(|_| OnceLock::new()).collect();
    let data = |seed: u64| data[(seed - run.seed) as usize].get_or_init(|| settings.simulate(seed));
    let contest =
        Contest::hold(run, &Method::COMMON, &settings.protocol, &(&settings, &choices), |method, seed| {
            let fit = search::of(&choices, method, &settings.protocol.fit);
            let train = data(seed).first_rows(TRAINED);
            Ok(vec![evaluate(&settings.protocol.with(fit), method, &train, data(seed), seed)?])
        })?;
    let floors: Vec<(String, u64)> =
        (0..runs).map(|r| (format!("floor-run-{r}"), run.seed + r as u64)).collect();
    let floors = run.cells(Order::Together, &settings, &floors, |seed| floor(data(*seed)))?;
    let floors: Vec<Scored> = floors.into_iter().map(|d| d.value).collect();
    report(run, &settings, &choices, &contest, &floors)
}

/// What no Gaussian forecast from t = 0 can beat on these very data.
fn floor(data: &Dataset) -> Result<Scored> {
    let mut judge = Judge::default();
    for row in TRAINED..ROWS {
        let at: Vec<&[f64]> = data.series.iter().map(|s| &s.values[2 * row..2 * row + 2]).collect();
        let n = at.len() as f64;
        let mean: Vec<f64> = (0..2).map(|i| at.iter().map(|x| x[i]).sum::<f64>() / n).collect();
        let entry =
            |i: usize, j: usize| at.iter().map(|x| (x[i] - mean[i]) * (x[j] - mean[j])).sum::<f64>() / n;
        let cov = vec![entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)];
        let best = Gaussian::new(mean, cov)?;
        at.iter().try_for_each(|x| judge.gaussian(&best, x))?;
    }
    Ok(judge.scored())
}

fn report(
    run: &Run,
    settings: &Settings,
    choices: &[Choice],
    contest: &Contest<'_>,
    floors: &[Scored],
) -> Result<()> {
    let protocol = &settings.protocol;
    let comparison = contest.comparison(0, "Lotka–Volterra", "", published);
    let mut out = Outcome::new(run);
    let bmm = comparison.of(Method::Bmm, "bmm", None);
    out.claim(
        "NSDE-BMM: MSE 1.75(0.03), NLL 4.35(0.15)",
        &format!("MSE {}, NLL {}", bmm.mse(), bmm.nll(true)),
        "other data than the paper's: compare with the floor below",
    );
    comparison.claims(&mut out);

    out.heading("Scores");
    let of_runs =
        |pick: fn(&Scored) -> Option<f64>| printed(&floors.iter().filter_map(pick).collect::<Vec<_>>());
    let floor = [of_runs(|s| Some(s.mse)), of_runs(|s| s.nll), of_runs(|s| s.ecpe)];
    comparison.table(&mut out, Some(floor));
    out.text(
        "Mean and standard error over the runs. MSE per coordinate, NLL summed over both, in the units of the data. The \
         floor is the Gaussian with the paths' own mean and covariance at every row: no Gaussian forecast from t = 0 does \
         better on these data. The paper's sampling methods train on 2(2D+1) = 10 particles; how many it tests with is not \
         printed, so few and many are shown. `mixture` splits Gaussians that bend (`nsde::mixture`); it is no Gaussian, so \
         the floor of the NLL does not bind it. BMM+ differs from BMM in training too: a softplus at the end of the diffusion \
         net, a higher learning rate, clipped gradients, averaged weights.",
    );
    comparison.charts(&mut out)?;
    comparison.data(&mut out)?;
    schedule::report(&mut out, choices)?;
    let about = format!(
        "Protocol: {} paths from (3, 5), Euler–Maruyama with {} steps between values 0.05 s apart; paths that leave the \
         positive quadrant are drawn again. The first {TRAINED} values of each path train: {} updates of Adam at 1e-3, constant or \
         falling as found below, with 16 snippets and a horizon of {} steps, one Euler step per value, `Σ₀ = 1e-6 I`, dropout rate 0.2 (none for NODE and \
         cubature). Every method forecasts once from t = 0 and is scored on rows {TRAINED} to {}, in raw units. The paper does \
         not say whether its runs share their data; ours draw data, first weights and batches anew in every run. LSTM and \
         Transformer have about 50 and 101 thousand parameters, predict the change to the next value, are trained on single \
         steps as in the paper, and feed their predictions (or samples) back.",
        settings.paths,
        settings.substeps,
        protocol.fit.steps,
        protocol.fit.horizon,
        ROWS - 1
    );
    contest.finish(search::seconds(choices), &[], out, &about)
}
