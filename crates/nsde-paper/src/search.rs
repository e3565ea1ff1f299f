//! What the paper leaves open of a training, chosen for every method alike on data that are not scored.

use crate::cells::Order;
use crate::fit::Fit;
use crate::method::Method;
use crate::outcome::{Outcome, number};
use crate::run::Run;
use crate::statistics::mean;
use anyhow::{Result, ensure};
use serde::Serialize;

/// A training, and what it is called in the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// A few words.
    pub label: String,
    /// The training.
    pub fit: Fit,
}

/// What was chosen for a method.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The method.
    pub method: Method,
    /// What it is trained with.
    pub chosen: Candidate,
    /// What was tried, with its score; lower is better, `None` if it diverged.
    #[serde(skip)]
    tried: Vec<(String, Option<f64>)>,
    #[serde(skip)]
    seconds: f64,
}

/// Tries what `candidates` has for each method on each of `parts`, and keeps what has the lowest mean score. `trial` gets the
/// method, a training and the number of the part. Of candidates that are the same to a method only the first is tried, and one
/// without a rival not at all. `name` begins the names of the cells; `settings` is everything else that the scores depend on.
pub fn choose(
    run: &Run,
    name: &str,
    settings: &impl Serialize,
    parts: usize,
    candidates: impl Fn(Method) -> Vec<Candidate>,
    trial: impl Fn(Method, &Fit, usize) -> Result<Option<f64>> + Sync,
) -> Result<Vec<Choice>> {
    ensure!(run.only.is_none(), "--only: this experiment has no parts, its methods are searched together");
    choose_some(run, name, settings, &Method::COMMON, parts, candidates, trial)
}

/// The same for these methods, but of those that the user did not choose only where all trials are finished.
pub fn choose_some(
    run: &Run,
    name: &str,
    settings: &impl Serialize,
    methods: &[Method],
    parts: usize,
    candidates: impl Fn(Method) -> Vec<Candidate>,
    trial: impl Fn(Method, &Fit, usize) -> Result<Option<f64>> + Sync,
) -> Result<Vec<Choice>> {
    // The paper's own method first: an early look sees it.
    let mut offers: Vec<_> = methods.iter().map(|m| (*m, distinct(*m, candidates(*m)))).collect();
    offers.reverse();
    let mut cells: Vec<(String, (Method, Fit, usize))> = Vec::new();
    for (method, offer) in offers.iter().filter(|(_, offer)| offer.len() > 1) {
        for (n, candidate) in offer.iter().enumerate() {
            let cell = |part| {
                (format!("{name}-{}-{n}-{part}", method.slug()), (*method, candidate.fit.clone(), part))
            };
            cells.extend((0..parts).map(cell));
        }
    }
    let chosen: Vec<bool> = cells.iter().map(|(_, (method, ..))| run.concerns(method.slug())).collect();
    let done = run.chosen_cells(Order::Together, settings, &cells, &chosen, |(method, fit, part)| {
        trial(*method, fit, *part)
    })?;
    let mut done = done.iter();
    let mut choices = Vec::new();
    for (method, offer) in offers {
        let (mut tried, mut seconds) = (Vec::new(), 0.0);
        if offer.len() > 1 {
            let all: Vec<_> = done.by_ref().take(parts * offer.len()).collect();
            let Some(all) = all.into_iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else { continue };
            for (candidate, of) in offer.iter().zip(all.chunks(parts)) {
                let scores: Option<Vec<f64>> = of.iter().map(|d| d.value).collect();
                tried.push((candidate.label.clone(), scores.map(|s| mean(&s))));
                seconds += of.iter().map(|d| d.seconds).sum::<f64>();
            }
        }
        let best = lowest(&tried);
        choices.extend(offer.into_iter().nth(best).map(|chosen| Choice { method, chosen, tried, seconds }));
    }
    choices.reverse();
    Ok(choices)
}

/// The candidates that differ in what concerns the method.
fn distinct(method: Method, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if list.iter().all(|c| method.fit(&c.fit) != method.fit(&candidate.fit)) {
            list.push(candidate);
        }
    }
    list
}

/// The place of the lowest score, the first of them; 0 if there is none.
fn lowest(tried: &[(String, Option<f64>)]) -> usize {
    let score = |n: &usize| tried[*n].1.unwrap_or(f64::INFINITY);
    (0..tried.len()).min_by(|a, b| score(a).total_cmp(&score(b))).unwrap_or(0)
}

