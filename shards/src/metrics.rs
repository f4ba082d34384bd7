//! What a shard has counted, for a scrape.

use ringgate_runtime::SliceReport;

use crate::Shard;
pub use crate::hops::Hops;
use crate::store::Store;
use crate::store::iggy::LaneReport;

/// One shard's counters and gauges at one moment.
#[derive(Debug, Clone, Default)]
pub struct ShardReport {
    /// The shard.
    pub shard: u16,
    /// Partitions it owns.
    pub partitions: usize,
    /// Groups it coordinates.
    pub groups: usize,
    /// Their members.
    pub members: usize,
    /// All groups that the store has are here; a store that tells of them later may not be through.
    pub groups_are_listed: bool,
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

impl ShardReport {
    pub(crate) fn of(shard: &Shard) -> ShardReport {
        let counters = shard.store.counters();
        let groups = shard.groups.report();
        let catalogue = shard.controller().into_iter().flat_map(|controller| controller.limits_hit());
        let attempts = match &shard.store {
            Store::Embedded { partitions, .. } => partitions.attempts.limit_hit(),
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
            slices: ringgate_runtime::slices(),
            limits_hit: counters.limits_hit().chain(attempts).chain(groups.limits_hit).chain(catalogue).collect(),
            ..groups
        }
    }
}
