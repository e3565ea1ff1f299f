//! Bidimensional moment matching (Sec. 3.5, Algorithm 1): one step of Eq. 20 in congruence form.
//!
//! ```text
//! μ' = μ + Δt a          Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q
//! ```
//!
//! Predictions run in white coordinates `x = μ + √Σ z`: with `G = J √Σ` the congruence is
//! `(√Σ + Δt G)(√Σ + Δt G)ᵀ`, a Gram matrix, and no layer multiplies by `Σ`. Steps that are recorded for
//! their adjoint use `J` itself inside the networks, because the root of a singular `Σ` has no derivative.

use super::driver::{At, Transition};
use super::noise::{Noise, NoiseTape, NoiseWork};
use super::{CovarianceForm, Stats};
use crate::flow::{Base, Shape};
use crate::gaussian::Gaussian;
use crate::kernel::aligned::Aligned;
use crate::kernel::product::{Left, Part, product, product_onto};
use crate::kernel::real::{LANES, from_f64, in_vectors, to_f64};
use crate::kernel::rows;
use crate::kernel::share::{by_halves, pieces};
use crate::kernel::transpose::dense;
use crate::kernel::upper::factor_upper;
use crate::kernel::{Mat, Real, cholesky};
use crate::layer::Moments;
use crate::network::{self, Chain, ChainGrad, Network, Tape};
use crate::sde::NeuralSde;

pub(crate) struct Bmm<T: Real> {
    drift: Chain<T>,
    noise: Noise<T>,
    state: usize,
    moments: Moments,
    form: CovarianceForm,
    /// Whether predictions carry transposed Jacobians: not where the rows of those would have ragged ends.
    turned: bool,
}

/// Single trajectories of at least as many dimensions are predicted with transposed Jacobians.
const TURNED: usize = 64;

/// What one step leaves behind for its adjoint.
pub(crate) struct BmmTape<T: Real> {
    drift: Tape<T>,
    noise: NoiseTape<T>,
    /// `μ` and `Σ`.
    mean: Vec<T>,
    base: Mat<T>,
    /// `I + Δt J`, or `√Σ + Δt G`.
    step: Mat<T>,
}

pub(crate) struct BmmWork<T: Real> {
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
    /// Cholesky factor of `Σ` in double precision: of one trajectory, transposed, or lane by lane; and for the kernels.
    upper: Mat<f64>,
    factor: Aligned<f64>,
    root: Mat<T>,
    mean_bar: Vec<T>,
    base_bar: Mat<T>,
    stats: Stats,
}

impl<T: Real> Bmm<T> {
    pub fn new(sde: &NeuralSde, moments: Moments, form: CovarianceForm) -> Self {
        let chain = |net: &Network| Chain::driven(net, sde.state());
        let turned = T::LANES == 1 && sde.state() >= TURNED;
        Bmm {
            drift: chain(sde.drift()),
            noise: Noise::new(sde, chain),
            state: sde.state(),
            moments,
            form,
            turned,
        }
    }

