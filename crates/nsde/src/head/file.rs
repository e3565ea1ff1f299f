//! A layer in a model file: `head.*` and `embed.*` beside the networks, and the key `head`.
//!
//! ```json
//! "head": {"type": "linear", "start": "embedding", "steps": 8}
//! "head": {"type": "mixture", "start": "features", "steps": 8}
//! "head": {"type": "softmax", "objective": "expected", "start": "zero", "steps": 1}
//! ```
//!
//! | tensor | shape | |
//! | --- | --- | --- |
//! | `head.weight`, `head.bias` | `[O, D]`, `[O]` | always |
//! | `head.noise` | `[O]` | log-variances, a linear head with observation noise |
//! | `head.noise` | `[K, O]` | log-variances, a mixture; `head.weight` has `K (O + 1)` rows, the last `K` for its weights |
//! | `embed.weight`, `embed.bias` | `[D, F]`, `[D]` | start `embedding` |
//! | `embed.bias` | `[D]` | start `learned`: an embedding of no features |

use super::{Head, SdeLayer, Start};
use crate::error::{Error, Result};
use crate::layer::Linear;
use crate::model::{Model, Tensor};
use crate::solver::Options;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Tensors = BTreeMap<String, Tensor>;

impl<H: Head> SdeLayer<H> {
    /// The layer as a model, to be saved. Units of features and targets are left to the caller.
    pub fn to_model(&self) -> Result<Model> {
        self.check()?;
        let mut model = Model::new(self.sde.clone(), self.dt)?;
        model.init_var = self.init_var;
        let mut description = Map::new();
        self.head.write(&mut description, &mut model.extra_tensors);
        description.insert("start".into(), self.start.kind().into());
        description.insert("steps".into(), self.steps.into());
        match &self.start {
            Start::Embedding(linear) => put_linear(&mut model.extra_tensors, "embed", linear),
            Start::Learned(x) => put(&mut model.extra_tensors, "embed.bias", vec![x.len()], x),
            Start::Features | Start::Zero => {}
        }
        model.extra.insert("head".into(), description.into());
        Ok(model)
    }

    /// The layer out of a model made by [`to_model`](SdeLayer::to_model). The model's `scaling` is not used.
    pub fn from_model(model: &Model, options: Options) -> Result<Self> {
        let description = match model.extra.get("head") {
            Some(Value::Object(map)) => map,
            Some(other) => return Err(refuse(format!("should be an object, is {other}"))),
            None => return Err(refuse("the model has none; it forecasts time series".into())),
        };
        let tensors = &model.extra_tensors;
        let steps = description.get("steps").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let start = match description.get("start").and_then(Value::as_str) {
            Some("features") => Start::Features,
            Some("embedding") => Start::Embedding(take_linear(tensors, "embed")?),
            Some("learned") => Start::Learned(take(tensors, "embed.bias")?.values.clone()),
            Some("zero") => Start::Zero,
            _ => {
                return Err(refuse(
                    "`start` should be \"features\", \"embedding\", \"learned\" or \"zero\"".into(),
                ));
            }
        };
        let layer = SdeLayer {
            start,
            sde: model.sde.clone(),
            head: H::read(description, tensors)?,
            dt: model.dt,
            steps: steps.ok_or_else(|| refuse("`steps` should be a whole number".into()))?,
            init_var: model.init_var,
            options,
        };
        layer.check()?;
        Ok(layer)
    }
}

pub(super) fn refuse(why: String) -> Error {
    Error::Architecture { net: "head".into(), why }
}

pub(super) fn expect_kind(description: &Map<String, Value>, kind: &str) -> Result<()> {
    match description.get("type").and_then(Value::as_str) {
        Some(found) if found == kind => Ok(()),
        Some(found) => Err(refuse(format!("`type` is \"{found}\", but a \"{kind}\" head was asked for"))),
        None => Err(refuse("`type` is missing; it is \"linear\", \"mixture\" or \"softmax\"".into())),
    }
}

