//! The report in a real browser: no console errors, charts there and not empty. Skips loudly without
//! chromium.

use std::fs;
use std::process::Command;

/// Chromium, if there is one.
fn browser() -> Option<String> {
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .find(|b| Command::new(b).arg("--version").output().is_ok_and(|o| o.status.success()))
        .map(ToString::to_string)
}

#[test]
fn the_report_opens_in_a_browser_without_errors() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no chromium here; install Debian's `chromium` to test the report in a browser");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.csv");
    let mut text = String::from("t,x,y\n");
    for n in 0..120 {
        let t = f64::from(n) * 0.1;
        text.push_str(&format!("{t},{},{}\n", (2.0 * t).sin() + 0.01 * f64::from(n % 7), (2.0 * t).cos()));
    }
    fs::write(&data, text).unwrap();
    let nsde = |args: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_nsde")).current_dir(dir.path()).args(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    nsde(&[
        "fit",
        "data.csv",
        "--hidden",
        "8",
        "--steps",
        "60",
        "--horizon",
        "5",
        "--output",
        "m.safetensors",
    ]);
    nsde(&["report", "m.safetensors", "--data", "data.csv", "--output", "report.html"]);
    let profile = dir.path().join("profile");
    let page = dir.path().join("report.html");
    let shot = dir.path().join("shot.png");
    let run = |extra: &[String]| {
        Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
            .args([
                "--no-first-run",
                "--disable-component-update",
                "--disable-sync",
                "--enable-logging=stderr",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(extra)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap()
    };
    let out = run(&["--dump-dom".into()]);
    let (dom, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let console: Vec<&str> = log.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the console says: {console:?}");
    assert!(dom.matches("<svg").count() >= 6, "charts are missing from the page");
    assert!(dom.matches("<path").count() + dom.matches("<polyline").count() > 20, "charts are empty");
    run(&[format!("--screenshot={}", shot.display()), "--window-size=390,2400".into()]);
    let picture = fs::metadata(&shot).expect("a screenshot");
    assert!(picture.len() > 20_000, "the screenshot looks empty: {} bytes", picture.len());
}
