//! An axis: which values it spans, where its ticks stand, and how they read.

use crate::font::Font;

/// Larger than this in size counts as missing: differences of such values would overflow.
const LARGEST: f64 = 1e300;
/// Ticks and padding reach a little farther than the data.
const FARTHEST: f64 = 1e303;
/// Smaller than this in size counts as zero: powers of ten lose digits below.
const SMALLEST: f64 = 1e-300;
/// A span this small beside its values is rounding, and the values count as equal.
const FLAT: f64 = 1e-11;
/// Free space on either side of the data, as a share of the span.
const PADDING: f64 = 0.05;
/// Ticks that need more digits than this ratio are written as differences from the first.
const OFFSET_RATIO: f64 = 1e6;

/// What a chart asks of an axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) log: bool,
    /// Ends to be kept whatever the data say.
    pub(crate) range: Option<[f64; 2]>,
    /// Values to be in view besides the data.
    pub(crate) include: Vec<f64>,
    /// No free space on the sides.
    pub(crate) tight: bool,
    /// The axis counts: where all values are whole numbers, ticks are too.
    pub(crate) counts: bool,
    /// Names of the values 0, 1, 2, … in place of numbers.
    pub(crate) categories: Vec<String>,
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..Axis::default() }
    }
}

/// The values from `lo` to `hi` laid out from 0 to 1. Always `lo < hi`, both finite, both positive if `log`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    lo: f64,
    hi: f64,
    log: bool,
    /// Ticks are whole numbers.
    whole: bool,
}

/// Where ticks stand, what they say, and what to add to the label of the axis ("×10⁵").
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) at: Vec<f64>,
    pub(crate) labels: Vec<String>,
    pub(crate) note: Option<String>,
}

impl Scale {
    /// A scale for `data`; none if there is nothing to show.
    pub(crate) fn new(axis: &Axis, data: impl Iterator<Item = f64>) -> Option<Scale> {
        let usable = |&v: &f64| v.abs() <= LARGEST && (!axis.log || v >= SMALLEST);
        let (mut lo, mut hi, mut whole) = (f64::INFINITY, f64::NEG_INFINITY, axis.counts);
        for v in data.chain(axis.include.iter().copied()).filter(usable) {
            lo = lo.min(v);
            hi = hi.max(v);
            whole &= v == v.round();
        }
        if lo > hi {
            return None;
        }
        let scale = match axis.range {
            Some([a, b]) if a < b && usable(&a) && usable(&b) => Scale { lo: a, hi: b, log: axis.log, whole },
            _ => Scale { lo, hi, log: axis.log, whole }.widened(axis.tight),
        };
        Some(scale)
    }

    fn widened(self, tight: bool) -> Scale {
        let Scale { mut lo, mut hi, log, whole } = self;
        if log {
            // By logarithms, for the quotient of the ends may overflow.
            let decades = hi.log10() - lo.log10();
            let room = if decades < 1e-9 { 2.0 } else { 10f64.powf(PADDING * decades) };
            if !tight || decades < 1e-9 {
                (lo, hi) = ((lo / room).max(SMALLEST), (hi * room).min(FARTHEST));
            }
            return Scale { lo, hi, log, whole };
        }
        let size = lo.abs().max(hi.abs());
        if hi - lo <= FLAT * size || hi - lo < SMALLEST {
            let room = if size < SMALLEST { 1.0 } else { 0.1 * size };
            return Scale { lo: lo - room, hi: hi + room, log, whole: false };
        }
        if !tight {
            let room = PADDING * (hi - lo);
            // Counts and losses start at zero; space below it would suggest there is something.
            let floor = if lo >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
            (lo, hi) = ((lo - room).max(floor), hi + room);
        }
        Scale { lo, hi, log, whole }
    }

    /// The ends of the scale.
    pub(crate) fn ends(&self) -> [f64; 2] {
        [self.lo, self.hi]
    }

    /// The same scale, its span multiplied by `factor` around the middle. Linear scales only.
    pub(crate) fn stretched(self, factor: f64) -> Scale {
        let (middle, half) = (0.5 * (self.lo + self.hi), 0.5 * factor * (self.hi - self.lo));
        Scale { lo: middle - half, hi: middle + half, ..self }
    }

    /// Place of `v`: 0 at the lower end, 1 at the upper; none if `v` cannot be shown.
    pub(crate) fn at(&self, v: f64) -> Option<f64> {
        if v.is_nan() || v.abs() > 10.0 * FARTHEST || (self.log && v < 0.1 / FARTHEST) {
            return None;
        }
        Some(if self.log {
            (v.log10() - self.lo.log10()) / (self.hi.log10() - self.lo.log10())
        } else {
            (v - self.lo) / (self.hi - self.lo)
        })
    }

