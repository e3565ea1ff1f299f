//! Regression by an SDE as a layer (Sec. 6.2): maximum likelihood of targets given features.
//!
//! # Departs from the paper
//! The paper prints argmax E[p]; the likelihood is argmax E[log p].

use super::supervised::{SupervisedTask, finite, whole_rows};
use crate::error::{Result, dimension};
use crate::head::{Head, LinearHead, SdeLayer};

/// Features `[N, F]` and targets `[N, O]` to be fitted, some of them held out.
///
/// Everything is in the units it is given in: standardise before, and add `Σ log std` of the targets to a
/// likelihood that shall be in their old units.
pub type RegressionTask<H = LinearHead> = SupervisedTask<H, Vec<f64>>;

impl<H: Head<Target = [f64]>> RegressionTask<H> {
    /// Takes features and targets row by row; the rows `held_out` are for validation only.
    pub fn new(
        layer: SdeLayer<H>,
        features: Vec<f64>,
        targets: Vec<f64>,
        held_out: &[usize],
    ) -> Result<Self> {
        layer.check()?;
        dimension("regression: control inputs of the SDE", 0, layer.sde.inputs())?;
        let outputs = layer.head.targets();
        let count = whole_rows("targets", &targets, outputs)?;
        dimension("features of all rows", count * layer.start.features(layer.sde.state()), features.len())?;
        finite("feature", &features)?;
        finite("target", &targets)?;
        let targets = targets.chunks(outputs).map(<[f64]>::to_vec).collect();
        Self::split(layer, features, Vec::new(), targets, held_out)
    }

    /// What the head predicts of the targets for each row of `features`.
    pub fn predict(&self, parameters: &[f64], features: &[f64]) -> Result<Vec<H::Prediction>> {
        self.predict_rows(parameters, features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Start;
    use crate::layer::{Layer, Linear};
    use crate::model::Model;
    use crate::network::Network;
    use crate::sde::{Diffusion, NeuralSde};
    use crate::solver::{Method, Options};
    use crate::train::Task;
    use crate::train::{Progress, TrainOptions, TrainState, advance};
    use nsde_check::{assert_close, directional, random_vec, seeded};

    /// `y = sin 2x + (0.05 + 0.3 |x|) z`, and a layer `1 → 4 → 1`.
    fn wave(method: Method, activation: Layer) -> RegressionTask {
        let rng = &mut seeded(1);
        let features: Vec<f64> = random_vec(400, rng);
        let noise = random_vec(400, rng);
        let targets =
            features.iter().zip(&noise).map(|(x, z)| (2.0 * x).sin() + (0.05 + 0.3 * x.abs()) * z).collect();
        let drift = Network::perceptron(4, &[20], 4, activation.clone(), 1.0, rng).unwrap();
        let mut noise = Network::perceptron(4, &[10], 4, activation, 1.0, rng).unwrap().layers().to_vec();
        noise.push(Layer::Softplus);
        let noise = Network::new(4, noise).unwrap();
        let layer = SdeLayer {
            start: Start::Embedding(Linear::random(1, 4, rng).unwrap()),
            sde: NeuralSde::new(4, 0, drift, Diffusion::Diagonal(noise)).unwrap(),
            head: LinearHead::new(Linear::random(4, 1, rng).unwrap()),
            dt: 0.25,
            steps: 4,
            init_var: 1e-6,
            options: Options { method, ..Default::default() },
        };
        RegressionTask::new(layer, features, targets, &(300..400).collect::<Vec<_>>()).unwrap()
    }

    fn train(task: &RegressionTask, steps: usize) -> TrainState {
        let options = TrainOptions { steps, batch: 32, rate: 2e-2, average: 0.95, ..Default::default() };
        let mut state = TrainState::new(task.parameters());
        while advance(task, &options, 1, &mut state).unwrap() != Progress::Done {}
        state
    }

    #[test]
    fn gradient_of_the_task_matches_differences() {
        for method in [Method::Bmm, Method::MonteCarlo { samples: 30, seed: 1 }] {
            let task = wave(method, Layer::Tanh);
            let at = task.parameters();
            let examples = [3, 0, 299, 17, 3];
            let v = random_vec(at.len(), &mut seeded(2));
            let mut gradient = vec![0.0; at.len()];
            let value = task.gradient(&at, 0, &examples, 8, &mut gradient).unwrap();
            let f = |t: f64| {
                let at: Vec<f64> = at.iter().zip(&v).map(|(a, v)| a + t * v).collect();
                task.gradient(&at, 0, &examples, 8, &mut vec![0.0; at.len()]).unwrap()
            };
            let pulled: f64 = gradient.iter().zip(&v).map(|(a, b)| a * b).sum();
            assert_close(directional(f, 1e-4), pulled, 1e-6);
            let other = task.gradient(&at, 0, &examples, 9, &mut gradient).unwrap();
            assert_eq!(value == other, method == Method::Bmm, "only samples depend on the seed");
        }
    }

    #[test]
    fn training_learns_mean_and_spread() {
        let task = wave(Method::Bmm, Layer::Relu);
        let targets = &task.answers[300..].concat();
        let mean = targets.iter().sum::<f64>() / 100.0;
        let var = targets.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 100.0;
        let constant = 0.5 * ((2.0 * std::f64::consts::PI * var).ln() + 1.0);
        let state = train(&task, 300);
        let (score, _) = state.best_score.unwrap();
        assert!(score < constant - 0.4, "NLL {score}, a constant Gaussian has {constant}");
        let y = task.predict(state.result(), &[0.0, 2.0]).unwrap();
        assert!(y[0].cov[0] < 0.25 * y[1].cov[0], "the noise grows with |x|: {y:?}");
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| train(&wave(Method::Bmm, Layer::Relu), 5))
        };
        let (one, two) = (run(1), run(2));
        assert_eq!(one.parameters, two.parameters);
        assert_eq!(one.best_score, two.best_score);
    }

