//! Assignments: who waits for whom, and what happens when they cannot be kept.

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::{ErrorCode, ReplyToken, Request, StoreError, Text};

use crate::world::*;

/// A group of this many in CompletingRebalance; the first leads.
fn completing(w: &mut World, members: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..members).map(|n| Client::new(n as u64 + 1)).collect();
    w.form(&mut clients);
    clients
}

fn error(w: &mut World, token: ReplyToken) -> ErrorCode {
    w.synced(token).error_code
}

#[test]
fn s061_unknown_groups_members_and_generations() {
    let mut w = World::new();
    let clients = w.stable(1);
    let base = clients[0].sync_request(&[]);
    let cases = [
        (SyncGroupRequest { group_id: "other".into(), ..base.clone() }, ErrorCode::UNKNOWN_MEMBER_ID),
        (SyncGroupRequest { member_id: "other".into(), ..base.clone() }, ErrorCode::UNKNOWN_MEMBER_ID),
        (SyncGroupRequest { generation_id: 2, ..base.clone() }, ErrorCode::ILLEGAL_GENERATION),
        (SyncGroupRequest { group_id: Text::EMPTY, ..base }, ErrorCode::INVALID_GROUP_ID),
    ];
    for (request, expected) in cases {
        let token = w.ask(1, Request::Sync(request));
        let answer = w.synced(token);
        assert_eq!((answer.error_code, answer.protocol_type, answer.assignment), (expected, None, Bytes::new()));
    }
}

#[test]
fn s062_protocol_type_and_name_must_be_there_from_v5_and_right_where_they_are() {
    let mut w = World::new();
    let clients = w.stable(1);
    let base = clients[0].sync_request(&[]);
    let cases = [
        (SyncGroupRequest { protocol_type: None, ..base.clone() }, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (SyncGroupRequest { protocol_name: None, ..base.clone() }, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (SyncGroupRequest { protocol_type: Some("x".into()), ..base.clone() }, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (SyncGroupRequest { protocol_name: Some("x".into()), ..base.clone() }, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (SyncGroupRequest { api_version: 4, protocol_type: None, protocol_name: None, ..base }, ErrorCode::NONE),
    ];
    for (request, expected) in cases {
        let token = w.ask(1, Request::Sync(request));
        assert_eq!(error(&mut w, token), expected);
    }
}

#[test]
fn s063_a_follower_waits_for_the_leader() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    let follower = w.sync(&clients[1], &[]);
    w.parked(follower);
    let leader = w.sync(&clients[0], &[(&clients[0].member_id, "x"), (&clients[1].member_id, "y")]);
    let (leader, follower) = (w.synced(leader), w.synced(follower));
    assert_eq!((leader.assignment, follower.assignment), ("x".into(), "y".into()));
    assert_eq!((follower.protocol_type, follower.protocol_name), (Some("consumer".into()), Some("range".into())));
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s064_a_follower_after_the_leader_is_answered_at_once() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    let leader = w.sync(&clients[0], &[(&clients[1].member_id, "y")]);
    assert_eq!(error(&mut w, leader), ErrorCode::NONE);
    let follower = w.sync(&clients[1], &[]);
    assert_eq!(w.synced(follower).assignment, "y");
}

#[test]
fn nothing_is_answered_before_the_assignments_are_kept() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    w.store = Store::Waits;
    let tokens = [w.sync(&clients[1], &[]), w.sync(&clients[0], &[(&clients[1].member_id, "y")])];
    tokens.iter().for_each(|token| w.parked(*token));
    assert_eq!(w.state(), "CompletingRebalance");
    w.complete_all(Ok(()));
    assert_eq!(tokens.map(|token| error(&mut w, token)), [ErrorCode::NONE; 2]);
}

#[test]
fn s065_who_is_left_out_gets_nothing_and_not_what_it_had() {
    let mut w = World::new();
    let mut clients = w.stable(2);
    w.form(&mut clients);
    let leader = w.sync(&clients[0], &[(&clients[0].member_id, "x")]);
    assert_eq!(w.synced(leader).assignment, "x");
    let follower = w.sync(&clients[1], &[]);
    let answer = w.synced(follower);
    assert_eq!((answer.error_code, answer.assignment), (ErrorCode::NONE, Bytes::new()));
}

#[test]
fn s066_assignments_for_strangers_are_ignored_and_not_counted() {
    let mut w = World::new();
    let clients = completing(&mut w, 1);
    let bytes = w.totals.bytes();
    let leader = w.sync(&clients[0], &[(&Text::from("stranger"), "xyz"), (&clients[0].member_id, "ab")]);
    assert_eq!(w.synced(leader).assignment, "ab");
    assert_eq!(w.totals.bytes(), bytes + 2);
}

#[test]
fn s067_assignments_of_a_follower_are_ignored() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    let follower = w.sync(&clients[1], &[(&clients[1].member_id, "mine")]);
    w.parked(follower);
    let leader = w.sync(&clients[0], &[]);
    assert_eq!(w.synced(leader).assignment, "");
    assert_eq!(w.synced(follower).assignment, "");
}

#[test]
fn s068_a_sync_while_preparing_is_27() {
    let mut w = World::new();
    let clients = w.stable(2);
    let join = w.join(1, clients[0].join_request());
    let token = w.sync(&clients[1], &[]);
    assert_eq!(error(&mut w, token), ErrorCode::REBALANCE_IN_PROGRESS);
    w.parked(join);
}

#[test]
fn s069_a_leader_that_syncs_again_gets_the_old_assignment() {
    let mut w = World::new();
    let clients = w.stable(1);
    let token = w.sync(&clients[0], &[(&clients[0].member_id, "new")]);
    assert_eq!(w.synced(token).assignment, "a0");
}

#[test]
fn s070_when_nobody_syncs_the_group_empties() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    for _ in 0..12 {
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
        assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE);
        w.advance(5_000);
    }
    assert_eq!((w.state().as_str(), w.totals.members()), ("Empty", 0));
    assert_eq!(w.form(&mut [Client::new(3)])[0].generation_id, 3);
}

