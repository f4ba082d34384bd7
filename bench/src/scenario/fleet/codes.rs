//! Kafka's error codes that members do something about.

pub(super) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(super) const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub(super) const NOT_COORDINATOR: i16 = 16;
pub(super) const ILLEGAL_GENERATION: i16 = 22;
pub(super) const UNKNOWN_MEMBER_ID: i16 = 25;
pub(super) const REBALANCE_IN_PROGRESS: i16 = 27;
pub(super) const MEMBER_ID_REQUIRED: i16 = 79;
pub(super) const FENCED_INSTANCE_ID: i16 = 82;
pub(super) const FENCED_MEMBER_EPOCH: i16 = 110;
pub(super) const UNRELEASED_INSTANCE_ID: i16 = 111;
