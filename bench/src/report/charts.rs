//! The numbers that the page's charts are drawn from.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::labels::Label;
use super::{POINTS_MAX, Run};
use crate::limits::SERVER_SERIES_DRAWN;
use crate::measure::Latencies;
use crate::result::{HistogramError, IntervalRow, MetricSeries, RunResult};

/// Points of a tail chart per factor 10 of 1/(1-p).
const TAIL_POINTS_PER_DECADE: u32 = 24;

/// So many runs have [`POINTS_MAX`] points each, of more each has fewer.
const RUNS_IN_FULL: usize = 8;

/// What `page.js` reads.
#[derive(Debug, Serialize)]
pub struct Charts {
    /// The series that is shown first.
    primary: String,
    /// Every series that any run has.
    series: BTreeSet<String>,
    /// The runs, in the page's order.
    runs: Vec<RunCharts>,
    /// A and B of a comparison: their runs' histograms merged.
    sides: Vec<Side>,
}

#[derive(Debug, Serialize)]
struct RunCharts {
    #[serde(flatten)]
    label: Label,
    valid: bool,
    warmup_s: f64,
    /// When the schedule ended; what was outstanding then was waited for.
    end_s: f64,
    offered: Option<f64>,
    /// How many intervals were joined into one point.
    joined: usize,
    tails: BTreeMap<String, Tail>,
    /// Ends of the points, in s since the schedule's begin.
    at: Vec<f64>,
    /// What each point spans, in s.
    length: Vec<f64>,
    over_time: BTreeMap<String, OverTime>,
    errors: Vec<u64>,
    server: Option<Server>,
    /// What the server counted itself, per second, the most active first.
    metrics: Vec<Metric>,
}

/// A counter's growth per second, or a histogram's values, by point.
#[derive(Debug, PartialEq, Serialize)]
struct Metric {
    name: String,
    rate: Vec<Option<f64>>,
}

#[derive(Debug, Serialize)]
struct Side {
    name: String,
    colour: usize,
    tails: BTreeMap<String, Tail>,
}

/// A latency by 1/(1-p).
#[derive(Debug, PartialEq, Serialize)]
struct Tail {
    x: Vec<f64>,
    ns: Vec<u64>,
}

/// A series by point; ns. `None` where nothing was seen.
#[derive(Debug, Default, Serialize)]
struct OverTime {
    count: Vec<u64>,
    p50: Vec<Option<u64>>,
    p99: Vec<Option<u64>>,
    p999: Vec<Option<u64>>,
    max: Vec<Option<u64>>,
}

#[derive(Debug, Serialize)]
struct Server {
    /// Cores.
    cpu: Vec<Option<f64>>,
    rss: Vec<Option<u64>>,
    threads: BTreeMap<String, Vec<Option<f64>>>,
}

