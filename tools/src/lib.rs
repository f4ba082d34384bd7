//! What `ringgate groups` and `ringgate topics` do: the daily questions about a cluster, over the Kafka protocol.
//!
//! Nothing here knows the gateway: any broker that speaks Kafka's protocol is asked the same way. [`cli`] says what may
//! be asked, [`run()`] carries it out. [`cluster`] finds who is to be asked, and asks again what passes; [`offsets`]
//! reads what is committed and where logs begin and end. What must stay true: what changes something does so only with
//! `--execute`; requests hold many groups or partitions each, of which a bounded number is out at a time; one that fails
//! does not keep the others from being told, and makes the exit code 1.

pub mod cli;
pub mod cluster;
mod group;
mod groups;
pub mod limits;
pub mod offsets;
mod output;
mod run;
mod topics;

pub use run::{Ended, run};
