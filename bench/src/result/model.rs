//! The values of `result.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::server_metrics::ServerMetrics;

/// The schema's name and version: fields may be added under one version, never renamed or removed.
pub const SCHEMA: &str = "ringgate-bench/1";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// `<utc>-<scenario>-<random>`, the directory's name behind `run-`.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// The operation that `rt`, `st` and `wt` mean when no operation is named.
    pub primary: String,
    /// When the schedule began, RFC 3339, UTC.
    pub started_at: String,
    /// The exact command, to run it again.
    pub command: Vec<String>,
    /// Decides every random choice.
    pub seed: u64,
    /// What was loaded.
    pub target: Target,
    /// Every parameter in force, defaults too, by flag name.
    pub parameters: Vec<Parameter>,
    /// Length of the warm-up, in s.
    pub warmup_s: f64,
    /// Length of the measured window as it was, in s.
    pub measured_s: f64,
    /// Whether it may be believed.
    pub verdict: Verdict,
    /// Merged latencies of the measured window by series (`produce.rt`, `heartbeat.rt`, `stable`, ...).
    pub latencies: BTreeMap<String, Latency>,
    /// Everything else that was measured or derived, by name: `rate`, `records`, `records_per_s`, `bytes_per_s`,
    /// `errors`, `offered_rate`, ... `--assert` reads these, latencies and checks.
    pub values: BTreeMap<String, Value>,
    /// Errors of the measured window.
    pub errors: Vec<ErrorCount>,
    /// What was wrong with what was moved.
    pub checks: Checks,
    /// How well the generator kept its schedule.
    pub health: Health,
    /// What the server used, when `--server-pid` was given.
    pub server: Option<Server>,
    /// What the server said of itself, when `--server-metrics` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<ServerMetrics>,
    /// One row per interval, warm-up too.
    pub intervals: Vec<IntervalRow>,
    /// Sentences for the reader: what was left out, what to mind.
    pub notes: Vec<String>,
    /// The search whose last run this is, when `--search` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

/// A search for the highest rate at which bounds are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Search {
    /// What every probe had to keep, as written. No probe may have errors or slots that were never sent.
    pub bounds: Vec<String>,
    /// How far the highest rate that kept them and the lowest that did not were to be apart: 0.05 is 5 %.
    pub precision: f64,
    /// The highest rate that kept them, over the full length too, in slots per second.
    pub confirmed_rate: Option<f64>,
    /// The lowest rate that did not keep them.
    pub missed_rate: Option<f64>,
    /// Why the search ended, in words.
    pub ended: String,
    /// In order.
    pub probes: Vec<Probe>,
}

/// One run of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Probe {
    /// What was asked for, in slots per second.
    pub rate: f64,
    /// Whether it was of the full length, to confirm what was found.
    pub confirms: bool,
    /// Length of its measured window, in s.
    pub measured_s: f64,
    /// What was answered per second.
    pub answered_rate: f64,
    /// Whether the bounds were kept.
    pub kept: bool,
    /// Why the run was invalid; empty for a valid one.
    pub reasons: Vec<String>,
    /// What was found of each bound, in words.
    pub found: Vec<String>,
}

/// What was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// As given.
    pub bootstrap: String,
    /// A name for it (`--name`), for reports that compare; the bootstrap address otherwise.
    pub name: String,
    /// What it says it is, as far as it does: cluster id, brokers, highest versions of its APIs.
    pub about: BTreeMap<String, String>,
}

impl Target {
    /// Its name and where it is, which is said once where they are the same.
    pub fn shown(&self) -> String {
        if self.name == self.bootstrap { self.name.clone() } else { format!("{} ({})", self.name, self.bootstrap) }
    }
}

/// One parameter in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parameter {
    /// The flag, without dashes.
    pub name: String,
    /// As a user would write it.
    pub value: String,
    /// Whether it is the default.
    pub default: bool,
}

/// Whether a run may be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// False: the numbers describe the generator, not the target; exit code 5.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// It was interrupted, the window is shorter than asked for; exit code 130.
    pub interrupted: bool,
    /// It was aborted: too many errors, or the scenario could not go on; exit code 4.
    pub aborted: Option<String>,
}

/// A series' latencies, all in ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Values.
    pub count: u64,
    /// Over an hour; recorded as an hour.
    pub clipped: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Percentiles: 50, 75, 90, 95, 99, 99.9, 99.99, 99.999 by name (`"99.9"`).
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Largest.
    pub max_ns: u64,
    /// The whole histogram: HdrHistogram V2 with deflate, base64, so that runs can be merged and charts drawn.
    pub histogram: String,
}

/// A measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Value {
    /// In the unit.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// Units of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A share or a ratio, 1 is all or equal.
    Ratio,
}

