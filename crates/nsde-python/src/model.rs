//! A model as Python holds it.

use crate::error::{Result, refuse};
use crate::layers;
use nsde::{Diffusion, NeuralSde, Scaling};
use numpy::{
    IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A neural SDE with its step size, start variance and units. Threads may share it.
#[pyclass(frozen, module = "nsde._core")]
pub struct Model(Mutex<Arc<nsde::Model>>);

/// Mean and deviation.
type Units<'py> = (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>);
/// The same on the way out.
type UnitsOut<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

fn units(pair: Option<Units<'_>>) -> Result<Option<Scaling>> {
    let read = |(mean, std): Units<'_>| Scaling::new(mean.as_array().to_vec(), std.as_array().to_vec());
    Ok(pair.map(read).transpose()?)
}

fn units_out<'py>(py: Python<'py>, scaling: &Option<Scaling>) -> Option<UnitsOut<'py>> {
    scaling.as_ref().map(|s| (s.mean.clone().into_pyarray(py), s.std.clone().into_pyarray(py)))
}

fn diffusion(state: usize, inputs: usize, given: &Bound<'_, PyAny>) -> Result<Diffusion> {
    if given.is_none() {
        return Ok(Diffusion::None);
    }
    if let Ok(scale) = given.extract::<PyReadonlyArray1<'_, f64>>() {
        return Ok(Diffusion::ConstantDiagonal(scale.as_array().to_vec()));
    }
    if let Ok(scale) = given.extract::<PyReadonlyArray2<'_, f64>>() {
        return Ok(Diffusion::ConstantFull(scale.as_array().iter().copied().collect()));
    }
    let (width, list): (usize, Bound<'_, PyList>) = given.extract()?;
    if width != state && width != state + inputs {
        return refuse(format!(
            "diffusion: expected a network that reads {state} values, found one for {width}"
        ));
    }
    let net = layers::read(width, &list)?;
    match net.output() {
        n if n == state => Ok(Diffusion::Diagonal(net)),
        n if n == state * (state + 1) / 2 => Ok(Diffusion::Full(net)),
        n => refuse(format!(
            "diffusion: expected a network that gives {state} values (a diagonal L) or {} (a lower-triangular \
             L, row by row), found one that gives {n}",
            state * (state + 1) / 2
        )),
    }
}

impl Model {
    /// Wraps a model of the library.
    pub fn new(model: nsde::Model) -> Self {
        Model(Mutex::new(Arc::new(model)))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<nsde::Model>> {
        // Nothing in it is ever half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model as it is now.
    pub fn get(&self) -> Arc<nsde::Model> {
        Arc::clone(&self.lock())
    }

    /// A gradient in the order of the parameters, by their names.
    pub fn by_name<'py>(py: Python<'py>, model: &nsde::Model, flat: &[f64]) -> PyResult<Bound<'py, PyDict>> {
        let (dict, mut rest, mut result) = (PyDict::new(py), flat, Ok(()));
        model.sde.visit(&mut |name, shape, values| {
            let (here, after) = rest.split_at(values.len());
            rest = after;
            let put =
                || -> PyResult<()> { dict.set_item(name, here.to_vec().into_pyarray(py).reshape(shape)?) };
            if result.is_ok() {
                result = put();
            }
        });
        result.map(|()| dict)
    }
}

#[pymethods]
impl Model {
    #[staticmethod]
    fn build(
        state: usize,
        inputs: usize,
        drift: &Bound<'_, PyList>,
        diffusion_given: &Bound<'_, PyAny>,
        dt: f64,
        init_var: f64,
        scaling: Option<Units<'_>>,
        inputs_scaling: Option<Units<'_>>,
        columns: Option<Vec<String>>,
    ) -> Result<Self> {
        let drift = layers::read(state + inputs, drift)?;
        let sde = NeuralSde::new(state, inputs, drift, diffusion(state, inputs, diffusion_given)?)?;
        let mut model = nsde::Model::new(sde, dt)?;
        model.init_var = init_var;
        model.scaling = units(scaling)?;
        model.inputs_scaling = units(inputs_scaling)?;
        model.columns = columns;
        // Writing checks that the fields fit each other.
        model.to_bytes()?;
        Ok(Model::new(model))
    }

