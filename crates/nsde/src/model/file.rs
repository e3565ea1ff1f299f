//! The model file: one safetensors archive whose metadata describe the model in JSON.

use super::archive::{Header, LENGTH, PREFIX, Tensors, quote};
use super::describe::Object;
use super::{Model, Scaling, Tensor, layers};
use crate::error::{Error, Result};
use crate::sde::{Diffusion, NeuralSde};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The version of the description that is written, and the only one that is read.
const VERSION: u64 = 1;

/// Largest `state` and `inputs` believed without tensors of that width: `(state + inputs)²` does not overflow.
const WIDEST: usize = 1 << 24;

/// Keys with a meaning of their own; all others are [`Model::extra`].
const KEYS: [&str; 10] = [
    "version",
    "state",
    "inputs",
    "dt",
    "init_var",
    "drift",
    "diffusion",
    "scaling",
    "inputs_scaling",
    "columns",
];

impl Model {
    /// Reads a model file. Nothing is allocated that the file merely claims.
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.into(), source };
        let refuse = |why: String| Error::ModelFile { path: path.into(), why };
        let kind = fs::metadata(path).map_err(io)?;
        if !kind.is_file() {
            let what = if kind.is_dir() { "a directory" } else { "not a regular file" };
            return Err(refuse(format!("is {what}; give the path of a .safetensors file")));
        }
        let mut file = File::open(path).map_err(io)?;
        let total = file.metadata().map_err(io)?.len();
        let mut head = Vec::new();
        (&mut file).take(PREFIX as u64).read_to_end(&mut head).map_err(io)?;
        let end = Header::end(&head, total).map_err(refuse)?;
        (&mut file).take(end.saturating_sub(head.len()) as u64).read_to_end(&mut head).map_err(io)?;
        let header = head.get(LENGTH..end).ok_or_else(|| refuse("truncated inside its header".into()))?;
        let header = Header::parse(header, total).map_err(refuse)?;
        header.description().map_err(refuse)?;
        let mut data = Vec::new();
        file.take(total).read_to_end(&mut data).map_err(io)?;
        read(&header, &data).map_err(refuse)
    }

    /// Reads a model file from memory; `path` is only named in messages.
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Model> {
        let parse = || {
            let total = bytes.len() as u64;
            let end = Header::end(&bytes[..bytes.len().min(PREFIX)], total)?;
            let header = Header::parse(&bytes[LENGTH..end], total)?;
            read(&header, &bytes[end..])
        };
        parse().map_err(|why| Error::ModelFile { path: path.as_ref().into(), why })
    }

    /// Writes a model file: first under a temporary name beside it, then renamed, so that `path` is
    /// never half a model.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = self.to_bytes()?;
        let temporary = temporary(path);
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            drop(file);
            fs::rename(&temporary, path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&temporary);
            Error::Io { path: path.into(), source }
        })
    }

    /// The bytes of a model file, tensors as F64. The same model always gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.check()?;
        if let Some(key) = self.extra.keys().find(|key| KEYS.contains(&key.as_str())) {
            return refuse_own(format!("`extra` holds the key `{key}`, which the model writes itself"));
        }
        for network in [Some(self.sde.drift()), self.sde.diffusion().network()].into_iter().flatten() {
            layers::check_depth(network)?;
        }
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        let mut bad = None;
        let mut add = |name: String, shape: Vec<usize>, values: &[f64]| {
            if bad.is_none() {
                bad = values.iter().find(|x| !x.is_finite()).map(|x| (name.clone(), *x));
            }
            tensors.push((name, shape, values.iter().flat_map(|x| x.to_le_bytes()).collect()));
        };
        self.sde.visit(&mut |name, shape, values| add(name, shape, values));
        for (name, tensor) in &self.extra_tensors {
            if is_ours(name) {
                return refuse_own(format!("`extra_tensors` holds `{name}`, a name of the networks"));
            }
            add(name.clone(), tensor.shape.clone(), &tensor.values);
        }
        if let Some((name, value)) = bad {
            return Err(Error::Range { what: format!("a value of tensor `{name}`"), value, must: "finite" });
        }
        let mut views = Vec::with_capacity(tensors.len());
        for (name, shape, bytes) in &tensors {
            if shape.iter().try_fold(8usize, |n, d| n.checked_mul(*d)) != Some(bytes.len()) {
                return refuse_own(format!(
                    "tensor `{name}` has {} values, not shape {shape:?}",
                    bytes.len() / 8
                ));
            }
            match TensorView::new(Dtype::F64, shape.clone(), bytes) {
                Ok(view) => views.push((name, view)),
                Err(e) => return refuse_own(format!("tensor `{name}`: {e}")),
            }
        }
        let description = HashMap::from([("nsde".to_owned(), self.description().to_string())]);
        safetensors::serialize(views, Some(description)).or_else(|e| refuse_own(e.to_string()))
    }

    fn description(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        put("version", json!(VERSION));
        put("state", json!(self.sde.state()));
        put("inputs", json!(self.sde.inputs()));
        put("dt", json!(self.dt));
        put("init_var", json!(self.init_var));
        put("drift", layers::write(self.sde.drift()));
        let mut diffusion = Map::new();
        diffusion.insert("kind".into(), json!(self.sde.diffusion().kind()));
        if self.sde.diffusion_reads_inputs() {
            diffusion.insert("inputs".into(), json!(true));
        }
        if let Some(network) = self.sde.diffusion().network() {
            diffusion.insert("layers".into(), layers::write(network));
        }
        put("diffusion", diffusion.into());
        for (key, scaling) in [("scaling", &self.scaling), ("inputs_scaling", &self.inputs_scaling)] {
            if let Some(s) = scaling {
                put(key, json!({"mean": s.mean, "std": s.std}));
            }
        }
        if let Some(columns) = &self.columns {
            put("columns", json!(columns));
        }
        for (key, value) in &self.extra {
            put(key, value.clone());
        }
        map.into()
    }
}

