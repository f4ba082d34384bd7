//! What is due when: one heap for all members of an executor.
//!
//! A wheel's ticks would be as long as what is measured, so times are exact. A timer is never taken back: whoever
//! it belongs to compares the moment when it comes up with the one it waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since the fleet began.
pub type Nanos = u64;

/// Timers by when they are due; of those due at the same time in the order of `T`.
#[derive(Debug)]
pub struct Timers<T: Ord>(BinaryHeap<Reverse<(Nanos, T)>>);

impl<T: Ord> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers(BinaryHeap::new())
    }
}

impl<T: Ord> Timers<T> {
    /// Sets one.
    pub fn set(&mut self, at: Nanos, what: T) {
        self.0.push(Reverse((at, what)));
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Nanos> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// One that is due, and the moment it was due.
    pub fn due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(due)| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_up_in_order_and_not_early() {
        let mut timers = Timers::default();
        for (at, what) in [(30, 'c'), (10, 'a'), (20, 'b')] {
            timers.set(at, what);
        }
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.due(25), Some((10, 'a')));
        assert_eq!(timers.due(25), Some((20, 'b')));
        assert_eq!(timers.due(25), None);
    }
}
