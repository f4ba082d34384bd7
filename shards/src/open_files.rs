//! The open files of the process, which partitions and client connections share.
//!
//! Each takes one for as long as it lives. Without a count over both, connections could take the last
//! ones, and a partition that has to begin its next segment would fail to open it and close.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::CONNECTIONS_KEPT;

/// How many files partitions and connections may hold open together, and how many connections there are.
/// Touched only when a connection or a topic comes or goes.
#[derive(Debug)]
pub struct OpenFiles {
    most: usize,
    connections: AtomicUsize,
}

impl OpenFiles {
    /// Room for this many, of which none is taken.
    pub fn new(most: usize) -> OpenFiles {
        OpenFiles { most, connections: AtomicUsize::new(0) }
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts one more connection and says how many there are with it.
    pub fn connect(&self) -> usize {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A connection is closed.
    pub fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether so many connections fit beside so many partitions.
    pub fn carries(&self, connections: usize, partitions: usize) -> bool {
        connections.saturating_add(partitions) <= self.most
    }

    /// How many partitions fit beside the connections that there are; a few are kept for connections, so
    /// that topics can be deleted again.
    pub fn partitions_max(&self) -> usize {
        self.most.saturating_sub(self.connections().max(CONNECTIONS_KEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_partitions_share_what_there_is() {
        let open_files = OpenFiles::new(CONNECTIONS_KEPT + 100);
        assert_eq!(open_files.partitions_max(), 100);
        for nth in 1..=CONNECTIONS_KEPT + 10 {
            assert_eq!(open_files.connect(), nth);
        }
        assert_eq!(open_files.partitions_max(), 90);
        assert!(open_files.carries(CONNECTIONS_KEPT + 10, 90) && !open_files.carries(CONNECTIONS_KEPT + 11, 90));
        open_files.disconnect();
        assert_eq!((open_files.connections(), open_files.partitions_max()), (CONNECTIONS_KEPT + 9, 91));
    }
}
