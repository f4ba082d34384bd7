//! Members that vanished without a word: the coordinator has them until their sessions end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kafka_protocol::protocol::StrBytes;

use super::plan::{Plan, Protocol};
use crate::limits::CONSUMER_SESSION_MAX;

/// Ids of a group's members that vanished so lately that they may be members still.
pub(super) struct Vanished {
    /// The oldest first.
    ids: VecDeque<(Instant, StrBytes)>,
    /// How long they may be members.
    stays: Duration,
}

impl Vanished {
    /// Nobody yet.
    pub fn new(plan: &Plan) -> Vanished {
        // One that waits for a join has no session that could end: the rebalance comes first.
        let classic = plan.session_timeout + plan.rebalance_timeout;
        let stays = match plan.protocol {
            Protocol::Classic => classic,
            Protocol::Consumer => classic.max(CONSUMER_SESSION_MAX),
        };
        Vanished { ids: VecDeque::new(), stays }
    }

    /// One more.
    pub fn add(&mut self, id: StrBytes, now: Instant) {
        self.forget(now);
        self.ids.push_back((now, id));
    }

    /// All who may be members now; they are to leave.
    pub fn take(&mut self, now: Instant) -> Vec<StrBytes> {
        self.forget(now);
        self.ids.drain(..).map(|(_, id)| id).collect()
    }

    fn forget(&mut self, now: Instant) {
        while self.ids.pop_front_if(|(since, _)| now.saturating_duration_since(*since) > self.stays).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Flags;
    use super::*;

    #[test]
    fn only_those_are_kept_whose_sessions_may_not_have_ended() {
        let flags = |protocol| Flags {
            protocol,
            session_timeout: "6s".into(),
            rebalance_timeout: "10s".into(),
            ..Flags::default()
        };
        let began = Instant::now();
        let at = |s| began + Duration::from_secs(s);
        for (protocol, stays) in [(Protocol::Classic, 16), (Protocol::Consumer, 60)] {
            let mut vanished = Vanished::new(&Plan::new(flags(protocol)).unwrap());
            vanished.add(StrBytes::from_static_str("a"), at(0));
            vanished.add(StrBytes::from_static_str("b"), at(1));
            vanished.add(StrBytes::from_static_str("c"), at(stays + 1));
            assert_eq!(vanished.ids.len(), 2, "{protocol:?}");
            assert_eq!(vanished.take(at(stays + 2)), [StrBytes::from_static_str("c")], "{protocol:?}");
            assert!(vanished.take(at(stays + 2)).is_empty(), "they were told to leave");
        }
    }
}
