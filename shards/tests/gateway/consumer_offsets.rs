//! The offsets that Iggy's consumers keep, asked for from another shard than the owner's.

use std::path::Path;
use std::rc::Rc;

use ringgate_shards::Shard;
use ringgate_shards::call::{
    ConsumerKey, ConsumerKind, ConsumerOffset, ConsumerOffsetCall, DeleteRecordsCall, IggyChange, IggyRefusal,
    OffsetAction, PartitionDeleteRecords, ReportCall, TopicPartition,
};
use ringgate_shards::catalogue::{KAFKA, Topic};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::store::embedded::files::{Files, MemFiles};

use crate::iggy_changes::{group, topic};
use crate::messages::{batch, send};
use crate::world::{DIR, change, on_gateway};

const KINDS: [ConsumerKind; 3] = [ConsumerKind::Consumer, ConsumerKind::Group, ConsumerKind::ExternalGroup];

async fn ask(
    shard: &Rc<Shard>,
    topic: &Topic,
    partition: i32,
    (kind, id): (ConsumerKind, u32),
    action: OffsetAction,
) -> Result<ConsumerOffset, IggyRefusal> {
    let at = TopicPartition { topic: topic.id, partition };
    let call = ConsumerOffsetCall { at, consumer: ConsumerKey { kind, id }, action, attempt: None };
    shard.submit_to(topic.owner(shard.route(), partition), call).await.0
}

async fn stored(shard: &Rc<Shard>, topic: &Topic, partition: i32, key: (ConsumerKind, u32)) -> Option<u64> {
    ask(shard, topic, partition, key, OffsetAction::Get).await.expect("it can be read").stored
}

#[test]
fn an_external_groups_offset_is_kept_as_sent_and_is_there_after_a_restart() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 3).await;
        let group = group(&shard, &orders, "kafka.cg.g").await;
        let key = (ConsumerKind::ExternalGroup, group.id);
        assert_eq!(stored(&shard, &orders, 0, key).await, None);
        send(&shard, &orders, 1, batch(&["a", "b"], None)).await.unwrap();
        for (partition, value) in [(0, 0), (1, 2), (2, u64::MAX)] {
            let answer = ask(&shard, &orders, partition, key, OffsetAction::Store(value)).await.unwrap();
            assert_eq!(answer.stored, Some(value), "empty, one past the last, far past it");
        }
    });
    on_gateway(&files, 3, async |shard| {
        let orders = shard.catalogue().topic("orders").unwrap().clone();
        let group = shard.catalogue().groups(orders.id).named("kafka.cg.g").unwrap().id;
        let key = (ConsumerKind::ExternalGroup, group);
        for (partition, value) in [(0, 0), (1, 2), (2, u64::MAX)] {
            assert_eq!(stored(&shard, &orders, partition, key).await, Some(value));
        }
        let gone = ask(&shard, &orders, 0, key, OffsetAction::Delete).await.unwrap();
        assert_eq!(gone.stored, None);
        let again = ask(&shard, &orders, 0, key, OffsetAction::Delete).await.unwrap_err();
        assert_eq!(again.code, IggyCode::CONSUMER_OFFSET_NOT_FOUND);
    });
}

#[test]
fn keys_of_different_kinds_have_nothing_to_do_with_each_other() {
    on_gateway(&MemFiles::new(), 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        let id = group(&shard, &orders, "g").await.id;
        send(&shard, &orders, 0, batch(&["a", "b", "c", "d"], None)).await.unwrap();
        for (nth, kind) in KINDS.into_iter().enumerate() {
            ask(&shard, &orders, 0, (kind, id), OffsetAction::Store(nth as u64)).await.unwrap();
        }
        ask(&shard, &orders, 0, (ConsumerKind::Group, id), OffsetAction::Delete).await.unwrap();
        let mut seen = Vec::new();
        for kind in KINDS {
            seen.push(stored(&shard, &orders, 0, (kind, id)).await);
        }
        assert_eq!(seen, [Some(0), None, Some(2)]);
    });
}

#[test]
fn what_cannot_be_is_refused_with_iggys_code() {
    on_gateway(&MemFiles::new(), 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        let id = group(&shard, &orders, "g").await.id;
        send(&shard, &orders, 0, batch(&["a"], None)).await.unwrap();
        for (partition, key, action, code) in [
            (0, (ConsumerKind::Consumer, 7), OffsetAction::Store(1), IggyCode::INVALID_OFFSET),
            (0, (ConsumerKind::Group, id), OffsetAction::Store(1), IggyCode::INVALID_OFFSET),
            (0, (ConsumerKind::Group, 9), OffsetAction::Get, IggyCode::CONSUMER_GROUP_ID_NOT_FOUND),
            (0, (ConsumerKind::ExternalGroup, 9), OffsetAction::Store(0), IggyCode::CONSUMER_GROUP_ID_NOT_FOUND),
            (0, (ConsumerKind::ExternalGroup, id), OffsetAction::Delete, IggyCode::CONSUMER_OFFSET_NOT_FOUND),
            (1, (ConsumerKind::Consumer, 7), OffsetAction::Get, IggyCode::PARTITION_NOT_FOUND),
        ] {
            assert_eq!(
                ask(&shard, &orders, partition, key, action).await.unwrap_err().code,
                code,
                "{key:?} {action:?}"
            );
        }
    });
}

