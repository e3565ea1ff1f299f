//! `nsde-paper summary`: one page with every cell of the paper's tables and ours beside it, from the data files of the
//! experiments.

use crate::experiment::{self, air_quality, classification, lotka_volterra, robot, uci};
use crate::method::Method;
use crate::outcome::markdown;
use crate::statistics::{mean, standard_error};
use anyhow::{Context, Result};
use nsde::train::write_atomically;
use std::path::{Path, PathBuf};

/// A data file of an experiment; empty if it was not run.
pub struct Csv {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    fn read(path: &Path) -> Result<Csv> {
        if !path.is_file() {
            return Ok(Csv { header: Vec::new(), rows: Vec::new() });
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        Ok(Csv { header: lines.next().unwrap_or_default(), rows: lines.collect() })
    }

    /// The numbers of `column` in the rows that have these values; empty cells are left out.
    pub fn values(&self, wanted: &[(&str, &str)], column: &str) -> Vec<f64> {
        let place = |name: &str| self.header.iter().position(|h| h == name);
        let Some(column) = place(column) else { return Vec::new() };
        let wanted: Vec<(Option<usize>, &str)> = wanted.iter().map(|(n, v)| (place(n), *v)).collect();
        let fits = |row: &&Vec<String>| {
            wanted.iter().all(|(at, value)| at.and_then(|i| row.get(i)).is_some_and(|cell| cell == value))
        };
        self.rows.iter().filter(fits).filter_map(|row| row.get(column)?.parse().ok()).collect()
    }
}

/// How many runs of `method` have a time: all that were finished, those without scores too.
fn finished(times: &Csv, method: Method) -> usize {
    let begin = format!("{}-run-", method.slug());
    times.rows.iter().filter(|row| row.first().is_some_and(|cell| cell.starts_with(&begin))).count()
}

/// Ours beside the paper's, and how many runs ours has.
pub fn cell(x: &[f64], factor: f64, paper: &str) -> String {
    let ours = match x.len() {
        0 => "not run".into(),
        1 => format!("**{:.2}** [1]", factor * x[0]),
        n => format!("**{:.2}({:.2})** [{n}]", factor * mean(x), factor * standard_error(x)),
    };
    if paper.is_empty() { ours } else { format!("{ours} / {paper}") }
}

/// Writes `README.md` into the folder of all results.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let mut page = String::from(
        "# The paper's tables, and ours\n\nWritten by `nsde-paper summary` from the data files of the experiments. In each cell: **ours**, mean and \
         standard error [number of runs or splits] / the paper's. A cell that was not run, or whose runs all diverged, says so.\n\n",
    );
    let scores = Csv::read(&folder.join("uci/scores.csv"))?;
    for (title, column, place) in
        [("Table 1: UCI regression, NLL", "nll", 0), ("Table 2: UCI regression, RMSE", "rmse", 1)]
    {
        page += &format!("## {title}\n\n{}", uci::summary(&scores, column, place));
    }
    let scores = Csv::read(&folder.join("classification/scores.csv"))?;
    page += &format!(
        "## Table 3: classification of sequences, accuracy and ECE in per cent\n\n{}",
        classification::summary(&scores)
    );
    page += &format!("## Table 4: forecasts\n\n{}", forecasts(folder)?);
    page += DIFFERENCES;
    page += "## All experiments\n\n";
    let rows: Vec<Vec<String>> = experiment::ALL
        .iter()
        .map(|e| {
            let link = match folder.join(e.name).join("README.md").is_file() {
                true => format!("[{0}]({0}/README.md)", e.name),
                false => format!("{} (not run)", e.name),
            };
            vec![link, e.paper.into(), e.about.into()]
        })
        .collect();
    page += &markdown(&["experiment", "paper", "what it shows"], &rows);
    let file = folder.join("README.md");
    write_atomically(&file, (page.trim_end().to_owned() + "\n").as_bytes())?;
    Ok(file)
}

