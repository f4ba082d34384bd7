//! Records in an Apache Iggy server or cluster, reached with the `iggy` SDK. Only this directory names it.
//!
//! Each shard has a `Lane`: a thread of its own where the SDK runs, since the SDK needs tokio and a shard is
//! none. A shard hands it a call and awaits the answer; nothing of Iggy is kept on disk. Several SDK clients of a
//! lane share the work (`Clients`): the SDK lets one write per partition and client be in flight.
//!
//! What must stay true: a call has a deadline; what was sent is never dropped on the way, so an operation whose
//! outcome the SDK does not know is resolved or abandoned before the call ends; which of Kafka's codes a failure
//! comes to is chosen in `reaction` and nowhere else.

use std::future::Future;
use std::task::Poll;

mod append;
mod arriving;
mod clients;
mod controller;
mod failure;
mod fetch;
mod groups;
mod lane;
mod limits;
mod open;
mod partition;
mod poll;
pub(crate) mod reaction;
mod read;
mod send;
mod settings;
mod shard;
mod tail;
mod topics;

#[cfg(test)]
mod tests;

pub(crate) use clients::{Clients, Use};
pub(crate) use failure::Failure;
pub(crate) use groups::GroupLog;
pub use groups::OpenGroupsError;
pub(crate) use lane::Lane;
pub use lane::LaneReport;
pub(crate) use open::IggyShard;
pub use open::{IggyLease, OpenIggy, OpenIggyError};
pub(crate) use read::LEADER_EPOCH;
pub use settings::{Credentials, IggySettings, IggyTopic, is_topic_name};
pub(crate) use shard::IggyStore;

/// Waits for all of these at once, and keeps their order.
async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut all = true;
        for (future, output) in &mut waiting {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(it) => *output = Some(it),
                    Poll::Pending => all = false,
                }
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}
