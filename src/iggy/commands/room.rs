//! Memory for answers that are being made: many reads begin before the first of them is answered, so what each may
//! bring is set aside when it begins.

use super::super::limits::{CONVERT_HERE_BYTES, READ_SHARE};
use super::super::link::Link;
use crate::net::limit_hits::Limit;

/// What one read may bring, set aside for as long as it is being made.
pub struct Room<'a> {
    link: &'a Link,
    wanted: usize,
    taken: usize,
}

impl<'a> Room<'a> {
    /// For a read of at most `wanted` bytes; nothing is set aside yet.
    pub fn new(link: &'a Link, wanted: usize) -> Room<'a> {
        Room { link, wanted: wanted.min(link.settings.max_fetch_bytes), taken: 0 }
    }

    /// Sets aside what there is room for, and says how many bytes that is.
    pub fn take(&mut self) -> usize {
        self.give_back();
        let promised = &self.link.front.promised;
        let used = self.link.unsent.get() + promised.get();
        let allowed = allowed(self.wanted, used, self.link.settings.max_unsent_bytes).unwrap_or_else(|| {
            self.link.limit_hits.count(Limit::MaxInFlightBytes);
            // A message at a time: clients go on, and memory holds.
            1
        });
        promised.set(promised.get() + allowed);
        self.taken = allowed;
        allowed
    }

    /// Nothing is being made at present.
    pub fn give_back(&mut self) {
        let promised = &self.link.front.promised;
        promised.set(promised.get() - std::mem::take(&mut self.taken));
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// How much of `wanted` a read gets where `used` of `most` are used: all, or a share of what is left; `None` when
/// nothing is left.
fn allowed(wanted: usize, used: usize, most: usize) -> Option<usize> {
    let left = most.checked_sub(used).filter(|left| *left > 0)?;
    Some(wanted.min((left / READ_SHARE).max(CONVERT_HERE_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_reads_get_what_they_want_and_large_ones_leave_something() {
        let most = 256 << 20;
        assert_eq!(allowed(1 << 20, 0, most), Some(1 << 20));
        assert_eq!(allowed(1 << 20, 200 << 20, most), Some(1 << 20));
        assert_eq!(allowed(usize::MAX, 0, most), Some(most / READ_SHARE));
        assert_eq!((allowed(1, most, most), allowed(1, most + 1, most)), (None, None));
    }

    #[test]
    fn however_many_reads_begin_together_they_hold_little_more_than_the_bound() {
        let most = 256 << 20;
        let mut used = 0;
        for _ in 0..100_000 {
            used += allowed(55 << 20, used, most).unwrap_or(1);
        }
        assert!(used < most + CONVERT_HERE_BYTES + 100_000, "{used}");
    }
}
