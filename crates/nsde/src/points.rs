//! Networks on points: batches of particles or sigma points in the rows of a matrix.

use crate::kernel::{Mat, Single};
use crate::layer::drive;
use crate::network::{Chain, ChainGrad, Op, OpGrad};
use rand::Rng;

/// Where dropout masks come from.
pub(crate) enum Masks<'a> {
    /// Fresh ones from a generator.
    Draw(&'a mut dyn Rng),
    /// Dropout is the identity (cubature).
    Identity,
}

/// Activations before each layer and after the last, and the masks: what the adjoint of an evaluation needs.
pub(crate) struct PointTape<T> {
    /// The control inputs, which all points share, if they are kept apart from the state.
    drive: Vec<T>,
    /// What they add to the first layer.
    driven: Vec<T>,
    values: Vec<Mat<T>>,
    ops: Vec<OpPoints<T>>,
}

/// Cotangents of what is on a tape.
pub(crate) struct PointBars<T> {
    driven: Vec<T>,
    values: Vec<Mat<T>>,
    /// Of the layers inside a residual block.
    inner: Vec<Option<Box<PointBars<T>>>>,
}

enum OpPoints<T> {
    None,
    /// Entries `0` or `1/keep`; all ones where dropout is the identity.
    Mask(Mat<T>),
    Residual(Box<PointTape<T>>),
}

impl<T: Single> PointTape<T> {
    pub fn new(chain: &Chain<T>, points: usize) -> Self {
        let values: Vec<_> = chain.widths.iter().map(|w| Mat::zeros(points, *w)).collect();
        let ops = chain
            .ops
            .iter()
            .zip(&chain.widths)
            .map(|(op, w)| match op {
                Op::Dropout { .. } => OpPoints::Mask(Mat::zeros(points, *w)),
                Op::Residual(r) => OpPoints::Residual(Box::new(PointTape::new(&r.inner, points))),
                _ => OpPoints::None,
            })
            .collect();
        PointTape { drive: vec![T::ZERO; chain.inputs()], driven: driven(chain), values, ops }
    }

    /// The control inputs, if they are kept apart from the points.
    pub fn drive(&mut self) -> &mut [T] {
        &mut self.drive
    }

    pub fn start(&mut self) -> &mut Mat<T> {
        &mut self.values[0]
    }

    pub fn end(&self) -> &Mat<T> {
        &self.values[self.values.len() - 1]
    }
}

/// Room for what the control inputs add to the first layer, if they are kept apart.
fn driven<T: Single>(chain: &Chain<T>) -> Vec<T> {
    if chain.inputs() == 0 { Vec::new() } else { vec![T::ZERO; chain.widths[1]] }
}

impl<T: Single> PointBars<T> {
    pub fn new(chain: &Chain<T>, points: usize) -> Self {
        let inner = |op: &Op<T>| match op {
            Op::Residual(r) => Some(Box::new(PointBars::new(&r.inner, points))),
            _ => None,
        };
        PointBars {
            driven: driven(chain),
            values: chain.widths.iter().map(|w| Mat::zeros(points, *w)).collect(),
            inner: chain.ops.iter().map(inner).collect(),
        }
    }

    pub fn end(&mut self) -> &mut Mat<T> {
        let last = self.values.len() - 1;
        &mut self.values[last]
    }

    pub fn start(&self) -> &Mat<T> {
        &self.values[0]
    }
}

impl<T: Single> Chain<T> {
    /// Evaluates the points at the tape's start.
    pub fn eval(&self, tape: &mut PointTape<T>, mut masks: Masks<'_>) {
        self.eval_with(tape, &mut masks);
    }

    pub fn eval_with(&self, tape: &mut PointTape<T>, masks: &mut Masks<'_>) {
        for (l, op) in self.ops.iter().enumerate() {
            let (before, after) = tape.values.split_at_mut(l + 1);
            let (x, out) = (&before[l], &mut after[0]);
            match (op, &mut tape.ops[l]) {
                (Op::Linear(op), _) => {
                    op.eval(x, out);
                    if let Some(drive) = self.drive.as_ref().filter(|_| l == 0) {
                        tape.driven.fill(T::ZERO);
                        drive.push(&tape.drive, &mut tape.driven);
                        for i in 0..out.rows {
                            out.row_mut(i).iter_mut().zip(&tape.driven).for_each(|(y, d)| *y += *d);
                        }
                    }
                }
                (Op::Dropout { keep }, OpPoints::Mask(mask)) => {
                    draw(*keep, mask, masks);
                    for ((y, x), m) in out.data.iter_mut().zip(&x.data).zip(&mask.data) {
                        *y = *x * *m;
                    }
                }
                (Op::Activation { u, .. }, _) => {
                    for i in 0..x.rows {
                        by_pieces(x.row(i), |h| u.values(h), out.row_mut(i), |y, value| *y = value);
                    }
                }
                (Op::Residual(op), OpPoints::Residual(inner)) => {
                    inner.start().copy_from(x);
                    op.inner.eval_with(inner, masks);
                    out.copy_from(x);
                    out.add_assign(inner.end());
                }
                _ => out.copy_from(x),
            }
        }
    }

    /// Roughly how much memory a tape of that many points takes.
    pub fn point_tape_bytes(&self, points: usize) -> usize {
        let ops = self.ops.iter().zip(&self.widths).map(|(op, w)| match op {
            Op::Dropout { .. } => points * w * size_of::<T>(),
            Op::Residual(r) => r.inner.point_tape_bytes(points),
            _ => 0,
        });
        ops.sum::<usize>() + points * self.widths.iter().sum::<usize>() * size_of::<T>()
    }

