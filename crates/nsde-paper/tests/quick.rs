//! Every experiment in its small version, twice: the data must be the same byte for byte, on any number of
//! threads, and a second start must find the cells of the first.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn paper(arguments: &[&str], threads: &str) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_nsde-paper"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", threads)
        .env("NSDE_DATA", measured().unwrap_or_default())
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The data files of a result: not the page, which has a date, nor seconds, nor pictures of them, nor cells.
fn data(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder of results") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let kind = path.extension().unwrap_or_default();
        if (kind == "csv" || kind == "json") && !name.starts_with("times") {
            files.insert(name, std::fs::read(&path).expect("a readable file"));
        }
    }
    files
}

/// The experiments on measured data.
const MEASURED: [&str; 5] = ["uci", "uci-recipes", "classification", "air-quality", "robot"];

/// The folder of measured data: `NSDE_DATA`, or the one beside the repository; `None` if it is not there.
fn measured() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("NSDE_DATA").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

#[test]
fn two_quick_runs_write_the_same_data() {
    let list = paper(&["--list"], "1");
    let list = String::from_utf8(list.stdout).expect("text");
    let names: Vec<&str> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert!(!names.is_empty());
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in names {
        if MEASURED.contains(&name) && measured().is_none() {
            // Not `eprintln!`, which a test that passes keeps to itself.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {name} needs measured data: set NSDE_DATA to their folder"
            );
            continue;
        }
        let start = |folder: &str, threads: &str| {
            let place = dir.path().join(folder);
            let at = place.to_string_lossy().into_owned();
            let output = paper(&[name, "--quick", "--dir", &at], threads);
            (data(&place.join(name)), place.join(name), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (first, folder, _) = start("a", "1");
        let (second, _, _) = start("b", "2");
        assert!(!first.is_empty(), "{name} wrote no data");
        for (file, bytes) in &first {
            assert!(second.get(file) == Some(bytes), "{name}: {file} differs between two runs");
        }
        assert_eq!(first.len(), second.len());
        let page = std::fs::read_to_string(folder.join("README.md")).expect("a page");
        for word in ["the paper says", "command", "seed", "commit", "machine"] {
            assert!(page.contains(word), "{name}: the page does not mention `{word}`");
        }
        let kinds = |kind: &str| {
            let files = std::fs::read_dir(&folder).expect("a folder");
            files.filter_map(Result::ok).filter(|f| f.path().extension().is_some_and(|e| e == kind)).count()
        };
        assert!(kinds("svg") > 0 && kinds("svg") == kinds("png"), "{name}: charts as SVG and PNG");
        let (again, _, words) = start("a", "1");
        assert!(words.contains("were finished before"), "{name}: {words}");
        assert_eq!(again, first);
    }
}

#[test]
fn missing_data_are_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = dir.path().to_string_lossy().into_owned();
    for name in MEASURED {
        let output = Command::new(env!("CARGO_BIN_EXE_nsde-paper"))
            .args([name, "--quick", "--dir", &at, "--data", &at])
            .output()
            .expect("the program starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains("the data are not here"), "{name}: {words}");
        assert!(
            words.contains("NSDE_DATA") && words.contains("Get ") && words.contains("prepare"),
            "{name}: {words}"
        );
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_nsde-paper")).arg("nonsense").output().expect("starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("calibration-cost"), "{words}");
}

#[test]
fn the_air_of_beijing_is_made_from_its_originals() {
    let Some(folder) = measured() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the originals of air quality: set NSDE_DATA to the measured data"
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    for station in ["Shunyi", "Tiantan", "Dongsi"] {
        let name = format!("PRSA_Data_{station}_20130301-20170228.csv");
        let packed = folder.join("air_quality").join(format!("{name}.gz"));
        let Ok(file) = std::fs::File::open(&packed) else {
            let _ = writeln!(std::io::stderr(), "SKIPPED: there is no {}", packed.display());
            return;
        };
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut text).expect("a packed file");
        std::fs::write(dir.path().join(name), text).expect("a written file");
    }
    let made = dir.path().join("data");
    let [from, to] = [dir.path(), &made].map(|path| path.to_str().expect("a name"));
    // It checks what it makes against the checksum that the experiment asks for, and fails otherwise.
    let output = paper(&["prepare", "--from", from, "--data", to], "1");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("not found"),
        "the other originals are not there"
    );
    assert!(made.join("air_quality/beijing_34_2014-2016.csv.gz").is_file());
}
