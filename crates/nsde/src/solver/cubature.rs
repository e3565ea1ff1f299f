//! Cubature (Sec. 5.1, Eq. 35): the unscented transform over one step, dropout as the identity.
//!
//! ```text
//! x_i = μ ± √(D+λ) [√Σ]_i     y_i = x_i + Δt f(x_i)     λ = α²(D+κ) − D
//! μ' = Σ w_i y_i              Σ' = Σ v_i (y_i − μ')(y_i − μ')ᵀ + Δt Σ w_i L(x_i) L(x_i)ᵀ
//! ```

use super::driver::{At, Transition};
use super::field::{Field, FieldTape, FieldWork};
use super::{Stats, Unscented};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::kernel::product::{Left, Part, product};
use crate::kernel::{Mat, Single, cholesky};
use crate::points::Masks;
use crate::sde::NeuralSde;

pub(crate) struct Cubature<T: Single> {
    field: Field<T>,
    /// Distance of the points in deviations.
    spread: f64,
    /// Weight of a point in the mean and the noise: the central one, the others.
    mean_weight: [f64; 2],
    /// Weight of the central point in the covariance; the others as in the mean.
    cov_weight: f64,
}

/// What a step leaves behind for its adjoint.
pub(crate) struct CubatureTape<T> {
    field: FieldTape<T>,
    /// Of the covariance before the step.
    root: Vec<f64>,
    /// Points after the step, and their mean.
    after: Vec<f64>,
    mean: Vec<f64>,
}

pub(crate) struct CubatureWork<T> {
    /// The tape of a step that nobody records.
    own: CubatureTape<T>,
    room: Room<T>,
}

struct Room<T> {
    field: FieldWork<T>,
    points: Vec<f64>,
    noise: Vec<f64>,
    points_bar: Vec<f64>,
    noise_bar: Vec<f64>,
    root_bar: Vec<f64>,
    /// Points after the step less their mean; the same with weights.
    off: Mat<f64>,
    weighted: Mat<f64>,
    /// `Σ'`, or its cotangent.
    square: Mat<f64>,
    bar: Vec<f64>,
    stats: Stats,
}

impl<T> Room<T> {
    fn set_off(&mut self, tape: &CubatureTape<T>) {
        for (p, y) in tape.after.chunks_exact(tape.mean.len()).enumerate() {
            for ((to, y), mean) in self.off.row_mut(p).iter_mut().zip(y).zip(&tape.mean) {
                *to = y - mean;
            }
        }
    }
}

impl<T: Single> Cubature<T> {
    pub fn new(sde: &NeuralSde, rule: Unscented) -> Result<Self> {
        let d = sde.state() as f64;
        let scaled = rule.alpha * rule.alpha * (d + rule.kappa);
        if !(scaled.is_finite() && scaled > 0.0) {
            return Err(Error::Range {
                what: "cubature: alpha²(D + kappa)".into(),
                value: scaled,
                must: "positive",
            });
        }
        if !rule.beta.is_finite() {
            return Err(Error::Range { what: "cubature: beta".into(), value: rule.beta, must: "finite" });
        }
        let central = 1.0 - d / scaled;
        Ok(Cubature {
            field: Field::new(sde),
            spread: scaled.sqrt(),
            mean_weight: [central, 0.5 / scaled],
            cov_weight: central + 1.0 - rule.alpha * rule.alpha + rule.beta,
        })
    }

    fn count(&self) -> usize {
        2 * self.field.state + 1
    }

    fn weight(&self, p: usize) -> f64 {
        self.mean_weight[usize::from(p > 0)]
    }

    fn cov_weight(&self, p: usize) -> f64 {
        if p == 0 { self.cov_weight } else { self.mean_weight[1] }
    }