/// An error and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorCount {
    /// The operation (`produce`, `heartbeat`, ...).
    pub operation: String,
    /// Kafka's code, or the generator's own below -1,000.
    pub code: i16,
    /// Its name.
    pub name: String,
    /// How often in the measured window.
    pub count: u64,
}

/// What was wrong with what was moved; a scenario fills in what it can check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checks {
    /// Found wrong, by kind: `lost`, `duplicated`, `reordered`, `corrupt`, `owned_twice`, `unassigned`,
    /// `fenced_commits`, ... A kind that was checked and is fine is there with 0.
    pub violations: BTreeMap<String, u64>,
    /// The first few, in words (topic, partition, sequence).
    pub examples: Vec<String>,
}

/// How well the generator kept its schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// Slots of the schedule in the measured window.
    pub slots: u64,
    /// How late slots were begun, in ns.
    pub lateness_p50_ns: u64,
    /// As above.
    pub lateness_p99_ns: u64,
    /// As above.
    pub lateness_max_ns: u64,
    /// The busiest executor's CPU time per wall time, without deliberate spinning; 1 is a whole core.
    pub cpu_max: f64,
    /// Time that executors were ready to run and had no CPU, per wall time, the worst one's.
    pub run_delay_max: f64,
    /// Slots that had to wait for the target, since the most outstanding requests allowed were out.
    pub overflow: u64,
}

/// What the server used in the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// User CPU seconds.
    pub user_s: f64,
    /// System CPU seconds.
    pub system_s: f64,
    /// CPU seconds, as exactly as the kernel tells: by thread in ns, unless threads ended meanwhile.
    #[serde(default)]
    pub cpu_s: f64,
    /// CPU seconds of it per wall second.
    pub cpu: f64,
    /// CPU per request of the primary operation that was answered in the window, in us.
    pub cpu_us_per_request: Option<f64>,
    /// CPU per MB (10^6 bytes) of records moved by answers in the window, in ms.
    pub cpu_ms_per_mb: Option<f64>,
    /// Resident bytes at the window's start, end, and most.
    pub rss_start_bytes: u64,
    /// As above.
    pub rss_end_bytes: u64,
    /// As above.
    pub rss_max_bytes: u64,
    /// Resident bytes with shared pages divided among their users, at the window's start and end.
    #[serde(default)]
    pub pss_start_bytes: Option<u64>,
    /// As above.
    #[serde(default)]
    pub pss_end_bytes: Option<u64>,
    /// Open descriptors at the end.
    pub descriptors: u64,
    /// The busiest thread's CPU over the mean of its kind: of the threads with the same name but for the number behind it
    /// that together used most. 0 when none used any.
    pub thread_imbalance: f64,
    /// Its threads, busiest first.
    pub threads: Vec<Thread>,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// As above.
    pub involuntary_switches: u64,
    /// Time its threads were ready and had no CPU, in s.
    pub run_delay_s: f64,
    /// Periods that its control group throttled it, and for how long in s; `None` without a control group's limit.
    pub throttled_periods: Option<u64>,
    /// As above.
    pub throttled_s: Option<f64>,
    /// How much the kernel's counters of its network namespace moved: `ListenOverflows`, `ListenDrops` and
    /// `RetransSegs` always, others when they did.
    pub kernel: BTreeMap<String, u64>,
    /// It ended or was replaced during the run, which makes the run invalid.
    pub restarted: bool,
    /// What could not be read, and why; its value above is 0 or `None`.
    #[serde(default)]
    pub unread: BTreeMap<String, String>,
}

/// A server thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: u32,
    /// CPU seconds in the window.
    pub cpu_s: f64,
}

/// What one interval saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalRow {
    /// Its end since the schedule's start, in s.
    pub at_s: f64,
    /// Its length, in s.
    pub length_s: f64,
    /// Whether it ended in the warm-up.
    pub warmup: bool,
    /// Latencies by series.
    pub latencies: BTreeMap<String, LatencyRow>,
    /// Counters by name, what was added in the interval.
    pub counters: BTreeMap<String, u64>,
    /// Errors in the interval.
    pub errors: u64,
    /// The server in the interval.
    pub server: Option<ServerRow>,
}

/// One series in one interval, in ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyRow {
    /// Values.
    pub count: u64,
    /// 50th percentile.
    pub p50_ns: u64,
    /// 99th.
    pub p99_ns: u64,
    /// 99.9th.
    pub p99_9_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// The server in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerRow {
    /// CPU seconds per wall second.
    pub cpu: f64,
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// The busiest threads' CPU per wall second, by thread name, at most 16.
    pub threads: BTreeMap<String, f64>,
}

/// `env.json`: where it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Environment {
    /// By name: CPU model, microcode, cores, memory, kernel, its command line, governor, mitigations, clock source, NICs,
    /// limits, versions, control group, the exact command.
    pub facts: BTreeMap<String, serde_json::Value>,
}
