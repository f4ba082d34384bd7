//! What requests name: streams, topics, partitions and consumer groups, by name or number.

use std::sync::Arc;

use iggy_binary_protocol::{WireIdentifier, WireName};
use ringgate_shards::call::TopicPartition;
use ringgate_shards::catalogue::{Catalogue, ConsumerGroup, Stream, Topic};
use ringgate_shards::iggy_code::IggyCode;

/// The stream.
pub fn stream<'a>(catalogue: &'a Catalogue, id: &WireIdentifier) -> Result<&'a Arc<Stream>, IggyCode> {
    match id {
        WireIdentifier::Numeric(number) => catalogue.stream(*number).ok_or(IggyCode::STREAM_ID_NOT_FOUND),
        WireIdentifier::String(name) => catalogue.stream_named(name.as_str()).ok_or(IggyCode::STREAM_NAME_NOT_FOUND),
    }
}

/// The topic of a stream.
pub fn topic<'a>(
    catalogue: &'a Catalogue,
    stream_id: &WireIdentifier,
    id: &WireIdentifier,
) -> Result<&'a Arc<Topic>, IggyCode> {
    let stream = stream(catalogue, stream_id)?.number;
    match id {
        WireIdentifier::Numeric(number) => {
            catalogue.topic_numbered(stream, *number).ok_or(IggyCode::TOPIC_ID_NOT_FOUND)
        }
        WireIdentifier::String(name) => catalogue.topic_in(stream, name.as_str()).ok_or(IggyCode::TOPIC_NAME_NOT_FOUND),
    }
}

/// The consumer group of a topic.
pub fn group<'a>(
    catalogue: &'a Catalogue,
    topic: &Topic,
    id: &WireIdentifier,
) -> Result<&'a Arc<ConsumerGroup>, IggyCode> {
    let groups = catalogue.groups(topic.id);
    match id {
        WireIdentifier::Numeric(number) => groups.get(*number).ok_or(IggyCode::CONSUMER_GROUP_ID_NOT_FOUND),
        WireIdentifier::String(name) => groups.named(name.as_str()).ok_or(IggyCode::CONSUMER_GROUP_NAME_NOT_FOUND),
    }
}

/// The partition of a topic.
pub fn partition(topic: &Topic, id: u32) -> Result<TopicPartition, IggyCode> {
    let number = i32::try_from(id).map_err(|_| IggyCode::PARTITION_NOT_FOUND)?;
    topic.partition(number).ok_or(IggyCode::PARTITION_NOT_FOUND)
}

/// The partition that a request was routed to: it must be the one that the client has learnt of.
pub fn routed(topic: &Topic, id: u32, incarnation: u64) -> Result<TopicPartition, IggyCode> {
    let at = partition(topic, id)?;
    if incarnation == topic.incarnation() { Ok(at) } else { Err(IggyCode::HISTORY_UNAVAILABLE) }
}

/// A name as it goes out. All that the catalogue holds have 1 to 255 bytes.
pub fn wire_name(name: &str) -> Result<WireName, IggyCode> {
    WireName::new(name).map_err(|_| IggyCode::ERROR)
}

/// Milliseconds of the catalogue as Iggy's microseconds.
pub fn micros(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1_000)
}
