//! Listing and describing groups.

use std::collections::BTreeSet;

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, Request, Response, Text};

use crate::consumer_world::{Consumer, Known};
use crate::world::*;

fn list(w: &mut World, states: &[&str], types: &[&str]) -> Vec<ListedGroup> {
    let texts = |all: &[&str]| all.iter().map(|one| Text::from(*one)).collect();
    let mut request = ListGroupsRequest { states_filter: texts(states), types_filter: texts(types), cursor: 0 };
    let mut groups = Vec::new();
    loop {
        let token = w.ask(1, Request::ListGroups(request.clone()));
        let Response::ListGroups(answer) = w.answer(token) else { panic!() };
        assert_eq!(answer.error_code, ErrorCode::NONE);
        groups.extend(answer.groups);
        match answer.next {
            Some(next) => request.cursor = next,
            None => return groups,
        }
    }
}

#[test]
fn s107_states_and_types_are_compared_without_case_and_states_without_space() {
    let mut w = World::new();
    w.stable(1);
    w.commit(OffsetCommitRequest { group_id: "simple".into(), ..commit_request(1) });
    let names =
        |groups: Vec<ListedGroup>| groups.into_iter().map(|g| g.group_id.as_str().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(names(list(&mut w, &[], &[])), BTreeSet::from(["g".into(), "simple".into()]));
    assert_eq!(names(list(&mut w, &["stable", " EMPTY "], &["CLASSIC"])).len(), 2);
    assert_eq!(names(list(&mut w, &["stable"], &[])), BTreeSet::from(["g".into()]));
    assert!(list(&mut w, &["foo"], &[]).is_empty());
    assert!(list(&mut w, &[], &["consumer"]).is_empty());
    let listed = list(&mut w, &["Stable"], &[]).remove(0);
    assert_eq!((listed.protocol_type, listed.group_type), ("consumer".into(), "classic".into()));
}

#[test]
fn a_listing_goes_in_slices_and_misses_nothing() {
    let mut w = World::new();
    for n in 0..2_000 {
        w.commit(OffsetCommitRequest { group_id: Text::from(format!("group-{n}")), ..commit_request(1) });
    }
    let names: BTreeSet<_> = list(&mut w, &[], &[]).into_iter().map(|group| group.group_id).collect();
    assert_eq!(names.len(), 2_000);
}

#[test]
fn s108_a_stable_group_shows_its_members_with_metadata_and_assignments() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::new(2)];
    w.form(&mut clients);
    w.settle(&clients);
    let described = w.describe();
    assert_eq!((described.error_code, described.group_state.as_str()), (ErrorCode::NONE, "Stable"));
    assert_eq!((described.protocol_type.as_str(), described.protocol_data.as_str()), ("consumer", "range"));
    for (n, (client, member)) in clients.iter().zip(&described.members).enumerate() {
        let expected = DescribedGroupMember {
            member_id: client.member_id.clone(),
            group_instance_id: client.instance.clone(),
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            member_metadata: client.protocols[0].metadata.clone(),
            member_assignment: format!("a{n}").into(),
        };
        assert_eq!(*member, expected);
    }
}

#[test]
fn s108_a_group_that_rebalances_shows_only_the_last_assignments() {
    let mut w = World::new();
    let clients = w.stable(2);
    let token = w.join(1, clients[0].join_request());
    w.parked(token);
    let described = w.describe();
    assert_eq!((described.group_state.as_str(), described.protocol_data.as_str()), ("PreparingRebalance", ""));
    assert_eq!(described.members[1].member_metadata, Bytes::new());
    assert_eq!(described.members[1].member_assignment, "a1");
}

#[test]
fn s108_a_group_that_is_not_there_is_dead_and_from_v6_an_error() {
    let mut w = World::new();
    for (api_version, error, message) in [(5, ErrorCode::NONE, false), (6, ErrorCode::GROUP_ID_NOT_FOUND, true)] {
        let token = w.ask(1, Request::DescribeGroup(DescribeGroupRequest { api_version, group_id: GROUP.into() }));
        let Response::DescribeGroup(described) = w.answer(token) else { panic!() };
        assert_eq!((described.error_code, described.error_message.is_some()), (error, message));
        assert_eq!((described.group_state.as_str(), described.members.len()), ("Dead", 0));
    }
}

#[test]
fn groups_are_counted_by_state() {
    let mut w = World::new();
    let clients = w.stable(3);
    w.commit(OffsetCommitRequest { group_id: "simple".into(), ..commit_request(1) });
    let counts = |w: &World| w.coordinator.groups_by_state().map(|(_, count)| count).collect::<Vec<_>>();
    assert_eq!((counts(&w), w.coordinator.member_count()), (vec![1, 0, 0, 1, 0, 0], 3));
    w.leave(vec![clients[2].leaving()]);
    assert_eq!((counts(&w), w.coordinator.member_count()), (vec![1, 1, 0, 0, 0, 0], 2));
}

#[test]
fn s108_a_consumer_group_is_dead_to_who_asks_for_classic_ones() {
    let mut w = World::new();
    let mut known = Known::default();
    known.set(&mut w, "t", 1);
    Consumer::new("m", &["t"]).join(&mut w);
    for (api_version, error) in [(5, ErrorCode::NONE), (6, ErrorCode::GROUP_ID_NOT_FOUND)] {
        let token = w.ask(1, Request::DescribeGroup(DescribeGroupRequest { api_version, group_id: GROUP.into() }));
        let Response::DescribeGroup(described) = w.answer(token) else { panic!() };
        assert_eq!((described.error_code, described.group_state.as_str()), (error, "Dead"));
        assert_eq!((described.protocol_type.as_str(), described.members.len()), ("", 0));
    }
    assert_eq!(w.consumers().members.len(), 1);
    let listed = list(&mut w, &[], &["Consumer"]).remove(0);
    assert_eq!((listed.protocol_type.as_str(), listed.group_type.as_str()), ("consumer", "consumer"));
}

#[test]
fn ids_that_have_not_joined_are_not_described() {
    let mut w = World::new();
    w.stable(1);
    let token = w.join(2, Client::new(2).join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(w.describe().members.len(), 1);
}

#[test]
fn a_gateway_that_loads_describes_deletes_and_lists_nothing_yet() {
    let mut w = World::new();
    w.coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    let loading = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    let described = w.describe();
    assert_eq!((described.error_code, described.group_state), (loading, Text::EMPTY));
    let token = w.ask(1, Request::DeleteGroup(DeleteGroupRequest { group_id: GROUP.into() }));
    assert!(matches!(w.answer(token), Response::DeleteGroup(error) if error == loading));
    let token = w.ask(1, Request::ListGroups(ListGroupsRequest::default()));
    assert!(matches!(w.answer(token), Response::ListGroups(listed) if listed.error_code == loading));
    let token = w.ask(1, Request::Leave(LeaveGroupRequest { group_id: GROUP.into(), ..Default::default() }));
    assert!(matches!(w.answer(token), Response::Leave(left) if left.error_code == loading));
    let token = w.ask(1, Request::OffsetCommit(commit_request(1)));
    assert_eq!(w.committed(token), loading);
}
