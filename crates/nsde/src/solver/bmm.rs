//! Bidimensional moment matching (Sec. 3.5, Algorithm 1): one step of Eq. 20 in congruence form.
//!
//! ```text
//! μ' = μ + Δt a          Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q
//! ```
//!
//! Predictions run in white coordinates `x = μ + √Σ z`: with `G = J √Σ` the congruence is
//! `(√Σ + Δt G)(√Σ + Δt G)ᵀ`, a Gram matrix, and no layer multiplies by `Σ`. Steps that are recorded for
//! their adjoint use `J` itself inside the networks, because the root of a singular `Σ` has no derivative.

use super::driver::Transition;
use super::noise::{Noise, NoiseTape, NoiseWork, set_start};
use super::{CovarianceForm, Stats};
use crate::flow::{Base, Shape};
use crate::gaussian::Gaussian;
use crate::kernel::tile::{Left, Part, product};
use crate::kernel::{Mat, Real, cholesky};
use crate::layer::Moments;
use crate::network::{self, Chain, ChainGrad, Tape};
use crate::sde::NeuralSde;

pub(crate) struct Bmm<T> {
    drift: Chain<T>,
    noise: Noise<T>,
    state: usize,
    moments: Moments,
    form: CovarianceForm,
}

/// What one step leaves behind for its adjoint.
pub(crate) struct BmmTape<T> {
    drift: Tape<T>,
    noise: NoiseTape<T>,
    /// `μ` and `Σ`.
    mean: Vec<T>,
    base: Mat<T>,
    /// `I + Δt J`, or `√Σ + Δt G`.
    step: Mat<T>,
}

pub(crate) struct BmmWork<T> {
    /// The tape of a step that nobody records.
    own: BmmTape<T>,
    room: Room<T>,
}

/// Scratch, and the gradient.
struct Room<T> {
    drift: network::Room<T>,
    noise: NoiseWork<T>,
    grad: ChainGrad<T>,
    /// `Σ'`, then its cotangent.
    next: Mat<T>,
    /// A factor of the congruence, transposed; then `Σ̄' (I + Δt J)`.
    half: Mat<T>,
    /// Cholesky factor of `Σ`: in double precision, and for the kernels.
    factor: Vec<f64>,
    root: Mat<T>,
    mean_bar: Vec<T>,
    base_bar: Mat<T>,
    stats: Stats,
}

impl<T: Real> Bmm<T> {
    pub fn new(sde: &NeuralSde, moments: Moments, form: CovarianceForm) -> Self {
        Bmm { drift: Chain::new(sde.drift()), noise: Noise::new(sde), state: sde.state(), moments, form }
    }

    /// `√Σ`.
    fn take_root(&self, w: &mut Room<T>, from: &[f64]) {
        w.factor.copy_from_slice(&from[self.state..]);
        cholesky::factor_semidefinite(&mut w.factor, self.state);
        w.root.set_f64(&w.factor);
    }

    /// `Σ'` of a drift that has been pushed, with a factor of the congruence in `half`, transposed; and
    /// the state after the step.
    fn close(
        &self,
        tape: &mut BmmTape<T>,
        room: &mut Room<T>,
        white: bool,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    ) {
        let BmmTape { drift, noise, mean, base, .. } = tape;
        let Room { noise: noise_work, next, half, root, stats, .. } = room;
        let end = drift.end();
        let h = T::of(dt);
        match end.resid() {
            Some(resid) => {
                for (to, r) in next.data.iter_mut().zip(&resid.data) {
                    *to = h * h * *r;
                }
            }
            None => next.fill_zero(),
        }
        product(next, true, T::ONE, Left::Transposed(half), half, Part::Symmetric);
        let (base, root) = if white { (Base::White, Some(&*root)) } else { (Base::Cov(base), None) };
        self.noise.push(noise, noise_work, mean, base, root, u, dt, self.moments, stats, next);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(next);
        }
        let d = self.state;
        for i in 0..d {
            to[i] = from[i] + dt * end.mean[i].f64();
        }
        next.get_f64(&mut to[d..]);
    }
}

fn keep_diagonal<T: Real>(m: &mut Mat<T>) {
    for i in 0..m.rows {
        let x = m.at(i, i);
        m.row_mut(i).fill(T::ZERO);
        *m.at_mut(i, i) = x;
    }
}

impl<T: Real> Transition for Bmm<T> {
    type Work = BmmWork<T>;
    type Tape = BmmTape<T>;

    fn state_len(&self) -> usize {
        self.state + self.state * self.state
    }

    fn load(&mut self, sde: &NeuralSde) {
        self.drift.load(sde.drift());
        self.noise.load(sde);
    }

    fn work(&self) -> BmmWork<T> {
        let d = self.state;
        let square = Mat::zeros(d, d);
        let own = self.tape();
        let room = Room {
            drift: self.drift.room(&own.drift, d),
            noise: self.noise.work(&own.noise, d),
            grad: self.drift.grad(),
            next: square.clone(),
            half: square.clone(),
            factor: vec![0.0; d * d],
            root: square.clone(),
            mean_bar: vec![T::ZERO; d],
            base_bar: square,
            stats: Stats::default(),
        };
        BmmWork { own, room }
    }

    fn tape(&self) -> BmmTape<T> {
        let d = self.state;
        BmmTape {
            drift: self.drift.tape(d, self.moments, self.form.hidden(), Shape::Full),
            noise: self.noise.tape(d, self.moments, self.form),
            mean: vec![T::ZERO; d],
            base: Mat::zeros(d, d),
            step: Mat::zeros(d, d),
        }
    }

