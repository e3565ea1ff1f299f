//! Cells: the pieces of an experiment, each saved as soon as it is finished, so that a second start goes on.

use crate::machine;
use crate::progress::Progress;
use crate::run::Run;
use anyhow::{Context, Result};
use nsde::train::write_atomically;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A finished cell as it is saved.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// What it was computed from; another one makes the cell void.
    key: serde_json::Value,
    /// The sources it was computed by.
    #[serde(default = "machine::unknown")]
    commit: String,
    seconds: f64,
    value: serde_json::Value,
}

/// A finished cell.
#[derive(Clone, Debug)]
pub struct Done<T> {
    /// Its result.
    pub value: T,
    /// How long it took to compute, in this start or an earlier one.
    pub seconds: f64,
}

/// Whether cells share the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// All cores work on different cells.
    Together,
    /// One cell after the other: for cells that use all cores, or measure time.
    InTurn,
}

impl Run {
    /// Computes `work` for every cell that is not finished yet, and returns all of them in the order of
    /// `cells`. A cell is a name, made of letters, digits and hyphens, and what `work` needs to know.
    ///
    /// `settings` is everything else that the results depend on: if it changes, or the seed, cells are
    /// computed again. Results pass through JSON, so a number that is not finite must be an `Option`.
    pub fn cells<C, T>(
        &self,
        order: Order,
        settings: &impl Serialize,
        cells: &[(String, C)],
        work: impl Fn(&C) -> Result<T> + Sync,
    ) -> Result<Vec<Done<T>>>
    where
        C: Serialize + Sync,
        T: Serialize + DeserializeOwned + Send,
    {
        let done = self.some_cells(order, settings, cells, cells.len(), work)?;
        done.into_iter().map(|d| d.context("a part was chosen of what has none")).collect()
    }

    /// The same, but computes only those of the first `most` cells that are in the part the user chose. Of the others it
    /// returns those that are finished.
    pub fn some_cells<C, T>(
        &self,
        order: Order,
        settings: &impl Serialize,
        cells: &[(String, C)],
        most: usize,
        work: impl Fn(&C) -> Result<T> + Sync,
    ) -> Result<Vec<Option<Done<T>>>>
    where
        C: Serialize + Sync,
        T: Serialize + DeserializeOwned + Send,
    {
        // What names a method is not the beginning of another's name: `bmm` is not `bmm-plus`.
        let exact = |part: &str| cells.iter().any(|(name, _)| is_run_of(name, part));
        let part = |name: &str| match self.only.as_deref() {
            Some(part) if exact(part) => is_run_of(name, part),
            Some(part) => belongs(name, part),
            None => true,
        };
        let chosen: Vec<bool> =
            cells.iter().enumerate().map(|(n, (name, _))| n < most && part(name)).collect();
        self.chosen_cells(order, settings, cells, &chosen, work)
    }

    /// The same, but computes those that are `chosen`.
    pub fn chosen_cells<C, T>(
        &self,
        order: Order,
        settings: &impl Serialize,
        cells: &[(String, C)],
        chosen: &[bool],
        work: impl Fn(&C) -> Result<T> + Sync,
    ) -> Result<Vec<Option<Done<T>>>>
    where
        C: Serialize + Sync,
        T: Serialize + DeserializeOwned + Send,
    {
        let settings = serde_json::to_value(settings)?;
        let version = env!("CARGO_PKG_VERSION");
        let key = |cell: &C| -> Result<serde_json::Value> {
            Ok(serde_json::json!({
                "version": version, "seed": self.seed, "settings": settings, "cell": cell,
            }))
        };
        let mut found = Vec::with_capacity(cells.len());
        for (name, cell) in cells {
            found.push(self.finished(name, &key(cell)?));
        }
        let count = chosen.iter().zip(&found).filter(|(chosen, f)| **chosen || f.is_some()).count();
        let skipped = found.iter().flatten().count();
        if skipped > 0 {
            eprintln!("{}: {skipped} of {count} cells were finished before (--fresh begins anew)", self.name);
        }
        let commit = machine::commit();
        let progress = Progress::new(self.name, skipped, count);
        let one = |(n, found): (usize, Option<Done<T>>)| {
            let (name, cell) = &cells[n];
            if found.is_some() || !chosen[n] {
                return Ok(found);
            }
            let began = Instant::now();
            let value = work(cell).with_context(|| format!("cell {name}"))?;
            let saved = Saved {
                key: key(cell)?,
                commit: commit.clone(),
                seconds: began.elapsed().as_secs_f64(),
                value: serde_json::to_value(value)?,
            };
            let text = serde_json::to_string(&saved)?;
            write_atomically(&self.cell_file(name), text.as_bytes())?;
            progress.finished(name);
            self.computed_by(commit.clone());
            // What was saved and what is returned are the same thing, read in the same way.
            let value = serde_json::from_value(saved.value)
                .with_context(|| format!("cell {name}: its result does not survive JSON"))?;
            Ok(Some(Done { value, seconds: saved.seconds }))
        };
        let all = found.into_iter().enumerate();
        match order {
            Order::Together => together(all, one),
            Order::InTurn => all.map(one).collect(),
        }
    }

