//! Which shard owns what.
//!
//! `hash` is XXH3-64 with seed 0 over UTF-8 bytes. A group belongs to `hash(group) mod shards`, a
//! partition to `(hash(topic) + partition) mod shards` with wrapping 64-bit addition. The number of
//! shards may differ from one start to the next, so nothing durable may depend on it.

/// The number of one shard, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u16);

/// Maps names to owning shards for a fixed number of shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    shards: u16,
}

/// XXH3-64, seed 0.
pub fn hash(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

impl Route {
    /// A route over `shards` shards; at least one.
    pub fn new(shards: u16) -> Route {
        assert!(shards > 0, "a gateway has at least one shard");
        Route { shards }
    }

    /// How many shards there are.
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// All shards, in order.
    pub fn all(self) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId)
    }

    /// The coordinator of a group.
    pub fn group(self, group: &str) -> ShardId {
        self.of(hash(group.as_bytes()))
    }

    /// The leader of a partition.
    pub fn partition(self, topic: &str, partition: i32) -> ShardId {
        self.of(hash(topic.as_bytes()).wrapping_add(partition as u64))
    }

    fn of(self, hash: u64) -> ShardId {
        ShardId((hash % u64::from(self.shards)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_xxh3_64_with_seed_0() {
        // Made with the reference implementation.
        for (text, expected) in [
            ("", 0x2d06_8005_38d3_94c2),
            ("orders", 0xa88c_cdc9_fa49_74fb),
            ("payments-eu", 0x848a_ecf9_8809_8686),
            ("ä", 0x5430_6467_6a70_b4b4),
            (&"x".repeat(300), 0xa5d1_b460_7dc8_3554),
        ] {
            assert_eq!(hash(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn owners_are_these_in_every_build() {
        let owners = [1, 2, 3, 7, 1000].map(|shards| Route::new(shards).group("orders").0);
        assert_eq!(owners, [0, 1, 0, 1, 739]);
        let owners = [0, 1, 6, i32::MAX].map(|partition| Route::new(7).partition("orders", partition).0);
        assert_eq!(owners, [1, 2, 0, 2]);
        let owners = [0, 1, 2, 3].map(|partition| Route::new(3).partition("payments-eu", partition).0);
        assert_eq!(owners, [1, 2, 0, 1]);
    }

    #[test]
    fn consecutive_partitions_go_to_consecutive_shards() {
        let route = Route::new(7);
        let first = route.partition("orders", 0).0;
        for partition in 0..100 {
            let expected = (u64::from(first) + partition as u64) % 7;
            assert_eq!(u64::from(route.partition("orders", partition).0), expected);
        }
    }

    #[test]
    fn addition_wraps_before_the_modulo() {
        let route = Route::new(1000);
        let at = |p: i32| u64::from(route.partition("t", p).0);
        assert_eq!(at(i32::MAX), hash(b"t").wrapping_add(i32::MAX as u64) % 1000);
    }
}
