//! What a run says of itself.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Echo, Ran, bench, undisturbed};
use crate::server::{Behaviour, Fault, Server};

#[test]
fn a_generator_that_cannot_keep_its_rate_says_so_and_exits_5() {
    let echo = Echo::start();
    // More than any core can send, and nothing that the target could be blamed for: it may have everything outstanding.
    let ran = Ran::to_end(&format!(
        "floor --bootstrap {} --rate 3M --duration 1s --warmup 0s --in-flight 10000000 --max-outstanding 10000000",
        echo.address
    ));
    assert_eq!(ran.exit, 5, "{}\n{}", ran.stdout, ran.stderr);
    let result = ran.result();
    assert!(!result.verdict.valid);
    assert!(result.verdict.reasons.iter().any(|why| why.contains("saturated")), "{:?}", result.verdict);
    assert_eq!(result.health.slots, 3_000_000, "no slot is skipped, and what was not sent is counted");
}

#[test]
fn the_same_seed_means_the_same_schedule() {
    let echo = Echo::start();
    let slots = |seed: u64| {
        let ran = Ran::to_end(&format!(
            "floor --bootstrap {} --rate 1000 --arrivals poisson --duration 1s --warmup 0s --seed {seed} --in-flight 2000",
            echo.address
        ));
        ran.was_carried_out();
        let result = ran.result();
        assert_eq!(result.seed, seed);
        result.health.slots
    };
    let first = slots(11);
    assert_eq!(first, slots(11));
    assert_ne!(first, slots(12));
}

/// A run that is under way: its first interval is over.
fn under_way(arguments: &str, out: &tempfile::TempDir) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = bench(arguments);
    command.arg("--out").arg(out.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("errors") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before its first interval");
    }
    (child, lines)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_ends_a_run_with_what_there_is_and_exit_130() {
    let echo = Echo::start();
    for how in [Signal::INT, Signal::TERM] {
        let out = tempfile::tempdir().unwrap();
        let arguments = format!("floor --bootstrap {} --rate 200 --duration 10m --warmup 0s", echo.address);
        let (child, _stderr) = under_way(&arguments, &out);
        signal(&child, how);
        let ran = Ran::of(child.wait_with_output().unwrap(), out);
        assert_eq!(ran.exit, 130, "{}", ran.stdout);
        let result = ran.result();
        assert!(result.verdict.interrupted);
        assert!((1.0..600.0).contains(&result.measured_s), "{}", result.measured_s);
        assert!(result.latencies["floor.rt"].count >= 200);
        for file in ["series.csv", "latency.hlog", "latency.hgrm", "env.json"] {
            assert!(ran.directory().join(file).exists(), "{file}");
        }
    }
}

#[test]
fn what_is_answered_behind_a_signal_is_in_no_rate() {
    // The probe is answered at once; nothing else is before the signal.
    let slow = |number| Duration::from_secs(if number == 0 { 0 } else { 12 });
    let server = Server::echo(Behaviour::prompt().delay_by(slow));
    let out = tempfile::tempdir().unwrap();
    let arguments =
        format!("floor --bootstrap {} --rate 50 --duration 10m --warmup 0s --in-flight 10000", server.address);
    let (child, _stderr) = under_way(&arguments, &out);
    signal(&child, Signal::INT);
    let ran = Ran::of(child.wait_with_output().unwrap(), out);
    assert_eq!(ran.exit, 130, "{}", ran.stdout);
    let result = ran.result();
    assert!(result.values["floor.requests"].value > 0.0 && result.values["bytes"].value > 0.0, "{:?}", result.values);
    assert_eq!((result.values["rate"].value, result.values["bytes_per_s"].value), (0.0, 0.0));
    assert_eq!(result.values["errors"].value, 0.0, "{:?}", result.errors);
}