#[test]
fn s071_a_follower_that_never_syncs_is_removed_from_a_stable_group() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    let leader = w.sync(&clients[0], &[]);
    assert_eq!(error(&mut w, leader), ErrorCode::NONE);
    for _ in 0..12 {
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
        assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE);
        w.advance(5_000);
    }
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s072_a_leader_that_never_syncs_is_removed() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    clients[0].session_ms = 300_000;
    w.form(&mut clients);
    let follower = w.sync(&clients[1], &[]);
    w.advance(REBALANCE_MS as u64);
    assert_eq!(error(&mut w, follower), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(w.describe().members.len(), 1);
}

#[test]
fn s073_when_everybody_has_synced_no_timer_is_left_but_sessions() {
    let mut w = World::new();
    let clients = w.stable(2);
    assert_eq!(w.timers.len(), 2);
    for _ in 0..20 {
        w.advance(5_000);
        assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::NONE));
    }
}

#[test]
fn s074_a_write_that_fails_is_told_to_all_that_wait_and_a_rebalance_follows() {
    for (why, code) in [
        (StoreError::Unavailable, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (StoreError::NotOwner, ErrorCode::NOT_COORDINATOR),
        (StoreError::TooLarge, ErrorCode::UNKNOWN_SERVER_ERROR),
    ] {
        let mut w = World::new();
        let mut clients = completing(&mut w, 2);
        w.store = Store::Fails(why);
        let tokens = [w.sync(&clients[1], &[]), w.sync(&clients[0], &[(&clients[1].member_id, "y")])];
        assert_eq!(tokens.map(|token| error(&mut w, token)), [code; 2]);
        assert_eq!(w.state(), "PreparingRebalance");
        w.store = Store::Keeps;
        assert_eq!(w.form(&mut clients)[0].generation_id, 2);
        w.settle(&clients);
    }
}

#[test]
fn s075_a_member_that_joins_while_the_assignments_are_written_sends_all_back() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    w.store = Store::Waits;
    let tokens = [w.sync(&clients[1], &[]), w.sync(&clients[0], &[])];
    let join = w.enter(&mut Client::new(3));
    assert_eq!(tokens.map(|token| error(&mut w, token)), [ErrorCode::REBALANCE_IN_PROGRESS; 2]);
    w.complete_all(Ok(()));
    assert_eq!(w.state(), "PreparingRebalance");
    w.parked(join);
}

