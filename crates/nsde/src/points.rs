//! Networks on points: batches of particles or sigma points in the rows of a matrix.

use crate::kernel::{Mat, Single};
use crate::network::{Chain, ChainGrad, Op, OpGrad};
use rand::Rng;

/// Where dropout masks come from.
pub(crate) enum Masks<'a> {
    /// Fresh ones from a generator.
    Draw(&'a mut dyn Rng),
    /// Dropout is the identity (cubature).
    Identity,
}

/// Activations before each layer and after the last, their cotangents, and the masks.
pub(crate) struct PointTape<T> {
    values: Vec<Mat<T>>,
    bars: Vec<Mat<T>>,
    ops: Vec<OpPoints<T>>,
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
        PointTape { bars: values.clone(), values, ops }
    }

    pub fn start(&mut self) -> &mut Mat<T> {
        &mut self.values[0]
    }

    pub fn end(&self) -> &Mat<T> {
        &self.values[self.values.len() - 1]
    }

    pub fn end_bar(&mut self) -> &mut Mat<T> {
        let last = self.bars.len() - 1;
        &mut self.bars[last]
    }

    pub fn start_bar(&self) -> &Mat<T> {
        &self.bars[0]
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
                (Op::Linear(op), _) => op.eval(x, out),
                (Op::Dropout { keep }, OpPoints::Mask(mask)) => {
                    draw(*keep, mask, masks);
                    for ((y, x), m) in out.data.iter_mut().zip(&x.data).zip(&mask.data) {
                        *y = *x * *m;
                    }
                }
                (Op::Activation { u, .. }, _) => {
                    for i in 0..x.rows {
                        for (y, x) in out.row_mut(i).iter_mut().zip(x.row(i)) {
                            *y = T::of(u.value(x.f64()));
                        }
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

    /// Adjoint of [`eval`](Self::eval) with the masks it drew: the cotangent at the end goes back to
    /// the start; adds to `grad`.
    pub fn eval_pull(&self, tape: &mut PointTape<T>, grad: &mut ChainGrad<T>) {
        for (l, op) in self.ops.iter().enumerate().rev() {
            let (before, after) = tape.bars.split_at_mut(l + 1);
            let (x_bar, out_bar) = (&mut before[l], &after[0]);
            let x = &tape.values[l];
            match (op, &mut tape.ops[l], &mut grad.ops[l]) {
                (Op::Linear(op), _, OpGrad::Linear(g)) => op.eval_pull(x, out_bar, x_bar, g),
                (Op::Dropout { .. }, OpPoints::Mask(mask), _) => {
                    for ((xb, ob), m) in x_bar.data.iter_mut().zip(&out_bar.data).zip(&mask.data) {
                        *xb = *ob * *m;
                    }
                }
                (Op::Activation { u, .. }, ..) => {
                    for i in 0..x.rows {
                        for ((xb, ob), x) in x_bar.row_mut(i).iter_mut().zip(out_bar.row(i)).zip(x.row(i)) {
                            *xb = *ob * T::of(u.slope(x.f64()));
                        }
                    }
                }
                (Op::Residual(op), OpPoints::Residual(inner), OpGrad::Residual(g)) => {
                    inner.end_bar().copy_from(out_bar);
                    op.inner.eval_pull(inner, g);
                    x_bar.copy_from(out_bar);
                    x_bar.add_assign(inner.start_bar());
                }
                _ => x_bar.copy_from(out_bar),
            }
        }
    }
}

fn draw<T: Single>(keep: f64, mask: &mut Mat<T>, masks: &mut Masks<'_>) {
    let kept = T::of(1.0 / keep);
    for i in 0..mask.rows {
        for m in mask.row_mut(i) {
            *m = match masks {
                Masks::Identity => T::ONE,
                Masks::Draw(rng) => {
                    if f64::from(rng.next_u32()) < keep * 4_294_967_296.0 {
                        kept
                    } else {
                        T::ZERO
                    }
                }
            };
        }
    }
}
