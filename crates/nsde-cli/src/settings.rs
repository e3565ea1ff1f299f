//! The settings of a fit: defaults, then a TOML file, then flags; stored in the model as they were.

use anyhow::{Context, Result};
use nsde::data::LoadOptions;
use nsde::train::{Architecture, Objective, TrainOptions};
use nsde::{CovarianceForm, Method, Moments, Options, Precision, Unscented};
use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::output::{Misuse, misuse};
use crate::training::CHECKPOINT_EVERY;

/// Everything that decides a fit, apart from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub data: DataSettings,
    pub model: ModelSettings,
    pub train: FitSettings,
    /// Somebody asked for `train.horizon`: it is kept, whatever the data are.
    #[serde(skip)]
    pub horizon_given: bool,
}

/// Which columns play which part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series_column: Option<String>,
    /// State columns; empty: every numeric column that is not used otherwise.
    pub state: Vec<String>,
    /// Control-input columns.
    pub inputs: Vec<String>,
    /// Share of the data held out for validation: the last series, or the end of a single one.
    pub validation: f64,
    /// Subtract the mean of the training part and divide by its deviation.
    pub standardise: bool,
}

impl Default for DataSettings {
    fn default() -> Self {
        DataSettings {
            time: None,
            time_unit: None,
            series_column: None,
            state: Vec::new(),
            inputs: Vec::new(),
            validation: 0.1,
            standardise: true,
        }
    }
}

impl DataSettings {
    /// The same for the reader of files.
    pub fn load_options(&self) -> Result<LoadOptions> {
        let unit =
            self.time_unit.as_ref().map(|u| u.parse().map_err(|e| Misuse(format!("--time-unit: {e}"))));
        Ok(LoadOptions {
            series_column: self.series_column.clone(),
            time_column: self.time.clone(),
            state_columns: (!self.state.is_empty()).then(|| self.state.clone()),
            input_columns: self.inputs.clone(),
            time_unit: unit.transpose()?,
        })
    }
}

/// The networks, and the steps they take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    pub networks: Architecture,
    /// Variance of a measured start, in the units of the data.
    pub init_var: f64,
    /// Largest step; 0: the median spacing of the data.
    pub max_dt: f64,
    /// Members of an ensemble.
    pub members: usize,
}

impl Default for ModelSettings {
    fn default() -> Self {
        ModelSettings { networks: Architecture::default(), init_var: 1e-6, max_dt: 0.0, members: 1 }
    }
}

/// What is optimised, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FitSettings {
    /// `likelihood` or `squarederror` (a neural ODE).
    pub objective: Objective,
    /// Rows after the start of a window; several for a curriculum.
    pub horizon: Vec<usize>,
    /// `bmm`, `cubature` or `mc`.
    pub method: String,
    /// Particles for `mc`.
    pub samples: usize,
    /// `series`, `exact` or `paper`.
    pub moments: String,
    /// Terms of the series.
    pub terms: usize,
    /// `full`, `structured` or `diagonal`.
    pub covariance: String,
    /// `f64` or `f32`.
    pub precision: String,
    /// Updates between checkpoints.
    pub checkpoint_every: usize,
    /// Number of updates, learning rate, …
    pub optimiser: TrainOptions,
}

impl Default for FitSettings {
    fn default() -> Self {
        FitSettings {
            objective: Objective::Likelihood,
            horizon: vec![10],
            method: "bmm".into(),
            samples: 64,
            moments: "series".into(),
            terms: Moments::DEFAULT_TERMS,
            covariance: "full".into(),
            precision: "f64".into(),
            checkpoint_every: CHECKPOINT_EVERY,
            optimiser: TrainOptions::default(),
        }
    }
}

impl FitSettings {
    /// The solver that training uses.
    pub fn options(&self) -> Result<Options> {
        let method = match self.method.as_str() {
            "bmm" => Method::Bmm,
            "cubature" => Method::Cubature(Unscented::default()),
            "mc" => Method::MonteCarlo { samples: self.samples, seed: self.optimiser.seed },
            other => return misuse(format!("method: `{other}` is not known; use bmm, cubature or mc")),
        };
        let moments = match self.moments.as_str() {
            "series" => Moments::Series { terms: self.terms },
            "exact" => Moments::Exact,
            "paper" => Moments::Paper,
            other => return misuse(format!("moments: `{other}` is not known; use series, exact or paper")),
        };
        let covariance = match self.covariance.as_str() {
            "full" => CovarianceForm::Full,
            "structured" => CovarianceForm::Structured,
            "diagonal" => CovarianceForm::Diagonal,
            other => {
                return misuse(format!(
                    "covariance: `{other}` is not known; use full, structured or diagonal"
                ));
            }
        };
        let precision = match self.precision.as_str() {
            "f64" => Precision::F64,
            "f32" => Precision::F32,
            other => return misuse(format!("precision: `{other}` is not known; use f64 or f32")),
        };
        Ok(Options { method, moments, covariance, precision })
    }
}

impl Settings {
    /// Reads a TOML file; unknown keys are errors, missing ones keep their defaults.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Misuse(format!("{}: {e}", path.display())))?;
        let mut settings: Settings = toml::from_str(&text).map_err(|e| {
            let line = e.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1);
            Misuse(format!("{}: line {line}: {}", path.display(), e.message()))
        })?;
        let table: toml::Table = toml::from_str(&text)?;
        settings.horizon_given = table.get("train").is_some_and(|train| train.get("horizon").is_some());
        Ok(settings)
    }

    /// The whole as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).context("settings")
    }
}
