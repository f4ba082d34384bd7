//! `compare` as a user runs it, against servers of the tests' own.
//!
//! Servers answer after tens of milliseconds, so that a busy machine changes little; loops are closed, so that no run is
//! invalid for being late.

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "../load/common.rs"]
mod common;
mod ends;
mod hooks;
#[path = "../server/mod.rs"]
mod server;
mod winners;

use std::path::Path;
use std::process::Output;

use ringgate_bench::compare::{ComparedMetric, Comparison};

/// `compare` with these words, to its end.
fn compare(words: &[&str], out: &Path) -> Output {
    let mut command = common::bench("compare");
    command.arg("--out").arg(out).args(words).output().unwrap()
}

/// The directory of the only comparison.
fn directory(out: &Path) -> std::path::PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Its `compare.json`.
fn comparison(out: &Path) -> Comparison {
    let text = std::fs::read(directory(out).join("compare.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn metric<'a>(comparison: &'a Comparison, name: &str) -> &'a ComparedMetric {
    comparison.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name} was not compared"))
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
