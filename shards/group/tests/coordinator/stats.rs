//! What the coordinator counts of its groups.

use ringgate_group::request::*;
use ringgate_group::{Departure, ErrorCode, Request, State, StoreError, Text};

use crate::consumer_world::{Consumer, Known};
use crate::world::*;

/// Partitions 0.. of topic `t`, as a leader assigns them.
fn assignment(partitions: i32) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 1, b't'];
    bytes.extend(partitions.to_be_bytes());
    (0..partitions).for_each(|partition| bytes.extend(partition.to_be_bytes()));
    bytes.extend((-1i32).to_be_bytes());
    bytes
}

/// The first of the members leads and assigns so many partitions to each.
fn assign(w: &mut World, clients: &[Client], partitions: &[i32]) {
    let assignments = clients.iter().zip(partitions).map(|(client, partitions)| Assignment {
        member_id: client.member_id.clone(),
        assignment: assignment(*partitions).into(),
    });
    let request = SyncGroupRequest { assignments: assignments.collect(), ..clients[0].sync_request(&[]) };
    w.ask(clients[0].connection, Request::Sync(request));
    for client in &clients[1..] {
        w.sync(client, &[]);
    }
}

/// Completed, failed, and what the completed ones took together, in ms.
fn rebalances(w: &World) -> (u64, u64, u64) {
    let stats = w.coordinator.stats();
    assert_eq!(stats.rebalances_completed, stats.rebalance_took.count());
    let took_ms = (stats.rebalance_took.sum() * 1_000.0).round() as u64;
    (stats.rebalances_completed, stats.rebalances_failed, took_ms)
}

fn departures(w: &World) -> Vec<(&'static str, u64)> {
    let all = Departure::ALL.into_iter().map(|why| (why.name(), w.coordinator.stats().departed(why)));
    all.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_rebalance_is_timed_from_the_first_join_to_the_stable_group() {
    let mut w = World::with(|config| config.initial_rebalance_delay = std::time::Duration::from_secs(3));
    let mut clients = [Client::new(1)];
    let joined = w.enter(&mut clients[0]);
    w.advance(3_000);
    let answer = w.joined(joined);
    clients[0].takes(&answer);
    w.advance(700);
    assert_eq!(rebalances(&w), (0, 0, 0), "it goes on");
    w.settle(&clients);
    assert_eq!(rebalances(&w), (1, 0, 3_700));
    let of_group = w.coordinator.rebalances(&GROUP.into()).expect("the group");
    assert_eq!((of_group.completed, of_group.failed, of_group.last_took_ms), (1, 0, 3_700));
    assert_eq!(of_group.last_ms, Some(w.now.wall_ms));
    assert_eq!(w.coordinator.rebalances(&Text::from("another")), None);
}

#[test]
fn a_rebalance_that_begins_again_has_failed_and_its_time_goes_on() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    let follower = w.join(2, clients[1].join_request());
    w.joined(follower);
    let mut leads = clients[0].clone();
    leads.takes(&w.joined(leader));
    w.advance(500);
    // The leader joins with something else in the place of its sync.
    let mut joins = leads.join_request();
    joins.protocols = vec![protocol("range", &["t", "u"])];
    let again = w.join(1, joins);
    assert_eq!(rebalances(&w), (1, 1, 0));
    let mut follows = clients[1].clone();
    let second = w.join(2, follows.join_request());
    leads.takes(&w.joined(again));
    follows.takes(&w.joined(second));
    w.advance(250);
    w.settle(&[leads, follows]);
    assert_eq!(rebalances(&w), (2, 1, 750));
}

#[test]
fn assignments_that_are_not_kept_and_members_that_all_go_are_failures() {
    let mut w = World::new();
    let mut clients = vec![Client::new(1)];
    w.form(&mut clients);
    w.store = Store::Waits;
    w.sync(&clients[0], &[]);
    w.complete(Err(StoreError::Unavailable));
    w.carry_out();
    assert_eq!(rebalances(&w), (0, 1, 0));
    w.store = Store::Keeps;
    w.complete_all(Ok(()));
    w.advance(REBALANCE_MS as u64 + 1);
    assert_eq!(w.state(), "Empty");
    assert_eq!(rebalances(&w), (0, 2, 0), "nobody came back");
    assert_eq!(departures(&w), [("session_timeout", 1)]);
}

#[test]
fn the_last_member_of_a_stable_group_that_leaves_fails_nothing() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.leave(vec![clients[0].leaving()]);
    assert_eq!(w.state(), "Empty");
    assert_eq!(rebalances(&w), (1, 0, 0));
    assert_eq!((departures(&w), w.coordinator.stats().joined), (vec![("left", 1)], 1));
}

