//! What all kernels share: batches over cores, trajectories, and the backward sweep with its memory.

use super::{Gradient, Rollout, Stats, Trajectory};
use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::kernel::real::{Real, in_vectors};
use crate::kernel::share::standing_by;
use crate::sde::NeuralSde;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A step: of which trajectories, and which of their steps.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    /// The first of the trajectories, counted over the batch.
    pub index: usize,
    pub k: usize,
    inputs: usize,
    rollouts: &'a [Rollout<'a>],
}

impl<'a> At<'a> {
    /// The trajectory in a lane; the last one fills up lanes that are left over.
    fn rollout(self, lane: usize) -> &'a Rollout<'a> {
        &self.rollouts[lane.min(self.rollouts.len() - 1)]
    }

    /// Zero where a trajectory is over: then its state stays as it is until all of them are.
    pub fn dt(self, lane: usize) -> f64 {
        self.rollout(lane).dts.get(self.k).copied().unwrap_or(0.0)
    }

    /// One of the inputs, in all lanes.
    pub fn input<T: Real>(self, i: usize) -> T {
        T::lanes(|lane| self.u(lane)[i])
    }

    /// The last inputs where a trajectory is over.
    pub fn u(self, lane: usize) -> &'a [f64] {
        let rollout = self.rollout(lane);
        let k = self.k.min(rollout.dts.len().saturating_sub(1));
        &rollout.inputs[k * self.inputs..(k + 1) * self.inputs]
    }
}

