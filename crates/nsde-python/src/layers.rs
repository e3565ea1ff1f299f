//! Layers as Python tuples: `("linear", weight, bias)`, `("dropout", keep)`, `("residual", [...])`, `("relu",)`.

use crate::error::{Result, refuse};
use nsde::{Layer, Linear, Network};
use numpy::{IntoPyArray, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The chain of `layers` on `input` values.
pub fn read(input: usize, layers: &Bound<'_, PyList>) -> Result<Network> {
    let mut width = input;
    let mut out = Vec::with_capacity(layers.len());
    for item in layers.iter() {
        let layer = read_one(width, &item.cast_into::<PyTuple>().map_err(PyErr::from)?)?;
        if let Layer::Linear(l) = &layer {
            width = l.output();
        }
        out.push(layer);
    }
    Ok(Network::new(input, out)?)
}

fn read_one(width: usize, spec: &Bound<'_, PyTuple>) -> Result<Layer> {
    let kind: String = spec.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "linear" => {
            let weight: PyReadonlyArray2<'_, f64> = spec.get_item(1)?.extract()?;
            let bias: PyReadonlyArray1<'_, f64> = spec.get_item(2)?.extract()?;
            let [output, input] = [weight.shape()[0], weight.shape()[1]];
            let weight: Vec<f64> = weight.as_array().iter().copied().collect();
            Layer::Linear(Linear::new(input, output, weight, bias.as_array().to_vec())?)
        }
        "dropout" => Layer::Dropout { keep: spec.get_item(1)?.extract()? },
        "leaky_relu" => Layer::LeakyRelu { slope: spec.get_item(1)?.extract()? },
        "residual" => {
            Layer::Residual(read(width, &spec.get_item(1)?.cast_into::<PyList>().map_err(PyErr::from)?)?)
        }
        "identity" => Layer::Identity,
        other => match Layer::activation(other) {
            Some(layer) => layer,
            None => return refuse(format!("layer {other:?} is not known")),
        },
    })
}

/// Undoes [`read`].
pub fn write<'py>(py: Python<'py>, network: &Network) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for layer in network.layers() {
        let kind = layer.kind();
        let tuple = match layer {
            Layer::Linear(l) => {
                let weight = l.weight().to_vec().into_pyarray(py).reshape([l.output(), l.input()])?;
                (kind, weight, l.bias().to_vec().into_pyarray(py)).into_pyobject(py)?
            }
            Layer::Dropout { keep } => (kind, *keep).into_pyobject(py)?,
            Layer::LeakyRelu { slope } => (kind, *slope).into_pyobject(py)?,
            Layer::Residual(inner) => (kind, write(py, inner)?).into_pyobject(py)?,
            _ => (kind,).into_pyobject(py)?,
        };
        list.append(tuple)?;
    }
    Ok(list)
}