#[test]
fn a_leader_that_syncs_twice_before_the_first_is_kept_is_answered_for_the_second() {
    let mut w = World::new();
    let clients = completing(&mut w, 1);
    w.store = Store::Waits;
    let first = w.sync(&clients[0], &[(&clients[0].member_id, "x")]);
    let second = w.sync(&clients[0], &[(&clients[0].member_id, "y")]);
    assert_eq!(error(&mut w, first), ErrorCode::REBALANCE_IN_PROGRESS);
    w.complete(Ok(()));
    w.carry_out();
    w.parked(second);
    w.complete(Ok(()));
    w.carry_out();
    assert_eq!(w.synced(second).assignment, "y");
}

#[test]
fn a_closed_connection_withdraws_its_sync_and_the_member_has_its_session_to_come_back() {
    let mut w = World::new();
    let clients = completing(&mut w, 2);
    w.advance(9_000);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    let follower = w.sync(&clients[1], &[]);
    w.close(2);
    w.answer(follower);
    w.advance(9_000);
    let leader = w.sync(&clients[0], &[(&clients[1].member_id, "y")]);
    assert_eq!(error(&mut w, leader), ErrorCode::NONE);
    let again = w.sync(&clients[1], &[]);
    assert_eq!(w.synced(again).assignment, "y");
}

#[test]
fn a_sync_in_a_stable_group_does_not_extend_the_session() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.advance(SESSION_MS as u64 - 1);
    let token = w.sync(&clients[0], &[]);
    assert_eq!(error(&mut w, token), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.state(), "Empty");
}

#[test]
fn a_member_that_waits_for_its_assignment_is_alive_and_has_its_whole_session_after_it() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    let follower = w.sync(&clients[1], &[]);
    for _ in 0..4 {
        w.advance(9_000);
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    }
    w.parked(follower);
    let leader = w.sync(&clients[0], &[]);
    assert_eq!((error(&mut w, leader), error(&mut w, follower)), (ErrorCode::NONE, ErrorCode::NONE));
    w.advance(SESSION_MS as u64 - 1);
    assert_eq!(w.describe().members.len(), 2);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE);
}

#[test]
fn a_sync_is_checked_in_the_order_of_kafka() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    w.form(&mut clients);
    w.settle(&clients);
    let base = clients[1].sync_request(&[]);
    let wrong_generation = SyncGroupRequest { generation_id: 9, protocol_name: Some("x".into()), ..base.clone() };
    let cases = [
        // A missing protocol is seen before the group's name is, ...
        (
            SyncGroupRequest { protocol_type: None, group_id: Text::EMPTY, ..base.clone() },
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        ),
        // ... an instance before the generation, ...
        (
            SyncGroupRequest { group_instance_id: Some("x".into()), ..wrong_generation.clone() },
            ErrorCode::UNKNOWN_MEMBER_ID,
        ),
        (
            SyncGroupRequest { group_instance_id: Some("a".into()), ..wrong_generation.clone() },
            ErrorCode::FENCED_INSTANCE_ID,
        ),
        // ... and the generation before the protocol.
        (wrong_generation, ErrorCode::ILLEGAL_GENERATION),
    ];
    for (request, expected) in cases {
        let token = w.ask(2, Request::Sync(request));
        assert_eq!(error(&mut w, token), expected);
    }
    let join = w.join(1, clients[0].join_request());
    let request = SyncGroupRequest { protocol_name: Some("x".into()), ..base.clone() };
    let token = w.ask(2, Request::Sync(request));
    assert_eq!(error(&mut w, token), ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "also before the state");
    w.parked(join);
    w.coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    let token = w.ask(2, Request::Sync(base));
    assert_eq!(error(&mut w, token), ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
}
