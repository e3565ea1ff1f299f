//! A training run that may be interrupted: checkpoints, Ctrl-C, and the way to go on.

use crate::output::{misuse, note};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::Args;
use nsde::train::{self, Task, TrainOptions, TrainState, advance, load_checkpoint, save_checkpoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Updates between checkpoints, unless the settings say otherwise.
pub const CHECKPOINT_EVERY: usize = 100;

/// What to do with the checkpoint of an interrupted run.
#[derive(Clone, Copy, Debug, Args)]
pub struct ResumeArgs {
    /// Go on from the checkpoint of an interrupted run
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,
    /// Throw away the checkpoint of an interrupted run
    #[arg(long)]
    pub restart: bool,
}

/// Where a run is saved, and what to do with what is there.
pub struct Saved {
    /// The checkpoint.
    pub file: PathBuf,
    /// What was asked for.
    pub how: ResumeArgs,
}

impl Saved {
    /// The checkpoint beside the model `path` of one member of an ensemble.
    pub fn beside(path: &Path, member: usize, how: ResumeArgs) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(if member == 0 { ".checkpoint".into() } else { format!(".{member}.checkpoint") });
        Saved { file: path.with_file_name(name), how }
    }

    /// Takes the checkpoint away, now that the model is there.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    /// The state to go on from, if there is one.
    fn load(&self, fingerprint: &str, parameters: usize) -> Result<Option<TrainState>> {
        if self.how.restart || !self.file.exists() {
            return Ok(None);
        }
        if !self.how.resume {
            return misuse(format!(
                "{}: an interrupted run left this checkpoint; go on with --resume, or begin anew with --restart",
                self.file.display()
            ));
        }
        Ok(Some(load_checkpoint(&self.file, fingerprint, parameters)?))
    }
}

/// A run: what is trained is told apart from how.
pub struct Run<'a> {
    /// What the progress is called.
    pub label: &'a str,
    /// How to train.
    pub options: &'a TrainOptions,
    /// Length of the curriculum.
    pub stages: usize,
    /// Updates between checkpoints.
    pub checkpoint_every: usize,
    /// Identifies settings and data: see [`Fingerprint`].
    pub fingerprint: String,
    /// No progress.
    pub quiet: bool,
}

impl Run<'_> {
    /// Trains from `parameters`, or from where the run was. Raising `stop` ends it after the current step,
    /// with everything saved and an error that says how to go on.
    pub fn train(
        &self,
        task: &dyn Task,
        parameters: Vec<f64>,
        saved: Option<&Saved>,
        stop: &AtomicBool,
    ) -> Result<TrainState> {
        self.options.check()?;
        let found = saved.map(|s| s.load(&self.fingerprint, parameters.len())).transpose()?.flatten();
        let mut state = found.unwrap_or_else(|| TrainState::new(parameters));
        let steps = self.options.steps;
        let mut progress = Progress::new(self.label, state.step, steps, self.quiet);
        let every = self.checkpoint_every.max(1);
        let save = |s: &Saved, state: &TrainState| save_checkpoint(&s.file, &self.fingerprint, state);
        while !stop.load(Ordering::SeqCst) {
            let train::Progress::Step { loss } = advance(task, self.options, self.stages, &mut state)? else {
                break;
            };
            if let Some(s) = saved.filter(|_| state.step.is_multiple_of(every)) {
                save(s, &state)?;
            }
            progress.at(state.step, || {
                let loss = loss.map_or("not finite".into(), |l| format!("{l:.3}"));
                let best = state.best_score.map_or(String::new(), |(b, _)| format!(" validation {b:.4}"));
                format!("loss {loss}{best}")
            });
        }
        progress.finish();
        if let Some(s) = saved {
            save(s, &state)?;
        }
        if stop.load(Ordering::SeqCst) {
            let step = state.step;
            match saved {
                Some(s) => bail!(
                    "interrupted at step {step} of {steps}; {} holds everything: \
                     go on with the same command and --resume",
                    s.file.display()
                ),
                None => bail!("interrupted at step {step} of {steps}"),
            }
        }
        Ok(state)
    }
}

/// A flag that Ctrl-C raises; a second Ctrl-C ends the program at once.
pub fn interrupts() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(flag)
}

/// Identifies settings and data, so that a checkpoint is not taken for another's.
///
/// FNV-1a: nobody forges checkpoints, they only get mixed up.
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Begins with the settings.
    pub fn new(settings: &impl serde::Serialize) -> Result<Self> {
        let mut print = Fingerprint(0xcbf2_9ce4_8422_2325);
        print.eat(serde_json::to_string(settings)?.as_bytes());
        Ok(print)
    }

    /// Adds bytes.
    pub fn eat(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Adds numbers, to the last bit.
    pub fn numbers<'a>(&mut self, numbers: impl IntoIterator<Item = &'a f64>) {
        numbers.into_iter().for_each(|x| self.eat(&x.to_bits().to_le_bytes()));
    }

    /// The whole in sixteen digits.
    pub fn finish(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Where a model goes if nobody says: the name of the data with `.safetensors`, in the current folder.
pub fn default_output(data: &Path) -> PathBuf {
    let name = data.file_name().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{}.safetensors", name.split('.').next().unwrap_or("model")))
}

/// The last words of a run: size, best validation `(score, step)`, skipped steps, and where the model is.
pub fn wrote(parameters: usize, score_name: &str, best: Option<(f64, usize)>, skipped: usize, path: &Path) {
    let score = best
        .map_or(String::new(), |(s, step)| format!(", best validation {score_name} {s:.4} at step {step}"));
    let skips = if skipped > 0 { format!(", {skipped} steps skipped (not finite)") } else { String::new() };
    note(&format!("{parameters} parameters{score}{skips}; wrote {}", path.display()));
}
