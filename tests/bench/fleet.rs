//! `fleet` and `rebalance-storm`: groups form, every partition has one owner at a time, and what disturbs groups is
//! got over.

use std::time::Duration;

use ringgate_bench::plan::Load;
use ringgate_bench::result::RunResult;
use ringgate_bench::scenario::fleet::{self, Flags, Fleet, Protocol};
use ringgate_bench::scenario::rebalance_storm::{self, Cut, Kind, RebalanceStorm};

use crate::common::gateway::{Gateway, Options};
use crate::run::{begin, common, left_on, run, run_and_scrape, run_with_cuts};

/// Time enough for groups to form on a busy machine, and for some heartbeats.
const LONG: Duration = Duration::from_secs(10);

/// Five groups of four.
fn flags() -> Flags {
    Flags { groups: 5, members: 4, hb_interval: "250ms".into(), ..Flags::default() }
}

fn fleet(flags: Flags) -> RunResult {
    let gateway = Gateway::start(Options::new(2));
    let common = common(&gateway, Load::Own, LONG);
    let result = run::<Fleet>(&gateway, &common, &fleet::Plan::new(flags).expect("a plan"));
    assert_eq!(value(&result, "groups_stable"), 5.0, "{:?}", result.values);
    assert_eq!(result.latencies["stable"].count, 5);
    assert_eq!(value(&result, "rebalances.unexpected"), 0.0, "{:?}", result.values);
    assert!(value(&result, "heartbeat.requests") >= 20.0, "each member had some: {:?}", result.values);
    for check in ["owned_twice", "unassigned", "unknown_partitions"] {
        assert_eq!(result.checks.violations[check], 0, "{:?}", result.checks);
    }
    result
}

/// A value; 0 for a counter that never counted.
fn value(result: &RunResult, name: &str) -> f64 {
    result.values.get(name).map_or(0.0, |value| value.value)
}

#[test]
fn classic_groups_form_heartbeat_and_commit() {
    let result = fleet(Flags { commit_interval: "500ms".into(), commit_partitions: 3, topics: 2, ..flags() });
    assert_eq!(value(&result, "connections"), 20.0, "one per member");
    // Once for an id, once with it.
    assert_eq!(result.latencies["join_id.rt"].count, 20);
    assert!(result.latencies["join.rt"].count >= 20);
    assert!(result.latencies["sync.rt"].count >= 20);
    assert!(value(&result, "commit.requests") >= 20.0, "{:?}", result.values);
    assert!(result.values["server_bytes_per_member"].value.is_finite());
}

#[test]
fn topics_and_groups_are_left_there_when_they_are_to_be() {
    let gateway = Gateway::start(Options::new(2));
    let flags = Flags { commit_interval: "500ms".into(), topics: 2, keep_topics: true, ..flags() };
    let (common, plan) = (common(&gateway, Load::Own, LONG), fleet::Plan::new(flags.clone()).expect("a plan"));
    // Not tried again: what a run leaves there keeps the next from beginning.
    let result = run_and_scrape::<Fleet>(&gateway, &common, &plan, None);
    let told: Vec<_> = result.notes.iter().filter(|note| note.contains("were kept")).collect();
    assert_eq!(told, ["topics and groups were kept (--keep-topics), under names that begin with bench"]);
    let expected = ["bench-g0", "bench-g1", "bench-g2", "bench-g3", "bench-g4", "bench-t0", "bench-t1"];
    assert_eq!(left_on(&gateway), expected);

    // Another run under these names would join groups that are not its own, and delete them.
    let plan = fleet::Plan::new(Flags { keep_topics: false, ..flags }).expect("a plan");
    let refused = begin::<Fleet>(&gateway, &common, &plan, None).expect_err("they are there").to_string();
    assert!(refused.starts_with("group bench-g") && refused.contains("is there already"), "{refused}");
    assert_eq!(left_on(&gateway), expected);
}

#[test]
fn joins_that_wait_in_vain_at_the_end_are_neither_errors_nor_waited_for() {
    let gateway = Gateway::start(Options::new(2).set("initial-rebalance-delay", "0"));
    // On each executor one member joins alone, and long after that, but within the window, another, of which the first
    // never learns.
    for shared_conn in [0, 4] {
        let flags = Flags {
            groups: 2,
            members: 2,
            join_rate: "0.3/s".into(),
            hb_interval: "1h".into(),
            shared_conn,
            ..flags()
        };
        let began = std::time::Instant::now();
        let result =
            run::<Fleet>(&gateway, &common(&gateway, Load::Own, LONG), &fleet::Plan::new(flags).expect("a plan"));
        assert_eq!(value(&result, "joins_unanswered"), 2.0, "{:?}", result.values);
        assert!(result.notes.iter().any(|note| note.contains("`joins_unanswered`")), "{:?}", result.notes);
        // The coordinator would have waited for the rebalance timeout of a minute.
        assert!(began.elapsed() < LONG + LONG * 3, "{:?}", began.elapsed());
    }
}

