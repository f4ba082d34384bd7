//! A static member that restarts (KIP-345): it joins without an id and takes the place of the one that has
//! its instance id.

use super::ctx::{At, Ctx, Wait, Write};
use super::group::{Group, Hold, State};
use super::member::{Offer, ParkedJoin};
use super::responses::{join_error, sync_error};
use super::stats::Departure;
use super::work::{JoinAnswer, Work};
use crate::limits::WORK_SLICE_MEMBERS;
use crate::request::JoinGroupRequest;
use crate::response::JoinGroupResponse;
use crate::{ErrorCode, Response, StoreError, Text};

/// A replacement in a stable group, which counts once it is kept.
#[derive(Debug)]
pub(super) struct Replacement {
    slot: u32,
    parked: ParkedJoin,
    old_member_id: Text,
    old_leader_id: Text,
    old_offer: Offer,
}

/// Whether the group would still choose its protocol, with a replacement's other order of names.
#[derive(Debug)]
pub(super) struct Revote {
    replacement: Box<Replacement>,
    at: usize,
    votes: Vec<(Text, usize)>,
}

impl Group {
    pub(super) fn replace_static_member(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        slot: u32,
        parked: ParkedJoin,
        request: &JoinGroupRequest,
    ) -> Result<(), ErrorCode> {
        let instance = self.member(slot).group_instance_id.clone().unwrap_or_default();
        let offer = self.offer_of(ctx, slot, request);
        let old_leader_id = self.leader_id();
        let old_offer = self.change_offer(ctx, slot, offer)?;
        let new_member_id = self.new_member_id(ctx, &instance);
        let old_member_id = self.rename(ctx, slot, new_member_id);
        self.fence(ctx, slot);
        ctx.stats.depart(Departure::Replaced);
        if self.state == State::Stable {
            // Only another order of names can make the group choose otherwise: while it is stable, everything else is
            // as it was when it chose.
            let is_same = self.member(slot).offer.same_names(&old_offer);
            let replacement = Box::new(Replacement { slot, parked, old_member_id, old_leader_id, old_offer });
            if is_same {
                self.keep_replacement(replacement);
            } else {
                ctx.waits.insert((parked.connection, self.this.slot, Wait::Queued(parked.token)));
                self.works.push_back(Work::Revote(Revote { replacement, at: 0, votes: Vec::new() }));
            }
            return Ok(());
        }
        self.park_join(ctx, slot, parked);
        self.joined_or_left(ctx, at);
        Ok(())
    }

    /// What the old id has parked is answered 82.
    fn fence(&mut self, ctx: &mut Ctx, slot: u32) {
        if let Some(join) = self.take_join(ctx, slot) {
            let response = join_error(join.api_version, ErrorCode::FENCED_INSTANCE_ID, Text::EMPTY);
            ctx.reply(join.token, response);
        }
        if let Some(sync) = self.take_sync(ctx, slot) {
            ctx.reply(sync.token, sync_error(ErrorCode::FENCED_INSTANCE_ID));
        }
    }

    fn rename(&mut self, ctx: &mut Ctx, slot: u32, member_id: Text) -> Text {
        let old = std::mem::replace(&mut self.member_mut(slot).member_id, member_id.clone());
        self.ids.remove(&old);
        ctx.totals.add_bytes(member_id.len());
        ctx.totals.remove_bytes(old.len());
        self.ids.insert(member_id, slot);
        old
    }

    fn keep_replacement(&mut self, replacement: Box<Replacement>) {
        let write = Write::Replacement { group: self.this, replacement };
        self.works.push_back(Work::keep_group(self, write));
    }

    /// A slice of it; what is left, if anything.
    pub(super) fn advance_revote(&mut self, ctx: &mut Ctx, mut revote: Revote) -> Option<Revote> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(voter) = self.next_member(&mut revote.at) else {
                let Replacement { slot, parked, .. } = *revote.replacement;
                ctx.waits.remove(&(parked.connection, self.this.slot, Wait::Queued(parked.token)));
                if self.elected(&revote.votes) == self.protocol_name {
                    self.keep_replacement(revote.replacement);
                } else {
                    self.park_join(ctx, slot, parked);
                    self.joined_or_left(ctx, self.at);
                }
                return None;
            };
            self.vote(voter, &mut revote.votes);
        }
        Some(revote)
    }

    pub(super) fn replacement_kept(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        replacement: Replacement,
        result: Result<(), StoreError>,
    ) {
        debug_assert!(matches!(self.hold, Hold::Write(_)));
        self.hold = Hold::None;
        let Replacement { slot, parked, old_member_id, old_leader_id, old_offer } = replacement;
        if let Err(error) = result {
            self.rename(ctx, slot, old_member_id);
            let (gained, lost) = (old_offer.bytes(), self.member(slot).offer.bytes());
            ctx.totals.add_bytes(gained);
            ctx.totals.remove_bytes(lost);
            self.replace_offer(slot, old_offer);
            let refused = JoinGroupResponse {
                error_code: error.code(),
                generation_id: self.generation,
                protocol_type: Some(self.protocol_type.clone()),
                protocol_name: self.protocol_name.clone(),
                leader: old_leader_id,
                skip_assignment: false,
                member_id: Text::EMPTY,
                members: Vec::new(),
            };
            return ctx.reply(parked.token, Response::Join(refused));
        }
        self.restart_session(ctx, at, slot);
        let knows_skip = parked.api_version >= 9;
        let leads = self.is_leader(slot) && knows_skip;
        let mut answer = JoinAnswer::current(self, slot, parked, leads);
        answer.skip_assignment = leads;
        if !knows_skip {
            answer.leader = old_leader_id;
        }
        self.answer_join(ctx, answer);
    }
}
