//! Groups that have nothing but their place: listed as in Kafka, and given up for one that comes where the gateway has
//! as many groups as it takes.

use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, Request, Response};

use crate::consumer_world::Consumer;
use crate::world::*;

fn full_at(max_groups: usize) -> World {
    World::with(|config| {
        config.max_groups = max_groups;
        config.initial_rebalance_delay = std::time::Duration::ZERO;
    })
}

/// A first join of a connection that goes: it leaves the group and no more.
fn leave_behind(w: &mut World, group: &str) -> ErrorCode {
    let code = first_join(w, 1, group);
    w.close(1);
    code
}

fn first_join(w: &mut World, connection: u64, group: &str) -> ErrorCode {
    let request = JoinGroupRequest { group_id: group.into(), ..Client::new(connection).join_request() };
    let token = w.join(connection, request);
    w.joined(token).error_code
}

fn commit(w: &mut World, group: &str) -> ErrorCode {
    w.commit(OffsetCommitRequest { group_id: group.into(), ..commit_request(1) })
}

fn listed(w: &mut World) -> Vec<String> {
    let token = w.ask(1, Request::ListGroups(ListGroupsRequest::default()));
    let Response::ListGroups(ListGroupsResponse { groups, next: None, .. }) = w.answer(token) else { panic!() };
    let mut names: Vec<String> = groups.into_iter().map(|group| group.group_id.as_str().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_group_that_nothing_is_left_of_stays_until_its_place_is_needed_and_the_oldest_goes_first() {
    let mut w = full_at(3);
    for group in ["c", "a", "b"] {
        assert_eq!(leave_behind(&mut w, group), ErrorCode::MEMBER_ID_REQUIRED);
        w.advance(1_000);
    }
    assert_eq!(listed(&mut w), ["a", "b", "c"]);
    assert_eq!(first_join(&mut w, 2, "d"), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(listed(&mut w), ["a", "b", "d"]);
    assert_eq!(commit(&mut w, "e"), ErrorCode::NONE);
    assert_eq!(
        w.beat(ConsumerGroupHeartbeatRequest { group_id: "f".into(), ..Consumer::new("m", &["t"]).joining() })
            .error_code,
        ErrorCode::NONE
    );
    assert_eq!((listed(&mut w), w.totals.groups()), (vec!["d".to_owned(), "e".to_owned(), "f".to_owned()], 3));
    // What is left has an id that was given out, an offset, and a member.
    let not_available = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!((first_join(&mut w, 3, "g"), commit(&mut w, "g")), (not_available, not_available));
    w.restart();
    assert_eq!(listed(&mut w), ["d", "e", "f"], "those that were given up do not come back");
}

#[test]
fn a_group_whose_members_have_left_makes_room_unless_it_has_committed() {
    for has_committed in [false, true] {
        let mut w = full_at(1);
        let clients = w.stable(2);
        if has_committed {
            assert_eq!(w.commit(clients[0].commit_request(5)), ErrorCode::NONE);
        }
        assert_eq!(commit(&mut w, "other"), ErrorCode::COORDINATOR_NOT_AVAILABLE, "it has members");
        w.leave(clients.iter().map(Client::leaving).collect());
        assert_eq!(w.state(), "Empty");
        let expected = if has_committed { ErrorCode::COORDINATOR_NOT_AVAILABLE } else { ErrorCode::NONE };
        assert_eq!(commit(&mut w, "other"), expected);
        assert_eq!(w.totals.members(), 0);
        assert_eq!(w.state(), if has_committed { "Empty" } else { "Dead" });
    }
}

#[test]
fn a_consumer_group_without_members_makes_room_when_that_is_kept() {
    let mut w = full_at(1);
    let mut member = Consumer::new("m", &["t"]);
    member.join(&mut w);
    w.store = Store::Waits;
    let left = w.ask(700, Request::ConsumerGroupHeartbeat(Box::new(member.leaving(-1))));
    assert_eq!(first_join(&mut w, 2, "other"), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    w.complete_all(Ok(()));
    let Response::ConsumerGroupHeartbeat(left) = w.answer(left) else { panic!() };
    assert_eq!(left.error_code, ErrorCode::NONE);
    assert_eq!(first_join(&mut w, 2, "other"), ErrorCode::MEMBER_ID_REQUIRED);
    w.complete_all(Ok(()));
    w.restart();
    assert_eq!(listed(&mut w), ["other"]);
}

#[test]
fn an_empty_group_that_comes_from_the_store_makes_room_too_and_one_that_is_used_again_does_not() {
    let mut w = full_at(2);
    for group in ["a", "b"] {
        leave_behind(&mut w, group);
        w.advance(1_000);
    }
    w.restart();
    assert_eq!(first_join(&mut w, 2, "a"), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(commit(&mut w, "c"), ErrorCode::NONE);
    assert_eq!(listed(&mut w), ["a", "c"]);
    // The name of one that was given up is free, and its tombstone does not come behind the record of the next.
    w.close(2);
    w.store = Store::Waits;
    assert_eq!(first_join(&mut w, 3, "b"), ErrorCode::MEMBER_ID_REQUIRED);
    w.close(3);
    assert_eq!(first_join(&mut w, 4, "a"), ErrorCode::MEMBER_ID_REQUIRED);
    w.complete_all(Ok(()));
    w.restart();
    assert_eq!(listed(&mut w), ["a", "c"]);
}

#[test]
fn another_shard_gives_up_as_many_as_were_refused() {
    let mut here = full_at(4);
    let mut there = here.beside();
    for group in ["a", "b", "c"] {
        leave_behind(&mut there, group);
        there.advance(1_000);
    }
    assert_eq!(commit(&mut here, "mine"), ErrorCode::NONE);
    there.coordinator.handle_places_wanted();
    there.carry_out();
    assert_eq!(listed(&mut there), ["a", "b", "c"], "nobody was refused");
    let not_available = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!((commit(&mut here, "d"), commit(&mut here, "e")), (not_available, not_available));
    there.coordinator.handle_places_wanted();
    there.carry_out();
    assert_eq!(listed(&mut there), ["c"]);
    assert_eq!((commit(&mut here, "d"), commit(&mut here, "e")), (ErrorCode::NONE, ErrorCode::NONE));
    assert_eq!(here.totals.groups(), 4);
    there.coordinator.handle_places_wanted();
    there.carry_out();
    assert_eq!(listed(&mut there), ["c"], "those who were refused have got their places");
}
