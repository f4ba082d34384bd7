//! `uniform`: the same number of partitions for everybody, as nearly as subscriptions allow; what a member has
//! stays with it unless balance wants it elsewhere.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{Assigning, Subscriber};
use crate::PartitionSet;

/// Passes over the topics that look for a better balance where subscriptions differ.
const BALANCING_PASSES_MAX: usize = 16;

/// A partition by its topic's place in the question.
type Partition = (usize, i32);

pub(super) fn assign(group: &Assigning) -> Vec<PartitionSet> {
    let mut by_id: Vec<usize> = (0..group.members.len()).collect();
    by_id.sort_by_key(|member| &group.members[*member].member_id);
    let assigned = match group.members.split_first() {
        Some((first, others)) if others.iter().all(|member| same_topics(first, member)) => alike(group, &by_id),
        Some(_) => differing(group, &by_id),
        None => Vec::new(),
    };
    let set =
        |partitions: Vec<Partition>| partitions.into_iter().map(|(topic, p)| (group.topics[topic].id, p)).collect();
    assigned.into_iter().map(set).collect()
}

fn same_topics(one: &Subscriber, other: &Subscriber) -> bool {
    Arc::ptr_eq(&one.topics, &other.topics) || one.topics == other.topics
}

/// What each member had that still exists and that it still subscribes to; nothing twice.
fn kept(group: &Assigning, by_id: &[usize]) -> (Vec<Vec<Partition>>, HashSet<Partition>) {
    let places: HashMap<u128, usize> = group.topics.iter().enumerate().map(|(n, topic)| (topic.id, n)).collect();
    let mut kept = vec![Vec::new(); group.members.len()];
    let mut taken = HashSet::new();
    for member in by_id {
        let subscriber = &group.members[*member];
        for (id, partition) in subscriber.target.iter() {
            let Some(topic) = places.get(&id) else { continue };
            let exists = (0..group.topics[*topic].partitions).contains(&partition);
            if exists && subscriber.topics.binary_search(topic).is_ok() && taken.insert((*topic, partition)) {
                kept[*member].push((*topic, partition));
            }
        }
    }
    (kept, taken)
}

/// All members subscribe to the same topics: each has its quota, and the first that already have more than it keep
/// the one that is left over.
fn alike(group: &Assigning, by_id: &[usize]) -> Vec<Vec<Partition>> {
    let topics = &group.members[by_id[0]].topics;
    let total: usize = topics.iter().map(|topic| group.topics[*topic].partitions as usize).sum();
    let (quota, mut left_over) = (total / by_id.len(), total % by_id.len());
    let (mut assigned, mut taken) = kept(group, by_id);
    for member in by_id {
        let has = &mut assigned[*member];
        let mut may_have = quota;
        if has.len() > quota && left_over > 0 {
            may_have += 1;
            left_over -= 1;
        }
        while has.len() > may_have {
            has.pop().map(|partition| taken.remove(&partition));
        }
    }
    let all = topics.iter().flat_map(|topic| (0..group.topics[*topic].partitions).map(move |p| (*topic, p)));
    let mut free = all.filter(|partition| !taken.contains(partition));
    for member in by_id {
        let has = &mut assigned[*member];
        let mut may_have = quota;
        if has.len() <= quota && left_over > 0 {
            may_have += 1;
            left_over -= 1;
        }
        while has.len() < may_have {
            match free.next() {
                Some(partition) => has.push(partition),
                None => break,
            }
        }
    }
    debug_assert!(free.next().is_none());
    assigned
}

