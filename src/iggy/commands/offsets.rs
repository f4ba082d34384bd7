//! Offsets that consumers keep in partitions: get, store and delete.
//!
//! A consumer of kind 1 goes by its number, or a hash of its name; those of kinds 2 and 3 are consumer groups of the
//! topic. Kind 3 is a group that somebody else coordinates, such as Kafka's: what it stores is kept as sent.

use iggy_binary_protocol::requests::consumer_offsets::{
    DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
};
use iggy_binary_protocol::responses::consumer_offsets::ConsumerOffsetResponse;
use iggy_binary_protocol::{
    KIND_CONSUMER, KIND_CONSUMER_GROUP, KIND_EXTERNAL_GROUP, WireConsumer, WireDecode, WireEncode, WireIdentifier,
};
use ringgate_shards::call::{
    Attempt, ConsumerKey, ConsumerKind, ConsumerOffset, ConsumerOffsetCall, OffsetAction, TopicPartition,
};
use ringgate_shards::catalogue::{Catalogue, Topic};
use ringgate_shards::iggy_code::IggyCode;
use twox_hash::XxHash32;

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::resolve;

/// What a consumer has stored; an empty body when that is nothing.
pub async fn get(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetConsumerOffsetRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
    let id = asked.partition_id.ok_or(IggyCode::INVALID_IDENTIFIER)?;
    let at = resolve::partition(topic, id)?;
    let consumer = key(&catalogue, topic, &asked.consumer)?;
    let found =
        call(link, topic, ConsumerOffsetCall { at, consumer, action: OffsetAction::Get, attempt: None }).await?;
    let Some(stored_offset) = found.stored else { return Ok(Answer::Read(Vec::new())) };
    let current_offset = found.high_watermark.saturating_sub(1);
    Ok(Answer::read(ConsumerOffsetResponse { partition_id: id, current_offset, stored_offset }.to_bytes()))
}

/// Stores an offset.
pub async fn store(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = StoreConsumerOffsetRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let place = (&asked.stream_id, &asked.topic_id, asked.partition_id);
    change(link, request, place, &asked.consumer, OffsetAction::Store(asked.offset)).await
}

/// Deletes what a consumer has stored.
pub async fn delete(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeleteConsumerOffsetRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let place = (&asked.stream_id, &asked.topic_id, asked.partition_id);
    change(link, request, place, &asked.consumer, OffsetAction::Delete).await
}

async fn change(
    link: &Link,
    request: &Request,
    (stream, topic, partition): (&WireIdentifier, &WireIdentifier, Option<u32>),
    consumer: &WireConsumer,
    action: OffsetAction,
) -> Result<Answer, IggyCode> {
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, stream, topic)?;
    let id = partition.ok_or(IggyCode::INVALID_IDENTIFIER)?;
    let at = resolve::routed(topic, id, request.header.partition_incarnation)?;
    let consumer = key(&catalogue, topic, consumer)?;
    // Nobody owns a partition for a group here.
    if request.header.owner_generation != 0 {
        return Err(IggyCode::CONSUMER_GROUP_PARTITION_NOT_OWNED);
    }
    if consumer.kind == ConsumerKind::Group {
        return Err(IggyCode::CONSUMER_GROUP_MEMBER_NOT_FOUND);
    }
    let Some(identity) = link.bound() else { return Err(IggyCode::UNAUTHENTICATED) };
    let attempt = Some(Attempt { session: identity.session, request: request.header.request });
    call(link, topic, ConsumerOffsetCall { at, consumer, action, attempt }).await?;
    Ok(Answer::done(request.header.request, &[]))
}

/// What a consumer that polls has stored.
pub async fn stored(
    link: &Link,
    topic: &Topic,
    at: TopicPartition,
    consumer: &WireConsumer,
) -> Result<Option<u64>, IggyCode> {
    let consumer = key(&link.shard.catalogue(), topic, consumer)?;
    let found =
        call(link, topic, ConsumerOffsetCall { at, consumer, action: OffsetAction::Get, attempt: None }).await?;
    Ok(found.stored)
}

/// Stores what a consumer has read with its poll.
pub async fn commit(
    link: &Link,
    topic: &Topic,
    at: TopicPartition,
    consumer: &WireConsumer,
    offset: u64,
) -> Result<(), IggyCode> {
    let consumer = key(&link.shard.catalogue(), topic, consumer)?;
    let action = OffsetAction::Store(offset);
    call(link, topic, ConsumerOffsetCall { at, consumer, action, attempt: None }).await.map(|_| ())
}

async fn call(link: &Link, topic: &Topic, call: ConsumerOffsetCall) -> Result<ConsumerOffset, IggyCode> {
    let owner = topic.owner(link.shard.route(), call.at.partition);
    link.shard.submit_to(owner, call).await.0.map_err(|refusal| refusal.code)
}

/// By what the consumer's offsets are kept.
fn key(catalogue: &Catalogue, topic: &Topic, consumer: &WireConsumer) -> Result<ConsumerKey, IggyCode> {
    let group = |kind| Ok(ConsumerKey { kind, id: resolve::group(catalogue, topic, &consumer.id)?.id });
    match consumer.kind {
        KIND_CONSUMER => {
            let id = match &consumer.id {
                WireIdentifier::Numeric(number) => *number,
                WireIdentifier::String(name) => XxHash32::oneshot(0, name.as_str().as_bytes()),
            };
            Ok(ConsumerKey { kind: ConsumerKind::Consumer, id })
        }
        KIND_CONSUMER_GROUP => group(ConsumerKind::Group),
        KIND_EXTERNAL_GROUP => group(ConsumerKind::ExternalGroup),
        _ => Err(IggyCode::INVALID_COMMAND),
    }
}
