//! Networks: a list of layers (Secs. 3.2–3.4), pushed down (VMM) and pulled back.

use crate::error::{Error, Result, dimension};
use crate::flow::{Base, Covariance, Flow, Shape, Variance};
use crate::kernel::product::Part;
use crate::kernel::{Mat, Real};
use crate::layer::activation::{self, ActivationRoom, ActivationTape};
use crate::layer::drive::{self, Drive};
use crate::layer::linear::{LinearGrad, LinearRoom, LinearTape};
use crate::layer::residual::{Residual, ResidualTape};
use crate::layer::smoothed::Smoothed;
use crate::layer::{Layer, Linear, LinearOp, Moments, dropout};
use crate::points::{Masks, PointTape};
use crate::solver::Stats;

/// A chain of layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    layers: Vec<Layer>,
    input: usize,
    output: usize,
}

/// Moments of a network's output for a Gaussian input.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMoments {
    /// `E[f(x)]`, length `output`.
    pub mean: Vec<f64>,
    /// `Cov[f(x)]`, row-major `[output, output]`.
    pub cov: Vec<f64>,
    /// `E[∂f/∂x]`, row-major `[output, input]`.
    pub jac: Vec<f64>,
}

impl Network {
    /// Chains `layers` on an input of length `input`; every layer must fit the one before it.
    pub fn new(input: usize, layers: Vec<Layer>) -> Result<Self> {
        if input == 0 {
            return Err(Error::Architecture { net: "network".into(), why: "has no inputs".into() });
        }
        let mut width = input;
        for (place, layer) in layers.iter().enumerate() {
            let name = || format!("layer {place} ({})", layer.kind());
            match layer {
                Layer::Linear(l) => {
                    dimension(format!("{}: input width", name()), width, l.input)?;
                    width = l.output;
                }
                Layer::Dropout { keep } if !(*keep > 0.0 && *keep <= 1.0) => {
                    return Err(Error::Range {
                        what: format!("{}: keep", name()),
                        value: *keep,
                        must: "in (0, 1]",
                    });
                }
                Layer::LeakyRelu { slope } if !(*slope >= 0.0 && *slope <= 1.0) => {
                    return Err(Error::Range {
                        what: format!("{}: slope", name()),
                        value: *slope,
                        must: "in [0, 1]",
                    });
                }
                Layer::Residual(inner) => {
                    dimension(format!("{}: input width", name()), width, inner.input)?;
                    dimension(format!("{}: output width", name()), width, inner.output)?;
                }
                _ => {}
            }
        }
        Ok(Network { layers, input, output: width })
    }

    /// A multilayer perceptron `input → hidden → … → output`, `activation` after each hidden layer,
    /// then dropout if `keep < 1`; weights uniform in `±1/√fan_in`, as PyTorch starts them.
    pub fn perceptron(
        input: usize,
        hidden: &[usize],
        output: usize,
        activation: Layer,
        keep: f64,
        rng: &mut impl rand::Rng,
    ) -> Result<Self> {
        let mut layers = Vec::new();
        let mut width = input;
        for (place, next) in hidden.iter().chain([&output]).enumerate() {
            layers.push(Layer::Linear(Linear::random(width, *next, rng)?));
            width = *next;
            if place < hidden.len() {
                layers.push(activation.clone());
                if keep < 1.0 {
                    layers.push(Layer::Dropout { keep });
                }
            }
        }
        Network::new(input, layers)
    }

