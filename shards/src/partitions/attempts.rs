//! Requests of Iggy's sessions that changed partitions of this shard, and what they were answered: a client that has
//! lost its link sends them once more, and they are not carried out twice.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use crate::call::{Attempt, ConsumerOffset, IggyRefusal, SentBatch, TopicPartition};
use crate::iggy_code::IggyCode;
use crate::limits::{ATTEMPT_LANES_MAX, ATTEMPTS_PER_LANE_MAX};
use crate::request_window::{self, RequestWindow};

/// What was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// A batch of messages was appended.
    Sent(SentBatch),
    /// An offset was stored or deleted.
    Offset(ConsumerOffset),
}

/// A session's requests to one partition.
struct Lane {
    window: RequestWindow<Applied>,
    used: u64,
}

type Key = (u64, TopicPartition);

/// The requests of all sessions.
pub(crate) struct Attempts {
    lanes: RefCell<BTreeMap<Key, Lane>>,
    /// The lanes by when they were used last.
    by_use: RefCell<BTreeMap<u64, Key>>,
    uses: Cell<u64>,
    /// Of sessions that had lanes which made room for others: the newest request of those lanes.
    forgotten: RefCell<HashMap<u64, u64>>,
    most: usize,
    /// How often a lane made room.
    crowded_out: Cell<u64>,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts {
            lanes: RefCell::default(),
            by_use: RefCell::default(),
            uses: Cell::new(0),
            forgotten: RefCell::default(),
            most: ATTEMPT_LANES_MAX,
            crowded_out: Cell::new(0),
        }
    }
}

impl Attempts {
    /// A request has come: `None` when it is to be carried out, which ends with [`Attempts::end`].
    ///
    /// # Errors
    /// `TransientNotCommitted(57)`: it is being carried out. `RequestTooOld(85)`: nobody knows any more.
    pub(super) fn begin(&self, at: TopicPartition, attempt: Attempt) -> Result<Option<Applied>, IggyRefusal> {
        let Attempt { session, request } = attempt;
        let key = (session, at);
        let mut lanes = self.lanes.borrow_mut();
        let too_old = || IggyRefusal::new(IggyCode::REQUEST_TOO_OLD, "the request is too old to be known");
        if !lanes.contains_key(&key) {
            if self.forgotten.borrow().get(&session).is_some_and(|newest| request <= *newest) {
                return Err(too_old());
            }
            if lanes.len() >= self.most {
                self.make_room(&mut lanes);
            }
        }
        let lane =
            lanes.entry(key).or_insert_with(|| Lane { window: RequestWindow::new(ATTEMPTS_PER_LANE_MAX), used: 0 });
        let mut by_use = self.by_use.borrow_mut();
        by_use.remove(&lane.used);
        lane.used = self.uses.get() + 1;
        self.uses.set(lane.used);
        by_use.insert(lane.used, key);
        match lane.window.begin(request) {
            request_window::Attempt::First => Ok(None),
            request_window::Attempt::Answered(applied) => Ok(Some(applied)),
            request_window::Attempt::UnderWay => {
                let why = "an earlier attempt of the request is being carried out";
                Err(IggyRefusal::new(IggyCode::TRANSIENT_NOT_COMMITTED, why))
            }
            request_window::Attempt::Forgotten => Err(too_old()),
        }
    }

    /// The limit of lanes, for the metrics.
    pub(crate) fn limit_hit(&self) -> (&'static str, u64) {
        ("iggy_attempt_lanes", self.crowded_out.get())
    }

    /// The lane that was not used for longest goes.
    fn make_room(&self, lanes: &mut BTreeMap<Key, Lane>) {
        let Some((_, key)) = self.by_use.borrow_mut().pop_first() else { return };
        if let Some(lane) = lanes.remove(&key) {
            let mut forgotten = self.forgotten.borrow_mut();
            let newest = forgotten.entry(key.0).or_default();
            *newest = (*newest).max(lane.window.newest());
            self.crowded_out.set(self.crowded_out.get() + 1);
        }
    }

    /// What became of a request; `None`: nothing was changed.
    pub(super) fn end(&self, at: TopicPartition, attempt: Attempt, applied: Option<Applied>) {
        if let Some(lane) = self.lanes.borrow_mut().get_mut(&(attempt.session, at)) {
            lane.window.end(attempt.request, applied);
        }
    }

    /// A session is over.
    pub(crate) fn end_session(&self, session: u64) {
        let first = TopicPartition { topic: Uuid::nil(), partition: i32::MIN };
        let last = TopicPartition { topic: Uuid::max(), partition: i32::MAX };
        let mut lanes = self.lanes.borrow_mut();
        let keys: Vec<Key> = lanes.range((session, first)..=(session, last)).map(|(key, _)| *key).collect();
        let mut by_use = self.by_use.borrow_mut();
        for key in keys {
            if let Some(lane) = lanes.remove(&key) {
                by_use.remove(&lane.used);
            }
        }
        self.forgotten.borrow_mut().remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition { topic: Uuid::from_u128(7), partition }
    }

    fn attempt(session: u64, request: u64) -> Attempt {
        Attempt { session, request }
    }

    const SENT: Applied = Applied::Sent(SentBatch { base_offset: 3, duplicate: false });

    #[test]
    fn a_request_that_comes_again_is_answered_as_before_in_its_session_and_partition_alone() {
        let attempts = Attempts::default();
        assert_eq!(attempts.begin(at(0), attempt(1, 5)), Ok(None));
        let code = |refused: Result<_, IggyRefusal>| refused.unwrap_err().code;
        assert_eq!(code(attempts.begin(at(0), attempt(1, 5))), IggyCode::TRANSIENT_NOT_COMMITTED);
        attempts.end(at(0), attempt(1, 5), Some(SENT));
        assert_eq!(attempts.begin(at(0), attempt(1, 5)), Ok(Some(SENT)));
        assert_eq!(attempts.begin(at(1), attempt(1, 5)), Ok(None));
        assert_eq!(attempts.begin(at(0), attempt(2, 5)), Ok(None));
    }

    #[test]
    fn a_lane_that_made_room_knows_that_it_has_forgotten() {
        let attempts = Attempts { most: 2, ..Attempts::default() };
        for partition in 0..3 {
            let attempt = attempt(1, 10 + partition as u64);
            assert_eq!(attempts.begin(at(partition), attempt), Ok(None));
            attempts.end(at(partition), attempt, Some(SENT));
        }
        assert_eq!(attempts.crowded_out.get(), 1);
        assert_eq!(attempts.begin(at(0), attempt(1, 10)).unwrap_err().code, IggyCode::REQUEST_TOO_OLD);
        assert_eq!(attempts.begin(at(1), attempt(1, 11)), Ok(Some(SENT)));
        assert_eq!(attempts.begin(at(0), attempt(1, 13)), Ok(None), "what is newer was never carried out");
    }

    #[test]
    fn of_a_session_that_is_over_nothing_is_kept() {
        let attempts = Attempts::default();
        for (session, partition) in [(1, 0), (1, 9), (2, 0)] {
            assert_eq!(attempts.begin(at(partition), attempt(session, 1)), Ok(None));
            attempts.end(at(partition), attempt(session, 1), Some(SENT));
        }
        attempts.end_session(1);
        assert_eq!((attempts.lanes.borrow().len(), attempts.by_use.borrow().len()), (1, 1));
        assert_eq!(attempts.begin(at(0), attempt(2, 1)), Ok(Some(SENT)));
    }
}
