//! What a failure of Iggy's means to a Kafka client: one table for each kind of call, and the only place where
//! Kafka's codes for Iggy's failures are chosen.

use std::time::Duration;

use ringgate_group::ErrorCode;

use super::Failure;
use super::failure::*;
use super::limits::RETRY_LONGEST;

/// What to do about a failed Produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnProduce {
    /// Nothing was written: again until the deadline, then `NOT_LEADER_OR_FOLLOWER(6)`.
    Again,
    /// It may have been written. `Some`: the SDK keeps the operation.
    Unknown(Option<u64>),
    /// Nothing was sent, since an earlier operation's outcome is open: end that one first.
    Blocked(u64),
    /// Written; where is not known any more.
    Written,
    /// The partition was made anew: once more, then `UNKNOWN_TOPIC_OR_PARTITION(3)`.
    Recreated,
    /// Not written, and not to be tried again.
    Refuse(ErrorCode),
}

/// The table for Produce.
pub(crate) fn on_produce(failure: Failure) -> OnProduce {
    match failure.code {
        OPERATION_UNCERTAIN => OnProduce::Unknown(failure.operation),
        TRANSIENT_NOT_COMMITTED | REQUEST_TOO_OLD | OPERATION_NOT_RETAINED => OnProduce::Unknown(None),
        LANE_BLOCKED | PARTITION_LANE_BLOCKED => match failure.operation {
            Some(operation) => OnProduce::Blocked(operation),
            None => OnProduce::Again,
        },
        REQUEST_ALREADY_APPLIED => OnProduce::Written,
        HISTORY_UNAVAILABLE => OnProduce::Recreated,
        PRODUCER_SEQUENCE => OnProduce::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
        PRODUCER_FENCED => OnProduce::Refuse(ErrorCode::INVALID_PRODUCER_EPOCH),
        PRODUCER_UNKNOWN => OnProduce::Refuse(ErrorCode::UNKNOWN_PRODUCER_ID),
        HEADERS_TOO_LARGE | PAYLOAD_TOO_LARGE | INVALID_SIZE_BYTES => OnProduce::Refuse(ErrorCode::MESSAGE_TOO_LARGE),
        // Batches are split so that it cannot come to this.
        TIMESTAMP_DELTA => OnProduce::Refuse(ErrorCode::INVALID_RECORD),
        TOPIC_FULL | CANNOT_APPEND => OnProduce::Refuse(ErrorCode::KAFKA_STORAGE_ERROR),
        _ => match common(failure) {
            Common::Again => OnProduce::Again,
            Common::Missing => OnProduce::Refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Common::Unauthorized => OnProduce::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            Common::Other => OnProduce::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        },
    }
}

/// What to do about a failed read of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFetch {
    /// Again; at the end `NOT_LEADER_OR_FOLLOWER(6)`.
    Again,
    /// The partition was made anew: what was known of it is wrong. Once more, then 3.
    Recreated,
    /// The answer would be too large: ask for less.
    Less,
    /// Not to be tried again.
    Refuse(ErrorCode),
}

/// The table for Fetch and ListOffsets.
pub(crate) fn on_fetch(failure: Failure) -> OnFetch {
    match failure.code {
        // Reading changes nothing, so an unknown outcome is none.
        OPERATION_UNCERTAIN | TRANSIENT_NOT_COMMITTED | REQUEST_TOO_OLD | OPERATION_NOT_RETAINED => OnFetch::Again,
        HISTORY_UNAVAILABLE => OnFetch::Recreated,
        INVALID_SIZE_BYTES => OnFetch::Less,
        _ => match common(failure) {
            Common::Again => OnFetch::Again,
            Common::Missing => OnFetch::Refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Common::Unauthorized => OnFetch::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            Common::Other => OnFetch::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        },
    }
}

/// What to do about an offset that could not be stored or deleted.
#[allow(dead_code, reason = "for offsets, which are in memory only so far")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCommit {
    /// Again; at the end `COORDINATOR_LOAD_IN_PROGRESS(14)`.
    Again,
    /// It may be stored. `Some`: the SDK keeps the operation. Storing it again does no harm.
    Unknown(Option<u64>),
    /// Nothing was sent, since an earlier operation's outcome is open: end that one first.
    Blocked(u64),
    /// Done, or there was nothing to delete.
    Done,
    /// The Iggy group is missing: make it and store again; of a delete it means done.
    NoGroup,
    /// Not to be tried again.
    Refuse(ErrorCode),
}

