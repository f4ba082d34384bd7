//! The members of one group, by slot.

use std::cell::Cell;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// Members by slot. How often one is looked at is counted, so that a test can tell whether what one member does
/// goes through the others.
#[derive(Debug)]
pub(super) struct Members<M> {
    /// Boxed, so that a large group grows without moving its members in one go.
    slots: Slab<Box<M>>,
    visits: Cell<u64>,
}

impl<M> Members<M> {
    pub fn new() -> Members<M> {
        Members { slots: Slab::new(), visits: Cell::new(0) }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Slots are below this.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub fn contains(&self, slot: usize) -> bool {
        self.get(slot).is_some()
    }

    pub fn get(&self, slot: usize) -> Option<&M> {
        self.visit();
        self.slots.get(slot).map(|member| &**member)
    }

    /// Adds a member. Returns its slot.
    pub fn insert(&mut self, member: M) -> u32 {
        self.slots.insert(Box::new(member)) as u32
    }

    /// Takes the member out of a slot that is known to be taken.
    pub fn remove(&mut self, slot: usize) -> Box<M> {
        self.visit();
        self.slots.remove(slot)
    }

    /// Members with their slots.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &M)> {
        self.slots.iter().map(|(slot, member)| {
            self.visit();
            (slot, &**member)
        })
    }

    /// As [`Members::iter`], for checks that are no part of what a member does.
    #[cfg(debug_assertions)]
    pub fn uncounted(&self) -> impl Iterator<Item = (usize, &M)> {
        self.slots.iter().map(|(slot, member)| (slot, &**member))
    }

    /// How often a member was looked at, also where there was none.
    pub fn visits(&self) -> u64 {
        self.visits.get()
    }

    fn visit(&self) {
        self.visits.set(self.visits.get() + 1);
    }
}

impl<M> Index<usize> for Members<M> {
    type Output = M;

    fn index(&self, slot: usize) -> &M {
        self.visit();
        &self.slots[slot]
    }
}

impl<M> IndexMut<usize> for Members<M> {
    fn index_mut(&mut self, slot: usize) -> &mut M {
        self.visit();
        &mut self.slots[slot]
    }
}
