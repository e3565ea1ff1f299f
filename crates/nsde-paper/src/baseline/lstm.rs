//! Two stacked LSTMs with 64 units each, and an affine head.

use super::recurrent::Network;
use super::weights::{Affine, Weights};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::sigmoid;

const WIDTH: usize = 64;
const LAYERS: usize = 2;

/// The network.
pub struct Lstm {
    gates: Vec<Affine>,
    head: Affine,
}

impl Lstm {
    /// Random parameters for rows of `input` values.
    pub fn new(weights: &mut Weights, input: usize, output: usize) -> Result<Self> {
        let mut gates = Vec::new();
        for layer in 0..LAYERS {
            let below = if layer == 0 { input } else { WIDTH };
            gates.push(weights.affine(below + WIDTH, 4 * WIDTH)?);
        }
        Ok(Lstm { gates, head: weights.affine(WIDTH, output)? })
    }
}

/// Output and cell of each layer follow each other: `h₁, c₁, h₂, c₂`.
impl Network for Lstm {
    fn begin(&self, batch: usize) -> Result<Vec<Tensor>> {
        let zero = Tensor::zeros((batch, WIDTH), DType::F32, &Device::Cpu)?;
        Ok(vec![zero; 2 * LAYERS])
    }

    fn step(&self, x: &Tensor, state: &mut Vec<Tensor>) -> Result<Tensor> {
        let mut below = x.clone();
        for (layer, gates) in self.gates.iter().enumerate() {
            let all = gates.apply(&Tensor::cat(&[&below, &state[2 * layer]], 1)?)?;
            let part = |k: usize| all.narrow(1, k * WIDTH, WIDTH);
            let (input, forget, output) = (sigmoid(&part(0)?)?, sigmoid(&part(1)?)?, sigmoid(&part(2)?)?);
            let cell = ((forget * &state[2 * layer + 1])? + (input * part(3)?.tanh()?)?)?;
            below = (output * cell.tanh()?)?;
            state[2 * layer] = below.clone();
            state[2 * layer + 1] = cell;
        }
        self.head.apply(&below)
    }

    fn sequence(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, rows, _) = x.dims3()?;
        let mut state = self.begin(batch)?;
        let each = (0..rows).map(|n| self.step(&x.narrow(1, n, 1)?.squeeze(1)?, &mut state));
        Tensor::stack(&each.collect::<Result<Vec<_>>>()?, 1)
    }
}
