//! A set of sequences, kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Sequences, few ranges of them. Ranges that touch become one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds all of `range`.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    /// Takes one out; whether it was there.
    pub(super) fn remove(&mut self, sequence: u64) -> bool {
        let Some((&from, &to)) = self.0.range(..=sequence).next_back().filter(|(_, to)| **to > sequence) else {
            return false;
        };
        self.0.remove(&from);
        self.insert(from..sequence);
        if sequence + 1 < to {
            self.0.insert(sequence + 1, to);
        }
        true
    }

    /// The ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(from, to)| *from..*to)
    }

    /// The parts of `range` that are not in the set, in order.
    pub(super) fn without(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut left = Vec::new();
        let mut from = range.start;
        let begin = self.0.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        for (&start, &end) in self.0.range(begin..range.end.max(begin)) {
            if from < start {
                left.push(from..start.min(range.end));
            }
            from = from.max(end);
        }
        if from < range.end {
            left.push(from..range.end);
        }
        left
    }

    /// How many ranges.
    pub(super) fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Takes the first range out.
    pub(super) fn pop_first(&mut self) -> Option<Range<u64>> {
        self.0.pop_first().map(|(from, to)| from..to)
    }

    /// Makes one of the first two ranges, with what is between them.
    pub(super) fn join_first(&mut self) {
        if let (Some(first), Some(second)) = (self.pop_first(), self.pop_first()) {
            self.insert(first.start..second.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_sequences(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..8), 0..60),
            asked in (0u64..60, 0u64..30),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (insert, from, length) in steps {
                if insert {
                    ranges.insert(from..from + length);
                    set.extend(from..from + length);
                } else {
                    prop_assert_eq!(ranges.remove(from), set.remove(&from));
                }
                prop_assert!(ranges.iter().flatten().eq(set.iter().copied()));
                let touching = ranges.iter().zip(ranges.iter().skip(1)).any(|(one, next)| one.end >= next.start);
                prop_assert!(!touching);
            }
            let asked = asked.0..asked.0 + asked.1;
            let left: Vec<u64> = ranges.without(asked.clone()).into_iter().flatten().collect();
            prop_assert_eq!(left, asked.filter(|sequence| !set.contains(sequence)).collect::<Vec<_>>());
        }
    }
}
