//! Runs that nobody made: the shapes of real ones, decided by a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use ringgate_bench::limits::INTERVAL;
use ringgate_bench::measure::{Interval, Latencies, Phase};
use ringgate_bench::result::{
    Checks, Environment, ErrorCount, Health, Hlog, IntervalRow, Latency, LatencyRow, Parameter, RunResult, SCHEMA,
    Server, ServerRow, Target, Thread, Unit, Value, Verdict,
};

/// What a run is to look like.
#[derive(Clone)]
pub struct Shape {
    pub seed: u64,
    pub name: &'static str,
    /// Requests per second.
    pub rate: u64,
    pub warmup_s: u64,
    pub measured_s: u64,
    /// Median service time.
    pub median: Duration,
    /// The server stands still for a second, at this second.
    pub stall_at_s: Option<u64>,
    /// A NOT_COORDINATOR every so many requests.
    pub error_every: Option<u64>,
}

impl Shape {
    pub fn usual(seed: u64) -> Shape {
        Shape {
            seed,
            name: "127.0.0.1:9092",
            rate: 2_000,
            warmup_s: 5,
            measured_s: 30,
            median: Duration::from_micros(800),
            stall_at_s: None,
            error_every: None,
        }
    }
}

/// A run and what is written beside it.
pub struct Sample {
    pub result: RunResult,
    pub log: Hlog,
    pub environment: Environment,
}

pub fn run(shape: &Shape) -> Sample {
    let mut dice = Dice(shape.seed | 1);
    let mut log = Hlog::new();
    let mut rows = Vec::new();
    let mut merged: BTreeMap<&'static str, Latencies> = BTreeMap::new();
    let mut errors = 0;
    for second in 0..shape.warmup_s + shape.measured_s {
        let warmup = second < shape.warmup_s;
        let phase = if warmup { Phase::WarmUp } else { Phase::Measured };
        let mut interval = Interval::default();
        let mut failed = 0;
        for slot in 0..shape.rate {
            let cold = if second < 3 { 4.0 / (second + 1) as f64 } else { 1.0 };
            let service = shape.median.mul_f64(cold * dice.log_normal());
            let into_second = Duration::from_secs(1).mul_f64(slot as f64 / shape.rate as f64);
            let stall = match shape.stall_at_s {
                Some(at) if at == second => Duration::from_secs(1) - into_second,
                _ => Duration::ZERO,
            };
            for (series, latency) in [
                ("produce.rt", service + stall),
                ("produce.st", service),
                ("produce.wt", stall + Duration::from_micros(3)),
            ] {
                interval.latencies.entry((phase, series)).or_default().record(latency);
            }
            failed +=
                u64::from(shape.error_every.is_some_and(|every| (second * shape.rate + slot).is_multiple_of(every)));
        }
        if !warmup {
            errors += failed;
            for ((_, series), latencies) in &interval.latencies {
                merged.entry(series).or_default().merge(latencies);
            }
        }
        log.interval(Duration::from_secs(second), INTERVAL, &interval);
        rows.push(row(second, warmup, shape, failed, &interval, &mut dice));
    }
    let answered = shape.rate * shape.measured_s;
    let result = RunResult {
        schema: SCHEMA.into(),
        id: format!("20261129T120000Z-produce-{:06x}", shape.seed),
        scenario: "produce".into(),
        primary: "produce".into(),
        started_at: "2026-11-29T12:00:00.250Z".into(),
        command: ["ringgate-bench", "produce", "--bootstrap", shape.name, "--rate", &shape.rate.to_string()]
            .map(String::from)
            .into(),
        seed: shape.seed,
        target: Target {
            bootstrap: "127.0.0.1:9092".into(),
            name: shape.name.into(),
            about: [("cluster id".into(), "sample".into())].into(),
        },
        parameters: [
            ("rate", shape.rate.to_string(), false),
            ("acks", "all".into(), true),
            ("arrivals", "constant".into(), true),
        ]
        .map(|(name, value, default)| Parameter { name: name.into(), value, default })
        .into(),
        warmup_s: shape.warmup_s as f64,
        measured_s: shape.measured_s as f64,
        verdict: Verdict { valid: true, reasons: vec![], interrupted: false, aborted: None },
        latencies: merged.iter().map(|(series, of)| ((*series).to_owned(), Latency::of(of))).collect(),
        values: [
            ("rate", shape.rate as f64, Unit::PerSecond),
            ("offered_rate", shape.rate as f64, Unit::PerSecond),
            ("requests", answered as f64, Unit::Count),
            ("errors", errors as f64, Unit::Count),
            ("error_share", errors as f64 / answered as f64, Unit::Ratio),
            ("records_per_s", shape.rate as f64 * 10.0, Unit::PerSecond),
            ("bytes_per_s", shape.rate as f64 * 10_240.0, Unit::BytesPerSecond),
        ]
        .map(|(name, value, unit)| (name.to_owned(), Value { value, unit }))
        .into(),
        errors: if errors == 0 {
            vec![]
        } else {
            vec![ErrorCount { operation: "produce".into(), code: 16, name: "NOT_COORDINATOR".into(), count: errors }]
        },
        checks: Checks {
            violations: [("lost", 0), ("duplicated", 0), ("reordered", 0)].map(|(kind, n)| (kind.into(), n)).into(),
            examples: vec![],
        },
        health: Health {
            slots: answered,
            lateness_p50_ns: 4_000,
            lateness_p99_ns: 31_000,
            lateness_max_ns: 410_000,
            cpu_max: 0.31,
            run_delay_max: 0.004,
            overflow: 0,
        },
        server: Some(server()),
        server_metrics: None,
        intervals: rows,
        notes: vec![],
        search: None,
    };
    let facts = [("cpu", "sample CPU"), ("kernel", "6.18.0")];
    let environment = Environment { facts: facts.map(|(name, fact)| (name.into(), fact.into())).into() };
    Sample { result, log, environment }
}

