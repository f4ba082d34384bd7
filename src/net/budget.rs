//! How many bytes of unanswered requests the connections of a shard hold.

use std::cell::Cell;

use ringgate_shards::waiters::Waiters;

/// A count with a bound above which connections stop reading.
pub struct InFlightBytes {
    held: Cell<usize>,
    most: usize,
    waiting: Waiters,
}

impl InFlightBytes {
    /// Nothing held, `most` bytes at the most (one frame may pass it).
    pub fn new(most: usize) -> InFlightBytes {
        InFlightBytes { held: Cell::new(0), most, waiting: Waiters::default() }
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Whether another frame may be read.
    pub fn has_room(&self) -> bool {
        self.held.get() < self.most
    }

    /// Those who wait for room.
    pub fn waiting(&self) -> &Waiters {
        &self.waiting
    }

    /// A request was read.
    pub fn add(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
    }

    /// A request was answered, or holds its bytes no longer.
    pub fn remove(&self, bytes: usize) {
        debug_assert!(self.held.get() >= bytes);
        let had_room = self.has_room();
        self.held.set(self.held.get() - bytes);
        if !had_room && self.has_room() {
            self.waiting.wake_all();
        }
    }
}
