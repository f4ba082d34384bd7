//! Large groups: their steps go in slices, and others go on meanwhile.

use ringgate_group::request::*;
use ringgate_group::{ConnectionId, Effect, ErrorCode, Record, ReplyToken, Request, Response};

use crate::consumer_world::*;
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

/// Members of a group, of which no step may look at all in one go.
const MANY: usize = 600;

#[track_caller]
fn assert_in_slices(w: &World) {
    assert!(w.most_visits < MANY as u64 / 2, "{} looks at members in one go", w.most_visits);
}

#[test]
fn a_classic_group_lives_and_ends_in_slices() {
    let mut w = World::new();
    let mut clients = w.stable(MANY);
    w.describe();
    clients[0].protocols = vec![protocol("range", &["u"])];
    w.form(&mut clients);
    w.settle(&clients);
    w.leave(clients.iter().map(Client::leaving).collect());
    assert_eq!(w.state(), "Empty");
    assert_in_slices(&w);
}

#[test]
fn a_static_member_that_comes_back_with_another_order_of_names_has_the_group_asked_in_slices() {
    let mut w = World::new();
    let both = |first: &str, second: &str| vec![protocol(first, &["t"]), protocol(second, &["t"])];
    let mut clients: Vec<Client> = (1..MANY as u64).map(Client::new).collect();
    clients.push(Client::with_instance(MANY as u64, "fixed"));
    clients.iter_mut().for_each(|client| client.protocols = both("range", "roundrobin"));
    w.form(&mut clients);
    w.settle(&clients);
    w.most_visits = 0;
    let again = Client { protocols: both("roundrobin", "range"), ..Client::with_instance(MANY as u64, "fixed") };
    let token = w.join(MANY as u64, again.join_request());
    let joined = w.joined(token);
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, 1));
    assert_ne!(joined.member_id, clients[MANY - 1].member_id);
    assert_eq!(w.state(), "Stable", "the others still choose the same");
    assert_in_slices(&w);
}

#[test]
fn a_static_member_whose_connection_closes_while_the_group_is_asked_is_not_waited_for_there() {
    let mut w = World::new();
    let both = |first: &str, second: &str| vec![protocol(first, &["t"]), protocol(second, &["t"])];
    let mut clients = vec![Client::with_instance(1, "fixed"), Client::new(2)];
    (clients[0].protocols, clients[1].protocols) = (both("range", "roundrobin"), both("roundrobin", "range"));
    assert_eq!(w.form(&mut clients)[0].protocol_name, Some("range".into()));
    w.settle(&clients);
    let again = Client { protocols: both("roundrobin", "range"), ..Client::with_instance(3, "fixed") };
    let token = ReplyToken(1 << 40);
    w.coordinator.handle_request(w.now, token, ConnectionId(3), Request::Join(again.join_request()));
    w.coordinator.handle_connection_closed(w.now, ConnectionId(3));
    w.open += 1;
    w.carry_out();
    assert_eq!(w.joined(token).error_code, ErrorCode::REBALANCE_IN_PROGRESS, "it was parked and withdrawn");
    assert_eq!((w.state().as_str(), w.coordinator.member_count()), ("PreparingRebalance", 2));
}

#[test]
fn a_consumer_group_becomes_a_classic_one_in_slices() {
    let mut w = World::new();
    let mut known = Known::default();
    known.set(&mut w, "t", 8);
    let mut last = Consumer::new("last", &["t"]);
    last.join(&mut w);
    let clients: Vec<Client> =
        (0..MANY).map(|n| Client { member_id: format!("c{n:04}").into(), ..Client::new(n as u64) }).collect();
    for client in &clients {
        let token = w.join(client.connection, client.join_request());
        assert_eq!(w.joined(token).error_code, ErrorCode::NONE);
    }
    let before = w.totals.members();
    w.most_visits = 0;
    assert_eq!(w.beat_error(last.leaving(-1)), 0);
    assert_eq!((w.state().as_str(), w.totals.members()), ("PreparingRebalance", before - 1));
    assert_eq!((w.describe().members.len(), w.coordinator.member_count()), (MANY, MANY));
    assert_in_slices(&w);
    w.restart();
    known.tell(&mut w);
    assert_eq!((w.state().as_str(), w.coordinator.member_count()), ("Stable", MANY));
    let of_members = w.kept.values().filter(|record| matches!(record, Record::ConsumerMember { .. })).count();
    assert_eq!(of_members, 0, "nothing is left of the consumer group");
    let first = w.describe().members.swap_remove(0);
    assert_eq!(first.member_id, clients[0].member_id, "in the order in which they came");
}
