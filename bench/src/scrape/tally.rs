//! What scrapes of a run come to.

use std::collections::{BTreeMap, BTreeSet};

use super::Asked;
use super::reading::{Histogram, Reading, Scrape, Series, grown};
use crate::limits::SERVER_SERIES_MAX;
use crate::result::{IntervalRow, MetricKind, MetricSeries, Unit, Value};

/// Adds up scrapes in the order in which they were made.
#[derive(Default)]
pub struct Tally {
    series: BTreeMap<Series, Kept>,
    /// Whether there was any scrape.
    scraped: bool,
    /// Series over the limit, in the scrape that had most.
    left_out: u64,
    /// The scrape that ended the interval before.
    row: Option<Asked>,
    /// The first and the last of the measured window.
    window: Option<(Asked, Asked)>,
    /// Intervals whose rates are known, by their ends.
    intervals: BTreeSet<u32>,
}

/// When a scrape was made.
pub struct When {
    pub asked: Asked,
    /// It ends this interval: the how-manieth second since the schedule's start.
    pub interval: Option<u32>,
    /// It belongs to the measured window, whose first and last are its ends.
    pub measured: bool,
}

struct Kept {
    last: Reading,
    /// When the interval before ended.
    row: Reading,
    total: Total,
    points: Vec<Point>,
}

/// What there is of the measured window.
enum Total {
    Counter(f64),
    Gauge { min: f64, max: f64, sum: f64, last: f64, count: u64 },
    Histogram(Histogram),
}

/// A series in an interval: counters' and histograms' are there only where they grew.
struct Point {
    interval: u32,
    /// Growth per second, or a gauge's value.
    value: f64,
    p99: Option<f64>,
}

impl Tally {
    /// Takes a scrape.
    pub fn add(&mut self, scrape: Scrape, when: &When) {
        let since = self.row.map(|row| when.asked.saturating_duration_since(row).as_secs_f64());
        // What grew since the scrape before is of the window when that was, too.
        let counts = when.measured && self.window.is_some();
        let mut left_out = 0;
        for (series, reading) in scrape {
            if !self.series.contains_key(&series) && self.series.len() >= SERVER_SERIES_MAX {
                left_out += 1;
                continue;
            }
            // A series that was not there has counted from 0 since.
            let kept = self.series.entry(series).or_insert_with(|| Kept::new(&reading, self.scraped));
            kept.take(reading, since, when, counts);
        }
        self.left_out = self.left_out.max(left_out);
        if let Some(interval) = when.interval {
            if since.is_some() {
                self.intervals.insert(interval);
            }
            self.row = Some(when.asked);
        }
        if when.measured {
            self.window = Some((self.window.map_or(when.asked, |(first, _)| first), when.asked));
        }
        self.scraped = true;
    }

    /// Time between the window's first and last scrape, in s.
    pub fn covered_s(&self) -> f64 {
        self.window.map_or(0.0, |(first, last)| last.saturating_duration_since(first).as_secs_f64())
    }

    /// See [`crate::result::ServerMetrics::left_out`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All series; what they were over time by the rows' ends.
    pub fn series(&self, rows: &[IntervalRow]) -> Vec<MetricSeries> {
        let ends: Vec<Option<u32>> = rows.iter().map(end).collect();
        let covered_s = self.covered_s();
        let all = self.series.iter().map(|(series, kept)| MetricSeries {
            name: series.family.clone(),
            labels: series.labels.clone(),
            kind: kept.total.kind(),
            values: kept.total.values(unit(&series.family), covered_s),
            over_time: self.over_time(kept, &ends),
        });
        all.collect()
    }

    fn over_time(&self, kept: &Kept, ends: &[Option<u32>]) -> BTreeMap<String, Vec<Option<f64>>> {
        if kept.points.iter().all(|point| point.value == 0.0) {
            return BTreeMap::new();
        }
        let by_end: BTreeMap<u32, &Point> = kept.points.iter().map(|point| (point.interval, point)).collect();
        let known = |end: &Option<u32>| end.filter(|end| self.intervals.contains(end));
        let over = |of: &dyn Fn(Option<&Point>) -> Option<f64>| -> Vec<Option<f64>> {
            ends.iter().map(|end| known(end).and_then(|end| of(by_end.get(&end).copied()))).collect()
        };
        let value = |point: Option<&Point>| point.map(|point| point.value);
        let rate = |point: Option<&Point>| Some(value(point).unwrap_or(0.0));
        match kept.total {
            Total::Counter(_) => BTreeMap::from([("rate".into(), over(&rate))]),
            Total::Gauge { .. } => BTreeMap::from([("value".into(), over(&value))]),
            Total::Histogram(_) => BTreeMap::from([
                ("rate".into(), over(&rate)),
                ("p99".into(), over(&|point| point.and_then(|point| point.p99))),
            ]),
        }
    }
}

