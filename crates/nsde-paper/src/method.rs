//! The methods of Table 4, each fitted by one call and asked in one way.

use crate::baseline::{self, Kind, Training, Wishart};
use crate::fit::{Fit, Recipe, Rows};
use crate::forecast::Sde;
use crate::protocol::{Forecast, Forecaster, Protocol};
use anyhow::Result;
use nsde::data::{Dataset, Series};
use nsde::{Options, Precision, Unscented};
use serde::Serialize;

/// Between the seeds of the members of an ensemble.
const MEMBER: u64 = 1_000_000_000;

/// A row of Table 4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Method {
    /// LSTM, squared error.
    LstmDeterministic,
    /// Transformer, squared error.
    TransformerDeterministic,
    /// LSTM with mean and variance.
    LstmStochastic,
    /// Transformer with mean and variance.
    TransformerStochastic,
    /// Neural ODE.
    Node,
    /// An SDE of Gaussian processes with a Wishart diffusion.
    DiffWgp,
    /// Neural SDE trained on particles over several steps.
    MonteCarlo,
    /// Neural SDE trained on single steps.
    OneStep,
    /// Neural SDE trained by cubature over several steps.
    Cubature,
    /// Neural SDE trained by BMM over several steps.
    Bmm,
    /// The same with what `nsde` adds to the paper: its training recipe and forecasts by a mixture.
    BmmPlus,
}

impl Method {
    /// All of them, in the order of the table.
    pub const ALL: [Method; 11] = [
        Method::LstmDeterministic,
        Method::TransformerDeterministic,
        Method::LstmStochastic,
        Method::TransformerStochastic,
        Method::Node,
        Method::DiffWgp,
        Method::MonteCarlo,
        Method::OneStep,
        Method::Cubature,
        Method::Bmm,
        Method::BmmPlus,
    ];

