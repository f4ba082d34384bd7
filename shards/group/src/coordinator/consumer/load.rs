//! What the store has kept of consumer groups, taken in at start.

use std::collections::HashMap;

use super::ConsumerGroup;
use super::member::{AWAY_EPOCH, Member};
use super::reconcile::MemberState;
use crate::Text;
use crate::coordinator::ctx::{At, Ctx};
use crate::limits::WORK_SLICE_MEMBERS;
use crate::record::{ConsumerGroupMetadata, ConsumerMember};

impl ConsumerGroup {
    /// The last record of the group counts, wherever it comes among its members'.
    pub fn load(&mut self, kept: &ConsumerGroupMetadata) {
        self.epoch = kept.epoch;
        self.assignment_epoch = kept.assignment_epoch.min(kept.epoch);
        self.topics_hash = kept.wishes_hash;
    }

    /// The last record of a member counts.
    pub fn load_member(&mut self, ctx: &mut Ctx, kept: ConsumerMember) {
        self.unload_member(ctx, &kept.member_id);
        // A static member that came back under a new id, and whose old record's tombstone is not there: the process
        // died before it, or could not write it. Its old id is away, whichever record comes first.
        if let Some(instance_id) = &kept.instance_id
            && let Some(slot) = self.instances.get(instance_id).copied()
        {
            if kept.epoch == AWAY_EPOCH && !self.member(slot).is_away() {
                return self.superseded.push(kept.member_id);
            }
            self.superseded.push(self.member(slot).member_id.clone());
            self.remove(ctx, slot);
        }
        ctx.totals.add_member();
        let member = Member::restored(ctx.uid(), kept);
        self.take_in(ctx, member);
    }

    /// The member is gone.
    pub fn unload_member(&mut self, ctx: &mut Ctx, member_id: &Text) {
        if let Some(slot) = self.ids.get(member_id).copied() {
            self.remove(ctx, slot);
        }
    }

    /// All is loaded. Of a write that nobody was told of, some records may be there and others not.
    pub fn loaded(&mut self, ctx: &mut Ctx) {
        self.changes = super::Changes::default();
        let superseded = std::mem::take(&mut self.superseded).into_iter();
        self.changes.removed = superseded.filter(|member_id| !self.ids.contains_key(member_id)).collect();
        self.settle_partitions(ctx);
        self.count_restored(ctx);
        // Of a write that was cut off members are there, or are gone, of which the group's record knows nothing. The
        // rest is then the hash of no topics, and the first heartbeat has everything assigned anew.
        self.topics_hash = self.topics_hash.wrapping_sub(self.digest);
        self.written_digest = self.digest;
        let newest = self.members.iter().map(|(_, member)| member.holding.epoch).max().unwrap_or_default();
        if newest > self.assignment_epoch {
            // Epochs only grow, and the targets of this one are not all there.
            self.assignment_epoch = newest;
            self.epoch = self.epoch.max(newest);
            self.bump();
        }
    }

    /// A partition that two members have was given to the one of the higher epoch by a write that nobody was told
    /// of: the other has it, or has said that it gave it back.
    fn settle_partitions(&mut self, ctx: &mut Ctx) {
        let mut slots: Vec<u32> = self.members.iter().map(|(slot, _)| slot as u32).collect();
        slots.sort_by_key(|slot| self.member(*slot).holding.epoch);
        let mut taken = HashMap::new();
        for slot in slots {
            let holding = &self.member(slot).holding;
            let mut is_contested = false;
            for partition in holding.assigned.iter().chain(holding.revoking.iter()) {
                is_contested |= *taken.entry(partition).or_insert(slot) != slot;
            }
            if is_contested {
                self.change(ctx, slot, |member| {
                    member.holding.assigned.retain(|partition| taken.get(&partition) == Some(&slot));
                    member.holding.revoking.retain(|partition| taken.get(&partition) == Some(&slot));
                    member.since.retain(|(partition, _)| taken.get(partition) == Some(&slot));
                    if member.holding.state == MemberState::Stable {
                        member.holding.state = MemberState::UnreleasedPartitions;
                    }
                });
            }
        }
        self.owners = taken;
    }

    /// Sessions of all members start anew, and what they have to give back has its time again. From a place in the
    /// list on; returns the next, if any.
    pub fn arm_restored(&mut self, ctx: &mut Ctx, at: At, from: usize) -> Option<usize> {
        let end = (from + WORK_SLICE_MEMBERS).min(self.members.capacity());
        for slot in from..end {
            if self.members.contains(slot) {
                let slot = slot as u32;
                self.restart_session(ctx, at, slot);
                if self.member(slot).holding.state == MemberState::UnrevokedPartitions {
                    self.arm_deadline(ctx, at, slot);
                }
            }
        }
        (end < self.members.capacity()).then_some(end)
    }
}
