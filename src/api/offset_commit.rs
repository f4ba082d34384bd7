//! OffsetCommit (API 8): answered when the offsets are durable.

use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use ringgate_group::request::{CommitPartition, CommitTopic};
use ringgate_group::response::CommittedTopic;
use ringgate_group::{ErrorCode, Request, Response};
use ringgate_shards::turn::Turn;

use super::groups::{ask, may_read, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The versions with a retention time.
const RETENTION: std::ops::RangeInclusive<i16> = 2..=4;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 6;

/// Serves an OffsetCommit. Partitions that do not exist are answered here; the others go to the group's
/// coordinator, unless none is left.
pub async fn handle(ctx: &RequestContext, request: OffsetCommitRequest) -> Outcome {
    let Plan { known, commit } = plan(&ctx.view(), &request).await;
    let committed = match commit {
        None => Vec::new(),
        Some(commit) => match ask(ctx, &request.group_id, Request::OffsetCommit(commit)).await {
            Response::OffsetCommit(committed) => committed.topics,
            other => wrong_kind(&other),
        },
    };
    let partitions = known.len();
    ctx.respond_to_many(partitions, response(&request, known, committed).await).await
}

struct Plan {
    /// What is known of each partition before the coordinator is asked, in request order.
    known: Vec<Option<ErrorCode>>,
    /// The others, for the coordinator.
    commit: Option<ringgate_group::request::OffsetCommitRequest>,
}

async fn plan(view: &View<'_>, request: &OffsetCommitRequest) -> Plan {
    let mut turn = Turn::default();
    let denied = !may_read(view.authorizer, &request.group_id);
    let mut known: Vec<Option<ErrorCode>> = Vec::new();
    let mut topics: Vec<CommitTopic> = Vec::new();
    for topic in &request.topics {
        turn.partition().await;
        let commits = check(view, topic, denied, &mut turn, &mut known).await;
        if !commits.partitions.is_empty() {
            topics.push(commits);
        }
    }
    let commit = (!topics.is_empty()).then(|| ringgate_group::request::OffsetCommitRequest {
        api_version: view.version,
        group_id: text(&request.group_id),
        generation_id_or_member_epoch: request.generation_id_or_member_epoch,
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        retention_time_ms: retention_time_ms(view.version, request.retention_time_ms),
        topics,
    });
    Plan { known, commit }
}

/// Up to version 4 a client may say how long its offsets live. Some clients send 0 and mean the default
/// as well; an offset that is gone as soon as it is committed serves nobody.
fn retention_time_ms(version: i16, asked: i64) -> i64 {
    if RETENTION.contains(&version) && asked > 0 { asked } else { -1 }
}

async fn check(
    view: &View<'_>,
    topic: &OffsetCommitRequestTopic,
    denied: bool,
    turn: &mut Turn,
    known: &mut Vec<Option<ErrorCode>>,
) -> CommitTopic {
    let found = view.catalogue.topic(&topic.name);
    let readable = view.allowed(Operation::Read, Resource::Topic(&topic.name));
    let mut commits =
        CommitTopic { name: text(&topic.name), topic_id: found.map_or(0, |t| t.id.as_u128()), partitions: Vec::new() };
    for partition in &topic.partitions {
        turn.partition().await;
        let refused = if denied {
            Some(ErrorCode::GROUP_AUTHORIZATION_FAILED)
        } else if !readable {
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        } else if found.and_then(|t| t.partition(partition.partition_index)).is_none() {
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        } else {
            None
        };
        known.push(refused);
        if refused.is_none() {
            let epoch = if view.version >= LEADER_EPOCH_SINCE { partition.committed_leader_epoch } else { -1 };
            commits.partitions.push(CommitPartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: epoch,
                committed_metadata: partition.committed_metadata.as_ref().map(text),
            });
        }
    }
    commits
}

