//! `nsde fit` as a user meets it: a model from a table, interruptions, and data that cannot be used.

#[path = "common/kill.rs"]
mod kill;

use nsde::Model;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn nsde() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nsde"))
}

/// Paths of a noisy spiral, several series in one file.
fn write_data(path: &Path) {
    let mut text = String::from("run,t,x,y\n");
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    };
    for run in 0..6 {
        let (mut x, mut y) = (1.0 + noise(), noise());
        for n in 0..40 {
            text.push_str(&format!("{run},{},{x},{y}\n", n as f64 * 0.1));
            (x, y) = (
                x + 0.1 * (2.0 * y - 0.3 * x) + 0.1 * noise(),
                y - 0.1 * (2.0 * x + 0.3 * y) + 0.1 * noise(),
            );
        }
    }
    fs::write(path, text).unwrap();
}

const SMALL: [&str; 10] =
    ["--series-column", "run", "--hidden", "8", "--horizon", "1,4", "--batch", "4", "--seed", "3"];

fn settings(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("settings.toml");
    fs::write(&path, "[train]\ncheckpoint_every = 5\n[model.networks]\nnoise_hidden = [4]\n").unwrap();
    path
}

fn one_line(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.csv");
    write_data(&data);
    let config = settings(dir.path());
    let fit = |output: &Path| {
        let mut c = nsde();
        c.arg("fit")
            .arg(&data)
            .args(SMALL)
            .args(["--steps", "600"])
            .arg("--config")
            .arg(&config)
            .arg("--output")
            .arg(output);
        c.arg("--quiet").stdout(Stdio::null()).stderr(Stdio::piped());
        c
    };
    kill::resumes_to_the_same_bits(dir.path(), 20, fit);
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.csv");
    write_data(&data);
    let model = dir.path().join("m.safetensors");
    let mut fit = nsde();
    fit.arg("fit").arg(&data).args(SMALL).args(["--steps", "1000000"]).arg("--output").arg(&model);
    let child = fit.stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let text = one_line(&out);
    assert!(text.contains("--resume"), "{text}");
    assert!(!model.exists());
    // Without a word about the checkpoint, nothing is overwritten.
    let mut again = nsde();
    again.arg("fit").arg(&data).args(SMALL).args(["--steps", "1000000"]).arg("--output").arg(&model);
    let out = again.output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(one_line(&out).contains("--restart"));
}

#[test]
fn a_fitted_model_forecasts_and_knows_its_history() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.csv");
    write_data(&data);
    let path = dir.path().join("m.safetensors");
    let fit = |members: &str| {
        let mut c = nsde();
        c.arg("fit")
            .arg(&data)
            .args(SMALL)
            .args(["--steps", "120", "--members", members])
            .arg("--output")
            .arg(&path);
        c.output().unwrap()
    };
    let out = fit("2");
    assert!(out.status.success(), "{}", one_line(&out));
    let model = Model::load(&path).unwrap();
    assert_eq!(model.columns.as_deref(), Some(&["x".to_string(), "y".to_string()][..]));
    assert!((model.dt - 0.1).abs() < 1e-12);
    assert_eq!(model.extra["members"], 2);
    let history = model.extra["training"]["history"].as_array().unwrap();
    assert!(!history.is_empty());
    let score = |i: usize| history[i]["validation"].as_f64().unwrap();
    assert!(score(history.len() - 1).is_finite() && score(0).is_finite());
    let predict =
        nsde().arg("predict").arg(&path).args(["--x0", "1,0", "--steps", "3", "--json"]).output().unwrap();
    assert!(predict.status.success());
}

#[test]
fn settings_are_printed_in_full_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.csv");
    write_data(&data);
    let print = |args: &[&str]| {
        let out = nsde().arg("fit").arg(&data).args(args).arg("--print-config").output().unwrap();
        assert!(out.status.success(), "{}", one_line(&out));
        String::from_utf8(out.stdout).unwrap()
    };
    let first = print(&["--horizon", "1,10", "--rate", "0.002", "--keep", "0.9", "--series-column", "run"]);
    let file = dir.path().join("s.toml");
    fs::write(&file, &first).unwrap();
    assert_eq!(print(&["--config", file.to_str().unwrap()]), first);
    assert!(first.contains("horizon = [") && first.contains("0.002") && first.contains("run"));
    fs::write(&file, "[train]\nhorizn = [1]\n").unwrap();
    let out = nsde().arg("fit").arg(&data).arg("--config").arg(&file).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(one_line(&out).contains("line 2"), "{}", one_line(&out));
}