    /// Those that the paper has in all columns of the table: all but diffWGP.
    pub const COMMON: [Method; 10] = [
        Method::LstmDeterministic,
        Method::TransformerDeterministic,
        Method::LstmStochastic,
        Method::TransformerStochastic,
        Method::Node,
        Method::MonteCarlo,
        Method::OneStep,
        Method::Cubature,
        Method::Bmm,
        Method::BmmPlus,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Method::LstmDeterministic => "LSTM (deterministic)",
            Method::TransformerDeterministic => "Transformer (deterministic)",
            Method::LstmStochastic => "LSTM (stochastic)",
            Method::TransformerStochastic => "Transformer (stochastic)",
            Method::Node => "NODE",
            Method::DiffWgp => "diffWGP",
            Method::MonteCarlo => "NSDE-MC",
            Method::OneStep => "NSDE-One-Step",
            Method::Cubature => "NSDE-Cubature",
            Method::Bmm => "NSDE-BMM",
            Method::BmmPlus => "NSDE-BMM+ (ours)",
        }
    }

    /// Its name in files.
    pub fn slug(self) -> &'static str {
        match self {
            Method::LstmDeterministic => "lstm-deterministic",
            Method::TransformerDeterministic => "transformer-deterministic",
            Method::LstmStochastic => "lstm-stochastic",
            Method::TransformerStochastic => "transformer-stochastic",
            Method::Node => "node",
            Method::DiffWgp => "diffwgp",
            Method::MonteCarlo => "mc",
            Method::OneStep => "one-step",
            Method::Cubature => "cubature",
            Method::Bmm => "bmm",
            Method::BmmPlus => "bmm-plus",
        }
    }

    /// The ways to predict with it; the first is the one of the table.
    pub fn predictions(self) -> &'static [&'static str] {
        match self {
            Method::LstmDeterministic | Method::TransformerDeterministic | Method::Node => &["mean"],
            Method::LstmStochastic | Method::TransformerStochastic | Method::DiffWgp => &["particles"],
            Method::MonteCarlo | Method::OneStep => &["particles", "bmm"],
            Method::Cubature => &["cubature", "particles"],
            Method::Bmm => &["bmm", "particles", "mixture"],
            Method::BmmPlus => &["mixture", "bmm", "particles"],
        }
    }

    /// Its first way to predict that takes little time.
    pub fn plain(self) -> &'static str {
        self.predictions().iter().find(|name| **name != "mixture").unwrap_or(&self.predictions()[0])
    }

    /// What it is trained with where nothing is searched for: BMM+ has a recipe of its own.
    pub fn usual(self, fit: &Fit) -> Fit {
        let recipe = if self == Method::BmmPlus { Recipe::Ours } else { fit.recipe };
        Fit { recipe, ..fit.clone() }
    }

    /// Whether it keeps the weights that are best on data held out: a neural SDE. The others keep the last ones.
    pub fn keeps_best(self) -> bool {
        self.baseline().is_none() && self != Method::DiffWgp
    }

    /// What of a training concerns it: the rest is set to what it has always.
    pub fn fit(self, fit: &Fit) -> Fit {
        let mut fit = fit.clone();
        match self {
            Method::Node => (fit.noise_hidden, fit.keep) = (None, 1.0),
            Method::OneStep => fit.horizon = 1,
            // Its points pass dropout as if there were none, so the model has none.
            Method::Cubature => fit.keep = 1.0,
            Method::MonteCarlo | Method::Bmm | Method::BmmPlus => {}
            // Networks of their own, which have no dropout and begin at a point.
            _ => (fit.keep, fit.init_var, fit.look) = (1.0, 0.0, None),
        }
        fit
    }

    /// Fits it to `rows`, and returns these ways to predict with it. A neural SDE keeps the weights that are best on the rows held
    /// out, if there are any; the others, whose last weights are kept, never see these unless all rows are asked for.
    pub fn train(
        self,
        predictions: &[&'static str],
        protocol: &Protocol,
        rows: Rows<'_>,
        seed: u64,
    ) -> Result<Vec<Box<dyn Forecaster>>> {
        let moved = protocol.fit.moved;
        let apply = |data: &Dataset| moved.map_or_else(|| data.clone(), |moved| moved.apply(data));
        let train = apply(rows.train);
        let whole = rows.whole.filter(|_| protocol.fit.again).map(apply);
        let data = whole.as_ref().unwrap_or(&train);
        let samples = protocol.test_particles.last().copied().unwrap_or(2);
        let how = Training { rows: protocol.fit.horizon, adam: protocol.fit.train_options(seed) };
        if let Some((kind, stochastic)) = self.baseline() {
            let net = baseline::train(kind, stochastic, data, &how)?;
            return Ok(vec![Box::new(Sequence { net, samples, stochastic })]);
        }
        if self == Method::DiffWgp {
            return Ok(vec![Box::new(Processes { model: Wishart::train(data, &how)?, samples })]);
        }
        let fit = self.fit(&protocol.fit);
        let kernel = match self {
            Method::MonteCarlo => nsde::Method::MonteCarlo { samples: protocol.train_particles, seed },
            Method::Cubature => nsde::Method::Cubature(Unscented::default()),
            _ => nsde::Method::Bmm,
        };
        let options = Options { method: kernel, precision: Precision::F32, ..Options::default() };
        let seeds = (0..fit.members as u64).map(|member| seed + MEMBER * member);
        let rows = Rows { train: &train, whole: whole.as_ref(), ..rows };
        let train = |seed| fit.train_rows(rows, options, seed);
        let members = seeds.map(train).collect::<Result<Vec<_>>>()?;
        let predict = |name: &&'static str| -> Result<Box<dyn Forecaster>> {
            Ok(Box::new(Sde::new(name, &members, &fit, protocol.components, samples, seed)?))
        };
        predictions.iter().map(predict).collect()
    }

    fn baseline(self) -> Option<(Kind, bool)> {
        match self {
            Method::LstmDeterministic => Some((Kind::Lstm, false)),
            Method::TransformerDeterministic => Some((Kind::Transformer, false)),
            Method::LstmStochastic => Some((Kind::Lstm, true)),
            Method::TransformerStochastic => Some((Kind::Transformer, true)),
            _ => None,
        }
    }
}

/// An LSTM or Transformer.
struct Sequence {
    net: baseline::Baseline,
    samples: usize,
    stochastic: bool,
}

impl Forecaster for Sequence {
    fn name(&self) -> &'static str {
        if self.stochastic { "particles" } else { "mean" }
    }

    fn samples(&self) -> bool {
        self.stochastic
    }

    fn forecast(&self, index: usize, series: &Series) -> Result<Forecast> {
        let dim = series.values.len() / series.rows();
        let start = &series.values[..dim];
        let values = self.net.rollout(index, start, &series.inputs, series.rows() - 1, self.samples)?;
        Ok(match self.stochastic {
            true => Forecast::Particles(values),
            false => Forecast::Mean(values.chunks(dim).map(<[f64]>::to_vec).collect()),
        })
    }
}

/// diffWGP.
struct Processes {
    model: Wishart,
    samples: usize,
}

impl Forecaster for Processes {
    fn name(&self) -> &'static str {
        "particles"
    }

    fn samples(&self) -> bool {
        true
    }

    fn forecast(&self, index: usize, series: &Series) -> Result<Forecast> {
        let steps = series.rows() - 1;
        let start = &series.values[..series.values.len() / series.rows()];
        Ok(Forecast::Particles(self.model.rollout(index, start, steps, self.samples)?))
    }
}
