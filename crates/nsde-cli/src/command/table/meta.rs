//! What a model of a table knows: its columns, classes and scalings, under `table` in the model file.

use anyhow::{Context, Result, bail};
use nsde::Model;
use serde::{Deserialize, Serialize};

/// Key of the model's `extra`.
pub const KEY: &str = "table";

/// What a model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Numbers, from the features of a row.
    Regression,
    /// A class, from the features of a row.
    Classification,
    /// A class, from the rows of a series.
    Sequences,
}

/// The columns of a model and their scalings, as they stand in the model file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// What is predicted.
    pub kind: Kind,
    /// Columns that are read.
    pub features: Vec<String>,
    /// Columns that are predicted by a regression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Column of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Column that tells sequences apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_column: Option<String>,
    /// Names of the classes, in the order of the head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Mean of each feature in training.
    pub feature_mean: Vec<f64>,
    /// Deviation of each feature in training.
    pub feature_std: Vec<f64>,
    /// Mean of each target in training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_mean: Vec<f64>,
    /// Deviation of each target in training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_std: Vec<f64>,
}

impl Meta {
    /// Reads it out of a model; `None` if the model is of no table.
    pub fn of(model: &Model) -> Result<Option<Self>> {
        let Some(value) = model.extra.get(KEY) else { return Ok(None) };
        let meta: Meta =
            serde_json::from_value(value.clone()).with_context(|| format!("the model's `{KEY}`"))?;
        let (f, o) = (meta.features.len(), meta.targets.len());
        let labelled = meta.label.is_some() && meta.classes.len() > 1;
        let whole = meta.feature_mean.len() == f
            && meta.feature_std.len() == f
            && meta.target_mean.len() == o
            && meta.target_std.len() == o
            && if meta.kind == Kind::Regression { o > 0 } else { labelled }
            && (meta.kind != Kind::Sequences || meta.series_column.is_some());
        if !whole {
            bail!("the model's `{KEY}`: its lists do not fit each other");
        }
        Ok(Some(meta))
    }
}
