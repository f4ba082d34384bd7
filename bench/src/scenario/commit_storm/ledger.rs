//! What a member's committed offset may be.

use std::fmt;

/// Offsets that were sent and got no answer, or an error: as many as are told apart.
const UNSURE_MAX: usize = 64;

/// The commits of one member: every partition of it gets the same offsets, each higher than the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    sent: i64,
    /// The last that was acknowledged; -1 before the first, as OffsetFetch has it.
    acknowledged: i64,
    /// Sent and not acknowledged: stored or not, and perhaps later than what was sent behind it on another connection.
    unsure: Vec<i64>,
    /// There were more of those than are told apart.
    overflowed: bool,
}

/// A committed offset that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// An acknowledged commit is lost.
    Stale {
        /// What was acknowledged.
        acknowledged: i64,
    },
    /// Nobody committed it.
    NeverSent,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Stale { acknowledged } => write!(f, "{acknowledged} had been acknowledged"),
            Wrong::NeverSent => write!(f, "nobody had sent that"),
        }
    }
}

impl Ledger {
    /// Nothing committed.
    pub fn new() -> Ledger {
        Ledger { sent: -1, acknowledged: -1, unsure: Vec::new(), overflowed: false }
    }

    /// The offset to commit next.
    pub fn next(&mut self) -> i64 {
        self.sent += 1;
        self.sent
    }

    /// It was acknowledged.
    pub fn acknowledge(&mut self, offset: i64) {
        self.acknowledged = self.acknowledged.max(offset);
    }

    /// It has no answer, or an error, which does not say whether it is stored.
    pub fn unsure(&mut self, offset: i64) {
        if self.unsure.len() < UNSURE_MAX {
            self.unsure.push(offset);
        } else {
            self.overflowed = true;
        }
    }

    /// Judges what OffsetFetch gives while no commit is out.
    pub fn judge(&self, found: i64) -> Result<(), Wrong> {
        if found == self.acknowledged || self.unsure.contains(&found) {
            return Ok(());
        }
        // Those beyond the ones told apart were sent later than them.
        let first = self.unsure.last().copied().unwrap_or(i64::MAX);
        if self.overflowed && found > first && found <= self.sent {
            return Ok(());
        }
        Err(if (-1..self.acknowledged).contains(&found) {
            Wrong::Stale { acknowledged: self.acknowledged }
        } else {
            Wrong::NeverSent
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_acknowledged_is_right_and_what_was_before_it_is_stale() {
        let mut ledger = Ledger::new();
        assert_eq!(ledger.judge(-1), Ok(()));
        assert_eq!(ledger.judge(0), Err(Wrong::NeverSent));
        for expected in 0..3 {
            let offset = ledger.next();
            assert_eq!(offset, expected);
            ledger.acknowledge(offset);
        }
        assert_eq!(ledger.judge(2), Ok(()));
        assert_eq!(ledger.judge(1), Err(Wrong::Stale { acknowledged: 2 }));
        assert_eq!(ledger.judge(-1), Err(Wrong::Stale { acknowledged: 2 }));
        assert_eq!(ledger.judge(3), Err(Wrong::NeverSent));
        assert_eq!(ledger.judge(-2), Err(Wrong::NeverSent));
    }

    #[test]
    fn what_has_no_answer_may_be_stored_or_not() {
        let mut ledger = Ledger::new();
        let first = ledger.next();
        ledger.acknowledge(first);
        let second = ledger.next();
        ledger.unsure(second);
        assert_eq!((ledger.judge(first), ledger.judge(second)), (Ok(()), Ok(())));
        let third = ledger.next();
        ledger.acknowledge(third);
        assert_eq!((ledger.judge(second), ledger.judge(third)), (Ok(()), Ok(())));
        assert_eq!(ledger.judge(first), Err(Wrong::Stale { acknowledged: third }));
    }

    #[test]
    fn too_many_to_tell_apart_are_taken_for_any_of_them() {
        let mut ledger = Ledger::new();
        for _ in 0..=UNSURE_MAX + 5 {
            let offset = ledger.next();
            ledger.unsure(offset);
        }
        assert_eq!(ledger.judge(UNSURE_MAX as i64 + 3), Ok(()));
        assert_eq!(ledger.judge(UNSURE_MAX as i64 + 6), Err(Wrong::NeverSent));
    }
}
