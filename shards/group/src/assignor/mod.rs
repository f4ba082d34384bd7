//! Server-side assignors of consumer groups (KIP-848): who shall have which partition.
//!
//! An assignor is a pure function of what members subscribe to, what topics there are, and what members
//! were meant to have before. The same question has the same answer, whatever the order of the members.

mod range;
mod uniform;

use std::sync::Arc;

use crate::{PartitionSet, Text};

/// The assignors that members may ask for, by name; the first is taken where nobody asks.
pub const ASSIGNORS: [Assignor; 2] = [Assignor::Uniform, Assignor::Range];

/// A server-side assignor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Assignor {
    /// Balanced first, then as sticky as that allows.
    Uniform,
    /// Neighbouring partitions together, topics of equal size alike. Not sticky.
    Range,
}

impl Assignor {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// The assignor of this name.
    pub fn named(name: &str) -> Option<Assignor> {
        ASSIGNORS.into_iter().find(|assignor| assignor.name() == name)
    }

    /// The partitions of each member, in the order of the members. Every partition of a topic that somebody
    /// subscribes to is given to exactly one of its subscribers.
    pub fn assign(self, group: &Assigning) -> Vec<PartitionSet> {
        debug_assert!(group.members.iter().flat_map(|member| &*member.topics).all(|topic| *topic < group.topics.len()));
        match self {
            Assignor::Uniform => uniform::assign(group),
            Assignor::Range => range::assign(group),
        }
    }
}

/// What an assignor has to go by.
#[derive(Debug, Clone, Default)]
pub struct Assigning {
    /// Topics that somebody subscribes to and that exist.
    pub topics: Vec<AssignableTopic>,
    /// The members.
    pub members: Vec<Subscriber>,
}

/// A topic to be shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignableTopic {
    /// Its id.
    pub id: u128,
    /// How many partitions it has.
    pub partitions: i32,
}

/// A member with what it wants.
#[derive(Debug, Clone, Default)]
pub struct Subscriber {
    /// Its id.
    pub member_id: Text,
    /// Set for static members.
    pub instance_id: Option<Text>,
    /// Places in [`Assigning::topics`], growing. Members with the same subscription may share one list.
    pub topics: Arc<[usize]>,
    /// What it was meant to have before.
    pub target: PartitionSet,
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Topics with these numbers of partitions, their ids from 1; members `m0`, `m1`, ... that subscribe to these.
    pub(super) fn group(topics: &[i32], members: &[&[usize]]) -> Assigning {
        Assigning {
            topics: (1..).zip(topics).map(|(id, &partitions)| AssignableTopic { id, partitions }).collect(),
            members: members.iter().enumerate().map(|(n, topics)| member(&format!("m{n}"), topics)).collect(),
        }
    }

    pub(super) fn member(id: &str, topics: &[usize]) -> Subscriber {
        Subscriber { member_id: id.into(), topics: topics.into(), ..Subscriber::default() }
    }

    /// Every partition of a topic with subscribers has exactly one owner, and that subscribes to it.
    pub(super) fn check(group: &Assigning, assigned: &[PartitionSet]) {
        assert_eq!(assigned.len(), group.members.len());
        let mut owned = std::collections::BTreeSet::new();
        for (member, partitions) in group.members.iter().zip(assigned) {
            for (id, partition) in partitions.iter() {
                let topic = group.topics.iter().position(|topic| topic.id == id).expect("a topic that is there");
                assert!(member.topics.contains(&topic), "{} does not subscribe to {id}", member.member_id);
                assert!((0..group.topics[topic].partitions).contains(&partition));
                assert!(owned.insert((id, partition)), "({id}, {partition}) has two owners");
            }
        }
        let wanted = group.topics.iter().enumerate();
        let wanted = wanted.filter(|(n, _)| group.members.iter().any(|member| member.topics.contains(n)));
        assert_eq!(
            owned.len() as i32,
            wanted.map(|(_, topic)| topic.partitions).sum::<i32>(),
            "a partition is left over"
        );
    }

    /// As if the members had got what was assigned.
    pub(super) fn take(group: &mut Assigning, assigned: Vec<PartitionSet>) {
        for (member, partitions) in group.members.iter_mut().zip(assigned) {
            member.target = partitions;
        }
    }
}
