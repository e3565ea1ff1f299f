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