/// Two searches whose scores compare, as one: every method takes what has the lowest score of both.
pub fn joined(first: &[Choice], second: &[Choice]) -> Vec<Choice> {
    let join = |a: &Choice| {
        let Some(b) = second.iter().find(|b| b.method == a.method) else { return a.clone() };
        let tried: Vec<_> = a.tried.iter().chain(&b.tried).cloned().collect();
        let winner = if lowest(&tried) < a.tried.len() { a } else { b };
        let chosen = winner.chosen.clone();
        Choice { method: a.method, chosen, tried, seconds: a.seconds + b.seconds }
    };
    first.iter().map(join).collect()
}

/// What was chosen for a method; `fit` if nothing was.
pub fn of<'a>(choices: &'a [Choice], method: Method, fit: &'a Fit) -> &'a Fit {
    choices.iter().find(|c| c.method == method).map_or(fit, |c| &c.chosen.fit)
}

/// Seconds that the trials took.
pub fn seconds(choices: &[Choice]) -> f64 {
    choices.iter().map(|c| c.seconds).sum()
}

/// The scores and choices as a table and as `NAME.csv`.
pub fn report(out: &mut Outcome<'_>, name: &str, about: &str, choices: &[Choice]) -> Result<()> {
    let mut labels: Vec<&str> = Vec::new();
    for (label, _) in choices.iter().flat_map(|c| &c.tried) {
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    let rows = |digits: fn(f64) -> String, missing: &str| -> Vec<Vec<String>> {
        let score = |c: &Choice, label: &&str| match c.tried.iter().find(|(l, _)| l == label) {
            Some((_, score)) => score.map_or("diverged".into(), digits),
            None => missing.into(),
        };
        let row = |c: &Choice| {
            let scores = labels.iter().map(|label| score(c, label));
            std::iter::once(c.method.name().into()).chain(scores).chain([c.chosen.label.clone()]).collect()
        };
        choices.iter().filter(|c| !c.tried.is_empty()).map(row).collect()
    };
    let header: Vec<&str> =
        std::iter::once("method").chain(labels.iter().copied()).chain(["chosen"]).collect();
    let digits = |x: f64| if x.abs() < 1.0 { format!("{x:.3}") } else { format!("{x:.2}") };
    out.table(&header, &rows(digits, "–"));
    out.data(name, about, &header, &rows(number, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;

    #[test]
    fn what_a_method_does_not_have_is_not_tried() {
        let base = Protocol::new(2, 0.1, 4, 3, 1..4).fit;
        let candidate = |keep: f64, init_var: f64| Candidate {
            label: format!("{keep} {init_var}"),
            fit: Fit { keep, init_var, ..base.clone() },
        };
        let all = || vec![candidate(0.8, 1e-6), candidate(0.5, 1e-6), candidate(0.8, 1e-2)];
        let count = |method| distinct(method, all()).len();
        assert_eq!([Method::Bmm, Method::Cubature, Method::LstmStochastic].map(count), [3, 2, 1]);
    }

    #[test]
    fn of_two_searches_the_lowest_score_wins() {
        let base = Protocol::new(2, 0.1, 4, 3, 1..4).fit;
        let choice = |method, horizon: usize, score: f64| Choice {
            method,
            chosen: Candidate { label: horizon.to_string(), fit: Fit { horizon, ..base.clone() } },
            tried: vec![(horizon.to_string(), Some(score))],
            seconds: 1.0,
        };
        let first =
            [choice(Method::Bmm, 1, 5.0), choice(Method::Node, 2, 5.0), choice(Method::Cubature, 3, 5.0)];
        let both = joined(&first, &[choice(Method::Node, 4, 6.0), choice(Method::Bmm, 5, 4.0)]);
        let taken = [Method::Bmm, Method::Node, Method::Cubature].map(|m| of(&both, m, &base).horizon);
        assert_eq!((taken, seconds(&both)), ([5, 2, 3], 5.0));
        assert_eq!(both[0].tried.len(), 2);
    }

    #[test]
    fn the_lowest_score_wins_and_a_divergence_loses() {
        let tried = |scores: &[Option<f64>]| scores.iter().map(|s| (String::new(), *s)).collect::<Vec<_>>();
        assert_eq!(lowest(&tried(&[None, Some(3.0), Some(-2.0), Some(-2.0)])), 2);
        assert_eq!(lowest(&tried(&[None, None])), 0);
    }
}
