//! Numbers for what Iggy's clients are told is a log of operations: the ids of their sessions and of changes of
//! the metadata. Each is above all that were ever given out, whatever happened in between.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers one run of the gateway has.
const RUN_BITS: u32 = 24;

/// The largest number: Iggy's clients make ids of producers from those of sessions and need 20 bits for that.
pub const OPS_MAX: u64 = (1 << 43) - 1;

/// See the module's documentation. Touched only when a session begins or metadata changes.
#[derive(Debug)]
pub struct OpCounter {
    current: AtomicU64,
    last: u64,
}

impl OpCounter {
    /// For the run of a directory that was started so often.
    pub fn of_start(starts: i32) -> OpCounter {
        let first = u64::from(starts.max(0).unsigned_abs()) << RUN_BITS;
        OpCounter { current: AtomicU64::new(first), last: (first | ((1 << RUN_BITS) - 1)).min(OPS_MAX) }
    }

    /// The next number; `None` when this run, or the directory, has none left: a start makes more, up to
    /// [`OPS_MAX`].
    pub fn next(&self) -> Option<u64> {
        let up = |current| if current < self.last { Some(current + 1) } else { None };
        self.current.fetch_update(Ordering::SeqCst, Ordering::SeqCst, up).ok().map(|before| before + 1)
    }

    /// The newest number that was given out in this run, or what is above all of earlier ones.
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_over_starts_and_end_where_those_of_the_next_start_begin() {
        let first = OpCounter::of_start(1);
        assert_eq!((first.current(), first.next(), first.current()), (1 << 24, Some((1 << 24) + 1), (1 << 24) + 1));
        first.current.store((2 << 24) - 2, Ordering::SeqCst);
        assert_eq!((first.next(), first.next()), (Some((2 << 24) - 1), None));
        let second = OpCounter::of_start(2);
        assert!(second.current() > first.current() && second.next() > Some(first.current()));
    }

    #[test]
    fn a_directory_that_was_started_too_often_has_none_left() {
        assert_eq!(OpCounter::of_start(1 << 19).next(), None);
        assert!(OpCounter::of_start((1 << 19) - 1).next().is_some_and(|op| op <= OPS_MAX));
    }
}
