//! OffsetCommit (API 8): answered when the offsets are durable.

use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use ringgate_group::request::{CommitPartition, CommitTopic};
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask, may_read, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource};

/// The versions with a retention time.
const RETENTION: std::ops::RangeInclusive<i16> = 2..=4;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 6;

/// Serves an OffsetCommit. Partitions that do not exist are answered here; the others go to the group's
/// coordinator, unless none is left.
pub async fn handle(ctx: &RequestContext, request: OffsetCommitRequest) -> Outcome {
    let denied = !may_read(ctx, &request.group_id);
    // What is known of each partition before the coordinator is asked, in request order.
    let mut known: Vec<Vec<Option<ErrorCode>>> = Vec::new();
    let mut topics: Vec<CommitTopic> = Vec::new();
    for topic in &request.topics {
        let (codes, commits) = check(ctx, topic, denied);
        known.push(codes);
        if !commits.partitions.is_empty() {
            topics.push(commits);
        }
    }
    let mut answers = if topics.is_empty() { Vec::new() } else { commit(ctx, &request, topics).await }.into_iter();
    let responses = request
        .topics
        .iter()
        .zip(known)
        .map(|(topic, known)| {
            let partitions = topic.partitions.iter().zip(known).map(|(partition, known)| {
                let code = known.unwrap_or_else(|| answers.next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR));
                OffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code.0)
            });
            OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        })
        .collect();
    ctx.respond(&OffsetCommitResponse::default().with_topics(responses))
}

fn check(
    ctx: &RequestContext,
    topic: &OffsetCommitRequestTopic,
    denied: bool,
) -> (Vec<Option<ErrorCode>>, CommitTopic) {
    let catalogue = ctx.shard().catalogue();
    let found = catalogue.topic(&topic.name);
    let readable = ctx.allowed(Operation::Read, Resource::Topic(&topic.name));
    let mut commits =
        CommitTopic { name: text(&topic.name), topic_id: found.map_or(0, |t| t.id.as_u128()), partitions: Vec::new() };
    let codes = topic
        .partitions
        .iter()
        .map(|partition| {
            if denied {
                return Some(ErrorCode::GROUP_AUTHORIZATION_FAILED);
            }
            if !readable {
                return Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
            }
            if found.and_then(|t| t.partition(partition.partition_index)).is_none() {
                return Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            }
            commits.partitions.push(CommitPartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: if ctx.api_version >= LEADER_EPOCH_SINCE {
                    partition.committed_leader_epoch
                } else {
                    -1
                },
                committed_metadata: partition.committed_metadata.as_ref().map(text),
            });
            None
        })
        .collect();
    (codes, commits)
}

/// The coordinator's code for each of these partitions, in order.
async fn commit(ctx: &RequestContext, request: &OffsetCommitRequest, topics: Vec<CommitTopic>) -> Vec<ErrorCode> {
    let commit = ringgate_group::request::OffsetCommitRequest {
        api_version: ctx.api_version,
        group_id: text(&request.group_id),
        generation_id_or_member_epoch: request.generation_id_or_member_epoch,
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        retention_time_ms: if RETENTION.contains(&ctx.api_version) { request.retention_time_ms } else { -1 },
        topics,
    };
    match ask(ctx, &request.group_id, Request::OffsetCommit(commit)).await {
        Response::OffsetCommit(committed) => {
            committed.topics.iter().flat_map(|t| t.partitions.iter().map(|(_, code)| *code)).collect()
        }
        other => wrong_kind(&other),
    }
}
