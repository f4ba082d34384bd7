//! Streams, topics and consumer groups as Iggy's clients make, change and delete them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ringgate_shards::Shard;
use ringgate_shards::call::{CreateTopicsCall, DeleteTopicsCall, IggyChange, IggyChangeCall, IggyChanged};
use ringgate_shards::catalogue::{ConsumerGroup, IggyOption, KAFKA, NewIggyTopic, NewTopic, Stream, Topic};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::store::embedded::files::MemFiles;
use ringgate_shards::topic_config::{ConfigChange, ConfigEdit};

use crate::world::{change, on_gateway};

pub async fn stream(shard: &Rc<Shard>, name: &str) -> Arc<Stream> {
    match change(shard, IggyChange::CreateStream { name: name.into() }).await {
        Ok(IggyChanged::Stream(stream)) => stream,
        other => panic!("{other:?}"),
    }
}

pub fn new_topic(stream: u32, name: &str, partitions: i32) -> IggyChange {
    let (config, options) = (BTreeMap::new(), BTreeMap::new());
    IggyChange::CreateTopic(NewIggyTopic { stream, name: name.into(), partitions, config, options })
}

pub async fn topic(shard: &Rc<Shard>, stream: u32, name: &str, partitions: i32) -> Arc<Topic> {
    match change(shard, new_topic(stream, name, partitions)).await {
        Ok(IggyChanged::Topic(topic)) => topic,
        other => panic!("{other:?}"),
    }
}

pub async fn group(shard: &Rc<Shard>, topic: &Topic, name: &str) -> Arc<ConsumerGroup> {
    match change(shard, IggyChange::CreateGroup { topic: topic.id, name: name.into() }).await {
        Ok(IggyChanged::Group(group)) => group,
        other => panic!("{other:?}"),
    }
}

async fn refused(shard: &Rc<Shard>, asked: IggyChange) -> IggyCode {
    change(shard, asked).await.expect_err("a refusal").code
}

#[test]
fn a_topic_of_another_stream_is_iggys_alone_and_one_of_stream_kafka_is_both_protocols() {
    on_gateway(&MemFiles::new(), 2, async |shard| {
        let lab = stream(&shard, "lab").await;
        let (hidden, both) = (topic(&shard, lab.number, "runs", 3).await, topic(&shard, KAFKA, "orders", 2).await);
        let catalogue = shard.catalogue();
        assert_eq!(catalogue.topics().map(|t| &*t.name).collect::<Vec<_>>(), ["orders"]);
        assert_eq!(catalogue.topic_in(lab.number, "runs"), Some(&hidden));
        assert_eq!((&*hidden.routed_by, &*both.routed_by), ("lab/runs", "orders"));
        assert_eq!(both.config.get("retention.ms").map(String::as_str), Some("-1"), "Iggy keeps for ever");
        let new = NewTopic { name: "kafkas".into(), partitions: 1, config: BTreeMap::new() };
        let call = CreateTopicsCall { topics: vec![new], validate_only: false };
        let made = shard.submit_to(CONTROLLER, call).await.0.remove(0).unwrap();
        let numbers = [hidden.number, both.number, made.number];
        assert_eq!(numbers, [0, 1, 2], "one counter for all streams");
        assert_eq!(made.config.get("retention.ms"), None);
        assert_eq!(refused(&shard, new_topic(KAFKA, "kafkas", 1)).await, IggyCode::TOPIC_NAME_ALREADY_EXISTS);
    });
}

#[test]
fn what_cannot_be_is_refused_with_iggys_code() {
    on_gateway(&MemFiles::new(), 1, async |shard| {
        let lab = stream(&shard, "lab").await;
        let runs = topic(&shard, lab.number, "runs", 1).await;
        let group_named = |name: &str| IggyChange::CreateGroup { topic: runs.id, name: name.into() };
        let made = group(&shard, &runs, "g").await;
        let strange = uuid::Uuid::from_u128(7);
        let wrong = [("segment.bytes".to_string(), ConfigEdit::Set("7".into()))].into();
        for (asked, code) in [
            (IggyChange::CreateStream { name: "lab".into() }, IggyCode::STREAM_NAME_ALREADY_EXISTS),
            (IggyChange::DeleteStream { stream: 99 }, IggyCode::STREAM_ID_NOT_FOUND),
            (IggyChange::DeleteStream { stream: KAFKA }, IggyCode::FEATURE_UNAVAILABLE),
            (new_topic(99, "t", 1), IggyCode::STREAM_ID_NOT_FOUND),
            (new_topic(lab.number, "runs", 1), IggyCode::TOPIC_NAME_ALREADY_EXISTS),
            (new_topic(lab.number, "t", 0), IggyCode::INVALID_PARTITIONS_COUNT),
            (new_topic(lab.number, "t", 101), IggyCode::INVALID_PARTITIONS_COUNT),
            (IggyChange::DeleteTopic { topic: strange }, IggyCode::TOPIC_ID_NOT_FOUND),
            (IggyChange::CreatePartitions { topic: runs.id, count: 0 }, IggyCode::INVALID_PARTITIONS_COUNT),
            (IggyChange::CreatePartitions { topic: runs.id, count: 100 }, IggyCode::INVALID_PARTITIONS_COUNT),
            (
                IggyChange::UpdateTopic { topic: runs.id, config: ConfigChange::Edit(wrong), options: BTreeMap::new() },
                IggyCode::INVALID_OPTION_VALUE,
            ),
            (group_named("g"), IggyCode::CONSUMER_GROUP_NAME_ALREADY_EXISTS),
            (IggyChange::DeleteGroup { topic: runs.id, group: made.id + 1 }, IggyCode::CONSUMER_GROUP_ID_NOT_FOUND),
        ] {
            let what = format!("{asked:?}");
            assert_eq!(refused(&shard, asked).await, code, "{what}");
        }
        assert_eq!(shard.catalogue().partition_count(), 1);
    });
}

