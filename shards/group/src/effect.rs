//! What a coordinator takes in besides requests, and what it wants done.

use std::sync::Arc;

use crate::assignor::{Assigning, Assignor};
use crate::topics::Topics;
use crate::{ErrorCode, Record, Response, Text};

/// The two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Monotonic ms, for timers.
    pub mono_ms: u64,
    /// Ms since the epoch, for what is stored.
    pub wall_ms: i64,
}

/// The caller's name for one request; comes back in [`Effect::Reply`] exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyToken(pub u64);

/// A client connection, unique in the gateway's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// One write; ids grow by one with each, and completions of one key come in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersistId(pub u64);

/// A timer. Never used again for anything else: a timer that fires late finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimerKey {
    /// A member's session.
    Session {
        /// Slot of the group.
        group: u32,
        /// Slot of the member in it.
        member: u32,
        /// Tells one user of the slots from the next.
        uid: u64,
    },
    /// A member id that was given out and has not joined yet.
    Pending {
        /// Slot of the group.
        group: u32,
        /// Which of its ids.
        uid: u64,
    },
    /// A member of a consumer group has to give partitions back.
    Revocation {
        /// Slot of the group.
        group: u32,
        /// Slot of the member in it.
        member: u32,
        /// Tells one user of the slots from the next.
        uid: u64,
    },
    /// The group waits for its members to join.
    Join {
        /// Slot of the group.
        group: u32,
        /// Tells one group in the slot from the next.
        uid: u64,
    },
    /// The group waits for its members to sync.
    Sync {
        /// Slot of the group.
        group: u32,
        /// Tells one group in the slot from the next.
        uid: u64,
    },
}

/// What a coordinator wants done.
#[derive(Debug)]
pub enum Effect {
    /// Answer a request.
    Reply {
        /// Which.
        token: crate::ReplyToken,
        /// With what.
        response: Response,
    },
    /// Write records as one unit, after those of earlier ids, and report with
    /// [`Coordinator::handle_persisted`](crate::Coordinator::handle_persisted).
    Persist {
        /// Which write.
        id: PersistId,
        /// What.
        records: Vec<Record>,
    },
    /// Call [`Coordinator::handle_timer`](crate::Coordinator::handle_timer) at this time, and no longer at
    /// any that was set before.
    ArmTimer {
        /// Which.
        key: TimerKey,
        /// When, in monotonic ms.
        deadline_ms: u64,
    },
    /// Forget the timer.
    CancelTimer {
        /// Which.
        key: TimerKey,
    },
    /// Have an assignor compute this, away from the shard, and report with
    /// [`Coordinator::handle_assignment_computed`](crate::Coordinator::handle_assignment_computed).
    ComputeAssignment {
        /// Slot of the group.
        group: u32,
        /// Tells one group in the slot from the next.
        uid: u64,
        /// Which assignor.
        assignor: Assignor,
        /// What it has to go by.
        question: Box<Assigning>,
        /// Goes back with the answer.
        asked: Vec<(u32, u64)>,
    },
    /// Call [`resolve_regexes`](crate::resolve_regexes), away from the shard, and report with
    /// [`Coordinator::handle_regex_resolved`](crate::Coordinator::handle_regex_resolved).
    ResolveRegex {
        /// Slot of the group.
        group: u32,
        /// Tells one group in the slot from the next.
        uid: u64,
        /// The patterns.
        patterns: Vec<Text>,
        /// Against which topics.
        topics: Arc<dyn Topics>,
    },
    /// Nothing: a few microseconds were spent inside a large group. Here to let the caller count them.
    Worked,
}

/// Why a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or its log is closed.
    #[error("the store is not available")]
    Unavailable,
    /// Somebody else owns the group's records now.
    #[error("the store belongs to another coordinator")]
    NotOwner,
    /// The record is larger than the store takes.
    #[error("the record is too large for the store")]
    TooLarge,
    /// The store does not take it, and would not if asked again.
    #[error("the store refuses the write: {}", .0.name())]
    Refused(ErrorCode),
}

impl StoreError {
    /// The code that a request answers with whose write failed (Kafka's remapping of append errors).
    pub fn code(self) -> ErrorCode {
        match self {
            StoreError::Unavailable => ErrorCode::COORDINATOR_NOT_AVAILABLE,
            StoreError::NotOwner => ErrorCode::NOT_COORDINATOR,
            StoreError::TooLarge => ErrorCode::UNKNOWN_SERVER_ERROR,
            StoreError::Refused(error) => error,
        }
    }
}
