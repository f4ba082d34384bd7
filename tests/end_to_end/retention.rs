//! Records that go: by age, by size, and because a client said so.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{BrokerId, DeleteRecordsRequest, FetchRequest, ProduceRequest};
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{admin, create_topic, read_from, reader};
use crate::common::raw::{Raw, Writer, batch, topic_name};
use crate::common::{LIVENESS, eventually, within};

fn looking_often(shards: usize) -> Options {
    Options::new(shards).set_of_the_store("retention-check-interval", "50ms")
}

async fn create_with(gateway: &Gateway, name: &str, settings: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
    for (name, value) in settings {
        topic = topic.set(name, value);
    }
    let admin = admin(gateway);
    let created = within("create", admin.create_topics([&topic], &AdminOptions::new())).await.expect("CreateTopics");
    created[0].as_ref().expect("created");
}

fn produce(raw: &mut Raw, topic: &str, partition: i32, timestamp: i64, values: &[&str]) {
    let records = batch(Writer::NOBODY, timestamp, values);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
    assert_eq!(raw.call(9, &request).responses[0].partition_responses[0].error_code, 0);
}

/// Error code and log start offset that a Fetch is answered with.
fn fetch(raw: &mut Raw, topic: &str, offset: i64) -> (i16, i64) {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_last_fetched_epoch(-1)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let response = raw.call(12, &request);
    let partition = &response.responses[0].partitions[0];
    (partition.error_code, partition.log_start_offset)
}

/// Error code and low watermark of each partition.
fn delete_records(raw: &mut Raw, version: i16, topic: &str, from: &[(i32, i64)]) -> Vec<(i16, i64)> {
    let partitions = from.iter().map(|&(partition, offset)| {
        DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset)
    });
    let topic = DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(partitions.collect());
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let response = raw.call(version, &request);
    response.topics[0].partitions.iter().map(|p| (p.error_code, p.low_watermark)).collect()
}