    /// Whether what the user chose is all, this method, or one of its runs.
    pub fn concerns(&self, method: &str) -> bool {
        self.only.as_deref().is_none_or(|part| part == method || is_run_of(part, method))
    }

    fn cell_file(&self, name: &str) -> std::path::PathBuf {
        self.folder.join("cells").join(format!("{name}.json"))
    }

    /// The cell as saved by an earlier start with the same key.
    fn finished<T: DeserializeOwned>(&self, name: &str, key: &serde_json::Value) -> Option<Done<T>> {
        let text = std::fs::read_to_string(self.cell_file(name)).ok()?;
        let saved: Saved = serde_json::from_str(&text).ok()?;
        let value = serde_json::from_value(saved.value).ok()?;
        if saved.key != *key {
            return None;
        }
        self.computed_by(saved.commit);
        Some(Done { value, seconds: saved.seconds })
    }

    fn computed_by(&self, commit: String) {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).insert(commit);
    }

    /// The commit of the sources, and those of the cells where they are others.
    pub fn commit(&self) -> String {
        let here = machine::commit();
        let cells = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.iter().all(|c| *c == here) {
            return here;
        }
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        format!("{here}; the cells were computed by {}", cells.join(", "))
    }
}

/// Whether a cell belongs to what a user named: a set (`energy`), a method on it (`energy-bmm`, which is not
/// `energy-bmm-plus`), or the cell itself.
fn belongs(name: &str, part: &str) -> bool {
    let Some(rest) = name.strip_prefix(part) else { return false };
    rest.is_empty() || is_run_of(name, part) || (rest.starts_with('-') && !part.contains('-'))
}

/// Whether a cell is `part` but for the number of its run or split.
fn is_run_of(name: &str, part: &str) -> bool {
    let Some(rest) = name.strip_prefix(part) else { return false };
    let number = rest.strip_prefix("-run").unwrap_or(rest).strip_prefix('-');
    number.is_some_and(|n| n.parse::<usize>().is_ok())
}

/// The finished cells of an experiment in one file, a line each: with it, results that took many starts on several
/// machines can be taken up from the repository.
const PACK: &str = "cells.jsonl";

/// Puts the finished cells of `folder` into its pack.
pub fn pack(folder: &Path) -> Result<()> {
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("cells"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            let cell: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            lines.insert(name.clone(), serde_json::to_string(&(name, cell))? + "\n");
        }
    }
    let text: String = lines.into_values().collect();
    Ok(write_atomically(&folder.join(PACK), text.as_bytes())?)
}

/// Takes those cells out of the pack of `folder` that are not there as files.
pub fn unpack(folder: &Path) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(folder.join(PACK)) else { return Ok(()) };
    for line in text.lines() {
        let (name, cell): (String, serde_json::Value) =
            serde_json::from_str(line).with_context(|| format!("{PACK}: a line is not a cell"))?;
        let file = folder.join("cells").join(format!("{name}.json"));
        if !file.exists() {
            write_atomically(&file, serde_json::to_string(&cell)?.as_bytes())?;
        }
    }
    Ok(())
}

