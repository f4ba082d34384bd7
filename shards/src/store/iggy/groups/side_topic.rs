//! The side topic in Iggy: made, appended to, read, and cut.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use iggy::prelude::{Client, Identifier, SegmentClient, TopicClient};
use iggy_common::with_binary_deadline;
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{BATCH_HEADER_BYTES, FRAME_HEADER_BYTES, IggyBatchBuilder, IggyBatchHeader, messages};

use super::super::limits::{SEND_BYTES_MAX, SIDE_READ_BYTES, SIDE_SEGMENT_BYTES};
use super::super::poll::{From, Poll, poll};
use super::super::send::{NotSent, Send, send};
use super::super::settings::KAFKA_STREAM;
use super::super::{Clients, Failure, IggyTopic, Use, topics};
use super::{SIDE_PARTITIONS, SIDE_TOPIC, SideMessage};
use crate::topic_config::{TopicConfig, TopicDefaults};

fn place() -> IggyTopic {
    IggyTopic { stream: KAFKA_STREAM.into(), topic: SIDE_TOPIC.into() }
}

/// Makes the topic if it is missing. Nothing in it ever expires.
pub(super) async fn ensure(clients: &Clients, deadline: Instant) -> Result<(), String> {
    let config = TopicConfig::defaults(TopicDefaults {
        segment_bytes: SIDE_SEGMENT_BYTES,
        max_message_bytes: SEND_BYTES_MAX,
        retention_ms: -1,
        retention_bytes: -1,
    });
    match topics::create(clients, &place(), u32::from(SIDE_PARTITIONS), &config, deadline).await {
        Ok(()) | Err((ErrorCode::TOPIC_ALREADY_EXISTS, _)) => Ok(()),
        Err((error, message)) => Err(format!("{SIDE_TOPIC} cannot be made: {} {message}", error.name())),
    }
}

/// Why messages were not appended, or not for sure.
#[derive(Debug)]
pub(super) enum NotAppended {
    /// One of them is larger than Iggy takes.
    TooLarge,
    /// Iggy did not take them in time.
    NotSent(NotSent),
}

/// Appends messages as one batch. The offset of the first, if Iggy tells.
pub(super) async fn append(
    clients: &Clients,
    partition: u16,
    client: u64,
    payloads: &[Bytes],
    deadline: Instant,
) -> Result<Option<u64>, NotAppended> {
    let size = BATCH_HEADER_BYTES + payloads.iter().map(|it| FRAME_HEADER_BYTES + it.len()).sum::<usize>();
    let mut batch = IggyBatchBuilder::new(size.min(SEND_BYTES_MAX));
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    for payload in payloads {
        batch.push(0, now_us, payload, &[]).map_err(|_| NotAppended::TooLarge)?;
    }
    let messages = batch.messages();
    let Some(batch) = batch.finish(0, 0, 0) else { return Ok(None) };
    let to = Send {
        topic: place(),
        partition: u32::from(partition),
        hash: client,
        batch,
        messages,
        idempotent: false,
        deadline,
    };
    match send(clients, to.clone()).await {
        // Somebody deleted the topic. What was in it is lost, and no offset with it.
        Err(not_sent) if not_sent.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            tracing::error!("{SIDE_TOPIC} is gone and is made anew; metadata of groups in it are lost");
            if let Err(why) = ensure(clients, deadline).await {
                tracing::error!(why);
                return Err(NotAppended::NotSent(not_sent));
            }
            send(clients, to).await.map(|sent| sent.base_offset).map_err(NotAppended::NotSent)
        }
        sent => sent.map(|sent| sent.base_offset).map_err(NotAppended::NotSent),
    }
}

/// What there is of a partition from an offset on.
#[derive(Debug, Default)]
pub(super) struct SideRead {
    /// With their offsets.
    pub messages: Vec<(u64, SideMessage)>,
    /// The end that was read.
    pub next: u64,
}

/// Reads a partition to its end. What is not understood is said, and left out.
pub(super) async fn read(clients: &Clients, partition: u16, from: u64, deadline: Instant) -> Result<SideRead, Failure> {
    let mut read = SideRead { messages: Vec::new(), next: from };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::NOT_CONNECTED);
        }
        let request = Poll {
            topic: place(),
            partition: u32::from(partition),
            from: From::Offset(read.next),
            messages_max: u32::MAX,
            bytes_max: SIDE_READ_BYTES,
            wait: Duration::ZERO,
            timeout: left,
        };
        let polled = poll(clients, request).await?;
        let before = read.next;
        let mut left = polled.batches;
        while !left.is_empty() {
            let header = IggyBatchHeader::parse(&left).map_err(|_| Failure::MALFORMED)?;
            let batch = left.split_to(header.size.min(left.len()));
            for message in messages(&batch).map_err(|_| Failure::MALFORMED)? {
                let message = message.map_err(|_| Failure::MALFORMED)?;
                if message.offset < read.next {
                    continue;
                }
                read.next = message.offset + 1;
                match SideMessage::decode(message.payload) {
                    Ok(known) => read.messages.push((message.offset, known)),
                    Err(error) => {
                        tracing::error!(partition, offset = message.offset, %error, "a message of {SIDE_TOPIC} is not understood");
                    }
                }
            }
        }
        if read.next == before || read.next > polled.current_offset {
            return Ok(read);
        }
    }
}

/// Bytes and segments of each partition.
pub(super) async fn sizes(clients: &Clients, deadline: Instant) -> Result<Vec<(u16, u64, u32)>, Failure> {
    let client = clients.get(Use::Read, deadline).await?;
    let (stream, topic) = names()?;
    let found = with_binary_deadline(deadline.into(), client.get_topic(&stream, &topic)).await;
    let found = found.map_err(|error| clients.failed(error))?;
    let partitions = found.map(|topic| topic.partitions).unwrap_or_default();
    let size = |partition: &iggy::prelude::Partition| {
        let id = u16::try_from(partition.id).ok()?;
        Some((id, partition.size.as_bytes_u64(), partition.segments_count))
    };
    Ok(partitions.iter().filter_map(size).collect())
}

/// Deletes the oldest segments of a partition, which must be closed.
pub(super) async fn delete_segments(
    clients: &Clients,
    partition: u16,
    count: u32,
    deadline: Instant,
) -> Result<(), Failure> {
    let client = clients.get(Use::Admin, deadline).await?;
    let (stream, topic) = names()?;
    let deleted = client.delete_segments(&stream, &topic, u32::from(partition), count);
    let deleted = with_binary_deadline(deadline.into(), deleted).await;
    let Err(error) = deleted else { return Ok(()) };
    let failure = clients.failed(error);
    if let Some(operation) = failure.operation {
        let _ = client.abandon_operation(operation).await;
    }
    Err(failure)
}

fn names() -> Result<(Identifier, Identifier), Failure> {
    Ok((Identifier::named(KAFKA_STREAM)?, Identifier::named(SIDE_TOPIC)?))
}
