//! OffsetFetch (API 9): committed offsets, of one group or from version 8 on of several.

use futures_util::future::join_all;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::request::FetchTopic;
use ringgate_group::response::FetchedOffset;
use ringgate_group::{ErrorCode, Request, Response, Text};

use super::groups::{ask, may_describe, string, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource};

/// The first version with an error for the group, and with null for all topics.
const GROUP_ERROR_SINCE: i16 = 2;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 5;
/// The first version that asks for several groups (KIP-709).
const GROUPS_SINCE: i16 = 8;
/// The first version with member ids (KIP-848).
const MEMBERS_SINCE: i16 = 9;

/// Topic names and partitions that are asked for; `None`: all.
type Wanted = Option<Vec<(StrBytes, Vec<i32>)>>;

/// What one group has.
struct Fetched {
    error: ErrorCode,
    topics: Vec<(StrBytes, Vec<FetchedOffset>)>,
}

/// Serves an OffsetFetch.
pub async fn handle(ctx: &RequestContext, request: OffsetFetchRequest) -> Outcome {
    if ctx.api_version >= GROUPS_SINCE {
        let require_stable = request.require_stable;
        let groups = join_all(request.groups.into_iter().map(|group| one_of_many(ctx, group, require_stable))).await;
        return ctx.respond(&OffsetFetchResponse::default().with_groups(groups));
    }
    let wanted: Wanted =
        request.topics.map(|topics| topics.into_iter().map(|t| (t.name.0, t.partition_indexes)).collect());
    let fetched = fetch(ctx, &request.group_id, None, -1, request.require_stable, wanted.clone()).await;
    ctx.respond(&single(ctx.api_version, wanted, fetched))
}

async fn one_of_many(
    ctx: &RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let wanted = group.topics.map(|topics| topics.into_iter().map(|t| (t.name.0, t.partition_indexes)).collect());
    let (member_id, epoch) = if ctx.api_version >= MEMBERS_SINCE {
        (group.member_id.as_ref().map(text), group.member_epoch)
    } else {
        (None, -1)
    };
    let fetched = fetch(ctx, &group.group_id, member_id, epoch, require_stable, wanted).await;
    let topics = fetched.topics.into_iter().map(|(name, offsets)| {
        let partitions = offsets.into_iter().map(|offset| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(offset.partition_index)
                .with_committed_offset(offset.committed_offset)
                .with_committed_leader_epoch(offset.committed_leader_epoch)
                .with_metadata(Some(string(&offset.metadata)))
                .with_error_code(offset.error_code.0)
        });
        OffsetFetchResponseTopics::default().with_name(TopicName(name)).with_partitions(partitions.collect())
    });
    OffsetFetchResponseGroup::default()
        .with_group_id(group.group_id)
        .with_topics(topics.collect())
        .with_error_code(fetched.error.0)
}

/// The answer for one group, up to version 7. Version 1 has no error for the group: it stands at each
/// partition.
fn single(version: i16, wanted: Wanted, fetched: Fetched) -> OffsetFetchResponse {
    let mut topics = fetched.topics;
    if fetched.error.is_err() && version < GROUP_ERROR_SINCE {
        topics = wanted
            .unwrap_or_default()
            .into_iter()
            .map(|(name, partitions)| (name, partitions.into_iter().map(|p| nothing(p, fetched.error)).collect()))
            .collect();
    }
    let topics = topics.into_iter().map(|(name, offsets)| {
        let partitions = offsets.into_iter().map(|offset| {
            let partition = OffsetFetchResponsePartition::default()
                .with_partition_index(offset.partition_index)
                .with_committed_offset(offset.committed_offset)
                .with_metadata(Some(string(&offset.metadata)))
                .with_error_code(offset.error_code.0);
            if version >= LEADER_EPOCH_SINCE {
                partition.with_committed_leader_epoch(offset.committed_leader_epoch)
            } else {
                partition
            }
        });
        OffsetFetchResponseTopic::default().with_name(TopicName(name)).with_partitions(partitions.collect())
    });
    let response = OffsetFetchResponse::default().with_topics(topics.collect());
    if version >= GROUP_ERROR_SINCE { response.with_error_code(fetched.error.0) } else { response }
}

async fn fetch(
    ctx: &RequestContext,
    group_id: &GroupId,
    member_id: Option<Text>,
    member_epoch: i32,
    require_stable: bool,
    wanted: Wanted,
) -> Fetched {
    if !may_describe(ctx, group_id) {
        return Fetched { error: ErrorCode::GROUP_AUTHORIZATION_FAILED, topics: Vec::new() };
    }
    let catalogue = ctx.shard().catalogue();
    let allowed = |name: &str| ctx.allowed(Operation::Describe, Resource::Topic(name));
    let all = wanted.is_none();
    let topics = wanted.as_ref().map(|topics| {
        let known = topics.iter().filter(|(name, _)| allowed(name));
        known
            .map(|(name, partitions)| FetchTopic {
                name: text(name),
                topic_id: catalogue.topic(name).map_or(0, |t| t.id.as_u128()),
                partition_indexes: partitions.clone(),
            })
            .collect()
    });
    let request = ringgate_group::request::OffsetFetchRequest {
        group_id: text(group_id),
        member_id,
        member_epoch,
        require_stable,
        topics,
    };
    let fetched = match ask(ctx, group_id, Request::OffsetFetch(request)).await {
        Response::OffsetFetch(fetched) => fetched,
        other => wrong_kind(&other),
    };
    let mut answers = fetched.topics.into_iter();
    let topics = if all {
        answers
            .filter(|topic| {
                // An offset of a topic that is gone, or was made again, is gone with it.
                let now = catalogue.topic(topic.name.as_str());
                let same = |id: u128| topic.topic_id == 0 || topic.topic_id == id;
                now.is_some_and(|t| same(t.id.as_u128())) && allowed(topic.name.as_str())
            })
            .map(|topic| (string(&topic.name), topic.partitions))
            .collect()
    } else if fetched.error_code.is_err() {
        Vec::new()
    } else {
        let denied = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        let each = wanted.unwrap_or_default().into_iter();
        each.map(|(name, partitions)| match allowed(&name) {
            true => (name, answers.next().map(|t| t.partitions).unwrap_or_default()),
            false => (name, partitions.into_iter().map(|p| nothing(p, denied)).collect()),
        })
        .collect()
    };
    Fetched { error: fetched.error_code, topics }
}

fn nothing(partition_index: i32, error_code: ErrorCode) -> FetchedOffset {
    FetchedOffset {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Text::EMPTY,
        error_code,
    }
}
