//! `--server-metrics`: scrapes of a server whose values are known.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringgate_bench::result::{MetricSeries, ServerMetrics, Unit};

use crate::common::{Echo, Ran, bench, undisturbed};

/// Serves what is made of a scrape's number, from 1; lives as long as the process.
fn serve(answer: impl Fn(u64) -> String + Send + 'static) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                asked.extend(byte);
            }
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            // A client that was killed has gone.
            let _ = stream.write_all(answer(number).as_bytes());
        }
    });
    (url, served)
}

fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Five joins per scrape, each within 10 ms to 100 ms; two shards with as many groups as there were scrapes.
fn counted(number: u64) -> String {
    let joins = 5 * number;
    page(&format!(
        "# TYPE ringgate_group_members_joined_total counter\nringgate_group_members_joined_total{{shard=\"0\"}} {}\n\
         ringgate_group_members_joined_total{{shard=\"1\"}} {}\n\
         # TYPE ringgate_groups gauge\nringgate_groups{{shard=\"0\",state=\"Stable\"}} {number}\n\
         ringgate_groups{{shard=\"1\",state=\"Stable\"}} {number}\n\
         # TYPE ringgate_request_seconds histogram\n\
         ringgate_request_seconds_bucket{{api=\"JoinGroup\",le=\"0.01\"}} 1000\n\
         ringgate_request_seconds_bucket{{api=\"JoinGroup\",le=\"0.1\"}} {all}\n\
         ringgate_request_seconds_bucket{{api=\"JoinGroup\",le=\"+Inf\"}} {all}\n\
         ringgate_request_seconds_sum{{api=\"JoinGroup\"}} {sum}\nringgate_request_seconds_count{{api=\"JoinGroup\"}} {all}\n\
         # TYPE kafka_server_requests counter\nkafka_server_requests{{request=\"Produce\"}} 7\n\
         # TYPE other_total counter\nother_total {number}\n",
        1_000,
        joins,
        all = 1_000 + joins,
        sum = 500.0 + joins as f64 * 0.05,
    ))
}

fn series<'a>(metrics: &'a ServerMetrics, name: &str) -> &'a MetricSeries {
    metrics.series.iter().find(|series| series.whole_name() == name).unwrap_or_else(|| panic!("{name}: {metrics:?}"))
}

