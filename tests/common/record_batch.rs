//! Record batches (magic 2) written field by field, so that any of them can be wrong while the CRC is right.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::compression::{Compressor, Gzip};

/// Bytes of a batch that its length field does not count.
const BEFORE_LENGTH: usize = 12;
/// Where the bytes begin that the CRC covers.
const CRC_FROM: usize = 21;

pub const GZIP: i16 = 1;
pub const SNAPPY: i16 = 2;
pub const LZ4: i16 = 3;
pub const ZSTD: i16 = 4;
pub const LOG_APPEND_TIME: i16 = 1 << 3;
pub const TRANSACTIONAL: i16 = 1 << 4;
pub const CONTROL: i16 = 1 << 5;

/// A batch as it goes out: the length and the CRC are made right, everything else is as it stands here.
#[derive(Clone, Debug)]
pub struct RecordBatch {
    pub base_offset: i64,
    pub magic: i8,
    /// Codec and flags.
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub records_count: i32,
    /// The records, compressed if the attributes say so.
    pub payload: Vec<u8>,
}

impl RecordBatch {
    /// A right batch of records with these values and the time 1,000 ms.
    pub fn of(values: &[&str]) -> RecordBatch {
        let records: Vec<_> = (0..).zip(values).map(|(nth, value)| record(nth, 0, value)).collect();
        RecordBatch::of_records(&records)
    }

    /// A right header over these records.
    pub fn of_records(records: &[Vec<u8>]) -> RecordBatch {
        let count = records.len() as i32;
        RecordBatch {
            base_offset: 0,
            magic: 2,
            attributes: 0,
            last_offset_delta: count - 1,
            base_timestamp: 1_000,
            max_timestamp: 1_000,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: count,
            payload: records.concat(),
        }
    }

    /// The same records, compressed by gzip.
    pub fn gzip(mut self) -> RecordBatch {
        let mut compressed = BytesMut::new();
        Gzip::compress(&mut compressed, |out: &mut <Gzip as Compressor<BytesMut>>::BufMut| {
            out.put_slice(&self.payload);
            Ok(())
        })
        .expect("compression");
        self.attributes |= GZIP;
        self.payload = compressed.to_vec();
        self
    }

    /// The same records in a zstd frame of one block that is stored as it is. At most 255 bytes of records.
    pub fn zstd(mut self) -> RecordBatch {
        let length = u8::try_from(self.payload.len()).expect("a small batch");
        let block = (u32::from(length) << 3 | 1).to_le_bytes();
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, length];
        frame.extend(&block[..3]);
        frame.extend(&self.payload);
        self.attributes |= ZSTD;
        self.payload = frame;
        self
    }

    pub fn bytes(&self) -> Bytes {
        let mut batch = BytesMut::new();
        batch.put_i64(self.base_offset);
        batch.put_i32(0);
        batch.put_i32(-1);
        batch.put_i8(self.magic);
        batch.put_u32(0);
        batch.put_i16(self.attributes);
        batch.put_i32(self.last_offset_delta);
        batch.put_i64(self.base_timestamp);
        batch.put_i64(self.max_timestamp);
        batch.put_i64(self.producer_id);
        batch.put_i16(self.producer_epoch);
        batch.put_i32(self.base_sequence);
        batch.put_i32(self.records_count);
        batch.put_slice(&self.payload);
        let length = (batch.len() - BEFORE_LENGTH) as i32;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c::crc32c(&batch[CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
        batch.freeze()
    }
}

/// A record without key and headers.
pub fn record(offset_delta: i64, timestamp_delta: i64, value: &str) -> Vec<u8> {
    let mut body = vec![0];
    put_varint(&mut body, timestamp_delta);
    put_varint(&mut body, offset_delta);
    put_varint(&mut body, -1);
    put_varint(&mut body, value.len() as i64);
    body.extend(value.as_bytes());
    put_varint(&mut body, 0);
    record_of(&body)
}

/// A record with this body behind its length: attributes, timestamp delta, offset delta, key, value, headers.
pub fn record_of(body: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    put_varint(&mut record, body.len() as i64);
    record.extend(body);
    record
}

/// A number as records have it: zigzag, seven bits a byte.
pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// A message set of before Kafka 0.11: one message of format 0 or 1.
pub fn message_set(magic: i8, value: &str) -> Bytes {
    let mut message = BytesMut::new();
    message.put_i8(magic);
    message.put_i8(0);
    if magic == 1 {
        message.put_i64(1_000);
    }
    message.put_i32(-1);
    message.put_i32(value.len() as i32);
    message.put_slice(value.as_bytes());
    let mut set = BytesMut::new();
    set.put_i64(0);
    set.put_i32(message.len() as i32 + 4);
    set.put_u32(crc32(&message));
    set.put_slice(&message);
    set.freeze()
}

/// The CRC of the old formats (IEEE), a bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}