    /// `μ` and `Σ` of all lanes.
    fn split<'a>(&self, state: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        state.split_at(self.state * T::LANES)
    }

    /// `√Σ`, transposed where Jacobians are.
    fn take_root(&self, w: &mut Room<T>, from: &[f64]) {
        let (d, cov) = (self.state, self.split(from).1);
        if T::LANES == 1 {
            w.upper.set_lanes(cov);
            factor_upper(&mut w.upper);
            // (`Σ'` is not there yet.)
            let Room { root, next, upper, .. } = w;
            let to = if self.turned { &mut *root } else { &mut *next };
            let stride = to.stride;
            by_halves(&mut to.data, d, |to, rows| {
                in_vectors::<T>(
                    #[inline(always)]
                    || {
                        for (i, to) in rows.zip(to.chunks_exact_mut(stride)) {
                            from_f64(to, upper.row(i));
                        }
                    },
                );
            });
            if !self.turned {
                root.transpose_from(next);
            }
            return;
        }
        let factor = &mut w.factor[..d * d * T::LANES];
        factor.copy_from_slice(cov);
        cholesky::factor_abreast::<T>(factor, d);
        in_vectors::<T>(
            #[inline(always)]
            || w.root.set_lanes(factor),
        );
    }

    /// Pushes the state through both networks.
    fn push(&self, tape: &mut BmmTape<T>, room: &mut Room<T>, white: bool, at: At<'_>, from: &[f64]) {
        self.take_root(room, from);
        let (from_mean, from_cov) = self.split(from);
        let BmmTape { drift, noise, mean, base, .. } = tape;
        let Room { drift: scratch, noise: noise_work, root, stats, .. } = room;
        from_f64(mean, from_mean);
        let base = if white {
            Base::White(&*root)
        } else {
            base.set_lanes(from_cov);
            Base::Cov(&*base)
        };
        let mean = &*mean;
        both::<T>(
            || {
                self.drift.start(drift, mean, base, |i| at.input(i));
                self.drift.push(base, drift, scratch, self.moments, stats);
            },
            || self.noise.push(noise, noise_work, mean, base, at, self.moments),
        );
        stats.add(std::mem::take(&mut noise_work.stats));
    }

    /// `Σ'` of what has been pushed, with a factor of the congruence in `half`, transposed; and the state
    /// after the step.
    fn close(&self, tape: &BmmTape<T>, room: &mut Room<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        let BmmTape { drift, noise, .. } = tape;
        let Room { next, half, .. } = room;
        let end = drift.end();
        let h = T::lanes(|lane| at.dt(lane));
        // Of one trajectory the lower triangle will do.
        let part = if T::LANES == 1 { Part::Lower } else { Part::Symmetric };
        match end.resid() {
            Some(resid) if T::LANES == 1 => product_onto(next, h * h, resid, Left::Transposed(half), half),
            Some(resid) => {
                in_vectors::<T>(
                    #[inline(always)]
                    || {
                        for (to, r) in next.data.iter_mut().zip(&resid.data) {
                            *to = h * h * *r;
                        }
                    },
                );
                product(next, true, T::ONE, Left::Transposed(half), half, part);
            }
            None => product(next, false, T::ONE, Left::Transposed(half), half, part),
        }
        self.noise.add(noise, at, next);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(next);
        }
        let (to_mean, to_cov) = to.split_at_mut(self.state * T::LANES);
        let mut dt = [0.0; LANES];
        (0..T::LANES).for_each(|lane| dt[lane] = at.dt(lane));
        in_vectors::<T>(
            #[inline(always)]
            || {
                to_f64(to_mean, &end.mean);
                let lanes = to_mean.chunks_exact_mut(T::LANES).zip(from.chunks_exact(T::LANES));
                for (to, from) in lanes {
                    for lane in 0..T::LANES {
                        to[lane] = from[lane] + dt[lane] * to[lane];
                    }
                }
            },
        );
        if T::LANES == 1 {
            return dense(to_cov, next);
        }
        in_vectors::<T>(
            #[inline(always)]
            || next.get_lanes(to_cov),
        );
    }

    /// Room for one step; `white` for one that nobody records.
    fn room(&self, white: bool) -> BmmTape<T> {
        let (d, turned) = (self.state, white && self.turned);
        BmmTape {
            drift: self.drift.tape(d, self.moments, self.form.hidden(), Shape::Full, turned),
            noise: self.noise.tape(d, self.moments, self.form, turned),
            mean: vec![T::ZERO; d],
            base: Mat::zeros(d, d),
            step: Mat::zeros(d, d),
        }
    }
}

