//! What a shard needs of the configuration, already checked.

use std::time::Duration;

use crate::topic_config::TopicDefaults;

/// Settings of every shard of a gateway.
#[derive(Debug, Clone)]
pub struct ShardSettings {
    /// When acks=all, commits, group metadata and admin changes are answered, and how often files are
    /// synced otherwise.
    pub fsync: Fsync,
    /// How long a batch of commits gathers after the one before it was written; zero: not at all.
    pub offset_linger: Duration,
    /// Record bytes kept in memory for consumers at the tail.
    pub tail_cache_bytes: usize,
    /// What topics have where they say nothing.
    pub topic_defaults: TopicDefaults,
    /// How often every partition is looked at for segments that are too old or too many.
    pub retention_check_interval: Duration,
    /// How often every group is looked at for committed offsets whose time is over (Kafka's
    /// `offsets.retention.check.interval.ms`).
    pub offsets_retention_check_interval: Duration,
    /// Bound on what the batches of one request decompress to.
    pub max_decompressed_bytes: usize,
    /// Partitions of the whole gateway.
    pub max_partitions: usize,
    /// The coordinator's bounds.
    pub group: ringgate_group::GroupConfig,
}

/// How far a write must have come before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// What promises durability is on disk when it is answered.
    Always,
    /// Answered after the write; synced this often.
    Interval(Duration),
    /// Answered after the write; synced when the kernel sees fit.
    Never,
}
