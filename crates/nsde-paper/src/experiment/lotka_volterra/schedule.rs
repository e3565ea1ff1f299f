//! Whether Adam's rate stays or falls, which the paper does not print: chosen for each method on paths of other seeds
//! than those it is scored on.

use super::{Settings, TRAINED};
use crate::cells::Order;
use crate::fit::Recipe;
use crate::method::Method;
use crate::outcome::{Outcome, number};
use crate::protocol::{Line, evaluate};
use crate::run::Run;
use crate::statistics::mean;
use anyhow::Result;
use nsde::data::Dataset;
use serde::Serialize;
use std::sync::OnceLock;

/// What a method is trained with.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    method: Method,
    recipe: Recipe,
    /// The score of both candidates, lower is better.
    #[serde(skip)]
    scores: [Option<f64>; 2],
}

const CANDIDATES: [Recipe; 2] = [Recipe::Paper, Recipe::Falling];
/// Added to the seeds of the runs.
const OTHER_SEEDS: u64 = 1_000_000;

/// Trains every method of the paper with both schedules, on data of their own, and keeps the better one.
pub fn choose(run: &Run, settings: &Settings) -> Result<Vec<Choice>> {
    let runs = run.size(3, 1);
    let mut protocol = settings.protocol.clone();
    protocol.test_particles = run.size(vec![64], vec![16]);
    let methods = || Method::ALL.into_iter().filter(|m| *m != Method::BmmPlus);
    let cells: Vec<(String, (Method, Recipe, u64))> = (0..runs)
        .flat_map(|r| methods().map(move |m| (r, m)))
        .flat_map(|(r, m)| CANDIDATES.map(|c| (r, m, c)))
        .map(|(r, m, c)| (format!("schedule-{}-{c:?}-{r}", m.slug()), (m, c, r)))
        .collect();
    let data: Vec<OnceLock<Dataset>> = (0..runs).map(|_| OnceLock::new()).collect();
    let done = run.cells(Order::Together, settings, &cells, |(method, recipe, r)| {
        let seed = OTHER_SEEDS + run.seed + r;
        let data = data[*r as usize].get_or_init(|| settings.simulate(seed));
        let lines = evaluate(&protocol.with(*recipe), *method, &data.first_rows(TRAINED), data, seed)?;
        Ok(own_score(*method, &lines))
    })?;
    let choice = |method: Method| {
        let scores = CANDIDATES.map(|candidate| {
            let of = cells.iter().zip(&done);
            let of = of.filter(|((_, (m, c, _)), _)| *m == method && *c == candidate);
            let found: Option<Vec<f64>> = of.map(|(_, d)| d.value).collect();
            found.filter(|x| !x.is_empty()).map(|x| mean(&x))
        });
        let [stays, falls] = scores.map(|s| s.unwrap_or(f64::INFINITY));
        let recipe = if falls < stays { Recipe::Falling } else { Recipe::Paper };
        // Not chosen: BMM+ has a recipe of its own.
        let recipe = if method == Method::BmmPlus { Recipe::Ours } else { recipe };
        Choice { method, recipe, scores }
    };
    Ok(Method::ALL.map(choice).to_vec())
}

/// What was chosen for a method.
pub fn of(choices: &[Choice], method: Method) -> Recipe {
    choices.iter().find(|c| c.method == method).map_or(Recipe::Paper, |c| c.recipe)
}

/// The NLL of the method's own way to predict, or the MSE where it has no density; `None` if it diverged.
fn own_score(method: Method, lines: &[Line]) -> Option<f64> {
    let own = lines.iter().rfind(|l| l.prediction == method.predictions()[0])?;
    Some(own.scored.nll.unwrap_or(own.scored.mse))
}

/// The choices as a table and a file.
pub fn report(out: &mut Outcome<'_>, choices: &[Choice]) -> Result<()> {
    let chosen = choices.iter().filter(|c| c.method != Method::BmmPlus);
    let word = |recipe: Recipe| if recipe == Recipe::Falling { "falls" } else { "stays" };
    let rows = |digits: fn(f64) -> String| -> Vec<Vec<String>> {
        let row = |c: &Choice| {
            let [stays, falls] = c.scores.map(|s| s.map_or("diverged".into(), digits));
            vec![c.method.name().into(), stays, falls, word(c.recipe).into()]
        };
        chosen.clone().map(row).collect()
    };
    let header = ["method", "stays", "falls", "chosen"];
    out.heading("The learning rate");
    out.text(
        "The paper does not print whether its rate of 1e-3 stays or falls. For every method alike we took the better of \
         both (rising over 2 % of the updates and falling like a cosine, or constant), by the mean NLL of three runs (MSE \
         where there is no density; 64 particles where it samples) on paths of other seeds than those above.",
    );
    out.table(&header, &rows(|x| format!("{x:.2}")));
    out.data("schedule", "how the learning rate was chosen", &header, &rows(number))
}
