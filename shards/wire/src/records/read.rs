//! Reading the records of a batch.

use bytes::{Bytes, BytesMut};

use super::varint::{take_32, take_64};
use super::{BatchHeader, Compression, HEADER_BYTES, RecordError, corrupt};
use crate::decompress::Source;

/// A batch whose records are decompressed, to be read one by one. Meant for batches that were walked before
/// they were stored: the CRC is not looked at. Decompresses all in one go.
#[derive(Debug, Clone)]
pub struct OpenBatch {
    header: BatchHeader,
    records: Bytes,
}

impl OpenBatch {
    /// Opens the batch at the start of `batch`, which may go on behind it. Records that are not compressed
    /// are not copied.
    ///
    /// # Errors
    /// It is no whole batch of format 2, cannot be decompressed, or its records take more than
    /// `max_decompressed` bytes.
    pub fn open(batch: &Bytes, max_decompressed: usize) -> Result<OpenBatch, RecordError> {
        let header = BatchHeader::parse(batch).ok_or_else(|| RecordError::Corrupt("no batch of format 2".into()))?;
        if header.size > batch.len() {
            return Err(RecordError::Corrupt(format!("{} of its {} bytes are there", batch.len(), header.size)));
        }
        let payload = batch.slice(HEADER_BYTES..header.size);
        let compression = header.compression().ok_or(RecordError::UnknownCompression(header.attributes & 7))?;
        if compression == Compression::None {
            if payload.len() > max_decompressed {
                return Err(RecordError::TooLarge(max_decompressed));
            }
            return Ok(OpenBatch { header, records: payload });
        }
        let mut source = Source::new(compression, payload).map_err(corrupt)?;
        let mut records = BytesMut::new();
        loop {
            let piece = source.available().map_err(corrupt)?;
            if piece.is_empty() {
                return Ok(OpenBatch { header, records: records.freeze() });
            }
            if records.len() + piece.len() > max_decompressed {
                return Err(RecordError::TooLarge(max_decompressed));
            }
            records.extend_from_slice(piece);
            let n = piece.len();
            source.consume(n);
        }
    }

    /// The batch's header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The records, decompressed; keys, values and headers are slices of it (see [`Bytes::slice_ref`]).
    pub fn bytes(&self) -> &Bytes {
        &self.records
    }

    /// The records in order.
    pub fn records(&self) -> Records<'_> {
        Records { header: &self.header, left: &self.records, seen: 0 }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// In ms; the append time under LogAppendTime.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers, in order; names may repeat.
    pub headers: Headers<'a>,
}

/// The records of a batch, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    header: &'a BatchHeader,
    left: &'a [u8],
    seen: i32,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let seen = self.seen;
        let record = match (seen >= self.header.records, self.left.is_empty()) {
            (true, true) => return None,
            (true, false) => Err(RecordError::Invalid(format!("bytes follow its {seen} records"))),
            (false, _) => take_record(&mut self.left, self.header)
                .map_err(|what| RecordError::Invalid(format!("record {seen} has {what}"))),
        };
        self.seen = seen.saturating_add(1);
        if record.is_err() {
            (self.seen, self.left) = (i32::MAX, &[]);
        }
        Some(record)
    }
}

fn take_record<'a>(left: &mut &'a [u8], header: &BatchHeader) -> Result<Record<'a>, &'static str> {
    let length = take_32(left).and_then(|length| usize::try_from(length).ok()).ok_or("no length")?;
    let (mut record, rest) = left.split_at_checked(length).ok_or("a length past the batch's end")?;
    *left = rest;
    let record = &mut record;
    let (_attributes, rest) = record.split_first().ok_or("no attributes")?;
    *record = rest;
    let timestamp = take_64(record).ok_or("no timestamp delta")?;
    let timestamp = match header.is_log_append_time() {
        true => header.max_timestamp,
        false => header.base_timestamp.wrapping_add(timestamp),
    };
    let offset_delta = take_32(record).ok_or("no offset delta")?;
    let key = take_bytes(record).ok_or("a key past its length")?;
    let value = take_bytes(record).ok_or("a value past its length")?;
    let count = take_32(record).and_then(|count| usize::try_from(count).ok()).ok_or("no header count")?;
    let headers = Headers { count, left: record };
    // Each is looked at once here, so that reading them later cannot fail.
    let mut checked = headers.clone();
    for _ in 0..count {
        checked.next_header().ok_or("a header past its length")?;
    }
    if !checked.left.is_empty() {
        return Err("bytes behind its headers");
    }
    Ok(Record { offset_delta, timestamp, key, value, headers })
}

/// Bytes with a length in front; the inner `None` is null.
fn take_bytes<'a>(left: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match take_32(left)? {
        -1 => Some(None),
        length => {
            let (bytes, rest) = left.split_at_checked(usize::try_from(length).ok()?)?;
            *left = rest;
            Some(Some(bytes))
        }
    }
}

/// A record's headers: name and value, in order, names as often as they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers<'a> {
    count: usize,
    left: &'a [u8],
}

impl<'a> Headers<'a> {
    fn next_header(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let name = take_bytes(&mut self.left)??;
        Some((name, take_bytes(&mut self.left)?))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        self.next_header()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Headers<'_> {}
