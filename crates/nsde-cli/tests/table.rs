//! `nsde fit-table`, and what `nsde predict-table` and `nsde evaluate` make of its models.

mod common;
#[path = "common/kill.rs"]
mod kill;

use common::{Folder, run};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Uniform in ±1, the same every time.
fn noise(n: usize) -> f64 {
    let x = (n as f64 * 12.9898 + 1.0).sin() * 43758.5453;
    2.0 * (x - x.floor()) - 1.0
}

fn fit(folder: &Folder, data: &str, flags: &str) {
    let args: Vec<&str> = ["fit-table", data, "--quiet"].into_iter().chain(flags.split(' ')).collect();
    let (status, out, err) = run(folder, &args);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""), "{flags}");
}

fn evaluate(folder: &Folder, model: &str, data: &str) -> Value {
    let (status, out, err) = run(folder, &["evaluate", model, "--data", data, "--json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

fn number(document: &Value, key: &str) -> f64 {
    document[key].as_f64().unwrap_or_else(|| panic!("{key} in {document}"))
}

/// `y = 50 + 20 sin 3x` with noise, from row `first` of an endless table.
fn wave(first: usize) -> (String, Vec<f64>) {
    let (mut text, mut ys) = ("x,y,place\n".to_string(), Vec::new());
    for i in first..first + 120 {
        let x = noise(2 * i);
        let y = 50.0 + 20.0 * ((3.0 * x).sin() + 0.2 * noise(2 * i + 1));
        text += &format!("{},{y},here\n", 1000.0 + 10.0 * x);
        ys.push(y);
    }
    (text, ys)
}

#[test]
fn a_regression_beats_the_constant_gaussian() {
    let folder = Folder::new();
    folder.write("wave.csv", wave(0).0);
    let (text, ys) = wave(500);
    folder.write("held-out.csv", text);
    fit(&folder, "wave.csv", "--target y --steps 150 --hidden 16 --latent 2 --rate 0.02");
    let found = evaluate(&folder, "wave.safetensors", "held-out.csv");
    let mean = ys.iter().sum::<f64>() / 120.0;
    let var = ys.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 120.0;
    let constant = 0.5 * ((2.0 * std::f64::consts::PI * var).ln() + 1.0);
    assert!(number(&found, "rmse") < 0.8 * var.sqrt(), "{found}");
    assert!(number(&found, "nll") < constant - 0.2, "{found} {constant}");
    assert!(number(&found, "ecpe") < 0.25, "{found}");
    assert_eq!((found["kind"].as_str(), found["count"].as_u64()), (Some("regression"), Some(120)));
    assert_eq!(found["targets"][0]["target"], "y");
    for key in ["rmse", "nll", "ecpe"] {
        assert!((number(&found, key) - number(&found["targets"][0], key)).abs() < 1e-9, "{key}");
    }

    let (status, out, _) = run(&folder, &["evaluate", "wave.safetensors", "--data", "held-out.csv"]);
    assert!(status == 0 && out.contains("RMSE") && out.contains("ECPE") && out.lines().count() == 2, "{out}");
    let (status, _, err) =
        run(&folder, &["evaluate", "wave.safetensors", "--data", "held-out.csv", "--horizon", "3"]);
    assert!(status == 2 && err.contains("--horizon") && err.lines().count() == 1, "{err}");

    let model = nsde::Model::load(folder.path("wave.safetensors")).unwrap();
    let table = &model.extra["table"];
    assert_eq!(table["features"], serde_json::json!(["x"]), "the text column is left out");
    assert!((table["feature_mean"][0].as_f64().unwrap() - 1000.0).abs() < 3.0);
    assert!((table["target_mean"][0].as_f64().unwrap() - 50.0).abs() < 5.0);
}

#[test]
fn more_targets_than_dimensions_have_noise_of_their_own() {
    let folder = Folder::new();
    let rows: String = (0..40).map(|i| format!("{0},{0},{1}\n", noise(2 * i), noise(2 * i + 1))).collect();
    folder.write("two.csv", format!("x,a,b\n{rows}"));
    let flags = "--target a,b --steps 20 --hidden 8 --validation 0 --output m.safetensors";
    fit(&folder, "two.csv", flags);
    let found = evaluate(&folder, "m.safetensors", "two.csv");
    assert_eq!(found["targets"].as_array().map(Vec::len), Some(2));
    assert!(number(&found, "nll").is_finite());
    let first = std::fs::read(folder.path("m.safetensors")).unwrap();
    fit(&folder, "two.csv", flags);
    let text = |bytes: &[u8]| nsde::Model::from_bytes(bytes, "m").unwrap().sde.parameters();
    assert_eq!(text(&first), text(&std::fs::read(folder.path("m.safetensors")).unwrap()), "the same again");
}

#[test]
fn exclusive_or_of_text_labels_is_learned() {
    let folder = Folder::new();
    let cloud = |first: usize| {
        let row = |i: usize| {
            let (a, b) = (i & 1, i >> 1 & 1);
            let at = |c: usize, k: usize| 2.0 * c as f64 - 1.0 + 0.5 * noise(2 * (first + i) + k);
            format!("{},{},\"{}\"\n", at(a, 0), at(b, 1), if a == b { "equal, both" } else { "other" })
        };
        format!("a,b,class\n{}", (0..160).map(row).collect::<String>())
    };
    folder.write("xor.csv", cloud(0));
    folder.write("held-out.csv", cloud(700));
    fit(&folder, "xor.csv", "--label class --steps 200 --hidden 16 --latent 4 --rate 0.02");
    let found = evaluate(&folder, "xor.safetensors", "held-out.csv");
    assert!(number(&found, "accuracy") >= 0.9, "{found}");
    assert!(number(&found, "nll") < 0.5 && number(&found, "ece") < 0.3, "{found}");
    assert_eq!(found["classes"], serde_json::json!(["equal, both", "other"]));
    assert_eq!(found["reliability"].as_array().map(Vec::len), Some(10));

    folder.write("strange.csv", "a,b,class\n1,1,other\n1,1,third\n");
    let (status, _, err) = run(&folder, &["evaluate", "xor.safetensors", "--data", "strange.csv"]);
    assert!(status == 1 && err.contains("line 3") && err.contains("third"), "{err}");
}

#[test]
fn sequences_of_different_length_are_classified() {
    let folder = Folder::new();
    let mut text = "run;u;sign\n".to_string();
    for series in 0..60 {
        let sign = if series % 2 == 0 { 1.0 } else { -1.0 };
        for n in 0..2 + series % 5 {
            let name = if sign > 0.0 { "up" } else { "down" };
            text += &format!("{series};{};{name}\n", sign + noise(10 * series + n));
        }
    }
    folder.write("runs.csv", text);
    let flags = "--label sign --series-column run --steps 80 --hidden 8 --latent 3 --rate 0.02";
    fit(&folder, "runs.csv", flags);
    let found = evaluate(&folder, "runs.safetensors", "runs.csv");
    assert_eq!((found["kind"].as_str(), found["count"].as_u64()), (Some("sequences"), Some(60)));
    assert!(number(&found, "accuracy") > 0.85, "{found}");
}

/// The sheet that `nsde predict-table` prints: head, and rows of cells.
fn sheet(folder: &Folder, args: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
    let (status, out, err) = run(folder, &[&["predict-table"], args].concat());
    assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
    let mut reader = csv::Reader::from_reader(out.as_bytes());
    let cells = |row: &csv::StringRecord| row.iter().map(String::from).collect::<Vec<_>>();
    let head = cells(reader.headers().unwrap());
    (head, reader.records().map(|row| cells(&row.unwrap())).collect())
}

fn document(folder: &Folder, args: &[&str]) -> Value {
    let (status, out, err) = run(folder, &[&["predict-table", "--json"], args].concat());
    assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn predictions_of_a_regression_are_those_that_are_scored() {
    let folder = Folder::new();
    folder.write("wave.csv", wave(0).0);
    fit(&folder, "wave.csv", "--target y --steps 40 --hidden 8 --latent 2 --rate 0.02");
    let (text, ys) = wave(500);
    folder.write("held-out.csv", &text);
    let scores = evaluate(&folder, "wave.safetensors", "held-out.csv");
    // Other columns in another order, and no target.
    let new: String = text.lines().map(|l| format!("7,{}\n", l.split(',').next().unwrap())).collect();
    folder.write("new.csv", new);

    let args = ["wave.safetensors", "--data", "new.csv", "--quantiles", "0.05,0.5"];
    let (head, rows) = sheet(&folder, &args);
    assert_eq!(head, ["row", "y_mean", "y_sd", "y_q05", "y_q50"]);
    assert_eq!(rows.len(), ys.len());
    let (mut squares, mut nll) = (0.0, 0.0);
    for (n, (row, y)) in rows.iter().zip(&ys).enumerate() {
        let x: Vec<f64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
        let (mean, sd) = (x[1], x[2]);
        assert_eq!(row[0], n.to_string());
        assert!(
            (x[3] - (mean - 1.6448536269514722 * sd)).abs() < 1e-8 * sd && (x[4] - mean).abs() < 1e-12 * mean
        );
        squares += (y - mean).powi(2);
        nll += 0.5 * ((y - mean) / sd).powi(2) + sd.ln() + 0.5 * (2.0 * std::f64::consts::PI).ln();
    }
    let n = ys.len() as f64;
    assert!(((squares / n).sqrt() - number(&scores, "rmse")).abs() < 1e-9, "{scores}");
    assert!((nll / n - number(&scores, "nll")).abs() < 1e-9, "{scores}");

    let json = document(&folder, &args);
    assert_eq!((&json["kind"], &json["targets"][0]), (&"regression".into(), &"y".into()));
    assert_eq!(json["rows"][3]["mean"][0].as_f64().unwrap(), rows[3][1].parse::<f64>().unwrap());
    assert_eq!(json["rows"][3]["quantiles"][0][0].as_f64().unwrap(), rows[3][3].parse::<f64>().unwrap());

    let (status, out, _) = run(&folder, &[&["predict-table"], &args[..3], &["--output", "out.csv"]].concat());
    let written = std::fs::read_to_string(folder.path("out.csv")).unwrap();
    assert_eq!((status, out.as_str(), written.lines().count()), (0, "", ys.len() + 1));
    assert!(written.starts_with("row,y_mean,y_sd,y_q05,y_q50,y_q95\n"), "{written}");
}

#[test]
fn predictions_of_classes_are_those_that_are_scored() {
    let folder = Folder::new();
    let up = |i: usize| noise(i - i % 3) > 0.0;
    let row =
        |i: usize| format!("{},{},\"{}\"\n", noise(i), i / 3, if up(i) { "up" } else { "down, not up" });
    let text = format!("x,run,c\n{}", (0..90).map(row).collect::<String>());
    folder.write("runs.csv", &text);
    let new: String =
        text.lines().map(|l| l.split(',').take(2).collect::<Vec<_>>().join(",") + "\n").collect();
    folder.write("new.csv", new);
    for (flags, key, count) in
        [("--label c --state x", "row", 90), ("--label c --series-column run", "series", 30)]
    {
        fit(&folder, "runs.csv", &format!("{flags} --steps 30 --hidden 8 --output m.safetensors"));
        let scores = evaluate(&folder, "m.safetensors", "runs.csv");
        let (head, rows) = sheet(&folder, &["m.safetensors", "--data", "new.csv"]);
        assert_eq!(head, [key, "class", "p_down, not up", "p_up"]);
        assert_eq!(rows.len(), count);
        let (mut right, mut nll) = (0.0, 0.0);
        for (n, cells) in rows.iter().enumerate() {
            let up = up(if key == "row" { n } else { 3 * n });
            let p: f64 = cells[if up { 3 } else { 2 }].parse().unwrap();
            assert_eq!(cells[0], n.to_string());
            assert!(cells[1] == if (p > 0.5) == up { "up" } else { "down, not up" }, "{cells:?}");
            right += f64::from(u8::from(p > 0.5));
            nll -= p.ln();
        }
        assert!((right / count as f64 - number(&scores, "accuracy")).abs() < 1e-12, "{scores}");
        assert!((nll / count as f64 - number(&scores, "nll")).abs() < 1e-9, "{scores}");
        let json = document(&folder, &["m.safetensors", "--data", "new.csv"]);
        assert_eq!(json["rows"][4]["class"], rows[4][1].as_str());
        assert_eq!(json["rows"][4]["probabilities"][1].as_f64().unwrap(), rows[4][3].parse::<f64>().unwrap());
        assert_eq!(json["rows"][4][key], if key == "row" { Value::from(4) } else { Value::from("4") });
    }
}

#[test]
fn predictions_that_cannot_be_made_are_refused_in_one_line() {
    let folder = Folder::new();
    folder.write("wave.csv", wave(0).0);
    fit(&folder, "wave.csv", "--target y --steps 1 --hidden 4");
    folder.write("classes.csv", "x,c\n1,a\n2,b\n3,a\n4,b\n");
    fit(&folder, "classes.csv", "--label c --steps 1 --hidden 4");
    folder.write("other.csv", "z\n1\n");
    folder.write("gap.csv", "x\n1\n\"\"\n");
    for (args, wanted, words) in [
        ("wave.safetensors --data other.csv", 2, "no column `x`"),
        ("wave.safetensors --data gap.csv", 1, "line 3"),
        ("wave.safetensors --data nothing.csv", 2, "nothing.csv"),
        ("wave.safetensors --data wave.csv --quantiles 1", 2, "quantile"),
        ("wave.safetensors --data wave.csv --series-column place", 2, "--series-column"),
        ("classes.safetensors --data classes.csv --quantiles 0.5", 2, "--quantiles"),
        ("model.safetensors --data wave.csv", 1, "nsde forecast"),
        ("wave.csv --data wave.csv", 1, "wave.csv"),
    ] {
        let args: Vec<&str> = ["predict-table"].into_iter().chain(args.split(' ')).collect();
        let (status, out, err) = run(&folder, &args);
        assert_eq!((status, out.as_str(), err.lines().count()), (wanted, "", 1), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = Folder::new();
    folder.write("wave.csv", wave(0).0);
    kill::resumes_to_the_same_bits(&folder.path(""), 8, |output: &Path| {
        let mut fit = Command::new(env!("CARGO_BIN_EXE_nsde"));
        fit.current_dir(folder.path("")).args(["fit-table", "wave.csv", "--target", "y", "--quiet"]);
        fit.args(["--latent", "2", "--hidden", "8", "--batch", "8", "--steps", "450", "--output"])
            .arg(output);
        fit
    });
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let folder = Folder::new();
    folder.write("wave.csv", wave(0).0);
    let args = ["fit-table", "wave.csv", "--target", "y", "--steps", "1000000", "--quiet"];
    let child = Command::new(env!("CARGO_BIN_EXE_nsde"))
        .current_dir(folder.path(""))
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("wave.safetensors.checkpoint") && err.contains("--resume"), "{err}");
    assert!(!folder.path("wave.safetensors").exists());
    // Without a word about the checkpoint nothing is overwritten, and that of another run is refused.
    let (status, _, err) = run(&folder, &args);
    assert!(status == 2 && err.contains("--restart") && err.lines().count() == 1, "{err}");
    let (status, _, err) = run(&folder, &[&args[..], &["--resume", "--seed", "1"]].concat());
    assert!(status == 1 && err.contains("other settings") && err.lines().count() == 1, "{err}");
    let (status, _, err) = run(&folder, &[&args[..5], &["10", "--restart", "--quiet"]].concat());
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(!folder.path("wave.safetensors.checkpoint").exists());
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = Folder::new();
    let good = "x,y,c,run\n1,2,a,r\n2,3,b,r\n3,5,a,s\n";
    let cases: &[(&str, &str, i32, &[&str])] = &[
        ("", "--target y", 1, &["empty"]),
        ("x,y\n", "--target y", 1, &["no row"]),
        ("x,y\n1,2\n3\n", "--target y", 1, &["line 3", "1 cells"]),
        ("x,x\n1,2\n", "--target x", 1, &["two columns"]),
        ("x,y\n1,2\n1,oops\n", "--target y", 1, &["line 3", "`y`", "oops"]),
        ("x,y\n1,2\n,3\n", "--target y", 1, &["line 3", "`x`"]),
        ("x,y\n1,2\ninf,3\n", "--target y", 1, &["line 3", "`x`"]),
        ("x,y\n1,2\n", "--target y", 1, &["too few"]),
        ("y\n1\n2\n", "--target y", 1, &["no numeric column"]),
        (good, "--target Y2", 2, &["Y2", "did you mean `y`"]),
        (good, "--target y --state xx", 2, &["did you mean `x`"]),
        (good, "--target y --state y", 2, &["two parts"]),
        (good, "--target y --state x --validation 1", 2, &["--validation"]),
        (good, "--target y --state x --keep 0", 2, &["keep"]),
        (good, "--target y --state x --rate -1", 2, &["rate"]),
        (good, "--target y --state x --flow-dt 0", 2, &["--flow-dt"]),
        (good, "--target y --label c", 2, &["cannot be used"]),
        (good, "--target y --series-column run", 2, &["--series-column"]),
        (good, "--state x", 2, &["--target"]),
        (good, "--label c --series-column run", 1, &["line 3", "`r`", "changes its class"]),
        ("x,c\n1,a\n2,a\n", "--label c", 1, &["one class"]),
        ("x,c\n1,a\n2,\n", "--label c", 1, &["line 3", "empty"]),
    ];
    for (text, flags, wanted, words) in cases {
        folder.write("bad.csv", text);
        let args: Vec<&str> = ["fit-table", "bad.csv", "-q"].into_iter().chain(flags.split(' ')).collect();
        let (status, out, err) = run(&folder, &args);
        assert_eq!((status, out.as_str(), err.lines().count()), (*wanted, "", 1), "{flags} {text:?}: {err}");
        assert!(words.iter().all(|w| err.contains(w)), "{flags} {text:?}: {err}");
        assert!(!folder.path("bad.safetensors").exists());
    }
    let (status, _, err) = run(&folder, &["fit-table", "nothing.csv", "--target", "y"]);
    assert!(status == 2 && err.lines().count() == 1, "{err}");
}
