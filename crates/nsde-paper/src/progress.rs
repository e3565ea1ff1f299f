//! Progress over cells: a bar with an ETA on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Counts finished cells.
pub struct Progress {
    bar: Option<ProgressBar>,
    label: &'static str,
    first: usize,
    total: usize,
    done: AtomicUsize,
    began: Instant,
}

impl Progress {
    /// Begins at `first` of `total`.
    pub fn new(label: &'static str, first: usize, total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64).with_position(first as u64);
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} ETA {eta} {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(label);
            bar.reset_eta();
            bar
        });
        Progress { bar, label, first, total, done: AtomicUsize::new(first), began: Instant::now() }
    }

    /// A cell is finished.
    pub fn finished(&self, name: &str) {
        let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
            bar.set_message(name.to_owned());
        } else {
            let each = self.began.elapsed().as_secs_f64() / (done - self.first) as f64;
            let left = each * (self.total - done) as f64;
            eprintln!("{}: {done}/{} ({left:.0} s left) {name}", self.label, self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
