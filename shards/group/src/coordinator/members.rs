//! The members of one group, by slot.

use std::cell::Cell;
use std::ops::{Index, IndexMut};

use slab::Slab;

thread_local! {
    static VISITS: Cell<u64> = const { Cell::new(0) };
}

/// How often members of groups were looked at on this thread so far, so that a test can tell whether what one member
/// does goes through the others, and how many are looked at in one go.
pub fn member_visits() -> u64 {
    VISITS.get()
}

fn visit() {
    VISITS.set(VISITS.get() + 1);
}

/// Members by slot. Boxed, so that a large group grows without moving its members in one go.
#[derive(Debug)]
pub(super) struct Members<M>(Slab<Box<M>>);

impl<M> Members<M> {
    pub fn new() -> Members<M> {
        Members(Slab::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Slots are below this.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub fn contains(&self, slot: usize) -> bool {
        self.get(slot).is_some()
    }

    pub fn get(&self, slot: usize) -> Option<&M> {
        self.0.get(slot).map(|member| {
            visit();
            &**member
        })
    }

    /// Adds a member. Returns its slot.
    pub fn insert(&mut self, member: M) -> u32 {
        visit();
        self.0.insert(Box::new(member)) as u32
    }

    /// Takes the member out of a slot that is known to be taken.
    pub fn remove(&mut self, slot: usize) -> Box<M> {
        visit();
        self.0.remove(slot)
    }

    /// Members with their slots.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &M)> {
        self.0.iter().map(|(slot, member)| {
            visit();
            (slot, &**member)
        })
    }

    /// As [`Members::iter`], for checks that are no part of what a member does.
    #[cfg(debug_assertions)]
    pub fn uncounted(&self) -> impl Iterator<Item = (usize, &M)> {
        self.0.iter().map(|(slot, member)| (slot, &**member))
    }
}

impl<M> Index<usize> for Members<M> {
    type Output = M;

    fn index(&self, slot: usize) -> &M {
        visit();
        &self.0[slot]
    }
}

impl<M> IndexMut<usize> for Members<M> {
    fn index_mut(&mut self, slot: usize) -> &mut M {
        visit();
        &mut self.0[slot]
    }
}
