//! The codes of OffsetCommit, as they are on the wire.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{BrokerId, GroupId};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, string, topic_name};

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
