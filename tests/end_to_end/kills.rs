//! kill -9 at random moments, with another number of shards after each, under a plain writer, an
//! idempotent writer and two groups: nobody loses an acknowledged record, the idempotent writer's records
//! are there once, and no group resumes below its last acknowledged commit or past its last attempt.
//!
//! `RINGGATE_KILLS` says how often (3), `RINGGATE_KILLS_SEED` repeats a run's choices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::producer::FutureProducer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read_all, read_from, unkeyed};
use crate::common::member::Member;
use crate::common::{LIVENESS, eventually, within};

const PARTITIONS: i32 = 3;

/// Xorshift: choices that a seed repeats.
struct Choices(u64);

impl Choices {
    fn new(seed: u64) -> Choices {
        // Never 0, which would stay 0; and the first numbers after a small seed are small, too.
        let mut choices = Choices(seed | 1 << 63);
        for _ in 0..16 {
            choices.below(1);
        }
        choices
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// What one writer had acknowledged: partition, offset, number.
type Acknowledged = Vec<(i32, i64, i32)>;

/// Writes numbers to a topic until told to stop, some at a time.
async fn write(producer: FutureProducer, topic: &str, stop: &AtomicBool, count: &AtomicUsize) -> Acknowledged {
    let mut acknowledged = Vec::new();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let sends = (next..next + 20).map(|n| {
            let (producer, value) = (producer.clone(), n.to_string());
            async move {
                let record = unkeyed(topic, &value).partition(n % PARTITIONS);
                let delivery = within("a delivery over a restart", producer.send(record, LIVENESS)).await;
                let delivery = delivery.expect("the client tries until it is delivered");
                (delivery.partition, delivery.offset, n)
            }
        });
        acknowledged.extend(futures::future::join_all(sends).await);
        count.store(acknowledged.len(), Ordering::Relaxed);
        next += 20;
    }
    acknowledged
}

/// What a group committed, by partition.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeMap<i32, i64>,
    attempted: BTreeMap<i32, i64>,
    commits: usize,
}

/// One life of a group's only member: sees that it starts where the last one's commits ended, and commits
/// as it goes, until told to stop.
async fn consume(servers: String, group: &str, stop: &AtomicBool, ledger: &Mutex<Ledger>) {
    let member = Member::join_at(&servers, group, &["plain"], &[]);
    let mut next: BTreeMap<i32, i64> = BTreeMap::new();
    let mut looked_at = 0;
    while !stop.load(Ordering::Relaxed) {
        let seen = member.seen();
        for record in &seen[looked_at..] {
            let ledger = ledger.lock().expect("ledger");
            match next.insert(record.partition, record.offset + 1) {
                Some(expected) => assert_eq!(record.offset, expected, "{group} skips or repeats"),
                None => {
                    let at = |offsets: &BTreeMap<i32, i64>| offsets.get(&record.partition).copied().unwrap_or(0);
                    let allowed = at(&ledger.acknowledged)..=at(&ledger.attempted);
                    assert!(
                        allowed.contains(&record.offset),
                        "{group} starts at {}, not in {allowed:?}",
                        record.offset
                    );
                }
            }
        }
        if seen.len() == looked_at {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        looked_at = seen.len();
        let mut list = TopicPartitionList::new();
        for (partition, offset) in &next {
            list.add_partition_offset("plain", *partition, Offset::Offset(*offset)).expect("offset");
        }
        ledger.lock().expect("ledger").attempted.extend(next.clone());
        // One that fails was for want of the gateway: it may have been kept all the same.
        if member.commit_offsets(list).await.is_ok() {
            let mut ledger = ledger.lock().expect("ledger");
            ledger.acknowledged.extend(next.clone());
            ledger.commits += 1;
        }
    }
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_doubled_or_skipped_over_kills() {
    let kills = setting("RINGGATE_KILLS").unwrap_or(3);
    let seed = setting("RINGGATE_KILLS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("RINGGATE_KILLS_SEED={seed}");
    let mut choices = Choices::new(seed);

    // One for the whole run: the port that all clients were told last must be there after a restart, or
    // librdkafka waits for five minutes before it asks where it started.
    let advertise = if choices.below(2) == 0 { Advertise::Shards } else { Advertise::Gateway };
    let mut gateway = Gateway::start(Options::new(2).advertise(advertise));
    create_topic(&gateway, "plain", PARTITIONS).await;
    create_topic(&gateway, "once", PARTITIONS).await;
    let stop_writing = AtomicBool::new(false);
    let (plain_count, once_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let plain = producer(&gateway, &[("acks", "all"), ("linger.ms", "1")]);
    let once = producer(&gateway, &[("enable.idempotence", "true"), ("linger.ms", "1")]);
    let ledgers = Arc::new([Mutex::new(Ledger::default()), Mutex::new(Ledger::default())]);

    let killing = async {
        for _ in 0..kills {
            let stop_reading = AtomicBool::new(false);
            let before = plain_count.load(Ordering::Relaxed) + once_count.load(Ordering::Relaxed);
            let commits: Vec<_> = ledgers.iter().map(|ledger| ledger.lock().expect("ledger").commits).collect();
            let enough = before + 200 + choices.below(1_000) as usize;
            let shards = 1 + choices.below(3) as usize;
            let servers = gateway.servers();
            let readers = futures::future::join(
                consume(servers.clone(), "one", &stop_reading, &ledgers[0]),
                consume(servers, "two", &stop_reading, &ledgers[1]),
            );
            let kill = async {
                eventually("records and commits", || {
                    let written = plain_count.load(Ordering::Relaxed) + once_count.load(Ordering::Relaxed);
                    let committed =
                        |(ledger, before): (&Mutex<Ledger>, &usize)| ledger.lock().expect("ledger").commits > *before;
                    written >= enough && ledgers.iter().zip(&commits).all(committed)
                })
                .await;
                tokio::task::block_in_place(|| {
                    gateway.kill9();
                    gateway.restart(Options::new(shards).advertise(advertise));
                });
                stop_reading.store(true, Ordering::Relaxed);
            };
            futures::future::join(readers, kill).await;
        }
        stop_writing.store(true, Ordering::Relaxed);
    };
    let (plain, once, ()) = futures::future::join3(
        write(plain, "plain", &stop_writing, &plain_count),
        write(once, "once", &stop_writing, &once_count),
        killing,
    )
    .await;

    for partition in 0..PARTITIONS {
        let here: Vec<_> = plain.iter().filter(|(p, ..)| *p == partition).collect();
        let last = here.iter().map(|(_, offset, _)| *offset).max().expect("records in each partition");
        let count = usize::try_from(last).expect("an offset") + 1;
        let seen =
            tokio::task::block_in_place(|| read_from(&gateway, "plain", &[(partition, Offset::Beginning)], count));
        for (_, offset, n) in here {
            assert_eq!(seen[*offset as usize].text(), n.to_string(), "plain/{partition}@{offset}");
        }
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "once", PARTITIONS, once.len()));
    for partition in 0..PARTITIONS {
        let kept: Vec<_> = seen
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| (record.offset, record.text().parse().expect("a number")))
            .collect();
        let acknowledged: Vec<_> =
            once.iter().filter(|(p, ..)| *p == partition).map(|(_, offset, n)| (*offset, *n)).collect();
        assert_eq!(kept, acknowledged, "once/{partition}: each once, in order, where it was acknowledged");
    }
}
