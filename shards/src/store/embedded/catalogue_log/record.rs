//! The records of the catalogue's log and how they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use uuid::Uuid;

use crate::catalogue::{ConsumerGroup, IggyOption, KAFKA, KAFKA_NAME, Stream, Topic};
use crate::store::embedded::frame::{self, Frame};

const VERSION: u8 = 1;
/// A topic's creation with its number, its stream and Iggy's options.
const NUMBERED_VERSION: u8 = 2;

/// A change of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogueRecord {
    /// A stream was created.
    StreamCreated(Arc<Stream>),
    /// A stream was deleted, and with it its topics.
    StreamDeleted(u32),
    /// A topic was created.
    Created(Arc<Topic>),
    /// A topic of stream `kafka` was created, as it was written before topics had numbers: it gets the next one.
    Unnumbered(Arc<Topic>),
    /// A topic was deleted, and with it its consumer groups; what is left of its partitions may be removed.
    Deleted(Uuid),
    /// A topic has this many partitions now.
    PartitionsAdded {
        /// The topic's id.
        topic: Uuid,
        /// More than before.
        partitions: i32,
    },
    /// A topic has these settings now.
    ConfigChanged {
        /// The topic's id.
        topic: Uuid,
        /// All of its settings.
        config: BTreeMap<String, String>,
    },
    /// A topic has these options of Iggy's now.
    OptionsChanged {
        /// The topic's id.
        topic: Uuid,
        /// All of them, as in [`Topic::options`].
        options: BTreeMap<String, IggyOption>,
    },
    /// A consumer group of a topic was created.
    GroupCreated {
        /// The topic's id.
        topic: Uuid,
        /// The group.
        group: Arc<ConsumerGroup>,
    },
    /// A consumer group of a topic was deleted, and with it the offsets that it stored.
    GroupDeleted {
        /// The topic's id.
        topic: Uuid,
        /// The group's id.
        id: u32,
    },
    /// No consumer group of a topic gets an id below this.
    GroupIds {
        /// The topic's id.
        topic: Uuid,
        /// The least one that is free.
        next: u32,
    },
    /// No stream and no topic gets a number below these.
    Counters {
        /// The least one that is free.
        next_stream: u32,
        /// The least one that is free.
        next_topic: u32,
    },
}

impl CatalogueRecord {
    pub(in crate::store::embedded) fn encode(&self) -> Bytes {
        let begin = |kind| frame::begin(kind, VERSION, 128);
        let of_topic = |kind, topic: &Uuid| {
            let mut out = begin(kind);
            out.put_slice(topic.as_bytes());
            out
        };
        frame::seal(match self {
            CatalogueRecord::StreamCreated(stream) => {
                let mut out = begin(frame::KIND_STREAM_CREATED);
                out.put_u32_le(stream.number);
                put_text(&mut out, &stream.name);
                out.put_i64_le(stream.created_at_ms);
                out
            }
            CatalogueRecord::StreamDeleted(number) => {
                let mut out = begin(frame::KIND_STREAM_DELETED);
                out.put_u32_le(*number);
                out
            }
            CatalogueRecord::Created(topic) => {
                let mut out = frame::begin(frame::KIND_TOPIC_CREATED, NUMBERED_VERSION, 128);
                put_topic(&mut out, topic);
                out.put_u32_le(topic.number);
                out.put_u32_le(topic.stream);
                put_text(&mut out, &topic.routed_by);
                put_options(&mut out, &topic.options);
                out
            }
            CatalogueRecord::Unnumbered(topic) => {
                let mut out = begin(frame::KIND_TOPIC_CREATED);
                put_topic(&mut out, topic);
                out
            }
            CatalogueRecord::Deleted(topic) => of_topic(frame::KIND_TOPIC_DELETED, topic),
            CatalogueRecord::PartitionsAdded { topic, partitions } => {
                let mut out = of_topic(frame::KIND_PARTITIONS_ADDED, topic);
                out.put_i32_le(*partitions);
                out
            }
            CatalogueRecord::ConfigChanged { topic, config } => {
                let mut out = of_topic(frame::KIND_CONFIG_CHANGED, topic);
                put_config(&mut out, config);
                out
            }
            CatalogueRecord::OptionsChanged { topic, options } => {
                let mut out = of_topic(frame::KIND_OPTIONS_CHANGED, topic);
                put_options(&mut out, options);
                out
            }
            CatalogueRecord::GroupCreated { topic, group } => {
                let mut out = of_topic(frame::KIND_GROUP_CREATED, topic);
                out.put_u32_le(group.id);
                put_text(&mut out, &group.name);
                out.put_i64_le(group.created_at_ms);
                out
            }
            CatalogueRecord::GroupDeleted { topic, id } => {
                let mut out = of_topic(frame::KIND_GROUP_DELETED, topic);
                out.put_u32_le(*id);
                out
            }
            CatalogueRecord::GroupIds { topic, next } => {
                let mut out = of_topic(frame::KIND_GROUP_IDS, topic);
                out.put_u32_le(*next);
                out
            }
            CatalogueRecord::Counters { next_stream, next_topic } => {
                let mut out = begin(frame::KIND_COUNTERS);
                out.put_u32_le(*next_stream);
                out.put_u32_le(*next_topic);
                out
            }
        })
    }

