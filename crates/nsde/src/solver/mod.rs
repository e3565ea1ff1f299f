//! Transition kernels (Sec. 3.5) behind one interface: BMM and its rivals.

mod bmm;
mod cubature;
mod driver;
mod engine;
mod field;
mod monte_carlo;
mod noise;

use crate::error::{Error, Result, dimension};
use crate::flow::Shape;
use crate::gaussian::{self, Gaussian};
use crate::layer::Moments;
use crate::sde::NeuralSde;
use engine::{Engine, EngineWork};

/// How a Gaussian is carried over one step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// Bidimensional moment matching (Algorithm 1): deterministic, through the layers.
    Bmm,
    /// The unscented transform with `2D + 1` points (Eq. 35). Dropout acts as the identity.
    Cubature(Unscented),
    /// Euler–Maruyama paths (Eq. 3), dropout masks redrawn at every step.
    MonteCarlo {
        /// Number of particles, at least 2.
        samples: usize,
        /// Seed; trajectory `i` of a batch uses stream `i`.
        seed: u64,
    },
}

/// Parameters of the unscented transform. The default has non-negative weights, so covariances stay
/// positive semi-definite; the textbook `alpha = 1e-3` has a central weight near −10⁶ and does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unscented {
    /// Spread of the points.
    pub alpha: f64,
    /// Weight of the central point in the covariance.
    pub beta: f64,
    /// Secondary scaling.
    pub kappa: f64,
}

impl Default for Unscented {
    fn default() -> Self {
        Unscented { alpha: 1.0, beta: 0.0, kappa: 0.0 }
    }
}

/// Scalar type of the network kernels. Likelihoods and sums are `f64` either way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Precision {
    /// Double precision.
    #[default]
    F64,
    /// Single precision: about 1.5 times faster, gradients good to about 1e-5. For training.
    F32,
}

/// How much of the covariance of hidden units `bmm` carries; the other kernels ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CovarianceForm {
    /// All of it: `O(H³)` per layer of width `H`.
    #[default]
    Full,
    /// `J Σ Jᵀ` and a diagonal: what a hidden unit owes to the state is exact, what it owes to
    /// nonlinearity and dropout is taken as its own. `O(H² D)` per layer.
    Structured,
    /// Structured, and of the state's covariance only the variances are kept.
    Diagonal,
}

impl CovarianceForm {
    /// What hidden flows carry beyond `J Σ Jᵀ`.
    pub(crate) fn hidden(self) -> Shape {
        match self {
            CovarianceForm::Full => Shape::Full,
            CovarianceForm::Structured | CovarianceForm::Diagonal => Shape::Diagonal,
        }
    }
}

/// What a [`Solver`] does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The transition kernel.
    pub method: Method,
    /// How `bmm` computes the moments of activations; the other kernels ignore it.
    pub moments: Moments,
    /// How much of the covariance of hidden units `bmm` carries.
    pub covariance: CovarianceForm,
    /// Scalar type of the kernels.
    pub precision: Precision,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            method: Method::Bmm,
            moments: Moments::default(),
            covariance: CovarianceForm::Full,
            precision: Precision::F64,
        }
    }
}

/// One trajectory to be predicted: where it starts, its steps, its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// The state at the beginning.
    pub start: &'a Gaussian,
    /// Step sizes; their number is the number of steps.
    pub dts: &'a [f64],
    /// Control inputs, row-major `[steps, inputs]`; empty without inputs.
    pub inputs: &'a [f64],
}

