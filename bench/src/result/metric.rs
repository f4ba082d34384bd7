//! A run's measured values by name: what `--assert`, `--baseline`, `--search` and `compare` speak of.
//!
//! - `[SERIES.]STAT` of latencies: `rt.p99`, `produce.rt.p99.9`, `commit.rt.mean`, `stable.max`. `rt`, `st` and `wt` alone
//!   mean the primary operation's. `STAT` is `p` and any percentile, `min`, `mean`, `stddev`, `max`, `count` or `clipped`.
//! - `errors`, all; `errors.NOT_COORDINATOR` by Kafka's name; `errors.produce` by operation;
//!   `errors.produce.NOT_COORDINATOR` by both.
//! - `checks.lost` and the other kinds that the scenario checks; `checks`, all of them.
//! - `metrics.FAMILY.STAT`, `metrics.FAMILY(LABEL).STAT`: what the server said of itself ([`super::MetricSeries`]).
//! - `server.cpu_us_per_request`, `server.rss_max`, ...: what the server used. `health.lateness_p99`, ...: the generator.
//! - Any name in [`RunResult::values`]: `rate`, `records_per_s`, `rss_per_conn`, ...

use std::collections::BTreeMap;

use super::{ErrorCount, Health, Latency, RunResult, Server, Unit, Value, errors};

/// A run has no such metric. Lists near names, and all that the run has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no metric {name} in a {scenario} run{}; it has {}", nearest(.near), listed(.has))]
pub struct UnknownMetric {
    /// As asked for.
    pub name: String,
    /// What the run was.
    pub scenario: String,
    /// Names that look like it, the nearest first.
    pub near: Vec<String>,
    /// All that the run has.
    pub has: Vec<String>,
}

fn nearest(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!(" (did you mean {}?)", near.join(" or ")),
    }
}

/// All names, the statistics of the latencies' series once.
fn listed(has: &[String]) -> String {
    let is_statistic = |name: &str| STATISTICS.contains(&name) || is_percentile(name);
    let mut names: Vec<String> = Vec::new();
    let mut statistics: Vec<&str> = Vec::new();
    for name in has {
        // The statistic of `rt.p99.9` is `p99.9`.
        let split = name.split_once(".p").filter(|(_, rest)| rest.parse::<f64>().is_ok());
        let (series, statistic) = match split {
            Some((series, _)) => (series, &name[series.len() + 1..]),
            None => name.rsplit_once('.').unwrap_or(("", name)),
        };
        if series.is_empty() || !is_statistic(statistic) {
            names.push(name.clone());
            continue;
        }
        if !statistics.contains(&statistic) {
            statistics.push(statistic);
        }
        let series = format!("{series}.*");
        if !names.contains(&series) {
            names.push(series);
        }
    }
    match statistics.as_slice() {
        [] => names.join(", "),
        statistics => format!("{}, where * is one of {}", names.join(", "), statistics.join(", ")),
    }
}

/// What there is of a series besides percentiles.
const STATISTICS: [&str; 6] = ["min", "mean", "stddev", "max", "count", "clipped"];

fn is_percentile(name: &str) -> bool {
    name.strip_prefix('p').is_some_and(|percent| percent.parse::<f64>().is_ok())
}

/// Names this alike are worth proposing (Jaro-Winkler, 1 is equal).
const NEAR: f64 = 0.82;

/// How many near names a message proposes.
const PROPOSED: usize = 3;

/// The value of a metric, `None` where the run has no such.
pub fn metric(run: &RunResult, name: &str) -> Option<Value> {
    let name = whole_name(run, name);
    metrics(run).remove(&name).or_else(|| errors_named(run, &name)).or_else(|| percentile_named(run, &name))
}

/// The value of a metric, or what the run has instead.
pub fn known_metric(run: &RunResult, name: &str) -> Result<Value, UnknownMetric> {
    metric(run, name).ok_or_else(|| {
        let primary = format!("{}.", run.primary);
        // Shown as people write them: without the primary operation.
        let has: Vec<String> = metrics(run)
            .into_keys()
            .map(|has| match has.strip_prefix(&primary) {
                Some(short) if is_kind(short) => short.to_owned(),
                _ => has,
            })
            .collect();
        let mut near: Vec<(f64, &String)> =
            has.iter().map(|has| (strsim::jaro_winkler(name, has), has)).filter(|(alike, _)| *alike >= NEAR).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        UnknownMetric {
            name: name.to_owned(),
            scenario: run.scenario.clone(),
            near: near.into_iter().take(PROPOSED).map(|(_, name)| name.clone()).collect(),
            has,
        }
    })
}

