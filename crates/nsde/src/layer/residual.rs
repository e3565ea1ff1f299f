//! The residual block `u(h) = h + g(h)`: the mathematics of one BMM step (Eq. 20), without the noise.
//!
//! With `B` the covariance of `h`, and `a, R_g, G` the moments of `g` for an input of covariance `B`:
//!
//! ```text
//! mean' = mean + a     J' = (I + G) J     R' = (I + G) R (I + G)ᵀ + R_g
//! ```

use super::Moments;
use crate::flow::{Covariance, Flow};
use crate::kernel::tile::{Left, Part, product};
use crate::kernel::{Mat, Real};
use crate::network::{Chain, ChainGrad, Tape};
use crate::solver::Stats;

pub(crate) struct Residual<T> {
    pub inner: Chain<T>,
}

pub(crate) struct ResidualTape<T> {
    covariance: Covariance<T>,
    inner: Tape<T>,
    /// `I + G` and its transpose.
    step: Mat<T>,
    step_t: Mat<T>,
    /// `(I + G) R`, then `R̄' (I + G)`.
    half: Mat<T>,
    jac_t: Mat<T>,
    cov_bar: Mat<T>,
}

impl<T: Real> Residual<T> {
    pub fn tape(&self, inputs: usize, moments: Moments) -> ResidualTape<T> {
        let n = self.inner.widths[0];
        let square = Mat::zeros(n, n);
        ResidualTape {
            covariance: Covariance::zeros(n, inputs),
            inner: self.inner.tape(n, moments),
            step: square.clone(),
            step_t: square.clone(),
            half: square.clone(),
            jac_t: Mat::zeros(inputs, n),
            cov_bar: square,
        }
    }

    pub fn push(
        &self,
        h: &Flow<T>,
        base: &Mat<T>,
        out: &mut Flow<T>,
        tape: &mut ResidualTape<T>,
        moments: Moments,
        stats: &mut Stats,
    ) {
        tape.covariance.push(h, base);
        let start = tape.inner.start();
        start.fill_zero();
        start.mean.copy_from_slice(&h.mean);
        start.jac.set_identity();
        self.inner.push(&tape.covariance.cov, &mut tape.inner, moments, stats);
        let g = tape.inner.end();
        tape.step.copy_from(&g.jac);
        for i in 0..h.units() {
            out.mean[i] = h.mean[i] + g.mean[i];
            *tape.step.at_mut(i, i) += T::ONE;
        }
        tape.step_t.transpose_from(&tape.step);
        product(&mut out.jac, false, T::ONE, Left::Plain(&tape.step), &h.jac, Part::All);
        out.linear = h.linear && g.linear;
        match g.resid() {
            Some(resid) => out.resid.copy_from(resid),
            None => out.resid.fill_zero(),
        }
        if let Some(resid) = h.resid() {
            product(&mut tape.half, false, T::ONE, Left::Plain(&tape.step), resid, Part::All);
            product(&mut out.resid, true, T::ONE, Left::Plain(&tape.half), &tape.step_t, Part::Symmetric);
        }
    }

    /// Adjoint of [`push`](Self::push); sets `h_bar`, adds to `base_bar` and `grad`.
    pub fn pull(
        &self,
        h: &Flow<T>,
        out_bar: &Flow<T>,
        h_bar: &mut Flow<T>,
        base_bar: &mut Mat<T>,
        tape: &mut ResidualTape<T>,
        grad: &mut ChainGrad<T>,
    ) {
        let n = h.units();
        // Through g.
        let (_, bar) = tape.inner.end_and_bar();
        bar.mean.copy_from_slice(&out_bar.mean);
        bar.resid.copy_from(&out_bar.resid);
        tape.jac_t.transpose_from(&h.jac);
        product(&mut bar.jac, false, T::ONE, Left::Plain(&out_bar.jac), &tape.jac_t, Part::All);
        product(&mut tape.half, false, T::ONE, Left::Plain(&out_bar.resid), &tape.step, Part::All);
        if let Some(resid) = h.resid() {
            product(&mut bar.jac, true, T::of(2.0), Left::Plain(&tape.half), resid, Part::All);
        }
        tape.cov_bar.fill_zero();
        self.inner.pull(&mut tape.inner, &mut tape.cov_bar, grad);
        // Past it.
        let inner_bar = tape.inner.start_bar();
        for i in 0..n {
            h_bar.mean[i] = out_bar.mean[i] + inner_bar.mean[i];
        }
        h_bar.linear = false;
        product(&mut h_bar.jac, false, T::ONE, Left::Transposed(&tape.step), &out_bar.jac, Part::All);
        product(&mut h_bar.resid, false, T::ONE, Left::Transposed(&tape.step), &tape.half, Part::Symmetric);
        // The covariance of h reaches the loss through g only.
        tape.covariance.pull(h, &tape.cov_bar, h_bar, base_bar);
    }
}
