//! Classification by an SDE as a layer (Sec. 6.3): of rows of features, or of sequences that drive it.

use super::supervised::{SupervisedTask, finite, whole_rows};
use crate::error::{Error, Result, dimension};
use crate::head::{Example, SdeLayer, SoftmaxHead};

/// Features or sequences with the number of their class, some of them held out.
pub type ClassificationTask = SupervisedTask<SoftmaxHead, usize>;

impl ClassificationTask {
    /// Takes features row by row, `[N, F]`; the rows `held_out` are for validation only.
    pub fn new(
        layer: SdeLayer<SoftmaxHead>,
        features: Vec<f64>,
        labels: Vec<usize>,
        held_out: &[usize],
    ) -> Result<Self> {
        dimension("classification of features: control inputs of the SDE", 0, layer.sde.inputs())?;
        let count = whole_rows("features", &features, layer.start.features(layer.sde.state()))?;
        dimension("labels", count, labels.len())?;
        Self::checked(layer, features, Vec::new(), labels, held_out)
    }

    /// Takes one sequence of control inputs per label, row-major `[T, U]`, each of its own length `T`.
    /// The SDE makes one step per row, from zero or from a learned start.
    pub fn from_sequences(
        layer: SdeLayer<SoftmaxHead>,
        sequences: Vec<Vec<f64>>,
        labels: Vec<usize>,
        held_out: &[usize],
    ) -> Result<Self> {
        if layer.sde.inputs() == 0 {
            let what = "control inputs of an SDE for sequences".into();
            return Err(Error::Range { what, value: 0.0, must: "at least 1" });
        }
        dimension("labels", sequences.len(), labels.len())?;
        Self::checked(layer, Vec::new(), sequences, labels, held_out)
    }

    fn checked(
        layer: SdeLayer<SoftmaxHead>,
        features: Vec<f64>,
        sequences: Vec<Vec<f64>>,
        labels: Vec<usize>,
        held_out: &[usize],
    ) -> Result<Self> {
        layer.check()?;
        finite("feature", &features)?;
        let classes = layer.head.classes();
        if let Some(bad) = labels.iter().find(|y| **y >= classes) {
            let what = format!("a label (of {classes} classes)");
            return Err(Error::Range { what, value: *bad as f64, must: "less than the number of classes" });
        }
        for inputs in &sequences {
            layer.check_example(&Example { features: &[], inputs })?;
            finite("control input", inputs)?;
        }
        Self::split(layer, features, sequences, labels, held_out)
    }

    /// Probabilities of the classes, row-major `[N, classes]`, for each row of `features`.
    pub fn predict(&self, parameters: &[f64], features: &[f64]) -> Result<Vec<f64>> {
        Ok(self.predict_rows(parameters, features)?.concat())
    }

