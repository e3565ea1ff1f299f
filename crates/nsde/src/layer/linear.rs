//! The affine layer `u(h) = W h + b` (Sec. 4.1, Eqs. 21–22).

use crate::error::{Error, Result, dimension};
use crate::flow::Flow;
use crate::kernel::tile::{Left, Part, product};
use crate::kernel::{Mat, Real};

/// `W h + b`, `W` row-major `[output, input]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) weight: Vec<f64>,
    pub(crate) bias: Vec<f64>,
}

impl Linear {
    /// Takes the weight row by row, `[output, input]`, as PyTorch stores it.
    pub fn new(input: usize, output: usize, weight: Vec<f64>, bias: Vec<f64>) -> Result<Self> {
        if input == 0 || output == 0 {
            return Err(Error::Architecture {
                net: "linear layer".into(),
                why: format!("needs at least one input and one output, has {input} and {output}"),
            });
        }
        let expected = input.checked_mul(output).ok_or_else(|| Error::Architecture {
            net: "linear layer".into(),
            why: format!("{output}×{input} weights do not fit into memory"),
        })?;
        dimension("weights of a linear layer", expected, weight.len())?;
        dimension("biases of a linear layer", output, bias.len())?;
        if let Some(bad) = weight.iter().chain(&bias).find(|x| !x.is_finite()) {
            return Err(Error::Range { what: "a weight".into(), value: *bad, must: "finite" });
        }
        Ok(Linear { input, output, weight, bias })
    }

    /// Weights and biases uniform in `±1/√input`, as PyTorch starts them.
    pub fn random(input: usize, output: usize, rng: &mut impl rand::Rng) -> Result<Self> {
        let bound = 1.0 / (input.max(1) as f64).sqrt();
        let mut draw = |n: usize| -> Vec<f64> {
            (0..n).map(|_| bound * (2.0 * crate::random::uniform(rng) - 1.0)).collect()
        };
        let weight = draw(input.saturating_mul(output));
        let bias = draw(output);
        Linear::new(input, output, weight, bias)
    }

    /// Length of its input.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Length of its output.
    pub fn output(&self) -> usize {
        self.output
    }

    /// `W`, row by row.
    pub fn weight(&self) -> &[f64] {
        &self.weight
    }

    /// `b`.
    pub fn bias(&self) -> &[f64] {
        &self.bias
    }
}

/// The layer in the precision of the kernels, with its transpose at hand.
#[derive(Clone, Debug)]
pub(crate) struct LinearOp<T> {
    pub weight: Mat<T>,
    weight_t: Mat<T>,
    bias: Vec<T>,
}

/// Scratch of the products, and the gradient of the parameters.
#[derive(Clone, Debug)]
pub(crate) struct LinearTape<T> {
    /// `W R`, then `R̄ W`.
    half: Mat<T>,
    jac_t: Mat<T>,
}

/// Gradient of weight and bias.
#[derive(Clone, Debug)]
pub(crate) struct LinearGrad<T> {
    pub weight: Mat<T>,
    pub bias: Vec<T>,
}

impl<T: Real> LinearOp<T> {
    pub fn new(layer: &Linear) -> Self {
        let mut out = LinearOp {
            weight: Mat::zeros(layer.output, layer.input),
            weight_t: Mat::zeros(layer.input, layer.output),
            bias: vec![T::ZERO; crate::kernel::mat::padded::<T>(layer.output)],
        };
        out.load(layer);
        out
    }

    /// Takes over changed parameters.
    pub fn load(&mut self, layer: &Linear) {
        self.weight.set_f64(&layer.weight);
        self.weight_t.transpose_from(&self.weight);
        for (to, from) in self.bias.iter_mut().zip(&layer.bias) {
            *to = T::of(*from);
        }
    }

    pub fn tape(&self, inputs: usize) -> LinearTape<T> {
        LinearTape {
            half: Mat::zeros(self.weight.rows, self.weight.cols),
            jac_t: Mat::zeros(inputs, self.weight.cols),
        }
    }

    pub fn grad(&self) -> LinearGrad<T> {
        LinearGrad {
            weight: Mat::zeros(self.weight.rows, self.weight.cols),
            bias: vec![T::ZERO; self.weight.rows],
        }
    }

    /// `W m + b`, `W R Wᵀ`, `W J`.
    pub fn push(&self, h: &Flow<T>, out: &mut Flow<T>, tape: &mut LinearTape<T>) {
        for i in 0..self.weight.rows {
            let dot: T = self.weight.row(i).iter().zip(&h.mean).map(|(w, m)| *w * *m).sum();
            out.mean[i] = dot + self.bias[i];
        }
        product(&mut out.jac, false, T::ONE, Left::Plain(&self.weight), &h.jac, Part::All);
        out.linear = h.linear;
        if let Some(resid) = h.resid() {
            product(&mut tape.half, false, T::ONE, Left::Plain(&self.weight), resid, Part::All);
            product(&mut out.resid, false, T::ONE, Left::Plain(&tape.half), &self.weight_t, Part::Symmetric);
        }
    }

    /// Adjoint of [`push`](Self::push) at `h`; sets `h_bar`.
    pub fn pull(
        &self,
        h: &Flow<T>,
        out_bar: &Flow<T>,
        h_bar: &mut Flow<T>,
        tape: &mut LinearTape<T>,
        grad: &mut LinearGrad<T>,
    ) {
        for i in 0..self.weight.rows {
            let bar = out_bar.mean[i];
            grad.bias[i] += bar;
            for (g, m) in grad.weight.row_mut(i).iter_mut().zip(&h.mean) {
                *g += bar * *m;
            }
        }
        for k in 0..self.weight.cols {
            h_bar.mean[k] = self.weight_t.row(k).iter().zip(&out_bar.mean).map(|(w, m)| *w * *m).sum();
        }
        tape.jac_t.transpose_from(&h.jac);
        product(&mut grad.weight, true, T::ONE, Left::Plain(&out_bar.jac), &tape.jac_t, Part::All);
        product(&mut h_bar.jac, false, T::ONE, Left::Transposed(&self.weight), &out_bar.jac, Part::All);
        // Both R and its cotangent are symmetric.
        product(&mut tape.half, false, T::ONE, Left::Plain(&out_bar.resid), &self.weight, Part::All);
        if let Some(resid) = h.resid() {
            product(&mut grad.weight, true, T::of(2.0), Left::Plain(&tape.half), resid, Part::All);
        }
        product(&mut h_bar.resid, false, T::ONE, Left::Transposed(&self.weight), &tape.half, Part::Symmetric);
    }

    /// `X Wᵀ + b` for points in the rows of `x`.
    pub fn eval(&self, x: &Mat<T>, out: &mut Mat<T>) {
        product(out, false, T::ONE, Left::Plain(x), &self.weight_t, Part::All);
        for i in 0..out.rows {
            for (y, b) in out.row_mut(i).iter_mut().zip(&self.bias) {
                *y += *b;
            }
        }
    }

    /// Adjoint of [`eval`](Self::eval); sets `x_bar`.
    pub fn eval_pull(&self, x: &Mat<T>, out_bar: &Mat<T>, x_bar: &mut Mat<T>, grad: &mut LinearGrad<T>) {
        product(x_bar, false, T::ONE, Left::Plain(out_bar), &self.weight, Part::All);
        product(&mut grad.weight, true, T::ONE, Left::Transposed(out_bar), x, Part::All);
        for i in 0..out_bar.rows {
            for (g, y) in grad.bias.iter_mut().zip(out_bar.row(i)) {
                *g += *y;
            }
        }
    }
}
