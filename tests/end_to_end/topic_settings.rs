//! Settings of topics that change while the topic is used, settings of nodes, and topics that get partitions.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use rdkafka::admin::{
    AdminOptions, AlterConfig, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, ResourceSpecifier,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{admin, create_topic, producer, read_all, unkeyed};
use crate::common::member::Member;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, Writer, batch, topic_name};
use crate::common::settings::{
    APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, codes, create_partitions, describe, edit, replace, set, setting,
};
use crate::common::store::Store;
use crate::common::{LIVENESS, eventually, within};

const KEPT_BY_NO_TOPIC_OF_IGGYS: &str = "Iggy's topics keep no such setting";
const SEGMENT_SIZE_STAYS: &str = "the size of an Iggy topic's segments is chosen when it is made";

fn looking_often(shards: usize) -> Options {
    Options::new(shards).set_of_the_store("retention-check-interval", "50ms")
}

fn hours_ago(hours: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    now - hours * 3_600_000
}

fn found<'a>(resource: &'a ConfigResource, name: &str) -> &'a ConfigEntry {
    resource.get(name).unwrap_or_else(|| panic!("{name} is not told"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_admin_client_sees_and_changes_settings() {
    let gateway = Gateway::start(Options::new(3).set("num-partitions", 5).set("message-max-bytes", 500_000));
    create_topic(&gateway, "t", 3).await;
    let admin = admin(&gateway);
    let options = AdminOptions::new();
    let change = AlterConfig::new(ResourceSpecifier::Topic("t")).set("retention.ms", "90000");
    let changed = within("alter", admin.alter_configs([&change], &options)).await.expect("AlterConfigs");
    assert!(changed[0].is_ok(), "{changed:?}");
    // This binding keeps the code of a refusal to itself.
    let wrong = AlterConfig::new(ResourceSpecifier::Topic("t")).set("cleanup.policy", "compact");
    within("alter", admin.alter_configs([&wrong], &options)).await.expect("AlterConfigs");

    let topic = ResourceSpecifier::Topic("t");
    let described = within("describe", admin.describe_configs([&topic], &options)).await.expect("DescribeConfigs");
    let described = described[0].as_ref().expect("the topic is told");
    let retention = found(described, "retention.ms");
    assert_eq!((retention.value.as_deref(), &retention.source), (Some("90000"), &ConfigSource::DynamicTopic));
    let most = found(described, "max.message.bytes");
    assert_eq!((most.value.as_deref(), &most.source), (Some("500000"), &ConfigSource::StaticBroker));
    let policy = found(described, "cleanup.policy");
    assert_eq!((policy.value.as_deref(), &policy.source), (Some("delete"), &ConfigSource::Default));
    assert!(policy.is_default && !policy.is_read_only && found(described, "min.insync.replicas").is_read_only);

    // librdkafka asks each node for its own settings.
    for node in gateway.nodes() {
        let broker = ResourceSpecifier::Broker(node.id);
        let described = within("describe", admin.describe_configs([&broker], &options)).await;
        let described = described.expect("DescribeConfigs");
        let described = described[0].as_ref().expect("the node is told");
        assert_eq!(found(described, "node.id").value, Some(node.id.to_string()));
        let partitions = found(described, "num.partitions");
        assert_eq!((partitions.value.as_deref(), &partitions.source), (Some("5"), &ConfigSource::StaticBroker));
        assert!(described.entries.iter().all(|entry| entry.is_read_only));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_retention_takes_old_records_and_outlives_a_kill() {
    let mut gateway = Gateway::start(looking_often(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "t", 4, &[("retention.bytes", "10000000")]);
    let written = hours_ago(1);
    for index in 0..4 {
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, written, &["a", "b"]));
    }
    set(&mut raw, "t", "retention.ms", "60000");
    for index in 0..4 {
        let partition = topic.partition(index);
        eventually("old records are gone", || partition.ends(&mut raw) == (2, 2)).await;
    }
    gateway.kill9();
    gateway.restart(looking_often(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(setting(&mut raw, "t", "retention.ms"), ("60000".into(), 1));
    topic.partition(0).append(&mut raw, batch(Writer::NOBODY, written, &["c"]));
    eventually("what is too old goes also now", || topic.partition(0).ends(&mut raw) == (3, 3)).await;
    // The default is 7 days.
    assert_eq!(codes(&edit(&mut raw, 0, false, &[(TOPIC, "t", &[("retention.ms", DELETE, None)])])), [0]);
    topic.partition(1).append(&mut raw, batch(Writer::NOBODY, written, &["c"]));
    gateway.kill9();
    gateway.restart(looking_often(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(setting(&mut raw, "t", "retention.ms"), ("604800000".into(), 5));
    assert_eq!(setting(&mut raw, "t", "retention.bytes"), ("10000000".into(), 1));
    assert_eq!(topic.partition(1).ends(&mut raw), (2, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smaller_segments_begin_with_the_next_batch_that_does_not_fit() {
    let options = |shards| looking_often(shards).embedded(SEGMENT_SIZE_STAYS);
    let mut gateway = Gateway::start(options(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "t", 1, &[]).partition(0);
    let large = "x".repeat(900_000);
    partition.append(&mut raw, batch(Writer::NOBODY, hours_ago(0), &[&large]));
    set(&mut raw, "t", "segment.bytes", "1048576");
    for _ in 0..3 {
        partition.append(&mut raw, batch(Writer::NOBODY, hours_ago(0), &[&large]));
    }
    set(&mut raw, "t", "retention.bytes", "1048576");
    // A segment each; without the third there would be less than a mebibyte.
    eventually("two segments are gone", || partition.fetch(&mut raw, 12, 4).log_start_offset == 2).await;
    gateway.kill9();
    gateway.restart(options(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    eventually("and are again", || partition.fetch(&mut raw, 12, 4).log_start_offset == 2).await;
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "t", 1, 2));
    assert_eq!(seen.iter().map(|record| record.offset).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn the_largest_batch_changes_on_every_shard_before_that_is_answered() {
    let gateway = Gateway::start(Options::new(3).embedded(KEPT_BY_NO_TOPIC_OF_IGGYS));
    let mut raws: Vec<Raw> = (0..3).map(|shard| Raw::connect(gateway.node_of_shard(shard).addr)).collect();
    let topic = create(&mut raws[0], "t", 6, &[]);
    let large = "x".repeat(2_000);
    for round in 0..3 {
        for (most, code) in [("1000", 10), ("100000", 0)] {
            set(&mut raws[round], "t", "max.message.bytes", most);
            for raw in &mut raws {
                assert_eq!(setting(raw, "t", "max.message.bytes").0, most);
                for index in 0..6 {
                    let records = batch(Writer::NOBODY, hours_ago(0), &[&large]);
                    let produced = topic.partition(index).produce(raw, 9, Some(records));
                    assert_eq!(produced.error_code, code, "max.message.bytes = {most}: {:?}", produced.error_message);
                }
            }
        }
    }
}

#[test]
fn whose_clock_stamps_records_changes_with_the_next_batch() {
    let gateway = Gateway::start(Options::new(2).embedded(KEPT_BY_NO_TOPIC_OF_IGGYS));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "t", 1, &[]).partition(0);
    let mut stamps = Vec::new();
    let before = hours_ago(0);
    for kind in ["CreateTime", "LogAppendTime", "CreateTime"] {
        set(&mut raw, "t", "message.timestamp.type", kind);
        let produced = partition.produce(&mut raw, 9, Some(batch(Writer::NOBODY, before - 5_000, &["v"])));
        assert_eq!(produced.error_code, 0);
        stamps.push(produced.log_append_time_ms);
    }
    assert!(stamps[0] == -1 && stamps[1] >= before && stamps[2] == -1, "{stamps:?}");
    let read: Vec<i64> = partition.batches(&mut raw, 0).iter().map(|(header, _)| header.max_timestamp).collect();
    assert_eq!(read, [before - 5_000, stamps[1], before - 5_000]);
}

#[test]
fn every_version_answers_every_resource_for_itself() {
    let gateway = Gateway::start(Options::new(2).advertise(Advertise::Shards).embedded(SEGMENT_SIZE_STAYS));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "t", 1, &[]);
    create(&mut raw, "u", 1, &[]);
    for version in versions(33) {
        let retention = [("retention.ms", Some("1234567"))];
        let wrong = [("retention.ms", Some("soon"))];
        let answers = replace(
            &mut raw,
            version,
            false,
            &[
                (TOPIC, "t", &retention),
                (TOPIC, "u", &wrong),
                (TOPIC, "no-such", &retention),
                (BROKER, "1000", &[("num.partitions", Some("2"))]),
                (BROKER, "4711", &[]),
                (TOPIC, "t2", &[("retention.ms", None)]),
            ],
        );
        assert_eq!(codes(&answers), [0, 40, 3, 40, 42, 42], "version {version}: {answers:?}");
        for part in ["soon", "retention.ms", "allowed: "] {
            assert!(answers[1].1.contains(part), "{:?} names the field, the value and what is allowed", answers[1].1);
        }
        assert_eq!(setting(&mut raw, "t", "retention.ms"), ("1234567".into(), 1));
        // What is not named goes back to its default.
        assert_eq!(codes(&replace(&mut raw, version, false, &[(TOPIC, "t", &[])])), [0]);
        assert_eq!(setting(&mut raw, "t", "retention.ms"), ("604800000".into(), 5));
    }
    for version in versions(44) {
        let answers = edit(
            &mut raw,
            version,
            false,
            &[
                (TOPIC, "t", &[("segment.bytes", SET, Some("2000000")), ("cleanup.policy", APPEND, Some("delete"))]),
                (TOPIC, "u", &[("segment.bytes", SET, Some("2000000")), ("retention.ms", APPEND, Some("1"))]),
                (TOPIC, "v", &[("segment.bytes", SET, None)]),
            ],
        );
        assert_eq!(codes(&answers), [0, 40, 42], "version {version}: {answers:?}");
        assert_eq!(setting(&mut raw, "t", "segment.bytes"), ("2000000".into(), 1));
        // A resource changes as a whole or not at all.
        assert_eq!(setting(&mut raw, "u", "segment.bytes"), ("1073741824".into(), 5));
        let back = [("segment.bytes", DELETE, None), ("cleanup.policy", SUBTRACT, Some("compact"))];
        assert_eq!(codes(&edit(&mut raw, version, false, &[(TOPIC, "t", &back)])), [0]);
        assert_eq!(setting(&mut raw, "t", "segment.bytes"), ("1073741824".into(), 5));
        let twice = [("retention.ms", SET, Some("1")), ("retention.ms", SET, Some("2"))];
        assert_eq!(codes(&edit(&mut raw, version, false, &[(TOPIC, "t", &twice)])), [42]);
        let both = [(TOPIC, "t", &back[..]), (TOPIC, "u", &back), (TOPIC, "t", &back)];
        assert_eq!(codes(&edit(&mut raw, version, false, &both)), [42, 0, 42]);
    }
    for node in gateway.nodes() {
        let mut raw = Raw::connect(node.addr);
        for version in versions(32) {
            let asked = [(TOPIC, "t"), (TOPIC, "no-such"), (BROKER, "1001"), (BROKER, "1002"), (BROKER, ""), (32, "g")];
            let told = describe(&mut raw, version, &asked);
            let codes: Vec<i16> = told.iter().map(|resource| resource.error_code).collect();
            assert_eq!(codes, [0, 3, 0, 42, 0, 42], "version {version}");
            let told_why = |nth: usize| told[nth].error_message.as_ref().is_some_and(|why| !why.is_empty());
            assert!([1, 3, 5].into_iter().all(told_why));
            assert!(told[0].configs.len() > 20 && told[2].configs.len() > 20 && told[4].configs.is_empty());
        }
    }
}

#[test]
fn changes_of_different_settings_at_the_same_moment_all_stay() {
    let gateway = Gateway::start(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "t", 1, &[]);
    // Iggy keeps the first two.
    let kept = if Store::of_this_run() == Store::Embedded { 3 } else { 2 };
    let names = &["retention.ms", "retention.bytes", "max.message.bytes"][..kept];
    std::thread::scope(|scope| {
        for (shard, name) in names.iter().enumerate() {
            let node = gateway.node_of_shard(shard);
            scope.spawn(move || {
                let mut raw = Raw::connect(node.addr);
                (1..=20).for_each(|n| set(&mut raw, "t", name, &(n * 1_000_000).to_string()));
            });
        }
    });
    for name in names {
        assert_eq!(setting(&mut raw, "t", name), ("20000000".into(), 1), "{name}");
    }
}

/// How many partitions the node says that the topic has, all with a leader.
fn partition_count(raw: &mut Raw, topic: &str) -> usize {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    let response = raw.call(9, &MetadataRequest::default().with_topics(Some(vec![topic])));
    let partitions = &response.topics[0].partitions;
    assert!(partitions.iter().all(|partition| partition.error_code == 0 && partition.leader_id.0 >= 1000));
    partitions.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_partitions_are_served_everywhere_once_that_is_answered_and_outlive_a_kill() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let mut gateway = Gateway::start(Options::new(3).advertise(advertise));
        let mut raw = Raw::connect(gateway.bootstrap());
        let topic = create(&mut raw, "t", 1, &[]);
        topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1_000, &["before"]));
        let admin = admin(&gateway);
        let options = AdminOptions::new();
        for count in [4, 9] {
            let more = NewPartitions::new("t", count);
            let made = within("create partitions", admin.create_partitions([&more], &options)).await;
            assert_eq!(made.expect("CreatePartitions"), [Ok("t".to_owned())]);
            for node in gateway.nodes() {
                let mut raw = Raw::connect(node.addr);
                assert_eq!(partition_count(&mut raw, "t"), count);
                for index in 1..count as i32 {
                    let records = batch(Writer::NOBODY, hours_ago(0), &["after"]);
                    assert_eq!(topic.partition(index).produce(&mut raw, 9, Some(records)).error_code, 0);
                }
            }
        }
        let nodes = gateway.nodes().len();
        for wrong in [9, 5] {
            let less = NewPartitions::new("t", wrong);
            let made = within("create partitions", admin.create_partitions([&less], &options)).await;
            let refused = ("t".to_owned(), RDKafkaErrorCode::InvalidPartitions);
            assert_eq!(made.expect("CreatePartitions"), [Err(refused)]);
        }
        let unknown = NewPartitions::new("no-such", 3);
        let made = within("create partitions", admin.create_partitions([&unknown], &options)).await;
        assert!(matches!(made.expect("CreatePartitions")[0], Err((_, RDKafkaErrorCode::UnknownTopicOrPartition))));
        gateway.kill9();
        gateway.restart(Options::new(2).advertise(advertise));
        let mut raw = Raw::connect(gateway.bootstrap());
        assert_eq!(partition_count(&mut raw, "t"), 9);
        let expected = 1 + nodes * (3 + 8);
        tokio::task::block_in_place(|| read_all(&gateway, "t", 9, expected));

        set(&mut raw, "t", "retention.ms", "90000");
        gateway.kill_and_verify();
    }
}

#[test]
fn partitions_are_bounded_for_a_topic_and_for_the_gateway() {
    let gateway = Gateway::start(Options::new(2).set("max-partitions", 10).set("max-partitions-per-topic", 8));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "a", 1, &[]);
    create(&mut raw, "b", 1, &[]);
    for version in versions(37) {
        let answers = create_partitions(&mut raw, version, true, &[("a", 9), ("b", 2), ("a/b", 3)]);
        assert_eq!(codes(&answers), [37, 0, 3]);
        assert!(answers[0].1.contains("max_partitions_per_topic = 8"), "{}", answers[0].1);
    }
    // 2 + 4 + 5 are too many; the first is served, since each is on its own.
    let answers = create_partitions(&mut raw, 3, false, &[("a", 5), ("b", 6)]);
    assert_eq!(codes(&answers), [0, 37]);
    assert!(answers[1].1.contains("max_partitions"), "{}", answers[1].1);
    assert_eq!((partition_count(&mut raw, "a"), partition_count(&mut raw, "b")), (5, 1));
    assert_eq!(codes(&create_partitions(&mut raw, 3, false, &[("b", 5)])), [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_group_takes_added_partitions_and_reads_them_from_the_start() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 2).await;
    let often = [("topic.metadata.refresh.interval.ms", "200")];
    let members = [Member::join(&gateway, "g", &["t"], &often), Member::join(&gateway, "g", &["t"], &often)];
    members[0].until_assigned(1).await;
    members[1].until_assigned(1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(codes(&create_partitions(&mut raw, 3, false, &[("t", 6)])), [0]);
    let producer = producer(&gateway, &[]);
    for (index, value) in [(2, "two"), (5, "five")] {
        let record = unkeyed("t", value).partition(index);
        within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
    }
    let mut all = BTreeSet::new();
    for member in &members {
        member.until_assigned(3).await;
        all.extend(member.assignment().into_iter().map(|(_, index)| index));
    }
    assert_eq!(all, (0..6).collect());
    eventually("the group reads both", || {
        let seen: BTreeSet<String> = members.iter().flat_map(Member::seen).map(|seen| seen.text().to_owned()).collect();
        seen == BTreeSet::from(["two".to_owned(), "five".to_owned()])
    })
    .await;
}

#[test]
fn a_change_that_cannot_be_written_is_refused_and_has_not_happened() {
    let options = || Options::new(2).embedded("the file that has no room is the gateway's own");
    let mut gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "t", 2, &[("retention.ms", "5000000")]);
    gateway.limit_files(Some(1));
    let retention = [("retention.ms", SET, Some("6000000"))];
    let refused = |raw: &mut Raw| {
        assert_eq!(codes(&edit(raw, 1, false, &[(TOPIC, "t", &retention), (TOPIC, "no", &retention)])), [56, 3]);
        assert_eq!(codes(&create_partitions(raw, 3, false, &[("t", 4), ("t2", 4)])), [56, 3]);
        assert_eq!((setting(raw, "t", "retention.ms").0.as_str(), partition_count(raw, "t")), ("5000000", 2));
    };
    refused(&mut raw);
    gateway.limit_files(None);
    // What a write that failed has left of a file nobody knows: the log stays closed until a restart.
    refused(&mut raw);
    gateway.kill9();
    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!((setting(&mut raw, "t", "retention.ms").0.as_str(), partition_count(&mut raw, "t")), ("5000000", 2));
    assert_eq!(codes(&edit(&mut raw, 1, false, &[(TOPIC, "t", &retention)])), [0]);
    assert_eq!(codes(&create_partitions(&mut raw, 3, false, &[("t", 4)])), [0]);
    assert_eq!((setting(&mut raw, "t", "retention.ms").0.as_str(), partition_count(&mut raw, "t")), ("6000000", 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_producer_is_told_of_a_batch_over_the_new_bound() {
    let gateway = Gateway::start(Options::new(2).embedded(KEPT_BY_NO_TOPIC_OF_IGGYS));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    set(&mut raw, "t", "max.message.bytes", "1000");
    let producer = producer(&gateway, &[]);
    let large = "x".repeat(2_000);
    let (error, _) = within("send", producer.send(unkeyed("t", &large), LIVENESS)).await.expect_err("refused");
    let KafkaError::MessageProduction(code) = error else { panic!("{error}") };
    assert_eq!(code, RDKafkaErrorCode::MessageSizeTooLarge);
    within("send", producer.send(unkeyed("t", "small"), LIVENESS)).await.expect("delivered");
}
