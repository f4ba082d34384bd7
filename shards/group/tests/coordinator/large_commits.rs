//! Commits of very many partitions: taken in and written some at a time, and answered as one.

use ringgate_group::limits::{OFFSET_BYTES, RECORDS_PER_WRITE};
use ringgate_group::request::*;
use ringgate_group::response::OffsetCommitResponse;
use ringgate_group::{ConnectionId, Effect, ErrorCode, ReplyToken, Request, Response, StoreError};

use crate::world::*;

const PARTITIONS: i32 = 10_000;

/// Of every topic some.
fn large_commit(offset: i64) -> OffsetCommitRequest {
    let partition = |n| CommitPartition {
        partition_index: n,
        committed_offset: offset + i64::from(n),
        committed_leader_epoch: -1,
        committed_metadata: None,
    };
    let topic = |name: &str, from, to| CommitTopic {
        name: name.into(),
        topic_id: 0,
        partitions: (from..to).map(partition).collect(),
    };
    let topics = vec![topic("t", 0, 1), topic("none", 0, 0), topic("u", 0, PARTITIONS - 1)];
    OffsetCommitRequest { topics, ..commit_request(0) }
}

fn committed(w: &mut World, token: ReplyToken) -> OffsetCommitResponse {
    match w.answer(token) {
        Response::OffsetCommit(response) => response,
        other => panic!("{other:?}"),
    }
}

fn codes(response: &OffsetCommitResponse) -> Vec<ErrorCode> {
    response.topics.iter().flat_map(|topic| &topic.partitions).map(|(_, code)| *code).collect()
}

/// The offset of the last partition.
fn last(w: &mut World) -> i64 {
    let topic = FetchTopic { name: "u".into(), topic_id: 0, partition_indexes: vec![PARTITIONS - 2] };
    w.fetch(Some(vec![topic])).topics[0].partitions[0].committed_offset
}

#[test]
fn others_go_on_while_a_large_commit_is_taken_in_and_no_write_of_it_is_large() {
    let mut w = World::new();
    let (large, behind, other) = (ReplyToken(1 << 40), ReplyToken(2 << 40), ReplyToken(3 << 40));
    w.coordinator.handle_request(w.now, large, ConnectionId(1), Request::OffsetCommit(large_commit(5)));
    w.coordinator.handle_request(w.now, behind, ConnectionId(2), Request::OffsetCommit(commit_request(70)));
    let elsewhere = OffsetCommitRequest { group_id: "other".into(), ..commit_request(1) };
    w.coordinator.handle_request(w.now, other, ConnectionId(3), Request::OffsetCommit(elsewhere));
    let (mut order, mut written) = (Vec::new(), 0);
    while let Some(effect) = w.coordinator.poll_effect() {
        match effect {
            Effect::Persist { id, records } => {
                assert!(records.len() <= RECORDS_PER_WRITE);
                written += records.len();
                w.coordinator.handle_persisted(w.now, id, Ok(()));
            }
            Effect::Reply { token, .. } => order.push(token),
            _ => {}
        }
    }
    assert_eq!(order, [other, large, behind], "the same group's come in their order");
    assert_eq!(written, PARTITIONS as usize + 2, "each once, and the two others");
    assert_eq!((w.offset(), last(&mut w)), (70, 5 + i64::from(PARTITIONS) - 2));
}

#[test]
fn a_large_commit_is_answered_when_all_of_it_is_kept() {
    let mut w = World::new();
    w.store = Store::Waits;
    let token = w.ask(1, Request::OffsetCommit(large_commit(5)));
    while w.waiting.len() > 1 {
        w.complete(Ok(()));
        w.carry_out();
        w.parked(token);
    }
    w.complete(Ok(()));
    w.carry_out();
    let response = committed(&mut w, token);
    assert_eq!(response.topics.iter().map(|topic| topic.partitions.len()).collect::<Vec<_>>(), [1, 0, 9_999]);
    assert!(codes(&response).iter().all(|code| *code == ErrorCode::NONE));
    let indexes = response.topics[2].partitions.iter().map(|(index, _)| *index);
    assert!(indexes.eq(0..PARTITIONS - 1), "in the order of the request");
    w.restart();
    assert_eq!((w.offset(), last(&mut w)), (5, 5 + i64::from(PARTITIONS) - 2));
}

#[test]
fn what_of_a_large_commit_is_not_kept_fails_and_the_rest_does_not() {
    let mut w = World::new();
    w.store = Store::Waits;
    let token = w.ask(1, Request::OffsetCommit(large_commit(5)));
    w.complete(Ok(()));
    w.complete_all(Err(StoreError::Unavailable));
    let codes = codes(&committed(&mut w, token));
    let (kept, failed) = codes.split_at(RECORDS_PER_WRITE);
    assert!(kept.iter().all(|code| *code == ErrorCode::NONE));
    assert!(failed.iter().all(|code| *code == ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!((w.offset(), last(&mut w)), (5, -1));
    w.store = Store::Keeps;
    let token = w.ask(1, Request::OffsetCommit(large_commit(6)));
    assert!(self::codes(&committed(&mut w, token)).iter().all(|code| *code == ErrorCode::NONE));
    assert_eq!((w.offset(), last(&mut w)), (6, 6 + i64::from(PARTITIONS) - 2));
}

#[test]
fn a_large_commit_that_there_is_no_room_for_fails_as_a_whole() {
    let mut w = World::with(|config| config.max_group_memory = 100 * OFFSET_BYTES);
    assert_eq!(w.commit(commit_request(1)), ErrorCode::NONE);
    let token = w.ask(1, Request::OffsetCommit(large_commit(5)));
    let codes = codes(&committed(&mut w, token));
    assert_eq!(codes.len(), PARTITIONS as usize);
    assert!(codes.iter().all(|code| *code == ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!((w.offset(), last(&mut w)), (1, -1));
}
