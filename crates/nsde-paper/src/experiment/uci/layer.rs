//! Neural SDEs as a layer of continuous depth (Sec. 6.2): networks, training, and the search of what the paper leaves open.

use super::table::Part;
use anyhow::{Context, Result};
use nsde::head::{Head, LinearHead, MixtureHead, SdeLayer, Start};
use nsde::train::{Progress, RegressionTask, TrainOptions, TrainState, advance};
use nsde::{Diffusion, Layer, Linear, Network, NeuralSde, Options, Precision};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Step of Euler–Maruyama, in seconds.
pub const DT: f64 = 0.5;
/// The drift's last layer starts this much smaller than PyTorch's would, so that long flows begin calm.
const CALM: f64 = 0.1;

/// What the softplus of the diffusion sees at first: noise of 0.13.
const QUIET: f64 = -2.0;

/// The Gaussians of a mixture begin within this distance of the mean answer, in deviations of the answers, ...
const SPREAD: f64 = 1.5;
/// ... each with noise of this logarithm of its variance.
const MIXTURE_NOISE: f64 = -2.0;

/// Networks and training.
#[derive(Clone, Debug)]
pub struct Design {
    /// Width of the state; the features are embedded by a learned affine map if it is not their number.
    pub state: usize,
    /// Width of the drift's hidden layer.
    pub hidden: usize,
    /// Width of the diffusion's hidden layer.
    pub noise_hidden: usize,
    /// Probability to keep a hidden unit.
    pub keep: f64,
    /// Flow time in seconds.
    pub flow: f64,
    /// Updates.
    pub updates: usize,
    /// Peak of the learning rate.
    pub rate: f64,
    /// Variance of a start.
    pub init_var: f64,
}

/// What training on a part with some rows held out found.
pub struct Trained<H> {
    /// The layer with the best weights.
    pub layer: SdeLayer<H>,
    /// Best NLL on the rows held out, in standard units, and the update it was found at.
    pub best: Option<(f64, usize)>,
}

/// The paper's head: `D + 1` parameters.
pub fn affine(state: usize, rng: &mut ChaCha8Rng) -> Result<LinearHead> {
    Ok(LinearHead::new(Linear::random(state, 1, rng)?))
}

/// A head of several Gaussians side by side.
pub fn mixture(components: usize, state: usize, rng: &mut ChaCha8Rng) -> Result<MixtureHead> {
    let random = Linear::random(state, 2 * components, rng)?;
    let mut bias = random.bias().to_vec();
    for (k, b) in bias.iter_mut().take(components).enumerate() {
        *b = SPREAD * ((2 * k + 1) as f64 / components as f64 - 1.0);
    }
    let linear = Linear::new(state, 2 * components, random.weight().to_vec(), bias)?;
    Ok(MixtureHead::new(linear, vec![MIXTURE_NOISE; components], components)?)
}

impl Design {
    /// Steps of the flow.
    pub fn steps(&self) -> usize {
        (self.flow / DT).round() as usize
    }

    /// First weights.
    pub fn layer<H>(
        &self,
        dim: usize,
        method: nsde::Method,
        seed: u64,
        head: impl Fn(usize, &mut ChaCha8Rng) -> Result<H>,
    ) -> Result<SdeLayer<H>> {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let state = self.state;
        let net = |hidden: usize, rng: &mut ChaCha8Rng| {
            Network::perceptron(state, &[hidden], state, Layer::Relu, self.keep, rng)
        };
        let (drift, noise) = (net(self.hidden, rng)?, net(self.noise_hidden, rng)?);
        // A softplus at the end: a linear one may cross zero, where the model would be sure of everything.
        let mut noise = with_last(&noise, |w| CALM * w, |_| QUIET)?.layers().to_vec();
        noise.push(Layer::Softplus);
        let diffusion = Diffusion::Diagonal(Network::new(state, noise)?);
        let drift = with_last(&drift, |w| CALM * w, |b| CALM * b)?;
        let sde = NeuralSde::new(state, 0, drift, diffusion)?;
        let start = match state == dim {
            true => Start::Features,
            false => Start::Embedding(Linear::random(dim, state, rng)?),
        };
        let head = head(state, rng)?;
        let steps = self.steps();
        let options = Options { method, precision: Precision::F32, ..Options::default() };
        Ok(SdeLayer { start, sde, head, dt: DT, steps, init_var: self.init_var, options })
    }

