//! Whether Adam's rate stays or falls, which the paper does not print: chosen for each method on paths of other seeds
//! than those it is scored on.

use super::{Settings, TRAINED};
use crate::fit::{Fit, Recipe, Rows};
use crate::method::Method;
use crate::outcome::Outcome;
use crate::particles::Scored;
use crate::protocol::trial;
use crate::run::Run;
use crate::search::{self, Candidate, Choice};
use anyhow::Result;
use nsde::data::Dataset;
use std::sync::OnceLock;

/// Added to the seeds of the runs.
const OTHER_SEEDS: u64 = 1_000_000;

/// Trains every method of the paper with both schedules, on data of their own, and keeps the better one. BMM+ has a recipe of
/// its own.
pub fn choose(run: &Run, settings: &Settings) -> Result<Vec<Choice>> {
    let runs = run.size(3, 1);
    let mut protocol = settings.protocol.clone();
    protocol.test_particles = run.size(vec![64], vec![16]);
    let candidates = |method: Method| {
        let candidate = |(label, recipe): (&str, Recipe)| Candidate {
            label: label.into(),
            fit: method.usual(&Fit { recipe, ..settings.protocol.fit.clone() }),
        };
        [("stays", Recipe::Paper), ("falls", Recipe::Falling)].map(candidate).to_vec()
    };
    let data: Vec<OnceLock<Dataset>> = (0..runs).map(|_| OnceLock::new()).collect();
    search::choose(run, "schedule", settings, runs, candidates, |method, fit, part| {
        let seed = OTHER_SEEDS + run.seed + part as u64;
        let data = data[part].get_or_init(|| settings.simulate(seed));
        let found = trial(&protocol.with(fit), method, Rows::all(&data.first_rows(TRAINED)), data, seed)?;
        Ok(found.map(Scored::likely))
    })
}

/// The choices as a table and a file.
pub fn report(out: &mut Outcome<'_>, choices: &[Choice]) -> Result<()> {
    out.heading("The learning rate");
    out.text(
        "The paper does not print whether its rate of 1e-3 stays or falls. For every method alike we took the better of \
         both (rising over 2 % of the updates and falling like a cosine, or constant), by the mean NLL of three runs (MSE \
         where there is no density; 64 particles where it samples) on paths of other seeds than those above.",
    );
    search::report(out, "schedule", "how the learning rate was chosen", choices)
}