    /// Probabilities of the classes, row-major `[N, classes]`, for each sequence.
    pub fn predict_sequences<S: AsRef<[f64]>>(
        &self,
        parameters: &[f64],
        sequences: &[S],
    ) -> Result<Vec<f64>> {
        let rows: Vec<_> = sequences.iter().map(|s| Example { features: &[], inputs: s.as_ref() }).collect();
        Ok(self.layer(parameters)?.predict(&rows)?.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{SoftmaxObjective, Start};
    use crate::layer::{Layer, Linear};
    use crate::metric::classification::evaluate;
    use crate::model::Model;
    use crate::network::Network;
    use crate::sde::{Diffusion, NeuralSde};
    use crate::solver::{Method, Options};
    use crate::train::Task;
    use crate::train::{Progress, TrainOptions, TrainState, advance};
    use nsde_check::{assert_close, directional, random_vec, seeded};

    fn layer(
        start: Start,
        inputs: usize,
        objective: SoftmaxObjective,
        activation: Layer,
    ) -> SdeLayer<SoftmaxHead> {
        let rng = &mut seeded(3);
        let drift = Network::perceptron(4 + inputs, &[16], 4, activation, 1.0, rng).unwrap();
        SdeLayer {
            start,
            sde: NeuralSde::new(4, inputs, drift, Diffusion::ConstantDiagonal(vec![0.1; 4])).unwrap(),
            head: SoftmaxHead::new(Linear::random(4, 2, rng).unwrap(), objective).unwrap(),
            dt: 0.25,
            steps: 4,
            init_var: 1e-6,
            options: Options::default(),
        }
    }

    /// Four clouds of alternating class.
    fn exclusive_or(objective: SoftmaxObjective, activation: Layer) -> ClassificationTask {
        let rng = &mut seeded(4);
        let z = random_vec(600, rng);
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for i in 0..300 {
            let (a, b) = (i & 1, i >> 1 & 1);
            features.extend([2 * a, 2 * b].iter().zip(&z[2 * i..]).map(|(c, z)| *c as f64 - 1.0 + 0.25 * z));
            labels.push(a ^ b);
        }
        let start = Start::Embedding(Linear::random(2, 4, rng).unwrap());
        ClassificationTask::new(
            layer(start, 0, objective, activation),
            features,
            labels,
            &(200..300).collect::<Vec<_>>(),
        )
        .unwrap()
    }

    /// The sign of the sum of 2 to 12 numbers.
    fn signs(activation: Layer) -> ClassificationTask {
        let rng = &mut seeded(5);
        let (mut sequences, mut labels) = (Vec::new(), Vec::new());
        while labels.len() < 300 {
            let sequence = random_vec(2 + labels.len() % 11, rng);
            let sum: f64 = sequence.iter().sum();
            if sum.abs() > 0.2 {
                labels.push(usize::from(sum > 0.0));
                sequences.push(sequence);
            }
        }
        let layer = layer(Start::Learned(vec![0.1; 4]), 1, SoftmaxObjective::Expected, activation);
        ClassificationTask::from_sequences(layer, sequences, labels, &(200..300).collect::<Vec<_>>()).unwrap()
    }

    fn train(task: &ClassificationTask, steps: usize) -> TrainState {
        let options = TrainOptions { steps, batch: 32, rate: 2e-2, average: 0.95, ..Default::default() };
        let mut state = TrainState::new(task.parameters());
        while advance(task, &options, 1, &mut state).unwrap() != Progress::Done {}
        state
    }

    #[test]
    fn gradients_of_both_kinds_of_task_match_differences() {
        for mut task in [
            exclusive_or(SoftmaxObjective::Expected, Layer::Tanh),
            exclusive_or(SoftmaxObjective::Dvi, Layer::Tanh),
            signs(Layer::Tanh),
        ] {
            for method in [Method::Bmm, Method::MonteCarlo { samples: 10, seed: 0 }] {
                task.layer.options.method = method;
                let at = task.parameters();
                let examples = [0, 7, 3, 199, 18];
                let v = random_vec(at.len(), &mut seeded(2));
                let mut gradient = vec![0.0; at.len()];
                task.gradient(&at, 0, &examples, 8, &mut gradient).unwrap();
                let f = |t: f64| {
                    let at: Vec<f64> = at.iter().zip(&v).map(|(a, v)| a + t * v).collect();
                    task.gradient(&at, 0, &examples, 8, &mut vec![0.0; at.len()]).unwrap()
                };
                let pulled: f64 = gradient.iter().zip(&v).map(|(a, b)| a * b).sum();
                assert_close(directional(f, 1e-4), pulled, 1e-6);
            }
        }
    }

    #[test]
    fn exclusive_or_is_learned_by_both_objectives() {
        for objective in [SoftmaxObjective::Expected, SoftmaxObjective::Dvi] {
            let task = exclusive_or(objective, Layer::Relu);
            let state = train(&task, 200);
            let p = task.predict(state.result(), &task.features[400..]).unwrap();
            let score = evaluate(&p, 2, &task.answers[200..]).unwrap();
            assert!(score.accuracy > 0.95, "{objective:?}: {score:?}");
            assert_close(score.nll, task.validate(state.result()).unwrap().unwrap(), 1e-12);
        }
    }

    #[test]
    fn sequences_of_different_length_are_learned() {
        let task = signs(Layer::Relu);
        let state = train(&task, 200);
        let p = task.predict_sequences(state.result(), &task.sequences[200..]).unwrap();
        let score = evaluate(&p, 2, &task.answers[200..]).unwrap();
        assert!(score.accuracy > 0.95, "{score:?}");
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                (
                    train(&signs(Layer::Relu), 5),
                    train(&exclusive_or(SoftmaxObjective::Expected, Layer::Relu), 5),
                )
            })
        };
        let ((a1, b1), (a2, b2)) = (run(1), run(2));
        assert_eq!((a1.parameters, a1.best_score), (a2.parameters, a2.best_score));
        assert_eq!((b1.parameters, b1.best_score), (b2.parameters, b2.best_score));
    }

    #[test]
    fn a_trained_model_is_saved_and_predicts_the_same() {
        let task = signs(Layer::Relu);
        let parameters = train(&task, 3).parameters;
        let file = tempfile::tempdir().unwrap();
        let path = file.path().join("signs.nsde");
        task.to_model(&parameters).unwrap().save(&path).unwrap();
        let layer =
            SdeLayer::<SoftmaxHead>::from_model(&Model::load(&path).unwrap(), task.layer.options).unwrap();
        let again =
            ClassificationTask::from_sequences(layer, task.sequences.clone(), task.answers.clone(), &[])
                .unwrap();
        assert_eq!(
            task.predict_sequences(&parameters, &task.sequences).unwrap(),
            again.predict_sequences(&again.parameters(), &task.sequences).unwrap()
        );
    }

    #[test]
    fn data_that_do_not_fit_are_refused() {
        let new = |sequences: &[&[f64]], labels: &[usize]| {
            let sequences = sequences.iter().map(|s| s.to_vec()).collect();
            let layer = layer(Start::Zero, 2, SoftmaxObjective::Expected, Layer::Relu);
            ClassificationTask::from_sequences(layer, sequences, labels.to_vec(), &[])
                .err()
                .map(|e| e.to_string())
        };
        assert_eq!(new(&[&[0.0; 2], &[0.0; 6]], &[1, 0]), None);
        assert!(new(&[&[0.0; 2]], &[2]).unwrap().contains("label"));
        assert!(new(&[&[0.0; 2]], &[0, 1]).unwrap().contains("labels"));
        assert!(new(&[&[0.0; 3]], &[0]).unwrap().contains("sequence"));
        assert!(new(&[&[]], &[0]).unwrap().contains("sequence"));
        assert!(new(&[&[0.0, f64::NAN]], &[0]).unwrap().contains("control input"));
        assert!(new(&[], &[]).unwrap().contains("train on"));
        let driven = layer(Start::Features, 2, SoftmaxObjective::Expected, Layer::Relu);
        assert!(ClassificationTask::new(driven, vec![0.0; 4], vec![0], &[]).is_err());
        let idle = layer(Start::Zero, 0, SoftmaxObjective::Expected, Layer::Relu);
        assert!(ClassificationTask::from_sequences(idle.clone(), vec![vec![]], vec![0], &[]).is_err());
        assert!(ClassificationTask::new(idle, vec![], vec![], &[]).is_err());
    }
}
