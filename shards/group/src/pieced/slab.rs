//! A slab of many small slabs.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// Entries of one piece: with the largest that are kept so, some 300 bytes each, it stays below 100 KiB.
const PIECE: usize = 256;

/// Values by a number that it gives out; numbers are given out again.
#[derive(Debug)]
pub struct PiecedSlab<T> {
    /// Each with room for [`PIECE`] entries, so that it never moves them.
    pieces: Vec<Slab<T>>,
    /// Pieces that are not full.
    with_room: Vec<usize>,
    len: usize,
}

impl<T> PiecedSlab<T> {
    /// An empty slab; the first entry allocates.
    pub fn new() -> PiecedSlab<T> {
        PiecedSlab { pieces: Vec::new(), with_room: Vec::new(), len: 0 }
    }

    /// Takes in a value; its number.
    pub fn insert(&mut self, value: T) -> usize {
        let piece = match self.with_room.last() {
            Some(&piece) => piece,
            None => {
                self.pieces.push(Slab::with_capacity(PIECE));
                self.with_room.push(self.pieces.len() - 1);
                self.pieces.len() - 1
            }
        };
        let within = self.pieces[piece].insert(value);
        if self.pieces[piece].len() == PIECE {
            self.with_room.pop();
        }
        self.len += 1;
        piece * PIECE + within
    }

    /// Takes out a value.
    ///
    /// # Panics
    /// There is none of that number.
    pub fn remove(&mut self, number: usize) -> T {
        let piece = number / PIECE;
        let value = self.pieces[piece].remove(number % PIECE);
        if self.pieces[piece].len() == PIECE - 1 {
            self.with_room.push(piece);
        }
        self.len -= 1;
        value
    }

    /// The value of that number.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.pieces.get(number / PIECE)?.get(number % PIECE)
    }

    /// The value of that number.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.pieces.get_mut(number / PIECE)?.get_mut(number % PIECE)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flat_map(|piece| piece.iter_mut().map(|(_, value)| value))
    }
}

impl<T> Default for PiecedSlab<T> {
    fn default() -> PiecedSlab<T> {
        PiecedSlab::new()
    }
}

impl<T> Index<usize> for PiecedSlab<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.pieces[number / PIECE][number % PIECE]
    }
}

impl<T> IndexMut<usize> for PiecedSlab<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.pieces[number / PIECE][number % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_in_it_never_moves() {
        let mut slab = PiecedSlab::new();
        let first = slab.insert(0usize);
        let at = &raw const slab[first];
        let numbers: Vec<usize> = (1..10 * PIECE).map(|n| slab.insert(n)).collect();
        assert_eq!(&raw const slab[first], at);
        assert!(numbers.iter().enumerate().all(|(n, number)| slab[*number] == n + 1));
        assert!(slab.pieces.iter().all(|piece| piece.capacity() == PIECE));
    }

    proptest! {
        #[test]
        fn it_is_a_map_by_numbers_of_its_own(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..2_000)) {
            let (mut slab, mut model) = (PiecedSlab::new(), BTreeMap::new());
            for (nth, (insert, which)) in steps.into_iter().enumerate() {
                if insert || model.is_empty() {
                    let number = slab.insert(nth);
                    prop_assert_eq!(model.insert(number, nth), None);
                } else {
                    let number = *model.keys().nth(which.index(model.len())).expect("one of them");
                    prop_assert_eq!(Some(slab.remove(number)), model.remove(&number));
                    prop_assert_eq!(slab.get(number), None);
                }
            }
            prop_assert_eq!(slab.len(), model.len());
            for (number, value) in &model {
                prop_assert_eq!((slab[*number], slab.get_mut(*number)), (*value, Some(&mut value.clone())));
            }
            let mut all: Vec<usize> = slab.iter_mut().map(|value| *value).collect();
            all.sort_unstable();
            let mut expected: Vec<usize> = model.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
