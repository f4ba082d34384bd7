//! A member of a consumer group, by librdkafka: it consumes all the time, and remembers every record,
//! every rebalance and every error that it met.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use rdkafka::ClientContext;
use rdkafka::Statistics;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionList;
use tokio::task::JoinHandle;

use super::gateway::Gateway;
use super::librdkafka::{Seen, config};
use super::{blocking, eventually};

/// Topic and partition.
pub type Partition = (String, i32);

/// What a rebalance did to one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Assigned(BTreeSet<Partition>),
    Revoked(BTreeSet<Partition>),
    Failed(String),
}

#[derive(Default)]
struct Diary {
    assignment: BTreeSet<Partition>,
    changes: Vec<Change>,
    seen: Vec<Seen>,
    errors: Vec<String>,
    /// How often librdkafka took an assignment, by its own statistics.
    rebalances: i64,
}

/// Writes the callbacks of one consumer down.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Diary>>);

impl Recorder {
    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.0.lock().expect("diary")
    }
}

impl ClientContext for Recorder {
    fn stats(&self, statistics: Statistics) {
        if let Some(group) = statistics.cgrp {
            self.diary().rebalances = group.rebalance_cnt;
        }
    }
}

impl ConsumerContext for Recorder {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let mut diary = self.diary();
        let change = match rebalance {
            Rebalance::Assign(list) => {
                let set = partitions(list);
                diary.assignment.extend(set.iter().cloned());
                Change::Assigned(set)
            }
            Rebalance::Revoke(list) => {
                let set = partitions(list);
                diary.assignment.retain(|partition| !set.contains(partition));
                Change::Revoked(set)
            }
            Rebalance::Error(error) => Change::Failed(error.to_string()),
        };
        diary.changes.push(change);
    }
}

fn partitions(list: &TopicPartitionList) -> BTreeSet<Partition> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}

/// One consumer in a group.
pub struct Member {
    consumer: Arc<StreamConsumer<Recorder>>,
    recorder: Recorder,
    polling: JoinHandle<()>,
}

impl Member {
    /// Subscribes to `topics` in `group`. Sessions are as short as they may be; commits are the test's
    /// own; a group without offsets starts at the earliest. `more` changes any of that.
    pub fn join(gateway: &Gateway, group: &str, topics: &[&str], more: &[(&str, &str)]) -> Member {
        Member::join_at(&gateway.servers(), group, topics, more)
    }

    /// As [`Member::join`], by address.
    pub fn join_at(servers: &str, group: &str, topics: &[&str], more: &[(&str, &str)]) -> Member {
        let mut config = config(servers, &[("group.id", group)]);
        if !more.contains(&("group.protocol", "consumer")) {
            // With the consumer protocol the coordinator says both.
            config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "200");
        }
        config
            .set("max.poll.interval.ms", "60000")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "100")
            .set("statistics.interval.ms", "100");
        for (name, value) in more {
            config.set(*name, *value);
        }
        let recorder = Recorder::default();
        let consumer: StreamConsumer<Recorder> = config.create_with_context(recorder.clone()).expect("consumer");
        consumer.subscribe(topics).expect("subscribe");
        let consumer = Arc::new(consumer);
        let polling = tokio::spawn({
            let (consumer, recorder) = (Arc::clone(&consumer), recorder.clone());
            async move {
                loop {
                    match consumer.recv().await {
                        Ok(message) => {
                            let seen = Seen::from(&message);
                            recorder.diary().seen.push(seen);
                        }
                        Err(error) => recorder.diary().errors.push(error.to_string()),
                    }
                }
            }
        });
        Member { consumer, recorder, polling }
    }

    /// Partitions that are assigned now.
    pub fn assignment(&self) -> BTreeSet<Partition> {
        self.recorder.diary().assignment.clone()
    }

    /// Every rebalance callback until now.
    pub fn changes(&self) -> Vec<Change> {
        self.recorder.diary().changes.clone()
    }

    /// How often librdkafka says that it took an assignment.
    pub fn rebalances(&self) -> i64 {
        self.recorder.diary().rebalances
    }

    /// Every record until now, in the order in which it came.
    pub fn seen(&self) -> Vec<Seen> {
        self.recorder.diary().seen.clone()
    }

    /// Every error that the consumer reported until now. A broker that goes and comes back is one.
    pub fn errors(&self) -> Vec<String> {
        self.recorder.diary().errors.clone()
    }

    /// Waits until this member has exactly `count` partitions.
    pub async fn until_assigned(&self, count: usize) {
        eventually(&format!("a member gets {count} partitions"), || self.recorder.diary().assignment.len() == count)
            .await;
    }

    /// Waits until `count` records in all have come.
    pub async fn until_seen(&self, count: usize) {
        eventually(&format!("a member sees {count} records"), || self.recorder.diary().seen.len() >= count).await;
    }

    /// Commits the offset behind each partition's last record that came, and waits for the answer.
    pub async fn commit(&self) -> KafkaResult<()> {
        let consumer = Arc::clone(&self.consumer);
        blocking("commit", move || consumer.commit_consumer_state(CommitMode::Sync)).await
    }

    /// Commits `offsets` and waits for the answer.
    pub async fn commit_offsets(&self, offsets: TopicPartitionList) -> KafkaResult<()> {
        let consumer = Arc::clone(&self.consumer);
        blocking("commit", move || consumer.commit(&offsets, CommitMode::Sync)).await
    }

    /// The group's committed offsets of `list`'s partitions.
    pub async fn committed(&self, list: TopicPartitionList) -> TopicPartitionList {
        let consumer = Arc::clone(&self.consumer);
        blocking("committed", move || consumer.committed_offsets(list, super::LIVENESS))
            .await
            .expect("committed offsets")
    }

    /// Closes the consumer. A dynamic member leaves its group by that, a static one does not.
    pub async fn close(self) {
        self.polling.abort();
        let _ = self.polling.await;
        let consumer = self.consumer;
        blocking("close", move || drop(consumer)).await;
    }
}
