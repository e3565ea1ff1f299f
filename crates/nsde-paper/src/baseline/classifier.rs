//! LSTM and Transformer as classifiers of sequences (Table 3): the class is read off after the last row.

use super::Kind;
use super::lstm::Lstm;
use super::recurrent::Network;
use super::transformer::Transformer;
use super::weights::Weights;
use crate::progress::Progress;
use candle_core::{D, Device, Result, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, ops::log_softmax};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Width of the learned embedding of a word.
const EMBEDDING: usize = 64;
/// Batches of words that are drawn together and dealt out by length, so that little of a batch is filled up.
const DRAWN: usize = 20;
/// Updates between two lines of progress.
const SHOWN: usize = 200;

/// What a sequence is made of.
pub enum Sequences {
    /// Rows of this many numbers, `[T, U]` each.
    Rows(Vec<Vec<f64>>, usize),
    /// Words, numbered below this.
    Words(Vec<Vec<u32>>, usize),
}

impl Sequences {
    /// Rows or words of sequence `i`.
    pub fn length(&self, i: usize) -> usize {
        match self {
            Sequences::Rows(all, width) => all[i].len() / width,
            Sequences::Words(all, _) => all[i].len(),
        }
    }
}

/// How to train.
#[derive(Clone, Copy, Debug)]
pub struct Schooling {
    /// Number of classes.
    pub classes: usize,
    /// Sequences per update.
    pub batch: usize,
    /// Updates of Adam.
    pub steps: usize,
    /// Learning rate at the beginning; it falls like a cosine.
    pub rate: f64,
    /// Length of the longest sequence.
    pub longest: usize,
    /// Seed of everything.
    pub seed: u64,
}

/// A classifier.
pub struct Classifier {
    kind: Kind,
    network: Box<dyn Network>,
    embedding: Option<Tensor>,
    /// Number of parameters.
    pub parameters: usize,
    classes: usize,
}

impl Classifier {
    /// Trains on the sequences numbered by `train`.
    pub fn train(
        kind: Kind,
        data: &Sequences,
        labels: &[usize],
        train: &[usize],
        how: Schooling,
    ) -> Result<Self> {
        let mut weights = Weights::new(how.seed);
        let (embedding, input) = match data {
            Sequences::Rows(_, width) => (None, *width),
            Sequences::Words(_, words) => (Some(weights.uniform(&[*words, EMBEDDING], 1.0)?), EMBEDDING),
        };
        let network: Box<dyn Network> = match kind {
            Kind::Lstm => Box::new(Lstm::new(&mut weights, input, how.classes)?),
            Kind::Transformer => Box::new(Transformer::new(&mut weights, input, how.classes, how.longest)?),
        };
        let vars = weights.into_vars();
        let parameters = vars.iter().map(|v| v.elem_count()).sum();
        let net = Classifier { kind, network, embedding, parameters, classes: how.classes };
        let mut adam =
            AdamW::new(vars, ParamsAdamW { lr: how.rate, weight_decay: 0.0, ..ParamsAdamW::default() })?;
        let mut rng = ChaCha8Rng::seed_from_u64(how.seed ^ (1 << 41));
        let mut drawn = Vec::new();
        let progress = Progress::new("training", 0, how.steps / SHOWN);
        for step in 0..how.steps {
            let phase = std::f64::consts::PI * step as f64 / how.steps as f64;
            adam.set_learning_rate(how.rate * (0.01 + 0.99 * 0.5 * (1.0 + phase.cos())));
            if drawn.is_empty() {
                drawn = draw(data, train, how.batch, &mut rng);
            }
            let batch = drawn.pop().unwrap_or_default();
            let logs = net.log_probabilities(data, &batch)?;
            let right: Vec<u32> = batch.iter().map(|i| labels[*i] as u32).collect();
            let right = Tensor::from_vec(right, (batch.len(), 1), &Device::Cpu)?;
            let loss = logs.gather(&right, 1)?.mean_all()?.neg()?;
            adam.backward_step(&loss)?;
            if (step + 1).is_multiple_of(SHOWN) {
                progress.finished(&format!("update {}, loss {:.4}", step + 1, loss.to_scalar::<f32>()?));
            }
        }
        Ok(net)
    }

    /// `[batch, classes]`: the output at the last row of each sequence. Shorter ones are filled up with zeros, which no
    /// row before them sees.
    fn log_probabilities(&self, data: &Sequences, batch: &[usize]) -> Result<Tensor> {
        let longest = batch.iter().map(|i| data.length(*i)).max().unwrap_or(1).max(1);
        let out = match self.kind {
            Kind::Transformer => {
                let rows = (0..longest).map(|n| self.row(data, batch, n)).collect::<Result<Vec<_>>>()?;
                self.network.sequence(&Tensor::stack(&rows, 1)?)?
            }
            // Row by row: a slice of the whole would make the gradient quadratic in the length.
            Kind::Lstm => {
                let mut state = self.network.begin(batch.len())?;
                let mut out = Vec::with_capacity(longest);
                for n in 0..longest {
                    out.push(self.network.step(&self.row(data, batch, n)?, &mut state)?);
                }
                Tensor::stack(&out, 1)?
            }
        };
        let last = |(b, i): (usize, &usize)| (b * longest + data.length(*i).max(1) - 1) as u32;
        let last: Vec<u32> = batch.iter().enumerate().map(last).collect();
        let last = Tensor::from_vec(last, batch.len(), &Device::Cpu)?;
        let out = out.reshape((batch.len() * longest, self.classes))?.index_select(&last, 0)?;
        log_softmax(&out, D::Minus1)
    }