    fn tape_bytes(&self) -> usize {
        self.drift.tape_bytes(self.state) + self.noise.tape_bytes(self.state)
    }

    fn stats(work: &mut BmmWork<T>) -> &mut Stats {
        &mut work.room.stats
    }

    fn start(&self, _: &mut BmmWork<T>, _: usize, start: &Gaussian, state: &mut [f64]) {
        state[..self.state].copy_from_slice(&start.mean);
        state[self.state..].copy_from_slice(&start.cov);
    }

    fn start_pull(&self, _: &mut BmmWork<T>, _: usize, _: &Gaussian, state_bar: &[f64], bar: &mut Gaussian) {
        bar.mean.copy_from_slice(&state_bar[..self.state]);
        bar.cov.copy_from_slice(&state_bar[self.state..]);
    }

    /// In white coordinates.
    fn step(&self, w: &mut BmmWork<T>, _: usize, _: usize, dt: f64, u: &[f64], from: &[f64], to: &mut [f64]) {
        let d = self.state;
        let BmmWork { own, room } = w;
        self.take_root(room, from);
        let BmmTape { drift, mean, step, .. } = own;
        let Room { drift: scratch, half, root, stats, .. } = room;
        for (to, x) in mean.iter_mut().zip(&from[..d]) {
            *to = T::of(*x);
        }
        set_start(drift, mean, Some(root), u, d, self.drift.widths[0]);
        self.drift.push(Base::White, drift, scratch, self.moments, stats);
        let h = T::of(dt);
        for ((to, l), g) in step.data.iter_mut().zip(&root.data).zip(&drift.end().jac.data) {
            *to = *l + h * *g;
        }
        half.transpose_from(step);
        self.close(own, room, true, dt, u, from, to);
    }

    fn record(
        &self,
        w: &mut BmmWork<T>,
        tape: &mut BmmTape<T>,
        _: usize,
        _: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    ) {
        let d = self.state;
        let w = &mut w.room;
        self.take_root(w, from);
        let BmmTape { drift, mean, base, step, .. } = tape;
        for (to, x) in mean.iter_mut().zip(&from[..d]) {
            *to = T::of(*x);
        }
        base.set_f64(&from[d..]);
        set_start(drift, mean, None, u, d, self.drift.widths[0]);
        self.drift.push(Base::Cov(base), drift, &mut w.drift, self.moments, &mut w.stats);
        let h = T::of(dt);
        for (to, j) in step.data.iter_mut().zip(&drift.end().jac.data) {
            *to = h * *j;
        }
        for i in 0..d {
            *step.at_mut(i, i) += T::ONE;
        }
        // ((I + Δt J) √Σ)ᵀ
        w.next.transpose_from(step);
        product(&mut w.half, false, T::ONE, Left::Transposed(&w.root), &w.next, Part::All);
        self.close(tape, w, false, dt, u, from, to);
    }

    fn pull(
        &self,
        w: &mut BmmWork<T>,
        tape: &mut BmmTape<T>,
        _: usize,
        _: usize,
        dt: f64,
        _: &[f64],
        _: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        let d = self.state;
        let h = T::of(dt);
        let w = &mut w.room;
        let BmmTape { drift, noise, base, step, .. } = tape;
        w.next.set_f64(&to_bar[d..]);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(&mut w.next);
        }
        // R̄ = Δt² Σ̄',  J̄ = 2 Δt Σ̄' (I + Δt J) Σ,  Σ̄ = (I + Δt J)ᵀ Σ̄' (I + Δt J)
        product(&mut w.half, false, T::ONE, Left::Transposed(&w.next), step, Part::All);
        product(&mut w.base_bar, false, T::ONE, Left::Transposed(step), &w.half, Part::Symmetric);
        let bar = w.drift.end_bar();
        bar.shape = drift.end().shape;
        bar.var.fill(T::ZERO);
        for i in 0..d {
            bar.mean[i] = h * T::of(to_bar[i]);
            w.mean_bar[i] = T::of(to_bar[i]);
        }
        for (to, x) in bar.resid.data.iter_mut().zip(&w.next.data) {
            *to = h * h * *x;
        }
        product(&mut bar.jac, false, h + h, Left::Plain(&w.half), base, Part::All);
        self.drift.pull(base, drift, &mut w.drift, &mut w.base_bar, &mut w.grad);
        for (to, from) in w.mean_bar.iter_mut().zip(&w.drift.start_bar().mean) {
            *to += *from;
        }
        self.noise.pull(noise, &mut w.noise, base, dt, &w.next, &mut w.mean_bar, &mut w.base_bar);
        for i in 0..d {
            from_bar[i] = w.mean_bar[i].f64();
        }
        w.base_bar.get_f64(&mut from_bar[d..]);
    }

    fn observe(&self, _: &mut BmmWork<T>, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        mean.copy_from_slice(&state[..self.state]);
        cov.copy_from_slice(&state[self.state..]);
    }

    fn observe_pull(
        &self,
        _: &mut BmmWork<T>,
        _: &[f64],
        mean_bar: &[f64],
        cov_bar: &[f64],
        state_bar: &mut [f64],
    ) {
        for (to, from) in state_bar.iter_mut().zip(mean_bar.iter().chain(cov_bar)) {
            *to += from;
        }
    }

    fn clear_gradient(&self, w: &mut BmmWork<T>) {
        w.room.grad.fill_zero();
        self.noise.clear(&mut w.room.noise);
    }

    fn add_gradient(&self, w: &BmmWork<T>, flat: &mut [f64]) {
        let rest = w.room.grad.add_to(flat);
        self.noise.add_gradient(&w.room.noise, rest);
    }
}
