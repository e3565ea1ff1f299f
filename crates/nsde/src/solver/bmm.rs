//! Bidimensional moment matching (Sec. 3.5, Algorithm 1): one step of Eq. 20 in congruence form.
//!
//! ```text
//! μ' = μ + Δt a          Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q
//! ```
//!
//! Predictions run in white coordinates `x = μ + √Σ z`: with `G = J √Σ` the congruence is
//! `(√Σ + Δt G)(√Σ + Δt G)ᵀ`, a Gram matrix, and no layer multiplies by `Σ`. Adjoints use `J` itself,
//! because the root of a singular `Σ` has no derivative.

use super::driver::Transition;
use super::noise::{Noise, NoiseWork, set_start};
use super::{CovarianceForm, Stats};
use crate::flow::{Base, Shape};
use crate::gaussian::Gaussian;
use crate::kernel::tile::{Left, Part, product};
use crate::kernel::{Mat, Real, cholesky};
use crate::layer::Moments;
use crate::network::{Chain, ChainGrad, Tape};
use crate::sde::NeuralSde;

pub(crate) struct Bmm<T> {
    drift: Chain<T>,
    noise: Noise<T>,
    state: usize,
    moments: Moments,
    form: CovarianceForm,
}

pub(crate) struct BmmWork<T> {
    tape: Tape<T>,
    noise: NoiseWork<T>,
    grad: ChainGrad<T>,
    mean: Vec<T>,
    /// `Σ`.
    base: Mat<T>,
    /// `Σ'`, then its cotangent.
    next: Mat<T>,
    /// `I + Δt J`, or `√Σ + Δt G`.
    step: Mat<T>,
    /// Its transpose, then `Σ̄' (I + Δt J)`.
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

