//! The random networks and inputs of Fig. 4.

use crate::points::generator;
use anyhow::{Result, bail};
use ndarray::{Array1, Array2};
use nsde::{Diffusion, Layer, Linear, Network, NeuralSde};
use rand_distr::{Distribution, StandardNormal};

/// The dropout rate of the paper is 0.2.
const KEEP: f64 = 0.8;

/// A random network `D → H → H → H → D` and the law of its input, `μ ~ N(0, I)`, `Σ = A Aᵀ ~ W(I, D)`.
pub struct Problem {
    /// `μ`.
    pub mean: Vec<f64>,
    /// `A`, `[D, D]`.
    pub root: Array2<f64>,
    /// Probability to keep a unit.
    pub keep: f64,
    linear: Vec<Linear>,
}

impl Problem {
    /// The problem of a repetition; weights are uniform in `±1/√fan_in`, as PyTorch starts them.
    pub fn random(dim: usize, width: usize, seed: u64, repetition: u64) -> Result<Self> {
        let stream = repetition + ((dim as u64) << 32) + ((width as u64) << 48);
        let rng = &mut generator(seed, stream);
        let widths = [dim, width, width, width, dim];
        let linear = widths.windows(2).map(|w| Linear::random(w[0], w[1], rng));
        let linear = linear.collect::<nsde::Result<Vec<_>>>()?;
        let mean = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
        let root = Array2::from_shape_simple_fn((dim, dim), || StandardNormal.sample(rng));
        Ok(Problem { mean, root, keep: KEEP, linear })
    }

    /// Weight, `[output, input]`, and bias of the affine layer at a place.
    pub fn affine(&self, place: usize) -> Result<(Array2<f64>, Array1<f64>)> {
        let l = &self.linear[place];
        let weight = Array2::from_shape_vec((l.output(), l.input()), l.weight().to_vec())?;
        Ok((weight, Array1::from(l.bias().to_vec())))
    }

    /// The affine layer at a place.
    pub fn layer(&self, place: usize) -> Result<Layer> {
        match self.linear.get(place) {
            Some(linear) => Ok(Layer::Linear(linear.clone())),
            None => bail!("a network of this experiment has four affine layers"),
        }
    }

    /// The network: with ReLU and dropout, or with tanh and none.
    pub fn network(&self, relu: bool) -> Result<Network> {
        let mut layers = Vec::new();
        for (place, linear) in self.linear.iter().enumerate() {
            layers.push(Layer::Linear(linear.clone()));
            if place + 1 < self.linear.len() {
                layers.push(if relu { Layer::Relu } else { Layer::Tanh });
                if relu {
                    layers.push(Layer::Dropout { keep: self.keep });
                }
            }
        }
        Ok(Network::new(self.mean.len(), layers)?)
    }

    /// The network as the drift of an SDE without noise, for the kernels of the solver.
    pub fn sde(&self, relu: bool) -> Result<NeuralSde> {
        Ok(NeuralSde::new(self.mean.len(), 0, self.network(relu)?, Diffusion::None)?)
    }

    /// `Σ`, row-major.
    pub fn cov(&self) -> Vec<f64> {
        let cov = self.root.dot(&self.root.t());
        // Rounding may differ between the two triangles.
        let half = 0.5 * (&cov + &cov.t());
        half.iter().copied().collect()
    }

    /// Changes weights and biases of an affine layer.
    #[cfg(test)]
    pub fn change(
        &mut self,
        place: usize,
        weight: impl Fn(f64) -> f64,
        bias: impl Fn(f64) -> f64,
    ) -> Result<()> {
        let l = &self.linear[place];
        let weight = l.weight().iter().map(|w| weight(*w)).collect();
        let bias = l.bias().iter().map(|b| bias(*b)).collect();
        self.linear[place] = Linear::new(l.input(), l.output(), weight, bias)?;
        Ok(())
    }
}
