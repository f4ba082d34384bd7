//! The walk over a batch that has arrived.

use bytes::Bytes;

use super::varint::{LAST_32, LAST_64, unzigzag};
use super::{BatchHeader, BatchInfo, CRC_FROM, Compression, HEADER_BYTES, MAGIC, MAGIC_AT, RecordError, corrupt};
use crate::decompress::Source;

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
    decompressed: usize,
}

enum State {
    New(Bytes),
    Crc { batch: Bytes, header: BatchHeader, at: usize, crc: u32 },
    Records(Box<Records>),
    Done,
}

/// The part of the walk behind the header.
pub(super) struct Records {
    header: BatchHeader,
    source: Source,
    pub(super) parser: Parser,
    out: usize,
}

impl Walker {
    /// A walk over a partition's `records`; they may decompress to at most `max_decompressed` bytes.
    pub fn new(records: Bytes, max_decompressed: usize) -> Walker {
        Walker { state: State::New(records), max_decompressed, decompressed: 0 }
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

    /// Bytes of records that were decompressed so far, also when the batch turned out to be wrong: what a
    /// request's bound is to be charged with.
    pub fn decompressed_bytes(&self) -> usize {
        self.decompressed
    }

    fn advance(&mut self, budget: &mut usize) -> Result<Option<BatchInfo>, RecordError> {
        match &mut self.state {
            State::New(records) => {
                let header = check_frame(records)?;
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
                let compression = check_header(header)?;
                let records = Records::new(*header, compression, batch.slice(HEADER_BYTES..))?;
                self.state = State::Records(Box::new(records));
                Ok(None)
            }
            State::Records(records) => {
                let walked = records.advance(budget, self.max_decompressed);
                self.decompressed = records.out;
                walked
            }
            State::Done => Err(RecordError::Invalid("already walked".into())),
        }
    }
}

/// Whether the bytes are one batch of a format that can be read.
fn check_frame(records: &[u8]) -> Result<BatchHeader, RecordError> {
    if records.is_empty() {
        return Err(RecordError::Invalid("a partition of a Produce request takes exactly one batch".into()));
    }
    match records.get(MAGIC_AT) {
        None | Some(&MAGIC) => {}
        Some(&magic @ (0 | 1)) => return Err(RecordError::OldFormat(magic as i8)),
        Some(magic) => return Err(RecordError::Invalid(format!("magic is {magic}, allowed is {MAGIC}"))),
    }
    if records.len() < HEADER_BYTES {
        return Err(RecordError::Invalid(format!("{} bytes are less than a batch's header", records.len())));
    }
    let Some(header) = BatchHeader::parse(records) else {
        return Err(RecordError::Corrupt("its length is less than its header's".into()));
    };
    if header.size > records.len() {
        return Err(RecordError::Invalid(format!("{} of its {} bytes are there", records.len(), header.size)));
    }
    if header.size < records.len() {
        return Err(RecordError::Invalid("a partition of a Produce request takes exactly one batch".into()));
    }
    Ok(header)
}

/// Whether what the header says makes sense; looked at once the CRC is known to be right, since a damaged
/// batch is worth another try and a wrong one is not.
fn check_header(header: &BatchHeader) -> Result<Compression, RecordError> {
    let compression = header.compression().ok_or(RecordError::UnknownCompression(header.attributes & 7))?;
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
    Ok(compression)
}

impl Records {
    pub(super) fn new(header: BatchHeader, compression: Compression, payload: Bytes) -> Result<Records, RecordError> {
        let source = Source::new(compression, payload).map_err(corrupt)?;
        Ok(Records { header, source, parser: Parser::new(header.base_timestamp), out: 0 })
    }

    /// One chunk's worth of progress.
    pub(super) fn advance(&mut self, budget: &mut usize, most: usize) -> Result<Option<BatchInfo>, RecordError> {
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
                transactional: self.header.is_transactional(),
                control: self.header.is_control(),
                decompressed_bytes: self.out,
            }));
        }
        if available.is_empty() {
            let seen = self.parser.seen;
            return Err(RecordError::Invalid(format!("it has {seen} whole records and counts {counted}")));
        }
        let take = available.len().min(*budget);
        let parsed = self.parser.parse(&available[..take], counted);
        let used = *parsed.as_ref().unwrap_or(&take);
        self.source.consume(used);
        self.out += used;
        *budget -= used;
        parsed?;
        if self.out > most {
            return Err(RecordError::TooLarge(most));
        }
        Ok(None)
    }
}

/// Reads records as a stream of bytes that may be cut anywhere.
pub(super) struct Parser {
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
    pub(super) search: Option<i64>,
    pub(super) found: Option<(i32, i64)>,
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
                let (last_shift, last_most) = if self.at == At::Timestamp { LAST_64 } else { LAST_32 };
                if self.shift == last_shift && byte > last_most {
                    return Err(self.broken("a varint that is too long"));
                }
                self.varint |= u64::from(byte & 0x7f) << self.shift;
                if byte & 0x80 != 0 {
                    self.shift += 7;
                    continue;
                }
                let value = unzigzag(self.varint);
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
