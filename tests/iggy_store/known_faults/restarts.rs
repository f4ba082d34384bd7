//! What an Iggy server that dies and comes back may do to readers and writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read, read_all, reader, unkeyed};
use crate::common::partition::unknown;
use crate::common::raw::Raw;
use crate::common::{blocking, eventually, within};
use crate::faults::writing::Writing;

/// Writes these numbers, as text, to partition 0.
async fn write(gateway: &Gateway, topic: &str, numbers: std::ops::Range<usize>) {
    let producer = producer(gateway, &[("linger.ms", "1")]);
    let mut deliveries = Vec::new();
    for n in numbers {
        let value = n.to_string();
        let record = unkeyed(topic, &value).partition(0);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
    }
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
}

/// Reads partition 0 from `offset` on.
fn consumer_from(
    gateway: &Gateway,
    topic: &str,
    offset: i64,
    more: &[(&str, &str)],
) -> rdkafka::consumer::BaseConsumer {
    let consumer = reader(gateway, more);
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Offset(offset)).expect("offset");
    consumer.assign(&partitions).expect("assign");
    consumer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k124_a_consumer_across_a_restart_of_the_server_sees_old_and_new_records_once() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "t", 1).await;
    write(&gateway, "t", 0..100).await;
    let consumer = consumer_from(&gateway, "t", 95, &[]);
    tokio::task::block_in_place(|| {
        gateway.server().kill9();
        gateway.server().restart(Options::new(1).iggy());
    });
    write(&gateway, "t", 100..110).await;
    let seen = tokio::task::block_in_place(|| read(&consumer, 15));
    let seen: Vec<_> = seen.iter().map(|record| (record.offset, record.text().to_owned())).collect();
    assert_eq!(seen, (95..110).map(|n| (n, n.to_string())).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn k125_a_sequential_read_across_restarts_of_the_server_jumps_over_nothing() {
    const RECORDS: usize = 10_000;
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "t", 1).await;
    write(&gateway, "t", 0..RECORDS).await;
    // Small steps, so that many of them meet a restart.
    let consumer =
        consumer_from(&gateway, "t", 0, &[("max.partition.fetch.bytes", "2048"), ("fetch.wait.max.ms", "5")]);
    let come = Arc::new(AtomicUsize::new(0));
    let reading = tokio::task::spawn_blocking({
        let come = come.clone();
        move || {
            for n in 0..RECORDS {
                let next = read(&consumer, 1).remove(0);
                assert_eq!((next.offset, next.text()), (n as i64, n.to_string().as_str()));
                come.store(n, Ordering::Relaxed);
            }
        }
    });
    for part in 1..4 {
        eventually("the consumer gets on", || come.load(Ordering::Relaxed) >= part * RECORDS / 5).await;
        tokio::task::block_in_place(|| {
            gateway.server().kill9();
            gateway.server().restart(Options::new(1).iggy());
        });
    }
    within("the whole topic", reading).await.expect("every record in turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn k132_a_server_killed_under_load_keeps_what_it_acknowledged_and_moves_no_end_back() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "t", 1).await;
    let writing = Writing::to(&gateway, "t", 1, &[("enable.idempotence", "true")]);
    let partition = unknown("t").partition(0);
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut end_before = 0;
    for nth in 0..3 {
        writing.until_it_goes_on(&format!("{nth} restarts")).await;
        let acknowledged = writing.delivered() as i64;
        let end = tokio::task::block_in_place(|| partition.lookup(&mut raw, 9, -1));
        assert!(end.0 == 0 && end.1 >= acknowledged.max(end_before), "{end:?}, {acknowledged}, {end_before}");
        end_before = end.1;
        tokio::task::block_in_place(|| {
            gateway.server().kill9();
            gateway.server().restart(Options::new(1).iggy());
            // The first that is answered again; until then clients are told to try again.
            let deadline = std::time::Instant::now() + crate::common::LIVENESS;
            let end = loop {
                match partition.lookup(&mut raw, 9, -1) {
                    (0, end, _) => break end,
                    (code, ..) => assert_eq!(code, 6, "NOT_LEADER_OR_FOLLOWER"),
                }
                assert!(std::time::Instant::now() < deadline, "no end is known again");
            };
            assert!(end >= end_before, "the end went from {end_before} back to {end}");
            end_before = end;
        });
    }
    let written = writing.end().await;
    let beyond = written as i64 + 1;
    let fetched = blocking("fetch", move || partition.fetch(&mut raw, 12, beyond)).await;
    assert_eq!(fetched.error_code, 1, "OFFSET_OUT_OF_RANGE beyond the end");
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "t", 1, written));
    for (n, record) in seen.iter().enumerate() {
        assert_eq!((record.offset, record.text()), (n as i64, n.to_string().as_str()));
    }
}
