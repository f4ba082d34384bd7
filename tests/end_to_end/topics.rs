//! Topics: creating, describing, deleting, and making them by using them.

use std::collections::BTreeSet;
use std::time::Duration;

use krafka::admin::{CreateTopicsOptions, DeleteTopicsOptions, NewTopic};
use rdkafka::admin::AdminOptions;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::FutureRecord;

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{admin, create_topic, producer, read_all, reader, try_create_topic, unkeyed};
use crate::common::{LIVENESS, eventually, within};
use crate::krafka_client;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_topic_is_described_with_its_leaders() {
    for (advertise, nodes) in [(Advertise::Shards, 3), (Advertise::Gateway, 1)] {
        let gateway = Gateway::start(Options::new(3).advertise(advertise));
        create_topic(&gateway, "orders", 6).await;
        let reader = reader(&gateway, &[]);
        let metadata =
            tokio::task::block_in_place(|| reader.fetch_metadata(Some("orders"), LIVENESS)).expect("metadata");

        let brokers: BTreeSet<_> = metadata
            .brokers()
            .iter()
            .map(|broker| (broker.id(), format!("{}:{}", broker.host(), broker.port())))
            .collect();
        let expected: BTreeSet<_> = gateway.nodes().iter().map(|node| (node.id, node.addr.to_string())).collect();
        assert_eq!(brokers, expected, "metadata names the nodes of the ready file");
        assert_eq!(brokers.len(), nodes);

        let topic = &metadata.topics()[0];
        assert_eq!(topic.partitions().len(), 6);
        let leaders: BTreeSet<_> = topic.partitions().iter().map(|partition| partition.leader()).collect();
        assert_eq!(leaders.len(), nodes, "partitions of one topic spread over all nodes");
        for partition in topic.partitions() {
            assert_eq!(partition.replicas(), [partition.leader()]);
            assert_eq!(partition.isr(), [partition.leader()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_cannot_be_is_refused_with_kafkas_code() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "taken", 1).await;
    for (name, partitions, replication, code) in [
        ("taken", 1, 1, RDKafkaErrorCode::TopicAlreadyExists),
        ("no spaces", 1, 1, RDKafkaErrorCode::InvalidTopic),
        ("..", 1, 1, RDKafkaErrorCode::InvalidTopic),
        ("replicated", 1, 3, RDKafkaErrorCode::InvalidReplicationFactor),
    ] {
        let result = try_create_topic(&gateway, name, partitions, replication).await;
        assert_eq!(result, Err(code), "{name}");
    }
    try_create_topic(&gateway, &"n".repeat(249), 1, 1).await.expect("the longest name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_topic_is_gone_and_made_again_it_is_empty() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    create_topic(&gateway, "phoenix", 2).await;
    let producer = producer(&gateway, &[]);
    let record = unkeyed("phoenix", "old").partition(1);
    within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");

    let admin = admin(&gateway);
    let deleted = within("delete", admin.delete_topics(&["phoenix"], &AdminOptions::new())).await;
    assert_eq!(deleted.expect("DeleteTopics"), [Ok("phoenix".to_owned())]);
    let again = within("delete", admin.delete_topics(&["phoenix"], &AdminOptions::new())).await;
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
    assert_eq!(again.expect("DeleteTopics"), [Err(("phoenix".to_owned(), unknown))]);

    create_topic(&gateway, "phoenix", 2).await;
    tokio::task::block_in_place(|| read_all(&gateway, "phoenix", 2, 0));
    let record = unkeyed("phoenix", "new").partition(1);
    within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "phoenix", 2, 1));
    assert_eq!((seen[0].text(), seen[0].offset), ("new", 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_made_by_producing_to_it() {
    let gateway = Gateway::start(Options::new(2).set("num-partitions", 3));
    let producer = producer(&gateway, &[]);
    let record = FutureRecord::to("spontaneous").key("k").payload("v");
    within("send", producer.send(record, LIVENESS)).await.expect("delivered");
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "spontaneous", 3, 1));
    assert_eq!(seen[0].text(), "v");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_auto_creation_an_unknown_topic_stays_unknown() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    // How long the client hopes that a topic which it does not find is about to appear.
    let producer = producer(&gateway, &[("topic.metadata.propagation.max.ms", "500")]);
    let record = FutureRecord::to("nowhere").key("k").payload("v");
    let (error, _) = within("send", producer.send(record, Duration::ZERO)).await.expect_err("refused");
    let KafkaError::MessageProduction(code) = error else { panic!("{error}") };
    let unknown = [RDKafkaErrorCode::UnknownTopic, RDKafkaErrorCode::UnknownTopicOrPartition];
    assert!(unknown.contains(&code), "{code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn krafka_creates_lists_and_deletes_topics() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    let kafka = krafka_client::connect(&gateway).await;
    let admin = kafka.admin();
    let topics = ["one", "two"].map(|name| NewTopic::new(name, 2, 1).expect("a topic"));
    let created = within("create", admin.create_topics(topics, CreateTopicsOptions::default())).await;
    for (name, result) in created.expect("CreateTopics") {
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let reader = reader(&gateway, &[]);
    let names = || -> BTreeSet<String> {
        let metadata = reader.fetch_metadata(None, LIVENESS).expect("metadata");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    };
    assert_eq!(tokio::task::block_in_place(names), BTreeSet::from(["one".to_owned(), "two".to_owned()]));
    let deleted = within("delete", admin.delete_topics(["one"], DeleteTopicsOptions::default())).await;
    for (name, result) in deleted.expect("DeleteTopics") {
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(tokio::task::block_in_place(names), BTreeSet::from(["two".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_and_their_ids_outlive_a_kill() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "kept", 4).await;
    create_topic(&gateway, "dropped", 1).await;
    let admin = admin(&gateway);
    within("delete", admin.delete_topics(&["dropped"], &AdminOptions::new())).await.expect("DeleteTopics")[0]
        .as_ref()
        .expect("deleted");
    gateway.kill9();
    gateway.restart(Options::new(3));
    let reader = reader(&gateway, &[]);
    let mut names = Vec::new();
    eventually("metadata after the restart", || {
        let Ok(metadata) = tokio::task::block_in_place(|| reader.fetch_metadata(None, Duration::from_secs(1))) else {
            return false;
        };
        names = metadata.topics().iter().map(|topic| (topic.name().to_owned(), topic.partitions().len())).collect();
        true
    })
    .await;
    assert_eq!(names, [("kept".to_owned(), 4)]);
}
