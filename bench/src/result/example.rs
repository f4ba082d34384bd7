//! A made-up run, for tests of what judges and shows runs.

use std::collections::BTreeMap;

use super::*;

/// A valid `produce` run with a bit of everything.
pub(crate) fn run() -> RunResult {
    RunResult {
        schema: SCHEMA.into(),
        id: "20260101T000000Z-produce-0001".into(),
        scenario: "produce".into(),
        primary: "produce".into(),
        started_at: "2026-01-01T00:00:00Z".into(),
        command: vec!["ringgate-bench".into(), "produce".into()],
        seed: 1,
        target: Target { bootstrap: "127.0.0.1:9092".into(), name: "one".into(), about: BTreeMap::new() },
        parameters: vec![
            Parameter { name: "bootstrap".into(), value: "127.0.0.1:9092".into(), default: false },
            Parameter { name: "rate".into(), value: "1000".into(), default: false },
            Parameter { name: "connections".into(), value: "8".into(), default: true },
        ],
        warmup_s: 5.0,
        measured_s: 30.0,
        verdict: Verdict { valid: true, reasons: Vec::new(), interrupted: false, aborted: None },
        latencies: BTreeMap::from([
            ("produce.rt".into(), latency(30_000, 1_000_000)),
            ("produce.st".into(), latency(30_000, 900_000)),
            ("stable".into(), latency(10, 200_000_000)),
        ]),
        values: BTreeMap::from([
            ("rate".into(), Value { value: 1_000.0, unit: Unit::PerSecond }),
            ("bytes_per_s".into(), Value { value: 1e6, unit: Unit::BytesPerSecond }),
        ]),
        errors: vec![
            ErrorCount { operation: "produce".into(), code: 6, name: "NOT_LEADER_OR_FOLLOWER".into(), count: 4 },
            ErrorCount { operation: "commit".into(), code: 16, name: "NOT_COORDINATOR".into(), count: 3 },
        ],
        checks: Checks {
            violations: BTreeMap::from([("lost".into(), 0), ("duplicated".into(), 2)]),
            examples: vec!["topic a, partition 0: sequence 17 twice".into()],
        },
        health: Health { slots: 30_000, lateness_p99_ns: 50_000, cpu_max: 0.3, ..Health::default() },
        server: Some(Server {
            pid: 1,
            cpu: 0.5,
            cpu_us_per_request: Some(12.0),
            rss_max_bytes: 4_096,
            kernel: BTreeMap::from([("RetransSegs".into(), 1)]),
            ..Server::default()
        }),
        server_metrics: None,
        intervals: Vec::new(),
        notes: Vec::new(),
        search: None,
    }
}

/// Percentiles at multiples of the 50th: p99 5, p99.9 9, max 9 times as long.
pub(crate) fn latency(count: u64, p50_ns: u64) -> Latency {
    let times = [("50", 1), ("75", 2), ("90", 3), ("95", 4), ("99", 5), ("99.9", 9), ("99.99", 9), ("99.999", 9)];
    Latency {
        count,
        clipped: 0,
        min_ns: p50_ns / 2,
        mean_ns: p50_ns as f64 * 1.2,
        stddev_ns: p50_ns as f64 / 3.0,
        percentiles_ns: times.into_iter().map(|(name, times)| (name.to_owned(), p50_ns * times)).collect(),
        max_ns: p50_ns * 9,
        histogram: String::new(),
    }
}

/// A counter, a gauge, a histogram with some values over its largest bound of 1 s, and a counter that is 0.
pub(crate) fn server_metrics() -> ServerMetrics {
    let series = |name: &str, label: Option<(&str, &str)>, kind, values: &[(&str, f64, Unit)]| MetricSeries {
        name: name.into(),
        labels: label.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        kind,
        values: values
            .iter()
            .map(|(name, value, unit)| ((*name).into(), Value { value: *value, unit: *unit }))
            .collect(),
        over_time: BTreeMap::new(),
    };
    let (count, per_s, s) = (Unit::Count, Unit::PerSecond, Unit::Seconds);
    let gauge = [("min", 9.0, count), ("mean", 9.5, count), ("max", 10.0, count), ("last", 10.0, count)];
    let histogram = [
        ("count", 100.0, count),
        ("rate", 100.0 / 30.0, per_s),
        ("mean", 0.02, s),
        ("p50", 0.01, s),
        ("p99", 1.0, s),
        ("p99.9", 1.0, s),
        ("beyond", 2.0, count),
    ];
    ServerMetrics {
        url: "http://127.0.0.1:9644/metrics".into(),
        scrapes: 36,
        failed: [("connection refused".into(), 1)].into(),
        covered_s: 30.0,
        bytes_max: 60_000,
        took_max_s: 0.003,
        left_out: 0,
        series: vec![
            series("ringgate_groups", Some(("state", "Stable")), MetricKind::Gauge, &gauge),
            series(
                "ringgate_limit_hit_total",
                Some(("limit", "max_groups")),
                MetricKind::Counter,
                &[("increase", 0.0, count), ("rate", 0.0, per_s)],
            ),
            series(
                "ringgate_rebalances_total",
                None,
                MetricKind::Counter,
                &[("increase", 60.0, count), ("rate", 2.0, per_s)],
            ),
            series("ringgate_request_seconds", Some(("api", "JoinGroup")), MetricKind::Histogram, &histogram),
        ],
    }
}
