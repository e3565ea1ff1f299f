//! The program as a process: what it prints, and how it refuses.

mod common;

use common::{Folder, run};
use nsde::{Diffusion, Layer, Linear, Model, Network, NeuralSde, Scaling};
use serde_json::Value;

/// Success, with no more on standard error than that guards acted (rounding may raise a variance).
#[track_caller]
fn assert_done(code: i32, err: &str) {
    assert!(code == 0 && err.lines().all(|line| line.starts_with("note: guards acted")), "{code}: {err}");
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    let (code, out, err) = run(folder, args);
    assert_done(code, &err);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn predictions_have_the_promised_shape_and_repeat_to_the_byte() {
    let folder = Folder::new();
    for method in ["bmm", "cubature", "mc"] {
        let args = ["predict", "model.safetensors", "--x0", "-3,5", "--steps", "4", "--dt", "0.01", "--json"];
        let args = [&args[..], &["--method", method, "--samples", "30", "--seed", "1"]].concat();
        let (code, first, err) = run(&folder, &args);
        assert_eq!(code, 0, "{err}");
        assert_eq!(first, run(&folder, &args).1);
        let document: Value = serde_json::from_str(&first).unwrap();
        assert!(document.as_object().unwrap().keys().eq(["dt", "steps"]));
        assert_eq!(document["dt"], 0.01);
        let steps = document["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 4);
        for (k, step) in steps.iter().enumerate() {
            assert!(step.as_object().unwrap().keys().eq(["t", "mean", "cov"]));
            assert_eq!(step["t"], (k + 1) as f64 * 0.01);
            assert_eq!(numbers(&step["mean"]).len(), 2);
            let cov = rows(&step["cov"]);
            assert!(cov.len() == 2 && cov.iter().all(|row| row.len() == 2));
            assert_eq!(cov[0][1], cov[1][0]);
        }
    }
}

#[test]
fn numbers_are_those_of_the_library() {
    let folder = Folder::new();
    let model = Model::load(folder.path("model.safetensors")).unwrap();
    let start = model.start(vec![3.0, 5.0]).unwrap();
    let rollout = nsde::Rollout { start: &start, dts: &[model.dt; 7], inputs: &[] };
    for (flags, moments) in [
        (vec![], nsde::Moments::default()),
        (vec!["--terms", "3"], nsde::Moments::Series { terms: 3 }),
        (vec!["--moments", "exact"], nsde::Moments::Exact),
        (vec!["--moments", "paper"], nsde::Moments::Paper),
    ] {
        let options = nsde::Options { moments, ..Default::default() };
        let path = model.predict(options, &[rollout]).unwrap().remove(0);
        let args = ["predict", "model.safetensors", "--x0", "3,5", "--steps", "7", "--json"];
        let document = json(&folder, &[&args[..], &flags].concat());
        for k in 0..7 {
            assert_eq!(numbers(&document["steps"][k]["mean"]), path.mean(k), "{flags:?}");
            assert_eq!(rows(&document["steps"][k]["cov"]).concat(), path.cov(k), "{flags:?}");
        }
    }
}

#[test]
fn a_step_of_a_forecast_is_a_start() {
    let folder = Folder::new();
    let whole = json(&folder, &["predict", "model.safetensors", "--x0", "3,5", "--steps", "6", "--json"]);
    folder.write("start.json", whole["steps"][3].to_string());
    let rest =
        json(&folder, &["predict", "model.safetensors", "--start", "start.json", "--steps", "2", "--json"]);
    for k in 0..2 {
        assert_eq!(rest["steps"][k]["mean"], whole["steps"][4 + k]["mean"]);
        assert_eq!(rest["steps"][k]["cov"], whole["steps"][4 + k]["cov"]);
    }
    folder.write("point.json", r#"{"mean": [3, 5]}"#);
    let point =
        json(&folder, &["predict", "model.safetensors", "--start", "point.json", "--steps", "6", "--json"]);
    assert_eq!(point, whole);
}

#[test]
fn paths_of_monte_carlo_have_the_printed_moments() {
    let folder = Folder::new();
    let args =
        ["predict", "model.safetensors", "--x0", "3,5", "--steps", "3", "--method", "mc", "--samples", "40"];
    let document = json(&folder, &[&args[..], &["--json", "--paths"]].concat());
    let samples: Vec<Vec<Vec<f64>>> = serde_json::from_value(document["samples"].clone()).unwrap();
    assert_eq!(samples.len(), 3);
    for (states, step) in samples.iter().zip(document["steps"].as_array().unwrap()) {
        assert_eq!(states.len(), 40);
        let mean = numbers(&step["mean"]);
        for i in 0..2 {
            let average = states.iter().map(|x| x[i]).sum::<f64>() / 40.0;
            assert!((average - mean[i]).abs() < 1e-12 * (1.0 + average.abs()));
        }
    }
}

/// The SDE of the networks in data units is the prediction without scaling, rescaled.
#[test]
fn scaling_rescales_start_and_prediction() {
    let folder = Folder::new();
    let plain = Model::load(folder.path("model.safetensors")).unwrap();
    let (mean, std) = ([10.0, -4.0], [2.0, 0.5]);
    let scaling = Some(Scaling::new(mean.to_vec(), std.to_vec()).unwrap());
    Model { scaling, ..plain }.save(folder.path("scaled.safetensors")).unwrap();
    folder.write("net.json", r#"{"mean": [0.5, -1.0], "cov": [[0.25, 0.125], [0.125, 1.0]]}"#);
    folder.write("data.json", r#"{"mean": [11.0, -4.5], "cov": [[1.0, 0.125], [0.125, 0.25]]}"#);
    for method in ["bmm", "cubature", "mc"] {
        let flags = ["--steps", "5", "--json", "--method", method, "--samples", "20"];
        let net =
            json(&folder, &[&["predict", "model.safetensors", "--start", "net.json"][..], &flags].concat());
        let data =
            json(&folder, &[&["predict", "scaled.safetensors", "--start", "data.json"][..], &flags].concat());
        for k in 0..5 {
            let (net, data) = (&net["steps"][k], &data["steps"][k]);
            let close =
                |x: f64, y: f64| assert!((x - y).abs() < 1e-13 * (1.0 + x.abs()), "{method}: {x} {y}");
            for i in 0..2 {
                close(numbers(&net["mean"])[i] * std[i] + mean[i], numbers(&data["mean"])[i]);
                for j in 0..2 {
                    close(rows(&net["cov"])[i][j] * std[i] * std[j], rows(&data["cov"])[i][j]);
                }
            }
        }
    }
}

#[test]
fn inputs_steer_and_more_rows_than_steps_are_fine() {
    let folder = Folder::new();
    folder.write("u.csv", "push\n1\n-1\n0.5\n99\n");
    let args = ["predict", "driven.safetensors", "--x0", "0", "--inputs", "u.csv", "--steps", "3", "--json"];
    let document = json(&folder, &args);
    // dx = u dt with dt = 0.5
    for (k, x) in [0.5, 0.0, 0.25].into_iter().enumerate() {
        assert_eq!(numbers(&document["steps"][k]["mean"]), [x]);
    }
}

#[test]
fn the_table_names_the_columns() {
    let folder = Folder::new();
    let (code, out, err) = run(&folder, &["predict", "model.safetensors", "--x0", "3,5", "--steps", "12"]);
    assert_done(code, &err);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 13);
    assert!(lines[0].contains("prey") && lines[0].contains("predator"));
    assert!(lines[1..].iter().all(|line| line.matches(" ± ").count() == 2));
    let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|w| *w == widths[0]), "{out}");
}

#[test]
fn cubature_says_once_that_it_ignores_dropout() {
    let folder = Folder::new();
    let sde = {
        let linear = || Layer::Linear(Linear::new(1, 1, vec![-0.5], vec![0.0]).unwrap());
        let drift = Network::new(1, vec![linear(), Layer::Dropout { keep: 0.9 }, linear()]).unwrap();
        NeuralSde::new(1, 0, drift, Diffusion::ConstantDiagonal(vec![0.1])).unwrap()
    };
    Model::new(sde, 0.1).unwrap().save(folder.path("dropout.safetensors")).unwrap();
    for (method, notes) in [("bmm", 0), ("cubature", 1), ("mc", 0)] {
        let args = ["predict", "dropout.safetensors", "--x0", "1", "--method", method, "--json"];
        let (code, _, err) = run(&folder, &args);
        assert_eq!((code, err.matches("dropout").count()), (0, notes), "{method}: {err}");
    }
}

#[test]
fn moments_are_those_of_the_library() {
    let folder = Folder::new();
    let model = Model::load(folder.path("model.safetensors")).unwrap();
    for (net, network) in
        [("drift", model.sde.drift()), ("diffusion", model.sde.diffusion().network().unwrap())]
    {
        let flags = ["--mean", "-0.1,0.2", "--cov", "0.5,-0.1,-0.1,0.4", "--json", "--terms", "5"];
        let document = json(&folder, &[&["moments", "model.safetensors", "--net", net][..], &flags].concat());
        let cov = [0.5, -0.1, -0.1, 0.4];
        let expected = network.moments(&[-0.1, 0.2], &cov, nsde::Moments::Series { terms: 5 }).unwrap();
        assert!(document.as_object().unwrap().keys().eq(["mean", "cov", "jac"]));
        assert_eq!(numbers(&document["mean"]), expected.mean);
        assert_eq!(rows(&document["cov"]).concat(), expected.cov);
        assert_eq!(rows(&document["jac"]).concat(), expected.jac);
        assert_eq!(rows(&document["jac"])[0].len(), 2);
    }
    let args = ["moments", "model.safetensors", "--mean", "-0.1,0.2", "--cov", "0.5,-0.1,-0.1,0.4"];
    let (code, out, _) = run(&folder, &args);
    assert!(code == 0 && out.contains("covariance") && out.contains("Jacobian"), "{out}");
}

#[test]
fn inspect_shows_the_whole_model() {
    let folder = Folder::new();
    let (code, out, err) = run(&folder, &["inspect", "model.safetensors"]);
    assert_done(code, &err);
    for word in
        ["dx = f(x) dt + L(x) dw", "prey, predator", "2 → 6", "softplus", "0.05", "notes", "32 parameters"]
    {
        assert!(out.contains(word), "no {word} in\n{out}");
    }
    let document = json(&folder, &["inspect", "model.safetensors", "--json"]);
    assert_eq!(document["parameters"], 38);
    assert_eq!(document["drift"]["layers"][0]["parameters"], 18);
    assert_eq!(document["diffusion"]["kind"], "diagonal");
    assert_eq!(document["extra"]["notes"], "kept");
    let (code, out, _) = run(&folder, &["inspect", "driven.safetensors"]);
    assert!(code == 0 && out.contains("dx = f(x, u) dt\n"), "{out}");
}

#[test]
fn completions_and_manual_pages_name_every_subcommand() {
    let folder = Folder::new();
    let commands = ["predict", "moments", "inspect", "completions", "man"];
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, out, _) = run(&folder, &["completions", shell]);
        assert_eq!(code, 0);
        assert!(commands.iter().all(|c| out.contains(c)), "{shell}");
    }
    let (code, out, _) = run(&folder, &["man"]);
    assert!(code == 0 && out.contains(".TH nsde"));
    assert!(commands.iter().all(|c| out.contains(c)), "{out}");
    assert_eq!(run(&folder, &["man", "--dir", "pages"]).0, 0);
    for command in commands {
        assert!(folder.path(&format!("pages/nsde-{command}.1")).is_file(), "{command}");
    }
    assert!(folder.path("pages/nsde.1").is_file());
}

#[test]
fn help_and_version_succeed() {
    let folder = Folder::new();
    for args in [&["--help"][..], &["--version"], &["predict", "--help"]] {
        let (code, out, err) = run(&folder, args);
        assert!(code == 0 && err.is_empty() && !out.is_empty(), "{args:?}");
    }
    let (code, out, err) = run(&folder, &[]);
    assert!(code == 2 && out.is_empty() && err.contains("Usage"));
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let folder = Folder::new();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("nsde"))
        .args(["predict", "model.safetensors", "--x0", "3,5", "--steps", "20000", "--json"])
        .current_dir(folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_done(output.status.code().unwrap_or(-1), &String::from_utf8_lossy(&output.stderr));
}
