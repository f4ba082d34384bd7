//! The consumer groups of a topic, as Iggy has them: a name and a number, by which offsets are kept.
//!
//! A Kafka group is none of these; its offsets on an Iggy server are kept by one.

use std::sync::{Arc, LazyLock};

use imbl::OrdMap;

/// A consumer group of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroup {
    /// From 1; never used again in its topic.
    pub id: u32,
    /// 1 to 255 bytes.
    pub name: Arc<str>,
    /// Milliseconds since the epoch.
    pub created_at_ms: i64,
}

/// The consumer groups of one topic. A copy costs nothing, a change a few nodes of a tree.
#[derive(Debug, Clone)]
pub struct TopicGroups {
    by_id: OrdMap<u32, Arc<ConsumerGroup>>,
    ids: OrdMap<Arc<str>, u32>,
    next: u32,
}

impl Default for TopicGroups {
    fn default() -> TopicGroups {
        TopicGroups { by_id: OrdMap::new(), ids: OrdMap::new(), next: 1 }
    }
}

impl TopicGroups {
    /// Those of a topic that never had any.
    pub fn none() -> &'static TopicGroups {
        static NONE: LazyLock<TopicGroups> = LazyLock::new(TopicGroups::default);
        &NONE
    }

    /// The group with this id.
    pub fn get(&self, id: u32) -> Option<&Arc<ConsumerGroup>> {
        self.by_id.get(&id)
    }

    /// The group of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<ConsumerGroup>> {
        self.get(*self.ids.get(name)?)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ConsumerGroup>> {
        self.by_id.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The id that the next one gets.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// No id below this is given out.
    pub(super) fn never_below(&mut self, next: u32) {
        self.next = self.next.max(next);
    }

    /// Whether it was not there before.
    pub(super) fn insert(&mut self, group: Arc<ConsumerGroup>) -> bool {
        self.never_below(group.id.saturating_add(1));
        self.ids.insert(group.name.clone(), group.id);
        self.by_id.insert(group.id, group).is_none()
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some(group) = self.by_id.remove(&id) else { return false };
        self.ids.remove(&group.name);
        true
    }
}
