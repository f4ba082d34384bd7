//! Fetch as it is on the wire: waiting, spanning shards, naming topics by id, sessions.

use std::time::Duration;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use kafka_protocol::messages::fetch_response::{FetchResponse, PartitionData};
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{BrokerId, GroupId, TopicName};
use kafka_protocol::records::RecordBatchDecoder;
use uuid::Uuid;

use crate::common::eventually;
use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, frame, string, topic_name};

/// Long enough to see that something waits. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(300);
/// No test waits that long; if one does, it is hung.
const FOR_EVER_MS: i32 = 120_000;

/// A sessionless fetch of topic `orders`, partitions and offsets as given, for at least one byte.
fn fetch_request(from: &[(i32, i64)], max_wait_ms: i32) -> FetchRequest {
    let partitions = from
        .iter()
        .map(|(partition, offset)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(*offset)
                .with_last_fetched_epoch(-1)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(1 << 20)
        })
        .collect();
    let topic = FetchTopic::default().with_topic(topic_name("orders")).with_partitions(partitions);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

fn produce_request(partition: i32, values: &[&str]) -> ProduceRequest {
    let records = batch(Writer::NOBODY, 1_000, values);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name("orders")).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

fn produce(raw: &mut Raw, partition: i32, values: &[&str]) {
    let response = raw.call(9, &produce_request(partition, values));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
}

/// Partition, offset and value of every record of a response, sorted.
fn records(response: &FetchResponse) -> Vec<(i32, i64, String)> {
    let mut all = Vec::new();
    for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
        assert_eq!(partition.error_code, 0, "partition {}", partition.partition_index);
        let mut bytes = partition.records.clone().unwrap_or_default();
        for record in
            RecordBatchDecoder::decode_all(&mut bytes).expect("batches").into_iter().flat_map(|set| set.records)
        {
            let value = String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
            all.push((partition.partition_index, record.offset, value));
        }
    }
    all.sort();
    all
}