/// Subscriptions differ: what is free goes to whoever of its subscribers has least, topics with many partitions for
/// their subscribers first; then single partitions move from those that have more to those that have less.
fn differing(group: &Assigning, by_id: &[usize]) -> Vec<Vec<Partition>> {
    let (kept, _) = kept(group, by_id);
    let rank: Vec<usize> = {
        let mut rank = vec![0; by_id.len()];
        by_id.iter().enumerate().for_each(|(place, member)| rank[*member] = place);
        rank
    };
    let mut subscribers: Vec<Vec<usize>> = vec![Vec::new(); group.topics.len()];
    for member in by_id {
        group.members[*member].topics.iter().for_each(|topic| subscribers[*topic].push(*member));
    }
    let mut owners: Vec<Vec<Option<usize>>> =
        group.topics.iter().map(|topic| vec![None; topic.partitions.max(0) as usize]).collect();
    let mut load = vec![0_usize; group.members.len()];
    for (member, partitions) in kept.iter().enumerate() {
        load[member] = partitions.len();
        partitions.iter().for_each(|(topic, partition)| owners[*topic][*partition as usize] = Some(member));
    }
    let mut by_density: Vec<usize> = (0..group.topics.len()).filter(|topic| !subscribers[*topic].is_empty()).collect();
    // a/b > c/d without a fraction; the place in the question decides between equals.
    by_density.sort_by(|a, b| {
        let of = |topic: usize, other: usize| owners[topic].len() * subscribers[other].len();
        of(*b, *a).cmp(&of(*a, *b)).then(a.cmp(b))
    });
    for topic in &by_density {
        // Members by what they have: a change of one moves only that one.
        let mut queue: BTreeSet<(usize, usize, usize)> =
            subscribers[*topic].iter().map(|member| (load[*member], rank[*member], *member)).collect();
        for owner in owners[*topic].iter_mut().filter(|owner| owner.is_none()) {
            let Some((has, place, member)) = queue.pop_first() else { break };
            *owner = Some(member);
            load[member] = has + 1;
            queue.insert((has + 1, place, member));
        }
    }
    for _ in 0..BALANCING_PASSES_MAX {
        let relieved = |topic: &usize| relieve(&subscribers[*topic], &rank, &mut load, &mut owners[*topic]);
        if by_density.iter().map(relieved).filter(|moved| *moved).count() == 0 {
            break;
        }
    }
    let mut assigned = vec![Vec::new(); group.members.len()];
    for (topic, owners) in owners.iter().enumerate() {
        for (partition, owner) in (0..).zip(owners) {
            if let Some(member) = owner {
                assigned[*member].push((topic, partition));
            }
        }
    }
    assigned
}

