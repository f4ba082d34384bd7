//! Poll of one partition and fetch of many.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::requests::messages::{
    DeferredPollMessagesRequest, FetchMessagesRequest, PollMessagesRequest,
};
use iggy_binary_protocol::responses::messages::poll_messages::POLL_RESPONSE_HEADER_SIZE;
use iggy_binary_protocol::responses::messages::{
    FetchMessagesResponse, FetchMessagesSectionHeader, PollMessagesResponseHeader,
};
use iggy_binary_protocol::{
    KIND_CONSUMER, KIND_CONSUMER_GROUP, PartitionContext, WireConsumer, WireDecode, WirePollingStrategy,
};
use ringgate_group::ErrorCode;
use ringgate_shards::call::{ListOffsetsCall, PartitionListOffsets, PartitionStatsCall, TopicPartition};
use ringgate_shards::catalogue::{Catalogue, Topic};
use ringgate_shards::iggy_code::IggyCode;

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::read::{Bounds, Messages, Target, read};
use super::{offsets, resolve};

const OFFSET: u8 = 1;
const TIMESTAMP: u8 = 2;
const FIRST: u8 = 3;
const LAST: u8 = 4;
const NEXT: u8 = 5;

/// Kafka's ListOffsets for the end of the log.
const LATEST: i64 = -1;

/// The old form of a poll: it does not wait.
pub async fn poll(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let poll = PollMessagesRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let max_bytes = link.settings.max_fetch_bytes;
    let bounds = Bounds { wait: Duration::ZERO, min_count: 1, count: poll.count, max_bytes };
    one(link, request, &poll, bounds).await
}

/// A poll that may wait for messages.
pub async fn deferred(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeferredPollMessagesRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let bounds = Bounds {
        wait: Duration::from_micros(asked.wait_us),
        min_count: asked.min_count,
        count: asked.poll.count,
        // The client counts the head, too.
        max_bytes: (asked.max_bytes as usize).saturating_sub(POLL_RESPONSE_HEADER_SIZE),
    };
    one(link, request, &asked.poll, bounds).await
}

async fn one(link: &Link, request: &Request, poll: &PollMessagesRequest, bounds: Bounds) -> Result<Answer, IggyCode> {
    let catalogue = link.shard.catalogue();
    let id = poll.partition_id.ok_or(IggyCode::INVALID_IDENTIFIER)?;
    let topic = resolve::topic(&catalogue, &poll.stream_id, &poll.topic_id)?;
    may_poll(&catalogue, topic, &poll.consumer)?;
    let at = resolve::routed(topic, id, request.header.partition_incarnation)?;
    let place = Place { at, max_bytes: bounds.max_bytes, count: bounds.count };
    let target = target(link, topic, place, &poll.consumer, &poll.strategy).await?;
    let mut read = read(link, request.header.request, vec![target], bounds).await?;
    let read = read.pop().unwrap_or(Err(IggyCode::PARTITION_NOT_FOUND))?;
    if poll.auto_commit && read.count > 0 {
        offsets::commit(link, topic, at, &poll.consumer, read.next_offset - 1).await?;
    }
    let head = PollMessagesResponseHeader {
        partition_id: id,
        current_offset: read.current_offset(),
        messages_count: read.count,
        context: context(link, topic),
    };
    let mut body = vec![Bytes::copy_from_slice(&head.to_le_bytes())];
    body.extend(read.batches);
    Ok(Answer::Read(body))
}

/// Reads many partitions of a topic; one that cannot be read does not keep the others.
pub async fn fetch(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = FetchMessagesRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
    may_poll(&catalogue, topic, &asked.consumer)?;
    let mut refused = Vec::new();
    let mut targets = Vec::with_capacity(asked.targets.len());
    for wanted in &asked.targets {
        let at = resolve::routed(topic, wanted.partition_id, wanted.incarnation);
        let target = match at {
            Ok(at) => {
                let place = Place { at, max_bytes: wanted.max_bytes as usize, count: asked.count };
                target(link, topic, place, &asked.consumer, &wanted.strategy).await
            }
            Err(code) => Err(code),
        };
        match target {
            Ok(target) => targets.push(target),
            Err(code) => refused.push((wanted.partition_id, code)),
        }
    }
    let bounds = Bounds {
        // What is wrong with one is told at once.
        wait: if refused.is_empty() { Duration::from_micros(asked.wait_us) } else { Duration::ZERO },
        min_count: asked.min_count,
        count: asked.count,
        max_bytes: asked.max_bytes as usize,
    };
    let read = if targets.is_empty() {
        Vec::new()
    } else {
        read(link, request.header.request, targets.clone(), bounds).await?
    };
    let context = context(link, topic);
    let mut sections: Vec<(FetchMessagesSectionHeader, Vec<Bytes>)> =
        refused.iter().map(|(partition, code)| (failed(*partition, *code, context), Vec::new())).collect();
    for (target, read) in targets.iter().zip(read) {
        let partition = target.at.partition.unsigned_abs();
        match read {
            Err(code) => sections.push((failed(partition, code, context), Vec::new())),
            Ok(read) => {
                if asked.auto_commit && read.count > 0 {
                    offsets::commit(link, topic, target.at, &asked.consumer, read.next_offset - 1).await?;
                }
                sections.push((section(partition, &read, context)?, read.batches));
            }
        }
    }
    let headers: Vec<FetchMessagesSectionHeader> = sections.iter().map(|(header, _)| *header).collect();
    let mut head = BytesMut::zeroed(FetchMessagesResponse::head_size(headers.len()));
    FetchMessagesResponse::write_head(&headers, &mut head).map_err(|_| IggyCode::ERROR)?;
    let mut body = vec![head.freeze()];
    body.extend(sections.into_iter().flat_map(|(_, batches)| batches));
    Ok(Answer::Read(body))
}

