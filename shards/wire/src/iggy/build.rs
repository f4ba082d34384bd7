//! Writing a batch.

use bytes::{BufMut, Bytes, BytesMut};
use twox_hash::XxHash3_64;

use super::{
    BATCH_HEADER_BYTES, FRAME_HEADER_BYTES, IggyBatchHeader, IggyProducer, PAYLOAD_BYTES_MAX, TIMESTAMP_DELTA_US_MAX,
    USER_HEADERS_BYTES_MAX, u32_at,
};

/// The message does not fit the batch; it is as if it had not been pushed. The next batch may take it, unless
/// it is too large in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IggyBatchFull {
    /// The batch would pass its size.
    #[error("the message does not fit a batch of at most {0} bytes")]
    Size(usize),
    /// Its origin time is too far from that of the batch's first message, or only one of both has one.
    #[error("the message's time does not fit those before it in the batch")]
    Time,
    /// Payload or user headers are larger than any message's may be.
    #[error("the message is larger than Iggy takes")]
    TooLarge,
}

/// The most messages of a batch: its count has 32 bits.
const MESSAGES_MAX: usize = u32::MAX as usize;

/// Writes messages into a batch, in order of their offsets.
///
/// `new`, then `push` for each message, then `finish`.
#[derive(Debug)]
pub struct IggyBatchBuilder {
    batch: BytesMut,
    size_max: usize,
    /// Each message's origin time. What frames hold of it counts from the smallest, known at the end.
    origins_us: Vec<u64>,
    /// The smallest and largest of them.
    span_us: (u64, u64),
    producer: Option<IggyProducer>,
}

impl IggyBatchBuilder {
    /// A batch that is to take at most `size_max` bytes in all.
    pub fn new(size_max: usize) -> IggyBatchBuilder {
        let mut batch = BytesMut::with_capacity(BATCH_HEADER_BYTES);
        batch.put_bytes(0, BATCH_HEADER_BYTES);
        IggyBatchBuilder { batch, size_max, origins_us: Vec::new(), span_us: (0, 0), producer: None }
    }

    /// Makes it an idempotent producer's batch.
    pub fn producer(mut self, producer: Option<IggyProducer>) -> IggyBatchBuilder {
        self.producer = producer;
        self
    }

    /// Adds a message; its origin time is in us, 0 for none. `user_headers` are what
    /// [`put_user_header`](super::put_user_header) wrote.
    ///
    /// # Errors
    /// The message does not fit.
    pub fn push(
        &mut self,
        id: u128,
        origin_timestamp_us: u64,
        payload: &[u8],
        user_headers: &[u8],
    ) -> Result<(), IggyBatchFull> {
        if payload.len() > PAYLOAD_BYTES_MAX || user_headers.len() > USER_HEADERS_BYTES_MAX {
            return Err(IggyBatchFull::TooLarge);
        }
        let size = FRAME_HEADER_BYTES + payload.len() + user_headers.len();
        if self.batch.len() + size > self.size_max || self.origins_us.len() >= MESSAGES_MAX {
            return Err(IggyBatchFull::Size(self.size_max));
        }
        let (least, most) = match self.origins_us.is_empty() {
            true => (origin_timestamp_us, origin_timestamp_us),
            false => (self.span_us.0.min(origin_timestamp_us), self.span_us.1.max(origin_timestamp_us)),
        };
        // A batch counts from one time: what has none stands apart from what has one.
        if most - least > TIMESTAMP_DELTA_US_MAX || (least == 0 && most > 0) {
            return Err(IggyBatchFull::Time);
        }
        let out = &mut self.batch;
        out.reserve(size);
        out.put_u64_le(0);
        out.put_u128_le(id);
        out.put_u32_le(self.origins_us.len() as u32);
        out.put_u32_le(0);
        out.put_u32_le(user_headers.len() as u32);
        out.put_u32_le(payload.len() as u32);
        out.put_u64_le(0);
        out.put_slice(payload);
        out.put_slice(user_headers);
        self.span_us = (least, most);
        self.origins_us.push(origin_timestamp_us);
        Ok(())
    }

    /// Messages so far.
    pub fn messages(&self) -> u32 {
        self.origins_us.len() as u32
    }

    /// Bytes of the whole batch so far.
    pub fn size(&self) -> usize {
        self.batch.len()
    }

    /// The batch with this place and server time, 0 each for one that is to be sent; `None` when no message was
    /// pushed, since there is no such batch.
    pub fn finish(mut self, partition_id: u64, base_offset: u64, base_timestamp_us: u64) -> Option<Bytes> {
        if self.origins_us.is_empty() {
            return None;
        }
        let first = self.span_us.0;
        let mut at = BATCH_HEADER_BYTES;
        for origin in &self.origins_us {
            at = seal(&mut self.batch, at, origin - first);
        }
        let mut header = IggyBatchHeader {
            partition_id,
            base_offset,
            base_timestamp_us,
            origin_timestamp_us: first,
            size: self.batch.len(),
            checksum: 0,
            messages: self.messages(),
            producer: self.producer,
        };
        header.checksum = header.checksum_over(&self.batch[BATCH_HEADER_BYTES..]);
        self.batch[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
        Some(self.batch.freeze())
    }
}

/// Sets the time of the frame at `start` and its checksum; where the next one starts.
fn seal(batch: &mut [u8], start: usize, delta_us: u64) -> usize {
    let size = FRAME_HEADER_BYTES + u32_at(batch, start + 32) as usize + u32_at(batch, start + 36) as usize;
    let frame = &mut batch[start..start + size];
    frame[28..32].copy_from_slice(&(delta_us as u32).to_le_bytes());
    let checksum = XxHash3_64::oneshot(&frame[8..]);
    frame[..8].copy_from_slice(&checksum.to_le_bytes());
    start + size
}
