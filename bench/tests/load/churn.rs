//! `churn`: every step of every connection is told, and what cannot be is refused.

use crate::common::Ran;
use crate::server::{Behaviour, Server};

#[test]
fn every_step_of_every_connection_is_timed_apart() {
    for close in ["fin", "rst"] {
        let arguments = format!("churn --rate 50 --duration 2s --warmup 0s --close {close}");
        let (_, ran) = Ran::in_full(&arguments, || Server::kafka(Behaviour::prompt(), 1));
        ran.was_carried_out();
        let result = ran.result();
        assert_eq!(result.values["errors"].value, 0.0, "{:?}", result.errors);
        assert_eq!(result.values["churn.requests"].value, 100.0);
        for series in ["tcp.rt", "api_versions.rt", "metadata.rt", "churn.st", "churn.rt"] {
            assert_eq!(result.latencies[series].count, 100, "{series}");
        }
        // Without TLS and SASL there are no such steps.
        assert!(!result.latencies.contains_key("tls.rt") && !result.latencies.contains_key("sasl.rt"));
        let mean = |series: &str| result.latencies[series].mean_ns;
        let steps = mean("tcp.rt") + mean("api_versions.rt") + mean("metadata.rt");
        assert!(mean("churn.st") >= steps * 0.999, "the whole is no shorter than its steps");
        assert!(result.values["local_ports"].value > 0.0);
    }
}

#[test]
fn a_burst_is_that_many_connections_meant_for_the_same_moment() {
    let arguments = "churn --rate 100 --burst 20 --duration 2s --warmup 0s --close rst";
    let (_, ran) = Ran::in_full(arguments, || Server::kafka(Behaviour::prompt(), 1));
    ran.was_carried_out();
    let result = ran.result();
    // What is offered is connections, as `--rate` and `rate` are.
    assert_eq!((result.values["offered_rate"].value, result.health.slots), (100.0, 200));
    assert_eq!(result.latencies["churn.rt"].count, 200);
}

#[test]
fn connections_of_a_burst_that_was_cut_are_all_unsent() {
    // Two connections make its acquaintance; later ones stand, and nothing is answered on them. There is room for seven.
    let server = Server::kafka(Behaviour::prompt(), 1);
    let mute = crate::cut::Cut::mute_after(&server.address, 2);
    let ran = Ran::to_end(&format!(
        "churn --bootstrap {} --rate 10 --burst 5 --duration 2s --warmup 0s --close rst --max-outstanding 7 \
         --request-timeout 5s --error-limit 100%",
        mute.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!((result.values["offered_rate"].value, result.health.slots), (10.0, 20));
    assert_eq!(result.values["churn.requests"].value + result.values["unsent"].value, 20.0, "{:?}", result.values);
    assert!(result.values["unsent"].value >= 5.0, "{:?}", result.values);
    assert_eq!(result.latencies["churn.rt"].count, 20);
}

#[test]
fn in_a_closed_loop_a_connection_follows_the_other() {
    let server = Server::kafka(Behaviour::prompt(), 1);
    let ran = Ran::to_end(&format!(
        "churn --bootstrap {} --closed --connections 3 --duration 500ms --warmup 0s --close rst",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert!(result.latencies["churn.rt"].count >= 3, "{}", result.latencies["churn.rt"].count);
    assert_eq!(result.values["errors"].value, 0.0, "{:?}", result.errors);
}

#[test]
fn a_target_that_goes_away_is_told_by_the_step_that_failed() {
    // It answers some; then it is a port where nobody answers.
    let server = Server::kafka(Behaviour::prompt(), 1);
    let cut = crate::cut::Cut::after(&server.address, 20);
    let ran = Ran::to_end(&format!(
        "churn --bootstrap {} --rate 50 --duration 3s --warmup 0s --error-limit 100%",
        cut.address
    ));
    let result = ran.result();
    assert!(result.values["errors"].value > 0.0);
    let by_step: f64 = ["failed.connect", "failed.api_versions", "failed.metadata"]
        .iter()
        .filter_map(|step| result.values.get(*step))
        .map(|value| value.value)
        .sum();
    assert_eq!(by_step, result.values["errors"].value, "{:?}", result.values);
}
