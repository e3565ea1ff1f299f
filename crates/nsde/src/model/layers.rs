//! Layers in a model file: a JSON list, and tensors named as PyTorch names them.

use super::archive::{Tensors, quote};
use super::describe::Object;
use crate::error::{Error, Result};
use crate::layer::{Layer, Linear};
use crate::network::Network;
use serde_json::{Value, json};

/// Levels of residual layers in residual layers that a file may have: more than anybody trains, and
/// few enough for the stack of whoever walks down them.
const DEEPEST_RESIDUAL: usize = 16;

/// The names of all layers, as in [`Layer::kind`].
const KINDS: [&str; 14] = [
    "linear",
    "dropout",
    "identity",
    "relu",
    "leaky_relu",
    "elu",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "softplus",
    "sin",
    "exp",
    "residual",
];

/// Builds the network `name` on `input` values; its tensors are `{name}.0.weight`, ….
pub(super) fn read(
    list: &[Value],
    name: &str,
    input: usize,
    tensors: &mut Tensors<'_>,
) -> Result<Network, String> {
    read_nested(list, name, input, tensors, 0)
}

fn read_nested(
    list: &[Value],
    name: &str,
    input: usize,
    tensors: &mut Tensors<'_>,
    depth: usize,
) -> Result<Network, String> {
    if depth > DEEPEST_RESIDUAL {
        return Err(format!("{name}: residual layers are nested more than {DEEPEST_RESIDUAL} deep"));
    }
    let mut width = input;
    let mut layers = Vec::new();
    for (place, value) in list.iter().enumerate() {
        let here = format!("{name}.{place}");
        let mut o = Object::new(value, here.clone())?;
        let kind = o.text("type")?;
        if KINDS.contains(&kind) {
            o.at = format!("{here} ({kind})");
        }
        let known: &[&str] = match kind {
            "linear" => &["type", "in", "out"],
            "dropout" => &["type", "keep"],
            "leaky_relu" => &["type", "slope"],
            "residual" => &["type", "layers"],
            _ => &["type"],
        };
        let layer = match kind {
            "linear" => {
                let (from, to) = (o.count("in")?, o.count("out")?);
                if from != width {
                    let before = if place == 0 { "its input" } else { "the layer before it" };
                    return Err(format!("{}: `in` is {from}, but {before} has width {width}", o.at));
                }
                // The tensors are in the file, so their sizes are sizes of memory: nothing overflows.
                let weight = tensors.take(&format!("{here}.weight"), &[to, from])?;
                let bias = tensors.take(&format!("{here}.bias"), &[to])?;
                width = to;
                Layer::Linear(Linear::new(from, to, weight, bias).map_err(|e| format!("{here}: {e}"))?)
            }
            "dropout" => Layer::Dropout { keep: o.number("keep")? },
            "identity" => Layer::Identity,
            "leaky_relu" => Layer::LeakyRelu { slope: o.number("slope")? },
            "residual" => {
                let inner =
                    read_nested(o.list("layers")?, &format!("{here}.layers"), width, tensors, depth + 1)?;
                if inner.output() != width {
                    let out = inner.output();
                    return Err(format!(
                        "{}: reads {width} values but gives {out}; both must be equal",
                        o.at
                    ));
                }
                Layer::Residual(inner)
            }
            other => Layer::activation(other).ok_or_else(|| {
                format!("{here}: unknown type {}; known are {}", quote(other), KINDS.join(", "))
            })?,
        };
        o.only(known)?;
        layers.push(layer);
    }
    Network::new(input, layers).map_err(|e| format!("{name}: {e}"))
}

/// Refuses a network that could be written but not read again.
pub(super) fn check_depth(network: &Network) -> Result<()> {
    fn depth(network: &Network) -> usize {
        let inner = |layer: &Layer| if let Layer::Residual(inner) = layer { 1 + depth(inner) } else { 0 };
        network.layers().iter().map(inner).max().unwrap_or(0)
    }
    if depth(network) > DEEPEST_RESIDUAL {
        let why = format!("residual layers are nested more than {DEEPEST_RESIDUAL} deep");
        return Err(Error::Architecture { net: "model".into(), why });
    }
    Ok(())
}

/// The JSON list of a network's layers.
pub(super) fn write(network: &Network) -> Value {
    let layer = |layer: &Layer| {
        let kind = layer.kind();
        match layer {
            Layer::Linear(l) => json!({"type": kind, "in": l.input(), "out": l.output()}),
            Layer::Dropout { keep } => json!({"type": kind, "keep": keep}),
            Layer::LeakyRelu { slope } => json!({"type": kind, "slope": slope}),
            Layer::Residual(inner) => json!({"type": kind, "layers": write(inner)}),
            _ => json!({"type": kind}),
        }
    };
    network.layers().iter().map(layer).collect()
}
