//! Joining: first joins, ids, the initial delay, pending members, the size of a group.

use ringgate_group::request::*;
use ringgate_group::{ErrorCode, Request, Response, Text};

use crate::world::*;

#[test]
fn s001_the_first_one_step_join_leads_generation_1_after_the_initial_delay() {
    let mut w = World::with(|_| {});
    let token = w.join(1, JoinGroupRequest { api_version: 3, ..Client::new(1).join_request() });
    w.advance(2_999);
    w.parked(token);
    w.advance(1);
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.generation_id), (ErrorCode::NONE, 1));
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(answer.members.len(), 1);
    assert_eq!(answer.protocol_name, Some("range".into()));
    assert_eq!(answer.members[0].metadata, protocol("range", &["t"]).metadata);
}

#[test]
fn s002_a_join_without_id_is_given_one_and_the_group_is_empty() {
    let mut w = World::new();
    let token = w.join(1, Client::new(1).join_request());
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.generation_id), (ErrorCode::MEMBER_ID_REQUIRED, -1));
    assert!(answer.member_id.as_str().starts_with("client-"));
    assert_eq!(w.state(), "Empty");
}

#[test]
fn s003_the_id_that_was_given_joins() {
    let mut w = World::new();
    let mut client = Client::new(1);
    let answers = w.form(std::slice::from_mut(&mut client));
    assert_eq!(answers[0].generation_id, 1);
    assert_eq!(answers[0].leader, client.member_id);
    assert_eq!(answers[0].protocol_name, Some("range".into()));
    assert_eq!(answers[0].protocol_type, Some("consumer".into()));
    assert!(!answers[0].skip_assignment);
}

#[test]
fn s004_a_made_up_id_does_not_make_a_group() {
    let mut w = World::new();
    let token = w.join(1, JoinGroupRequest { member_id: "mine".into(), ..Client::new(1).join_request() });
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, "mine".into()));
    assert_eq!(w.coordinator.group_count(), 0);
}

#[test]
fn s005_a_made_up_id_is_unknown_to_a_group() {
    let mut w = World::new();
    w.stable(1);
    let token = w.join(1, JoinGroupRequest { member_id: "mine".into(), ..Client::new(1).join_request() });
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, "mine".into()));
}

#[test]
fn s006_a_group_id_is_not_empty() {
    let mut w = World::new();
    let token = w.join(1, JoinGroupRequest { group_id: Text::EMPTY, ..Client::new(1).join_request() });
    assert_eq!(w.joined(token).error_code, ErrorCode::INVALID_GROUP_ID);
}

#[test]
fn s007_session_timeouts_outside_the_bounds_are_refused_and_those_on_them_are_not() {
    let mut w = World::new();
    let answers = [5_999, 6_000, 1_800_000, 1_800_001].map(|session_timeout_ms| {
        let token = w.join(1, JoinGroupRequest { session_timeout_ms, ..Client::new(1).join_request() });
        w.joined(token).error_code
    });
    let (ok, refused) = (ErrorCode::MEMBER_ID_REQUIRED, ErrorCode::INVALID_SESSION_TIMEOUT);
    assert_eq!(answers, [refused, ok, ok, refused]);
}

