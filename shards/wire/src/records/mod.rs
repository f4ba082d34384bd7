//! Record batches (magic 2): the header, the walk that checks a batch once when it arrives ([`Walker`]), the
//! changes that the log makes to it, reading its records ([`OpenBatch`]), finding one by time
//! ([`TimeSearch`]), and writing a batch ([`BatchBuilder`]).
//!
//! What must stay true: a batch that the walk finds right is read to its end by every consumer, and neither
//! the walk nor reading allocates by a number that a peer sent.

mod build;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod varint;
mod walk;

use bytes::Bytes;

pub use crate::decompress::Compression;
pub use build::{BatchBuilder, BatchFull};
pub use read::{Headers, OpenBatch, Record, Records};
pub use search::{TimeSearch, first_at_or_after};
pub use walk::Walker;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Where the bytes begin that the CRC covers.
const CRC_FROM: usize = 21;
/// Bytes of a batch that its length field does not count.
const BEFORE_LENGTH: usize = 12;
/// Where the format's version is.
const MAGIC_AT: usize = 16;
/// The format's version.
const MAGIC: u8 = 2;

const ATTRIBUTE_LOG_APPEND_TIME: i16 = 1 << 3;
const ATTRIBUTE_TRANSACTIONAL: i16 = 1 << 4;
const ATTRIBUTE_CONTROL: i16 = 1 << 5;

/// Why a batch is not taken. The codes are those that Kafka answers from Produce version 3 on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// Damaged on the way: `CORRUPT_MESSAGE(2)`.
    #[error("the batch is corrupt: {0}")]
    Corrupt(String),
    /// Well received and wrong: `INVALID_RECORD(87)`.
    #[error("the batch is invalid: {0}")]
    Invalid(String),
    /// A message format from before Kafka 0.11: `INVALID_RECORD(87)`, as `ProduceRequest.validateRecords`
    /// has it.
    #[error("message format {0} is not supported, only 2")]
    OldFormat(i8),
    /// Not one of gzip, snappy, lz4, zstd: `UNSUPPORTED_COMPRESSION_TYPE(76)`.
    #[error("compression type {0} is not known")]
    UnknownCompression(i16),
    /// More records than the request may bring: `MESSAGE_TOO_LARGE(10)`.
    #[error("the records decompress to more than max_decompressed_bytes allows ({0} bytes left)")]
    TooLarge(usize),
    /// The producer claims the broker's own stamp: `INVALID_TIMESTAMP(32)`.
    #[error("the batch says LogAppendTime, which only a broker may")]
    AppendTimeFromProducer,
}

impl RecordError {
    /// Kafka's number for it.
    pub fn code(&self) -> i16 {
        match self {
            RecordError::Corrupt(_) => 2,
            RecordError::Invalid(_) | RecordError::OldFormat(_) => 87,
            RecordError::UnknownCompression(_) => 76,
            RecordError::TooLarge(_) => 10,
            RecordError::AppendTimeFromProducer => 32,
        }
    }
}

fn corrupt(error: std::io::Error) -> RecordError {
    RecordError::Corrupt(error.to_string())
}

/// A batch's header, as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: i64,
    /// Bytes of the whole batch.
    pub size: usize,
    /// The epoch of the leader that appended it.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Compression, timestamp type, transactional, control.
    pub attributes: i16,
    /// The last record's offset less the first's.
    pub last_offset_delta: i32,
    /// What record timestamps count from, in ms.
    pub base_timestamp: i64,
    /// The largest record timestamp, or the append time under LogAppendTime, in ms.
    pub max_timestamp: i64,
    /// -1 for none.
    pub producer_id: i64,
    /// -1 for none.
    pub producer_epoch: i16,
    /// -1 for none.
    pub base_sequence: i32,
    /// How many records.
    pub records: i32,
}

impl BatchHeader {
    /// Reads the header of the batch at the start of `bytes`, which may go on behind it. `None` when the
    /// bytes are too few, the format is not 2, or the length is impossible. The batch itself may be cut off.
    pub fn parse(bytes: &[u8]) -> Option<BatchHeader> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let length = usize::try_from(i32_at(header, 8)).ok()?;
        let size = length + BEFORE_LENGTH;
        if header[MAGIC_AT] != MAGIC || size < HEADER_BYTES {
            return None;
        }
        Some(BatchHeader {
            base_offset: i64_at(header, 0),
            size,
            partition_leader_epoch: i32_at(header, 12),
            crc: i32_at(header, 17) as u32,
            attributes: i16_at(header, 21),
            last_offset_delta: i32_at(header, 23),
            base_timestamp: i64_at(header, 27),
            max_timestamp: i64_at(header, 35),
            producer_id: i64_at(header, 43),
            producer_epoch: i16_at(header, 51),
            base_sequence: i32_at(header, 53),
            records: i32_at(header, 57),
        })
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(self.last_offset_delta.into())
    }

    /// The codec of its records, if it is a known one.
    pub fn compression(&self) -> Option<Compression> {
        Compression::of(self.attributes)
    }

    /// Whether all records carry the broker's append time.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    }

    /// Part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & ATTRIBUTE_TRANSACTIONAL != 0
    }

    /// A control batch, which only brokers write.
    pub fn is_control(&self) -> bool {
        self.attributes & ATTRIBUTE_CONTROL != 0
    }

    /// Whether the bytes of the batch, which may go on behind it, have the CRC that the header says. False
    /// when the batch is cut off.
    pub fn crc_is_right(&self, batch: &[u8]) -> bool {
        batch.get(CRC_FROM..self.size).is_some_and(|covered| crc32c::crc32c(covered) == self.crc)
    }
}

/// Takes the first whole batch off the front of `batches`, such as a Fetch response's records. `None` at the
/// end, at a batch that is cut off (brokers may cut the last one), and at what is no batch of format 2.
pub fn next_batch(batches: &mut Bytes) -> Option<Bytes> {
    let header = BatchHeader::parse(batches)?;
    (header.size <= batches.len()).then(|| batches.split_to(header.size))
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from(i32_at(bytes, at)) << 32 | i64::from(i32_at(bytes, at + 4) as u32)
}

/// What the log needs to know of a batch that was found to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchInfo {
    /// The header as received.
    pub header: BatchHeader,
    /// How many records there are.
    pub records: u32,
    /// The largest timestamp that a record has.
    pub max_timestamp_found: i64,
    /// The offset delta of the first record that has it.
    pub offset_of_max_timestamp: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// A control batch, which only brokers write.
    pub control: bool,
    /// Bytes of the records without compression.
    pub decompressed_bytes: usize,
}

/// Patches the base offset and the leader epoch, which the CRC does not cover. For a batch that was walked,
/// as the other setters: they panic on less than a header.
pub fn set_place(batch: &mut [u8], base_offset: i64, partition_leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&partition_leader_epoch.to_be_bytes());
}

/// Sets the largest timestamp and a new CRC. `batch` is exactly one.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp: i64) {
    batch[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    set_crc(batch);
}

/// Makes all records carry the broker's append time (Kafka's LogAppendTime), with a new CRC. `batch` is
/// exactly one.
pub fn set_log_append_time(batch: &mut [u8], append_time: i64) {
    let attributes = i16_at(batch, 21) | ATTRIBUTE_LOG_APPEND_TIME;
    batch[21..23].copy_from_slice(&attributes.to_be_bytes());
    set_max_timestamp(batch, append_time);
}

fn set_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}
