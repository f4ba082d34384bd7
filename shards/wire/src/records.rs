//! Record batches (magic 2): the header, the walk that checks a batch once when it arrives, and the changes
//! that the log makes to it.

use bytes::Bytes;

pub use crate::decompress::Compression;
use crate::decompress::Source;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Where the bytes begin that the CRC covers.
const CRC_FROM: usize = 21;
/// Bytes of a batch that its length field does not count.
const BEFORE_LENGTH: usize = 12;

const ATTRIBUTE_LOG_APPEND_TIME: i16 = 1 << 3;
const ATTRIBUTE_TRANSACTIONAL: i16 = 1 << 4;
const ATTRIBUTE_CONTROL: i16 = 1 << 5;

/// Why a batch is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// Damaged on the way: `CORRUPT_MESSAGE(2)`.
    #[error("the batch is corrupt: {0}")]
    Corrupt(String),
    /// Well received and wrong: `INVALID_RECORD(87)`.
    #[error("the batch is invalid: {0}")]
    Invalid(String),
    /// A message format from before Kafka 0.11: `UNSUPPORTED_FOR_MESSAGE_FORMAT(43)`.
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
            RecordError::Invalid(_) => 87,
            RecordError::OldFormat(_) => 43,
            RecordError::UnknownCompression(_) => 76,
            RecordError::TooLarge(_) => 10,
            RecordError::AppendTimeFromProducer => 32,
        }
    }
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
    /// What record timestamps count from.
    pub base_timestamp: i64,
    /// The largest record timestamp, or the append time under LogAppendTime.
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
        if header[16] != 2 || size < HEADER_BYTES {
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
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// Whether all records carry the broker's append time.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    }
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

/// Patches the base offset and the leader epoch, which the CRC does not cover.
pub fn set_place(batch: &mut [u8], base_offset: i64, partition_leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&partition_leader_epoch.to_be_bytes());
}

/// Sets the largest timestamp and a new CRC.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp: i64) {
    batch[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    set_crc(batch);
}

/// Makes all records carry the broker's append time (Kafka's LogAppendTime), with a new CRC.
pub fn set_log_append_time(batch: &mut [u8], append_time: i64) {
    let attributes = i16_at(batch, 21) | ATTRIBUTE_LOG_APPEND_TIME;
    batch[21..23].copy_from_slice(&attributes.to_be_bytes());
    set_max_timestamp(batch, append_time);
}

fn set_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// Where the walk is in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Length,
    Attributes,
    Timestamp,
    Offset,
    KeyLength,
    ValueLength,
    HeaderCount,
    HeaderKeyLength,
    HeaderValueLength,
    End,
}

/// Looks one batch through: its length, CRC and attributes, and every record's shape. Works in slices and
/// holds one chunk of decompressed bytes, whatever the batch claims.
pub struct Walker {
    state: State,
    max_decompressed: usize,
}

enum State {
    New(Bytes),
    Crc { batch: Bytes, header: BatchHeader, at: usize, crc: u32 },
    Records(Box<Records>),
    Done,
}

struct Records {
    header: BatchHeader,
    source: Source,
    parser: Parser,
    out: usize,
}

impl Walker {
    /// A walk over a partition's `records`; they may decompress to at most `max_decompressed` bytes.
    pub fn new(records: Bytes, max_decompressed: usize) -> Walker {
        Walker { state: State::New(records), max_decompressed }
    }

    /// Goes on for about `budget` bytes. `None`: there is more to do. After the end it says nothing new.
    pub fn step(&mut self, budget: usize) -> Option<Result<BatchInfo, RecordError>> {
        let mut budget = budget.max(1);
        loop {
            match self.advance(&mut budget) {
                Ok(None) if budget == 0 => return None,
                Ok(None) => {}
                Ok(Some(info)) => {
                    self.state = State::Done;
                    return Some(Ok(info));
                }
                Err(error) => {
                    self.state = State::Done;
                    return Some(Err(error));
                }
            }
        }
    }

    fn advance(&mut self, budget: &mut usize) -> Result<Option<BatchInfo>, RecordError> {
        match &mut self.state {
            State::New(records) => {
                let header = check_header(records)?;
                self.state = State::Crc { batch: records.clone(), header, at: CRC_FROM, crc: 0 };
                Ok(None)
            }
            State::Crc { batch, header, at, crc } => {
                // CRC-32C runs an order of magnitude faster than decompression.
                let end = batch.len().min(at.saturating_add(budget.saturating_mul(8)));
                *crc = crc32c::crc32c_append(*crc, &batch[*at..end]);
                *budget = budget.saturating_sub((end - *at) / 8);
                *at = end;
                if *at < batch.len() {
                    return Ok(None);
                }
                if *crc != header.crc {
                    return Err(RecordError::Corrupt(format!("its CRC is {crc:#x}, it says {:#x}", header.crc)));
                }
                let records = Records::new(*header, batch.slice(HEADER_BYTES..))?;
                self.state = State::Records(Box::new(records));
                Ok(None)
            }
            State::Records(records) => records.advance(budget, self.max_decompressed),
            State::Done => Err(RecordError::Invalid("already walked".into())),
        }
    }
}

