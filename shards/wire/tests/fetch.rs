//! Our Fetch response against the codec's, byte for byte, in every version.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_wire::encode_response;
use ringgate_wire::fetch::{Partition, Response, Topic, encode};
use uuid::Uuid;

fn topics(with_records: bool) -> Vec<Topic> {
    (0..3)
        .map(|t| Topic {
            name: format!("topic-{t}"),
            id: Uuid::from_u128(77 + t as u128),
            partitions: (0..t)
                .map(|p| Partition {
                    partition: p,
                    error_code: if p == 1 { 1 } else { 0 },
                    high_watermark: 100 + i64::from(p),
                    last_stable_offset: 100 + i64::from(p),
                    log_start_offset: 5,
                    diverging_epoch: (p == 1).then_some((3, 44)),
                    records: if with_records {
                        vec![Bytes::from(vec![1; 200 * (p as usize + 1)]), Bytes::from_static(b"second")]
                    } else {
                        Vec::new()
                    },
                })
                .collect(),
        })
        .collect()
}

fn by_codec(version: i16, response: Response, topics: &[Topic]) -> Bytes {
    let responses = topics
        .iter()
        .map(|topic| {
            let partitions = topic
                .partitions
                .iter()
                .map(|p| {
                    let mut data = PartitionData::default()
                        .with_partition_index(p.partition)
                        .with_error_code(p.error_code)
                        .with_high_watermark(p.high_watermark)
                        .with_last_stable_offset(p.last_stable_offset)
                        .with_log_start_offset(p.log_start_offset)
                        .with_aborted_transactions(None)
                        .with_records(Some(Bytes::from(p.records.concat())));
                    if let (Some((epoch, end)), true) = (p.diverging_epoch, version >= 12) {
                        let diverging = EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
                        data = data.with_diverging_epoch(diverging);
                    }
                    data
                })
                .collect();
            let mut out = FetchableTopicResponse::default().with_partitions(partitions);
            if version >= 13 {
                out = out.with_topic_id(topic.id);
            } else {
                out = out.with_topic(TopicName(StrBytes::from_string(topic.name.clone())));
            }
            out
        })
        .collect();
    let mut body = FetchResponse::default().with_responses(responses);
    if version >= 7 {
        body = body.with_error_code(response.error_code).with_session_id(response.session_id);
    }
    encode_response(1, version, 42, &body).unwrap()
}

#[test]
fn the_segments_are_the_codecs_bytes_in_every_version() {
    for version in 4..=18 {
        for (response, topics) in [
            (Response { error_code: 0, session_id: 9 }, topics(true)),
            (Response { error_code: 0, session_id: 0 }, topics(false)),
            (Response { error_code: 70, session_id: 0 }, Vec::new()),
        ] {
            let ours = encode(version, 42, response, topics.clone()).unwrap();
            let mut joined = BytesMut::new();
            ours.iter().for_each(|segment| joined.extend_from_slice(segment));
            assert_eq!(joined.freeze(), by_codec(version, response, &topics), "version {version}");
        }
    }
}

#[test]
fn record_bytes_are_not_copied() {
    let topics = topics(true);
    let records = topics[2].partitions[1].records[0].as_ptr();
    let segments = encode(12, 1, Response { error_code: 0, session_id: 0 }, topics).unwrap();
    assert!(segments.iter().any(|segment| segment.as_ptr() == records));
    let none = encode(12, 1, Response { error_code: 0, session_id: 0 }, self::topics(false)).unwrap();
    assert_eq!(none.len(), 1, "without records all is one segment");
}
