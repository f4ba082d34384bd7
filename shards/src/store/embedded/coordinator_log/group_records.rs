//! The coordinator's records as this log keeps them.

use bytes::BytesMut;
use ringgate_group::Record;
use ringgate_group::record::RecordError;

use super::{LogRecord, RecordKey};

/// Looks into a record of `ringgate-group`: a [`Describe`](super::Describe).
pub fn describe(kind: u8, version: u8, payload: &[u8]) -> Result<RecordKey, String> {
    let record = Record::decode(kind, version, payload).map_err(|error| error.to_string())?;
    Ok(RecordKey { key: record.key(), is_tombstone: record.is_tombstone(), group: record.group_id().clone() })
}

impl From<&Record> for LogRecord {
    fn from(record: &Record) -> LogRecord {
        let mut payload = BytesMut::with_capacity(record.size_hint());
        record.encode(&mut payload);
        LogRecord { kind: record.kind(), version: record.version(), payload: payload.freeze() }
    }
}

impl TryFrom<&LogRecord> for Record {
    type Error = RecordError;

    fn try_from(record: &LogRecord) -> Result<Record, RecordError> {
        Record::decode(record.kind, record.version, &record.payload)
    }
}
