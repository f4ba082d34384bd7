//! Targets: what each member shall have, made by an assignor when the group's epoch has moved on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ConsumerGroup;
use crate::assignor::{ASSIGNORS, AssignableTopic, Assigning, Assignor, Subscriber};
use crate::coordinator::ctx::{At, Ctx};
use crate::limits::{ASSIGNED_INLINE_MAX, PARTITION_BYTES, WORK_SLICE_MEMBERS};
use crate::{Effect, PartitionSet, Text, TopicIdPartition};

/// Targets on their way into the group.
#[derive(Debug)]
pub(in crate::coordinator) struct Assigned {
    epoch: i32,
    targets: std::vec::IntoIter<(u32, u64, PartitionSet)>,
}

/// What a member subscribes to: names, and a pattern.
type Wishes = (Arc<[Text]>, Option<Text>);

/// The members that an assignor was asked about: slot and uid, in its order.
type Asked = Vec<(u32, u64)>;

impl ConsumerGroup {
    /// The assignor that most members ask for; the first of all where nobody does, or between equals.
    pub(in crate::coordinator) fn assignor(&self) -> Assignor {
        let most = (0..ASSIGNORS.len()).max_by_key(|place| (self.votes[*place], std::cmp::Reverse(*place)));
        ASSIGNORS[most.unwrap_or_default()]
    }

    /// Makes new targets when the epoch has moved on: at once in a small group, elsewhere in a large one, and no
    /// more often than the assignment interval allows, so that a thousand joins are not a thousand assignments.
    pub(super) fn assign_if_due(&mut self, ctx: &mut Ctx, at: At) {
        let interval_ms = ctx.config.consumer_assignment_interval.as_millis();
        let is_early = self.assigned_at_ms.is_some_and(|then| u128::from(at.ms.saturating_sub(then)) < interval_ms);
        // After a start, without the topics of patterns, everybody would lose what these name.
        let is_blind = self.assignment_epoch > 0 && !self.patterns.is_empty() && !self.patterns_known;
        if self.epoch == self.assignment_epoch || self.assigning.is_some() || is_early || is_blind {
            return;
        }
        self.assigned_at_ms = Some(at.ms);
        let (question, asked) = self.question(ctx);
        let partitions: usize = question.topics.iter().map(|topic| topic.partitions as usize).sum();
        let has_room = self.make_room(ctx, partitions + self.held_beside(&question));
        if has_room && question.members.len() + partitions <= ASSIGNED_INLINE_MAX {
            let targets = self.assignor().assign(&question);
            for ((slot, _), target) in asked.into_iter().zip(targets) {
                self.set_target(ctx, slot, target);
            }
            self.assigned(self.epoch);
            return;
        }
        if self.assignment_epoch == 0 {
            // Members must not stand at epoch 0: until the first targets come they have those of an epoch before.
            self.assigned(self.epoch);
            self.bump();
        }
        if !has_room {
            // Everybody stays with what it has; it is tried again after the interval.
            return;
        }
        self.assigning = Some(self.epoch);
        ctx.effects.push_back(Effect::ComputeAssignment {
            group: self.this.slot,
            uid: self.this.uid,
            assignor: self.assignor(),
            question: Box::new(question),
            asked,
        });
    }

    /// What the assignor has to go by, and the members in its order.
    fn question(&self, ctx: &Ctx) -> (Assigning, Asked) {
        let mut topics = Vec::new();
        let mut places: HashMap<&str, Option<usize>> = HashMap::new();
        let mut place_of = |name| {
            *places.entry(name).or_insert_with(|| {
                let (id, partitions) = ctx.topics.topic(name)?;
                topics.push(AssignableTopic { id, partitions });
                Some(topics.len() - 1)
            })
        };
        // Members that subscribe to the same share one list, as they share it where they say it.
        let mut lists: HashMap<Wishes, Arc<[usize]>> = HashMap::new();
        let mut members = Vec::with_capacity(self.members.len());
        let mut asked = Vec::with_capacity(self.members.len());
        for (slot, member) in self.members.iter() {
            let wishes = (member.names.clone(), member.regex.clone());
            let topics = lists.entry(wishes).or_insert_with(|| {
                let mut list: Vec<usize> = self.names_of(member).filter_map(&mut place_of).collect();
                list.sort_unstable();
                list.dedup();
                list.into()
            });
            members.push(Subscriber {
                member_id: member.member_id.clone(),
                instance_id: member.instance_id.clone(),
                topics: topics.clone(),
                target: member.target.clone(),
            });
            asked.push((slot as u32, member.uid));
        }
        (Assigning { topics, members }, asked)
    }

    /// How many partitions members have that are none of these topics any more: until they are given back others get
    /// theirs beside them.
    fn held_beside(&self, question: &Assigning) -> usize {
        let sizes: HashMap<u128, i32> = question.topics.iter().map(|topic| (topic.id, topic.partitions)).collect();
        let is_beside = |(id, partition): &&TopicIdPartition| sizes.get(id).is_none_or(|size| partition >= size);
        self.owners.keys().filter(is_beside).count()
    }

    /// Counts so many partitions, or as many as members have, if that is more. `false` when there is no room.
    pub fn make_room(&mut self, ctx: &mut Ctx, partitions: usize) -> bool {
        let partitions = partitions.max(self.owners.len());
        if partitions > self.room {
            if !ctx.reserve((partitions - self.room) * PARTITION_BYTES) {
                return false;
            }
            self.room = partitions;
        }
        self.give_back_room(ctx, partitions);
        true
    }

    /// Counts no more than so many partitions.
    pub(super) fn give_back_room(&mut self, ctx: &mut Ctx, partitions: usize) {
        ctx.totals.remove_bytes(self.room.saturating_sub(partitions) * PARTITION_BYTES);
        self.room = self.room.min(partitions);
    }

    /// Counts what was kept, whether or not there would be room for it.
    pub(super) fn count_restored(&mut self, ctx: &mut Ctx) {
        let targets = self.members.iter().flat_map(|(_, member)| member.target.iter());
        let all: HashSet<TopicIdPartition> = targets.chain(self.owners.keys().copied()).collect();
        self.room = all.len();
        ctx.totals.add_bytes(self.room * PARTITION_BYTES);
    }

    fn set_target(&mut self, ctx: &mut Ctx, slot: u32, target: PartitionSet) {
        if self.member(slot).target != target {
            self.change(ctx, slot, |member| member.target = target);
        }
    }

    fn assigned(&mut self, epoch: i32) {
        self.assignment_epoch = epoch;
        self.changes.group = true;
    }

    /// Targets have come from elsewhere.
    pub fn take_assignment(&mut self, asked: Asked, targets: Vec<PartitionSet>) -> Option<Assigned> {
        let epoch = self.assigning.take()?;
        debug_assert_eq!(asked.len(), targets.len());
        let targets: Vec<_> = asked.into_iter().zip(targets).map(|((slot, uid), target)| (slot, uid, target)).collect();
        Some(Assigned { epoch, targets: targets.into_iter() })
    }

    /// Takes in a slice of the targets; what is left, if anything. They count when all are there.
    pub fn advance_assigned(&mut self, ctx: &mut Ctx, mut assigned: Assigned) -> Option<Assigned> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some((slot, uid, target)) = assigned.targets.next() else {
                self.assigned(assigned.epoch);
                return None;
            };
            if self.member_of(slot, uid).is_some() {
                self.set_target(ctx, slot, target);
            }
        }
        Some(assigned)
    }
}