    /// Reads a record; `None` when it is none.
    pub(in crate::store::embedded) fn decode(frame: &Frame) -> Option<CatalogueRecord> {
        let mut payload = &frame.payload[..];
        let from = &mut payload;
        let record = match (frame.kind, frame.version) {
            (frame::KIND_STREAM_CREATED, VERSION) => CatalogueRecord::StreamCreated(Arc::new(Stream {
                number: from.try_get_u32_le().ok()?,
                name: text(from)?.into(),
                created_at_ms: from.try_get_i64_le().ok()?,
            })),
            (frame::KIND_STREAM_DELETED, VERSION) => CatalogueRecord::StreamDeleted(from.try_get_u32_le().ok()?),
            (frame::KIND_TOPIC_CREATED, VERSION) => CatalogueRecord::Unnumbered(topic(from)?.into()),
            (frame::KIND_TOPIC_CREATED, NUMBERED_VERSION) => {
                // Read before what follows it.
                let topic = topic(from)?;
                CatalogueRecord::Created(Arc::new(Topic {
                    number: from.try_get_u32_le().ok()?,
                    stream: from.try_get_u32_le().ok()?,
                    routed_by: text(from)?.into(),
                    options: options(from)?,
                    ..topic
                }))
            }
            (frame::KIND_TOPIC_DELETED, VERSION) => CatalogueRecord::Deleted(uuid(from)?),
            (frame::KIND_PARTITIONS_ADDED, VERSION) => {
                CatalogueRecord::PartitionsAdded { topic: uuid(from)?, partitions: from.try_get_i32_le().ok()? }
            }
            (frame::KIND_CONFIG_CHANGED, VERSION) => {
                CatalogueRecord::ConfigChanged { topic: uuid(from)?, config: config(from)? }
            }
            (frame::KIND_OPTIONS_CHANGED, VERSION) => {
                CatalogueRecord::OptionsChanged { topic: uuid(from)?, options: options(from)? }
            }
            (frame::KIND_GROUP_CREATED, VERSION) => CatalogueRecord::GroupCreated {
                topic: uuid(from)?,
                group: Arc::new(ConsumerGroup {
                    id: from.try_get_u32_le().ok()?,
                    name: text(from)?.into(),
                    created_at_ms: from.try_get_i64_le().ok()?,
                }),
            },
            (frame::KIND_GROUP_DELETED, VERSION) => {
                CatalogueRecord::GroupDeleted { topic: uuid(from)?, id: from.try_get_u32_le().ok()? }
            }
            (frame::KIND_GROUP_IDS, VERSION) => {
                CatalogueRecord::GroupIds { topic: uuid(from)?, next: from.try_get_u32_le().ok()? }
            }
            (frame::KIND_COUNTERS, VERSION) => CatalogueRecord::Counters {
                next_stream: from.try_get_u32_le().ok()?,
                next_topic: from.try_get_u32_le().ok()?,
            },
            _ => return None,
        };
        payload.is_empty().then_some(record)
    }
}

fn uuid(from: &mut &[u8]) -> Option<Uuid> {
    Uuid::from_slice(from.split_off(..16)?).ok()
}

