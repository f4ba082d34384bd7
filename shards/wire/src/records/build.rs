//! Writing a batch, without compression.

use bytes::{BufMut, Bytes, BytesMut};

use super::varint::{put, size};
use super::{BEFORE_LENGTH, HEADER_BYTES, MAGIC, MAGIC_AT, set_crc, set_place};

/// The record does not fit the batch; it is as if it had not been pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record does not fit a batch of at most {size_max} bytes")]
pub struct BatchFull {
    size_max: usize,
}

/// Writes records into a batch of format 2, without compression, in order of their offsets.
///
/// `new`, then `push` for each record, then `finish`.
#[derive(Debug)]
pub struct BatchBuilder {
    batch: BytesMut,
    size_max: usize,
    records: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    producer: (i64, i16, i32),
}

impl BatchBuilder {
    /// A batch that is to take at most `size_max` bytes in all.
    pub fn new(size_max: usize) -> BatchBuilder {
        let mut batch = BytesMut::with_capacity(HEADER_BYTES);
        batch.put_bytes(0, HEADER_BYTES);
        let size_max = size_max.min(i32::MAX as usize);
        BatchBuilder { batch, size_max, records: 0, base_timestamp: 0, max_timestamp: -1, producer: (-1, -1, -1) }
    }

    /// Makes it an idempotent producer's batch.
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> BatchBuilder {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Makes room for so many more bytes at once, for who knows how large the batch becomes.
    pub fn reserve(&mut self, bytes: usize) {
        self.batch.reserve(bytes);
    }

    /// Adds a record. Timestamps are in ms, -1 for none. A header's name is UTF-8 to most clients.
    ///
    /// # Errors
    /// The batch would pass its size, or hold more records than a batch can count.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BatchFull> {
        let full = BatchFull { size_max: self.size_max };
        if self.records == i32::MAX {
            return Err(full);
        }
        let base = if self.records == 0 { timestamp } else { self.base_timestamp };
        let (delta, offset) = (timestamp.wrapping_sub(base), i64::from(self.records));
        let mut length = 1 + size(delta) + size(offset) + sized(key) + sized(value) + size(headers.len() as i64);
        for (name, value) in headers {
            length += sized(Some(name)) + sized(*value);
        }
        if self.batch.len() + size(length as i64) + length > self.size_max {
            return Err(full);
        }
        let out = &mut self.batch;
        put(out, length as i64);
        out.put_u8(0);
        put(out, delta);
        put(out, offset);
        put_bytes(out, key);
        put_bytes(out, value);
        put(out, headers.len() as i64);
        for (name, value) in headers {
            put_bytes(out, Some(name));
            put_bytes(out, *value);
        }
        self.base_timestamp = base;
        self.max_timestamp = if self.records == 0 { timestamp } else { self.max_timestamp.max(timestamp) };
        self.records += 1;
        Ok(())
    }

    /// Records so far.
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// Bytes of the whole batch so far.
    pub fn size(&self) -> usize {
        self.batch.len()
    }

    /// The batch; `None` when no record was pushed, since there is no such batch.
    pub fn finish(mut self, base_offset: i64, partition_leader_epoch: i32) -> Option<Bytes> {
        if self.records == 0 {
            return None;
        }
        let (id, epoch, sequence) = self.producer;
        let length = (self.batch.len() - BEFORE_LENGTH) as i32;
        self.batch[8..12].copy_from_slice(&length.to_be_bytes());
        self.batch[MAGIC_AT] = MAGIC;
        self.batch[23..27].copy_from_slice(&(self.records - 1).to_be_bytes());
        self.batch[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        self.batch[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        self.batch[43..51].copy_from_slice(&id.to_be_bytes());
        self.batch[51..53].copy_from_slice(&epoch.to_be_bytes());
        self.batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        self.batch[57..61].copy_from_slice(&self.records.to_be_bytes());
        set_crc(&mut self.batch);
        set_place(&mut self.batch, base_offset, partition_leader_epoch);
        Some(self.batch.freeze())
    }
}

fn sized(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(size(-1), |bytes| size(bytes.len() as i64) + bytes.len())
}

fn put_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => put(out, -1),
        Some(bytes) => {
            put(out, bytes.len() as i64);
            out.put_slice(bytes);
        }
    }
}
