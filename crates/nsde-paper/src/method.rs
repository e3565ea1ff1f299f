//! The methods of Table 4, each fitted by one call and asked in one way.

use crate::baseline::{self, Kind, Training};
use crate::fit::Recipe;
use crate::protocol::{Forecast, Forecaster, Protocol};
use anyhow::Result;
use nsde::data::{Dataset, Series};
use nsde::mixture::{self, Splitting};
use nsde::{Gaussian, NeuralSde, Options, Precision, Rollout, Solver, Unscented};
use serde::Serialize;

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
    pub const ALL: [Method; 10] = [
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
            Method::LstmStochastic | Method::TransformerStochastic => &["particles"],
            Method::MonteCarlo | Method::OneStep => &["particles", "bmm"],
            Method::Cubature => &["cubature", "particles"],
            Method::Bmm => &["bmm", "particles", "mixture"],
            Method::BmmPlus => &["mixture", "bmm", "particles"],
        }
    }

    /// Fits it to `data`, and returns the ways to predict with it. A neural SDE keeps the weights that are best on
    /// the data `held_out`, if there are any.
    pub fn train(
        self,
        protocol: &Protocol,
        data: &Dataset,
        held_out: Option<&Dataset>,
        seed: u64,
    ) -> Result<Vec<Box<dyn Forecaster>>> {
        if let Some((kind, stochastic)) = self.baseline() {
            let how = Training { rows: protocol.fit.horizon, adam: protocol.fit.train_options(seed) };
            let net = baseline::train(kind, stochastic, data, &how)?;
            let samples = protocol.test_particles.last().copied().unwrap_or(2);
            return Ok(vec![Box::new(Sequence { net, samples, stochastic })]);
        }
        let mut fit = protocol.fit.clone();
        match self {
            Method::Node => (fit.noise_hidden, fit.keep) = (None, 1.0),
            Method::OneStep => fit.horizon = 1,
            // Its points pass dropout as if there were none, so the model has none.
            Method::Cubature => fit.keep = 1.0,
            Method::BmmPlus => fit.recipe = Recipe::Ours,
            _ => {}
        }
        let kernel = match self {
            Method::MonteCarlo => nsde::Method::MonteCarlo { samples: protocol.train_particles, seed },
            Method::Cubature => nsde::Method::Cubature(Unscented::default()),
            _ => nsde::Method::Bmm,
        };
        let sde = fit.train_validated(
            data,
            held_out,
            Options { method: kernel, precision: Precision::F32, ..Options::default() },
            seed,
        )?;
        let predict = |name: &&'static str| -> Result<Box<dyn Forecaster>> {
            let samples = protocol.test_particles.last().copied().unwrap_or(2);
            Ok(Box::new(Sde::new(name, &sde, fit.dt, fit.init_var, samples, seed)?))
        };
        self.predictions().iter().map(predict).collect()
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

/// A neural SDE with one way to predict.
struct Sde {
    name: &'static str,
    solver: Solver,
    dt: f64,
    init_var: f64,
}

impl Sde {
    fn new(
        name: &'static str,
        sde: &NeuralSde,
        dt: f64,
        init_var: f64,
        samples: usize,
        seed: u64,
    ) -> Result<Self> {
        let method = match name {
            "particles" => nsde::Method::MonteCarlo { samples, seed },
            "cubature" => nsde::Method::Cubature(Unscented::default()),
            _ => nsde::Method::Bmm,
        };
        let solver = Solver::new(sde, Options { method, ..Options::default() })?;
        Ok(Sde { name, solver, dt, init_var })
    }
}

impl Forecaster for Sde {
    fn name(&self) -> &'static str {
        self.name
    }

    fn samples(&self) -> bool {
        self.name == "particles"
    }

    fn forecast(&self, index: usize, series: &Series) -> Result<Forecast> {
        let (rows, dim) = (series.rows(), series.values.len() / series.rows());
        let steps = rows - 1;
        let start = Gaussian::isotropic(series.values[..dim].to_vec(), self.init_var)?;
        let inputs = &series.inputs[..series.inputs.len() / rows * steps];
        let dts = vec![self.dt; steps];
        let rollout = Rollout { start: &start, dts: &dts, inputs };
        if self.name == "particles" {
            return Ok(Forecast::Particles(self.solver.sample(index, rollout)?));
        }
        if self.name == "mixture" {
            return Ok(Forecast::Mixture(mixture::rollout(&self.solver, rollout, Splitting::default())?));
        }
        let path = self.solver.solve(&[rollout])?.remove(0);
        Ok(match self.name {
            "mean" => Forecast::Mean((0..steps).map(|k| path.mean(k).to_vec()).collect()),
            _ => Forecast::Gaussian((0..steps).map(|k| path.gaussian(k)).collect()),
        })
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