    /// The layers, in order.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Length of the input.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Length of the output.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Widths of the input and of what every layer gives, those inside residual blocks among them.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let mut widths = vec![self.input];
        for layer in &self.layers {
            match layer {
                Layer::Linear(l) => widths.push(l.output),
                Layer::Residual(inner) => widths.extend(inner.widths()),
                _ => {}
            }
        }
        widths
    }

    /// Whether any layer draws a dropout mask.
    pub fn has_dropout(&self) -> bool {
        self.layers.iter().any(|l| match l {
            Layer::Dropout { keep } => *keep < 1.0,
            Layer::Residual(inner) => inner.has_dropout(),
            _ => false,
        })
    }

    /// Calls `each(name, shape, values)` for every parameter array, in the order of the flat
    /// parameter vector. Names are PyTorch's: `0.weight`, `0.bias`, `2.layers.0.weight`, …
    pub fn visit<'a>(&'a self, prefix: &str, each: &mut dyn FnMut(String, Vec<usize>, &'a [f64])) {
        for (place, layer) in self.layers.iter().enumerate() {
            match layer {
                Layer::Linear(l) => {
                    each(format!("{prefix}{place}.weight"), vec![l.output, l.input], &l.weight);
                    each(format!("{prefix}{place}.bias"), vec![l.output], &l.bias);
                }
                Layer::Residual(inner) => inner.visit(&format!("{prefix}{place}.layers."), each),
                _ => {}
            }
        }
    }

    /// Like [`visit`](Network::visit), to change the values.
    pub fn visit_mut(&mut self, each: &mut dyn FnMut(&mut [f64])) {
        for layer in &mut self.layers {
            match layer {
                Layer::Linear(l) => {
                    each(&mut l.weight);
                    each(&mut l.bias);
                }
                Layer::Residual(inner) => inner.visit_mut(each),
                _ => {}
            }
        }
    }

    /// Number of parameters.
    pub fn parameter_count(&self) -> usize {
        let mut n = 0;
        self.visit("", &mut |_, _, values| n += values.len());
        n
    }

    /// Mean, covariance and expected Jacobian for `x ~ N(mean, cov)`: one pass (Eqs. 11, 16–18).
    ///
    /// Cost `O(width³)` per hidden layer.
    pub fn moments(&self, mean: &[f64], cov: &[f64], moments: Moments) -> Result<NetworkMoments> {
        let n = self.input;
        crate::gaussian::check(mean, cov, n, "input")?;
        moments.check()?;
        let chain = Chain::<f64>::new(self);
        let mut tape = chain.tape(n, moments, Shape::Full, Shape::Full, false);
        let base = Mat::from_f64(n, n, cov);
        let start = tape.start();
        start.shape = Shape::Zero;
        start.mean[..n].copy_from_slice(mean);
        start.jac.set_identity();
        let mut room = chain.room(&tape, n);
        chain.push(Base::Cov(&base), &mut tape, &mut room, moments, &mut Stats::default());
        let out = tape.end();
        let mut full = Mat::zeros(self.output, self.output);
        Covariance::zeros(self.output, n).push(&mut full, out, Base::Cov(&base), Part::Symmetric);
        let mut result = NetworkMoments {
            mean: out.mean[..self.output].to_vec(),
            cov: vec![0.0; self.output * self.output],
            jac: vec![0.0; self.output * n],
        };
        full.get_lane(0, &mut result.cov);
        out.jac.get_lane(0, &mut result.jac);
        if result.mean.iter().chain(&result.cov).chain(&result.jac).any(|x| !x.is_finite()) {
            return Err(Error::NonFinite { trajectory: 0, step: 0 });
        }
        Ok(result)
    }

    /// The network on one point; dropout masks are drawn from `rng`, or dropout is the identity.
    pub fn eval(&self, x: &[f64], rng: Option<&mut dyn rand::Rng>) -> Result<Vec<f64>> {
        dimension("input", self.input, x.len())?;
        let chain = Chain::<f64>::new(self);
        let mut tape = PointTape::new(&chain, 1);
        tape.start().set_f64(x);
        chain.eval(
            &mut tape,
            match rng {
                Some(rng) => Masks::Draw(rng),
                None => Masks::Identity,
            },
        );
        Ok(tape.end().row(0).to_vec())
    }
}

impl Moments {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Moments::Series { terms } if !(1..=Moments::MAX_TERMS).contains(&terms) => Err(Error::Range {
                what: "number of series terms".into(),
                value: terms as f64,
                must: "between 1 and 64",
            }),
            _ => Ok(()),
        }
    }
}

/// A layer in the precision of the kernels.
pub(crate) enum Op<T: Real> {
    Linear(LinearOp<T>),
    Dropout { keep: f64 },
    Identity,
    Activation { u: Box<dyn Smoothed>, exponential: bool },
    Residual(Residual<T>),
}

/// A network in the precision of the kernels.
pub(crate) struct Chain<T: Real> {
    pub ops: Vec<Op<T>>,
    /// Width before each layer, and after the last.
    pub widths: Vec<usize>,
    /// What control inputs add to the first layer, if they are kept apart from the state.
    pub drive: Option<Drive<T>>,
}

/// The flows before each layer and after the last, and each layer's own tape.
pub(crate) struct Tape<T: Real> {
    /// The control inputs, if they are kept apart from the state.
    drive: Vec<T>,
    flows: Vec<Flow<T>>,
    /// How much of `R` each of them carries.
    shapes: Vec<Shape>,
    ops: Vec<OpTape<T>>,
}

