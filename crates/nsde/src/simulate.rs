//! Processes with known equations: the data of the demo, the tests and the synthetic experiments.

use crate::data::{Dataset, Series, TimeAxis};
use crate::random;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// How a process is simulated and recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recording {
    /// Number of paths.
    pub paths: usize,
    /// Rows per path; the first is the start.
    pub rows: usize,
    /// Time between rows.
    pub spacing: f64,
    /// Euler–Maruyama steps between rows.
    pub substeps: usize,
    /// Seed; path `i` uses stream `i`.
    pub seed: u64,
}

fn dataset(columns: &[&str], series: Vec<Series>) -> Dataset {
    Dataset {
        columns: columns.iter().map(|c| (*c).to_string()).collect(),
        input_columns: Vec::new(),
        series,
        time: TimeAxis { column: Some("t".into()), ..TimeAxis::default() },
        notes: Vec::new(),
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// The stochastic Lotka–Volterra equations of Sec. 6.4,
///
/// ```text
/// dx₁ = (2x₁ − x₁x₂) dt + …     dx₂ = (x₁x₂ − 4x₂) dt + …     noise covariance [[0.05, 0.03], [0.03, 0.09]]
/// ```
///
/// all paths from (3, 5). With this additive noise some paths leave the positive quadrant, where the
/// equations mean nothing and may diverge: such a path is discarded and drawn again. The second
/// result is how many were.
pub fn lotka_volterra(how: Recording) -> (Dataset, usize) {
    let dt = how.spacing / how.substeps as f64;
    // The Cholesky factor of the noise covariance, times √dt.
    let root = dt.sqrt();
    let l11 = 0.05_f64.sqrt();
    let l21 = 0.03 / l11;
    let l22 = (0.09 - l21 * l21).sqrt();
    let draw = |rng: &mut ChaCha8Rng| -> Option<Vec<f64>> {
        let (mut x, mut y) = (3.0_f64, 5.0_f64);
        let mut values = Vec::with_capacity(2 * how.rows);
        for row in 0..how.rows {
            if row > 0 {
                for _ in 0..how.substeps {
                    let (a, b) = (root * normal(rng), root * normal(rng));
                    let both = x * y;
                    (x, y) =
                        (x + (2.0 * x - both) * dt + l11 * a, y + (both - 4.0 * y) * dt + l21 * a + l22 * b);
                    if x <= 0.0 || y <= 0.0 {
                        return None;
                    }
                }
            }
            values.extend([x, y]);
        }
        Some(values)
    };
    let drawn: Vec<(Series, usize)> = (0..how.paths)
        .into_par_iter()
        .map(|path| {
            let mut rng = random::stream(how.seed, path, 0);
            let mut refused = 0;
            loop {
                if let Some(values) = draw(&mut rng) {
                    let times = (0..how.rows).map(|n| n as f64 * how.spacing).collect();
                    let name = path.to_string();
                    return (Series { name, times, values, inputs: Vec::new() }, refused);
                }
                refused += 1;
            }
        })
        .collect();
    let refused = drawn.iter().map(|(_, r)| r).sum();
    (dataset(&["prey", "predator"], drawn.into_iter().map(|(s, _)| s).collect()), refused)
}

/// A two-dimensional Ornstein–Uhlenbeck process that spirals inwards,
///
/// ```text
/// dx₁ = (−x₁ + 2x₂) dt + 0.5 dw₁     dx₂ = (−2x₁ − x₂) dt + 0.5 dw₂
/// ```
///
/// started from its stationary law, whose covariance is `0.125·I`.
pub fn spiral(how: Recording) -> Dataset {
    let dt = how.spacing / how.substeps as f64;
    let root = 0.5 * dt.sqrt();
    let series = (0..how.paths)
        .into_par_iter()
        .map(|path| {
            let mut rng = random::stream(how.seed, path, 0);
            let sd = 0.125_f64.sqrt();
            let (mut x, mut y) = (sd * normal(&mut rng), sd * normal(&mut rng));
            let mut values = Vec::with_capacity(2 * how.rows);
            for row in 0..how.rows {
                if row > 0 {
                    for _ in 0..how.substeps {
                        let (a, b) = (root * normal(&mut rng), root * normal(&mut rng));
                        (x, y) = (x + (2.0 * y - x) * dt + a, y - (2.0 * x + y) * dt + b);
                    }
                }
                values.extend([x, y]);
            }
            let times = (0..how.rows).map(|n| n as f64 * how.spacing).collect();
            Series { name: path.to_string(), times, values, inputs: Vec::new() }
        })
        .collect();
    dataset(&["x", "y"], series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{random_vec, seeded};

    const HOW: Recording = Recording { paths: 400, rows: 9, spacing: 0.25, substeps: 50, seed: 7 };

    /// Mean, variances and covariance of prey and predator at a row.
    fn moments(points: &[[f64; 2]]) -> [f64; 5] {
        let n = points.len() as f64;
        let mean = |f: &dyn Fn(&[f64; 2]) -> f64| points.iter().map(f).sum::<f64>() / n;
        let (x, y) = (mean(&|p| p[0]), mean(&|p| p[1]));
        let product = |i: usize, j: usize| mean(&|p| (p[i] - [x, y][i]) * (p[j] - [x, y][j]));
        [x, y, product(0, 0), product(1, 1), product(0, 1)]
    }

    /// The equations of Sec. 6.4 written again, with the symmetric root of the noise covariance in place of
    /// Cholesky's: `count` points at a row, and the number of paths that left the positive quadrant before.
    fn reference(count: usize, row: usize) -> (Vec<[f64; 2]>, usize) {
        let rng = &mut seeded(99);
        let dt: f64 = HOW.spacing / HOW.substeps as f64;
        // The root of a 2×2 matrix A is (A + √det·I)/√(trace + 2√det).
        let (a, b, c) = (0.05, 0.03, 0.09);
        let det = f64::sqrt(a * c - b * b);
        let t = f64::sqrt(a + c + 2.0 * det);
        let root = [[(a + det) / t, b / t], [b / t, (c + det) / t]];
        let (mut found, mut lost) = (Vec::new(), 0);
        while found.len() < count {
            let z = random_vec(2 * row * HOW.substeps, rng);
            let mut at = [3.0, 5.0];
            let inside = z.chunks(2).all(|z| {
                let drift = [at[0] * (2.0 - at[1]), at[1] * (at[0] - 4.0)];
                for i in 0..2 {
                    at[i] += dt * drift[i] + dt.sqrt() * (root[i][0] * z[0] + root[i][1] * z[1]);
                }
                at[0] > 0.0 && at[1] > 0.0
            });
            match inside {
                true => found.push(at),
                false => lost += 1,
            }
        }
        (found, lost)
    }

    /// Sampling, 5 standard errors: of a mean `√(v/n)`, of a second moment estimated from the paths themselves.
    #[test]
    fn lotka_volterra_has_the_moments_of_an_independent_simulation() {
        let how = Recording { paths: 4000, ..HOW };
        let (data, _) = lotka_volterra(how);
        for row in [1, 3] {
            let ours: Vec<[f64; 2]> =
                data.series.iter().map(|s| [s.values[2 * row], s.values[2 * row + 1]]).collect();
            let (theirs, _) = reference(how.paths, row);
            let (a, b) = (moments(&ours), moments(&theirs));
            let n = how.paths as f64;
            let fourth = |i: usize, j: usize| {
                let term = |p: &[f64; 2]| ((p[i] - b[i]) * (p[j] - b[j])).powi(2);
                theirs.iter().map(term).sum::<f64>() / n
            };
            let variances = [
                b[2],
                b[3],
                fourth(0, 0) - b[2] * b[2],
                fourth(1, 1) - b[3] * b[3],
                fourth(0, 1) - b[4] * b[4],
            ];
            for k in 0..5 {
                let error = 5.0 * (2.0 * variances[k] / n).sqrt();
                assert!((a[k] - b[k]).abs() < error, "row {row}, moment {k}: {} {} ± {error}", a[k], b[k]);
            }
        }
    }

    #[test]
    fn lotka_volterra_starts_at_three_and_five_and_stays_positive() {
        let (data, _) = lotka_volterra(HOW);
        assert_eq!(
            (data.columns.as_slice(), data.series.len()),
            (&["prey".into(), "predator".into()][..], 400)
        );
        for (path, series) in data.series.iter().enumerate() {
            assert_eq!(
                (series.name.as_str(), &series.values[..2]),
                (path.to_string().as_str(), &[3.0, 5.0][..])
            );
            assert_eq!((series.rows(), series.times[8], series.values.len()), (9, 2.0, 18));
            assert!(series.values.iter().all(|x| x.is_finite() && *x > 0.0));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_paths_on_any_number_of_threads() {
        let run = |threads: usize, how: Recording| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| lotka_volterra(how))
        };
        assert_eq!(run(1, HOW), run(3, HOW));
        // A path depends on its number and the seed, not on how many there are.
        assert_eq!(run(1, HOW).0.series[..5], run(1, Recording { paths: 5, ..HOW }).0.series[..]);
        assert_ne!(run(1, HOW).0.series[0].values, run(1, Recording { seed: 8, ..HOW }).0.series[0].values);
    }

    /// Sampling, 5 standard errors: as large a share of the paths is lost as in the independent simulation.
    #[test]
    fn refused_paths_are_counted_and_drawn_again() {
        let (short, none) = lotka_volterra(Recording { rows: 2, ..HOW });
        assert_eq!((none, short.series.len()), (0, 400));
        let (data, refused) = lotka_volterra(Recording { rows: 81, ..HOW });
        assert_eq!(data.series.len(), 400);
        assert!(data.series.iter().all(|s| s.values.iter().all(|x| *x > 0.0)));
        let (kept, lost) = reference(400, 80);
        let share = |lost: usize| lost as f64 / (lost + kept.len()) as f64;
        let (a, b) = (share(refused), share(lost));
        let error = 5.0 * (2.0 * b * (1.0 - b) / (lost + kept.len()) as f64).sqrt();
        assert!(
            refused > 0 && (a - b).abs() < error,
            "{refused} refused, {lost} in the reference: {a} {b} ± {error}"
        );
    }
}
