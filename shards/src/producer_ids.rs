//! Producer ids that no run and no shard gives out twice.
//!
//! An id is `start counter (31 bits) | shard (10 bits) | sequence (22 bits)`. The start counter is
//! durable before a gateway serves and differs for every run, so nothing else need be kept.

use ringgate_group::route::ShardId;

const SHARD_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 22;

/// One shard's supply.
#[derive(Debug)]
pub struct ProducerIds {
    first: i64,
    given: i64,
}

impl ProducerIds {
    /// The supply of a shard in the run with this start counter.
    pub fn new(start_counter: i32, shard: ShardId) -> ProducerIds {
        debug_assert!(start_counter >= 0 && u32::from(shard.0) < 1 << SHARD_BITS);
        let first = (i64::from(start_counter) << SHARD_BITS | i64::from(shard.0)) << SEQUENCE_BITS;
        ProducerIds { first, given: 0 }
    }

    /// The next one; -1 when this run has given out all its 4,194,304 (a restart brings new ones).
    pub fn next_id(&mut self) -> i64 {
        if self.given >> SEQUENCE_BITS != 0 {
            return -1;
        }
        self.given += 1;
        self.first + self.given - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_shards_never_share_an_id() {
        let mut seen = std::collections::HashSet::new();
        for start in [1, 2, i32::MAX] {
            for shard in [0, 1, 999] {
                let mut ids = ProducerIds::new(start, ShardId(shard));
                for _ in 0..100 {
                    let id = ids.next_id();
                    assert!(id >= 0);
                    assert!(seen.insert(id));
                }
            }
        }
    }

    #[test]
    fn an_exhausted_supply_says_so_and_never_runs_into_the_next_shard() {
        let mut ids = ProducerIds::new(1, ShardId(0));
        ids.given = (1 << SEQUENCE_BITS) - 1;
        assert_eq!(ids.next_id() + 1, ProducerIds::new(1, ShardId(1)).first);
        assert_eq!(ids.next_id(), -1);
    }
}