/// The cotangents of a tape's flows, and scratch: one serves many tapes.
pub(crate) struct Room<T> {
    bars: Vec<Flow<T>>,
    ops: Vec<OpRoom<T>>,
}

enum OpRoom<T> {
    None,
    Linear(LinearRoom<T>),
    /// `diag(var_bar) J`.
    Dropout(Mat<T>),
    Activation(ActivationRoom<T>),
}

enum OpTape<T: Real> {
    None,
    Linear(LinearTape<T>),
    Dropout(Variance<T>),
    Activation(Box<ActivationTape<T>>),
    Residual(Box<ResidualTape<T>>),
}

/// Gradient of a chain's parameters.
pub(crate) struct ChainGrad<T> {
    /// Of the weights of control inputs, transposed; empty if they are not kept apart.
    pub drive: Mat<T>,
    pub ops: Vec<OpGrad<T>>,
}

pub(crate) enum OpGrad<T> {
    None,
    Linear(LinearGrad<T>),
    Residual(ChainGrad<T>),
}

impl<T: Real> ChainGrad<T> {
    pub fn fill_zero(&mut self) {
        self.drive.fill_zero();
        for op in &mut self.ops {
            match op {
                OpGrad::None => {}
                OpGrad::Linear(g) => {
                    g.weight.fill_zero();
                    g.bias.fill(T::ZERO);
                }
                OpGrad::Residual(g) => g.fill_zero(),
            }
        }
    }

    /// Adds to the flat gradient, in the order of [`Network::visit`]; returns what is left of it.
    pub fn add_to<'a>(&self, mut flat: &'a mut [f64]) -> &'a mut [f64] {
        for (l, op) in self.ops.iter().enumerate() {
            match op {
                OpGrad::None => {}
                OpGrad::Linear(g) => {
                    let driven = if l == 0 { self.drive.rows } else { 0 };
                    let (weight, rest) = flat.split_at_mut(g.weight.rows * (g.weight.cols + driven));
                    let rows = weight.chunks_exact_mut((g.weight.cols + driven).max(1));
                    for (i, row) in rows.enumerate() {
                        let (own, inputs) = row.split_at_mut(g.weight.cols);
                        own.iter_mut().zip(g.weight.row(i)).for_each(|(to, x)| *to += x.total());
                        inputs.iter_mut().enumerate().for_each(|(j, to)| *to += self.drive.at(j, i).total());
                    }
                    let (bias, rest) = rest.split_at_mut(g.bias.len());
                    for (to, from) in bias.iter_mut().zip(&g.bias) {
                        *to += from.total();
                    }
                    flat = rest;
                }
                OpGrad::Residual(g) => flat = g.add_to(flat),
            }
        }
        flat
    }
}

impl<T: Real> Chain<T> {
    pub fn new(network: &Network) -> Self {
        Self::driven(network, network.input)
    }

    /// The chain of a network over `[x, u]` with as many `x` as `state`. Only they are uncertain: a linear first layer
    /// takes the control inputs `u` as a part of its bias.
    pub fn driven(network: &Network, state: usize) -> Self {
        let (input, drive) = match network.layers.first() {
            Some(Layer::Linear(l)) if l.input > state => (state, Some(Drive::new(l, state))),
            _ => (network.input, None),
        };
        let mut widths = vec![input];
        let mut ops = Vec::with_capacity(network.layers.len());
        for layer in &network.layers {
            let mut width = *widths.last().unwrap_or(&input);
            ops.push(match layer {
                Layer::Linear(l) => {
                    let columns = width;
                    width = l.output;
                    Op::Linear(LinearOp::new(l, columns))
                }
                Layer::Dropout { keep } => Op::Dropout { keep: *keep },
                Layer::Residual(inner) => Op::Residual(Residual { inner: Chain::new(inner) }),
                other => match other.smoothed() {
                    Some(u) => Op::Activation { u, exponential: matches!(other, Layer::Exp) },
                    None => Op::Identity,
                },
            });
            widths.push(width);
        }
        Chain { ops, widths, drive }
    }

    /// Takes over changed parameters of the same network.
    pub fn load(&mut self, network: &Network) {
        if let (Some(drive), Some(Layer::Linear(l))) = (&mut self.drive, network.layers.first()) {
            drive.load(l);
        }
        for (op, layer) in self.ops.iter_mut().zip(&network.layers) {
            match (op, layer) {
                (Op::Linear(op), Layer::Linear(l)) => op.load(l),
                (Op::Residual(op), Layer::Residual(inner)) => op.inner.load(inner),
                _ => {}
            }
        }
    }

