//! What executors hand over, merged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{ERRORS_BEFORE_ABORT, INTERVAL};
use crate::measure::{Counted, Interval, Latencies, Phase};
use crate::result::{IntervalRow, LatencyRow};

/// Merges intervals of all executors: an interval is complete when each has handed over its part.
pub struct Collector {
    executors: usize,
    warmup: Duration,
    /// By number: how many parts came, and their sum.
    open: BTreeMap<u32, (usize, Interval)>,
    /// Of the measured window.
    pub latencies: BTreeMap<&'static str, Latencies>,
    /// Of the measured window.
    pub counted: Counted,
    /// Errors and requests from the schedule's start.
    errors: u64,
    requests: u64,
    primary_rt: &'static str,
    /// Of the intervals that were complete, once all is known of them.
    pub rows: Vec<IntervalRow>,
}

impl Collector {
    pub fn new(executors: usize, warmup: Duration, primary_rt: &'static str) -> Collector {
        Collector {
            executors,
            warmup,
            open: BTreeMap::new(),
            latencies: BTreeMap::new(),
            counted: Counted::default(),
            errors: 0,
            requests: 0,
            primary_rt,
            rows: Vec::new(),
        }
    }

    /// Takes an executor's part of an interval; the whole, when that makes it complete.
    pub fn add(&mut self, number: u32, part: Interval) -> Option<(IntervalRow, Interval)> {
        let (parts, sum) = self.open.entry(number).or_default();
        *parts += 1;
        sum.merge(&part);
        if *parts < self.executors {
            return None;
        }
        let (_, merged) = self.open.remove(&number)?;
        Some(self.complete(number, INTERVAL, merged))
    }

    /// Takes the part of an interval that ends with the run.
    pub fn add_rest(&mut self, number: u32, part: Interval) {
        let (_, sum) = self.open.entry(number).or_default();
        sum.merge(&part);
    }

    /// What is left when the run is over, `end` after the schedule's start.
    pub fn close(&mut self, end: Duration) -> Vec<(IntervalRow, Interval)> {
        let mut rest = Vec::new();
        while let Some((number, (_, merged))) = self.open.pop_first() {
            let length = end.saturating_sub(INTERVAL * number).min(INTERVAL);
            // Nothing can have happened in no time, but what was counted is kept.
            if length > Duration::ZERO || !merged.latencies.is_empty() {
                rest.push(self.complete(number, length, merged));
            }
        }
        rest
    }

    /// Whether more of the requests so far were errors than a share allows.
    pub fn too_many_errors(&self, share: f64) -> Option<String> {
        let of = self.requests.max(self.errors);
        (self.errors >= ERRORS_BEFORE_ABORT && self.errors as f64 > share * of as f64).then(|| {
            format!("{} of {of} requests were errors, more than --error-limit {}%", self.errors, share * 100.0)
        })
    }

    fn complete(&mut self, number: u32, length: Duration, merged: Interval) -> (IntervalRow, Interval) {
        for ((phase, series), latencies) in &merged.latencies {
            if *phase == Phase::Measured {
                self.latencies.entry(series).or_default().merge(latencies);
            }
        }
        let mut row = row(INTERVAL * number + length, length, &merged);
        row.warmup = INTERVAL * number + length <= self.warmup;
        for (phase, counted) in &merged.counted {
            self.requests += requests(counted);
            if *phase == Phase::Measured {
                self.counted.answered += counted.answered;
                for (name, by) in &counted.moved {
                    *self.counted.moved.entry(name).or_default() += by;
                }
                for (name, count) in &counted.counters {
                    *self.counted.counters.entry(name).or_default() += count;
                }
                for (key, count) in &counted.errors {
                    *self.counted.errors.entry(*key).or_default() += count;
                }
            }
        }
        if merged.counted.values().all(|counted| requests(counted) == 0) {
            self.requests += row.latencies.get(self.primary_rt).map_or(0, |primary| primary.count);
        }
        self.errors += row.errors;
        (row, merged)
    }
}

/// Requests of all operations, where the scenario counts them.
pub fn requests(counted: &Counted) -> u64 {
    counted.counters.iter().filter(|(name, _)| name.ends_with(".requests")).map(|(_, count)| count).sum()
}

fn row(at: Duration, length: Duration, merged: &Interval) -> IntervalRow {
    let mut by_series: BTreeMap<&'static str, Latencies> = BTreeMap::new();
    for ((_, series), latencies) in &merged.latencies {
        by_series.entry(series).or_default().merge(latencies);
    }
    let latencies = by_series.into_iter().map(|(series, latencies)| {
        let histogram = latencies.histogram;
        let row = LatencyRow {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p99_9_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        };
        (series.to_string(), row)
    });
    let mut counters = BTreeMap::new();
    for counted in merged.counted.values() {
        for (name, count) in &counted.counters {
            *counters.entry(name.to_string()).or_default() += count;
        }
    }
    IntervalRow {
        at_s: at.as_secs_f64(),
        length_s: length.as_secs_f64(),
        warmup: false,
        latencies: latencies.collect(),
        counters,
        errors: merged.counted.values().flat_map(|counted| counted.errors.values()).sum(),
        server: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(phase: Phase, ms: u64, errors: u64) -> Interval {
        let mut interval = Interval::default();
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(ms));
        interval.latencies.insert((phase, "floor.rt"), latencies);
        let counted = interval.counted.entry(phase).or_default();
        counted.counters.insert("floor.requests", 1);
        counted.errors.insert(("floor", -1_001), errors);
        interval
    }

    #[test]
    fn percentiles_are_of_all_executors_values_together_and_warm_up_is_in_no_result() {
        let mut collector = Collector::new(2, Duration::from_secs(1), "floor.rt");
        assert!(collector.add(0, part(Phase::WarmUp, 500, 0)).is_none());
        let (row, _) = collector.add(0, part(Phase::WarmUp, 500, 0)).unwrap();
        assert!(row.warmup && row.latencies["floor.rt"].count == 2);
        assert!(collector.add(1, part(Phase::Measured, 1, 0)).is_none());
        let (row, _) = collector.add(1, part(Phase::Measured, 9, 0)).unwrap();
        assert_eq!((row.at_s, row.warmup), (2.0, false));
        assert_eq!(row.latencies["floor.rt"].max_ns / 1_000_000, 9);
        let measured = &collector.latencies["floor.rt"].histogram;
        assert_eq!((measured.len(), measured.min() / 1_000_000), (2, 0), "{measured:?}");
        assert_eq!(collector.counted.counters["floor.requests"], 2);
    }

    #[test]
    fn what_is_left_at_the_end_is_a_short_interval() {
        let mut collector = Collector::new(1, Duration::ZERO, "floor.rt");
        collector.add(0, part(Phase::Measured, 1, 0));
        collector.add_rest(1, part(Phase::Measured, 1, 0));
        let rest = collector.close(Duration::from_millis(1_250));
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].0.at_s, rest[0].0.length_s), (1.25, 0.25));
        assert_eq!(collector.latencies["floor.rt"].histogram.len(), 2);
    }

    #[test]
    fn errors_end_a_run_only_when_they_are_many_and_a_large_share() {
        let mut collector = Collector::new(1, Duration::ZERO, "floor.rt");
        collector.add(0, part(Phase::Measured, 1, ERRORS_BEFORE_ABORT - 1));
        assert_eq!(collector.too_many_errors(0.5), None);
        collector.add(1, part(Phase::Measured, 1, 1));
        assert!(collector.too_many_errors(0.5).unwrap().contains("--error-limit 50%"));
        assert_eq!(collector.too_many_errors(1.0), None);
    }
}
