//! Known members that rejoin, and the end of the join phase.

use ringgate_group::ErrorCode;
use ringgate_group::request::*;

use crate::world::*;

fn changed(client: &Client) -> JoinGroupRequest {
    JoinGroupRequest { protocols: vec![protocol("range", &["t", "u"])], ..client.join_request() }
}

#[test]
fn s023_a_follower_that_rejoins_unchanged_is_answered_at_once() {
    let mut w = World::new();
    let clients = w.stable(2);
    let token = w.join(2, clients[1].join_request());
    let answer = w.joined(token);
    assert_eq!((answer.error_code, answer.generation_id, answer.members.len()), (ErrorCode::NONE, 1, 0));
    assert_eq!(answer.leader, clients[0].member_id);
    assert_eq!(w.state(), "Stable");
}

#[test]
fn s024_a_leader_that_rejoins_unchanged_starts_a_rebalance() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    w.parked(leader);
    assert_eq!(w.state(), "PreparingRebalance");
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
    let follower = w.join(2, clients[1].join_request());
    assert_eq!((w.joined(leader).generation_id, w.joined(follower).generation_id), (2, 2));
}

#[test]
fn s025_other_metadata_or_another_order_of_protocols_starts_a_rebalance() {
    for protocols in [
        vec![protocol("range", &["t", "u"]), protocol("b", &["t"])],
        vec![protocol("b", &["t"]), protocol("range", &["t"])],
    ] {
        let mut w = World::new();
        let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
        for client in &mut clients {
            client.protocols.push(protocol("b", &["t"]));
        }
        w.form(&mut clients);
        w.settle(&clients);
        let token = w.join(2, JoinGroupRequest { protocols, ..clients[1].join_request() });
        w.parked(token);
        assert_eq!(w.state(), "PreparingRebalance");
    }
}

#[test]
fn s026_unchanged_joins_while_completing_are_answered_at_once() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    let tokens = [w.join(1, clients[0].join_request()), w.join(2, clients[1].join_request())];
    let answers = tokens.map(|token| w.joined(token));
    assert_eq!(answers.each_ref().map(|a| (a.generation_id, a.members.len())), [(1, 2), (1, 0)]);
    assert_eq!(w.state(), "CompletingRebalance");
}

