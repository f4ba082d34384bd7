//! What takes long in a large group, cut into slices: while any of it is left, the group's inputs queue.

use bytes::Bytes;

use super::ctx::{Ctx, Write};
use super::describe::Description;
use super::expiry::{Expiry, Forgetting};
use super::group::{Group, Hold, State};
use super::leave::Leaving;
use super::member::ParkedJoin;
use super::rebalance::JoinPhase;
use super::responses::{join_error, sync_error};
use super::stats::Departure;
use super::subscription::Subscribing;
use super::sync::Assigning;
use crate::limits::{RECORDS_PER_WRITE, WORK_SLICE_MEMBERS};
use crate::record::GroupMetadata;
use crate::response::{JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse};
use crate::{ErrorCode, Record, ReplyToken, Response, Text};

#[derive(Debug)]
pub(super) enum Work {
    /// The end of a join phase.
    JoinPhase(JoinPhase),
    /// The answer to a join that takes the list of all members.
    AnswerJoin(JoinAnswer),
    /// The answers to all parked syncs.
    AnswerSyncs {
        error: Option<ErrorCode>,
        at: usize,
    },
    /// The leader's assignments are given to the members.
    Assign(Assigning),
    /// A record of the whole group is made and written.
    KeepGroup {
        metadata: Box<GroupMetadata>,
        at: usize,
        write: Write,
    },
    /// Records are written that nobody waits for, some at a time.
    Keep(std::vec::IntoIter<Record>),
    /// The partitions of a large commit are taken in and written.
    Commit(super::commit::Committing),
    /// A static member that came back may make the group choose another protocol.
    Revote(super::static_member::Revote),
    /// Those that have not synced in time are removed.
    RemoveOwing {
        at: usize,
    },
    /// A rebalance begins, once what was before it is done.
    Prepare,
    /// A batch of members leaves.
    Leave(Leaving),
    Describe(Description),
    Subscribe(Subscribing),
    DescribeConsumers(super::consumer::Description),
    Upgrade(super::migration::Upgrade),
    Downgrade(super::migration::Downgrade),
    /// Targets of a consumer group's members.
    Assigned(super::consumer::Assigned),
    /// Timers of a consumer group's restored members.
    ArmConsumers {
        at: usize,
    },
    /// Timers of restored members.
    ArmSessions {
        at: usize,
    },
    /// Whoever waits is sent to another coordinator.
    Shutdown {
        at: usize,
    },
    /// Offsets, or the group with them, are given up.
    Forget(Forgetting),
    Expire(Expiry),
}

/// A join that succeeds, with all of its answer but the list of members.
#[derive(Debug)]
pub(super) struct JoinAnswer {
    pub token: ReplyToken,
    pub with_members: bool,
    pub skip_assignment: bool,
    pub leader: Text,
    member_id: Text,
    members: Vec<JoinGroupResponseMember>,
    at: usize,
}

impl JoinAnswer {
    pub fn current(group: &Group, slot: u32, parked: ParkedJoin, with_members: bool) -> JoinAnswer {
        JoinAnswer {
            token: parked.token,
            with_members,
            skip_assignment: false,
            leader: group.leader_id(),
            member_id: group.member(slot).member_id.clone(),
            members: Vec::with_capacity(if with_members { group.members.len() } else { 0 }),
            at: 0,
        }
    }

    pub fn response(self, group: &Group) -> Response {
        Response::Join(JoinGroupResponse {
            error_code: ErrorCode::NONE,
            generation_id: group.generation,
            protocol_type: Some(group.protocol_type.clone()),
            protocol_name: Some(group.protocol_name.clone().unwrap_or_default()),
            leader: self.leader,
            skip_assignment: self.skip_assignment,
            member_id: self.member_id,
            members: self.members,
        })
    }
}

impl Work {
    /// Writes the group as it is now.
    pub fn keep_group(group: &Group, write: Write) -> Work {
        let mut metadata = group.metadata();
        metadata.members.reserve_exact(group.members.len());
        Work::KeepGroup { metadata: Box::new(metadata), at: 0, write }
    }