#[test]
fn what_a_server_counted_in_the_window_is_in_every_part_of_the_result() {
    let echo = Echo::start();
    let run = || {
        let (url, served) = serve(counted);
        let ran = Ran::to_end(&format!(
            "floor --bootstrap {} --rate 100 --warmup 1s --duration 3s --server-metrics {url} --show-server-metrics \
             --server-metric kafka_server_ --assert metrics.ringgate_group_members_joined_total.increase>=5 \
             --assert metrics.ringgate_request_seconds(JoinGroup).p99<100ms",
            echo.address
        ));
        (url, served, ran)
    };
    // Where time was for one scrape only, nothing has increased since.
    let (url, served, ran) = undisturbed(run, |(_, _, ran)| [0, 5].contains(&ran.exit));
    ran.was_carried_out();
    let result = ran.result();
    let metrics = result.server_metrics.as_ref().unwrap();
    assert_eq!(metrics.url, url);
    let failed: u64 = metrics.failed.values().sum();
    // One that took too long to come was served, too.
    assert!(served.load(Ordering::SeqCst) >= metrics.scrapes, "{metrics:?}");

    let joined = series(metrics, "ringgate_group_members_joined_total");
    let increase = joined.values["increase"].value;
    // At the warm-up's end, after each of three seconds: what a machine without time leaves out is said.
    assert!((failed == 0 && increase == 15.0) || (failed > 0 && [5.0, 10.0].contains(&increase)), "{metrics:?}");
    assert_eq!(joined.values["rate"].value, increase / metrics.covered_s);
    assert!(metrics.covered_s > 0.0, "{metrics:?}");
    let rates: Vec<f64> = joined.over_time["rate"].iter().copied().flatten().collect();
    assert_eq!(joined.over_time["rate"].len(), result.intervals.len());
    assert!(!rates.is_empty() && rates.iter().all(|rate| *rate > 0.0), "{joined:?}");

    let groups = series(metrics, "ringgate_groups{state=\"Stable\"}");
    let gauge = ["min", "max", "last"].map(|name| groups.values[name].value);
    assert_eq!(gauge[1] - gauge[0], 2.0 * increase / 5.0, "{groups:?}");
    assert_eq!(gauge[1], gauge[2]);

    let latency = series(metrics, "ringgate_request_seconds{api=\"JoinGroup\"}");
    let near = |name: &str, expected: f64| {
        let found = latency.values[name];
        assert!((found.value - expected).abs() < 1e-9 && found.unit == Unit::Seconds, "{name}: {found:?}");
    };
    assert_eq!((latency.values["count"].value, latency.values["beyond"].value), (increase, 0.0));
    near("mean", 0.05);
    // All of the window's lie in the second bucket, whatever had been counted before.
    near("p50", 0.055);
    near("p99", 0.0991);
    near("p99.9", 0.09991);

    assert_eq!(series(metrics, "kafka_server_requests{request=\"Produce\"}").values["increase"].value, 0.0);
    assert!(!metrics.series.iter().any(|series| series.name == "other_total"), "it was not chosen");

    let csv = std::fs::read_to_string(ran.directory().join("series.csv")).unwrap();
    let mut lines = csv.lines();
    let head = lines.next().unwrap();
    assert!(head.contains(",metrics.ringgate_group_members_joined_total.rate,"), "{head}");
    assert!(head.contains("\"metrics.ringgate_request_seconds{api=\"\"JoinGroup\"\"}.p99\""), "{head}");
    let commas = |line: &str| {
        line.replace("\"\"", "").split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>()
    };
    assert!(lines.all(|line| commas(line) == commas(head)), "{csv}");
    let report = std::fs::read_to_string(ran.directory().join("report.html")).unwrap();
    assert!(
        report.contains("id=\"chart-metrics\"") && report.contains("<code>ringgate_group_members_joined_total</code>")
    );
    assert!(ran.stdout.contains("ringgate_request_seconds{api=\"JoinGroup\"}"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches(": ok, metrics.").count(), 2, "{}", ran.stdout);
}

#[test]
fn scrapes_that_fail_are_counted_and_said_and_end_nothing() {
    let echo = Echo::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (busy, _) = serve(|number| match number % 2 {
        0 => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into(),
        _ => page("<!doctype html>\n"),
    });
    for (url, reasons) in [
        (format!("http://{nobody}/metrics"), vec!["connection refused"]),
        (busy, vec!["answered with status 503", "no metrics in Prometheus' text format: <!doctype html>"]),
    ] {
        let flags =
            format!("floor --bootstrap {} --rate 100 --warmup 0s --duration 2s --server-metrics {url}", echo.address);
        let ran = Ran::to_end(&flags);
        ran.was_carried_out();
        let result = ran.result();
        let metrics = result.server_metrics.as_ref().unwrap();
        let failed: u64 = metrics.failed.values().sum();
        assert!(metrics.scrapes == 0 && metrics.series.is_empty() && failed >= 2, "{metrics:?}");
        for reason in reasons {
            assert!(metrics.failed.contains_key(reason), "{reason}: {metrics:?}");
            assert!(result.notes.iter().any(|note| note.contains(&url) && note.contains(reason)), "{:?}", result.notes);
            assert!(ran.stdout.contains(reason), "{}", ran.stdout);
        }
        assert_eq!(result.errors, [], "it is no error of the target's");
    }
}

#[test]
fn an_interrupted_run_has_what_was_counted_until_then() {
    let echo = Echo::start();
    let (url, served) = serve(counted);
    let out = tempfile::tempdir().unwrap();
    let flags =
        format!("floor --bootstrap {} --rate 100 --warmup 0s --duration 1h --server-metrics {url}", echo.address);
    let child = bench(&flags).arg("--out").arg(out.path()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while served.load(Ordering::SeqCst) < 2 {
        assert!(std::time::Instant::now() < until, "no scrape");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap(), out);
    assert_eq!(ran.exit, 130);
    let metrics = ran.result().server_metrics.unwrap();
    let increase = series(&metrics, "ringgate_group_members_joined_total").values["increase"].value;
    assert!(increase >= 5.0 && metrics.covered_s < 100.0, "{metrics:?}");
}

#[test]
fn a_url_that_is_none_and_metrics_of_nowhere_are_wrong_usage() {
    for (flags, says) in [
        ("--server-metrics 127.0.0.1:9644", "http://HOST:PORT/PATH"),
        ("--server-metrics https://127.0.0.1:9644/metrics", "http://HOST:PORT/PATH"),
        ("--server-metrics http://127.0.0.1:9644 --server-metric a.b", "the beginning of a metric's name"),
        ("--server-metric kafka_", "--server-metrics"),
        ("--show-server-metrics", "--server-metrics"),
    ] {
        let ran = Ran::to_end(&format!("floor --bootstrap 127.0.0.1:9 --rate 10 {flags}"));
        assert_eq!(ran.exit, 2, "{flags}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{flags}: {}", ran.stderr);
        assert!(ran.left_nothing());
    }
}
