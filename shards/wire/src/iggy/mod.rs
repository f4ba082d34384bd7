//! Apache Iggy's message batches (protocol 0.12.2): the header, the walk that checks a batch once when it
//! arrives ([`IggyWalker`]), what a server sets and cuts ([`stamp`], [`cut`]), reading messages
//! ([`messages`]) and their user headers ([`UserHeaders`]), and writing a batch ([`IggyBatchBuilder`]).
//!
//! A batch is a header of 256 bytes and the messages' frames behind it, little-endian. A frame is a header
//! of 48 bytes, the payload and the user headers. Each frame has a checksum (XXH3-64 of all that follows
//! it in the frame); the batch's own covers its fixed fields and the frames' checksums, not the bodies.
//!
//! What must stay true: a batch that the walk finds right is read to its end by every consumer, and neither
//! the walk nor reading allocates by a number that a peer sent.

mod build;
mod edit;
mod read;
mod user_headers;
mod walk;

#[cfg(test)]
mod tests;

use std::hash::Hasher;

use twox_hash::XxHash3_64;

pub use build::{IggyBatchBuilder, IggyBatchFull};
pub use edit::{cut, stamp};
pub use read::{IggyMessage, IggyMessages, messages};
pub use user_headers::{HEADER_KIND_RAW, HEADER_KIND_STRING, UserHeader, UserHeaders, put_user_header};
pub use walk::IggyWalker;

/// Bytes of a batch before its frames.
pub const BATCH_HEADER_BYTES: usize = 256;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 48;
/// The largest payload of a message (code 4022 beyond it).
pub const PAYLOAD_BYTES_MAX: usize = 64_000_000;
/// The most that a message's user headers take (code 4017 beyond it).
pub const USER_HEADERS_BYTES_MAX: usize = 100_000;
/// The longest name or value of a user header; neither can be empty (code 4019 otherwise).
pub const USER_HEADER_PART_BYTES_MAX: usize = 255;
/// How far behind the batch's origin time a message's may be: 71.58 minutes (code 4038 beyond it).
pub const TIMESTAMP_DELTA_US_MAX: u64 = u32::MAX as u64;
/// The largest producer id, epoch and sequence: Kafka's ranges.
pub const PRODUCER_ID_MAX: u64 = i64::MAX as u64;
/// See [`PRODUCER_ID_MAX`].
pub const PRODUCER_EPOCH_MAX: u16 = i16::MAX as u16;
/// See [`PRODUCER_ID_MAX`]. What comes after it is 0.
pub const PRODUCER_SEQUENCE_MAX: u32 = i32::MAX as u32;

const CHECKSUM_AT: usize = 40;
const PRODUCER_AT: usize = 52;
const RESERVED_AT: usize = 72;
const PRODUCER_PRESENT: u8 = 1;

/// Why a batch is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IggyBatchError {
    /// Not a batch, or one that contradicts itself: `InvalidFormat`-like codes, 3 on the wire.
    #[error("the batch is malformed: {0}")]
    Malformed(String),
    /// Damaged on the way: code 4039.
    #[error("checksum {claimed:#x} of {what} should be {right:#x}")]
    Checksum {
        /// The batch, or which message.
        what: String,
        /// What it says.
        claimed: u64,
        /// What its bytes have.
        right: u64,
    },
    /// A payload over [`PAYLOAD_BYTES_MAX`]: code 4022.
    #[error("message {0} has a payload of {1} bytes, allowed are 64,000,000")]
    PayloadTooLarge(u32, usize),
    /// User headers over [`USER_HEADERS_BYTES_MAX`]: code 4017.
    #[error("message {0} has user headers of {1} bytes, allowed are 100,000")]
    HeadersTooLarge(u32, usize),
}

impl IggyBatchError {
    /// Iggy's number for it.
    pub fn code(&self) -> u32 {
        match self {
            IggyBatchError::Malformed(_) => 3,
            IggyBatchError::Checksum { .. } => 4039,
            IggyBatchError::PayloadTooLarge(..) => 4022,
            IggyBatchError::HeadersTooLarge(..) => 4017,
        }
    }
}

fn malformed(what: impl Into<String>) -> IggyBatchError {
    IggyBatchError::Malformed(what.into())
}

/// The idempotent producer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IggyProducer {
    /// Up to [`PRODUCER_ID_MAX`].
    pub id: u64,
    /// Up to [`PRODUCER_EPOCH_MAX`].
    pub epoch: u16,
    /// Of the batch's first message, up to [`PRODUCER_SEQUENCE_MAX`].
    pub base_sequence: u32,
}

/// A batch's header, as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IggyBatchHeader {
    /// The server's: which partition.
    pub partition_id: u64,
    /// The server's: offsets of messages count from here.
    pub base_offset: u64,
    /// The server's: when it was appended, in us; the time of all its messages.
    pub base_timestamp_us: u64,
    /// The client's: origin times of messages count from here, in us. 0: none has one, or they count from 0.
    pub origin_timestamp_us: u64,
    /// Bytes of the whole batch.
    pub size: usize,
    /// XXH3-64 of the fixed fields and the frames' checksums.
    pub checksum: u64,
    /// How many messages.
    pub messages: u32,
    /// Who wrote it, if that is to be checked.
    pub producer: Option<IggyProducer>,
}

