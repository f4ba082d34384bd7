//! The body of a Produce request, put together so that batches go out as they lie in memory.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

/// The versions that can be written: from that of Kafka 0.11, the first with this batch format, to that of 4.1.
pub const VERSION_MAX: i16 = 13;
/// The first with compact lengths and tags.
const FLEXIBLE: i16 = 9;
/// The first that names topics by id.
const TOPIC_IDS: i16 = 13;

/// A topic as requests name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRef {
    /// Its name.
    pub name: String,
    /// Its id; nil where the target has none.
    pub id: Uuid,
}

/// The segments of a request with these batches, as topic and partition and batch; those of a topic are together.
pub fn body(
    version: i16,
    acks: i16,
    timeout_ms: i32,
    topics: &[TopicRef],
    batches: &[(usize, i32, Bytes)],
) -> Vec<Bytes> {
    let flexible = version >= FLEXIBLE;
    let mut segments = Vec::with_capacity(2 * batches.len() + 1);
    let mut out = BytesMut::with_capacity(64);
    if flexible {
        out.put_u8(0);
    } else {
        out.put_i16(-1);
    }
    out.put_i16(acks);
    out.put_i32(timeout_ms);
    let of_topics: Vec<_> = batches.chunk_by(|one, next| one.0 == next.0).collect();
    put_count(&mut out, of_topics.len(), flexible);
    for of_topic in of_topics {
        let topic = &topics[of_topic[0].0];
        if version >= TOPIC_IDS {
            out.put_slice(topic.id.as_bytes());
        } else {
            if flexible {
                put_count(&mut out, topic.name.len(), true);
            } else {
                out.put_i16(topic.name.len() as i16);
            }
            out.put_slice(topic.name.as_bytes());
        }
        put_count(&mut out, of_topic.len(), flexible);
        for (_, partition, batch) in of_topic {
            out.put_i32(*partition);
            put_count(&mut out, batch.len(), flexible);
            segments.push(out.split().freeze());
            segments.push(batch.clone());
            if flexible {
                out.put_u8(0);
            }
        }
        if flexible {
            out.put_u8(0);
        }
    }
    if flexible {
        out.put_u8(0);
    }
    segments.push(out.freeze());
    segments
}

/// The length of an array, a string or bytes.
fn put_count(out: &mut BytesMut, count: usize, flexible: bool) {
    if !flexible {
        out.put_i32(count as i32);
        return;
    }
    let mut left = count as u32 + 1;
    while left >= 0x80 {
        out.put_u8(left as u8 | 0x80);
        left >>= 7;
    }
    out.put_u8(left as u8);
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use kafka_protocol::messages::{ProduceRequest, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;

    #[test]
    fn a_request_is_what_the_codec_writes_at_every_version() {
        let topic = |name: &str, id| TopicRef { name: name.into(), id: Uuid::from_u128(id) };
        let topics = [topic("first", 7), topic(&"long".repeat(40), 8), topic("unused", 9)];
        let batches = [(0, 0, vec![1; 300]), (0, 5, vec![2; 3]), (1, 2, vec![3; 70_000])];
        let batches = batches.map(|(topic, partition, batch)| (topic, partition, Bytes::from(batch)));
        for version in 3..=VERSION_MAX {
            let data = |at: usize| {
                let parts = batches.iter().filter(|(topic, ..)| *topic == at).map(|(_, partition, batch)| {
                    PartitionProduceData::default().with_index(*partition).with_records(Some(batch.clone()))
                });
                let named = TopicProduceData::default().with_partition_data(parts.collect());
                if version >= TOPIC_IDS {
                    named.with_topic_id(topics[at].id)
                } else {
                    named.with_name(TopicName(StrBytes::from_string(topics[at].name.clone())))
                }
            };
            let request =
                ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![data(0), data(1)]);
            let mut expected = BytesMut::new();
            request.encode(&mut expected, version).unwrap();
            assert!(body(version, -1, 5_000, &topics, &batches).concat() == expected, "version {version}");
        }
    }
}