    /// Fills the tape: root, networks and points after the step.
    fn forward(&self, w: &mut Room<T>, tape: &mut CubatureTape<T>, dt: f64, u: &[f64], from: &[f64]) {
        let d = self.field.state;
        tape.root.copy_from_slice(&from[d..]);
        w.stats.zero_pivot += cholesky::factor_semidefinite(&mut tape.root, d) as u64;
        for p in 0..self.count() {
            let point = &mut w.points[p * d..(p + 1) * d];
            point.copy_from_slice(&from[..d]);
            if p > 0 {
                let (column, sign) = ((p - 1) / 2, if p % 2 == 1 { self.spread } else { -self.spread });
                for i in 0..d {
                    point[i] += sign * tape.root[i * d + column];
                }
            }
        }
        self.field.eval(&mut tape.field, &w.points, u, Masks::Identity);
        for p in 0..self.count() {
            for (i, f) in self.field.drift(&tape.field, p).iter().enumerate() {
                tape.after[p * d + i] = w.points[p * d + i] + dt * f.f64();
            }
        }
        tape.mean.fill(0.0);
        for p in 0..self.count() {
            for i in 0..d {
                tape.mean[i] += self.weight(p) * tape.after[p * d + i];
            }
        }
    }

    /// One step, with what its adjoint needs.
    fn advance(&self, w: &mut Room<T>, tape: &mut CubatureTape<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        let dt = at.dt(0);
        let d = self.field.state;
        self.forward(w, tape, dt, at.u(0), from);
        to[..d].copy_from_slice(&tape.mean);
        // Σ' = Σ_p v_p (y_p − μ')(y_p − μ')ᵀ + Δt Σ_p w_p L_p L_pᵀ
        w.set_off(tape);
        for p in 0..self.count() {
            let weight = self.cov_weight(p);
            for (to, off) in w.weighted.row_mut(p).iter_mut().zip(w.off.row(p)) {
                *to = weight * off;
            }
        }
        product(&mut w.square, false, 1.0, Left::Transposed(&w.weighted), &w.off, Part::Symmetric);
        for p in 0..self.count() {
            self.field.noise(&tape.field, p, &mut w.noise);
            for i in 0..d {
                for c in self.field.columns(i) {
                    for j in c..=i {
                        let noise = w.noise[i * d + c] * w.noise[j * d + c];
                        *w.square.at_mut(i, j) += dt * self.weight(p) * noise;
                    }
                }
            }
        }
        for i in 0..d {
            for j in 0..=i {
                to[d + i * d + j] = w.square.at(i, j);
                to[d + j * d + i] = w.square.at(i, j);
            }
        }
    }
}

impl<T: Single> Transition for Cubature<T> {
    type Work = CubatureWork<T>;
    type Tape = CubatureTape<T>;
    const WIDTH: usize = 1;

    fn state_len(&self) -> usize {
        self.field.state * (self.field.state + 1)
    }

    fn load(&mut self, sde: &NeuralSde) {
        self.field.load(sde);
    }

    fn work(&self) -> CubatureWork<T> {
        let (d, n) = (self.field.state, self.count());
        CubatureWork {
            own: self.tape(),
            room: Room {
                field: self.field.work(n),
                points: vec![0.0; n * d],
                noise: vec![0.0; d * d],
                points_bar: vec![0.0; n * d],
                noise_bar: vec![0.0; d * d],
                root_bar: vec![0.0; d * d],
                off: Mat::zeros(n, d),
                weighted: Mat::zeros(n, d),
                square: Mat::zeros(d, d),
                bar: vec![0.0; d],
                stats: Stats::default(),
            },
        }
    }

    fn tape(&self) -> CubatureTape<T> {
        let (d, n) = (self.field.state, self.count());
        CubatureTape {
            field: self.field.tape(n),
            root: vec![0.0; d * d],
            after: vec![0.0; n * d],
            mean: vec![0.0; d],
        }
    }

    fn tape_bytes(&self) -> usize {
        let (d, n) = (self.field.state, self.count());
        self.field.tape_bytes(n) + (d + n + 1) * d * size_of::<f64>()
    }

    fn stats(work: &mut CubatureWork<T>) -> &mut Stats {
        &mut work.room.stats
    }

    fn start(&self, _: &mut CubatureWork<T>, _: usize, start: &Gaussian, state: &mut [f64]) {
        let d = self.field.state;
        state[..d].copy_from_slice(&start.mean);
        state[d..].copy_from_slice(&start.cov);
    }

