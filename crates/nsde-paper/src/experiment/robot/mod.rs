//! Table 4, columns 5 to 8, and Fig. 7c–d: all methods on a robot arm that is driven by torques.

mod choice;
mod source;

use super::Experiment;
use crate::contest::Contest;
use crate::fit::Rows;
use crate::method::Method;
use crate::outcome::Outcome;
use crate::protocol::{Protocol, Test, evaluate_all};
use crate::run::Run;
use crate::standard::Standard;
use anyhow::Result;
use choice::Choices;
use nsde::data::{Dataset, Series};
use serde::Serialize;
use source::Robot;
use std::ops::Range;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "robot",
    paper: "Table 4, columns 5 to 8, and Fig. 7c–d",
    about: "forecasts of all methods for a robot arm: same motion, and transfer to another",
    run,
};

/// Recordings are cut into pieces of this many steps for the test, each forecast from its first row.
const STEPS: usize = 100;

/// Runs for transfer, in each run for the same motion: they are short.
const SHORT: usize = 3;

#[derive(Serialize)]
struct Settings {
    protocol: Protocol,
    recordings: usize,
}

fn run(run: &Run) -> Result<()> {
    let steps = run.size(STEPS, 8);
    let robot = Robot::read(run, steps)?;
    let mut protocol = Protocol::new(robot.train.dim(), robot.dt, 50, 16, 1..steps + 1);
    protocol.test_particles = vec![2, 4, 8, 16, 32, protocol.train_particles, 64, 128];
    protocol.test_particles.sort_unstable();
    protocol.components = 9;
    if run.quick {
        protocol.fit.hidden = vec![8; 2];
        protocol.fit.noise_hidden = Some(vec![8]);
        protocol.fit.steps = 2;
        protocol.fit.horizon = 2;
        protocol.train_particles = 4;
        protocol.test_particles = vec![2, 4];
    }
    let settings = Settings { protocol, recordings: robot.train.series.len() };
    let units = Standard::new(&robot.train);
    let (train, held_out) = (units.apply(&robot.train), units.apply(&robot.held_out));
    let most = run.size(usize::MAX, 4);
    let [same, transfer] =
        [&robot.same, &robot.transfer].map(|data| pieces(&units.apply(data), steps, robot.every, most));
    let tests = [Test { data: &same, columns: None }, Test { data: &transfer, columns: None }];

    let choices = choice::choose(run, &settings.protocol, &robot)?;
    let trainings = Method::COMMON.map(|method| choices.first(method, &settings.protocol.fit));
    let contest =
        Contest::hold(run, &Method::COMMON, &settings.protocol, &(&settings, &trainings), |method, seed| {
            let mut scores = Vec::new();
            for (fit, test) in choices.first(method, &settings.protocol.fit).iter().zip(tests) {
                let protocol = settings.protocol.with(fit);
                scores.extend(evaluate_all(
                    method.predictions(),
                    &protocol,
                    method,
                    Rows::validated(&train, &held_out),
                    &[test],
                    seed,
                )?);
            }
            Ok(scores)
        })?;
    let fit = |method| choices.transfer(method, &settings.protocol.fit);
    let trainings = Method::COMMON.map(fit);
    let again = Contest::hold_named(
        run,
        "transfer-",
        &Method::COMMON,
        run.size(SHORT, 1) * run.repetitions(10, 1),
        &settings.protocol,
        &(&settings, &trainings),
        |method, seed| {
            let protocol = settings.protocol.with(&fit(method));
            let test = &tests[1..];
            evaluate_all(
                method.predictions(),
                &protocol,
                method,
                Rows::validated(&train, &held_out),
                test,
                seed,
            )
        },
    )?;
    report(
        run,
        &settings.protocol,
        &choices,
        [&contest, &again],
        &robot,
        [same.series.len(), transfer.series.len()],
    )
}

/// Pieces of `steps` steps that begin `every` so many rows; what is left at the end is dropped, and what is beyond `most` pieces.
fn pieces(data: &Dataset, steps: usize, every: usize, most: usize) -> Dataset {
    let mut out = data.clone();
    out.series.clear();
    for series in &data.series {
        for from in (0..series.rows().saturating_sub(steps)).step_by(every) {
            out.series.push(rows(series, from..from + steps + 1));
        }
    }
    out.series.truncate(most);
    out
}

