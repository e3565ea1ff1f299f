//! What an experiment is told: how large, from which seed, and where its results go.

use crate::data::Data;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

/// One start of an experiment.
#[derive(Debug)]
pub struct Run {
    /// Name of the experiment.
    pub name: &'static str,
    /// Figure or table of the paper.
    pub paper: &'static str,
    /// The small version.
    pub quick: bool,
    /// Seed of everything.
    pub seed: u64,
    /// Repetitions, if the user chose their number.
    pub runs: Option<usize>,
    /// The set, method or cell that is computed, if the user chose a part.
    pub only: Option<String>,
    /// The folder of the results.
    pub folder: PathBuf,
    /// The folder of measured data.
    pub data: Data,
    /// When this start began.
    pub began: Instant,
    /// The commits that the cells were computed by.
    pub commits: Mutex<BTreeSet<String>>,
}

impl Run {
    /// `full` in the full version, `quick` in the small one.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The number of repetitions: the user's, or else that of the version.
    pub fn repetitions(&self, full: usize, quick: usize) -> usize {
        self.runs.unwrap_or(self.size(full, quick))
    }

    /// The command that repeats this run.
    pub fn command(&self) -> String {
        let mut text = format!("cargo run --release -p nsde-paper -- {} --seed {}", self.name, self.seed);
        if let Some(n) = self.runs {
            text += &format!(" --runs {n}");
        }
        if let Some(part) = &self.only {
            text += &format!(" --only {part}");
        }
        if self.quick {
            text += " --quick";
        }
        text
    }
}
