//! Topics, their ids and settings, as numbered immutable snapshots.
//!
//! Shard 0 owns the catalogue. A change is durable before any shard serves it, every shard has it
//! before it is answered, and no client sees a topic before all its partitions are open.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ringgate_group::route::{Route, ShardId};
use uuid::Uuid;

use crate::call::TopicPartition;

/// One version of what topics there are.
#[derive(Debug, Default, Clone)]
pub struct Catalogue {
    /// Grows by one with each change.
    pub version: u64,
    by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<Uuid, Arc<Topic>>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Never used again, not even by a topic of the same name.
    pub id: Uuid,
    /// 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..` (Kafka's rule).
    pub name: Arc<str>,
    /// How many partitions, at least 1.
    pub partitions: i32,
    /// Settings that were given for this topic, by Kafka's name.
    pub config: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    pub created_at_ms: i64,
}

/// A topic to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// As [`Topic::name`].
    pub name: Arc<str>,
    /// As [`Topic::partitions`].
    pub partitions: i32,
    /// Settings by Kafka's name, as the client wrote them.
    pub config: BTreeMap<String, String>,
}

impl Topic {
    /// The owner of a partition.
    pub fn owner(&self, route: Route, partition: i32) -> ShardId {
        route.partition(&self.name, partition)
    }

    /// The partition's name, if the topic has it.
    pub fn partition(&self, partition: i32) -> Option<TopicPartition> {
        (0..self.partitions).contains(&partition).then_some(TopicPartition { topic: self.id, partition })
    }

    /// The partitions that a shard owns.
    pub fn owned_by(&self, route: Route, shard: ShardId) -> impl Iterator<Item = i32> + '_ {
        (0..self.partitions).filter(move |&p| self.owner(route, p) == shard)
    }
}

impl Catalogue {
    /// A catalogue of these topics.
    pub fn new(version: u64, topics: impl IntoIterator<Item = Arc<Topic>>) -> Catalogue {
        let mut catalogue = Catalogue { version, ..Catalogue::default() };
        for topic in topics {
            catalogue.by_id.insert(topic.id, topic.clone());
            catalogue.by_name.insert(topic.name.clone(), topic);
        }
        catalogue
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    /// The topic with this id.
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// All topics by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// How many partitions there are in all.
    pub fn partition_count(&self) -> usize {
        self.by_name.values().map(|t| t.partitions as usize).sum()
    }

    /// The next version, with these topics more, or as they are now.
    pub fn with(&self, topics: &[Arc<Topic>]) -> Catalogue {
        Catalogue::new(self.version + 1, self.topics().chain(topics).cloned())
    }

    /// The next version, without these topics.
    pub fn without(&self, ids: &[Uuid]) -> Catalogue {
        Catalogue::new(self.version + 1, self.topics().filter(|t| !ids.contains(&t.id)).cloned())
    }
}

/// As consumer groups (KIP-848) see it.
impl ringgate_group::Topics for Catalogue {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.topic(name).map(|topic| (topic.id.as_u128(), topic.partitions))
    }

    fn name_of(&self, id: u128) -> Option<&str> {
        self.topic_by_id(Uuid::from_u128(id)).map(|topic| &*topic.name)
    }

    fn for_each_name(&self, see: &mut dyn FnMut(&str)) {
        self.by_name.keys().for_each(|name| see(name));
    }
}