fn refuse_own<T>(why: String) -> Result<T> {
    Err(Error::Architecture { net: "model".into(), why })
}

/// Whether a tensor belongs to the networks.
fn is_ours(name: &str) -> bool {
    name.starts_with("drift.") || name.starts_with("diffusion.")
}

/// A name in the same directory that no other thread or process uses.
fn temporary(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{count}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn read(header: &Header, data: &[u8]) -> Result<Model, String> {
    let text = header.description()?;
    let value: Value =
        serde_json::from_str(text).map_err(|e| format!("its metadata `nsde` is not JSON: {e}"))?;
    let o = Object::new(&value, "its metadata `nsde`".into())?;
    match o.need("version")? {
        version if version.as_u64() == Some(VERSION) => {}
        Value::Number(other) => {
            return Err(format!("format version {other}; this program reads version {VERSION}: update it"));
        }
        other => return o.wrong("version", "a whole number", other),
    }
    let mut tensors = Tensors::new(header, data)?;
    let sde = read_sde(&o, &mut tensors)?;
    let mut extra_tensors = BTreeMap::new();
    for name in tensors.unused() {
        if is_ours(&name) {
            return Err(format!(
                "tensor {} belongs to no layer; name it elsewise or describe its layer",
                quote(&name)
            ));
        }
        let shape = tensors.shape(&name).unwrap_or_default().to_vec();
        let values = tensors.take(&name, &shape)?;
        extra_tensors.insert(name, Tensor { shape, values });
    }
    let model = Model {
        sde,
        dt: o.number("dt")?,
        init_var: if o.get("init_var").is_some() { o.number("init_var")? } else { Model::DEFAULT_INIT_VAR },
        scaling: read_scaling(&o, "scaling")?,
        inputs_scaling: read_scaling(&o, "inputs_scaling")?,
        columns: if o.get("columns").is_some() { Some(o.texts("columns")?) } else { None },
        extra: o
            .map
            .iter()
            .filter(|(key, _)| !KEYS.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        extra_tensors,
    };
    model.check().map_err(|e| e.to_string())?;
    Ok(model)
}

fn read_scaling(o: &Object<'_>, key: &str) -> Result<Option<Scaling>, String> {
    let Some(value) = o.get(key) else { return Ok(None) };
    let o = Object::new(value, format!("`{key}`"))?;
    Ok(Some(Scaling { mean: o.numbers("mean")?, std: o.numbers("std")? }))
}

fn read_sde(o: &Object<'_>, tensors: &mut Tensors<'_>) -> Result<NeuralSde, String> {
    let state = o.count("state")?;
    let inputs = if o.get("inputs").is_some() { o.count("inputs")? } else { 0 };
    if state == 0 {
        return Err("`state` is 0, but a model needs at least one dimension".into());
    }
    for (key, value) in [("state", state), ("inputs", inputs)] {
        if value > WIDEST {
            return Err(format!("`{key}` is {value}, more than the {WIDEST} that are possible"));
        }
    }
    let drift = layers::read(o.list("drift")?, "drift", state + inputs, tensors)?;
    if drift.output() != state {
        return Err(format!("drift: gives {} values, but the state has {state} dimensions", drift.output()));
    }
    let diffusion = read_diffusion(o.need("diffusion")?, state, inputs, tensors)?;
    NeuralSde::new(state, inputs, drift, diffusion).map_err(|e| e.to_string())
}

fn read_diffusion(
    value: &Value,
    state: usize,
    inputs: usize,
    tensors: &mut Tensors<'_>,
) -> Result<Diffusion, String> {
    let o = Object::new(value, "`diffusion`".into())?;
    let kind = o.text("kind")?;
    o.only(&["kind", "inputs", "layers"])?;
    let width = if o.flag("inputs")? { state + inputs } else { state };
    if matches!(kind, "constant" | "none") && o.get("layers").is_some() && !o.list("layers")?.is_empty() {
        return Err(format!(
            "`diffusion` of kind `{kind}` has no layers, but {} are given",
            o.list("layers")?.len()
        ));
    }
    let outputs = match kind {
        "diagonal" => state,
        "full" => state * (state + 1) / 2,
        "none" => return Ok(Diffusion::None),
        "constant" => {
            let name = "diffusion.scale";
            return if tensors.shape(name).is_some_and(|shape| shape.len() == 2) {
                Ok(Diffusion::ConstantFull(tensors.take(name, &[state, state])?))
            } else {
                Ok(Diffusion::ConstantDiagonal(tensors.take(name, &[state])?))
            };
        }
        other => {
            return Err(format!(
                "unknown kind {} of `diffusion`; known are diagonal, full, constant, none",
                quote(other)
            ));
        }
    };
    let network = layers::read(o.list("layers")?, "diffusion", width, tensors).map_err(|why| {
        let hint = "; with `\"inputs\": true` it reads the control inputs too";
        if width == state && inputs > 0 && why.contains("`in` is") { why + hint } else { why }
    })?;
    if network.output() != outputs {
        return Err(format!(
            "diffusion: gives {} values, but kind `{kind}` needs {outputs}",
            network.output()
        ));
    }
    Ok(if kind == "full" { Diffusion::Full(network) } else { Diffusion::Diagonal(network) })
}
