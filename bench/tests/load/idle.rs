//! `idle`: as many connections as were asked for are held, whatever they do, and each that is lost is told.

use crate::common::{Ran, undisturbed};
use crate::cut::Cut;
use crate::server::{Behaviour, Server};

#[test]
fn connections_of_every_kind_are_held_to_the_end_and_their_memory_is_a_slope() {
    for kind in ["idle", "half-open", "slow-reader --unread 20"] {
        let server = Server::kafka(Behaviour::prompt(), 1);
        // The server is a thread of this process, and each of its connections two more: their memory is there to be seen.
        let ran = Ran::to_end(&format!(
            "idle --bootstrap {} --connections 60 --kind {kind} --duration 3s --warmup 0s --server-pid {}",
            server.address,
            std::process::id()
        ));
        ran.was_carried_out();
        let result = ran.result();
        assert_eq!(result.values["held_connections"].value, 60.0, "{kind}: {:?}", result.notes);
        assert_eq!(result.checks.violations["closed_by_target"], 0, "{kind}: {:?}", result.checks);
        assert_eq!(result.values["errors"].value, 0.0, "{kind}: {:?}", result.errors);
        assert!(result.latencies["probe.rt"].count >= 200, "{kind}");
        for value in ["rss_per_conn", "rss_fit", "kernel_per_conn"] {
            assert!(result.values[value].value.is_finite(), "{kind}: {value}");
        }
        let plateaus = result.notes.iter().find(|note| note.starts_with("plateaus: ")).expect("what was read");
        for held in ["0 held", "20 held", "40 held", "60 held"] {
            assert!(plateaus.contains(held), "{kind}: {plateaus}");
        }
    }
}

#[test]
fn executors_share_the_connections_and_without_a_process_there_is_no_rss_and_the_result_says_why() {
    let server = Server::kafka(Behaviour::prompt(), 1);
    let run = || {
        let ran = Ran::to_end(&format!(
            "idle --bootstrap {} --connections 31 --plateaus 4 --threads 2 --duration 2s --warmup 0s",
            server.address
        ));
        ran.was_carried_out();
        ran.result()
    };
    // One executor reads how many both hold; the other has no more than a moment's start.
    let result = undisturbed(run, |result| result.values["held_connections"].value == 31.0);
    assert_eq!(result.values["held_connections"].value, 31.0, "{:?}", result.notes);
    assert!(!result.values.contains_key("rss_per_conn"));
    assert!(result.notes.iter().any(|note| note.contains("--server-pid")), "{:?}", result.notes);
}

#[test]
fn connections_that_the_target_closes_are_found() {
    let server = Server::kafka(Behaviour::prompt(), 1);
    // The run makes its acquaintance, probes, and holds nine, the last of them seconds before its end.
    let cut = Cut::after(&server.address, 2 + 9);
    let ran = Ran::to_end(&format!(
        "idle --bootstrap {} --connections 9 --duration 10s --warmup 0s --error-limit 100%",
        cut.address
    ));
    let result = ran.result();
    assert_eq!(result.values["held_connections"].value, 9.0, "{:?}", result.notes);
    assert_eq!(result.checks.violations["closed_by_target"], 9);
    assert_eq!(result.checks.examples.len(), 1, "{:?}", result.checks);
}
