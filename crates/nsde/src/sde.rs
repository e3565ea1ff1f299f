//! Neural SDEs `dx = f(x, u) dt + L(x, u) dw` (Sec. 2): a drift and a diffusion network together.

use crate::error::{Error, Result, dimension};
use crate::network::Network;

/// The diffusion `L` of a neural SDE.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Diffusion {
    /// The network gives the `D` diagonal entries of `L`.
    Diagonal(Network),
    /// The network gives the `D(D+1)/2` entries of a lower-triangular `L`, row by row.
    Full(Network),
    /// A constant diagonal `L`.
    ConstantDiagonal(Vec<f64>),
    /// A constant lower-triangular `L`, row-major `[D, D]`.
    ConstantFull(Vec<f64>),
    /// No noise: a neural ODE.
    None,
}

impl Diffusion {
    /// The name used in model files.
    pub fn kind(&self) -> &'static str {
        match self {
            Diffusion::Diagonal(_) => "diagonal",
            Diffusion::Full(_) => "full",
            Diffusion::ConstantDiagonal(_) | Diffusion::ConstantFull(_) => "constant",
            Diffusion::None => "none",
        }
    }

    /// Its network, if it has one.
    pub fn network(&self) -> Option<&Network> {
        match self {
            Diffusion::Diagonal(net) | Diffusion::Full(net) => Some(net),
            _ => None,
        }
    }
}

/// No state is wider: its covariance would not fit into any memory, nor its size into arithmetic.
const MAX_WIDTH: usize = 1 << 24;

/// A neural SDE with `state` dimensions and `inputs` control inputs, in the units of its networks.
#[derive(Clone, Debug, PartialEq)]
pub struct NeuralSde {
    state: usize,
    inputs: usize,
    drift: Network,
    diffusion: Diffusion,
}

impl NeuralSde {
    /// Puts drift and diffusion together and checks that they fit.
    ///
    /// The drift reads `[x, u]` and gives `D` values; the diffusion reads `x`, or `[x, u]`.
    pub fn new(state: usize, inputs: usize, drift: Network, diffusion: Diffusion) -> Result<Self> {
        if state == 0 {
            return Err(Error::Range { what: "state dimension".into(), value: 0.0, must: "at least 1" });
        }
        if state > MAX_WIDTH || inputs > MAX_WIDTH {
            return Err(Error::Range {
                what: "state dimension or number of inputs".into(),
                value: state.max(inputs) as f64,
                must: "at most 2²⁴",
            });
        }
        dimension("drift: input width (state + inputs)", state + inputs, drift.input())?;
        dimension("drift: output width", state, drift.output())?;
        if let Some(net) = diffusion.network()
            && net.input() != state
            && net.input() != state + inputs
        {
            return Err(Error::Dimension {
                what: format!("diffusion: input width (state, or {} with inputs)", state + inputs),
                expected: state,
                found: net.input(),
            });
        }
        match &diffusion {
            Diffusion::Diagonal(net) => dimension("diffusion: output width", state, net.output())?,
            Diffusion::Full(net) => {
                dimension("diffusion: output width D(D+1)/2", state * (state + 1) / 2, net.output())?;
            }
            Diffusion::ConstantDiagonal(scale) => dimension("diffusion: scale", state, scale.len())?,
            Diffusion::ConstantFull(scale) => {
                dimension("diffusion: scale [D, D]", state * state, scale.len())?;
                for i in 0..state {
                    for j in i + 1..state {
                        if scale[i * state + j] != 0.0 {
                            return Err(Error::Range {
                                what: format!("diffusion: scale[{i}, {j}], above the diagonal,"),
                                value: scale[i * state + j],
                                must: "0 (the matrix is lower triangular)",
                            });
                        }
                    }
                }
            }
            Diffusion::None => {}
        }
        if let Diffusion::ConstantDiagonal(s) | Diffusion::ConstantFull(s) = &diffusion
            && let Some(bad) = s.iter().find(|x| !x.is_finite())
        {
            return Err(Error::Range { what: "diffusion: scale".into(), value: *bad, must: "finite" });
        }
        Ok(NeuralSde { state, inputs, drift, diffusion })
    }

    /// Number of state dimensions `D`.
    pub fn state(&self) -> usize {
        self.state
    }

    /// Number of control inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The drift network.
    pub fn drift(&self) -> &Network {
        &self.drift
    }

    /// The diffusion.
    pub fn diffusion(&self) -> &Diffusion {
        &self.diffusion
    }

    /// Whether the diffusion network reads the control inputs too.
    pub fn diffusion_reads_inputs(&self) -> bool {
        self.inputs > 0 && self.diffusion.network().is_some_and(|net| net.input() > self.state)
    }

    /// Whether any network draws dropout masks.
    pub fn has_dropout(&self) -> bool {
        self.drift.has_dropout() || self.diffusion.network().is_some_and(Network::has_dropout)
    }

    /// Calls `each(name, shape, values)` for every parameter array, in the order of the flat
    /// parameter vector; names as in the model file: `drift.0.weight`, …, `diffusion.scale`.
    pub fn visit<'a>(&'a self, each: &mut dyn FnMut(String, Vec<usize>, &'a [f64])) {
        self.drift.visit("drift.", each);
        match &self.diffusion {
            Diffusion::Diagonal(net) | Diffusion::Full(net) => net.visit("diffusion.", each),
            Diffusion::ConstantDiagonal(s) => each("diffusion.scale".into(), vec![self.state], s),
            Diffusion::ConstantFull(s) => each("diffusion.scale".into(), vec![self.state; 2], s),
            Diffusion::None => {}
        }
    }

    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut [f64])) {
        self.drift.visit_mut(each);
        match &mut self.diffusion {
            Diffusion::Diagonal(net) | Diffusion::Full(net) => net.visit_mut(each),
            Diffusion::ConstantDiagonal(s) | Diffusion::ConstantFull(s) => each(s),
            Diffusion::None => {}
        }
    }

    /// Number of parameters.
    pub fn parameter_count(&self) -> usize {
        let mut n = 0;
        self.visit(&mut |_, _, values| n += values.len());
        n
    }

    /// All parameters, flat, in the order of [`visit`](NeuralSde::visit).
    pub fn parameters(&self) -> Vec<f64> {
        let mut flat = Vec::with_capacity(self.parameter_count());
        self.visit(&mut |_, _, values| flat.extend_from_slice(values));
        flat
    }

    /// Takes over a flat parameter vector.
    pub fn set_parameters(&mut self, flat: &[f64]) -> Result<()> {
        dimension("parameters", self.parameter_count(), flat.len())?;
        let mut rest = flat;
        self.visit_mut(&mut |values| {
            let (here, after) = rest.split_at(values.len());
            values.copy_from_slice(here);
            rest = after;
        });
        Ok(())
    }
}
