//! The examples of a table: rows, or series of rows, with or without the answers.

use super::meta::{Kind, Meta};
use super::text::Table;
use anyhow::{Result, bail};
use std::collections::HashMap;

/// Examples in the units of the data.
pub struct Examples {
    /// The names of the sequences; none if every row is an example.
    pub names: Vec<String>,
    /// The features of a row, or of all the rows of a sequence.
    pub features: Vec<Vec<f64>>,
    /// What a regression should say.
    pub targets: Vec<Vec<f64>>,
    /// What a classification should say.
    pub labels: Vec<usize>,
}

impl Examples {
    /// Reads the features only. Sequences are told apart by `series_column`, else by the model's.
    pub fn read(table: &Table, meta: &Meta, series_column: Option<&String>) -> Result<Self> {
        Ok(Self::grouped(table, meta, series_column)?.0)
    }

    /// Reads the features and the answers.
    pub fn with_answers(table: &Table, meta: &Meta, series_column: Option<&String>) -> Result<Self> {
        let (mut all, example) = Self::grouped(table, meta, series_column)?;
        all.targets = table.numbers(&meta.targets)?;
        if let Some(label) = &meta.label {
            all.labels = all.classes(table, meta, label, &example)?;
        }
        Ok(all)
    }

    /// The features, and for each row the number of its example.
    fn grouped(table: &Table, meta: &Meta, series_column: Option<&String>) -> Result<(Self, Vec<usize>)> {
        let rows = table.numbers(&meta.features)?;
        let column = series_column.or(meta.series_column.as_ref()).filter(|_| meta.kind == Kind::Sequences);
        let mut names = Vec::new();
        let example: Vec<usize> = match column {
            None => (0..rows.len()).collect(),
            Some(column) => {
                let mut index = HashMap::new();
                let mut number = |name| {
                    *index.entry(name).or_insert_with(|| {
                        names.push(String::from(name));
                        names.len() - 1
                    })
                };
                table.texts(column)?.into_iter().map(&mut number).collect()
            }
        };
        let mut features = vec![Vec::new(); example.iter().max().map_or(0, |last| last + 1)];
        rows.iter().zip(&example).for_each(|(row, i)| features[*i].extend(row));
        Ok((Examples { names, features, targets: Vec::new(), labels: Vec::new() }, example))
    }

    /// The class of each example; all rows of a sequence must agree.
    fn classes(&self, table: &Table, meta: &Meta, label: &str, example: &[usize]) -> Result<Vec<usize>> {
        let mut found = vec![None; self.len()];
        for ((text, (line, _)), i) in table.texts(label)?.into_iter().zip(&table.rows).zip(example) {
            let Some(class) = meta.classes.iter().position(|c| c == text) else {
                bail!(
                    "{}: line {line}: class `{text}` is not among those of the model ({})",
                    table.path,
                    meta.classes.join(", ")
                );
            };
            let first = *found[*i].get_or_insert(class);
            if first != class {
                bail!(
                    "{}: line {line}: series `{}` changes its class from `{}` to `{text}`",
                    table.path,
                    self.names[*i],
                    meta.classes[first]
                );
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Features in the units of the networks.
    pub fn scaled_features(&self, meta: &Meta) -> Vec<Vec<f64>> {
        self.features.iter().map(|x| standardise(x, &meta.feature_mean, &meta.feature_std)).collect()
    }
}

/// `(x − mean)/std`, column by column, for rows one after the other.
pub fn standardise(x: &[f64], mean: &[f64], std: &[f64]) -> Vec<f64> {
    let d = mean.len().max(1);
    x.iter().enumerate().map(|(i, x)| (x - mean[i % d]) / std[i % d]).collect()
}

/// Mean and deviation of the columns of rows of `width`; a constant column has deviation one.
pub fn scaling<'a>(parts: impl Iterator<Item = &'a Vec<f64>> + Clone, width: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = || parts.clone().flat_map(|p| p.chunks_exact(width.max(1)));
    let n = rows().count().max(1) as f64;
    let mean: Vec<f64> = (0..width).map(|i| rows().map(|r| r[i]).sum::<f64>() / n).collect();
    let std = |i: usize| {
        let s = (rows().map(|r| (r[i] - mean[i]).powi(2)).sum::<f64>() / n).sqrt();
        if s > 1e-12 * mean[i].abs() && s.is_normal() { s } else { 1.0 }
    };
    let std = (0..width).map(std).collect();
    (mean, std)
}