    /// Row `n` of some sequences, `[batch, input]`; zeros, or the first word, after the end.
    fn row(&self, data: &Sequences, batch: &[usize], n: usize) -> Result<Tensor> {
        match (data, &self.embedding) {
            (Sequences::Words(all, _), Some(embedding)) => {
                let words: Vec<u32> = batch.iter().map(|i| all[*i].get(n).copied().unwrap_or(0)).collect();
                embedding.index_select(&Tensor::from_vec(words, batch.len(), &Device::Cpu)?, 0)
            }
            (Sequences::Rows(all, width), _) => {
                let row = |i: &usize| -> Vec<f32> {
                    match all[*i].get(n * width..(n + 1) * width) {
                        Some(row) => row.iter().map(|v| *v as f32).collect(),
                        None => vec![0.0; *width],
                    }
                };
                let values: Vec<f32> = batch.iter().flat_map(row).collect();
                Tensor::from_vec(values, (batch.len(), *width), &Device::Cpu)
            }
            (Sequences::Words(..), None) => candle_core::bail!("words without an embedding"),
        }
    }

    /// Probabilities of the classes, `[N, classes]`, for the sequences numbered by `rows`.
    pub fn predict(&self, data: &Sequences, rows: &[usize]) -> Result<Vec<f64>> {
        let mut all = Vec::with_capacity(rows.len() * self.classes);
        for batch in rows.chunks(100) {
            let p = self.log_probabilities(data, batch)?.detach().exp()?;
            all.extend(p.flatten_all()?.to_vec1::<f32>()?.iter().map(|v| f64::from(*v)));
        }
        Ok(all)
    }
}

/// Batches of random sequences, in random order; those of a batch are of like length.
fn draw(data: &Sequences, train: &[usize], batch: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let below = |most: usize, rng: &mut ChaCha8Rng| (rng.next_u64() % most as u64) as usize;
    let batches = match data {
        Sequences::Rows(..) => 1,
        Sequences::Words(..) => DRAWN,
    };
    let mut all: Vec<usize> = (0..batches * batch).map(|_| train[below(train.len(), rng)]).collect();
    all.sort_by_key(|i| data.length(*i));
    let mut drawn: Vec<Vec<usize>> = all.chunks(batch).map(<[usize]>::to_vec).collect();
    (1..batches).for_each(|n| drawn.swap(n, below(n + 1, rng)));
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_words_are_of_like_length() {
        let words: Vec<Vec<u32>> = (0..500).map(|n| vec![0; 1 + n]).collect();
        let (data, all) = (Sequences::Words(words, 1), (0..500).collect::<Vec<usize>>());
        let drawn = draw(&data, &all, 50, &mut ChaCha8Rng::seed_from_u64(1));
        let (mut filled, mut read) = (0, 0);
        for batch in &drawn {
            assert_eq!(batch.len(), 50);
            filled += 50 * batch.iter().map(|i| data.length(*i)).max().unwrap();
            read += batch.iter().map(|i| data.length(*i)).sum::<usize>();
        }
        assert_eq!(drawn.len(), DRAWN);
        assert!(filled < read + read / 10, "{filled} rows for {read} words");
        assert!((0..DRAWN - 1).any(|n| data.length(drawn[n][0]) > data.length(drawn[n + 1][0])), "sorted");
    }

    /// Whether there are more twos than ones, in sequences of 1 to 6.
    #[test]
    fn both_networks_learn_to_count() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut words = Vec::new();
        for _ in 0..200 {
            let length = 1 + rng.next_u32() % 6;
            words.push((0..length).map(|_| 1 + rng.next_u32() % 2).collect::<Vec<u32>>());
        }
        let labels: Vec<usize> =
            words.iter().map(|w| usize::from(2 * w.iter().filter(|v| **v == 2).count() > w.len())).collect();
        let data = Sequences::Words(words, 3);
        let rows: Vec<usize> = (0..200).collect();
        for kind in [Kind::Lstm, Kind::Transformer] {
            let how = Schooling { classes: 2, batch: 20, steps: 200, rate: 3e-3, longest: 6, seed: 1 };
            let net = Classifier::train(kind, &data, &labels, &rows, how).unwrap();
            let p = net.predict(&data, &rows).unwrap();
            let right = (0..200).filter(|i| (p[2 * i + 1] > 0.5) == (labels[*i] == 1)).count();
            assert!(right > 180, "{kind:?}: {right} of 200");
        }
    }
}