/// Every metric of the run by its whole name (`produce.rt.p99`, never `rt.p99`).
pub fn metrics(run: &RunResult) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut give = |name: String, value: f64, unit: Unit| {
        all.insert(name, Value { value, unit });
    };
    for (series, latency) in &run.latencies {
        of_latency(latency, |stat, value, unit| give(format!("{series}.{stat}"), value, unit));
    }
    of_errors(&run.errors, &mut give);
    give("checks".into(), run.checks.violations.values().sum::<u64>() as f64, Unit::Count);
    for (kind, count) in &run.checks.violations {
        give(format!("checks.{kind}"), *count as f64, Unit::Count);
    }
    of_health(&run.health, |name, value, unit| give(format!("health.{name}"), value, unit));
    if let Some(server) = &run.server {
        of_server(server, |name, value, unit| give(format!("server.{name}"), value, unit));
    }
    for series in run.server_metrics.iter().flat_map(|metrics| &metrics.series) {
        for (statistic, Value { value, unit }) in &series.values {
            give(format!("metrics.{}.{statistic}", series.short_name()), *value, *unit);
        }
    }
    // Last: a scenario's own word counts.
    for (name, Value { value, unit }) in &run.values {
        give(name.clone(), *value, *unit);
    }
    all
}

/// A percentile is told from luck by this many values beyond it.
const VALUES_BEYOND: f64 = 10.0;

/// Whether the run has enough values beyond a percentile to tell it from a handful of requests' luck; true for what is
/// no percentile.
pub fn told_apart(run: &RunResult, name: &str) -> bool {
    let Some((series, percentile)) = name.split_once(".p") else { return true };
    let Ok(percentile) = percentile.parse::<f64>() else { return true };
    match metric(run, &format!("{series}.count")) {
        // The division leaves a last digit behind.
        Some(count) => count.value * (1.0 - percentile / 100.0) >= VALUES_BEYOND * 0.999_999,
        None => true,
    }
}

/// `rt.p99` as the run has it: `produce.rt.p99`.
fn whole_name(run: &RunResult, name: &str) -> String {
    if is_kind(name) { format!("{}.{name}", run.primary) } else { name.to_owned() }
}

/// Whether it begins with a kind of latency, so that the operation is left out.
fn is_kind(name: &str) -> bool {
    ["rt.", "st.", "wt."].iter().any(|kind| name.starts_with(kind))
}

fn of_latency(latency: &Latency, mut give: impl FnMut(&str, f64, Unit)) {
    let mut time = |stat: &str, ns: f64| give(stat, ns / 1e9, Unit::Seconds);
    for (percentile, ns) in &latency.percentiles_ns {
        time(&format!("p{percentile}"), *ns as f64);
    }
    time("min", latency.min_ns as f64);
    time("mean", latency.mean_ns);
    time("stddev", latency.stddev_ns);
    time("max", latency.max_ns as f64);
    give("count", latency.count as f64, Unit::Count);
    give("clipped", latency.clipped as f64, Unit::Count);
}

fn of_errors(counted: &[ErrorCount], give: &mut impl FnMut(String, f64, Unit)) {
    let mut sums: BTreeMap<String, u64> = BTreeMap::from([("errors".into(), 0)]);
    for error in counted {
        let names = [
            "errors".into(),
            format!("errors.{}", error.name),
            format!("errors.{}", error.operation),
            format!("errors.{}.{}", error.operation, error.name),
        ];
        for name in names {
            *sums.entry(name).or_default() += error.count;
        }
    }
    for (name, count) in sums {
        give(name, count as f64, Unit::Count);
    }
}

/// An error that there is, of an operation that the run has, and that did not happen: 0, not unknown.
fn errors_named(run: &RunResult, name: &str) -> Option<Value> {
    let none = Value { value: 0.0, unit: Unit::Count };
    let what = name.strip_prefix("errors.")?;
    let is_operation =
        |name: &str| run.latencies.keys().any(|series| series.split('.').next() == Some(name)) || name == run.primary;
    let known = match what.split_once('.') {
        Some((operation, error)) => is_operation(operation) && errors::is_name(error),
        None => errors::is_name(what) || is_operation(what),
    };
    known.then_some(none)
}

/// A percentile that the result does not name: from its histogram.
fn percentile_named(run: &RunResult, name: &str) -> Option<Value> {
    let (series, percentile) = name.split_once(".p")?;
    let percentile: f64 = percentile.parse().ok().filter(|percentile| (0.0..=100.0).contains(percentile))?;
    let latencies = run.latencies.get(series)?.latencies(series).ok()?;
    let ns = latencies.histogram.value_at_percentile(percentile);
    Some(Value { value: ns as f64 / 1e9, unit: Unit::Seconds })
}

fn of_health(health: &Health, mut give: impl FnMut(&str, f64, Unit)) {
    give("slots", health.slots as f64, Unit::Count);
    give("lateness_p50", health.lateness_p50_ns as f64 / 1e9, Unit::Seconds);
    give("lateness_p99", health.lateness_p99_ns as f64 / 1e9, Unit::Seconds);
    give("lateness_max", health.lateness_max_ns as f64 / 1e9, Unit::Seconds);
    give("cpu_max", health.cpu_max, Unit::Ratio);
    give("run_delay_max", health.run_delay_max, Unit::Ratio);
    give("overflow", health.overflow as f64, Unit::Count);
}