    #[test]
    fn a_trained_model_is_saved_and_predicts_the_same() {
        let task = wave(Method::Bmm, Layer::Relu);
        let parameters = train(&task, 3).parameters;
        let file = tempfile::tempdir().unwrap();
        let path = file.path().join("wave.nsde");
        task.to_model(&parameters).unwrap().save(&path).unwrap();
        let layer =
            SdeLayer::<LinearHead>::from_model(&Model::load(&path).unwrap(), task.layer.options).unwrap();
        let again = RegressionTask::new(layer, task.features.clone(), task.answers.concat(), &[]).unwrap();
        assert_eq!(again.parameters(), parameters);
        let points = [-1.0, 0.0, 0.7];
        assert_eq!(
            task.predict(&parameters, &points).unwrap(),
            again.predict(&again.parameters(), &points).unwrap()
        );
        assert_eq!(again.validate(&parameters).unwrap(), None);
    }

    #[test]
    fn data_that_do_not_fit_are_refused() {
        let layer = wave(Method::Bmm, Layer::Relu).layer;
        let new = |features: Vec<f64>, targets: Vec<f64>, held_out: &[usize]| {
            RegressionTask::new(layer.clone(), features, targets, held_out).err().map(|e| e.to_string())
        };
        assert_eq!(new(vec![0.0; 3], vec![0.0; 3], &[1, 1]), None);
        assert!(new(vec![0.0; 2], vec![0.0; 3], &[]).unwrap().contains("features"));
        assert!(new(vec![0.0; 3], vec![0.0; 3], &[3]).unwrap().contains("held-out row"));
        assert!(new(vec![0.0; 2], vec![0.0; 2], &[0, 1]).unwrap().contains("train on"));
        assert!(new(vec![f64::NAN], vec![0.0], &[]).unwrap().contains("feature"));
        assert!(new(vec![0.0], vec![f64::INFINITY], &[]).unwrap().contains("target"));
        let task = wave(Method::Bmm, Layer::Relu);
        assert!(task.predict(&task.parameters()[1..], &[0.0]).is_err());
    }
}
