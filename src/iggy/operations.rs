//! Numbers for sessions and changes of metadata.

use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::{OPERATIONS_PER_START, SESSION_ID_BITS};

/// One row of numbers for sessions and changes of metadata, which never repeat: a start of the data directory has
/// a part of its own. Touched when a client signs in or changes something.
pub struct OperationCounter {
    latest: AtomicU64,
    last: u64,
}

impl OperationCounter {
    /// The numbers of the directory's `start`-th start; `None` when there are none for it.
    pub fn of_start(start: u64) -> Option<OperationCounter> {
        let first = start.checked_mul(OPERATIONS_PER_START)?;
        let last = first.checked_add(OPERATIONS_PER_START - 1)?;
        (last >> SESSION_ID_BITS == 0).then(|| OperationCounter { latest: AtomicU64::new(first), last })
    }

    /// The next one; `None` when this start has none left.
    pub fn next(&self) -> Option<u64> {
        let drawn = self.latest.fetch_update(Ordering::AcqRel, Ordering::Acquire, |latest| {
            latest.checked_add(1).filter(|next| *next <= self.last)
        });
        drawn.ok().map(|before| before + 1)
    }

    /// The one that was given out last.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_later_start_are_above_all_of_the_one_before() {
        let before = OperationCounter::of_start(6).unwrap();
        let drawn: Vec<u64> = (0..3).filter_map(|_| before.next()).collect();
        assert_eq!(drawn, [6 << 24 | 1, 6 << 24 | 2, 6 << 24 | 3]);
        assert_eq!(before.latest(), drawn[2]);
        assert!(OperationCounter::of_start(7).unwrap().next() > Some(before.last));
    }

    #[test]
    fn a_start_without_numbers_left_gives_none_out() {
        let counter = OperationCounter { latest: AtomicU64::new(41), last: 42 };
        assert_eq!((counter.next(), counter.next(), counter.latest()), (Some(42), None, 42));
    }

    #[test]
    fn session_ids_stay_below_what_the_sdk_makes_producer_ids_of() {
        assert!(OperationCounter::of_start((1 << 19) - 1).is_some());
        assert!(OperationCounter::of_start(1 << 19).is_none());
        assert!(OperationCounter::of_start(u64::MAX).is_none());
    }
}