#[test]
fn a_signal_ends_a_commit_storm_whose_target_hangs_and_what_waited_was_never_sent() {
    let server = Server::kafka(Behaviour::prompt().fault_by(|_| Some(Fault::Silence)), 4);
    let out = tempfile::tempdir().unwrap();
    let arguments = format!(
        "commit-storm --bootstrap {} --groups 1 --members 2 --commit-partitions 2 --membership standalone --warmup 0s \
         --rate 100 --duration 1h --request-timeout 5s --keep-topics --error-limit 100%",
        server.address
    );
    let (child, _stderr) = under_way(&arguments, &out);
    signal(&child, Signal::INT);
    let ran = Ran::of(child.wait_with_output().unwrap(), out);
    assert_eq!(ran.exit, 130, "{}", ran.stdout);
    let result = ran.result();
    let value = |name: &str| result.values.get(name).map_or(0.0, |value| value.value);
    // Two were out; to send the others would have taken minutes.
    assert!(value("unsent") >= 50.0, "{:?}", result.values);
    assert_eq!(value("commit.requests") + value("unsent"), value("schedule.slots"), "{:?}", result.values);
}

#[test]
fn what_a_fleet_has_no_time_to_send_before_the_end_is_sent_behind_it() {
    let run = || {
        let server = Server::kafka(Behaviour::prompt(), 4);
        let out = tempfile::tempdir().unwrap();
        let arguments = format!(
            "fleet --bootstrap {} --groups 10 --members 10 --partitions 4 --keep-topics --hb-interval 1s --warmup 0s --duration 3s",
            server.address
        );
        let (child, _stderr) = under_way(&arguments, &out);
        // Over the end of the three seconds, of which one is over; later than a second behind it nothing is sent.
        std::thread::sleep(Duration::from_millis(1600));
        signal(&child, Signal::STOP);
        std::thread::sleep(Duration::from_millis(900));
        signal(&child, Signal::CONT);
        Ran::of(child.wait_with_output().unwrap(), out)
    };
    let ran = undisturbed(run, Ran::sent_all);
    let result = ran.result();
    assert!(ran.sent_all(), "{:?}", result.values);
    assert!(result.values["schedule.slots"].value > 0.0, "{:?}", result.values);
}

#[test]
fn a_signal_while_connecting_ends_it_with_nothing_to_write() {
    // The very first request, by which the run finds out what is there, is not answered.
    let server = Server::echo(Behaviour::prompt().fault_by(|_| Some(Fault::Silence)));
    let out = tempfile::tempdir().unwrap();
    let mut command = bench(&format!("floor --bootstrap {} --rate 10 --request-timeout 1h", server.address));
    command.arg("--out").arg(out.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let asked = std::time::Instant::now();
    while server.requests() == 0 {
        assert!(asked.elapsed() < std::time::Duration::from_secs(60), "it asks nothing");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(&child, Signal::INT);
    let ran = Ran::of(child.wait_with_output().unwrap(), out);
    assert_eq!(ran.exit, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was measured") && ran.left_nothing(), "{}", ran.stderr);
}

#[test]
fn polling_instead_of_sleeping_is_not_taken_for_load() {
    let echo = Echo::start();
    let ran =
        Ran::to_end(&format!("floor --bootstrap {} --rate 20 --duration 2s --warmup 0s --pace spin", echo.address));
    ran.was_carried_out();
    let result = ran.result();
    assert!(result.parameters.iter().any(|parameter| parameter.name == "pace" && parameter.value == "spin"));
    assert!(result.health.cpu_max < 0.5, "40 requests in two seconds are no load: {:?}", result.health);
    assert_eq!(result.latencies["floor.rt"].count, 40);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    // Nothing is answered, so that the first signal leaves requests to be waited for.
    let server = Server::echo(Behaviour::prompt().fault_by(|number| (number > 0).then_some(Fault::Silence)));
    let out = tempfile::tempdir().unwrap();
    let arguments = format!(
        "floor --bootstrap {} --rate 10 --duration 1h --warmup 0s --in-flight 1000 --request-timeout 1h",
        server.address
    );
    let (mut child, _stderr) = under_way(&arguments, &out);
    signal(&child, Signal::INT);
    signal(&child, Signal::INT);
    let mut tries = 0;
    while child.try_wait().unwrap().is_none() {
        // Two that come at the same moment are one.
        signal(&child, Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(100));
        tries += 1;
        assert!(tries < 300, "it still runs");
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
