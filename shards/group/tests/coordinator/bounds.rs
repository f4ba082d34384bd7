//! The gateway's bounds: what is refused, with what, and that nothing of it is kept.

use bytes::Bytes;
use ringgate_group::limits::Limit;
use ringgate_group::request::*;
use ringgate_group::{ErrorCode, GroupConfig, Text};

use crate::world::*;

fn join_error(w: &mut World, change: impl FnOnce(&mut JoinGroupRequest)) -> ErrorCode {
    let mut request = Client::new(1).join_request();
    change(&mut request);
    let token = w.join(1, request);
    w.joined(token).error_code
}

#[test]
fn group_ids_are_at_most_246_bytes() {
    let mut w = World::new();
    let long = |n| Text::from("g".repeat(n));
    assert_eq!(join_error(&mut w, |it| it.group_id = long(246)), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(join_error(&mut w, |it| it.group_id = long(247)), ErrorCode::INVALID_GROUP_ID);
    let request = OffsetCommitRequest { group_id: long(247), ..commit_request(1) };
    assert_eq!(w.commit(request), ErrorCode::INVALID_GROUP_ID);
    assert_eq!((w.totals.groups(), w.coordinator.limits_hit().of(Limit::GroupId)), (1, 2));
}

#[test]
fn a_member_has_at_most_16_protocols_and_1_mib_of_metadata() {
    let mut w = World::new();
    let protocols = |n: usize, size: usize| {
        let one = |k| Protocol { name: Text::from(format!("p{k}")), metadata: Bytes::from(vec![0; size]) };
        (0..n).map(one).collect::<Vec<_>>()
    };
    assert_eq!(join_error(&mut w, |it| it.protocols = protocols(16, 1 << 16)), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(join_error(&mut w, |it| it.protocols = protocols(17, 0)), ErrorCode::INVALID_REQUEST);
    assert_eq!(join_error(&mut w, |it| it.protocols = protocols(1, (1 << 20) + 1)), ErrorCode::INVALID_REQUEST);
    let long = Text::from("p".repeat(256));
    assert_eq!(join_error(&mut w, |it| it.protocols[0].name = long.clone()), ErrorCode::INVALID_REQUEST);
    assert_eq!(join_error(&mut w, |it| it.protocol_type = long), ErrorCode::INVALID_REQUEST);
    let hits = w.coordinator.limits_hit();
    assert_eq!((hits.of(Limit::ProtocolsPerMember), hits.of(Limit::MemberBlob)), (1, 3));
}

#[test]
fn an_assignment_is_at_most_1_mib() {
    let mut w = World::new();
    let mut clients = vec![Client::new(1)];
    w.form(&mut clients);
    let bytes = w.totals.bytes();
    let token = w.sync(&clients[0], &[(&clients[0].member_id, &"x".repeat((1 << 20) + 1))]);
    assert_eq!(w.synced(token).error_code, ErrorCode::INVALID_REQUEST);
    assert_eq!((w.state().as_str(), w.totals.bytes()), ("CompletingRebalance", bytes));
}

#[test]
fn rebalance_timeouts_are_cut_and_not_refused() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    for client in &mut clients {
        client.rebalance_ms = i32::MAX;
        client.session_ms = 1_800_000;
    }
    w.form(&mut clients);
    w.settle(&clients);
    let leader = w.join(1, clients[0].join_request());
    w.advance(900_000);
    w.heartbeat(&clients[1]);
    w.advance(899_999);
    w.parked(leader);
    w.advance(1);
    assert_eq!(w.joined(leader).members.len(), 1);
}

#[test]
fn groups_and_members_of_the_gateway_are_bounded() {
    let mut w = World::with(|config| {
        config.max_groups = 2;
        config.max_total_members = 3;
    });
    let not_available = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(join_error(&mut w, |it| it.group_id = "a".into()), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(join_error(&mut w, |it| it.group_id = "b".into()), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(join_error(&mut w, |it| it.group_id = "c".into()), not_available);
    assert_eq!(w.commit(OffsetCommitRequest { group_id: "c".into(), ..commit_request(1) }), not_available);
    assert_eq!(join_error(&mut w, |it| it.group_id = "b".into()), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(join_error(&mut w, |it| it.group_id = "b".into()), not_available);
    let one_step = |it: &mut JoinGroupRequest| (it.group_id, it.api_version) = ("b".into(), 3);
    assert_eq!(join_error(&mut w, one_step), not_available);
    assert_eq!((w.totals.groups(), w.totals.members()), (2, 3));
    let hits = w.coordinator.limits_hit();
    assert_eq!((hits.of(Limit::Groups), hits.of(Limit::TotalMembers)), (2, 2));
}

#[test]
fn a_member_that_there_is_no_room_for_leaves_no_group_behind() {
    let refused_by = |change: fn(&mut GroupConfig), bytes: usize, limit: Limit| {
        let mut w = World::with(change);
        assert_eq!(join_error(&mut w, |it| it.group_id = "a".into()), ErrorCode::MEMBER_ID_REQUIRED);
        let (writes, bytes_before) = (w.writes, w.totals.bytes());
        for version in [3, 9] {
            let large = |it: &mut JoinGroupRequest| {
                (it.group_id, it.api_version) = ("b".into(), version);
                it.protocols[0].metadata = Bytes::from(vec![0; bytes]);
            };
            assert_eq!(join_error(&mut w, large), ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        assert_eq!((w.totals.groups(), w.totals.bytes(), w.writes), (1, bytes_before, writes));
        assert_eq!(w.coordinator.limits_hit().of(limit), 2);
    };
    refused_by(|config| config.max_total_members = 1, 10, Limit::TotalMembers);
    refused_by(|config| config.max_group_memory = 6_144, 5_000, Limit::GroupMemory);
}

#[test]
fn the_bytes_of_groups_are_bounded() {
    let mut w = World::with(|config| config.max_group_memory = 6_144);
    let mut clients: Vec<Client> = vec![Client::new(1)];
    clients[0].protocols[0].metadata = Bytes::from(vec![0; 1_000]);
    let token = w.enter(&mut clients[0]);
    w.parked(token);
    let mut second = Client::new(2);
    second.protocols[0].metadata = Bytes::from(vec![0; 3_000]);
    let token = w.enter(&mut second);
    assert_eq!(w.joined(token).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let metadata = Some(Text::from("m".repeat(4_096)));
    let mut request = commit_request(1);
    request.group_id = "other".into();
    request.topics[0].partitions[0].committed_metadata = metadata;
    assert_eq!(w.commit(request), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert!(w.totals.bytes() <= 6_144);
    assert_eq!(w.totals.groups(), 1, "a commit that is refused leaves no group behind");
    assert_eq!(w.coordinator.limits_hit().of(Limit::GroupMemory), 2);
}

#[test]
fn long_client_ids_are_cut_at_a_character() {
    let mut w = World::new();
    let mut request = Client::new(1).join_request();
    request.client_id = Text::from("é".repeat(300));
    let token = w.join(1, request);
    let member_id = w.joined(token).member_id;
    assert_eq!(member_id.len(), 256 + 37);
    assert!(member_id.as_str().starts_with("éé"));
}