/// The interval that ends with a row; none for a rest at the end.
fn end(row: &IntervalRow) -> Option<u32> {
    let end = row.at_s.round();
    ((row.at_s - end).abs() < 1e-6).then_some(end as u32)
}

impl Kept {
    fn new(reading: &Reading, counted_from_0: bool) -> Kept {
        let zero = match reading {
            Reading::Counter(_) => Reading::Counter(0.0),
            Reading::Gauge(value) => Reading::Gauge(*value),
            Reading::Histogram(of) => Reading::Histogram(Histogram {
                buckets: of.buckets.iter().map(|(bound, _)| (*bound, 0.0)).collect(),
                ..Histogram::default()
            }),
        };
        let last = if counted_from_0 { zero } else { reading.clone() };
        Kept {
            total: match reading {
                Reading::Counter(_) => Total::Counter(0.0),
                Reading::Gauge(_) => {
                    Total::Gauge { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, last: 0.0, count: 0 }
                }
                Reading::Histogram(_) => Total::Histogram(Histogram::default()),
            },
            row: last.clone(),
            last,
            points: Vec::new(),
        }
    }

    fn take(&mut self, reading: Reading, since: Option<f64>, when: &When, counts: bool) {
        match (&mut self.total, &self.last, &reading) {
            (Total::Counter(total), Reading::Counter(before), Reading::Counter(now)) if counts => {
                *total += grown(*before, *now);
            }
            (Total::Gauge { min, max, sum, last, count }, _, Reading::Gauge(now)) if when.measured => {
                (*min, *max, *last) = (min.min(*now), max.max(*now), *now);
                *sum += now;
                *count += 1;
            }
            (Total::Histogram(total), Reading::Histogram(before), Reading::Histogram(now)) if counts => {
                total.add(&now.since(before));
            }
            // Not of the window; or of another type than before, since the server was replaced by another.
            _ => {}
        }
        if let Some(interval) = when.interval {
            self.points.extend(Point::of(interval, &self.row, &reading, since));
            self.row = reading.clone();
        }
        self.last = reading;
    }
}

impl Point {
    /// Of a series in an interval of so many seconds, if it did anything there.
    fn of(interval: u32, before: &Reading, now: &Reading, since: Option<f64>) -> Option<Point> {
        let per_s = |grown: f64| since.filter(|since| *since > 0.0 && grown > 0.0).map(|since| grown / since);
        match (before, now) {
            (Reading::Counter(before), Reading::Counter(now)) => {
                per_s(grown(*before, *now)).map(|value| Point { interval, value, p99: None })
            }
            (_, Reading::Gauge(value)) => Some(Point { interval, value: *value, p99: None }),
            (Reading::Histogram(before), Reading::Histogram(now)) => {
                let grown = now.since(before);
                per_s(grown.count).map(|value| Point { interval, value, p99: grown.at(0.99) })
            }
            _ => None,
        }
    }
}

impl Total {
    fn kind(&self) -> MetricKind {
        match self {
            Total::Counter(_) => MetricKind::Counter,
            Total::Gauge { .. } => MetricKind::Gauge,
            Total::Histogram(_) => MetricKind::Histogram,
        }
    }

    fn values(&self, unit: Unit, covered_s: f64) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        let mut put = |name: &str, value: Option<f64>, unit: Unit| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                values.insert(name.to_owned(), Value { value, unit });
            }
        };
        let covered = covered_s > 0.0;
        match self {
            Total::Counter(grown) => {
                put("increase", covered.then_some(*grown), unit);
                put("rate", covered.then(|| grown / covered_s), per_second(unit));
            }
            Total::Gauge { min, max, sum, last, count } if *count > 0 => {
                put("min", Some(*min), unit);
                put("mean", Some(sum / *count as f64), unit);
                put("max", Some(*max), unit);
                put("last", Some(*last), unit);
            }
            Total::Gauge { .. } => {}
            Total::Histogram(grown) => {
                put("count", covered.then_some(grown.count), Unit::Count);
                put("rate", covered.then(|| grown.count / covered_s), Unit::PerSecond);
                put("beyond", covered.then(|| grown.beyond()), Unit::Count);
                put("mean", grown.mean(), unit);
                for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                    put(name, grown.at(share), unit);
                }
            }
        }
        values
    }
}

/// The unit that a family's name ends with.
fn unit(family: &str) -> Unit {
    let base = family.trim_end_matches("_total").trim_end_matches("_max");
    match base.rsplit('_').next() {
        Some("seconds") => Unit::Seconds,
        Some("bytes") => Unit::Bytes,
        Some("ratio") => Unit::Ratio,
        _ => Unit::Count,
    }
}

