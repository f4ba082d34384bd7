//! Which limits the clients of a shard have met, and how often: `ringgate_limit_hit_total`. Those that owners
//! of groups and partitions keep are counted there.

use std::cell::Cell;

macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident $name:literal;)*) => {
        /// A limit of the front of house, by its setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Limit { $($(#[$doc])* $limit),* }

        const NAMES: &[&str] = &[$($name),*];
    };
}

limits! {
    /// Connections of the gateway: one was turned away.
    MaxConnections "max_connections";
    /// Connections of an address: one was turned away.
    MaxConnectionsPerIp "max_connections_per_ip";
    /// Descriptors that partitions need, too: a connection was turned away.
    OpenFiles "open_files";
    /// A frame was too large: its connection closed.
    MaxFrameSize "max_frame_size";
    /// A frame took too long: its connection closed.
    FrameTimeout "frame_timeout";
    /// Nothing came for too long: the connection closed.
    IdleTimeout "idle_timeout";
    /// Answers were not read for too long: the connection closed.
    SendTimeout "send_timeout";
    /// A request's counts would decode to too much: its connection closed.
    MaxDecodedBytes "max_decoded_bytes";
    /// A topic was refused, or partitions for it.
    MaxPartitionsPerTopic "max_partitions_per_topic";
    /// A Fetch that asked for more was cut to it.
    MaxFetchBytes "max_fetch_bytes";
    /// A Fetch that wanted to wait longer was cut to it.
    MaxFetchWait "max_fetch_wait";
    /// A change named too many settings of one resource.
    AlteredSettings "altered_settings";
    /// A connection was not read from because of its own unanswered requests.
    MaxRequestsInFlight "max_requests_in_flight";
    /// A connection was not read from, or a Fetch was answered with one batch, because of the bytes that
    /// all connections of the shard have unanswered or unread.
    MaxInFlightBytes "max_in_flight_bytes";
    /// A connection was not read from because another shard's mailbox was full.
    MailboxCapacity "mailbox_capacity";
    /// An Iggy link was not read from because of its own unanswered requests.
    IggyRequestsPerLink "iggy_requests_per_link";
    /// A poll of an Iggy client could not wait for messages: too many wait.
    IggyWaiting "iggy_waiting_polls";
    /// A client could not sign in to the Iggy listener: too many others wait for their password to be checked.
    IggySignInsWaiting "iggy_sign_ins_waiting";
    /// A client could not sign in to the Iggy listener: there are as many sessions as there may be.
    IggySessions "iggy_sessions";
    /// A client could not sign in to the Iggy listener, or a change was refused: this start has no numbers left.
    IggyOperations "iggy_operations_per_start";
}

impl Limit {
    /// The setting's name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// How often each limit was met.
#[derive(Default)]
pub struct LimitHits([Cell<u64>; NAMES.len()]);

impl LimitHits {
    /// It was met once more.
    pub fn count(&self, limit: Limit) {
        let count = &self.0[limit as usize];
        count.set(count.get() + 1);
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().zip(&self.0).map(|(name, count)| (*name, count.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::find;

    #[test]
    fn limits_are_counted_by_the_names_of_their_settings() {
        let hits = LimitHits::default();
        assert!(hits.iter().all(|(_, count)| count == 0));
        hits.count(Limit::MaxConnections);
        hits.count(Limit::MailboxCapacity);
        hits.count(Limit::MailboxCapacity);
        let met: Vec<_> = hits.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(met, [("max_connections", 1), ("mailbox_capacity", 2)]);
        // Open files are the system's limit, the others are constants of the gateway's own.
        let constant = |name: &str| name.starts_with("iggy_") || ["open_files", "altered_settings"].contains(&name);
        let known = |name: &str| constant(name) || find(name).is_some();
        assert!(NAMES.iter().all(|name| known(name)), "{NAMES:?}");
    }
}
