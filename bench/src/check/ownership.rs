//! Who owns a group's partitions, as its members were told.

use crate::limits::CHECK_EXAMPLES_MAX;

const NOBODY: u32 = u32::MAX;

/// The partitions of one group. Partitions and members are numbered by the caller, from 0.
///
/// With classic groups each generation begins anew ([`Ownership::begin`]): members of the one before have stopped
/// consuming when they join the next. With KIP-848 nothing begins anew: a member owns a partition from when it
/// is told so until it says that it let go of it, or is no member any more.
#[derive(Debug, Clone)]
pub struct Ownership {
    owners: Vec<u32>,
    owned: u32,
    /// Partitions that somebody was given while somebody else still had them.
    pub owned_twice: u64,
    /// Partitions that were given and are not there.
    pub unknown: u64,
    /// The first few of either, in words.
    pub examples: Vec<String>,
}

impl Ownership {
    /// Nobody owns any of `partitions`.
    pub fn new(partitions: u32) -> Ownership {
        Ownership {
            owners: vec![NOBODY; partitions as usize],
            owned: 0,
            owned_twice: 0,
            unknown: 0,
            examples: Vec::new(),
        }
    }

    /// A new generation: nobody owns any, and there may be more of them.
    pub fn begin(&mut self, partitions: u32) {
        self.owners.clear();
        self.owners.resize(partitions as usize, NOBODY);
        self.owned = 0;
    }

    /// There are more partitions now, which nobody owns.
    pub fn grow(&mut self, partitions: u32) {
        let partitions = self.owners.len().max(partitions as usize);
        self.owners.resize(partitions, NOBODY);
    }

    /// A member was told that these are its own. To be told again is no change.
    pub fn take(&mut self, member: u32, partitions: impl IntoIterator<Item = u32>) {
        for partition in partitions {
            let Some(owner) = self.owners.get_mut(partition as usize) else {
                self.unknown += 1;
                self.example(|| format!("member {member} was given partition {partition}, which is not there"));
                continue;
            };
            match *owner {
                NOBODY => {
                    *owner = member;
                    self.owned += 1;
                }
                other if other == member => {}
                other => {
                    *owner = member;
                    self.owned_twice += 1;
                    self.example(|| {
                        format!("member {member} was given partition {partition} while member {other} had it")
                    });
                }
            }
        }
    }

    /// A member has let go of these. What is somebody else's by now stays so.
    pub fn release(&mut self, member: u32, partitions: impl IntoIterator<Item = u32>) {
        for partition in partitions {
            if let Some(owner) = self.owners.get_mut(partition as usize)
                && *owner == member
            {
                *owner = NOBODY;
                self.owned -= 1;
            }
        }
    }

    /// Partitions that nobody owns.
    pub fn unassigned(&self) -> u32 {
        self.owners.len() as u32 - self.owned
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.owners.len() as u32
    }

    fn example(&mut self, words: impl FnOnce() -> String) {
        if self.examples.len() < CHECK_EXAMPLES_MAX {
            self.examples.push(words());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_two_members_were_given_in_one_generation_is_owned_twice() {
        let mut ownership = Ownership::new(4);
        ownership.take(1, [0, 1]);
        ownership.take(2, [1, 2]);
        assert_eq!((ownership.owned_twice, ownership.unassigned()), (1, 1));
        assert_eq!(ownership.examples, ["member 2 was given partition 1 while member 1 had it"]);
        ownership.take(2, [1, 2]);
        assert_eq!(ownership.owned_twice, 1, "told again");
        ownership.begin(4);
        ownership.take(3, [0, 1, 2, 3]);
        assert_eq!(
            (ownership.owned_twice, ownership.unassigned()),
            (1, 0),
            "the next generation owes nothing to the last"
        );
    }

    #[test]
    fn a_partition_may_move_only_after_it_was_let_go() {
        let mut ownership = Ownership::new(2);
        ownership.take(1, [0, 1]);
        ownership.release(1, [1]);
        ownership.take(2, [1]);
        assert_eq!((ownership.owned_twice, ownership.unassigned()), (0, 0));
        ownership.take(2, [0]);
        ownership.release(1, [0]);
        assert_eq!((ownership.owned_twice, ownership.unassigned()), (1, 0), "what is another's stays so");
    }

    #[test]
    fn partitions_that_are_not_there_are_told_and_new_ones_are_unassigned() {
        let mut ownership = Ownership::new(1);
        ownership.take(1, [0, 5]);
        assert_eq!((ownership.unknown, ownership.unassigned()), (1, 0));
        ownership.grow(3);
        assert_eq!((ownership.unassigned(), ownership.partitions()), (2, 3));
        ownership.grow(1);
        assert_eq!(ownership.partitions(), 3);
    }
}