#[test]
fn s027_a_changed_join_while_completing_sends_the_parked_leader_back() {
    let mut w = World::new();
    w.store = Store::Waits;
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    w.form(&mut clients);
    let sync = w.sync(&clients[0], &[]);
    let join = w.join(2, changed(&clients[1]));
    assert_eq!(w.synced(sync).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    w.parked(join);
}

#[test]
fn s028_all_that_rejoin_are_answered_in_one_generation() {
    let mut w = World::new();
    let clients = w.stable(5);
    let tokens: Vec<_> = clients.iter().map(|client| w.join(client.connection, client.join_request())).collect();
    let generations: Vec<_> = tokens.into_iter().map(|token| w.joined(token).generation_id).collect();
    assert_eq!(generations, [2; 5]);
}

#[test]
fn s029_a_member_that_is_silent_for_the_rebalance_timeout_is_dropped() {
    let mut w = World::new();
    let clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    for _ in 0..12 {
        w.parked(leader);
        assert_eq!(w.heartbeat(&clients[1]), ErrorCode::REBALANCE_IN_PROGRESS);
        w.advance(5_000);
    }
    let answer = w.joined(leader);
    assert_eq!((answer.generation_id, answer.members.len()), (2, 1));
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s030_a_follower_takes_over_from_a_leader_that_does_not_rejoin() {
    let mut w = World::new();
    let clients = w.stable(2);
    let follower = w.join(2, changed(&clients[1]));
    for _ in 0..12 {
        w.parked(follower);
        // It lives, but it never joins.
        assert_eq!(w.heartbeat(&clients[0]), ErrorCode::REBALANCE_IN_PROGRESS);
        w.advance(5_000);
    }
    let answer = w.joined(follower);
    assert_eq!((answer.generation_id, &answer.leader), (2, &clients[1].member_id));
    let listed: Vec<_> = answer.members.iter().map(|member| member.member_id.clone()).collect();
    assert_eq!(listed, [clients[1].member_id.clone()]);
}

#[test]
fn s031_a_leader_that_was_removed_comes_back_as_a_follower() {
    let mut w = World::new();
    let mut clients = w.stable(3);
    let second = w.join(2, changed(&clients[1]));
    let third = w.join(3, clients[2].join_request());
    w.advance(SESSION_MS as u64);
    let answer = w.joined(second);
    assert_eq!((&answer.leader, answer.members.len()), (&clients[1].member_id, 2));
    assert_eq!(w.joined(third).leader, clients[1].member_id);
    clients[0].member_id = ringgate_group::Text::EMPTY;
    let first = w.enter(&mut clients[0]);
    let tokens: Vec<_> = clients[1..].iter().map(|client| w.join(client.connection, client.join_request())).collect();
    assert_eq!(w.joined(first).leader, clients[1].member_id);
    assert_eq!(w.joined(tokens[0]).members.len(), 3);
}

#[test]
fn s032_static_members_that_do_not_come_back_keep_the_group_waiting() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::new(2)];
    clients[0].session_ms = 300_000;
    w.form(&mut clients);
    w.settle(&clients);
    // The dynamic member starts a rebalance and is gone before it ends.
    let join = w.join(2, changed(&clients[1]));
    w.close(2);
    w.answer(join);
    w.advance(REBALANCE_MS as u64);
    assert_eq!((w.state().as_str(), w.describe().members.len()), ("PreparingRebalance", 1));
    w.advance(REBALANCE_MS as u64);
    assert_eq!(w.state(), "PreparingRebalance");
    let join = w.join(1, clients[0].join_request());
    assert_eq!(w.joined(join).generation_id, 2);
}

#[test]
fn s033_generations_grow_also_when_the_group_empties() {
    let mut w = World::new();
    let clients = w.stable(1);
    let token = w.join(1, clients[0].join_request());
    assert_eq!(w.joined(token).generation_id, 2);
    w.leave(vec![clients[0].leaving()]);
    let mut next = vec![Client::new(2)];
    assert_eq!(w.form(&mut next)[0].generation_id, 4);
}

#[test]
fn s034_the_longest_rebalance_timeout_counts_while_its_member_is_there() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=3).map(Client::new).collect();
    clients[2].rebalance_ms = 120_000;
    for client in &mut clients {
        client.session_ms = 600_000;
    }
    w.form(&mut clients);
    w.settle(&clients);
    let leader = w.join(1, clients[0].join_request());
    w.advance(REBALANCE_MS as u64);
    w.parked(leader);
    w.advance(REBALANCE_MS as u64);
    assert_eq!(w.joined(leader).generation_id, 2);
    let mut clients = vec![Client::new(2), clients[0].clone()];
    clients[0].session_ms = 600_000;
    w.form(&mut clients);
    clients.reverse();
    w.settle(&clients);
    let leader = w.join(1, clients[0].join_request());
    w.advance(REBALANCE_MS as u64);
    assert_eq!(w.joined(leader).members.len(), 1);
}

#[test]
fn s035_of_two_joins_of_a_member_the_older_is_answered_27_and_the_newer_counts() {
    let mut w = World::new();
    let clients = w.stable(2);
    let older = w.join(1, clients[0].join_request());
    let newer = w.join(3, clients[0].join_request());
    assert_eq!(w.joined(older).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    w.parked(newer);
    // The connection of the older one has no say any more.
    w.close(1);
    let follower = w.join(2, clients[1].join_request());
    assert_eq!(w.joined(newer).members.len(), 2);
    assert_eq!(w.joined(follower).generation_id, 2);
}

#[test]
fn a_v0_join_has_its_session_timeout_to_rejoin() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    for client in &mut clients {
        client.join_version = 0;
        client.rebalance_ms = -1;
        client.session_ms = 20_000;
    }
    w.form(&mut clients);
    w.settle(&clients);
    let leader = w.join(1, clients[0].join_request());
    w.advance(10_000);
    w.heartbeat(&clients[1]);
    w.advance(9_999);
    w.parked(leader);
    w.advance(1);
    assert_eq!(w.joined(leader).members.len(), 1);
}

