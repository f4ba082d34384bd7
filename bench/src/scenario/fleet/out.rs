//! Requests without an answer.

use std::collections::BTreeMap;

use super::inbox::Asked;

/// What is out, by the order in which it was asked.
#[derive(Default)]
pub(super) struct Out {
    next: u64,
    asked: BTreeMap<u64, Asked>,
}

impl Out {
    /// One goes out; its number.
    pub(super) fn asks(&mut self, asked: Asked) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, asked);
        self.next
    }

    /// It is known what came of one; `None` for one that was given up.
    pub(super) fn ended(&mut self, number: u64) -> Option<Asked> {
        self.asked.remove(&number)
    }

    /// How many are out.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Gives up on some; what is answered later is nobody's.
    pub(super) fn give_up(&mut self, which: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        self.asked.extract_if(.., |_, asked| which(asked)).map(|(_, asked)| asked).collect()
    }
}
