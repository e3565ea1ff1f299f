//! The rows of Tables 1 and 2: each method searched, trained and scored on one split.

use super::dropout::Dropout;
use super::dvi::Dvi;
use super::layer::{Design, Trained, affine, mixture, predict, stretched};
use super::score::{Line, gaussians, mixtures, sampled, scored};
use super::table::{Features, Part, Split};
use anyhow::Result;
use nsde::head::{LinearHead, SdeLayer};
use nsde::metric::Mixture;
use nsde::{Gaussian, Unscented};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Method {
    /// MC dropout.
    Dropout,
    /// Deterministic variational inference.
    Dvi,
    /// Neural SDE on `2(2D+1)` particles.
    MonteCarlo,
    /// Neural SDE by cubature.
    Cubature,
    /// Neural SDE by BMM.
    Bmm,
    /// BMM with everything we have.
    BmmPlus,
}

/// Flow times of the paper, in seconds.
pub const FLOWS: [f64; 3] = [2.0, 4.0, 8.0];

/// What the results of a cell depend on beside its numbers: raised when the code of a recipe changes, so that no cell of
/// an older one is taken for its own.
const RECIPE: u32 = 3;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Of dropout and DVI: updates.
    pub small_updates: usize,
    /// Of the paper's neural SDEs.
    pub flow: Search,
    /// Of BMM+.
    pub plus: Plus,
    /// Most rows held out in a search.
    pub held_out: usize,
    /// Numbers of particles of Fig. 6, ascending.
    pub particles: Vec<usize>,
    /// Most training rows, for a first look.
    pub rows: Option<usize>,
    /// How features become the start of a flow.
    pub features: Features,
}

/// What is tried on rows held out.
#[derive(Clone, Debug, Serialize)]
pub struct Search {
    /// Most updates.
    pub updates: usize,
    /// Peak learning rate.
    pub rate: f64,
    /// Dropout rates.
    pub rates: Vec<f64>,
    /// Variance of a start; the key of a cell has it only where it is not the usual one.
    #[serde(skip_serializing_if = "is_usual")]
    pub init_var: f64,
    /// Deviation of the noise on the answers that are trained on, in standard units. Where there is some, nothing is held out.
    #[serde(skip_serializing_if = "is_none")]
    pub blur: f64,
    /// A longer flow goes on from the shorter one, with this part of the learning rate; each begins anew where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goes_on: Option<f64>,
}

/// Variance of a start: features are what they are.
pub const SHARP: f64 = 1e-6;

fn is_usual(init_var: &f64) -> bool {
    *init_var == SHARP
}

fn is_none(blur: &f64) -> bool {
    *blur == 0.0
}

/// What BMM+ has.
#[derive(Clone, Debug, Serialize)]
pub struct Plus {
    /// What is tried.
    pub search: Search,
    /// Members of its ensemble.
    pub members: usize,
    /// Gaussians that the head of a member mixes.
    pub components: usize,
    /// Width of the drift's hidden layer.
    pub hidden: usize,
    /// Flow time.
    pub flow: f64,
}

impl Effort {
    /// All that the results of `method` depend on, and nothing else.
    pub fn of(&self, method: Method) -> serde_json::Value {
        let Effort { small_updates, flow, plus, held_out, particles, rows, features } = self;
        let own = match method {
            Method::Dropout | Method::Dvi => json!(small_updates),
            Method::Cubature if flow.goes_on.is_some() => {
                json!([flow.updates, flow.rate, flow.init_var, flow.blur, flow.goes_on])
            }
            Method::Cubature if !is_none(&flow.blur) => {
                json!([flow.updates, flow.rate, flow.init_var, flow.blur])
            }
            Method::Cubature if is_usual(&flow.init_var) => json!([flow.updates, flow.rate]),
            Method::Cubature => json!([flow.updates, flow.rate, flow.init_var]),
            Method::MonteCarlo | Method::Bmm => json!([flow, particles]),
            Method::BmmPlus => json!(plus),
        };
        let mut key = json!({ "recipe": RECIPE, "own": own, "held_out": held_out, "rows": rows });
        match features {
            Features::Standard => {}
            Features::Clipped(most) => key["clip"] = json!(most),
            Features::Ranked => key["features"] = json!("ranked"),
        }
        key
    }
}

/// One trial of the search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// Dropout rate.
    pub rate: f64,
    /// Flow time, if there is one.
    pub flow: Option<f64>,
    /// Updates until the best validation; all of them for dropout.
    pub updates: usize,
    /// Its NLL, in standard units.
    pub nll: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// What a method found on a split.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Scores on the test part.
    pub lines: Vec<Line>,
    /// What was tried on the training part.
    pub search: Vec<Tried>,
}

/// A neural SDE holds out a tenth of the training rows: they choose the dropout rate and the weights that are kept. (To train
/// again on all rows, for as many updates, was worse: nothing then stops a model that grows sure of itself.)
const FOLDS: usize = 10;
/// Copies of the training rows with blurred answers: enough that no noise is seen often.
const COPIES: usize = 16;
/// Dropout holds out a fifth to choose two numbers, and trains again on all rows.
const DROPOUT_FOLDS: usize = 5;

