//! What all kernels share: batches over cores, trajectories, and the backward sweep with its memory.

use super::bmm::Bmm;
use super::cubature::Cubature;
use super::monte_carlo::MonteCarlo;
use super::{Gradient, Method, Options, Precision, Rollout, Stats, Trajectory};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::sde::NeuralSde;
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// One step of a kernel and its adjoint. The state is what one step needs of the last: `(μ, Σ)` for
/// moment kernels, particles for Monte Carlo.
pub(crate) trait Transition: Sync {
    type Work: Send;
    /// What a recorded step leaves behind for its adjoint.
    type Tape: Send;

    fn state_len(&self) -> usize;
    fn load(&mut self, sde: &NeuralSde);
    fn work(&self) -> Self::Work;
    fn tape(&self) -> Self::Tape;
    /// Roughly how much memory a tape takes.
    fn tape_bytes(&self) -> usize;
    fn stats(work: &mut Self::Work) -> &mut Stats;

    fn start(&self, work: &mut Self::Work, trajectory: usize, start: &Gaussian, state: &mut [f64]);
    fn start_pull(
        &self,
        work: &mut Self::Work,
        trajectory: usize,
        start: &Gaussian,
        state_bar: &[f64],
        bar: &mut Gaussian,
    );

    fn step(
        &self,
        work: &mut Self::Work,
        trajectory: usize,
        k: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    );
    /// A step that its adjoint can be taken of.
    fn record(
        &self,
        work: &mut Self::Work,
        tape: &mut Self::Tape,
        trajectory: usize,
        k: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to: &mut [f64],
    );
    /// Adjoint of [`record`](Self::record), at the tape it left; sets `from_bar`, and adds to the gradient
    /// in `work`.
    fn pull(
        &self,
        work: &mut Self::Work,
        tape: &mut Self::Tape,
        trajectory: usize,
        k: usize,
        dt: f64,
        u: &[f64],
        from: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    );

    /// The moments of a state.
    fn observe(&self, work: &mut Self::Work, state: &[f64], mean: &mut [f64], cov: &mut [f64]);
    /// Adds to `state_bar`; `cov_bar` is symmetric.
    fn observe_pull(
        &self,
        work: &mut Self::Work,
        state: &[f64],
        mean_bar: &[f64],
        cov_bar: &[f64],
        state_bar: &mut [f64],
    );

    fn clear_gradient(&self, work: &mut Self::Work);
    fn add_gradient(&self, work: &Self::Work, flat: &mut [f64]);
}

/// A kernel with a store of workspaces that threads borrow.
pub(crate) struct Pooled<K: Transition> {
    kernel: K,
    pool: Mutex<Vec<Work<K>>>,
}

/// A kernel's workspace, and two states to step between.
pub(crate) struct Work<K: Transition> {
    inner: K::Work,
    from: Vec<f64>,
    to: Vec<f64>,
    /// One for each step of a gradient, as far as they are kept.
    tapes: Vec<K::Tape>,
}

/// At most this many partial gradients are summed: enough for many cores, few enough for memory.
/// Fixed, so that the order of summation never depends on the number of threads.
const GROUPS: usize = 16;

/// Tapes of all steps are kept up to this many bytes per thread; beyond it, one after the other is recorded
/// again on the way back. They must not outgrow the caches.
const KEPT: usize = 16 << 20;

/// A tape of this many bytes belongs to matrices so large that to record it again costs far more than to read
/// it from memory: then up to [`KEPT_LARGE`] bytes are kept.
const LARGE: usize = 1 << 20;
const KEPT_LARGE: usize = 256 << 20;

type Objective<'a> = &'a (dyn Fn(usize, &Trajectory, &mut Trajectory) -> Result<f64> + Sync);

impl<K: Transition> Pooled<K> {
    fn new(kernel: K) -> Self {
        Pooled { kernel, pool: Mutex::new(Vec::new()) }
    }

    fn work(&self) -> Work<K> {
        let n = self.kernel.state_len();
        Work { inner: self.kernel.work(), from: vec![0.0; n], to: vec![0.0; n], tapes: Vec::new() }
    }

