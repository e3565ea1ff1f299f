//! Which kernel a solver runs, in which precision, and how many trajectories side by side.

use super::bmm::Bmm;
use super::cubature::Cubature;
use super::driver::{Fleet, Objective, Pooled, Transition, Work};
use super::monte_carlo::MonteCarlo;
use super::{Gradient, Method, Options, Precision, Rollout, Stats, Trajectory};
use crate::error::{Error, Result};
use crate::kernel::lanes::{self, F32x8, F64x4};
use crate::sde::NeuralSde;

/// States and layers up to these widths are computed for several trajectories at once: beyond them the matrices of
/// several outgrow the caches, and those of one fill the vectors well enough.
const WIDEST_STATE: usize = 64;
const WIDEST_LAYER: usize = 128;

/// Above this a kernel for one fills its vectors nearly as well as one for several, and a single bundle would leave
/// cores idle: fewer than two bundles go one by one.
const SMALL_STATE: usize = 16;

/// Whether trajectories go side by side.
fn abreast(sde: &NeuralSde) -> bool {
    let nets = std::iter::once(sde.drift()).chain(sde.diffusion().network());
    lanes::supported()
        && sde.state() <= WIDEST_STATE
        && nets.flat_map(|net| net.widths().into_iter().skip(1)).all(|width| width <= WIDEST_LAYER)
}

fn fleet<N: Transition, W: Transition>(one: N, many: Option<W>, sde: &NeuralSde) -> Fleet<N, W> {
    let fewest = if sde.state() > SMALL_STATE { 2 * W::WIDTH } else { 0 };
    Fleet { one: Pooled::new(one), many: many.map(Pooled::new), fewest }
}

/// The kernels, in both precisions. One per solver, so their sizes do not matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Engine {
    Bmm64(Fleet<Bmm<f64>, Bmm<F64x4>>),
    Bmm32(Fleet<Bmm<f32>, Bmm<F32x8>>),
    Cubature64(Fleet<Cubature<f64>, Cubature<f64>>),
    Cubature32(Fleet<Cubature<f32>, Cubature<f32>>),
    MonteCarlo64(Fleet<MonteCarlo<f64>, MonteCarlo<f64>>),
    MonteCarlo32(Fleet<MonteCarlo<f32>, MonteCarlo<f32>>),
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
        let wide = abreast(sde);
        Ok(match (options.method, options.precision) {
            (Method::Bmm, Precision::F64) => Engine::Bmm64(fleet(
                Bmm::new(sde, moments, form),
                wide.then(|| Bmm::new(sde, moments, form)),
                sde,
            )),
            (Method::Bmm, Precision::F32) => Engine::Bmm32(fleet(
                Bmm::new(sde, moments, form),
                wide.then(|| Bmm::new(sde, moments, form)),
                sde,
            )),
            (Method::Cubature(u), Precision::F64) => {
                Engine::Cubature64(fleet(Cubature::new(sde, u)?, None, sde))
            }
            (Method::Cubature(u), Precision::F32) => {
                Engine::Cubature32(fleet(Cubature::new(sde, u)?, None, sde))
            }
            (Method::MonteCarlo { samples, seed }, Precision::F64) => {
                Engine::MonteCarlo64(fleet(MonteCarlo::new(sde, samples, seed)?, None, sde))
            }
            (Method::MonteCarlo { samples, seed }, Precision::F32) => {
                Engine::MonteCarlo32(fleet(MonteCarlo::new(sde, samples, seed)?, None, sde))
            }
        })
    }

    pub fn load(&mut self, sde: &NeuralSde) {
        each!(self, k => k.load(sde));
    }

    pub fn solve(
        &self,
        state: usize,
        inputs: usize,
        batch: &[Rollout<'_>],
        out: &mut Vec<Trajectory>,
    ) -> Result<Stats> {
        each!(self, k => k.solve(state, inputs, batch, out))
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
            Engine::Bmm64(k) => EngineWork::Bmm64(k.one.work()),
            Engine::Bmm32(k) => EngineWork::Bmm32(k.one.work()),
            Engine::Cubature64(k) => EngineWork::Cubature64(k.one.work()),
            Engine::Cubature32(k) => EngineWork::Cubature32(k.one.work()),
            Engine::MonteCarlo64(k) => EngineWork::MonteCarlo64(k.one.work()),
            Engine::MonteCarlo32(k) => EngineWork::MonteCarlo32(k.one.work()),
        }
    }

    pub fn predict(
        &self,
        inputs: usize,
        work: &mut EngineWork,
        rollout: Rollout<'_>,
        out: &mut Trajectory,
    ) -> Result<()> {
        each_work!(self, work, k, w => k.one.predict(w, inputs, 0, &[rollout], std::slice::from_mut(out)))
    }

    pub fn sample(&self, inputs: usize, index: usize, rollout: Rollout<'_>) -> Result<Vec<f64>> {
        match self {
            Engine::MonteCarlo64(k) => k.one.particles(inputs, index, rollout),
            Engine::MonteCarlo32(k) => k.one.particles(inputs, index, rollout),
            _ => Err(Error::Architecture {
                net: "solver".into(),
                why: "only Monte Carlo has particles; choose Method::MonteCarlo".into(),
            }),
        }
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
