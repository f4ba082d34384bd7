//! `produce`, `consume` and `e2e` against a server that is known.

use std::time::Duration;

use ringgate_bench::result::RunResult;

use crate::common::{Ran, undisturbed};
use crate::server::kafka::Tamper;
use crate::server::{Behaviour, Fault, Server};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at_least(result: &RunResult, series: &str, length: Duration) -> u64 {
    let latencies = result.latencies[series].latencies(series).unwrap();
    latencies.histogram.count_between(length.as_nanos() as u64, u64::MAX)
}

fn value(result: &RunResult, name: &str) -> f64 {
    result.values.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", result.values)).value
}

fn violations(result: &RunResult) -> [u64; 4] {
    ["lost", "duplicated", "reordered", "corrupt"].map(|kind| result.checks.violations[kind])
}

#[test]
fn a_records_latency_counts_from_its_own_moment_also_while_it_waits_in_a_batch() {
    let arguments = "produce --rate 200 --duration 2s --warmup 0s --partitions 2 --linger 100ms --record-bytes 100";
    let (_, ran) = Ran::in_full(arguments, || Server::kafka(Behaviour::prompt().delay(ms(20)), 2));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.latencies["produce.rt"].count, 400, "one latency per record");
    assert_eq!((value(&result, "records"), value(&result, "bytes")), (400.0, 40_000.0));
    assert_eq!(at_least(&result, "produce.rt", ms(20)), 400, "nothing is faster than the server");
    // A batch is open for 100 ms, so that half of its records wait for 50 ms and more.
    let waited = at_least(&result, "produce.rt", ms(60));
    assert!(waited >= 150, "{waited} of 400 waited");
    let requests = result.latencies["request.st"].count;
    assert!(requests <= 100, "{requests} requests: records that wait share one");
    assert_eq!(at_least(&result, "request.rt", ms(119)), requests, "from the moment of its oldest record");
    assert_eq!(result.errors, []);
}

