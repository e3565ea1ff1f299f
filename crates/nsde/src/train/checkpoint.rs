//! Checkpoints: the state of a training run in one safetensors file, written atomically.

use super::adam::Adam;
use super::trainer::{Record, TrainState};
use crate::error::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// What does not fit into a tensor.
#[derive(Serialize, Deserialize)]
struct Notes {
    /// Identifies settings and data; a checkpoint of another run is refused.
    fingerprint: String,
    step: usize,
    updates: u64,
    best_score: Option<(f64, usize)>,
    stale: usize,
    skipped: usize,
    running: (f64, usize),
    history: Vec<Record>,
}

const KEY: &str = "nsde_training";
const TENSORS: [&str; 5] = ["parameters", "average", "adam.first", "adam.second", "best"];

/// Writes `bytes` to a temporary name beside `path` and renames it: readers see the old or the new
/// file, never half of one.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let result = (|| {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(io)
}

/// Saves `state` under `fingerprint`.
pub fn save(path: &Path, fingerprint: &str, state: &TrainState) -> Result<()> {
    let refuse = |why: String| Error::ModelFile { path: path.to_path_buf(), why };
    let notes = Notes {
        fingerprint: fingerprint.into(),
        step: state.step,
        updates: state.adam.updates,
        best_score: state.best_score,
        stale: state.stale,
        skipped: state.skipped,
        running: state.running,
        history: state.history.clone(),
    };
    let notes = serde_json::to_string(&notes).map_err(|e| refuse(e.to_string()))?;
    let arrays = [&state.parameters, &state.average, &state.adam.first, &state.adam.second, &state.best];
    let bytes: Vec<Vec<u8>> =
        arrays.iter().map(|a| a.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let views: Vec<(&str, TensorView<'_>)> = TENSORS
        .iter()
        .zip(&bytes)
        .map(|(name, b)| {
            Ok((*name, TensorView::new(Dtype::F64, vec![b.len() / 8], b).map_err(|e| refuse(e.to_string()))?))
        })
        .collect::<Result<_>>()?;
    let metadata = Some(HashMap::from([(KEY.to_string(), notes)]));
    let out = safetensors::serialize(views, metadata).map_err(|e| refuse(e.to_string()))?;
    write_atomically(path, &out)
}

/// Reads a state of `parameters` weights saved under the same fingerprint.
pub fn load(path: &Path, fingerprint: &str, parameters: usize) -> Result<TrainState> {
    let refuse = |why: String| Error::ModelFile { path: path.to_path_buf(), why };
    let bytes = fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    let (_, header) =
        SafeTensors::read_metadata(&bytes).map_err(|e| refuse(format!("not a checkpoint: {e}")))?;
    let notes = header
        .metadata()
        .as_ref()
        .and_then(|m| m.get(KEY))
        .ok_or_else(|| refuse("not a checkpoint of nsde; give the file that `nsde fit` wrote".into()))?;
    let notes: Notes = serde_json::from_str(notes).map_err(|e| refuse(format!("damaged checkpoint: {e}")))?;
    if notes.fingerprint != fingerprint {
        return Err(refuse(
            "this checkpoint is of a run with other settings or data; remove it to start again, or restore them".into(),
        ));
    }
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| refuse(format!("damaged checkpoint: {e}")))?;
    let array = |name: &str| -> Result<Vec<f64>> {
        let tensor = tensors.tensor(name).map_err(|_| refuse(format!("damaged checkpoint: no `{name}`")))?;
        if tensor.dtype() != Dtype::F64 || tensor.shape() != [parameters] {
            return Err(refuse(format!("`{name}` should hold {parameters} numbers (F64)")));
        }
        let values =
            tensor.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default()));
        Ok(values.collect())
    };
    let [parameters, average, first, second, best] = TENSORS;
    Ok(TrainState {
        step: notes.step,
        parameters: array(parameters)?,
        average: array(average)?,
        adam: Adam { first: array(first)?, second: array(second)?, updates: notes.updates },
        best: array(best)?,
        best_score: notes.best_score,
        stale: notes.stale,
        skipped: notes.skipped,
        running: notes.running,
        history: notes.history,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TrainState {
        let mut s = TrainState::new(vec![0.1, -0.2, 1e-300]);
        s.step = 7;
        s.best_score = Some((0.1 + 0.2, 5));
        s.running = (1.0 / 3.0, 2);
        s.history.push(Record { step: 5, stage: 0, loss: 0.7, validation: Some(0.30000000000000004) });
        s
    }

    #[test]
    fn a_state_comes_back_to_the_bit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.checkpoint");
        save(&path, "abc", &state()).unwrap();
        assert_eq!(load(&path, "abc", 3).unwrap(), state());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn another_run_or_a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.checkpoint");
        save(&path, "abc", &state()).unwrap();
        assert!(load(&path, "abd", 3).unwrap_err().to_string().contains("other settings"));
        assert!(load(&path, "abc", 4).is_err());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(load(&path, "abc", 3).is_err(), "cut to {length} bytes");
        }
    }
}
