//! Cubature (Sec. 5.1, Eq. 35): the unscented transform over one step, dropout as the identity.
//!
//! ```text
//! x_i = μ ± √(D+λ) [√Σ]_i     y_i = x_i + Δt f(x_i)     λ = α²(D+κ) − D
//! μ' = Σ w_i y_i              Σ' = Σ v_i (y_i − μ')(y_i − μ')ᵀ + Δt Σ w_i L(x_i) L(x_i)ᵀ
//! ```

use super::driver::Transition;
use super::field::{Field, FieldWork};
use super::{Stats, Unscented};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::kernel::{Real, cholesky};
use crate::points::Masks;
use crate::sde::NeuralSde;

pub(crate) struct Cubature<T> {
    field: Field<T>,
    /// Distance of the points in deviations.
    spread: f64,
    /// Weight of a point in the mean and the noise: the central one, the others.
    mean_weight: [f64; 2],
    /// Weight of the central point in the covariance; the others as in the mean.
    cov_weight: f64,
}

pub(crate) struct CubatureWork<T> {
    field: FieldWork<T>,
    root: Vec<f64>,
    points: Vec<f64>,
    after: Vec<f64>,
    noise: Vec<f64>,
    points_bar: Vec<f64>,
    noise_bar: Vec<f64>,
    root_bar: Vec<f64>,
    mean: Vec<f64>,
    bar: Vec<f64>,
    stats: Stats,
}

impl<T: Real> Cubature<T> {
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

    /// Fills root, points, networks and points after the step.
    fn forward(&self, w: &mut CubatureWork<T>, dt: f64, u: &[f64], from: &[f64]) {
        let d = self.field.state;
        w.root.copy_from_slice(&from[d..]);
        w.stats.zero_pivot += cholesky::factor_semidefinite(&mut w.root, d) as u64;
        for p in 0..self.count() {
            let point = &mut w.points[p * d..(p + 1) * d];
            point.copy_from_slice(&from[..d]);
            if p > 0 {
                let (column, sign) = ((p - 1) / 2, if p % 2 == 1 { self.spread } else { -self.spread });
                for i in 0..d {
                    point[i] += sign * w.root[i * d + column];
                }
            }
        }
        self.field.eval(&mut w.field, &w.points, u, Masks::Identity);
        for p in 0..self.count() {
            for (i, f) in self.field.drift(&w.field, p).iter().enumerate() {
                w.after[p * d + i] = w.points[p * d + i] + dt * f.f64();
            }
        }
        w.mean.fill(0.0);
        for p in 0..self.count() {
            for i in 0..d {
                w.mean[i] += self.weight(p) * w.after[p * d + i];
            }
        }
    }
}

impl<T: Real> Transition for Cubature<T> {
    type Work = CubatureWork<T>;
    type Tape = ();

    fn state_len(&self) -> usize {
        self.field.state * (self.field.state + 1)
    }

    fn load(&mut self, sde: &NeuralSde) {
        self.field.load(sde);
    }

    fn work(&self) -> CubatureWork<T> {
        let (d, n) = (self.field.state, self.count());
        CubatureWork {
            field: self.field.work(n),
            root: vec![0.0; d * d],
            points: vec![0.0; n * d],
            after: vec![0.0; n * d],
            noise: vec![0.0; d * d],
            points_bar: vec![0.0; n * d],
            noise_bar: vec![0.0; d * d],
            root_bar: vec![0.0; d * d],
            mean: vec![0.0; d],
            bar: vec![0.0; d],
            stats: Stats::default(),
        }
    }

    fn tape(&self) {}

    fn tape_bytes(&self) -> usize {
        0
    }

