//! A run that is killed again and again, and goes on each time.

use nsde::Model;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Kills the run that `fit` starts (it writes a model to the path it is given) at `kills` moments spread over the
/// time it takes; in the end its weights are those of a run that nobody touched, and nothing is left behind.
pub fn resumes_to_the_same_bits(dir: &Path, kills: usize, fit: impl Fn(&Path) -> Command) {
    let whole = dir.join("whole.safetensors");
    let began = Instant::now();
    assert!(fit(&whole).status().unwrap().success());
    let full = began.elapsed().as_secs_f64();

    let broken = dir.join("broken.safetensors");
    let mut random = 12345u64;
    for _ in 0..kills {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        let mut child = fit(&broken).arg("--resume").spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(full * 0.5 * share));
        let finished = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        // Whatever the moment: what is there is whole.
        if broken.exists() {
            Model::load(&broken).unwrap();
        }
        if finished {
            std::fs::remove_file(&broken).unwrap();
        }
    }
    assert!(fit(&broken).arg("--resume").status().unwrap().success());
    assert_eq!(weights(&whole), weights(&broken));
    let leftovers: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| n.contains("checkpoint") && !n.ends_with(".tmp"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

/// The bits of every weight, those of a head included.
fn weights(path: &Path) -> Vec<u64> {
    let model = Model::load(path).unwrap();
    let others = model.extra_tensors.values().flat_map(|t| &t.values);
    model.sde.parameters().iter().chain(others).map(|x| x.to_bits()).collect()
}
