//! The schedules of members: what was due, what was sent late, and what never was.

use std::time::{Duration, Instant};

use ringgate_client::CallError;

use super::driver::{Due, Fleet};
use super::inbox::{Ask, Asked};
use super::member::State;
use super::operations::record_none;
use super::plan::Protocol;
use super::timers::Nanos;
use crate::engine::{OTHER_SLOTS, OTHER_UNSENT, SLOTS, UNSENT};
use crate::measure::SeriesId;

/// What is left of a member's schedule.
struct Left {
    /// The next slot.
    due: Nanos,
    /// It came up already, and waits.
    waits: bool,
    /// `None` in a closed loop, which has no further ones.
    every: Option<Duration>,
    slots: &'static str,
    unsent: &'static str,
    rt: SeriesId,
}

impl Fleet {
    /// A slot of a member's schedule came up. What is late because of the target is not the generator's lateness.
    pub(super) fn slot(&mut self, at: Nanos, counter: &'static str, sent: bool) {
        let intended = self.instant(at);
        self.recorder.count(counter, intended, 1);
        if sent {
            self.recorder.record(self.operations.lateness, intended, intended.elapsed());
        }
    }

    /// The next interval between a member's requests of a kind.
    pub(super) fn interval(&mut self, mean: Duration) -> Nanos {
        let vary = 1.0 + self.plan.hb_jitter * (2.0 * self.random.unit() - 1.0);
        ((mean.as_nanos() as f64 * vary) as Nanos).max(1)
    }

    /// The moment of a member's commit that is sent now; the next one's is set.
    pub(super) fn next_commit(&mut self, member: u32) -> Instant {
        let Some(mean) = self.plan.commit_interval else { return Instant::now() };
        let interval = self.interval(mean);
        let row = &mut self.members[member as usize];
        let intended = row.next_commit;
        row.next_commit += interval;
        let (next, life) = (row.next_commit, row.life);
        self.timers.set(next, Due::Commit(member, life));
        self.instant(intended)
    }

    /// The schedule has ended: heartbeats and commits that were due and are not sent, since the target has not answered
    /// the one before, count with the time that they waited, which is less than they would have taken. These are all slots
    /// until the end, for a member's next slot comes up only when the last was sent.
    pub(super) fn give_up_slots(&mut self, ended: Instant) {
        self.stable_at_end = self.groups.iter().filter(|place| place.group.is_stable()).count();
        let ended = self.nanos(self.window.map_or(ended, |window| ended.min(window.end)));
        for member in 0..self.members.len() {
            let row = &self.members[member];
            if row.state != State::Stable {
                continue;
            }
            let heartbeats = Left {
                due: row.next_heartbeat,
                waits: row.heartbeat_waits,
                every: (!self.plan.closed).then_some(self.plan.hb_interval),
                slots: SLOTS,
                unsent: UNSENT,
                rt: self.operations.heartbeat.rt,
            };
            let commits = Left {
                due: row.next_commit,
                waits: row.commit_waits,
                every: self.plan.commit_interval,
                slots: OTHER_SLOTS,
                unsent: OTHER_UNSENT,
                rt: self.operations.commit.rt,
            };
            // Who owns nothing has nothing to commit.
            let commits = (self.plan.commit_interval.is_some() && !row.assignment.is_empty()).then_some(commits);
            for left in std::iter::once(heartbeats).chain(commits) {
                self.never_sent(left, ended);
            }
        }
    }

    fn never_sent(&mut self, left: Left, ended: Nanos) {
        let Left { mut due, mut waits, every, slots, unsent, rt } = left;
        // In a closed loop there is a slot only where one waits.
        while due < ended && (waits || every.is_some()) {
            let intended = self.instant(due);
            if !std::mem::take(&mut waits) {
                self.recorder.count(slots, intended, 1);
            }
            self.recorder.count(unsent, intended, 1);
            self.recorder.record_unanswered(rt, intended, Duration::from_nanos(ended - due));
            let Some(every) = every else { return };
            due += self.interval(every);
        }
    }

    /// What is out is waited for no longer: it timed out, and has a latency. But joins of a classic group may be waiting for
    /// its members: they are given up with the `last`.
    pub(super) fn give_up_outstanding(&mut self, last: bool) {
        let known = Instant::now();
        let classic = self.plan.protocol == Protocol::Classic;
        for asked in self.out.give_up(|asked| last || !(classic && asked.what == Ask::Join)) {
            let Asked { what, intended, .. } = asked;
            let (operation, at) = match what {
                Ask::Join => (&self.operations.join, self.measured(intended)),
                Ask::Sync => (&self.operations.sync, self.measured(intended)),
                Ask::Heartbeat => (&self.operations.heartbeat, intended),
                Ask::ExtraHeartbeat => (&self.operations.extra_heartbeat, self.measured(intended)),
                Ask::Commit => (&self.operations.commit, intended),
                Ask::Leave => (&self.operations.leave, self.measured(intended)),
                Ask::Fetch(_) => (&self.operations.fetch, intended),
            };
            record_none(&self.recorder, operation, &asked, &CallError::TimedOut, at, known);
        }
    }
}