/// Some rows of a recording.
fn rows(series: &Series, rows: Range<usize>) -> Series {
    let part = |x: &[f64]| {
        let width = x.len() / series.rows();
        x[rows.start * width..rows.end * width].to_vec()
    };
    Series {
        name: format!("{} from {}", series.name, rows.start),
        times: part(&series.times),
        values: part(&series.values),
        inputs: part(&series.inputs),
    }
}

/// MSE and NLL on the paper's own robot, which is another: same motion.
pub fn published_same(method: Method) -> [&'static str; 2] {
    match method {
        Method::LstmDeterministic => ["0.05(0.00)", "–"],
        Method::TransformerDeterministic => ["0.21(0.02)", "–"],
        Method::LstmStochastic => ["0.43(0.03)", "9.49(0.23)"],
        Method::TransformerStochastic => ["0.31(0.01)", "10.07(0.41)"],
        Method::Node => ["0.04(0.00)", "–"],
        Method::MonteCarlo => ["0.04(0.00)", "21.69(1.75)"],
        Method::OneStep => ["0.05(0.00)", "23.40(1.34)"],
        Method::Cubature => ["0.04(0.00)", "5.65(0.33)"],
        Method::Bmm => ["0.03(0.01)", "7.27(1.31)"],
        Method::DiffWgp | Method::BmmPlus => ["–", "–"],
    }
}

/// The same for transfer.
pub fn published_transfer(method: Method) -> [&'static str; 2] {
    match method {
        Method::LstmDeterministic => ["2.67(0.05)", "–"],
        Method::TransformerDeterministic => ["3.52(0.17)", "–"],
        Method::LstmStochastic => ["3.03(0.06)", "131(6)"],
        Method::TransformerStochastic => ["3.62(0.16)", "144(9)"],
        Method::Node => ["3.78(0.12)", "–"],
        Method::MonteCarlo => ["4.69(0.13)", "1821(12)"],
        Method::OneStep => ["4.43(0.11)", "1437(25)"],
        Method::Cubature => ["4.18(0.13)", "352(27)"],
        Method::Bmm => ["2.31(0.08)", "102(12)"],
        Method::DiffWgp | Method::BmmPlus => ["–", "–"],
    }
}

fn report(
    run: &Run,
    protocol: &Protocol,
    choices: &Choices,
    [contest, again]: [&Contest<'_>; 2],
    robot: &Robot,
    pieces: [usize; 2],
) -> Result<()> {
    let same = contest.comparison(0, "Same motion", "-same", published_same);
    let transfer = again.comparison(0, "Transfer", "-transfer", published_transfer);
    let first = contest.comparison(1, "Transfer, as first chosen", "-transfer-first", published_transfer);
    let mut out = Outcome::new(run);
    for comparison in [&same, &transfer] {
        comparison.claims(&mut out);
    }
    for comparison in [&same, &transfer] {
        out.heading(comparison.title);
        comparison.table(&mut out, None);
        comparison.charts(&mut out)?;
        comparison.data(&mut out)?;
    }
    if !robot.published {
        out.text(
            "**Not the paper's data:** its 3-DOF robot is published on one file server only (doi 10.17617/3.ZT6K7P) and was not at \
             hand, so the paper's columns belong to another robot and are shown for orientation. Whoever has it puts the training \
             file, one of the same controllers and one of others, as published, into the folder of data as `robot/3dof_train.npz`, \
             `robot/3dof_same.npz` and `robot/3dof_transfer.npz`.",
        );
    }
    out.text(&format!("MSE per coordinate, NLL summed over {}, in standard units.", robot.train.dim()));
    choices.report(&mut out, &protocol.fit)?;
    out.heading(first.title);
    out.text("What the first search for transfer had chosen, and how it fared in the test, before there was a second one.");
    first.table(&mut out, None);
    first.data(&mut out)?;
    let about = format!(
        "{} Test recordings are cut into {} and {} pieces of {} steps, each forecast from its first row. All columns are \
         standardised by the training recordings. Hidden layers of 50, batch 16, horizon {}, Adam at 1e-3, one Euler step of {} ms per \
         row. Dropout rate, `Σ₀`, weight decay and whether the rate falls are searched for, as said below, and a method has two models, one \
         for each column. For transfer they are trained briefly, and {} times. A mixture has {} Gaussians at most.",
        robot.about,
        pieces[0],
        pieces[1],
        protocol.scored.end - 1,
        protocol.fit.horizon,
        1e3 * robot.dt,
        again.runs,
        protocol.components
    );
    contest.finish(choices.seconds(), &[again], out, &about)
}
