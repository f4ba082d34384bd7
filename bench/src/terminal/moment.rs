//! What the last interval saw, in the few figures that a glance takes in.

use crate::quantity::{show, show_ns};
use crate::result::{IntervalRow, LatencyRow, Unit, Value};

/// One interval's figures of the primary operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Answers per second.
    pub rate: f64,
    /// Response times; none where nothing was answered.
    pub latency: Option<LatencyRow>,
    /// Errors of all operations.
    pub errors: u64,
}

impl Moment {
    /// Of an interval, where `primary` is the scenario's primary operation or span.
    pub fn of(row: &IntervalRow, primary: &str) -> Moment {
        let latency = row.latencies.get(&format!("{primary}.rt")).or_else(|| row.latencies.get(primary)).cloned();
        let count = latency.as_ref().map_or(0, |latency| latency.count);
        let rate = if row.length_s > 0.0 { count as f64 / row.length_s } else { 0.0 };
        Moment { rate, latency, errors: row.errors }
    }

    /// `10,003 /s`
    pub fn rate(&self) -> String {
        show(Value { value: self.rate.round(), unit: Unit::PerSecond })
    }

    /// Names and values of p50, p99, p99.9 and the largest, `-` where nothing was answered.
    pub fn latencies(&self) -> [(&'static str, String); 4] {
        let shown =
            |of: fn(&LatencyRow) -> u64| self.latency.as_ref().map_or_else(|| "-".into(), |row| show_ns(of(row)));
        [
            ("p50", shown(|row| row.p50_ns)),
            ("p99", shown(|row| row.p99_ns)),
            ("p99.9", shown(|row| row.p99_9_ns)),
            ("max", shown(|row| row.max_ns)),
        ]
    }
}
