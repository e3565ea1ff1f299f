//! What the paper leaves open of the training on the air of Beijing, chosen as the test is made, a year earlier: 2014 trains, and 2015 is
//! forecast.

use super::{Air, TESTED, TRAINED, VALIDATED, YEAR};
use crate::fit::{Fit, Moved, Recipe};
use crate::method::Method;
use crate::outcome::Outcome;
use crate::particles::Scored;
use crate::protocol::{Protocol, trial};
use crate::run::Run;
use crate::search::{self, Candidate, Choice};
use anyhow::Result;

/// Hours of 2014.
const FIRST: usize = 8_760;
/// Hours between the starts of the stretches that are forecast: a week.
const WEEK: usize = 168;
/// Particles of a method that samples.
const PARTICLES: usize = 128;
/// Members of BMM+.
pub const MEMBERS: usize = 3;
/// Updates of a trial.
const UPDATES: usize = 1000;
/// Copies of the training rows in later years.
const COPIES: usize = 2;

/// Tries what is open for every method.
pub fn choose(run: &Run, protocol: &Protocol, air: &Air) -> Result<Vec<Choice>> {
    let mut protocol = protocol.clone();
    protocol.test_particles = vec![run.size(PARTICLES, 40)];
    let [train, held_out] = air.training(run, 0..FIRST);
    let test = air.stretches(run, (FIRST..TRAINED - TESTED).step_by(WEEK).take(run.size(FIRST, 2)));
    let candidates = |method| candidates(method, &protocol.fit, air.year());
    search::choose_some(run, "search", &protocol, &Method::ALL, 1, candidates, |method, fit, _| {
        let found = trial(&protocol.with(fit), method, &train, Some(&held_out), &test, run.seed)?;
        Ok(found.map(Scored::likely))
    })
}

/// What is tried. A neural SDE keeps its best weights, and has short trials; the others keep the last, so that their number of updates is
/// tried too.
fn candidates(method: Method, fit: &Fit, year: f64) -> Vec<Candidate> {
    let moved = Moved { column: YEAR, by: year, copies: COPIES };
    let recipes = [(0.0, None), (1.0, None), (0.0, Some(moved)), (0.3, Some(moved))];
    let short = UPDATES.min(fit.steps);
    let steps = if method.keeps_best() { vec![short] } else { vec![short, fit.steps] };
    let candidate = |fit: &Fit, steps: usize, (decay, moved): (f64, Option<Moved>)| {
        let words = [
            if fit.recipe == Recipe::Ours { "our recipe" } else { "" },
            if moved.is_some() { "years moved" } else { "" },
            &format!("decay {decay}"),
            &format!("{steps} updates"),
        ];
        let label = words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ");
        Candidate { label, fit: Fit { weight_decay: decay, steps, moved, ..fit.clone() } }
    };
    let all = |steps: &usize| recipes.map(|recipe| candidate(&method.usual(fit), *steps, recipe));
    let mut list: Vec<Candidate> = steps.iter().flat_map(all).collect();
    if method == Method::BmmPlus {
        // What BMM has.
        list.extend(recipes[2..].iter().map(|recipe| candidate(fit, short, *recipe)));
    }
    list
}

/// The training of every method that has one: of full length where the best weights are kept. BMM+ is an ensemble of what was tried as
/// one.
pub fn trainings(choices: &[Choice], fit: &Fit) -> Vec<(Method, Fit)> {
    let training = |Choice { method, chosen, .. }: &Choice| {
        let members = if *method == Method::BmmPlus { MEMBERS } else { 1 };
        let steps = if method.keeps_best() { fit.steps } else { chosen.fit.steps };
        (*method, Fit { members, steps, ..chosen.fit.clone() })
    };
    choices.iter().map(training).collect()
}

/// The search on the page.
pub fn report(out: &mut Outcome<'_>, choices: &[Choice]) -> Result<()> {
    out.heading("What was searched");
    out.text(&format!(
        "The paper prints neither weight decay nor the number of updates of this experiment, nor what it did about the year. They are chosen \
         for every method alike, by a trial that is the test itself a year earlier: the rows of 2014 train, all but the last {VALIDATED}, which choose the \
         weights as above, and stretches of {TESTED} hours of 2015, one from the first hour of every week, are forecast. No row of 2016 takes part. The score \
         is the NLL, with {PARTICLES} particles where a method samples, and the MSE where there is no density; the lowest wins. *Years moved*: the training \
         rows are there {} times, as they are and with `year` raised by one and by two in the copies, so that a model learns not to care about it. \
         A neural SDE keeps the best of its weights: its trials have {UPDATES} updates, its training then has all. The others keep the last ones, so their number \
         is tried too. BMM+ has our recipe (softplus diffusion, a rate of 3e-3, clipped gradients, averaged weights) or that of BMM, and is an ensemble of \
         {MEMBERS}, tried as one.",
        COPIES + 1,
    ));
    search::report(out, "search", "what was tried, and what was chosen", choices)
}