fn per_second(unit: Unit) -> Unit {
    match unit {
        Unit::Seconds => Unit::Ratio,
        Unit::Bytes => Unit::BytesPerSecond,
        _ => Unit::PerSecond,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::{Choice, text};
    use super::*;

    /// Scrapes a second apart; the window is from the second to the fourth.
    fn tallied(texts: &[&str]) -> Vec<MetricSeries> {
        let began = Instant::now();
        let choice = Choice { prefixes: vec!["x_".parse().unwrap()] };
        let mut tally = Tally::default();
        for (second, text) in (0..).zip(texts) {
            if text.is_empty() {
                continue;
            }
            let when = When {
                asked: began + Duration::from_secs(second.into()),
                interval: Some(second),
                measured: (1..=3).contains(&second),
            };
            tally.add(text::read(text, &choice).unwrap(), &when);
        }
        let row = |second: u32| IntervalRow {
            at_s: f64::from(second),
            length_s: 1.0,
            warmup: false,
            latencies: BTreeMap::new(),
            counters: BTreeMap::new(),
            errors: 0,
            server: None,
        };
        let rest = IntervalRow { at_s: 4.5, ..row(5) };
        tally.series(&(1..=4).map(row).chain([rest]).collect::<Vec<_>>())
    }

    fn value(series: &MetricSeries, name: &str) -> f64 {
        series.values.get(name).unwrap_or_else(|| panic!("{name} of {series:?}")).value
    }

    #[test]
    fn a_counter_is_told_by_what_it_grew_in_the_window_through_a_restart_and_a_failure() {
        let series = tallied(&["x_total 100", "x_total 150", "", "x_total 10", "x_total 1000"]);
        // The server began again between: 10 are known of.
        assert_eq!((value(&series[0], "increase"), value(&series[0], "rate")), (10.0, 5.0));
        let rates = [Some(50.0), None, Some(5.0), Some(990.0), None];
        assert_eq!(series[0].over_time["rate"], rates);
    }

    #[test]
    fn a_series_that_comes_within_the_window_has_counted_from_0() {
        let series = tallied(&[
            "x_total 1",
            "x_total 1",
            "x_total 1\nx_total{e=\"BUSY\"} 7",
            "x_total 1\nx_total{e=\"BUSY\"} 7",
        ]);
        assert_eq!((value(&series[0], "increase"), value(&series[1], "increase")), (0.0, 7.0));
        assert!(series[0].over_time.is_empty(), "it never moved");
        assert_eq!(series[1].over_time["rate"], [Some(0.0), Some(7.0), Some(0.0), None, None]);
    }

    #[test]
    fn a_gauge_is_told_by_its_extremes_and_its_mean_in_the_window() {
        let series = tallied(&["x_bytes 99", "x_bytes 4", "x_bytes 6", "x_bytes 5", "x_bytes 0"]);
        let found = ["min", "mean", "max", "last"].map(|name| value(&series[0], name));
        assert_eq!((found, series[0].values["max"].unit), ([4.0, 5.0, 6.0, 5.0], Unit::Bytes));
        assert_eq!(series[0].over_time["value"], [Some(4.0), Some(6.0), Some(5.0), Some(0.0), None]);
    }

    #[test]
    fn a_histogram_is_told_by_what_came_to_it_in_the_window() {
        let text = |fast: u32, all: u32, sum: f64| {
            format!(
                "# TYPE x_seconds histogram\nx_seconds_bucket{{le=\"0.1\"}} {fast}\nx_seconds_bucket{{le=\"1\"}} {all}\n\
                 x_seconds_bucket{{le=\"+Inf\"}} {all}\nx_seconds_sum {sum}\nx_seconds_count {all}\n"
            )
        };
        let texts = [text(0, 900, 800.0), text(0, 1_000, 900.0), text(50, 1_050, 902.5), text(100, 1_100, 905.0)];
        let series = tallied(&texts.each_ref().map(String::as_str));
        let found = ["count", "rate", "mean", "p50", "p99", "beyond"].map(|name| value(&series[0], name));
        assert_eq!(found, [100.0, 50.0, 0.05, 0.05, 0.099, 0.0]);
        assert_eq!(series[0].over_time["rate"], [Some(100.0), Some(50.0), Some(50.0), None, None]);
        assert_eq!(series[0].over_time["p99"], [Some(0.991), Some(0.099), Some(0.099), None, None]);
    }

    #[test]
    fn units_are_by_the_names() {
        for (family, of, rate) in [
            ("ringgate_commit_seconds", Unit::Seconds, Unit::Ratio),
            ("process_cpu_seconds_total", Unit::Seconds, Unit::Ratio),
            ("ringgate_loop_lag_seconds_max", Unit::Seconds, Unit::Ratio),
            ("ringgate_bytes_in_total", Unit::Count, Unit::PerSecond),
            ("sent_bytes_total", Unit::Bytes, Unit::BytesPerSecond),
            ("ringgate_groups", Unit::Count, Unit::PerSecond),
        ] {
            assert_eq!((unit(family), per_second(unit(family))), (of, rate), "{family}");
        }
    }
}
