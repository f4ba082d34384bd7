//! From Iggy's messages to Kafka's records.

use bytes::Bytes;
use ringgate_wire::iggy::{IggyMessage, messages};
use ringgate_wire::records::BatchBuilder;

use super::envelope::{self, Parts};
use super::{
    ENVELOPE_VERSION, HEADER_ENVELOPE, HEADER_KEY, HEADER_PREFIX, HEADER_TIMESTAMP, HEADER_VALUE, HEADER_VERSION,
    NO_PAYLOAD, TIMESTAMP_EPOCH, VALUE_EMPTY, VALUE_NULL, VERSION,
};

const US_PER_MS: u64 = 1000;
/// Kafka's timestamp of a record that has none.
const NO_TIMESTAMP: i64 = -1;

/// What is done about a message that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// Records end before it, and readers are told of it.
    Stop,
    /// Its offset stays empty, and it is counted.
    Skip,
}

/// A message that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its offset.
    pub offset: i64,
    /// What it has.
    pub why: String,
}

/// What became of an Iggy batch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KafkaBatches {
    /// Batches of format 2, without compression; more than one where offsets are missing.
    pub batches: Vec<Bytes>,
    /// The message that ended it, under [`OnUnknown::Stop`].
    pub stopped_at: Option<Unknown>,
    /// Messages that were left out, under [`OnUnknown::Skip`].
    pub skipped: Vec<Unknown>,
}

/// An Iggy batch as Kafka's: same offsets.
///
/// # Errors
/// It is no batch; what it has instead.
pub fn to_kafka(batch: &[u8], leader_epoch: i32, on_unknown: OnUnknown) -> Result<KafkaBatches, String> {
    let messages = messages(batch).map_err(|error| error.to_string())?;
    let server_ms = match messages.header().base_timestamp_us {
        0 => NO_TIMESTAMP,
        us => (us / US_PER_MS) as i64,
    };
    let mut writer = Writer { done: KafkaBatches::default(), open: None, leader_epoch };
    for message in messages {
        let message = message.map_err(|error| error.to_string())?;
        let offset = i64::try_from(message.offset).map_err(|_| format!("offset {} is past Kafka's", message.offset))?;
        let written = record_of(&message, server_ms).and_then(|record| writer.push(offset, &record));
        let Err(why) = written else { continue };
        let unknown = Unknown { offset, why };
        match on_unknown {
            OnUnknown::Skip => writer.done.skipped.push(unknown),
            OnUnknown::Stop => {
                writer.done.stopped_at = Some(unknown);
                break;
            }
        }
    }
    Ok(writer.finish())
}

struct Writer {
    done: KafkaBatches,
    /// The batch being written, its first offset and the next.
    open: Option<(BatchBuilder, i64, i64)>,
    leader_epoch: i32,
}

impl Writer {
    fn push(&mut self, offset: i64, (timestamp, parts): &(i64, Parts<'_>)) -> Result<(), String> {
        if self.open.as_ref().is_some_and(|(_, _, next)| *next != offset) {
            self.close();
        }
        for _ in 0..2 {
            let new = || (BatchBuilder::new(usize::MAX), offset, offset);
            let (builder, _, next) = self.open.get_or_insert_with(new);
            if builder.push(*timestamp, parts.key, parts.value, &parts.headers).is_ok() {
                *next = offset + 1;
                return Ok(());
            }
            self.close();
        }
        Err("more bytes than a batch of Kafka's can have".into())
    }

    fn close(&mut self) {
        if let Some((builder, base_offset, _)) = self.open.take() {
            self.done.batches.extend(builder.finish(base_offset, self.leader_epoch));
        }
    }

    fn finish(mut self) -> KafkaBatches {
        self.close();
        self.done
    }
}

/// A message's record and its timestamp in ms.
fn record_of<'a>(message: &IggyMessage<'a>, server_ms: i64) -> Result<(i64, Parts<'a>), String> {
    let own_ms = match message.origin_timestamp_us {
        0 => server_ms,
        us => (us / US_PER_MS) as i64,
    };
    let version = message.user_headers.clone().find(|header| header.name == HEADER_VERSION);
    match version.map(|header| header.value) {
        None => {
            let headers = message.user_headers.clone().map(|header| (header.name, Some(header.value))).collect();
            Ok((own_ms, Parts { key: None, value: Some(message.payload), headers }))
        }
        Some([VERSION]) => mapped(message, own_ms),
        Some(other) => Err(format!("version {other:02x?} of the mapping, known is {VERSION}")),
    }
}

fn mapped<'a>(message: &IggyMessage<'a>, own_ms: i64) -> Result<(i64, Parts<'a>), String> {
    let mut parts = Parts { key: None, value: Some(message.payload), headers: Vec::new() };
    let mut timestamp = own_ms;
    let (mut in_envelope, mut has_value_marker) = (false, false);
    for header in message.user_headers.clone() {
        match (header.name, header.value) {
            (HEADER_VERSION, _) => {}
            (HEADER_KEY, key) if parts.key.is_none() => parts.key = Some(key),
            (HEADER_VALUE, marker) if !has_value_marker && message.payload == NO_PAYLOAD => {
                has_value_marker = true;
                parts.value = match marker {
                    VALUE_NULL => None,
                    VALUE_EMPTY => Some(&[]),
                    _ => return Err(format!("{:02x?} as {}", marker, text(HEADER_VALUE))),
                };
            }
            (HEADER_TIMESTAMP, TIMESTAMP_EPOCH) if message.origin_timestamp_us == 0 => timestamp = 0,
            (HEADER_ENVELOPE, [ENVELOPE_VERSION]) if !in_envelope => in_envelope = true,
            (name, value) => match name.strip_prefix(HEADER_PREFIX) {
                Some(own) => parts.headers.push((own, Some(value))),
                None => return Err(format!("header {} = {value:02x?} there", text(name))),
            },
        }
    }
    if !in_envelope {
        return Ok((timestamp, parts));
    }
    if parts.key.is_some() || has_value_marker || !parts.headers.is_empty() {
        return Err("an envelope and parts of the record beside it".into());
    }
    Ok((timestamp, envelope::read(message.payload)?))
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
