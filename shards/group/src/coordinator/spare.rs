//! Groups that have nothing but their place. They stay until offsets are swept, as in Kafka; but when the gateway
//! has as many groups as it takes, the oldest of them makes room for one that comes.

use std::collections::BTreeSet;

use super::Coordinator;
use super::ctx::{Phase, Write};
use super::group::{Group, State};
use crate::limits::{Limit, SWEEP_SLICE_GROUPS};
use crate::{ErrorCode, Record};

/// Groups by when they became empty, ms since the epoch, and slot.
pub(super) type Spare = BTreeSet<(i64, u32)>;

impl Group {
    /// Whether nothing is lost with the group but its generation.
    fn is_spare(&self) -> bool {
        self.state == State::Empty
            && self.offsets.is_empty()
            && !self.offsets_missing
            && self.offset_writes == 0
            && self.pending.is_empty()
            && !self.is_busy()
            && self.consumer.as_ref().is_none_or(|consumer| consumer.is_kept())
    }
}

impl Coordinator {
    /// Gives up groups that have nothing but their place where other shards have refused groups for want of one. To
    /// be called every second or so; a few at a time.
    pub fn handle_places_wanted(&mut self) {
        let is_full = self.ctx.totals.groups() >= self.ctx.config.max_groups;
        if self.ctx.phase != Phase::Active || !is_full {
            return;
        }
        for _ in 0..SWEEP_SLICE_GROUPS {
            if self.spare.is_empty() || !self.ctx.totals.take_wanted_place() {
                return;
            }
            self.give_up_spare();
        }
    }

    /// Takes a place for a group, that of one that has nothing else if need be.
    pub(super) fn take_place(&mut self) -> Result<(), ErrorCode> {
        let max = self.ctx.config.max_groups;
        if self.ctx.totals.try_add_group(max) || self.give_up_spare() && self.ctx.totals.try_add_group(max) {
            return Ok(());
        }
        self.ctx.totals.want_place(SWEEP_SLICE_GROUPS);
        self.ctx.limits_hit.count(Limit::Groups);
        Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
    }

    /// Gives up the group that has had nothing but its place for longest. Returns whether there was one.
    fn give_up_spare(&mut self) -> bool {
        let Some((_, slot)) = self.spare.first().copied() else { return false };
        let group_id = self.groups[slot as usize].id.clone();
        // A group that takes its name comes behind this, in the store as well.
        self.ctx.persist(vec![Record::GroupTombstone { group_id }], Write::Unwatched);
        self.remove_group(slot);
        true
    }

    /// Takes note of whether a group has nothing but its place.
    pub(super) fn note_spare(&mut self, slot: u32) {
        let group = &mut self.groups[slot as usize];
        let since_ms = group.is_spare().then_some(group.state_timestamp_ms);
        if since_ms == group.spare_since_ms {
            return;
        }
        if let Some(since_ms) = std::mem::replace(&mut group.spare_since_ms, since_ms) {
            self.spare.remove(&(since_ms, slot));
        }
        self.spare.extend(since_ms.map(|since_ms| (since_ms, slot)));
    }
}
