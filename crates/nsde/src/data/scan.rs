//! Looks for columns that make a fit harder: missing values, constants, and copies of each other.

use super::column::Column;
use super::note::Note;
use std::collections::HashMap;

/// Rows, evenly spread, over which columns are compared for near equality: bounds the cost for wide tables.
const SAMPLE: usize = 256;

/// Fewer rows than these say nothing about a correlation.
const FEWEST_ROWS: usize = 8;

/// From this correlation on, two columns count as nearly the same.
const NEARLY_ONE: f64 = 0.9999;

/// Notes on all columns; none of them is entirely missing. Cost `O(N·D + 256·D²)`.
pub(super) fn scan(states: &[Column], inputs: &[Column]) -> Vec<Note> {
    let mut notes = Vec::new();
    for column in states {
        let (count, rows) = (column.values.iter().filter(|x| x.is_nan()).count(), column.values.len());
        if count > 0 {
            notes.push(Note::Missing { column: column.name.clone(), count, rows });
        }
    }
    for column in states.iter().chain(inputs) {
        notes.extend(
            constant(&column.values).map(|value| Note::Constant { column: column.name.clone(), value }),
        );
    }
    let varying: Vec<&Column> = states.iter().filter(|column| constant(&column.values).is_none()).collect();
    let copy_of = copies(&varying);
    for (second, first) in copy_of.iter().enumerate() {
        if let Some(first) = first {
            let (first, second) = (varying[*first].name.clone(), varying[second].name.clone());
            notes.push(Note::Identical { first, second });
        }
    }
    let originals: Vec<&Column> =
        (0..varying.len()).filter(|n| copy_of[*n].is_none()).map(|n| varying[n]).collect();
    notes.extend(near_copies(&originals));
    notes
}

/// The value of a column that has only one.
fn constant(values: &[f64]) -> Option<f64> {
    let mut present = values.iter().copied().filter(|x| !x.is_nan());
    let first = present.next()?;
    present.all(|x| x == first).then_some(first)
}

/// For each column, the first one that it equals in every row; missing equals missing.
fn copies(columns: &[&Column]) -> Vec<Option<usize>> {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let mut seen: HashMap<u64, Vec<usize>> = HashMap::new();
    (0..columns.len())
        .map(|n| {
            let alike = seen.entry(fingerprint(&columns[n].values)).or_default();
            let equal = |m: &&usize| {
                let (a, b) = (&columns[n].values, &columns[**m].values);
                a.iter().zip(b).all(|(a, b)| same(*a, *b))
            };
            let first = alike.iter().find(equal).copied();
            if first.is_none() {
                alike.push(n);
            }
            first
        })
        .collect()
}

/// Equal for equal columns (FNV-1a over words; `−0` counts as `0`).
fn fingerprint(values: &[f64]) -> u64 {
    let word = |x: f64| if x.is_nan() { u64::MAX } else { (x + 0.0).to_bits() };
    values.iter().fold(0xcbf2_9ce4_8422_2325, |hash, x| (hash ^ word(*x)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Each column at most once, with the first earlier column that it nearly repeats.
fn near_copies(columns: &[&Column]) -> Vec<Note> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let picked: Vec<usize> = (0..rows.min(SAMPLE)).map(|n| n * rows / rows.min(SAMPLE)).collect();
    let samples: Vec<Vec<f64>> =
        columns.iter().map(|column| picked.iter().map(|row| column.values[*row]).collect()).collect();
    let near = |second: usize| {
        (0..second).find_map(|first| {
            let correlation = correlation(&samples[first], &samples[second])?;
            let (first, second) = (columns[first].name.clone(), columns[second].name.clone());
            (correlation.abs() >= NEARLY_ONE).then_some(Note::NearlyIdentical { first, second, correlation })
        })
    };
    (1..columns.len()).filter_map(near).collect()
}

/// Correlation over the rows where both are present.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    // A first pair as origin keeps the sums small against a large mean.
    let (a0, b0) = a.iter().zip(b).find(|(a, b)| !a.is_nan() && !b.is_nan())?;
    let (mut n, mut sa, mut sb, mut saa, mut sbb, mut sab) = (0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - a0, b - b0);
        if !a.is_nan() && !b.is_nan() {
            n += 1;
            sa += a;
            sb += b;
            saa += a * a;
            sbb += b * b;
            sab += a * b;
        }
    }
    let count = f64::from(n);
    let (va, vb) = (saa - sa * sa / count, sbb - sb * sb / count);
    let correlation = (sab - sa * sb / count) / (va * vb).sqrt();
    (n as usize >= FEWEST_ROWS && correlation.is_finite()).then_some(correlation.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::role::Role;

    fn column(name: &str, values: Vec<f64>) -> Column {
        let mut column = Column::new(name.into(), Role::State { order: 0, asked: false });
        column.values = values;
        column
    }

    fn wave(rows: usize, speed: f64) -> Vec<f64> {
        (0..rows).map(|n| 1e6 + (n as f64 * speed).sin()).collect()
    }

    #[test]
    fn copies_constants_and_gaps_are_found() {
        let mut gappy = wave(1000, 0.3);
        gappy[10] = f64::NAN;
        let states = [
            column("a", wave(1000, 0.3)),
            column("b", wave(1000, 0.7)),
            column("c", vec![2.5; 1000]),
            column("a again", wave(1000, 0.3)),
            column("a with a gap", gappy),
            column("minus b", wave(1000, 0.7).iter().map(|x| -3.0 * x).collect()),
        ];
        let inputs = [column("u", [vec![0.0; 999], vec![f64::NAN]].concat())];
        let text: Vec<String> = scan(&states, &inputs).iter().map(Note::to_string).collect();
        assert_eq!(
            text,
            [
                "column `a with a gap`: 0.10 % of the values are missing (1 of 1000)",
                "column `c` is constant (2.5)",
                "column `u` is constant (0)",
                "columns `a` and `a again` are equal in every row; leave one out with --state",
                "columns `a` and `a with a gap` are nearly proportional (correlation 1.000000)",
                "columns `b` and `minus b` are nearly proportional (correlation -1.000000)",
            ]
        );
    }

    #[test]
    fn few_rows_or_none_raise_no_alarm() {
        assert_eq!(scan(&[], &[]), []);
        assert_eq!(scan(&[column("a", vec![1.0, 2.0]), column("b", vec![2.0, 4.0])], &[]), []);
    }

    #[test]
    fn signed_zeros_are_equal() {
        let states = [column("a", vec![0.0, 1.0]), column("b", vec![-0.0, 1.0])];
        assert!(matches!(scan(&states, &[])[..], [Note::Identical { .. }]));
    }
}