impl Method {
    /// All of them, in the order of the table.
    pub const ALL: [Method; 6] =
        [Method::Dropout, Method::Dvi, Method::MonteCarlo, Method::Cubature, Method::Bmm, Method::BmmPlus];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Method::Dropout => "Dropout",
            Method::Dvi => "DVI",
            Method::MonteCarlo => "NSDE-MC",
            Method::Cubature => "NSDE-Cubature",
            Method::Bmm => "NSDE-BMM",
            Method::BmmPlus => "NSDE-BMM+ (ours)",
        }
    }

    /// Its name in files.
    pub fn slug(self) -> &'static str {
        match self {
            Method::Dropout => "dropout",
            Method::Dvi => "dvi",
            Method::MonteCarlo => "mc",
            Method::Cubature => "cubature",
            Method::Bmm => "bmm",
            Method::BmmPlus => "bmm-plus",
        }
    }

    /// Its flow times; one without a name for those that have none.
    pub fn flows(self) -> Vec<Option<f64>> {
        match self {
            Method::MonteCarlo | Method::Cubature | Method::Bmm => FLOWS.map(Some).to_vec(),
            _ => vec![None],
        }
    }

    /// Searches on the training part of `split`, trains on it, and scores the test part.
    pub fn run(self, split: &Split, effort: &Effort, seed: u64) -> Result<Found> {
        match self {
            Method::Dropout => dropout(split, effort, seed),
            Method::Dvi => {
                let net = Dvi::train(&split.train, effort.small_updates, seed)?;
                let (mean, var) = net.predict(&split.test)?;
                Ok(Found { lines: vec![scored(None, &mean, &var, split)?], search: Vec::new() })
            }
            Method::BmmPlus => plus(split, effort, seed),
            Method::MonteCarlo => {
                let samples = 2 * (2 * split.dim + 1);
                sde(split, effort, nsde::Method::MonteCarlo { samples, seed }, &effort.flow.rates, seed)
            }
            // Its points pass dropout as if there were none, so the model has none.
            Method::Cubature => {
                sde(split, effort, nsde::Method::Cubature(Unscented::default()), &[0.0], seed)
            }
            Method::Bmm => sde(split, effort, nsde::Method::Bmm, &effort.flow.rates, seed),
        }
    }
}

/// The paper's networks: drift `D→40→D`, diffusion `D→10→D`.
fn design(split: &Split, search: &Search, drop: f64, flow: f64) -> Design {
    Design {
        state: split.dim,
        hidden: 40,
        noise_hidden: 10,
        keep: 1.0 - drop,
        flow,
        updates: search.updates,
        rate: search.rate,
        init_var: search.init_var,
    }
}

/// A neural SDE: the dropout rate is chosen at the shortest flow time, where it is cheap; at each of them the weights are
/// kept that are best on the rows held out. Blurred answers stop a model from growing sure of itself, so with them all rows
/// train, and the last weights are kept. A longer flow begins with first weights, or goes on from the shorter one.
fn sde(split: &Split, effort: &Effort, method: nsde::Method, rates: &[f64], seed: u64) -> Result<Found> {
    let blur = effort.flow.blur;
    let (part, held_out) = match is_none(&blur) {
        true => (split.train.clone(), split.train.fold(0, FOLDS, effort.held_out, seed)),
        false => (split.train.blurred(blur, COPIES, seed)?, Vec::new()),
    };
    let train = |rate: f64, flow: f64| {
        let design = design(split, &effort.flow, rate, flow);
        design.train(design.layer(split.dim, method, seed, affine)?, &part, &held_out, seed)
    };
    let go_on = |rate: f64, flow: f64, shorter: &SdeLayer<LinearHead>, factor: f64| {
        let design = design(split, &effort.flow, rate, flow);
        let design = Design { rate: factor * design.rate, ..design };
        design.train(
            stretched(shorter, design.steps() / shorter.steps)?,
            &part,
            &held_out,
            seed ^ flow.to_bits(),
        )
    };
    let (rate, shortest, mut search) = choose(rates, FLOWS[0], |rate| train(rate, FLOWS[0]))?;
    let mut layers = vec![shortest];
    for flow in &FLOWS[1..] {
        let trained = match effort.flow.goes_on {
            Some(factor) => go_on(rate, *flow, &layers[layers.len() - 1], factor)?,
            None => train(rate, *flow)?,
        };
        search.push(Tried { chosen: true, ..tried(rate, *flow, &trained) });
        layers.push(trained.layer);
    }
    if held_out.is_empty() {
        search.clear(); // Nothing was chosen: there is one dropout rate, and no row to judge by.
    }
    let mut lines = Vec::new();
    for (flow, layer) in FLOWS.into_iter().zip(&layers) {
        lines.push(gaussians(Some(flow), &predict(layer, &split.test.x, method)?, split)?);
        if flow == FLOWS[2] && !matches!(method, nsde::Method::Cubature(_)) {
            lines.extend(sampled(flow, layer, split, &effort.particles, seed)?);
        }
    }
    Ok(Found { lines, search })
}