    /// Adjoint of [`eval`](Self::eval) at the tape it left: the cotangent at the end goes back to the start; adds to
    /// `grad`.
    pub fn eval_pull(&self, tape: &PointTape<T>, bars: &mut PointBars<T>, grad: &mut ChainGrad<T>) {
        for (l, op) in self.ops.iter().enumerate().rev() {
            let (before, after) = bars.values.split_at_mut(l + 1);
            let (x_bar, out_bar) = (&mut before[l], &after[0]);
            let x = &tape.values[l];
            match (op, &tape.ops[l], &mut grad.ops[l]) {
                (Op::Linear(op), _, OpGrad::Linear(g)) => {
                    op.eval_pull(x, out_bar, x_bar, g);
                    if l == 0 && self.drive.is_some() {
                        bars.driven.fill(T::ZERO);
                        for i in 0..out_bar.rows {
                            bars.driven.iter_mut().zip(out_bar.row(i)).for_each(|(d, y)| *d += *y);
                        }
                        drive::pull(&mut grad.drive, &tape.drive, &bars.driven);
                    }
                }
                (Op::Dropout { .. }, OpPoints::Mask(mask), _) => {
                    for ((xb, ob), m) in x_bar.data.iter_mut().zip(&out_bar.data).zip(&mask.data) {
                        *xb = *ob * *m;
                    }
                }
                (Op::Activation { u, .. }, ..) => {
                    for i in 0..x.rows {
                        x_bar.row_mut(i).copy_from_slice(out_bar.row(i));
                        by_pieces(
                            x.row(i),
                            |h| u.slopes(h),
                            x_bar.row_mut(i),
                            |bar, slope| *bar = *bar * slope,
                        );
                    }
                }
                (Op::Residual(op), OpPoints::Residual(inner), OpGrad::Residual(g)) => {
                    x_bar.copy_from(out_bar);
                    if let Some(inner_bars) = &mut bars.inner[l] {
                        inner_bars.end().copy_from(out_bar);
                        op.inner.eval_pull(inner, inner_bars, g);
                        x_bar.add_assign(inner_bars.start());
                    }
                }
                _ => x_bar.copy_from(out_bar),
            }
        }
    }
}

/// Numbers that are taken at a time.
const PIECE: usize = 64;

/// Gives every entry of `to` and what `function` makes of that of `x`, in double precision, to `take`.
fn by_pieces<T: Single>(x: &[T], function: impl Fn(&mut [f64]), to: &mut [T], take: impl Fn(&mut T, T)) {
    let mut piece = [0.0; PIECE];
    for (x, to) in x.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
        let piece = &mut piece[..x.len()];
        piece.iter_mut().zip(x).for_each(|(h, x)| *h = x.f64());
        function(piece);
        to.iter_mut().zip(piece).for_each(|(to, h)| take(to, T::of(*h)));
    }
}

fn draw<T: Single>(keep: f64, mask: &mut Mat<T>, masks: &mut Masks<'_>) {
    const WORD: usize = size_of::<u32>();
    let (kept, below) = (T::of(1.0 / keep), keep * 4_294_967_296.0);
    let mut bytes = [0; WORD * PIECE];
    for i in 0..mask.rows {
        for row in mask.row_mut(i).chunks_mut(PIECE) {
            match masks {
                Masks::Identity => row.fill(T::ONE),
                Masks::Draw(rng) => {
                    let bytes = &mut bytes[..WORD * row.len()];
                    rng.fill_bytes(bytes);
                    for (m, word) in row.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
                        let word = f64::from(u32::from_le_bytes(*word));
                        *m = if word < below { kept } else { T::ZERO };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;
    use crate::network::Network;
    use nsde_check::{assert_close, random_vec, seeded};

    /// Points, their values and cotangents, and the gradient, with inputs in every row or once for all.
    #[test]
    fn inputs_kept_apart_change_nothing() {
        const POINTS: usize = 4;
        let rng = &mut seeded(3);
        let net = Network::perceptron(5, &[6], 2, Layer::Tanh, 1.0, rng).unwrap();
        let (x, u) = (random_vec(3 * POINTS, rng), [0.7, 0.0]);
        let bar = random_vec(2 * POINTS, rng);
        let pass = |state: usize| {
            let chain = Chain::<f64>::driven(&net, state);
            let (mut tape, mut grad) = (PointTape::new(&chain, POINTS), chain.grad());
            let mut bars = PointBars::new(&chain, POINTS);
            tape.drive().iter_mut().zip(&u).for_each(|(to, u)| *to = *u);
            for (p, x) in x.chunks(3).enumerate() {
                let row = tape.start().row_mut(p).iter_mut();
                row.zip(x.iter().chain(&u)).for_each(|(to, x)| *to = *x);
            }
            chain.eval(&mut tape, Masks::Identity);
            bars.end().set_f64(&bar);
            chain.eval_pull(&tape, &mut bars, &mut grad);
            let mut flat = vec![0.0; net.parameter_count()];
            grad.add_to(&mut flat);
            let rows = (0..POINTS).flat_map(|p| tape.end().row(p).iter().chain(&bars.start().row(p)[..3]));
            rows.copied().chain(flat).collect::<Vec<f64>>()
        };
        let (whole, apart) = (pass(5), pass(3));
        assert_eq!(whole.len(), apart.len());
        whole.iter().zip(&apart).for_each(|(a, b)| assert_close(*a, *b, 1e-12));
    }
}
