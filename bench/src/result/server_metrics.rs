//! What the server said of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Unit, Value};

/// What was read of the server's metrics (Prometheus' text format) in the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerMetrics {
    /// Where they were.
    pub url: String,
    /// Scrapes that were read, in the whole run.
    pub scrapes: u64,
    /// Scrapes that came to nothing, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Time between the first and the last scrape of the measured window, in s: what counters and histograms are of. 0 when
    /// there were no two.
    pub covered_s: f64,
    /// Bytes of the largest scrape.
    pub bytes_max: u64,
    /// How long the longest took, in s.
    pub took_max_s: f64,
    /// Series that were chosen and are not here, for there were more than 512.
    pub left_out: u64,
    /// The chosen families' series, by name and labels.
    pub series: Vec<MetricSeries>,
}

/// A series. Those that differ in their label `shard` alone are one: counters, histograms and gauges added up, of gauges whose
/// name ends with `_max` the largest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MetricSeries {
    /// The family's name.
    pub name: String,
    /// Without `shard` and `le`.
    pub labels: BTreeMap<String, String>,
    /// What it is.
    pub kind: MetricKind,
    /// Of the measured window. A counter's `increase` and `rate` (per second); a gauge's `min`, `mean`, `max` and `last`; a
    /// histogram's `count`, `rate`, `mean`, `p50`, `p99`, `p99.9` and `beyond`. Percentiles are taken from the buckets as if
    /// values lay evenly within each; `beyond` counts those over the largest bound, and a percentile among them is that bound.
    pub values: BTreeMap<String, Value>,
    /// By the rows of `intervals`, null where a scrape is missing: `rate` of counters and histograms, `p99` of histograms,
    /// `value` of gauges. Empty for a series that was 0 or did not move.
    #[serde(default)]
    pub over_time: BTreeMap<String, Vec<Option<f64>>>,
}

/// Kinds of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Values by their size.
    Histogram,
}

impl ServerMetrics {
    /// What a reader has to know of it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let failed: u64 = self.failed.values().sum();
        if failed > 0 {
            let mut reasons: Vec<_> = self.failed.iter().collect();
            reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
            let reasons: Vec<String> =
                reasons.into_iter().map(|(reason, count)| format!("{reason} ({count})")).collect();
            let covered = match self.covered_s > 0.0 {
                true => format!("counters and histograms of the server are of {:.1} s", self.covered_s),
                false => "nothing is known of the server's counters and histograms".into(),
            };
            notes.push(format!(
                "{failed} of {} scrapes of {} came to nothing: {}; {covered}",
                failed + self.scrapes,
                self.url,
                reasons.join(", ")
            ));
        }
        if self.scrapes > 0 && self.series.is_empty() {
            notes.push(format!(
                "{} has none of the metrics that are looked for: --server-metric PREFIX names others",
                self.url
            ));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} series of {} are left out, for so many are not kept: choose fewer by a longer --server-metric",
                self.left_out, self.url
            ));
        }
        notes
    }

    /// The series that moved, or have a value, with the others counted.
    pub fn moved(&self) -> (Vec<&MetricSeries>, usize) {
        let (moved, still): (Vec<_>, Vec<_>) = self.series.iter().partition(|series| series.has_moved());
        (moved, still.len())
    }
}

impl MetricSeries {
    /// As Prometheus writes it: `family{label="value"}`.
    pub fn whole_name(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        if labels.is_empty() { self.name.clone() } else { format!("{}{{{}}}", self.name, labels.join(",")) }
    }

    /// As assertions write it: `family(value)`.
    pub fn short_name(&self) -> String {
        let labels: Vec<&str> = self.labels.values().map(String::as_str).collect();
        if labels.is_empty() { self.name.clone() } else { format!("{}({})", self.name, labels.join(",")) }
    }

    /// One of [`MetricSeries::values`].
    pub fn value(&self, name: &str) -> Option<Value> {
        self.values.get(name).copied()
    }

    /// Whether there is anything to it but 0.
    pub fn has_moved(&self) -> bool {
        self.values.values().any(|value| value.value != 0.0)
    }

    /// Whether so large a share's percentile lies among the values of which nothing is known but that they are over the
    /// largest bound.
    pub fn is_beyond(&self, share: f64) -> bool {
        let value = |name| self.value(name).map_or(0.0, |value: Value| value.value);
        let count = value("count");
        count > 0.0 && count - value("beyond") < share * count
    }

    /// The unit of what it measures.
    pub fn unit(&self) -> Unit {
        let of = match self.kind {
            MetricKind::Counter => "increase",
            MetricKind::Gauge => "last",
            MetricKind::Histogram => "mean",
        };
        self.value(of).map_or(Unit::Count, |value| value.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_and_what_is_missing_is_said_in_words() {
        let mut metrics = ServerMetrics {
            url: "http://h:1/metrics".into(),
            scrapes: 7,
            failed: [("connection refused".into(), 1), ("no whole answer in time".into(), 2)].into(),
            covered_s: 4.0,
            ..ServerMetrics::default()
        };
        let failed = "3 of 10 scrapes of http://h:1/metrics came to nothing: no whole answer in time (2), connection refused \
                      (1); counters and histograms of the server are of 4.0 s";
        assert_eq!(metrics.notes()[0], failed);
        assert!(metrics.notes()[1].contains("none of the metrics that are looked for"));
        (metrics.scrapes, metrics.covered_s, metrics.left_out) = (0, 0.0, 5);
        assert!(metrics.notes()[0].ends_with("nothing is known of the server's counters and histograms"));
        assert!(metrics.notes()[1].starts_with("5 series of"));
        assert_eq!(
            ServerMetrics { series: vec![latency(0.0)], scrapes: 1, ..ServerMetrics::default() }.notes(),
            [""; 0]
        );
    }

    fn latency(beyond: f64) -> MetricSeries {
        let value = |value, unit| Value { value, unit };
        MetricSeries {
            name: "x_seconds".into(),
            labels: [("api".to_owned(), "Join".to_owned()), ("b".to_owned(), "c".to_owned())].into(),
            kind: MetricKind::Histogram,
            values: [
                ("count", value(100.0, Unit::Count)),
                ("beyond", value(beyond, Unit::Count)),
                ("mean", value(1.0, Unit::Seconds)),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            over_time: BTreeMap::new(),
        }
    }

    #[test]
    fn a_series_has_a_name_for_people_and_one_for_assertions_and_says_what_it_does_not_know() {
        let series = latency(2.0);
        assert_eq!(series.whole_name(), "x_seconds{api=\"Join\",b=\"c\"}");
        assert_eq!(series.short_name(), "x_seconds(Join,c)");
        assert_eq!((series.is_beyond(0.98), series.is_beyond(0.99), series.unit()), (false, true, Unit::Seconds));
    }
}
