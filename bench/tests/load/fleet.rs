//! `fleet --poll`: members fetch the tail of what they own.

use std::time::{Duration, Instant};

use ringgate_bench::result::RunResult;

use crate::common::Ran;
use crate::server::{Behaviour, Fault, Server};

/// A member alone in its group, on two topics; the server's have four partitions.
const FLEET: &str = "fleet --groups 1 --members 1 --topics 2 --partitions 4 --prefix p --hb-interval 200ms --warmup 0s";

fn value(result: &RunResult, name: &str) -> f64 {
    result.values.get(name).map_or(0.0, |value| value.value)
}

/// A batch of so many records, as far as who counts them looks at it.
fn batch(records: i32) -> Vec<u8> {
    let mut batch = vec![0; 61];
    batch[8..12].copy_from_slice(&49i32.to_be_bytes());
    batch[16] = 2;
    batch[23..27].copy_from_slice(&(records - 1).to_be_bytes());
    // No idempotent producer.
    batch[43..51].copy_from_slice(&(-1i64).to_be_bytes());
    batch[57..61].copy_from_slice(&records.to_be_bytes());
    batch
}

/// Waits until every partition was fetched.
fn wait_until_all_are_fetched(server: &Server) {
    let until = Instant::now() + Duration::from_secs(20);
    while server.fetched().len() < 8 {
        assert!(Instant::now() < until, "{:?}", server.fetched());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs it on a server whose partitions have seven records each before, and get five more while all are fetched.
fn run(flags: &str, behaviour: Behaviour) -> RunResult {
    let server = Server::kafka(behaviour, 4);
    let partitions = || (0..8).map(|number| (format!("p-t{}", number % 2), number / 2));
    partitions().for_each(|(topic, partition)| server.append(&topic, partition, &batch(7)));
    let ran = std::thread::scope(|scope| {
        let ran = scope.spawn(|| Ran::to_end(&format!("{FLEET} --bootstrap {} --duration 6s {flags}", server.address)));
        wait_until_all_are_fetched(&server);
        partitions().for_each(|(topic, partition)| server.append(&topic, partition, &batch(5)));
        ran.join().unwrap()
    });
    ran.was_carried_out();
    ran.result()
}

#[test]
fn members_read_the_records_that_come_while_they_are_there_and_no_older_ones() {
    for flags in ["--poll 50ms", "--poll 50ms --shared-conn 2"] {
        let result = run(flags, Behaviour::prompt());
        assert_eq!(result.errors, [], "{flags}");
        assert_eq!(value(&result, "fetch.records"), 8.0 * 5.0, "{flags}: {:?}", result.values);
        let fetches = result.latencies["fetch.rt"].count;
        assert_eq!(value(&result, "fetch.requests"), fetches as f64, "{flags}");
        let empty = value(&result, "fetch.empty") as u64;
        assert!(empty >= 3 && empty < fetches, "{flags}: {empty} of {fetches}");
        assert_eq!(result.notes.iter().any(|note| note.contains("none of them waited")), flags.contains("shared"));
    }
}

#[test]
fn what_a_silent_coordinator_leaves_unsent_and_unanswered_is_all_in_the_latencies_and_none_is_an_answer() {
    let server = Server::kafka(Behaviour::prompt().fault_by(|_| Some(Fault::Silence)), 4);
    let ran = Ran::to_end(&format!(
        "fleet --bootstrap {} --groups 2 --members 1 --partitions 4 --keep-topics --hb-interval 250ms \
         --commit-interval 250ms --warmup 0s --duration 8s --request-timeout 1s --error-limit 100%",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    // The first of each member is out, and has no answer when the run does not wait any more; all others were never sent.
    for (operation, slots, unsent) in
        [("heartbeat", "schedule.slots", "unsent"), ("commit", "other.slots", "other.unsent")]
    {
        assert!(value(&result, unsent) >= 10.0, "{operation}: {:?}", result.values);
        assert_eq!(value(&result, slots), value(&result, unsent) + 2.0, "{operation}");
        assert_eq!(value(&result, &format!("{operation}.requests")), 2.0);
        let rt = format!("{operation}.rt");
        assert_eq!(result.latencies[&rt].count as f64, value(&result, slots), "{operation}");
        let errors: Vec<_> = result.errors.iter().filter(|error| error.operation == operation).collect();
        assert_eq!(
            errors.iter().map(|error| (error.name.as_str(), error.count)).collect::<Vec<_>>(),
            [("TIMED_OUT", 2)]
        );
    }
    assert_eq!(value(&result, "rate"), 0.0);
}

#[test]
fn a_heartbeat_whose_connection_was_lost_is_no_answer() {
    let server = Server::kafka(Behaviour::prompt().fault_by(|_| Some(Fault::Close)), 4);
    let ran = Ran::to_end(&format!(
        "fleet --bootstrap {} --groups 1 --members 1 --partitions 4 --keep-topics --hb-interval 250ms --warmup 0s \
         --duration 5s --error-limit 100%",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert!(result.errors.iter().any(|error| error.name == "DISCONNECTED"), "{:?}", result.errors);
    assert_eq!(value(&result, "rate"), 0.0, "{:?}", result.values);
}

#[test]
fn what_cannot_be_deleted_is_said_once() {
    let server = Server::kafka(Behaviour::prompt(), 4);
    // It knows DeleteGroups in lower versions only.
    let flags = "fleet --groups 4 --members 1 --partitions 4 --warmup 0s --duration 1s --threads 2 --hb-interval 200ms \
                 --api-version 42=3";
    for (keep, said) in [("", "4 of 4 groups were not deleted"), ("--keep-topics", "topics and groups were kept")] {
        let ran = Ran::to_end(&format!("{flags} --bootstrap {} {keep}", server.address));
        ran.was_carried_out();
        let notes = ran.result().notes;
        assert_eq!(notes.iter().filter(|note| note.contains(said)).count(), 1, "{notes:?}");
        assert_eq!(notes.iter().filter(|note| note.contains("groups were")).count(), 1, "{notes:?}");
    }
}

#[test]
fn fetches_that_fail_are_tried_again_from_where_they_were() {
    let loses = |number: u64| match number {
        20 => Some(Fault::Close),
        // NOT_LEADER_OR_FOLLOWER.
        30 => Some(Fault::Error(6)),
        _ => None,
    };
    let result = run("--poll on", Behaviour::prompt().delay(Duration::from_millis(20)).fault_by(loses));
    assert!(!result.errors.is_empty(), "{:?}", result.values);
    assert_eq!(value(&result, "fetch.records"), 8.0 * 5.0, "{:?}", result.values);
}
