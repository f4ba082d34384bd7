//! A run's directory, written and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ringgate_bench::result::{self, Latency, hlog};

use crate::sample::{self, Sample, Shape};

fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn short() -> Sample {
    sample::run(&Shape { warmup_s: 1, measured_s: 3, rate: 500, ..Shape::usual(7) })
}

#[test]
fn a_run_leaves_its_files_whole_and_result_json_is_read_back_as_it_was() {
    let out = tempfile::tempdir().unwrap();
    let Sample { result, log, environment } = short();
    let directory = result::write(&out.path().join("made"), &result, &log, &environment).unwrap();
    assert_eq!(directory, out.path().join("made").join(format!("run-{}", result.id)));
    let expected = [
        "env.json",
        "latency-produce.st.hgrm",
        "latency-produce.wt.hgrm",
        "latency.hgrm",
        "latency.hlog",
        "report.html",
        "result.json",
        "series.csv",
    ];
    assert_eq!(names(&directory), expected.map(String::from).into());
    assert_eq!(result::read(&directory).unwrap(), result);
    assert_eq!(result::read(&directory.join("result.json")).unwrap(), result);
    assert_eq!(result::read_environment(&directory).unwrap(), Some(environment));
}

#[test]
fn the_log_adds_up_to_the_results_own_percentiles() {
    let out = tempfile::tempdir().unwrap();
    let Sample { result, log, environment } = short();
    let directory = result::write(out.path(), &result, &log, &environment).unwrap();
    let mut merged = BTreeMap::new();
    let intervals = hlog::merge(&fs::read(directory.join("latency.hlog")).unwrap(), &mut merged).unwrap();
    assert_eq!(intervals, 3 * 3);
    for (series, latency) in &result.latencies {
        assert_eq!(Latency::of(&merged[series]), *latency, "{series}");
    }
    assert_eq!(merged.len(), result.latencies.len());
}

#[test]
fn every_line_of_series_csv_has_every_column_and_what_was_not_seen_is_empty() {
    let out = tempfile::tempdir().unwrap();
    let Sample { mut result, log, environment } = short();
    result.intervals.truncate(3);
    result.intervals[0].latencies.remove("produce.st");
    result.intervals[1].server = None;
    for row in &mut result.intervals {
        if let Some(server) = &mut row.server {
            server.threads = [("shard-0, \"main\"".to_owned(), 0.5)].into();
        }
    }
    let directory = result::write(out.path(), &result, &log, &environment).unwrap();
    let text = fs::read_to_string(directory.join("series.csv")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    let first = "at_s,length_s,warmup,errors,produce.rt.count,produce.rt.p50_ns,produce.rt.p99_ns,produce.rt.p99_9_ns,";
    assert!(lines[0].starts_with(first), "{}", lines[0]);
    assert!(lines[0].ends_with(r#"server.descriptors,"server.thread.shard-0, ""main""""#), "{}", lines[0]);
    let commas = lines[0].matches(',').count() - 1;
    for line in &lines[1..] {
        assert_eq!(line.matches(',').count(), commas, "{line}");
    }
    assert!(lines[1].starts_with("1.000,1.000,1,0,500,"), "{}", lines[1]);
    assert!(lines[1].contains(",,,,,"), "the series that was not seen: {}", lines[1]);
    assert!(lines[2].ends_with(",,,"), "no server: {}", lines[2]);
}

#[test]
fn the_hgrm_ends_with_the_results_own_figures() {
    let out = tempfile::tempdir().unwrap();
    let Sample { result, log, environment } = short();
    let directory = result::write(out.path(), &result, &log, &environment).unwrap();
    let text = fs::read_to_string(directory.join("latency.hgrm")).unwrap();
    let latency = result.latency("rt").unwrap();
    let max = latency.max_ns as f64 / 1e6;
    assert!(text.contains(&format!("#[Max     = {max:12.3}, Total count    = {:12}]", 1_500)), "{text}");
}

#[test]
fn a_result_of_another_schema_is_refused_with_its_name() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("result.json");
    fs::write(&path, r#"{"schema": "ringgate-bench/2"}"#).unwrap();
    let error = result::read(out.path()).unwrap_err().to_string();
    assert!(error.contains("result.json") && error.contains("ringgate-bench/2"), "{error}");
    let error = result::read(&out.path().join("nowhere.json")).unwrap_err().to_string();
    assert!(error.contains("nowhere.json"), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_what_was_there_and_no_half() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("result.json");
    fs::write(&path, "before").unwrap();
    let failed = result::whole(&path, |file| {
        use std::io::Write;
        file.write_all(b"half")?;
        Err(std::io::Error::other("no more room"))
    });
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("result.json") && error.contains("no more room"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    assert_eq!(names(out.path()), ["result.json".to_owned()].into());
}
