//! A consumer as Kafka's own is: a connection to each leader, one Fetch out on each, sessions (KIP-227).
//!
//! [`Consumer`] reads partitions that it was given from their start, and hands whole batches to a [`Sink`] in offset order. What
//! must stay true: no batch is handed over twice or left out, whatever leaders and connections do meanwhile; record
//! bytes are not copied.

mod fetcher;
mod offsets;
mod session;

pub use fetcher::{Consumer, Names, Settings, Sink, Stats, Verify};
pub use offsets::end_offsets;
