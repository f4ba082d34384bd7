//! From what was recorded to a [`RunResult`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::collector::{Collector, requests};
use super::health::{self, Measured};
use super::pacer::{LATENESS, OTHER_SLOTS, OVERFLOW, SLOTS, UNSENT};
use super::usage::Usage;
use crate::host;
use crate::result::errors;
use crate::result::{
    ErrorCount, Latency, Parameter, RunResult, SCHEMA, Server, ServerMetrics, Target, Unit, Value, Verdict,
};
use crate::scenario::Findings;

/// What a run ended as, beside what was recorded.
pub struct Ended {
    pub id: String,
    pub scenario: &'static str,
    pub primary: &'static str,
    pub primary_rt: &'static str,
    pub started_at: String,
    pub command: Vec<String>,
    pub seed: u64,
    pub target: Target,
    pub parameters: Vec<Parameter>,
    pub warmup: Duration,
    /// As it was.
    pub measured: Duration,
    pub spin: bool,
    pub usages: Vec<Usage>,
    pub interrupted: bool,
    pub aborted: Option<String>,
    pub findings: Findings,
    pub server: Option<Server>,
    pub server_metrics: Option<ServerMetrics>,
}

/// The result.
pub fn result(ended: Ended, collected: &Collector) -> RunResult {
    let Findings { checks, values: found, notes, about } = ended.findings;
    let counter = |name| collected.counted.counters.get(name).copied().unwrap_or(0);
    let moved = |name| collected.counted.moved.get(name).copied().unwrap_or(0);
    let judgement = health::judge(&Measured {
        lateness: collected.latencies.get(LATENESS),
        primary: collected.latencies.get(ended.primary_rt),
        usages: &ended.usages,
        length: ended.measured,
        spin: ended.spin,
        slots: counter(SLOTS) + counter(OTHER_SLOTS),
        overflow: counter(OVERFLOW),
    });
    let mut all_notes = judgement.notes;
    if counter(UNSENT) > 0 {
        all_notes.push(format!(
            "{} slots of the schedule were due and never sent, since the target was too far behind at the end: each \
             counts in `rt` with the time that it waited until then, which is less than it would have taken",
            counter(UNSENT)
        ));
    }
    all_notes.extend(notes);
    all_notes.extend(ended.server_metrics.iter().flat_map(ServerMetrics::notes));
    let mut reasons = judgement.reasons;
    let server = ended.server.map(|server| Server {
        // What was answered in the window, for so is the CPU.
        cpu_us_per_request: host::cpu_us_per_request(server.cpu_s, collected.counted.answered),
        cpu_ms_per_mb: host::cpu_ms_per_mb(server.cpu_s, moved("bytes")),
        ..server
    });
    if server.as_ref().is_some_and(|server| server.restarted) {
        reasons.push("the server's process ended or was replaced during the run".into());
    }
    let mut values = derived(&ended.measured, ended.primary_rt, collected);
    values.extend(found);
    let mut target = ended.target;
    target.about.extend(about);
    RunResult {
        schema: SCHEMA.into(),
        id: ended.id,
        scenario: ended.scenario.into(),
        primary: ended.primary.into(),
        started_at: ended.started_at,
        command: ended.command,
        seed: ended.seed,
        target,
        parameters: ended.parameters,
        warmup_s: ended.warmup.as_secs_f64(),
        measured_s: ended.measured.as_secs_f64(),
        verdict: Verdict { valid: reasons.is_empty(), reasons, interrupted: ended.interrupted, aborted: ended.aborted },
        latencies: collected.latencies.iter().map(|(name, found)| (name.to_string(), Latency::of(found))).collect(),
        values,
        errors: error_counts(&collected.counted.errors),
        checks,
        health: judgement.health,
        server,
        server_metrics: ended.server_metrics,
        intervals: collected.rows.clone(),
        notes: all_notes,
        search: None,
    }
}

/// Values that every scenario has, and its counters.
fn derived(measured: &Duration, primary_rt: &str, collected: &Collector) -> BTreeMap<String, Value> {
    let counted = &collected.counted;
    let seconds = measured.as_secs_f64();
    let mut values = BTreeMap::new();
    let mut put = |name: &str, value: f64, unit| values.insert(name.to_string(), Value { value, unit });
    for (name, count) in &counted.counters {
        let unit = if *name == "bytes" { Unit::Bytes } else { Unit::Count };
        put(name, *count as f64, unit);
    }
    let recorded = collected.latencies.get(primary_rt).map_or(0, |latencies| latencies.histogram.len());
    let unsent = counted.counters.get(UNSENT).copied().unwrap_or(0);
    let requests = match requests(counted) {
        0 => recorded - unsent.min(recorded),
        requests => requests,
    };
    let errors: u64 = counted.errors.values().sum();
    put("requests", requests as f64, Unit::Count);
    put("errors", errors as f64, Unit::Count);
    put("error_share", errors as f64 / (requests.max(errors).max(1)) as f64, Unit::Ratio);
    if seconds > 0.0 {
        put("rate", counted.answered as f64 / seconds, Unit::PerSecond);
        if let Some(slots) = counted.counters.get(SLOTS) {
            put("offered_rate", *slots as f64 / seconds, Unit::PerSecond);
        }
        for (name, per_second, unit) in
            [("records", "records_per_s", Unit::PerSecond), ("bytes", "bytes_per_s", Unit::BytesPerSecond)]
        {
            // Where all of it came behind the window's end the rate is 0.
            if counted.counters.contains_key(name) || counted.moved.contains_key(name) {
                put(per_second, counted.moved.get(name).copied().unwrap_or(0) as f64 / seconds, unit);
            }
        }
    }
    values
}

fn error_counts(counted: &BTreeMap<(&'static str, i16), u64>) -> Vec<ErrorCount> {
    let mut errors: Vec<ErrorCount> = counted
        .iter()
        .map(|((operation, code), count)| ErrorCount {
            operation: operation.to_string(),
            code: *code,
            name: errors::name(*code),
            count: *count,
        })
        .collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}
