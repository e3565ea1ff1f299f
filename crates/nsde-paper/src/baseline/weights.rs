//! Parameters of the baselines: started like PyTorch's, from a generator of our own so that a seed decides.

use candle_core::{Device, Result, Tensor, Var};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Makes parameters and keeps hold of them.
pub struct Weights {
    rng: ChaCha8Rng,
    vars: Vec<Var>,
}

impl Weights {
    /// No parameters yet.
    pub fn new(seed: u64) -> Self {
        Weights { rng: ChaCha8Rng::seed_from_u64(seed), vars: Vec::new() }
    }

    /// All parameters, in the order in which they were made.
    pub fn into_vars(self) -> Vec<Var> {
        self.vars
    }

    /// These values.
    pub fn given(&mut self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        let var = Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?)?;
        self.vars.push(var.clone());
        Ok(var.into_inner())
    }

    /// Uniform in `±bound`.
    pub fn uniform(&mut self, shape: &[usize], bound: f32) -> Result<Tensor> {
        let unit = |rng: &mut ChaCha8Rng| (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
        let values = (0..shape.iter().product()).map(|_| bound * (2.0 * unit(&mut self.rng) - 1.0)).collect();
        self.given(values, shape)
    }

    /// The same value everywhere.
    pub fn constant(&mut self, shape: &[usize], value: f32) -> Result<Tensor> {
        self.given(vec![value; shape.iter().product()], shape)
    }

    /// An affine map from `input` to `output` coordinates, uniform in `±1/√input`.
    pub fn affine(&mut self, input: usize, output: usize) -> Result<Affine> {
        let bound = 1.0 / (input as f32).sqrt();
        Ok(Affine { weight: self.uniform(&[input, output], bound)?, bias: self.uniform(&[output], bound)? })
    }

    /// A layer norm that changes nothing but mean and scale at first.
    pub fn norm(&mut self, width: usize) -> Result<Norm> {
        Ok(Norm {
            scale: self.given(vec![1.0; width], &[width])?,
            shift: self.given(vec![0.0; width], &[width])?,
        })
    }
}

/// `x W + b` along the last axis.
pub struct Affine {
    weight: Tensor,
    bias: Tensor,
}

impl Affine {
    /// Applies it to `[…, input]`.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (input, output) = self.weight.dims2()?;
        let mut shape = x.dims().to_vec();
        let rows = x.elem_count() / input;
        let y = x.reshape((rows, input))?.matmul(&self.weight)?.broadcast_add(&self.bias)?;
        if let Some(last) = shape.last_mut() {
            *last = output;
        }
        y.reshape(shape)
    }
}

/// Layer normalisation along the last axis, of plain operations so that it has a gradient.
pub struct Norm {
    scale: Tensor,
    shift: Tensor,
}

impl Norm {
    /// Applies it to `[…, width]`.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let last = x.rank() - 1;
        let centred = x.broadcast_sub(&x.mean_keepdim(last)?)?;
        let variance = centred.sqr()?.mean_keepdim(last)?;
        let unit = centred.broadcast_div(&(variance + 1e-5)?.sqrt()?)?;
        unit.broadcast_mul(&self.scale)?.broadcast_add(&self.shift)
    }
}
