//! Ensembles: models of one architecture that differ in their parameters, and the mixture they predict.
//!
//! A model file holds an ensemble of `m` as the model itself (member 0), the key `"members": m`, and the
//! parameters of the others as tensors `members.{k}.{name}`, names as in [`NeuralSde::visit`].

use crate::error::{Error, Result};
use crate::metric::Mixture;
use crate::mixture::Splitting;
use crate::model::{Model, Tensor};
use crate::sde::NeuralSde;
use crate::solver::{Method, Options, Rollout, Stats};

/// The key of the description that says how many members there are.
const KEY: &str = "members";
/// What the names of the other members' tensors begin with.
const PREFIX: &str = "members.";

/// Models that are asked together, every one with the same weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Ensemble {
    /// The members, at least one; the first carries everything optional (`extra`, other tensors).
    pub models: Vec<Model>,
}

fn refuse<T>(why: String) -> Result<T> {
    Err(Error::Architecture { net: "ensemble".into(), why })
}

/// Names and shapes of all parameters.
fn shapes(sde: &NeuralSde) -> Vec<(String, Vec<usize>)> {
    let mut list = Vec::new();
    sde.visit(&mut |name, shape, _| list.push((name, shape)));
    list
}

impl Ensemble {
    /// Takes the members of a model apart; one that holds no others is an ensemble of one.
    pub fn from_model(model: &Model) -> Result<Ensemble> {
        let count = match model.extra.get(KEY) {
            None => 1,
            Some(value) => match value.as_u64() {
                Some(count) if count >= 1 => count,
                _ => return refuse(format!("`{KEY}` is {value}, but must be a whole number, at least 1")),
            },
        };
        let mut first = model.clone();
        first.extra.shift_remove(KEY);
        first.extra_tensors.retain(|name, _| !name.starts_with(PREFIX));
        let names = shapes(&first.sde);
        let bare = Model { extra: Default::default(), extra_tensors: Default::default(), ..first.clone() };
        let mut models = vec![first];
        for k in 1..count {
            let mut flat = Vec::with_capacity(bare.sde.parameter_count());
            for (name, shape) in &names {
                let full = format!("{PREFIX}{k}.{name}");
                match model.extra_tensors.get(&full) {
                    None => {
                        return refuse(format!(
                            "{count} members are promised, but tensor `{full}` is missing"
                        ));
                    }
                    Some(tensor) if tensor.shape != *shape => {
                        let found = &tensor.shape;
                        return refuse(format!(
                            "tensor `{full}` has shape {found:?}, but must have {shape:?}"
                        ));
                    }
                    Some(tensor) => flat.extend_from_slice(&tensor.values),
                }
            }
            let mut member = bare.clone();
            member.sde.set_parameters(&flat)?;
            models.push(member);
        }
        Ok(Ensemble { models })
    }

    /// Packs all members into one model, which [`Model::save`] then writes as one file.
    ///
    /// # Errors
    /// If there is no member, or the members differ in more than their parameters.
    pub fn into_model(self) -> Result<Model> {
        let mut members = self.models.into_iter();
        let Some(mut first) = members.next() else { return refuse("there is no member".into()) };
        first.extra.shift_remove(KEY);
        first.extra_tensors.retain(|name, _| !name.starts_with(PREFIX));
        let mut count = 1;
        for (k, member) in members.enumerate().map(|(k, member)| (k + 1, member)) {
            // The same parameters make it the same network, if nothing else differs.
            let mut twin = member.sde.clone();
            if shapes(&twin) == shapes(&first.sde) {
                twin.set_parameters(&first.sde.parameters())?;
            }
            if twin != first.sde {
                return refuse(format!("member {k} has another architecture than member 0"));
            }
            let units = |m: &Model| (m.dt, m.init_var, m.scaling.clone(), m.inputs_scaling.clone());
            if units(&member) != units(&first) {
                return refuse(format!(
                    "member {k} differs from member 0 in step size, start variance or scaling"
                ));
            }
            member.sde.visit(&mut |name, shape, values| {
                let tensor = Tensor { shape, values: values.to_vec() };
                first.extra_tensors.insert(format!("{PREFIX}{k}.{name}"), tensor);
            });
            count = k + 1;
        }
        if count > 1 {
            first.extra.insert(KEY.into(), count.into());
        }
        Ok(first)
    }

