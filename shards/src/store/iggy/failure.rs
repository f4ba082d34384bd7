//! Why a call on Iggy failed.

use std::fmt;

use iggy_common::IggyError;

/// Iggy's code for a failure, and what the SDK keeps of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Iggy's number (`IggyError::as_code`).
    pub code: u32,
    /// The operation whose outcome is open, or that blocks this one.
    pub operation: Option<u64>,
}

/// What is no answer of a server's.
impl Failure {
    /// The lane has as many calls as it takes. Nothing was sent.
    pub const LANE_FULL: Failure = Failure { code: TRANSIENT_NOT_ACCEPTED, operation: None };
    /// Nothing was sent in time, since there is no connection yet, or at all, since the gateway stops.
    pub const NOT_CONNECTED: Failure = Failure { code: NOT_CONNECTED, operation: None };
    /// Nobody waits for the answer any more, since the gateway stops; or there will be none, since the call panicked or
    /// the lane's thread has gone. What has become of it is not known.
    pub const UNANSWERED: Failure = Failure { code: TRANSIENT_NOT_COMMITTED, operation: None };
    /// A reply that does not read.
    pub const MALFORMED: Failure = Failure { code: INVALID_FORMAT, operation: None };
}

macro_rules! codes {
    ($($name:ident = $code:literal, $what:literal;)*) => {
        $(#[doc = $what] pub const $name: u32 = $code;)*
    };
}

codes! {
    INVALID_FORMAT = 4, "InvalidFormat.";
    RESOURCE_NOT_FOUND = 20, "ResourceNotFound: newer servers say it of a topic that went away.";
    STALE_CLIENT = 30, "StaleClient.";
    UNAUTHENTICATED = 40, "Unauthenticated.";
    UNAUTHORIZED = 41, "Unauthorized: this user may not.";
    INVALID_CREDENTIALS = 42, "InvalidCredentials.";
    INVALID_TOKEN = 53, "InvalidPersonalAccessToken.";
    DISCONNECTED = 8, "Disconnected.";
    CANNOT_ESTABLISH_CONNECTION = 9, "CannotEstablishConnection.";
    NOT_CONNECTED = 61, "NotConnected.";
    TRANSIENT_NOT_COMMITTED = 57, "TransientNotCommitted: the outcome is not known.";
    TRANSIENT_NOT_ACCEPTED = 58, "TransientNotAccepted: nothing was done.";
    REQUEST_ALREADY_APPLIED = 59, "RequestAlreadyApplied: done, and the receipt is gone.";
    INVALID_SIZE_BYTES = 80, "InvalidSizeBytes.";
    REQUEST_TOO_OLD = 85, "RequestTooOld: the outcome is not known.";
    HISTORY_UNAVAILABLE = 87, "HistoryUnavailable: the partition was made anew.";
    LIFECYCLE_BUSY = 88, "LifecycleBusy.";
    NOT_PRIMARY = 89, "NotPrimary.";
    DEFERRED_POLL_CAPACITY = 90, "DeferredPollCapacityExceeded.";
    PRODUCER_IDS_EXHAUSTED = 91, "ProducerIdsExhausted: the session has given all that it has.";
    PRODUCER_SEQUENCE = 92, "ProducerSequenceOutOfOrder.";
    PRODUCER_FENCED = 93, "ProducerEpochFenced.";
    PRODUCER_UNKNOWN = 94, "ProducerUnknown.";
    CONNECTION_CLOSED = 206, "ConnectionClosed.";
    STREAM_ID_NOT_FOUND = 1009, "StreamIdNotFound.";
    STREAM_NAME_NOT_FOUND = 1010, "StreamNameNotFound.";
    TOPIC_ID_NOT_FOUND = 2010, "TopicIdNotFound.";
    TOPIC_NAME_NOT_FOUND = 2011, "TopicNameNotFound.";
    TOPIC_EXISTS = 2013, "TopicNameAlreadyExists.";
    TOO_MANY_PARTITIONS = 2015, "TooManyPartitions of one topic or request.";
    INVALID_PARTITIONS_COUNT = 2019, "InvalidPartitionsCount.";
    PARTITIONS_LIMIT = 2022, "PartitionsLimitReached.";
    PARTITIONS_FIXED = 2023, "PartitionResizeDisabled.";
    PARTITION_NOT_FOUND = 3007, "PartitionNotFound.";
    TOPIC_FULL = 3009, "TopicFull.";
    CONSUMER_OFFSET_NOT_FOUND = 3021, "ConsumerOffsetNotFound.";
    TOO_MANY_CONSUMER_OFFSETS = 3024, "Too many keys of consumer offsets in a partition.";
    CANNOT_APPEND = 4010, "CannotAppendMessage.";
    HEADERS_TOO_LARGE = 4017, "TooBigUserHeaders.";
    PAYLOAD_TOO_LARGE = 4022, "TooBigMessagePayload.";
    TIMESTAMP_DELTA = 4038, "InvalidMessageTimestampDelta.";
    OPTION_UNKNOWN = 4041, "An option that the server does not know.";
    OPTION_VALUE = 4042, "A value that its option does not take.";
    OPTION_FIXED = 4103, "An option that is set at creation only.";
    OPTION_NOT_RESETTABLE = 4104, "An option without a default to go back to.";
    OPTION_READ_ONLY = 4105, "An option that nobody sets.";
    CONSUMER_GROUP_ID_NOT_FOUND = 5000, "ConsumerGroupIdNotFound.";
    CONSUMER_GROUP_NAME_NOT_FOUND = 5003, "ConsumerGroupNameNotFound.";
    INCOMPATIBLE_PROTOCOL = 14003, "IncompatibleProtocolVersion.";
    OPERATION_UNCERTAIN = 14006, "OperationUncertain: the SDK keeps it until it is resolved or abandoned.";
    LANE_BLOCKED = 14007, "LaneBlocked by an operation that the SDK keeps.";
    OPERATION_NOT_RETAINED = 14008, "OperationNotRetained: the session it was sent in has ended.";
    PARTITION_LANE_BLOCKED = 14009, "PartitionLaneBlocked by an operation that the SDK keeps.";
}

impl From<&IggyError> for Failure {
    fn from(error: &IggyError) -> Failure {
        Failure { code: error.as_code(), operation: error.operation_id() }
    }
}

impl From<IggyError> for Failure {
    fn from(error: IggyError) -> Failure {
        Failure::from(&error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iggy's code {} ({})", self.code, IggyError::from_code(self.code).as_string())
    }
}