/// Drift and diffusion know nothing of each other: where several trajectories make it worth while, a core that
/// has nothing to do may take one of them.
fn both<T: Real>(drift: impl FnOnce() + Send, diffusion: impl FnOnce() + Send) {
    if T::LANES > 1 && rayon::current_thread_index().is_some() {
        rayon::join(drift, diffusion);
    } else {
        drift();
        diffusion();
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
    const WIDTH: usize = T::LANES;

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
        let like = self.tape();
        let room = Room {
            drift: self.drift.room(&like.drift, d),
            noise: self.noise.work(&like.noise, d),
            grad: self.drift.grad(),
            next: square.clone(),
            half: square.clone(),
            upper: if T::LANES == 1 { Mat::zeros(d, d) } else { Mat::default() },
            factor: Aligned::zeros(if T::LANES == 1 { 0 } else { d * d * T::LANES }),
            root: square.clone(),
            mean_bar: vec![T::ZERO; d],
            base_bar: square,
            stats: Stats::default(),
        };
        BmmWork { own: self.room(true), room }
    }

    fn tape(&self) -> BmmTape<T> {
        self.room(false)
    }

    fn tape_bytes(&self) -> usize {
        self.drift.tape_bytes(self.state) + self.noise.tape_bytes(self.state)
    }

    fn stats(work: &mut BmmWork<T>) -> &mut Stats {
        &mut work.room.stats
    }

    fn is_shared(&self) -> bool {
        let widest = self.drift.widths.iter().fold(self.state, |a, b| a.max(*b));
        T::LANES == 1 && pieces(widest.pow(3)) > 1
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
    fn step(&self, w: &mut BmmWork<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        let BmmWork { own, room } = w;
        self.push(own, room, true, at, from);
        let BmmTape { drift, step, .. } = &mut *own;
        let Room { half, root, .. } = &mut *room;
        let h = T::lanes(|lane| at.dt(lane));
        let end = drift.end();
        if end.turned {
            rows::sum(half, root, h, &end.jac);
        } else {
            rows::sum(step, root, h, &end.jac);
            half.transpose_from(step);
        }
        self.close(own, room, at, from, to);
    }

    fn record(&self, w: &mut BmmWork<T>, tape: &mut BmmTape<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        let d = self.state;
        let w = &mut w.room;
        self.push(tape, w, false, at, from);
        let BmmTape { drift, step, .. } = &mut *tape;
        let h = T::lanes(|lane| at.dt(lane));
        in_vectors::<T>(
            #[inline(always)]
            || {
                for (to, j) in step.data.iter_mut().zip(&drift.end().jac.data) {
                    *to = h * *j;
                }
            },
        );
        for i in 0..d {
            *step.at_mut(i, i) += T::ONE;
        }
        // ((I + Δt J) √Σ)ᵀ
        w.next.transpose_from(step);
        let left = if self.turned { Left::Upper(&w.root) } else { Left::Transposed(&w.root) };
        product(&mut w.half, false, T::ONE, left, &w.next, Part::All);
        self.close(tape, w, at, from, to);
    }

    fn pull(
        &self,
        w: &mut BmmWork<T>,
        tape: &mut BmmTape<T>,
        at: At<'_>,
        _: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        let d = self.state;
        let h = T::lanes(|lane| at.dt(lane));
        let w = &mut w.room;
        let BmmTape { drift, noise, base, step, .. } = tape;
        let (to_mean, to_cov) = self.split(to_bar);
        w.next.set_lanes(to_cov);
        if self.form == CovarianceForm::Diagonal {
            keep_diagonal(&mut w.next);
        }
        // R̄ = Δt² Σ̄',  J̄ = 2 Δt Σ̄' (I + Δt J) Σ,  Σ̄ = (I + Δt J)ᵀ Σ̄' (I + Δt J)
        product(&mut w.half, false, T::ONE, Left::Transposed(&w.next), step, Part::All);
        product(&mut w.base_bar, false, T::ONE, Left::Transposed(step), &w.half, Part::Symmetric);
        let bar = w.drift.end_bar();
        bar.shape = drift.end().shape;
        bar.var.fill(T::ZERO);
        from_f64(&mut w.mean_bar, to_mean);
        for i in 0..d {
            bar.mean[i] = h * w.mean_bar[i];
        }
        in_vectors::<T>(
            #[inline(always)]
            || {
                for (to, x) in bar.resid.data.iter_mut().zip(&w.next.data) {
                    *to = h * h * *x;
                }
            },
        );
        product(&mut bar.jac, false, h + h, Left::Plain(&w.half), base, Part::All);
        let Room { drift: scratch, noise: noise_work, grad, base_bar, next, .. } = &mut *w;
        let base = &*base;
        both::<T>(
            || self.drift.pull(base, drift, scratch, base_bar, grad),
            || self.noise.pull(noise, noise_work, base, at, next),
        );
        for (to, from) in w.mean_bar.iter_mut().zip(&w.drift.start_bar().mean) {
            *to += *from;
        }
        self.noise.add_bars(&w.noise, &mut w.mean_bar, &mut w.base_bar);
        let (mean_bar, cov_bar) = from_bar.split_at_mut(d * T::LANES);
        to_f64(mean_bar, &w.mean_bar);
        w.base_bar.get_lanes(cov_bar);
    }

    fn observe(&self, _: &mut BmmWork<T>, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        let (d, from) = (self.state, &state[self.state..]);
        mean.copy_from_slice(&state[..d]);
        by_halves(cov, d, |to, rows| to.copy_from_slice(&from[rows.start * d..rows.end * d]));
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
