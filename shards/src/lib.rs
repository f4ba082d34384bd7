//! Back of house: what a shard owns, and its store.
//!
//! A shard is one thread. It owns some partitions, some groups and the connections that it accepted, and
//! nobody else touches them: what another shard owns is asked for with [`Shard::submit_to`]. No lock and no
//! shared map lies on the path of a request. A panic here ends the process, which the store survives.

pub mod call;
pub mod catalogue;
pub mod clock;
pub mod controller;
mod file_times;
mod groups;
mod hops;
pub mod iggy_code;
pub mod limits;
mod log_driver;
mod mailbox;
mod meeting;
pub mod metrics;
pub mod op_counter;
pub mod open_files;
mod partitions;
mod pending;
mod producer_ids;
pub mod request_window;
pub mod settings;
mod shard;
pub mod start;
pub mod store;
pub mod timer_wheel;
pub mod timers;
pub mod topic_config;
pub mod turn;
pub mod waiters;
pub mod watches;
pub mod watching;

pub use groups::describe;
pub use mailbox::Mailroom;
pub use pending::Pending;
pub use shard::{Shard, ShardHandle};
