//! The two problems of Table 3: digits row by row, and reviews word by word.

use crate::baseline::Sequences;
use crate::run::Run;
use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Which problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Kind {
    /// MNIST.
    Digits,
    /// IMDB.
    Reviews,
}

/// Sequences with classes.
pub struct Problem {
    /// Which.
    pub kind: Kind,
    /// The sequences.
    pub sequences: Sequences,
    /// Their classes.
    pub labels: Vec<usize>,
    /// Those that are learned from.
    pub train: Vec<usize>,
    /// Those that choose the weights that are kept.
    pub held_out: Vec<usize>,
    /// Those that are scored.
    pub test: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// Length of the longest.
    pub longest: usize,
    /// Sequences per update.
    pub batch: usize,
}

/// Width and height of a digit.
const SIDE: usize = 28;
/// Words of the dictionary: the most frequent of the training part.
const WORDS: usize = 1000;
/// Longer reviews are left out.
const LONGEST: usize = 500;

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Digits => "MNIST",
            Kind::Reviews => "IMDB",
        }
    }

    /// Its name in files.
    pub fn slug(self) -> &'static str {
        match self {
            Kind::Digits => "mnist",
            Kind::Reviews => "imdb",
        }
    }

    /// Reads it; `number` chooses the split of the reviews.
    pub fn read(self, run: &Run, number: usize) -> Result<Problem> {
        let mut problem = match self {
            Kind::Digits => digits(run)?,
            Kind::Reviews => reviews(run, number)?,
        };
        // Every twentieth sequence of the training part is held out, two thousand at most.
        problem.held_out = problem.train.iter().copied().step_by(20).take(2000).collect();
        let (step, last) = (20, problem.held_out.len());
        let kept = problem.train.iter().enumerate();
        let kept = kept.filter(|(i, _)| i % step != 0 || i / step >= last).map(|(_, row)| *row);
        problem.train = kept.collect();
        // Those that are predicted together should be of like length.
        for part in [&mut problem.held_out, &mut problem.test] {
            part.sort_by_key(|i| (problem.sequences.length(*i), *i));
        }
        if run.quick {
            problem.batch = 4;
            problem.train.truncate(50);
            problem.held_out.truncate(4);
            problem.test = problem.test.iter().copied().step_by((problem.test.len() / 20).max(1)).collect();
        }
        Ok(problem)
    }
}

/// Images and labels of an idx file.
fn idx(run: &Run, part: &str) -> Result<(Vec<Vec<f64>>, Vec<usize>)> {
    let images = run.data.read(&format!("mnist/{part}-images-idx3-ubyte.gz"))?;
    let labels = run.data.read(&format!("mnist/{part}-labels-idx1-ubyte.gz"))?;
    let count = labels.len().saturating_sub(8);
    if images.len() != 16 + count * SIDE * SIDE {
        bail!("{part}: {} bytes of images for {count} labels", images.len());
    }
    let image = |bytes: &[u8]| bytes.iter().map(|b| f64::from(*b) / 255.0).collect();
    Ok((
        images[16..].chunks(SIDE * SIDE).map(image).collect(),
        labels[8..].iter().map(|l| usize::from(*l)).collect(),
    ))
}

fn digits(run: &Run) -> Result<Problem> {
    let (mut images, mut labels) = idx(run, "train")?;
    let first = labels.len();
    let (more, names) = idx(run, "t10k")?;
    images.extend(more);
    labels.extend(names);
    Ok(Problem {
        kind: Kind::Digits,
        train: (0..first).collect(),
        held_out: Vec::new(),
        test: (first..labels.len()).collect(),
        sequences: Sequences::Rows(images, SIDE),
        labels,
        classes: 10,
        longest: SIDE,
        batch: 10,
    })
}

fn reviews(run: &Run, number: usize) -> Result<Problem> {
    let text = run.data.text("imdb/imdb_tokens.txt.gz")?;
    let (mut labels, mut all) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut numbers = line.split(' ').map(str::parse::<u32>);
        let label = numbers.next().transpose()?.unwrap_or(0);
        labels.push(label as usize);
        all.push(numbers.skip(1).collect::<Result<Vec<u32>, _>>()?);
    }
    let splits = run.data.text("imdb/imdb.splits.txt.gz")?;
    let splits: Vec<&str> = splits.lines().collect();
    let Some(line) = splits.get(number % splits.len().max(1)) else { bail!("the splits of IMDB are empty") };
    let test =
        line.split(' ').map(str::parse).collect::<Result<Vec<usize>, _>>().context("splits of IMDB")?;
    if let Some(beyond) = test.iter().find(|i| **i >= all.len()) {
        bail!("splits of IMDB: there is no review {beyond}, the last is {}", all.len() - 1);
    }
    let mut is_test = vec![false; all.len()];
    test.iter().for_each(|i| is_test[*i] = true);
    let train = (0..all.len()).filter(|i| !is_test[*i]);

    let mut counts = vec![0_u32; 20_001];
    train.clone().for_each(|i| all[i].iter().for_each(|word| counts[*word as usize] += 1));
    let mut order: Vec<usize> = (1..counts.len()).collect();
    order.sort_by_key(|word| (std::cmp::Reverse(counts[*word]), *word));
    let mut place = vec![None; counts.len()];
    order.iter().take(WORDS).enumerate().for_each(|(k, word)| place[*word] = Some(k as u32));
    let known = |words: &Vec<u32>| -> Vec<u32> { words.iter().filter_map(|w| place[*w as usize]).collect() };
    let all: Vec<Vec<u32>> = all.iter().map(known).collect();

    // Three reviews are too long, and one has no word of the dictionary.
    let longest = run.size(LONGEST, 20);
    let fits = |i: &usize| (1..=longest).contains(&all[*i].len());
    let train: Vec<usize> = train.filter(fits).collect();
    let mut order: Vec<usize> = (0..train.len()).collect();
    // The file has all reviews of one class after each other: deal them out evenly.
    order.sort_by_key(|i| i.wrapping_mul(7919) % train.len());
    let test: Vec<usize> = test.into_iter().filter(fits).collect();
    Ok(Problem {
        kind: Kind::Reviews,
        train: order.iter().map(|i| train[*i]).collect(),
        held_out: Vec::new(),
        test,
        sequences: Sequences::Words(all, WORDS),
        labels,
        classes: 2,
        longest,
        batch: 50,
    })
}
