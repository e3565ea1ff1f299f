//! Where and when a result was made: processor, commit, date.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processor and number of cores.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What is said of results that tell nothing of their sources.
pub fn unknown() -> String {
    "unknown".into()
}

/// The commit of the sources, "+ changes" if they differ from it. Results do not count as sources.
pub fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return unknown() };
    match git(&["status", "--porcelain", "--", ":/", ":(top,exclude)results"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} + changes"),
    }
}

/// Today's date, UTC.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date(seconds / 86_400)
}

/// The date `days` after 1970-01-01.
fn date(mut days: u64) -> String {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, want) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_408, "2025-11-16")] {
            assert_eq!(super::date(days), want);
        }
    }
}
