//! A store that tells of groups at the start and of their offsets when they are first asked for.

use std::time::Duration;

use ringgate_group::record::OffsetValue;
use ringgate_group::request::*;
use ringgate_group::{Coordinator, ErrorCode, Record, ReplyToken, Request, Response, Text, Totals};

use crate::world::*;

/// What was kept is loaded, but for the offsets.
fn restart_without_offsets(w: &mut World) {
    let mut coordinator = Coordinator::new(w.config.clone(), Totals::default().into(), || 7);
    coordinator.load_offsets_later();
    for record in w.kept.values().filter(|record| !matches!(record, Record::Offset { .. })) {
        coordinator.load(w.now, record.clone());
    }
    coordinator.finish_loading(w.now);
    w.coordinator = coordinator;
    w.timers.clear();
    w.carry_out();
}

fn fetch() -> Request {
    Request::OffsetFetch(OffsetFetchRequest { group_id: GROUP.into(), topics: None, ..OffsetFetchRequest::default() })
}

fn value(offset: i64) -> OffsetValue {
    OffsetValue {
        offset,
        leader_epoch: -1,
        metadata: Text::EMPTY,
        commit_timestamp_ms: 0,
        topic_id: 0,
        expire_timestamp_ms: -1,
    }
}

#[test]
fn offsets_are_wanted_once_and_members_do_not_wait_for_them() {
    let mut w = World::new();
    let clients = w.stable(2);
    w.commit(clients[0].commit_request(7));
    restart_without_offsets(&mut w);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    let heartbeat = Request::Heartbeat(clients[0].heartbeat_request());
    let join = Request::Join(clients[0].join_request());
    assert_eq!(w.coordinator.wants_offsets(&heartbeat), None);
    assert_eq!(w.coordinator.wants_offsets(&join), None);
    let commit = Request::OffsetCommit(clients[0].commit_request(8));
    for request in [&commit, &fetch()] {
        assert_eq!(w.coordinator.wants_offsets(request), Some(&Text::from(GROUP)));
    }
    let topic = match &commit {
        Request::OffsetCommit(commit) => commit.topics[0].name.clone(),
        _ => unreachable!(),
    };
    w.coordinator.load_offsets(w.now, &GROUP.into(), vec![(topic, 0, value(7))]);
    assert_eq!(w.coordinator.wants_offsets(&commit), None);
    assert_eq!(w.offset(), 7);
    assert_eq!(w.heartbeat(&clients[1]), ErrorCode::NONE, "the generation goes on");
}

#[test]
fn a_group_that_is_only_its_offsets_is_made_of_them_and_one_that_has_none_is_not() {
    let mut w = World::new();
    restart_without_offsets(&mut w);
    assert!(w.coordinator.wants_offsets(&fetch()).is_some());
    w.coordinator.load_offsets(w.now, &GROUP.into(), Vec::new());
    assert_eq!(w.coordinator.group_count(), 0);
    let OffsetCommitRequest { topics, .. } = commit_request(0);
    w.coordinator.load_offsets(w.now, &GROUP.into(), vec![(topics[0].name.clone(), 0, value(9))]);
    assert_eq!((w.coordinator.group_count(), w.offset()), (1, 9));
    assert_eq!(w.coordinator.wants_offsets(&fetch()), None);
}

#[test]
fn a_group_does_not_expire_while_its_offsets_are_not_known() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.leave(vec![clients[0].leaving()]);
    restart_without_offsets(&mut w);
    w.advance(30 * 24 * Duration::from_secs(60 * 60).as_millis() as u64);
    w.coordinator.handle_expiry(w.now);
    w.carry_out();
    assert_eq!(w.coordinator.group_count(), 1);
    w.coordinator.load_offsets(w.now, &GROUP.into(), Vec::new());
    w.coordinator.handle_expiry(w.now);
    w.carry_out();
    assert_eq!(w.coordinator.group_count(), 0);
}

#[test]
fn a_request_that_is_refused_changes_nothing() {
    let mut w = World::new();
    let clients = w.stable(1);
    let requests = [
        (Request::Join(clients[0].join_request()), ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (Request::Heartbeat(clients[0].heartbeat_request()), ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (Request::OffsetCommit(clients[0].commit_request(8)), ErrorCode::COORDINATOR_NOT_AVAILABLE),
        // Older clients do not try again after 15 here.
        (fetch(), ErrorCode::NOT_COORDINATOR),
    ];
    for (nth, (request, expected)) in requests.into_iter().enumerate() {
        let token = ReplyToken(1_000_000 + nth as u64);
        w.open += 1;
        w.coordinator.refuse(w.now, token, request, ErrorCode::COORDINATOR_NOT_AVAILABLE);
        w.carry_out();
        let error = match w.answer(token) {
            Response::Join(join) => join.error_code,
            Response::Heartbeat(error) => error,
            Response::OffsetCommit(commit) => commit.topics[0].partitions[0].1,
            Response::OffsetFetch(fetch) => fetch.error_code,
            other => panic!("{other:?}"),
        };
        assert_eq!(error, expected);
    }
    assert_eq!(w.offset(), -1);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
}
