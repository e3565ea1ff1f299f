//! The eight UCI sets of Tables 1 and 2 and their standard splits.

use crate::data::Data;
use anyhow::{Context, Result, bail};
use nsde::metric::chi_squared_quantile;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal};
use serde::Serialize;

/// A set: its names, its size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Set {
    /// Name in tables.
    pub name: &'static str,
    /// Name of its files, and in ours.
    pub slug: &'static str,
    /// Features.
    pub dim: usize,
    /// Rows.
    pub rows: usize,
    /// Splits.
    pub splits: usize,
}

/// All sets, the cheap ones first: a run that is stopped early leaves them complete.
pub const SETS: [Set; 8] = [
    Set { name: "Boston", slug: "boston", dim: 13, rows: 506, splits: 20 },
    Set { name: "Energy", slug: "energy", dim: 8, rows: 768, splits: 20 },
    Set { name: "Concrete", slug: "concrete", dim: 8, rows: 1030, splits: 20 },
    Set { name: "Wine Red", slug: "wine_red", dim: 11, rows: 1599, splits: 20 },
    Set { name: "Power", slug: "power", dim: 4, rows: 9568, splits: 20 },
    Set { name: "Kin8nm", slug: "kin8nm", dim: 8, rows: 8192, splits: 20 },
    Set { name: "Naval", slug: "naval", dim: 16, rows: 11934, splits: 20 },
    Set { name: "Protein", slug: "protein", dim: 9, rows: 45730, splits: 5 },
];

/// How features become the start of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Features {
    /// Mean 0 and deviation 1 over the training rows.
    Standard,
    /// The same, and what lies further than this from the mean is moved there.
    Clipped(f64),
    /// Normal scores of their ranks among the training rows: long tails come in, crowds are spread.
    Ranked,
}

/// A map of one feature to its normal scores, from the training rows alone.
struct Scores {
    /// Different values, ascending, and their scores.
    known: Vec<(f64, f64)>,
}

impl Scores {
    /// The score of a value is the normal quantile of its mean rank; scores have mean 0 and deviation 1 over `values`.
    fn of(mut values: Vec<f64>) -> Scores {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let mut known: Vec<(f64, f64)> = Vec::new();
        let mut counts = Vec::new();
        let mut below = 0.0;
        for equal in values.chunk_by(|a, b| a == b) {
            let count = equal.len() as f64;
            known.push((equal[0], normal_quantile((below + 0.5 * count) / n)));
            counts.push(count);
            below += count;
        }
        let mean = |f: &dyn Fn(f64) -> f64| {
            known.iter().zip(&counts).map(|((_, z), count)| count * f(*z)).sum::<f64>() / n
        };
        let centre = mean(&|z| z);
        let scale = mean(&|z| (z - centre).powi(2)).sqrt();
        let scale = if scale > 0.0 { scale } else { 1.0 };
        known.iter_mut().for_each(|(_, z)| *z = (*z - centre) / scale);
        Scores { known }
    }

    /// Between two known values on a line, beyond them the last one.
    fn at(&self, x: f64) -> f64 {
        let above = self.known.partition_point(|(value, _)| *value < x);
        match (above.checked_sub(1).map(|i| self.known[i]), self.known.get(above)) {
            (Some((a, za)), Some((b, zb))) => za + (zb - za) * (x - a) / (b - a),
            (None, Some((_, z))) => *z,
            (below, None) => below.map_or(0.0, |(_, z)| z),
        }
    }
}

/// `Φ⁻¹(p)`, by the square of a normal variable.
fn normal_quantile(p: f64) -> f64 {
    chi_squared_quantile((2.0 * p - 1.0).abs(), 1).sqrt().copysign(p - 0.5)
}

/// A set as it was read.
pub struct Table {
    dim: usize,
    rows: Vec<Vec<f64>>,
    /// The test rows of each split.
    splits: Vec<Vec<usize>>,
}

/// Rows in standard units: mean 0 and deviation 1 over the training rows of the split.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Features, `[N, D]`.
    pub x: Vec<f64>,
    /// Targets, `[N]`.
    pub y: Vec<f64>,
}

