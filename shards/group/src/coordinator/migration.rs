//! From a classic group to a consumer group and back, while members go on (6.10).
//!
//! Up: the first member that speaks the consumer protocol comes to a classic group of type `consumer`. Down: the
//! last one goes, and classic members stay. Both go through all members in slices, while everything else that is
//! for the group waits.

use super::consumer::{Classic, ConsumerGroup, ConsumerMember, by_id, refused, to_bytes};
use super::ctx::{At, Ctx, Write};
use super::group::{Group, State};
use super::member::Member;
use super::protocol::{assignment, subscription};
use super::responses::{join_error, sync_error};
use super::work::Work;
use crate::limits::{MigrationPolicy, WORK_SLICE_MEMBERS};
use crate::record::MemberMetadata;
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::ConsumerGroupHeartbeatResponse;
use crate::{ErrorCode, Record, ReplyToken, Response, Text};

/// A classic group on its way up.
#[derive(Debug)]
pub(super) struct Upgrade {
    token: ReplyToken,
    request: Box<ConsumerGroupHeartbeatRequest>,
    /// Until all members are found fit and the newcomer is let in, the classic group is as it was.
    consumer: Box<ConsumerGroup>,
    at: usize,
    /// What the newcomer is told.
    response: Option<ConsumerGroupHeartbeatResponse>,
}

/// A consumer group on its way down.
#[derive(Debug)]
pub(super) struct Downgrade {
    /// With those that are still to be taken along.
    consumer: Box<ConsumerGroup>,
    at: usize,
    /// Tombstones of the members; the group's own record follows.
    records: Vec<Record>,
    /// Not where a classic member took the last one's place and nothing else is new (6.10).
    rebalances: bool,
}

impl Group {
    /// A member that speaks the consumer protocol comes to a classic group. An empty one is a consumer group from
    /// now on; its offsets stay. Another goes up when the policy allows it and its members can be assigned to.
    pub(super) fn become_consumer(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        token: ReplyToken,
        request: Box<ConsumerGroupHeartbeatRequest>,
    ) {
        let not_one = || {
            let message = format!("Group {} is not a consumer group.", self.id);
            refused((ErrorCode::GROUP_ID_NOT_FOUND, Some(message)))
        };
        if request.member_epoch != 0 {
            return ctx.reply(token, not_one());
        }
        if self.state == State::Empty {
            let mut consumer = Box::new(ConsumerGroup::new(self.this, self.id.clone()));
            // Nothing becomes of the group by a heartbeat that is refused.
            let response = match consumer.heartbeat(ctx, at, &request) {
                Ok(response) => Response::ConsumerGroupHeartbeat(response),
                Err(why) => return ctx.reply(token, refused(why)),
            };
            // Whoever was given an id may join a consumer group with it as well.
            self.forget_pending(ctx);
            self.protocol_type = Text::from_static("consumer");
            self.protocol_name = None;
            self.consumer = Some(consumer);
            return self.keep_consumer(ctx, Some((token, request.api_version, response)));
        }
        let may =
            matches!(ctx.config.consumer_migration_policy, MigrationPolicy::Bidirectional | MigrationPolicy::Upgrade);
        if !may || self.protocol_type != "consumer" || self.members.len() >= ctx.config.max_members_per_group {
            return ctx.reply(token, not_one());
        }
        let mut consumer = Box::new(ConsumerGroup::new(self.this, self.id.clone()));
        if let Err(why) = consumer.check_regex(ctx, &request) {
            return ctx.reply(token, refused(why));
        }
        consumer.begin_at(self.generation);
        self.works.push_back(Work::Upgrade(Upgrade { token, request, consumer, at: 0, response: None }));
    }

