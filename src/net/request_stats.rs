//! What became of a shard's requests, by API: how many were read, how long their answers took, and which of Kafka's
//! errors they carried.

use std::cell::RefCell;
use std::time::Instant;

use ringgate_group::Histogram;
use ringgate_wire::versions::{SERVED, position};

use crate::api::ErrorCounts;

/// A request of which only the answer is still to come.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Among the rows of [`RequestStats`].
    api: u8,
    /// When its frame had been read whole.
    at: Instant,
}

/// Requests of one API.
#[derive(Debug, Clone)]
pub struct ApiStats {
    /// Kafka's name of the API; `unknown` for all that are not served together.
    pub api: &'static str,
    /// Requests that were read.
    pub read: u64,
    /// Those that closed their connection in the place of an answer.
    pub closed: u64,
    /// From the frame read whole to the answer handed to the socket, or to the end of what has no answer.
    pub took: Histogram,
    /// How often each of Kafka's codes but 0 was in an answer, as [`ErrorCounts`] counts them.
    pub errors: ErrorCounts,
}

/// Requests of all connections of a shard.
pub struct RequestStats {
    /// In the order of [`SERVED`], and one for what is not served.
    apis: RefCell<Vec<ApiStats>>,
    /// The answers that are about to be handed to a socket.
    leaving: RefCell<Vec<Asked>>,
}

impl Default for RequestStats {
    fn default() -> RequestStats {
        let names = SERVED.iter().map(|served| served.name).chain(["unknown"]);
        let stats =
            |api| ApiStats { api, read: 0, closed: 0, took: Histogram::of_times(), errors: ErrorCounts::default() };
        RequestStats { apis: RefCell::new(names.map(stats).collect()), leaving: RefCell::default() }
    }
}

impl RequestStats {
    /// A request's frame is there whole.
    pub fn read(&self, api_key: i16, at: Instant) -> Asked {
        let api = row(api_key);
        self.apis.borrow_mut()[api].read += 1;
        Asked { api: api as u8, at }
    }

    /// An answer carries these errors.
    pub fn errors(&self, api_key: i16, errors: ErrorCounts) {
        if !errors.is_empty() {
            self.apis.borrow_mut()[row(api_key)].errors.add(errors);
        }
    }

    /// A request closed its connection in the place of an answer.
    pub fn closed(&self, asked: Asked) {
        self.apis.borrow_mut()[usize::from(asked.api)].closed += 1;
    }

    /// A request that has no answer is done.
    pub fn done(&self, asked: Asked) {
        self.took(asked, Instant::now());
    }

    /// No answer is about to leave.
    pub fn none_leaving(&self) {
        self.leaving.borrow_mut().clear();
    }

    /// An answer is about to be handed to the socket.
    pub fn leaving(&self, asked: Asked) {
        self.leaving.borrow_mut().push(asked);
    }

    /// All that were [`leaving`](RequestStats::leaving) are.
    pub fn left(&self) {
        let now = Instant::now();
        for asked in self.leaving.borrow_mut().drain(..) {
            self.took(asked, now);
        }
    }

    fn took(&self, asked: Asked, now: Instant) {
        let took = now.saturating_duration_since(asked.at);
        self.apis.borrow_mut()[usize::from(asked.api)].took.record_time(took);
    }

    /// Of the APIs that were asked for at all.
    pub fn report(&self) -> Vec<ApiStats> {
        self.apis.borrow().iter().filter(|api| api.read > 0).cloned().collect()
    }
}

fn row(api_key: i16) -> usize {
    position(api_key).unwrap_or(SERVED.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_are_counted_by_their_api_and_what_is_not_served_together() {
        let stats = RequestStats::default();
        let long_ago = Instant::now() - Duration::from_secs(3);
        let heartbeat = stats.read(12, long_ago);
        for unknown in [7, 999, -1, i16::MIN, i16::MAX] {
            stats.closed(stats.read(unknown, long_ago));
        }
        stats.leaving(heartbeat);
        stats.left();
        stats.left();
        stats.leaving(heartbeat);
        stats.none_leaving();
        stats.left();
        stats.done(stats.read(0, long_ago));

        let report = stats.report();
        let told: Vec<_> = report.iter().map(|api| (api.api, api.read, api.closed, api.took.count())).collect();
        assert_eq!(told, [("Produce", 1, 0, 1), ("Heartbeat", 1, 0, 1), ("unknown", 5, 5, 0)]);
        assert!(report[1].took.sum() >= 3.0, "from the frame to the socket");
    }
}