/// One split of a set.
pub struct Split {
    /// Features.
    pub dim: usize,
    /// What is learned from.
    pub train: Part,
    /// What is scored.
    pub test: Part,
    /// The deviation of the target: turns standard units into those of the data.
    pub scale: f64,
}

impl Table {
    /// Reads a set, and checks that it has the size it should have.
    pub fn read(data: &Data, set: &Set) -> Result<Table> {
        let (names, rows) = data.table(&format!("uci/{}.csv", set.slug))?;
        let file = format!("uci/{}.splits.txt", set.slug);
        let parse = |line: &str| line.split_whitespace().map(str::parse).collect::<Result<Vec<usize>, _>>();
        let splits: Result<Vec<_>, _> = data.text(&file)?.lines().map(parse).collect();
        let splits = splits.with_context(|| format!("{file}: not a row number"))?;
        if (names.len(), rows.len(), splits.len()) != (set.dim + 1, set.rows, set.splits) {
            bail!("{}: {} columns, {} rows, {} splits", set.name, names.len(), rows.len(), splits.len());
        }
        Ok(Table { dim: set.dim, rows, splits })
    }

    /// Split `number`, in standard units, with no more than `most` training rows if there is a limit.
    pub fn split(&self, number: usize, most: Option<usize>, features: Features) -> Split {
        let mut is_test = vec![false; self.rows.len()];
        self.splits[number].iter().for_each(|i| is_test[*i] = true);
        let mut train: Vec<&Vec<f64>> =
            self.rows.iter().zip(&is_test).filter(|(_, t)| !**t).map(|(r, _)| r).collect();
        train.truncate(most.unwrap_or(train.len()));
        let n = train.len() as f64;
        let mean: Vec<f64> = (0..=self.dim).map(|j| train.iter().map(|r| r[j]).sum::<f64>() / n).collect();
        let scale: Vec<f64> = (0..=self.dim)
            .map(|j| {
                let var = train.iter().map(|r| (r[j] - mean[j]).powi(2)).sum::<f64>() / n;
                // A constant column (Naval has two) says nothing, and stays at 0.
                if var > 1e-20 * (1.0 + mean[j] * mean[j]) { var.sqrt() } else { 1.0 }
            })
            .collect();
        let scores: Vec<Scores> = match features {
            Features::Ranked => {
                (0..self.dim).map(|j| Scores::of(train.iter().map(|r| r[j]).collect())).collect()
            }
            _ => Vec::new(),
        };
        let part = |rows: &[&Vec<f64>]| {
            let unit = |r: &Vec<f64>, j: usize| (r[j] - mean[j]) / scale[j];
            let feature = |r: &Vec<f64>, j: usize| match features {
                Features::Standard => unit(r, j),
                Features::Clipped(most) => unit(r, j).clamp(-most, most),
                Features::Ranked => scores[j].at(r[j]),
            };
            Part {
                x: rows.iter().flat_map(|r| (0..self.dim).map(|j| feature(r, j))).collect(),
                y: rows.iter().map(|r| unit(r, self.dim)).collect(),
            }
        };
        let test: Vec<&Vec<f64>> = self.splits[number].iter().map(|i| &self.rows[*i]).collect();
        Split { dim: self.dim, train: part(&train), test: part(&test), scale: scale[self.dim] }
    }
}

