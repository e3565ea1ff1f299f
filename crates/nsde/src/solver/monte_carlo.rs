//! Monte Carlo (Eq. 3): Euler–Maruyama particles, dropout masks redrawn at every step.
//!
//! ```text
//! x' = x + Δt f(x) + √Δt L(x) ζ,    ζ ~ N(0, I)
//! ```
//!
//! Gradients are those of the paths (reparameterised). Where the tapes of all steps do not fit into memory, the same
//! random numbers are drawn again from the stream of the trajectory and the block of the step.

use super::Stats;
use super::driver::{At, Transition};
use super::field::{Field, FieldTape, FieldWork};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::kernel::product::{Left, Part, product};
use crate::kernel::{Mat, Single, cholesky};
use crate::points::Masks;
use crate::random;
use crate::sde::NeuralSde;
use rand_distr::{Distribution, StandardNormal};

pub(crate) struct MonteCarlo<T: Single> {
    field: Field<T>,
    samples: usize,
    seed: u64,
}

/// What a step leaves behind for its adjoint.
pub(crate) struct MonteCarloTape<T> {
    field: FieldTape<T>,
    normals: Vec<f64>,
}

pub(crate) struct MonteCarloWork<T> {
    field: FieldWork<T>,
    /// The tape of a step that nobody records.
    own: MonteCarloTape<T>,
    /// Random numbers of the start.
    normals: Vec<f64>,
    root: Vec<f64>,
    root_bar: Vec<f64>,
    noise: Vec<f64>,
    noise_bar: Vec<f64>,
    mean: Vec<f64>,
    /// Particles less their mean.
    off: Mat<f64>,
    /// Their covariance, then its cotangent.
    square: Mat<f64>,
    off_bar: Mat<f64>,
    stats: Stats,
}

impl<T> MonteCarloWork<T> {
    /// Sets the mean of the particles, and how far they are off it.
    fn centre(&mut self, state: &[f64], mean: &mut [f64]) {
        let (d, n) = (mean.len(), self.off.rows as f64);
        mean.fill(0.0);
        for x in state.chunks_exact(d) {
            for (mean, x) in mean.iter_mut().zip(x) {
                *mean += x / n;
            }
        }
        for (p, x) in state.chunks_exact(d).enumerate() {
            for ((to, x), mean) in self.off.row_mut(p).iter_mut().zip(x).zip(&*mean) {
                *to = x - mean;
            }
        }
    }
}

impl<T: Single> MonteCarlo<T> {
    pub fn new(sde: &NeuralSde, samples: usize, seed: u64) -> Result<Self> {
        if samples < 2 {
            return Err(Error::Range {
                what: "number of particles".into(),
                value: samples as f64,
                must: "at least 2 (a covariance is estimated from them)",
            });
        }
        Ok(MonteCarlo { field: Field::new(sde), samples, seed })
    }

    fn draw_start(&self, w: &mut MonteCarloWork<T>, trajectory: usize, start: &Gaussian) {
        w.root.copy_from_slice(&start.cov);
        w.stats.zero_pivot += cholesky::factor_semidefinite(&mut w.root, self.field.state) as u64;
        let mut rng = random::stream(self.seed, trajectory, 0);
        w.normals.fill_with(|| StandardNormal.sample(&mut rng));
    }

    /// Draws masks and noise of a step, evaluates the networks and moves the particles; `noise` is scratch.
    fn forward(
        &self,
        tape: &mut MonteCarloTape<T>,
        noise: &mut [f64],
        at: At<'_>,
        from: &[f64],
        to: &mut [f64],
    ) {
        let mut rng = random::stream(self.seed, at.index, at.k + 1);
        self.field.eval(&mut tape.field, from, at.u(0), Masks::Draw(&mut rng));
        if self.field.is_noisy() {
            tape.normals.fill_with(|| StandardNormal.sample(&mut rng));
        }
        let (d, dt) = (self.field.state, at.dt(0));
        let root = dt.sqrt();
        for p in 0..self.samples {
            self.field.noise(&tape.field, p, noise);
            let (x, z) = (&from[p * d..], &tape.normals[p * d..]);
            for (i, f) in self.field.drift(&tape.field, p).iter().enumerate() {
                let columns = self.field.columns(i);
                let noise: f64 = columns.map(|c| noise[i * d + c] * z[c]).sum();
                to[p * d + i] = x[i] + dt * f.f64() + root * noise;
            }
        }
    }
}

impl<T: Single> Transition for MonteCarlo<T> {
    type Work = MonteCarloWork<T>;
    type Tape = MonteCarloTape<T>;
    const WIDTH: usize = 1;

    fn state_len(&self) -> usize {
        self.samples * self.field.state
    }

    fn load(&mut self, sde: &NeuralSde) {
        self.field.load(sde);
    }