/// Moves partitions of one topic from whoever has most to the subscriber that has least, as long as that brings
/// the two nearer to each other. Returns whether any moved.
fn relieve(subscribers: &[usize], rank: &[usize], load: &mut [usize], owners: &mut [Option<usize>]) -> bool {
    let mut of: HashMap<usize, Vec<usize>> = HashMap::new();
    for (partition, owner) in owners.iter().enumerate() {
        if let Some(member) = owner {
            of.entry(*member).or_default().push(partition);
        }
    }
    let key = |load: &[usize], member: usize| (load[member], rank[member], member);
    let mut givers: BTreeSet<_> = of.keys().map(|member| key(load, *member)).collect();
    let mut takers: BTreeSet<_> = subscribers.iter().map(|member| key(load, *member)).collect();
    let mut moved = false;
    while let (Some((most, _, from)), Some((least, _, to))) = (givers.pop_last(), takers.first().copied()) {
        if most <= least + 1 {
            break;
        }
        let Some(partition) = of.get_mut(&from).and_then(Vec::pop) else { continue };
        for member in [from, to] {
            takers.remove(&key(load, member));
            givers.remove(&key(load, member));
        }
        load[from] -= 1;
        load[to] += 1;
        owners[partition] = Some(to);
        of.entry(to).or_default().push(partition);
        takers.extend([key(load, from), key(load, to)]);
        givers.extend([key(load, from), key(load, to)]);
        moved = true;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group, member, take};
    use super::super::{Assigning, Assignor};
    use crate::PartitionSet;

    fn assign(group: &Assigning) -> Vec<PartitionSet> {
        let assigned = Assignor::Uniform.assign(group);
        check(group, &assigned);
        assigned
    }

    fn sizes(assigned: &[PartitionSet]) -> Vec<usize> {
        assigned.iter().map(PartitionSet::len).collect()
    }

    /// How many partitions are no longer where they were.
    fn moved(group: &Assigning, assigned: &[PartitionSet]) -> usize {
        group.members.iter().zip(assigned).map(|(member, now)| member.target.difference(now).len()).sum()
    }

    #[test]
    fn everybody_has_the_same_number_give_or_take_one() {
        assert_eq!(sizes(&assign(&group(&[7, 3], &[&[0, 1], &[0, 1], &[0, 1]]))), [4, 3, 3]);
        assert_eq!(sizes(&assign(&group(&[1], &[&[0], &[0]]))), [1, 0]);
        assert!(assign(&group(&[3], &[])).is_empty());
        assert_eq!(sizes(&assign(&group(&[], &[&[]]))), [0]);
    }

    #[test]
    fn a_newcomer_takes_no_more_than_its_share_and_a_leaver_moves_only_what_it_had() {
        let mut three = group(&[12], &[&[0], &[0], &[0]]);
        let assigned = assign(&three);
        take(&mut three, assigned);
        three.members.push(member("m3", &[0]));
        let assigned = assign(&three);
        assert_eq!((sizes(&assigned), moved(&three, &assigned)), (vec![3, 3, 3, 3], 3));
        take(&mut three, assigned);
        let gone = three.members.remove(1).target.len();
        let assigned = assign(&three);
        assert_eq!((sizes(&assigned), moved(&three, &assigned), gone), (vec![4, 4, 4], 0, 3));
    }

    #[test]
    fn those_who_have_one_more_keep_it() {
        let mut two = group(&[5], &[&[0], &[0]]);
        two.members[0].target = [(1, 0), (1, 1)].into_iter().collect();
        two.members[1].target = [(1, 2), (1, 3), (1, 4)].into_iter().collect();
        let assigned = assign(&two);
        assert_eq!((sizes(&assigned), moved(&two, &assigned)), (vec![2, 3], 0));
    }

    #[test]
    fn what_is_gone_or_no_longer_wanted_is_forgotten() {
        let mut two = group(&[4, 4], &[&[1], &[1]]);
        two.members[0].target = [(1, 0), (2, 3), (2, 9), (77, 0)].into_iter().collect();
        two.members[1].target = [(2, 3)].into_iter().collect();
        let assigned = assign(&two);
        assert_eq!(sizes(&assigned), [2, 2]);
        assert!(assigned[0].contains((2, 3)), "of two who claim it, the first by id keeps it");
    }

    #[test]
    fn where_subscriptions_differ_who_has_least_is_given_first() {
        assert_eq!(sizes(&assign(&group(&[4, 4], &[&[0], &[0, 1], &[1]]))), [2, 3, 3]);
        let assigned = assign(&group(&[6, 1], &[&[0, 1], &[1]]));
        assert_eq!(sizes(&assigned), [6, 1], "nobody else may have the six");
    }

    #[test]
    fn where_subscriptions_differ_a_newcomer_relieves_those_who_have_most() {
        let mut some = group(&[6, 2], &[&[0, 1], &[0]]);
        let assigned = assign(&some);
        assert_eq!(sizes(&assigned), [4, 4]);
        take(&mut some, assigned);
        some.members.push(member("m2", &[0]));
        let assigned = assign(&some);
        assert_eq!((sizes(&assigned).iter().max(), moved(&some, &assigned)), (Some(&3), 2));
    }

    #[test]
    fn the_order_of_the_members_changes_nothing() {
        let members: Vec<Vec<usize>> = (0..20).map(|n| if n % 3 == 0 { vec![0, 2] } else { vec![0, 1] }).collect();
        let members: Vec<&[usize]> = members.iter().map(Vec::as_slice).collect();
        let mut some = group(&[30, 17, 8], &members);
        let forward = assign(&some);
        some.members.reverse();
        let mut backward = assign(&some);
        backward.reverse();
        assert_eq!(forward, backward);
    }
}