    fn start_pull(
        &self,
        _: &mut CubatureWork<T>,
        _: usize,
        _: &Gaussian,
        state_bar: &[f64],
        bar: &mut Gaussian,
    ) {
        let d = self.field.state;
        bar.mean.copy_from_slice(&state_bar[..d]);
        bar.cov.copy_from_slice(&state_bar[d..]);
    }

    fn step(&self, w: &mut CubatureWork<T>, at: At<'_>, from: &[f64], to: &mut [f64]) {
        self.advance(&mut w.room, &mut w.own, at, from, to);
    }

    fn record(
        &self,
        w: &mut CubatureWork<T>,
        tape: &mut CubatureTape<T>,
        at: At<'_>,
        from: &[f64],
        to: &mut [f64],
    ) {
        self.advance(&mut w.room, tape, at, from, to);
    }

    fn pull(
        &self,
        w: &mut CubatureWork<T>,
        tape: &mut CubatureTape<T>,
        at: At<'_>,
        _: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        let (dt, w) = (at.dt(0), &mut w.room);
        let (d, n) = (self.field.state, self.count());
        let (mean_bar, cov_bar) = to_bar.split_at(d);
        // ȳ_p = w_p μ̄' + 2 v_p Σ̄' (y_p − μ'); μ' also moves the centre of Σ': −2 Σ̄' Σ_p v_p (y_p − μ').
        w.set_off(tape);
        w.square.set_f64(cov_bar);
        product(&mut w.weighted, false, 2.0, Left::Plain(&w.off), &w.square, Part::All);
        w.bar.copy_from_slice(mean_bar);
        for p in 0..n {
            for i in 0..d {
                w.bar[i] -= self.cov_weight(p) * w.weighted.at(p, i);
            }
        }
        for p in 0..n {
            for i in 0..d {
                w.points_bar[p * d + i] =
                    self.weight(p) * w.bar[i] + self.cov_weight(p) * w.weighted.at(p, i);
            }
            let bars = &w.points_bar[p * d..(p + 1) * d];
            self.field.set_drift_bar(&mut w.field, p, bars.iter().map(|b| dt * b));
            if self.field.is_noisy() {
                self.field.noise(&tape.field, p, &mut w.noise);
                for i in 0..d {
                    for c in self.field.columns(i) {
                        let rows = self.field.rows(c);
                        let sum: f64 = rows.map(|j| cov_bar[i * d + j] * w.noise[j * d + c]).sum();
                        w.noise_bar[i * d + c] = 2.0 * dt * self.weight(p) * sum;
                    }
                }
                self.field.set_noise_bar(&mut w.field, p, &w.noise_bar);
            }
        }
        self.field.pull(&tape.field, &mut w.field, &mut w.points_bar);
        from_bar.fill(0.0);
        w.root_bar.fill(0.0);
        for p in 0..n {
            for i in 0..d {
                let bar = w.points_bar[p * d + i];
                from_bar[i] += bar;
                if p > 0 {
                    let (column, sign) = ((p - 1) / 2, if p % 2 == 1 { self.spread } else { -self.spread });
                    if column <= i {
                        w.root_bar[i * d + column] += sign * bar;
                    }
                }
            }
        }
        cholesky::factor_pull(&tape.root, d, &mut w.root_bar, &mut from_bar[d..]);
    }

    fn observe(&self, _: &mut CubatureWork<T>, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        let d = self.field.state;
        mean.copy_from_slice(&state[..d]);
        cov.copy_from_slice(&state[d..]);
    }

    fn observe_pull(
        &self,
        _: &mut CubatureWork<T>,
        _: &[f64],
        mean_bar: &[f64],
        cov_bar: &[f64],
        state_bar: &mut [f64],
    ) {
        for (to, from) in state_bar.iter_mut().zip(mean_bar.iter().chain(cov_bar)) {
            *to += from;
        }
    }

    fn clear_gradient(&self, w: &mut CubatureWork<T>) {
        self.field.clear_gradient(&mut w.room.field);
    }

    fn add_gradient(&self, w: &CubatureWork<T>, flat: &mut [f64]) {
        self.field.add_gradient(&w.room.field, flat);
    }
}