/// What differs from the paper in all tables, and why.
const DIFFERENCES: &str = "## What differs, and why\n\nThe paper leaves dropout rates, learning rates, epochs, time steps and the number of test \
    particles open; ours are chosen on validation parts of the training data, or fixed beforehand and stated on each page. Its \
    runs, seeds and IMDB splits are not published. Wine Red and Naval have 11 and 16 features, not 22 and 26; Protein has five \
    standard splits. Dropout, DVI, LSTM, Transformer and diffWGP are our own implementations, run on the same data as the neural SDEs; the \
    paper copies the figures of the first two and the last from their authors. Its robot data were not at hand: the columns of the robot are from another arm, and can be compared within themselves only. The \
    34 columns of air quality have rank 30, so their NLL rests on the noise each model adds; its page has the 30 independent ones \
    too, and another start of the forecast: the paper does not say where its own starts, and it decides the scores. Its year was not \
    trained on; copies of the training rows in later years are our answer to that, searched for like the rest. It is one stretch of two days; that page has two days of every week of 2016 as well. ECE here is the \
    standard one, which the paper's figures seem not to be. We train in single precision with the series \
    of moments in place of the printed formula, which is wrong in places (docs/departures.md).\n\n";

/// Table 4.
fn forecasts(folder: &Path) -> Result<String> {
    type Published = fn(Method) -> [&'static str; 2];
    let columns: [(&str, &str, usize, Published); 4] = [
        ("Lotka–Volterra", "lotka-volterra/scores.csv", 10, lotka_volterra::published),
        ("Air quality", "air-quality/scores.csv", 138, air_quality::published),
        ("Robot, same motion", "robot/scores-same.csv", 50, robot::published_same),
        ("Robot, transfer", "robot/scores-transfer.csv", 50, robot::published_transfer),
    ];
    let mut header = vec!["method".to_owned()];
    let mut rows: Vec<Vec<String>> = Method::ALL.iter().map(|m| vec![m.name().to_owned()]).collect();
    for (name, file, few, published) in columns {
        let file = folder.join(file);
        let scores = Csv::read(&file)?;
        let times = Csv::read(&file.with_file_name("times.csv"))?;
        header.extend([format!("{name}: MSE"), "NLL".into()]);
        for (row, method) in rows.iter_mut().zip(Method::ALL) {
            let prediction = method.predictions()[0];
            let few = few.to_string();
            let particles = if prediction == "particles" { few.as_str() } else { "" };
            let wanted = [("trained", method.slug()), ("predicted", prediction), ("particles", particles)];
            let paper = published(method);
            for (column, paper) in ["mse", "nll"].into_iter().zip(paper) {
                let x = scores.values(&wanted, column);
                // Points have no likelihood, and diffWGP is in one column of the paper's table only.
                let nothing = (column == "nll" && prediction == "mean") || (x.is_empty() && paper == "–");
                let shown = cell(&x, 1.0, paper);
                row.push(match x.is_empty() && finished(&times, method) > 0 {
                    _ if nothing => "–".into(),
                    true => shown.replace("not run", "diverged"),
                    false => shown,
                });
            }
        }
    }
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    Ok(markdown(&names, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_picked_from_a_data_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scores.csv");
        std::fs::write(&file, "set,flow,nll\na,2,1.5\na,,7\na,2,2.5\nb,2,\n").unwrap();
        let csv = Csv::read(&file).unwrap();
        let x = csv.values(&[("set", "a"), ("flow", "2")], "nll");
        assert_eq!(cell(&x, 1.0, "2.37(0.03)"), "**2.00(0.50)** [2] / 2.37(0.03)");
        assert_eq!(cell(&csv.values(&[("set", "b")], "nll"), 1.0, ""), "not run");
    }

    #[test]
    fn a_run_without_scores_diverged() {
        let folder = tempfile::tempdir().unwrap();
        let air = folder.path().join("air-quality");
        std::fs::create_dir(&air).unwrap();
        std::fs::write(air.join("times.csv"), "cell,seconds\ncubature-run-0,250.9\n").unwrap();
        let page = std::fs::read_to_string(write(folder.path()).unwrap()).unwrap();
        assert!(page.contains("diverged / 37.84(0.39)") && page.contains("not run / 34.30(0.50)"), "{page}");
    }

    #[test]
    fn a_page_without_results_marks_every_cell() {
        let folder = tempfile::tempdir().unwrap();
        let page = std::fs::read_to_string(write(folder.path()).unwrap()).unwrap();
        assert!(page.contains("not run / 2.37(0.03)") && page.contains("not run / 34.30(0.50)"), "{page}");
    }
}
