//! Polylines: gaps where data are missing, and no more points than can be seen.

use crate::scene::Point;

/// Below this many points a line is left as it is.
const MANY: usize = 1500;
/// Width of the columns a longer line is reduced to, in units of the page.
const COLUMN: f64 = 0.4;

/// The runs of present points; a missing one ends a run.
pub(crate) fn runs<T>(points: impl Iterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut runs = vec![Vec::new()];
    for point in points {
        match point {
            Some(point) => runs.last_mut().expect("never empty").push(point),
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// `line` with at most four points in every column: the first, the lowest, the highest and the last.
///
/// What is drawn covers the same pixels. A line that turns back in `x`, as in a phase portrait, stays as it
/// is.
pub(crate) fn thinned(line: Vec<Point>) -> Vec<Point> {
    if line.len() < MANY || line.windows(2).any(|w| w[1][0] < w[0][0]) {
        return line;
    }
    let mut out = Vec::new();
    for column in line.chunk_by(|a, b| (a[0] / COLUMN).floor() == (b[0] / COLUMN).floor()) {
        let by_height = |&i: &usize, &j: &usize| column[i][1].total_cmp(&column[j][1]);
        let lowest = (0..column.len()).max_by(by_height).expect("columns hold points");
        let highest = (0..column.len()).min_by(by_height).expect("columns hold points");
        let mut kept = [0, lowest, highest, column.len() - 1];
        kept.sort();
        for (i, &k) in kept.iter().enumerate() {
            if i == 0 || kept[i - 1] != k {
                out.push(column[k]);
            }
        }
    }
    out
}

/// The outline of a band through `(x, lower, upper)`: along the upper edge, and back along the lower one.
pub(crate) fn outline(run: &[[f64; 3]]) -> [Vec<Point>; 2] {
    let upper = thinned(run.iter().map(|&[x, _, high]| [x, high]).collect());
    let lower = thinned(run.iter().map(|&[x, low, _]| [x, low]).collect());
    [lower, upper]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_points_cut_a_line() {
        let points = [None, Some(1), Some(2), None, None, Some(3), None];
        assert_eq!(runs(points.into_iter()), [vec![1, 2], vec![3]]);
        assert!(runs([None::<i32>, None].into_iter()).is_empty());
    }

    #[test]
    fn a_long_line_keeps_its_ends_and_extremes() {
        let mut line: Vec<Point> = (0..100_000).map(|i| [i as f64 * 0.004, (i as f64 * 0.1).sin()]).collect();
        line[54_321][1] = 7.0;
        let thin = thinned(line.clone());
        assert!(thin.len() <= 4 * 1002 && thin.len() > 1000, "{}", thin.len());
        assert_eq!((thin.first(), thin.last()), (line.first(), line.last()));
        assert!(thin.contains(&line[54_321]));
        assert!(thin.windows(2).all(|w| w[0][0] <= w[1][0]));
    }

    #[test]
    fn a_line_that_turns_back_is_kept() {
        let circle: Vec<Point> =
            (0..5000).map(|i| [(i as f64 * 0.01).cos(), (i as f64 * 0.01).sin()]).collect();
        assert_eq!(thinned(circle.clone()), circle);
    }
}
