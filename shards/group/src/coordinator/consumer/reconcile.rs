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

/// What the member subscribes to by now, which may be less than its target is of.
#[derive(Debug, Clone, Copy)]
pub(in crate::coordinator) struct Subscription<F> {
    /// By this very heartbeat.
    pub has_changed: bool,
    /// Whether it may have partitions of the topic with this id.
    pub includes: F,
}

/// The next step of a member; `None` where there is none to take. `owned` is what the member says that it has,
/// where it says so; `is_free` tells whether nobody else has a partition.
///
/// What a member no longer subscribes to is taken from it as soon as it says so, and not first by the next target
/// (Kafka 4.4).
pub(in crate::coordinator) fn reconcile(
    now: &Holding,
    target: Target<'_>,
    subscription: Subscription<impl Fn(u128) -> bool>,
    owned: Option<&PartitionSet>,
    is_free: impl Fn(TopicIdPartition) -> bool,
) -> Option<Holding> {
    let waits = match now.state {
        MemberState::Stable => now.epoch == target.epoch,
        MemberState::UnrevokedPartitions => has_any_of(owned, &now.revoking),
        MemberState::UnreleasedPartitions => false,
    };
    let next = match waits {
        false => step(now, target, subscription.includes, owned, is_free),
        true if subscription.has_changed => strip(now, subscription.includes, owned),
        true => return None,
    };
    (next != *now).then_some(next)
}

/// Whether the member has one of these, as far as it says.
fn has_any_of(owned: Option<&PartitionSet>, partitions: &PartitionSet) -> bool {
    owned.is_none_or(|owned| owned.intersects(partitions))
}

/// Where it stands, without what it does not subscribe to.
fn strip(now: &Holding, includes: impl Fn(u128) -> bool, owned: Option<&PartitionSet>) -> Holding {
    let mut keep = now.assigned.clone();
    keep.retain_topics(includes);
    let gone = now.assigned.difference(&keep);
    if gone.is_empty() {
        return now.clone();
    }
    let revoking = now.revoking.union(&gone);
    match has_any_of(owned, &revoking) {
        true => Holding { state: MemberState::UnrevokedPartitions, epoch: now.epoch, assigned: keep, revoking },
        false => Holding { assigned: keep, ..now.clone() },
    }
}

fn step(
    now: &Holding,
    target: Target<'_>,
    includes: impl Fn(u128) -> bool,
    owned: Option<&PartitionSet>,
    is_free: impl Fn(TopicIdPartition) -> bool,
) -> Holding {
    let mut wanted = target.partitions.clone();
    wanted.retain_topics(includes);
    let keep = now.assigned.intersection(&wanted);
    let revoke = now.assigned.difference(&wanted);
    if !revoke.is_empty() && has_any_of(owned, &revoke) {
        return Holding { state: MemberState::UnrevokedPartitions, epoch: now.epoch, assigned: keep, revoking: revoke };
    }
    let mut add = wanted.difference(&keep);
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
        let same = Subscription { has_changed: false, includes: |_| true };
        reconcile(now, Target { epoch, partitions: &target }, same, owned.as_ref(), |(_, p)| !taken.contains(&p))
    }

    /// The step of a member at epoch 3, that of its target, which just said that it subscribes to nothing but topic 2.
    fn unsubscribed(now: &Holding, owned: Option<&PartitionSet>) -> Option<Holding> {
        let only_2 = Subscription { has_changed: true, includes: |topic| topic == 2 };
        let target = now.assigned.union(&[(1, 9), (2, 9)].into_iter().collect());
        reconcile(now, Target { epoch: 3, partitions: &target }, only_2, owned, |_| true)
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

    #[test]
    fn what_is_no_longer_subscribed_to_goes_at_once_and_does_not_come_back_with_the_old_target() {
        let of = |partitions: &[TopicIdPartition]| partitions.iter().copied().collect::<PartitionSet>();
        let now = Holding { assigned: of(&[(1, 0), (2, 0)]), ..holding(Stable, 3, &[], &[]) };
        let asked = unsubscribed(&now, Some(&now.assigned)).expect("a step");
        assert_eq!(
            asked,
            Holding { state: UnrevokedPartitions, epoch: 3, assigned: of(&[(2, 0)]), revoking: of(&[(1, 0)]) }
        );
        assert_eq!(unsubscribed(&asked, Some(&now.assigned)), None, "it has it still");
        let done = unsubscribed(&asked, Some(&asked.assigned)).expect("a step");
        assert_eq!((done.state, done.assigned, done.revoking), (Stable, of(&[(2, 0), (2, 9)]), PartitionSet::EMPTY));
        let let_go = unsubscribed(&now, Some(&of(&[(2, 0)]))).expect("a step");
        assert_eq!((let_go.state, let_go.assigned), (Stable, of(&[(2, 0)])), "it has let go already");
    }

    #[test]
    fn what_is_no_longer_subscribed_to_joins_what_is_being_given_back() {
        let of = |partitions: &[TopicIdPartition]| partitions.iter().copied().collect::<PartitionSet>();
        let asked = Holding {
            assigned: of(&[(1, 0), (2, 0)]),
            revoking: of(&[(2, 5)]),
            ..holding(UnrevokedPartitions, 3, &[], &[])
        };
        let more = unsubscribed(&asked, None).expect("a step");
        assert_eq!(
            (more.state, more.assigned, more.revoking),
            (UnrevokedPartitions, of(&[(2, 0)]), of(&[(1, 0), (2, 5)]))
        );
    }
}
