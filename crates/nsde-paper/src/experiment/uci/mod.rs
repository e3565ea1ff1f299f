//! Tables 1 and 2 and Fig. 6: regression on eight UCI sets by neural SDEs of continuous depth (Sec. 6.2).

mod dropout;
mod dvi;
mod layer;
mod method;
mod published;
mod report;
mod score;
mod table;

use super::Experiment;
use crate::cells::Order;
use crate::run::Run;
use anyhow::Result;
use method::{Effort, Method};
pub use report::summary;
use report::{Results, Trial};
use table::{SETS, Set, Table};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "uci",
    paper: "Tables 1 and 2, Fig. 6",
    about: "regression with an SDE as a layer, on eight UCI sets",
    run,
};

/// How much is done for a set.
fn effort(run: &Run, set: &Set) -> Effort {
    if run.quick {
        return Effort {
            updates: 4,
            small_updates: 4,
            rates: vec![0.0, 0.1],
            rate: 3e-3,
            held_out: 20,
            members: 2,
            plus_flow: 2.0,
            particles: vec![2, 4],
            rows: Some(60),
        };
    }
    let large = set.rows > 5000;
    let (updates, rates) = match set.slug {
        "boston" => (400, [0.05, 0.2, 0.4]),
        "energy" => (3000, [0.02, 0.05, 0.1]),
        "concrete" => (1500, [0.1, 0.2, 0.4]),
        "wine_red" => (500, [0.1, 0.2, 0.4]),
        _ => (6000, [0.02, 0.05, 0.1]),
    };
    Effort {
        updates,
        small_updates: if large { 15_000 } else { 3000 },
        rates: rates.to_vec(),
        rate: 5e-3,
        held_out: 1000,
        members: 5,
        plus_flow: 4.0,
        particles: vec![2, 4, 8, 16, 32, 64, 128],
        rows: None,
    }
}

fn run(run: &Run) -> Result<()> {
    let sets: Vec<&Set> = SETS.iter().take(run.size(SETS.len(), 1)).collect();
    let mut results = Results::default();
    // Set by set, and a page after each: a run that is stopped early has complete sets to show.
    for set in sets {
        let table = Table::read(&run.data, set)?;
        let effort = effort(run, set);
        let splits = run.repetitions(set.splits, 1).min(set.splits);
        let cells: Vec<(String, (Method, usize))> = (0..splits)
            .flat_map(|s| Method::ALL.map(|m| (format!("{}-{s}-{}", set.slug, m.slug()), (m, s))))
            .collect();
        let done = run.some_cells(Order::Together, &effort, &cells, |(method, number)| {
            let seed = run.seed.wrapping_mul(1000).wrapping_add(*number as u64);
            method.run(&table.split(*number, effort.rows), &effort, seed)
        })?;
        let before = results.trials.len();
        for ((_, (method, split)), done) in cells.iter().zip(done) {
            let Some(done) = done else { continue };
            let (found, seconds) = (done.value, done.seconds);
            results.trials.push(Trial { set: *set, method: *method, split: *split, found, seconds });
        }
        if results.trials.len() > before {
            results.efforts.push((*set, effort));
            report::write(run, &results)?;
        }
    }
    Ok(())
}
