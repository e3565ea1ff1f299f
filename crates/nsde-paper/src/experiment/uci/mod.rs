//! Tables 1 and 2 and Fig. 6: regression on eight UCI sets by neural SDEs of continuous depth (Sec. 6.2).

mod about;
mod dropout;
mod dvi;
mod layer;
mod method;
mod published;
mod recipes;
mod report;
mod score;
mod table;

use super::Experiment;
use crate::cells::Order;
use crate::run::Run;
use anyhow::Result;
use method::{Effort, Method, Plus, SHARP, Search};
pub use recipes::EXPERIMENT as RECIPES;
pub use report::summary;
use report::{Results, Trial};
use table::{Features, SETS, Set, Table};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "uci",
    paper: "Tables 1 and 2, Fig. 6",
    about: "regression with an SDE as a layer, on eight UCI sets",
    run,
};

/// How much is done for a set. Numbers of updates and dropout rates come from rows held out (`about.rs`).
fn effort(run: &Run, set: &Set) -> Effort {
    let large = set.rows > 5000;
    let search = |updates: usize, rate: f64, rates: &[f64]| Search {
        updates: run.size(updates, 4),
        rate,
        rates: run.size(rates, &[0.0, 0.1]).to_vec(),
        init_var: SHARP,
        blur: 0.0,
        goes_on: None,
    };
    // Wine Red has a start as wide as its features are spread: fewer rows held out fell where the model was too sure. Naval's
    // answers hang on small differences of its features, which a flow must enlarge, and the start's variance with them.
    let from = |init_var: f64, search: Search| Search { init_var, ..search };
    // Noise on the answers does the same without smoothing the mean, and lets all rows train.
    let blurred = |blur: f64, search: Search| Search { blur, ..search };
    // Where a longer flow, trained from its first weights, is no better even on the rows that choose its weights.
    let going_on = |share: f64, search: Search| Search { goes_on: Some(share), ..search };
    let (flow, plus) = match set.slug {
        "boston" => (search(400, 5e-3, &[0.2, 0.4]), search(400, 5e-3, &[0.2, 0.4])),
        "energy" => (blurred(0.02, search(2000, 5e-3, &[0.02])), search(2000, 5e-3, &[0.0, 0.02])),
        "concrete" => (blurred(0.15, search(2000, 1e-2, &[0.1])), search(2000, 1e-2, &[0.2])),
        "wine_red" => {
            let wide = from(1.0, search(1000, 5e-3, &[0.2]));
            (blurred(0.2, going_on(1.0, wide.clone())), wide)
        }
        "kin8nm" => (search(5000, 5e-3, &[0.0, 0.02]), search(3000, 5e-3, &[0.0])),
        "power" => (going_on(0.3, search(10_000, 1e-2, &[0.0, 0.02])), search(10_000, 1e-2, &[0.0])),
        "naval" => (
            going_on(0.3, from(1e-10, search(10_000, 1e-2, &[0.0, 0.02]))),
            from(1e-10, search(20_000, 1e-2, &[0.0])),
        ),
        _ => (blurred(0.2, going_on(0.3, search(15_000, 1e-2, &[0.0]))), search(15_000, 1e-2, &[0.0])),
    };
    // The answers of Wine Red are six whole numbers: a mixture would put a spike on each, and its density there would
    // have no bound.
    let components = match set.slug {
        "wine_red" => 1,
        _ if large => 5,
        _ => 3,
    };
    let plus = Plus {
        search: plus,
        members: run.size(5, 2),
        components,
        hidden: if large { 64 } else { 40 },
        flow: if run.quick || large { 2.0 } else { 4.0 },
    };
    Effort {
        small_updates: run.size(if large { 40_000 } else { 15_000 }, 4),
        flow,
        plus,
        // Rare rows decide on Protein: a thousand held out do not show them.
        held_out: run.size(if set.slug == "protein" { 5000 } else { 1000 }, 20),
        particles: run.size(vec![2, 4, 8, 16, 32, 64, 128], vec![2, 4]),
        rows: run.size(None, Some(60)),
        features: match set.slug {
            "boston" | "concrete" | "protein" => Features::Ranked,
            "wine_red" => Features::Clipped(4.0),
            _ => Features::Standard,
        },
    }
}

fn run(run: &Run) -> Result<()> {
    let sets: Vec<&Set> = SETS.iter().take(run.size(SETS.len(), 1)).collect();
    let mut results = Results::default();
    // Set by set, and a page after each: a run that is stopped early has complete sets to show.
    for set in sets {
        let table = Table::read(&run.data, set)?;
        let effort = effort(run, set);
        let before = results.trials.len();
        for method in Method::ALL {
            let cells: Vec<(String, (Method, usize))> = (0..set.splits)
                .map(|s| (format!("{}-{}-{s}", set.slug, method.slug()), (method, s)))
                .collect();
            let splits = run.repetitions(set.splits, 1);
            let done =
                run.some_cells(Order::Together, &effort.of(method), &cells, splits, |(method, number)| {
                    let seed = run.seed.wrapping_mul(1000).wrapping_add(*number as u64);
                    method.run(&table.split(*number, effort.rows, effort.features), &effort, seed)
                })?;
            for ((_, (method, split)), done) in cells.iter().zip(done) {
                let Some(done) = done else { continue };
                let (found, seconds) = (done.value, done.seconds);
                results.trials.push(Trial { set: *set, method: *method, split: *split, found, seconds });
            }
        }
        if results.trials.len() > before {
            results.efforts.push((*set, effort));
            report::write(run, &results)?;
        }
    }
    Ok(())
}
