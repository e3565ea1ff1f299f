//! The SDE as a layer of continuous depth (Sec. 6.2): a start, a flow for `K` steps of `dt`, a head.

use super::{Head, Start, affine};
use crate::error::{Error, Result, dimension};
use crate::gaussian::Gaussian;
use crate::sde::NeuralSde;
use crate::solver::{Method, Options, Rollout, Solver};
use std::sync::OnceLock;

/// What one prediction is made from.
#[derive(Clone, Copy, Debug)]
pub struct Example<'a> {
    /// What the start reads; empty for a learned start or zero.
    pub features: &'a [f64],
    /// Control inputs, row-major `[T, U]`, one step per row; empty if the SDE has no inputs.
    pub inputs: &'a [f64],
}

/// A start, a neural SDE and a head.
///
/// An SDE without inputs runs for `steps` steps, one with inputs for as many as the sequence has rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SdeLayer<H> {
    /// The state at the beginning.
    pub start: Start,
    /// What carries it on.
    pub sde: NeuralSde,
    /// What predicts from its end.
    pub head: H,
    /// Step size.
    pub dt: f64,
    /// Number of steps without inputs: the flow time is `steps · dt`.
    pub steps: usize,
    /// Variance of the start.
    pub init_var: f64,
    /// Method, moments and precision of the flow.
    pub options: Options,
}

/// Numbers in the trajectories that a prediction holds at a time: 64 MB.
const TRAJECTORY_BUDGET: usize = 1 << 23;

