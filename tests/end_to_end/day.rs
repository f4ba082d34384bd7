//! A stock client's whole day, in both advertise modes and with one to three shards: create a topic,
//! produce, share it in a group, lose a member, lose the gateway, come back with another number of
//! shards, and miss nothing that was acknowledged or committed.

use std::collections::BTreeSet;
use std::time::Duration;

use krafka::Record;

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read_all, unkeyed};
use crate::common::member::Member;
use crate::common::within;
use crate::groups::numbers;
use crate::krafka_client;
use crate::member_process::MemberProcess;

const PARTITIONS: i32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_with_a_node_per_shard() {
    let days = [(1, 2), (2, 3), (3, 1)].map(|shards| day(Advertise::Shards, shards));
    futures::future::join_all(days).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_behind_one_address() {
    let days = [(1, 3), (2, 1), (3, 2)].map(|shards| day(Advertise::Gateway, shards));
    futures::future::join_all(days).await;
}

async fn day(advertise: Advertise, (morning, evening): (usize, usize)) {
    let mut gateway = Gateway::start(Options::new(morning).advertise(advertise));
    create_topic(&gateway, "ledger", PARTITIONS).await;
    let survivor = Member::join(&gateway, "accountants", &["ledger"], &[]);
    survivor.until_assigned(4).await;
    let victim = MemberProcess::join(&gateway, "accountants", "ledger");
    victim.until_assigned(2).await;
    survivor.until_assigned(2).await;
    produce(&gateway, 0..100).await;
    survivor.until_seen(50).await;
    within("commit", survivor.commit()).await.expect("commit");

    // The victim read its half and committed none of it: the survivor gets that half too, and goes on
    // behind its commit in its own.
    victim.kill9();
    survivor.until_assigned(4).await;
    survivor.until_seen(100).await;
    let seen = numbers(&survivor);
    assert_eq!(seen.len(), 100, "no record came twice");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), (0..100).collect());
    within("commit", survivor.commit()).await.expect("commit");

    gateway.kill9();
    gateway.restart(Options::new(evening).advertise(advertise));
    survivor.close().await;

    produce(&gateway, 100..200).await;
    let next = Member::join(&gateway, "accountants", &["ledger"], &[]);
    next.until_assigned(4).await;
    next.until_seen(100).await;
    let seen = numbers(&next);
    assert_eq!(seen.len(), 100, "the committed half does not come again");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), (100..200).collect());
    next.commit().await.expect("commit");
    next.close().await;

    let records = tokio::task::block_in_place(|| read_all(&gateway, "ledger", PARTITIONS, 200));
    let kept: BTreeSet<i32> = records.iter().map(|record| record.text().parse().expect("a number")).collect();
    assert_eq!(kept, (0..200).collect());
}

/// Half of `numbers` by librdkafka, half by krafka, all acknowledged by all.
async fn produce(gateway: &Gateway, numbers: std::ops::Range<i32>) {
    let librdkafka = producer(gateway, &[("acks", "all"), ("compression.type", "lz4"), ("linger.ms", "5")]);
    let kafka = krafka_client::connect(gateway).await;
    let krafka = kafka.producer().linger(Duration::from_millis(5)).build().await.expect("producer");
    let mut deliveries = Vec::new();
    let mut acknowledgements = Vec::new();
    for n in numbers {
        let (value, partition) = (n.to_string(), n % PARTITIONS);
        if n / PARTITIONS % 2 == 0 {
            let record = unkeyed("ledger", &value).partition(partition);
            deliveries.push(librdkafka.send_result(record).map_err(|(error, _)| error).expect("queued"));
        } else {
            let record = Record::new("ledger", value).partition(partition);
            acknowledgements.push(within("enqueue", krafka.enqueue(record)).await.expect("enqueued"));
        }
    }
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
    for acknowledgement in acknowledgements {
        krafka_client::acknowledged(acknowledgement).await;
    }
    within("close", krafka.close()).await.expect("close");
}
