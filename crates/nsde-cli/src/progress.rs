//! Progress of long work: a bar with an ETA on a terminal, plain lines elsewhere, nothing with --quiet.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Plain lines come no more often than this.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A counter of steps towards a known end.
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    label: String,
    total: u64,
    first: u64,
    began: Instant,
    last: Instant,
}

impl Progress {
    /// Begins at `first` of `total`.
    pub fn new(label: &str, first: usize, total: usize, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(total as u64).with_position(first as u64);
            let style = "{prefix} [{bar:30}] {pos}/{len} {per_sec} ETA {eta} {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(label.to_string());
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        Progress {
            bar,
            quiet,
            label: label.into(),
            total: total as u64,
            first: first as u64,
            began: now,
            last: now,
        }
    }

    /// Tells where the work is; `message` is made only if it is shown.
    pub fn at(&mut self, step: usize, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            if self.last.elapsed() > Duration::from_millis(100) {
                bar.set_message(message());
                self.last = Instant::now();
            }
        } else if !self.quiet && self.last.elapsed() > LINE_EVERY {
            self.last = Instant::now();
            let done = (step as u64).saturating_sub(self.first).max(1) as f64;
            let rate = done / self.began.elapsed().as_secs_f64();
            let left = (self.total as f64 - step as f64) / rate;
            let _ = writeln!(
                std::io::stderr(),
                "{}: {step}/{} ({rate:.1}/s, {left:.0} s left) {}",
                self.label,
                self.total,
                message()
            );
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
