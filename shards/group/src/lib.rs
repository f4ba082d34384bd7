//! The group coordinator, routing and flow control of ringgate as pure values: no I/O, no clock,
//! no runtime.
//!
//! [`coordinator`] is one shard's groups, a state machine fed with requests, timers and completions;
//! [`batch`] gathers what it wants kept; [`record`] is how that looks in the store; [`pipeline`] orders the
//! requests of one connection; [`mailbox`] is the flow control between shards; [`route`] says which shard owns what;
//! [`histogram`] counts what all of them took. What must stay true: every request is answered exactly once, and nothing
//! is answered as kept before the store says that it is.

pub mod assignor;
pub mod batch;
pub mod coordinator;
mod effect;
pub mod error;
pub mod histogram;
pub mod limits;
pub mod mailbox;
mod partition_set;
pub mod pieced;
pub mod pipeline;
pub mod record;
pub mod request;
pub mod response;
pub mod route;
mod text;
mod topics;

pub use batch::{Batch, Batcher, Written};
pub use coordinator::{
    Coordinator, DeletedTopic, Departure, GroupStats, MemberState, Rebalances, ResolvedRegex, State, SurveyCursor,
    SurveyPage, SurveyedGroup, SurveyedOffset, TopicNames, assigned_partitions, member_visits, resolve_regexes,
};
pub use effect::{ConnectionId, Effect, Now, PersistId, ReplyToken, StoreError, TimerKey};
pub use error::ErrorCode;
pub use histogram::Histogram;
pub use limits::{GroupConfig, MigrationPolicy, Totals};
pub use partition_set::{PartitionSet, TopicIdPartition};
pub use record::Record;
pub use request::Request;
pub use response::Response;
pub use text::Text;
pub use topics::Topics;