#[test]
fn changes_are_there_after_a_restart_with_another_number_of_shards() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let (lab, gone) = (stream(&shard, "lab").await, stream(&shard, "gone").await);
        topic(&shard, gone.number, "with it", 2).await;
        let runs = topic(&shard, lab.number, "runs", 1).await;
        change(&shard, IggyChange::CreatePartitions { topic: runs.id, count: 2 }).await.unwrap();
        let option = IggyOption { kind: 2, value: Bytes::from_static(b"zstd") };
        let edit = [("retention.ms".to_string(), ConfigEdit::Set("60000".into()))].into();
        let update = IggyChange::UpdateTopic {
            topic: runs.id,
            config: ConfigChange::Edit(edit),
            options: [("compression_algorithm".to_string(), option)].into(),
        };
        change(&shard, update).await.unwrap();
        let first = group(&shard, &runs, "first").await;
        group(&shard, &runs, "second").await;
        change(&shard, IggyChange::DeleteGroup { topic: runs.id, group: first.id }).await.unwrap();
        change(&shard, IggyChange::DeleteStream { stream: gone.number }).await.unwrap();
    });
    on_gateway(&files, 3, async |shard| {
        let catalogue = shard.catalogue();
        assert_eq!(catalogue.streams().map(|s| &*s.name).collect::<Vec<_>>(), ["kafka", "lab"]);
        let lab = catalogue.stream_named("lab").unwrap();
        let runs = catalogue.topic_in(lab.number, "runs").unwrap();
        let retention = runs.config.get("retention.ms").map(String::as_str);
        assert_eq!((runs.partitions, retention, runs.options.len()), (3, Some("60000"), 1));
        let again = group(&shard, runs, "first").await;
        let groups: Vec<_> = shard.catalogue().groups(runs.id).iter().map(|g| (g.id, g.name.to_string())).collect();
        assert_eq!((again.id, groups), (3, vec![(2, "second".into()), (3, "first".into())]));
        assert_eq!(catalogue.partition_count(), 3);
        let next = topic(&shard, KAFKA, "orders", 1).await;
        assert_eq!(next.number, 2, "also that of a deleted topic is not used again");
        let deleted = shard.submit_to(CONTROLLER, DeleteTopicsCall { topics: vec![next.id] }).await;
        assert!(deleted.0[0].is_ok());
    });
}

#[test]
fn groups_that_are_asked_for_together_share_writes_and_each_gets_its_own_answer() {
    let files = MemFiles::new();
    let counted = files.clone();
    on_gateway(&files, 2, async move |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        let before = counted.operations();
        let asked: Vec<_> = (0..300)
            .map(|nth| {
                // Every tenth is asked for twice.
                let name = if nth % 10 == 9 { format!("g{}", nth - 1) } else { format!("g{nth}") };
                let call = IggyChangeCall(IggyChange::CreateGroup { topic: orders.id, name: name.into() });
                shard.submit_to(CONTROLLER, call)
            })
            .collect();
        let (mut ids, mut refused) = (Vec::new(), 0);
        for asked in asked {
            match asked.await.0 {
                Ok(IggyChanged::Group(group)) => ids.push(group.id),
                Err(refusal) if refusal.code == IggyCode::CONSUMER_GROUP_NAME_ALREADY_EXISTS => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((ids, refused), ((1..=270).collect(), 30));
        let operations = counted.operations() - before;
        assert!(operations <= 10, "a write and a sync for each 128 of them: {operations}");
    });
    on_gateway(&files, 1, async |shard| {
        let orders = shard.catalogue().topic("orders").unwrap().clone();
        assert_eq!(shard.catalogue().groups(orders.id).len(), 270);
    });
}