impl IggyBatchHeader {
    /// Reads the header of the batch at the start of `bytes`, which may go on behind it; the batch itself
    /// may be cut off.
    ///
    /// # Errors
    /// [`IggyBatchError::Malformed`]: too few bytes, an impossible length, or bytes set that must be zero.
    pub fn parse(bytes: &[u8]) -> Result<IggyBatchHeader, IggyBatchError> {
        let header: &[u8; BATCH_HEADER_BYTES] =
            bytes.first_chunk().ok_or_else(|| malformed(format!("{} bytes are no batch header", bytes.len())))?;
        let size = usize::try_from(u64_at(header, 32)).unwrap_or(usize::MAX);
        if size < BATCH_HEADER_BYTES {
            return Err(malformed(format!("its length is {size}, its header alone has {BATCH_HEADER_BYTES}")));
        }
        if header[RESERVED_AT..].iter().any(|byte| *byte != 0) {
            return Err(malformed("reserved bytes of its header are not zero"));
        }
        Ok(IggyBatchHeader {
            partition_id: u64_at(header, 0),
            base_offset: u64_at(header, 8),
            base_timestamp_us: u64_at(header, 16),
            origin_timestamp_us: u64_at(header, 24),
            size,
            checksum: u64_at(header, CHECKSUM_AT),
            messages: u32_at(header, 48),
            producer: producer(header)?,
        })
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut out = [0; BATCH_HEADER_BYTES];
        out[0..8].copy_from_slice(&self.partition_id.to_le_bytes());
        out[8..16].copy_from_slice(&self.base_offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.base_timestamp_us.to_le_bytes());
        out[24..32].copy_from_slice(&self.origin_timestamp_us.to_le_bytes());
        out[32..40].copy_from_slice(&(self.size as u64).to_le_bytes());
        out[CHECKSUM_AT..48].copy_from_slice(&self.checksum.to_le_bytes());
        out[48..52].copy_from_slice(&self.messages.to_le_bytes());
        if let Some(producer) = self.producer {
            out[PRODUCER_AT] = PRODUCER_PRESENT;
            out[56..64].copy_from_slice(&producer.id.to_le_bytes());
            out[64..66].copy_from_slice(&producer.epoch.to_le_bytes());
            out[68..72].copy_from_slice(&producer.base_sequence.to_le_bytes());
        }
        out
    }

    /// The hash of the fixed fields, to be gone on with by each frame's checksum.
    fn checksum_of_fields(&self) -> XxHash3_64 {
        let mut hash = XxHash3_64::new();
        hash.write(&self.partition_id.to_le_bytes());
        hash.write(&self.base_offset.to_le_bytes());
        hash.write(&self.base_timestamp_us.to_le_bytes());
        hash.write(&self.origin_timestamp_us.to_le_bytes());
        hash.write(&(self.size as u64).to_le_bytes());
        hash.write(&self.messages.to_le_bytes());
        if let Some(producer) = self.producer {
            hash.write(&[PRODUCER_PRESENT]);
            hash.write(&producer.id.to_le_bytes());
            hash.write(&producer.epoch.to_le_bytes());
            hash.write(&producer.base_sequence.to_le_bytes());
        }
        hash
    }

    /// The checksum of this header over these frames, which were walked.
    fn checksum_over(&self, frames: &[u8]) -> u64 {
        let mut hash = self.checksum_of_fields();
        let mut left = frames;
        while let Some((frame, rest)) = read::split_frame(left) {
            hash.write(&frame[..8]);
            left = rest;
        }
        hash.finish()
    }
}

/// What a server needs to know of a batch that was found to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IggyBatchInfo {
    /// The header as received.
    pub header: IggyBatchHeader,
    /// The largest origin time of a message in us; 0 when none has one.
    pub max_origin_timestamp_us: u64,
}

fn producer(header: &[u8; BATCH_HEADER_BYTES]) -> Result<Option<IggyProducer>, IggyBatchError> {
    let section = &header[PRODUCER_AT..RESERVED_AT];
    let producer = IggyProducer {
        id: u64_at(header, 56),
        epoch: u16::from_le_bytes([header[64], header[65]]),
        base_sequence: u32_at(header, 68),
    };
    match section[0] {
        0 if section.iter().all(|byte| *byte == 0) => Ok(None),
        PRODUCER_PRESENT
            if header[53..56] == [0; 3]
                && header[66..68] == [0; 2]
                && producer.id <= PRODUCER_ID_MAX
                && producer.epoch <= PRODUCER_EPOCH_MAX
                && producer.base_sequence <= PRODUCER_SEQUENCE_MAX =>
        {
            Ok(Some(producer))
        }
        _ => Err(malformed("its producer is not one")),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
