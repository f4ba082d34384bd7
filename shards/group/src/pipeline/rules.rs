//! Which request may start behind which other of its connection.
//!
//! A request starts when nothing before it stands in its way. What stands in its way, by what the earlier
//! request is and how far it got (an answered one stands in nobody's way, also when its response still
//! waits for its turn to be sent):
//!
//! | earlier, not answered        | Produce | Fetch           | Join, Sync, Heartbeat, other | SASL |
//! | ---------------------------- | ------- | --------------- | ---------------------------- | ---- |
//! | Produce, running             | starts  | waits           | waits                        | waits |
//! | Fetch, not started / running | starts  | waits           | waits                        | waits |
//! | Fetch, waiting for records   | starts  | starts, unless of the same session | starts    | waits |
//! | Join or Sync, parked         | starts  | waits           | waits                        | waits |
//! | Join or Sync, otherwise      | waits   | waits           | waits                        | waits |
//! | Heartbeat, other, SASL       | waits   | waits           | waits                        | waits |
//!
//! Why this is all that a client can see:
//!
//! - *Produce behind Produce*: they start in request order, so each partition sees them in that order.
//! - *Produce behind Fetch*: a Fetch may return records that a later Produce of the same connection wrote.
//!   Kafka allows this to any two connections, and no client relies on the contrary; a Produce must not
//!   sit out the time that a Fetch may wait.
//! - *Fetch behind Produce* waits, so a client reads its own writes.
//! - *Produce behind a parked Join or Sync*: a group and a partition share nothing. It waits until the
//!   request has parked, since before that the answer may be an error that comes at once.
//! - *Anything behind a waiting Fetch*: a Fetch changes nothing but its session, and what it waits for is
//!   by definition in the future. Fetches of one session carry its epochs and so take turns. A Fetch that
//!   is in no session waits for no other Fetch that waits.
//! - *SASL* starts alone and nothing is read behind it: who the client is, and even how its next bytes are
//!   framed, depends on the answer.

/// What the rules need to know of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestKind {
    /// Produce, with any acks.
    Produce,
    /// Fetch.
    Fetch {
        /// The fetch session that it continues; `None` when it is in none or asks for a new one.
        session: Option<i32>,
    },
    /// JoinGroup or SyncGroup: may be parked with the coordinator.
    JoinOrSync,
    /// The classic protocol's Heartbeat.
    Heartbeat,
    /// SaslHandshake or SaslAuthenticate.
    Sasl,
    /// Everything else.
    Other,
}

impl RequestKind {
    /// Whether such a request may wait for something outside of itself, so that
    /// [`Pipeline::handle_waiting`](super::Pipeline::handle_waiting) means something for it.
    pub fn may_wait(self) -> bool {
        matches!(self, RequestKind::Fetch { .. } | RequestKind::JoinOrSync)
    }

    /// In whose way such a request stands once it has started and until it is answered.
    pub(super) fn stands_in_the_way_of(self, waiting: bool) -> Blocks {
        match (self, waiting) {
            (RequestKind::Fetch { .. }, true) => Blocks::SameSession,
            (RequestKind::Produce | RequestKind::Fetch { .. }, _) | (RequestKind::JoinOrSync, true) => {
                Blocks::AllButProduce
            }
            (RequestKind::JoinOrSync | RequestKind::Heartbeat | RequestKind::Sasl | RequestKind::Other, _) => {
                Blocks::Everything
            }
        }
    }
}

/// In whose way a started request stands. SASL waits for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blocks {
    /// Everything behind it.
    Everything,
    /// Everything but Produce.
    AllButProduce,
    /// Fetches of its session.
    SameSession,
}