    /// Control inputs that are kept apart.
    pub fn inputs(&self) -> usize {
        self.drive.as_ref().map_or(0, Drive::inputs)
    }

    /// Room for one pass, with `inputs` columns in the Jacobian. Hidden flows carry as much of `R` as
    /// `hidden` says; from the last layer that mixes units on it is as much as `end` says. Turned flows are for
    /// pushes in white coordinates only.
    pub fn tape(&self, inputs: usize, moments: Moments, hidden: Shape, end: Shape, turned: bool) -> Tape<T> {
        let mixes = |op: &Op<T>| matches!(op, Op::Linear(_) | Op::Residual(_));
        let last = self.ops.iter().rposition(mixes).map_or(0, |l| l + 1);
        let shapes: Vec<_> = (0..self.widths.len()).map(|l| if l < last { hidden } else { end }).collect();
        let flow = |(width, shape): (&usize, &Shape)| Flow::zeros(*width, inputs, *shape, turned);
        let flows: Vec<_> = self.widths.iter().zip(&shapes).map(flow).collect();
        let ops = (self.ops.iter().zip(&self.widths).zip(&shapes[1..]))
            .map(|((op, width), shape)| match op {
                Op::Linear(l) => OpTape::Linear(l.tape(*shape)),
                Op::Dropout { .. } => OpTape::Dropout(Variance::zeros(*width, inputs)),
                Op::Identity => OpTape::None,
                Op::Activation { u, .. } => OpTape::Activation(Box::new(ActivationTape::new(
                    *width,
                    inputs,
                    moments,
                    u.as_ref(),
                    *shape,
                ))),
                Op::Residual(r) => OpTape::Residual(Box::new(r.tape(inputs, moments, *shape))),
            })
            .collect();
        Tape { drive: vec![T::ZERO; self.inputs()], flows, shapes, ops }
    }

    /// Room for a push and a pull of tapes like this one.
    pub fn room(&self, like: &Tape<T>, inputs: usize) -> Room<T> {
        let ops = (self.ops.iter().zip(&like.ops).zip(&self.widths))
            .map(|((op, tape), width)| match (op, tape) {
                (Op::Linear(l), _) => OpRoom::Linear(l.room(inputs)),
                (Op::Dropout { .. }, _) => OpRoom::Dropout(Mat::zeros(*width, inputs)),
                (_, OpTape::Activation(t)) => OpRoom::Activation(t.room(inputs)),
                _ => OpRoom::None,
            })
            .collect();
        Room { bars: like.flows.clone(), ops }
    }

    /// Roughly how much memory a tape of full covariances takes: one matrix of pairs and two Jacobians per
    /// layer.
    pub fn tape_bytes(&self, inputs: usize) -> usize {
        self.widths.iter().map(|w| w * (w + 2 * inputs) * size_of::<T>()).sum()
    }

    pub fn grad(&self) -> ChainGrad<T> {
        let ops = self
            .ops
            .iter()
            .map(|op| match op {
                Op::Linear(l) => OpGrad::Linear(l.grad()),
                Op::Residual(r) => OpGrad::Residual(r.inner.grad()),
                _ => OpGrad::None,
            })
            .collect();
        ChainGrad { drive: self.drive.as_ref().map_or(Mat::default(), Drive::grad), ops }
    }

    /// Puts `[mean, u]` at the start of a tape, with the Jacobian `[I; 0]` or, in white coordinates, `[√Σ; 0]`.
    pub fn start(&self, tape: &mut Tape<T>, mean: &[T], base: Base<'_, T>, u: impl Fn(usize) -> T) {
        tape.drive.iter_mut().enumerate().for_each(|(i, to)| *to = u(i));
        let (start, state, width) = (&mut tape.flows[0], mean.len(), self.widths[0]);
        start.mean[..state].copy_from_slice(mean);
        start.mean[state..width].iter_mut().enumerate().for_each(|(i, to)| *to = u(i));
        start.shape = Shape::Zero;
        match base {
            // A linear layer knows what it is.
            _ if matches!(self.ops.first(), Some(Op::Linear(_))) => {}
            Base::Cov(_) => start.jac.set_identity(),
            Base::White(root) => {
                start.jac.fill_zero();
                for (i, to) in start.jac.data.chunks_exact_mut(start.jac.stride).enumerate().take(root.rows) {
                    to[..root.cols].copy_from_slice(root.row(i));
                }
            }
        }
    }

