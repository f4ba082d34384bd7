//! What may be asked of a shard, and what it answers.
//!
//! Every call goes to the shard that owns the thing it names: [`Shard::submit_to`] runs it as a plain
//! function when that is the caller's own shard, and sends one message there and one back otherwise.
//! A call is submitted when `submit_to` is called, not when its future is first polled: two calls made
//! one after the other to one owner arrive in that order.
//!
//! [`Shard::submit_to`]: crate::Shard::submit_to

mod iggy;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use uuid::Uuid;

use crate::catalogue::{Catalogue, NewTopic, Topic};
use crate::metrics::ShardReport;
use crate::store::stored::StoredBatch;
use crate::topic_config::ConfigChange;
use std::sync::{Arc, Weak};

pub use iggy::{
    Attempt, ConsumerKey, ConsumerKind, ConsumerOffset, ConsumerOffsetCall, DeleteSegmentsCall, IggyChange,
    IggyChangeCall, IggyChanged, IggyRefusal, OffsetAction, PartitionStats, PartitionStatsCall, SendCall, SentBatch,
    SessionEndedCall,
};

/// A call with a known kind of reply.
pub trait Call: Into<Request> {
    /// What the owner answers.
    type Reply: TryFrom<Reply, Error = Reply>;
}

/// Names a partition by its topic's id, which no later topic of the same name shares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic's id.
    pub topic: Uuid,
    /// The partition's index, from 0.
    pub partition: i32,
}

/// Held by whoever waits for the answer to a call. When it is dropped nobody does any more.
#[derive(Debug, Default)]
pub struct Asking(Arc<()>);

impl Asking {
    /// For the call.
    pub fn asker(&self) -> Asker {
        Asker(Arc::downgrade(&self.0))
    }
}

/// Tells the owner that has a call, on whatever shard, whether anybody waits for the answer.
#[derive(Debug, Clone)]
pub struct Asker(Weak<()>);

impl Asker {
    /// Nobody waits any more.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Appends one record batch to each of some partitions of one owner (Kafka's Produce).
#[derive(Debug)]
pub struct ProduceCall {
    /// 0 and 1: answered when written; -1: when durable under the gateway's `fsync` setting.
    pub acks: i16,
    /// Whether batches may be compressed with zstd (Produce version 7 and later, KIP-110).
    pub zstd: bool,
    /// Who waits for the answer. Under `acks` other than 0 a batch that has not been begun may be dropped when nobody
    /// does any more.
    pub asker: Asker,
    /// The batches, at most one for a partition.
    pub partitions: Vec<PartitionProduce>,
}

/// The batch for one partition.
#[derive(Debug)]
pub struct PartitionProduce {
    /// Where to.
    pub at: TopicPartition,
    /// The `records` field as received.
    pub records: Bytes,
}

/// What became of a [`PartitionProduce`], in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionProduced {
    /// Where to.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// What is wrong, for the client's log.
    pub message: Option<String>,
    /// The offset of the first record; -1 on error.
    pub base_offset: i64,
    /// The broker's append time in ms under LogAppendTime, otherwise -1.
    pub log_append_time_ms: i64,
    /// The partition's log start offset; -1 on any error but UNKNOWN_PRODUCER_ID, with which it is known where it can be.
    pub log_start_offset: i64,
}

impl PartitionProduced {
    /// An answer that nothing was appended.
    pub fn refused(at: TopicPartition, error: ErrorCode, message: Option<String>) -> Self {
        PartitionProduced { at, error, message, base_offset: -1, log_append_time_ms: -1, log_start_offset: -1 }
    }
}

/// Names a watch of the calling shard: see [`FetchCall::watch`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WatchId(pub u64);