impl Part {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.y.len()
    }

    /// Fold `k` of `folds` of the rows in an order drawn from `seed`, at most `most` rows.
    pub fn fold(&self, k: usize, folds: usize, most: usize, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 43));
        for i in (1..order.len()).rev() {
            order.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
        }
        order.into_iter().skip(k).step_by(folds).take(most).collect()
    }

    /// All rows `copies` times, each time with other normal noise of this deviation on the answers. Trained on them, a model
    /// expects the variance of the noise on top of what it finds, and no row is fitted more closely than that.
    pub fn blurred(&self, deviation: f64, copies: usize, seed: u64) -> Result<Part> {
        let noise = Normal::new(0.0, deviation)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (1 << 45));
        let mut part = Part::default();
        for _ in 0..copies {
            part.x.extend_from_slice(&self.x);
            part.y.extend(self.y.iter().map(|y| y + noise.sample(&mut rng)));
        }
        Ok(part)
    }

    /// The rows not in `held_out`, and those in it.
    pub fn divide(&self, held_out: &[usize]) -> (Part, Part) {
        let dim = self.x.len() / self.rows();
        let mut out = vec![false; self.rows()];
        held_out.iter().for_each(|i| out[*i] = true);
        let pick = |want: bool| {
            let rows = (0..self.rows()).filter(|i| out[*i] == want);
            Part {
                x: rows.clone().flat_map(|i| self.x[i * dim..(i + 1) * dim].to_vec()).collect(),
                y: rows.map(|i| self.y[i]).collect(),
            }
        };
        (pick(false), pick(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_standardised_by_its_training_rows_alone() {
        let rows = vec![vec![1.0, 7.0, 10.0], vec![3.0, 7.0, 30.0], vec![9.0, 7.0, 20.0]];
        let table = Table { dim: 2, rows, splits: vec![vec![2]] };
        let split = table.split(0, None, Features::Standard);
        assert_eq!((split.train.x, split.train.y), (vec![-1.0, 0.0, 1.0, 0.0], vec![-1.0, 1.0]));
        assert_eq!((split.test.x, split.test.y, split.scale), (vec![7.0, 0.0], vec![0.0], 10.0));
        assert_eq!(table.split(0, None, Features::Clipped(4.0)).test.x, vec![4.0, 0.0]);
    }

    #[test]
    fn ranks_become_normal_scores() {
        let scores = Scores::of(vec![1.0, 8.0, 1000.0, 2.0, 8.0]);
        let plain: Vec<f64> = [0.1, 0.3, 0.6, 0.6, 0.9].map(normal_quantile).to_vec();
        assert!((plain[0] + 1.2815515655446004).abs() < 1e-9 && (plain[4] - 1.2815515655446004).abs() < 1e-9);
        let mean = plain.iter().sum::<f64>() / 5.0;
        let scale = (plain.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
        for (x, z) in [1.0, 2.0, 8.0, 8.0, 1000.0].into_iter().zip(plain) {
            assert!((scores.at(x) - (z - mean) / scale).abs() < 1e-12);
        }
        assert_eq!(scores.at(0.0), scores.at(1.0));
        assert_eq!(scores.at(1e6), scores.at(1000.0));
        assert!((scores.at(5.0) - 0.5 * (scores.at(2.0) + scores.at(8.0))).abs() < 1e-12);
        assert_eq!(Scores::of(vec![3.0; 4]).at(3.0), 0.0);
    }

    #[test]
    fn blurred_rows_keep_their_features_and_answer_with_noise() {
        let part = Part { x: vec![1.0, 2.0, 3.0, 4.0], y: vec![5.0, -7.0] };
        let blurred = part.blurred(0.3, 4000, 2).unwrap();
        assert_eq!((blurred.rows(), &blurred.x[7996..8000]), (8000, &[1.0, 2.0, 3.0, 4.0][..]));
        for (i, answer) in part.y.iter().enumerate() {
            let noise = || blurred.y.iter().skip(i).step_by(2).map(|y| y - answer);
            assert!((noise().sum::<f64>() / 4000.0).abs() < 0.02);
            assert!((noise().map(|e| e * e).sum::<f64>() / 4000.0 - 0.09).abs() < 0.01);
        }
        assert_ne!(blurred.y[0], blurred.y[2]);
    }

    #[test]
    fn folds_share_out_the_rows() {
        let part = Part { x: vec![0.0; 20], y: (0..10).map(f64::from).collect() };
        let mut all: Vec<usize> = (0..3).flat_map(|k| part.fold(k, 3, 10, 5)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        let (rest, held) = part.divide(&[2, 7]);
        assert_eq!((rest.rows(), held.y), (8, vec![2.0, 7.0]));
    }
}
