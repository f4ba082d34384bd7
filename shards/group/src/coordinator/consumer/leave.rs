//! Members of a consumer group that go: by their own heartbeat, by LeaveGroup, or because they were not heard
//! of or did not give back what they had to (6.7).

use super::ConsumerGroup;
use super::heartbeat::{LEAVE_EPOCH, Refused};
use super::member::AWAY_EPOCH;
use super::reconcile::MemberState;
use crate::coordinator::ctx::{At, Ctx};
use crate::coordinator::stats::Departure;
use crate::request::{ConsumerGroupHeartbeatRequest, LeaveGroupRequest};
use crate::response::{ConsumerGroupHeartbeatResponse, LeftMember};
use crate::{ErrorCode, PartitionSet, Text, TimerKey};

impl ConsumerGroup {
    /// A heartbeat of epoch -1 or -2.
    pub fn leave(
        &mut self,
        ctx: &mut Ctx,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refused> {
        let slot = self.identify(&request.member_id, request.instance_id.as_ref()).map_err(|code| (code, None))?;
        let member_id = self.member(slot).member_id.clone();
        if request.member_epoch == AWAY_EPOCH {
            self.change(ctx, slot, |member| {
                member.previous_epoch = member.holding.epoch;
                member.holding.epoch = AWAY_EPOCH;
                member.holding.state = MemberState::UnreleasedPartitions;
                member.holding.revoking = PartitionSet::EMPTY;
            });
            // From now on only its session runs.
            self.cancel_deadline(ctx, slot);
        } else {
            self.remove(ctx, slot);
            ctx.stats.depart(Departure::Left);
            self.bump();
        }
        Ok(ConsumerGroupHeartbeatResponse {
            error_code: ErrorCode::NONE,
            error_message: None,
            member_id: Some(member_id),
            member_epoch: if request.member_epoch == AWAY_EPOCH { AWAY_EPOCH } else { LEAVE_EPOCH },
            heartbeat_interval_ms: 0,
            assignment: None,
        })
    }

    /// The member that a request speaks for, or the error that it is answered with.
    pub(super) fn identify(&self, member_id: &Text, instance_id: Option<&Text>) -> Result<u32, ErrorCode> {
        match instance_id {
            Some(instance_id) => match self.instances.get(instance_id) {
                None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(slot) if self.member(*slot).member_id == *member_id => Ok(*slot),
                Some(_) => Err(ErrorCode::FENCED_INSTANCE_ID),
            },
            None => self.ids.get(member_id).copied().ok_or(ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }

    /// LeaveGroup: administrators remove members by it, whichever protocol these speak. One epoch for all.
    pub fn leave_group(&mut self, ctx: &mut Ctx, request: LeaveGroupRequest) -> Vec<LeftMember> {
        let mut left = Vec::with_capacity(request.members.len());
        for member in request.members {
            let slot = match &member.group_instance_id {
                Some(instance_id) if member.member_id.is_empty() => {
                    self.instances.get(instance_id).copied().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
                }
                instance_id => self.identify(&member.member_id, instance_id.as_ref()),
            };
            let error_code = match slot {
                Ok(slot) => {
                    self.remove(ctx, slot);
                    ctx.stats.depart(Departure::Left);
                    ErrorCode::NONE
                }
                Err(error) => error,
            };
            left.push(LeftMember {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code,
            });
        }
        if left.iter().any(|left| left.error_code == ErrorCode::NONE) {
            self.bump();
        }
        left
    }

    /// A member was not heard of for the session timeout, also one that is away.
    pub fn session_timer(&mut self, ctx: &mut Ctx, at: At, slot: u32, uid: u64) {
        if self.member_of(slot, uid).is_none() {
            return;
        }
        self.members[slot as usize].armed_ms = None;
        if self.session_deadline_ms(ctx, slot) > at.ms {
            return self.arm_session(ctx, slot);
        }
        self.remove(ctx, slot);
        ctx.stats.depart(Departure::SessionTimeout);
        self.bump();
    }

    /// A member has not given back in time what it was told to.
    pub fn revocation_timer(&mut self, ctx: &mut Ctx, at: At, slot: u32, uid: u64) {
        let Some(deadline_ms) = self.member_of(slot, uid).and_then(|member| member.act_by_ms) else { return };
        if deadline_ms > at.ms {
            return ctx.arm(TimerKey::Revocation { group: self.this.slot, member: slot, uid }, deadline_ms);
        }
        self.remove(ctx, slot);
        ctx.stats.depart(Departure::RebalanceTimeout);
        self.bump();
    }
}
