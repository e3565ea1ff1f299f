//! All methods of Table 4 in all runs of an experiment, each trained once and scored on one or more tests.

use crate::cells::{Done, Order};
use crate::comparison::{Comparison, Trial};
use crate::fit::Fit;
use crate::method::Method;
use crate::outcome::{Outcome, number};
use crate::protocol::{Line, Protocol};
use crate::run::Run;
use anyhow::Result;
use serde::{Serialize, Serializer};

/// Runs of the paper's Table 4.
const RUNS: usize = 10;

/// What was found.
pub struct Contest<'a> {
    /// What the names of its cells begin with.
    prefix: String,
    protocol: &'a Protocol,
    entries: Vec<Entry>,
    /// Most runs of a method.
    pub runs: usize,
}

/// One method in one run.
struct Entry {
    name: String,
    method: Method,
    seed: u64,
    seconds: f64,
    /// The scores on each test.
    tests: Vec<Vec<Line>>,
}

/// A method in a run, and its training where every method has its own.
struct Cell {
    method: Method,
    seed: u64,
    fit: Option<Fit>,
}

impl Serialize for Cell {
    /// The key is a list, as long as it needs to be.
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match &self.fit {
            None => (self.method, self.seed).serialize(to),
            Some(fit) => (self.method, self.seed, fit).serialize(to),
        }
    }
}

impl<'a> Contest<'a> {
    /// Trains and scores each of `methods` in every run: `work` gets the method and the seed, and returns the scores on each
    /// test. `settings` is everything that they depend on.
    pub fn hold(
        run: &Run,
        methods: &[Method],
        protocol: &'a Protocol,
        settings: &impl Serialize,
        work: impl Fn(Method, u64) -> Result<Vec<Vec<Line>>> + Sync,
    ) -> Result<Self> {
        Self::hold_named(run, "", methods, run.repetitions(RUNS, 1), protocol, settings, work)
    }

    /// The same where every method has a training of its own, which its cells, and no others, depend on.
    pub fn hold_searched(
        run: &Run,
        trainings: &[(Method, Fit)],
        protocol: &'a Protocol,
        settings: &impl Serialize,
        work: impl Fn(Method, &Fit, u64) -> Result<Vec<Vec<Line>>> + Sync,
    ) -> Result<Self> {
        let entrants: Vec<_> = trainings.iter().map(|(method, fit)| (*method, Some(fit))).collect();
        Self::among(run, "", &entrants, run.repetitions(RUNS, 1), protocol, settings, |cell| {
            work(cell.method, cell.fit.as_ref().unwrap_or(&protocol.fit), cell.seed)
        })
    }

    /// The same where an experiment has several contests: `prefix` begins the names of the cells, and each has its own runs.
    pub fn hold_named(
        run: &Run,
        prefix: &str,
        methods: &[Method],
        runs: usize,
        protocol: &'a Protocol,
        settings: &impl Serialize,
        work: impl Fn(Method, u64) -> Result<Vec<Vec<Line>>> + Sync,
    ) -> Result<Self> {
        let entrants: Vec<_> = methods.iter().map(|method| (*method, None)).collect();
        Self::among(run, prefix, &entrants, runs, protocol, settings, |cell| work(cell.method, cell.seed))
    }

    /// The methods, with a training where they have one of their own.
    fn among(
        run: &Run,
        prefix: &str,
        entrants: &[(Method, Option<&Fit>)],
        runs: usize,
        protocol: &'a Protocol,
        settings: &impl Serialize,
        work: impl Fn(&Cell) -> Result<Vec<Vec<Line>>> + Sync,
    ) -> Result<Self> {
        // All methods of a run before the next run, so that an early look sees all methods. Runs beyond those asked for are taken
        // where they are finished: a method may have more of them than others.
        let cells: Vec<(String, Cell)> = (0..runs.max(RUNS) as u64)
            .flat_map(|r| entrants.iter().map(move |entrant| (r, entrant)))
            .map(|(r, (method, fit))| {
                let name = format!("{prefix}{}-run-{r}", method.slug());
                (name, Cell { method: *method, seed: run.seed + r, fit: fit.cloned() })
            })
            .collect();
        let most = runs * entrants.len();
        let done = run.some_cells(Order::Together, settings, &cells, most, work)?;
        let entry = |((name, cell), done): ((String, Cell), Option<Done<_>>)| {
            let Cell { method, seed, .. } = cell;
            let Done { value, seconds } = done?;
            Some(Entry { name, method, seed, seconds, tests: value })
        };
        let entries: Vec<Entry> = cells.into_iter().zip(done).filter_map(entry).collect();
        let count = |m: Method| entries.iter().filter(|e| e.method == m).count();
        let runs = entrants.iter().map(|(m, _)| count(*m)).max().unwrap_or(0);
        Ok(Contest { prefix: prefix.into(), protocol, entries, runs })
    }

    /// The methods side by side on test number `test`.
    pub fn comparison(
        &self,
        test: usize,
        title: &'static str,
        suffix: &'static str,
        published: fn(Method) -> [&'static str; 2],
    ) -> Comparison<'_> {
        let trials = self.entries.iter();
        let trials =
            trials.map(|e| Trial { method: e.method, seed: e.seed, lines: &e.tests[test] }).collect();
        Comparison { title, suffix, protocol: self.protocol, trials, published }
    }

    /// Writes the times, those of other contests and of the searches too, and ends the page.
    pub fn finish(
        &self,
        search: f64,
        others: &[&Contest<'_>],
        mut out: Outcome<'_>,
        about: &str,
    ) -> Result<()> {
        let entries = || self.entries.iter().chain(others.iter().flat_map(|c| &c.entries));
        let mut times: Vec<Vec<String>> =
            entries().map(|e| vec![e.name.clone(), number(e.seconds)]).collect();
        if search > 0.0 {
            times.push(vec!["search".into(), number(search)]);
        }
        out.times(&["cell", "seconds"], &times)?;
        let seconds = search + entries().map(|e| e.seconds).sum::<f64>();
        let mut repetitions = format!("at most {} runs per method: the tables say how many", self.runs);
        for other in others {
            repetitions += &format!("; {} of {}", other.runs, other.prefix.trim_end_matches('-'));
        }
        out.finish(about, &repetitions, seconds)
    }
}
