//! What Iggy's clients ask of a shard beyond what Kafka's ask. Messages are read with [`FetchCall`].
//!
//! [`FetchCall`]: super::FetchCall

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::TopicPartition;
use crate::catalogue::{ConsumerGroup, IggyOption, NewIggyTopic, Stream, Topic};
use crate::iggy_code::IggyCode;
use crate::topic_config::ConfigChange;

/// A change of streams, topics and consumer groups. Goes to the controller, shard 0; answered when every shard
/// serves it.
#[derive(Debug)]
pub struct IggyChangeCall(pub IggyChange);

/// A change of streams, topics and consumer groups. Names are checked for form.
#[derive(Debug)]
pub enum IggyChange {
    /// Answered with the stream.
    CreateStream {
        /// As [`Stream::name`].
        name: Arc<str>,
    },
    /// Deletes a stream and its topics; that of Kafka's topics stays: `FeatureUnavailable(5)`.
    DeleteStream {
        /// Its number.
        stream: u32,
    },
    /// Answered with the topic.
    CreateTopic(NewIggyTopic),
    /// Deletes a topic, its consumer groups and their offsets.
    DeleteTopic {
        /// Its id.
        topic: Uuid,
    },
    /// Answered with the topic as it is then.
    CreatePartitions {
        /// The topic's id.
        topic: Uuid,
        /// How many more, at least 1.
        count: u32,
    },
    /// Answered with the topic as it is then.
    UpdateTopic {
        /// The topic's id.
        topic: Uuid,
        /// Of settings by Kafka's name: see [`crate::topic_config::iggy`].
        config: ConfigChange,
        /// All options that it has from then on, as in [`Topic::options`].
        options: BTreeMap<String, IggyOption>,
    },
    /// Answered with the group.
    CreateGroup {
        /// The topic's id.
        topic: Uuid,
        /// As [`ConsumerGroup::name`].
        name: Arc<str>,
    },
    /// Deletes a consumer group, and what is stored of its offsets in every partition.
    DeleteGroup {
        /// The topic's id.
        topic: Uuid,
        /// The group's.
        group: u32,
    },
}

/// What an [`IggyChange`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IggyChanged {
    /// The stream that was made.
    Stream(Arc<Stream>),
    /// The topic that was made or changed.
    Topic(Arc<Topic>),
    /// The consumer group that was made.
    Group(Arc<ConsumerGroup>),
    /// It is gone.
    Deleted,
}

/// Why nothing was done: Iggy's code, and what is wrong for the log (Iggy's answers have no room for it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IggyRefusal {
    /// Iggy's code.
    pub code: IggyCode,
    /// What is wrong.
    pub message: String,
}

impl IggyRefusal {
    /// A refusal with this code.
    pub fn new(code: IggyCode, message: impl Into<String>) -> IggyRefusal {
        IggyRefusal { code, message: message.into() }
    }
}

/// Appends one batch of messages to a partition (Iggy's SendMessages). Answered when it is durable under the
/// gateway's `fsync` setting.
#[derive(Debug)]
pub struct SendCall {
    /// Where to.
    pub at: TopicPartition,
    /// The batch as received: its header of 256 bytes and the frames, not looked at.
    pub batch: Bytes,
    /// Whose request it is, for when it comes again.
    pub attempt: Attempt,
}

/// Names a request of a session, which may be made again when its answer was lost. What was carried out is then
/// answered as before; while it is being carried out the answer is `TransientNotCommitted(57)`, and `RequestTooOld(85)`
/// when it is too long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The session; never used again.
    pub session: u64,
    /// The request's number, which rises in its session.
    pub request: u64,
}

/// A session is over: its requests do not come again.
#[derive(Debug)]
pub struct SessionEndedCall {
    /// The session.
    pub session: u64,
}

/// Asks what some partitions of one owner hold.
#[derive(Debug)]
pub struct PartitionStatsCall {
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// What a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStats {
    /// The first offset that is still there.
    pub log_start_offset: u64,
    /// The end of what can be read.
    pub high_watermark: u64,
    /// Bytes of its segments.
    pub bytes: u64,
    /// How many segments, at least 1.
    pub segments: usize,
}

/// Where a batch of messages went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBatch {
    /// The offset of its first message.
    pub base_offset: u64,
    /// It was sent before: this is the offset of the first time.
    pub duplicate: bool,
}

/// Removes the oldest closed segments of a partition (Iggy's DeleteSegments). The one that is appended to stays.
/// Answered when they are gone on disk.
#[derive(Debug)]
pub struct DeleteSegmentsCall {
    /// Where.
    pub at: TopicPartition,
    /// How many at most.
    pub count: u32,
}

/// Gets, stores or deletes the offset that a consumer keeps in a partition. A change is answered when it is durable
/// under the gateway's `fsync` setting.
#[derive(Debug)]
pub struct ConsumerOffsetCall {
    /// Where.
    pub at: TopicPartition,
    /// Whose.
    pub consumer: ConsumerKey,
    /// What to do.
    pub action: OffsetAction,
    /// Whose request it is, for when it comes again.
    pub attempt: Option<Attempt>,
}

/// Who keeps an offset. Keys of different kinds have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConsumerKey {
    /// Of which kind.
    pub kind: ConsumerKind,
    /// Its number; of a group, that of a [`ConsumerGroup`] of the topic.
    pub id: u32,
}

/// What kind of consumer keeps an offset, with Iggy's number of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ConsumerKind {
    /// A consumer for itself.
    Consumer = 1,
    /// A consumer group whose members join. Membership is not looked at here.
    Group = 2,
    /// A consumer group that somebody else coordinates. Its offsets are kept as sent, whatever the partition holds.
    ExternalGroup = 3,
}

/// What is done about an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAction {
    /// Only look.
    Get,
    /// Keep this one. Of kinds 1 and 2 it has to be the offset of a message that there is or was: `InvalidOffset(4100)`.
    Store(u64),
    /// Keep none: `ConsumerOffsetNotFound(3021)` when there is none.
    Delete,
}

/// An offset that a consumer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerOffset {
    /// As it was stored; `None` when there is none.
    pub stored: Option<u64>,
    /// The partition's high watermark: one past its last message.
    pub high_watermark: u64,
}