impl Charts {
    /// Of these runs; `sides` are the names of A and B.
    pub fn of(runs: &[Run<'_>], labels: &[Label], sides: &[String]) -> Result<Charts, HistogramError> {
        let results = || runs.iter().map(|run| run.result);
        let mut merged: Vec<BTreeMap<String, Latencies>> = vec![BTreeMap::new(); sides.len()];
        let mut charts = Vec::new();
        for (result, label) in results().zip(labels) {
            let mut tails = BTreeMap::new();
            for (series, latency) in &result.latencies {
                let latencies = latency.latencies(series)?;
                if let Some(side) = label.side.and_then(|side| merged.get_mut(side)) {
                    side.entry(series.clone()).or_default().merge(&latencies);
                }
                tails.insert(series.clone(), tail(&latencies.histogram));
            }
            charts.push(RunCharts::of(result, label.clone(), tails, points_max(runs.len())));
        }
        let sides = sides.iter().zip(&merged).enumerate().map(|(colour, (name, merged))| Side {
            name: name.clone(),
            colour,
            tails: merged.iter().map(|(series, of)| (series.clone(), tail(&of.histogram))).collect(),
        });
        Ok(Charts {
            primary: results().next().map(|result| format!("{}.rt", result.primary)).unwrap_or_default(),
            series: results().flat_map(|result| result.latencies.keys().cloned()).collect(),
            runs: charts,
            sides: sides.collect(),
        })
    }

    /// The most intervals that a point stands for.
    pub fn joined(&self) -> usize {
        self.runs.iter().map(|run| run.joined).max().unwrap_or(1)
    }
}

impl RunCharts {
    fn of(result: &RunResult, label: Label, tails: BTreeMap<String, Tail>, points_max: usize) -> RunCharts {
        let joined = result.intervals.len().div_ceil(points_max).max(1);
        let points = points(&result.intervals, joined);
        let names: BTreeSet<&String> = result.intervals.iter().flat_map(|row| row.latencies.keys()).collect();
        RunCharts {
            label,
            valid: result.verdict.valid,
            warmup_s: result.warmup_s,
            end_s: thousandths(result.warmup_s + result.measured_s),
            offered: result.values.get("offered_rate").map(|value| value.value),
            joined,
            tails,
            at: points.iter().map(|rows| thousandths(rows.last().map_or(0.0, |row| row.at_s))).collect(),
            length: points.iter().map(|rows| thousandths(rows.iter().map(|row| row.length_s).sum())).collect(),
            over_time: names.into_iter().map(|name| (name.clone(), OverTime::of(name, &points))).collect(),
            errors: points.iter().map(|rows| rows.iter().map(|row| row.errors).sum()).collect(),
            server: Server::of(&points),
            metrics: metrics(result, &points),
        }
    }
}

impl OverTime {
    fn of(series: &str, points: &[&[IntervalRow]]) -> OverTime {
        let mut over_time = OverTime::default();
        for rows in points {
            let seen = || rows.iter().filter_map(|row| row.latencies.get(series)).filter(|row| row.count > 0);
            over_time.count.push(seen().map(|row| row.count).sum());
            // Percentiles cannot be joined; the worst of the joined intervals hides nothing.
            over_time.p50.push(seen().map(|row| row.p50_ns).max());
            over_time.p99.push(seen().map(|row| row.p99_ns).max());
            over_time.p999.push(seen().map(|row| row.p99_9_ns).max());
            over_time.max.push(seen().map(|row| row.max_ns).max());
        }
        over_time
    }
}

impl Server {
    fn of(points: &[&[IntervalRow]]) -> Option<Server> {
        let rows = || points.iter().flat_map(|rows| rows.iter()).filter_map(|row| row.server.as_ref());
        rows().next()?;
        let names: BTreeSet<&String> = rows().flat_map(|row| row.threads.keys()).collect();
        let mean = |values: Vec<f64>| {
            let sum: f64 = values.iter().sum();
            (!values.is_empty()).then(|| thousandths(sum / values.len() as f64))
        };
        let of = |rows: &[IntervalRow], value: &dyn Fn(&crate::result::ServerRow) -> Option<f64>| {
            mean(rows.iter().filter_map(|row| row.server.as_ref()).filter_map(value).collect())
        };
        Some(Server {
            cpu: points.iter().map(|rows| of(rows, &|row| Some(row.cpu))).collect(),
            rss: points
                .iter()
                .map(|rows| rows.iter().filter_map(|row| row.server.as_ref()).map(|row| row.rss_bytes).max())
                .collect(),
            threads: names
                .into_iter()
                .map(|name| {
                    let cpu = points.iter().map(|rows| of(rows, &|row| row.threads.get(name).copied()));
                    (name.clone(), cpu.collect())
                })
                .collect(),
        })
    }
}

/// The most active of what the server counted itself; the mean of each point's intervals.
fn metrics(result: &RunResult, points: &[&[IntervalRow]]) -> Vec<Metric> {
    let series = result.server_metrics.iter().flat_map(|metrics| &metrics.series);
    let rate = |series: &MetricSeries| series.value("rate").map_or(0.0, |rate| rate.value);
    let mut active: Vec<&MetricSeries> = series.filter(|series| series.over_time.contains_key("rate")).collect();
    active.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    active.truncate(SERVER_SERIES_DRAWN);
    let joined = |over_time: &[Option<f64>]| {
        let mut from = 0;
        let means = points.iter().map(|rows| {
            let known: Vec<f64> = over_time.iter().skip(from).take(rows.len()).copied().flatten().collect();
            from += rows.len();
            (!known.is_empty()).then(|| thousandths(known.iter().sum::<f64>() / known.len() as f64))
        });
        means.collect()
    };
    active
        .into_iter()
        .map(|series| Metric { name: series.whole_name(), rate: joined(&series.over_time["rate"]) })
        .collect()
}

/// Points of each of so many runs: a page of many stays as small as one of [`RUNS_IN_FULL`].
fn points_max(runs: usize) -> usize {
    POINTS_MAX * RUNS_IN_FULL / runs.max(RUNS_IN_FULL)
}

/// The intervals of each point. A rest at the end that is shorter than half a point goes to the point before: its rate
/// would say nothing, its latencies might.
fn points(rows: &[IntervalRow], joined: usize) -> Vec<&[IntervalRow]> {
    let length = |rows: &[IntervalRow]| rows.iter().map(|row| row.length_s).sum::<f64>();
    let mut points: Vec<&[IntervalRow]> = rows.chunks(joined).collect();
    if let [.., before, last] = points.as_slice()
        && length(last) < length(before) / 2.0
    {
        let whole = &rows[rows.len() - last.len() - before.len()..];
        points.truncate(points.len() - 2);
        points.push(whole);
    }
    points
}

/// The curve from the smallest value to the largest, evenly spaced on the logarithm of 1/(1-p).
fn tail(histogram: &Histogram<u64>) -> Tail {
    let mut tail = Tail { x: Vec::new(), ns: Vec::new() };
    let count = histogram.len();
    if count == 0 {
        return tail;
    }
    for step in 0.. {
        let x = 10_f64.powf(f64::from(step) / f64::from(TAIL_POINTS_PER_DECADE));
        if x >= count as f64 {
            break;
        }
        tail.x.push(thousandths(x));
        tail.ns.push(histogram.value_at_quantile(1.0 - 1.0 / x));
    }
    tail.x.push(count as f64);
    tail.ns.push(histogram.max());
    tail
}

fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::result::{LatencyRow, Unit, Value, example};

