//! What one member does must not go through the others: as many looks at members in a large group as in a small one.

use std::collections::BTreeMap;

use ringgate_group::request::*;
use ringgate_group::{ConnectionId, Text, member_visits};

use crate::consumer_world::*;
use crate::world::*;

const SMALL: usize = 20;
const LARGE: usize = 2_000;
/// In a debug build every step of a consumer group checks all its members.
const LARGE_CONSUMER_GROUP: usize = 300;

/// Looks at members, by what was done.
#[derive(Default)]
struct Visits(BTreeMap<&'static str, u64>);

impl Visits {
    fn of<R>(&mut self, w: &mut World, what: &'static str, act: impl FnOnce(&mut World) -> R) {
        let before = member_visits();
        act(w);
        self.0.insert(what, member_visits() - before);
    }
}

/// A follower's day in a stable group, and then in one that waits for its members.
fn classic(members: usize) -> Visits {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..members as u64).map(Client::new).collect();
    clients.push(Client::with_instance(members as u64, "fixed"));
    w.form(&mut clients);
    w.settle(&clients);
    let fixed = clients[members - 1].clone();
    let mut visits = Visits::default();
    let follower = clients[members / 2].clone();
    visits.of(&mut w, "heartbeat", |w| w.heartbeat(&follower));
    let now = w.now;
    visits.of(&mut w, "heartbeat read ahead", |w| {
        w.coordinator.handle_heartbeat_seen(now, &follower.heartbeat_request());
    });
    visits.of(&mut w, "commit", |w| w.commit(follower.commit_request(7)));
    visits.of(&mut w, "sync", |w| w.sync(&follower, &[]));
    visits.of(&mut w, "unchanged join", |w| w.join(1, follower.join_request()));
    visits.of(&mut w, "join without an id", |w| w.join(2, Client::new(2).join_request()));
    visits.of(&mut w, "connection closed", |w| w.close(2));
    visits.of(&mut w, "join of a static member that is fenced", |w| {
        w.join(3, JoinGroupRequest { member_id: "other".into(), ..fixed.join_request() })
    });
    // The leader wants something else.
    let mut leader = clients[0].clone();
    leader.protocols = vec![protocol("range", &["u"])];
    let parked = w.join(leader.connection, leader.join_request());
    assert_eq!(w.state(), "PreparingRebalance");
    visits.of(&mut w, "heartbeat while joins are awaited", |w| w.heartbeat(&follower));
    visits.of(&mut w, "join while joins are awaited", |w| w.join(9, follower.join_request()));
    visits.of(&mut w, "join again", |w| w.join(9, follower.join_request()));
    visits.of(&mut w, "parked join's connection closed", |w| w.close(9));
    let new = JoinGroupRequest { api_version: 3, ..Client::new(5).join_request() };
    visits.of(&mut w, "first join while joins are awaited", |w| w.join(5, new));
    visits.of(&mut w, "new member's connection closed", |w| w.close(5));
    visits.of(&mut w, "leave while joins are awaited", |w| w.leave(vec![clients[3].leaving()]));
    let static_again = JoinGroupRequest { member_id: Text::EMPTY, ..fixed.join_request() };
    visits.of(&mut w, "static member comes again", |w| w.join(6, static_again));
    visits.of(&mut w, "commit while joins are awaited", |w| w.commit(follower.commit_request(8)));
    w.parked(parked);
    visits
}

fn consumers(members: usize) -> Visits {
    let mut w = World::new();
    let mut known = Known::default();
    known.set(&mut w, "t", members as i32);
    let mut all: Vec<Consumer> = (0..members).map(|n| Consumer::new(&format!("m{n:05}"), &["t"])).collect();
    all.iter_mut().for_each(|member| member.join(&mut w));
    w.come_to_rest(&mut all);
    let member = all[members / 2].clone();
    let mut visits = Visits::default();
    visits.of(&mut w, "heartbeat", |w| w.beat(member.beating()));
    visits.of(&mut w, "heartbeat that says what it has", |w| w.beat(member.owning()));
    let commit = OffsetCommitRequest {
        api_version: 9,
        generation_id_or_member_epoch: member.epoch,
        member_id: member.member_id.clone(),
        ..commit_request(7)
    };
    visits.of(&mut w, "commit", |w| w.commit(commit));
    // Targets are made for all at once, so not more often than the interval allows: this one pays for it.
    w.beat(Consumer::new("pays", &["t"]).joining());
    w.carry_out();
    visits.of(&mut w, "join", |w| w.beat(Consumer::new("new", &["t"]).joining()));
    visits.of(&mut w, "leave", |w| w.beat(member.leaving(-1)));
    let classic = JoinGroupRequest { member_id: "classic".into(), ..Client::new(8).join_request() };
    visits.of(&mut w, "classic member's join", |w| w.join(8, classic));
    visits.of(&mut w, "connection closed", |w| {
        w.coordinator.handle_connection_closed(w.now, ConnectionId(8));
        w.carry_out();
    });
    visits
}

#[track_caller]
fn assert_same(small: Visits, large: Visits) {
    for (what, visits) in &large.0 {
        assert!(*visits <= small.0[what], "{what}: {} looks in a small group, {visits} in a large one", small.0[what]);
    }
    assert!(large.0.values().sum::<u64>() > 0);
}

#[test]
fn what_one_member_of_a_classic_group_does_goes_through_no_others() {
    assert_same(classic(SMALL), classic(LARGE));
}

#[test]
fn what_one_member_of_a_consumer_group_does_goes_through_no_others() {
    assert_same(consumers(SMALL), consumers(LARGE_CONSUMER_GROUP));
}

#[test]
fn a_step_that_concerns_all_members_is_seen_to_go_through_them() {
    let mut w = World::new();
    let clients = w.stable(SMALL);
    let mut visits = Visits::default();
    visits.of(&mut w, "describe", |w| w.describe());
    visits.of(&mut w, "heartbeat", |w| w.heartbeat(&clients[1]));
    assert!(visits.0["describe"] >= SMALL as u64 && visits.0["heartbeat"] < SMALL as u64, "{:?}", visits.0);
}
