//! The tutorial (`docs/tutorial.md`), run as a reader would run it: every `sh` block, in order, in one directory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The blocks of `text` between a line "```sh" and the next "```".
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match open.as_mut() {
            None if line.trim_end() == "```sh" => open = Some(String::new()),
            None => {}
            Some(_) if line.trim_end() == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "the last block is not closed");
    blocks
}

/// The files that the table under "What you have now" promises: first cells, in backticks.
fn promised(text: &str) -> Vec<&str> {
    let (_, table) = text.split_once("## What you have now").expect("the tutorial ends with what it made");
    table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// Runs one block with the freshly built `nsde` before all others.
fn run(block: &str, folder: &Path) -> Output {
    let built = Path::new(env!("CARGO_BIN_EXE_nsde")).parent().expect("a binary lies in a directory");
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path: OsString =
        env::join_paths([built.to_path_buf()].into_iter().chain(env::split_paths(&inherited))).unwrap();
    Command::new("sh").args(["-e", "-c", block]).current_dir(folder).env("PATH", path).output().unwrap()
}

/// A file with content, or a directory of such files.
fn is_filled(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(entries) => {
            let entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            !entries.is_empty() && entries.iter().all(|path| is_filled(path))
        }
        Err(_) => fs::metadata(path).is_ok_and(|file| file.len() > 0),
    }
}

#[test]
fn the_tutorial_runs_as_printed_and_makes_what_it_promises() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let text = fs::read_to_string(page).unwrap();
    let (blocks, promised) = (blocks(&text), promised(&text));
    assert!(blocks.len() >= 5 && promised.len() >= 5, "{} blocks, {promised:?}", blocks.len());

    let folder = tempfile::tempdir().unwrap();
    for block in &blocks {
        let out = run(block, folder.path());
        println!("{block}{}", String::from_utf8_lossy(&out.stdout));
        assert!(out.status.success(), "{block}\n{}", String::from_utf8_lossy(&out.stderr));
    }
    for name in promised {
        assert!(is_filled(&folder.path().join(name)), "`{name}` is promised, but missing or empty");
    }
}
