//! A training run that Python drives: a slice of time at a go, so that Ctrl-C and progress are Python's own.

use crate::error::Result;
use crate::model::Model;
use nsde::train::{
    ClassificationTask, ForecastTask, Progress, RegressionTask, Task, TrainOptions, TrainState, advance,
};
use pyo3::prelude::*;
use serde_json::json;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is trained.
pub enum Job {
    Forecast {
        task: ForecastTask,
        /// The model but for its weights.
        frame: Box<nsde::Model>,
    },
    Regression(RegressionTask),
    Classification(ClassificationTask),
}

impl Job {
    fn task(&self) -> &dyn Task {
        match self {
            Job::Forecast { task, .. } => task,
            Job::Regression(task) => task,
            Job::Classification(task) => task,
        }
    }

    fn parameters(&self) -> Vec<f64> {
        match self {
            Job::Forecast { task, .. } => task.parameters(),
            Job::Regression(task) => task.parameters(),
            Job::Classification(task) => task.parameters(),
        }
    }

    fn model(&self, parameters: &[f64]) -> nsde::Result<nsde::Model> {
        match self {
            Job::Forecast { task, frame } => {
                Ok(nsde::Model { sde: task.sde(parameters)?, ..frame.as_ref().clone() })
            }
            Job::Regression(task) => task.to_model(parameters),
            Job::Classification(task) => task.to_model(parameters),
        }
    }
}

struct Run {
    job: Job,
    options: TrainOptions,
    stages: usize,
    state: TrainState,
    loss: Option<f64>,
}

/// A run and where it stands.
#[pyclass(frozen, module = "nsde._core")]
pub struct Trainer(Mutex<Run>);

impl Trainer {
    /// At the beginning.
    pub fn new(job: Job, options: TrainOptions) -> Result<Self> {
        options.check()?;
        let stages = if let Job::Forecast { task, .. } = &job { task.stages() } else { 1 };
        let state = TrainState::new(job.parameters());
        Ok(Trainer(Mutex::new(Run { job, options, stages, state, loss: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Trainer {
    /// Trains for about so many seconds; whether the run is done.
    fn run(&self, py: Python<'_>, seconds: f64) -> Result<bool> {
        let done = py.detach(|| -> nsde::Result<bool> {
            let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
            let run = &mut *self.lock();
            loop {
                match advance(run.job.task(), &run.options, run.stages, &mut run.state)? {
                    Progress::Done => return Ok(true),
                    Progress::Step { loss } => run.loss = loss.or(run.loss),
                }
                if Instant::now() >= until {
                    return Ok(run.state.step >= run.options.steps);
                }
            }
        })?;
        Ok(done)
    }

    #[getter]
    fn step(&self) -> usize {
        self.lock().state.step
    }

    #[getter]
    fn steps(&self) -> usize {
        self.lock().options.steps
    }

    /// The last loss.
    #[getter]
    fn loss(&self) -> Option<f64> {
        self.lock().loss
    }

    /// The best validation score, and its step.
    #[getter]
    fn best(&self) -> Option<(f64, usize)> {
        self.lock().state.best_score
    }

    /// `(step, stage, loss, validation)` of each validation.
    #[getter]
    fn history(&self) -> Vec<(usize, usize, f64, Option<f64>)> {
        self.lock().state.history.iter().map(|r| (r.step, r.stage, r.loss, r.validation)).collect()
    }

    /// The best model so far: the best validated weights, else their average.
    fn model(&self) -> Result<Model> {
        let run = self.lock();
        let mut model = run.job.model(run.state.result())?;
        let training = json!({
            "history": serde_json::to_value(&run.state.history).unwrap_or_default(),
            "best_score": run.state.best_score.map(|(score, _)| score),
            "best_step": run.state.best_score.map(|(_, step)| step),
            "steps": run.state.step,
            "skipped": run.state.skipped,
            "version": env!("CARGO_PKG_VERSION"),
        });
        model.extra.insert("training".into(), training);
        Ok(Model::new(model))
    }
}