fn check_header(records: &[u8]) -> Result<BatchHeader, RecordError> {
    if records.len() > 16 && records[16] != 2 {
        return Err(match records[16] {
            magic @ (0 | 1) => RecordError::OldFormat(magic as i8),
            magic => RecordError::Invalid(format!("magic is {magic}, allowed is 2")),
        });
    }
    let Some(header) = BatchHeader::parse(records) else {
        return Err(RecordError::Corrupt("it is shorter than a batch's header".into()));
    };
    if header.size > records.len() {
        return Err(RecordError::Corrupt(format!("{} of its {} bytes are there", records.len(), header.size)));
    }
    if header.size < records.len() {
        return Err(RecordError::Invalid("a partition of a Produce request takes exactly one batch".into()));
    }
    if Compression::of(header.attributes).is_none() {
        return Err(RecordError::UnknownCompression(header.attributes & 7));
    }
    if header.is_log_append_time() {
        return Err(RecordError::AppendTimeFromProducer);
    }
    if header.records <= 0 || header.last_offset_delta != header.records - 1 {
        let (records, last) = (header.records, header.last_offset_delta);
        return Err(RecordError::Invalid(format!("it counts {records} records with a last offset delta of {last}")));
    }
    if header.producer_id >= 0 && (header.producer_epoch < 0 || header.base_sequence < 0) {
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        return Err(RecordError::Invalid(format!("a producer id with epoch {epoch} and sequence {sequence}")));
    }
    Ok(header)
}

impl Records {
    fn new(header: BatchHeader, payload: Bytes) -> Result<Records, RecordError> {
        let compression =
            Compression::of(header.attributes).ok_or(RecordError::UnknownCompression(header.attributes & 7))?;
        let source = Source::new(compression, payload).map_err(corrupt)?;
        Ok(Records { header, source, parser: Parser::new(header.base_timestamp), out: 0 })
    }

    /// One chunk's worth of progress.
    fn advance(&mut self, budget: &mut usize, most: usize) -> Result<Option<BatchInfo>, RecordError> {
        let available = self.source.available().map_err(corrupt)?;
        let counted = self.header.records;
        if self.parser.is_between_records() && self.parser.seen == counted {
            if !available.is_empty() {
                return Err(RecordError::Invalid(format!("bytes follow its {counted} records")));
            }
            return Ok(Some(BatchInfo {
                header: self.header,
                records: counted as u32,
                max_timestamp_found: self.parser.max_timestamp,
                offset_of_max_timestamp: self.parser.offset_of_max_timestamp,
                transactional: self.header.attributes & ATTRIBUTE_TRANSACTIONAL != 0,
                control: self.header.attributes & ATTRIBUTE_CONTROL != 0,
                decompressed_bytes: self.out,
            }));
        }
        if available.is_empty() {
            let seen = self.parser.seen;
            return Err(RecordError::Invalid(format!("it has {seen} whole records and counts {counted}")));
        }
        let take = available.len().min(*budget);
        let used = self.parser.parse(&available[..take], counted)?;
        self.source.consume(used);
        self.out += used;
        *budget -= used;
        if self.out > most {
            return Err(RecordError::TooLarge(most));
        }
        Ok(None)
    }
}

fn corrupt(error: std::io::Error) -> RecordError {
    RecordError::Corrupt(error.to_string())
}

/// Reads records as a stream of bytes that may be cut anywhere.
struct Parser {
    at: At,
    base_timestamp: i64,
    /// Bytes to pass over before the next field.
    skip: usize,
    /// A varint that has begun.
    varint: u64,
    shift: u32,
    /// Records seen in full.
    seen: i32,
    /// Bytes that are left of the current record.
    left: usize,
    headers_left: usize,
    timestamp: i64,
    max_timestamp: i64,
    offset_of_max_timestamp: i32,
    /// Finds the first record that is not older than this.
    search: Option<i64>,
    found: Option<(i32, i64)>,
}

impl Parser {
    fn new(base_timestamp: i64) -> Parser {
        Parser {
            at: At::Length,
            base_timestamp,
            skip: 0,
            varint: 0,
            shift: 0,
            seen: 0,
            left: 0,
            headers_left: 0,
            timestamp: -1,
            max_timestamp: i64::MIN,
            offset_of_max_timestamp: 0,
            search: None,
            found: None,
        }
    }

    fn is_between_records(&self) -> bool {
        self.at == At::Length && self.shift == 0 && self.skip == 0
    }