#[test]
fn timeouts_are_taken_over_with_what_else_changes_and_not_by_an_unchanged_join() {
    let mut w = World::new();
    let mut clients = w.stable(2);
    let patient = |client: &Client| JoinGroupRequest { session_timeout_ms: 300_000, ..client.join_request() };
    let token = w.join(2, patient(&clients[1]));
    assert_eq!(w.joined(token).error_code, ErrorCode::NONE);
    w.advance(SESSION_MS as u64 - 1);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(1);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::UNKNOWN_MEMBER_ID);

    clients.truncate(1);
    let token = w.join(1, patient(&clients[0]));
    let answer = w.joined(token);
    clients[0].takes(&answer);
    w.settle(&clients);
    w.advance(299_999);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
}

#[test]
fn a_sync_timer_of_a_rebalance_that_is_over_removes_nobody() {
    let mut w = World::new();
    let mut clients = w.stable(2);
    for client in &mut clients {
        client.session_ms = 300_000;
    }
    w.form(&mut clients);
    w.advance(REBALANCE_MS as u64 - 1);
    // Nobody has synced; a changed join begins the next rebalance just before the time is over.
    let follower = w.join(2, changed(&clients[1]));
    w.advance(1);
    w.parked(follower);
    assert_eq!(w.describe().members.len(), 2);
    let leader = w.join(1, clients[0].join_request());
    assert_eq!((w.joined(leader).members.len(), w.joined(follower).generation_id), (2, 3));
}

#[test]
fn a_member_that_expires_while_completing_sends_the_others_back_and_a_given_id_nobody() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=3).map(Client::new).collect();
    w.form(&mut clients);
    let given = w.join(4, JoinGroupRequest { session_timeout_ms: 6_000, ..Client::new(4).join_request() });
    assert_eq!(w.joined(given).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    let parked = w.sync(&clients[1], &[]);
    w.advance(6_000);
    assert_eq!((w.totals.members(), w.state().as_str()), (3, "CompletingRebalance"));
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    w.advance(SESSION_MS as u64 - 6_000);
    // The third neither synced nor was heard of; the second is alive because it waits.
    assert_eq!(w.synced(parked).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!((w.describe().members.len(), w.state().as_str()), (2, "PreparingRebalance"));
    assert_eq!(w.heartbeat(&clients[2]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_leader_that_leaves_while_completing_hands_over_to_the_first_that_rejoins() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=3).map(Client::new).collect();
    w.form(&mut clients);
    w.leave(vec![clients[0].leaving()]);
    let third = w.join(3, clients[2].join_request());
    w.advance(REBALANCE_MS as u64);
    let answer = w.joined(third);
    assert_eq!((&answer.leader, answer.members.len()), (&clients[2].member_id, 1));
}

#[test]
fn a_rebalance_timeout_of_nothing_is_the_session_timeout() {
    for rebalance_ms in [0, -1] {
        let mut w = World::new();
        let mut clients: Vec<Client> =
            (1..=2).map(|n| Client { join_version: 3, rebalance_ms, ..Client::new(n) }).collect();
        w.form(&mut clients);
        w.settle(&clients);
        let leader = w.join(1, clients[0].join_request());
        w.advance(5_000);
        w.heartbeat(&clients[1]);
        w.advance(SESSION_MS as u64 - 5_001);
        w.parked(leader);
        w.advance(1);
        assert_eq!(w.joined(leader).members.len(), 1);
    }
}
