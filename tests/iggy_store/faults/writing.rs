//! A producer that goes on and on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::producer::FutureProducer;
use tokio::task::JoinHandle;

use crate::common::eventually;
use crate::common::gateway::Gateway;
use crate::common::librdkafka::{Seen, producer, unkeyed};

/// Records on the way at a time, in several batches.
const ROUND: usize = 20;

/// Writes the numbers from 0 on, as text, to the partitions of a topic in turn. What is not delivered fails the test.
pub struct Writing {
    delivered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Writing {
    /// Begins, with these settings of librdkafka's.
    pub fn to(gateway: &Gateway, topic: &str, partitions: usize, settings: &[(&str, &str)]) -> Writing {
        let mut all = vec![("linger.ms", "1"), ("batch.num.messages", "3")];
        all.extend(settings);
        let producer: FutureProducer = producer(gateway, &all);
        let (delivered, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (task_delivered, task_stop, topic) = (delivered.clone(), stop.clone(), topic.to_owned());
        let task = tokio::spawn(async move {
            // A pace at which reading all of it takes no time to speak of.
            let mut pace = tokio::time::interval(Duration::from_millis(25));
            for round in 0.. {
                pace.tick().await;
                if task_stop.load(Ordering::Relaxed) {
                    return;
                }
                let mut deliveries = Vec::new();
                for n in round * ROUND..(round + 1) * ROUND {
                    let value = n.to_string();
                    let record = unkeyed(&topic, &value).partition((n % partitions) as i32);
                    deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
                }
                for delivery in deliveries {
                    delivery.await.expect("reported").expect("delivered");
                    task_delivered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Writing { delivered, stop, task }
    }

    /// Records that were acknowledged until now.
    pub fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits until three rounds more are acknowledged than now.
    pub async fn until_it_goes_on(&self, after: &str) {
        assert!(!self.task.is_finished(), "the producer ended after {after}");
        let enough = self.delivered() + 3 * ROUND;
        eventually(&format!("records are written again after {after}"), || self.delivered() >= enough).await;
    }

    /// Ends it; how many records were acknowledged, which is all of them.
    pub async fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        crate::common::within("the last deliveries", self.task).await.expect("every record is delivered");
        self.delivered.load(Ordering::Relaxed)
    }
}

/// The numbers in a partition, in the order of their offsets, which must be dense.
pub fn numbers(seen: &[Seen], partition: i32) -> Vec<usize> {
    let records = seen.iter().filter(|record| record.partition == partition);
    let number = |(nth, record): (usize, &Seen)| {
        assert_eq!(record.offset, nth as i64, "partition {partition}");
        record.text().parse().expect("a number")
    };
    records.enumerate().map(number).collect()
}

/// Every number up to `count` is there once, in order.
pub fn assert_once_each_in_order(seen: &[Seen], partitions: usize, count: usize) {
    for partition in 0..partitions {
        let expected: Vec<usize> = (partition..count).step_by(partitions).collect();
        assert_eq!(numbers(seen, partition as i32), expected, "partition {partition}");
    }
}