/// Log start offset and high watermark. Blocks.
fn ends(gateway: &Gateway, topic: &str, partition: i32) -> (i64, i64) {
    let reader = reader(gateway, &[]);
    reader.fetch_watermarks(topic, partition, LIVENESS).expect("watermarks")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_older_than_the_topic_keeps_them_go_and_stay_gone_over_a_kill() {
    let mut gateway = Gateway::start(looking_often(2));
    create_with(&gateway, "short", &[("retention.ms", "60000")]).await;
    create_with(&gateway, "for-ever", &[("retention.ms", "-1")]).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for topic in ["short", "for-ever"] {
        // Of 1970, but written now: it is the record's own time that counts.
        produce(&mut raw, topic, 0, 1_000, &["a", "b", "c"]);
    }
    eventually("old records are gone", || fetch(&mut raw, "short", 0).0 == 1).await;
    assert_eq!(fetch(&mut raw, "short", 3), (0, 3), "the end is within range");
    assert_eq!(tokio::task::block_in_place(|| ends(&gateway, "short", 0)), (3, 3));

    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    produce(&mut raw, "short", 0, now, &["d"]);
    gateway.kill9();
    gateway.restart(looking_often(3));
    tokio::task::block_in_place(|| {
        assert_eq!(ends(&gateway, "short", 0), (3, 4));
        assert_eq!(read_from(&gateway, "short", &[(0, Offset::Beginning)], 1)[0].text(), "d");
        assert_eq!(ends(&gateway, "for-ever", 0), (0, 3));
    });
}

/// The segments of all partitions.
fn segments(data: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![data.join("topics")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "log") {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_without_a_time_go_when_their_append_is_too_long_ago() {
    let options = || looking_often(2).embedded("the files of its data directory become old");
    let mut gateway = Gateway::start(options());
    create_with(&gateway, "short", &[("retention.ms", "1000")]).await;
    create_with(&gateway, "long", &[("retention.ms", "3600000")]).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    // Each record's time is one more than the one's before it: a batch each.
    for topic in ["short", "long"] {
        produce(&mut raw, topic, 0, -1, &["a"]);
        produce(&mut raw, topic, 0, -1, &["b"]);
    }
    eventually("records without a time are gone", || fetch(&mut raw, "short", 2) == (0, 2)).await;
    assert_eq!(fetch(&mut raw, "long", 0), (0, 0), "they are not that old");

    // A stop that lasts for two hours, as the files tell it.
    gateway.kill9();
    for segment in segments(&gateway.data()) {
        let file = std::fs::File::options().write(true).open(segment).expect("a segment");
        file.set_modified(SystemTime::now() - Duration::from_secs(7_200)).expect("its time");
    }
    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    eventually("they have become old", || fetch(&mut raw, "long", 2) == (0, 2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_segments_go_when_a_partition_has_more_than_it_may() {
    let gateway = Gateway::start(looking_often(1).set("log-retention", 0));
    create_with(&gateway, "small", &[("segment.bytes", "1048576"), ("retention.bytes", "1048576")]).await;
    create_with(&gateway, "unbounded", &[("segment.bytes", "1048576")]).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let large = "x".repeat(900_000);
    for topic in ["small", "unbounded"] {
        for _ in 0..4 {
            produce(&mut raw, topic, 0, 1_000, &[&large]);
        }
    }
    // A segment each; without the third there would be less than a mebibyte.
    eventually("two segments are gone", || fetch(&mut raw, "small", 1).0 == 1).await;
    assert_eq!(fetch(&mut raw, "unbounded", 0), (0, 0));
    assert_eq!(tokio::task::block_in_place(|| ends(&gateway, "small", 0)), (2, 4));
    let left = tokio::task::block_in_place(|| read_from(&gateway, "small", &[(0, Offset::Beginning)], 2));
    assert_eq!(left.iter().map(|record| record.offset).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_admin_client_deletes_records_and_they_stay_deleted_over_a_kill() {
    // What was deleted is on disk when that is answered, also where nothing else is.
    let options =
        |shards| Options::new(shards).embedded("on Iggy the log start that a client chose lasts until a restart");
    let mut gateway = Gateway::start(options(2).set("fsync", "never"));
    create_topic(&gateway, "t", 4).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let values: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for partition in 0..4 {
        produce(&mut raw, "t", partition, 1_000, &values[..5]);
        produce(&mut raw, "t", partition, 2_000, &values[5..]);
    }
    let mut before = TopicPartitionList::new();
    for (partition, offset) in [(0, Offset::Offset(7)), (1, Offset::End), (2, Offset::Offset(11))] {
        before.add_partition_offset("t", partition, offset).expect("offset");
    }
    let admin = admin(&gateway);
    let deleted = within("delete", admin.delete_records(&before, &AdminOptions::new())).await.expect("DeleteRecords");
    let deleted = |partition| deleted.find_partition("t", partition).expect("answered");
    assert_eq!((deleted(0).error(), deleted(0).offset()), (Ok(()), Offset::Offset(7)));
    assert_eq!((deleted(1).error(), deleted(1).offset()), (Ok(()), Offset::Offset(10)));
    assert_eq!(deleted(2).error(), Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OffsetOutOfRange)));

    gateway.kill9();
    gateway.restart(options(3));
    tokio::task::block_in_place(|| {
        let ends = [0, 1, 2, 3].map(|partition| ends(&gateway, "t", partition));
        assert_eq!(ends, [(7, 10), (10, 10), (0, 10), (0, 10)]);
        // The start lies within a batch.
        let left = read_from(&gateway, "t", &[(0, Offset::Beginning)], 3);
        assert_eq!(left.iter().map(|record| record.text()).collect::<Vec<_>>(), ["7", "8", "9"]);
    });
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(fetch(&mut raw, "t", 6).0, 1, "below the log start");
    assert_eq!(fetch(&mut raw, "t", 7), (0, 7));
    produce(&mut raw, "t", 1, 3_000, &["next"]);
    let next = tokio::task::block_in_place(|| read_from(&gateway, "t", &[(1, Offset::Beginning)], 1));
    assert_eq!((next[0].offset, next[0].text()), (10, "next"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_of_delete_records_is_served_on_any_port_with_kafkas_codes() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 4).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for partition in 0..4 {
        produce(&mut raw, "t", partition, 1_000, &["a", "b", "c", "d"]);
    }
    for node in gateway.nodes() {
        let mut raw = Raw::connect(node.addr);
        for version in 0..=2 {
            let asked = [(0, 2), (3, 3), (4, 0), (1, 5), (2, -2), (0, 1)];
            let answered = delete_records(&mut raw, version, "t", &asked);
            // Below the log start nothing is left to delete, and that is no error.
            assert_eq!(answered, [(0, 2), (0, 3), (3, -1), (1, -1), (1, -1), (0, 2)], "version {version}");
            assert_eq!(delete_records(&mut raw, version, "no-such", &[(0, 0)]), [(3, -1)]);
        }
    }
    assert_eq!(delete_records(&mut raw, 2, "t", &[(0, -1), (1, 4)]), [(0, 4), (0, 4)]);
}
