//! A producer as Kafka's own is: it gathers records per partition, sends batches to leaders, and sends again what a
//! server could not take.
//!
//! [`Producer::offer`] takes a record at its moment; the record's latency counts from there, so also while it waits for
//! others, for room on the connection, or for a new leader. On a closed loop the producer makes records itself whenever
//! there is room. What must stay true: batches of a partition go out in order, also again; every record that was offered
//! ends as acknowledged, failed or unsent, and counts with the time that took.

mod content;
mod outcome;
mod queue;
mod recover;
mod request;
mod sender;

pub use content::{Content, Due, Values};
pub use outcome::passes;
pub use queue::{Batch, Batching};
pub use request::TopicRef;
pub use sender::{Acks, Producer, Settings, Totals};
