//! What administrators and careful consumers look up: ends of leader epochs, producers, topics in pages.

use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{
    BrokerId, DescribeProducersRequest, DescribeTopicPartitionsRequest, MetadataRequest, OffsetForLeaderEpochRequest,
};

use super::idempotence::init_producer_id;
use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, topic_name};

fn produce(raw: &mut Raw, topic: &str, partition: i32, writer: Writer, values: &[&str]) {
    let records = batch(writer, 1_000, values);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
    assert_eq!(raw.call(9, &request).responses[0].partition_responses[0].error_code, 0);
}

/// The leader epoch that Metadata tells of partition 0.
fn leader_epoch(raw: &mut Raw) -> i32 {
    raw.call(12, &MetadataRequest::default().with_topics(None)).topics[0].partitions[0].leader_epoch
}

/// (code, epoch, end offset) of an epoch of partition 0 of `log`.
fn epoch_end(raw: &mut Raw, version: i16, current: i32, epoch: i32) -> (i16, i32, i64) {
    let partition = OffsetForLeaderPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(current)
        .with_leader_epoch(epoch);
    let topic = OffsetForLeaderTopic::default().with_topic(topic_name("log")).with_partitions(vec![partition]);
    let mut request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
    if version >= 3 {
        request.replica_id = BrokerId(-1);
    }
    let response = raw.call(version, &request);
    let end = &response.topics[0].partitions[0];
    (end.error_code, end.leader_epoch, end.end_offset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_epoch_ends_where_the_next_start_that_wrote_begins() {
    let options = || Options::new(2).embedded("Iggy keeps no leader epochs: all records are of epoch 0");
    let mut gateway = Gateway::start(options());
    create_topic(&gateway, "log", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let first = leader_epoch(&mut raw);
    assert_eq!(epoch_end(&mut raw, 4, first, first), (0, first, 0), "it leads, and has not written");
    produce(&mut raw, "log", 0, Writer::NOBODY, &["a", "b", "c"]);
    gateway.kill9();
    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let second = leader_epoch(&mut raw);
    assert!(second > first, "every start raises the leader epoch: {first}, {second}");
    produce(&mut raw, "log", 0, Writer::NOBODY, &["d", "e"]);
    for version in 2..=4 {
        assert_eq!(epoch_end(&mut raw, version, -1, first), (0, first, 3), "version {version}");
        assert_eq!(epoch_end(&mut raw, version, second, second), (0, second, 5), "version {version}");
        assert_eq!(epoch_end(&mut raw, version, second, second + 5), (0, -1, -1), "an epoch to come");
        assert_eq!(epoch_end(&mut raw, version, first, first), (74, -1, -1), "FENCED_LEADER_EPOCH");
        assert_eq!(epoch_end(&mut raw, version, second + 1, first), (75, -1, -1), "UNKNOWN_LEADER_EPOCH");
    }
}

/// A partition's code, and (id, epoch, last sequence) of its producers.
type Described = (i16, Vec<(i64, i32, i32)>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_are_described_by_their_leaders_and_by_the_bootstrap_port() {
    let options = Options::new(2).advertise(Advertise::Shards).embedded("Iggy tells of no producers");
    let gateway = Gateway::start(options);
    create_topic(&gateway, "log", 4).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let writer = init_producer_id(&mut raw);
    for partition in 0..4 {
        produce(&mut raw, "log", partition, writer, &["a", "b"]);
    }
    produce(&mut raw, "log", 0, Writer { sequence: 2, ..writer }, &["c"]);
    let topic = ProducersOf::default().with_name(topic_name("log")).with_partition_indexes((0..5).collect());
    let request = DescribeProducersRequest::default().with_topics(vec![topic]);
    let described = |raw: &mut Raw| -> Vec<Described> {
        let response = raw.call(0, &request);
        let told = response.topics[0].partitions.iter().map(|partition| {
            let producers = partition.active_producers.iter();
            let producers = producers.map(|p| (p.producer_id.0, p.producer_epoch, p.last_sequence));
            (partition.error_code, producers.collect())
        });
        told.collect()
    };
    let of = |last| (0, vec![(writer.producer_id, i32::from(writer.epoch), last)]);
    assert_eq!(described(&mut raw), [of(2), of(1), of(1), of(1), (3, vec![])]);
    // Each partition is told of by exactly one of the shards' own ports; the other sends the client on.
    let parts: Vec<_> = gateway.nodes().iter().map(|node| described(&mut Raw::connect(node.addr))).collect();
    for partition in 0..4 {
        let codes: Vec<i16> = parts.iter().map(|part| part[partition].0).collect();
        assert!(codes == [0, 6] || codes == [6, 0], "partition {partition}: {codes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_described_in_pages() {
    let gateway = Gateway::start(Options::new(2));
    for (topic, partitions) in [("b", 7), ("a", 3), ("c", 1)] {
        create_topic(&gateway, topic, partitions).await;
    }
    let mut raw = Raw::connect(gateway.bootstrap());
    let nodes: Vec<i32> = gateway.nodes().iter().map(|node| node.id).collect();
    let mut told = Vec::new();
    let mut cursor = None;
    for page in 0.. {
        assert!(page < 4, "eleven partitions fill three pages of four");
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(["c", "b", "a"].map(|name| TopicRequest::default().with_name(topic_name(name))).to_vec())
            .with_response_partition_limit(4)
            .with_cursor(cursor);
        let response = raw.call(0, &request);
        for topic in &response.topics {
            for partition in &topic.partitions {
                assert!(nodes.contains(&partition.leader_id.0), "{:?}", partition.leader_id);
                told.push((topic.name.as_ref().expect("a name").to_string(), partition.partition_index));
            }
        }
        match response.next_cursor {
            Some(next) => {
                let next =
                    Cursor::default().with_topic_name(next.topic_name).with_partition_index(next.partition_index);
                cursor = Some(next);
            }
            None => break,
        }
    }
    let expected: Vec<_> =
        [("a", 3), ("b", 7), ("c", 1)].iter().flat_map(|(name, n)| (0..*n).map(|p| (name.to_string(), p))).collect();
    assert_eq!(told, expected);
}
