//! Commits, fetches, deletes and expiry.

use std::time::Duration;

use ringgate_group::request::*;
use ringgate_group::{DeletedTopic, ErrorCode, ReplyToken, Request, Response, StoreError, Text};

use crate::consumer_world::{Consumer, Known};
use crate::world::*;

fn delete(w: &mut World, topics: &[&str]) -> (ErrorCode, Vec<ErrorCode>) {
    let topic = |name: &&str| DeleteTopicOffsets { name: (*name).into(), partition_indexes: vec![0] };
    let request = OffsetDeleteRequest { group_id: GROUP.into(), topics: topics.iter().map(topic).collect() };
    let token = w.ask(1, Request::OffsetDelete(request));
    let Response::OffsetDelete(answer) = w.answer(token) else { panic!() };
    (answer.error_code, answer.topics.into_iter().map(|(_, partitions)| partitions[0].1).collect())
}

fn delete_group(w: &mut World, group_id: &str) -> ReplyToken {
    w.ask(1, Request::DeleteGroup(DeleteGroupRequest { group_id: group_id.into() }))
}

fn deleted(w: &mut World, token: ReplyToken) -> ErrorCode {
    let Response::DeleteGroup(error) = w.answer(token) else { panic!() };
    error
}

fn to_topic(name: &str, topic_id: u128, mut request: OffsetCommitRequest) -> OffsetCommitRequest {
    request.topics[0].name = name.into();
    request.topics[0].topic_id = topic_id;
    request
}

#[test]
fn s090_a_commit_of_no_member_makes_a_group_that_only_commits() {
    let mut w = World::new();
    assert_eq!(w.commit(commit_request(7)), ErrorCode::NONE);
    let described = w.describe();
    assert_eq!((described.group_state, described.protocol_type), ("Empty".into(), Text::EMPTY));
    assert_eq!(w.offset(), 7);
}

#[test]
fn s091_a_commit_of_a_generation_makes_no_group() {
    let mut w = World::new();
    for (api_version, expected) in [(8, ErrorCode::ILLEGAL_GENERATION), (9, ErrorCode::GROUP_ID_NOT_FOUND)] {
        let request = OffsetCommitRequest { api_version, generation_id_or_member_epoch: 1, ..commit_request(7) };
        assert_eq!(w.commit(request), expected);
    }
    assert_eq!(w.coordinator.group_count(), 0);
}