    /// As many ticks as have room: `extent` is the length a label takes, as a share of the axis.
    pub(crate) fn ticks(&self, most: usize, extent: impl Fn(&str) -> f64) -> Ticks {
        let mut found = None;
        for count in (1..=most).rev() {
            let ticks = if self.log { self.log_ticks(count) } else { self.linear_ticks(count) };
            let Some(ticks) = ticks else { continue };
            let places: Vec<_> = ticks.at.iter().filter_map(|&v| self.at(v)).collect();
            let fits = places
                .windows(2)
                .zip(ticks.labels.windows(2))
                .all(|(place, label)| place[1] - place[0] >= 0.5 * (extent(&label[0]) + extent(&label[1])));
            if fits && ticks.at.len() >= 2 {
                return ticks;
            }
            if fits && !ticks.at.is_empty() {
                found.get_or_insert(ticks);
            }
        }
        found.unwrap_or(Ticks { at: vec![], labels: vec![], note: None })
    }

    fn linear_ticks(&self, count: usize) -> Option<Ticks> {
        let raw = (self.hi - self.lo) / count as f64;
        let power = 10f64.powf(raw.log10().floor());
        let mut step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * (1.0 - 1e-9))?;
        if self.whole {
            step = step.max(1.0);
        }
        let (first, last) = ((self.lo / step - 1e-9).ceil(), (self.hi / step + 1e-9).floor());
        if !(0.0..1000.0).contains(&(last - first)) {
            return None;
        }
        let at: Vec<f64> = (0..=(last - first) as usize).map(|k| (first + k as f64) * step).collect();
        let (labels, note) = read(&at, step);
        Some(Ticks { at, labels, note })
    }

    fn log_ticks(&self, count: usize) -> Option<Ticks> {
        let (lo, hi) = (self.lo.log10(), self.hi.log10());
        let (first, last) = ((lo - 1e-9).ceil() as i32, (hi + 1e-9).floor() as i32);
        let decades = (last - first + 1).max(0) as usize;
        if decades >= 3 || (decades == 2 && count <= 3) {
            let every = decades.div_ceil(count);
            let powers: Vec<i32> = (first..=last).filter(|p| p.rem_euclid(every as i32) == 0).collect();
            let plain = powers.iter().all(|p| (-3..=3).contains(p));
            let labels = powers
                .iter()
                .map(|&p| if plain { decimal(10f64.powi(p), (-p).max(0) as usize) } else { power_of_ten(p) })
                .collect();
            return Some(Ticks { at: powers.iter().map(|&p| 10f64.powi(p)).collect(), labels, note: None });
        }
        // One or two decades: 1, 2, 5, 10; less than that: as on a linear axis.
        let digits: &[f64] = if count > 4 { &[1.0, 2.0, 5.0] } else { &[1.0, 3.0] };
        let at: Vec<f64> = (first - 1..=last)
            .flat_map(|p| digits.iter().map(move |d| d * 10f64.powi(p)))
            .filter(|v| (self.lo * (1.0 - 1e-9)..=self.hi * (1.0 + 1e-9)).contains(v))
            .collect();
        if at.len() < 2 {
            return Scale { log: false, ..*self }.linear_ticks(count);
        }
        let (labels, note) = read(&at, at[0]);
        Some(Ticks { at, labels, note })
    }
}

/// The labels of `ticks`, and what they leave out.
fn read(ticks: &[f64], step: f64) -> (Vec<String>, Option<String>) {
    let size = |values: &[f64]| values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
    let mut notes = Vec::new();
    let mut values = ticks.to_vec();
    if size(&values) > OFFSET_RATIO * step {
        let offset = ticks[0];
        values.iter_mut().for_each(|v| *v -= offset);
        let shown = if offset.abs() < 1e15 { offset.to_string() } else { format!("{offset:e}") };
        notes.push(format!("offset {}", minus(&shown)));
    }
    let mut step = step;
    let largest = size(&values);
    if largest >= 1e5 || (largest > 0.0 && largest < 1e-2) {
        let power = (largest.log10() + 1e-9).floor();
        values.iter_mut().for_each(|v| *v /= 10f64.powf(power));
        step /= 10f64.powf(power);
        notes.insert(0, format!("×{}", power_of_ten(power as i32)));
    }
    let decimals = (0..8).find(|&d| {
        let scaled = step * 10f64.powi(d);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled.round() >= 1.0
    });
    let labels = values.iter().map(|&v| decimal(v, decimals.unwrap_or(8) as usize)).collect();
    (labels, (!notes.is_empty()).then(|| notes.join(", ")))
}