fn put(tensors: &mut Tensors, name: &str, shape: Vec<usize>, values: &[f64]) {
    tensors.insert(name.into(), Tensor { shape, values: values.to_vec() });
}

fn take<'a>(tensors: &'a Tensors, name: &str) -> Result<&'a Tensor> {
    tensors.get(name).ok_or_else(|| refuse(format!("the model has no tensor `{name}`")))
}

pub(super) fn put_linear(tensors: &mut Tensors, name: &str, linear: &Linear) {
    put(tensors, &format!("{name}.weight"), vec![linear.output(), linear.input()], linear.weight());
    put(tensors, &format!("{name}.bias"), vec![linear.output()], linear.bias());
}

pub(super) fn take_linear(tensors: &Tensors, name: &str) -> Result<Linear> {
    let weight = take(tensors, &format!("{name}.weight"))?;
    let bias = take(tensors, &format!("{name}.bias"))?;
    match weight.shape[..] {
        [output, input] => Linear::new(input, output, weight.values.clone(), bias.values.clone()),
        _ => Err(refuse(format!("tensor `{name}.weight` should have two dimensions"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::tests::{classifier, every_start, regressor};
    use super::super::{Example, LinearHead, SoftmaxHead, SoftmaxObjective};
    use super::*;

    fn reload(model: &Model) -> Model {
        Model::from_bytes(&model.to_bytes().unwrap(), "memory").unwrap()
    }

    #[test]
    fn a_saved_layer_predicts_the_same() {
        for (start, features) in every_start(3) {
            let mut layer = regressor(start.clone(), 3, 0, 2);
            if features.is_empty() {
                layer.head = layer.head.with_noise(vec![-1.0, 0.5]).unwrap();
            }
            let back = SdeLayer::<LinearHead>::from_model(&reload(&layer.to_model().unwrap()), layer.options)
                .unwrap();
            assert_eq!(back, layer);
            let example = [Example { features: &features, inputs: &[] }];
            assert_eq!(layer.predict(&example).unwrap(), back.predict(&example).unwrap());
            for objective in [SoftmaxObjective::Expected, SoftmaxObjective::Dvi] {
                let layer = classifier(start.clone(), 3, 2, 4, objective);
                let model = reload(&layer.to_model().unwrap());
                let back = SdeLayer::<SoftmaxHead>::from_model(&model, layer.options).unwrap();
                assert_eq!(back, layer);
                let example = [Example { features: &features, inputs: &[0.1, -0.4, 0.3, 0.2] }];
                assert_eq!(layer.predict(&example).unwrap(), back.predict(&example).unwrap());
            }
        }
    }

    #[test]
    fn models_of_something_else_are_refused_with_a_reason() {
        let layer =
            regressor(Start::Embedding(Linear::new(1, 3, vec![1.0; 3], vec![0.0; 3]).unwrap()), 3, 0, 1);
        let good = layer.to_model().unwrap();
        let read = |model: &Model| match SdeLayer::<LinearHead>::from_model(model, Options::default()) {
            Ok(_) => "fine".to_string(),
            Err(why) => why.to_string(),
        };
        assert_eq!(read(&good), "fine");
        let with = |key: &str, value: Value| {
            let mut model = good.clone();
            model.extra["head"][key] = value;
            read(&model)
        };
        assert!(with("type", "softmax".into()).contains("asked for"));
        assert!(with("start", "nowhere".into()).contains("`start`"));
        assert!(with("steps", (-1).into()).contains("`steps`"));
        assert!(with("steps", 0.into()).contains("steps"));
        for name in ["head.weight", "head.bias", "embed.weight", "embed.bias"] {
            let mut model = good.clone();
            let tensor = model.extra_tensors.remove(name).unwrap();
            assert!(read(&model).contains(name));
            model
                .extra_tensors
                .insert(name.into(), Tensor { values: vec![0.0; tensor.values.len() + 1], ..tensor });
            assert_ne!(read(&model), "fine");
        }
        let mut plain = good.clone();
        plain.extra.clear();
        assert!(read(&plain).contains("none"));
    }
}
