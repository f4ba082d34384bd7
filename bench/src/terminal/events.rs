//! `--json-lines`: a JSON value per line on stdout, for programs. docs/bench.md describes each.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::About;
use crate::engine::Stage;
use crate::gate::{Difference, Judged, Rows};
use crate::result::{IntervalRow, Probe, RunResult};

/// The events' name and version: fields and events may be added under one version, never renamed or removed.
pub const SCHEMA: &str = "ringgate-bench-events/1";

/// The first event.
pub fn started(about: &About) -> Value {
    event(
        "started",
        json!({
            "schema": SCHEMA,
            "scenario": about.scenario,
            "primary": about.primary,
            "target": about.target,
            "warmup_s": about.warmup.as_secs_f64(),
            "duration_s": about.duration.as_secs_f64(),
            "offered_rate": about.offered_rate,
        }),
    )
}

/// A stage begins.
pub fn stage(stage: Stage) -> Value {
    let (name, length) = match stage {
        Stage::Found => ("found", None),
        Stage::Prepare => ("prepare", None),
        Stage::WarmUp { length } => ("warm_up", Some(length)),
        Stage::Measure { length } => ("measure", Some(length)),
        Stage::Finish => ("finish", None),
    };
    event("stage", json!({ "stage": name, "length_s": length.map(|length| length.as_secs_f64()) }))
}

/// An interval is over.
pub fn interval(row: &IntervalRow) -> Value {
    event("interval", serde_json::to_value(row).expect("names and numbers"))
}

/// One run of a search was judged.
pub fn probe(probe: &Probe) -> Value {
    event("probe", serde_json::to_value(probe).expect("names and numbers"))
}

/// The run is over: its result without histograms and intervals, which the files and earlier events have.
pub fn finished(result: &RunResult) -> Value {
    let mut result = result.clone();
    result.intervals = Vec::new();
    for latency in result.latencies.values_mut() {
        latency.histogram = String::new();
    }
    for series in result.server_metrics.iter_mut().flat_map(|metrics| &mut metrics.series) {
        series.over_time.clear();
    }
    event("finished", json!({ "result": result }))
}

/// An assertion was judged.
pub fn judged(judged: &Judged) -> Value {
    event("judged", json!({ "assertion": judged.assertion, "held": judged.held, "found": judged.found }))
}

/// The run was held against a baseline.
pub fn baseline(rows: &Result<Rows, Difference>) -> Value {
    match rows {
        Ok(rows) => event("baseline", json!({ "held": rows.held(), "rows": rows.0 })),
        Err(difference) => event("baseline", json!({ "held": false, "differences": difference.0 })),
    }
}

/// The files are written: the last event of a run that was made.
pub fn written(directory: &str) -> Value {
    event("written", json!({ "directory": directory }))
}

fn event(name: &str, mut fields: Value) -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("event".into(), name.into());
        fields.insert("time_ms".into(), json!(since.as_millis() as u64));
    }
    fields
}
