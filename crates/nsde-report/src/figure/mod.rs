//! The charts, one file each: a struct of data, and the function that draws it.

pub(crate) mod bars;
pub(crate) mod calibration;
pub(crate) mod coverage;
pub(crate) mod error;
pub(crate) mod fan;
pub(crate) mod lines;
pub(crate) mod loss;
pub(crate) mod phase;
pub(crate) mod pit;

use crate::layer::{DASHED, DOTTED};

/// Up to this many values a line shows each of them with a marker.
const FEW: usize = 40;
/// Height of the frame of an ordinary chart, and of one that wants to be square.
const WIDE: f64 = 230.0;
const SQUARE: f64 = 340.0;

/// `given`, or `default` where nothing was given.
fn or(given: &str, default: &str) -> String {
    if given.trim().is_empty() { default.to_owned() } else { given.to_owned() }
}

/// A share as a reader expects it: `0.95` becomes `95 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// The dash of the series at place `i`: solid as long as colours differ.
fn dash_of(i: usize) -> &'static [f64] {
    match i / crate::theme::SERIES % 3 {
        0 => &[],
        1 => DASHED,
        _ => DOTTED,
    }
}

/// The place and size of the smallest value.
fn lowest(x: &[f64], y: &[f64]) -> Option<[f64; 2]> {
    let usable = x.iter().zip(y).filter(|(x, y)| x.is_finite() && y.is_finite());
    usable.min_by(|a, b| a.1.total_cmp(b.1)).map(|(&x, &y)| [x, y])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_as_percent() {
        assert_eq!([0.5, 0.95, 0.999, 1.0].map(percent), ["50 %", "95 %", "99.9 %", "100 %"]);
    }

    #[test]
    fn the_lowest_of_equals_is_the_first_and_gaps_do_not_count() {
        assert_eq!(lowest(&[1.0, 2.0, 3.0, 4.0], &[f64::NAN, 5.0, 3.0, 3.0]), Some([3.0, 3.0]));
        assert_eq!(lowest(&[1.0], &[f64::NEG_INFINITY]), None);
    }
}