/// Reads from some partitions of one owner (Kafka's Fetch).
#[derive(Debug)]
pub struct FetchCall {
    /// The partitions, in the order in which they may fill the budget.
    pub partitions: Vec<PartitionFetch>,
    /// The budget for record bytes. The first non-empty partition gets one whole batch even when it
    /// is larger (KIP-74).
    pub max_bytes: usize,
    /// How much of that may come from disk, in memory of its own; what is in memory already costs none.
    pub max_disk_bytes: usize,
    /// When fewer than this many bytes are there and no partition failed, the owner keeps a watch
    /// under this id and wakes the caller once as many have arrived. `None`: just answer.
    pub watch: Option<Watch>,
}

/// A wish to be woken.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// Its name on the calling shard.
    pub id: WatchId,
    /// How many bytes must be readable for a wake-up, those that are there already included.
    pub min_bytes: usize,
}

/// What to read of one partition.
#[derive(Debug, Clone)]
pub struct PartitionFetch {
    /// Where from.
    pub at: TopicPartition,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The partition's own bound on record bytes.
    pub max_bytes: usize,
    /// The leader epoch that the client believes in, -1 for none (KIP-320).
    pub current_leader_epoch: i32,
    /// The epoch of the last record that the client has, -1 for none (KIP-595).
    pub last_fetched_epoch: i32,
}

/// What was read, in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionFetched {
    /// Where from.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// The end of what can be read; -1 when the partition is unknown.
    pub high_watermark: i64,
    /// The first offset that is still there; -1 when the partition is unknown.
    pub log_start_offset: i64,
    /// (epoch, end offset) from where on the client's log differs from this one.
    pub diverging_epoch: Option<(i32, i64)>,
    /// Whole batches, of either protocol.
    pub records: Vec<StoredBatch>,
    /// What there is of what the client wants, in bytes: those of the records, and all that it allows for this
    /// partition when there is more than whole batches within its limits. This is what `min_bytes` is
    /// held against, as in Kafka, whose answers end in the middle of a batch.
    pub available: usize,
}

impl PartitionFetched {
    /// An answer without records.
    pub fn failed(at: TopicPartition, error: ErrorCode) -> Self {
        PartitionFetched {
            at,
            error,
            high_watermark: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            records: Vec::new(),
            available: 0,
        }
    }

    /// The sum of the record bytes.
    pub fn bytes(&self) -> usize {
        self.records.iter().map(StoredBatch::len).sum()
    }
}

/// Withdraws a watch. There is no reply to wait for.
#[derive(Debug)]
pub struct UnwatchCall {
    /// The watch.
    pub id: WatchId,
}

/// Looks offsets up by time or by a special timestamp (Kafka's ListOffsets).
#[derive(Debug)]
pub struct ListOffsetsCall {
    /// The look-ups.
    pub partitions: Vec<PartitionListOffsets>,
}

/// One look-up.
#[derive(Debug, Clone)]
pub struct PartitionListOffsets {
    /// Where.
    pub at: TopicPartition,
    /// Milliseconds since the epoch, or -1 latest, -2 earliest, -3 maximum timestamp, -4 earliest
    /// local, -5 latest tiered.
    pub timestamp: i64,
    /// The leader epoch that the client believes in, -1 for none.
    pub current_leader_epoch: i32,
}

/// What was found, in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionOffset {
    /// Where.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// The record's timestamp, -1 for none.
    pub timestamp: i64,
    /// The offset, -1 when there is none.
    pub offset: i64,
    /// The epoch in which the record was written, -1 when not known.
    pub leader_epoch: i32,
}

/// Asks where the records of leader epochs end (Kafka's OffsetForLeaderEpoch, KIP-101 and KIP-320).
#[derive(Debug)]
pub struct OffsetForLeaderEpochCall {
    /// The questions.
    pub partitions: Vec<PartitionLeaderEpoch>,
}

/// One question.
#[derive(Debug, Clone)]
pub struct PartitionLeaderEpoch {
    /// Where.
    pub at: TopicPartition,
    /// The leader epoch that the client believes in, -1 for none.
    pub current_leader_epoch: i32,
    /// The epoch whose end is asked for.
    pub leader_epoch: i32,
}