/// Steps until all are over.
fn longest(rollouts: &[Rollout<'_>]) -> usize {
    rollouts.iter().map(|r| r.dts.len()).max().unwrap_or(0)
}

/// One step of a kernel and its adjoint, of [`WIDTH`](Transition::WIDTH) trajectories side by side. The state
/// is what one step needs of the last: `(μ, Σ)` for moment kernels, particles for Monte Carlo. Those of several
/// trajectories stand side by side, every number in all lanes after the other, as the kernels take them.
pub(crate) trait Transition: Sync {
    type Work: Send;
    /// What a recorded step leaves behind for its adjoint.
    type Tape: Send;
    const WIDTH: usize;

    /// Of one trajectory.
    fn state_len(&self) -> usize;
    fn load(&mut self, sde: &NeuralSde);
    fn work(&self) -> Self::Work;
    fn tape(&self) -> Self::Tape;
    /// Roughly how much memory a tape takes.
    fn tape_bytes(&self) -> usize;
    fn stats(work: &mut Self::Work) -> &mut Stats;
    /// Whether a single trajectory has work that cores share.
    fn is_shared(&self) -> bool {
        false
    }

    /// The state of one trajectory at its start.
    fn start(&self, work: &mut Self::Work, trajectory: usize, start: &Gaussian, state: &mut [f64]);
    fn start_pull(
        &self,
        work: &mut Self::Work,
        trajectory: usize,
        start: &Gaussian,
        state_bar: &[f64],
        bar: &mut Gaussian,
    );

    fn step(&self, work: &mut Self::Work, at: At<'_>, from: &[f64], to: &mut [f64]);
    /// A step that its adjoint can be taken of.
    fn record(&self, work: &mut Self::Work, tape: &mut Self::Tape, at: At<'_>, from: &[f64], to: &mut [f64]);
    /// Adjoint of [`record`](Self::record), at the tape it left; sets `from_bar`, and adds to the gradient
    /// in `work`.
    fn pull(
        &self,
        work: &mut Self::Work,
        tape: &mut Self::Tape,
        at: At<'_>,
        from: &[f64],
        to_bar: &[f64],
        from_bar: &mut [f64],
    );

    /// The moments of the state of one trajectory.
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
    pub kernel: K,
    pool: Mutex<Vec<Work<K>>>,
}

/// A kernel's workspace, and two states to step between.
pub(crate) struct Work<K: Transition> {
    pub inner: K::Work,
    from: Vec<f64>,
    to: Vec<f64>,
    /// A state of one trajectory, and its cotangent.
    one: Vec<f64>,
    one_bar: Vec<f64>,
    /// One for each step of a gradient, as far as they are kept.
    tapes: Vec<K::Tape>,
    /// What a gradient needs of all steps: states, moments and their cotangents.
    states: Vec<f64>,
    paths: Vec<Trajectory>,
    bars: Vec<Trajectory>,
}

/// Makes room for `steps` of each of `count` trajectories; what was in them is of no use any more.
fn make_room(paths: &mut Vec<Trajectory>, count: usize, state: usize, steps: impl Fn(usize) -> usize) {
    paths.truncate(count);
    for n in 0..count {
        let fits = |path: &Trajectory| (path.dim(), path.steps()) == (state, steps(n));
        match paths.get_mut(n) {
            Some(path) if fits(path) => {}
            Some(path) => *path = Trajectory::zeros(state, steps(n)),
            None => paths.push(Trajectory::zeros(state, steps(n))),
        }
    }
}

/// At most this many partial gradients are summed: enough for many cores, few enough for memory.
/// Fixed, so that the order of summation never depends on the number of threads.
const GROUPS: usize = 16;

/// Tapes of all steps are kept up to this many bytes per thread; beyond it, one after the other is recorded
/// again on the way back. They must not outgrow the caches.
const KEPT: usize = 8 << 20;

/// A tape of this many bytes belongs to matrices so large that to record it again costs far more than to read
/// it from memory: then up to [`KEPT_LARGE`] bytes are kept.
const LARGE: usize = 1 << 20;
const KEPT_LARGE: usize = 256 << 20;

pub(crate) type Objective<'a> = &'a (dyn Fn(usize, &Trajectory, &mut Trajectory) -> Result<f64> + Sync);

impl<K: Transition> Pooled<K> {
    pub fn new(kernel: K) -> Self {
        Pooled { kernel, pool: Mutex::new(Vec::new()) }
    }

    pub fn work(&self) -> Work<K> {
        let one = self.kernel.state_len();
        let n = one * K::WIDTH;
        Work {
            inner: self.kernel.work(),
            from: vec![0.0; n],
            to: vec![0.0; n],
            one: vec![0.0; one],
            one_bar: vec![0.0; one],
            tapes: Vec::new(),
            states: Vec::new(),
            paths: Vec::new(),
            bars: Vec::new(),
        }
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

    /// The states at the start; the last trajectory fills up the lanes that are left over.
    fn start(
        &self,
        work: &mut K::Work,
        index: usize,
        rollouts: &[Rollout<'_>],
        states: &mut [f64],
        one: &mut [f64],
    ) {
        if K::WIDTH == 1 {
            return self.kernel.start(work, index, rollouts[0].start, states);
        }
        for lane in 0..K::WIDTH {
            let n = lane.min(rollouts.len() - 1);
            self.kernel.start(work, index + n, rollouts[n].start, one);
            states.iter_mut().skip(lane).step_by(K::WIDTH).zip(&*one).for_each(|(to, x)| *to = *x);
        }
    }

    /// The moments of all trajectories after step `k`, which must be finite.
    fn observe(
        &self,
        work: &mut K::Work,
        index: usize,
        k: usize,
        states: &[f64],
        one: &mut [f64],
        out: &mut [Trajectory],
    ) -> Result<()> {
        // No branch, so that it goes in vectors.
        let mut finite = true;
        in_vectors::<f64>(
            #[inline(always)]
            || finite = states.iter().fold(true, |all, x| all & x.is_finite()),
        );
        for (lane, out) in out.iter_mut().enumerate().filter(|(_, out)| k < out.steps()) {
            let one = if K::WIDTH == 1 {
                states
            } else {
                take_lane::<K>(one, states, lane);
                &*one
            };
            if !finite && one.iter().any(|x| !x.is_finite()) {
                return Err(Error::NonFinite { trajectory: index + lane, step: k + 1 });
            }
            let (mean, cov) = out.at_mut(k);
            self.kernel.observe(work, one, mean, cov);
        }
        Ok(())
    }

    /// Predicts as many trajectories as the kernel is wide, or fewer.
    pub fn predict(
        &self,
        work: &mut Work<K>,
        inputs: usize,
        index: usize,
        rollouts: &[Rollout<'_>],
        out: &mut [Trajectory],
    ) -> Result<()> {
        let Work { inner, from, to, one, .. } = work;
        self.start(inner, index, rollouts, from, one);
        for k in 0..longest(rollouts) {
            self.kernel.step(inner, At { index, k, inputs, rollouts }, from, to);
            self.observe(inner, index, k, to, one, out)?;
            std::mem::swap(from, to);
        }
        Ok(())
    }

    fn solve(
        &self,
        inputs: usize,
        index: usize,
        rollouts: &[Rollout<'_>],
        out: &mut [Trajectory],
    ) -> Result<Stats> {
        self.borrow(|work| {
            self.predict(work, inputs, index, rollouts, out)?;
            Ok(*K::stats(&mut work.inner))
        })
    }

    /// Value and gradient of some bundles of trajectories, added to `part`.
    fn add_gradient(&self, task: &Task<'_>, bundles: &[Range<usize>], part: &mut Part) -> Result<()> {
        if bundles.is_empty() {
            return Ok(());
        }
        self.borrow(|work| {
            self.kernel.clear_gradient(&mut work.inner);
            for bundle in bundles {
                self.pull(work, task, bundle, part)?;
            }
            self.kernel.add_gradient(&work.inner, &mut part.parameters);
            part.stats.add(*K::stats(&mut work.inner));
            Ok(())
        })
    }

    /// One bundle forth and back.
    fn pull(
        &self,
        work: &mut Work<K>,
        task: &Task<'_>,
        bundle: &Range<usize>,
        part: &mut Part,
    ) -> Result<()> {
        let Task { state, inputs, .. } = *task;
        let (index, rollouts) = (bundle.start, &task.batch[bundle.clone()]);
        let (n, steps) = (self.kernel.state_len() * K::WIDTH, longest(rollouts));
        let Work { inner, from: from_bar, to: to_bar, one, one_bar, tapes, states, paths, bars } = work;
        let each = self.kernel.tape_bytes();
        let keep = steps * each <= if each < LARGE { KEPT } else { KEPT_LARGE };
        let tape = |k: usize| if keep { k } else { 0 };
        let wanted = if keep { steps } else { 1 };
        tapes.resize_with(tapes.len().max(wanted), || self.kernel.tape());
        let at = |k: usize| At { index, k, inputs, rollouts };
        states.resize(n * (steps + 1), 0.0);
        self.start(inner, index, rollouts, &mut states[..n], one);
        make_room(paths, rollouts.len(), state, |n| rollouts[n].dts.len());
        make_room(bars, rollouts.len(), state, |n| rollouts[n].dts.len());
        for k in 0..steps {
            let (from, to) = states[k * n..].split_at_mut(n);
            let to = &mut to[..n];
            self.kernel.record(inner, &mut tapes[tape(k)], at(k), from, to);
            self.observe(inner, index, k, to, one, paths)?;
        }
        let mut values = Vec::with_capacity(rollouts.len());
        for (lane, (path, bar)) in paths.iter().zip(&mut *bars).enumerate() {
            bar.fill_zero();
            values.push((task.objective)(index + lane, path, bar)?);
        }
        to_bar.fill(0.0);
        for k in (0..steps).rev() {
            let (from, to) = states[k * n..].split_at_mut(n);
            let to = &mut to[..n];
            for (lane, bar) in bars.iter_mut().enumerate().filter(|(_, bar)| k < bar.steps()) {
                let (mean_bar, cov_bar) = bar.at_mut(k);
                // Many objectives look at the last step only.
                if mean_bar.iter().chain(&*cov_bar).any(|x| *x != 0.0) {
                    symmetrise(cov_bar, state);
                    take_lane::<K>(one, to, lane);
                    one_bar.fill(0.0);
                    self.kernel.observe_pull(inner, one, mean_bar, cov_bar, one_bar);
                    let to_bar = to_bar.iter_mut().skip(lane).step_by(K::WIDTH);
                    to_bar.zip(&*one_bar).for_each(|(to, x)| *to += *x);
                }
            }
            let tape = &mut tapes[tape(k)];
            if !keep && k + 1 < steps {
                self.kernel.record(inner, tape, at(k), from, to);
            }
            self.kernel.pull(inner, tape, at(k), from, to_bar, from_bar);
            std::mem::swap(from_bar, to_bar);
        }
        for (lane, (value, rollout)) in values.into_iter().zip(rollouts).enumerate() {
            let mut bar = Gaussian { mean: vec![0.0; state], cov: vec![0.0; state * state] };
            take_lane::<K>(one_bar, to_bar, lane);
            self.kernel.start_pull(inner, index + lane, rollout.start, one_bar, &mut bar);
            part.each.push((index + lane, value, bar));
        }
        Ok(())
    }

    /// The states after each step of one trajectory, one after the other.
    pub fn particles(&self, inputs: usize, index: usize, rollout: Rollout<'_>) -> Result<Vec<f64>> {
        self.borrow(|work| {
            let Work { inner, from, to, one, .. } = work;
            let rollouts = &[rollout];
            let mut out = Vec::with_capacity(from.len() * rollout.dts.len());
            self.start(inner, index, rollouts, from, one);
            for k in 0..rollout.dts.len() {
                self.kernel.step(inner, At { index, k, inputs, rollouts }, from, to);
                if to.iter().any(|x| !x.is_finite()) {
                    return Err(Error::NonFinite { trajectory: index, step: k + 1 });
                }
                out.extend_from_slice(to);
                std::mem::swap(from, to);
            }
            Ok(out)
        })
    }
}

/// The state in one lane.
fn take_lane<K: Transition>(one: &mut [f64], states: &[f64], lane: usize) {
    for (to, lanes) in one.iter_mut().zip(states.chunks_exact(K::WIDTH)) {
        *to = lanes[lane];
    }
}

/// A gradient that is wanted.
struct Task<'a> {
    state: usize,
    inputs: usize,
    batch: &'a [Rollout<'a>],
    objective: Objective<'a>,
}

/// What some trajectories contribute to a gradient.
struct Part {
    /// Number, value and cotangent of the start.
    each: Vec<(usize, f64, Gaussian)>,
    parameters: Vec<f64>,
    stats: Stats,
}

/// A kernel for one trajectory and, where there is one, a kernel for several side by side.
pub(crate) struct Fleet<N: Transition, W: Transition> {
    pub one: Pooled<N>,
    pub many: Option<Pooled<W>>,
    /// Smaller batches go one by one.
    pub fewest: usize,
}

impl<N: Transition, W: Transition> Fleet<N, W> {
    pub fn load(&mut self, sde: &NeuralSde) {
        self.one.kernel.load(sde);
        if let Some(many) = &mut self.many {
            many.kernel.load(sde);
        }
    }

    /// Consecutive trajectories that are computed together: as many as the wide kernel takes, or fewer, if
    /// more than half of its lanes are busy on average; else single ones. What goes together does not
    /// depend on the number of threads.
    fn bundles(&self, batch: &[Rollout<'_>]) -> Vec<Range<usize>> {
        let mut bundles = Vec::new();
        let mut first = 0;
        let enough = self.many.is_some() && batch.len() >= self.fewest;
        while first < batch.len() {
            let some = &batch[first..batch.len().min(first + W::WIDTH)];
            let steps: usize = some.iter().map(|r| r.dts.len()).sum();
            let moving = some.iter().all(|r| !r.dts.is_empty());
            let wide = enough && moving && 2 * steps > W::WIDTH * longest(some);
            let bundle = first..first + if wide { some.len() } else { 1 };
            first = bundle.end;
            bundles.push(bundle);
        }
        bundles
    }

    /// Does `work`, with a core standing by where the batch is one trajectory that cores share.
    fn alone<R: Send>(&self, batch: usize, work: impl FnOnce() -> R + Send) -> R {
        if batch == 1 && self.one.kernel.is_shared() { standing_by(work) } else { work() }
    }

    /// Puts the moments of all trajectories into `out`, in whose memory they are if it has enough.
    pub fn solve(
        &self,
        state: usize,
        inputs: usize,
        batch: &[Rollout<'_>],
        out: &mut Vec<Trajectory>,
    ) -> Result<Stats> {
        make_room(out, batch.len(), state, |n| batch[n].dts.len());
        let mut rest = out.as_mut_slice();
        let mut bundles = Vec::new();
        for bundle in self.bundles(batch) {
            let (here, later) = rest.split_at_mut(bundle.len());
            bundles.push((bundle, here));
            rest = later;
        }
        let some = |(bundle, out): (Range<usize>, &mut [Trajectory])| {
            let (index, rollouts) = (bundle.start, &batch[bundle]);
            match &self.many {
                Some(many) if rollouts.len() > 1 => many.solve(inputs, index, rollouts, out),
                _ => self.one.solve(inputs, index, rollouts, out),
            }
        };
        let each: Vec<Stats> = if bundles.len() == 1 {
            self.alone(batch.len(), || bundles.into_iter().map(some).collect::<Result<_>>())?
        } else {
            bundles.into_par_iter().map(some).collect::<Result<_>>()?
        };
        let mut stats = Stats::default();
        each.into_iter().for_each(|s| stats.add(s));
        Ok(stats)
    }

    /// Groups of consecutive bundles go over the cores; their gradients are added up in order.
    pub fn gradient(
        &self,
        state: usize,
        inputs: usize,
        parameters: usize,
        batch: &[Rollout<'_>],
        objective: Objective<'_>,
    ) -> Result<Gradient> {
        let task = Task { state, inputs, batch, objective };
        let bundles = self.bundles(batch);
        let some = |group: &[Range<usize>]| {
            let mut part =
                Part { each: Vec::new(), parameters: vec![0.0; parameters], stats: Stats::default() };
            let (wide, single): (Vec<_>, Vec<_>) = group.iter().cloned().partition(|b| b.len() > 1);
            if let Some(many) = &self.many {
                many.add_gradient(&task, &wide, &mut part)?;
            }
            self.one.add_gradient(&task, &single, &mut part)?;
            part.each.sort_unstable_by_key(|each| each.0);
            Ok(part)
        };
        let groups = bundles.par_chunks(bundles.len().div_ceil(GROUPS).max(1));
        let parts: Vec<Part> = self.alone(batch.len(), || groups.map(some).collect::<Result<_>>())?;
        let mut out = Gradient {
            value: 0.0,
            parameters: vec![0.0; parameters],
            starts: Vec::with_capacity(batch.len()),
            stats: Stats::default(),
        };
        for part in parts {
            for (_, value, bar) in part.each {
                out.value += value;
                out.starts.push(bar);
            }
            for (to, from) in out.parameters.iter_mut().zip(&part.parameters) {
                *to += from;
            }
            out.stats.add(part.stats);
        }
        Ok(out)
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
