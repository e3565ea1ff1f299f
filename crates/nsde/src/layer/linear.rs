//! The affine layer `u(h) = W h + b` (Sec. 4.1, Eqs. 21–22).

use super::Moments;
use crate::error::{Error, Result, dimension};
use crate::flow::{Base, Flow, Shape};
use crate::kernel::abreast::{fold, gram, triangle_times_weights};
use crate::kernel::product::{
    Left, Part, product, product_by_triangle, product_by_weights, products, reads_lower,
};
use crate::kernel::root::root;
use crate::kernel::{Mat, Real, rows};

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
pub(crate) struct LinearOp<T: Real> {
    pub weight: Mat<T>,
    weight_t: Mat<T>,
    /// Once for all lanes: the left factors of products.
    shared: Mat<T::One>,
    shared_t: Mat<T::One>,
    bias: Vec<T>,
}

/// What the adjoint needs again.
#[derive(Clone, Debug)]
pub(crate) struct LinearTape<T> {
    /// What is wanted of `R` behind the layer.
    shape: Shape,
    /// `R Wᵀ`, where only variances are wanted.
    half_t: Mat<T>,
}

/// Scratch of the products.
#[derive(Clone, Debug)]
pub(crate) struct LinearRoom<T> {
    /// The root of `R`.
    root: Mat<T>,
    /// `R Wᵀ` and its transpose.
    half_t: Mat<T>,
    half: Mat<T>,
    /// `R̄ W`.
    half_bar: Mat<T>,
    /// `Jᵀ`.
    jac_t: Mat<T>,
}

/// Gradient of weight and bias.
#[derive(Clone, Debug)]
pub(crate) struct LinearGrad<T> {
    pub weight: Mat<T>,
    pub bias: Vec<T>,
}

impl<T: Real> LinearOp<T> {
    /// The layer, of which only the first `columns` are read: the others belong to control inputs.
    pub fn new(layer: &Linear, columns: usize) -> Self {
        let mut out = LinearOp {
            weight: Mat::zeros(layer.output, columns),
            weight_t: Mat::zeros(columns, layer.output),
            shared: Mat::zeros(layer.output, columns),
            shared_t: Mat::zeros(columns, layer.output),
            bias: vec![T::ZERO; crate::kernel::mat::padded::<T>(layer.output)],
        };
        out.load(layer);
        out
    }

    /// Takes over changed parameters.
    pub fn load(&mut self, layer: &Linear) {
        for (i, row) in layer.weight.chunks_exact(layer.input.max(1)).enumerate() {
            for (to, from) in self.weight.row_mut(i).iter_mut().zip(row) {
                *to = T::of(*from);
            }
            for (to, from) in self.shared.row_mut(i).iter_mut().zip(row) {
                *to = T::One::of(*from);
            }
        }
        self.weight_t.transpose_from(&self.weight);
        self.shared_t.transpose_from(&self.shared);
        for (to, from) in self.bias.iter_mut().zip(&layer.bias) {
            *to = T::of(*from);
        }
    }

    pub fn tape(&self, shape: Shape) -> LinearTape<T> {
        let half_t = if shape == Shape::Full { Mat::default() } else { self.weight_t.clone() };
        LinearTape { shape, half_t }
    }

    /// Whether a root of `R` pays: it costs a sixth of the cube of the inputs, and saves half a square of the outputs for
    /// each of them.
    fn narrows_little(&self) -> bool {
        4 * self.weight.rows >= 3 * self.weight.cols
    }

    pub fn room(&self, inputs: usize) -> LinearRoom<T> {
        let units = if T::LANES > 1 && self.narrows_little() { self.weight.cols } else { 0 };
        LinearRoom {
            root: Mat::zeros(units, units),
            half_t: self.weight_t.clone(),
            half: self.weight.clone(),
            half_bar: self.weight.clone(),
            jac_t: Mat::zeros(inputs, self.weight.cols),
        }
    }

