//! Fetches of many partitions, with and without a session, in any version that is served.

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{BrokerId, FetchRequest};
use kafka_protocol::records::RecordBatchDecoder;

use super::partition::Topic;

/// The first version that names topics by id.
pub const BY_ID_SINCE: i16 = 13;
/// The first version with sessions.
pub const SESSIONS_SINCE: i16 = 7;
/// No test waits that long; if one does, it is hung.
pub const FOR_EVER_MS: i32 = 120_000;
/// Record bytes per partition, where a test does not care.
pub const PLENTY: i32 = 8 << 20;

/// A Fetch without a session that does not wait: topics, each with partitions and offsets.
pub fn fetch_request(version: i16, topics: &[(&Topic, &[(i32, i64)])]) -> FetchRequest {
    let topics = topics.iter().map(|(topic, from)| fetch_topic(version, topic, from)).collect();
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_min_bytes(1)
        .with_max_bytes(PLENTY)
        .with_session_epoch(-1)
        .with_topics(topics)
}

fn fetch_topic(version: i16, topic: &Topic, from: &[(i32, i64)]) -> FetchTopic {
    let partition = |&(index, offset): &(i32, i64)| {
        FetchPartition::default()
            .with_partition(index)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(offset)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(PLENTY)
    };
    let named = FetchTopic::default().with_partitions(from.iter().map(partition).collect());
    match version {
        ..BY_ID_SINCE => named.with_topic(topic.name.clone()),
        _ => named.with_topic_id(topic.id),
    }
}

/// Partitions that a session is to forget.
pub fn forgotten(version: i16, topic: &Topic, partitions: &[i32]) -> ForgottenTopic {
    let named = ForgottenTopic::default().with_partitions(partitions.to_vec());
    match version {
        ..BY_ID_SINCE => named.with_topic(topic.name.clone()),
        _ => named.with_topic_id(topic.id),
    }
}

/// The same with this bound on each partition's bytes.
pub fn with_partition_max_bytes(mut request: FetchRequest, bytes: i32) -> FetchRequest {
    for partition in request.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.partition_max_bytes = bytes;
    }
    request
}

/// The part of a response about this topic.
pub fn about<'a>(version: i16, response: &'a FetchResponse, topic: &Topic) -> Option<&'a FetchableTopicResponse> {
    response.responses.iter().find(|part| match version {
        ..BY_ID_SINCE => part.topic == topic.name,
        _ => part.topic_id == topic.id,
    })
}

/// Every partition of a response, in its order.
pub fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    response.responses.iter().flat_map(|topic| &topic.partitions).collect()
}

/// A response's only partition.
pub fn only_partition(response: &FetchResponse) -> &PartitionData {
    let all = partitions(response);
    assert_eq!(all.len(), 1, "partitions of {response:?}");
    all[0]
}

/// Bytes of records of a partition.
pub fn size(partition: &PartitionData) -> usize {
    partition.records.as_ref().map_or(0, bytes::Bytes::len)
}

/// Offset and value of every record of a partition.
pub fn records(partition: &PartitionData) -> Vec<(i64, String)> {
    let mut bytes = partition.records.clone().unwrap_or_default();
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("whole batches");
    let records = sets.into_iter().flat_map(|set| set.records);
    records
        .map(|record| {
            let value = record.value.expect("a value");
            (record.offset, String::from_utf8(value.to_vec()).expect("text"))
        })
        .collect()
}

/// Offsets of a partition's records.
pub fn offsets(partition: &PartitionData) -> Vec<i64> {
    records(partition).into_iter().map(|(offset, _)| offset).collect()
}