    fn work(&self) -> MonteCarloWork<T> {
        let d = self.field.state;
        MonteCarloWork {
            field: self.field.work(self.samples),
            own: self.tape(),
            normals: vec![0.0; self.samples * d],
            root: vec![0.0; d * d],
            root_bar: vec![0.0; d * d],
            noise: vec![0.0; d * d],
            noise_bar: vec![0.0; d * d],
            mean: vec![0.0; d],
            off: Mat::zeros(self.samples, d),
            square: Mat::zeros(d, d),
            off_bar: Mat::zeros(self.samples, d),
            stats: Stats::default(),
        }
    }

    fn tape(&self) -> MonteCarloTape<T> {
        let normals = vec![0.0; self.state_len()];
        MonteCarloTape { field: self.field.tape(self.samples), normals }
    }

    fn tape_bytes(&self) -> usize {
        self.field.tape_bytes(self.samples) + self.state_len() * size_of::<f64>()
    }

    fn stats(work: &mut MonteCarloWork<T>) -> &mut Stats {
        &mut work.stats
    }

    fn start(&self, w: &mut MonteCarloWork<T>, trajectory: usize, start: &Gaussian, state: &mut [f64]) {
        let d = self.field.state;
        self.draw_start(w, trajectory, start);
        for (x, z) in state.chunks_exact_mut(d).zip(w.normals.chunks_exact(d)) {
            for i in 0..d {
                let noise: f64 = (0..=i).map(|c| w.root[i * d + c] * z[c]).sum();
                x[i] = start.mean[i] + noise;
            }
        }
    }

    fn start_pull(
        &self,
        w: &mut MonteCarloWork<T>,
        trajectory: usize,
        start: &Gaussian,
        state_bar: &[f64],
        bar: &mut Gaussian,
    ) {
        let d = self.field.state;
        self.draw_start(w, trajectory, start);
        w.root_bar.fill(0.0);
        for (x_bar, z) in state_bar.chunks_exact(d).zip(w.normals.chunks_exact(d)) {
            for i in 0..d {
                bar.mean[i] += x_bar[i];
                for c in 0..=i {
                    w.root_bar[i * d + c] += x_bar[i] * z[c];
                }
            }
        }
        cholesky::factor_pull(&w.root, d, &mut w.root_bar, &mut bar.cov);
    }

    fn step(&self, w: &mut MonteCarloWork<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        self.forward(&mut w.own, &mut w.noise, at, from, to);
    }

    fn record(
        &self,
        w: &mut MonteCarloWork<T>,
        tape: &mut MonteCarloTape<T>,
        at: At<'_>,
        from: &[f64],
        to: &mut [f64],
    ) {
        self.forward(tape, &mut w.noise, at, from, to);
    }

    fn pull(
        &self,
        w: &mut MonteCarloWork<T>,
        tape: &mut MonteCarloTape<T>,
        at: At<'_>,
        _: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        let dt = at.dt(0);
        let d = self.field.state;
        let root = dt.sqrt();
        from_bar.copy_from_slice(to_bar);
        for p in 0..self.samples {
            let (bar, z) = (&to_bar[p * d..(p + 1) * d], &tape.normals[p * d..(p + 1) * d]);
            self.field.set_drift_bar(&mut w.field, p, bar.iter().map(|b| dt * b));
            if self.field.is_noisy() {
                for i in 0..d {
                    for c in self.field.columns(i) {
                        w.noise_bar[i * d + c] = root * bar[i] * z[c];
                    }
                }
                self.field.set_noise_bar(&mut w.field, p, &w.noise_bar);
            }
        }
        self.field.pull(&tape.field, &mut w.field, from_bar);
    }

    fn observe(&self, w: &mut MonteCarloWork<T>, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        w.centre(state, mean);
        let scale = 1.0 / (self.samples as f64 - 1.0);
        product(&mut w.square, false, scale, Left::Transposed(&w.off), &w.off, Part::Symmetric);
        w.square.get_lane(0, cov);
    }

    fn observe_pull(
        &self,
        w: &mut MonteCarloWork<T>,
        state: &[f64],
        mean_bar: &[f64],
        cov_bar: &[f64],
        state_bar: &mut [f64],
    ) {
        let (d, n) = (self.field.state, self.samples as f64);
        if cov_bar.iter().chain(mean_bar).all(|b| *b == 0.0) {
            return;
        }
        // The mean inside the covariance does not matter: deviations sum to zero.
        let mut mean = std::mem::take(&mut w.mean);
        w.centre(state, &mut mean);
        w.mean = mean;
        w.square.set_f64(cov_bar);
        product(&mut w.off_bar, false, 2.0 / (n - 1.0), Left::Plain(&w.off), &w.square, Part::All);
        for (p, bar) in state_bar.chunks_exact_mut(d).enumerate() {
            for ((to, mean), off) in bar.iter_mut().zip(mean_bar).zip(w.off_bar.row(p)) {
                *to += mean / n + off;
            }
        }
    }

    fn clear_gradient(&self, w: &mut MonteCarloWork<T>) {
        self.field.clear_gradient(&mut w.field);
    }

    fn add_gradient(&self, w: &MonteCarloWork<T>, flat: &mut [f64]) {
        self.field.add_gradient(&w.field, flat);
    }
}
