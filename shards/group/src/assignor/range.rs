//! `range`: each topic in contiguous runs, so that topics of the same size and subscribers are split alike.

use super::{Assigning, Subscriber};
use crate::{PartitionSet, Text};

/// Static members first, by instance id; then the others by member id. A restarted static member keeps its
/// place, since its instance id stays.
fn order(member: &Subscriber) -> (bool, &Text) {
    match &member.instance_id {
        Some(instance_id) => (false, instance_id),
        None => (true, &member.member_id),
    }
}

pub(super) fn assign(group: &Assigning) -> Vec<PartitionSet> {
    let mut by_order: Vec<usize> = (0..group.members.len()).collect();
    by_order.sort_by_key(|member| order(&group.members[*member]));
    let mut subscribers: Vec<Vec<usize>> = vec![Vec::new(); group.topics.len()];
    for member in by_order {
        for topic in &*group.members[member].topics {
            subscribers[*topic].push(member);
        }
    }
    let mut assigned: Vec<Vec<(u128, i32)>> = vec![Vec::new(); group.members.len()];
    for (topic, subscribers) in group.topics.iter().zip(&subscribers) {
        let Some(members) = i32::try_from(subscribers.len()).ok().filter(|members| *members > 0) else { continue };
        let (each, more) = (topic.partitions / members, topic.partitions % members);
        let mut next = 0;
        for (place, member) in (0..).zip(subscribers) {
            let end = next + each + i32::from(place < more);
            assigned[*member].extend((next..end).map(|partition| (topic.id, partition)));
            next = end;
        }
    }
    assigned.into_iter().map(PartitionSet::from_iter).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group, member};
    use super::super::{Assigning, Assignor};
    use crate::PartitionSet;

    fn numbers(partitions: &PartitionSet, topic: u128) -> Vec<i32> {
        partitions.iter().filter(|(id, _)| *id == topic).map(|(_, partition)| partition).collect()
    }

    fn assign(group: &Assigning) -> Vec<PartitionSet> {
        let assigned = Assignor::Range.assign(group);
        check(group, &assigned);
        assigned
    }

    #[test]
    fn partitions_are_contiguous_and_the_first_members_get_one_more() {
        let assigned = assign(&group(&[7, 7, 2], &[&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]]));
        for topic in [1, 2] {
            assert_eq!(numbers(&assigned[0], topic), [0, 1, 2], "topics of one size are split alike");
            assert_eq!(numbers(&assigned[1], topic), [3, 4]);
            assert_eq!(numbers(&assigned[2], topic), [5, 6]);
        }
        assert_eq!((numbers(&assigned[1], 3), numbers(&assigned[2], 3)), (vec![1], vec![]));
    }

    #[test]
    fn only_subscribers_count_for_a_topic() {
        let assigned = assign(&group(&[4, 3], &[&[0], &[0, 1], &[]]));
        assert_eq!((numbers(&assigned[0], 1), numbers(&assigned[1], 1)), (vec![0, 1], vec![2, 3]));
        assert_eq!(numbers(&assigned[1], 2), [0, 1, 2]);
        assert!(assigned[2].is_empty());
        assert!(assign(&group(&[4], &[])).is_empty(), "nobody");
    }

    #[test]
    fn static_members_come_first_by_instance_whatever_their_member_ids_are() {
        let mut restarted = group(&[4], &[]);
        restarted.members = ["z-1", "a", "y-2"].map(|id| member(id, &[0])).to_vec();
        restarted.members[0].instance_id = Some("b".into());
        restarted.members[2].instance_id = Some("a".into());
        let assigned = assign(&restarted);
        assert_eq!(numbers(&assigned[2], 1), [0, 1]);
        assert_eq!(numbers(&assigned[0], 1), [2]);
        assert_eq!(numbers(&assigned[1], 1), [3], "the dynamic member comes last");
    }
}
