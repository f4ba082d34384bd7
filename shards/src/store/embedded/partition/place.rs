//! What the log knows of a batch of either kind, and how a frame holds it.
//!
//! A frame of Kafka's batch is the batch. One of Iggy's is `i32 leader epoch, i64 largest timestamp in ms` and
//! the batch, little-endian: the batch itself says neither.

use bytes::{Buf, BufMut, BytesMut};
use ringgate_wire::iggy::{IggyBatchHeader, IggyBatchInfo, IggyProducer};
use ringgate_wire::records::BatchHeader;

use super::BATCH_VERSION;
use crate::limits::TIMESTAMP_AFTER_MAX_MS;
use crate::store::embedded::frame::{self, Frame};
use crate::store::stored::StoredBatch;

/// Bytes before Iggy's batch.
const IGGY_PREFIX_BYTES: usize = 12;
/// Microseconds of a millisecond.
pub(super) const US_PER_MS: u64 = 1000;
/// As [`TIMESTAMP_AFTER_MAX_MS`], in us.
const AFTER_MAX_US: u64 = TIMESTAMP_AFTER_MAX_MS.unsigned_abs() * US_PER_MS;

/// What the log knows of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    /// In ms; -1 when no record has one.
    pub(super) max_timestamp: i64,
    pub(super) leader_epoch: i32,
    pub(super) records: u32,
    pub(super) claim: Option<Claim>,
    /// The broker's stamp in ms; -1 unless it stamped the records.
    pub(super) log_append_time_ms: i64,
}

/// What an idempotent producer says of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// Of Kafka's producers their id. Those of Iggy's are counted by somebody else, so that the two may meet:
    /// they are below 0 here, the id's complement.
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) first_sequence: i32,
    /// How many records, less 1.
    pub(super) last_delta: i32,
}

impl Claim {
    /// That of a batch of Kafka's.
    pub(super) fn of_kafka(header: &BatchHeader) -> Option<Claim> {
        (header.producer_id >= 0).then_some(Claim {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first_sequence: header.base_sequence,
            last_delta: header.last_offset_delta,
        })
    }

    /// That of a batch of Iggy's with so many messages, which have Kafka's ranges.
    pub(super) fn of_iggy(producer: IggyProducer, messages: u32) -> Option<Claim> {
        Some(Claim {
            producer_id: !i64::try_from(producer.id).ok()?,
            epoch: i16::try_from(producer.epoch).ok()?,
            first_sequence: i32::try_from(producer.base_sequence).ok()?,
            last_delta: i32::try_from(messages.checked_sub(1)?).ok()?,
        })
    }

    /// Whether it is one of Iggy's.
    pub(super) fn is_iggys(&self) -> bool {
        self.producer_id < 0
    }

    /// The producer's id, as it says itself.
    pub(super) fn id_as_sent(&self) -> i64 {
        if self.is_iggys() { !self.producer_id } else { self.producer_id }
    }
}

/// The largest time in ms of a batch of Iggy's that has its place: its producer's, or the server's where it has
/// none, which a batch without an origin time has at its first message. No later than Kafka's producers may be ahead
/// of the server: Iggy's may say any time, and one with a clock of another unit would keep its segment for ever.
pub(super) fn iggy_max_timestamp_ms(info: &IggyBatchInfo) -> i64 {
    let us = match info.header.origin_timestamp_us {
        0 => info.max_origin_timestamp_us.max(info.header.base_timestamp_us),
        _ => info.max_origin_timestamp_us,
    };
    let latest_us = info.header.base_timestamp_us.saturating_add(AFTER_MAX_US);
    i64::try_from(us.min(latest_us) / US_PER_MS).unwrap_or(i64::MAX)
}

/// Begins a frame for a batch of Iggy's of so many bytes; the batch goes behind.
pub(super) fn begin_iggy(leader_epoch: i32, max_timestamp: i64, bytes: usize) -> BytesMut {
    let mut out = frame::begin(frame::KIND_IGGY_BATCH, BATCH_VERSION, IGGY_PREFIX_BYTES + bytes);
    out.put_i32_le(leader_epoch);
    out.put_i64_le(max_timestamp);
    out
}

/// Where Iggy's batch begins in its frame.
pub(super) const IGGY_BATCH_AT: usize = frame::HEADER_BYTES + IGGY_PREFIX_BYTES;

/// The batch that a frame holds and its place; `None` when it holds none.
pub(super) fn of_frame(frame: &Frame) -> Option<(Place, StoredBatch)> {
    if frame.version != BATCH_VERSION {
        return None;
    }
    match frame.kind {
        frame::KIND_BATCH => {
            let header = batch_header(frame)?;
            let place = Place {
                base_offset: header.base_offset,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
                leader_epoch: header.partition_leader_epoch,
                records: u32::try_from(header.records).unwrap_or(0),
                claim: Claim::of_kafka(&header),
                log_append_time_ms: if header.is_log_append_time() { header.max_timestamp } else { -1 },
            };
            Some((place, StoredBatch::Kafka(frame.payload.clone())))
        }
        frame::KIND_IGGY_BATCH => {
            let mut batch = frame.payload.clone();
            let leader_epoch = batch.try_get_i32_le().ok()?;
            let max_timestamp = batch.try_get_i64_le().ok()?;
            let header = IggyBatchHeader::parse(&batch).ok().filter(|header| header.size == batch.len())?;
            let stored = StoredBatch::Iggy { batch, leader_epoch };
            let (base_offset, last_offset) = stored.offsets()?;
            let place = Place {
                base_offset,
                last_offset,
                max_timestamp,
                leader_epoch,
                records: header.messages,
                claim: header.producer.and_then(|producer| Claim::of_iggy(producer, header.messages)),
                log_append_time_ms: -1,
            };
            Some((place, stored))
        }
        _ => None,
    }
}

/// The header of the batch of Kafka's that a frame holds.
fn batch_header(frame: &Frame) -> Option<BatchHeader> {
    BatchHeader::parse(&frame.payload).filter(|header| header.size == frame.payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_producers_clock_makes_a_batch_later_than_kafkas_may_be() {
        let now_us = 1_700_000_000_000_000;
        let time_ms = |max_origin_timestamp_us| {
            let header = IggyBatchHeader {
                partition_id: 0,
                base_offset: 0,
                base_timestamp_us: now_us,
                origin_timestamp_us: max_origin_timestamp_us,
                size: 0,
                checksum: 0,
                messages: 1,
                producer: None,
            };
            iggy_max_timestamp_ms(&IggyBatchInfo { header, max_origin_timestamp_us })
        };
        let now_ms = (now_us / US_PER_MS) as i64;
        assert_eq!([now_us - 7_000, 0, now_us + 7_000].map(time_ms), [now_ms - 7, now_ms, now_ms + 7]);
        // Nanoseconds taken for microseconds, and the largest of all.
        assert_eq!([now_us * 1000, u64::MAX].map(time_ms), [now_ms + TIMESTAMP_AFTER_MAX_MS; 2]);
    }
}
