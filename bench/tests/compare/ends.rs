//! How comparisons end that name nobody.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use ringgate_bench::compare::Outcome;
use rustix::process::{Pid, Signal, kill_process};

use crate::server::{Behaviour, Server};
use crate::{compare, comparison, text};

#[test]
fn wrong_usage_is_refused_before_anything_is_started() {
    let out = tempfile::tempdir().unwrap();
    let started = out.path().join("started");
    let start = format!("touch {}", started.display());
    let both = ["--a", "h:1", "--b", "h:2", "--a-start", &start];
    for (words, named) in [
        (&["--a", "h:1", "floor", "--closed"][..], &["--b", "HOST:PORT"][..]),
        (&["--pairs", "0", "floor", "--closed"], &["--pairs 0", "from 1"]),
        (&["floor", "--closed", "--seed", "1"], &["--seed", "`compare` has its own"]),
        (&["floor", "--closed", "--bootstrap=h:3"], &["--bootstrap", "`compare` has its own"]),
        (&["floor", "--closed", "--connection", "3"], &["--connection", "--connections"]),
        (&["floor"], &["--rate", "--closed"]),
        (&["list"], &["list", "ringgate-bench list"]),
        (&["flor"], &["flor"]),
        (&["--cooldown", "5", "floor", "--closed"], &["--cooldown", "30s"]),
    ] {
        let words = if words.contains(&"--a") { words.to_vec() } else { [&both[..], words].concat() };
        let output = compare(&words, &out.path().join("runs"));
        assert_eq!(output.status.code(), Some(2), "{words:?} {}", text(&output));
        for part in named {
            assert!(text(&output).contains(part), "{words:?}: {part} in {}", text(&output));
        }
    }
    assert!(!started.exists());
    assert!(!out.path().join("runs").exists());
}

#[test]
fn too_many_invalid_runs_end_it_with_5_and_name_nobody() {
    let server = Server::echo(Behaviour::prompt());
    let out = tempfile::tempdir().unwrap();
    let targets = ["--a", &server.address, "--b", &server.address, "--max-invalid", "1", "--cooldown", "0s"];
    // More than a core can send, unless the target is too slow to show it, on a machine that is busy with others.
    let load = ["floor", "--rate", "3M", "--duration", "100ms", "--warmup", "0s", "--max-outstanding", "10000000"];
    let output = compare(&[&targets[..], &load].concat(), out.path());
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert!(text(&output).contains("2 runs were INVALID, --max-invalid bears 1"), "{}", text(&output));
    let compared = comparison(out.path());
    assert!(!compared.complete);
    assert_eq!(compared.runs.iter().filter(|run| !run.reasons.is_empty()).count(), 2);
    assert!(compared.runs.iter().all(|run| run.reasons.is_empty() || !run.counts));
    assert!(compared.metrics.iter().all(|metric| metric.outcome == Outcome::Undecided));
}

#[test]
fn a_target_that_cannot_be_reached_ends_it_with_3() {
    let out = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let output = compare(&["--a", &address, "--b", &address, "floor", "--closed"], out.path());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains(&address), "{}", text(&output));
}

#[test]
fn a_signal_ends_it_with_130_and_keeps_what_there_is() {
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(20)));
    let out = tempfile::tempdir().unwrap();
    let mut child = crate::common::bench("compare --cooldown 0s --max-invalid 20")
        .args(["--a", &server.address, "--b", &server.address, "--out"])
        .arg(out.path())
        .args(["floor", "--closed", "--duration", "300ms", "--warmup", "0s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("run 2 of 18")));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let compared = comparison(out.path());
    assert!(!compared.complete && !compared.runs.is_empty());
    let counted = compared.runs.iter().filter(|run| run.counts).count();
    assert!(counted.is_multiple_of(2), "no half pair counts: {:?}", compared.runs);
    assert!(compared.notes[0].starts_with("ended early: "), "{:?}", compared.notes);
}

#[test]
fn two_finished_runs_are_shown_side_by_side_and_nothing_is_claimed() {
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(20)));
    let run = || {
        let load = format!("floor --bootstrap {} --closed --duration 200ms --warmup 0s", server.address);
        let ran = crate::common::Ran::to_end(&load);
        ran.was_carried_out();
        ran
    };
    let (a, b) = (run(), run());
    let output =
        crate::common::bench("compare").arg(a.directory()).arg(b.directory().join("result.json")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("rt.p50") && text(&output).contains("nothing here tells a difference from chance"));
    let output = crate::common::bench("compare /no/such /no/such").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("/no/such"), "{}", text(&output));
}

#[test]
fn each_side_is_asked_for_its_own_metrics() {
    let server = Server::echo(Behaviour::prompt());
    let out = tempfile::tempdir().unwrap();
    // Nobody is there, which ends no run.
    let urls = ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b"];
    let targets =
        ["--a", &server.address, "--b", &server.address, "--a-server-metrics", urls[0], "--b-server-metrics", urls[1]];
    let length = ["--pairs", "1", "--noise-pairs", "1", "--cooldown", "0s"];
    let load = ["floor", "--closed", "--duration", "200ms", "--warmup", "0s", "--server-metric", "kafka_"];
    let output = compare(&[&targets[..], &length, &load].concat(), out.path());
    let compared = comparison(out.path());
    assert!(!compared.runs.is_empty(), "{}", text(&output));
    for run in &compared.runs {
        let result = crate::common::read(&crate::directory(out.path()).join(&run.directory));
        assert_eq!(result.server_metrics.map(|metrics| metrics.url).as_deref(), Some(urls[run.side as usize]));
    }
}
