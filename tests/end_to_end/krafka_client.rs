//! krafka on a gateway: how the tests of this binary connect it, and its own produce and consume day.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRebalanceListener, TopicPartition};
use krafka::producer::{Acks, RecordMetadata};
use krafka::{Compression, ConsumerRecord, Kafka, Record};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::{LIVENESS, within};

/// A client of `gateway`.
pub async fn connect(gateway: &Gateway) -> Kafka {
    within("krafka connects", Kafka::builder(gateway.servers()).client_id("krafka").connect()).await.expect("connect")
}

/// A consumer in no group, at the start of each of `topic`'s `partitions`.
pub async fn reader(kafka: &Kafka, topic: &str, partitions: i32) -> Consumer {
    let consumer = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .fetch_max_wait(Duration::from_millis(100))
        .build()
        .await
        .expect("consumer");
    within("assign", consumer.assign(topic, (0..partitions).collect())).await.expect("assign");
    consumer
}

/// The next `count` records.
pub async fn read(consumer: &Consumer, count: usize) -> Vec<ConsumerRecord> {
    let mut records = Vec::new();
    within("krafka reads", async {
        while records.len() < count {
            records.extend(consumer.poll(Duration::from_millis(200)).await.expect("poll"));
        }
    })
    .await;
    assert_eq!(records.len(), count, "no more records than were produced");
    records
}

/// Waits for the acknowledgement of a record, which must name its offset.
pub async fn acknowledged(sending: impl Future<Output = krafka::Result<RecordMetadata>>) {
    let metadata = within("acknowledgement", sending).await.expect("acknowledged");
    assert!(metadata.is_success(), "{metadata:?}");
}

/// What krafka told a listener about rebalances, in order.
#[derive(Clone, Default)]
pub struct Rebalances(Arc<Mutex<Vec<String>>>);

impl Rebalances {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("rebalances").clone()
    }

    fn note(&self, what: &str, partitions: &[TopicPartition]) {
        let set: BTreeSet<i32> = partitions.iter().map(TopicPartition::partition).collect();
        self.0.lock().expect("rebalances").push(format!("{what} {set:?}"));
    }
}

impl ConsumerRebalanceListener for Rebalances {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        self.note("assigned", partitions);
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        self.note("revoked", partitions);
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        self.note("lost", partitions);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acks_and_compression_round_trips_with_krafka() {
    let gateway = Gateway::start(Options::new(2));
    let kafka = connect(&gateway).await;
    for (name, acks) in [("none", Acks::None), ("leader", Acks::Leader), ("all", Acks::All)] {
        for (codec, compression) in [
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ] {
            let topic = format!("krafka-{name}-{codec}");
            create_topic(&gateway, &topic, 2).await;
            let producer = kafka
                .producer()
                .acks(acks)
                .idempotent(false)
                .compression(compression)
                .linger(Duration::from_millis(5))
                .build()
                .await
                .expect("producer");
            let mut acknowledgements = Vec::new();
            for n in 0..20 {
                let record = Record::new(topic.as_str(), format!("value {n} {}", "z".repeat(200)))
                    .key(format!("key {n}"))
                    .partition(n % 2);
                acknowledgements.push(producer.enqueue(record).await.expect("enqueue"));
            }
            for acknowledgement in acknowledgements {
                let metadata = within("acknowledgement", acknowledgement).await.expect("sent");
                assert_eq!(metadata.is_unacknowledged(), acks == Acks::None, "{topic}");
            }
            within("close", producer.close()).await.expect("close");

            let consumer = reader(&kafka, &topic, 2).await;
            let records = read(&consumer, 20).await;
            for partition in 0..2 {
                let mut keys = records.iter().filter(|record| record.partition == partition);
                for (offset, n) in (partition..20).step_by(2).enumerate() {
                    let record = keys.next().expect("a record");
                    assert_eq!(record.offset, offset as i64, "{topic}/{partition}");
                    assert_eq!(record.key_str(), Some(format!("key {n}").as_str()), "{topic}/{partition}");
                    assert!(record.value_str().expect("a value").starts_with(&format!("value {n} ")));
                }
            }
            within("close", consumer.close()).await.expect("close");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_krafka_group_commits_and_resumes_where_it_committed() {
    join_all([Advertise::Shards, Advertise::Gateway].map(commits_and_resumes)).await;
}

async fn commits_and_resumes(advertise: Advertise) {
    let gateway = Gateway::start(Options::new(2).advertise(advertise));
    create_topic(&gateway, "ledger", 2).await;
    let kafka = connect(&gateway).await;
    let producer = kafka.producer().build().await.expect("producer");
    for n in 0..20 {
        let record = Record::new("ledger", format!("{n}")).partition(n % 2);
        acknowledged(producer.send(record)).await;
    }

    let first = group_consumer(&kafka, "ledger-group", Rebalances::default()).await;
    let mut seen = BTreeSet::new();
    within("the first half", async {
        while seen.len() < 10 {
            for record in first.poll(Duration::from_millis(200)).await.expect("poll") {
                seen.insert(record.value_str().expect("text").to_owned());
            }
        }
    })
    .await;
    within("commit", first.commit()).await.expect("commit");
    within("close", first.close()).await.expect("close");

    let second = group_consumer(&kafka, "ledger-group", Rebalances::default()).await;
    within("the rest", async {
        while seen.len() < 20 {
            for record in second.poll(Duration::from_millis(200)).await.expect("poll") {
                let new = seen.insert(record.value_str().expect("text").to_owned());
                assert!(new, "a committed record came again");
            }
        }
    })
    .await;
    within("close", second.close()).await.expect("close");
}

/// A member of `group` on topic `ledger`: two or three records a poll, commits by hand.
pub async fn group_consumer(kafka: &Kafka, group: &str, rebalances: Rebalances) -> Consumer {
    let consumer = kafka
        .consumer(group)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .max_poll_records(3)
        .session_timeout(Duration::from_secs(6))
        .heartbeat_interval(Duration::from_millis(200))
        .max_poll_interval(LIVENESS)
        .fetch_max_wait(Duration::from_millis(100))
        .rebalance_listener(rebalances)
        .build()
        .await
        .expect("consumer");
    within("subscribe", consumer.subscribe(["ledger"])).await.expect("subscribe");
    consumer
}
