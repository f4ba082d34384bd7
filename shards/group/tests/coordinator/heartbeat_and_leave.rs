//! Heartbeats, sessions, and members that leave.

use ringgate_group::request::*;
use ringgate_group::{ErrorCode, Request, Response, Text};

use crate::world::*;

fn heartbeat(w: &mut World, request: HeartbeatRequest) -> ErrorCode {
    let token = w.ask(1, Request::Heartbeat(request));
    let Response::Heartbeat(error) = w.answer(token) else { panic!() };
    error
}

#[test]
fn s076_heartbeats_to_what_is_not_there() {
    let mut w = World::new();
    let request = HeartbeatRequest { group_id: GROUP.into(), ..Default::default() };
    assert_eq!(heartbeat(&mut w, request.clone()), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(
        heartbeat(&mut w, HeartbeatRequest { group_id: Text::EMPTY, ..request.clone() }),
        ErrorCode::INVALID_GROUP_ID
    );
    w.coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    assert_eq!(heartbeat(&mut w, request.clone()), ErrorCode::NONE);
    // A dead group is one that went with the gateway; one that was deleted is not there.
    w.coordinator.finish_loading(w.now);
    w.coordinator.handle_shutdown(w.now);
    assert_eq!(heartbeat(&mut w, request), ErrorCode::COORDINATOR_NOT_AVAILABLE);
}

#[test]
fn s077_heartbeat_in_stable_and_completing_rebalance_is_ok_and_extends_the_session() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    for _ in 0..2 {
        for _ in 0..5 {
            w.advance(9_000);
            assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::NONE));
        }
        if w.state() == "CompletingRebalance" {
            w.settle(&clients);
        }
    }
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s078_heartbeat_in_preparing_rebalance_is_27_and_extends_the_session() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    for _ in 0..6 {
        w.advance(9_000);
        assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
    }
    w.parked(leader);
    let follower = w.join(2, clients[1].join_request());
    assert_eq!(w.joined(follower).generation_id, 2);
}

#[test]
fn s079_another_generation_is_22_also_during_a_rebalance() {
    let mut w = World::new();
    let clients = w.stable(2);
    let other = Client { generation: 9, ..clients[1].clone() };
    assert_eq!(w.heartbeat(&other), ErrorCode::ILLEGAL_GENERATION);
    let _leader = w.join(1, clients[0].join_request());
    assert_eq!(w.heartbeat(&other), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(w.heartbeat(&Client { member_id: "x".into(), ..other }), ErrorCode::UNKNOWN_MEMBER_ID);

    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    w.form(&mut clients);
    for instance in [("a", ErrorCode::FENCED_INSTANCE_ID), ("x", ErrorCode::UNKNOWN_MEMBER_ID)] {
        // The member is looked at before its generation.
        let other = Client { instance: Some(instance.0.into()), generation: 9, ..clients[1].clone() };
        assert_eq!(w.heartbeat(&other), instance.1);
    }
    assert_eq!(w.heartbeat(&Client { generation: 0, ..clients[1].clone() }), ErrorCode::ILLEGAL_GENERATION);
}

#[test]
fn s080_a_member_that_is_silent_for_its_session_is_removed() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.advance(5_000);
    w.heartbeat(&clients[0]);
    w.advance(4_999);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s081_heartbeats_at_half_the_timeout_keep_a_member_and_arm_no_timer_of_their_own() {
    let mut w = World::new();
    let clients = w.stable(1);
    for _ in 0..100 {
        w.advance(SESSION_MS as u64 / 2);
        let before = w.timers.clone();
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
        assert_eq!(w.timers, before);
    }
}

#[test]
fn s082_commits_alone_keep_a_member() {
    let mut w = World::new();
    let clients = w.stable(1);
    for offset in 0..10 {
        w.advance(9_000);
        assert_eq!(w.commit(clients[0].commit_request(offset)), ErrorCode::NONE);
    }
    assert_eq!(w.state(), "Stable");
}

#[test]
fn a_heartbeat_that_was_only_read_extends_the_session_and_is_not_answered() {
    let mut w = World::new();
    let clients = w.stable(1);
    for _ in 0..5 {
        w.advance(9_000);
        w.coordinator.handle_heartbeat_seen(w.now, &clients[0].heartbeat_request());
        w.carry_out();
    }
    assert_eq!((w.state().as_str(), w.answers.len()), ("Stable", 0));
    w.advance(9_000);
    w.coordinator
        .handle_heartbeat_seen(w.now, &HeartbeatRequest { generation_id: 7, ..clients[0].heartbeat_request() });
    w.advance(1_000);
    assert_eq!(w.state(), "Empty");
}

#[test]
fn a_stall_gives_every_session_its_length_again() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.advance(4_000);
    // The shard stands still for a minute: its clock goes on and nothing is read.
    w.now.mono_ms += 60_000;
    w.coordinator.handle_stall(60_000);
    w.advance(5_999);
    assert_eq!(w.describe().members.len(), 2);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s083_unknown_members_are_top_level_errors_up_to_v2_and_their_own_from_v3() {
    for with_group in [false, true] {
        let mut w = World::new();
        if with_group {
            w.stable(1);
        }
        let nobody = LeavingMember { member_id: "x".into(), group_instance_id: None };
        let answer = w.leave_version(2, vec![nobody.clone()]);
        assert_eq!((answer.error_code, answer.members.len()), (ErrorCode::UNKNOWN_MEMBER_ID, 0));
        let answer = w.leave_version(3, vec![nobody]);
        assert_eq!(answer.error_code, ErrorCode::NONE);
        assert_eq!(answer.members[0].error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    }
}

#[test]
fn s084_when_the_last_member_leaves_the_group_is_empty() {
    let mut w = World::new();
    let clients = w.stable(1);
    let answer = w.leave_version(1, vec![clients[0].leaving()]);
    assert_eq!((answer.error_code, answer.members.len()), (ErrorCode::NONE, 0));
    let described = w.describe();
    assert_eq!((described.group_state, described.protocol_type), ("Empty".into(), "consumer".into()));
    // The generation was raised with it, and the protocol is forgotten.
    assert!(w.kept.values().any(|record| {
        matches!(record, ringgate_group::Record::Group(group) if (group.generation, &group.protocol_name) == (2, &None))
    }));
    assert_eq!(w.form(&mut [Client::new(3)])[0].generation_id, 3);
}

#[test]
fn s085_one_of_two_that_leaves_starts_a_rebalance() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.leave(vec![clients[0].leaving()]);
    assert_eq!(w.state(), "PreparingRebalance");
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
    let token = w.join(2, clients[1].join_request());
    assert_eq!(w.joined(token).leader, clients[1].member_id);
}

#[test]
fn s086_leaving_ends_the_join_phase_when_all_others_have_joined() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    w.leave(vec![clients[1].leaving()]);
    assert_eq!(w.joined(leader).members.len(), 1);
}

