//! What the store has kept, taken in at start.

use super::Coordinator;
use super::consumer::ConsumerGroup;
use super::ctx::{At, Phase};
use super::group::{Group, State};
use super::member::Member;
use super::work::Work;
use crate::record::GroupMetadata;
use crate::{Now, Record};

impl Coordinator {
    /// Takes in a record of the store, before [`Coordinator::finish_loading`]. Of a key the last one counts;
    /// several may come, in the order in which they were written.
    pub fn load(&mut self, now: Now, record: Record) {
        debug_assert_eq!(self.ctx.phase, Phase::Loading);
        let at = self.ctx.at(now);
        match record {
            Record::Group(metadata) => self.load_group(at, metadata),
            Record::ConsumerGroup(kept) => {
                let consumer = self.loaded_consumer(at, &kept.group_id);
                consumer.load(&kept);
                let slot = self.loaded(at, &kept.group_id);
                self.groups[slot as usize].state_timestamp_ms = kept.state_timestamp_ms;
            }
            Record::ConsumerMember { group_id, member } => {
                self.loaded_consumer(at, &group_id);
                let slot = self.loaded(at, &group_id);
                if let Some(consumer) = &mut self.groups[slot as usize].consumer {
                    consumer.load_member(&mut self.ctx, *member);
                }
            }
            Record::ConsumerMemberTombstone { group_id, member_id } => {
                if let Some(slot) = self.by_id.get(&group_id)
                    && let Some(consumer) = &mut self.groups[*slot as usize].consumer
                {
                    consumer.unload_member(&mut self.ctx, &member_id);
                }
            }
            Record::GroupTombstone { group_id } => {
                if let Some(slot) = self.by_id.get(&group_id).copied() {
                    self.remove_group(slot);
                }
            }
            Record::Offset { key, value } => {
                let slot = self.loaded(at, &key.group_id);
                let group = &mut self.groups[slot as usize];
                group.offsets.insert(&mut self.ctx, key.topic, key.partition, value);
            }
            Record::OffsetTombstone { key } => {
                if let Some(slot) = self.by_id.get(&key.group_id) {
                    let group = &mut self.groups[*slot as usize];
                    group.offsets.remove(&mut self.ctx, &key.topic, key.partition);
                }
            }
        }
    }

    pub(super) fn loaded(&mut self, at: At, group_id: &crate::Text) -> u32 {
        match self.by_id.get(group_id) {
            Some(slot) => *slot,
            None => {
                // What was accepted once is not refused because bounds have become narrower.
                self.ctx.totals.add_group();
                let slot = self.insert_group(at, group_id.clone());
                self.groups[slot as usize].offsets_missing = self.ctx.loads_offsets_later;
                slot
            }
        }
    }

    /// The group as a consumer group, whatever it was before.
    fn loaded_consumer(&mut self, at: At, group_id: &crate::Text) -> &mut ConsumerGroup {
        let slot = self.loaded(at, group_id);
        let group = &mut self.groups[slot as usize];
        if group.consumer.is_none() {
            let mut known = 0;
            while let Some(member) = group.next_member(&mut known) {
                group.remove_member(&mut self.ctx, member);
            }
            group.set_state(&mut self.ctx, State::Empty);
            group.protocol_type = crate::Text::from_static("consumer");
        }
        let (this, id) = (group.this, group.id.clone());
        group.consumer.get_or_insert_with(|| Box::new(ConsumerGroup::new(this, id)))
    }

    fn load_group(&mut self, at: At, metadata: GroupMetadata) {
        let slot = self.loaded(at, &metadata.group_id);
        let ctx = &mut self.ctx;
        let group = &mut self.groups[slot as usize];
        let mut known = 0;
        while let Some(member) = group.next_member(&mut known) {
            group.remove_member(ctx, member);
        }
        if let Some(mut consumer) = group.consumer.take() {
            consumer.clear(ctx);
        }
        group.set_assigned(ctx, 0);
        let state = if metadata.members.is_empty() { State::Empty } else { State::Stable };
        group.set_state(ctx, state);
        group.state_timestamp_ms = metadata.state_timestamp_ms;
        group.protocol_type = metadata.protocol_type.clone();
        group.generation = metadata.generation;
        group.protocol_name = metadata.protocol_name;
        for kept in metadata.members {
            if group.ids.contains_key(&kept.member_id) {
                continue;
            }
            group.count_assignment(ctx, &kept.assignment);
            let member = Member::restored(ctx.uid(), kept, group.assignment_epoch);
            ctx.totals.add_member();
            ctx.totals.add_bytes(member.bytes());
            group.add_member(ctx, member, &metadata.protocol_type);
        }
        if let Some(leader) = metadata.leader.and_then(|leader| group.ids.get(&leader).copied()) {
            group.leader = Some(leader);
        }
    }

    /// All records were taken in: sessions of all members start anew, and requests are served. A group that
    /// was stable goes on as if nothing had happened; one that has too many members rebalances.
    pub fn finish_loading(&mut self, now: Now) {
        debug_assert_eq!(self.ctx.phase, Phase::Loading);
        let at = self.ctx.at(now);
        self.ctx.phase = Phase::Active;
        let max = self.ctx.config.max_members_per_group;
        // In the order in which they were loaded, so that a start is the same every time.
        for slot in self.groups.iter().map(|(slot, _)| slot as u32).collect::<Vec<_>>() {
            let group: &mut Group = &mut self.groups[slot as usize];
            if group.consumer.is_some() {
                group.consumer_loaded(&mut self.ctx, at);
                self.settle(slot);
                continue;
            }
            if group.members.is_empty() {
                self.note_spare(slot);
                continue;
            }
            group.at = at;
            group.sessions_from_ms = at.ms;
            group.works.push_back(Work::ArmSessions { at: 0 });
            if group.members.len() > max {
                group.works.push_back(Work::Prepare);
            }
            self.settle(slot);
        }
    }
}