/// Where an epoch's records end, in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionEpochEnd {
    /// Where.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// The largest epoch up to the one asked for that wrote records; -1 when there is none.
    pub leader_epoch: i32,
    /// The first offset behind its records; -1 when there is none.
    pub end_offset: i64,
}

/// Asks for the idempotent producers of some partitions of one owner (Kafka's DescribeProducers, KIP-664).
#[derive(Debug)]
pub struct DescribeProducersCall {
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// A partition's producers, in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionProducers {
    /// Where.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// Those that are remembered, by id.
    pub producers: Vec<ActiveProducer>,
}

/// An idempotent producer that a partition remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The sequence of its last record.
    pub last_sequence: i32,
    /// When it last appended, in ms since the epoch.
    pub last_timestamp: i64,
}

/// Creates topics. Goes to the controller, shard 0; answered when every shard serves them.
#[derive(Debug)]
pub struct CreateTopicsCall {
    /// The topics, already checked for form.
    pub topics: Vec<NewTopic>,
    /// Check only.
    pub validate_only: bool,
}

/// Adds partitions to topics (Kafka's CreatePartitions). Goes to the controller, shard 0; answered when every
/// shard serves them.
#[derive(Debug)]
pub struct CreatePartitionsCall {
    /// The topics, each once, with the number of partitions that they come to.
    pub topics: Vec<(Uuid, i32)>,
    /// Check only.
    pub validate_only: bool,
}

/// Changes settings of topics (Kafka's AlterConfigs and IncrementalAlterConfigs). Goes to the controller,
/// shard 0; answered when they are in force on every shard.
#[derive(Debug)]
pub struct AlterConfigsCall {
    /// The topics, each once.
    pub topics: Vec<(Uuid, ConfigChange)>,
    /// Check only.
    pub validate_only: bool,
}

/// What became of a topic to be created, changed or deleted: the topic, or Kafka's code and what is wrong.
pub type TopicResult = Result<Arc<Topic>, (ErrorCode, String)>;

/// Deletes topics. Goes to the controller, shard 0; answered when no shard serves them any more.
#[derive(Debug)]
pub struct DeleteTopicsCall {
    /// The topics' ids.
    pub topics: Vec<Uuid>,
}

/// Puts a catalogue in force on a shard; sent by the controller alone.
#[derive(Debug)]
pub enum CatalogueCall {
    /// Open what the shard owns of it. Nobody sees it yet.
    Prepare(Arc<Catalogue>),
    /// Show it to clients and close what it no longer has.
    Publish(Arc<Catalogue>),
    /// Show it to clients; its topics are as they were.
    Show {
        /// What to show.
        catalogue: Arc<Catalogue>,
        /// A consumer group of Iggy's that it no longer has.
        deleted: Option<DeletedGroup>,
    },
}

/// A consumer group of a topic, as Iggy has them, that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedGroup {
    /// The topic.
    pub topic: Uuid,
    /// The group's number.
    pub group: u32,
}

/// Removes the records before an offset from some partitions of one owner (Kafka's DeleteRecords).
#[derive(Debug)]
pub struct DeleteRecordsCall {
    /// The partitions.
    pub partitions: Vec<PartitionDeleteRecords>,
}

/// What goes of one partition.
#[derive(Debug, Clone)]
pub struct PartitionDeleteRecords {
    /// Where.
    pub at: TopicPartition,
    /// The first offset that stays; -1: the high watermark, so that nothing does.
    pub offset: i64,
}

/// What became of a [`PartitionDeleteRecords`], in the order of the call.
#[derive(Debug, Clone)]
pub struct PartitionRecordsDeleted {
    /// Where.
    pub at: TopicPartition,
    /// Kafka's code.
    pub error: ErrorCode,
    /// The log start offset, which is on disk; -1 on error.
    pub low_watermark: i64,
}

/// Asks a shard for its counters.
#[derive(Debug)]
pub struct ReportCall;