fn section(
    partition_id: u32,
    read: &Messages,
    context: PartitionContext,
) -> Result<FetchMessagesSectionHeader, IggyCode> {
    Ok(FetchMessagesSectionHeader {
        partition_id,
        status: 0,
        current_offset: read.current_offset(),
        messages_count: read.count,
        context,
        next_offset: read.next_offset,
        records_len: u32::try_from(read.bytes()).map_err(|_| IggyCode::INVALID_SIZE_BYTES)?,
    })
}

fn failed(partition_id: u32, code: IggyCode, context: PartitionContext) -> FetchMessagesSectionHeader {
    FetchMessagesSectionHeader {
        partition_id,
        status: code.0,
        current_offset: 0,
        messages_count: 0,
        context,
        next_offset: 0,
        records_len: 0,
    }
}

fn context(link: &Link, topic: &Topic) -> PartitionContext {
    PartitionContext { incarnation: topic.incarnation(), owner_generation: 0, metadata_op: link.shard.ops().current() }
}

/// Whether this consumer may poll at all: one for itself. Nobody joins a consumer group here, so no group owns a
/// partition; and an external one keeps offsets, no more.
fn may_poll(catalogue: &Catalogue, topic: &Topic, consumer: &WireConsumer) -> Result<(), IggyCode> {
    match consumer.kind {
        KIND_CONSUMER => Ok(()),
        KIND_CONSUMER_GROUP => {
            resolve::group(catalogue, topic, &consumer.id)?;
            Err(IggyCode::CONSUMER_GROUP_MEMBER_NOT_FOUND)
        }
        _ => Err(IggyCode::FEATURE_UNAVAILABLE),
    }
}

/// A partition to be read, and how much of it.
#[derive(Clone, Copy)]
struct Place {
    at: TopicPartition,
    max_bytes: usize,
    count: u32,
}

/// Where to begin.
async fn target(
    link: &Link,
    topic: &Topic,
    Place { at, max_bytes, count }: Place,
    consumer: &WireConsumer,
    strategy: &WirePollingStrategy,
) -> Result<Target, IggyCode> {
    let owner = topic.owner(link.shard.route(), at.partition);
    let from = match strategy.kind {
        OFFSET => strategy.value,
        FIRST => 0,
        LAST => {
            let stats = link.shard.submit_to(owner, PartitionStatsCall { partitions: vec![at] }).await.0.pop();
            let stats = stats.unwrap_or_else(|| Err(no_answer())).map_err(|refusal| refusal.code)?;
            stats.high_watermark.saturating_sub(count.into()).max(stats.log_start_offset)
        }
        TIMESTAMP => {
            let ms = i64::try_from(strategy.value.div_ceil(1_000)).unwrap_or(i64::MAX);
            match look_up(link, owner, at, ms).await? {
                Some(offset) => offset,
                None => look_up(link, owner, at, LATEST).await?.unwrap_or(0),
            }
        }
        NEXT => match offsets::stored(link, topic, at, consumer).await? {
            Some(stored) => stored.saturating_add(1),
            None => 0,
        },
        _ => return Err(IggyCode::INVALID_COMMAND),
    };
    Ok(Target { at, owner, from, reads: from, max_bytes })
}

fn no_answer() -> ringgate_shards::call::IggyRefusal {
    ringgate_shards::call::IggyRefusal::new(IggyCode::PARTITION_NOT_FOUND, "the partition's owner has no answer")
}

/// The first offset at or behind a time, in ms.
async fn look_up(
    link: &Link,
    owner: ringgate_group::route::ShardId,
    at: TopicPartition,
    timestamp: i64,
) -> Result<Option<u64>, IggyCode> {
    let wanted = PartitionListOffsets { at, timestamp, current_leader_epoch: -1 };
    let found = link.shard.submit_to(owner, ListOffsetsCall { partitions: vec![wanted] }).await.0.pop();
    match found {
        Some(found) if found.error == ErrorCode::NONE => Ok(u64::try_from(found.offset).ok()),
        Some(found) if found.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Err(IggyCode::PARTITION_NOT_FOUND),
        _ => Err(IggyCode::CANNOT_READ_MESSAGE),
    }
}
