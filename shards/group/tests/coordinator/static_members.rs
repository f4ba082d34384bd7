//! Static members (KIP-345) and the leader that shall not assign (KIP-814).

use ringgate_group::request::*;
use ringgate_group::{ErrorCode, StoreError, Text};

use crate::world::*;

/// A stable group of static members `a`, `b`, ...; the first leads.
fn stable(w: &mut World, members: usize) -> Vec<Client> {
    let names = ["a", "b", "c"];
    let mut clients: Vec<Client> = (0..members).map(|n| Client::with_instance(n as u64 + 1, names[n])).collect();
    w.form(&mut clients);
    w.settle(&clients);
    clients
}

fn restarted(client: &Client) -> Client {
    Client { member_id: Text::EMPTY, connection: client.connection + 100, ..client.clone() }
}

#[test]
fn s047_a_static_member_joins_in_one_step() {
    for join_version in [5, 9] {
        let mut w = World::new();
        let token = w.join(1, Client { join_version, ..Client::with_instance(1, "a") }.join_request());
        w.advance(0);
        let answer = w.joined(token);
        assert_eq!(answer.generation_id, 1);
        assert!(answer.member_id.as_str().starts_with("a-"));
        assert_eq!(answer.members[0].group_instance_id, Some("a".into()));
    }
}

#[test]
fn s048_a_follower_that_restarts_has_its_old_assignment_and_nobody_rebalances() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let mut again = restarted(&clients[1]);
    let token = w.join(again.connection, again.join_request());
    let answer = w.joined(token);
    assert_eq!((answer.generation_id, answer.members.len(), answer.skip_assignment), (1, 0, false));
    assert_eq!(answer.leader, clients[0].member_id);
    assert_ne!(answer.member_id, clients[1].member_id);
    again.takes(&answer);
    let token = w.sync(&again, &[]);
    assert_eq!(w.synced(token).assignment, "a1");
    assert_eq!((w.heartbeat(&again), w.heartbeat(&clients[0])), (ErrorCode::NONE, ErrorCode::NONE));
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s060_every_restart_gives_another_id() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let mut ids: Vec<_> = clients.iter().map(|client| client.member_id.clone()).collect();
    for _ in 0..3 {
        for client in &clients {
            let token = w.join(client.connection + 100, restarted(client).join_request());
            let answer = w.joined(token);
            assert_eq!((answer.error_code, answer.generation_id), (ErrorCode::NONE, 1));
            assert!(!ids.contains(&answer.member_id));
            ids.push(answer.member_id);
        }
    }
}

#[test]
fn s049_a_leader_that_restarts_is_told_from_v9_not_to_assign() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let token = w.join(9, restarted(&clients[0]).join_request());
    let answer = w.joined(token);
    assert_eq!((answer.generation_id, answer.members.len(), answer.skip_assignment), (1, 2, true));
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s050_a_leader_that_restarts_is_up_to_v8_told_that_its_old_id_leads() {
    for join_version in [5, 8] {
        let mut w = World::new();
        let clients = stable(&mut w, 2);
        let token = w.join(9, Client { join_version, ..restarted(&clients[0]) }.join_request());
        let answer = w.joined(token);
        assert_eq!((answer.members.len(), answer.skip_assignment), (0, false));
        assert_eq!(answer.leader, clients[0].member_id);
        assert_ne!(answer.member_id, clients[0].member_id);
    }
}

#[test]
fn s051_a_restart_with_another_subscription_is_no_rebalance() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let again = Client { protocols: vec![protocol("range", &["u"])], ..restarted(&clients[1]) };
    let token = w.join(9, again.join_request());
    assert_eq!(w.joined(token).generation_id, 1);
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s052_a_restart_that_changes_the_chosen_protocol_is_a_rebalance() {
    let mut w = World::new();
    let (range, other) = (protocol("range", &["t"]), protocol("other", &["t"]));
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    clients[0].protocols = vec![range.clone(), other.clone()];
    clients[1].protocols = vec![range.clone(), other.clone()];
    w.form(&mut clients);
    w.settle(&clients);
    // One of two votes against the other leaves the tie to the first in join order.
    let again = Client { protocols: vec![other.clone(), range.clone()], ..restarted(&clients[1]) };
    let token = w.join(9, again.join_request());
    assert_eq!(w.joined(token).generation_id, 1);
    let again = Client { protocols: vec![other, range], ..restarted(&clients[0]) };
    let token = w.join(9, again.join_request());
    w.parked(token);
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn s053_the_id_before_a_restart_is_fenced() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let token = w.join(9, restarted(&clients[1]).join_request());
    w.joined(token);
    let mut old = clients[1].clone();
    for expected in [ErrorCode::FENCED_INSTANCE_ID, ErrorCode::UNKNOWN_MEMBER_ID] {
        assert_eq!(w.heartbeat(&old), expected);
        let token = w.sync(&old, &[]);
        assert_eq!(w.synced(token).error_code, expected);
        assert_eq!(w.commit(old.commit_request(5)), expected);
        let token = w.join(2, old.join_request());
        assert_eq!(w.joined(token).error_code, expected);
        assert_eq!(w.leave(vec![old.leaving()]).members[0].error_code, expected);
        old.instance = None;
    }
}