    #[test]
    fn a_tail_reaches_from_the_smallest_value_to_the_largest() {
        let mut latencies = Latencies::new();
        (1..=1_000).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        let tail = tail(&latencies.histogram);
        assert_eq!(tail.x.len(), 73);
        assert_eq!((tail.x[0], tail.x[24], tail.x[72]), (1.0, 10.0, 1_000.0));
        let ms: Vec<_> = [0, 24, 48, 72].map(|at| (tail.ns[at] as f64 / 1e6).round()).into();
        assert_eq!(ms, [1.0, 900.0, 990.0, 1_000.0]);
        assert!(tail.ns.is_sorted());
        assert_eq!(super::tail(&Latencies::new().histogram), Tail { x: vec![], ns: vec![] });
    }

    #[test]
    fn an_hour_is_joined_into_points_that_keep_the_worst_and_the_sums() {
        let mut result = example::run();
        result.latencies.clear();
        let row = |second: u64| IntervalRow {
            at_s: second as f64 + 1.0,
            length_s: 1.0,
            warmup: false,
            latencies: [(
                "produce.rt".to_owned(),
                LatencyRow {
                    count: 10,
                    p50_ns: 5,
                    p99_ns: 7,
                    p99_9_ns: 8,
                    max_ns: if second == 1_802 { 99 } else { 9 },
                },
            )]
            .into(),
            counters: BTreeMap::new(),
            errors: 1,
            server: None,
        };
        result.intervals = (0..3_600).map(row).collect();
        let label = Label { name: "x".into(), colour: 0, side: None };
        let charts = Charts::of(&[Run { result: &result, environment: None }], &[label], &[]).unwrap();
        let run = &charts.runs[0];
        assert_eq!((charts.joined(), run.at.len()), (5, POINTS_MAX));
        assert_eq!([1, 8, 16, 64].map(points_max), [720, 720, 360, 90]);
        assert_eq!((run.at[0], run.length[0], run.errors[0]), (5.0, 5.0, 5));
        let over_time = &run.over_time["produce.rt"];
        assert_eq!((over_time.count[360], over_time.max[360], over_time.max[361]), (50, Some(99), Some(9)));
        assert!(run.server.is_none() && run.metrics.is_empty());

        let mut metrics = example::server_metrics();
        let over_time = |from: f64| -> Vec<Option<f64>> {
            (0..3_600).map(|at| Some(from + f64::from(at))).map(|rate| rate.filter(|rate| *rate != 4.0)).collect()
        };
        for (at, rate) in [(1, 1.0), (3, 9.0)] {
            metrics.series[at].values.insert("rate".into(), Value { value: rate, unit: Unit::PerSecond });
            metrics.series[at].over_time.insert("rate".into(), over_time(rate));
        }
        result.server_metrics = Some(metrics);
        let label = Label { name: "x".into(), colour: 0, side: None };
        let charts = Charts::of(&[Run { result: &result, environment: None }], &[label], &[]).unwrap();
        let drawn: Vec<_> =
            charts.runs[0].metrics.iter().map(|of| (of.name.as_str(), of.rate[0], of.rate.len())).collect();
        let expected = [
            ("ringgate_request_seconds{api=\"JoinGroup\"}", Some(11.0), POINTS_MAX),
            // Of 1, 2, 3 and 5.
            ("ringgate_limit_hit_total{limit=\"max_groups\"}", Some(2.75), POINTS_MAX),
        ];
        assert_eq!(drawn, expected);

        result.intervals.truncate(4);
        result.intervals[3].length_s = 0.03;
        assert_eq!(points(&result.intervals, 1).iter().map(|rows| rows.len()).collect::<Vec<_>>(), [1, 1, 2]);
        result.intervals[3].length_s = 0.6;
        assert_eq!(points(&result.intervals, 1).len(), 4);
    }
}
