//! Giving way while a request goes through many partitions.

use ringgate_runtime::Budget;

use crate::limits::PARTITIONS_PER_LOOK;

/// The turn of a task that goes through many partitions: a Fetch names up to 10,000, and at half a microsecond each
/// they would hold up everybody else for milliseconds.
#[derive(Debug, Default)]
pub struct Turn {
    budget: Budget,
    partitions: usize,
}

impl Turn {
    /// One more has been seen to. Lets others run when the turn is over; the clock is looked at every
    /// [`PARTITIONS_PER_LOOK`].
    pub async fn partition(&mut self) {
        self.partitions += 1;
        if self.partitions.is_multiple_of(PARTITIONS_PER_LOOK) {
            self.budget.turn().await;
        }
    }
}