/// Does `work` for all items, on as many threads as rayon has, and returns the results in order.
///
/// A thread takes the first item that is left and has a pool of its own for what the item would share: on
/// a common pool a thread that waits inside one item begins another, and neither is done soon.
fn together<I: Send, T: Send>(
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let left = Mutex::new(items.enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let thread = || -> Result<Vec<(usize, T)>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let mut done = Vec::new();
        while let Some((n, item)) = take() {
            done.push((n, pool.install(|| work(item))?));
        }
        Ok(done)
    };
    let threads: Vec<Result<Vec<(usize, T)>>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..rayon::current_num_threads()).map(|_| scope.spawn(thread)).collect();
        all.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut all = Vec::new();
    for done in threads {
        all.extend(done?);
    }
    all.sort_by_key(|(n, _)| *n);
    Ok(all.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_set_a_method_or_a_cell() {
        let yes = [
            ("energy-bmm-1", "energy"),
            ("energy-bmm-plus-1", "energy"),
            ("energy-bmm-1", "energy-bmm"),
            ("energy-bmm-plus-1", "energy-bmm-plus"),
            ("mnist-lstm-run-0", "mnist-lstm"),
            ("energy-bmm-1", "energy-bmm-1"),
        ];
        assert!(yes.iter().all(|(name, part)| belongs(name, part)));
        let no = [
            ("energy-bmm-plus-1", "energy-bmm"),
            ("energy-bmm-10", "energy-bmm-1"),
            ("energy-bmm-1", "ener"),
        ];
        assert!(!no.iter().any(|(name, part)| belongs(name, part)));
    }
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn run(folder: &std::path::Path, seed: u64) -> Run {
        std::fs::create_dir_all(folder.join("cells")).unwrap();
        let folder = folder.to_path_buf();
        let data = crate::data::Data::new(None);
        Run {
            name: "test",
            paper: "",
            quick: true,
            seed,
            runs: None,
            only: None,
            folder,
            data,
            began: Instant::now(),
            commits: Mutex::default(),
        }
    }

    #[test]
    fn finished_cells_are_skipped_until_something_changes() {
        let dir = tempfile::tempdir().unwrap();
        let cells: Vec<(String, usize)> = (0..5).map(|i| (format!("cell-{i}"), i)).collect();
        let count = AtomicUsize::new(0);
        let start = |seed: u64, settings: &str| {
            count.store(0, Ordering::SeqCst);
            let done = run(dir.path(), seed)
                .cells(Order::Together, &settings, &cells, |i| {
                    count.fetch_add(1, Ordering::SeqCst);
                    Ok((*i as f64 + 0.1) / 3.0)
                })
                .unwrap();
            let values: Vec<f64> = done.iter().map(|d| d.value).collect();
            assert_eq!(values, (0..5).map(|i| (i as f64 + 0.1) / 3.0).collect::<Vec<_>>());
            count.load(Ordering::SeqCst)
        };
        assert_eq!(start(1, "a"), 5);
        assert_eq!(start(1, "a"), 0);
        std::fs::remove_file(dir.path().join("cells/cell-3.json")).unwrap();
        assert_eq!(start(1, "a"), 1);
        assert_eq!(start(1, "b"), 5);
        assert_eq!(start(2, "b"), 5);
    }

    #[test]
    fn of_the_rest_only_what_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let cells: Vec<(String, usize)> = (0..4).map(|i| (format!("cell-{i}"), i)).collect();
        let start = |part: &str| {
            let run = Run { only: Some(part.into()), ..run(dir.path(), 1) };
            let done = run.some_cells(Order::InTurn, &"", &cells, 3, |i| Ok(*i)).unwrap();
            done.into_iter().map(|d| d.map(|d| d.value)).collect::<Vec<_>>()
        };
        assert_eq!(start("cell-2"), [None, None, Some(2), None]);
        assert_eq!(start("cell-0"), [Some(0), None, Some(2), None]);
        assert_eq!(start("cell-3"), [Some(0), None, Some(2), None]);
    }

    #[test]
    fn a_method_is_not_the_beginning_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let cells = ["bmm-run-0", "bmm-plus-run-0", "bmm-run-1"].map(|name| (name.to_owned(), name));
        let run = Run { only: Some("bmm".into()), ..run(dir.path(), 1) };
        let done = run.some_cells(Order::InTurn, &"", &cells, 3, |name| Ok(name.len())).unwrap();
        assert_eq!(done.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_method_is_concerned_by_its_name_and_its_runs() {
        let dir = tempfile::tempdir().unwrap();
        let concerns = |only: Option<&str>, method: &str| {
            Run { only: only.map(Into::into), ..run(dir.path(), 1) }.concerns(method)
        };
        assert!(concerns(None, "bmm") && concerns(Some("bmm"), "bmm") && concerns(Some("bmm-run-3"), "bmm"));
        assert!(!concerns(Some("bmm-plus"), "bmm") && !concerns(Some("bmm"), "bmm-plus"));
    }

    #[test]
    fn a_pack_brings_the_cells_back() {
        let dir = tempfile::tempdir().unwrap();
        let cells: Vec<(String, usize)> = (0..3).map(|i| (format!("cell-{i}"), i)).collect();
        let start =
            |work: fn(&usize) -> Result<f64>| run(dir.path(), 1).cells(Order::InTurn, &"", &cells, work);
        let values = |done: Vec<Done<f64>>| done.into_iter().map(|d| d.value).collect::<Vec<_>>();
        let first = values(start(|i| Ok(*i as f64 / 3.0)).unwrap());
        pack(dir.path()).unwrap();
        std::fs::remove_dir_all(dir.path().join("cells")).unwrap();
        std::fs::create_dir(dir.path().join("cells")).unwrap();
        unpack(dir.path()).unwrap();
        assert_eq!(values(start(|_| anyhow::bail!("computed again")).unwrap()), first);
    }
}
