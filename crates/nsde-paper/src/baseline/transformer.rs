//! A Transformer encoder: two layers after the original work, hidden size 64, two heads; a row sees itself
//! and the rows before it.

use super::recurrent::Network;
use super::weights::{Affine, Norm, Weights};
use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops::softmax;

const WIDTH: usize = 64;
const HEADS: usize = 2;
const LAYERS: usize = 2;
/// Width of the network after each attention; the paper does not print it.
const INNER: usize = 256;

struct Encoder {
    queries: Affine,
    keys: Affine,
    values: Affine,
    together: Affine,
    first: Norm,
    widen: Affine,
    narrow: Affine,
    second: Norm,
}

/// The network.
pub struct Transformer {
    embedding: Affine,
    places: Tensor,
    encoders: Vec<Encoder>,
    head: Affine,
    /// Rows it looks back on.
    context: usize,
}

impl Transformer {
    /// Random parameters for `context` rows of `input` values.
    pub fn new(weights: &mut Weights, input: usize, output: usize, context: usize) -> Result<Self> {
        let embedding = weights.affine(input, WIDTH)?;
        let places = weights.uniform(&[context, WIDTH], 0.1)?;
        let mut encoders = Vec::new();
        for _ in 0..LAYERS {
            encoders.push(Encoder {
                queries: weights.affine(WIDTH, WIDTH)?,
                keys: weights.affine(WIDTH, WIDTH)?,
                values: weights.affine(WIDTH, WIDTH)?,
                together: weights.affine(WIDTH, WIDTH)?,
                first: weights.norm(WIDTH)?,
                widen: weights.affine(WIDTH, INNER)?,
                narrow: weights.affine(INNER, WIDTH)?,
                second: weights.norm(WIDTH)?,
            });
        }
        Ok(Transformer { embedding, places, encoders, head: weights.affine(WIDTH, output)?, context })
    }
}

impl Encoder {
    /// The outputs of the last `wanted` rows, which look at all rows of `x`.
    fn apply(&self, x: &Tensor, wanted: usize) -> Result<Tensor> {
        let (batch, rows, _) = x.dims3()?;
        let split = |y: Tensor| {
            let rows = y.dim(1)?;
            y.reshape((batch, rows, HEADS, WIDTH / HEADS))?.transpose(1, 2)?.contiguous()
        };
        let last = x.narrow(1, rows - wanted, wanted)?.contiguous()?;
        let (q, k, v) =
            (split(self.queries.apply(&last)?)?, split(self.keys.apply(x)?)?, split(self.values.apply(x)?)?);
        let scale = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
        let scores = (q.matmul(&k.t()?.contiguous()?)? * scale)?.broadcast_add(&causal(rows, wanted)?)?;
        let seen = softmax(&scores, D::Minus1)?.matmul(&v)?;
        let seen = seen.transpose(1, 2)?.contiguous()?.reshape((batch, wanted, WIDTH))?;
        let x = self.first.apply(&(last + self.together.apply(&seen)?)?)?;
        let inner = self.narrow.apply(&self.widen.apply(&x)?.relu()?)?;
        self.second.apply(&(x + inner)?)
    }
}

/// For the last `wanted` of `rows`: zero where a row may look, very negative where it may not.
fn causal(rows: usize, wanted: usize) -> Result<Tensor> {
    let entry = |k: usize| if k % rows > rows - wanted + k / rows { -1e9 } else { 0.0 };
    let values: Vec<f32> = (0..wanted * rows).map(entry).collect();
    Tensor::from_vec(values, (1, 1, wanted, rows), &Device::Cpu)
}

impl Transformer {
    /// The outputs of the last `wanted` rows of `x`.
    fn last(&self, x: &Tensor, wanted: usize) -> Result<Tensor> {
        let rows = x.dim(1)?;
        let mut h = self.embedding.apply(x)?.broadcast_add(&self.places.narrow(0, 0, rows)?)?;
        for (n, encoder) in self.encoders.iter().enumerate() {
            // Only the last layer may leave rows out: the others are looked at.
            h = encoder.apply(&h, if n + 1 == LAYERS { wanted } else { rows })?;
        }
        self.head.apply(&h)
    }
}

/// The state is the rows it has seen last, `[batch, rows, input]`.
impl Network for Transformer {
    fn begin(&self, _: usize) -> Result<Vec<Tensor>> {
        Ok(Vec::new())
    }

    fn step(&self, x: &Tensor, state: &mut Vec<Tensor>) -> Result<Tensor> {
        let row = x.unsqueeze(1)?;
        let mut seen = match state.pop() {
            Some(before) => Tensor::cat(&[&before, &row], 1)?,
            None => row,
        };
        let rows = seen.dim(1)?;
        if rows > self.context {
            seen = seen.narrow(1, rows - self.context, self.context)?.contiguous()?;
        }
        let out = self.last(&seen, 1)?.squeeze(1)?;
        state.push(seen);
        Ok(out)
    }

    fn sequence(&self, x: &Tensor) -> Result<Tensor> {
        self.last(x, x.dim(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row by row gives what all rows at once give, while they fit into the context.
    #[test]
    fn steps_are_the_sequence() {
        let net = Transformer::new(&mut Weights::new(5), 3, 2, 4).unwrap();
        let values: Vec<f32> = (0..24).map(|k| (k as f32 * 0.7).sin()).collect();
        let x = Tensor::from_vec(values, (2, 4, 3), &Device::Cpu).unwrap();
        let all = net.sequence(&x).unwrap();
        let mut state = net.begin(2).unwrap();
        for n in 0..4 {
            let row = x.narrow(1, n, 1).unwrap().squeeze(1).unwrap().contiguous().unwrap();
            let gap = net.step(&row, &mut state).unwrap() - all.narrow(1, n, 1).unwrap().squeeze(1).unwrap();
            let gap = gap.unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(gap < 1e-5, "row {n}: {gap}");
        }
    }
}
