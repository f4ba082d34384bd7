//! `commit-storm`: what is acknowledged is what is read, or the run says that it is not.

use std::time::Duration;

use crate::common::{Ran, undisturbed};
use crate::server::{Behaviour, Fault, Server};

/// Two members with two partitions each, in three groups; the server's topics have as many partitions.
const STORM: &str = "--groups 3 --members 2 --commit-partitions 2 --membership standalone --warmup 0s";

/// A storm whose schedule was sent whole, and the server, which behaves so.
fn in_full(behaviour: impl Fn() -> Behaviour, flags: &str) -> (Server, Ran) {
    Ran::in_full(&format!("commit-storm {STORM} {flags}"), || Server::kafka(behaviour(), 4))
}

#[test]
fn commits_and_fetches_come_by_their_shares_and_every_offset_is_right() {
    let (server, ran) = in_full(Behaviour::prompt, "--rate 200 --fetch-share 25% --duration 2s");
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!((result.latencies["commit.rt"].count, result.latencies["offset_fetch.rt"].count), (300, 100));
    assert_eq!(result.values["offsets"].value, 600.0);
    // What is offered and what is answered are both of commits alone.
    assert_eq!((result.values["offered_rate"].value, result.health.slots), (150.0, 400));
    assert_eq!((result.values["members"].value, result.values["groups"].value), (6.0, 3.0));
    assert_eq!(result.values["errors"].value, 0.0, "{:?}", result.errors);
    assert!(result.checks.violations.values().all(|count| *count == 0), "{:?}", result.checks);
    // Each key is read once more at the end; then all groups are deleted at once.
    assert_eq!(server.requests(), 400 + 6 + 1);
}

#[test]
fn a_hot_group_gets_its_share() {
    let (server, ran) = in_full(Behaviour::prompt, "--rate 200 --hot-share 90% --duration 2s --threads 2");
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.latencies["commit.rt"].count, 400);
    assert_eq!(result.values["members"].value, 6.0);
    let hot = server.commits_of(|group| group.ends_with("-commits-0"));
    assert!((300..=400).contains(&hot), "{hot} of 400 commits, when 90 % are meant");
}

#[test]
fn acknowledged_commits_that_are_lost_are_told() {
    let forgets = |number| (number >= 30).then_some(Fault::Forget);
    let run = || {
        let server = Server::kafka(Behaviour::prompt().fault_by(forgets), 4);
        let flags = "--closed --duration 500ms";
        let ran = Ran::to_end(&format!("commit-storm --bootstrap {} {STORM} {flags}", server.address));
        (server, ran)
    };
    // Time enough for each member to go on from what was kept.
    let (_, ran) = undisturbed(run, |(server, _)| server.requests() >= 200);
    ran.was_carried_out();
    let result = ran.result();
    // Six members with two partitions each, none of which has what was acknowledged last.
    assert_eq!(result.checks.violations["stale_offsets"], 12, "{:?}", result.checks);
    assert_eq!(result.checks.violations["never_sent_offsets"], 0);
    assert!(result.checks.examples[0].contains("had been acknowledged"), "{:?}", result.checks.examples);
}

#[test]
fn commits_that_are_refused_are_errors_by_name_and_may_or_may_not_be_kept() {
    let refuses = |number: u64| (number.is_multiple_of(5)).then_some(Fault::Error(25));
    let (_, ran) = in_full(|| Behaviour::prompt().fault_by(refuses), "--rate 100 --duration 1s");
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.errors.len(), 1, "{:?}", result.errors);
    assert_eq!((result.errors[0].name.as_str(), result.errors[0].count), ("UNKNOWN_MEMBER_ID", 20));
    // An answer is an answer: it has a latency, too.
    assert_eq!(result.latencies["commit.rt"].count, 100);
    assert_eq!(result.checks.violations["stale_offsets"], 0, "{:?}", result.checks);
}

#[test]
fn a_commit_without_an_answer_counts_with_its_whole_time_and_the_member_goes_on() {
    let silent = |number| (number == 10).then_some(Fault::Silence);
    let (_, ran) = in_full(|| Behaviour::prompt().fault_by(silent), "--rate 100 --duration 1s --request-timeout 5s");
    ran.was_carried_out();
    let result = ran.result();
    let timeouts = result.errors.iter().find(|error| error.name == "TIMED_OUT").expect("one");
    assert_eq!(timeouts.count, 1, "{:?}", result.errors);
    assert!(Duration::from_nanos(result.latencies["commit.rt"].max_ns) >= Duration::from_secs(5));
    assert_eq!(result.latencies["commit.rt"].count, 100);
    assert!(result.checks.violations.values().all(|count| *count == 0), "{:?}", result.checks);
}

#[test]
fn slots_that_wait_for_a_target_that_hangs_are_never_sent_and_the_run_ends() {
    let hangs = |number| (number >= 20).then_some(Fault::Silence);
    let server = Server::kafka(Behaviour::prompt().fault_by(hangs), 4);
    // Each of six members has some 20 slots to send when the window is over, and each would take two seconds.
    let ran = Ran::to_end(&format!(
        "commit-storm --bootstrap {} {STORM} --rate 50 --fetch-share 20% --duration 3s --request-timeout 2s --keep-topics \
         --error-limit 100%",
        server.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    let value = |name: &str| result.values.get(name).map_or(0.0, |value| value.value);
    for (operation, slots, unsent) in
        [("commit", "schedule.slots", "unsent"), ("offset_fetch", "other.slots", "other.unsent")]
    {
        assert!(value(unsent) > 0.0, "{:?}", result.values);
        assert_eq!(value(&format!("{operation}.requests")) + value(unsent), value(slots), "{:?}", result.values);
        assert_eq!(result.latencies[&format!("{operation}.rt")].count as f64, value(slots), "{operation}");
    }
    assert_eq!(result.checks.violations["unread_offsets"], 12, "{:?}", result.checks);
}

#[test]
fn groups_that_are_there_already_are_refused_and_not_deleted() {
    let server = Server::kafka(Behaviour::prompt(), 4);
    let run = |flags| {
        let flags = format!("--rate 100 --duration 500ms --prefix orders {flags}");
        Ran::to_end(&format!("commit-storm --bootstrap {} {STORM} {flags}", server.address))
    };
    run("--keep-topics").was_carried_out();
    let requests = server.requests();
    let again = run("");
    assert_eq!(again.exit, 3, "{}\n{}", again.stdout, again.stderr);
    assert!(again.stderr.contains("group orders-commits-0 cannot be this run's own"), "{}", again.stderr);
    assert!(again.left_nothing() && server.requests() == requests);
}

#[test]
fn groups_are_deleted_in_the_end_though_a_connection_is_lost_and_what_is_left_is_told() {
    let flags = "--rate 100 --duration 1s --prefix orders";
    // Behind a hundred slots and a last read by each of six members.
    let loses = |number| (number == 106).then_some(Fault::Close);
    let (server, ran) = in_full(|| Behaviour::prompt().fault_by(loses), flags);
    ran.was_carried_out();
    assert_eq!(server.requests(), 108);
    assert!(ran.result().notes.iter().all(|note| !note.contains("deleted")), "{:?}", ran.result().notes);

    let refuses = |number| (number >= 106).then_some(Fault::Error(30));
    let (_, ran) = in_full(|| Behaviour::prompt().fault_by(refuses), flags);
    ran.was_carried_out();
    let told = "3 of 3 groups were not deleted, orders-commits-0 among them: GROUP_AUTHORIZATION_FAILED (3)";
    assert!(ran.result().notes.iter().any(|note| note == told), "{:?}", ran.result().notes);
}
