//! From Kafka's records to Iggy's messages.

use bytes::{Bytes, BytesMut};
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{
    HEADER_KIND_RAW, HEADER_KIND_STRING, IggyBatchBuilder, IggyBatchFull, IggyProducer, PAYLOAD_BYTES_MAX,
    USER_HEADER_PART_BYTES_MAX, USER_HEADERS_BYTES_MAX, UserHeader, put_user_header,
};
use ringgate_wire::records::{BatchHeader, OpenBatch, Record, RecordError};

use super::{
    ENVELOPE_VERSION, HEADER_ENVELOPE, HEADER_KEY, HEADER_PREFIX, HEADER_TIMESTAMP, HEADER_VALUE, HEADER_VERSION,
    NO_PAYLOAD, TIMESTAMP_EPOCH, VALUE_EMPTY, VALUE_NULL, VERSION, envelope,
};

const US_PER_MS: u64 = 1000;
/// Bytes that a user header takes beside its name and value.
const USER_HEADER_BYTES: usize = 10;

/// Whose time records carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// Their own (CreateTime).
    OfRecords,
    /// That of Iggy's server (LogAppendTime): messages go without an origin time.
    OfServer,
}

/// Why a batch is not written to Iggy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `INVALID_TIMESTAMP(32)`.
    #[error("a record's timestamp is {0} ms; Iggy keeps -1 and 0 to 9,223,372,036,854,775")]
    Timestamp(i64),
    /// `INVALID_TIMESTAMP(32)`: a producer's sequence covers one batch.
    #[error(
        "an idempotent producer's batch has timestamps over 71.58 minutes apart, or some and some without; Iggy \
         would take it in parts, which cannot be told from a repetition"
    )]
    SplitByTime,
    /// `MESSAGE_TOO_LARGE(10)`: as above.
    #[error("an idempotent producer's batch takes more than the {0} bytes that Iggy takes in one")]
    SplitBySize(usize),
    /// `MESSAGE_TOO_LARGE(10)`.
    #[error("a record of {0} bytes; Iggy takes a payload of 64,000,000 in a batch of at most {1}")]
    TooLarge(usize, usize),
    /// As the record walk has it.
    #[error("{0}")]
    Records(String, i16),
}

impl Refusal {
    /// Kafka's code for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Refusal::Timestamp(_) | Refusal::SplitByTime => ErrorCode::INVALID_TIMESTAMP,
            Refusal::SplitBySize(_) | Refusal::TooLarge(..) => ErrorCode::MESSAGE_TOO_LARGE,
            Refusal::Records(_, code) => ErrorCode(*code),
        }
    }
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Refusal {
        Refusal::Records(error.to_string(), error.code())
    }
}

/// A walked Kafka batch as batches to send, each of at most `size_max` bytes: several where Iggy cannot take it
/// in one, unless it is a producer's.
///
/// # Errors
/// The rules of [`Refusal`]. Nothing of the batch is to be sent then.
pub fn to_send(
    batch: &OpenBatch,
    stamps: Stamps,
    producer: Option<IggyProducer>,
    size_max: usize,
) -> Result<Vec<Bytes>, Refusal> {
    let mut writer = Writer::new(size_max, producer);
    for record in batch.records() {
        let record = record?;
        let origin = match stamps {
            Stamps::OfRecords => origin_of(record.timestamp).ok_or(Refusal::Timestamp(record.timestamp))?,
            Stamps::OfServer => Origin::NONE,
        };
        writer.push(&record, origin)?;
    }
    Ok(writer.finish().into_iter().filter_map(|part| part.builder.finish(0, 0, 0)).collect())
}

/// A stored Kafka batch as a server of Iggy's answers polls with it: same offsets, its largest timestamp as the
/// server's time. Times that Iggy cannot keep are left out.
///
/// # Errors
/// It cannot be read, or a record is larger than a message may be.
pub fn to_answer(batch: &Bytes, partition_id: u64, max_decompressed: usize) -> Result<Vec<Bytes>, Refusal> {
    let open = OpenBatch::open(batch, max_decompressed)?;
    let header: &BatchHeader = open.header();
    let server_us = u64::try_from(header.max_timestamp).unwrap_or(0).saturating_mul(US_PER_MS);
    let mut writer = Writer::new(usize::MAX, None);
    for record in open.records() {
        let record = record?;
        let origin = match header.is_log_append_time() {
            true => Origin::NONE,
            false => origin_of(record.timestamp).unwrap_or(Origin::NONE),
        };
        writer.push(&record, origin)?;
    }
    let base_offset = u64::try_from(header.base_offset).unwrap_or(0);
    let parts = writer.finish().into_iter();
    Ok(parts.filter_map(|p| p.builder.finish(partition_id, base_offset + p.first, server_us)).collect())
}

/// A message's origin time and whether a header has to say that it is 1970.
#[derive(Clone, Copy)]
struct Origin {
    us: u64,
    is_epoch: bool,
}

impl Origin {
    const NONE: Origin = Origin { us: 0, is_epoch: false };
}

/// `None`: Iggy cannot keep it.
fn origin_of(timestamp_ms: i64) -> Option<Origin> {
    match timestamp_ms {
        -1 => Some(Origin::NONE),
        ms => {
            let us = u64::try_from(ms).ok()?.checked_mul(US_PER_MS).filter(|us| *us <= i64::MAX as u64)?;
            Some(Origin { us, is_epoch: us == 0 })
        }
    }
}