#[test]
fn s087_a_batch_is_answered_in_order_and_makes_one_rebalance() {
    let mut w = World::new();
    let mut clients = vec![Client::new(1), Client::with_instance(2, "a"), Client::with_instance(3, "b")];
    w.form(&mut clients);
    w.settle(&clients);
    let token = w.join(4, Client::new(4).join_request());
    let pending = w.joined(token).member_id;
    let answer = w.leave(vec![
        LeavingMember { member_id: Text::EMPTY, group_instance_id: Some("a".into()) },
        LeavingMember { member_id: pending, group_instance_id: None },
        LeavingMember { member_id: "x".into(), group_instance_id: None },
        LeavingMember { member_id: "x".into(), group_instance_id: Some("b".into()) },
    ]);
    let errors: Vec<_> = answer.members.iter().map(|member| member.error_code).collect();
    let (unknown, fenced) = (ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::NONE, unknown, fenced]);
    assert_eq!((answer.error_code, w.state().as_str()), (ErrorCode::NONE, "PreparingRebalance"));
    let tokens = [w.join(1, clients[0].join_request()), w.join(3, clients[2].join_request())];
    assert_eq!(tokens.map(|token| w.joined(token).generation_id), [2, 2]);
}

#[test]
fn s088_what_a_leaver_has_parked_is_answered_25() {
    let mut w = World::new();
    let clients = w.stable(2);
    let join = w.join(1, clients[0].join_request());
    w.leave(vec![clients[0].leaving()]);
    let answer = w.joined(join);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, Text::EMPTY));

    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    let sync = w.sync(&clients[1], &[]);
    w.leave(vec![clients[1].leaving()]);
    assert_eq!(w.synced(sync).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s089_a_batch_of_nobody_changes_nothing() {
    let mut w = World::new();
    w.stable(1);
    let answer = w.leave(Vec::new());
    assert_eq!((answer.error_code, answer.members.len()), (ErrorCode::NONE, 0));
    assert_eq!(w.state(), "Stable");
}

#[test]
fn who_names_nobody_that_there_is_leaves_with_25() {
    let mut w = World::new();
    w.stable(1);
    let answer = w.leave(vec![
        LeavingMember { member_id: Text::EMPTY, group_instance_id: None },
        LeavingMember { member_id: Text::EMPTY, group_instance_id: Some("x".into()) },
        LeavingMember { member_id: "x".into(), group_instance_id: Some("x".into()) },
    ]);
    assert!(answer.members.iter().all(|member| member.error_code == ErrorCode::UNKNOWN_MEMBER_ID), "{answer:?}");
    assert_eq!(w.state(), "Stable");
}

#[test]
fn a_given_id_that_leaves_a_stable_group_makes_a_rebalance_as_every_leave_does() {
    let mut w = World::new();
    let clients = w.stable(1);
    let token = w.join(2, Client::new(2).join_request());
    let member_id = w.joined(token).member_id;
    let answer = w.leave(vec![LeavingMember { member_id, group_instance_id: None }]);
    assert_eq!(answer.members[0].error_code, ErrorCode::NONE);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::REBALANCE_IN_PROGRESS);
}
