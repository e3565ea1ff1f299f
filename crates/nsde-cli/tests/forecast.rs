//! `forecast`, `evaluate`, `calibrate` and `report` as processes: shapes, meanings, refusals.

mod common;

use common::{Folder, run};
use nsde::calibrate::Calibration;
use nsde::{Diffusion, Ensemble, Layer, Linear, Model, Network, NeuralSde, Scaling};
use serde_json::{Value, json};

fn linear(output: usize, input: usize, weight: &[f64], bias: &[f64]) -> Layer {
    Layer::Linear(Linear::new(input, output, weight.to_vec(), bias.to_vec()).unwrap())
}

/// Two decaying, turning states in scaled units: `x` about 10, `y` about −2.
fn turning(rate: f64) -> Model {
    let drift = Network::new(2, vec![linear(2, 2, &[-rate, -1.0, 1.0, -rate], &[0.0; 2])]).unwrap();
    let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.3, 0.2])).unwrap();
    let mut model = Model::new(sde, 0.1).unwrap();
    model.columns = Some(vec!["x".into(), "y".into()]);
    model.scaling = Some(Scaling::new(vec![10.0, -2.0], vec![2.0, 0.5]).unwrap());
    model.extra.insert(
        "training".into(),
        json!({
            "settings": {"train": {"horizon": [1, 4], "method": "bmm"}},
            "history": [
                {"step": 100, "stage": 0, "loss": 2.0, "validation": 2.2},
                {"step": 200, "stage": 0, "loss": 1.5, "validation": 1.7},
                {"step": 300, "stage": 1, "loss": 1.1, "validation": 1.6}
            ],
            "data": {"file": "train.csv", "columns": ["x", "y"], "input_columns": [], "time_column": "t",
                     "series_column": "run"},
            "score": "NLL", "best_step": 300, "seconds": 1.5, "skipped": 0
        }),
    );
    model
}

/// `dx = (u − x) dt + 0.1 dw`.
fn driven() -> Model {
    let drift = Network::new(2, vec![linear(1, 2, &[-1.0, 1.0], &[0.0])]).unwrap();
    let sde = NeuralSde::new(1, 1, drift, Diffusion::ConstantDiagonal(vec![0.1])).unwrap();
    let mut model = Model::new(sde, 0.5).unwrap();
    model.columns = Some(vec!["level".into(), "valve".into()]);
    model
}

/// Numbers that look like noise, between −1 and 1.
fn noise(n: usize) -> f64 {
    (((n as f64) * 12.9898).sin() * 43758.5453).fract()
}

/// `runs` series of `rows` rows at a spacing of 0.1, some values missing if asked for.
fn table(runs: usize, rows: usize, missing: bool) -> String {
    let mut text = String::from("run,t,x,y\n");
    for run in 0..runs {
        let (mut x, mut y) = (1.0 + 0.3 * noise(run), -1.0 + 0.2 * noise(run + 50));
        for n in 0..rows {
            let show =
                |v: f64, hide: bool| if missing && hide && n > 0 { String::new() } else { v.to_string() };
            let (a, b) = (show(10.0 + 2.0 * x, (n + run) % 7 == 3), show(-2.0 + 0.5 * y, n % 5 == 2));
            text += &format!("r{run},{},{a},{b}\n", (n as f64) / 10.0);
            let k = 1000 * run + n;
            (x, y) =
                (x + 0.1 * (-0.5 * x - y) + 0.16 * noise(k), y + 0.1 * (x - 0.5 * y) + 0.11 * noise(k + 77));
        }
    }
    text
}

fn folder() -> Folder {
    let folder = Folder::new();
    turning(0.5).save(folder.path("turning.safetensors")).unwrap();
    driven().save(folder.path("valve.safetensors")).unwrap();
    let members = [0.2, 0.5, 1.5].map(turning).to_vec();
    Ensemble { models: members }.into_model().unwrap().save(folder.path("three.safetensors")).unwrap();
    folder.write("data.csv", table(25, 21, false));
    folder.write("gaps.csv", table(5, 21, true));
    folder
}

