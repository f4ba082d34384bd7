//! Which executor is the last to need what all share: only that one may take it away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Seat;

/// Executors that still use something of the run's own on the target.
#[derive(Debug, Clone)]
pub struct Users(Arc<AtomicUsize>);

impl Users {
    /// All executors of the run.
    pub fn all(seat: &Seat) -> Users {
        Users(Arc::new(AtomicUsize::new(seat.executors.into())))
    }

    /// This executor needs it no longer; whether nobody else does.
    pub fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) <= 1
    }
}