macro_rules! calls {
    ($($name:ident($call:ty) -> $reply:ty),* $(,)?) => {
        /// Any call, as it travels.
        #[derive(Debug)]
        pub enum Request { $(#[doc = concat!("See [`", stringify!($call), "`].")] $name($call)),* }

        /// Any reply, as it travels.
        #[derive(Debug)]
        pub enum Reply { $(#[doc = concat!("Answers [`", stringify!($call), "`].")] $name($reply)),* }

        $(
            impl From<$call> for Request {
                fn from(call: $call) -> Request { Request::$name(call) }
            }
            impl Call for $call { type Reply = $name; }

            #[doc = concat!("The reply to [`", stringify!($call), "`].")]
            #[derive(Debug)]
            pub struct $name(pub $reply);

            impl TryFrom<Reply> for $name {
                type Error = Reply;
                fn try_from(reply: Reply) -> Result<$name, Reply> {
                    match reply { Reply::$name(it) => Ok($name(it)), other => Err(other) }
                }
            }
        )*
    };
}

calls! {
    Produced(ProduceCall) -> Vec<PartitionProduced>,
    Fetched(FetchCall) -> Vec<PartitionFetched>,
    Unwatched(UnwatchCall) -> (),
    Offsets(ListOffsetsCall) -> Vec<PartitionOffset>,
    EpochEnds(OffsetForLeaderEpochCall) -> Vec<PartitionEpochEnd>,
    ProducersDescribed(DescribeProducersCall) -> Vec<PartitionProducers>,
    RecordsDeleted(DeleteRecordsCall) -> Vec<PartitionRecordsDeleted>,
    GroupAnswered(GroupCall) -> ringgate_group::Response,
    SessionRefreshed(HeartbeatSeenCall) -> (),
    Withdrawn(ConnectionClosedCall) -> (),
    TopicsCreated(CreateTopicsCall) -> Vec<TopicResult>,
    TopicsDeleted(DeleteTopicsCall) -> Vec<TopicResult>,
    PartitionsCreated(CreatePartitionsCall) -> Vec<TopicResult>,
    ConfigsAltered(AlterConfigsCall) -> Vec<TopicResult>,
    CatalogueApplied(CatalogueCall) -> (),
    Sent(SendCall) -> Result<SentBatch, IggyRefusal>,
    SessionForgotten(SessionEndedCall) -> (),
    PartitionsMeasured(PartitionStatsCall) -> Vec<Result<PartitionStats, IggyRefusal>>,
    SegmentsDeleted(DeleteSegmentsCall) -> Result<(), IggyRefusal>,
    ConsumerOffsetDone(ConsumerOffsetCall) -> Result<ConsumerOffset, IggyRefusal>,
    IggyChangeDone(IggyChangeCall) -> Result<IggyChanged, IggyRefusal>,
    Reported(ReportCall) -> Box<ShardReport>,
}

/// A request to the coordinator that owns a group.
#[derive(Debug)]
pub struct GroupCall {
    /// The connection it came on: what parks here is withdrawn when that connection closes.
    pub connection: ringgate_group::ConnectionId,
    /// The request.
    pub request: ringgate_group::Request,
}

/// Tells the coordinator of a Heartbeat that waits behind another request of its connection: its member's
/// session goes on if it is right. There is nothing to wait for.
#[derive(Debug)]
pub struct HeartbeatSeenCall {
    /// As it was read; its turn is still to come.
    pub heartbeat: ringgate_group::request::HeartbeatRequest,
}

/// A connection is gone: what it has parked is withdrawn. It goes the way of the connection's requests, so
/// that none of them arrives after it. There is nothing to wait for.
#[derive(Debug)]
pub struct ConnectionClosedCall {
    /// The connection.
    pub connection: ringgate_group::ConnectionId,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The shard that asked.
    pub shard: ShardId,
    /// Its name for the question.
    pub token: u64,
}