#[track_caller]
fn done(folder: &Folder, args: &[&str]) -> String {
    let (code, out, err) = run(folder, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    assert!(err.lines().all(|line| line.starts_with("note: ")), "{args:?}: {err}");
    out
}

#[track_caller]
fn document(folder: &Folder, args: &[&str]) -> Value {
    let out = done(folder, args);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
}

#[track_caller]
fn refused(folder: &Folder, status: i32, args: &[&str], why: &str) {
    let (code, out, err) = run(folder, args);
    assert_eq!(code, status, "{args:?}: {err}");
    assert_eq!(out, "", "{args:?}");
    let errors: Vec<&str> = err.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!(errors.len(), 1, "{args:?}: {err}");
    assert!(errors[0].starts_with("error: ") && errors[0].contains(why), "{args:?}: {err}");
}

/// Header and rows of a CSV text.
fn cells(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn a_forecast_has_a_row_per_series_and_step() {
    let folder = folder();
    let text = done(&folder, &["forecast", "turning.safetensors", "--data", "data.csv", "--steps", "3"]);
    let (header, rows) = cells(&text);
    assert_eq!(
        header,
        [
            "series", "t", "step", "x_mean", "x_sd", "x_q05", "x_q50", "x_q95", "y_mean", "y_sd", "y_q05",
            "y_q50", "y_q95"
        ]
    );
    assert_eq!(rows.len(), 25 * 3);
    assert_eq!(rows[0][..3], ["r0", "2.1", "1"]);
    assert_eq!(rows[74][..3], ["r24", "2.3", "3"]);
    for row in &rows {
        let x: Vec<f64> = row[3..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(x[2] < x[3] && x[3] < x[4] && x[1] > 0.0, "{row:?}");
        assert!((x[3] - x[0]).abs() < 1e-9 && (x[4] - x[0] - 1.6448536269514722 * x[1]).abs() < 1e-9);
    }
}

#[test]
fn a_forecast_is_the_prediction_from_its_row() {
    let folder = folder();
    folder.write("one.csv", "t,x,y\n0,9,-1\n0.1,12,-2.5\n0.2,1,1\n");
    let args =
        ["forecast", "turning.safetensors", "--data", "one.csv", "--from", "0.15", "--steps", "4", "--cov"];
    // The model was trained on a table with a column of runs; this one has none.
    refused(&folder, 1, &[&args[..], &["--json"]].concat(), "there is no column `run`");
    let mut model = turning(0.5);
    model.extra["training"]["data"]["series_column"] = Value::Null;
    model.save(folder.path("turning.safetensors")).unwrap();
    for method in ["bmm", "cubature", "mc"] {
        let solver = ["--method", method, "--samples", "50", "--seed", "3", "--json"];
        let forecast = document(&folder, &[&args[..], &solver].concat());
        let predict = ["predict", "turning.safetensors", "--x0", "12,-2.5", "--steps", "4"];
        let predicted = document(&folder, &[&predict[..], &solver].concat());
        assert_eq!(forecast["series"].as_array().unwrap().len(), 1);
        let series = &forecast["series"][0];
        assert_eq!((&series["series"], &series["start"]), (&json!("one"), &json!({"row": 1, "t": 0.1})));
        for k in 0..4 {
            let (a, b) = (&series["steps"][k], &predicted["steps"][k]);
            assert_eq!((&a["mean"], &a["cov"]), (&b["mean"], &b["cov"]), "{method} {k}");
            assert_eq!(a["step"], k + 1);
            assert!((a["t"].as_f64().unwrap() - 0.1 * (k + 2) as f64).abs() < 1e-12);
            assert!(a.get("weights").is_none() && a.get("regions").is_none());
        }
    }
    let (header, _) = cells(&done(&folder, &args));
    assert_eq!(header[header.len() - 3..], ["cov_x_x", "cov_y_x", "cov_y_y"]);
}

#[test]
fn stamps_come_back_as_stamps() {
    let folder = folder();
    let mut model = driven();
    model.columns = None;
    model.extra.insert(
        "training".into(),
        json!({"data": {"time_unit": "h", "columns": ["level"], "input_columns": ["valve"]}}),
    );
    model.save(folder.path("hours.safetensors")).unwrap();
    let mut text = String::from("time,level,valve\n");
    for n in 0..6 {
        let level = if n < 4 { format!("{}", 1.0 + 0.1 * n as f64) } else { String::new() };
        text += &format!("2020-01-01T{:02}:00:00+01:00,{level},{n}\n", 20 + n % 4);
        if n == 3 {
            text = text.replace(
                "T23:00:00+01:00,1.3,3\n",
                "T23:00:00+01:00,1.3,3\n2020-01-02T00:00:00+01:00,,4\n2020-01-02T01:00:00+01:00,,5\n",
            );
            break;
        }
    }
    folder.write("stamps.csv", &text);
    // Half hours after the last measured row: the inputs of the rows that follow hold for two steps each.
    let args = ["forecast", "hours.safetensors", "--data", "stamps.csv", "--steps", "6"];
    let (header, rows) = cells(&done(&folder, &args));
    assert_eq!(header[..4], ["series", "t", "step", "level_mean"]);
    assert_eq!(rows[0][1], "2020-01-01T23:30:00+01:00");
    assert_eq!(rows[5][1], "2020-01-02T02:00:00+01:00");
    let mut x = 1.3;
    for (k, row) in rows.iter().enumerate() {
        let u = [3.0, 4.0, 5.0][k / 2];
        x += 0.5 * (u - x);
        assert!((row[3].parse::<f64>().unwrap() - x).abs() < 1e-12, "{k}: {row:?}");
    }
    let from = |when: &str| done(&folder, &[&args[..4], &["--steps", "1", "--from", when]].concat());
    for when in ["2020-01-01T21:30:00+01:00", "2020-01-01T20:00:00Z", "2020-01-01 21:59"] {
        assert!(from(when).contains("2020-01-01T21:30:00+01:00,1,"), "{when}");
    }
    refused(
        &folder,
        2,
        &[&args[..], &["--from", "3.5"]].concat(),
        "--from: `3.5` is not a time stamp, such as 2020",
    );
    refused(
        &folder,
        2,
        &[&args[..], &["--from", "2019-12-31"]].concat(),
        "it begins at 2020-01-01T20:00:00+01:00",
    );

    // A plan with its own stamps takes over from the rows of the data.
    folder.write("plan.csv", "time,valve\n2020-01-01T23:00:00+01:00,7\n2020-01-02T00:00:00+01:00,8\n");
    let args = [&args[..4], &["--steps", "4", "--future-inputs", "plan.csv"]].concat();
    let (_, rows) = cells(&done(&folder, &args));
    let mut x = 1.3;
    for (k, row) in rows.iter().enumerate() {
        x += 0.5 * ([7.0, 8.0][k / 2] - x);
        assert!((row[3].parse::<f64>().unwrap() - x).abs() < 1e-12, "{k}: {row:?}");
    }
}

#[test]
fn the_future_needs_inputs() {
    let folder = folder();
    folder.write("level.csv", "t,level,valve\n0,1,2\n0.5,1.5,0\n1,1.2,\n");
    let args = ["forecast", "valve.safetensors", "--data", "level.csv", "--steps", "3"];
    refused(&folder, 2, &args, "no control inputs for step 1 (t = 1.0); add rows with valve");
    let early = [&args[..], &["--from", "0"]].concat();
    refused(&folder, 2, &early, "no control inputs for step 3 (t = 1.0)");
    let two = ["forecast", "valve.safetensors", "--data", "level.csv", "--steps", "2", "--from", "0"];
    assert_eq!(cells(&done(&folder, &two)).1.len(), 2);

    folder.write("steps.csv", "valve\n4\n5\n6\n");
    let (_, rows) = cells(&done(&folder, &[&args[..], &["--future-inputs", "steps.csv"]].concat()));
    let x: Vec<f64> = rows.iter().map(|row| row[3].parse().unwrap()).collect();
    assert!((x[0] - 2.6).abs() < 1e-12 && (x[1] - 3.8).abs() < 1e-12 && (x[2] - 4.9).abs() < 1e-12);
    folder.write("short.csv", "valve\n4\n5\n");
    refused(
        &folder,
        1,
        &[&args[..], &["--future-inputs", "short.csv"]].concat(),
        "no control inputs for step 3",
    );
    refused(&folder, 2, &[&args[..], &["--future-inputs", "none.csv"]].concat(), "none.csv");
    folder.write("typo.csv", "vlave\n4\n5\n6\n");
    refused(&folder, 1, &[&args[..], &["--future-inputs", "typo.csv"]].concat(), "did you mean `vlave`?");
    let needless = [
        "forecast",
        "turning.safetensors",
        "--data",
        "data.csv",
        "--steps",
        "1",
        "--future-inputs",
        "steps.csv",
    ];
    refused(&folder, 2, &needless, "no control inputs; leave it out");
}

#[test]
fn a_start_with_gaps_is_wide_where_nothing_was_measured() {
    let folder = folder();
    folder.write("holes.csv", "run,t,x,y\na,0,9,-2\na,0.1,11,\na,0.2,,\n");
    let forecast = document(
        &folder,
        &["forecast", "turning.safetensors", "--data", "holes.csv", "--steps", "1", "--json", "--cov"],
    );
    let series = &forecast["series"][0];
    assert_eq!(series["start"]["row"], 1); // the last row with a measurement
    let sd = numbers(&series["steps"][0]["sd"]);
    assert!(sd[0] < 0.4 && sd[1] > 0.4, "{sd:?}"); // the deviation of y is 0.5
}

#[test]
fn ensembles_are_mixtures() {
    let folder = folder();
    let args = ["forecast", "three.safetensors", "--data", "data.csv", "--series", "r3", "--steps", "20"];
    let forecast =
        document(&folder, &[&args[..], &["--json", "--quantiles", "0.025,0.5,0.975", "--cov"]].concat());
    let step = &forecast["series"][0]["steps"][19];
    assert_eq!(numbers(&step["weights"]), [1.0 / 3.0; 3]);
    let means: Vec<Vec<f64>> = serde_json::from_value(step["means"].clone()).unwrap();
    let covs: Vec<Vec<Vec<f64>>> = serde_json::from_value(step["covs"].clone()).unwrap();
    assert_eq!((means.len(), covs.len(), covs[2].len(), covs[2][1].len()), (3, 3, 2, 2));
    for i in 0..2 {
        let mean = means.iter().map(|m| m[i] / 3.0).sum::<f64>();
        let var = (0..3).map(|k| (covs[k][i][i] + (means[k][i] - mean).powi(2)) / 3.0).sum::<f64>();
        assert!((step["mean"][i].as_f64().unwrap() - mean).abs() < 1e-12);
        assert!((step["sd"][i].as_f64().unwrap() - var.sqrt()).abs() < 1e-12);
        let q = numbers(&step["quantiles"][i]);
        assert!(q.len() == 3 && q[0] < q[1] && q[1] < q[2], "{q:?}");
    }
    let (header, rows) = cells(&done(&folder, &args));
    assert_eq!((header.len(), rows.len()), (13, 20));
    let scores = document(&folder, &["evaluate", "three.safetensors", "--data", "data.csv", "--json"]);
    assert!(scores["overall"]["nll"].is_number());
}

/// Pushed away from 0 and held at ±1: the drift has slope 4 between −½ and ½, and −4 beyond.
fn forked() -> Model {
    let first = linear(3, 1, &[1.0, 1.0, 1.0], &[10.0, 0.5, -0.5]);
    let last = linear(1, 3, &[-4.0, 8.0, -8.0], &[36.0]);
    let drift = Network::new(1, vec![first, Layer::Relu, last]).unwrap();
    let sde = NeuralSde::new(1, 0, drift, Diffusion::ConstantDiagonal(vec![0.3])).unwrap();
    let mut model = Model::new(sde, 0.05).unwrap();
    model.columns = Some(vec!["x".into()]);
    model
}

#[test]
fn components_split_where_the_law_forks() {
    let folder = folder();
    forked().save(folder.path("forked.safetensors")).unwrap();
    folder.write("zero.csv", "t,x\n-0.05,0.1\n0,0\n");
    let ask = |more: &[&str]| {
        let mut args = vec!["forecast", "forked.safetensors", "--data", "zero.csv", "--steps", "30"];
        args.extend_from_slice(&["--quantiles", "0.25,0.5,0.75", "--json"]);
        args.extend_from_slice(more);
        let last = document(&folder, &args)["series"][0]["steps"][29].clone();
        (numbers(&last["sd"])[0], numbers(&last["quantiles"][0]))
    };
    // Quartiles of a Gaussian stand at 0.67 deviations, those of two narrow modes in the modes.
    let (sd, quantiles) = ask(&[]);
    assert!((quantiles[2] / sd - 0.67).abs() < 0.01, "{quantiles:?} {sd}");
    let (sd, quantiles) = ask(&["--components", "16"]);
    assert!(quantiles[0] < -0.8 * sd && quantiles[2] > 0.8 * sd, "{quantiles:?} {sd}");
    let sampled = ["forecast", "forked.safetensors", "--data", "zero.csv", "--steps", "3", "--method", "mc"];
    refused(&folder, 2, &[&sampled[..], &["--components", "2"]].concat(), "--components");
}

#[test]
fn an_evaluation_counts_rows_and_steps() {
    let folder = folder();
    let args = ["evaluate", "turning.safetensors", "--data", "data.csv", "--json"];
    let scores = document(&folder, &args); // the horizon of training is 4
    assert_eq!(scores["protocol"]["windows"], 25 * 5);
    assert_eq!(scores["protocol"]["horizon"], 4);
    assert_eq!(scores["overall"]["count"], 25 * 20);
    assert_eq!(scores["steps"].as_array().unwrap().len(), 4);
    assert_eq!(scores["steps"][0]["step"], 1);
    for key in ["mse_per_coordinate", "rmse", "nll", "ecpe", "crps"] {
        assert!(scores["overall"][key].is_number() && scores["steps"][3][key].is_number(), "{key}");
    }
    assert_eq!(scores["overall"]["intervals"].as_array().unwrap().len(), 4);
    let scores = document(&folder, &[&args[..], &["--horizon", "10", "--stride", "1"]].concat());
    assert_eq!(scores["protocol"]["windows"], 25 * 11);
    // Row 0 is the start: 20 rows are forecast, and the first eight of 21 do not count.
    let scores = document(&folder, &[&args[..], &["--from-start", "--skip", "8"]].concat());
    assert_eq!((&scores["protocol"]["windows"], &scores["overall"]["count"]), (&json!(25), &json!(25 * 13)));
    assert_eq!(scores["steps"][0]["step"], 8);
    let text = done(&folder, &args[..4]);
    assert!(text.contains("125 forecasts of 4 rows, 4 rows apart") && text.contains("overall"), "{text}");
    assert!(text.contains("step 4") && text.contains("95 %"), "{text}");
}

#[test]
fn an_evaluation_is_that_of_the_library_and_leaves_out_what_is_missing() {
    let folder = folder();
    let args = ["evaluate", "turning.safetensors", "--data", "gaps.csv", "--from-start", "--json"];
    let got = document(&folder, &args);
    let options = nsde::data::LoadOptions { series_column: Some("run".into()), ..Default::default() };
    let data = nsde::data::load(&folder.path("gaps.csv"), &options).unwrap();
    let model = turning(0.5);
    let mut scores = nsde::metric::Scores::new();
    for series in &data.series {
        let start = model.start(series.values[..2].to_vec()).unwrap();
        let rollout = nsde::Rollout { start: &start, dts: &[0.1; 20], inputs: &[] };
        let path = model.predict(Default::default(), &[rollout]).unwrap().remove(0);
        for n in 1..21 {
            scores.push(n, &path.gaussian(n - 1), &series.values[2 * n..2 * n + 2]).unwrap();
        }
    }
    let want = scores.overall().unwrap();
    assert_eq!(got["overall"]["coordinates"], want.coordinates);
    assert!(want.coordinates < 5 * 40);
    assert!((got["overall"]["nll"].as_f64().unwrap() - want.nll).abs() < 1e-8, "{}", want.nll);
    assert!((got["overall"]["crps"].as_f64().unwrap() - want.crps).abs() < 1e-8);
}

#[test]
fn uneven_rows_take_more_steps() {
    let folder = folder();
    folder.write(
        "uneven.csv",
        "run,t,x,y\na,0,9,-2\na,0.05,9.5,-2.1\na,0.4,10,-2.2\na,0.5,11,-2\na,1.7,10,-1.9\n",
    );
    let args = ["evaluate", "turning.safetensors", "--data", "uneven.csv", "--from-start", "--json"];
    let scores = document(&folder, &args);
    assert_eq!(scores["overall"]["count"], 4);
    // Later rows are wider.
    let width = |k: usize| scores["steps"][k]["intervals"][3]["mean_width"].as_f64().unwrap();
    assert!(width(0) < width(1) && width(1) < width(2));
}

#[test]
fn a_model_without_noise_has_errors_but_no_likelihood() {
    let folder = folder();
    let mut model = turning(0.5);
    let drift = model.sde.drift().clone();
    model.sde = NeuralSde::new(2, 0, drift, Diffusion::None).unwrap();
    model.init_var = 0.0;
    model.save(folder.path("ode.safetensors")).unwrap();
    let scores = document(&folder, &["evaluate", "ode.safetensors", "--data", "data.csv", "--json"]);
    assert!(scores["overall"]["rmse"].as_f64().unwrap() > 0.0);
    assert_eq!(scores["overall"]["nll"], Value::Null);
    assert_eq!(scores["singular"], 500);
    done(&folder, &["report", "ode.safetensors", "--data", "data.csv"]);
}

#[test]
fn a_calibrated_model_says_how_far_it_can_be_trusted() {
    let folder = folder();
    let fit = ["calibrate", "turning.safetensors", "--data", "data.csv", "--horizon", "4"];
    let text = done(&folder, &[&fit[..], &["--output", "warm.safetensors"]].concat());
    assert!(
        text.contains("temperature") && text.contains("coverage of 95 %") && text.contains("saved warm"),
        "{text}"
    );
    assert_eq!(Model::load(folder.path("turning.safetensors")).unwrap(), turning(0.5));
    let warm = Model::load(folder.path("warm.safetensors")).unwrap();
    let calibration: Calibration = serde_json::from_value(warm.extra["calibration"].clone()).unwrap();
    calibration.check().unwrap();
    assert_eq!((calibration.count, calibration.radii.len()), (500, 16));
    assert_eq!(warm.extra["training"], turning(0.5).extra["training"]);

    let ask = ["forecast", "warm.safetensors", "--data", "data.csv", "--steps", "6", "--series", "r1"];
    let (header, rows) = cells(&done(&folder, &ask));
    assert_eq!(header[header.len() - 4..], ["region50", "region80", "region90", "region95"]);
    let at = |name: &str| header.iter().position(|h| h == name).unwrap();
    let value = |row: &[String], name: &str| row[at(name)].parse::<f64>().unwrap();
    for row in &rows {
        let ratio = value(row, "y_sd_calibrated") / value(row, "y_sd");
        assert!((ratio - calibration.temperature.sqrt()).abs() < 1e-12);
        assert!(
            value(row, "region50") < value(row, "region80")
                && value(row, "region90") <= value(row, "region95")
        );
    }
    assert_eq!(value(&rows[5], "region95"), value(&rows[3], "region95")); // the last calibrated step holds on
    let warm = document(&folder, &[&ask[..], &["--json", "--calibrated"]].concat());
    let step = &warm["series"][0]["steps"][2];
    let got = step["sd"][1].as_f64().unwrap();
    assert!((got / value(&rows[2], "y_sd_calibrated") - 1.0).abs() < 1e-12);
    assert_eq!(step["regions"][3], json!({"level": 0.95, "radius": value(&rows[2], "region95")}));

    let args = ["evaluate", "warm.safetensors", "--data", "data.csv", "--json"];
    let before = document(&folder, &args);
    let after = document(&folder, &[&args[..], &["--calibrated"]].concat());
    assert!(after["overall"]["nll"].as_f64() <= before["overall"]["nll"].as_f64());
    assert!(before.get("regions").is_none());
    for level in after["regions"]["levels"].as_array().unwrap() {
        assert!(level["coverage"].as_f64().unwrap() >= level["level"].as_f64().unwrap(), "{level}");
    }
    let cold = ["evaluate", "turning.safetensors", "--data", "data.csv", "--calibrated"];
    refused(&folder, 2, &cold, "run `nsde calibrate`");

    // In place, and once more.
    done(&folder, &fit);
    let answer = document(&folder, &[&fit[..], &["--json"]].concat());
    let stored = &Model::load(folder.path("turning.safetensors")).unwrap().extra["calibration"];
    assert_eq!(&answer["calibration"], stored);
    assert_eq!(stored["temperature"], json!(calibration.temperature));
}

#[test]
fn the_report_is_one_file_with_its_charts() {
    let folder = folder();
    for (model, data) in [("turning", "data.csv"), ("three", "gaps.csv")] {
        let model = format!("{model}.safetensors");
        let args =
            ["report", &model, "--data", data, "--from-start", "--output", "r.html", "--charts", "charts"];
        let text = done(&folder, &args);
        assert!(text.contains("r.html") && text.contains("charts"), "{text}");
        let html = std::fs::read_to_string(folder.path("r.html")).unwrap();
        for charts in [
            "fan-x",
            "fan-x-3",
            "fan-y",
            "phase-portrait",
            "loss-curves",
            "calibration-curve",
            "pit-histogram",
            "coverage-over-horizon",
            "rmse-over-horizon",
            "nll-over-horizon",
        ] {
            for end in ["svg", "png"] {
                let file = folder.path(&format!("charts/{charts}.{end}"));
                assert!(file.metadata().is_ok_and(|f| f.len() > 1000), "{}", file.display());
            }
        }
        assert_eq!(html.matches("role=\"img\"").count(), 13);
        for words in ["Forecasts of x, y", "In short", "How it was trained", "Drift f", "best step", "95 %"] {
            assert!(html.contains(words), "{words}");
        }
        let links = html.replace("http://www.w3.org/", "").replace("<link rel=\"icon\" href=\"data:,\"", "");
        for outside in ["http://", "https://", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!links.contains(outside), "{outside}");
        }
    }
    // Nothing is known about the training, and there is one state with an input.
    folder.write("level.csv", "t,level,valve\n0,1,2\n0.5,1.5,0\n1,1.2,1\n1.5,1.1,1\n2,1.3,2\n");
    done(&folder, &["report", "valve.safetensors", "--data", "level.csv", "--horizon", "2"]);
    let html = std::fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(!html.contains("How it was trained") && html.contains("<svg"));
}

#[test]
fn misuse_and_bad_data_are_told_in_one_line() {
    let folder = folder();
    folder.write("pray.csv", "run,t,x,why\na,0,1,2\na,1,1,2\n");
    folder.write("three.csv", "t,a,b,c\n0,1,2,3\n1,2,3,4\n");
    let mut bare = turning(0.5);
    (bare.columns, bare.extra) = (None, Default::default());
    bare.save(folder.path("bare.safetensors")).unwrap();
    let mut broken = turning(0.5);
    broken.extra.insert("calibration".into(), json!({"temperature": -1.0, "radii": []}));
    broken.save(folder.path("broken.safetensors")).unwrap();
    let mut lost = turning(0.5);
    lost.extra.insert("members".into(), json!(2));
    lost.save(folder.path("lost.safetensors")).unwrap();

    let commands: [&[&str]; 4] =
        [&["forecast", "--steps", "2"], &["evaluate"], &["calibrate"], &["report", "--charts", "charts"]];
    for command in commands {
        let on = |rest: &[&'static str]| [command, rest].concat();
        refused(
            &folder,
            2,
            &on(&["none.safetensors", "--data", "data.csv"]),
            "none.safetensors: No such file",
        );
        refused(&folder, 2, &on(&["turning.safetensors", "--data", "none.csv"]), "none.csv");
        refused(
            &folder,
            1,
            &on(&["turning.safetensors", "--data", "pray.csv"]),
            "there is no column `y`; did you mean",
        );
        let typo = on(&["turning.safetensors", "--data", "data.csv", "--state", "x,z"]);
        refused(&folder, 2, &typo, "`z` is not among the columns of the model (x, y); did you mean `x`?");
        let few = on(&["turning.safetensors", "--data", "data.csv", "--state", "x"]);
        refused(&folder, 2, &few, "the model has 2 states, 1 columns are given");
        let many = on(&["bare.safetensors", "--data", "three.csv"]);
        refused(&folder, 2, &many, "the model has 2 states, the data have 3 (a, b, c); choose with --state");
        let unit = on(&["turning.safetensors", "--data", "data.csv", "--time-unit", "week"]);
        refused(&folder, 2, &unit, "choose s, min, h or d");
        refused(&folder, 1, &on(&["lost.safetensors", "--data", "data.csv"]), "members.1.drift.0.weight");
        let any = on(&["turning.safetensors", "--data", "data.csv", "--state", "y,x"]);
        done(&folder, &any); // the order is the model's
    }
    let ask =
        |rest: &[&'static str]| [&["forecast", "turning.safetensors", "--data", "data.csv"], rest].concat();
    refused(&folder, 2, &ask(&[]), "--steps");
    refused(&folder, 2, &ask(&["--steps", "0"]), "at least 1");
    refused(&folder, 2, &ask(&["--steps", "99999999999"]), "fit into memory");
    refused(&folder, 2, &ask(&["--steps", "1", "--quantiles", "0.5,1"]), "between 0 and 1");
    refused(&folder, 2, &ask(&["--steps", "1", "--from", "noon"]), "`noon` is not a number");
    refused(&folder, 2, &ask(&["--steps", "1", "--from", "-1"]), "it begins at 0");
    refused(
        &folder,
        2,
        &ask(&["--steps", "1", "--series", "r"]),
        "there is no series `r`; did you mean `r0`?",
    );
    refused(&folder, 2, &ask(&["--steps", "1", "--output", "no/such/dir"]), "no/such/dir");
    let broken = ["forecast", "broken.safetensors", "--data", "data.csv", "--steps", "1"];
    refused(&folder, 2, &broken, "temperature is -1");
    let score =
        |rest: &[&'static str]| [&["evaluate", "turning.safetensors", "--data", "data.csv"], rest].concat();
    refused(
        &folder,
        2,
        &score(&["--horizon", "21"]),
        "--horizon 21 is too long: the longest series has 21 rows",
    );
    refused(&folder, 2, &score(&["--horizon", "5", "--from-start"]), "cannot be used with");
    refused(&folder, 2, &score(&["--skip", "50"]), "--skip 50 leaves nothing to score");
    let nowhere = ["report", "turning.safetensors", "--data", "data.csv", "--output", "no/such/report.html"];
    refused(&folder, 2, &nowhere, "no/such");
}
