//! A map by text that keeps each key's hash beside it, so that it grows without looking at the texts again:
//! a map of some ten thousand ids would otherwise take milliseconds for that in one go.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use crate::Text;

/// Values by text.
#[derive(Debug)]
pub(super) struct TextMap<V> {
    hashes: RandomState,
    map: HashMap<Hashed, V, BuildHasherDefault<Kept>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Hashed {
    hash: u64,
    text: Text,
}

impl Hash for Hashed {
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

impl<V> TextMap<V> {
    pub fn new() -> TextMap<V> {
        TextMap { hashes: RandomState::new(), map: HashMap::default() }
    }

    fn hashed(&self, text: &Text) -> Hashed {
        Hashed { hash: self.hashes.hash_one(text.as_bytes()), text: text.clone() }
    }

    pub fn get(&self, text: &Text) -> Option<&V> {
        if self.map.is_empty() { None } else { self.map.get(&self.hashed(text)) }
    }

    pub fn contains_key(&self, text: &Text) -> bool {
        self.get(text).is_some()
    }

    pub fn insert(&mut self, text: Text, value: V) -> Option<V> {
        self.map.insert(self.hashed(&text), value)
    }

    pub fn remove(&mut self, text: &Text) -> Option<V> {
        if self.map.is_empty() { None } else { self.map.remove(&self.hashed(text)) }
    }

    #[cfg(any(test, debug_assertions))]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.map.keys().map(|key| &key.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_it_is_given_through_growth() {
        let mut map = TextMap::new();
        for n in 0..1_000 {
            assert_eq!(map.insert(Text::from(n.to_string()), n), None);
        }
        assert_eq!(map.insert("7".into(), 70), Some(7));
        assert_eq!((map.get(&"999".into()), map.get(&"1000".into()), map.len()), (Some(&999), None, 1_000));
        assert_eq!((map.remove(&"7".into()), map.remove(&"7".into())), (Some(70), None));
        assert!(!map.contains_key(&"7".into()));
        assert_eq!(map.keys().filter_map(|key| map.get(key)).sum::<i32>(), 999 * 500 - 7);
    }
}