    /// A slice of it; what is left, if anything.
    pub(super) fn advance_upgrade(&mut self, ctx: &mut Ctx, mut upgrade: Upgrade) -> Option<Upgrade> {
        let Some(response) = upgrade.response.take() else { return self.take_along(ctx, upgrade) };
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(slot) = self.next_member(&mut upgrade.at) else {
                self.switch(ctx, upgrade, response);
                return None;
            };
            if let Some(join) = self.take_join(ctx, slot) {
                let member_id = self.member(slot).member_id.clone();
                let response = join_error(join.api_version, ErrorCode::REBALANCE_IN_PROGRESS, member_id);
                ctx.reply(join.token, response);
            }
            if let Some(sync) = self.take_sync(ctx, slot) {
                ctx.reply(sync.token, sync_error(ErrorCode::REBALANCE_IN_PROGRESS));
            }
            // Its successor counts in its place.
            ctx.totals.add_member();
            self.remove_member(ctx, slot);
        }
        Some(Upgrade { response: Some(response), ..upgrade })
    }

    /// Builds the consumer group's members beside the classic ones. One that cannot be assigned to ends it all.
    fn take_along(&mut self, ctx: &mut Ctx, mut upgrade: Upgrade) -> Option<Upgrade> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(slot) = self.next_member(&mut upgrade.at) else {
                if !upgrade.consumer.make_room(ctx, 0) {
                    give_up(ctx, &mut upgrade.consumer);
                    ctx.reply(upgrade.token, refused((ErrorCode::COORDINATOR_NOT_AVAILABLE, None)));
                    return None;
                }
                return self.let_in(ctx, upgrade);
            };
            // Nothing keeps the leader of a classic group from giving a partition to two members.
            let is_sole = |member: &ConsumerMember| upgrade.consumer.is_free(&member.holding.assigned);
            let Some(member) = self.as_consumer(ctx, slot).filter(is_sole) else {
                give_up(ctx, &mut upgrade.consumer);
                let message = format!(
                    "Group {} cannot become a consumer group: a member's subscription or assignment is not \
                     one that the coordinator can take over.",
                    self.id
                );
                ctx.reply(upgrade.token, refused((ErrorCode::GROUP_ID_NOT_FOUND, Some(message))));
                return None;
            };
            upgrade.consumer.take_in(ctx, member);
        }
        Some(upgrade)
    }

    /// The newcomer's heartbeat, while there is a way back: nothing becomes of the group by one that is refused.
    fn let_in(&mut self, ctx: &mut Ctx, mut upgrade: Upgrade) -> Option<Upgrade> {
        match upgrade.consumer.heartbeat(ctx, self.at, &upgrade.request) {
            Ok(response) => Some(Upgrade { at: 0, response: Some(response), ..upgrade }),
            Err(why) => {
                give_up(ctx, &mut upgrade.consumer);
                ctx.reply(upgrade.token, refused(why));
                None
            }
        }
    }

    /// A classic member as one of a consumer group: stable at the group's generation with what it was assigned.
    fn as_consumer(&self, ctx: &mut Ctx, slot: u32) -> Option<ConsumerMember> {
        let member = self.member(slot);
        let wishes = subscription(&member.offer.protocols.first()?.metadata)?;
        let (assigned, has_user_data) = assignment(&member.assignment(self.assignment_epoch))?;
        if has_user_data {
            return None;
        }
        let assigned = by_id(&*ctx.topics, &assigned);
        let mut taken = ConsumerMember::new(ctx.uid(), member.member_id.clone(), member.group_instance_id.clone());
        taken.client_id = member.client_id.clone();
        taken.client_host = member.client_host.clone();
        taken.rebalance_timeout_ms = member.offer.rebalance_timeout_ms;
        taken.names = wishes.topics.into();
        taken.target = assigned.clone();
        taken.holding.epoch = self.generation;
        taken.since = assigned.iter().map(|partition| (partition, self.generation)).collect();
        taken.holding.assigned = assigned;
        taken.seen_ms = self.at.ms;
        taken.classic = Some(Classic {
            session_timeout_ms: member.offer.session_timeout_ms,
            version: wishes.version,
            protocols: member.offer.protocols.clone(),
        });
        Some(taken)
    }

    /// From here on the group is a consumer group: the newcomer is in, and everybody else finds out by its heartbeat.
    fn switch(&mut self, ctx: &mut Ctx, upgrade: Upgrade, response: ConsumerGroupHeartbeatResponse) {
        self.forget_pending(ctx);
        self.end_phases(ctx);
        self.protocol_name = None;
        self.set_state(ctx, upgrade.consumer.state());
        self.consumer = Some(upgrade.consumer);
        let response = Response::ConsumerGroupHeartbeat(response);
        self.keep_consumer(ctx, Some((upgrade.token, upgrade.request.api_version, response)));
        self.works.push_back(Work::ArmConsumers { at: 0 });
    }

    fn forget_pending(&mut self, ctx: &mut Ctx) {
        for member_id in self.pending.keys().cloned().collect::<Vec<_>>() {
            self.remove_pending(ctx, &member_id);
        }
    }

    /// Begins the way down when the last member that spoke the consumer protocol is gone and classic ones are not.
    pub(super) fn downgrade_if_due(&mut self, ctx: &mut Ctx) {
        let may =
            matches!(ctx.config.consumer_migration_policy, MigrationPolicy::Bidirectional | MigrationPolicy::Downgrade);
        let Some(consumer) = &mut self.consumer else { return };
        let succeeded = consumer.take_succeeded();
        if !may || !consumer.is_classic_only() {
            return;
        }
        let Some(consumer) = self.consumer.take() else { return };
        self.consumer_ends += 1;
        self.generation = consumer.epoch();
        // Known by the generation, and a consumer group's epochs begin anew.
        self.subscriptions = None;
        self.protocol_type = Text::from_static("consumer");
        self.protocol_name = consumer.common_protocol();
        self.set_state(ctx, State::Stable);
        let mut records = consumer.removed_tombstones();
        records.reserve_exact(consumer.member_count());
        self.works.push_back(Work::Downgrade(Downgrade { consumer, at: 0, records, rebalances: !succeeded }));
    }

    /// A slice of it; what is left, if anything.
    pub(super) fn advance_downgrade(&mut self, ctx: &mut Ctx, mut downgrade: Downgrade) -> Option<Downgrade> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some((member, tombstone)) = downgrade.consumer.take_member(ctx, &mut downgrade.at) else {
                self.sessions_from_ms = self.at.ms;
                self.works.push_back(Work::Keep(downgrade.records.into_iter()));
                self.works.push_back(Work::keep_group(self, Write::Unwatched));
                self.works.push_back(Work::ArmSessions { at: 0 });
                if downgrade.rebalances {
                    self.works.push_back(Work::Prepare);
                }
                return None;
            };
            downgrade.records.push(tombstone);
            let member = *member;
            let Some(classic) = member.classic else { continue };
            let kept = MemberMetadata {
                member_id: member.member_id,
                group_instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                session_timeout_ms: classic.session_timeout_ms,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                protocols: classic.protocols,
                assignment: to_bytes(&*ctx.topics, classic.version, &member.target),
            };
            let restored = Member::restored(ctx.uid(), kept, self.assignment_epoch);
            ctx.totals.add_member();
            ctx.totals.add_bytes(restored.bytes());
            self.add_member(ctx, restored, &Text::from_static("consumer"));
        }
        Some(downgrade)
    }
}

/// Takes back members of which the classic ones still count.
fn give_up(ctx: &mut Ctx, consumer: &mut ConsumerGroup) {
    for _ in 0..consumer.member_count() {
        ctx.totals.add_member();
    }
    consumer.clear(ctx);
}
