//! Whether clients should be sent here: what is still missing before every shard serves.
//!
//! Shards and the main thread note how far they are; whoever asks reads that without asking a shard.

use std::sync::atomic::{AtomicBool, Ordering};

use ringgate_group::route::ShardId;

/// How far the gateway has come.
#[derive(Debug)]
pub struct Readiness {
    store: AtomicBool,
    shards: Vec<AtomicBool>,
    stopping: AtomicBool,
}

impl Readiness {
    /// Of a gateway of so many shards that has opened nothing yet.
    pub fn new(shards: u16) -> Readiness {
        Readiness {
            store: AtomicBool::new(false),
            shards: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            stopping: AtomicBool::new(false),
        }
    }

    /// The store is open; on Iggy the lease is held, too.
    pub fn store_is_open(&self) {
        self.store.store(true, Ordering::Relaxed);
    }

    /// The shard has its groups and partitions and accepts connections.
    pub fn serves(&self, shard: ShardId) {
        if let Some(serves) = self.shards.get(usize::from(shard.0)) {
            serves.store(true, Ordering::Relaxed);
        }
    }

    /// The gateway stops, and is ready for nothing more.
    pub fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What keeps clients from being served, a sentence each; nothing where they are.
    pub fn missing(&self) -> Vec<String> {
        if self.stopping.load(Ordering::Relaxed) {
            return vec!["the gateway is stopping".into()];
        }
        if !self.store.load(Ordering::Relaxed) {
            return vec!["the store is not open yet".into()];
        }
        let missing = self.shards.iter().enumerate().filter(|(_, serves)| !serves.load(Ordering::Relaxed));
        missing.map(|(shard, _)| format!("shard {shard} is not up yet: it loads groups and opens partitions")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_missing_until_every_shard_serves_and_again_when_it_stops() {
        let readiness = Readiness::new(2);
        assert_eq!(readiness.missing(), ["the store is not open yet"]);
        readiness.store_is_open();
        readiness.serves(ShardId(0));
        let missing = readiness.missing();
        assert!(missing.len() == 1 && missing[0].starts_with("shard 1 "), "{missing:?}");
        readiness.serves(ShardId(1));
        assert!(readiness.missing().is_empty());
        readiness.stops();
        assert_eq!(readiness.missing(), ["the gateway is stopping"]);
    }
}
