//! The reviews of IMDB as lists of word numbers, and splits of them.

use super::{Made, text};
use anyhow::{Context, Result, ensure};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::path::Path;

/// Words that have a number; the first is the most frequent.
const WORDS: usize = 20_000;
/// Reviews of each class in each half.
const CLASS: usize = 12_500;
/// Splits that are drawn, each with a quarter of either class as its test part.
const SPLITS: usize = 5;

/// The lists of words, and splits for those who have none yet.
pub fn make(from: &Path) -> Result<Vec<Made>> {
    let stops: HashSet<String> =
        text(&from.join("stopwords/english"))?.split_whitespace().map(str::to_owned).collect();
    let mut reviews: Vec<(usize, usize, Vec<String>)> = Vec::new();
    for (origin, half) in ["train", "test"].iter().enumerate() {
        for (label, class) in ["neg", "pos"].iter().enumerate() {
            for review in folder(&from.join("aclImdb").join(half).join(class))? {
                reviews.push((label, origin, words(&review, &stops)));
            }
        }
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    reviews.iter().flat_map(|r| &r.2).for_each(|word| *counts.entry(word).or_default() += 1);
    let mut order: Vec<(&str, usize)> = counts.into_iter().collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let number: HashMap<&str, usize> =
        order.iter().take(WORDS).enumerate().map(|(n, (word, _))| (*word, n + 1)).collect();
    let mut lines = String::new();
    for (label, origin, words) in &reviews {
        write!(lines, "{label} {origin}")?;
        for n in words.iter().filter_map(|word| number.get(word.as_str())) {
            write!(lines, " {n}")?;
        }
        lines.push('\n');
    }
    let labels: Vec<usize> = reviews.iter().map(|r| r.0).collect();
    Ok(vec![
        Made { name: "imdb/imdb_tokens.txt.gz".into(), content: lines.into() },
        Made { name: "imdb/imdb.splits.txt.gz".into(), content: splits(&labels).into() },
    ])
}

/// The reviews of a folder, by their numbers: `NUMBER_RATING.txt`.
fn folder(path: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let number: Option<usize> = name.split('_').next().and_then(|n| n.parse().ok());
        if let Some(number) = number {
            files.push((number, file));
        }
    }
    ensure!(files.len() == CLASS, "{}: {} reviews in place of {CLASS}", path.display(), files.len());
    files.sort();
    files.iter().map(|(_, file)| text(file)).collect()
}

/// Its words: lower case, without marks and digits, and none that stops.
fn words(review: &str, stops: &HashSet<String>) -> Vec<String> {
    let plain = |word: &str| -> String {
        word.chars().filter(|c| (c.is_alphanumeric() || *c == '_') && !c.is_ascii_digit()).collect()
    };
    let lower = review.to_lowercase();
    lower.split_whitespace().map(plain).filter(|word| !word.is_empty() && !stops.contains(word)).collect()
}

/// The test rows of every split, half of them of each class.
fn splits(labels: &[usize]) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut out = String::new();
    for _ in 0..SPLITS {
        let mut test = Vec::new();
        for class in 0..2 {
            let mut rows: Vec<usize> = (0..labels.len()).filter(|i| labels[*i] == class).collect();
            let some = rows.len() / 4;
            for i in 0..some {
                let j = i + (rng.next_u64() % (rows.len() - i) as u64) as usize;
                rows.swap(i, j);
            }
            test.extend(rows.into_iter().take(some));
        }
        test.sort_unstable();
        out += &(test.iter().map(usize::to_string).collect::<Vec<_>>().join(" ") + "\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_marks_before_they_are_stopped() {
        let stops = ["the", "don't"].map(str::to_owned).into();
        assert_eq!(
            words("The film's 2nd\tact: don't <br />the End!", &stops),
            ["films", "nd", "act", "dont", "br", "end"]
        );
    }

    #[test]
    fn splits_have_a_quarter_of_each_class() {
        let labels: Vec<usize> = (0..80).map(|i| usize::from(i >= 40)).collect();
        let text = splits(&labels);
        let lines: Vec<Vec<usize>> =
            text.lines().map(|l| l.split(' ').map(|x| x.parse().unwrap()).collect()).collect();
        assert_eq!(lines.len(), SPLITS);
        for line in &lines {
            assert!(line.windows(2).all(|w| w[0] < w[1]));
            assert_eq!([0, 1].map(|c| line.iter().filter(|i| labels[**i] == c).count()), [10, 10]);
        }
        assert_ne!(lines[0], lines[1]);
    }
}