#[test]
fn a_partition_keeps_4096_keys_a_kind_and_counts_those_it_refuses() {
    on_gateway(&MemFiles::new(), 1, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        send(&shard, &orders, 0, batch(&["a"], None)).await.unwrap();
        let stores: Vec<_> = (0..4097)
            .map(|id| {
                let consumer = ConsumerKey { kind: ConsumerKind::Consumer, id };
                let at = TopicPartition { topic: orders.id, partition: 0 };
                shard.submit_to(
                    CONTROLLER,
                    ConsumerOffsetCall { at, consumer, action: OffsetAction::Store(0), attempt: None },
                )
            })
            .collect();
        let mut codes = Vec::new();
        for store in stores {
            codes.extend(store.await.0.err().map(|refusal| refusal.code));
        }
        assert_eq!(codes, [IggyCode::TOO_MANY_CONSUMER_OFFSETS]);
        let id = group(&shard, &orders, "g").await.id;
        ask(&shard, &orders, 0, (ConsumerKind::Group, id), OffsetAction::Store(0)).await.unwrap();
        let report = shard.submit_to(CONTROLLER, ReportCall).await.0;
        assert!(report.limits_hit.contains(&("iggy_consumer_offsets_max", 1)), "{:?}", report.limits_hit);
    });
}

#[test]
fn offsets_hold_back_nothing_and_go_with_their_group_in_every_partition() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 4).await;
        let (gone, kept) = (group(&shard, &orders, "gone").await.id, group(&shard, &orders, "kept").await.id);
        for partition in 0..4 {
            send(&shard, &orders, partition, batch(&["a", "b"], None)).await.unwrap();
            for id in [gone, kept] {
                for kind in [ConsumerKind::Group, ConsumerKind::ExternalGroup] {
                    ask(&shard, &orders, partition, (kind, id), OffsetAction::Store(0)).await.unwrap();
                }
            }
        }
        let at = TopicPartition { topic: orders.id, partition: 0 };
        let delete = DeleteRecordsCall { partitions: vec![PartitionDeleteRecords { at, offset: 2 }] };
        let deleted = shard.submit_to(orders.owner(shard.route(), 0), delete).await.0.remove(0);
        assert_eq!(deleted.low_watermark, 2, "though the offsets stand at 0");
        assert_eq!(stored(&shard, &orders, 0, (ConsumerKind::ExternalGroup, kept)).await, Some(0));

        change(&shard, IggyChange::DeleteGroup { topic: orders.id, group: gone }).await.unwrap();
        let again = group(&shard, &orders, "gone").await.id;
        assert_ne!(again, gone);
        assert_eq!(stored(&shard, &orders, 0, (ConsumerKind::ExternalGroup, again)).await, None);
    });
    // What the files say, before anything is opened again.
    let left = crate::world::offsets_on_disk(&files, "external_groups");
    assert_eq!(left, [2, 2, 2, 2].map(|id: u32| vec![id]), "one for each partition");
    on_gateway(&files, 1, async |shard| {
        let orders = shard.catalogue().topic("orders").unwrap().clone();
        for partition in 0..4 {
            for kind in [ConsumerKind::Group, ConsumerKind::ExternalGroup] {
                assert_eq!(stored(&shard, &orders, partition, (kind, 2)).await, Some(0));
            }
        }
    });
}

#[test]
fn a_topic_that_is_deleted_and_made_again_has_no_offsets() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let first = topic(&shard, KAFKA, "orders", 1).await;
        let id = group(&shard, &first, "g").await.id;
        ask(&shard, &first, 0, (ConsumerKind::ExternalGroup, id), OffsetAction::Store(9)).await.unwrap();
        change(&shard, IggyChange::DeleteTopic { topic: first.id }).await.unwrap();
        let second = topic(&shard, KAFKA, "orders", 1).await;
        let id = group(&shard, &second, "g").await.id;
        assert_eq!(stored(&shard, &second, 0, (ConsumerKind::ExternalGroup, id)).await, None);
        assert_ne!(first.incarnation(), second.incarnation());
    });
    let topics = files.list(&Path::new(DIR).join("topics")).unwrap();
    assert_eq!(topics.len(), 1, "the first one's files are gone");
}

#[test]
fn offsets_of_a_deleted_group_are_gone_also_when_the_machine_stops_in_between() {
    let mut interrupted = 0;
    for nth in 1..=16 {
        let files = MemFiles::new();
        on_gateway(&files, 2, async |shard| {
            let orders = topic(&shard, KAFKA, "orders", 2).await;
            let id = group(&shard, &orders, "g").await.id;
            for partition in 0..2 {
                ask(&shard, &orders, partition, (ConsumerKind::ExternalGroup, id), OffsetAction::Store(1))
                    .await
                    .unwrap();
            }
        });
        let stopping = files.clone();
        on_gateway(&files, 2, async move |shard| {
            let orders = shard.catalogue().topic("orders").unwrap().clone();
            stopping.stop_at(stopping.operations() + nth);
            let _ = change(&shard, IggyChange::DeleteGroup { topic: orders.id, group: 1 }).await;
        });
        interrupted += u64::from(files.is_stopped());
        let after = files.crash(nth);
        on_gateway(&after, 1, async |shard| {
            let orders = shard.catalogue().topic("orders").unwrap().clone();
            if shard.catalogue().groups(orders.id).get(1).is_some() {
                for partition in 0..2 {
                    let there = stored(&shard, &orders, partition, (ConsumerKind::ExternalGroup, 1)).await;
                    assert_eq!(there, Some(1), "nothing goes before the group does");
                }
                change(&shard, IggyChange::DeleteGroup { topic: orders.id, group: 1 }).await.unwrap();
            }
            assert_eq!(group(&shard, &orders, "g").await.id, 2, "an id is never used again");
        });
        let left = crate::world::offsets_on_disk(&after, "external_groups");
        assert_eq!(left, [Vec::<u32>::new(), vec![]], "stopped at operation {nth}");
    }
    assert!(interrupted > 3, "some of the machines stopped: {interrupted}");
}
