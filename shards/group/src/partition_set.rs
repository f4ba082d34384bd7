//! A set of topic partitions, as members of consumer groups hold them.

use std::cmp::Ordering;

/// A partition by its topic's id.
pub type TopicIdPartition = (u128, i32);

/// Partitions, each once, by topic id and number. Most members hold a few, so a sorted list is the smallest
/// and quickest that they can have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionSet(Vec<TopicIdPartition>);

impl PartitionSet {
    /// No partitions.
    pub const EMPTY: PartitionSet = PartitionSet(Vec::new());

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, partition: TopicIdPartition) -> bool {
        self.0.binary_search(&partition).is_ok()
    }

    /// All of them, by topic id and number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TopicIdPartition> + '_ {
        self.0.iter().copied()
    }

    /// Topic by topic, with its partitions.
    pub fn by_topic(&self) -> impl Iterator<Item = (u128, impl Iterator<Item = i32> + '_)> + '_ {
        self.0.chunk_by(|a, b| a.0 == b.0).map(|chunk| (chunk[0].0, chunk.iter().map(|(_, partition)| *partition)))
    }

    /// Those that are in both.
    pub fn intersection(&self, other: &PartitionSet) -> PartitionSet {
        self.collect(other, |side| side == Side::Both)
    }

    /// Those that are not in the other.
    pub fn difference(&self, other: &PartitionSet) -> PartitionSet {
        self.collect(other, |side| side == Side::Left)
    }

    /// Those that are in one or both.
    pub fn union(&self, other: &PartitionSet) -> PartitionSet {
        self.collect(other, |_| true)
    }

    /// Whether they have one in common.
    pub fn intersects(&self, other: &PartitionSet) -> bool {
        self.merged(other).any(|(_, side)| side == Side::Both)
    }

    /// Whether all of them are in the other.
    pub fn is_subset(&self, other: &PartitionSet) -> bool {
        self.merged(other).all(|(_, side)| side != Side::Left)
    }

    /// Keeps those that `keep` says.
    pub fn retain(&mut self, mut keep: impl FnMut(TopicIdPartition) -> bool) {
        self.0.retain(|partition| keep(*partition));
    }

    /// Keeps those of the topics that `keep` says, which is asked once for each.
    pub fn retain_topics(&mut self, mut keep: impl FnMut(u128) -> bool) {
        let mut last = None;
        self.0.retain(|(topic, _)| match last {
            Some((known, kept)) if known == *topic => kept,
            _ => {
                let kept = keep(*topic);
                last = Some((*topic, kept));
                kept
            }
        });
    }

    fn collect(&self, other: &PartitionSet, is_wanted: impl Fn(Side) -> bool) -> PartitionSet {
        let mut wanted: Vec<_> = self.merged(other).filter(|(_, side)| is_wanted(*side)).map(|(p, _)| p).collect();
        // Most of these are kept for long.
        wanted.shrink_to_fit();
        PartitionSet(wanted)
    }

    fn merged<'a>(&'a self, other: &'a PartitionSet) -> Merged<'a> {
        Merged { left: &self.0, right: &other.0 }
    }
}

impl FromIterator<TopicIdPartition> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = TopicIdPartition>>(partitions: I) -> PartitionSet {
        let mut sorted: Vec<TopicIdPartition> = partitions.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.shrink_to_fit();
        PartitionSet(sorted)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Both,
}

/// Both lists in order, each partition once.
struct Merged<'a> {
    left: &'a [TopicIdPartition],
    right: &'a [TopicIdPartition],
}

impl Iterator for Merged<'_> {
    type Item = (TopicIdPartition, Side);

    fn next(&mut self) -> Option<Self::Item> {
        let (first, side) = match (self.left.first(), self.right.first()) {
            (None, None) => return None,
            (Some(left), None) => (*left, Side::Left),
            (None, Some(right)) => (*right, Side::Right),
            (Some(left), Some(right)) => match left.cmp(right) {
                Ordering::Less => (*left, Side::Left),
                Ordering::Greater => (*right, Side::Right),
                Ordering::Equal => (*left, Side::Both),
            },
        };
        if side != Side::Right {
            self.left = &self.left[1..];
        }
        if side != Side::Left {
            self.right = &self.right[1..];
        }
        Some((first, side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[TopicIdPartition]) -> PartitionSet {
        partitions.iter().copied().collect()
    }

    #[test]
    fn sets_are_sorted_and_have_each_partition_once() {
        let some = set(&[(2, 1), (1, 5), (2, 1), (1, 0)]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [(1, 0), (1, 5), (2, 1)]);
        let topics: Vec<(u128, Vec<i32>)> = some.by_topic().map(|(topic, all)| (topic, all.collect())).collect();
        assert_eq!(topics, [(1, vec![0, 5]), (2, vec![1])]);
        assert!(some.contains((1, 5)) && !some.contains((5, 1)));
    }

    #[test]
    fn topics_are_kept_or_not_as_a_whole() {
        let mut some = set(&[(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)]);
        let mut asked = Vec::new();
        some.retain_topics(|topic| {
            asked.push(topic);
            topic != 2
        });
        assert_eq!((some, asked), (set(&[(1, 0), (1, 1), (3, 0), (3, 1)]), vec![1, 2, 3]));
    }

    #[test]
    fn sets_compare_as_sets() {
        let (some, other) = (set(&[(1, 0), (1, 1), (3, 0)]), set(&[(1, 1), (2, 0)]));
        assert_eq!(some.intersection(&other), set(&[(1, 1)]));
        assert_eq!(some.difference(&other), set(&[(1, 0), (3, 0)]));
        assert_eq!(some.union(&other), set(&[(1, 0), (1, 1), (2, 0), (3, 0)]));
        assert!(some.intersects(&other) && !some.is_subset(&other));
        assert!(set(&[(3, 0)]).is_subset(&some) && PartitionSet::EMPTY.is_subset(&some));
        assert!(!PartitionSet::EMPTY.intersects(&some));
    }
}
