//! The open files of the process, which partitions and client connections share.
//!
//! Each takes one for as long as it lives. Without a count over both, connections could take the last
//! ones, and a partition that has to begin its next segment would fail to open it and close.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::CONNECTIONS_KEPT;

/// How many files partitions and connections may hold open together, and how many there are of both.
/// Touched only when a connection or a topic comes or goes.
///
/// Who takes room counts it first and then looks at the other count, so that of two who take the last room at the
/// same time at least one sees it.
#[derive(Debug)]
pub struct OpenFiles {
    most: usize,
    connections: AtomicUsize,
    /// Those that are about to be made are counted, too: until the last file is open, much of it is still free.
    partitions: AtomicUsize,
}

impl OpenFiles {
    /// Room for this many, of which so many partitions have theirs.
    pub fn new(most: usize, partitions: usize) -> OpenFiles {
        OpenFiles { most, connections: AtomicUsize::new(0), partitions: AtomicUsize::new(partitions) }
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Counts one more connection and says how many there are with it.
    pub fn connect(&self) -> usize {
        self.connections.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A connection is closed.
    pub fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether so many connections fit beside the partitions.
    pub fn carries(&self, connections: usize) -> bool {
        connections.saturating_add(self.partitions.load(Ordering::SeqCst)) <= self.most
    }

    /// How many partitions fit beside the connections that there are; a few are kept for connections, so
    /// that topics can be deleted again.
    pub fn partitions_max(&self) -> usize {
        self.most.saturating_sub(self.connections().max(CONNECTIONS_KEPT))
    }

    /// From now on there are so many partitions, if they fit. The controller alone says so.
    pub(crate) fn take_partitions(&self, partitions: usize) -> bool {
        let before = self.partitions.swap(partitions, Ordering::SeqCst);
        let fits = partitions <= self.partitions_max();
        if !fits {
            self.set_partitions(before);
        }
        fits
    }

    /// There are so many partitions.
    pub(crate) fn set_partitions(&self, partitions: usize) {
        self.partitions.store(partitions, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_partitions_share_what_there_is() {
        let open_files = OpenFiles::new(CONNECTIONS_KEPT + 100, 90);
        assert_eq!(open_files.partitions_max(), 100);
        for nth in 1..=CONNECTIONS_KEPT + 10 {
            assert_eq!(open_files.connect(), nth);
        }
        assert_eq!(open_files.partitions_max(), 90);
        assert!(open_files.carries(CONNECTIONS_KEPT + 10) && !open_files.carries(CONNECTIONS_KEPT + 11));
        open_files.disconnect();
        assert_eq!((open_files.connections(), open_files.partitions_max()), (CONNECTIONS_KEPT + 9, 91));
    }

    #[test]
    fn what_is_taken_for_partitions_is_no_room_for_connections_and_what_does_not_fit_is_not_taken() {
        let open_files = OpenFiles::new(CONNECTIONS_KEPT + 100, 0);
        assert!(!open_files.take_partitions(101) && open_files.carries(CONNECTIONS_KEPT + 100));
        assert!(open_files.take_partitions(100));
        assert!(open_files.carries(CONNECTIONS_KEPT) && !open_files.carries(CONNECTIONS_KEPT + 1));
        open_files.set_partitions(99);
        assert!(open_files.carries(CONNECTIONS_KEPT + 1));
    }
}
