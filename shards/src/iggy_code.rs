//! Iggy's error codes, by its own names, as far as a shard answers with them.

/// A code of Iggy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IggyCode(pub u32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        impl IggyCode { $($(#[$doc])* pub const $name: IggyCode = IggyCode($code);)* }
    };
}

codes! {
    /// Something that must not happen.
    ERROR = 1,
    /// The bytes of a request are none.
    INVALID_COMMAND = 3,
    /// What was asked for does not exist here.
    FEATURE_UNAVAILABLE = 5,
    /// A name or number cannot be one.
    INVALID_IDENTIFIER = 6,
    /// Nobody has signed in, or the session is gone.
    UNAUTHENTICATED = 40,
    /// An earlier attempt of the same request is still being carried out.
    TRANSIENT_NOT_COMMITTED = 57,
    /// Not now; nothing was done.
    TRANSIENT_NOT_ACCEPTED = 58,
    /// A request is too large.
    INVALID_SIZE_BYTES = 80,
    /// A request is so old that nobody knows whether it was carried out.
    REQUEST_TOO_OLD = 85,
    /// The partition that a request means is not the one of that name now.
    HISTORY_UNAVAILABLE = 87,
    /// A session or shard has as many waiting requests as it may have.
    DEFERRED_POLL_CAPACITY_EXCEEDED = 90,
    /// An idempotent producer's batch leaves a gap, or repeats what is not remembered.
    PRODUCER_SEQUENCE_OUT_OF_ORDER = 92,
    /// An idempotent producer has a newer epoch.
    PRODUCER_EPOCH_FENCED = 93,
    /// An idempotent producer is not known and does not begin at sequence 0.
    PRODUCER_UNKNOWN = 94,
    /// A producer's batch does not say which partition it is for.
    PRODUCER_PARTITION_REQUIRED = 95,
    /// No stream has this number.
    STREAM_ID_NOT_FOUND = 1009,
    /// No stream has this name.
    STREAM_NAME_NOT_FOUND = 1010,
    /// A stream has this name already.
    STREAM_NAME_ALREADY_EXISTS = 1012,
    /// There are as many streams as there may be.
    TOO_MANY_STREAMS = 1020,
    /// No topic has this number.
    TOPIC_ID_NOT_FOUND = 2010,
    /// No topic of the stream has this name.
    TOPIC_NAME_NOT_FOUND = 2011,
    /// A topic of the stream has this name already.
    TOPIC_NAME_ALREADY_EXISTS = 2013,
    /// No topic can have this name.
    INVALID_TOPIC_NAME = 2014,
    /// A topic cannot have so many partitions.
    INVALID_PARTITIONS_COUNT = 2019,
    /// A stream has as many topics as it may have.
    TOO_MANY_TOPICS = 2021,
    /// The topic has no such partition.
    PARTITION_NOT_FOUND = 3007,
    /// The consumer has no offset stored in the partition.
    CONSUMER_OFFSET_NOT_FOUND = 3021,
    /// A partition keeps as many offsets as it may.
    TOO_MANY_CONSUMER_OFFSETS = 3024,
    /// The partition's log takes nothing.
    CANNOT_APPEND_MESSAGE = 4010,
    /// What is stored cannot be read.
    CANNOT_READ_MESSAGE = 4011,
    /// A message's user headers are too large.
    TOO_BIG_USER_HEADERS = 4017,
    /// A message's payload is too large.
    TOO_BIG_MESSAGE_PAYLOAD = 4022,
    /// A message's checksum does not fit.
    INVALID_MESSAGE_CHECKSUM = 4027,
    /// A batch's checksum does not fit.
    INVALID_BATCH_CHECKSUM = 4039,
    /// There is no such option.
    INVALID_OPTION_KEY = 4041,
    /// An option cannot have this value.
    INVALID_OPTION_VALUE = 4042,
    /// An offset is not one of the partition's.
    INVALID_OFFSET = 4100,
    /// No consumer group of the topic has this number.
    CONSUMER_GROUP_ID_NOT_FOUND = 5000,
    /// No consumer group of the topic has this name.
    CONSUMER_GROUP_NAME_NOT_FOUND = 5003,
    /// A consumer group of the topic has this name already.
    CONSUMER_GROUP_NAME_ALREADY_EXISTS = 5004,
    /// The client is no member of the consumer group.
    CONSUMER_GROUP_MEMBER_NOT_FOUND = 5006,
    /// The consumer is not the one that the group gave the partition to.
    CONSUMER_GROUP_PARTITION_NOT_OWNED = 5009,
    /// There are as many consumer groups as there may be.
    TOO_MANY_CONSUMER_GROUPS = 5010,
}
