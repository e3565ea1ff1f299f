//! Models: a neural SDE with what it takes to use it on data, its step size, start variance and units.

mod archive;
mod describe;
mod file;
mod layers;
mod scaling;

pub use scaling::Scaling;

use crate::error::{Error, Result, dimension};
use crate::gaussian::{self, Gaussian};
use crate::metric::Mixture;
use crate::mixture::{self, Splitting};
use crate::sde::NeuralSde;
use crate::solver::{Options, Rollout, Solver, Stats, Trajectory};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A neural SDE, and how it meets data.
///
/// The SDE works in the units of its networks, `(x − mean)/std` if there is a `scaling`. What goes
/// into and comes out of the methods of a model is in the units of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Drift and diffusion.
    pub sde: NeuralSde,
    /// The step size it was made for.
    pub dt: f64,
    /// Variance of a start that is known as a point, in the units of the data.
    pub init_var: f64,
    /// Units of the state.
    pub scaling: Option<Scaling>,
    /// Units of the control inputs.
    pub inputs_scaling: Option<Scaling>,
    /// Names of the state's dimensions; the names of the inputs may follow.
    pub columns: Option<Vec<String>>,
    /// Keys of the description that this crate does not know, kept in their order.
    pub extra: Map<String, Value>,
    /// Tensors outside `drift.` and `diffusion.`, kept likewise.
    pub extra_tensors: BTreeMap<String, Tensor>,
}

/// An array of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Vec<f64>,
}

impl Model {
    /// The start variance of a model that does not say: the `ε` of Algorithm 1.
    pub const DEFAULT_INIT_VAR: f64 = 1e-6;

    /// A model in the units of its networks, with nothing optional.
    pub fn new(sde: NeuralSde, dt: f64) -> Result<Self> {
        let model = Model {
            sde,
            dt,
            init_var: Model::DEFAULT_INIT_VAR,
            scaling: None,
            inputs_scaling: None,
            columns: None,
            extra: Map::new(),
            extra_tensors: BTreeMap::new(),
        };
        model.check()?;
        Ok(model)
    }

    /// Whether the public fields fit each other.
    pub(crate) fn check(&self) -> Result<()> {
        let range =
            |what: &str, value: f64, must: &'static str| Err(Error::Range { what: what.into(), value, must });
        if !(self.dt.is_finite() && self.dt > 0.0) {
            return range("`dt`", self.dt, "finite and positive");
        }
        if !(self.init_var.is_finite() && self.init_var >= 0.0) {
            return range("`init_var`", self.init_var, "finite and not negative");
        }
        let (state, inputs) = (self.sde.state(), self.sde.inputs());
        if let Some(s) = &self.scaling {
            s.check("scaling", state)?;
        }
        if let Some(s) = &self.inputs_scaling {
            s.check("inputs_scaling", inputs)?;
        }
        match &self.columns {
            Some(names) if names.len() != state + inputs => {
                dimension("`columns`: names (of the state, then perhaps of the inputs)", state, names.len())
            }
            _ => Ok(()),
        }
    }

    /// The start `N(x0, init_var·I)`.
    pub fn start(&self, x0: Vec<f64>) -> Result<Gaussian> {
        dimension("start: mean", self.sde.state(), x0.len())?;
        Gaussian::isotropic(x0, self.init_var)
    }

    /// A start in the units of the networks.
    pub fn to_net_start(&self, start: &Gaussian) -> Gaussian {
        let mut start = start.clone();
        if let Some(s) = &self.scaling {
            s.points_to_net(&mut start.mean);
            s.cov_to_net(&mut start.cov);
        }
        start
    }

    /// Control inputs, row-major `[steps, inputs]`, in the units of the networks.
    pub fn to_net_inputs(&self, inputs: &[f64]) -> Vec<f64> {
        let mut inputs = inputs.to_vec();
        if let Some(s) = &self.inputs_scaling {
            s.points_to_net(&mut inputs);
        }
        inputs
    }

    /// Turns predicted moments into the units of the data.
    pub fn to_data_trajectory(&self, path: &mut Trajectory) {
        if let Some(s) = &self.scaling {
            for k in 0..path.steps() {
                let (mean, cov) = path.at_mut(k);
                s.points_to_data(mean);
                s.cov_to_data(cov);
            }
        }
    }

    /// Turns states, `[…, D]`, into the units of the data.
    pub fn to_data_samples(&self, states: &mut [f64]) {
        if let Some(s) = &self.scaling {
            s.points_to_data(states);
        }
    }