    /// The step in white coordinates: `Σ'` into `next`.
    fn forward(&self, w: &mut BmmWork<T>, dt: f64, u: &[f64], from: &[f64]) {
        let d = self.state;
        w.factor.copy_from_slice(&from[d..]);
        cholesky::factor_semidefinite(&mut w.factor, d);
        w.root.set_f64(&w.factor);
        let BmmWork { tape, noise, mean, next, step, half, root, stats, .. } = w;
        for (to, x) in mean.iter_mut().zip(&from[..d]) {
            *to = T::of(*x);
        }
        set_start(tape, mean, Some(root), u, d, self.drift.widths[0]);
        self.drift.push(Base::White, tape, self.moments, stats);
        let end = tape.end();
        let h = T::of(dt);
        for ((to, l), g) in step.data.iter_mut().zip(&root.data).zip(&end.jac.data) {
            *to = *l + h * *g;
        }
        match end.resid() {
            Some(resid) => {
                for (to, r) in next.data.iter_mut().zip(&resid.data) {
                    *to = h * h * *r;
                }
            }
            None => next.fill_zero(),
        }
        half.transpose_from(step);
        product(next, true, T::ONE, Left::Transposed(half), half, Part::Symmetric);
        self.noise.push(noise, mean, Base::White, Some(root), u, dt, self.moments, stats, next);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(next);
        }
    }

    /// Fills the tapes for the adjoint, with `I + Δt J` in `step`.
    fn record(&self, w: &mut BmmWork<T>, dt: f64, u: &[f64], from: &[f64]) {
        let d = self.state;
        let BmmWork { tape, noise, mean, base, next, step, stats, .. } = w;
        for (to, x) in mean.iter_mut().zip(&from[..d]) {
            *to = T::of(*x);
        }
        base.set_f64(&from[d..]);
        set_start(tape, mean, None, u, d, self.drift.widths[0]);
        self.drift.push(Base::Cov(base), tape, self.moments, stats);
        let h = T::of(dt);
        for (to, j) in step.data.iter_mut().zip(&tape.end().jac.data) {
            *to = h * *j;
        }
        for i in 0..d {
            *step.at_mut(i, i) += T::ONE;
        }
        // Its sum goes nowhere; its tape is what counts.
        self.noise.push(noise, mean, Base::Cov(base), None, u, dt, self.moments, stats, next);
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
        BmmWork {
            tape: self.drift.tape(d, self.moments, self.form.hidden(), Shape::Full),
            noise: self.noise.work(d, self.moments, self.form),
            grad: self.drift.grad(),
            mean: vec![T::ZERO; d],
            base: square.clone(),
            next: square.clone(),
            step: square.clone(),
            half: square.clone(),
            factor: vec![0.0; d * d],
            root: square.clone(),
            mean_bar: vec![T::ZERO; d],
            base_bar: square,
            stats: Stats::default(),
        }
    }

    fn stats(work: &mut BmmWork<T>) -> &mut Stats {
        &mut work.stats
    }

    fn start(&self, _: &mut BmmWork<T>, _: usize, start: &Gaussian, state: &mut [f64]) {
        state[..self.state].copy_from_slice(&start.mean);
        state[self.state..].copy_from_slice(&start.cov);
    }

    fn start_pull(&self, _: &mut BmmWork<T>, _: usize, _: &Gaussian, state_bar: &[f64], bar: &mut Gaussian) {
        bar.mean.copy_from_slice(&state_bar[..self.state]);
        bar.cov.copy_from_slice(&state_bar[self.state..]);
    }

    fn step(&self, w: &mut BmmWork<T>, _: usize, _: usize, dt: f64, u: &[f64], from: &[f64], to: &mut [f64]) {
        self.forward(w, dt, u, from);
        let d = self.state;
        for i in 0..d {
            to[i] = from[i] + dt * w.tape.end().mean[i].f64();
        }
        w.next.get_f64(&mut to[d..]);
    }

    fn step_pull(
        &self,
        w: &mut BmmWork<T>,
        _: usize,
        _: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        self.record(w, dt, u, from);
        let d = self.state;
        let h = T::of(dt);
        w.next.set_f64(&to_bar[d..]);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(&mut w.next);
        }
        // R̄ = Δt² Σ̄',  J̄ = 2 Δt Σ̄' (I + Δt J) Σ,  Σ̄ = (I + Δt J)ᵀ Σ̄' (I + Δt J)
        product(&mut w.half, false, T::ONE, Left::Transposed(&w.next), &w.step, Part::All);
        product(&mut w.base_bar, false, T::ONE, Left::Transposed(&w.step), &w.half, Part::Symmetric);
        let (end, bar) = w.tape.end_and_bar();
        bar.shape = end.shape;
        for i in 0..d {
            bar.mean[i] = h * T::of(to_bar[i]);
            w.mean_bar[i] = T::of(to_bar[i]);
        }
        for (to, x) in bar.resid.data.iter_mut().zip(&w.next.data) {
            *to = h * h * *x;
        }
        product(&mut bar.jac, false, h + h, Left::Plain(&w.half), &w.base, Part::All);
        self.drift.pull(&w.base, &mut w.tape, &mut w.base_bar, &mut w.grad);
        for (to, from) in w.mean_bar.iter_mut().zip(&w.tape.start_bar().mean) {
            *to += *from;
        }
        self.noise.pull(&mut w.noise, &w.base, dt, &w.next, &mut w.mean_bar, &mut w.base_bar);
        for i in 0..d {
            from_bar[i] = w.mean_bar[i].f64();
        }
        w.base_bar.get_f64(&mut from_bar[d..]);
    }

    fn observe(&self, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        mean.copy_from_slice(&state[..self.state]);
        cov.copy_from_slice(&state[self.state..]);
    }

    fn observe_pull(&self, _: &[f64], mean_bar: &[f64], cov_bar: &[f64], state_bar: &mut [f64]) {
        for (to, from) in state_bar.iter_mut().zip(mean_bar.iter().chain(cov_bar)) {
            *to += from;
        }
    }

    fn clear_gradient(&self, w: &mut BmmWork<T>) {
        w.grad.fill_zero();
        self.noise.clear(&mut w.noise);
    }

    fn add_gradient(&self, w: &BmmWork<T>, flat: &mut [f64]) {
        let rest = w.grad.add_to(flat);
        self.noise.add_gradient(&w.noise, rest);
    }
}
