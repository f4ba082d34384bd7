//! Large groups: their steps go in slices, and others go on meanwhile.

use ringgate_group::request::*;
use ringgate_group::{ConnectionId, Effect, ErrorCode, ReplyToken, Request, Response};

use crate::world::*;

const MEMBERS: usize = 3_000;

/// A group of many members in one step of whose joins everybody is about to be answered.
fn many_joined(w: &mut World) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..MEMBERS).map(|n| Client::new(n as u64)).collect();
    for client in &mut clients {
        client.join_version = 3;
        w.join(client.connection, client.join_request());
    }
    clients
}

#[test]
fn inputs_of_a_group_with_effects_left_queue_behind_them_and_other_groups_go_on() {
    let mut w = World::new();
    many_joined(&mut w);
    let (key, _) =
        w.timers.iter().find(|(key, _)| format!("{key:?}").starts_with("Join")).map(|(k, v)| (*k, *v)).unwrap();
    w.coordinator.handle_timer(w.now, key);
    // The leader is answered first; then the phase is left half answered.
    let mut first = None;
    for _ in 0..MEMBERS {
        if let Some(Effect::Reply { response: Response::Join(answer), .. }) = w.coordinator.poll_effect() {
            first.get_or_insert(answer);
        }
    }
    let leader = first.unwrap();
    assert_eq!((leader.members.len(), leader.leader.clone()), (MEMBERS, leader.member_id.clone()));
    let heartbeat = |group: &str| {
        let group_id = group.into();
        Request::Heartbeat(HeartbeatRequest {
            group_id,
            generation_id: 1,
            member_id: leader.member_id.clone(),
            ..Default::default()
        })
    };
    let (behind, other) = (ReplyToken(1 << 40), ReplyToken(2 << 40));
    w.coordinator.handle_request(w.now, behind, ConnectionId(1), heartbeat(GROUP));
    let commit = OffsetCommitRequest { group_id: "other".into(), ..commit_request(1) };
    w.coordinator.handle_request(w.now, other, ConnectionId(2), Request::OffsetCommit(commit));
    let (mut joins, mut other_at, mut behind_at) = (0, None, None);
    while let Some(effect) = w.coordinator.poll_effect() {
        match effect {
            Effect::Reply { response: Response::Join(_), .. } => joins += 1,
            Effect::Reply { token, response } if token == behind => {
                assert!(matches!(response, Response::Heartbeat(ErrorCode::NONE)));
                behind_at = Some(joins);
            }
            Effect::Persist { id, .. } => w.coordinator.handle_persisted(w.now, id, Ok(())),
            Effect::Reply { token, .. } if token == other => other_at = Some(joins),
            _ => {}
        }
    }
    assert_eq!(behind_at, Some(joins));
    assert!(other_at.unwrap() < joins / 2, "the other group waited for {other_at:?} of {joins} answers");
}

#[test]
fn a_request_that_queues_goes_with_its_connection() {
    let mut w = World::new();
    many_joined(&mut w);
    let (key, _) =
        w.timers.iter().find(|(key, _)| format!("{key:?}").starts_with("Join")).map(|(k, v)| (*k, *v)).unwrap();
    w.coordinator.handle_timer(w.now, key);
    let token = ReplyToken(1 << 40);
    let request = JoinGroupRequest { api_version: 3, ..Client::new(9_999).join_request() };
    w.coordinator.handle_request(w.now, token, ConnectionId(9_999), Request::Join(request));
    w.coordinator.handle_connection_closed(w.now, ConnectionId(9_999));
    w.open += 1;
    w.carry_out();
    assert_eq!(w.joined(token).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.coordinator.member_count(), MEMBERS);
}

#[test]
fn a_large_group_forms_syncs_survives_a_restart_and_leaves() {
    let mut w = World::new();
    let clients = w.stable(MEMBERS);
    w.restart();
    assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::NONE));
    let left = w.leave(clients.iter().map(Client::leaving).collect());
    assert_eq!(left.members.len(), MEMBERS);
    assert!(left.members.iter().all(|member| member.error_code == ErrorCode::NONE));
    assert_eq!((w.state().as_str(), w.totals.members()), ("Empty", 0));
    assert!(w.timers.is_empty(), "{:?}", w.timers);
}
