//! What a shard has counted, for a scrape.

use std::time::Duration;

use ringgate_group::limits::LimitsHit;
use ringgate_group::{GroupStats, Histogram};
use ringgate_runtime::SliceReport;

use crate::Shard;
use crate::controller;
pub use crate::file_times::{FileTimes, LogKind, LogTimes};
pub use crate::hops::Hops;
use crate::partitions::{Attempts, Counters};
use crate::store::Store;
use crate::store::iggy::LaneReport;

/// One shard's counters and gauges at one moment.
#[derive(Debug, Clone, Default)]
pub struct ShardReport {
    /// The shard.
    pub shard: u16,
    /// Partitions it owns.
    pub partitions: usize,
    /// Groups it coordinates, by Kafka's name of their state.
    pub groups: Vec<(&'static str, usize)>,
    /// Their members.
    pub members: usize,
    /// All groups that the store has are here; a store that tells of them later may not be through.
    pub groups_are_listed: bool,
    /// What its groups have done.
    pub group_stats: GroupStats,
    /// How long commits took, from their arrival at the shard until they are decided: kept, as a rule.
    pub commit_took: Histogram,
    /// How long its files take.
    pub file_times: FileTimes,
    /// CPU time of its thread.
    pub cpu: Duration,
    /// Reads that found their records in memory.
    pub cached_reads: u64,
    /// Reads that had to go to the disk.
    pub disk_reads: u64,
    /// Bytes of batches that are held in memory.
    pub cached_bytes: usize,
    /// Records appended.
    pub records_in: u64,
    /// Bytes of the batches appended.
    pub bytes_in: u64,
    /// Bytes of the batches read.
    pub bytes_out: u64,
    /// Batches that were refused.
    pub batches_refused: u64,
    /// Requests that wait in its mailbox.
    pub mailbox_depth: usize,
    /// What other shards asked of it, and whose mailboxes it found full.
    pub hops: Hops,
    /// Offset and group batches written.
    pub commit_batches: u64,
    /// Records in them.
    pub commit_records: u64,
    /// How long its tasks kept it at a time.
    pub slices: SliceReport,
    /// Its lane to Iggy, if it has one.
    pub lane: Option<Box<LaneReport>>,
    /// Limits of groups and partitions that were hit, by name.
    pub limits_hit: Vec<(&'static str, u64)>,
}

/// The limits that shards count, by name.
pub fn limit_names() -> Vec<&'static str> {
    let of_groups = LimitsHit::default();
    let of_groups = of_groups.iter().map(|(name, _)| name);
    let of_partitions = Counters::default().limits_hit().map(|(name, _)| name);
    let of_attempts = Attempts::default().limit_hit().0;
    of_groups.chain(of_partitions).chain([of_attempts]).chain(controller::limit_names()).collect()
}

impl ShardReport {
    pub(crate) fn of(shard: &Shard) -> ShardReport {
        let counters = shard.store.counters();
        let groups = shard.groups.report();
        let catalogue = shard.controller().into_iter().flat_map(|controller| controller.limits_hit());
        let attempts = match &shard.store {
            Store::Embedded { partitions, .. } => Some(partitions.attempts.limit_hit()),
            Store::Iggy(_) => None,
        };
        ShardReport {
            shard: shard.id().0,
            partitions: shard.store.open_partitions(),
            records_in: counters.records_in.get(),
            bytes_in: counters.bytes_in.get(),
            bytes_out: counters.bytes_out.get(),
            batches_refused: counters.batches_refused.get(),
            lane: shard.store.lane().map(|lane| Box::new(LaneReport { lease: shard.groups.held_for(), ..lane })),
            mailbox_depth: shard.mailroom.depth(shard.id()),
            hops: shard.hops(),
            file_times: shard.file_times.borrow().clone(),
            cpu: ringgate_runtime::thread_cpu_time(),
            cached_reads: counters.cached_reads.get(),
            disk_reads: counters.disk_reads.get(),
            cached_bytes: shard.store.cached_bytes(),
            slices: ringgate_runtime::slices(),
            limits_hit: counters
                .limits_hit()
                .into_iter()
                .chain(attempts)
                .chain(groups.limits_hit)
                .chain(catalogue)
                .collect(),
            ..groups
        }
    }
}
