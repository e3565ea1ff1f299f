//! Weights chosen by forecasts that are longer than those they are trained on: what a few steps ahead looks good may run away later.

use nsde::data::Dataset;
use nsde::metric::Score;
use nsde::train::{ForecastTask, Task};
use nsde::{Gaussian, Options, Result, Rollout, Solver};

/// A training that is looked at with forecasts of its own over the data held out.
pub struct Look<'a> {
    /// The training.
    pub task: &'a ForecastTask,
    /// How it is forecast.
    pub options: Options,
    /// The data, in the units of the model, which have no inputs.
    pub held_out: &'a Dataset,
    /// Rows that are forecast, from starts as many rows apart.
    pub rows: usize,
    /// Time between rows.
    pub dt: f64,
    /// Variance of a start.
    pub init_var: f64,
    /// Whether the model has no uncertainty.
    pub certain: bool,
}

impl Task for Look<'_> {
    fn examples(&self, stage: usize) -> usize {
        self.task.examples(stage)
    }

    fn gradient(
        &self,
        parameters: &[f64],
        stage: usize,
        examples: &[usize],
        seed: u64,
        gradient: &mut [f64],
    ) -> Result<f64> {
        self.task.gradient(parameters, stage, examples, seed, gradient)
    }

    /// Mean negative log-likelihood of a row; its squared error where a model has no uncertainty.
    fn validate(&self, parameters: &[f64]) -> Result<Option<f64>> {
        let dim = self.held_out.dim();
        let dts = vec![self.dt; self.rows];
        let pieces: Vec<&[f64]> = self
            .held_out
            .series
            .iter()
            .flat_map(|s| s.values.windows((self.rows + 1) * dim).step_by(self.rows * dim))
            .collect();
        let starts = pieces
            .iter()
            .map(|piece| Gaussian::isotropic(piece[..dim].to_vec(), self.init_var))
            .collect::<Result<Vec<_>>>()?;
        let batch: Vec<Rollout<'_>> =
            starts.iter().map(|start| Rollout { start, dts: &dts, inputs: &[] }).collect();
        let paths = Solver::new(&self.task.sde(parameters)?, self.options)?.solve(&batch)?;
        let (mut sum, mut count) = (0.0, 0_u32);
        for (piece, path) in pieces.iter().zip(&paths) {
            for (k, x) in piece.chunks(dim).skip(1).enumerate() {
                if self.certain {
                    sum += path.mean(k).iter().zip(x).map(|(m, x)| (m - x).powi(2)).sum::<f64>();
                } else if let Some(score) = Score::new(&path.gaussian(k), x)? {
                    sum += score.nll;
                }
                count += 1;
            }
        }
        Ok((count > 0).then(|| sum / f64::from(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standard::dataset;
    use nsde::data::Series;
    use nsde::train::{Objective, WindowOptions};
    use nsde::{Diffusion, Layer, Linear, Network, NeuralSde, Scaling};

    /// What a look at a walk without drift has, with steps of this deviation, over two rows from each start.
    fn look(values: &[f64], noise: Option<f64>) -> f64 {
        let times = (0..values.len()).map(|n| n as f64).collect();
        let series = Series { name: "a".into(), times, values: values.to_vec(), inputs: Vec::new() };
        let data = dataset(&["x".into()], &[], vec![series]);
        let still = Layer::Linear(Linear::new(1, 1, vec![0.0], vec![0.0]).unwrap());
        let drift = Network::new(1, vec![still]).unwrap();
        let diffusion = noise.map_or(Diffusion::None, |noise| Diffusion::ConstantDiagonal(vec![noise]));
        let sde = NeuralSde::new(1, 0, drift, diffusion).unwrap();
        let scaling = Scaling::new(vec![0.0], vec![1.0]).unwrap();
        let cut = WindowOptions { horizon: 1, max_dt: 1.0, init_var: 0.0, stride: 1 };
        let (options, objective) = (Options::default(), Objective::SquaredError);
        let task =
            ForecastTask::new(sde, options, objective, &data, None, &scaling, None, &[1], &cut).unwrap();
        let held_out = &data;
        let certain = noise.is_none();
        let look = Look { task: &task, options, held_out, rows: 2, dt: 1.0, init_var: 0.0, certain };
        look.validate(&task.parameters()).unwrap().unwrap()
    }

    #[test]
    fn a_model_without_noise_has_its_squared_error() {
        // Two starts, 0 and 2; the last row is beyond the second forecast.
        assert!((look(&[0.0, 1.0, 2.0, 3.0, 5.0, 99.0], None) - (1.0 + 4.0 + 1.0 + 9.0) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_walk_has_the_likelihood_of_its_gaussians() {
        // Rows at the mean of N(0, σ²) and N(0, 2σ²).
        let row = |var: f64| 0.5 * (2.0 * std::f64::consts::PI * var).ln();
        assert!((look(&[0.0; 5], Some(0.3)) - 0.5 * (row(0.09) + row(0.18))).abs() < 1e-12);
    }
}