#[test]
fn data_that_cannot_be_used_are_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let many: String = (0..10_000).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    let row = vec!["1"; 10_000].join(",");
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty file", b"".to_vec(), &[]),
        ("header only", b"t,x\n".to_vec(), &[]),
        ("text in a number column", b"t,x\n0,1\n1,two\n2,3\n".to_vec(), &[]),
        ("duplicate times", b"t,x\n0,1\n1,2\n1,3\n".to_vec(), &[]),
        ("decreasing times", b"t,x\n0,1\n2,2\n1,3\n".to_vec(), &[]),
        ("infinite value", b"t,x\n0,1\n1,inf\n2,3\n".to_vec(), &[]),
        ("one row", b"t,x\n0,1\n".to_vec(), &[]),
        ("ten thousand columns", format!("{many}\n{row}\n{row}\n").into_bytes(), &[]),
        ("not UTF-8", b"t,x\n0,1\n1,\xff\xfe\n2,3\n".to_vec(), &[]),
        ("wrong column name", b"t,level\n0,1\n1,2\n2,3\n".to_vec(), &["--state", "levle"]),
        ("horizon longer than the data", b"t,x\n0,1\n1,2\n2,3\n3,4\n4,5\n".to_vec(), &["--horizon", "50"]),
        ("all missing", b"t,x\n0,\n1,NA\n2,NaN\n".to_vec(), &[]),
    ];
    for (what, bytes, args) in cases {
        let data = dir.path().join("bad.csv");
        let model = dir.path().join("bad.safetensors");
        fs::write(&data, bytes).unwrap();
        let out = nsde().arg("fit").arg(&data).args(args).arg("--output").arg(&model).output().unwrap();
        let text = one_line(&out);
        assert!(matches!(out.status.code(), Some(1 | 2)), "{what}: {:?} {text}", out.status);
        let errors: Vec<&str> = text.lines().filter(|l| l.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{what}: {text}");
        assert!(!model.exists(), "{what}");
        if what == "wrong column name" {
            assert!(text.contains("level"), "{text}");
        }
    }
}

#[test]
fn a_horizon_nobody_asked_for_is_as_long_as_the_data_allow() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("short.csv");
    fs::write(&data, "t,x\n0,1\n1,2\n2,2\n3,3\n4,3\n5,2\n6,2\n").unwrap();
    let model = dir.path().join("m.safetensors");
    let config = dir.path().join("s.toml");
    let fit = |args: &[&str]| {
        let mut c = nsde();
        c.arg("fit").arg(&data).args(["--hidden", "4", "--steps", "3", "--output"]).arg(&model).args(args);
        let out = c.output().unwrap();
        (out.status.code(), one_line(&out))
    };
    // Two of the seven rows are held out, and a window has a start: four rows are left.
    let (status, text) = fit(&[]);
    assert_eq!(status, Some(0), "{text}");
    let notes: Vec<&str> = text.lines().filter(|l| l.contains("horizon")).collect();
    assert_eq!(notes, ["note: the longest training series has 5 rows: the horizon is 4 instead of 10"]);
    let settings = &Model::load(&model).unwrap().extra["training"]["settings"]["train"];
    assert_eq!(settings["horizon"], serde_json::json!([4]));
    // Other settings of a file do not ask for a horizon.
    fs::write(&config, "[train]\nterms = 6\n").unwrap();
    assert_eq!(
        fit(&["--config", config.to_str().unwrap(), "--validation", "0", "--quiet"]),
        (Some(0), "".into())
    );
    // Who asks gets it, or an error.
    fs::write(&config, "[train]\nhorizon = [10]\n").unwrap();
    for args in [&["--horizon", "10"][..], &["--config", config.to_str().unwrap()]] {
        let (status, text) = fit(args);
        assert!(
            status == Some(2) && text.contains("horizon (the longest training series has 5 rows)"),
            "{text}"
        );
    }
}

/// Windows line ends, a constant column and gaps are data like any other.
#[test]
fn unusual_data_are_used_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("odd.csv");
    let mut text = String::from("t,x,same\r\n");
    for n in 0..60 {
        let t = n as f64 * 0.1 + if n > 30 { 0.45 } else { 0.0 };
        let x = if n % 7 == 3 { String::new() } else { format!("{}", (t * 2.0).sin()) };
        text.push_str(&format!("{t},{x},5\r\n"));
    }
    fs::write(&data, text).unwrap();
    let model = dir.path().join("odd.safetensors");
    let out = nsde()
        .arg("fit")
        .arg(&data)
        .args(["--hidden", "8", "--horizon", "3", "--steps", "60", "--output"])
        .arg(&model)
        .output()
        .unwrap();
    let text = one_line(&out);
    assert!(out.status.success(), "{text}");
    assert!(text.contains("same"), "{text}");
    assert!(Model::load(&model).is_ok());
}
