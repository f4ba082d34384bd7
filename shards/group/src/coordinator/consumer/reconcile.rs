//! How one member gets from what it has to what it shall have (KIP-848; 6.5).
//!
//! A partition is first given back by who has it and only then given to who shall have it, so no two
//! members ever have it at once.

use crate::{PartitionSet, TopicIdPartition};

/// Kafka's states of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// It has all of its target.
    Stable,
    /// It was told to give partitions back, and has not said that it did.
    UnrevokedPartitions,
    /// Partitions of its target are still with others.
    UnreleasedPartitions,
}

/// What a member has, and what it gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::coordinator) struct Holding {
    pub state: MemberState,
    pub epoch: i32,
    pub assigned: PartitionSet,
    pub revoking: PartitionSet,
}

/// What the member shall have, as of which epoch of the group.
#[derive(Debug, Clone, Copy)]
pub(in crate::coordinator) struct Target<'a> {
    pub epoch: i32,
    pub partitions: &'a PartitionSet,
}

/// The next step of a member; `None` where there is none to take. `owned` is what the member says that it has,
/// where it says so; `is_free` tells whether nobody else has a partition.
pub(in crate::coordinator) fn reconcile(
    now: &Holding,
    target: Target<'_>,
    owned: Option<&PartitionSet>,
    is_free: impl Fn(TopicIdPartition) -> bool,
) -> Option<Holding> {
    match now.state {
        MemberState::Stable if now.epoch == target.epoch => return None,
        MemberState::UnrevokedPartitions if owned.is_none_or(|owned| owned.intersects(&now.revoking)) => return None,
        MemberState::Stable | MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {}
    }
    let next = step(now, target, owned, is_free);
    (next != *now).then_some(next)
}

fn step(
    now: &Holding,
    target: Target<'_>,
    owned: Option<&PartitionSet>,
    is_free: impl Fn(TopicIdPartition) -> bool,
) -> Holding {
    let keep = now.assigned.intersection(target.partitions);
    let revoke = now.assigned.difference(target.partitions);
    if !revoke.is_empty() && owned.is_none_or(|owned| owned.intersects(&revoke)) {
        return Holding { state: MemberState::UnrevokedPartitions, epoch: now.epoch, assigned: keep, revoking: revoke };
    }
    let mut add = target.partitions.difference(&keep);
    let wanted = add.len();
    add.retain(&is_free);
    Holding {
        state: if add.len() < wanted { MemberState::UnreleasedPartitions } else { MemberState::Stable },
        epoch: target.epoch,
        assigned: keep.union(&add),
        revoking: PartitionSet::EMPTY,
    }
}

#[cfg(test)]
mod tests {
    use super::MemberState::*;
    use super::*;

    fn set(partitions: impl IntoIterator<Item = i32>) -> PartitionSet {
        partitions.into_iter().map(|partition| (1, partition)).collect()
    }

    fn holding(state: MemberState, epoch: i32, assigned: &[i32], revoking: &[i32]) -> Holding {
        Holding { state, epoch, assigned: set(assigned.iter().copied()), revoking: set(revoking.iter().copied()) }
    }

    /// `taken`: what others have.
    fn next(now: &Holding, epoch: i32, target: &[i32], owned: Option<&[i32]>, taken: &[i32]) -> Option<Holding> {
        let target = set(target.iter().copied());
        let owned = owned.map(|owned| set(owned.iter().copied()));
        reconcile(now, Target { epoch, partitions: &target }, owned.as_ref(), |(_, p)| !taken.contains(&p))
    }

    #[test]
    fn a_member_at_its_target_has_nothing_to_do() {
        let now = holding(Stable, 3, &[0, 1], &[]);
        assert_eq!(next(&now, 3, &[5], None, &[]), None, "its epoch says that it is there");
        assert_eq!(next(&now, 4, &[0, 1], None, &[]), Some(holding(Stable, 4, &[0, 1], &[])));
    }

    #[test]
    fn what_is_to_go_goes_before_anything_comes_and_before_the_epoch_moves() {
        let now = holding(Stable, 3, &[0, 1, 2], &[]);
        let asked = holding(UnrevokedPartitions, 3, &[0], &[1, 2]);
        assert_eq!(next(&now, 4, &[0, 7], None, &[]), Some(asked.clone()));
        assert_eq!(next(&asked, 4, &[0, 7], None, &[]), None, "it does not say what it has");
        assert_eq!(next(&asked, 4, &[0, 7], Some(&[0, 2]), &[]), None, "one is not given back yet");
        assert_eq!(next(&asked, 4, &[0, 7], Some(&[0]), &[]), Some(holding(Stable, 4, &[0, 7], &[])));
    }

    #[test]
    fn a_member_that_says_it_has_let_go_already_need_not_be_asked() {
        let now = holding(Stable, 3, &[0, 1], &[]);
        assert_eq!(next(&now, 4, &[1], Some(&[]), &[]), Some(holding(Stable, 4, &[1], &[])));
    }

    #[test]
    fn what_others_have_is_waited_for() {
        let now = holding(Stable, 0, &[], &[]);
        let waits = holding(UnreleasedPartitions, 2, &[3], &[]);
        assert_eq!(next(&now, 2, &[3, 4], None, &[4]), Some(waits.clone()));
        assert_eq!(next(&waits, 2, &[3, 4], None, &[4]), None);
        assert_eq!(next(&waits, 2, &[3, 4], None, &[]), Some(holding(Stable, 2, &[3, 4], &[])));
    }

    #[test]
    fn a_target_that_changes_meanwhile_is_taken_up_from_where_the_member_stands() {
        let asked = holding(UnrevokedPartitions, 3, &[0], &[1]);
        let again = holding(UnrevokedPartitions, 3, &[], &[0]);
        assert_eq!(next(&asked, 6, &[9], Some(&[0]), &[]), Some(again), "the newest target wants the rest as well");
        let waits = holding(UnreleasedPartitions, 4, &[0, 1], &[]);
        assert_eq!(next(&waits, 5, &[0], None, &[]), Some(holding(UnrevokedPartitions, 4, &[0], &[1])));
    }
}