#[test]
fn s054_of_two_parked_joins_of_an_instance_the_first_is_fenced() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let leader = w.join(1, clients[0].join_request());
    let first = w.join(8, restarted(&clients[1]).join_request());
    // All have joined with the first, so it takes a third member for the phase to go on.
    assert_eq!(w.joined(leader).generation_id, 2);
    assert_eq!(w.joined(first).generation_id, 2);
    let mut third = Client::with_instance(3, "c");
    let parked = w.enter(&mut third);
    w.parked(parked);
    let again = w.join(4, Client::with_instance(4, "c").join_request());
    let fenced = w.joined(parked);
    assert_eq!((fenced.error_code, fenced.leader), (ErrorCode::FENCED_INSTANCE_ID, Text::EMPTY));
    w.parked(again);
}

#[test]
fn s055_a_restart_while_completing_fences_the_parked_sync_and_rebalances() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b"), Client::with_instance(3, "c")];
    w.form(&mut clients);
    let syncs = [w.sync(&clients[1], &[]), w.sync(&clients[2], &[])];
    let join = w.join(9, restarted(&clients[1]).join_request());
    assert_eq!(w.synced(syncs[0]).error_code, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(w.synced(syncs[1]).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    w.parked(join);
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn s056_an_unknown_instance_is_25_and_somebody_elses_is_82() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    for (instance, expected) in [("x", ErrorCode::UNKNOWN_MEMBER_ID), ("a", ErrorCode::FENCED_INSTANCE_ID)] {
        let request = JoinGroupRequest { group_instance_id: Some(instance.into()), ..clients[1].join_request() };
        let token = w.join(2, request);
        assert_eq!(w.joined(token).error_code, expected);
    }
}

#[test]
fn s057_a_static_member_that_misses_a_rebalance_stays_in_the_list() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    clients[1].session_ms = 300_000;
    w.form(&mut clients);
    w.settle(&clients);
    let leader = w.join(1, clients[0].join_request());
    w.advance(REBALANCE_MS as u64);
    let answer = w.joined(leader);
    assert_eq!(answer.generation_id, 2);
    let listed: Vec<_> = answer.members.iter().map(|member| member.group_instance_id.clone().unwrap()).collect();
    assert_eq!(listed, ["a", "b"]);
}

#[test]
fn s058_a_static_member_that_misses_the_sync_is_removed() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    for client in &mut clients {
        client.session_ms = 300_000;
    }
    w.form(&mut clients);
    let leader = w.sync(&clients[0], &[]);
    assert_eq!(w.synced(leader).error_code, ErrorCode::NONE);
    w.advance(REBALANCE_MS as u64);
    assert_eq!((w.state().as_str(), w.describe().members.len()), ("PreparingRebalance", 1));
}

#[test]
fn s059_a_replacement_that_is_not_kept_is_undone() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let bytes = w.totals.bytes();
    w.store = Store::Fails(StoreError::Unavailable);
    let again = Client { protocols: vec![protocol("range", &["t", "u"])], ..restarted(&clients[0]) };
    let token = w.join(9, again.join_request());
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::COORDINATOR_NOT_AVAILABLE, Text::EMPTY));
    assert_eq!((answer.generation_id, answer.leader), (1, clients[0].member_id.clone()));
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    assert_eq!((w.state().as_str(), w.totals.bytes()), ("Stable", bytes));
}

#[test]
fn what_comes_while_a_replacement_is_written_waits_for_it() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    w.store = Store::Waits;
    let join = w.join(9, restarted(&clients[1]).join_request());
    let old = w.ask(2, ringgate_group::Request::Heartbeat(clients[1].heartbeat_request()));
    w.parked(join);
    w.parked(old);
    w.complete_all(Ok(()));
    assert_eq!(w.joined(join).error_code, ErrorCode::NONE);
    let ringgate_group::Response::Heartbeat(error) = w.answer(old) else { panic!() };
    assert_eq!(error, ErrorCode::FENCED_INSTANCE_ID);
}

#[test]
fn a_static_leader_that_rejoins_with_its_id_starts_a_rebalance() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let token = w.join(1, clients[0].join_request());
    w.parked(token);
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn a_static_follower_that_rejoins_with_its_id_and_another_subscription_starts_a_rebalance() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let request = JoinGroupRequest { protocols: vec![protocol("range", &["u"])], ..clients[1].join_request() };
    let token = w.join(2, request);
    w.parked(token);
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn a_static_member_may_leave_its_instance_out_where_it_names_its_id() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let plain = Client { instance: None, ..clients[1].clone() };
    assert_eq!(w.heartbeat(&plain), ErrorCode::NONE);
    assert_eq!(w.commit(plain.commit_request(5)), ErrorCode::NONE);
    let token = w.sync(&plain, &[]);
    assert_eq!(w.synced(token).assignment, "a1");
    let token = w.join(2, plain.join_request());
    assert_eq!(w.joined(token).generation_id, 1);
    assert_eq!(w.leave(vec![plain.leaving()]).members[0].error_code, ErrorCode::NONE);
}

#[test]
fn a_restart_in_a_group_that_is_full_is_refused_as_any_join_is() {
    let mut w = World::with(|config| {
        config.max_members_per_group = 2;
        config.initial_rebalance_delay = std::time::Duration::ZERO;
    });
    let clients = stable(&mut w, 2);
    let token = w.join(9, restarted(&clients[1]).join_request());
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::GROUP_MAX_SIZE_REACHED, Text::EMPTY));
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE, "the id before is still good");
}

#[test]
fn a_restart_brings_its_timeouts_along() {
    let mut w = World::new();
    let clients = stable(&mut w, 2);
    let mut again = Client { session_ms: 30_000, ..restarted(&clients[1]) };
    let token = w.join(9, again.join_request());
    let answer = w.joined(token);
    again.takes(&answer);
    for _ in 0..3 {
        w.advance(9_000);
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    }
    assert_eq!(w.heartbeat(&again), ErrorCode::NONE);
}
