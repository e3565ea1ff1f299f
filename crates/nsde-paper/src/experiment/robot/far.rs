//! What the paper leaves open of the training for transfer, chosen by trials that ask for as much transfer as the training motion can.

use super::choice::{MEMBERS, Part, UPDATES, candidate};
use super::{Robot, rows};
use crate::fit::{Fit, Recipe};
use crate::method::Method;
use crate::outcome::Outcome;
use crate::protocol::{Protocol, try_out};
use crate::run::Run;
use crate::search::{self, Candidate, Choice};
use anyhow::Result;
use nsde::data::Dataset;

/// What the methods are trained with.
pub struct Far(Vec<Choice>);

/// The first or the last third of every recording, or all but that.
fn third(data: &Dataset, last: bool, inside: bool) -> Dataset {
    let mut out = data.clone();
    for series in &mut out.series {
        let (n, third) = (series.rows(), series.rows() / 3);
        *series = rows(
            series,
            match (last, inside) {
                (false, true) => 0..third,
                (false, false) => third..n,
                (true, true) => n - third..n,
                (true, false) => 0..n - third,
            },
        );
    }
    out
}

/// Tries every training on both ends of the motion.
pub fn choose(run: &Run, protocol: &Protocol, robot: &Robot) -> Result<Far> {
    let mut protocol = protocol.clone();
    protocol.test_particles = run.size(vec![64], vec![16]);
    let (steps, most) = (protocol.scored.end - 1, run.size(usize::MAX, 2));
    let parts = [false, true].map(|last| {
        let [train, held_out] = [&robot.train, &robot.held_out].map(|data| third(data, last, true));
        Part::new(&train, &held_out, &third(&robot.held_out, last, false), steps, most)
    });
    let fit = Fit { steps: run.size(UPDATES, 2), ..protocol.fit.clone() };
    let candidates = |method| candidates(method, &fit);
    let found = search::choose(run, "far", &protocol, parts.len(), candidates, |method, fit, part| {
        let Part { train, held_out, test } = &parts[part];
        try_out(&protocol.with(fit), method, train, Some(held_out), test, run.seed)
    })?;
    Ok(Far(found))
}

/// What is tried for a method; nothing for BMM+, which takes what BMM takes.
fn candidates(method: Method, fit: &Fit) -> Vec<Candidate> {
    if method == Method::BmmPlus {
        return Vec::new();
    }
    let falling = |rate, init_var, decay| candidate(fit, Recipe::Falling, rate, init_var, decay);
    vec![
        candidate(fit, Recipe::Paper, 0.2, fit.init_var, 0.0),
        falling(0.7, 1e-2, 0.0),
        falling(0.9, 1e-2, 0.0),
        falling(0.7, 1e-1, 0.0),
        falling(0.9, 1e-1, 0.0),
        falling(0.7, 1.0, 0.0),
        falling(0.9, 1.0, 0.0),
        falling(0.7, 1e-1, 10.0),
    ]
}

impl Far {
    /// The training of a method, just as it was tried.
    pub fn of(&self, method: Method, fit: &Fit) -> Fit {
        match method {
            Method::BmmPlus => Fit { members: MEMBERS, ..search::of(&self.0, Method::Bmm, fit).clone() },
            _ => search::of(&self.0, method, fit).clone(),
        }
    }

    /// The temperature of a method: how much too small its variances were in the trials.
    pub fn heat(&self, method: Method) -> Option<f64> {
        search::distance(&self.0, if method == Method::BmmPlus { Method::Bmm } else { method })
    }

    /// Seconds that the trials took.
    pub fn seconds(&self) -> f64 {
        search::seconds(&self.0)
    }

    /// The search on the page.
    pub fn report(&self, out: &mut Outcome<'_>) -> Result<()> {
        search::report(out, "search-far", "what was tried for transfer, farther away", &self.0)
    }
}