    /// Does a slice of it; what is left, if anything.
    pub fn run(self, group: &mut Group, ctx: &mut Ctx) -> Option<Work> {
        match self {
            Work::JoinPhase(phase) => group.advance_join_phase(ctx, phase, WORK_SLICE_MEMBERS).map(Work::JoinPhase),
            Work::AnswerJoin(mut answer) => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let Some(slot) = group.next_member(&mut answer.at) else {
                        ctx.reply(answer.token, answer.response(group));
                        return None;
                    };
                    let member = group.member(slot);
                    answer.members.push(JoinGroupResponseMember {
                        member_id: member.member_id.clone(),
                        group_instance_id: member.group_instance_id.clone(),
                        metadata: member.offer.metadata(group.protocol_name.as_ref()),
                    });
                }
                Some(Work::AnswerJoin(answer))
            }
            Work::AnswerSyncs { error, mut at } => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let slot = group.next_member(&mut at)?;
                    if let Some(parked) = group.take_sync(ctx, slot) {
                        // Nothing has looked after its session while it waited.
                        group.restart_session(ctx, group.at, slot);
                        let response = match error {
                            Some(error) => sync_error(error),
                            None => group.assigned(slot),
                        };
                        ctx.reply(parked.token, response);
                        break;
                    }
                }
                Some(Work::AnswerSyncs { error, at })
            }
            Work::Assign(assigning) => group.advance_assigning(ctx, assigning).map(Work::Assign),
            Work::KeepGroup { mut metadata, mut at, write } => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let Some(slot) = group.next_member(&mut at) else {
                        let holds = matches!(write, Write::Replacement { .. });
                        let id = ctx.persist(vec![Record::Group(*metadata)], write);
                        if holds {
                            group.hold = Hold::Write(id);
                        }
                        return None;
                    };
                    metadata.members.push(group.member(slot).metadata(group.assignment_epoch));
                }
                Some(Work::KeepGroup { metadata, at, write })
            }
            Work::Keep(mut records) => {
                ctx.persist(records.by_ref().take(RECORDS_PER_WRITE).collect(), Write::Unwatched);
                (records.len() > 0).then_some(Work::Keep(records))
            }
            Work::Commit(committing) => group.advance_committing(ctx, committing).map(Work::Commit),
            Work::Revote(revote) => group.advance_revote(ctx, revote).map(Work::Revote),
            Work::RemoveOwing { mut at } => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let Some(slot) = group.next_member(&mut at) else {
                        group.prepare_rebalance(ctx, group.at);
                        return None;
                    };
                    if group.member(slot).owes_sync_for == Some(group.generation) {
                        group.remove_and_answer(ctx, slot);
                        ctx.stats.depart(Departure::RebalanceTimeout);
                    }
                }
                Some(Work::RemoveOwing { at })
            }
            Work::Prepare => {
                group.prepare_rebalance(ctx, group.at);
                None
            }
            Work::Leave(leaving) => group.advance_leaving(ctx, leaving).map(Work::Leave),
            Work::Describe(description) => group.advance_description(ctx, description).map(Work::Describe),
            Work::Subscribe(subscribing) => group.advance_subscribing(subscribing).map(Work::Subscribe),
            Work::ArmSessions { mut at } => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let slot = group.next_member(&mut at)?;
                    group.arm_session(ctx, slot);
                }
                Some(Work::ArmSessions { at })
            }
            Work::Shutdown { mut at } => {
                for _ in 0..WORK_SLICE_MEMBERS {
                    let slot = group.next_member(&mut at)?;
                    group.turn_away(ctx, slot);
                }
                Some(Work::Shutdown { at })
            }
            Work::DescribeConsumers(description) => {
                group.advance_consumer_description(ctx, description).map(Work::DescribeConsumers)
            }
            Work::Upgrade(upgrade) => group.advance_upgrade(ctx, upgrade).map(Work::Upgrade),
            Work::Downgrade(downgrade) => group.advance_downgrade(ctx, downgrade).map(Work::Downgrade),
            Work::Assigned(assigned) => group.advance_assigned(ctx, assigned).map(Work::Assigned),
            Work::ArmConsumers { at } => group.advance_arming(ctx, at).map(|at| Work::ArmConsumers { at }),
            Work::Forget(forgetting) => group.advance_forgetting(ctx, forgetting).map(Work::Forget),
            Work::Expire(expiry) => group.advance_expiry(ctx, expiry).map(Work::Expire),
        }
    }
}

impl Group {
    /// What a member that syncs in a stable group gets.
    pub(super) fn assigned(&self, slot: u32) -> Response {
        debug_assert_eq!(self.state, State::Stable);
        let assignment: Bytes = self.member(slot).assignment(self.assignment_epoch);
        Response::Sync(SyncGroupResponse {
            error_code: ErrorCode::NONE,
            protocol_type: Some(self.protocol_type.clone()),
            protocol_name: self.protocol_name.clone(),
            assignment,
        })
    }

    /// Answers whatever a member has parked with 25, and removes it.
    pub(super) fn remove_and_answer(&mut self, ctx: &mut Ctx, slot: u32) {
        if let Some(join) = self.take_join(ctx, slot) {
            ctx.reply(join.token, join_error(join.api_version, ErrorCode::UNKNOWN_MEMBER_ID, Text::EMPTY));
        }
        if let Some(sync) = self.take_sync(ctx, slot) {
            ctx.reply(sync.token, sync_error(ErrorCode::UNKNOWN_MEMBER_ID));
        }
        self.remove_member(ctx, slot);
    }

    /// Answers whatever a member has parked with 16.
    fn turn_away(&mut self, ctx: &mut Ctx, slot: u32) {
        if let Some(join) = self.take_join(ctx, slot) {
            let member_id = self.member(slot).member_id.clone();
            ctx.reply(join.token, join_error(join.api_version, ErrorCode::NOT_COORDINATOR, member_id));
        }
        if let Some(sync) = self.take_sync(ctx, slot) {
            ctx.reply(sync.token, sync_error(ErrorCode::NOT_COORDINATOR));
        }
    }
}
