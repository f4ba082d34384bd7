//! A live member of a group.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use krafka::KrafkaError;
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, OffsetAndMetadata, PartitionAssignmentStrategy,
    TopicPartition,
};
use tokio::task::JoinHandle;

use crate::connect;
use crate::day::{Outcome, within};
use crate::records::Reading;

/// What a member is asked for.
#[derive(Clone)]
pub struct Options {
    pub group: String,
    pub topic: String,
    /// The group.instance.id of a static member.
    pub instance: Option<String>,
    pub strategy: PartitionAssignmentStrategy,
    /// How often the member tells the coordinator that it lives, and hears of rebalances.
    pub heartbeat: Duration,
}

/// Polls in a task of its own, from the earliest offsets, and commits only when it is told to.
pub struct Member {
    consumer: Arc<Consumer>,
    topic: String,
    /// Partitions that were taken away.
    pub revoked: Revoked,
    polls: JoinHandle<()>,
}

/// How many members there were: each one reads in its own order.
static MEMBERS: AtomicUsize = AtomicUsize::new(0);

impl Member {
    /// Joins through a handle of its own. Members of one handle share its connection to the coordinator, where the parked
    /// JoinGroup of one would keep the other's Heartbeats behind it from being answered: requests of a connection are
    /// answered in their order.
    pub async fn join(options: &Options, into: &Reading) -> Outcome<Member> {
        let kafka = connect().await?;
        let revoked = Revoked::default();
        let mut builder = kafka
            .consumer(&options.group)
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .enable_auto_commit(false)
            .session_timeout(Duration::from_secs(10))
            .heartbeat_interval(options.heartbeat)
            .partition_assignment_strategy(options.strategy)
            .rebalance_listener(revoked.clone());
        if let Some(instance) = &options.instance {
            builder = builder.group_instance_id(instance);
        }
        let consumer = Arc::new(builder.build().await?);
        within("subscribe", consumer.subscribe([&options.topic])).await?;
        let polls = tokio::spawn(poll(consumer.clone(), into.clone()));
        Ok(Member { consumer, topic: options.topic.clone(), revoked, polls })
    }

    /// The partitions that the member has, in order.
    pub async fn assigned(&self) -> Vec<i32> {
        let mut assigned = self.consumer.assignment().await.remove(&self.topic).unwrap_or_default();
        assigned.sort_unstable();
        assigned
    }

    pub async fn commit(&self, offsets: &BTreeMap<i32, i64>, metadata: &str) -> Outcome {
        let offsets: Vec<(TopicPartition, OffsetAndMetadata)> = offsets
            .iter()
            .map(|(partition, offset)| {
                (TopicPartition::new(&self.topic, *partition), OffsetAndMetadata::with_metadata(*offset, metadata))
            })
            .collect();
        within("commit", self.consumer.commit_offsets(offsets)).await
    }

    /// Leaves the group, unless the member is static.
    pub async fn close(self) -> Outcome {
        self.consumer.wakeup();
        within("the end of polling", self.polls).await?;
        within("close", self.consumer.close()).await
    }
}

/// Polls until the consumer is woken up.
async fn poll(consumer: Arc<Consumer>, into: Reading) {
    let reader = MEMBERS.fetch_add(1, Ordering::Relaxed).to_string();
    loop {
        match consumer.poll(Duration::from_millis(200)).await {
            Ok(records) => records.into_iter().for_each(|record| into.add(&reader, record)),
            Err(KrafkaError::Wakeup) => return,
            Err(error) if error.is_retriable() => eprintln!("the consumer: {error}"),
            Err(error) => {
                into.blame(format!("poll: {error}"));
                return;
            }
        }
    }
}

/// Hears of partitions that are taken away.
#[derive(Clone, Default)]
pub struct Revoked(Arc<Mutex<Vec<i32>>>);

impl Revoked {
    /// What was revoked since the last call, in order.
    pub fn take(&self) -> Vec<i32> {
        let mut revoked = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        revoked.sort_unstable();
        revoked
    }
}

impl ConsumerRebalanceListener for Revoked {
    async fn on_partitions_assigned(&self, _: &[TopicPartition]) {}

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        let mut revoked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        revoked.extend(partitions.iter().map(TopicPartition::partition));
    }
}
