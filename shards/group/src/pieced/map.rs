//! A map that keeps each key's hash beside it, and becomes many small maps when it is large.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// Maps that a large one consists of, as a power of two.
const PARTS_BITS: u32 = 6;

/// Entries of one map above which it is taken apart.
const WHOLE_MAX: usize = 1_000;

/// Values by key. It grows without hashing a key again, and from a thousand entries on in 64 parts, one at a time,
/// each a 64th of the whole.
#[derive(Debug)]
pub struct PiecedMap<K, V> {
    hashes: RandomState,
    /// None before the first entry, then one, then all.
    parts: Vec<HashMap<Hashed<K>, V, BuildHasherDefault<Kept>>>,
    len: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Gives back the hash that is kept, which a keyed hasher has made.
#[derive(Debug, Default)]
struct Kept(u64);

impl Hasher for Kept {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "only a kept hash is hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<K: Hash + Eq + Clone, V> PiecedMap<K, V> {
    /// An empty map.
    pub fn new() -> PiecedMap<K, V> {
        PiecedMap { hashes: RandomState::new(), parts: Vec::new(), len: 0 }
    }

    fn hashed(&self, key: &K) -> Hashed<K> {
        Hashed { hash: self.hashes.hash_one(key), key: key.clone() }
    }

    /// The part that a hash belongs to. The maps themselves use the lowest and the highest bits.
    fn part(&self, hash: u64) -> usize {
        if self.parts.len() <= 1 { 0 } else { (hash >> 32) as usize & ((1 << PARTS_BITS) - 1) }
    }

    /// The value of this key.
    pub fn get(&self, key: &K) -> Option<&V> {
        if self.is_empty() {
            return None;
        }
        let key = self.hashed(key);
        self.parts[self.part(key.hash)].get(&key)
    }

    /// Whether there is a value of this key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Takes in a value; the one that was there, if any.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.parts.len() {
            0 => self.parts.push(HashMap::default()),
            1 if self.len >= WHOLE_MAX => self.take_apart(),
            _ => {}
        }
        let key = self.hashed(&key);
        let part = self.part(key.hash);
        let before = self.parts[part].insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    fn take_apart(&mut self) {
        let mut whole = std::mem::take(&mut self.parts);
        self.parts.resize_with(1 << PARTS_BITS, HashMap::default);
        for (key, value) in whole.drain(..).flatten() {
            let part = self.part(key.hash);
            self.parts[part].insert(key, value);
        }
    }

    /// Takes out the value of this key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let key = self.hashed(key);
        let part = self.part(key.hash);
        let removed = self.parts[part].remove(&key);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.parts.iter().flat_map(HashMap::keys).map(|hashed| &hashed.key)
    }
}

impl<K: Hash + Eq + Clone, V> Default for PiecedMap<K, V> {
    fn default() -> PiecedMap<K, V> {
        PiecedMap::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_it_is_given_through_growth() {
        let mut map = PiecedMap::new();
        for n in 0..10_000 {
            assert_eq!(map.insert(n.to_string(), n), None);
        }
        let get = |map: &PiecedMap<String, i32>, n: i32| map.get(&n.to_string()).copied();
        assert_eq!(map.insert("7".into(), 70), Some(7));
        assert_eq!((get(&map, 9_999), get(&map, 10_000), map.len()), (Some(9_999), None, 10_000));
        assert_eq!((map.remove(&"7".into()), map.remove(&"7".into())), (Some(70), None));
        assert!(!map.contains_key(&"7".into()));
        assert_eq!((map.len(), map.keys().count()), (9_999, 9_999));
        assert_eq!(map.keys().filter_map(|key| map.get(key)).sum::<i32>(), 9_999 * 5_000 - 7);
        for n in 0..10_000 {
            map.remove(&n.to_string());
        }
        assert!(map.is_empty());
    }

    #[test]
    fn no_part_of_a_large_map_is_much_larger_than_the_others() {
        let mut map = PiecedMap::new();
        for n in 0..64_000u32 {
            map.insert(n, ());
        }
        assert_eq!(map.parts.len(), 64);
        let largest = map.parts.iter().map(HashMap::len).max();
        assert!(largest.is_some_and(|largest| largest < 1_300), "{largest:?}");
    }

    #[test]
    fn a_small_map_is_one() {
        let mut map = PiecedMap::new();
        for n in 0..WHOLE_MAX {
            map.insert(n, ());
        }
        assert_eq!(map.parts.len(), 1);
    }
}
