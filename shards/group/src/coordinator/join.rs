//! JoinGroup: its checks in Kafka's order, and what a join does in each state.

use super::ctx::{At, Ctx, Wait};
use super::group::{Group, Pending, State};
use super::member::{Member, Offer, ParkedJoin, cut};
use super::responses::join_error;
use super::work::{JoinAnswer, Work};
use crate::limits::{
    GROUP_ID_BYTES_MAX, Limit, MEMBER_ID_BYTES_MAX, PROTOCOL_NAME_BYTES_MAX, PROTOCOLS_PER_MEMBER_MAX,
};
use crate::request::JoinGroupRequest;
use crate::{ConnectionId, ErrorCode, ReplyToken, Text, TimerKey};

/// What can be said without the group, beside 14 and 15 (1.3, rows 3 and 4).
pub(super) fn check(ctx: &mut Ctx, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if request.group_id.len() > GROUP_ID_BYTES_MAX {
        ctx.limits_hit.count(Limit::GroupId);
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let session_ms = u128::try_from(request.session_timeout_ms).unwrap_or_default();
    let config = &ctx.config;
    if session_ms < config.min_session_timeout.as_millis() || session_ms > config.max_session_timeout.as_millis() {
        ctx.limits_hit.count(Limit::SessionTimeout);
        return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    Ok(())
}

/// The gateway's own bounds on what a member may say of itself.
pub(super) fn check_bounds(ctx: &mut Ctx, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    if request.protocols.len() > PROTOCOLS_PER_MEMBER_MAX {
        ctx.limits_hit.count(Limit::ProtocolsPerMember);
        return Err(ErrorCode::INVALID_REQUEST);
    }
    let metadata: usize = request.protocols.iter().map(|p| p.metadata.len()).sum();
    let names = request.protocols.iter().map(|p| &p.name).chain([&request.protocol_type]);
    let longest = names.map(Text::len).max().unwrap_or_default();
    let instance = request.group_instance_id.as_ref().map_or(0, Text::len);
    let too_much = metadata > ctx.config.max_member_blob_bytes
        || longest > PROTOCOL_NAME_BYTES_MAX
        || instance > MEMBER_ID_BYTES_MAX;
    if too_much {
        ctx.limits_hit.count(Limit::MemberBlob);
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if u128::try_from(request.rebalance_timeout_ms).unwrap_or_default() > ctx.config.max_rebalance_timeout.as_millis() {
        ctx.limits_hit.count(Limit::RebalanceTimeout);
    }
    Ok(())
}

fn max_rebalance_timeout_ms(ctx: &Ctx) -> i32 {
    i32::try_from(ctx.config.max_rebalance_timeout.as_millis()).unwrap_or(i32::MAX)
}

impl Group {
    pub(super) fn join(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        token: ReplyToken,
        connection: ConnectionId,
        request: JoinGroupRequest,
    ) {
        let parked = ParkedJoin { token, connection, api_version: request.api_version };
        let is_new = request.member_id.is_empty();
        let refused = |error, member_id| join_error(request.api_version, error, member_id);
        if !self.has_room_for(ctx, &request.member_id) {
            ctx.limits_hit.count(Limit::MembersPerGroup);
            if self.remove_pending(ctx, &request.member_id) && self.initial.is_none() {
                self.complete_if_all_joined(ctx);
            }
            return ctx.reply(token, refused(ErrorCode::GROUP_MAX_SIZE_REACHED, Text::EMPTY));
        }
        let result = if !self.supports(&request) {
            Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
        } else if is_new {
            self.join_without_id(ctx, at, parked, &request)
        } else {
            self.join_with_id(ctx, at, parked, &request)
        };
        if let Err(error) = result {
            let member_id = if is_new { Text::EMPTY } else { request.member_id.clone() };
            ctx.reply(token, refused(error, member_id));
        }
    }

    /// 1.5. The last to come back to a group that is over the bound are the ones refused.
    fn has_room_for(&self, ctx: &Ctx, member_id: &Text) -> bool {
        let max = ctx.config.max_members_per_group;
        let known = self.ids.get(member_id);
        match self.state {
            State::Empty => true,
            State::PreparingRebalance => {
                known.is_some_and(|slot| self.member(*slot).join.is_some()) || self.joined < max
            }
            _ => known.is_some() || self.members.len() < max,
        }
    }

    /// 1.6. A group without members takes any type; the counts include the caller's own earlier offer.
    fn supports(&self, request: &JoinGroupRequest) -> bool {
        if self.members.is_empty() {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let everybody = self.members.len();
        request.protocol_type == self.protocol_type
            && request.protocols.iter().any(|p| self.support.get(&p.name) == Some(&everybody))
    }

    fn join_without_id(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        parked: ParkedJoin,
        request: &JoinGroupRequest,
    ) -> Result<(), ErrorCode> {
        if let Some(instance) = &request.group_instance_id {
            if let Some(slot) = self.instances.get(instance).copied() {
                return self.replace_static_member(ctx, at, slot, parked, request);
            }
            let member_id = self.new_member_id(ctx, instance);
            return self.join_new_member(ctx, at, member_id, parked, request, false);
        }
        let member_id = self.new_member_id(ctx, &cut(&request.client_id));
        if request.api_version < 4 {
            return self.join_new_member(ctx, at, member_id, parked, request, false);
        }
        if !ctx.totals.try_add_member(ctx.config.max_total_members) {
            ctx.limits_hit.count(Limit::TotalMembers);
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let uid = ctx.uid();
        let session_ms = u64::try_from(request.session_timeout_ms).unwrap_or_default();
        let deadline_ms = at.ms.saturating_add(session_ms);
        self.pending.insert(member_id.clone(), Pending { uid, connection: parked.connection, deadline_ms });
        self.pending_ids.insert(uid, member_id.clone());
        ctx.waits.insert((parked.connection, self.this.slot, Wait::Pending(uid)));
        ctx.arm(TimerKey::Pending { group: self.this.slot, uid }, deadline_ms);
        ctx.reply(parked.token, join_error(request.api_version, ErrorCode::MEMBER_ID_REQUIRED, member_id));
        Ok(())
    }

    /// `<prefix>-<uuid>`, as Kafka makes them.
    pub(super) fn new_member_id(&self, ctx: &mut Ctx, prefix: &Text) -> Text {
        loop {
            let member_id = Text::from(format!("{prefix}-{}", ctx.uuid()));
            if !self.ids.contains_key(&member_id) && !self.pending.contains_key(&member_id) {
                return member_id;
            }
        }
    }

    fn join_with_id(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        parked: ParkedJoin,
        request: &JoinGroupRequest,
    ) -> Result<(), ErrorCode> {
        if self.pending.contains_key(&request.member_id) {
            if request.group_instance_id.is_some() {
                // Static members are never given such an id.
                return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
            }
            return self.join_new_member(ctx, at, request.member_id.detached(), parked, request, true);
        }
        let slot = self.identify(&request.member_id, request.group_instance_id.as_ref())?;
        let offer = Offer::of(request, max_rebalance_timeout_ms(ctx), Some(self.member(slot)));
        let unchanged = *self.member(slot).offer.protocols == *offer.protocols;
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::CompletingRebalance if unchanged => {
                self.answer_join(ctx, JoinAnswer::current(self, slot, parked, self.is_leader(slot)));
                Ok(())
            }
            State::Stable if unchanged && !self.is_leader(slot) => {
                self.answer_join(ctx, JoinAnswer::current(self, slot, parked, false));
                Ok(())
            }
            _ => {
                self.change_offer(ctx, slot, offer)?;
                self.park_join(ctx, slot, parked);
                self.joined_or_left(ctx, at);
                Ok(())
            }
        }
    }

    /// Adds a member with its join parked. `was_pending`: it is counted already.
    fn join_new_member(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        member_id: Text,
        parked: ParkedJoin,
        request: &JoinGroupRequest,
        was_pending: bool,
    ) -> Result<(), ErrorCode> {
        let offer = Offer::of(request, max_rebalance_timeout_ms(ctx), None);
        let mut member = Member::new(ctx.uid(), member_id, request, offer, at);
        let bytes = member.bytes();
        if !ctx.reserve(bytes) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if was_pending {
            self.remove_pending(ctx, &member.member_id);
            ctx.totals.add_member();
        } else if !ctx.totals.try_add_member(ctx.config.max_total_members) {
            ctx.limits_hit.count(Limit::TotalMembers);
            ctx.totals.remove_bytes(bytes);
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let deadline_ms = member.deadline_ms(0);
        member.armed_ms = Some(deadline_ms);
        let uid = member.uid;
        let slot = self.add_member(ctx, member, &request.protocol_type);
        ctx.stats.joined += 1;
        ctx.arm(TimerKey::Session { group: self.this.slot, member: slot, uid }, deadline_ms);
        self.park_join(ctx, slot, parked);
        self.joined_or_left(ctx, at);
        Ok(())
    }

    /// Takes over what a known member offers now.
    pub(super) fn change_offer(&mut self, ctx: &mut Ctx, slot: u32, offer: Offer) -> Result<Offer, ErrorCode> {
        let (old, new) = (self.member(slot).offer.bytes(), offer.bytes());
        if new > old && !ctx.reserve(new - old) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        ctx.totals.remove_bytes(old.saturating_sub(new));
        Ok(self.replace_offer(slot, offer))
    }

    pub(super) fn offer_of(&self, ctx: &Ctx, slot: u32, request: &JoinGroupRequest) -> Offer {
        Offer::of(request, max_rebalance_timeout_ms(ctx), Some(self.member(slot)))
    }

    /// Answers a join at once, in slices where the member list goes with it.
    pub(super) fn answer_join(&mut self, ctx: &mut Ctx, answer: JoinAnswer) {
        if answer.with_members {
            self.works.push_back(Work::AnswerJoin(answer));
        } else {
            ctx.reply(answer.token, answer.response(self));
        }
    }
}