/// A batch and the number of its first record.
struct Part {
    first: u64,
    builder: IggyBatchBuilder,
}

struct Writer {
    parts: Vec<Part>,
    records: u64,
    size_max: usize,
    producer: Option<IggyProducer>,
    payload: BytesMut,
    headers: BytesMut,
}

impl Writer {
    fn new(size_max: usize, producer: Option<IggyProducer>) -> Writer {
        let (payload, headers) = (BytesMut::new(), BytesMut::new());
        let mut writer = Writer { parts: Vec::new(), records: 0, size_max, producer, payload, headers };
        writer.begin();
        writer
    }

    fn begin(&mut self) {
        let builder = IggyBatchBuilder::new(self.size_max).producer(self.producer);
        self.parts.push(Part { first: self.records, builder });
    }

    fn push(&mut self, record: &Record<'_>, origin: Origin) -> Result<(), Refusal> {
        self.headers.clear();
        put(&mut self.headers, HEADER_VERSION, &[VERSION]);
        if origin.is_epoch {
            put(&mut self.headers, HEADER_TIMESTAMP, TIMESTAMP_EPOCH);
        }
        let payload = if fits_headers(record) {
            put_parts(&mut self.headers, record);
            record.value.filter(|value| !value.is_empty()).unwrap_or(NO_PAYLOAD)
        } else {
            let size = envelope::size(record);
            if size > PAYLOAD_BYTES_MAX {
                return Err(Refusal::TooLarge(size, self.size_max));
            }
            put(&mut self.headers, HEADER_ENVELOPE, &[ENVELOPE_VERSION]);
            self.payload.clear();
            self.payload.reserve(size);
            envelope::put(&mut self.payload, record);
            &self.payload[..]
        };
        let size = payload.len();
        let is_new = |parts: &[Part]| parts.last().is_none_or(|part| part.builder.messages() == 0);
        loop {
            let Some(part) = self.parts.last_mut() else { return Ok(()) };
            match part.builder.push(0, origin.us, payload, &self.headers) {
                Ok(()) => break,
                Err(IggyBatchFull::TooLarge) => return Err(Refusal::TooLarge(size, self.size_max)),
                Err(IggyBatchFull::Size(_)) if is_new(&self.parts) => {
                    return Err(Refusal::TooLarge(size, self.size_max));
                }
                Err(IggyBatchFull::Size(most)) if self.producer.is_some() => return Err(Refusal::SplitBySize(most)),
                Err(IggyBatchFull::Time) if self.producer.is_some() => return Err(Refusal::SplitByTime),
                Err(IggyBatchFull::Size(_) | IggyBatchFull::Time) => {
                    let builder = IggyBatchBuilder::new(self.size_max);
                    self.parts.push(Part { first: self.records, builder });
                }
            }
        }
        self.records += 1;
        Ok(())
    }

    fn finish(self) -> Vec<Part> {
        self.parts
    }
}

fn put(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    let header = UserHeader { name_kind: HEADER_KIND_STRING, name, value_kind: HEADER_KIND_RAW, value };
    put_user_header(out, &header);
}

/// Key, value marker and headers as user headers.
fn put_parts(out: &mut BytesMut, record: &Record<'_>) {
    match record.value {
        None => put(out, HEADER_VALUE, VALUE_NULL),
        Some([]) => put(out, HEADER_VALUE, VALUE_EMPTY),
        Some(_) => {}
    }
    if let Some(key) = record.key {
        put(out, HEADER_KEY, key);
    }
    let mut name_of = [0; USER_HEADER_PART_BYTES_MAX];
    name_of[..HEADER_PREFIX.len()].copy_from_slice(HEADER_PREFIX);
    for (name, value) in record.headers.clone() {
        let end = HEADER_PREFIX.len() + name.len();
        name_of[HEADER_PREFIX.len()..end].copy_from_slice(name);
        put(out, &name_of[..end], value.unwrap_or_default());
    }
}

/// Whether key and headers can be user headers; otherwise the record needs an envelope.
fn fits_headers(record: &Record<'_>) -> bool {
    let is_part = |bytes: &[u8]| (1..=USER_HEADER_PART_BYTES_MAX).contains(&bytes.len());
    if record.key.is_some_and(|key| !is_part(key)) {
        return false;
    }
    // The mapping's own at their longest, then key and headers.
    let own = [HEADER_VERSION, HEADER_TIMESTAMP, TIMESTAMP_EPOCH, HEADER_VALUE, VALUE_EMPTY, HEADER_KEY];
    let mut bytes = own.iter().map(|part| USER_HEADER_BYTES + part.len()).sum::<usize>();
    bytes += record.key.map_or(0, <[u8]>::len);
    let mut names = Vec::with_capacity(record.headers.len().min(64));
    for (name, value) in record.headers.clone() {
        let fits = name.len() + HEADER_PREFIX.len() <= USER_HEADER_PART_BYTES_MAX
            && str::from_utf8(name).is_ok()
            && value.is_some_and(is_part);
        bytes += USER_HEADER_BYTES + HEADER_PREFIX.len() + name.len() + value.map_or(0, <[u8]>::len);
        if !fits || bytes > USER_HEADERS_BYTES_MAX {
            return false;
        }
        names.push(name);
    }
    names.sort_unstable();
    names.windows(2).all(|two| two[0] != two[1])
}