    pub fn grad(&self) -> LinearGrad<T> {
        LinearGrad {
            weight: Mat::zeros(self.weight.rows, self.weight.cols),
            bias: vec![T::ZERO; self.weight.rows],
        }
    }

    /// `W` as a left factor.
    fn left(&self) -> Left<'_, T> {
        if T::LANES == 1 { Left::Transposed(&self.weight_t) } else { Left::Shared(&self.shared_t) }
    }

    /// `Wᵀ` as a left factor.
    fn left_t(&self) -> Left<'_, T> {
        if T::LANES == 1 { Left::Transposed(&self.weight) } else { Left::Shared(&self.shared) }
    }

    /// `W m + b`, `W R Wᵀ`, `W J`.
    ///
    /// Packs need only the lower triangle of `R`. Where the layer narrows, `R = T + Tᵀ` and with `S = W Tᵀ Wᵀ` it is
    /// `W R Wᵀ = S + Sᵀ`; else, unless `R` is singular, `R = L Lᵀ` and `W R Wᵀ = (W L)(W L)ᵀ`. Adjoints of variances want all of `R Wᵀ`.
    pub fn push(
        &self,
        h: &mut Flow<T>,
        base: Base<'_, T>,
        moments: Moments,
        out: &mut Flow<T>,
        tape: &mut LinearTape<T>,
        room: &mut LinearRoom<T>,
    ) {
        self.push_mean(h, &mut out.mean);
        let weight = self.left();
        out.var_known = false;
        out.shape = tape.shape;
        let half_t = if tape.shape == Shape::Full { &mut room.half_t } else { &mut tape.half_t };
        let wanted = tape.shape == Shape::Full || matches!(base, Base::White(_));
        let folded = T::LANES > 1 && wanted && h.shape == Shape::Full;
        // Only the series is definite by construction.
        let definite = matches!(moments, Moments::Series { .. });
        let rooted = folded
            && tape.shape == Shape::Full
            && definite
            && self.narrows_little()
            && root(&mut room.root, &h.resid);
        let beside = h.turned && h.shape == Shape::Full && reads_lower::<T>(self.weight.rows);
        if beside {
            let (jac, resid) = (Left::Plain(&h.jac), Left::Lower(&h.resid));
            products(&self.weight_t, (&mut out.jac, jac), (half_t, resid));
        } else if h.turned {
            product(&mut out.jac, false, T::ONE, Left::Plain(&h.jac), &self.weight_t, Part::All);
        } else {
            product(&mut out.jac, false, T::ONE, weight, &h.jac, Part::All);
        }
        match h.shape {
            Shape::Full if beside => {}
            Shape::Zero => out.shape = Shape::Zero,
            Shape::Diagonal => rows::scale(half_t, &self.weight_t, &h.diag),
            Shape::Full if rooted => triangle_times_weights(half_t, &room.root, 1.0, &self.shared_t),
            Shape::Full if folded => triangle_times_weights(half_t, &h.resid, 0.5, &self.shared_t),
            Shape::Full => {
                if !reads_lower::<T>(self.weight.rows) {
                    h.complete();
                }
                product_by_weights(half_t, &h.resid, &self.weight_t, &self.shared_t);
            }
        }
        match out.shape {
            Shape::Zero => {}
            Shape::Diagonal => {
                rows::column_dots(&mut out.diag, half_t, &self.weight_t);
                if folded {
                    out.diag.iter_mut().for_each(|x| *x += *x);
                }
            }
            Shape::Full if rooted => gram(out.lower(), None, half_t),
            Shape::Full if folded => {
                product(out.lower(), false, T::ONE, weight, half_t, Part::All);
                fold(out.lower());
            }
            Shape::Full => product(out.lower(), false, T::ONE, weight, half_t, Part::Lower),
        }
    }

    /// `W m + b`.
    fn push_mean(&self, h: &Flow<T>, mean: &mut [T]) {
        rows::times_weights(mean, &self.shared_t, &self.weight, &h.mean);
        for (to, b) in mean.iter_mut().zip(&self.bias) {
            *to += *b;
        }
    }

    /// [`push`](Self::push) of the first layer, whose input is `x` itself: the Jacobian is `I`, or `√Σ` in white
    /// coordinates.
    pub fn push_first(&self, h: &Flow<T>, base: Base<'_, T>, out: &mut Flow<T>) {
        self.push_mean(h, &mut out.mean);
        match base {
            Base::Cov(_) => out.jac.copy_left_from(&self.weight),
            Base::White(root) if h.turned => {
                product(&mut out.jac, false, T::ONE, Left::Upper(root), &self.weight_t, Part::All);
            }
            Base::White(root) => product_by_triangle(&mut out.jac, self.left(), root),
        }
        out.var_known = false;
        out.shape = Shape::Zero;
    }

    /// Adjoint of [`push_first`](Self::push_first) with [`Base::Cov`]; sets the cotangent of the mean alone.
    pub fn pull_first(&self, h: &Flow<T>, out_bar: &Flow<T>, h_bar: &mut Flow<T>, grad: &mut LinearGrad<T>) {
        for (to, bar) in grad.bias.iter_mut().zip(&out_bar.mean) {
            *to += *bar;
        }
        rows::add_outer(&mut grad.weight, &out_bar.mean, &h.mean);
        for i in 0..out_bar.jac.rows {
            for (to, bar) in grad.weight.row_mut(i).iter_mut().zip(out_bar.jac.row(i)) {
                *to += *bar;
            }
        }
        rows::times_weights(&mut h_bar.mean, &self.shared, &self.weight_t, &out_bar.mean);
    }

    /// Adjoint of [`push`](Self::push) at `h`; sets `h_bar`.
    pub fn pull(
        &self,
        h: &mut Flow<T>,
        out_bar: &Flow<T>,
        h_bar: &mut Flow<T>,
        tape: &LinearTape<T>,
        room: &mut LinearRoom<T>,
        grad: &mut LinearGrad<T>,
    ) {
        h.complete();
        let two = T::of(2.0);
        for (to, bar) in grad.bias.iter_mut().zip(&out_bar.mean) {
            *to += *bar;
        }
        rows::add_outer(&mut grad.weight, &out_bar.mean, &h.mean);
        rows::times_weights(&mut h_bar.mean, &self.shared, &self.weight_t, &out_bar.mean);
        let LinearRoom { half, half_bar, jac_t, .. } = room;
        jac_t.transpose_from(&h.jac);
        product(&mut grad.weight, true, T::ONE, Left::Plain(&out_bar.jac), jac_t, Part::All);
        product(&mut h_bar.jac, false, T::ONE, self.left_t(), &out_bar.jac, Part::All);
        h_bar.var.fill(T::ZERO);
        h_bar.shape = h.shape;
        if h.shape == Shape::Zero {
            return;
        }
        // Both R and its cotangent are symmetric: W̄ = 2 R̄ W R,  R̄_h = Wᵀ R̄ W.
        if tape.shape == Shape::Full {
            product_by_weights(half_bar, &out_bar.resid, &self.weight, &self.shared);
            match h.resid() {
                Some(resid) => product(&mut grad.weight, true, two, Left::Plain(half_bar), resid, Part::All),
                None => rows::add_scaled_columns(&mut grad.weight, half_bar, &h.diag, two),
            }
        } else {
            rows::scale(half_bar, &self.weight, &out_bar.diag);
            half.transpose_from(&tape.half_t);
            rows::add_scaled(&mut grad.weight, half, &out_bar.diag, two);
        }
        match h.shape {
            Shape::Full => {
                let weight = self.left_t();
                product(&mut h_bar.resid, false, T::ONE, weight, half_bar, Part::Symmetric);
            }
            _ => rows::column_dots(&mut h_bar.diag, &self.weight, half_bar),
        }
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
