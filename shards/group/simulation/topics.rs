//! The topics that clients subscribe to.

use std::collections::BTreeMap;

use ringgate_group::{DeletedTopic, Topics};

/// One version of all topics.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    version: u64,
    /// Of all topics that there ever were.
    ids: u128,
    topics: BTreeMap<String, (u128, i32)>,
}

impl Catalogue {
    /// Makes a topic, or gives it more partitions.
    pub fn set(&mut self, name: &str, partitions: i32) {
        let next_id = self.ids + 1;
        let topic = self.topics.entry(name.to_owned()).or_insert((next_id, 0));
        self.ids = self.ids.max(topic.0);
        topic.1 = topic.1.max(partitions);
        self.version += 1;
    }

    /// A topic and all of it is gone. One of the same name that comes later is another.
    pub fn delete(&mut self, name: &str) -> Option<DeletedTopic> {
        let (topic_id, _) = self.topics.remove(name)?;
        self.version += 1;
        Some(DeletedTopic { name: name.into(), topic_id })
    }

    pub fn id_of(&self, name: &str) -> u128 {
        self.topics.get(name).map_or(0, |topic| topic.0)
    }

    /// Takes over what there is, with the ids of topics that had these names before.
    pub fn take_for_old(&mut self, newer: &Catalogue) {
        self.version = newer.version;
        for (name, (id, partitions)) in &newer.topics {
            self.topics.entry(name.clone()).or_insert((*id, 0)).1 = *partitions;
        }
    }

    pub fn partitions_of(&self, name: &str) -> i32 {
        self.topics.get(name).map_or(0, |topic| topic.1)
    }

    /// All whose names begin so.
    pub fn named(&self, prefix: &str) -> Vec<&str> {
        self.topics.keys().map(String::as_str).filter(|name| name.starts_with(prefix)).collect()
    }
}

impl Topics for Catalogue {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.topics.get(name).copied()
    }

    fn name_of(&self, id: u128) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.0 == id).map(|(name, _)| name.as_str())
    }

    fn for_each_name<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        self.topics.keys().for_each(|name| see(name));
    }
}