impl<H: Head> SdeLayer<H> {
    /// Whether the public fields fit each other.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.sde.state();
        dimension("head: input width", state, self.head.linear().input())?;
        match &self.start {
            Start::Embedding(linear) => dimension("embedding: output width", state, linear.output())?,
            Start::Learned(x) => dimension("learned start", state, x.len())?,
            Start::Features | Start::Zero => {}
        }
        let range =
            |what: &str, value: f64, must: &'static str| Err(Error::Range { what: what.into(), value, must });
        if self.steps == 0 {
            return range("steps", 0.0, "at least 1");
        }
        if !(self.dt.is_finite() && self.dt > 0.0) {
            return range("`dt`", self.dt, "finite and positive");
        }
        if !(self.init_var.is_finite() && self.init_var >= 0.0) {
            return range("`init_var`", self.init_var, "finite and not negative");
        }
        Ok(())
    }

    /// Whether an example fits.
    pub(crate) fn check_example(&self, example: &Example<'_>) -> Result<()> {
        let (state, inputs) = (self.sde.state(), self.sde.inputs());
        dimension("features", self.start.features(state), example.features.len())?;
        if inputs == 0 {
            return dimension("control inputs", 0, example.inputs.len());
        }
        if example.inputs.is_empty() || !example.inputs.len().is_multiple_of(inputs) {
            let rows = example.inputs.len().div_ceil(inputs).max(1);
            return dimension(format!("sequence (rows of {inputs})"), rows * inputs, example.inputs.len());
        }
        Ok(())
    }

    fn steps_of(&self, example: &Example<'_>) -> usize {
        example.inputs.len().checked_div(self.sde.inputs()).unwrap_or(self.steps)
    }

    /// All parameters, flat: those of the SDE, of the head, of the start.
    pub fn parameters(&self) -> Vec<f64> {
        [self.sde.parameters(), self.head.parameters(), self.start.parameters()].concat()
    }

    /// Takes over a flat parameter vector.
    pub fn set_parameters(&mut self, flat: &[f64]) -> Result<()> {
        let (sde, head) = (self.sde.parameter_count(), self.head.parameter_count());
        dimension("parameters", sde + head + self.start.parameters().len(), flat.len())?;
        self.sde.set_parameters(&flat[..sde])?;
        self.head.set_parameters(&flat[sde..sde + head])?;
        self.start.set_parameters(&flat[sde + head..]);
        Ok(())
    }

    /// The same layer with other parameters.
    pub fn with_parameters(&self, flat: &[f64]) -> Result<Self> {
        let mut layer = self.clone();
        layer.set_parameters(flat)?;
        Ok(layer)
    }

    fn starts(&self, batch: &[Example<'_>]) -> Result<Vec<Gaussian>> {
        let one = |example: &Example<'_>| {
            self.check_example(example)?;
            Gaussian::isotropic(self.start.point(self.sde.state(), example.features), self.init_var)
        };
        batch.iter().map(one).collect()
    }

    /// The options, with `shift(seed)` for the seed of Monte Carlo.
    pub(crate) fn seeded(&self, shift: impl Fn(u64) -> u64) -> Options {
        match self.options.method {
            Method::MonteCarlo { samples, seed } => {
                Options { method: Method::MonteCarlo { samples, seed: shift(seed) }, ..self.options }
            }
            _ => self.options,
        }
    }

    /// The Gaussian at the end of each flow, in pieces whose trajectories have at most `budget` numbers.
    fn ends(&self, batch: &[Example<'_>], budget: usize) -> Result<Vec<Gaussian>> {
        self.check()?;
        let dts = vec![self.dt; batch.iter().map(|e| self.steps_of(e)).max().unwrap_or(0)];
        let state = self.sde.state();
        let (mut out, mut rest, mut piece) = (Vec::with_capacity(batch.len()), batch, 0);
        while !rest.is_empty() {
            let mut room = budget;
            let fits = |e: &&Example<'_>| {
                let size = self.steps_of(e).saturating_mul(state * (state + 1));
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let starts = self.starts(now)?;
            // Streams of random numbers are counted within a piece.
            let solver = Solver::new(&self.sde, self.seeded(|seed| seed.wrapping_add(piece)))?;
            let paths = solver.solve(&self.rollouts(now, &starts, &dts))?;
            out.extend(paths.iter().map(|path| path.gaussian(path.steps() - 1)));
            rest = later;
            piece += 1;
        }
        Ok(out)
    }

    fn rollouts<'a>(
        &self,
        batch: &[Example<'a>],
        starts: &'a [Gaussian],
        dts: &'a [f64],
    ) -> Vec<Rollout<'a>> {
        let one = |(e, start): (&Example<'a>, &'a Gaussian)| Rollout {
            start,
            dts: &dts[..self.steps_of(e)],
            inputs: e.inputs,
        };
        batch.iter().zip(starts).map(one).collect()
    }

    /// The predictive distribution of each example.
    pub fn predict(&self, batch: &[Example<'_>]) -> Result<Vec<H::Prediction>> {
        self.ends(batch, TRAJECTORY_BUDGET)?.iter().map(|x| self.head.predict(&x.mean, &x.cov)).collect()
    }

    /// Mean of `−log p(target)` over the examples.
    pub fn score(&self, batch: &[Example<'_>], targets: &[&H::Target]) -> Result<f64> {
        dimension("targets", batch.len(), targets.len())?;
        let mut sum = 0.0;
        for (x, target) in self.ends(batch, TRAJECTORY_BUDGET)?.iter().zip(targets) {
            sum += self.head.nll(&x.mean, &x.cov, target)?;
        }
        Ok(sum / batch.len() as f64)
    }

    /// Mean training loss over the examples; adds its derivatives to `gradient`, in the order of
    /// [`parameters`](SdeLayer::parameters). Monte Carlo draws from `seed`.
    ///
    /// Sums run in the order of the batch: the bits do not depend on the number of threads.
    pub fn gradient(
        &self,
        batch: &[Example<'_>],
        targets: &[&H::Target],
        seed: u64,
        gradient: &mut [f64],
    ) -> Result<f64> {
        self.check()?;
        self.gradient_by(&Solver::new(&self.sde, self.seeded(|_| seed))?, batch, targets, gradient)
    }

    /// The same with a solver of `self.sde` that was made before; for a layer that passes [`check`](Self::check).
    pub(crate) fn gradient_by(
        &self,
        solver: &Solver,
        batch: &[Example<'_>],
        targets: &[&H::Target],
        gradient: &mut [f64],
    ) -> Result<f64> {
        dimension("targets", batch.len(), targets.len())?;
        let (sde, head) = (self.sde.parameter_count(), self.head.parameter_count());
        dimension("gradient", sde + head + self.start.parameters().len(), gradient.len())?;
        let starts = self.starts(batch)?;
        let dts = vec![self.dt; batch.iter().map(|e| self.steps_of(e)).max().unwrap_or(0)];
        let rollouts = self.rollouts(batch, &starts, &dts);
        let weight = 1.0 / batch.len() as f64;
        let parts: Vec<OnceLock<Vec<f64>>> = vec![OnceLock::new(); batch.len()];
        let result = solver.gradient(&rollouts, |i, path, bar| {
            let last = path.steps() - 1;
            let (mean_bar, cov_bar) = bar.at_mut(last);
            let mut part = vec![0.0; head];
            let (mean, cov) = (path.mean(last), path.cov(last));
            let value = self.head.pull(mean, cov, targets[i], weight, mean_bar, cov_bar, &mut part)?;
            // A trajectory is asked once.
            let _ = parts[i].set(part);
            Ok(weight * value)
        })?;
        let (of_sde, rest) = gradient.split_at_mut(sde);
        let (of_head, of_start) = rest.split_at_mut(head);
        affine::axpy(1.0, &result.parameters, of_sde);
        for (i, example) in batch.iter().enumerate() {
            affine::axpy(1.0, parts[i].get().map_or(&[], Vec::as_slice), of_head);
            self.start.point_pull(example.features, &result.starts[i].mean, of_start);
        }
        Ok(result.value)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::head::{LinearHead, SoftmaxHead, SoftmaxObjective};
    use crate::layer::{Layer, Linear};
    use crate::network::Network;
    use crate::sde::Diffusion;
    use nsde_check::{assert_close, directional, random_vec, seeded};

    /// Smooth, so that points and samples have differences too.
    fn sde(state: usize, inputs: usize) -> NeuralSde {
        let rng = &mut seeded(11);
        let drift = Network::perceptron(state + inputs, &[6], state, Layer::Tanh, 0.9, rng).unwrap();
        let noise = Network::perceptron(state, &[4], state, Layer::Softplus, 1.0, rng).unwrap();
        NeuralSde::new(state, inputs, drift, Diffusion::Diagonal(noise)).unwrap()
    }

    fn layer<H>(start: Start, head: H, state: usize, inputs: usize) -> SdeLayer<H> {
        let options = Options::default();
        SdeLayer { start, sde: sde(state, inputs), head, dt: 0.2, steps: 3, init_var: 0.1, options }
    }

    pub(in super::super) fn regressor(
        start: Start,
        state: usize,
        inputs: usize,
        output: usize,
    ) -> SdeLayer<LinearHead> {
        let head = LinearHead::new(Linear::random(state, output, &mut seeded(12)).unwrap());
        layer(start, head, state, inputs)
    }

    pub(in super::super) fn classifier(
        start: Start,
        state: usize,
        inputs: usize,
        classes: usize,
        objective: SoftmaxObjective,
    ) -> SdeLayer<SoftmaxHead> {
        let linear = Linear::random(state, classes, &mut seeded(13)).unwrap();
        layer(start, SoftmaxHead::new(linear, objective).unwrap(), state, inputs)
    }

    /// Each kind of start, with features that fit.
    pub(in super::super) fn every_start(state: usize) -> Vec<(Start, Vec<f64>)> {
        let rng = &mut seeded(14);
        vec![
            (Start::Features, random_vec(state, rng)),
            (Start::Embedding(Linear::random(2, state, rng).unwrap()), random_vec(2, rng)),
            (Start::Learned(random_vec(state, rng)), vec![]),
            (Start::Zero, vec![]),
        ]
    }

    fn check_gradient<H: Head>(layer: &SdeLayer<H>, batch: &[Example<'_>], targets: &[&H::Target]) {
        let at = layer.parameters();
        let v = random_vec(at.len(), &mut seeded(15));
        let mut gradient = vec![0.0; at.len()];
        let value = layer.gradient(batch, targets, 5, &mut gradient).unwrap();
        let f = |t: f64| {
            let moved: Vec<f64> = at.iter().zip(&v).map(|(a, v)| a + t * v).collect();
            let moved = layer.with_parameters(&moved).unwrap();
            moved.gradient(batch, targets, 5, &mut vec![0.0; at.len()]).unwrap()
        };
        assert_eq!(f(0.0), value);
        let pulled: f64 = gradient.iter().zip(&v).map(|(a, b)| a * b).sum();
        assert_close(directional(f, 1e-4), pulled, 1e-6);
    }

    #[test]
    fn gradients_match_differences_for_every_start_head_and_method() {
        let methods =
            [Method::Bmm, Method::Cubature(Default::default()), Method::MonteCarlo { samples: 20, seed: 0 }];
        let (short, long) = ([0.3, -0.2], [0.5, 0.1, -0.7, 0.2, 0.9, -0.4]);
        for method in methods {
            for (start, features) in every_start(3) {
                let mut r = regressor(start.clone(), 3, 0, 2);
                r.options.method = method;
                let one = Example { features: &features, inputs: &[] };
                check_gradient(&r, &[one, one, one], &[&[0.3, -0.1], &[1.0, 0.2], &[-0.4, 0.6]]);
                for objective in [SoftmaxObjective::Expected, SoftmaxObjective::Dvi] {
                    let mut c = classifier(start.clone(), 3, 2, 3, objective);
                    c.options.method = method;
                    let with = |inputs| Example { features: &features, inputs };
                    check_gradient(&c, &[with(&short), with(&long)], &[&2, &0]);
                }
            }
        }
    }

    /// Flows that do not fit into one piece come out as they do together, up to the rounding of those that are
    /// computed side by side; an example always fits.
    #[test]
    fn pieces_change_nothing() {
        let layer = regressor(Start::Features, 3, 0, 1);
        let features: Vec<Vec<f64>> = (0..7).map(|i| vec![0.1 * f64::from(i); 3]).collect();
        let batch: Vec<Example<'_>> = features.iter().map(|f| Example { features: f, inputs: &[] }).collect();
        let all = layer.ends(&batch, usize::MAX).unwrap();
        for budget in [0, 1, 36, 37, 72, 100, 36 * 7] {
            for (some, all) in layer.ends(&batch, budget).unwrap().iter().zip(&all) {
                for (x, y) in some.mean.iter().chain(&some.cov).zip(all.mean.iter().chain(&all.cov)) {
                    assert_close(*x, *y, 1e-13);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = regressor(Start::Features, 3, 0, 1);
        let example = Example { features: &[0.0; 3], inputs: &[] };
        good.predict(&[example]).unwrap();
        assert!(good.predict(&[Example { features: &[0.0; 2], ..example }]).is_err());
        assert!(good.predict(&[Example { inputs: &[1.0], ..example }]).is_err());
        let mut r = regressor(Start::Learned(vec![0.0; 2]), 3, 0, 1);
        assert!(r.check().is_err());
        r.start = Start::Embedding(Linear::new(3, 2, vec![0.0; 6], vec![0.0; 2]).unwrap());
        assert!(r.check().is_err());
        for bad in [
            SdeLayer { steps: 0, ..good.clone() },
            SdeLayer { dt: -1.0, ..good.clone() },
            SdeLayer { init_var: f64::NAN, ..good.clone() },
        ] {
            assert!(bad.predict(&[example]).is_err());
        }
        let c = classifier(Start::Zero, 3, 2, 3, SoftmaxObjective::Expected);
        for inputs in [&[][..], &[1.0, 2.0, 3.0]] {
            assert!(c.predict(&[Example { features: &[], inputs }]).is_err());
        }
        assert!(
            c.gradient(
                &[Example { features: &[], inputs: &[1.0, 2.0] }],
                &[&3],
                0,
                &mut vec![0.0; c.parameters().len()]
            )
            .is_err()
        );
    }
}