impl Rollout<'_> {
    fn check(&self, state: usize, inputs: usize) -> Result<()> {
        gaussian::check(&self.start.mean, &self.start.cov, state, "start")?;
        self.check_steps(inputs)
    }

    /// The cheap part, for callers that made sure of the start before.
    fn check_steps(&self, inputs: usize) -> Result<()> {
        if self.inputs.len() != self.dts.len() * inputs {
            dimension("control inputs (steps × inputs)", self.dts.len() * inputs, self.inputs.len())?;
        }
        for dt in self.dts {
            if !(dt.is_finite() && *dt > 0.0) {
                return Err(Error::Range {
                    what: "step size".into(),
                    value: *dt,
                    must: "finite and positive",
                });
            }
        }
        if let Some(bad) = self.inputs.iter().find(|x| !x.is_finite()) {
            return Err(Error::Range { what: "control input".into(), value: *bad, must: "finite" });
        }
        Ok(())
    }
}

/// Moments after each step. Also the type of their cotangents.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    dim: usize,
    steps: usize,
    mean: Vec<f64>,
    cov: Vec<f64>,
}

impl Trajectory {
    /// Room for `steps` Gaussians of dimension `dim`.
    pub fn zeros(dim: usize, steps: usize) -> Self {
        Trajectory { dim, steps, mean: vec![0.0; dim * steps], cov: vec![0.0; dim * dim * steps] }
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Mean after step `k` (the first step is 0).
    pub fn mean(&self, k: usize) -> &[f64] {
        &self.mean[k * self.dim..(k + 1) * self.dim]
    }

    /// Covariance after step `k`, row-major.
    pub fn cov(&self, k: usize) -> &[f64] {
        &self.cov[k * self.dim * self.dim..(k + 1) * self.dim * self.dim]
    }

    /// Mean and covariance after step `k`, to be changed.
    pub fn at_mut(&mut self, k: usize) -> (&mut [f64], &mut [f64]) {
        let d = self.dim;
        (&mut self.mean[k * d..(k + 1) * d], &mut self.cov[k * d * d..(k + 1) * d * d])
    }

    pub(crate) fn fill_zero(&mut self) {
        self.mean.fill(0.0);
        self.cov.fill(0.0);
    }

    /// The Gaussian after step `k`.
    pub fn gaussian(&self, k: usize) -> Gaussian {
        Gaussian { mean: self.mean(k).to_vec(), cov: self.cov(k).to_vec() }
    }
}

/// How often a guard had to act. All zero in ordinary use. A trajectory that fills up the lanes beside others
/// ([`Solver`]) counts in each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// A variance came out below its own series by more than rounding, and was raised to it.
    pub diagonal_raised: u64,
    /// An exponential's mean was scaled down to `e³⁰`, or its second moment cut at `e⁸⁰`.
    pub exp_clamped: u64,
    /// A pivot of a singular covariance was taken as zero (cubature, Monte Carlo start).
    pub zero_pivot: u64,
}

impl Stats {
    /// Adds what another run counted.
    pub fn add(&mut self, other: Stats) {
        self.diagonal_raised += other.diagonal_raised;
        self.exp_clamped += other.exp_clamped;
        self.zero_pivot += other.zero_pivot;
    }
}

/// A scalar function of predicted moments, and its derivatives.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The function, summed over the batch.
    pub value: f64,
    /// Its derivative in all parameters, in the order of [`NeuralSde::visit`].
    pub parameters: Vec<f64>,
    /// Its derivative in the start of each trajectory.
    pub starts: Vec<Gaussian>,
    /// Guards that acted.
    pub stats: Stats,
}

/// A neural SDE made ready for prediction and gradients by one method.
///
/// Work on a batch is shared over cores; the results do not depend on how many there are. BMM computes several
/// trajectories of a batch side by side (eight in `f32`, four in `f64`): the last digits of one may depend on
/// which others it goes with.
pub struct Solver {
    state: usize,
    inputs: usize,
    parameters: usize,
    engine: Engine,
}

impl Solver {
    /// Prepares `sde` for `options`.
    pub fn new(sde: &NeuralSde, options: Options) -> Result<Self> {
        options.moments.check()?;
        Ok(Solver {
            state: sde.state(),
            inputs: sde.inputs(),
            parameters: sde.parameter_count(),
            engine: Engine::new(sde, options)?,
        })
    }