fn row(second: u64, warmup: bool, shape: &Shape, errors: u64, interval: &Interval, dice: &mut Dice) -> IntervalRow {
    let latencies = interval.latencies.iter().map(|((_, series), of)| {
        let at = |percentile| of.histogram.value_at_percentile(percentile);
        let row = LatencyRow {
            count: of.histogram.len(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            max_ns: of.histogram.max(),
        };
        ((*series).to_owned(), row)
    });
    let busy = |dice: &mut Dice| 0.3 + 0.1 * dice.uniform();
    let threads = [("shard-0".to_owned(), busy(dice)), ("shard-1".to_owned(), busy(dice))];
    IntervalRow {
        at_s: (second + 1) as f64,
        length_s: 1.0,
        warmup,
        latencies: latencies.collect(),
        counters: [("produce.requests".to_owned(), shape.rate), ("records".to_owned(), shape.rate * 10)].into(),
        errors,
        server: Some(ServerRow {
            cpu: threads.iter().map(|(_, cpu)| cpu).sum(),
            rss_bytes: 180_000_000 + second * 400_000,
            descriptors: 96,
            threads: threads.into(),
        }),
    }
}

fn server() -> Server {
    Server {
        pid: 4_711,
        command: "ringgate serve --shards 2".into(),
        user_s: 12.5,
        system_s: 8.25,
        cpu: 0.69,
        cpu_us_per_request: Some(345.8),
        cpu_ms_per_mb: Some(33.8),
        rss_start_bytes: 182_000_000,
        rss_end_bytes: 194_000_000,
        rss_max_bytes: 194_000_000,
        descriptors: 96,
        thread_imbalance: 1.08,
        threads: vec![
            Thread { name: "shard-0".into(), id: 4_713, cpu_s: 10.9 },
            Thread { name: "shard-1".into(), id: 4_714, cpu_s: 9.85 },
        ],
        context_switches: 81_234,
        involuntary_switches: 1_212,
        run_delay_s: 0.8,
        kernel: [("RetransSegs".to_owned(), 0)].into(),
        ..Server::default()
    }
}

/// xorshift64*: the same throws for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Median 1, with a long tail to the right as latencies have.
    fn log_normal(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (0.45 * normal).exp()
    }
}