#[test]
fn consumer_groups_form_and_acknowledge_what_they_own() {
    let result = fleet(Flags { protocol: Protocol::Consumer, commit_interval: "500ms".into(), ..flags() });
    assert_eq!(result.latencies["join.rt"].count, 20);
    assert!(result.latencies["extra_heartbeat.rt"].count >= 20, "each acknowledges its partitions");
}

#[test]
fn static_members_over_shared_connections_form_groups_too() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let result = fleet(Flags { protocol, is_static: true, shared_conn: 1, ..flags() });
        assert!(!result.latencies.contains_key("join_id.rt"), "static members are given no id first");
        assert!(result.notes.iter().any(|note| note.contains("--shared-conn")), "{:?}", result.notes);
    }
}

#[test]
fn members_fetch_what_they_own_beside_their_heartbeats() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let result = fleet(Flags { protocol, poll: "on".into(), ..flags() });
        // One for the group, and one for each of the shards that lead what the member owns.
        let connections = value(&result, "connections");
        assert!((40.0..=60.0).contains(&connections), "{connections} of 20 members");
        let fetches = value(&result, "fetch.requests");
        assert!(fetches >= 20.0, "{:?}", result.values);
        assert_eq!((value(&result, "fetch.empty"), value(&result, "fetch.records")), (fetches, 0.0));
        assert_eq!(result.errors, []);
    }
}

fn storm(flags: rebalance_storm::Flags) -> RunResult {
    let gateway = Gateway::start(Options::new(2));
    // Groups form before the storm.
    let common = ringgate_bench::plan::Common { warmup: LONG, ..common(&gateway, Load::Own, LONG) };
    let run =
        if matches!(flags.storm, Kind::Reconnect) { run_with_cuts::<RebalanceStorm> } else { run::<RebalanceStorm> };
    let result = run(&gateway, &common, &rebalance_storm::Plan::new(flags).expect("a plan"));
    assert_eq!(result.latencies["stable"].count, 5, "{:?}", result.values);
    assert!(result.latencies["recovery"].count >= 1, "{:?}", result.values);
    assert_eq!(value(&result, "rebalances.unexpected"), 0.0, "{:?}", result.values);
    result
}

#[test]
fn groups_get_over_members_that_leave_one_after_the_other_and_come_back() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let result = storm(rebalance_storm::Flags {
            fleet: Flags { protocol, ..flags() },
            storm: Kind::Rolling,
            return_after: "100ms".into(),
            ..Default::default()
        });
        assert!(value(&result, "storm.leaves") >= 5.0, "each group began: {:?}", result.values);
        assert!(value(&result, "rebalances") > 5.0, "{:?}", result.values);
    }
}

#[test]
fn members_that_vanished_are_no_reason_to_leave_a_group_there() {
    let gateway = Gateway::start(Options::new(2));
    let common = ringgate_bench::plan::Common { warmup: LONG, ..common(&gateway, Load::Own, LONG / 2) };
    // Far shorter than the session that a member has which is gone.
    let flags = rebalance_storm::Flags {
        fleet: Flags { protocol: Protocol::Consumer, ..flags() },
        storm: Kind::Kill,
        cut: Cut::Rst,
        storm_rate: "10%/s".into(),
        ..Default::default()
    };
    let result =
        run_with_cuts::<RebalanceStorm>(&gateway, &common, &rebalance_storm::Plan::new(flags).expect("a plan"));
    assert!(value(&result, "storm.kills") >= 2.0, "{:?}", result.values);
}

#[test]
fn groups_get_over_lost_connections_without_another_generation() {
    let result = storm(rebalance_storm::Flags {
        fleet: flags(),
        storm: Kind::Reconnect,
        cut: Cut::Rst,
        storm_interval: "1m".into(),
        ..Default::default()
    });
    assert_eq!(value(&result, "storm.reconnects"), 2.0, "once on each executor");
    assert_eq!((result.latencies["recovery"].count, value(&result, "groups.not_recovered")), (5, 0.0));
    assert_eq!(value(&result, "session_expiries"), 0.0);
}

#[test]
fn partitions_that_topics_gain_are_assigned() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let result = storm(rebalance_storm::Flags {
            fleet: Flags { protocol, ..flags() },
            storm: Kind::AddPartitions,
            storm_interval: "1m".into(),
            gain: 5,
            ..Default::default()
        });
        assert_eq!(value(&result, "storm.gains"), 2.0, "seen by each executor");
        assert_eq!((result.latencies["recovery"].count, value(&result, "groups.not_recovered")), (5, 0.0));
    }
}
