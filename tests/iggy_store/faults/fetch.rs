//! Faults while records are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::writing::{Writing, assert_once_each_in_order};
use super::{Fault, Rig};
use crate::common::librdkafka::{Seen, reader};
use crate::common::{LIVENESS, blocking, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_consumer_sees_each_record_once_and_in_order_through_every_fault() {
    let mut rig = Rig::start("read", 2).await;
    // Past the links, by the server's own Kafka side: only what reads meets the faults.
    let writing = Writing::to(&rig.server, "read", 2, &[("enable.idempotence", "true")]);
    let consumer = reader(&rig.gateway, &[]);
    let mut partitions = TopicPartitionList::new();
    for partition in 0..2 {
        partitions.add_partition_offset("read", partition, Offset::Beginning).expect("offset");
    }
    consumer.assign(&partitions).expect("assign");
    let (come, wanted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let reading = std::thread::spawn({
        let (come, wanted) = (come.clone(), wanted.clone());
        move || {
            let (mut seen, mut last) = (Vec::new(), Instant::now());
            while seen.len() < wanted.load(Ordering::Relaxed) {
                assert!(last.elapsed() < LIVENESS, "hung: {} records", seen.len());
                // Brokers that go and come back are reported and then reached again.
                if let Some(Ok(message)) = consumer.poll(std::time::Duration::from_millis(50)) {
                    seen.push(Seen::from(&message));
                    come.store(seen.len(), Ordering::Relaxed);
                    last = Instant::now();
                }
            }
            seen
        }
    });
    for fault in Fault::ALL {
        writing.until_it_goes_on(&format!("all before {fault:?}")).await;
        rig.strike(fault).await;
        writing.until_it_goes_on(&format!("{fault:?}")).await;
        let written = writing.delivered();
        eventually(&format!("what was written is read after {fault:?}"), || come.load(Ordering::Relaxed) >= written)
            .await;
    }
    let written = writing.end().await;
    wanted.store(written, Ordering::Relaxed);
    let seen = blocking("the last records", move || reading.join().expect("the reader")).await;
    assert_once_each_in_order(&seen, 2, written);
}