#[test]
fn what_is_acknowledged_behind_the_window_is_no_throughput() {
    // Nothing is answered before the window is over.
    let server = Server::kafka(Behaviour::prompt().delay(ms(5_500)), 1);
    let ran = Ran::to_end(&format!(
        "produce --bootstrap {} --rate 20 --duration 5s --warmup 0s --linger 2s --record-bytes 100",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    let records = value(&result, "records");
    assert!(records > 0.0 && value(&result, "bytes") == 100.0 * records, "{:?}", result.values);
    for rate in ["rate", "records_per_s", "bytes_per_s"] {
        assert_eq!(value(&result, rate), 0.0, "{rate}");
    }
    assert_eq!(value(&result, "offered_rate"), 20.0);
}

#[test]
fn a_stall_of_a_second_is_in_the_latency_of_every_record_that_was_due_in_it() {
    let server = Server::kafka(Behaviour::prompt().stall_at(100, Duration::from_secs(1)), 1);
    let ran = Ran::to_end(&format!(
        "produce --bootstrap {} --rate 1000 --duration 3s --warmup 0s --linger 0ms --record-bytes 100 --in-flight 1",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.latencies["produce.rt"].count, 3_000, "late records are sent all the same");
    let slow = at_least(&result, "produce.rt", ms(50));
    assert!(slow >= 900, "{slow} of some 1,000 records saw the stall");
    let in_service = at_least(&result, "request.st", ms(500));
    assert!((1..10).contains(&in_service), "{in_service}: one request was out when it began");
}

#[test]
fn on_a_closed_loop_requests_are_always_out_and_batches_are_full() {
    let server = Server::kafka(Behaviour::prompt().delay(ms(10)), 3);
    let ran = Ran::to_end(&format!(
        "produce --bootstrap {} --closed --duration 1s --warmup 0s --partitions 3 --record-bytes 1000 --batch-records 5",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    let (records, batches) = (value(&result, "records"), value(&result, "batches"));
    assert!(batches > 0.0 && records == 5.0 * batches, "{records} records in {batches} batches");
    assert_eq!(result.latencies["produce.rt"].count as f64, records);
}

#[test]
fn batches_that_a_server_cannot_take_for_now_are_sent_again_in_their_order() {
    // NOT_LEADER_OR_FOLLOWER twice, then a connection that is lost.
    let fault = |number| match number {
        20 | 21 => Some(Fault::Error(6)),
        60 => Some(Fault::Close),
        _ => None,
    };
    let arguments = "e2e --rate 500 --duration 3s --warmup 0s --partitions 2 --linger 1ms --record-bytes 200";
    let (_, ran) = Ran::in_full(arguments, || Server::kafka(Behaviour::prompt().delay(ms(5)).fault_by(fault), 2));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(violations(&result), [0; 4], "{:?}", result.checks);
    let failed: Vec<_> = result.errors.iter().filter(|error| error.operation == "produce").collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(result.latencies["e2e.rt"].count, 1_500);
    assert_eq!(result.latencies["produce.rt"].count, 1_500);
}

#[test]
fn batches_that_a_server_will_never_take_are_errors_of_their_records() {
    // MESSAGE_TOO_LARGE, always.
    let refuses = || Server::kafka(Behaviour::prompt().fault_by(|_| Some(Fault::Error(10))), 1);
    let arguments = "produce --rate 100 --duration 1s --warmup 0s --error-limit 100% --idempotent no";
    let (_, ran) = Ran::in_full(arguments, refuses);
    let result = ran.result();
    let errors: Vec<_> = result.errors.iter().map(|error| (&error.operation[..], error.code, error.count)).collect();
    assert_eq!(errors, [("produce", 10, 100)]);
    assert!(!result.latencies.contains_key("produce.rt"), "a refusal is no record's latency");
}

#[test]
fn without_acknowledgement_only_the_sending_is_measured_and_said_so() {
    let arguments = "produce --rate 200 --duration 1s --warmup 0s --acks 0";
    let (_, ran) = Ran::in_full(arguments, || Server::kafka(Behaviour::prompt(), 1));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(value(&result, "records"), 200.0);
    assert!(result.notes.iter().any(|note| note.contains("acks=0")), "{:?}", result.notes);
}

#[test]
fn a_lost_a_doubled_a_swapped_and_an_altered_record_are_found() {
    // The first ten batches are left alone.
    let tamper = |number| match number {
        10 => Some(Tamper::Lose),
        20 => Some(Tamper::Double),
        30 => Some(Tamper::Swap),
        40 => Some(Tamper::Alter),
        _ => None,
    };
    // What is lost is waited for as long as an answer may take.
    let arguments = "e2e --rate 100 --duration 2s --warmup 0s --batch-records 1 --request-timeout 5s --in-flight 1";
    let (_, ran) = Ran::in_full(arguments, || Server::tampering(Behaviour::prompt().delay(ms(5)), 1, tamper));
    let result = ran.result();
    assert_eq!(violations(&result), [1, 1, 1, 1], "{:?}", result.checks);
    assert_eq!(result.checks.examples.len(), 4, "{:?}", result.checks);
}

#[test]
fn every_codecs_records_come_back_as_they_were_sent() {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let server = Server::kafka(Behaviour::prompt().delay(ms(5)), 2);
        let ran = Ran::to_end(&format!(
            "e2e --bootstrap {} --rate 500 --duration 1s --warmup 0s --partitions 2 --record-bytes 50..3000 \
             --compression {codec} --verify records",
            server.address
        ));
        ran.was_carried_out();
        let result = ran.result();
        assert_eq!(violations(&result), [0; 4], "{codec}: {:?}", result.checks);
        assert_eq!(result.latencies["e2e.rt"].count, 500, "{codec}");
        let (batches, records) = (value(&result, "batch_bytes"), value(&result, "bytes"));
        assert!(batches < 0.8 * records, "{codec}: {batches} bytes for {records}, of which half can go");
    }
}

#[test]
fn a_backlog_is_made_and_consumed_to_its_end() {
    let server = Server::kafka(Behaviour::prompt().delay(ms(1)), 3);
    let ran = Ran::to_end(&format!(
        "consume --bootstrap {} --backlog 3MB --duration 60s --warmup 0s --partitions 3 --connections 3 --verify crc",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert!(result.measured_s < 50.0, "it ends when all is consumed");
    let (backlog, records) = (value(&result, "backlog_bytes"), value(&result, "records"));
    assert!(backlog >= 3_000_000.0);
    assert!((records * 1_024.0 - backlog).abs() < 1.0, "{records} records of {backlog} bytes");
    assert!(value(&result, "drain_s") > 0.0 && value(&result, "prefill_s") > 0.0);
    assert_eq!(result.checks.violations["corrupt"], 0);
}

#[test]
fn a_tail_is_consumed_while_it_is_produced() {
    let server = Server::kafka(Behaviour::prompt().delay(ms(2)), 2);
    let run = || {
        let ran = Ran::to_end(&format!(
            "consume --bootstrap {} --rate 500 --duration 2s --warmup 0s --partitions 2",
            server.address
        ));
        ran.was_carried_out();
        ran
    };
    // It stops at the window's end, however much of it the machine took.
    let ran = undisturbed(run, |ran| ran.sent_all() && value(&ran.result(), "records") >= 500.0);
    let result = ran.result();
    assert_eq!(value(&result, "produced_records"), 1_000.0);
    let records = value(&result, "records");
    assert!((500.0..=1_000.0).contains(&records), "{records}: all but what came at the end");
    assert!((0.0..=1.0).contains(&value(&result, "empty_fetch_ratio")));
}

#[test]
fn what_cannot_be_is_refused_by_its_flag() {
    for (flags, names) in [
        ("produce --rate 10 --acks 1 --idempotent yes", "--acks 1"),
        ("produce --rate 10 --in-flight 6", "--in-flight 6"),
        ("produce --rate 10 --partitions 0", "--partitions 0"),
        ("produce --rate 10 --keys zipf --key-skew 11", "--key-skew 11"),
        ("produce --rate 10MB/s --record-bytes 10..20", "--rate 10MB/s"),
        ("e2e --rate 10 --record-bytes 43", "--record-bytes 43"),
        ("e2e --rate 10 --fetch-max-wait 30s", "--fetch-max-wait 30s"),
        ("consume", "--backlog 0"),
        ("consume --backlog 1MB --connections 2", "--connections 2"),
    ] {
        let ran = Ran::to_end(&format!("{flags} --bootstrap 127.0.0.1:1"));
        assert_eq!(ran.exit, 2, "{flags}: {}", ran.stderr);
        assert!(ran.stderr.contains(names), "{flags}: {}", ran.stderr);
        assert!(ran.left_nothing());
    }
}