/// The answer: the request's topics and partitions in its order.
async fn response(
    request: &OffsetCommitRequest,
    known: Vec<Option<ErrorCode>>,
    committed: Vec<CommittedTopic>,
) -> OffsetCommitResponse {
    let mut turn = Turn::default();
    let mut known = known.into_iter();
    let mut committed = committed.into_iter().flat_map(|topic| topic.partitions);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition, known) in topic.partitions.iter().zip(&mut known) {
            turn.partition().await;
            let answered = || committed.next().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |(_, code)| code);
            let answer = OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(known.unwrap_or_else(answered).0);
            partitions.push(answer);
        }
        topics.push(OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    OffsetCommitResponse::default().with_topics(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, id_of, turns, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
    use kafka_protocol::protocol::StrBytes;

    fn request(topics: &[(&str, &[i32])]) -> OffsetCommitRequest {
        let partition = |&index: &i32| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(100 + i64::from(index))
                .with_committed_leader_epoch(4)
                .with_committed_metadata(None)
        };
        let topics = topics.iter().map(|(name, partitions)| {
            let partitions = partitions.iter().map(partition).collect();
            OffsetCommitRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        });
        OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_generation_id_or_member_epoch(7)
            .with_member_id(StrBytes::from_static_str("m"))
            .with_topics(topics.collect())
    }

    /// The coordinator answers each partition with its own number.
    fn served(world: &World, version: i16, request: &OffsetCommitRequest) -> Vec<Vec<(i32, i16)>> {
        let Plan { known, commit } = finish(plan(&world.view(version), request));
        let topic = |topic: CommitTopic| CommittedTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|p| (p.partition_index, ErrorCode(1000 + p.partition_index as i16)))
                .collect(),
        };
        let committed = commit.map_or(Vec::new(), |c| c.topics.into_iter().map(topic).collect());
        let response = as_read(version, &finish(response(request, known, committed)));
        let topics = response.topics.iter().map(|t| t.partitions.iter());
        topics.map(|partitions| partitions.map(|p| (p.partition_index, p.error_code)).collect()).collect()
    }

    #[test]
    fn s097_unknown_partitions_are_answered_3_and_the_others_by_the_coordinator_in_every_version() {
        let world = World::with(&[("a", 3), ("b", 1)]);
        let request = request(&[("a", &[2, 99, 0]), ("no", &[0]), ("b", &[-1, 0]), ("a", &[1])]);
        for version in versions(8) {
            let expected =
                [vec![(2, 1002), (99, 3), (0, 1000)], vec![(0, 3)], vec![(-1, 3), (0, 1000)], vec![(1, 1001)]];
            assert_eq!(served(&world, version, &request), expected, "version {version}");
        }
    }

    #[test]
    fn the_coordinator_gets_what_the_version_has() {
        let world = World::with(&[("a", 3)]);
        let asked = request(&[("a", &[1])]).with_group_instance_id(Some(StrBytes::from_static_str("i")));
        for version in versions(8) {
            let commit = finish(plan(&world.view(version), &asked)).commit.expect("something to commit");
            assert_eq!((commit.api_version, commit.generation_id_or_member_epoch), (version, 7));
            assert_eq!((commit.group_id.as_str(), commit.member_id.as_str()), ("g", "m"));
            assert_eq!(commit.group_instance_id.as_ref().map(|i| i.as_str()), Some("i"));
            let topic = &commit.topics[0];
            assert_eq!((topic.name.as_str(), topic.topic_id), ("a", id_of(0).as_u128()));
            let partition = &topic.partitions[0];
            assert_eq!((partition.partition_index, partition.committed_offset), (1, 101));
            assert_eq!(partition.committed_leader_epoch, if version >= 6 { 4 } else { -1 }, "version {version}");
            assert_eq!(partition.committed_metadata, None);
        }
    }

    #[test]
    fn only_a_positive_retention_of_versions_2_to_4_counts() {
        for version in versions(8) {
            let counts = version <= 4;
            assert_eq!(retention_time_ms(version, 5000), if counts { 5000 } else { -1 }, "version {version}");
            assert_eq!([-1, 0, i64::MIN].map(|asked| retention_time_ms(version, asked)), [-1; 3]);
        }
    }

    #[test]
    fn when_nothing_is_left_the_coordinator_is_not_asked() {
        let world = World::with(&[("a", 1)]);
        for topics in [&[("no", &[0][..])][..], &[("a", &[1])], &[("a", &[])], &[]] {
            assert!(finish(plan(&world.view(9), &request(topics))).commit.is_none(), "{topics:?}");
        }
    }

    #[test]
    fn a_denied_group_is_answered_30_and_a_denied_topic_29_partition_by_partition() {
        let mut world = World::with(&[("a", 1), ("b", 1)]);
        let request = request(&[("a", &[0]), ("b", &[0, 1])]);
        world.authorizer.denied_topic = Some((Operation::Read, "b"));
        assert_eq!(served(&world, 8, &request), [vec![(0, 1000)], vec![(0, 29), (1, 29)]]);
        world.authorizer.denied_group = Some((Operation::Read, "g"));
        assert_eq!(served(&world, 8, &request), [vec![(0, 30)], vec![(0, 30), (1, 30)]]);
    }

    #[test]
    fn a_request_of_many_partitions_lets_others_have_their_turn() {
        let world = World::with(&[("a", 1)]);
        let request = request(&[("a", &(0..10_000).collect::<Vec<_>>())]);
        let (planned, Plan { known, commit }) = turns(plan(&world.view(9), &request));
        assert_eq!((known.len(), commit.expect("partition 0").topics[0].partitions.len()), (10_000, 1));
        let (answered, response) = turns(response(&request, known, Vec::new()));
        assert_eq!(response.topics[0].partitions.len(), 10_000);
        assert!(planned > 0 && answered > 0, "{planned}, {answered}");
    }
}
