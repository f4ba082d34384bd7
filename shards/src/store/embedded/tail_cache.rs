//! Which partition of a shard lets go of cached batches when all together have too many: the one that was
//! used least recently.
//!
//! It keeps numbers only; the batches are with their logs. After an append or a read the shard says
//! `used`, then trims what `victim` names until it names nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The budget of one shard. `K` names a partition.
#[derive(Debug)]
pub struct TailCache<K> {
    budget: usize,
    total: usize,
    held: HashMap<K, Held>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    used: u64,
}

impl<K: Copy + Eq + Hash> TailCache<K> {
    /// A budget in bytes.
    pub fn new(budget: usize) -> TailCache<K> {
        TailCache { budget, total: 0, held: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The partition was used now and holds this many bytes.
    pub fn used(&mut self, key: K, bytes: usize) {
        self.forget(key);
        if bytes > 0 {
            self.held.insert(key, Held { bytes, used: self.uses });
            self.by_use.insert(self.uses, key);
            self.uses += 1;
            self.total += bytes;
        }
    }

    /// The partition holds this many bytes now, and that is no use of it.
    pub fn trimmed(&mut self, key: K, bytes: usize) {
        if bytes == 0 {
            return self.forget(key);
        }
        if let Some(held) = self.held.get_mut(&key) {
            self.total = self.total - held.bytes + bytes;
            held.bytes = bytes;
        }
    }

    /// The partition is gone.
    pub fn forget(&mut self, key: K) {
        if let Some(held) = self.held.remove(&key) {
            self.by_use.remove(&held.used);
            self.total -= held.bytes;
        }
    }

    /// Bytes held by all.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Who has to let go of how many bytes (at most what it holds); `None` when all is within the budget.
    pub fn victim(&self) -> Option<(K, usize)> {
        let excess = self.total.checked_sub(self.budget).filter(|excess| *excess > 0)?;
        let key = self.by_use.first_key_value().map(|(_, key)| *key)?;
        Some((key, excess.min(self.held.get(&key)?.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_lets_go_first() {
        let mut cache = TailCache::new(100);
        cache.used('a', 60);
        cache.used('b', 30);
        assert_eq!(cache.victim(), None);
        cache.used('a', 60);
        cache.used('c', 50);
        assert_eq!(cache.victim(), Some(('b', 30)));
        cache.trimmed('b', 0);
        assert_eq!(cache.victim(), Some(('a', 10)));
        cache.trimmed('a', 45);
        assert_eq!((cache.victim(), cache.total()), (None, 95));
        cache.forget('c');
        assert_eq!(cache.total(), 45);
    }
}