#[test]
fn s008_an_empty_group_takes_no_member_without_protocols_or_type() {
    let mut w = World::new();
    for request in [
        JoinGroupRequest { protocols: Vec::new(), ..Client::new(1).join_request() },
        JoinGroupRequest { protocol_type: Text::EMPTY, ..Client::new(1).join_request() },
    ] {
        let token = w.join(1, request);
        assert_eq!(w.joined(token).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
}

#[test]
fn s009_another_protocol_type_is_inconsistent() {
    let mut w = World::new();
    w.stable(1);
    let token = w.join(2, JoinGroupRequest { protocol_type: "connect".into(), ..Client::new(2).join_request() });
    assert_eq!(w.joined(token).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn s010_a_protocol_must_be_common_to_all() {
    let mut w = World::new();
    let mut clients = w.stable(1);
    let mut second = Client::new(2);
    second.protocols = vec![protocol("roundrobin", &["t"])];
    let token = w.join(2, second.join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    second.protocols.push(protocol("range", &["t"]));
    clients.insert(0, second);
    assert!(w.form(&mut clients).iter().all(|answer| answer.protocol_name == Some("range".into())));
}

#[test]
fn s011_the_protocol_with_most_votes_is_chosen() {
    let mut w = World::new();
    let (a, b) = (protocol("a", &["t"]), protocol("b", &["t"]));
    let mut clients: Vec<Client> = (1..=3).map(Client::new).collect();
    clients[0].protocols = vec![a.clone(), b.clone()];
    clients[1].protocols = vec![b.clone(), a.clone()];
    clients[2].protocols = vec![b, a];
    assert!(w.form(&mut clients).iter().all(|answer| answer.protocol_name == Some("b".into())));
}

#[test]
fn of_protocols_with_equal_votes_the_first_in_join_order_is_chosen() {
    let mut w = World::new();
    let (a, b) = (protocol("a", &["t"]), protocol("b", &["t"]));
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    clients[0].protocols = vec![b.clone(), a.clone()];
    clients[1].protocols = vec![a, b];
    assert_eq!(w.form(&mut clients)[0].protocol_name, Some("b".into()));
}

#[test]
fn s012_errors_carry_an_empty_protocol_name_up_to_v6_and_none_from_v7() {
    let mut w = World::new();
    for (api_version, name) in [(0, Some(Text::EMPTY)), (6, Some(Text::EMPTY)), (7, None), (9, None)] {
        let request = JoinGroupRequest { api_version, member_id: "mine".into(), ..Client::new(1).join_request() };
        let token = w.join(1, request);
        let answer = w.joined(token);
        assert_eq!((answer.protocol_name, answer.protocol_type), (name, None));
    }
}

/// That this is not the owner (16) is said by a gateway that stops to what is parked: s113.
#[test]
fn s013_joins_wait_for_loading_and_end_with_the_gateway() {
    let mut w = World::new();
    w.coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    let token = w.join(1, Client::new(1).join_request());
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, Text::EMPTY));
    w.coordinator.finish_loading(w.now);
    w.coordinator.handle_shutdown(w.now);
    let token = w.join(1, Client::new(1).join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
}

/// Kafka answers 15 while a group is dead. Here a group is dead between its deletion and the moment at which
/// that is kept; what comes meanwhile waits for that moment, and meets no group.
#[test]
fn s014_a_join_of_a_dead_group_waits_for_its_end_and_meets_no_group() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.leave(clients.iter().map(Client::leaving).collect());
    w.store = Store::Waits;
    let deletion = w.ask(9, Request::DeleteGroup(DeleteGroupRequest { group_id: GROUP.into() }));
    let known = w.join(1, clients[0].join_request());
    let new = w.join(3, JoinGroupRequest { api_version: 3, ..Client::new(3).join_request() });
    w.parked(known);
    w.complete_all(Ok(()));
    assert!(matches!(w.answer(deletion), Response::DeleteGroup(ErrorCode::NONE)));
    let answer = w.joined(known);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, clients[0].member_id.clone()));
    w.advance(0);
    assert_eq!(w.joined(new).generation_id, 1);

    // With the gateway every group is dead: that is 15, to the new and to the known.
    w.coordinator.handle_shutdown(w.now);
    w.carry_out();
    for request in [clients[0].join_request(), Client::new(4).join_request()] {
        let member_id = request.member_id.clone();
        let token = w.join(4, request);
        let answer = w.joined(token);
        assert_eq!((answer.error_code, answer.member_id), (ErrorCode::COORDINATOR_NOT_AVAILABLE, member_id));
    }
}

#[test]
fn s015_an_id_of_a_group_that_emptied_is_unknown() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.leave(vec![clients[0].leaving()]);
    let token = w.join(1, clients[0].join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s016_an_id_that_was_given_out_does_not_join_with_an_instance() {
    let mut w = World::new();
    let token = w.join(1, Client::new(1).join_request());
    let member_id = w.joined(token).member_id;
    let request = JoinGroupRequest { member_id, group_instance_id: Some("i".into()), ..Client::new(1).join_request() };
    let token = w.join(1, request);
    assert_eq!(w.joined(token).error_code, ErrorCode::UNKNOWN_SERVER_ERROR);
    w.stable(1);
}

#[test]
fn s017_one_member_is_answered_at_the_end_of_the_initial_delay_and_not_before() {
    let mut w = World::with(|_| {});
    let token = w.enter(&mut Client::new(1));
    w.advance(2_999);
    w.parked(token);
    assert_eq!(w.state(), "PreparingRebalance");
    w.advance(1);
    assert_eq!(w.joined(token).generation_id, 1);
    assert_eq!(w.state(), "CompletingRebalance");
}

#[test]
fn s018_a_second_member_extends_the_initial_delay() {
    let mut w = World::with(|_| {});
    let first = w.enter(&mut Client::new(1));
    w.advance(2_000);
    let second = w.enter(&mut Client::new(2));
    w.advance(3_999);
    w.parked(first);
    w.advance(1);
    let (first, second) = (w.joined(first), w.joined(second));
    assert_eq!((first.generation_id, second.generation_id), (1, 1));
    assert_eq!((first.members.len(), second.members.len()), (2, 0));
}

#[test]
fn s019_members_that_keep_coming_do_not_delay_past_the_rebalance_timeout() {
    let mut w = World::with(|_| {});
    let mut tokens = Vec::new();
    for n in 0..6 {
        let mut client = Client::new(n);
        client.rebalance_ms = 6_000;
        tokens.push(w.enter(&mut client));
        w.advance(999);
        w.parked(tokens[0]);
        w.advance(1);
    }
    for token in tokens {
        assert_eq!(w.joined(token).generation_id, 1);
    }
}

#[test]
fn s020_a_rebalance_timeout_below_the_delay_does_not_shorten_it() {
    let mut w = World::with(|_| {});
    let mut client = Client::new(1);
    client.rebalance_ms = 1_000;
    let token = w.enter(&mut client);
    w.advance(2_999);
    w.parked(token);
    w.advance(1);
    assert_eq!(w.joined(token).generation_id, 1);
}

#[test]
fn s021_leaving_does_not_end_the_initial_delay() {
    let mut w = World::with(|_| {});
    let first = w.enter(&mut Client::new(1));
    let mut second = Client::new(2);
    let left = w.enter(&mut second);
    w.leave(vec![second.leaving()]);
    assert_eq!(w.joined(left).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    w.parked(first);
    w.advance(6_000);
    assert_eq!(w.joined(first).members.len(), 1);
}

#[test]
fn s022_ids_that_have_not_joined_do_not_extend_the_delay() {
    let mut w = World::with(|_| {});
    let first = w.enter(&mut Client::new(1));
    w.advance(1_000);
    let pending = w.join(2, Client::new(2).join_request());
    assert_eq!(w.joined(pending).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    w.advance(2_000);
    assert_eq!(w.joined(first).generation_id, 1);
}

#[test]
fn s036_an_id_that_never_joins_a_stable_group_disturbs_nobody() {
    let mut w = World::new();
    let clients = w.stable(1);
    let pending = w.join(2, Client::new(2).join_request());
    let member_id = w.joined(pending).member_id;
    assert_eq!(w.totals.members(), 2);
    w.advance(SESSION_MS as u64 - 1);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.totals.members(), 1);
    assert_eq!((w.state().as_str(), w.heartbeat(&clients[0])), ("Stable", ErrorCode::NONE));
    let token = w.join(2, JoinGroupRequest { member_id, ..Client::new(2).join_request() });
    assert_eq!(w.joined(token).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

/// A group in PreparingRebalance in which only an id that was given out is missing.
fn waiting_for_pending(w: &mut World) -> (Vec<Client>, ringgate_group::ReplyToken, Client) {
    let mut clients = w.stable(1);
    let mut pending = Client::new(2);
    let token = w.join(2, pending.join_request());
    pending.member_id = w.joined(token).member_id;
    // The leader's join starts a rebalance.
    let token = w.join(1, clients[0].join_request());
    w.parked(token);
    clients.truncate(1);
    (clients, token, pending)
}

#[test]
fn s037_the_join_phase_ends_when_the_last_given_id_joins() {
    let mut w = World::new();
    let (_, leader, pending) = waiting_for_pending(&mut w);
    let second = w.join(2, pending.join_request());
    assert_eq!(w.joined(leader).generation_id, 2);
    assert_eq!(w.joined(second).generation_id, 2);
}

#[test]
fn s038_the_join_phase_ends_when_the_last_given_id_expires() {
    let mut w = World::new();
    let (_, leader, _) = waiting_for_pending(&mut w);
    w.advance(SESSION_MS as u64 - 1);
    w.parked(leader);
    w.advance(1);
    assert_eq!(w.joined(leader).generation_id, 2);
}

#[test]
fn s039_an_id_that_was_given_out_can_leave_once() {
    let mut w = World::new();
    let (_, leader, pending) = waiting_for_pending(&mut w);
    assert_eq!(w.leave(vec![pending.leaving()]).members[0].error_code, ErrorCode::NONE);
    assert_eq!(w.joined(leader).generation_id, 2);
    assert_eq!(w.leave(vec![pending.leaving()]).members[0].error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s040_an_id_that_was_given_out_is_no_member() {
    let mut w = World::new();
    let clients = w.stable(1);
    let mut pending = Client::new(2);
    let token = w.join(2, pending.join_request());
    pending.member_id = w.joined(token).member_id;
    pending.generation = clients[0].generation;
    assert_eq!(w.heartbeat(&pending), ErrorCode::UNKNOWN_MEMBER_ID);
    let token = w.sync(&pending, &[]);
    assert_eq!(w.synced(token).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(w.commit(pending.commit_request(1)), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s041_a_new_member_is_given_up_after_five_minutes_of_waiting() {
    let mut w = World::new();
    let mut clients = w.stable(1);
    w.advance(3_000);
    clients[0].rebalance_ms = 1_800_000;
    let leader = w.join(1, clients[0].join_request());
    let answer = w.joined(leader);
    assert_eq!(answer.error_code, ErrorCode::NONE);
    clients[0].takes(&answer);
    w.settle(&clients);
    let second = w.enter(&mut Client::new(2));
    for _ in 0..100 {
        w.advance(2_999);
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::REBALANCE_IN_PROGRESS);
    }
    w.parked(second);
    w.advance(100);
    let answer = w.joined(second);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, Text::EMPTY));
    assert_eq!(w.totals.members(), 1);
}

#[test]
fn s042_a_member_that_waits_longer_than_its_session_is_alive() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    for _ in 0..8 {
        w.advance(5_000);
        assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
    }
    w.parked(leader);
    let follower = w.join(2, clients[1].join_request());
    assert_eq!(w.joined(leader).members.len(), 2);
    assert_eq!(w.joined(follower).generation_id, 2);
    // And its session starts anew with the answer.
    w.advance(SESSION_MS as u64 - 1);
    assert_eq!(w.describe().members.len(), 2);
}

#[test]
fn s043_a_one_step_join_over_the_size_is_refused() {
    let mut w = World::with(|config| config.max_members_per_group = 10);
    let tokens: Vec<_> =
        (0..11).map(|n| w.join(n, JoinGroupRequest { api_version: 3, ..Client::new(n).join_request() })).collect();
    let refused = w.joined(tokens[10]);
    assert_eq!((refused.error_code, refused.member_id), (ErrorCode::GROUP_MAX_SIZE_REACHED, Text::EMPTY));
    w.advance(6_000);
    assert!(tokens[..10].iter().all(|token| w.joined(*token).error_code == ErrorCode::NONE));
}

#[test]
fn s044_given_ids_reserve_no_place() {
    let mut w = World::with(|config| config.max_members_per_group = 10);
    let mut clients: Vec<Client> = (0..11).map(Client::new).collect();
    for client in &mut clients {
        let token = w.join(client.connection, client.join_request());
        client.member_id = w.joined(token).member_id;
    }
    let tokens: Vec<_> = clients.iter().map(|client| w.join(client.connection, client.join_request())).collect();
    assert_eq!(w.joined(tokens[10]).error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    w.advance(6_000);
    assert!(tokens[..10].iter().all(|token| w.joined(*token).error_code == ErrorCode::NONE));
    assert_eq!(w.totals.members(), 10);
}

#[test]
fn a_closed_connection_takes_its_new_members_and_given_ids_along() {
    let mut w = World::new();
    let clients = w.stable(1);
    let mut second = Client::new(2);
    let parked = w.enter(&mut second);
    let given = w.join(2, Client::new(2).join_request());
    assert_eq!(w.joined(given).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    let leader = w.join(1, clients[0].join_request());
    w.parked(leader);
    w.close(2);
    assert_eq!(w.joined(parked).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.joined(leader).members.len(), 1);
    assert_eq!((w.totals.members(), w.open), (1, 0));
}

#[test]
fn a_closed_connection_withdraws_the_join_of_a_known_member_which_may_come_back() {
    let mut w = World::new();
    let clients = w.stable(2);
    let follower =
        w.join(2, JoinGroupRequest { protocols: vec![protocol("range", &["u"])], ..clients[1].join_request() });
    w.parked(follower);
    w.close(2);
    w.answer(follower);
    let leader = w.join(1, clients[0].join_request());
    w.parked(leader);
    w.advance(SESSION_MS as u64 - 1);
    w.parked(leader);
    let again = w.join(3, clients[1].join_request());
    assert_eq!(w.joined(leader).members.len(), 2);
    assert_eq!(w.joined(again).generation_id, 2);
}

#[test]
fn a_closed_connection_of_another_member_changes_nothing() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    w.close(2);
    w.parked(leader);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn s113_what_is_parked_is_answered_16_when_the_gateway_stops() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    let sync = w.sync(&clients[1], &[]);
    let mut other = Client::new(3).join_request();
    other.group_id = "other".into();
    other.api_version = 3;
    let join = w.join(3, other);
    w.coordinator.handle_shutdown(w.now);
    w.carry_out();
    assert_eq!(w.synced(sync).error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(w.joined(join).error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(w.open, 0);
    let token = w.ask(1, Request::Heartbeat(clients[0].heartbeat_request()));
    assert!(matches!(w.answer(token), Response::Heartbeat(ErrorCode::COORDINATOR_NOT_AVAILABLE)));
}

#[test]
fn an_id_that_nobody_gave_out_with_protocols_that_nobody_has_is_inconsistent_first() {
    let mut w = World::new();
    w.stable(1);
    let request = JoinGroupRequest {
        member_id: "mine".into(),
        protocols: vec![protocol("other", &["t"])],
        ..Client::new(2).join_request()
    };
    let token = w.join(2, request);
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.member_id), (ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "mine".into()));
}

#[test]
fn the_initial_delay_ends_when_an_id_that_expires_leaves_only_those_that_have_joined() {
    let mut w = World::with(|config| config.initial_rebalance_delay = std::time::Duration::from_secs(30));
    let first = w.enter(&mut Client::new(1));
    let pending = w.join(2, Client::new(2).join_request());
    assert_eq!(w.joined(pending).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    w.advance(SESSION_MS as u64 - 1);
    w.parked(first);
    w.advance(1);
    assert_eq!(w.joined(first).generation_id, 1);
}

#[test]
fn a_join_phase_that_ends_by_its_timeout_waits_for_no_given_id_which_may_still_join_later() {
    let mut w = World::new();
    let clients = w.stable(1);
    let mut late = Client { session_ms: 300_000, ..Client::new(2) };
    let token = w.join(2, late.join_request());
    late.member_id = w.joined(token).member_id;
    let leader = w.join(1, clients[0].join_request());
    w.advance(REBALANCE_MS as u64 - 1);
    w.parked(leader);
    w.advance(1);
    let answer = w.joined(leader);
    assert_eq!((answer.generation_id, answer.members.len()), (2, 1));
    let second = w.join(2, late.join_request());
    let leader = w.join(1, clients[0].join_request());
    assert_eq!((w.joined(leader).members.len(), w.joined(second).generation_id), (2, 3));
}

#[test]
fn when_the_only_member_leaves_a_given_id_holds_up_nothing() {
    let mut w = World::new();
    let clients = w.stable(1);
    let mut second = Client::new(2);
    let token = w.join(2, second.join_request());
    second.member_id = w.joined(token).member_id;
    w.leave(vec![clients[0].leaving()]);
    w.advance(0);
    assert_eq!(w.state(), "Empty");
    let token = w.join(2, second.join_request());
    w.advance(0);
    let answer = w.joined(token);
    assert_eq!((answer.generation_id, answer.leader), (3, second.member_id));
}

#[test]
fn a_group_that_emptied_begins_anew_with_another_type_and_the_initial_delay() {
    let mut w = World::with(|_| {});
    for (generation, protocol_type) in [(1, "consumer"), (3, "connect")] {
        let request =
            JoinGroupRequest { api_version: 3, protocol_type: protocol_type.into(), ..Client::new(1).join_request() };
        let token = w.join(1, request);
        w.advance(2_999);
        w.parked(token);
        w.advance(1);
        let answer = w.joined(token);
        assert_eq!((answer.generation_id, answer.protocol_type), (generation, Some(protocol_type.into())));
        let left = LeavingMember { member_id: answer.member_id, group_instance_id: None };
        assert_eq!(w.leave(vec![left]).members[0].error_code, ErrorCode::NONE);
    }
}