#[test]
fn members_that_go_are_counted_by_why_they_do() {
    let mut w = World::new();
    let clients = w.stable(3);
    assert_eq!(w.coordinator.stats().joined, 3);
    w.leave(vec![clients[2].leaving()]);
    // The leader is heard of and does not join; the other is not heard of.
    w.advance(u64::from(SESSION_MS.unsigned_abs()) / 2);
    let heartbeats = w.coordinator.stats().heartbeats;
    w.heartbeat(&clients[0]);
    assert_eq!(w.heartbeat(&Client { generation: 99, ..clients[0].clone() }), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(w.coordinator.stats().heartbeats, heartbeats + 1, "one was in order");
    w.advance(u64::from(SESSION_MS.unsigned_abs()) / 2 + 1);
    assert_eq!(departures(&w), [("left", 1), ("session_timeout", 1)]);
    for _ in 0..2 * REBALANCE_MS / SESSION_MS {
        w.heartbeat(&clients[0]);
        w.advance(u64::from(SESSION_MS.unsigned_abs()) / 2);
    }
    assert_eq!(departures(&w), [("left", 1), ("session_timeout", 1), ("rebalance_timeout", 1)]);

    // One whose first join was not answered goes with its connection.
    let mut w = World::with(|config| config.initial_rebalance_delay = std::time::Duration::from_secs(3));
    w.enter(&mut Client::new(1));
    w.close(1);
    assert_eq!(departures(&w), [("disconnected", 1)]);

    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "i")];
    w.form(&mut clients);
    w.settle(&clients);
    w.join(2, Client::with_instance(2, "i").join_request());
    assert_eq!((departures(&w), w.coordinator.stats().joined), (vec![("replaced", 1)], 1));
}

#[test]
fn partitions_that_members_have_follow_each_assignment_and_a_restart() {
    let mut w = World::new();
    let assigned = |w: &World| w.coordinator.stats().assigned_partitions;
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    assign(&mut w, &clients, &[3, 4]);
    assert_eq!((w.state().as_str(), assigned(&w)), ("Stable", 7));
    w.restart();
    assert_eq!(assigned(&w), 7, "it is of what is kept");
    let leader = w.join(1, clients[0].join_request());
    let follower = w.join(2, clients[1].join_request());
    for (client, token) in clients.iter_mut().zip([leader, follower]) {
        client.takes(&w.joined(token));
    }
    assign(&mut w, &clients, &[2]);
    assert_eq!(assigned(&w), 2, "whom the leader left out has nothing");
    w.leave(clients.iter().map(Client::leaving).collect());
    assert_eq!((w.state().as_str(), assigned(&w)), ("Empty", 0));

    // What another assignor's bytes say is not known, and what ends early counts as far as it goes.
    let mut clients = vec![Client::new(1)];
    w.form(&mut clients);
    w.settle(&clients);
    assert_eq!(assigned(&w), 0);
}

#[test]
fn states_are_counted_as_groups_go_through_them() {
    let mut w = World::new();
    let of = |w: &World, state| w.coordinator.groups_by_state().find(|(it, _)| *it == state).map(|(_, count)| count);
    w.stable(1);
    assert_eq!((of(&w, State::Stable), of(&w, State::Empty)), (Some(1), Some(0)));
}

#[test]
fn offsets_are_counted_when_they_are_kept_and_when_their_time_is_over() {
    let mut w = World::new();
    let counted = |w: &World| {
        let stats = w.coordinator.stats();
        (stats.offsets_committed, stats.offsets, stats.offsets_expired)
    };
    w.store = Store::Waits;
    let token = w.ask(1, Request::OffsetCommit(commit_request(1)));
    assert_eq!(counted(&w), (0, 0, 0), "it is being written");
    w.complete(Ok(()));
    w.carry_out();
    assert_eq!(w.committed(token), ErrorCode::NONE);
    w.store = Store::Keeps;
    w.commit(commit_request(2));
    assert_eq!(counted(&w), (2, 1, 0));
    w.now.wall_ms += i64::try_from(w.config.offsets_retention.as_millis()).expect("a retention") + 1;
    w.coordinator.handle_expiry(w.now);
    w.carry_out();
    assert_eq!(counted(&w), (2, 0, 1));
}

#[test]
fn consumer_groups_count_epochs_steps_and_one_rebalance_until_all_have_their_targets() {
    let mut w = World::with(|config| config.consumer_assignment_interval = std::time::Duration::ZERO);
    Known::default().set(&mut w, "t", 4);
    let mut first = Consumer::new("m1", &["t"]);
    first.join(&mut w);
    assert_eq!((w.coordinator.stats().epochs, w.coordinator.stats().reconciliations), (1, 1));
    assert_eq!((w.coordinator.stats().assigned_partitions, rebalances(&w).1), (4, 0));
    let completed = rebalances(&w).0;
    let mut second = Consumer::new("m2", &["t"]);
    second.join(&mut w);
    assert_eq!(w.coordinator.stats().epochs, 2);
    w.advance(40);
    let mut members = [first, second];
    w.come_to_rest(&mut members);
    assert_eq!(w.consumers().group_state.as_str(), "Stable");
    assert_eq!((rebalances(&w).0, rebalances(&w).1), (completed + 1, 0));
    assert!(rebalances(&w).2 >= 40, "{:?}", rebalances(&w));
    let stats = w.coordinator.stats();
    assert_eq!((stats.joined, stats.assigned_partitions), (2, 4));
    assert!(stats.reconciliations >= 4, "each gave back or took up: {}", stats.reconciliations);
    assert!(stats.heartbeats >= 4, "{}", stats.heartbeats);
    w.restart();
    assert_eq!(w.coordinator.stats().assigned_partitions, 4);
    let [_, second] = members;
    w.beat(second.leaving(-1));
    assert_eq!(departures(&w), [("left", 1)]);
}
