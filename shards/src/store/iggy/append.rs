//! A Kafka batch on its way into a partition: looked through, written as Iggy's messages, sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{IggyBatchHeader, IggyProducer};
use ringgate_wire::records::{BatchInfo, OpenBatch, Walker};

use super::limits::{CONVERT_HERE_BYTES, SEND_BYTES_MAX};
use super::send::{Send, send};
use super::{Clients, IggyTopic};
use crate::limits::TIMESTAMP_AFTER_MAX_MS;
use crate::store::mapping::{Stamps, to_send};

/// A batch to be appended.
#[derive(Debug)]
pub(crate) struct Append {
    /// Where to.
    pub topic: IggyTopic,
    /// The partition's number.
    pub partition: u32,
    /// Its hash, which chooses the client.
    pub hash: u64,
    /// As received.
    pub records: Bytes,
    /// What all batches of the request may still decompress to.
    pub decompress_left: Arc<AtomicUsize>,
    /// The largest batch that is taken.
    pub max_message_bytes: usize,
    /// The gateway's clock.
    pub now_ms: i64,
    /// When it is to be decided.
    pub deadline: Instant,
}

/// A batch that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The offset of its first record; `None`: Iggy does not say.
    pub base_offset: Option<u64>,
    /// How many records.
    pub records: u32,
}

/// Kafka's code, and what is wrong.
pub(crate) type Refused = (ErrorCode, String);

/// Appends. What of a batch had to go in several parts is written in their order; when a later part fails the
/// earlier ones are there, and a client that sends the batch again has these twice.
pub(crate) async fn append(clients: &Clients, append: Append) -> Result<Appended, Refused> {
    let Append { topic, partition, hash, records, decompress_left, max_message_bytes, now_ms, deadline } = append;
    if records.len() > max_message_bytes {
        let message =
            format!("a record batch of {} bytes is over max.message.bytes = {max_message_bytes}", records.len());
        return Err((ErrorCode::MESSAGE_TOO_LARGE, message));
    }
    let most = records.len();
    let converted = heavy(most, move || converted(&records, &decompress_left, now_ms)).await?;
    let mut appended = Appended { base_offset: None, records: converted.records };
    for (nth, batch) in converted.batches.into_iter().enumerate() {
        let header =
            IggyBatchHeader::parse(&batch).map_err(|error| (ErrorCode::UNKNOWN_SERVER_ERROR, error.to_string()))?;
        let what = Send {
            topic: topic.clone(),
            partition,
            hash,
            messages: header.messages,
            batch,
            idempotent: converted.idempotent,
            deadline,
        };
        let sent = send(clients, what).await.map_err(|not| (not.error, not.failure.to_string()))?;
        if nth == 0 {
            appended.base_offset = sent.base_offset;
        }
    }
    Ok(appended)
}

struct Converted {
    batches: Vec<Bytes>,
    records: u32,
    idempotent: bool,
}

fn converted(records: &Bytes, decompress_left: &AtomicUsize, now_ms: i64) -> Result<Converted, Refused> {
    let left = decompress_left.load(Ordering::Relaxed);
    let mut walker = Walker::new(records.clone(), left);
    let walked = loop {
        if let Some(walked) = walker.step(usize::MAX) {
            break walked;
        }
    };
    decompress_left.store(left.saturating_sub(walker.decompressed_bytes()), Ordering::Relaxed);
    let info = walked.map_err(|error| (ErrorCode(error.code()), error.to_string()))?;
    check(&info, now_ms)?;
    let open = OpenBatch::open(records, left).map_err(|error| (ErrorCode(error.code()), error.to_string()))?;
    let header = open.header();
    let producer = u64::try_from(header.producer_id).ok().map(|id| IggyProducer {
        id,
        epoch: header.producer_epoch.max(0) as u16,
        base_sequence: header.base_sequence.max(0) as u32,
    });
    let batches = to_send(&open, Stamps::OfRecords, producer, SEND_BYTES_MAX)
        .map_err(|refusal| (refusal.code(), refusal.to_string()))?;
    Ok(Converted { batches, records: info.records, idempotent: producer.is_some() })
}

fn check(info: &BatchInfo, now_ms: i64) -> Result<(), Refused> {
    if info.control {
        return Err((ErrorCode::INVALID_RECORD, "a control batch, which only a broker may write".into()));
    }
    if info.transactional {
        return Err((ErrorCode::INVALID_REQUEST, "transactions are not supported".into()));
    }
    if info.max_timestamp_found > now_ms.saturating_add(TIMESTAMP_AFTER_MAX_MS) {
        let (found, most) = (info.max_timestamp_found, TIMESTAMP_AFTER_MAX_MS);
        let message = format!(
            "a record's timestamp of {found} ms is over message.timestamp.after.max.ms = {most} ahead of {now_ms} ms"
        );
        return Err((ErrorCode::INVALID_TIMESTAMP, message));
    }
    Ok(())
}

/// Does at once what is short, and on a thread beside the lane's what would hold up its connections.
pub(super) async fn heavy<T: std::marker::Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Refused> + std::marker::Send + 'static,
) -> Result<T, Refused> {
    if bytes <= CONVERT_HERE_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err((ErrorCode::UNKNOWN_SERVER_ERROR, format!("converting records failed: {error}"))),
    }
}
