//! How many lines a shard may log about its connections: a client that comes back at once each time must not
//! fill the disk, nor push everybody else's lines out of the queue.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A bound on lines per period.
pub struct LogBudget {
    most: u64,
    period: Duration,
    began: Cell<Option<Instant>>,
    lines: Cell<u64>,
}

/// Whether a line may be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It may.
    Written {
        /// With the first line of a period: how many were left out in the one before, if any.
        left_out: Option<u64>,
    },
    /// It is one too many.
    LeftOut,
}

impl LogBudget {
    /// At most `most` lines in a period.
    pub fn new(most: u64, period: Duration) -> LogBudget {
        LogBudget { most, period, began: Cell::new(None), lines: Cell::new(0) }
    }

    /// What becomes of a line now.
    pub fn line(&self, now: Instant) -> Line {
        let begins = self.began.get().is_none_or(|began| now.duration_since(began) >= self.period);
        let mut left_out = 0;
        if begins {
            self.began.set(Some(now));
            left_out = self.lines.replace(0).saturating_sub(self.most);
        }
        self.lines.set(self.lines.get() + 1);
        if self.lines.get() > self.most {
            return Line::LeftOut;
        }
        Line::Written { left_out: (left_out > 0).then_some(left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_bound_are_left_out_and_counted_with_the_next_that_is_written() {
        let second = Duration::from_secs(1);
        let written = |left_out| Line::Written { left_out };
        let budget = LogBudget::new(2, second);
        let start = Instant::now();
        let lines: Vec<_> = (0..5).map(|_| budget.line(start)).collect();
        assert_eq!(lines, [written(None), written(None), Line::LeftOut, Line::LeftOut, Line::LeftOut]);
        assert_eq!(budget.line(start + second), written(Some(3)));
        assert_eq!(budget.line(start + second), written(None));
        assert_eq!(budget.line(start + second), Line::LeftOut);
        assert_eq!(budget.line(start + 3 * second), written(Some(1)));
        assert_eq!(budget.line(start + 5 * second), written(None), "nothing was left out");
    }
}
