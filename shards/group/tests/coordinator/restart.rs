//! What a restart brings back.

use ringgate_group::{ErrorCode, Record, Text};

use crate::world::*;

#[test]
fn s111_a_restart_is_invisible_to_a_stable_group() {
    let mut w = World::new();
    let mut clients = vec![Client::new(1), Client::with_instance(2, "a")];
    for client in &mut clients {
        client.protocols.push(protocol("other", &["t", "u"]));
    }
    w.form(&mut clients);
    w.settle(&clients);
    w.commit(clients[0].commit_request(42));
    let before = w.describe();
    w.advance(9_000);
    w.restart();
    assert_eq!(w.describe(), before);
    assert_eq!(w.offset(), 42);
    w.advance(9_000);
    for client in &clients {
        assert_eq!(w.heartbeat(client), ErrorCode::NONE);
        assert_eq!(w.commit(client.commit_request(43)), ErrorCode::NONE);
        let token = w.sync(client, &[]);
        assert_eq!(w.synced(token).error_code, ErrorCode::NONE);
    }
    // Every protocol of every member came back, so a follower's rejoin is seen as unchanged.
    let token = w.join(2, clients[1].join_request());
    let answer = w.joined(token);
    assert_eq!((answer.generation_id, answer.leader), (1, clients[0].member_id.clone()));
    assert_eq!(w.state(), "Stable");
}

#[test]
fn sessions_start_anew_with_a_restart_and_end() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.advance(9_999);
    w.restart();
    w.advance(9_999);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s112_a_restart_during_a_rebalance_brings_the_generation_before_back() {
    let mut w = World::new();
    let mut clients = w.stable(2);
    w.form(&mut clients);
    assert_eq!(clients[0].generation, 2);
    w.restart();
    assert_eq!(w.state(), "Stable");
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::ILLEGAL_GENERATION);
    clients.iter_mut().for_each(|client| client.generation = 1);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE);
    w.form(&mut clients);
    w.settle(&clients);
}

#[test]
fn s046_a_group_that_comes_back_too_large_rebalances() {
    let mut w = World::new();
    let clients = w.stable(5);
    w.config.max_members_per_group = 3;
    w.restart();
    assert_eq!((w.state().as_str(), w.describe().members.len()), ("PreparingRebalance", 5));
    assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::REBALANCE_IN_PROGRESS));
}

#[test]
fn s045_the_last_to_come_back_to_a_group_over_the_size_are_refused() {
    let mut w = World::new();
    let clients = w.stable(5);
    w.config.max_members_per_group = 3;
    w.restart();
    let tokens: Vec<_> = clients.iter().map(|client| w.join(client.connection, client.join_request())).collect();
    let refused = [w.joined(tokens[3]), w.joined(tokens[4])].map(|answer| (answer.error_code, answer.member_id));
    assert!(refused.iter().all(|it| *it == (ErrorCode::GROUP_MAX_SIZE_REACHED, Text::EMPTY)), "{refused:?}");
    w.advance(REBALANCE_MS as u64);
    assert_eq!(w.joined(tokens[0]).members.len(), 3);
}

#[test]
fn an_emptied_group_stays_empty_and_its_generations_go_on() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.commit(clients[0].commit_request(3));
    w.leave(vec![clients[0].leaving()]);
    w.restart();
    let described = w.describe();
    assert_eq!((described.group_state, described.protocol_type), ("Empty".into(), "consumer".into()));
    assert_eq!(w.offset(), 3);
    assert_eq!(w.form(&mut [Client::new(9)])[0].generation_id, 3);
}

#[test]
fn what_the_gateway_holds_is_counted_the_same_after_a_restart() {
    let mut w = World::new();
    let clients = w.stable(3);
    w.commit(clients[0].commit_request(3));
    let before = (w.totals.groups(), w.totals.members(), w.totals.bytes());
    w.restart();
    assert_eq!((w.totals.groups(), w.totals.members(), w.totals.bytes()), before);
}

#[test]
fn later_records_of_a_key_take_the_place_of_earlier_ones() {
    let mut w = World::new();
    let clients = w.stable(2);
    let one = w.kept.values().find(|record| matches!(record, Record::Group(_))).cloned().unwrap();
    let Record::Group(mut smaller) = one.clone() else { panic!() };
    smaller.members.truncate(1);
    smaller.generation = 7;
    let mut coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    let before = w.totals.members();
    coordinator.load(w.now, one);
    coordinator.load(w.now, Record::Group(smaller));
    assert_eq!((coordinator.member_count(), w.totals.members()), (1, before + 1));
    coordinator.load(w.now, Record::GroupTombstone { group_id: GROUP.into() });
    assert_eq!((coordinator.group_count(), w.totals.members()), (0, before));
    assert_eq!(clients.len(), 2);
}
