//! Group commit as a pure value: what gathers while a write is out goes out together in the next, and one
//! sync serves everybody who waits for it.
//!
//! It knows ends, not bytes: an item's end is any number that grows with each push (an offset, a count).
//! `push` and `request_sync` say what is wanted, `start_*` give out work, `handle_*` take in how that went.
//! At most one write and one sync are out at a time. What must stay true:
//! `synced <= written <= pushed`; after a failure nothing is given out any more and no end moves.

/// See the module's documentation.
#[derive(Debug)]
pub struct GroupCommit<T> {
    gathered: Vec<T>,
    pushed: u64,
    written: u64,
    synced: u64,
    writing: Option<u64>,
    syncing: Option<u64>,
    /// The first end above `synced` that somebody waits for, and the last.
    wanted: Option<(u64, u64)>,
    closed: bool,
}

impl<T> GroupCommit<T> {
    /// Everything below `end` is on disk.
    pub fn new(end: u64) -> GroupCommit<T> {
        GroupCommit {
            gathered: Vec::new(),
            pushed: end,
            written: end,
            synced: end,
            writing: None,
            syncing: None,
            wanted: None,
            closed: false,
        }
    }

    /// The end of what was pushed.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The end of what is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The end of what is on disk.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether a write or sync has failed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds an item, up to `end`, to the next write.
    pub fn push(&mut self, item: T, end: u64) {
        debug_assert!(end > self.pushed, "ends grow");
        debug_assert!(!self.closed, "nothing is pushed to a closed log");
        self.gathered.push(item);
        self.pushed = end;
    }

    /// Asks for what was pushed so far to be synced.
    pub fn request_sync(&mut self) {
        let end = self.pushed;
        if end > self.synced {
            self.wanted = Some(match self.wanted {
                Some((first, _)) => (first, end),
                None => (end, end),
            });
        }
    }

    /// Whether somebody waits for a sync that has not ended.
    pub fn is_sync_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// What is to be written now, in order.
    pub fn start_write(&mut self) -> Option<Vec<T>> {
        if self.closed || self.writing.is_some() || self.gathered.is_empty() {
            return None;
        }
        self.writing = Some(self.pushed);
        Some(std::mem::take(&mut self.gathered))
    }

    /// The write is done, or has failed.
    pub fn handle_written(&mut self, ok: bool) {
        let end = self.writing.take();
        debug_assert!(end.is_some(), "no write is out");
        match end {
            Some(end) if ok && !self.closed => self.written = end,
            _ => self.close(),
        }
    }

    /// Whether a sync is to be done now; everything that is written by then counts.
    pub fn start_sync(&mut self) -> bool {
        let due = self.wanted.is_some_and(|(first, _)| first <= self.written);
        if self.closed || self.syncing.is_some() || !due {
            return false;
        }
        self.syncing = Some(self.written);
        true
    }

    /// The sync is done, or has failed. A failed one is never tried again: the kernel may have dropped
    /// what it could not write and would say yes the second time.
    pub fn handle_synced(&mut self, ok: bool) {
        let end = self.syncing.take();
        debug_assert!(end.is_some(), "no sync is out");
        match end {
            Some(end) if ok && !self.closed => {
                self.synced = self.synced.max(end);
                self.wanted = match self.wanted {
                    Some((first, last)) if last > end => Some((first.max(end + 1), last)),
                    _ => None,
                };
            }
            _ => self.close(),
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.gathered.clear();
        self.wanted = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_gathers_during_a_write_goes_out_together_and_one_sync_serves_all() {
        let mut log = GroupCommit::new(0);
        log.push('a', 1);
        log.request_sync();
        assert_eq!(log.start_write(), Some(vec!['a']));
        log.push('b', 2);
        log.push('c', 3);
        log.request_sync();
        assert_eq!(log.start_write(), None, "one write at a time");
        assert!(!log.start_sync(), "nothing is written");
        log.handle_written(true);
        assert!(log.start_sync(), "the first waiter does not wait for the others");
        assert_eq!(log.start_write(), Some(vec!['b', 'c']));
        log.handle_written(true);
        assert!(!log.start_sync(), "one sync at a time");
        log.handle_synced(true);
        assert_eq!((log.synced(), log.written()), (1, 3));
        assert!(log.start_sync());
        log.handle_synced(true);
        assert_eq!(log.synced(), 3);
        assert!(!log.start_sync(), "nobody waits");
    }

    #[test]
    fn nobody_waits_so_nothing_is_synced() {
        let mut log = GroupCommit::new(7);
        log.request_sync();
        log.push((), 8);
        log.start_write();
        log.handle_written(true);
        assert!(!log.start_sync());
        assert_eq!((log.synced(), log.written()), (7, 8));
    }

    #[test]
    fn a_failure_closes_it_for_good() {
        for fail_write in [true, false] {
            let mut log = GroupCommit::new(0);
            log.push((), 1);
            log.start_write();
            log.handle_written(!fail_write);
            log.request_sync();
            if !fail_write {
                assert!(log.start_sync());
                log.handle_synced(false);
            }
            assert!(log.is_closed());
            assert_eq!((log.start_write(), log.start_sync(), log.synced()), (None, false, 0));
        }
    }

    #[test]
    fn a_write_that_ends_well_after_a_failed_sync_does_not_count() {
        let mut log = GroupCommit::new(0);
        log.push((), 1);
        log.start_write();
        log.handle_written(true);
        log.request_sync();
        log.start_sync();
        log.push((), 2);
        log.start_write();
        log.handle_synced(false);
        log.handle_written(true);
        assert_eq!((log.written(), log.is_closed()), (1, true));
    }

    proptest! {
        #[test]
        fn whoever_asks_is_served_and_ends_never_cross(steps in prop::collection::vec(0..6u8, 1..200)) {
            let mut log = GroupCommit::new(0);
            let (mut writing, mut syncing, mut asked) = (false, false, 0);
            for step in steps {
                match step {
                    0 | 1 => log.push((), log.pushed() + 1),
                    2 => { log.request_sync(); asked = log.pushed(); }
                    3 => writing |= log.start_write().is_some(),
                    4 => if std::mem::take(&mut writing) { log.handle_written(true) },
                    _ => if syncing { syncing = false; log.handle_synced(true) } else { syncing = log.start_sync() },
                }
                prop_assert!(log.synced() <= log.written() && log.written() <= log.pushed());
            }
            for _ in 0..3 {
                if writing || log.start_write().is_some() { log.handle_written(true); writing = false; }
                if syncing || log.start_sync() { log.handle_synced(true); syncing = false; }
            }
            prop_assert!(log.synced() >= asked, "asked for {asked}, synced {}", log.synced());
        }
    }
}
