//! The residual block `u(h) = h + g(h)`: the mathematics of one BMM step (Eq. 20), without the noise.
//!
//! With `B` the covariance of `h`, and `a, R_g, G` the moments of `g` for an input of covariance `B`:
//!
//! ```text
//! mean' = mean + a     J' = (I + G) J     R' = (I + G) R (I + G)ᵀ + R_g
//! ```

use super::Moments;
use crate::flow::{Base, Covariance, Flow, Shape};
use crate::kernel::product::{Left, Part, product};
use crate::kernel::{Mat, Real, rows};
use crate::network::{Chain, ChainGrad, Room, Tape};
use crate::solver::Stats;

pub(crate) struct Residual<T: Real> {
    pub inner: Chain<T>,
}

pub(crate) struct ResidualTape<T: Real> {
    /// What is wanted of `R` behind the block; inside it everything is carried.
    shape: Shape,
    covariance: Covariance<T>,
    /// `B`.
    cov: Mat<T>,
    inner: Tape<T>,
    inner_room: Room<T>,
    /// `R'`, then its cotangent.
    resid: Mat<T>,
    /// `I + G` and its transpose.
    step: Mat<T>,
    step_t: Mat<T>,
    /// `(I + G) R`, then `R̄' (I + G)`.
    half: Mat<T>,
    jac_t: Mat<T>,
    cov_bar: Mat<T>,
}

impl<T: Real> Residual<T> {
    pub fn tape(&self, inputs: usize, moments: Moments, shape: Shape) -> ResidualTape<T> {
        let n = self.inner.widths[0];
        let square = Mat::zeros(n, n);
        let inner = self.inner.tape(n, moments, Shape::Full, Shape::Full, false);
        ResidualTape {
            shape,
            covariance: Covariance::zeros(n, inputs),
            cov: square.clone(),
            inner_room: self.inner.room(&inner, n),
            inner,
            resid: square.clone(),
            step: square.clone(),
            step_t: square.clone(),
            half: square.clone(),
            jac_t: Mat::zeros(inputs, n),
            cov_bar: square,
        }
    }

    pub fn push(
        &self,
        h: &mut Flow<T>,
        base: Base<'_, T>,
        out: &mut Flow<T>,
        tape: &mut ResidualTape<T>,
        moments: Moments,
        stats: &mut Stats,
    ) {
        h.complete();
        tape.covariance.push(&mut tape.cov, h, base, Part::Symmetric);
        let start = tape.inner.start();
        start.shape = Shape::Zero;
        start.mean.copy_from_slice(&h.mean);
        start.jac.set_identity();
        self.inner.push(Base::Cov(&tape.cov), &mut tape.inner, &mut tape.inner_room, moments, stats);
        let g = tape.inner.end();
        out.var_known = false;
        tape.step.copy_from(&g.jac);
        for i in 0..h.units() {
            out.mean[i] = h.mean[i] + g.mean[i];
            *tape.step.at_mut(i, i) += T::ONE;
        }
        tape.step_t.transpose_from(&tape.step);
        if h.turned {
            product(&mut out.jac, false, T::ONE, Left::Plain(&h.jac), &tape.step_t, Part::All);
        } else {
            product(&mut out.jac, false, T::ONE, Left::Plain(&tape.step), &h.jac, Part::All);
        }
        if h.shape == Shape::Zero && g.shape == Shape::Zero {
            out.shape = Shape::Zero;
            return;
        }
        match g.resid() {
            Some(resid) => tape.resid.copy_from(resid),
            None => tape.resid.fill_zero(),
        }
        let known = match h.shape {
            Shape::Zero => false,
            Shape::Diagonal => {
                rows::scale_columns(&mut tape.half, &tape.step, &h.diag);
                true
            }
            Shape::Full => {
                product(&mut tape.half, false, T::ONE, Left::Plain(&tape.step), &h.resid, Part::All);
                true
            }
        };
        if known {
            product(&mut tape.resid, true, T::ONE, Left::Plain(&tape.half), &tape.step_t, Part::Symmetric);
        }
        out.shape = tape.shape;
        match tape.shape {
            Shape::Full => out.lower().copy_from(&tape.resid),
            _ => (0..h.units()).for_each(|i| out.diag[i] = tape.resid.at(i, i)),
        }
    }

    /// Adjoint of [`push`](Self::push); sets `h_bar`, adds to `base_bar` and `grad`.
    pub fn pull(
        &self,
        h: &mut Flow<T>,
        base: &Mat<T>,
        out_bar: &Flow<T>,
        h_bar: &mut Flow<T>,
        base_bar: &mut Mat<T>,
        tape: &mut ResidualTape<T>,
        grad: &mut ChainGrad<T>,
    ) {
        h.complete();
        let h = &*h;
        let n = h.units();
        let resid_bar = &mut tape.resid;
        match tape.shape {
            Shape::Full => resid_bar.copy_from(&out_bar.resid),
            _ => {
                resid_bar.fill_zero();
                (0..n).for_each(|i| *resid_bar.at_mut(i, i) = out_bar.diag[i]);
            }
        }
        // Through g.
        let bar = tape.inner_room.end_bar();
        bar.shape = tape.inner.end().shape;
        bar.mean.copy_from_slice(&out_bar.mean);
        bar.var.fill(T::ZERO);
        bar.resid.copy_from(resid_bar);
        tape.jac_t.transpose_from(&h.jac);
        product(&mut bar.jac, false, T::ONE, Left::Plain(&out_bar.jac), &tape.jac_t, Part::All);
        product(&mut tape.half, false, T::ONE, Left::Plain(resid_bar), &tape.step, Part::All);
        match h.shape {
            Shape::Zero => {}
            Shape::Diagonal => rows::add_scaled_columns(&mut bar.jac, &tape.half, &h.diag, T::of(2.0)),
            Shape::Full => {
                product(&mut bar.jac, true, T::of(2.0), Left::Plain(&tape.half), &h.resid, Part::All);
            }
        }
        tape.cov_bar.fill_zero();
        self.inner.pull(&tape.cov, &mut tape.inner, &mut tape.inner_room, &mut tape.cov_bar, grad);
        // Past it.
        let inner_bar = tape.inner_room.start_bar();
        for i in 0..n {
            h_bar.mean[i] = out_bar.mean[i] + inner_bar.mean[i];
        }
        h_bar.shape = h.shape;
        h_bar.var.fill(T::ZERO);
        product(&mut h_bar.jac, false, T::ONE, Left::Transposed(&tape.step), &out_bar.jac, Part::All);
        // The covariance of h reaches the loss through g only.
        match h.shape {
            Shape::Zero => {}
            Shape::Diagonal => {
                rows::column_dots(&mut h_bar.diag, &tape.step, &tape.half);
                (0..n).for_each(|i| h_bar.diag[i] += tape.cov_bar.at(i, i));
            }
            Shape::Full => {
                let left = Left::Transposed(&tape.step);
                product(&mut h_bar.resid, false, T::ONE, left, &tape.half, Part::Symmetric);
                h_bar.resid.add_assign(&tape.cov_bar);
            }
        }
        tape.covariance.pull(h, base, &tape.cov_bar, h_bar, base_bar);
    }
}
