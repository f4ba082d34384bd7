//! From one generation to the next: preparing a rebalance, and the join phase and its end (1.6 to 1.8).

use super::ctx::{At, Ctx, Write};
use super::group::{Group, InitialDelay, State};
use super::stats::Departure;
use super::work::{JoinAnswer, Work};
use crate::{ErrorCode, Text, TimerKey};

/// The end of a join phase, in slices.
#[derive(Debug)]
pub(super) enum JoinPhase {
    /// Members that have not come are dropped, unless they are static.
    DropSilent { at: usize, first_joined: Option<u32> },
    /// Each votes for its first protocol that all know.
    Vote { at: usize, votes: Vec<(Text, usize)> },
    /// The others are answered; everybody's session starts anew.
    Answer { at: usize },
}

impl Group {
    /// After a member was added, rejoined, left or was lost: goes on to the next generation, or starts to.
    pub(super) fn joined_or_left(&mut self, ctx: &mut Ctx, at: At) {
        match self.state {
            State::PreparingRebalance if self.initial.is_none() => self.complete_if_all_joined(ctx),
            State::PreparingRebalance => {}
            State::Empty if self.members.is_empty() => {}
            _ => self.prepare_rebalance(ctx, at),
        }
    }

    pub(super) fn prepare_rebalance(&mut self, ctx: &mut Ctx, at: At) {
        let from = self.state;
        self.cancel_sync_timer(ctx);
        if from == State::CompletingRebalance {
            self.assignment_epoch += 1;
            self.works.push_back(Work::AnswerSyncs { error: Some(ErrorCode::REBALANCE_IN_PROGRESS), at: 0 });
        }
        self.set_state(ctx, State::PreparingRebalance);
        if from == State::Empty {
            let delay_ms = u64::try_from(ctx.config.initial_rebalance_delay.as_millis()).unwrap_or(u64::MAX);
            let remaining_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms);
            self.initial = Some(InitialDelay { added: false, delay_ms, remaining_ms });
            return self.arm_join_timer(ctx, at.ms.saturating_add(delay_ms));
        }
        if self.everyone_joined() {
            return self.complete_join_phase(ctx);
        }
        // Only ids that have not joined are left: nobody's timeout is waited for.
        let timeout_ms = self.rebalance_timeout_ms();
        self.arm_join_timer(ctx, at.ms.saturating_add(timeout_ms));
    }

    pub(super) fn everyone_joined(&self) -> bool {
        self.joined == self.members.len() && self.pending.is_empty()
    }

    pub(super) fn complete_if_all_joined(&mut self, ctx: &mut Ctx) {
        if self.state == State::PreparingRebalance && self.everyone_joined() {
            self.complete_join_phase(ctx);
        }
    }

    fn arm_join_timer(&mut self, ctx: &mut Ctx, deadline_ms: u64) {
        self.join_deadline_ms = Some(deadline_ms);
        ctx.arm(TimerKey::Join { group: self.this.slot, uid: self.this.uid }, deadline_ms);
    }

    pub(super) fn join_timer(&mut self, ctx: &mut Ctx, at: At) {
        let Some(deadline_ms) = self.join_deadline_ms else { return };
        if deadline_ms > at.ms {
            return self.arm_join_timer(ctx, deadline_ms);
        }
        let Some(initial) = &mut self.initial else { return self.complete_join_phase(ctx) };
        if !initial.added || initial.remaining_ms == 0 || initial.delay_ms == 0 {
            return self.complete_join_phase(ctx);
        }
        let delay_max_ms = u64::try_from(ctx.config.initial_rebalance_delay.as_millis()).unwrap_or(u64::MAX);
        let delay_ms = delay_max_ms.min(initial.remaining_ms);
        initial.added = false;
        initial.remaining_ms = initial.remaining_ms.saturating_sub(initial.delay_ms);
        initial.delay_ms = delay_ms;
        self.arm_join_timer(ctx, at.ms.saturating_add(delay_ms));
    }

    /// No phase of a rebalance goes on, and no timer of one.
    pub(super) fn end_phases(&mut self, ctx: &mut Ctx) {
        self.end_join_phase(ctx);
        self.cancel_sync_timer(ctx);
    }

    fn end_join_phase(&mut self, ctx: &mut Ctx) {
        self.initial = None;
        if self.join_deadline_ms.take().is_some() {
            ctx.cancel(TimerKey::Join { group: self.this.slot, uid: self.this.uid });
        }
    }

    fn complete_join_phase(&mut self, ctx: &mut Ctx) {
        self.end_join_phase(ctx);
        self.works.push_back(Work::JoinPhase(JoinPhase::DropSilent { at: 0, first_joined: None }));
    }

    /// One slice of the end of the join phase; what comes next, if anything.
    pub(super) fn advance_join_phase(&mut self, ctx: &mut Ctx, phase: JoinPhase, slice: usize) -> Option<JoinPhase> {
        match phase {
            JoinPhase::DropSilent { mut at, mut first_joined } => {
                for _ in 0..slice {
                    let Some(slot) = self.next_member(&mut at) else {
                        return self.begin_generation(ctx, first_joined);
                    };
                    if self.member(slot).join.is_some() {
                        first_joined.get_or_insert(slot);
                    } else if !self.member(slot).is_static() {
                        self.remove_member(ctx, slot);
                        ctx.stats.depart(Departure::RebalanceTimeout);
                    }
                }
                Some(JoinPhase::DropSilent { at, first_joined })
            }
            JoinPhase::Vote { mut at, mut votes } => {
                for _ in 0..slice {
                    let Some(slot) = self.next_member(&mut at) else {
                        let elected = self.elected(&votes);
                        return self.choose(ctx, elected);
                    };
                    self.vote(slot, &mut votes);
                }
                Some(JoinPhase::Vote { at, votes })
            }
            JoinPhase::Answer { mut at } => {
                for _ in 0..slice {
                    let slot = self.next_member(&mut at)?;
                    self.member_mut(slot).is_new = false;
                    self.member_mut(slot).owes_sync_for = Some(self.generation);
                    let parked = self.take_join(ctx, slot);
                    self.arm_session(ctx, slot);
                    if let Some(parked) = parked {
                        let response = JoinAnswer::current(self, slot, parked, false).response(self);
                        ctx.reply(parked.token, response);
                        break;
                    }
                }
                Some(JoinPhase::Answer { at })
            }
        }
    }

    fn begin_generation(&mut self, ctx: &mut Ctx, first_joined: Option<u32>) -> Option<JoinPhase> {
        let leader_joined = self.leader.is_some_and(|slot| self.member(slot).join.is_some());
        if !leader_joined {
            if first_joined.is_none() && !self.members.is_empty() {
                // Only static members that have not come back: they keep their places until they are given up.
                let timeout_ms = self.rebalance_timeout_ms();
                self.arm_join_timer(ctx, self.at.ms.saturating_add(timeout_ms));
                return None;
            }
            self.leader = first_joined;
        }
        // Past the last of 2^31 generations they begin again, as a member with the old one cannot be left.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.protocol_name = None;
            self.set_state(ctx, State::Empty);
            let record = crate::Record::Group(self.metadata());
            ctx.persist(vec![record], Write::Unwatched);
            return None;
        }
        let everybody = self.members.len();
        let mut candidates = self.support.iter().filter(|(_, count)| **count == everybody).map(|(name, _)| name);
        match (candidates.next().cloned(), candidates.next()) {
            (only, None) => self.choose(ctx, only),
            _ => Some(JoinPhase::Vote { at: 0, votes: Vec::new() }),
        }
    }

    /// Adds a member's vote: its first protocol that everybody knows.
    pub(super) fn vote(&self, slot: u32, votes: &mut Vec<(Text, usize)>) {
        let everybody = self.members.len();
        let protocols = &self.member(slot).offer.protocols;
        let Some(first) = protocols.iter().find(|p| self.support.get(&p.name) == Some(&everybody)) else { return };
        match votes.iter_mut().find(|(name, _)| *name == first.name) {
            Some((_, count)) => *count += 1,
            None => votes.push((first.name.clone(), 1)),
        }
    }

    /// The protocol with most votes; of several the one that was voted for first.
    pub(super) fn elected(&self, votes: &[(Text, usize)]) -> Option<Text> {
        let most = votes.iter().map(|(_, count)| *count).max()?;
        votes.iter().find(|(_, count)| *count == most).map(|(name, _)| name.clone())
    }

    fn choose(&mut self, ctx: &mut Ctx, protocol: Option<Text>) -> Option<JoinPhase> {
        debug_assert!(protocol.is_some(), "no join is accepted that leaves the members nothing in common");
        self.protocol_name = Some(protocol.unwrap_or_default());
        self.set_state(ctx, State::CompletingRebalance);
        self.sessions_from_ms = self.at.ms;
        self.owed = self.members.len();
        let deadline_ms = self.at.ms.saturating_add(self.rebalance_timeout_ms());
        self.sync_deadline_ms = Some(deadline_ms);
        ctx.arm(TimerKey::Sync { group: self.this.slot, uid: self.this.uid }, deadline_ms);
        // The leader is answered first: everybody else will wait for its assignments.
        if let Some(leader) = self.leader
            && let Some(parked) = self.take_join(ctx, leader)
        {
            self.works.push_back(Work::AnswerJoin(JoinAnswer::current(self, leader, parked, true)));
        }
        self.works.push_back(Work::JoinPhase(JoinPhase::Answer { at: 0 }));
        None
    }
}
