//! What a run leaves.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::plan::UsageError;
use crate::result::RunResult;

/// A moment as it stands in a directory's name: `20260103T040506Z`.
pub fn stamp(now: SystemTime) -> String {
    humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "")
}

/// Makes the directory that runs go to, before anything else is done.
///
/// # Errors
/// It cannot be made.
pub fn make_directory(out: &Path) -> Result<(), UsageError> {
    fs::create_dir_all(out).map_err(|error| UsageError {
        flag: "out",
        value: out.display().to_string(),
        allowed: format!("a directory that can be written to: {error}"),
    })
}

/// Says on standard output what came of it.
pub fn say(result: &RunResult) {
    let ms = |ns: u64| ns as f64 / 1e6;
    for (series, latency) in &result.latencies {
        let at = |name: &str| latency.percentiles_ns.get(name).copied().map_or(0.0, ms);
        println!(
            "{series:24} {:>9} values  p50 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3} ms",
            latency.count,
            at("50"),
            at("99"),
            at("99.9"),
            ms(latency.max_ns)
        );
    }
    for name in ["rate", "offered_rate", "errors"] {
        if let Some(value) = result.values.get(name) {
            println!("{name:24} {:.1}", value.value);
        }
    }
    for error in &result.errors {
        println!("{:24} {} {}", error.operation, error.count, error.name);
    }
    result.notes.iter().for_each(|note| println!("note: {note}"));
    if result.verdict.interrupted {
        println!("INTERRUPTED: the measured window is {:.1} s", result.measured_s);
    }
    if let Some(why) = &result.verdict.aborted {
        println!("ABORTED: {why}");
    }
    result.verdict.reasons.iter().for_each(|reason| println!("INVALID: {reason}"));
}