    /// For each rollout the law after each step, in the units of the data: a mixture with one component per
    /// member, all of the same weight.
    pub fn predict(&self, options: Options, batch: &[Rollout<'_>]) -> Result<Vec<Vec<Mixture>>> {
        Ok(self.predict_with_stats(options, batch)?.0)
    }

    /// The same by Gaussians that split where the drift bends them: a mixture of the members' mixtures.
    pub fn predict_split(
        &self,
        options: Options,
        how: Splitting,
        batch: &[Rollout<'_>],
    ) -> Result<(Vec<Vec<Mixture>>, Stats)> {
        let (mut paths, mut stats) = (Vec::with_capacity(self.models.len()), Stats::default());
        for model in &self.models {
            let (path, acted) = model.predict_split(options, how, batch)?;
            paths.push(path);
            stats.add(acted);
        }
        let together = |i: usize, step: usize| {
            let laws = || paths.iter().map(|path| &path[i][step]);
            let share = 1.0 / paths.len() as f64;
            let weights = laws().flat_map(|law| law.weights()).map(|w| share * w).collect();
            Mixture::new(weights, laws().flat_map(|law| law.components()).cloned().collect())
        };
        let laws = batch.iter().enumerate();
        let laws = laws.map(|(i, rollout)| (0..rollout.dts.len()).map(|step| together(i, step)).collect());
        Ok((laws.collect::<Result<_>>()?, stats))
    }

    /// Like [`predict`](Ensemble::predict), with the guards that acted. Monte Carlo draws other numbers for
    /// every member.
    pub fn predict_with_stats(
        &self,
        options: Options,
        batch: &[Rollout<'_>],
    ) -> Result<(Vec<Vec<Mixture>>, Stats)> {
        let (mut paths, mut stats) = (Vec::with_capacity(self.models.len()), Stats::default());
        for (k, model) in self.models.iter().enumerate() {
            let mut options = options;
            if let Method::MonteCarlo { seed, .. } = &mut options.method {
                *seed = seed.wrapping_add(k as u64);
            }
            let (path, acted) = model.predict_with_stats(options, batch)?;
            paths.push(path);
            stats.add(acted);
        }
        let mut laws = Vec::with_capacity(batch.len());
        for (i, rollout) in batch.iter().enumerate() {
            let law = |step: usize| Mixture::equal(paths.iter().map(|path| path[i].gaussian(step)).collect());
            laws.push((0..rollout.dts.len()).map(law).collect::<Result<Vec<_>>>()?);
        }
        Ok((laws, stats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, Linear};
    use crate::network::Network;
    use crate::sde::Diffusion;

    /// `dx = −rate·x dt + noise dw`.
    fn model(rate: f64, noise: f64) -> Model {
        let layer = Layer::Linear(Linear::new(1, 1, vec![-rate], vec![0.0]).unwrap());
        let drift = Network::new(1, vec![layer]).unwrap();
        let sde = NeuralSde::new(1, 0, drift, Diffusion::ConstantDiagonal(vec![noise])).unwrap();
        Model::new(sde, 0.1).unwrap()
    }

    fn packed() -> Model {
        let mut first = model(1.0, 0.5);
        first.extra.insert("notes".into(), "kept".into());
        Ensemble { models: vec![first, model(2.0, 0.25), model(3.0, 0.125)] }.into_model().unwrap()
    }

    #[test]
    fn an_ensemble_survives_its_file() {
        let whole = packed();
        assert_eq!((&whole.extra["members"], &whole.extra["notes"]), (&3.into(), &"kept".into()));
        assert!(whole.extra_tensors.contains_key("members.2.diffusion.scale"));
        let back = Model::from_bytes(&whole.to_bytes().unwrap(), "memory").unwrap();
        let ensemble = Ensemble::from_model(&back).unwrap();
        assert_eq!(ensemble.models[2].sde, model(3.0, 0.125).sde);
        assert_eq!(ensemble.models[0].extra.keys().collect::<Vec<_>>(), ["notes"]);
        assert!(ensemble.models[0].extra_tensors.is_empty());
        assert_eq!(ensemble.into_model().unwrap(), whole);
    }

    #[test]
    fn a_single_model_is_an_ensemble_of_one() {
        let single = model(1.0, 0.5);
        let ensemble = Ensemble::from_model(&single).unwrap();
        assert_eq!(ensemble.models.len(), 1);
        assert_eq!(ensemble.into_model().unwrap(), single);
    }

    #[test]
    fn the_prediction_is_the_mixture_of_the_members() {
        let ensemble = Ensemble::from_model(&packed()).unwrap();
        let start = ensemble.models[0].start(vec![2.0]).unwrap();
        let rollout = Rollout { start: &start, dts: &[0.1; 3], inputs: &[] };
        let laws = ensemble.predict(Options::default(), &[rollout, rollout]).unwrap();
        assert_eq!((laws.len(), laws[1].len(), laws[1][2].components().len()), (2, 3, 3));
        for (k, member) in ensemble.models.iter().enumerate() {
            let path = member.predict(Options::default(), &[rollout]).unwrap().remove(0);
            assert_eq!(laws[1][2].components()[k], path.gaussian(2));
        }
        assert_eq!(laws[0][0].weights(), [1.0 / 3.0; 3]);
    }

    #[test]
    fn linear_members_do_not_split() {
        let mut ensemble = Ensemble::from_model(&packed()).unwrap();
        for model in &mut ensemble.models {
            model.scaling = Some(crate::model::Scaling::new(vec![3.0], vec![2.0]).unwrap());
        }
        let start = ensemble.models[0].start(vec![2.0]).unwrap();
        let rollout = Rollout { start: &start, dts: &[0.1; 3], inputs: &[] };
        let whole = ensemble.predict(Options::default(), &[rollout, rollout]).unwrap();
        let split = ensemble.predict_split(Options::default(), Splitting::default(), &[rollout, rollout]);
        assert_eq!(split.unwrap().0, whole);
    }

    #[test]
    fn members_that_are_missing_or_do_not_fit_are_refused() {
        let whole = packed();
        let change = |f: &dyn Fn(&mut Model)| {
            let mut bad = whole.clone();
            f(&mut bad);
            Ensemble::from_model(&bad).unwrap_err().to_string()
        };
        let why = change(&|m| {
            m.extra.insert(KEY.into(), 1_000_000_000_000_u64.into());
        });
        assert!(why.contains("tensor `members.3.drift.0.weight` is missing"), "{why}");
        let why = change(&|m| {
            m.extra.insert(KEY.into(), 0.into());
        });
        assert!(why.contains("at least 1"), "{why}");
        let why = change(&|m| {
            let tensor = m.extra_tensors.get_mut("members.1.drift.0.bias").unwrap();
            *tensor = Tensor { shape: vec![2], values: vec![0.0; 2] };
        });
        assert!(why.contains("shape [2]"), "{why}");
        assert!(Ensemble { models: vec![] }.into_model().is_err());
        let mut other = model(1.0, 0.5);
        other.dt = 0.2;
        assert!(Ensemble { models: vec![model(1.0, 0.5), other] }.into_model().is_err());
    }
}