fn of_server(server: &Server, mut give: impl FnMut(&str, f64, Unit)) {
    give("user", server.user_s, Unit::Seconds);
    give("system", server.system_s, Unit::Seconds);
    give("cpu", server.cpu, Unit::Ratio);
    if let Some(us) = server.cpu_us_per_request {
        give("cpu_us_per_request", us / 1e6, Unit::Seconds);
    }
    if let Some(ms) = server.cpu_ms_per_mb {
        give("cpu_ms_per_mb", ms / 1e3, Unit::Seconds);
    }
    give("rss_start", server.rss_start_bytes as f64, Unit::Bytes);
    give("rss_end", server.rss_end_bytes as f64, Unit::Bytes);
    give("rss_max", server.rss_max_bytes as f64, Unit::Bytes);
    give("descriptors", server.descriptors as f64, Unit::Count);
    give("thread_imbalance", server.thread_imbalance, Unit::Ratio);
    give("context_switches", server.context_switches as f64, Unit::Count);
    give("involuntary_switches", server.involuntary_switches as f64, Unit::Count);
    give("run_delay", server.run_delay_s, Unit::Seconds);
    if let Some(periods) = server.throttled_periods {
        give("throttled_periods", periods as f64, Unit::Count);
    }
    if let Some(seconds) = server.throttled_s {
        give("throttled", seconds, Unit::Seconds);
    }
    for (counter, count) in &server.kernel {
        give(&format!("kernel.{counter}"), *count as f64, Unit::Count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example::run;

    #[test]
    fn the_primary_operation_may_be_left_out() {
        let run = run();
        for name in ["rt.p99.9", "produce.rt.p99.9"] {
            assert_eq!(metric(&run, name), Some(Value { value: 0.009, unit: Unit::Seconds }));
        }
        assert_eq!(metric(&run, "stable.max"), Some(Value { value: 1.8, unit: Unit::Seconds }));
    }

    #[test]
    fn a_percentile_that_the_result_does_not_name_is_read_from_its_histogram() {
        let mut run = run();
        let mut latencies = crate::measure::Latencies::new();
        (1..=1_000).for_each(|ms| latencies.record(std::time::Duration::from_millis(ms)));
        run.latencies.insert("produce.rt".into(), Latency::of(&latencies));
        for (name, ms) in [("rt.p98", 980.0), ("rt.p99", 990.0), ("produce.rt.p12.5", 125.0), ("rt.p100", 1_000.0)] {
            let found = metric(&run, name).unwrap_or_else(|| panic!("{name}")).value * 1e3;
            assert!((found - ms).abs() <= ms / 500.0, "{name}: {found}");
        }
        for name in ["rt.p101", "rt.p-1", "rt.pNaN", "nothing.rt.p98"] {
            assert_eq!(metric(&run, name), None, "{name}");
        }
    }

    #[test]
    fn errors_are_had_by_name_by_operation_and_by_both() {
        let run = run();
        for (name, count) in [
            ("errors", 7.0),
            ("errors.NOT_COORDINATOR", 3.0),
            ("errors.produce", 4.0),
            ("errors.commit.NOT_COORDINATOR", 3.0),
            // Never happened, but could have.
            ("errors.FENCED_INSTANCE_ID", 0.0),
            ("errors.TIMED_OUT", 0.0),
            ("errors.produce.NOT_COORDINATOR", 0.0),
        ] {
            assert_eq!(metric(&run, name), Some(Value { value: count, unit: Unit::Count }), "{name}");
        }
        for name in ["errors.NOT_COORDINATR", "errors.nothing.NOT_COORDINATOR", "errors.", "errors.NONE"] {
            assert_eq!(metric(&run, name), None, "{name}");
        }
    }

    #[test]
    fn checks_server_health_and_values_have_names() {
        let run = run();
        for (name, value, unit) in [
            ("checks.lost", 0.0, Unit::Count),
            ("checks", 2.0, Unit::Count),
            ("server.cpu_us_per_request", 12e-6, Unit::Seconds),
            ("server.rss_max", 4_096.0, Unit::Bytes),
            ("server.kernel.RetransSegs", 1.0, Unit::Count),
            ("health.lateness_p99", 0.000_05, Unit::Seconds),
            ("rate", 1_000.0, Unit::PerSecond),
        ] {
            assert_eq!(metric(&run, name), Some(Value { value, unit }), "{name}");
        }
        assert_eq!(metric(&run, "checks.owned_twice"), None, "was not checked");
    }

    #[test]
    fn an_unknown_metric_is_told_with_near_ones_and_all() {
        let unknown = known_metric(&run(), "rt.p98").unwrap_err();
        assert!(unknown.near.iter().any(|near| near == "rt.p99"), "{:?}", unknown.near);
        let message = unknown.to_string();
        assert!(message.starts_with("no metric rt.p98 in a produce run (did you mean "), "{message}");
        assert!(message.contains("server.rss_max, ") && message.contains("checks.lost, "), "{message}");
        assert!(message.contains("rt.*, ") && message.contains("stable.*, "), "{message}");
        assert!(message.contains("where * is one of clipped, count, max") && message.contains("p99.9"), "{message}");
    }
}