    /// Moments after each step of each rollout; starts, inputs and moments in the units of the data.
    ///
    /// Prepares a [`Solver`] anew at each call: in a loop, keep one and use the conversions.
    pub fn predict(&self, options: Options, batch: &[Rollout<'_>]) -> Result<Vec<Trajectory>> {
        Ok(self.predict_with_stats(options, batch)?.0)
    }

    /// Like [`predict`](Model::predict), with the guards that acted.
    pub fn predict_with_stats(
        &self,
        options: Options,
        batch: &[Rollout<'_>],
    ) -> Result<(Vec<Trajectory>, Stats)> {
        let solver = Solver::new(&self.sde, options)?;
        let mut own = Vec::with_capacity(batch.len());
        for rollout in batch {
            own.push(self.to_net(rollout)?);
        }
        let net: Vec<Rollout<'_>> = (own.iter().zip(batch))
            .map(|((start, inputs), rollout)| Rollout { start, dts: rollout.dts, inputs })
            .collect();
        let (mut paths, stats) = solver.solve_with_stats(&net)?;
        for (trajectory, path) in paths.iter_mut().enumerate() {
            self.to_data_trajectory(path);
            for step in 0..path.steps() {
                if path.mean(step).iter().chain(path.cov(step)).any(|x| !x.is_finite()) {
                    return Err(Error::NonFinite { trajectory, step });
                }
            }
        }
        Ok((paths, stats))
    }

    /// The law after each step of each rollout, in the units of the data, by Gaussians that split where the
    /// drift bends them, and the guards that acted.
    pub fn predict_split(
        &self,
        options: Options,
        how: Splitting,
        batch: &[Rollout<'_>],
    ) -> Result<(Vec<Vec<Mixture>>, Stats)> {
        let solver = Solver::new(&self.sde, options)?;
        let (mut paths, mut stats) = (Vec::with_capacity(batch.len()), Stats::default());
        for rollout in batch {
            let (start, inputs) = self.to_net(rollout)?;
            let net = Rollout { start: &start, dts: rollout.dts, inputs: &inputs };
            let (laws, acted) = mixture::rollout_with_stats(&solver, net, how)?;
            stats.add(acted);
            let to_data = |law: Mixture| {
                let mut parts = law.components().to_vec();
                if let Some(s) = &self.scaling {
                    for part in &mut parts {
                        s.points_to_data(&mut part.mean);
                        s.cov_to_data(&mut part.cov);
                    }
                }
                Mixture::new(law.weights().to_vec(), parts)
            };
            paths.push(laws.into_iter().map(to_data).collect::<Result<Vec<_>>>()?);
        }
        Ok((paths, stats))
    }

    /// The particles of a Monte Carlo prediction, `[steps, samples, D]`, in the units of the data: those
    /// whose moments [`predict`](Model::predict) gives for rollout `index` of a batch.
    pub fn sample(&self, options: Options, index: usize, rollout: Rollout<'_>) -> Result<Vec<f64>> {
        let solver = Solver::new(&self.sde, options)?;
        let (start, inputs) = self.to_net(&rollout)?;
        let mut states =
            solver.sample(index, Rollout { start: &start, dts: rollout.dts, inputs: &inputs })?;
        self.to_data_samples(&mut states);
        Ok(states)
    }

    /// Start and inputs in the units of the networks. The start is checked before it is converted, so
    /// that messages speak of the numbers that were given.
    fn to_net(&self, rollout: &Rollout<'_>) -> Result<(Gaussian, Vec<f64>)> {
        gaussian::check(&rollout.start.mean, &rollout.start.cov, self.sde.state(), "start")?;
        Ok((self.to_net_start(rollout.start), self.to_net_inputs(rollout.inputs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, Linear};
    use crate::network::Network;
    use crate::sde::Diffusion;
    use crate::solver::Method;

    /// `dx = (A x + B u + b) dt + S dw` as a network.
    fn affine(a: [f64; 4], b: [f64; 2], shift: [f64; 2], noise: [f64; 2]) -> NeuralSde {
        let weight = vec![a[0], a[1], b[0], a[2], a[3], b[1]];
        let layer = Layer::Linear(Linear::new(3, 2, weight, shift.to_vec()).unwrap());
        let drift = Network::new(3, vec![layer]).unwrap();
        NeuralSde::new(2, 1, drift, Diffusion::ConstantDiagonal(noise.to_vec())).unwrap()
    }

    /// The same affine SDE written in the units of the data and in those of a scaling predicts the same.
    #[test]
    fn scaled_and_unscaled_model_agree_in_data_units() {
        let (mean, std, u_mean, u_std) = ([3.0, -2.0], [2.0, 0.5], 7.0, 4.0);
        let (a, b, shift, noise) = ([-0.3, 0.8, -0.5, -0.1], [0.4, -0.2], [0.1, 0.2], [0.3, 0.7]);
        let plain = Model::new(affine(a, b, shift, noise), 0.1).unwrap();
        // x = mean + std z, so dz = (f(mean + std z, u_mean + u_std v)/std) dt + (L/std) dw.
        let a_net = [a[0], a[1] * std[1] / std[0], a[2] * std[0] / std[1], a[3]];
        let b_net = [b[0] * u_std / std[0], b[1] * u_std / std[1]];
        let at = |i: usize| a[2 * i] * mean[0] + a[2 * i + 1] * mean[1] + b[i] * u_mean + shift[i];
        let shift_net = [at(0) / std[0], at(1) / std[1]];
        let noise_net = [noise[0] / std[0], noise[1] / std[1]];
        let mut scaled = Model::new(affine(a_net, b_net, shift_net, noise_net), 0.1).unwrap();
        scaled.scaling = Some(Scaling::new(mean.to_vec(), std.to_vec()).unwrap());
        scaled.inputs_scaling = Some(Scaling::new(vec![u_mean], vec![u_std]).unwrap());

        let start = Gaussian::new(vec![1.0, 2.0], vec![0.5, 0.2, 0.2, 0.3]).unwrap();
        let rollout = Rollout { start: &start, dts: &[0.1; 4], inputs: &[1.0, -1.0, 2.0, 0.5] };
        for method in
            [Method::Bmm, Method::Cubature(Default::default()), Method::MonteCarlo { samples: 50, seed: 3 }]
        {
            let options = Options { method, ..Default::default() };
            let p = plain.predict(options, &[rollout]).unwrap().remove(0);
            let s = scaled.predict(options, &[rollout]).unwrap().remove(0);
            for k in 0..4 {
                for (p, s) in p.mean(k).iter().chain(p.cov(k)).zip(s.mean(k).iter().chain(s.cov(k))) {
                    assert!((p - s).abs() < 1e-12 * (1.0 + p.abs()), "{method:?} step {k}: {p} {s}");
                }
            }
        }
        let options = Options { method: Method::MonteCarlo { samples: 50, seed: 3 }, ..Default::default() };
        let p = plain.sample(options, 0, rollout).unwrap();
        let s = scaled.sample(options, 0, rollout).unwrap();
        assert_eq!(p.len(), 4 * 50 * 2);
        assert!(p.iter().zip(&s).all(|(p, s)| (p - s).abs() < 1e-12 * (1.0 + p.abs())));
    }

    #[test]
    fn start_has_the_variance_of_the_model_in_data_units() {
        let mut model = Model::new(affine([0.0; 4], [0.0; 2], [0.0; 2], [1.0; 2]), 0.1).unwrap();
        model.init_var = 0.25;
        model.scaling = Some(Scaling::new(vec![1.0, 1.0], vec![10.0, 0.1]).unwrap());
        let start = model.start(vec![1.0, 2.0]).unwrap();
        assert_eq!(start.cov, [0.25, 0.0, 0.0, 0.25]);
        let net = model.to_net_start(&start);
        assert!(net.mean[0] == 0.0 && (net.mean[1] - 10.0).abs() < 1e-12);
        assert!((net.cov[0] - 0.0025).abs() < 1e-15 && (net.cov[3] - 25.0).abs() < 1e-12);
        assert!(model.start(vec![1.0]).is_err());
    }

    #[test]
    fn fields_that_do_not_fit_are_refused() {
        let model = Model::new(affine([0.0; 4], [0.0; 2], [0.0; 2], [1.0; 2]), 0.1).unwrap();
        let two = Scaling { mean: vec![0.0; 2], std: vec![1.0; 2] };
        let bad = [
            Model { dt: 0.0, ..model.clone() },
            Model { dt: f64::NAN, ..model.clone() },
            Model { init_var: -1e-9, ..model.clone() },
            Model { scaling: Some(Scaling { std: vec![1.0, 0.0], ..two.clone() }), ..model.clone() },
            Model { inputs_scaling: Some(two), ..model.clone() },
            Model { columns: Some(vec!["a".into()]), ..model.clone() },
        ];
        for model in bad {
            assert!(model.to_bytes().is_err(), "{model:?}");
        }
        for names in [2, 3] {
            Model { columns: Some(vec!["a".into(); names]), ..model.clone() }.to_bytes().unwrap();
        }
    }
}