    fn borrow<R>(&self, use_it: impl FnOnce(&mut Work<K>) -> R) -> R {
        let mut work = self.lock().pop().unwrap_or_else(|| self.work());
        *K::stats(&mut work.inner) = Stats::default();
        let result = use_it(&mut work);
        self.lock().push(work);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Work<K>>> {
        // A panicking thread leaves no broken workspace behind: every use overwrites it.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps from state `k` to `k + 1` and makes sure of the result.
    fn step(
        &self,
        work: &mut K::Work,
        inputs: usize,
        index: usize,
        k: usize,
        rollout: &Rollout<'_>,
        from: &[f64],
        to: &mut [f64],
    ) -> Result<()> {
        let u = &rollout.inputs[k * inputs..(k + 1) * inputs];
        self.kernel.step(work, index, k, rollout.dts[k], u, from, to);
        finite(index, k, to)
    }

    fn predict(
        &self,
        work: &mut Work<K>,
        inputs: usize,
        index: usize,
        rollout: &Rollout<'_>,
        out: &mut Trajectory,
    ) -> Result<()> {
        let Work { inner, from, to, .. } = work;
        self.kernel.start(inner, index, rollout.start, from);
        for k in 0..rollout.dts.len() {
            self.step(inner, inputs, index, k, rollout, from, to)?;
            let (mean, cov) = out.at_mut(k);
            self.kernel.observe(inner, to, mean, cov);
            std::mem::swap(from, to);
        }
        Ok(())
    }

    fn solve(&self, state: usize, inputs: usize, batch: &[Rollout<'_>]) -> Result<(Vec<Trajectory>, Stats)> {
        let one = |(index, rollout): (usize, &Rollout<'_>)| {
            self.borrow(|work| {
                let mut out = Trajectory::zeros(state, rollout.dts.len());
                self.predict(work, inputs, index, rollout, &mut out)?;
                Ok((out, *K::stats(&mut work.inner)))
            })
        };
        let each: Vec<(Trajectory, Stats)> = if batch.len() == 1 {
            batch.iter().enumerate().map(one).collect::<Result<_>>()?
        } else {
            batch.par_iter().enumerate().map(one).collect::<Result<_>>()?
        };
        let mut stats = Stats::default();
        let trajectories = each
            .into_iter()
            .map(|(trajectory, s)| {
                stats.add(s);
                trajectory
            })
            .collect();
        Ok((trajectories, stats))
    }

    /// Runs `one` over the batch in groups of consecutive trajectories and adds up their gradients
    /// in order.
    fn grouped(
        &self,
        parameters: usize,
        batch: &[Rollout<'_>],
        one: impl Fn(&mut Work<K>, usize, &Rollout<'_>) -> Result<(f64, Gaussian)> + Sync,
    ) -> Result<Gradient> {
        let size = batch.len().div_ceil(GROUPS).max(1);
        type Part = (Vec<(f64, Gaussian)>, Vec<f64>, Stats);
        let parts: Vec<Part> = batch
            .par_chunks(size)
            .enumerate()
            .map(|(group, rollouts)| {
                self.borrow(|work| {
                    self.kernel.clear_gradient(&mut work.inner);
                    let mut each = Vec::with_capacity(rollouts.len());
                    for (i, rollout) in rollouts.iter().enumerate() {
                        each.push(one(work, group * size + i, rollout)?);
                    }
                    let mut flat = vec![0.0; parameters];
                    self.kernel.add_gradient(&work.inner, &mut flat);
                    Ok((each, flat, *K::stats(&mut work.inner)))
                })
            })
            .collect::<Result<_>>()?;
        let mut out = Gradient {
            value: 0.0,
            parameters: vec![0.0; parameters],
            starts: Vec::new(),
            stats: Stats::default(),
        };
        for (each, flat, stats) in parts {
            for (value, bar) in each {
                out.value += value;
                out.starts.push(bar);
            }
            for (to, from) in out.parameters.iter_mut().zip(&flat) {
                *to += from;
            }
            out.stats.add(stats);
        }
        Ok(out)
    }

    fn gradient(
        &self,
        state: usize,
        inputs: usize,
        parameters: usize,
        batch: &[Rollout<'_>],
        objective: Objective<'_>,
    ) -> Result<Gradient> {
        self.grouped(parameters, batch, |work, index, rollout| {
            let (n, steps) = (self.kernel.state_len(), rollout.dts.len());
            let Work { inner, from: from_bar, to: to_bar, tapes } = work;
            let each = self.kernel.tape_bytes();
            let keep = steps * each <= if each < LARGE { KEPT } else { KEPT_LARGE };
            let tape = |k: usize| if keep { k } else { 0 };
            let wanted = if keep { steps } else { 1 };
            tapes.resize_with(tapes.len().max(wanted), || self.kernel.tape());
            let u = |k: usize| &rollout.inputs[k * inputs..(k + 1) * inputs];
            let mut states = vec![0.0; n * (steps + 1)];
            self.kernel.start(inner, index, rollout.start, &mut states[..n]);
            let mut trajectory = Trajectory::zeros(state, steps);
            for k in 0..steps {
                let (from, to) = states[k * n..].split_at_mut(n);
                let to = &mut to[..n];
                self.kernel.record(inner, &mut tapes[tape(k)], index, k, rollout.dts[k], u(k), from, to);
                finite(index, k, to)?;
                let (mean, cov) = trajectory.at_mut(k);
                self.kernel.observe(inner, to, mean, cov);
            }
            let mut bar = Trajectory::zeros(state, steps);
            let value = objective(index, &trajectory, &mut bar)?;
            to_bar.fill(0.0);
            for k in (0..steps).rev() {
                let (mean_bar, cov_bar) = bar.at_mut(k);
                let (from, to) = states[k * n..].split_at_mut(n);
                let to = &mut to[..n];
                // Many objectives look at the last step only.
                if mean_bar.iter().chain(&*cov_bar).any(|x| *x != 0.0) {
                    symmetrise(cov_bar, state);
                    self.kernel.observe_pull(inner, to, mean_bar, cov_bar, to_bar);
                }
                let tape = &mut tapes[tape(k)];
                if !keep && k + 1 < steps {
                    self.kernel.record(inner, tape, index, k, rollout.dts[k], u(k), from, to);
                }
                self.kernel.pull(inner, tape, index, k, rollout.dts[k], u(k), from, to_bar, from_bar);
                std::mem::swap(from_bar, to_bar);
            }
            Ok((value, self.start_bar(inner, index, rollout, to_bar)))
        })
    }

    fn start_bar(
        &self,
        work: &mut K::Work,
        index: usize,
        rollout: &Rollout<'_>,
        state_bar: &[f64],
    ) -> Gaussian {
        let d = rollout.start.dim();
        let mut bar = Gaussian { mean: vec![0.0; d], cov: vec![0.0; d * d] };
        self.kernel.start_pull(work, index, rollout.start, state_bar, &mut bar);
        bar
    }
}

fn finite(trajectory: usize, k: usize, state: &[f64]) -> Result<()> {
    if state.iter().all(|x| x.is_finite()) {
        Ok(())
    } else {
        Err(Error::NonFinite { trajectory, step: k + 1 })
    }
}

/// Objectives may hand in `∂ℓ/∂Σ` of any shape; only its symmetric part means anything.
fn symmetrise(m: &mut [f64], n: usize) {
    for i in 0..n {
        for j in 0..i {
            let mean = 0.5 * (m[i * n + j] + m[j * n + i]);
            m[i * n + j] = mean;
            m[j * n + i] = mean;
        }
    }
}

/// The kernels, in both precisions. One per solver, so their sizes do not matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Engine {
    Bmm64(Pooled<Bmm<f64>>),
    Bmm32(Pooled<Bmm<f32>>),
    Cubature64(Pooled<Cubature<f64>>),
    Cubature32(Pooled<Cubature<f32>>),
    MonteCarlo64(Pooled<MonteCarlo<f64>>),
    MonteCarlo32(Pooled<MonteCarlo<f32>>),
}

#[allow(clippy::large_enum_variant)]
pub(crate) enum EngineWork {
    Bmm64(Work<Bmm<f64>>),
    Bmm32(Work<Bmm<f32>>),
    Cubature64(Work<Cubature<f64>>),
    Cubature32(Work<Cubature<f32>>),
    MonteCarlo64(Work<MonteCarlo<f64>>),
    MonteCarlo32(Work<MonteCarlo<f32>>),
}

macro_rules! each {
    ($self:expr, $k:ident => $do:expr) => {
        match $self {
            Engine::Bmm64($k) => $do,
            Engine::Bmm32($k) => $do,
            Engine::Cubature64($k) => $do,
            Engine::Cubature32($k) => $do,
            Engine::MonteCarlo64($k) => $do,
            Engine::MonteCarlo32($k) => $do,
        }
    };
}

macro_rules! each_work {
    ($self:expr, $work:expr, $k:ident, $w:ident => $do:expr) => {
        match ($self, $work) {
            (Engine::Bmm64($k), EngineWork::Bmm64($w)) => $do,
            (Engine::Bmm32($k), EngineWork::Bmm32($w)) => $do,
            (Engine::Cubature64($k), EngineWork::Cubature64($w)) => $do,
            (Engine::Cubature32($k), EngineWork::Cubature32($w)) => $do,
            (Engine::MonteCarlo64($k), EngineWork::MonteCarlo64($w)) => $do,
            (Engine::MonteCarlo32($k), EngineWork::MonteCarlo32($w)) => $do,
            _ => unreachable!("a predictor holds the workspace of its own solver"),
        }
    };
}

impl Engine {
    pub fn new(sde: &NeuralSde, options: Options) -> Result<Self> {
        let (moments, form) = (options.moments, options.covariance);
        Ok(match (options.method, options.precision) {
            (Method::Bmm, Precision::F64) => Engine::Bmm64(Pooled::new(Bmm::new(sde, moments, form))),
            (Method::Bmm, Precision::F32) => Engine::Bmm32(Pooled::new(Bmm::new(sde, moments, form))),
            (Method::Cubature(u), Precision::F64) => Engine::Cubature64(Pooled::new(Cubature::new(sde, u)?)),
            (Method::Cubature(u), Precision::F32) => Engine::Cubature32(Pooled::new(Cubature::new(sde, u)?)),
            (Method::MonteCarlo { samples, seed }, Precision::F64) => {
                Engine::MonteCarlo64(Pooled::new(MonteCarlo::new(sde, samples, seed)?))
            }
            (Method::MonteCarlo { samples, seed }, Precision::F32) => {
                Engine::MonteCarlo32(Pooled::new(MonteCarlo::new(sde, samples, seed)?))
            }
        })
    }

    pub fn load(&mut self, sde: &NeuralSde) {
        each!(self, k => k.kernel.load(sde));
    }

    pub fn solve(
        &self,
        state: usize,
        inputs: usize,
        batch: &[Rollout<'_>],
    ) -> Result<(Vec<Trajectory>, Stats)> {
        each!(self, k => k.solve(state, inputs, batch))
    }

    pub fn gradient(
        &self,
        state: usize,
        inputs: usize,
        parameters: usize,
        batch: &[Rollout<'_>],
        objective: Objective<'_>,
    ) -> Result<Gradient> {
        each!(self, k => k.gradient(state, inputs, parameters, batch, objective))
    }

    pub fn work(&self) -> EngineWork {
        match self {
            Engine::Bmm64(k) => EngineWork::Bmm64(k.work()),
            Engine::Bmm32(k) => EngineWork::Bmm32(k.work()),
            Engine::Cubature64(k) => EngineWork::Cubature64(k.work()),
            Engine::Cubature32(k) => EngineWork::Cubature32(k.work()),
            Engine::MonteCarlo64(k) => EngineWork::MonteCarlo64(k.work()),
            Engine::MonteCarlo32(k) => EngineWork::MonteCarlo32(k.work()),
        }
    }

    pub fn predict(
        &self,
        inputs: usize,
        work: &mut EngineWork,
        rollout: Rollout<'_>,
        out: &mut Trajectory,
    ) -> Result<()> {
        each_work!(self, work, k, w => k.predict(w, inputs, 0, &rollout, out))
    }

    pub fn sample(&self, inputs: usize, index: usize, rollout: Rollout<'_>) -> Result<Vec<f64>> {
        match self {
            Engine::MonteCarlo64(k) => k.particles(inputs, index, &rollout),
            Engine::MonteCarlo32(k) => k.particles(inputs, index, &rollout),
            _ => Err(Error::Architecture {
                net: "solver".into(),
                why: "only Monte Carlo has particles; choose Method::MonteCarlo".into(),
            }),
        }
    }
}

impl<K: Transition> Pooled<K> {
    /// The states after each step, one after the other.
    fn particles(&self, inputs: usize, index: usize, rollout: &Rollout<'_>) -> Result<Vec<f64>> {
        self.borrow(|work| {
            let Work { inner, from, to, .. } = work;
            let mut out = Vec::with_capacity(from.len() * rollout.dts.len());
            self.kernel.start(inner, index, rollout.start, from);
            for k in 0..rollout.dts.len() {
                self.step(inner, inputs, index, k, rollout, from, to)?;
                out.extend_from_slice(to);
                std::mem::swap(from, to);
            }
            Ok(out)
        })
    }
}

impl EngineWork {
    pub fn stats(&mut self) -> Stats {
        match self {
            EngineWork::Bmm64(w) => *Bmm::<f64>::stats(&mut w.inner),
            EngineWork::Bmm32(w) => *Bmm::<f32>::stats(&mut w.inner),
            EngineWork::Cubature64(w) => *Cubature::<f64>::stats(&mut w.inner),
            EngineWork::Cubature32(w) => *Cubature::<f32>::stats(&mut w.inner),
            EngineWork::MonteCarlo64(w) => *MonteCarlo::<f64>::stats(&mut w.inner),
            EngineWork::MonteCarlo32(w) => *MonteCarlo::<f32>::stats(&mut w.inner),
        }
    }
}