    /// Trains `layer` on `part` without the rows `held_out`, and keeps the weights that are best on these.
    pub fn train<H: Head<Target = [f64]>>(
        &self,
        layer: SdeLayer<H>,
        part: &Part,
        held_out: &[usize],
        seed: u64,
    ) -> Result<Trained<H>> {
        let task = RegressionTask::new(layer, part.x.clone(), part.y.clone(), held_out)?;
        let how = TrainOptions {
            steps: self.updates,
            batch: 32,
            rate: self.rate,
            validate_every: (self.updates / 30).max(1),
            seed,
            ..TrainOptions::default()
        };
        let mut state = TrainState::new(task.parameters());
        while advance(&task, &how, 1, &mut state)? != Progress::Done {}
        let layer = task.layer(state.result())?;
        Ok(Trained { layer, best: state.best_score })
    }
}

/// The flow of `layer` in `factor` times as many steps, each as much weaker: the drift by the factor, the noise by its root. The
/// softplus at the end of the diffusion is taken for the exponential that it is where noise is small.
pub fn stretched<H: Clone>(layer: &SdeLayer<H>, factor: usize) -> Result<SdeLayer<H>> {
    let (sde, times) = (&layer.sde, factor as f64);
    let drift = with_last(sde.drift(), |w| w / times, |b| b / times)?;
    let noise = sde.diffusion().network().context("a flow without a diffusion network")?;
    let diffusion = Diffusion::Diagonal(with_last(noise, |w| w, |b| b - 0.5 * times.ln())?);
    let sde = NeuralSde::new(sde.state(), sde.inputs(), drift, diffusion)?;
    Ok(SdeLayer { sde, steps: factor * layer.steps, ..layer.clone() })
}

/// `net` with other weights and biases in its last affine layer.
fn with_last(net: &Network, weight: impl Fn(f64) -> f64, bias: impl Fn(f64) -> f64) -> Result<Network> {
    let mut layers = net.layers().to_vec();
    let last = layers.iter_mut().rev().find_map(|layer| match layer {
        Layer::Linear(l) => Some(l),
        _ => None,
    });
    let last = last.context("a network without an affine layer")?;
    let weights = last.weight().iter().map(|w| weight(*w)).collect();
    let biases = last.bias().iter().map(|b| bias(*b)).collect();
    *last = Linear::new(last.input(), last.output(), weights, biases)?;
    Ok(Network::new(net.input(), layers)?)
}

/// Predictions for the rows of `x` in double precision, by `method`.
pub fn predict<H: Head>(layer: &SdeLayer<H>, x: &[f64], method: nsde::Method) -> Result<Vec<H::Prediction>> {
    let options = Options { method, ..Options::default() };
    let layer = SdeLayer { options, ..layer.clone() };
    let dim = layer.start.features(layer.sde.state());
    let rows: Vec<_> = x.chunks(dim).map(|features| nsde::head::Example { features, inputs: &[] }).collect();
    Ok(layer.predict(&rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_flow_ends_where_it_did() {
        let design = Design {
            state: 3,
            hidden: 8,
            noise_hidden: 4,
            keep: 1.0,
            flow: 2.0,
            updates: 1,
            rate: 1e-3,
            init_var: 1e-6,
        };
        let layer = design.layer(3, nsde::Method::Bmm, 5, affine).unwrap();
        let longer = stretched(&layer, 2).unwrap();
        assert_eq!((layer.steps, longer.steps), (4, 8));
        let x = [0.5, -1.0, 2.0, -0.3, 0.0, 1.5];
        let laws = |layer| predict(layer, &x, nsde::Method::Bmm).unwrap();
        for (a, b) in laws(&layer).iter().zip(laws(&longer)) {
            assert!((a.mean[0] - b.mean[0]).abs() < 5e-3, "{a:?} {b:?}");
            assert!((a.cov[0] / b.cov[0] - 1.0).abs() < 0.1, "{a:?} {b:?}");
        }
        // The weights alone, for twice the time, end elsewhere.
        let twice = SdeLayer { steps: 8, ..layer.clone() };
        assert!(laws(&twice)[0].cov[0] > 1.5 * laws(&layer)[0].cov[0]);
    }
}
