//! A topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ringgate_group::route::{Route, ShardId};
use uuid::Uuid;

use super::KAFKA;
use crate::call::TopicPartition;

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Never used again, not even by a topic of the same name.
    pub id: Uuid,
    /// Never used again in this gateway: Iggy's id of it.
    pub number: u32,
    /// The number of its stream; [`KAFKA`] for what Kafka calls a topic.
    pub stream: u32,
    /// In stream [`KAFKA`] 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..` (Kafka's rule); elsewhere 1 to 255 bytes.
    pub name: Arc<str>,
    /// What its partitions are distributed by: its name, and outside of stream [`KAFKA`] `stream/name`, which is no
    /// name of Kafka's.
    pub routed_by: Arc<str>,
    /// How many partitions, at least 1.
    pub partitions: i32,
    /// Settings that were given for this topic, by Kafka's name.
    pub config: BTreeMap<String, String>,
    /// Iggy's options that were given for this topic and mean nothing here, by Iggy's name. What means something is
    /// in `config`.
    pub options: BTreeMap<String, IggyOption>,
    /// Milliseconds since the epoch.
    pub created_at_ms: i64,
}

/// The value of an option as Iggy's clients sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IggyOption {
    /// Iggy's number of its type.
    pub kind: u8,
    /// The value itself.
    pub value: Bytes,
}

/// A topic of Kafka's to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// As [`Topic::name`].
    pub name: Arc<str>,
    /// As [`Topic::partitions`].
    pub partitions: i32,
    /// Settings by Kafka's name, as the client wrote them.
    pub config: BTreeMap<String, String>,
}

/// A topic to be created in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIggyTopic {
    /// As [`Topic::stream`].
    pub stream: u32,
    /// As [`Topic::name`], and of the form that its stream asks for.
    pub name: Arc<str>,
    /// As [`Topic::partitions`].
    pub partitions: i32,
    /// Settings by Kafka's name: see [`crate::topic_config::iggy`] for those that Iggy has, too.
    pub config: BTreeMap<String, String>,
    /// As [`Topic::options`].
    pub options: BTreeMap<String, IggyOption>,
}

impl Topic {
    /// A topic of a stream, which has this number and name, with one partition and no settings.
    pub fn new(id: Uuid, number: u32, stream: (u32, &str), name: Arc<str>) -> Topic {
        let routed_by = match stream.0 {
            KAFKA => name.clone(),
            _ => format!("{}/{name}", stream.1).into(),
        };
        Topic {
            id,
            number,
            stream: stream.0,
            name,
            routed_by,
            partitions: 1,
            config: BTreeMap::new(),
            options: BTreeMap::new(),
            created_at_ms: 0,
        }
    }

    /// The owner of a partition.
    pub fn owner(&self, route: Route, partition: i32) -> ShardId {
        route.partition(&self.routed_by, partition)
    }

    /// The partition's name, if the topic has it.
    pub fn partition(&self, partition: i32) -> Option<TopicPartition> {
        (0..self.partitions).contains(&partition).then_some(TopicPartition { topic: self.id, partition })
    }

    /// The partitions that a shard owns.
    pub fn owned_by(&self, route: Route, shard: ShardId) -> impl Iterator<Item = i32> + '_ {
        (0..self.partitions).filter(move |&p| self.owner(route, p) == shard)
    }

    /// Iggy's incarnation of its partitions, which no partition of another topic ever has; never 0.
    pub fn incarnation(&self) -> u64 {
        u64::from(self.number) + 1
    }

    pub(super) fn partition_count(&self) -> usize {
        usize::try_from(self.partitions).unwrap_or(0)
    }
}
