//! Heartbeats, and members that are given up: sessions, ids that never joined, closed connections (1.9, 3).
//!
//! A heartbeat only moves its member's deadline. The armed timer finds out when it fires, and is armed
//! again; it is never later than the deadline.

use super::ctx::{At, Ctx, Wait};
use super::group::{Group, State};
use super::responses::{join_error, sync_error};
use super::stats::Departure;
use crate::request::HeartbeatRequest;
use crate::{ConnectionId, ErrorCode, TimerKey};

impl Group {
    /// What a heartbeat is answered. One that is in order restarts the session, also during a rebalance.
    pub(super) fn heartbeat(&mut self, ctx: &mut Ctx, at: At, request: &HeartbeatRequest) -> ErrorCode {
        let slot = match self.check_heartbeat(request) {
            Ok(slot) => slot,
            Err(error) => return error,
        };
        self.restart_session(ctx, at, slot);
        ctx.stats.heartbeats += 1;
        match self.state {
            State::Empty => ErrorCode::UNKNOWN_MEMBER_ID,
            State::PreparingRebalance => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => ErrorCode::NONE,
        }
    }

    pub(super) fn check_heartbeat(&self, request: &HeartbeatRequest) -> Result<u32, ErrorCode> {
        let slot = self.identify(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(slot)
    }

    /// The member was heard of.
    pub(super) fn restart_session(&mut self, ctx: &mut Ctx, at: At, slot: u32) {
        let member = self.member_mut(slot);
        if !member.is_new {
            member.seen_ms = member.seen_ms.max(at.ms);
        }
        self.arm_session(ctx, slot);
    }

    /// Makes sure that the member's timer is not armed for later than its deadline. None runs while waiting
    /// for the group counts as being alive.
    pub(super) fn arm_session(&mut self, ctx: &mut Ctx, slot: u32) {
        let sessions_from_ms = self.sessions_from_ms;
        let group = self.this.slot;
        let member = self.member_mut(slot);
        let deadline_ms = member.deadline_ms(sessions_from_ms);
        if member.is_alive_by_waiting() || member.armed_ms.is_some_and(|armed_ms| armed_ms <= deadline_ms) {
            return;
        }
        member.armed_ms = Some(deadline_ms);
        let key = TimerKey::Session { group, member: slot, uid: member.uid };
        ctx.arm(key, deadline_ms);
    }

    pub(super) fn session_timer(&mut self, ctx: &mut Ctx, at: At, slot: u32, uid: u64) {
        if self.member_of(slot, uid).is_none() {
            return;
        }
        let sessions_from_ms = self.sessions_from_ms;
        let member = self.member_mut(slot);
        member.armed_ms = None;
        if member.is_alive_by_waiting() {
            return;
        }
        if member.deadline_ms(sessions_from_ms) > at.ms {
            return self.arm_session(ctx, slot);
        }
        self.remove_and_answer(ctx, slot);
        ctx.stats.depart(Departure::SessionTimeout);
        self.lost(ctx, at);
    }

    pub(super) fn pending_timer(&mut self, ctx: &mut Ctx, at: At, uid: u64) {
        let Some(member_id) = self.pending_ids.get(&uid).cloned() else { return };
        let deadline_ms = self.pending.get(&member_id).map_or(0, |pending| pending.deadline_ms);
        if deadline_ms > at.ms {
            return ctx.arm(TimerKey::Pending { group: self.this.slot, uid }, deadline_ms);
        }
        self.remove_pending(ctx, &member_id);
        self.complete_if_all_joined(ctx);
    }

    /// A member was given up. Unlike one that leaves, it can also end an initial delay: when all that are
    /// left have joined.
    fn lost(&mut self, ctx: &mut Ctx, at: At) {
        match self.state {
            State::Empty => {}
            State::PreparingRebalance => self.complete_if_all_joined(ctx),
            _ => self.prepare_rebalance(ctx, at),
        }
    }

    /// Withdraws what a closed connection has parked. A member whose first join was never answered goes with
    /// it, as does an id that has not joined; every other member has its session to come back.
    pub(super) fn connection_closed(&mut self, ctx: &mut Ctx, at: At, connection: ConnectionId) {
        let group = self.this.slot;
        let from = (connection, group, Wait::FIRST);
        let waits = ctx.waits.range(from..).take_while(|(c, g, _)| *c == connection && *g == group);
        for wait in waits.map(|(_, _, wait)| *wait).collect::<Vec<_>>() {
            match wait {
                // Came after its connection was said to be closed. It parks, and ends with the phase.
                Wait::Queued(_) => {}
                Wait::Join(slot) => {
                    let Some(join) = self.take_join(ctx, slot) else { continue };
                    let member_id = self.member(slot).member_id.clone();
                    ctx.reply(join.token, join_error(join.api_version, ErrorCode::REBALANCE_IN_PROGRESS, member_id));
                    if self.member(slot).is_new {
                        self.remove_member(ctx, slot);
                        ctx.stats.depart(Departure::Disconnected);
                    } else {
                        self.restart_session(ctx, at, slot);
                    }
                }
                Wait::Sync(slot) => {
                    let Some(sync) = self.take_sync(ctx, slot) else { continue };
                    ctx.reply(sync.token, sync_error(ErrorCode::REBALANCE_IN_PROGRESS));
                    self.restart_session(ctx, at, slot);
                }
                Wait::Pending(uid) => {
                    if let Some(member_id) = self.pending_ids.get(&uid).cloned() {
                        self.remove_pending(ctx, &member_id);
                    }
                }
            }
        }
        if self.initial.is_none() {
            self.complete_if_all_joined(ctx);
        }
    }
}
