//! `report.html` of runs that nobody made. The pages are left in the target directory's `tmp/reports`, where
//! `bench/tests/report_in_chromium` opens them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringgate_bench::compare::{self, Better, ComparedMetric, ComparedRun, Comparison, Outcome, Purpose, Side, Which};
use ringgate_bench::report::{self, CommandError, Run};
use ringgate_bench::result::{self, Probe, Search, Unit};

use crate::sample::{self, Sample, Shape};

/// Leaves a page for the look in a browser.
fn keep(name: &str, page: &str) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(format!("{name}.html")), page).unwrap();
}

fn page(samples: &[Sample], comparison: Option<&Comparison>) -> String {
    let runs: Vec<_> =
        samples.iter().map(|of| Run { result: &of.result, environment: Some(&of.environment) }).collect();
    report::html(&runs, comparison).unwrap()
}

/// The numbers that the charts are drawn from.
fn data(page: &str) -> serde_json::Value {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (json, _) = after.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn one_run_tells_its_verdict_its_figures_and_its_charts() {
    let of = sample::run(&Shape::usual(1));
    let page = page(std::slice::from_ref(&of), None);
    keep("one", &page);
    let p99 = of.result.latency("rt").unwrap().percentile_ns("99").unwrap();
    assert!(page.contains("2,000 produce requests/s for 30 s: 99 of 100 answered within "), "the verdict");
    assert!(page.contains("; no errors, nothing lost."), "the verdict's end");
    for section in
        ["latency", "over-time", "throughput", "errors", "server", "checks", "generator", "parameters", "again"]
    {
        assert!(page.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    let data = data(&page);
    let tail = &data["runs"][0]["tails"]["produce.rt"];
    // 48 points of 1/(1-p) further is 100: the 99th percentile.
    assert_eq!((tail["x"][48].as_f64(), tail["ns"][48].as_u64()), (Some(100.0), Some(p99)));
    assert_eq!(data["runs"][0]["at"].as_array().unwrap().len(), 35);
    assert_eq!(data["runs"][0]["offered"].as_f64(), Some(2_000.0));
}

#[test]
fn a_search_tells_what_it_found_and_every_probe() {
    let mut of = sample::run(&Shape { measured_s: 4, warmup_s: 1, ..Shape::usual(10) });
    let probe = |rate: f64, kept: bool, reasons: &[&str]| Probe {
        rate,
        confirms: false,
        measured_s: 5.0,
        answered_rate: rate,
        kept,
        reasons: reasons.iter().map(ToString::to_string).collect(),
        found: vec![format!("rt.p99 {} ms", rate / 500.0)],
    };
    of.result.search = Some(Search {
        bounds: vec!["rt.p99<5ms".into()],
        precision: 0.05,
        confirmed_rate: Some(2_000.0),
        missed_rate: Some(4_000.0),
        ended: "The rates are as near as --search-precision asks.".into(),
        probes: vec![
            probe(2_000.0, true, &[]),
            probe(4_000.0, false, &[]),
            probe(8_000.0, false, &["the generator began slots late"]),
        ],
    });
    let page = page(&[of], None);
    keep("search", &page);
    assert!(page.contains("The highest rate that kept rt.p99&lt;5ms is 2,000 /s; 4,000 /s did not keep it."));
    assert!(page.contains("✓ kept") && page.contains("✕ missed") && page.contains("the generator began slots late"));
}

#[test]
fn nothing_outside_the_file_is_needed() {
    let page = page(&[sample::run(&Shape { measured_s: 2, rate: 100, ..Shape::usual(1) })], None);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        // The namespace of SVG is a name, nothing that is loaded.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_run_that_may_not_be_believed_is_loud_and_says_why() {
    let mut of = sample::run(&Shape { stall_at_s: Some(20), error_every: Some(701), ..Shape::usual(2) });
    of.result.verdict.valid = false;
    of.result.verdict.reasons = vec![
        "slots were begun 412 µs late (99 of 100), which is 51 % of the median response time; 10 % is allowed".into(),
        "the busiest executor used 97 % of a core; 80 % is allowed".into(),
    ];
    of.result.health.lateness_p99_ns = 412_000;
    of.result.health.cpu_max = 0.97;
    of.result.checks.violations.insert("lost".into(), 3);
    of.result.checks.examples = vec!["bench-7, partition 2: sequence 10421 was acknowledged and never read".into()];
    let page = page(&[of], None);
    keep("invalid", &page);
    assert!(
        page.contains("class=\"verdict invalid\"") && page.contains("INVALID: these numbers describe the generator")
    );
    assert!(page.contains("51 % of the median response time; 10 % is allowed"));
    assert!(page.contains("NOT_COORDINATOR") && page.contains("sequence 10421"));
}

#[test]
fn several_runs_share_axes_and_are_told_apart_by_what_differs() {
    let slow = Shape { name: "kafka", median: Duration::from_micros(1_900), stall_at_s: Some(21), ..Shape::usual(3) };
    let samples = [sample::run(&Shape { name: "ringgate", ..Shape::usual(4) }), sample::run(&slow)];
    let page = page(&samples, None);
    keep("two", &page);
    let data = data(&page);
    let names: Vec<_> = data["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ringgate", "kafka"]);
    assert_eq!(page.matches("<b>ringgate</b>: 2,000 produce requests/s").count(), 1);
}

#[test]
fn a_comparison_names_the_better_one_with_ratio_interval_and_noise() {
    let shape = |seed, name, us| Shape {
        name,
        measured_s: 12,
        warmup_s: 2,
        median: Duration::from_micros(us),
        ..Shape::usual(seed)
    };
    let mut samples = Vec::new();
    let mut runs = Vec::new();
    for pair in 1..=3_u32 {
        for (side, name, us) in [(Which::A, "ringgate", 800), (Which::B, "kafka", 1_500)] {
            let sample =
                sample::run(&shape(u64::from(pair) * 2 + u64::from(side == Which::B), name, us + u64::from(pair) * 20));
            runs.push(ComparedRun {
                purpose: Purpose::Pair,
                pair,
                side,
                id: sample.result.id.clone(),
                directory: format!("run-{}", sample.result.id),
                counts: true,
                reasons: vec![],
            });
            samples.push(sample);
        }
    }
    let metric = |name: &str, ratio: f64, outcome, reason: &str| ComparedMetric {
        name: name.into(),
        unit: Unit::Seconds,
        better: Better::Lower,
        a: vec![0.0031; 3],
        b: vec![0.0031 * ratio; 3],
        a_median: 0.0031,
        b_median: 0.0031 * ratio,
        ratios: vec![ratio; 3],
        ratio: Some(ratio),
        interval: Some((ratio * 0.96, ratio * 1.05)),
        noise_ratios: vec![1.02, 0.98],
        noise: Some(1.03),
        p_wilcoxon: Some(0.031),
        p_sign: Some(0.031),
        outcome,
        reason: reason.into(),
    };
    let side = |name: &str| Side { name: name.into(), bootstrap: "127.0.0.1:9092".into(), start: None, stop: None };
    let comparison = Comparison {
        schema: compare::SCHEMA.into(),
        id: "20261129T120000Z-produce-c0ffee".into(),
        scenario: "produce".into(),
        started_at: "2026-11-29T12:00:00Z".into(),
        command: ["ringgate-bench", "compare", "--a", "127.0.0.1:9092", "--b", "127.0.0.1:9093", "produce"]
            .map(String::from)
            .into(),
        seed: 9,
        order: "abba".into(),
        cooldown_s: 10.0,
        pairs: 3,
        noise_pairs: 2,
        confidence: 0.95,
        a: side("ringgate"),
        b: side("kafka"),
        parameters: samples[0].result.parameters.clone(),
        runs,
        metrics: vec![
            metric("produce.rt.p99", 1.85, Outcome::A, "A is better: 45.9 % lower"),
            metric("produce.rt.p50", 1.80, Outcome::A, "A is better: 44.4 % lower"),
            metric("produce.rt.max", 1.01, Outcome::Undecided, "the interval spans 1"),
        ],
        complete: true,
        notes: vec!["Both servers ran on the generator's own machine.".into()],
    };
    let page = page(&samples, Some(&comparison));
    keep("compared", &page);
    let mut alike = comparison.clone();
    alike.metrics.retain(|metric| metric.outcome == Outcome::Undecided);
    let open = self::page(&samples, Some(&alike));
    assert!(open.contains("verdict open") && open.contains("No difference between ringgate and kafka can be claimed."));
    assert!(page.contains("ringgate is better: produce.rt.p99 45.9 % lower, produce.rt.p50 44.4 % lower."));
    assert!(page.contains("1.776 – 1.943") && page.contains("± 3.0 %"), "interval and noise");
    let data = data(&page);
    assert_eq!(data["sides"][1]["name"], "B kafka");
    let merged = data["sides"][0]["tails"]["produce.rt"]["x"].as_array().unwrap().last().unwrap().as_f64();
    assert_eq!(merged, Some(3.0 * 12.0 * 2_000.0), "all of A's requests");
    let colours: Vec<_> = data["runs"].as_array().unwrap().iter().map(|run| run["colour"].as_u64().unwrap()).collect();
    assert_eq!(colours, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn nothing_from_outside_is_taken_for_markup() {
    let evil = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&";
    let mut of = sample::run(&Shape { measured_s: 2, warmup_s: 1, rate: 100, ..Shape::usual(5) });
    let result = &mut of.result;
    result.target.name = evil.into();
    result.target.bootstrap = evil.into();
    result.target.about.insert(evil.into(), evil.into());
    result.scenario = evil.into();
    result.notes = vec![evil.into()];
    result.command.push(evil.into());
    result.verdict.reasons = vec![evil.into()];
    result.checks.examples = vec![evil.into()];
    result.checks.violations.insert(evil.into(), 1);
    for parameter in &mut result.parameters {
        parameter.name = evil.into();
        parameter.value = evil.into();
    }
    let latency = result.latencies["produce.rt"].clone();
    result.latencies.insert(evil.into(), latency);
    if let Some(server) = &mut result.server {
        server.command = evil.into();
        server.threads[0].name = evil.into();
    }
    for row in &mut result.intervals {
        row.server.as_mut().unwrap().threads.insert(evil.into(), 0.1);
    }
    of.environment.facts.insert(evil.into(), evil.into());
    let page = page(&[of], None);
    keep("hostile", &page);
    assert!(!page.contains("<img"), "markup of the target's");
    assert_eq!(page.matches("<script").count(), 2, "the data and the code");
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn a_run_that_measured_nothing_is_a_page_too() {
    let mut of = sample::run(&Shape { measured_s: 1, warmup_s: 1, rate: 10, ..Shape::usual(9) });
    let result = &mut of.result;
    result.latencies.clear();
    result.intervals.clear();
    result.values.clear();
    result.parameters.clear();
    result.checks.violations.clear();
    result.server = None;
    result.measured_s = 0.0;
    result.verdict.aborted = Some("every request failed".into());
    of.environment.facts.clear();
    let page = page(&[of], None);
    keep("nothing", &page);
    assert!(
        page.contains(
            "ABORTED: every request failed. Until then: 0 produce requests/s for 0 s: no answer was measured"
        )
    );
    assert!(page.contains("No latency was measured."));
}

#[test]
fn a_run_of_an_hour_stays_small_and_says_that_intervals_were_joined() {
    let mut of = sample::run(&Shape { warmup_s: 0, measured_s: 60, rate: 200, ..Shape::usual(6) });
    let minute = std::mem::take(&mut of.result.intervals);
    of.result.intervals = (0..60)
        .flat_map(|minute_at| {
            minute.iter().cloned().map(move |mut row| {
                row.at_s += f64::from(minute_at) * 60.0;
                row
            })
        })
        .collect();
    of.result.measured_s = 3_600.0;
    let page = page(&[of], None);
    keep("hour", &page);
    assert!(page.contains("a point stands for 5 intervals and shows the worst of them"));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn a_report_of_directories_reads_what_runs_wrote() {
    let out = tempfile::tempdir().unwrap();
    let directories: Vec<PathBuf> = [7, 8]
        .map(|seed| {
            let of = sample::run(&Shape { measured_s: 2, warmup_s: 1, rate: 100, ..Shape::usual(seed) });
            result::write(out.path(), &of.result, &of.log, &of.environment).unwrap()
        })
        .into();
    let page = out.path().join("both.html");
    assert_eq!(report::report(&directories, Some(&page)).unwrap(), page);
    assert!(fs::read_to_string(&page).unwrap().contains("127.0.0.1:9092, run 2"));
    fs::remove_file(directories[0].join("report.html")).unwrap();
    assert_eq!(report::report(&directories[..1], None).unwrap(), directories[0].join("report.html"));

    assert!(matches!(report::report(&[], None), Err(CommandError::Usage(_))));
    let error = report::report(&[out.path().to_owned()], Some(&page)).unwrap_err().to_string();
    assert!(error.contains("result.json"), "{error}");
    let text = fs::read_to_string(directories[0].join("result.json")).unwrap();
    fs::write(directories[0].join("result.json"), text.replace("HISTFAAAA", "HISTXAAAA")).unwrap();
    let error = report::report(&directories[..1], None).unwrap_err().to_string();
    assert!(error.contains("histogram of produce.rt"), "{error}");
}

#[test]
fn merged_logs_hold_every_value_of_the_parts() {
    let out = tempfile::tempdir().unwrap();
    let mut logs = Vec::new();
    let mut longest = 0;
    for seed in [11, 12, 13] {
        let of = sample::run(&Shape { measured_s: 2, warmup_s: 1, rate: 200, ..Shape::usual(seed) });
        longest = longest.max(of.result.latencies["produce.rt"].max_ns);
        logs.push(result::write(out.path(), &of.result, &of.log, &of.environment).unwrap().join("latency.hlog"));
    }
    let merged = out.path().join("merged.hlog");
    let latencies = report::merge(&logs, &merged).unwrap();
    assert_eq!((latencies["produce.rt"].histogram.len(), latencies["produce.rt"].histogram.max()), (1_200, longest));
    let again = report::merge(&[merged], &out.path().join("again.hlog")).unwrap();
    assert_eq!(again["produce.rt"].histogram, latencies["produce.rt"].histogram);
    let error = report::merge(&[out.path().join("none.hlog")], &out.path().join("x")).unwrap_err().to_string();
    assert!(error.contains("none.hlog"), "{error}");
}