/// What both versions of a topic's creation begin with.
fn put_topic(out: &mut BytesMut, topic: &Topic) {
    out.put_slice(topic.id.as_bytes());
    put_text(out, &topic.name);
    out.put_i32_le(topic.partitions);
    out.put_i64_le(topic.created_at_ms);
    put_config(out, &topic.config);
}

fn topic(from: &mut &[u8]) -> Option<Topic> {
    let (id, name) = (uuid(from)?, text(from)?);
    Some(Topic {
        partitions: from.try_get_i32_le().ok()?,
        created_at_ms: from.try_get_i64_le().ok()?,
        config: config(from)?,
        ..Topic::new(id, 0, (KAFKA, KAFKA_NAME), name.into())
    })
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

fn bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = from.try_get_u32_le().ok()? as usize;
    from.split_off(..len)
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    str::from_utf8(bytes(from)?).ok()
}

fn put_config(out: &mut BytesMut, config: &BTreeMap<String, String>) {
    out.put_u32_le(config.len() as u32);
    for (name, value) in config {
        put_text(out, name);
        put_text(out, value);
    }
}

fn config(from: &mut &[u8]) -> Option<BTreeMap<String, String>> {
    let count = from.try_get_u32_le().ok()?;
    (0..count).map(|_| Some((text(from)?.to_string(), text(from)?.to_string()))).collect()
}

fn put_options(out: &mut BytesMut, options: &BTreeMap<String, IggyOption>) {
    out.put_u32_le(options.len() as u32);
    for (name, option) in options {
        put_text(out, name);
        out.put_u8(option.kind);
        out.put_u32_le(option.value.len() as u32);
        out.put_slice(&option.value);
    }
}

fn options(from: &mut &[u8]) -> Option<BTreeMap<String, IggyOption>> {
    let count = from.try_get_u32_le().ok()?;
    let option = |from: &mut &[u8]| {
        let name = text(from)?.to_string();
        let kind = from.try_get_u8().ok()?;
        Some((name, IggyOption { kind, value: Bytes::copy_from_slice(bytes(from)?) }))
    };
    (0..count).map(|_| option(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_every_cut_is_noticed() {
        let stream = Arc::new(Stream { number: 3, name: "lab".into(), created_at_ms: 5 });
        let group = Arc::new(ConsumerGroup { id: 4, name: "g".into(), created_at_ms: 6 });
        let settings: BTreeMap<_, _> = [("a".to_string(), "b".to_string()), ("c".to_string(), String::new())].into();
        let option = IggyOption { kind: 2, value: Bytes::from_static(b"zstd") };
        let options: BTreeMap<_, _> = [("compression_algorithm".to_string(), option)].into();
        let id = Uuid::new_v4();
        let foreign = Arc::new(Topic {
            partitions: 3,
            config: settings.clone(),
            options: options.clone(),
            created_at_ms: 1_700_000_000_000,
            ..Topic::new(id, 8, (3, "lab"), "orders".into())
        });
        let old =
            Topic { partitions: 3, config: settings.clone(), ..Topic::new(id, 0, (KAFKA, KAFKA_NAME), "o".into()) };
        for record in [
            CatalogueRecord::StreamCreated(stream),
            CatalogueRecord::StreamDeleted(3),
            CatalogueRecord::Created(foreign),
            CatalogueRecord::Unnumbered(old.into()),
            CatalogueRecord::Deleted(id),
            CatalogueRecord::PartitionsAdded { topic: id, partitions: 9 },
            CatalogueRecord::ConfigChanged { topic: id, config: settings },
            CatalogueRecord::OptionsChanged { topic: id, options },
            CatalogueRecord::GroupCreated { topic: id, group },
            CatalogueRecord::GroupDeleted { topic: id, id: 4 },
            CatalogueRecord::GroupIds { topic: id, next: 5 },
            CatalogueRecord::Counters { next_stream: 4, next_topic: 9 },
        ] {
            let mut frame = frame::decode(&record.encode()).unwrap();
            assert_eq!(CatalogueRecord::decode(&frame), Some(record));
            let payload = frame.payload.clone();
            for cut in 0..payload.len() {
                frame.payload = payload.slice(..cut);
                assert_eq!(CatalogueRecord::decode(&frame), None, "cut at {cut}");
            }
        }
    }
}
