//! SyncGroup: the leader's assignments, and everybody's wait for theirs (2).

use super::ctx::{At, Ctx, Write};
use super::group::{Group, State};
use super::member::ParkedSync;
use super::responses::sync_error;
use super::work::Work;
use crate::limits::{Limit, WORK_SLICE_MEMBERS};
use crate::request::{Assignment, SyncGroupRequest};
use crate::text::detached;
use crate::{ConnectionId, ErrorCode, ReplyToken, StoreError};

/// Assignments on their way to the members.
#[derive(Debug)]
pub(super) struct Assigning(std::vec::IntoIter<Assignment>);

/// What can be said without the group and even when it cannot be served (2.1).
pub(super) fn check(request: &SyncGroupRequest) -> Result<(), ErrorCode> {
    if request.api_version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    Ok(())
}

impl Group {
    pub(super) fn sync(
        &mut self,
        ctx: &mut Ctx,
        token: ReplyToken,
        connection: ConnectionId,
        request: SyncGroupRequest,
    ) {
        let slot = match self.check_sync(&request) {
            Ok(slot) => slot,
            Err(error) => return ctx.reply(token, sync_error(error)),
        };
        let completes = self.state == State::CompletingRebalance;
        let leads = completes && self.is_leader(slot);
        if leads && let Err(error) = self.reserve_assignments(ctx, &request.assignments) {
            return ctx.reply(token, sync_error(error));
        }
        let generation = self.generation;
        if self.sync_deadline_ms.is_some() && self.member(slot).owes_sync_for == Some(generation) {
            self.member_mut(slot).owes_sync_for = None;
            self.sync_paid(ctx);
        }
        if !completes {
            return ctx.reply(token, self.assigned(slot));
        }
        self.park_sync(ctx, slot, ParkedSync { token, connection });
        if leads {
            // Members that the leader leaves out get nothing, never what they had before.
            self.assignment_epoch += 1;
            self.set_assigned(ctx, 0);
            self.works.push_back(Work::Assign(Assigning(request.assignments.into_iter())));
        }
    }

    fn check_sync(&self, request: &SyncGroupRequest) -> Result<u32, ErrorCode> {
        if self.state == State::Empty {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        let slot = self.identify(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let other_type = request.protocol_type.as_ref().is_some_and(|it| *it != self.protocol_type);
        let other_name = request.protocol_name.is_some() && request.protocol_name != self.protocol_name;
        if other_type || other_name {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if self.state == State::PreparingRebalance {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(slot)
    }

    fn reserve_assignments(&self, ctx: &mut Ctx, assignments: &[Assignment]) -> Result<(), ErrorCode> {
        let max = ctx.config.max_member_blob_bytes;
        if assignments.iter().any(|it| it.assignment.len() > max) {
            ctx.limits_hit.count(Limit::MemberBlob);
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let bytes = assignments.iter().map(|it| it.assignment.len()).sum();
        if ctx.reserve(bytes) { Ok(()) } else { Err(ErrorCode::COORDINATOR_NOT_AVAILABLE) }
    }

    /// Gives out some assignments; what is left, if anything. Then the group is kept.
    pub(super) fn advance_assigning(&mut self, ctx: &mut Ctx, mut assigning: Assigning) -> Option<Assigning> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(given) = assigning.0.next() else {
                let write = Write::Sync { group: self.this, epoch: self.assignment_epoch };
                self.works.push_back(Work::keep_group(self, write));
                return None;
            };
            let released = match self.ids.get(&given.member_id).copied() {
                Some(slot) => {
                    self.count_assignment(ctx, &given.assignment);
                    let epoch = self.assignment_epoch;
                    let member = self.member_mut(slot);
                    member.assignment_epoch = epoch;
                    std::mem::replace(&mut member.assignment, detached(&given.assignment)).len()
                }
                None => given.assignment.len(),
            };
            ctx.totals.remove_bytes(released);
        }
        Some(assigning)
    }

    /// The assignments were written, or not. Where the group has moved on, nobody waits for them.
    pub(super) fn assignments_kept(&mut self, ctx: &mut Ctx, epoch: u64, result: Result<(), StoreError>) {
        if self.state != State::CompletingRebalance || self.assignment_epoch != epoch {
            return;
        }
        match result {
            Ok(()) => {
                self.set_state(ctx, State::Stable);
                self.works.push_back(Work::AnswerSyncs { error: None, at: 0 });
            }
            Err(error) => {
                self.assignment_epoch += 1;
                self.works.push_back(Work::AnswerSyncs { error: Some(error.code()), at: 0 });
                self.works.push_back(Work::Prepare);
            }
        }
    }

    /// The time to sync is over: whoever has not is removed, static or not.
    pub(super) fn sync_timer(&mut self, ctx: &mut Ctx, at: At) {
        let Some(deadline_ms) = self.sync_deadline_ms else { return };
        if deadline_ms > at.ms {
            return ctx.arm(crate::TimerKey::Sync { group: self.this.slot, uid: self.this.uid }, deadline_ms);
        }
        debug_assert!(self.owed > 0 && matches!(self.state, State::CompletingRebalance | State::Stable));
        self.works.push_back(Work::RemoveOwing { at: 0 });
    }
}
