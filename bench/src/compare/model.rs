//! The values of `compare.json`.

use serde::{Deserialize, Serialize};

use crate::result::{Parameter, Unit};

/// The schema's name and version: fields may be added under one version, never renamed or removed.
pub const SCHEMA: &str = "ringgate-bench-compare/1";

/// Two targets under the same load, in alternating runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// `<utc>-<scenario>-<random>`, the directory's name behind `compare-`.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// When the first run was started, RFC 3339, UTC.
    pub started_at: String,
    /// The exact command, to run it again.
    pub command: Vec<String>,
    /// Decides the bootstrap's resampling, and the seed of every run.
    pub seed: u64,
    /// How the sides take turns: `abba` (A B, B A, A B, ...) or `abab`.
    pub order: String,
    /// Pause before every run but the first, in s.
    pub cooldown_s: f64,
    /// Pairs of A and B that were asked for; those that were had are `metrics[].ratios`.
    pub pairs: u32,
    /// Pairs of A against itself that were asked for, for the noise floor.
    pub noise_pairs: u32,
    /// What the intervals are for: 0.95.
    pub confidence: f64,
    /// The first target, what the ratios are divided by.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// The parameters that all runs had, by flag name.
    pub parameters: Vec<Parameter>,
    /// Every run in the order they were made, those too that were left out.
    pub runs: Vec<ComparedRun>,
    /// By metric, the most telling first.
    pub metrics: Vec<ComparedMetric>,
    /// False: too many runs were invalid, or it was interrupted; no metric has a winner then.
    pub complete: bool,
    /// Sentences for the reader: what was left out, what to mind.
    pub notes: Vec<String>,
}

/// A target of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// Its name in tables and charts (`--a-name`); the bootstrap address otherwise.
    pub name: String,
    /// As given.
    pub bootstrap: String,
    /// The command that starts it before each of its runs, when there is one.
    pub start: Option<String>,
    /// The command that stops it after each of its runs, when there is one.
    pub stop: Option<String>,
}

/// Which target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A against itself.
    Noise,
    /// A against B.
    Pair,
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// What it is for.
    pub purpose: Purpose,
    /// Its pair among those of its purpose, from 1.
    pub pair: u32,
    /// Which target it loaded.
    pub side: Which,
    /// [`crate::result::RunResult::id`].
    pub id: String,
    /// Its directory beside `compare.json`.
    pub directory: String,
    /// False when its pair was left out and run again.
    pub counts: bool,
    /// Why it does not count: the verdict's reasons.
    pub reasons: Vec<String>,
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Latencies, errors, CPU, memory.
    Lower,
    /// Throughput.
    Higher,
    /// Neither: it describes the load, or the generator.
    Neither,
}

/// What a comparison says of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A is better, by more than the noise.
    A,
    /// B is better, by more than the noise.
    B,
    /// Nobody can be named: see the reason.
    Undecided,
}

/// One metric over all pairs that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparedMetric {
    /// As [`crate::result::metric`] knows it.
    pub name: String,
    /// Of its values.
    pub unit: Unit,
    /// Which way it is better.
    pub better: Better,
    /// A's values by pair.
    pub a: Vec<f64>,
    /// B's values by pair.
    pub b: Vec<f64>,
    /// Median of A's values.
    pub a_median: f64,
    /// Median of B's values.
    pub b_median: f64,
    /// B divided by A by pair; empty where one cannot be divided (A is 0).
    pub ratios: Vec<f64>,
    /// Median of the ratios.
    pub ratio: Option<f64>,
    /// Bootstrap interval of the median ratio, at [`Comparison::confidence`]; `None` with fewer than six pairs, of which
    /// there is none at that confidence.
    pub interval: Option<(f64, f64)>,
    /// Second run of A divided by the first, by pair of A against itself.
    pub noise_ratios: Vec<f64>,
    /// The noise floor as a factor of at least 1: A against itself is within 1/noise and noise.
    pub noise: Option<f64>,
    /// Two-sided p of Wilcoxon's signed-rank test on the logarithms of the ratios.
    pub p_wilcoxon: Option<f64>,
    /// Two-sided p of the sign test on the ratios.
    pub p_sign: Option<f64>,
    /// Who is better.
    pub outcome: Outcome,
    /// In words: by how much the better one is lower or higher, or why nobody can be named.
    pub reason: String,
}