    #[staticmethod]
    fn load(path: PathBuf) -> Result<Self> {
        Ok(Model::new(nsde::Model::load(path)?))
    }

    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Model::new(nsde::Model::from_bytes(bytes, "bytes")?))
    }

    /// A model of its own with the same numbers, which are shared until one of the two changes.
    fn copy(&self) -> Self {
        Model(Mutex::new(self.get()))
    }

    fn save(&self, path: PathBuf) -> Result<()> {
        Ok(self.get().save(path)?)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.get().to_bytes()?))
    }

    #[getter]
    fn state(&self) -> usize {
        self.get().sde.state()
    }

    #[getter]
    fn inputs(&self) -> usize {
        self.get().sde.inputs()
    }

    #[getter]
    fn dt(&self) -> f64 {
        self.get().dt
    }

    #[getter]
    fn init_var(&self) -> f64 {
        self.get().init_var
    }

    #[getter]
    fn has_dropout(&self) -> bool {
        self.get().sde.has_dropout()
    }

    #[getter]
    fn columns(&self) -> Option<Vec<String>> {
        self.get().columns.clone()
    }

    #[getter]
    fn scaling<'py>(&self, py: Python<'py>) -> Option<UnitsOut<'py>> {
        units_out(py, &self.get().scaling)
    }

    #[getter]
    fn inputs_scaling<'py>(&self, py: Python<'py>) -> Option<UnitsOut<'py>> {
        units_out(py, &self.get().inputs_scaling)
    }

    /// The layers of the drift.
    #[getter]
    fn drift<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        layers::write(py, self.get().sde.drift())
    }

    /// The layers of the diffusion, or its constant `L`, or nothing.
    #[getter]
    fn diffusion<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let model = self.get();
        let array = |values: &Vec<f64>, shape: Vec<usize>| -> PyResult<Bound<'py, PyAny>> {
            Ok(values.clone().into_pyarray(py).reshape(shape)?.into_any())
        };
        let d = model.sde.state();
        Ok(match model.sde.diffusion() {
            Diffusion::Diagonal(net) | Diffusion::Full(net) => Some(layers::write(py, net)?.into_any()),
            Diffusion::ConstantDiagonal(s) => Some(array(s, vec![d])?),
            Diffusion::ConstantFull(s) => Some(array(s, vec![d, d])?),
            _ => None,
        })
    }

    /// A key of the description that the library does not know, as JSON.
    fn extra(&self, key: &str) -> Option<String> {
        self.get().extra.get(key).map(ToString::to_string)
    }

    fn set_extra(&self, key: String, json: &str) -> Result<()> {
        let Ok(value) = serde_json::from_str(json) else { return refuse(format!("{key}: expected JSON")) };
        Arc::make_mut(&mut self.lock()).extra.insert(key, value);
        Ok(())
    }

    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = self.get();
        Model::by_name(py, &model, &model.sde.parameters())
    }

    /// Takes over the arrays that are given; the others stay.
    fn set_parameters(&self, given: &Bound<'_, PyDict>) -> Result<()> {
        let model = self.get();
        let (mut flat, mut names) = (Vec::new(), Vec::new());
        let mut parts = Vec::new();
        model.sde.visit(&mut |name, shape, values| parts.push((name, shape, values)));
        for (name, shape, values) in parts {
            match given.get_item(&name)? {
                None => flat.extend_from_slice(values),
                Some(array) => {
                    let array: PyReadonlyArrayDyn<'_, f64> = array.extract()?;
                    if array.shape() != shape {
                        return refuse(format!(
                            "{name}: expected shape {shape:?}, found {:?}",
                            array.shape()
                        ));
                    }
                    flat.extend(array.as_array().iter());
                }
            }
            names.push(name);
        }
        for name in given.keys() {
            let name: String = name.extract()?;
            if !names.contains(&name) {
                return refuse(format!("{name}: there is no such parameter; there are {}", names.join(", ")));
            }
        }
        if let Some(bad) = flat.iter().find(|x| !x.is_finite()) {
            return refuse(format!("a parameter is {bad}, but must be finite"));
        }
        Ok(Arc::make_mut(&mut self.lock()).sde.set_parameters(&flat)?)
    }
}

/// An array on its way to Python.
pub type ArrayOut<'py> = Bound<'py, PyArrayDyn<f64>>;

/// Values in the shape of an array.
pub fn array<'py>(py: Python<'py>, values: Vec<f64>, shape: &[usize]) -> PyResult<ArrayOut<'py>> {
    values.into_pyarray(py).reshape(shape.to_vec())
}