/// The table for OffsetCommit, OffsetDelete and DeleteGroups.
#[allow(dead_code, reason = "for offsets, which are in memory only so far")]
pub(crate) fn on_commit(failure: Failure) -> OnCommit {
    match failure.code {
        OPERATION_UNCERTAIN => OnCommit::Unknown(failure.operation),
        TRANSIENT_NOT_COMMITTED | REQUEST_TOO_OLD | OPERATION_NOT_RETAINED => OnCommit::Unknown(None),
        LANE_BLOCKED | PARTITION_LANE_BLOCKED => match failure.operation {
            Some(operation) => OnCommit::Blocked(operation),
            None => OnCommit::Again,
        },
        REQUEST_ALREADY_APPLIED | CONSUMER_OFFSET_NOT_FOUND => OnCommit::Done,
        CONSUMER_GROUP_ID_NOT_FOUND | CONSUMER_GROUP_NAME_NOT_FOUND => OnCommit::NoGroup,
        HISTORY_UNAVAILABLE => OnCommit::Again,
        TOO_MANY_CONSUMER_OFFSETS => OnCommit::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        _ => match common(failure) {
            Common::Again => OnCommit::Again,
            Common::Missing => OnCommit::Refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Common::Unauthorized => OnCommit::Refuse(ErrorCode::GROUP_AUTHORIZATION_FAILED),
            Common::Other => OnCommit::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        },
    }
}

/// What to do about an offset that could not be read.
#[allow(dead_code, reason = "for offsets, which are in memory only so far")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnOffsetFetch {
    /// Again; at the end `COORDINATOR_LOAD_IN_PROGRESS(14)`: a failed read is never "no offset".
    Again,
    /// There is none, for sure: its group, topic or partition does not exist.
    None,
    /// Not to be tried again.
    Refuse(ErrorCode),
}

/// The table for OffsetFetch.
#[allow(dead_code, reason = "for offsets, which are in memory only so far")]
pub(crate) fn on_offset_fetch(failure: Failure) -> OnOffsetFetch {
    match failure.code {
        CONSUMER_GROUP_ID_NOT_FOUND | CONSUMER_GROUP_NAME_NOT_FOUND | CONSUMER_OFFSET_NOT_FOUND => OnOffsetFetch::None,
        OPERATION_UNCERTAIN
        | TRANSIENT_NOT_COMMITTED
        | REQUEST_TOO_OLD
        | OPERATION_NOT_RETAINED
        | HISTORY_UNAVAILABLE => OnOffsetFetch::Again,
        _ => match common(failure) {
            Common::Again => OnOffsetFetch::Again,
            Common::Missing => OnOffsetFetch::None,
            Common::Unauthorized => OnOffsetFetch::Refuse(ErrorCode::GROUP_AUTHORIZATION_FAILED),
            Common::Other => OnOffsetFetch::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        },
    }
}

/// What to do about a change of topics that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnChange {
    /// Again; at the end `REQUEST_TIMED_OUT(7)`.
    Again,
    /// It may be done. `Some`: the SDK keeps the operation. What there is now tells.
    Unknown(Option<u64>),
    /// Nothing was sent, since an earlier operation's outcome is open: end that one first.
    Blocked(u64),
    /// Not to be tried again.
    Refuse(ErrorCode),
}

/// The table for CreateTopics, DeleteTopics, CreatePartitions and topic settings.
pub(crate) fn on_change(failure: Failure) -> OnChange {
    match failure.code {
        OPERATION_UNCERTAIN => OnChange::Unknown(failure.operation),
        TRANSIENT_NOT_COMMITTED | REQUEST_TOO_OLD | REQUEST_ALREADY_APPLIED | OPERATION_NOT_RETAINED => {
            OnChange::Unknown(None)
        }
        LANE_BLOCKED | PARTITION_LANE_BLOCKED => match failure.operation {
            Some(operation) => OnChange::Blocked(operation),
            None => OnChange::Again,
        },
        TOPIC_EXISTS => OnChange::Refuse(ErrorCode::TOPIC_ALREADY_EXISTS),
        TOO_MANY_PARTITIONS | INVALID_PARTITIONS_COUNT | PARTITIONS_LIMIT | PARTITIONS_FIXED => {
            OnChange::Refuse(ErrorCode::INVALID_PARTITIONS)
        }
        OPTION_UNKNOWN | OPTION_VALUE | OPTION_FIXED | OPTION_NOT_RESETTABLE | OPTION_READ_ONLY => {
            OnChange::Refuse(ErrorCode::INVALID_CONFIG)
        }
        HISTORY_UNAVAILABLE => OnChange::Again,
        _ => match common(failure) {
            Common::Again => OnChange::Again,
            Common::Missing => OnChange::Refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Common::Unauthorized => OnChange::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            Common::Other => OnChange::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
        },
    }
}

