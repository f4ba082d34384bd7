//! What will happen, in the order of its time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Events by time; those of one time in the order in which they were added.
#[derive(Debug)]
pub struct Queue<E> {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, E>,
    next: u64,
}

impl<E> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue { order: BinaryHeap::new(), events: HashMap::new(), next: 0 }
    }

    pub fn add(&mut self, at_us: u64, event: E) {
        self.next += 1;
        self.order.push(Reverse((at_us, self.next)));
        self.events.insert(self.next, event);
    }

    pub fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((at_us, id)) = self.order.pop()?;
        let event = self.events.remove(&id)?;
        Some((at_us, event))
    }
}