    /// Takes in bytes up to the end of the `last` record and says how many that were.
    fn parse(&mut self, bytes: &[u8], last: i32) -> Result<usize, RecordError> {
        let mut used = 0;
        while used < bytes.len() && !(self.is_between_records() && self.seen == last) {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() - used);
                self.skip -= passed;
                used += passed;
            } else {
                let byte = bytes[used];
                used += 1;
                if self.at != At::Length {
                    self.take(1)?;
                }
                if self.at == At::Attributes {
                    self.at = At::Timestamp;
                    continue;
                }
                if self.shift == 63 && byte > 1 {
                    return Err(self.broken("a varint of more than 64 bits"));
                }
                self.varint |= u64::from(byte & 0x7f) << self.shift;
                if byte & 0x80 != 0 {
                    self.shift += 7;
                    continue;
                }
                let value = (self.varint >> 1) as i64 ^ -((self.varint & 1) as i64);
                (self.varint, self.shift) = (0, 0);
                self.field(value)?;
            }
            if self.at == At::End && self.skip == 0 {
                self.end_record()?;
            }
        }
        Ok(used)
    }

    fn field(&mut self, value: i64) -> Result<(), RecordError> {
        match self.at {
            At::Length => {
                self.left = usize::try_from(value).map_err(|_| self.broken("a negative length"))?;
                if self.left > i32::MAX as usize {
                    return Err(self.broken("a length of more than 2 GiB"));
                }
                self.at = At::Attributes;
            }
            At::Timestamp => {
                self.timestamp = self.base_timestamp.wrapping_add(value);
                self.at = At::Offset;
            }
            At::Offset => {
                if value != i64::from(self.seen) {
                    return Err(self.broken(&format!("an offset delta of {value}")));
                }
                self.at = At::KeyLength;
            }
            At::KeyLength => {
                self.pass_over("key length", value, -1)?;
                self.at = At::ValueLength;
            }
            At::ValueLength => {
                self.pass_over("value length", value, -1)?;
                self.at = At::HeaderCount;
            }
            At::HeaderCount => {
                // Each header takes at least its two lengths.
                let count = usize::try_from(value).ok().filter(|n| n.saturating_mul(2) <= self.left);
                self.headers_left = count.ok_or_else(|| self.broken(&format!("a header count of {value}")))?;
                self.at = if self.headers_left == 0 { At::End } else { At::HeaderKeyLength };
            }
            At::HeaderKeyLength => {
                self.pass_over("header key length", value, 0)?;
                self.at = At::HeaderValueLength;
            }
            At::HeaderValueLength => {
                self.pass_over("header value length", value, -1)?;
                self.headers_left -= 1;
                self.at = if self.headers_left == 0 { At::End } else { At::HeaderKeyLength };
            }
            At::Attributes | At::End => unreachable!("no varint is read there"),
        }
        Ok(())
    }

    fn pass_over(&mut self, what: &str, length: i64, least: i64) -> Result<(), RecordError> {
        let fits = length >= least && length <= self.left as i64;
        if !fits {
            return Err(self.broken(&format!("a {what} of {length} with {} bytes left", self.left)));
        }
        self.skip = length.max(0) as usize;
        self.take(self.skip)
    }

    fn take(&mut self, bytes: usize) -> Result<(), RecordError> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Err(self.broken("fields past its length")),
        }
        Ok(())
    }

    fn end_record(&mut self) -> Result<(), RecordError> {
        if self.left != 0 {
            return Err(self.broken(&format!("{} bytes behind its headers", self.left)));
        }
        if self.timestamp > self.max_timestamp {
            self.max_timestamp = self.timestamp;
            self.offset_of_max_timestamp = self.seen;
        }
        if self.found.is_none() && self.search.is_some_and(|wanted| self.timestamp >= wanted) {
            self.found = Some((self.seen, self.timestamp));
        }
        self.seen += 1;
        self.at = At::Length;
        Ok(())
    }

    fn broken(&self, what: &str) -> RecordError {
        RecordError::Invalid(format!("record {} has {what}", self.seen))
    }
}

/// The first record of a stored batch whose timestamp is at least `timestamp`: its offset delta and
/// timestamp. Under LogAppendTime every record has the batch's time. Meant for batches that were walked
/// before they were stored; blocks for as long as decompression takes.
pub fn first_at_or_after(batch: &Bytes, timestamp: i64) -> Result<Option<(i32, i64)>, RecordError> {
    let header = BatchHeader::parse(batch).ok_or_else(|| RecordError::Corrupt("no batch".into()))?;
    if header.is_log_append_time() {
        return Ok((header.max_timestamp >= timestamp).then_some((0, header.max_timestamp)));
    }
    let mut records = Records::new(header, batch.slice(HEADER_BYTES.min(batch.len())..header.size.min(batch.len())))?;
    records.parser.search = Some(timestamp);
    loop {
        if let Some(found) = records.parser.found {
            return Ok(Some(found));
        }
        if records.advance(&mut usize::MAX.clone(), usize::MAX)?.is_some() {
            return Ok(records.parser.found);
        }
    }
}