    /// Pushes the flow at the tape's start down to its end. It is `x` itself: without a residual, and with the
    /// Jacobian `I`, or `√Σ` in white coordinates; or `[x, u]` with zeros below it.
    pub fn push(
        &self,
        base: Base<'_, T>,
        tape: &mut Tape<T>,
        room: &mut Room<T>,
        moments: Moments,
        stats: &mut Stats,
    ) {
        for (l, op) in self.ops.iter().enumerate() {
            let (before, after) = tape.flows.split_at_mut(l + 1);
            let (h, out) = (&mut before[l], &mut after[0]);
            match (op, &mut tape.ops[l], &mut room.ops[l]) {
                (Op::Linear(op), ..) if l == 0 => {
                    op.push_first(h, base, out);
                    if let Some(drive) = &self.drive {
                        drive.push(&tape.drive, &mut out.mean);
                    }
                }
                (Op::Linear(op), OpTape::Linear(t), OpRoom::Linear(r)) => {
                    op.push(h, base, moments, out, t, r)
                }
                (Op::Dropout { keep }, OpTape::Dropout(t), _) => {
                    std::mem::swap(h, out);
                    dropout::push(*keep, out, base, tape.shapes[l + 1], t);
                }
                (Op::Activation { u, exponential }, OpTape::Activation(t), OpRoom::Activation(r)) => {
                    activation::push(u.as_ref(), *exponential, moments, h, base, out, t, r, stats);
                }
                (Op::Residual(op), OpTape::Residual(t), _) => op.push(h, base, out, t, moments, stats),
                _ => std::mem::swap(h, out),
            }
        }
    }

    /// Adjoint of [`push`](Self::push) with [`Base::Cov`]: the cotangent at the tape's end goes back to
    /// its start; adds to `base_bar` and `grad`.
    pub fn pull(
        &self,
        base: &Mat<T>,
        tape: &mut Tape<T>,
        room: &mut Room<T>,
        base_bar: &mut Mat<T>,
        grad: &mut ChainGrad<T>,
    ) {
        for (l, op) in self.ops.iter().enumerate().rev() {
            let (before, after) = room.bars.split_at_mut(l + 1);
            let (h_bar, out_bar) = (&mut before[l], &mut after[0]);
            let h = &mut tape.flows[l];
            match (op, &mut tape.ops[l], &mut room.ops[l], &mut grad.ops[l]) {
                (Op::Linear(op), .., OpGrad::Linear(g)) if l == 0 => {
                    op.pull_first(h, out_bar, h_bar, g);
                    drive::pull(&mut grad.drive, &tape.drive, &out_bar.mean);
                }
                (Op::Linear(op), OpTape::Linear(t), OpRoom::Linear(r), OpGrad::Linear(g)) => {
                    op.pull(h, out_bar, h_bar, t, r, g);
                }
                (Op::Dropout { keep }, OpTape::Dropout(t), OpRoom::Dropout(bar_jac), _) => {
                    std::mem::swap(h_bar, out_bar);
                    // The flow itself was swapped too.
                    dropout::pull(*keep, &tape.flows[l + 1], h_bar, base_bar, t, bar_jac);
                }
                (Op::Activation { u, .. }, OpTape::Activation(t), OpRoom::Activation(r), _) => {
                    activation::pull(u.as_ref(), h, base, out_bar, h_bar, base_bar, t, r);
                }
                (Op::Residual(op), OpTape::Residual(t), _, OpGrad::Residual(g)) => {
                    op.pull(h, base, out_bar, h_bar, base_bar, t, g);
                }
                _ => std::mem::swap(h_bar, out_bar),
            }
        }
    }
}

impl<T: Real> Tape<T> {
    /// The flow into the first layer.
    pub fn start(&mut self) -> &mut Flow<T> {
        &mut self.flows[0]
    }

    /// The flow out of the last layer.
    pub fn end(&self) -> &Flow<T> {
        &self.flows[self.flows.len() - 1]
    }
}

impl<T> Room<T> {
    /// The cotangent of the first flow, after a pull.
    pub fn start_bar(&self) -> &Flow<T> {
        &self.bars[0]
    }

    /// The place of the cotangent of the last flow.
    pub fn end_bar(&mut self) -> &mut Flow<T> {
        let last = self.bars.len() - 1;
        &mut self.bars[last]
    }
}