#[test]
fn s092_who_is_no_member_does_not_commit_to_an_active_group() {
    let mut w = World::new();
    w.stable(1);
    assert_eq!(w.commit(commit_request(7)), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s093_an_empty_group_takes_commits_of_no_generation_only() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.leave(vec![clients[0].leaving()]);
    let request = OffsetCommitRequest { member_id: "whoever".into(), ..commit_request(7) };
    assert_eq!(w.commit(request), ErrorCode::NONE);
    let request = OffsetCommitRequest { generation_id_or_member_epoch: 1, ..commit_request(7) };
    assert_eq!(w.commit(request), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn s094_a_commit_must_be_of_the_member_and_generation() {
    let mut w = World::new();
    let mut clients = vec![Client::with_instance(1, "a"), Client::with_instance(2, "b")];
    w.form(&mut clients);
    w.settle(&clients);
    let base = clients[1].commit_request(7);
    let cases = [
        (OffsetCommitRequest { generation_id_or_member_epoch: 2, ..base.clone() }, ErrorCode::ILLEGAL_GENERATION),
        (OffsetCommitRequest { generation_id_or_member_epoch: -1, ..base.clone() }, ErrorCode::ILLEGAL_GENERATION),
        (
            OffsetCommitRequest { member_id: "x".into(), group_instance_id: None, ..base.clone() },
            ErrorCode::UNKNOWN_MEMBER_ID,
        ),
        (OffsetCommitRequest { group_instance_id: Some("a".into()), ..base.clone() }, ErrorCode::FENCED_INSTANCE_ID),
        (OffsetCommitRequest { group_instance_id: Some("x".into()), ..base.clone() }, ErrorCode::UNKNOWN_MEMBER_ID),
        (base, ErrorCode::NONE),
    ];
    for (request, expected) in cases {
        assert_eq!(w.commit(request), expected);
    }
}

#[test]
fn s095_commits_are_27_while_completing_and_fine_while_preparing() {
    let mut w = World::new();
    let mut clients = w.stable(2);
    let leader = w.join(1, clients[0].join_request());
    assert_eq!(w.commit(clients[1].commit_request(7)), ErrorCode::NONE);
    let follower = w.join(2, clients[1].join_request());
    let answers = [w.joined(leader), w.joined(follower)];
    clients.iter_mut().zip(&answers).for_each(|(client, answer)| client.takes(answer));
    assert_eq!(w.commit(clients[1].commit_request(8)), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(w.offset(), 7);
}

#[test]
fn s096_metadata_that_is_too_long_fails_alone() {
    let mut w = World::new();
    let mut request = commit_request(1);
    // UTF-16 units are counted: 4096 of 3 bytes each are fine.
    let metadata = |text: String| Some(Text::from(text));
    let partition = |n, committed_metadata| CommitPartition {
        partition_index: n,
        committed_offset: 5,
        committed_leader_epoch: 3,
        committed_metadata,
    };
    request.topics[0].partitions = vec![
        partition(0, metadata("x".repeat(4097))),
        partition(1, metadata("€".repeat(4096))),
        partition(2, metadata("€".repeat(4097))),
    ];
    let token = w.ask(1, Request::OffsetCommit(request));
    let Response::OffsetCommit(answer) = w.answer(token) else { panic!() };
    let errors: Vec<_> = answer.topics[0].partitions.iter().map(|(_, error)| *error).collect();
    let too_large = ErrorCode::OFFSET_METADATA_TOO_LARGE;
    assert_eq!(errors, [too_large, ErrorCode::NONE, too_large]);
    let topic = FetchTopic { name: "t".into(), topic_id: 0, partition_indexes: vec![0, 1] };
    let fetched = w.fetch(Some(vec![topic])).topics.remove(0).partitions;
    assert_eq!((fetched[0].committed_offset, fetched[1].committed_offset), (-1, 5));
    assert_eq!((fetched[1].metadata.len(), fetched[1].committed_leader_epoch), (3 * 4096, 3));
}

#[test]
fn s098_a_group_that_is_not_there_has_no_offsets() {
    let mut w = World::new();
    let topic = FetchTopic { name: "t".into(), topic_id: 0, partition_indexes: vec![0, 3] };
    let answer = w.fetch(Some(vec![topic]));
    assert_eq!(answer.error_code, ErrorCode::NONE);
    assert!(answer.topics[0].partitions.iter().all(|p| (p.committed_offset, p.committed_leader_epoch) == (-1, -1)));
    assert!(w.fetch(None).topics.is_empty());
    assert_eq!(w.coordinator.group_count(), 0);
}

#[test]
fn all_offsets_are_fetched_with_the_topic_ids_of_their_commits() {
    let mut w = World::new();
    w.commit(to_topic("t", 5, commit_request(1)));
    w.commit(to_topic("u", 6, commit_request(2)));
    let mut topics = w.fetch(None).topics;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = topics.iter().map(|t| (t.topic_id, t.partitions[0].committed_offset)).collect();
    assert_eq!(seen, [(5, 1), (6, 2)]);
}

#[test]
fn an_offset_of_a_topic_that_was_made_again_is_none() {
    let mut w = World::new();
    w.commit(to_topic("t", 5, commit_request(1)));
    let mut fetch = |topic_id| {
        let topic = FetchTopic { name: "t".into(), topic_id, partition_indexes: vec![0] };
        w.fetch(Some(vec![topic])).topics[0].partitions[0].committed_offset
    };
    assert_eq!([fetch(5), fetch(6), fetch(0)], [1, -1, 1]);
}

#[test]
fn s100_fetches_wait_for_loading() {
    let mut w = World::new();
    w.coordinator = ringgate_group::Coordinator::new(w.config.clone(), w.totals.clone(), || 7);
    assert_eq!(w.fetch(None).error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
}

#[test]
fn a_commit_is_answered_and_seen_only_when_it_is_kept() {
    let mut w = World::new();
    w.store = Store::Waits;
    let tokens: Vec<_> = (1..=3).map(|n| w.ask(1, Request::OffsetCommit(commit_request(n)))).collect();
    assert_eq!(w.offset(), -1);
    for (n, token) in tokens.into_iter().enumerate() {
        w.parked(token);
        w.complete(Ok(()));
        w.carry_out();
        assert_eq!(w.committed(token), ErrorCode::NONE);
        assert_eq!(w.offset(), n as i64 + 1);
    }
}

#[test]
fn a_commit_that_is_not_kept_fails_alone_and_leaves_what_was() {
    let mut w = World::new();
    w.commit(commit_request(1));
    w.store = Store::Waits;
    let tokens =
        [w.ask(1, Request::OffsetCommit(commit_request(2))), w.ask(1, Request::OffsetCommit(commit_request(3)))];
    w.complete(Err(StoreError::Unavailable));
    w.carry_out();
    assert_eq!(w.committed(tokens[0]), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(w.offset(), 1);
    w.complete(Ok(()));
    w.carry_out();
    assert_eq!(w.committed(tokens[1]), ErrorCode::NONE);
    assert_eq!(w.offset(), 3);
}

#[test]
fn negative_offsets_are_stored() {
    let mut w = World::new();
    assert_eq!(w.commit(commit_request(-5)), ErrorCode::NONE);
    assert_eq!(w.offset(), -5);
}

#[test]
fn s103_offsets_of_subscribed_topics_are_not_deleted() {
    let mut w = World::new();
    assert_eq!(delete(&mut w, &["t"]).0, ErrorCode::GROUP_ID_NOT_FOUND);
    let clients = w.stable(40);
    w.commit(clients[1].commit_request(1));
    w.commit(to_topic("u", 0, clients[1].commit_request(2)));
    let bytes = w.totals.bytes();
    let subscribed = ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC;
    assert_eq!(delete(&mut w, &["t", "u"]), (ErrorCode::NONE, vec![subscribed, ErrorCode::NONE]));
    assert_eq!(w.fetch(None).topics.len(), 1);
    assert!(w.totals.bytes() < bytes);
    w.leave(clients.iter().map(Client::leaving).collect());
    assert_eq!(delete(&mut w, &["t", "v"]), (ErrorCode::NONE, vec![ErrorCode::NONE; 2]));
    assert_eq!((w.offset(), w.kept.len()), (-1, 1));

    let request = OffsetDeleteRequest { group_id: Text::EMPTY, topics: Vec::new() };
    let token = w.ask(1, Request::OffsetDelete(request));
    let Response::OffsetDelete(answer) = w.answer(token) else { panic!() };
    assert_eq!(answer.error_code, ErrorCode::INVALID_GROUP_ID);
}

#[test]
fn s103_active_groups_of_other_types_delete_no_offsets() {
    let mut w = World::new();
    let request = JoinGroupRequest { protocol_type: "connect".into(), api_version: 3, ..Client::new(1).join_request() };
    let token = w.join(1, request);
    w.advance(0);
    assert_eq!(w.joined(token).error_code, ErrorCode::NONE);
    assert_eq!(delete(&mut w, &["t"]).0, ErrorCode::NON_EMPTY_GROUP);
}

#[test]
fn a_subscription_that_cannot_be_read_counts_as_everything() {
    let mut w = World::new();
    let mut clients = vec![Client::new(1)];
    clients[0].protocols[0].metadata = "?".into();
    w.form(&mut clients);
    w.settle(&clients);
    assert_eq!(delete(&mut w, &["u"]).1, [ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC]);
}

#[test]
fn an_offset_that_is_being_written_for_the_first_time_can_be_deleted() {
    let mut w = World::new();
    w.store = Store::Waits;
    let commit = w.ask(1, Request::OffsetCommit(commit_request(1)));
    let request = OffsetDeleteRequest {
        group_id: GROUP.into(),
        topics: vec![DeleteTopicOffsets { name: "t".into(), partition_indexes: vec![0] }],
    };
    let deletion = w.ask(1, Request::OffsetDelete(request));
    w.complete_all(Ok(()));
    assert_eq!(w.committed(commit), ErrorCode::NONE);
    assert!(matches!(w.answer(deletion), Response::OffsetDelete(answer) if answer.error_code == ErrorCode::NONE));
    assert_eq!((w.offset(), w.kept.len()), (-1, 0));
}

#[test]
fn s104_only_empty_groups_are_deleted_and_their_names_are_free() {
    let mut w = World::new();
    let clients = w.stable(1);
    w.commit(clients[0].commit_request(9));
    let token = delete_group(&mut w, GROUP);
    assert_eq!(deleted(&mut w, token), ErrorCode::NON_EMPTY_GROUP);
    w.leave(vec![clients[0].leaving()]);
    let token = delete_group(&mut w, GROUP);
    assert_eq!(deleted(&mut w, token), ErrorCode::NONE);
    assert_eq!((w.offset(), w.kept.len()), (-1, 0));
    assert_eq!((w.totals.groups(), w.totals.members(), w.totals.bytes()), (0, 0, 0));
    let token = delete_group(&mut w, GROUP);
    assert_eq!(deleted(&mut w, token), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(w.form(&mut [Client::new(1)])[0].generation_id, 1);
}

#[test]
fn a_deletion_waits_for_commits_and_what_comes_later_meets_another_group() {
    let mut w = World::new();
    w.commit(commit_request(1));
    w.store = Store::Waits;
    let before = w.ask(1, Request::OffsetCommit(commit_request(2)));
    let deletion = delete_group(&mut w, GROUP);
    let after = w.ask(1, Request::OffsetCommit(commit_request(3)));
    let join = w.join(2, Client::new(2).join_request());
    assert_eq!(w.waiting.len(), 1);
    w.complete_all(Ok(()));
    assert_eq!((w.committed(before), w.committed(after)), (ErrorCode::NONE, ErrorCode::NONE));
    assert_eq!(deleted(&mut w, deletion), ErrorCode::NONE);
    assert_eq!(w.joined(join).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!((w.offset(), w.open), (3, 0));
}

#[test]
fn a_join_that_queues_behind_a_deletion_goes_with_its_connection() {
    let mut w = World::new();
    w.commit(commit_request(1));
    w.store = Store::Waits;
    let deletion = delete_group(&mut w, GROUP);
    let join = w.join(2, JoinGroupRequest { api_version: 3, ..Client::new(2).join_request() });
    w.close(2);
    w.parked(join);
    w.complete_all(Ok(()));
    assert_eq!(deleted(&mut w, deletion), ErrorCode::NONE);
    assert_eq!(w.joined(join).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!((w.totals.members(), w.open), (0, 0));
}

#[test]
fn a_deletion_that_is_not_kept_leaves_the_group() {
    let mut w = World::new();
    w.commit(commit_request(1));
    w.store = Store::Fails(StoreError::Unavailable);
    let token = delete_group(&mut w, GROUP);
    assert_eq!(deleted(&mut w, token), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(w.offset(), 1);
}

#[test]
fn s105_offsets_of_a_deleted_topic_vanish_in_every_group() {
    let mut w = World::new();
    for n in 0..200 {
        let group_id = Text::from(format!("group-{n}"));
        w.commit(OffsetCommitRequest { group_id, ..to_topic("t", 5, commit_request(1)) });
    }
    w.commit(to_topic("t", 6, commit_request(2)));
    w.store = Store::Waits;
    let late = w.ask(
        1,
        Request::OffsetCommit(OffsetCommitRequest {
            group_id: "group-7".into(),
            ..to_topic("t", 5, commit_request(3))
        }),
    );
    w.coordinator.handle_topics_deleted(w.now, vec![DeletedTopic { name: "t".into(), topic_id: 5 }]);
    w.carry_out();
    w.complete_all(Ok(()));
    assert_eq!(w.committed(late), ErrorCode::NONE);
    assert_eq!((w.offset(), w.totals.bytes()), (2, bytes_of_offsets(&w, 1)));
    assert_eq!(w.kept.len(), 1);
}

fn bytes_of_offsets(w: &World, offsets: usize) -> usize {
    let ids: usize = (0..200).map(|n| format!("group-{n}").len()).sum::<usize>() + GROUP.len();
    w.coordinator.group_count() * ringgate_group::limits::GROUP_BYTES
        + ids
        + offsets * ringgate_group::limits::OFFSET_BYTES
}

fn expire(w: &mut World) {
    w.coordinator.handle_expiry(w.now);
    w.carry_out();
}

#[test]
fn s106_a_group_that_only_commits_expires_by_commit_time() {
    let mut w = World::with(|config| config.offsets_retention = Duration::from_secs(3600));
    w.commit(commit_request(1));
    w.advance(1_800_000);
    w.commit(to_topic("u", 0, commit_request(2)));
    w.advance(1_800_000);
    expire(&mut w);
    assert_eq!(w.fetch(None).topics.len(), 1);
    w.advance(1_800_000);
    expire(&mut w);
    assert_eq!((w.coordinator.group_count(), w.kept.len(), w.totals.bytes()), (0, 0, 0));
}

#[test]
fn s106_an_emptied_group_expires_from_when_it_emptied() {
    let mut w = World::new();
    w.config.offsets_retention = Duration::from_secs(3600);
    let mut w = World::with(|config| {
        config.offsets_retention = Duration::from_secs(3600);
        config.initial_rebalance_delay = Duration::ZERO;
    });
    let clients = w.stable(1);
    w.commit(clients[0].commit_request(1));
    for _ in 0..800 {
        w.advance(9_000);
        w.heartbeat(&clients[0]);
    }
    w.leave(vec![clients[0].leaving()]);
    w.advance(3_599_999);
    expire(&mut w);
    assert_eq!(w.offset(), 1);
    w.restart();
    w.advance(1);
    expire(&mut w);
    assert_eq!((w.coordinator.group_count(), w.kept.len()), (0, 0));
}

#[test]
fn s106_a_stable_group_keeps_the_offsets_of_its_subscriptions_only() {
    let mut w = World::with(|config| {
        config.offsets_retention = Duration::from_secs(3600);
        config.initial_rebalance_delay = Duration::ZERO;
    });
    let clients = w.stable(40);
    w.commit(clients[0].commit_request(1));
    w.commit(to_topic("u", 0, clients[0].commit_request(2)));
    for _ in 0..400 {
        w.advance(9_000);
        for client in &clients {
            assert_eq!(w.heartbeat(client), ErrorCode::NONE);
        }
    }
    expire(&mut w);
    assert_eq!(w.fetch(None).topics[0].name, "t");
    assert_eq!((w.fetch(None).topics.len(), w.state().as_str()), (1, "Stable"));
}

#[test]
fn s106_a_commit_with_a_retention_of_its_own_expires_by_it() {
    let mut w = World::with(|config| config.offsets_retention = Duration::ZERO);
    w.commit(OffsetCommitRequest { api_version: 4, retention_time_ms: 5_000, ..commit_request(1) });
    w.advance(4_999);
    expire(&mut w);
    assert_eq!(w.offset(), 1);
    w.advance(1);
    expire(&mut w);
    assert_eq!(w.offset(), -1);
    // From v5 there is no such field, and 0 keeps offsets for ever.
    w.commit(OffsetCommitRequest { api_version: 5, retention_time_ms: 5_000, ..commit_request(2) });
    w.advance(u64::from(u32::MAX));
    expire(&mut w);
    assert_eq!(w.offset(), 2);
}

#[test]
fn the_empty_name_is_that_of_a_group_which_only_commits() {
    let mut w = World::new();
    assert_eq!(w.commit(OffsetCommitRequest { group_id: Text::EMPTY, ..commit_request(7) }), ErrorCode::NONE);
    w.restart();
    let topic = FetchTopic { name: "t".into(), topic_id: 0, partition_indexes: vec![0] };
    let request = OffsetFetchRequest { topics: Some(vec![topic]), member_epoch: -1, ..Default::default() };
    let token = w.ask(1, Request::OffsetFetch(request));
    let Response::OffsetFetch(fetched) = w.answer(token) else { panic!() };
    assert_eq!(fetched.topics[0].partitions[0].committed_offset, 7);
    let token = w.ask(1, Request::DescribeGroup(DescribeGroupRequest { api_version: 6, group_id: Text::EMPTY }));
    assert!(matches!(w.answer(token), Response::DescribeGroup(described) if described.group_state == "Empty"));
    let token = delete_group(&mut w, "");
    assert_eq!(deleted(&mut w, token), ErrorCode::NONE);
    let token = delete_group(&mut w, "");
    assert_eq!(deleted(&mut w, token), ErrorCode::GROUP_ID_NOT_FOUND);
}

/// A world in which offsets live for an hour.
fn for_an_hour() -> World {
    World::with(|config| {
        config.offsets_retention = Duration::from_secs(3600);
        config.initial_rebalance_delay = Duration::ZERO;
    })
}

#[test]
fn a_commit_to_an_empty_group_does_not_change_since_when_it_is_empty() {
    let mut w = for_an_hour();
    let clients = w.stable(1);
    w.leave(vec![clients[0].leaving()]);
    w.advance(3_599_999);
    assert_eq!(w.commit(commit_request(1)), ErrorCode::NONE);
    expire(&mut w);
    assert_eq!(w.offset(), 1);
    w.advance(1);
    expire(&mut w);
    assert_eq!(w.offset(), -1);
}

#[test]
fn active_groups_of_other_types_and_groups_that_rebalance_keep_all_offsets() {
    let mut w = for_an_hour();
    let mut request =
        JoinGroupRequest { protocol_type: "connect".into(), api_version: 3, ..Client::new(1).join_request() };
    request.session_timeout_ms = 1_800_000;
    let token = w.join(1, request);
    w.advance(0);
    let mut client = Client::new(1);
    let answer = w.joined(token);
    client.takes(&answer);
    let sync = SyncGroupRequest { protocol_type: Some("connect".into()), ..client.sync_request(&[]) };
    let token = w.ask(1, Request::Sync(sync));
    assert_eq!(w.synced(token).error_code, ErrorCode::NONE);
    assert_eq!(w.commit(client.commit_request(1)), ErrorCode::NONE);
    for _ in 0..4 {
        w.advance(1_000_000);
        assert_eq!(w.heartbeat(&client), ErrorCode::NONE);
    }
    expire(&mut w);
    assert_eq!(w.offset(), 1);

    let mut w = for_an_hour();
    let mut clients: Vec<Client> = (1..=2).map(|n| Client { session_ms: 1_800_000, ..Client::new(n) }).collect();
    w.form(&mut clients);
    w.settle(&clients);
    assert_eq!(w.commit(to_topic("u", 0, clients[0].commit_request(1))), ErrorCode::NONE);
    for _ in 0..4 {
        w.advance(1_000_000);
        assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::NONE));
    }
    let leader = w.join(1, clients[0].join_request());
    expire(&mut w);
    assert_eq!((w.state().as_str(), w.fetch(None).topics.len()), ("PreparingRebalance", 1));
    let follower = w.join(2, clients[1].join_request());
    assert_eq!((w.joined(leader).generation_id, w.joined(follower).generation_id), (2, 2));
    expire(&mut w);
    assert_eq!((w.state().as_str(), w.fetch(None).topics.len()), ("CompletingRebalance", 1));
    clients.iter_mut().for_each(|client| client.generation = 2);
    w.settle(&clients);
    expire(&mut w);
    assert_eq!((w.state().as_str(), w.fetch(None).topics.len()), ("Stable", 0));
}

#[test]
fn what_a_static_member_reads_after_a_restart_is_kept_though_nobody_rebalanced() {
    let mut w = for_an_hour();
    let mut clients = vec![Client::with_instance(1, "a")];
    clients[0].session_ms = 1_800_000;
    w.form(&mut clients);
    w.settle(&clients);
    // Somebody asks what is subscribed to before the member restarts.
    assert_eq!(delete(&mut w, &["t"]).1, [ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC]);
    let mut again = Client { protocols: vec![protocol("range", &["u"])], member_id: Text::EMPTY, ..clients[0].clone() };
    let token = w.join(2, again.join_request());
    let answer = w.joined(token);
    again.takes(&answer);
    assert_eq!(w.commit(to_topic("t", 0, again.commit_request(1))), ErrorCode::NONE);
    assert_eq!(w.commit(to_topic("u", 0, again.commit_request(2))), ErrorCode::NONE);
    for _ in 0..4 {
        w.advance(1_000_000);
        assert_eq!(w.heartbeat(&again), ErrorCode::NONE);
    }
    expire(&mut w);
    let kept: Vec<_> = w.fetch(None).topics.into_iter().map(|topic| topic.name).collect();
    assert_eq!(kept, [Text::from("u")]);
}

#[test]
fn a_consumer_group_keeps_the_offsets_of_what_it_subscribes_to_by_name_or_pattern() {
    let mut w = World::with(|config| {
        config.offsets_retention = Duration::from_secs(3600);
        config.consumer_assignment_interval = Duration::ZERO;
    });
    let mut known = Known::default();
    for topic in ["t", "u-1", "v"] {
        known.set(&mut w, topic, 1);
    }
    let mut member = Consumer { regex: Some("u-.*".into()), ..Consumer::new("m", &["t"]) };
    member.join(&mut w);
    let mut members = [member];
    w.come_to_rest(&mut members);
    for topic in ["t", "u-1", "v"] {
        let request = OffsetCommitRequest {
            api_version: 9,
            generation_id_or_member_epoch: members[0].epoch,
            member_id: "m".into(),
            ..to_topic(topic, 0, commit_request(1))
        };
        assert_eq!(w.commit(request), ErrorCode::NONE);
    }
    let subscribed = ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC;
    assert_eq!(delete(&mut w, &["t", "u-1"]), (ErrorCode::NONE, vec![subscribed; 2]));
    for _ in 0..120 {
        w.advance(30_000);
        members[0].beat(&mut w);
    }
    expire(&mut w);
    let mut kept: Vec<_> = w.fetch(None).topics.into_iter().map(|topic| topic.name).collect();
    kept.sort();
    assert_eq!(kept, [Text::from("t"), Text::from("u-1")]);
    assert_eq!(delete(&mut w, &["v"]), (ErrorCode::NONE, vec![ErrorCode::NONE]));
}

#[test]
fn a_classic_group_looks_at_no_member_of_a_fetch() {
    let mut w = World::new();
    let clients = w.stable(1);
    assert_eq!(w.commit(clients[0].commit_request(7)), ErrorCode::NONE);
    let topic = FetchTopic { name: "t".into(), topic_id: 0, partition_indexes: vec![0] };
    let _rebalancing = w.join(1, clients[0].join_request());
    for (member_id, member_epoch) in [(Some("whoever".into()), 9), (Some(Text::EMPTY), -1), (None, -1)] {
        let request = OffsetFetchRequest {
            group_id: GROUP.into(),
            member_id,
            member_epoch,
            topics: Some(vec![topic.clone()]),
            ..Default::default()
        };
        let token = w.ask(1, Request::OffsetFetch(request));
        let Response::OffsetFetch(fetched) = w.answer(token) else { panic!() };
        assert_eq!(fetched.topics[0].partitions[0].committed_offset, 7);
    }
}

/// Older clients do not ask again after 15 here (KAFKA-17267).
#[test]
fn a_fetch_from_a_gateway_that_stops_is_answered_16_and_a_commit_15() {
    let mut w = World::new();
    assert_eq!(w.commit(commit_request(7)), ErrorCode::NONE);
    w.coordinator.handle_shutdown(w.now);
    w.carry_out();
    assert_eq!(w.fetch(None).error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(w.commit(commit_request(8)), ErrorCode::COORDINATOR_NOT_AVAILABLE);
}

#[test]
fn a_consumer_group_that_has_never_rebalanced_counts_as_subscribed_to_everything() {
    let mut w = World::with(|_| {});
    assert_eq!(w.commit(commit_request(7)), ErrorCode::NONE);
    let parked = w.enter(&mut Client::new(1));
    assert_eq!(delete(&mut w, &["t", "u"]), (ErrorCode::NONE, vec![ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC; 2]));
    w.parked(parked);
}

#[test]
fn a_group_is_not_deleted_while_it_rebalances_and_one_that_only_commits_is() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    let tokens: Vec<_> = clients.iter_mut().map(|client| w.enter(client)).collect();
    for state in ["PreparingRebalance", "CompletingRebalance"] {
        assert_eq!(w.state(), state);
        let token = delete_group(&mut w, GROUP);
        assert_eq!(deleted(&mut w, token), ErrorCode::NON_EMPTY_GROUP);
        w.advance(0);
    }
    assert!(tokens.into_iter().all(|token| w.joined(token).error_code == ErrorCode::NONE));
    w.commit(OffsetCommitRequest { group_id: "simple".into(), ..commit_request(1) });
    let token = delete_group(&mut w, "simple");
    assert_eq!(deleted(&mut w, token), ErrorCode::NONE);
}

#[test]
fn a_retention_that_a_commit_names_waits_until_its_topic_is_not_subscribed_to() {
    let mut w = World::new();
    let clients = w.stable(1);
    let request = OffsetCommitRequest { api_version: 4, retention_time_ms: 5_000, ..clients[0].commit_request(7) };
    assert_eq!(w.commit(request), ErrorCode::NONE);
    w.advance(6_000);
    assert_eq!(w.heartbeat(&clients[0]), ErrorCode::NONE);
    expire(&mut w);
    assert_eq!(w.offset(), 7);
    w.leave(vec![clients[0].leaving()]);
    expire(&mut w);
    assert_eq!(w.offset(), -1);
}

#[test]
fn a_group_that_never_had_anything_goes_with_the_next_sweep_but_not_while_somebody_may_join() {
    let mut w = World::new();
    let token = w.join(1, Client::new(1).join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    w.restart();
    assert_eq!((w.state().as_str(), w.describe().protocol_type), ("Empty", Text::EMPTY));
    let token = w.join(1, Client::new(1).join_request());
    assert_eq!(w.joined(token).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    expire(&mut w);
    assert_eq!(w.coordinator.group_count(), 1);
    w.advance(SESSION_MS as u64);
    expire(&mut w);
    assert_eq!((w.coordinator.group_count(), w.kept.len()), (0, 0));
}

#[test]
fn the_last_of_two_values_for_a_partition_in_one_commit_counts() {
    let mut w = World::new();
    let mut request = commit_request(1);
    let second = CommitPartition { committed_offset: 2, ..request.topics[0].partitions[0].clone() };
    request.topics[0].partitions.push(second);
    assert_eq!(w.commit(request), ErrorCode::NONE);
    let bytes = w.totals.bytes();
    assert_eq!(w.offset(), 2);
    w.restart();
    assert_eq!((w.offset(), w.totals.bytes()), (2, bytes));
}
