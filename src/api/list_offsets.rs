//! ListOffsets (API 2): offsets by time, and the ends of partitions.

use futures_util::future::join_all;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use ringgate_group::ErrorCode;
use ringgate_shards::call::{ListOffsetsCall, PartitionListOffsets};

use super::{Operation, Outcome, RequestContext, Resource};

/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 4;

/// The special timestamps that a version knows: -2 and -1 always, -3 from 7 (KIP-734), -4 from 8
/// (KIP-405), -5 from 9 (KIP-1005).
fn lowest_timestamp(version: i16) -> i64 {
    match version {
        ..7 => -2,
        7 => -3,
        8 => -4,
        _ => -5,
    }
}

/// Serves a ListOffsets. Every record is stable when it is written, so isolation makes no difference.
pub async fn handle(ctx: &RequestContext, request: ListOffsetsRequest) -> Outcome {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let partitions = topic.partitions.iter().map(|partition| look_up(ctx, &topic.name, partition));
        let partitions = join_all(partitions).await;
        topics.push(ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    ctx.respond(&ListOffsetsResponse::default().with_topics(topics))
}

async fn look_up(ctx: &RequestContext, name: &str, wanted: &ListOffsetsPartition) -> ListOffsetsPartitionResponse {
    let failed = |error: ErrorCode| {
        ListOffsetsPartitionResponse::default().with_partition_index(wanted.partition_index).with_error_code(error.0)
    };
    if !ctx.allowed(Operation::Describe, Resource::Topic(name)) {
        return failed(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    if wanted.timestamp < lowest_timestamp(ctx.api_version) {
        return failed(ErrorCode::UNSUPPORTED_VERSION);
    }
    let catalogue = ctx.shard().catalogue();
    let topic = catalogue.topic(name);
    let Some((topic, at)) = topic.and_then(|t| t.partition(wanted.partition_index).map(|at| (t, at))) else {
        return failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    let partition = PartitionListOffsets {
        at,
        timestamp: wanted.timestamp,
        current_leader_epoch: if ctx.api_version >= LEADER_EPOCH_SINCE { wanted.current_leader_epoch } else { -1 },
    };
    let owner = topic.owner(ctx.shard().route(), wanted.partition_index);
    let found = ctx.shard().submit_to(owner, ListOffsetsCall { partitions: vec![partition] }).await.0;
    let Some(found) = found.first() else { return failed(ErrorCode::UNKNOWN_SERVER_ERROR) };
    let response = failed(found.error).with_timestamp(found.timestamp).with_offset(found.offset);
    if ctx.api_version >= LEADER_EPOCH_SINCE { response.with_leader_epoch(found.leader_epoch) } else { response }
}