fn only_partition(response: &FetchResponse) -> &PartitionData {
    &response.responses[0].partitions[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_over_all_shards_waits_for_the_first_record_on_any_of_them() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let gateway = Gateway::start(Options::new(3).advertise(advertise));
        create_topic(&gateway, "orders", 3).await;
        let mut reader = Raw::connect(gateway.bootstrap());
        let mut writer = Raw::connect(gateway.bootstrap());
        let mut from = [(0, 0), (1, 0), (2, 0)];
        for partition in 0..3 {
            let fetch = reader.send(12, &fetch_request(&from, FOR_EVER_MS));
            assert!(reader.is_silent(A_MOMENT), "there is nothing to read");
            produce(&mut writer, partition, &["one", "two"]);
            let response = reader.receive::<FetchRequest>(12, fetch);
            assert_eq!(response.error_code, 0);
            assert_eq!(records(&response), [(partition, 0, "one".to_owned()), (partition, 1, "two".to_owned())]);
            from[partition as usize].1 = 2;
        }
        let response = reader.call(12, &fetch_request(&[(0, 0), (1, 1), (2, 0)], FOR_EVER_MS));
        assert_eq!(records(&response).len(), 6, "whole batches are sent, also those that begin earlier");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_produce_sent_right_behind_a_fetch_that_waits_for_its_record_is_carried_out() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 3).await;
    for (nth, node) in gateway.nodes().iter().enumerate() {
        let (mut raw, end) = (Raw::connect(node.addr), nth as i64);
        for partition in 0..3 {
            // In one piece, so that both are read before the Fetch has found that it must wait.
            let fetch = frame(1, 12, &fetch_request(&[(partition, end)], FOR_EVER_MS));
            let produce = frame(2, 9, &produce_request(partition, &["its record"]));
            raw.send_bytes(&[fetch, produce].concat());
            let fetched = raw.receive::<FetchRequest>(12, 1);
            assert_eq!(records(&fetched), [(partition, end, "its record".to_owned())]);
            let produced = raw.receive::<ProduceRequest>(9, 2);
            assert_eq!(produced.responses[0].partition_responses[0].base_offset, end);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_sent_right_behind_a_fetch_that_waits_is_not_held_up_by_it() {
    // Nothing but the Fetch itself may make the gateway look at this connection again.
    let gateway = Gateway::start(Options::new(3).set("frame-timeout", "10min"));
    create_topic(&gateway, "orders", 3).await;
    let mut witness = Raw::connect(gateway.bootstrap());
    let mut waiting = Vec::new();
    for (n, node) in gateway.nodes().iter().enumerate() {
        for partition in 0..3 {
            let group = format!("group-{n}-{partition}");
            let mut raw = Raw::connect(node.addr);
            // In one piece, so that both are read before the Fetch has found that it must wait.
            let fetch = frame(1, 12, &fetch_request(&[(partition, 0)], FOR_EVER_MS));
            let commit = frame(2, 8, &commit_request(&group, partition, 7));
            raw.send_bytes(&[fetch, commit].concat());
            waiting.push(raw);
            eventually("the commit", || committed(&mut witness, &group, partition) == 7).await;
        }
    }
}

fn commit_request(group: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    let partition =
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name("orders")).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(GroupId(string(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

fn committed(raw: &mut Raw, group: &str, partition: i32) -> i64 {
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name("orders")).with_partition_indexes(vec![partition]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(string(group))).with_topics(Some(vec![topic]));
    let response = raw.call(8, &OffsetFetchRequest::default().with_groups(vec![group]));
    response.groups[0].topics[0].partitions[0].committed_offset
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_cannot_be_served_is_answered_at_once_with_kafkas_code() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "orders", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    produce(&mut raw, 0, &["a", "b"]);
    for (partition, offset, code) in [(0, 3, 1), (0, -7, 1), (5, 0, 3)] {
        let response = raw.call(12, &fetch_request(&[(partition, offset)], FOR_EVER_MS));
        assert_eq!(only_partition(&response).error_code, code, "partition {partition}, offset {offset}");
    }
    let mut newer = fetch_request(&[(0, 0)], FOR_EVER_MS);
    newer.topics[0].partitions[0].current_leader_epoch = 1_000;
    assert_eq!(only_partition(&raw.call(12, &newer)).error_code, 75, "an epoch that is not yet");
    let mut nowhere = fetch_request(&[(0, 0)], FOR_EVER_MS);
    nowhere.topics[0].topic = topic_name("nowhere");
    assert_eq!(only_partition(&raw.call(12, &nowhere)).error_code, 3, "no such topic");

    // A session that nobody opened.
    let strange = fetch_request(&[(0, 0)], FOR_EVER_MS).with_session_id(12_345).with_session_epoch(3);
    assert_eq!(raw.call(12, &strange).error_code, 70);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_by_topic_id_finds_the_topic_and_no_other_made_under_its_name() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "orders", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    produce(&mut raw, 0, &["a"]);
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name("orders")));
    let metadata = raw.call(12, &MetadataRequest::default().with_topics(Some(vec![topic])));
    let id = metadata.topics[0].topic_id;
    assert_ne!(id, Uuid::nil());

    let mut by_id = fetch_request(&[(0, 0)], FOR_EVER_MS);
    by_id.topics[0].topic = TopicName::default();
    by_id.topics[0].topic_id = id;
    let response = raw.call(13, &by_id);
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(records(&response), [(0, 0, "a".to_owned())]);

    by_id.topics[0].topic_id = Uuid::from_u128(id.as_u128() ^ 1);
    assert_eq!(only_partition(&raw.call(13, &by_id)).error_code, 100, "no topic has this id");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_sends_only_what_changed() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 3).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let opened = raw.call(12, &fetch_request(&[(0, 0), (1, 0), (2, 0)], 0).with_session_epoch(0));
    assert_eq!(opened.error_code, 0);
    assert_ne!(opened.session_id, 0, "a session was opened");
    assert_eq!(opened.responses[0].partitions.len(), 3, "the first answer names every partition");

    let mut next = fetch_request(&[], FOR_EVER_MS).with_session_id(opened.session_id).with_session_epoch(1);
    next.topics.clear();
    produce(&mut Raw::connect(gateway.bootstrap()), 1, &["x"]);
    let response = raw.call(12, &next);
    assert_eq!((response.error_code, response.session_id), (0, opened.session_id));
    assert_eq!(records(&response), [(1, 0, "x".to_owned())]);
    assert_eq!(response.responses[0].partitions.len(), 1, "the others have no news");
    assert_eq!(raw.call(12, &next).error_code, 71, "each epoch once");
}