/// Kafka's code for a read that the lane has no answer to: it is full, or the gateway stops.
pub(crate) fn on_unasked(_: Failure) -> ErrorCode {
    ErrorCode::NOT_LEADER_OR_FOLLOWER
}

/// The same for a write of records or a change of topics, which may have been made.
pub(crate) fn on_unasked_change(failure: Failure) -> ErrorCode {
    match failure.code {
        TRANSIENT_NOT_COMMITTED => ErrorCode::REQUEST_TIMED_OUT,
        _ => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

/// What means the same to every call.
enum Common {
    Again,
    Missing,
    Unauthorized,
    Other,
}

fn common(failure: Failure) -> Common {
    match failure.code {
        DISCONNECTED
        | CANNOT_ESTABLISH_CONNECTION
        | NOT_CONNECTED
        | CONNECTION_CLOSED
        | STALE_CLIENT
        | UNAUTHENTICATED
        | INVALID_CREDENTIALS
        | INVALID_TOKEN
        | INCOMPATIBLE_PROTOCOL
        | TRANSIENT_NOT_ACCEPTED
        | LIFECYCLE_BUSY
        | NOT_PRIMARY
        | DEFERRED_POLL_CAPACITY => Common::Again,
        RESOURCE_NOT_FOUND
        | STREAM_ID_NOT_FOUND
        | STREAM_NAME_NOT_FOUND
        | TOPIC_ID_NOT_FOUND
        | TOPIC_NAME_NOT_FOUND
        | PARTITION_NOT_FOUND => Common::Missing,
        UNAUTHORIZED => Common::Unauthorized,
        _ => Common::Other,
    }
}

/// Waits between attempts, each twice as long as the one before, up to a bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// The first wait.
    pub(crate) fn from(first: Duration) -> Backoff {
        Backoff(first)
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(RETRY_LONGEST);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: u32) -> Failure {
        Failure { code, operation: None }
    }

    fn kept(code: u32) -> Failure {
        Failure { code, operation: Some(7) }
    }

    #[test]
    fn what_was_not_taken_is_tried_again_by_every_kind_of_call() {
        for transient in [8, 9, 30, 40, 42, 53, 58, 61, 88, 89, 90, 206, 14003] {
            let failure = code(transient);
            assert_eq!(on_produce(failure), OnProduce::Again, "{transient}");
            assert_eq!(on_fetch(failure), OnFetch::Again, "{transient}");
            assert_eq!(on_commit(failure), OnCommit::Again, "{transient}");
            assert_eq!(on_offset_fetch(failure), OnOffsetFetch::Again, "{transient}");
            assert_eq!(on_change(failure), OnChange::Again, "{transient}");
        }
    }

    #[test]
    fn an_unknown_outcome_of_a_write_is_never_taken_for_a_refusal() {
        for (failure, operation) in [(kept(14006), Some(7)), (code(57), None), (code(85), None), (kept(14008), None)] {
            assert_eq!(on_produce(failure), OnProduce::Unknown(operation), "{failure}");
            assert_eq!(on_commit(failure), OnCommit::Unknown(operation), "{failure}");
            assert_eq!(on_change(failure), OnChange::Unknown(operation), "{failure}");
        }
    }

    #[test]
    fn an_unknown_outcome_of_a_read_is_read_again() {
        for failure in [kept(14006), code(57), code(85), kept(14008)] {
            assert_eq!(on_fetch(failure), OnFetch::Again, "{failure}");
            assert_eq!(on_offset_fetch(failure), OnOffsetFetch::Again, "{failure}");
        }
    }

    #[test]
    fn a_write_behind_one_that_is_kept_ends_that_one_first() {
        for failure in [kept(14007), kept(14009)] {
            assert_eq!(on_produce(failure), OnProduce::Blocked(7));
            assert_eq!(on_commit(failure), OnCommit::Blocked(7));
            assert_eq!(on_change(failure), OnChange::Blocked(7));
        }
    }

    #[test]
    fn applied_without_a_receipt_is_a_success() {
        assert_eq!(on_produce(code(59)), OnProduce::Written);
        assert_eq!(on_commit(code(59)), OnCommit::Done);
        assert_eq!(on_change(code(59)), OnChange::Unknown(None), "what there is now tells");
    }

    #[test]
    fn a_partition_that_was_made_anew_is_looked_up_again() {
        assert_eq!(on_produce(code(87)), OnProduce::Recreated);
        assert_eq!(on_fetch(code(87)), OnFetch::Recreated);
        assert_eq!(on_commit(code(87)), OnCommit::Again);
        assert_eq!(on_offset_fetch(code(87)), OnOffsetFetch::Again);
        assert_eq!(on_change(code(87)), OnChange::Again);
    }

    #[test]
    fn what_does_not_exist_is_an_unknown_topic_and_has_no_offset() {
        for missing in [20, 1009, 1010, 2010, 2011, 3007] {
            let failure = code(missing);
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            assert_eq!(on_produce(failure), OnProduce::Refuse(unknown), "{missing}");
            assert_eq!(on_fetch(failure), OnFetch::Refuse(unknown), "{missing}");
            assert_eq!(on_commit(failure), OnCommit::Refuse(unknown), "{missing}");
            assert_eq!(on_offset_fetch(failure), OnOffsetFetch::None, "{missing}");
            assert_eq!(on_change(failure), OnChange::Refuse(unknown), "{missing}");
        }
    }

    #[test]
    fn what_the_user_may_not_do_has_kafkas_code_for_the_resource() {
        let failure = code(41);
        assert_eq!(on_produce(failure), OnProduce::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert_eq!(on_fetch(failure), OnFetch::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert_eq!(on_commit(failure), OnCommit::Refuse(ErrorCode::GROUP_AUTHORIZATION_FAILED));
        assert_eq!(on_offset_fetch(failure), OnOffsetFetch::Refuse(ErrorCode::GROUP_AUTHORIZATION_FAILED));
        assert_eq!(on_change(failure), OnChange::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    }

    #[test]
    fn refused_sequences_and_sizes_have_kafkas_own_codes() {
        let table = [
            (92, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
            (93, ErrorCode::INVALID_PRODUCER_EPOCH),
            (94, ErrorCode::UNKNOWN_PRODUCER_ID),
            (4017, ErrorCode::MESSAGE_TOO_LARGE),
            (4022, ErrorCode::MESSAGE_TOO_LARGE),
            (80, ErrorCode::MESSAGE_TOO_LARGE),
            (4038, ErrorCode::INVALID_RECORD),
            (3009, ErrorCode::KAFKA_STORAGE_ERROR),
            (4010, ErrorCode::KAFKA_STORAGE_ERROR),
            (4039, ErrorCode::UNKNOWN_SERVER_ERROR),
        ];
        for (iggy, kafka) in table {
            assert_eq!(on_produce(code(iggy)), OnProduce::Refuse(kafka), "{iggy}");
        }
        assert_eq!(on_fetch(code(80)), OnFetch::Less);
    }

    #[test]
    fn groups_and_keys_that_are_missing_are_made_or_are_gone_already() {
        for missing in [5000, 5003] {
            assert_eq!(on_commit(code(missing)), OnCommit::NoGroup);
            assert_eq!(on_offset_fetch(code(missing)), OnOffsetFetch::None);
        }
        assert_eq!(on_commit(code(3021)), OnCommit::Done);
        assert_eq!(on_commit(code(3024)), OnCommit::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR));
    }

    #[test]
    fn refused_topics_have_kafkas_own_codes() {
        let table = [
            (2013, ErrorCode::TOPIC_ALREADY_EXISTS),
            (2015, ErrorCode::INVALID_PARTITIONS),
            (2019, ErrorCode::INVALID_PARTITIONS),
            (2022, ErrorCode::INVALID_PARTITIONS),
            (2023, ErrorCode::INVALID_PARTITIONS),
            (4041, ErrorCode::INVALID_CONFIG),
            (4042, ErrorCode::INVALID_CONFIG),
            (4103, ErrorCode::INVALID_CONFIG),
            (4104, ErrorCode::INVALID_CONFIG),
            (4105, ErrorCode::INVALID_CONFIG),
            (1, ErrorCode::UNKNOWN_SERVER_ERROR),
        ];
        for (iggy, kafka) in table {
            assert_eq!(on_change(code(iggy)), OnChange::Refuse(kafka), "{iggy}");
        }
    }

    #[test]
    fn waits_grow_up_to_their_bound() {
        let mut backoff = Backoff::from(Duration::from_millis(20));
        let waits: Vec<u128> = (0..7).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [20, 40, 80, 160, 320, 500, 500]);
    }
}
