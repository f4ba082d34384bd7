//! What requests between shards took, and when there was no room for them.

use ringgate_group::Histogram;
use ringgate_group::route::ShardId;

use crate::clock::Clock;
use crate::mailbox::Envelope;

/// Requests between shards.
#[derive(Debug, Clone, Default)]
pub struct Hops {
    /// From the moment that another shard asked until this one took the request up.
    pub took: Histogram,
    /// How often this shard found the mailbox of each shard full, and began to keep requests back for it.
    pub full: Vec<u64>,
}

impl Hops {
    pub(crate) fn new(shards: usize) -> Hops {
        Hops { took: Histogram::of_times(), full: vec![0; shards] }
    }

    /// Requests begin to be kept back for this owner.
    pub(crate) fn found_full(&mut self, owner: ShardId) {
        self.full[usize::from(owner.0)] += 1;
    }

    /// These are taken up now.
    pub(crate) fn took_up(&mut self, batch: &[Envelope], clock: Clock) {
        if !batch.is_empty() {
            let now_ns = clock.mono_ns();
            batch.iter().for_each(|envelope| self.took.record(now_ns.saturating_sub(envelope.asked_ns)));
        }
    }
}
