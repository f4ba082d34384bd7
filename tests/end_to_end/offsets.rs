//! ListOffsets and the codes of OffsetCommit, as they are on the wire.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{BrokerId, GroupId};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, string, topic_name};

/// Error code, timestamp and offset that ListOffsets answers.
/// A ListOffsets of one partition: code, timestamp, offset.
pub fn list_offsets(raw: &mut Raw, version: i16, topic: &str, partition: i32, timestamp: i64) -> (i16, i64, i64) {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    let response = raw.call(version, &request);
    let found = &response.topics[0].partitions[0];
    (found.error_code, found.timestamp, found.offset)
}

fn produce(raw: &mut Raw, topic: &str, records: bytes::Bytes) {
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
    let response = raw.call(9, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_offsets_answers_every_special_timestamp() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "clock", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());

    for timestamp in [-1, -2, -4] {
        assert_eq!(list_offsets(&mut raw, 9, "clock", 0, timestamp), (0, -1, 0), "empty, {timestamp}");
    }
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -3), (0, -1, -1), "no record has the largest time");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, 0), (0, -1, -1), "no record at all");

    // Times go back from one batch to the next: the largest is in the middle.
    produce(&mut raw, "clock", batch(Writer::NOBODY, 1_000, &["a", "b"]));
    produce(&mut raw, "clock", batch(Writer::NOBODY, 9_000, &["c", "d", "e"]));
    produce(&mut raw, "clock", batch(Writer::NOBODY, 5_000, &["f"]));
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -1), (0, -1, 6), "latest");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -2), (0, -1, 0), "earliest");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -3), (0, 9_002, 4), "largest time");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -4), (0, -1, 0), "earliest local");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, -5), (0, -1, -1), "nothing is tiered");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, 1_001), (0, 1_001, 1));
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, 1_002), (0, 9_000, 2), "the first at or after");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 0, 9_003), (0, -1, -1), "none that late");
    assert_eq!(list_offsets(&mut raw, 1, "clock", 0, -1), (0, -1, 6), "the oldest version");
    assert_eq!(list_offsets(&mut raw, 9, "clock", 1, -1).0, 3, "no such partition");
    assert_eq!(list_offsets(&mut raw, 9, "nowhere", 0, -1).0, 3, "no such topic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_answered_per_partition() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "orders", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = |index, note: &str| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(7)
            .with_committed_metadata(Some(string(note)))
    };
    let topic =
        |name, partitions| OffsetCommitRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions);
    let commit = |group: &str, generation: i32, member: &str| {
        OffsetCommitRequest::default()
            .with_group_id(GroupId(string(group)))
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(string(member))
            .with_topics(vec![
                topic("orders", vec![partition(0, "fits"), partition(1, &"x".repeat(4_097)), partition(2, "")]),
                topic("nowhere", vec![partition(0, "")]),
            ])
    };
    let mut codes = |request: &OffsetCommitRequest| -> Vec<i16> {
        let response = raw.call(8, request);
        response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
    };
    assert_eq!(codes(&commit("simple", -1, "")), [0, 12, 3, 3], "without membership, partition by partition");
    assert_eq!(codes(&commit("absent", 1, "someone")), [22, 22, 3, 3], "a generation of a group that never was");
}
