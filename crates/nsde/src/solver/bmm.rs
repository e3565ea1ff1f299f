//! Bidimensional moment matching (Sec. 3.5, Algorithm 1): one step of Eq. 20 in congruence form.
//!
//! ```text
//! μ' = μ + Δt a          Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q
//! ```
//!
//! The congruence is formed as `G Gᵀ` with `G = (I + Δt J) √Σ`: where the columns of `I + Δt J` cancel
//! on a singular `Σ`, its rounding errors stay small against its own entries, not those of its factors.

use super::Stats;
use super::driver::Transition;
use super::noise::{Noise, NoiseWork, set_start};
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
    /// `I + Δt J`.
    step: Mat<T>,
    /// `(I + Δt J) √Σ` and its transpose, then `Σ̄' (I + Δt J)`.
    half: Mat<T>,
    half_t: Mat<T>,
    /// Cholesky factor of `Σ`: in double precision, and for the kernels.
    factor: Vec<f64>,
    root: Mat<T>,
    mean_bar: Vec<T>,
    base_bar: Mat<T>,
    stats: Stats,
}

impl<T: Real> Bmm<T> {
    pub fn new(sde: &NeuralSde, moments: Moments) -> Self {
        Bmm { drift: Chain::new(sde.drift()), noise: Noise::new(sde), state: sde.state(), moments }
    }

    /// Fills the tapes and the matrices of the step at the state `from`.
    fn forward(&self, w: &mut BmmWork<T>, dt: f64, u: &[f64], from: &[f64]) {
        let d = self.state;
        for (to, x) in w.mean.iter_mut().zip(&from[..d]) {
            *to = T::of(*x);
        }
        w.base.set_f64(&from[d..]);
        set_start(&mut w.tape, &w.mean, u, d, self.drift.widths[0]);
        self.drift.push(&w.base, &mut w.tape, self.moments, &mut w.stats);
        let end = w.tape.end();
        let h = T::of(dt);
        for i in 0..d {
            for (to, j) in w.step.row_mut(i).iter_mut().zip(end.jac.row(i)) {
                *to = h * *j;
            }
            *w.step.at_mut(i, i) += T::ONE;
        }
        match end.resid() {
            Some(resid) => {
                for (to, r) in w.next.data.iter_mut().zip(&resid.data) {
                    *to = h * h * *r;
                }
            }
            None => w.next.fill_zero(),
        }
        w.factor.copy_from_slice(&from[d..]);
        cholesky::factor_semidefinite(&mut w.factor, d);
        w.root.set_f64(&w.factor);
        product(&mut w.half, false, T::ONE, Left::Plain(&w.step), &w.root, Part::All);
        w.half_t.transpose_from(&w.half);
        product(&mut w.next, true, T::ONE, Left::Plain(&w.half), &w.half_t, Part::Symmetric);
        let BmmWork { noise, mean, base, stats, next, .. } = w;
        self.noise.push(noise, mean, base, u, dt, self.moments, stats, next);
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
            tape: self.drift.tape(d, self.moments),
            noise: self.noise.work(d, self.moments),
            grad: self.drift.grad(),
            mean: vec![T::ZERO; d],
            base: square.clone(),
            next: square.clone(),
            step: square.clone(),
            half: square.clone(),
            half_t: square.clone(),
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
        self.forward(w, dt, u, from);
        let d = self.state;
        let h = T::of(dt);
        w.next.set_f64(&to_bar[d..]);
        // R̄ = Δt² Σ̄',  J̄ = 2 Δt Σ̄' (I + Δt J) Σ,  Σ̄ = (I + Δt J)ᵀ Σ̄' (I + Δt J)
        product(&mut w.half, false, T::ONE, Left::Plain(&w.next), &w.step, Part::All);
        product(&mut w.base_bar, false, T::ONE, Left::Transposed(&w.step), &w.half, Part::Symmetric);
        let (_, bar) = w.tape.end_and_bar();
        for i in 0..d {
            bar.mean[i] = h * T::of(to_bar[i]);
            w.mean_bar[i] = T::of(to_bar[i]);
        }
        for (to, x) in bar.resid.data.iter_mut().zip(&w.next.data) {
            *to = h * h * *x;
        }
        product(&mut bar.jac, false, h + h, Left::Plain(&w.half), &w.base, Part::All);
        self.drift.pull(&mut w.tape, &mut w.base_bar, &mut w.grad);
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