    /// Takes over changed parameters of the same SDE, without allocating.
    pub fn load(&mut self, sde: &NeuralSde) -> Result<()> {
        dimension("parameters", self.parameters, sde.parameter_count())?;
        self.engine.load(sde);
        Ok(())
    }

    fn check(&self, batch: &[Rollout<'_>]) -> Result<()> {
        batch.iter().try_for_each(|r| r.check(self.state, self.inputs))
    }

    /// Moments after each step of each trajectory.
    pub fn solve(&self, batch: &[Rollout<'_>]) -> Result<Vec<Trajectory>> {
        Ok(self.solve_with_stats(batch)?.0)
    }

    /// Like [`solve`](Solver::solve), with the guards that acted.
    pub fn solve_with_stats(&self, batch: &[Rollout<'_>]) -> Result<(Vec<Trajectory>, Stats)> {
        let mut out = Vec::new();
        let stats = self.solve_into(batch, &mut out)?;
        Ok((out, stats))
    }

    /// Like [`solve`](Solver::solve), into the memory of an earlier result; returns the guards that acted. After an
    /// error `out` holds nothing of use.
    pub fn solve_into(&self, batch: &[Rollout<'_>], out: &mut Vec<Trajectory>) -> Result<Stats> {
        self.check(batch)?;
        self.engine.solve(self.state, self.inputs, batch, out)
    }

    /// Value and gradient of a scalar function of the moments, summed over the batch.
    ///
    /// `objective(i, trajectory, bar)` gets the moments of trajectory `i` at all its steps, returns
    /// its value and *adds* the derivatives to `bar`, which is zero at first. Of long trajectories only the
    /// states `(μ_k, Σ_k)` (the particles, for Monte Carlo) are kept; everything else is computed again.
    pub fn gradient<F>(&self, batch: &[Rollout<'_>], objective: F) -> Result<Gradient>
    where
        F: Fn(usize, &Trajectory, &mut Trajectory) -> Result<f64> + Sync,
    {
        self.check(batch)?;
        self.engine.gradient(self.state, self.inputs, self.parameters, batch, &objective)
    }

    /// A predictor for one trajectory after another that does not allocate.
    pub fn predictor(&self) -> Predictor<'_> {
        Predictor { solver: self, work: self.engine.work() }
    }

    /// The particles of a Monte Carlo solver after each step, `[steps, samples, D]`, for trajectory
    /// `index` of a batch; an error for the other methods.
    pub fn sample(&self, index: usize, rollout: Rollout<'_>) -> Result<Vec<f64>> {
        rollout.check(self.state, self.inputs)?;
        self.engine.sample(self.inputs, index, rollout)
    }
}

/// Predicts one trajectory at a time into memory it is given: no allocation after the first call,
/// for control loops.
pub struct Predictor<'a> {
    solver: &'a Solver,
    work: EngineWork,
}

impl Predictor<'_> {
    /// Writes the moments after each step into `out`, which has as many steps as `rollout`.
    ///
    /// The start is taken as it is: make sure of it once with [`Gaussian::new`].
    pub fn predict(&mut self, rollout: Rollout<'_>, out: &mut Trajectory) -> Result<()> {
        let Solver { state, inputs, engine, .. } = self.solver;
        if rollout.start.mean.len() != *state || rollout.start.cov.len() != state * state {
            dimension("start: mean", *state, rollout.start.mean.len())?;
            dimension("start: entries of the covariance", state * state, rollout.start.cov.len())?;
        }
        rollout.check_steps(*inputs)?;
        if out.steps != rollout.dts.len() || out.dim != *state {
            dimension("steps of the output", rollout.dts.len(), out.steps)?;
            dimension("dimension of the output", *state, out.dim)?;
        }
        engine.predict(*inputs, &mut self.work, rollout, out)
    }

    /// Guards that acted since the predictor was made.
    pub fn stats(&mut self) -> Stats {
        self.work.stats()
    }
}