fn tried<H>(rate: f64, flow: f64, trained: &Trained<H>) -> Tried {
    let (nll, updates) = trained.best.unwrap_or((f64::MAX, 1));
    Tried { rate, flow: Some(flow), updates, nll, chosen: false }
}

/// Trains with every dropout rate: the best one, its layer, and all that was tried.
fn choose<H>(
    rates: &[f64],
    flow: f64,
    train: impl Fn(f64) -> Result<Trained<H>>,
) -> Result<(f64, SdeLayer<H>, Vec<Tried>)> {
    let mut layers = Vec::new();
    let mut search = Vec::new();
    for &rate in rates {
        let trained = train(rate)?;
        search.push(tried(rate, flow, &trained));
        layers.push(trained.layer);
    }
    let best = mark_best(&mut search);
    Ok((rates[best], layers.swap_remove(best), search))
}

/// Marks the best trial, and returns its place.
fn mark_best(search: &mut [Tried]) -> usize {
    let mut best = 0;
    for i in 0..search.len() {
        if search[i].nll < search[best].nll {
            best = i;
        }
    }
    search[best].chosen = true;
    best
}

/// Everything we have: several Gaussians with noise of their own in the head, a state of another width behind a learned embedding, and
/// an ensemble whose members are each stopped early on a tenth of the training rows of their own.
fn plus(split: &Split, effort: &Effort, seed: u64) -> Result<Found> {
    let Plus { search: how, members, components, hidden, flow } = &effort.plus;
    let train = |rate: f64, k: usize| {
        let held_out = split.train.fold(k, FOLDS, effort.held_out, seed);
        let seed = seed.wrapping_add(k as u64);
        let design = Design { state: PLUS_STATE, hidden: *hidden, ..design(split, how, rate, *flow) };
        let head = |state: usize, rng: &mut _| mixture(*components, state, rng);
        let first = design.layer(split.dim, nsde::Method::Bmm, seed, head)?;
        design.train(first, &split.train, &held_out, seed)
    };
    let (rate, first, search) = choose(&how.rates, *flow, |rate| train(rate, 0))?;
    let mut layers = vec![first];
    for k in 1..*members {
        layers.push(train(rate, k)?.layer);
    }
    let mut parts: Vec<(Vec<f64>, Vec<Gaussian>)> = vec![Default::default(); split.test.rows()];
    for layer in &layers {
        let predicted = predict(layer, &split.test.x, nsde::Method::Bmm)?;
        for ((weights, laws), member) in parts.iter_mut().zip(predicted) {
            weights.extend(member.weights().iter().map(|w| w / layers.len() as f64));
            laws.extend_from_slice(member.components());
        }
    }
    let laws: Result<Vec<Mixture>, _> = parts.into_iter().map(|(w, laws)| Mixture::new(w, laws)).collect();
    Ok(Found { lines: vec![mixtures(&laws?, split)?], search })
}

/// Width of the state of BMM+.
const PLUS_STATE: usize = 16;

/// Dropout rate and precision of the noise are chosen on a fifth of the training rows.
fn dropout(split: &Split, effort: &Effort, seed: u64) -> Result<Found> {
    let (rest, held) = split.train.divide(&split.train.fold(0, DROPOUT_FOLDS, effort.held_out, seed));
    let mut search = Vec::new();
    let mut variances = Vec::new();
    for rate in [0.005, 0.01, 0.05, 0.1] {
        let samples = Dropout::train(&rest, rate, effort.small_updates, seed)?.predict(&held)?;
        let grid = (0..40).map(|k| (-10.0 + 0.25 * f64::from(k)).exp());
        let tried: Result<Vec<(f64, f64)>> = grid.map(|v| Ok((nll(&samples, v, &held)?, v))).collect();
        let best = tried?.into_iter().fold((f64::INFINITY, 1.0), |a, b| if b.0 < a.0 { b } else { a });
        search.push(Tried { rate, flow: None, updates: effort.small_updates, nll: best.0, chosen: false });
        variances.push(best.1);
    }
    let best = mark_best(&mut search);
    let (rate, noise) = (search[best].rate, variances[best]);
    let samples = Dropout::train(&split.train, rate, effort.small_updates, seed)?.predict(&split.test)?;
    let law = |y: &f64| Gaussian { mean: vec![*y], cov: vec![noise] };
    let laws: Result<Vec<Mixture>, _> =
        samples.iter().map(|row| Mixture::equal(row.iter().map(law).collect())).collect();
    Ok(Found { lines: vec![mixtures(&laws?, split)?], search })
}

/// Mean NLL of mixtures of `N(sample, noise)`.
fn nll(samples: &[Vec<f64>], noise: f64, part: &Part) -> Result<f64> {
    let mut sum = 0.0;
    for (row, y) in samples.iter().zip(&part.y) {
        let log = |s: &f64| -0.5 * (y - s).powi(2) / noise;
        let most = row.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
        let mean = row.iter().map(|s| (log(s) - most).exp()).sum::<f64>() / row.len() as f64;
        sum -= most + mean.ln() - 0.5 * (2.0 * std::f64::consts::PI * noise).ln();
    }
    Ok(sum / part.rows() as f64)
}
