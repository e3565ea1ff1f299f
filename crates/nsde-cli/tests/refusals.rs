//! Bad input ends with status 1 or 2 and one line that says what is wrong: never with a panic.

mod common;

use common::{Folder, run};
use serde_json::{Value, json};

#[track_caller]
fn refused(folder: &Folder, status: i32, args: &[&str], why: &str) {
    let (code, out, err) = run(folder, args);
    assert_eq!(code, status, "{args:?}: {err}");
    assert_eq!(out, "", "{args:?}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert!(err.starts_with("error: ") && err.contains(why) && !err.contains("panicked"), "{args:?}: {err}");
}

/// All commands that load a model must refuse it alike.
#[track_caller]
fn model_refused(folder: &Folder, status: i32, model: &str, why: &str) {
    refused(folder, status, &["predict", model, "--x0", "3,5", "--steps", "3", "--json"], why);
    refused(folder, status, &["inspect", model], why);
    refused(folder, status, &["moments", model, "--mean", "0,0", "--cov", "1,0,0,1"], why);
}

/// Takes an archive apart into header and data, and puts it together again.
fn with_header(bytes: &[u8], change: impl FnOnce(&mut Value, &mut Vec<u8>)) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut data = bytes[8 + length..].to_vec();
    change(&mut header, &mut data);
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn with_description(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    with_header(bytes, |header, _| {
        let text = &mut header["__metadata__"]["nsde"];
        let mut description: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        change(&mut description);
        *text = json!(description.to_string());
    })
}

#[test]
fn files_that_are_no_models() {
    let folder = Folder::new();
    model_refused(&folder, 2, "missing.safetensors", "missing.safetensors: No such file");
    model_refused(&folder, 2, ".", "directory");
    let good = std::fs::read(folder.path("model.safetensors")).unwrap();
    let huge = [&(1u64 << 60).to_le_bytes()[..], &good[8..]].concat();
    let plain = with_header(&good, |header, _| header["__metadata__"] = json!({"format": "pt"}));
    for (bytes, why) in [
        (&b""[..], "empty"),
        (&good[..good.len() - 1], "truncated"),
        (&good[..100], "truncated"),
        (&good[..3], "not a safetensors file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", "not a safetensors file"),
        (b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl", "PyTorch pickle"),
        (&huge, "claims 1152921504606846976 bytes"),
        (&plain, "no key `nsde`"),
    ] {
        folder.write("bad.safetensors", bytes);
        model_refused(&folder, 1, "bad.safetensors", why);
    }
}

#[test]
fn a_model_of_a_table_does_not_forecast() {
    let folder = Folder::new();
    folder.write("t.csv", "x,y\n1,2\n2,3\n3,5\n");
    let fit = ["fit-table", "t.csv", "--target", "y", "--steps", "1", "--hidden", "4", "--quiet"];
    assert_eq!(run(&folder, &fit).0, 0);
    let why = "t.safetensors: this is a regression or a classification of `nsde fit-table`; use `nsde predict-table`";
    for args in [
        &["predict", "t.safetensors", "--x0", "1"][..],
        &["moments", "t.safetensors", "--mean", "0", "--cov", "1"],
        &["forecast", "t.safetensors", "--data", "t.csv", "--steps", "2"],
        &["calibrate", "t.safetensors", "--data", "t.csv"],
        &["report", "t.safetensors", "--data", "t.csv"],
    ] {
        refused(&folder, 1, args, why);
    }
    assert_eq!(run(&folder, &["inspect", "t.safetensors"]).0, 0);
}

#[test]
fn models_that_contradict_themselves() {
    let folder = Folder::new();
    let good = std::fs::read(folder.path("model.safetensors")).unwrap();
    let nan = with_header(&good, |header, data| {
        let at = header["drift.0.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at..at + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    });
    let renamed = with_header(&good, |header, _| {
        let tensor = header.as_object_mut().unwrap().remove("drift.0.weight").unwrap();
        header["drift.0.wieght"] = tensor;
    });
    let cases = [
        (
            with_header(&good, |h, _| h["drift.0.weight"]["shape"] = json!([2, 6])),
            "`drift.0.weight` has shape [2, 6]",
        ),
        (renamed, "`drift.0.weight` of shape [6, 2] is missing"),
        (nan, "`drift.0.weight` holds NaN"),
        (
            with_description(&good, |d| d["drift"][1]["type"] = json!("lstm")),
            "unknown type `lstm`; known are linear",
        ),
        (with_description(&good, |d| d["drift"][1]["type"] = json!("a\nb\u{1b}[31m")), "unknown type `a\\nb"),
        (with_description(&good, |d| d["state"] = json!(0)), "`state` is 0"),
        (with_description(&good, |d| d["version"] = json!(7)), "version 7"),
        (with_description(&good, |d| d["dt"] = json!(-0.1)), "`dt` is -0.1"),
        (with_description(&good, |d| d["scaling"] = json!({"mean": [0], "std": [1]})), "`scaling`"),
        (with_header(&good, |h, _| h["__metadata__"]["nsde"] = json!("{")), "not JSON"),
    ];
    for (bytes, why) in cases {
        folder.write("bad.safetensors", bytes);
        model_refused(&folder, 1, "bad.safetensors", why);
    }
}

#[test]
fn arguments_that_cannot_be_meant() {
    let folder = Folder::new();
    let m = "model.safetensors";
    let predict = |flags: &[&'static str]| [&["predict", m][..], flags].concat();
    for (flags, why) in [
        (&["--x0", "3"][..], "--x0: the state has 2 dimensions, 1 numbers are given"),
        (&["--x0", "3,5,7"], "3 numbers are given"),
        (&["--x0", "3,five"], "`five` is not a number"),
        (&["--x0", ""], "is not a number"),
        (&["--x0", "3,nan"], "NaN is not finite"),
        (&["--x0", "--steps"], "`--steps` is not a number"),
        (&["--x0", "3,5", "--steps", "0"], "--steps"),
        (&["--x0", "3,5", "--steps", "-1"], "--steps"),
        (&["--x0", "3,5", "--steps", "many"], "--steps"),
        (
            &["--x0", "3,5", "--steps", "1000000000000000000"],
            "--steps 1000000000000000000 do not fit into memory",
        ),
        (&["--x0", "3,5", "--dt", "-0.1"], "--dt <DT>': it must be positive"),
        (&["--x0", "3,5", "--dt", "0"], "--dt"),
        (&["--x0", "3,5", "--dt", "inf"], "--dt"),
        (&["--x0", "3,5", "--method", "euler"], "bmm, cubature, mc"),
        (&["--x0", "3,5", "--method", "mc", "--samples", "1"], "--samples"),
        (&["--x0", "3,5", "--method", "mc", "--samples", "1000000000000000000"], "do not fit into memory"),
        (&["--x0", "3,5", "--seed", "-1"], "--seed"),
        (&["--x0", "3,5", "--terms", "0"], "--terms"),
        (&["--x0", "3,5", "--terms", "100000000000"], "terms"),
        (&["--x0", "3,5", "--method", "cubature", "--alpha", "0"], "alpha"),
        (&["--x0", "3,5", "--paths", "--json"], "--paths"),
        (&["--x0", "3,5", "--paths"], "--json"),
        (&["--x0", "3,5", "--inputs", "u.csv"], "no control inputs"),
        (&["--x0", "3,5", "--stepz", "3"], "--steps"),
        (&["--x0", "3,5", "--start", "start.json"], "--start"),
        (&["--start", "missing.json"], "missing.json: No such file"),
        (&["--start", "."], "directory"),
        (&[], "--x0"),
    ] {
        refused(&folder, 2, &predict(flags), why);
    }
    refused(&folder, 2, &["predict", "--x0", "3,5"], "<MODEL>");
    refused(&folder, 2, &["forcast"], "forcast");
    for (flags, why) in [
        (&["--mean", "0,0"][..], "--cov"),
        (&["--mean", "0", "--cov", "1"], "--mean: the drift net reads 2 numbers, 1 are given"),
        (&["--mean", "0,0", "--cov", "1"], "--cov: the drift net needs 2×2 = 4 numbers, 1 are given"),
        (&["--mean", "0,0", "--cov", "1,0,0,1", "--net", "head"], "drift, diffusion"),
    ] {
        refused(&folder, 2, &[&["moments", m][..], flags].concat(), why);
    }
    let driven = ["moments", "driven.safetensors", "--net", "diffusion", "--mean", "0,0", "--cov", "1,0,0,1"];
    refused(&folder, 2, &driven, "has no network");
    refused(&folder, 1, &["moments", m, "--mean", "0,0", "--cov", "1,2,2,1"], "indefinite");
}

#[test]
fn starts_that_are_no_gaussians() {
    let folder = Folder::new();
    for (start, why) in [
        (
            r#"{"mean": [1, 2], "cov": [[1, 0.5], [0.4, 1]]}"#,
            "start.json: start: covariance is not a covariance",
        ),
        (r#"{"mean": [1, 2], "cov": [[1, 2], [2, 1]]}"#, "indefinite"),
        (r#"{"mean": [1, 2], "cov": [[-1, 0], [0, 1]]}"#, "variance 0 is -1"),
        (r#"{"mean": [1, 2], "cov": [[1, 0]]}"#, "`cov` must be a list of 2 rows"),
        (r#"{"mean": [1, 2], "cov": [[1, 0], [0]]}"#, "row 1 of `cov` has 1 numbers"),
        (r#"{"mean": [1, 2, 3]}"#, "`mean` has 3 numbers"),
        (r#"{"mean": [1, "b"]}"#, "`mean` must be a list of 2 numbers"),
        (r#"{"cov": [[1, 0], [0, 1]]}"#, "no key `mean`"),
        (r#"{"mean": [1, NaN]}"#, "not JSON"),
        ("", "not JSON"),
    ] {
        folder.write("start.json", start);
        refused(&folder, 1, &["predict", "model.safetensors", "--start", "start.json", "--json"], why);
    }
}

#[test]
fn inputs_that_do_not_fit() {
    let folder = Folder::new();
    let base = ["predict", "driven.safetensors", "--x0", "0", "--steps", "3", "--json"];
    refused(&folder, 2, &base, "the model needs control inputs; give --inputs");
    let args = [&base[..], &["--inputs", "u.csv"]].concat();
    refused(&folder, 2, &args, "u.csv: No such file");
    refused(&folder, 2, &[&base[..], &["--inputs", "."]].concat(), "directory");
    for (text, why) in [
        ("u\n1\n2\n", "u.csv: 3 steps need 3 rows after the header, 2 found"),
        ("", "the header names 0"),
        ("u,v\n1,2\n", "the header names 2"),
        ("u\n1\n2,3\n4\n", "line 3: expected 1 columns, found 2"),
        ("u\n1\nfast\n4\n", "line 3: `fast` is not a finite number"),
        ("u\n1\n2\nNaN\n", "line 4: `NaN` is not a finite number"),
    ] {
        folder.write("u.csv", text);
        refused(&folder, 1, &args, why);
    }
    folder.write("u.csv", b"u\n\xff\xfe\n");
    refused(&folder, 1, &args, "u.csv");
}

#[test]
fn dynamics_that_explode() {
    let folder = Folder::new();
    let args = ["predict", "model.safetensors", "--x0", "3,5", "--dt", "1e200", "--steps", "10", "--json"];
    refused(&folder, 1, &args, "overflow");
}
