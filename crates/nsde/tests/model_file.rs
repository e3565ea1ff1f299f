//! The model file: what is written is read again, what Python writes is read, and nothing else passes.

use nsde::{Diffusion, Layer, Linear, Model, Network, NeuralSde, Scaling};
use serde_json::{Value, json};
use std::path::Path;

/// Name, type, shape and bytes.
type RawTensor = (&'static str, &'static str, Vec<usize>, Vec<u8>);

/// Writes an archive by hand, tensors in the given order: shares no code with what reads it.
fn archive(description: &Value, tensors: &[RawTensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).into(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend_from_slice(bytes);
    }
    header.insert("__metadata__".into(), json!({"nsde": description.to_string()}));
    let header = Value::from(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn f64s(name: &'static str, shape: &[usize], values: &[f64]) -> RawTensor {
    (name, "F64", shape.to_vec(), values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

/// `dx = (−x₂, x₁) dt + 0.5 dw` with room to break things.
fn small() -> (Value, Vec<RawTensor>) {
    let description = json!({
        "version": 1, "state": 2, "dt": 0.1,
        "drift": [{"type": "linear", "in": 2, "out": 2}],
        "diffusion": {"kind": "diagonal", "layers": [{"type": "linear", "in": 2, "out": 2}, {"type": "softplus"}]},
    });
    let tensors = vec![
        f64s("diffusion.0.bias", &[2], &[0.5, 0.5]),
        f64s("drift.0.weight", &[2, 2], &[0.0, -1.0, 1.0, 0.0]),
        f64s("diffusion.0.weight", &[2, 2], &[0.1; 4]),
        f64s("drift.0.bias", &[2], &[0.0; 2]),
    ];
    (description, tensors)
}

fn read(bytes: &[u8]) -> nsde::Result<Model> {
    Model::from_bytes(bytes, "model.safetensors")
}

/// The one line with which `bytes` are refused.
#[track_caller]
fn refusal(bytes: &[u8]) -> String {
    let message = read(bytes).expect_err("must be refused").to_string();
    assert!(message.starts_with("model.safetensors: "), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
    message
}

fn linear(input: usize, output: usize) -> Layer {
    let weight = (0..input * output).map(|i| (i as f64 * 0.7).sin() / 3.0).collect();
    let bias = (0..output).map(|i| (i as f64 + 0.1).cos() / 7.0).collect();
    Layer::Linear(Linear::new(input, output, weight, bias).unwrap())
}

fn every_layer() -> Network {
    let innermost = Network::new(3, vec![linear(3, 2), Layer::Tanh, linear(2, 3)]).unwrap();
    let inner = Network::new(3, vec![linear(3, 3), Layer::Residual(innermost), Layer::Silu]).unwrap();
    let layers = vec![
        linear(3, 3),
        Layer::Dropout { keep: 0.7 },
        Layer::Identity,
        Layer::Relu,
        Layer::LeakyRelu { slope: 0.1 },
        Layer::Elu,
        Layer::Gelu,
        Layer::Silu,
        Layer::Tanh,
        Layer::Sigmoid,
        Layer::Softplus,
        Layer::Sin,
        Layer::Exp,
        Layer::Residual(inner),
        linear(3, 2),
    ];
    Network::new(3, layers).unwrap()
}

#[test]
fn every_layer_and_every_diffusion_survives_saving() {
    let net = |input, output| Network::new(input, vec![linear(input, output), Layer::Softplus]).unwrap();
    let diffusions = [
        Diffusion::Diagonal(net(2, 2)),
        Diffusion::Diagonal(net(3, 2)),
        Diffusion::Full(net(2, 3)),
        Diffusion::Full(net(3, 3)),
        Diffusion::ConstantDiagonal(vec![0.1, 0.2]),
        Diffusion::ConstantFull(vec![0.1, 0.0, -0.3, 0.2]),
        Diffusion::None,
    ];
    for diffusion in diffusions {
        let mut model =
            Model::new(NeuralSde::new(2, 1, every_layer(), diffusion).unwrap(), 0.1 + 0.2).unwrap();
        model.init_var = 1.0 / 3.0;
        model.scaling = Some(Scaling::new(vec![1e-3, -1e300], vec![0.1, 2.5e-8]).unwrap());
        model.inputs_scaling = Some(Scaling::new(vec![0.3], vec![7.0]).unwrap());
        model.columns = Some(vec!["höhe".into(), "b \"quoted\"\n".into()]);
        for key in ["zebra", "head", "alpha"] {
            model.extra.insert(key.into(), json!({"b": 0.1, "a": [1, null]}));
        }
        let head = nsde::Tensor { shape: vec![1, 2], values: vec![0.25, -0.5] };
        model.extra_tensors.insert("head.weight".into(), head);
        let bytes = model.to_bytes().unwrap();
        let again = read(&bytes).unwrap();
        assert_eq!(again, model);
        assert!(again.extra.keys().eq(["zebra", "head", "alpha"]), "order of unknown keys");
        assert_eq!(again.to_bytes().unwrap(), bytes);
    }
}

#[test]
fn saving_replaces_a_file_as_a_whole_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (description, tensors) = small();
    let model = read(&archive(&description, &tensors)).unwrap();
    for dt in [0.1, 0.2] {
        Model { dt, ..model.clone() }.save(&path).unwrap();
        assert_eq!(Model::load(&path).unwrap().dt, dt);
    }
    assert_eq!(std::fs::read(&path).unwrap(), Model { dt: 0.2, ..model.clone() }.to_bytes().unwrap());
    assert!(model.save(folder.path()).is_err(), "a directory cannot be replaced");
    assert!(model.save(folder.path().join("missing/model.safetensors")).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn single_precision_is_read_as_it_is() {
    let (description, mut tensors) = small();
    let values = [0.1f32, -1.5, 3e-30, 7.0];
    tensors[1] = ("drift.0.weight", "F32", vec![2, 2], values.iter().flat_map(|x| x.to_le_bytes()).collect());
    let model = read(&archive(&description, &tensors)).unwrap();
    let Layer::Linear(l) = &model.sde.drift().layers()[0] else { panic!("not linear") };
    assert_eq!(l.weight(), values.map(f64::from));
    assert_eq!(model.init_var, 1e-6);
    assert_eq!(read(&model.to_bytes().unwrap()).unwrap(), model);
}

#[test]
fn a_file_from_python_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let model = Model::load(folder.join("from_python.safetensors")).unwrap();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder.join("from_python.json")).unwrap()).unwrap();
    let numbers = |key: &str| -> Vec<f64> { serde_json::from_value(expected[key].clone()).unwrap() };
    for (network, key) in
        [(model.sde.drift(), "drift"), (model.sde.diffusion().network().unwrap(), "diffusion")]
    {
        let value = network.eval(&numbers("point"), None).unwrap();
        for (x, y) in value.iter().zip(numbers(key)) {
            assert!((x - y).abs() < 64.0 * f64::EPSILON, "{key}: {x} {y}");
        }
    }
    assert!(model.sde.diffusion_reads_inputs());
    assert_eq!(model.columns, Some(vec!["prey".into(), "predator".into()]));
    assert_eq!(model.inputs_scaling, Some(Scaling { mean: vec![0.5], std: vec![0.25] }));
    assert_eq!(model.extra["trained_with"]["epochs"], 3);
    assert_eq!(read(&model.to_bytes().unwrap()).unwrap(), model);
}

#[test]
fn null_means_absent_and_a_diffusion_may_ask_for_inputs_that_are_not_there() {
    let (mut description, tensors) = small();
    for key in ["scaling", "inputs_scaling", "columns", "init_var", "inputs"] {
        description[key] = Value::Null;
    }
    description["diffusion"]["inputs"] = json!(true);
    let model = read(&archive(&description, &tensors)).unwrap();
    assert_eq!((model.sde.inputs(), model.init_var, model.scaling), (0, 1e-6, None));
}

#[test]
fn files_that_are_not_archives_are_refused_by_name() {
    assert!(refusal(b"").contains("empty"));
    assert!(refusal(b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00").contains("PyTorch"));
    assert!(refusal(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20").contains("PyTorch"));
    assert!(refusal(b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR").contains("not a safetensors file"));
    assert!(refusal(b"hello").contains("not a safetensors file"));
    assert!(
        refusal(&[&(1u64 << 60).to_le_bytes()[..], b"{\"a\":1}"].concat()).contains("1152921504606846976")
    );
    assert!(refusal(&[&u64::MAX.to_le_bytes()[..], b"{\"a\":1}"].concat()).contains("claims"));
    assert!(refusal(&[&7u64.to_le_bytes()[..], b"{\"a\":1}"].concat()).contains("header"));
    assert!(refusal(&[&2u64.to_le_bytes()[..], b"{}"].concat()).contains("no key `nsde`"));
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(refusal(&[&(deep.len() as u64).to_le_bytes()[..], deep.as_bytes()].concat()).contains("header"));
    let folder = tempfile::tempdir().unwrap();
    assert!(Model::load(folder.path()).unwrap_err().to_string().contains("directory"));
    assert!(matches!(Model::load(folder.path().join("missing")), Err(nsde::Error::Io { .. })));
}

/// Eight tensors of almost 2⁶¹ bytes: their sum passes every check of its own and overflows one word.
#[test]
fn tensors_that_claim_the_whole_address_space_are_refused() {
    let size = (1u64 << 61) - 1;
    let entry = |i: u64| {
        format!(
            "\"t{i}\":{{\"dtype\":\"U8\",\"shape\":[{size}],\"data_offsets\":[{},{}]}}",
            i * size,
            (i + 1) * size
        )
    };
    let header = format!("{{{}}}", (0..8).map(entry).collect::<Vec<_>>().join(","));
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    assert!(refusal(&bytes).contains("truncated"));
}

#[test]
fn wrong_descriptions_are_refused_with_the_key() {
    let layer = |layer: Value| json!([layer, {"type": "linear", "in": 2, "out": 2}]);
    let cases = [
        ("/version", json!(2), "version 2"),
        ("/version", json!("1"), "`version` must be a whole number"),
        ("/version", Value::Null, "no key `version`"),
        ("/state", json!(0), "`state` is 0"),
        ("/state", json!(-1), "`state` must be a whole number"),
        ("/state", json!(2.5), "`state` must be a whole number"),
        ("/state", json!(3), "drift.0 (linear): `in` is 2"),
        ("/state", json!(u64::MAX), "`state` is 18446744073709551615"),
        ("/dt", json!(0.0), "`dt` is 0"),
        ("/dt", json!(-0.1), "`dt` is -0.1"),
        ("/dt", json!("fast"), "`dt` must be a number, found the string `fast`"),
        ("/dt", Value::Null, "no key `dt`"),
        ("/init_var", json!(-1.0), "`init_var` is -1"),
        ("/inputs", json!(1), "`in` is 2"),
        ("/inputs", json!(u64::MAX), "`inputs` is 18446744073709551615"),
        ("/drift", json!({}), "`drift` must be a list"),
        ("/drift", json!([3]), "drift.0 must be an object"),
        ("/drift", json!([{"in": 2}]), "drift.0 has no key `type`"),
        ("/drift", json!([{"type": "lstm\n"}]), "unknown type `lstm\\n`; known are linear, dropout"),
        ("/drift", json!([]), "tensor `drift.0.bias` belongs to no layer"),
        ("/drift", layer(json!({"type": "dropout"})), "drift.0 (dropout) has no key `keep`"),
        ("/drift", layer(json!({"type": "elu", "alpha": 0.5})), "drift.0 (elu): unknown key `alpha`"),
        ("/drift", layer(json!({"type": "relu"})), "tensor `drift.1.weight` of shape [2, 2] is missing"),
        ("/drift/0/out", json!(u64::MAX), "has shape [2, 2], expected [18446744073709551615, 2]"),
        ("/drift/0/in", json!(1u64 << 63), "`in` is 9223372036854775808"),
        ("/drift/1", json!({"type": "dropout", "keep": 0.0}), "keep is 0"),
        ("/drift/1", json!({"type": "leaky_relu", "slope": -3.0}), "slope is -3"),
        ("/diffusion", Value::Null, "no key `diffusion`"),
        ("/diffusion/kind", json!("levy"), "unknown kind `levy`"),
        ("/diffusion/kind", json!("full"), "gives 2 values, but kind `full` needs 3"),
        ("/diffusion/kind", json!("none"), "has no layers"),
        ("/diffusion/inputs", json!("yes"), "`inputs` must be true or false"),
        ("/scaling", json!({"mean": [0.0, 0.0], "std": [1.0]}), "length of `std`: expected 2, found 1"),
        ("/scaling", json!({"mean": [0.0, 0.0], "std": [1.0, 0.0]}), "an entry of `std` is 0"),
        ("/scaling", json!({"mean": [0.0, "a"], "std": [1.0, 1.0]}), "`mean` must be a list of numbers"),
        ("/inputs_scaling", json!({"mean": [0.0], "std": [1.0]}), "`inputs_scaling`"),
        ("/columns", json!(["only one"]), "`columns`"),
        ("/columns", json!([1, 2]), "`columns` must be a list of strings"),
    ];
    for (pointer, value, why) in cases {
        let (mut description, tensors) = small();
        if pointer == "/drift/1" {
            description["drift"].as_array_mut().unwrap().push(value.clone());
        } else {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match description.pointer_mut(parent).unwrap() {
                Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
                parent => parent[key] = value.clone(),
            }
        }
        let message = refusal(&archive(&description, &tensors));
        assert!(message.contains(why), "{pointer} = {value}: {message}");
    }
}

#[test]
fn a_description_that_is_not_json_is_refused() {
    for (text, why) in [("{\"version\": 1", "not JSON"), ("[1]", "must be an object"), ("NaN", "not JSON")] {
        let header = json!({"__metadata__": {"nsde": text}}).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let message = refusal(&bytes);
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn wrong_tensors_are_refused_by_name() {
    let half = ("drift.0.bias", "F16", vec![2], vec![0; 4]);
    let cases = [
        (3, f64s("drift.0.bias", &[1, 2], &[0.0; 2]), "`drift.0.bias` has shape [1, 2], expected [2]"),
        (3, f64s("drift.0.bias", &[3], &[0.0; 3]), "`drift.0.bias` has shape [3], expected [2]"),
        (3, f64s("drift.0.bais", &[2], &[0.0; 2]), "`drift.0.bias` of shape [2] is missing"),
        (3, half, "`drift.0.bias` has type F16"),
        (3, f64s("drift.0.bias", &[2], &[0.0, f64::NAN]), "`drift.0.bias` holds NaN at place 1"),
        (2, f64s("diffusion.0.weight", &[2, 2], &[f64::INFINITY; 4]), "`diffusion.0.weight` holds inf"),
        (4, f64s("drift.1.weight", &[2, 2], &[0.0; 4]), "`drift.1.weight` belongs to no layer"),
        (4, f64s("diffusion.scale", &[2], &[0.0; 2]), "`diffusion.scale` belongs to no layer"),
    ];
    for (place, tensor, why) in cases {
        let (description, mut tensors) = small();
        tensors.truncate(place);
        tensors.push(tensor);
        if place == 2 {
            tensors.push(f64s("drift.0.bias", &[2], &[0.0; 2]));
        }
        let message = refusal(&archive(&description, &tensors));
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn constant_diffusion_is_read_by_its_shape() {
    let (mut description, mut tensors) = small();
    description["diffusion"] = json!({"kind": "constant", "layers": []});
    tensors.retain(|t| t.0.starts_with("drift"));
    assert!(refusal(&archive(&description, &tensors)).contains("`diffusion.scale` of shape [2] is missing"));
    for (shape, values, result) in [
        (vec![2], vec![0.1, 0.2], Ok(Diffusion::ConstantDiagonal(vec![0.1, 0.2]))),
        (vec![2, 2], vec![0.1, 0.0, 0.3, 0.2], Ok(Diffusion::ConstantFull(vec![0.1, 0.0, 0.3, 0.2]))),
        (vec![2, 2], vec![0.1, 0.3, 0.3, 0.2], Err("lower triangular")),
        (vec![1, 2], vec![0.1, 0.2], Err("has shape [1, 2], expected [2, 2]")),
        (vec![3], vec![0.1, 0.2, 0.3], Err("has shape [3], expected [2]")),
    ] {
        let mut tensors = tensors.clone();
        tensors.push(f64s("diffusion.scale", &shape, &values));
        let bytes = archive(&description, &tensors);
        match result {
            Ok(diffusion) => assert_eq!(*read(&bytes).unwrap().sde.diffusion(), diffusion),
            Err(why) => assert!(refusal(&bytes).contains(why)),
        }
    }
}

#[test]
fn residual_layers_nest_to_sixteen_and_no_deeper() {
    let nested = |levels: usize| {
        (0..levels).fold(json!({"type": "tanh"}), |inner, _| json!({"type": "residual", "layers": [inner]}))
    };
    for levels in [1, 16, 17, 40] {
        let (mut description, tensors) = small();
        description["drift"].as_array_mut().unwrap().push(nested(levels));
        let bytes = archive(&description, &tensors);
        if levels <= 16 {
            let model = read(&bytes).unwrap();
            assert_eq!(read(&model.to_bytes().unwrap()).unwrap(), model);
        } else {
            assert!(refusal(&bytes).contains("nested"));
        }
    }
    let too_deep = (0..17).fold(Network::new(1, vec![]).unwrap(), |inner, _| {
        Network::new(1, vec![Layer::Residual(inner)]).unwrap()
    });
    let model = Model::new(NeuralSde::new(1, 0, too_deep, Diffusion::None).unwrap(), 0.1).unwrap();
    assert!(model.to_bytes().unwrap_err().to_string().contains("nested"));
}

#[test]
fn weights_that_could_not_be_read_are_not_written() {
    let (description, tensors) = small();
    let mut model = read(&archive(&description, &tensors)).unwrap();
    model.extra.insert("dt".into(), json!(3));
    assert!(model.to_bytes().unwrap_err().to_string().contains("`dt`"));
    model.extra.clear();
    let tensor =
        |shape: &[usize], values: &[f64]| nsde::Tensor { shape: shape.to_vec(), values: values.to_vec() };
    for (name, tensor) in [
        ("drift.9.weight", tensor(&[1], &[0.0])),
        ("head", tensor(&[2], &[0.0])),
        ("head", tensor(&[usize::MAX, 2], &[0.0])),
        ("head", tensor(&[1], &[f64::NAN])),
    ] {
        let extra_tensors = [(name.to_owned(), tensor)].into();
        let message = Model { extra_tensors, ..model.clone() }.to_bytes().unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
    let mut flat = model.sde.parameters();
    flat[0] = f64::NAN;
    model.sde.set_parameters(&flat).unwrap();
    assert!(model.to_bytes().unwrap_err().to_string().contains("`drift.0.weight`"));
}

/// Whatever is cut off or flipped, the reader refuses or finds a model that can be saved: it never panics.
#[test]
fn damaged_files_never_panic() {
    let (mut description, mut tensors) = small();
    description["scaling"] = json!({"mean": [0.0, 1.0], "std": [1.0, 2.0]});
    description["drift"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "residual", "layers": [{"type": "sin"}]}));
    tensors.push(f64s("head.weight", &[], &[1.0]));
    let good = archive(&description, &tensors);
    read(&good).unwrap();
    for length in 0..good.len() {
        refusal(&good[..length]);
    }
    refusal(&[&good[..], b"x"].concat());
    let check = |bytes: &[u8]| {
        if let Ok(model) = read(bytes) {
            read(&model.to_bytes().unwrap()).unwrap();
        }
    };
    for place in 0..good.len() {
        let mut bytes = good.clone();
        for flip in (0..8).map(|bit| 1 << bit).chain([0xff]) {
            bytes[place] = good[place] ^ flip;
            check(&bytes);
        }
        for digit in b"0 9-\"{[e" {
            bytes[place] = *digit;
            check(&bytes);
        }
    }
}