    fn stats(work: &mut CubatureWork<T>) -> &mut Stats {
        &mut work.stats
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

    fn step(
        &self,
        w: &mut CubatureWork<T>,
        _: usize,
        _: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    ) {
        let d = self.field.state;
        self.forward(w, dt, u, from);
        to[..d].copy_from_slice(&w.mean);
        let cov = &mut to[d..];
        cov.fill(0.0);
        for p in 0..self.count() {
            let y = &w.after[p * d..(p + 1) * d];
            if self.field.is_noisy() {
                self.field.noise(&w.field, p, &mut w.noise);
            }
            for i in 0..d {
                for j in 0..=i {
                    let spread = self.cov_weight(p) * (y[i] - w.mean[i]) * (y[j] - w.mean[j]);
                    let noise: f64 = (0..=j).map(|c| w.noise[i * d + c] * w.noise[j * d + c]).sum();
                    cov[i * d + j] += spread + dt * self.weight(p) * noise;
                }
            }
        }
        for i in 0..d {
            for j in 0..i {
                cov[j * d + i] = cov[i * d + j];
            }
        }
    }

    fn record(
        &self,
        w: &mut CubatureWork<T>,
        _: &mut (),
        trajectory: usize,
        k: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    ) {
        self.step(w, trajectory, k, dt, u, from, to);
    }

    fn pull(
        &self,
        w: &mut CubatureWork<T>,
        _: &mut (),
        _: usize,
        _: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    ) {
        let (d, n) = (self.field.state, self.count());
        self.forward(w, dt, u, from);
        let (mean_bar, cov_bar) = to_bar.split_at(d);
        // μ' also moves the centre of Σ': −2 Σ̄ Σ_p v_p (y_p − μ').
        w.bar.copy_from_slice(mean_bar);
        for p in 0..n {
            for i in 0..d {
                for j in 0..d {
                    let off = w.after[p * d + j] - w.mean[j];
                    w.bar[i] -= 2.0 * self.cov_weight(p) * cov_bar[i * d + j] * off;
                }
            }
        }
        w.points_bar.fill(0.0);
        for p in 0..n {
            for i in 0..d {
                let mut y_bar = self.weight(p) * w.bar[i];
                for j in 0..d {
                    let off = w.after[p * d + j] - w.mean[j];
                    y_bar += 2.0 * self.cov_weight(p) * cov_bar[i * d + j] * off;
                }
                w.points_bar[p * d + i] = y_bar;
            }
            let bars = &w.points_bar[p * d..(p + 1) * d];
            self.field.set_drift_bar(&mut w.field, p, bars.iter().map(|b| dt * b));
            if self.field.is_noisy() {
                self.field.noise(&w.field, p, &mut w.noise);
                for i in 0..d {
                    for c in 0..d {
                        let sum: f64 = (0..d).map(|j| cov_bar[i * d + j] * w.noise[j * d + c]).sum();
                        w.noise_bar[i * d + c] = 2.0 * dt * self.weight(p) * sum;
                    }
                }
                self.field.set_noise_bar(&mut w.field, p, &w.noise_bar);
            }
        }
        self.field.pull(&mut w.field, &mut w.points_bar);
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
        cholesky::factor_pull(&w.root, d, &mut w.root_bar, &mut from_bar[d..]);
    }

    fn observe(&self, state: &[f64], mean: &mut [f64], cov: &mut [f64]) {
        let d = self.field.state;
        mean.copy_from_slice(&state[..d]);
        cov.copy_from_slice(&state[d..]);
    }

    fn observe_pull(&self, _: &[f64], mean_bar: &[f64], cov_bar: &[f64], state_bar: &mut [f64]) {
        for (to, from) in state_bar.iter_mut().zip(mean_bar.iter().chain(cov_bar)) {
            *to += from;
        }
    }

    fn clear_gradient(&self, w: &mut CubatureWork<T>) {
        self.field.clear_gradient(&mut w.field);
    }

    fn add_gradient(&self, w: &CubatureWork<T>, flat: &mut [f64]) {
        self.field.add_gradient(&w.field, flat);
    }
}
