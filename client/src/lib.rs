//! A lean Kafka client on the runtime: what load is sent through, and what `ringgate groups` and `topics` ask with.
//!
//! A [`Target`] is what one executor knows of the system under load: how to connect to it, which versions both
//! sides have, who leads a partition or coordinates a group. A [`Connection`] has one request out at a time and no
//! task of its own; a [`Pipeline`] has many, and one task. What must stay true: nothing a peer sends is allocated
//! for before it is there, every wait is bounded by the request timeout, an answer is matched to its request by
//! the correlation id, and bytes of records are neither copied on the way out nor on the way in.

mod address;
mod admin;
pub mod args;
mod connection;
mod deadlines;
mod error;
pub mod errors;
mod frames;
pub mod limits;
mod link;
mod metadata;
mod options;
mod permits;
mod pipeline;
mod sasl;
mod scram;
mod target;
mod tls;
mod transport;
mod versions;

pub use address::Address;
pub use connection::Connection;
pub use error::{CallError, ClientError};
pub use frames::decode;
pub use link::{Answered, Complete, Link, Submit};
pub use metadata::{Topic, brokers};
pub use options::{Options, Sasl, SaslMechanism, Security, Tls};
pub use permits::{Permit, Permits};
pub use pipeline::{Answer, Pipeline};
pub use target::{Steps, Target};
