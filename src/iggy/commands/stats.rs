//! What partitions hold, asked of their owners.

use std::collections::HashMap;
use std::sync::Arc;

use ringgate_group::route::ShardId;
use ringgate_shards::ShardHandle;
use ringgate_shards::call::{PartitionStats, PartitionStatsCall, TopicPartition};
use ringgate_shards::catalogue::Topic;
use ringgate_shards::turn::Turn;

/// What the partitions of topics hold.
pub struct Stats(HashMap<TopicPartition, PartitionStats>);

/// Bytes and messages of a topic or stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Messages that can be read.
    pub messages: u64,
}

impl Stats {
    /// Asks the owners of these topics' partitions. One that was deleted meanwhile holds nothing.
    pub async fn of(shard: &ShardHandle, topics: impl IntoIterator<Item = &Arc<Topic>>) -> Stats {
        let mut by_owner: HashMap<ShardId, Vec<TopicPartition>> = HashMap::new();
        let mut turn = Turn::default();
        for topic in topics {
            for partition in 0..topic.partitions {
                let at = TopicPartition { topic: topic.id, partition };
                by_owner.entry(topic.owner(shard.route(), partition)).or_default().push(at);
                turn.partition().await;
            }
        }
        let asked: Vec<_> = by_owner
            .into_iter()
            .map(|(owner, partitions)| (partitions.clone(), shard.submit_to(owner, PartitionStatsCall { partitions })))
            .collect();
        let mut stats = HashMap::new();
        for (partitions, call) in asked {
            for (at, answer) in partitions.into_iter().zip(call.await.0) {
                stats.extend(answer.ok().map(|answer| (at, answer)));
                turn.partition().await;
            }
        }
        Stats(stats)
    }

    /// How many partitions it is of.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What one partition holds.
    pub fn partition(&self, topic: &Topic, partition: i32) -> PartitionStats {
        let at = TopicPartition { topic: topic.id, partition };
        let nothing = PartitionStats { log_start_offset: 0, high_watermark: 0, bytes: 0, segments: 1 };
        self.0.get(&at).copied().unwrap_or(nothing)
    }

    /// What a topic holds.
    pub fn topic(&self, topic: &Topic) -> Sum {
        (0..topic.partitions).map(|partition| self.partition(topic, partition)).fold(Sum::default(), |sum, stats| Sum {
            bytes: sum.bytes + stats.bytes,
            messages: sum.messages + stats.high_watermark.saturating_sub(stats.log_start_offset),
        })
    }
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Sum>>(sums: I) -> Sum {
        sums.fold(Sum::default(), |one, other| Sum {
            bytes: one.bytes + other.bytes,
            messages: one.messages + other.messages,
        })
    }
}