fn decimal(v: f64, decimals: usize) -> String {
    let shown = format!("{v:.decimals$}");
    let zero = shown.chars().all(|c| matches!(c, '-' | '0' | '.'));
    minus(if zero { shown.trim_start_matches('-') } else { &shown })
}

/// A true minus sign for the hyphen.
fn minus(number: &str) -> String {
    number.replace('-', "−")
}

fn power_of_ten(power: i32) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32('⁰' as u32 + digit as u32 - '0' as u32).expect("a digit"),
    };
    let power: String = power.to_string().chars().map(raised).collect();
    format!("10{power}")
}

/// A number for a title or a legend: three or four significant digits.
pub(crate) fn short(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return minus(&v.to_string());
    }
    let power = v.abs().log10().floor() as i32;
    let shown = match power {
        -3..=2 => format!("{v:.*}", (2 - power).min(4) as usize),
        3..=5 => format!("{v:.0}"),
        _ => format!("{v:.2e}"),
    };
    minus(&shown)
}

/// Width of the widest label.
pub(crate) fn widest(labels: &[String], font: Font) -> f64 {
    labels.iter().map(|l| font.width(l)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(log: bool, data: &[f64]) -> Scale {
        Scale::new(&Axis { log, ..Axis::default() }, data.iter().copied()).unwrap()
    }

    fn labels(log: bool, data: &[f64]) -> Ticks {
        scale(log, data).ticks(7, |_| 0.1)
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            labels(false, &[0.0, 1.0]).labels,
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"].map(String::from)[..]
        );
        assert_eq!(labels(false, &[0.0, 7.0]).labels, ["0", "2", "4", "6"].map(String::from)[..]);
        assert_eq!(
            labels(false, &[-30.0, 30.0]).labels,
            ["−30", "−20", "−10", "0", "10", "20", "30"].map(String::from)[..]
        );
    }

    #[test]
    fn very_large_small_and_distant_values_stay_readable() {
        let large = labels(false, &[0.0, 3e7]);
        assert_eq!((large.note.as_deref(), large.labels[1].as_str()), (Some("×10⁷"), "0.5"));
        assert_eq!(labels(false, &[0.0, 4e-9]).note.as_deref(), Some("×10⁻⁹"));
        let distant = labels(false, &[1e9, 1e9 + 0.5]);
        assert_eq!(distant.note.as_deref(), Some("offset 1000000000"));
        assert!(distant.labels.iter().all(|l| l.len() <= 4), "{distant:?}");
    }

    #[test]
    fn decades_read_as_powers() {
        assert_eq!(
            labels(true, &[1e-6, 1e2]).labels,
            ["10⁻⁶", "10⁻⁴", "10⁻²", "10⁰", "10²"].map(String::from)[..]
        );
        assert_eq!(labels(true, &[0.1, 100.0]).labels, ["0.1", "1", "10", "100"].map(String::from)[..]);
        assert_eq!(labels(true, &[1.0, 20.0]).labels, ["1", "2", "5", "10", "20"].map(String::from)[..]);
    }

    #[test]
    fn any_data_give_a_scale_with_ticks() {
        let cases: [&[f64]; 9] = [
            &[0.0],
            &[5.0, 5.0],
            &[1e-320, 2e-320],
            &[-1e300, 1e300],
            &[1e308, f64::NAN, f64::INFINITY, 1.0],
            &[1e9, 1e9 + 1e-7],
            &[1e-300, 1e300],
            &[-1e-12, 1e-12],
            &[0.99999, 1.00001],
        ];
        for data in cases {
            for log in [false, true] {
                let Some(scale) = Scale::new(&Axis { log, ..Axis::default() }, data.iter().copied()) else {
                    continue;
                };
                let ticks = scale.ticks(6, |_| 0.1);
                assert!(!ticks.at.is_empty(), "{data:?} {log}");
                assert!(ticks.at.iter().all(|&v| scale.at(v).is_some_and(f64::is_finite)), "{data:?} {log}");
                assert!(ticks.labels.iter().all(|l| l.chars().count() <= 9), "{data:?}: {ticks:?}");
            }
        }
        assert_eq!(Scale::new(&Axis::default(), [f64::NAN].into_iter()), None);
        assert_eq!(Scale::new(&Axis { log: true, ..Axis::default() }, [0.0, -1.0].into_iter()), None);
    }

    #[test]
    fn short_numbers_keep_three_digits() {
        let shown: Vec<_> = [0.03125, 1.2345, -12.345, 1234.6, 1e-7, 0.0].map(short).into();
        assert_eq!(shown, ["0.0312", "1.23", "−12.3", "1235", "1.00e−7", "0"]);
    }
}
