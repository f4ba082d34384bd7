//! What is measured of a server whose delays are known is what there was.

use std::time::Duration;

use ringgate_bench::result::RunResult;

use crate::common::{Ran, undisturbed};
use crate::server::{Behaviour, Fault, Server};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How many values of a series were at least this long.
fn at_least(result: &RunResult, series: &str, length: Duration) -> u64 {
    let latencies = result.latencies[series].latencies(series).unwrap();
    latencies.histogram.count_between(length.as_nanos() as u64, u64::MAX)
}

#[test]
fn percentiles_are_those_of_the_delays() {
    // Of 100 requests 90 take 20 ms, nine 200 ms, and one 800 ms.
    let delay = |number: u64| match number % 100 {
        0 => ms(800),
        1..=9 => ms(200),
        _ => ms(20),
    };
    // The probe before the run is request 0, so the run's are 1 to 600: six of them slow ones.
    // One request at a time on each of many connections, so that none waits behind another one's answer.
    let arguments = "floor --rate 200 --duration 3s --warmup 0s --connections 200 --in-flight 1";
    let run = || Ran::in_full(arguments, || Server::echo(Behaviour::prompt().delay_by(delay)));
    // Most of the fast ones are fast.
    let (server, ran) = undisturbed(run, |(_, ran)| at_least(&ran.result(), "floor.st", ms(200)) < 200);
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.latencies["floor.st"].count, 600);
    assert_eq!(server.requests(), 601);
    assert_eq!(at_least(&result, "floor.st", ms(20)), 600, "nothing is faster than its delay");
    // A busy machine may make fast ones slow, but no slow ones fast.
    for (length, exactly) in [(ms(200), 60), (ms(800), 6)] {
        let (st, rt) = (at_least(&result, "floor.st", length), at_least(&result, "floor.rt", length));
        assert!((exactly..exactly + 200).contains(&st), "{st} of {exactly} took {length:?}");
        assert!(rt >= st, "the time from the intended moment is the longer one");
    }
    let percentile = |name: &str| Duration::from_nanos(result.latencies["floor.st"].percentiles_ns[name]);
    assert!((ms(20)..ms(200)).contains(&percentile("50")), "{:?}", percentile("50"));
    assert!(percentile("95") >= ms(199), "{:?}", percentile("95"));
    assert!(percentile("99.9") >= ms(799), "{:?}", percentile("99.9"));
}

#[test]
fn a_stall_of_a_second_at_1000_per_s_is_seen_by_a_thousand_requests_and_hardly_in_service_times() {
    let arguments = "floor --rate 1000 --duration 3s --warmup 0s --connections 4 --in-flight 1";
    let stalls = || Server::echo(Behaviour::prompt().stall_at(500, Duration::from_secs(1)));
    // The generator does not stand still as well.
    let is_prompt = |ran: &Ran| ran.result().health.lateness_p50_ns < 500_000_000;
    let (_, ran) = undisturbed(|| Ran::in_full(arguments, stalls), |(_, ran)| is_prompt(ran));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.latencies["floor.rt"].count, 3_000, "late slots are kept");
    // Due in the first 950 ms of the stall: each waits for its end, 50 ms at least.
    let slow = at_least(&result, "floor.rt", ms(50));
    assert!(slow >= 900, "{slow} of some 1,000 requests saw the stall");
    let in_service = at_least(&result, "floor.st", ms(50));
    assert!(in_service >= 1 && in_service < slow / 4, "{in_service}: four were out when it began");
    assert!(result.latencies["floor.rt"].max_ns >= 900_000_000);
    assert!(result.health.overflow >= 900, "{}", result.health.overflow);
    // The wait for a stalled target is not the generator's lateness.
    assert!(result.health.lateness_p50_ns < 500_000_000, "{:?}", result.health);
}

#[test]
fn a_request_without_an_answer_is_an_error_and_a_latency() {
    // From the eleventh on nothing is answered; each connection has room for one.
    let silent = |number| (number > 10).then_some(Fault::Silence);
    let run = || {
        let server = Server::echo(Behaviour::prompt().fault_by(silent));
        let ran = Ran::to_end(&format!(
            "floor --bootstrap {} --rate 100 --duration 1s --warmup 0s --connections 200 --in-flight 1 \
             --request-timeout 5s --error-limit 100%",
            server.address
        ));
        ran.was_carried_out();
        ran
    };
    // The first ten are answered at once, as far as it is the server's.
    let ran = undisturbed(run, |ran| ran.sent_all() && at_least(&ran.result(), "floor.rt", ms(500)) == 90);
    let result = ran.result();
    assert_eq!(result.latencies["floor.rt"].count, 100);
    assert_eq!(at_least(&result, "floor.rt", ms(5_000)), 90);
    let [error] = &result.errors[..] else { panic!("{:?}", result.errors) };
    assert_eq!((error.name.as_str(), error.count), ("TIMED_OUT", 90));
    assert_eq!(result.values["rate"].value, 10.0, "what timed out was not answered");
}

#[test]
fn a_connection_that_is_closed_is_an_error_and_is_made_again() {
    let closes = |number| (number == 50).then_some(Fault::Close);
    let arguments = "floor --rate 100 --duration 2s --warmup 0s --connections 1 --in-flight 1";
    let (_, ran) = Ran::in_full(arguments, || Server::echo(Behaviour::prompt().fault_by(closes)));
    ran.was_carried_out();
    let result = ran.result();
    let [error] = &result.errors[..] else { panic!("{:?}", result.errors) };
    assert_eq!((error.name.as_str(), error.count), ("DISCONNECTED", 1));
    assert_eq!(result.latencies["floor.st"].count, 199, "all the others were answered");
}

#[test]
fn too_many_errors_abort_the_run_with_exit_4_and_what_there_was_is_written() {
    let server = Server::echo(Behaviour::prompt().fault_by(|number| (number > 300).then_some(Fault::Close)));
    let ran = Ran::to_end(&format!(
        "floor --bootstrap {} --rate 300 --duration 60s --warmup 0s --connections 100 --in-flight 1 --error-limit 10%",
        server.address
    ));
    assert_eq!(ran.exit, 4, "{}\n{}", ran.stdout, ran.stderr);
    let result = ran.result();
    assert!(result.verdict.aborted.as_ref().is_some_and(|why| why.contains("--error-limit 10%")), "{result:?}");
    assert!(result.measured_s < 60.0);
    assert!(result.latencies["floor.rt"].count >= 200);
}
