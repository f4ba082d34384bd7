//! ConsumerGroupHeartbeat: what a member says, and what it is told (6.2 to 6.5).

use super::ConsumerGroup;
use super::member::{AWAY_EPOCH, Member};
use super::reconcile::{MemberState, Subscription, Target, reconcile};
use crate::assignor::{ASSIGNORS, Assignor};
use crate::coordinator::ctx::{At, Ctx, GroupRef};
use crate::coordinator::stats::Departure;
use crate::limits::{Limit, MEMBER_ID_BYTES_MAX, PARTITION_BYTES};
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::ConsumerGroupHeartbeatResponse;
use crate::{ErrorCode, PartitionSet, Response, Text, TimerKey};

/// The epoch by which a member leaves for good.
pub(super) const LEAVE_EPOCH: i32 = -1;

/// Why a heartbeat is refused, for the client's log where there is more to say than the code does.
pub(in crate::coordinator) type Refused = (ErrorCode, Option<String>);

/// A heartbeat that fails.
pub(in crate::coordinator) fn refused((error_code, message): Refused) -> Response {
    Response::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse {
        error_code,
        error_message: message.map(Text::from),
        member_id: None,
        member_epoch: 0,
        heartbeat_interval_ms: 0,
        assignment: None,
    })
}

/// Whose heartbeat it is.
#[derive(Debug, Clone, Copy)]
enum Speaker {
    /// A member's.
    Known(u32),
    /// A static member's that comes back, to the place of the one that went.
    Returns(u32),
    Newcomer,
}

/// What a heartbeat has changed.
struct Updated {
    /// What the group's members wish for, as far as that is known yet.
    wishes_changed: bool,
    /// What the member subscribes to.
    subscription_changed: bool,
}

/// What can be said without the group (6.2).
pub(in crate::coordinator) fn check(ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
    let invalid = |message: &str| Err((ErrorCode::INVALID_REQUEST, Some(message.to_owned())));
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if request.member_id.is_empty() && (request.api_version >= 1 || request.member_epoch != 0) {
        return invalid("MemberId can't be empty.");
    }
    if request.instance_id.as_ref().is_some_and(Text::is_empty) {
        return invalid("InstanceId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(Text::is_empty) {
        return invalid("RackId can't be empty.");
    }
    if request.member_epoch == 0 {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
    }
    if request.member_epoch == AWAY_EPOCH && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    }
    if request.member_epoch < AWAY_EPOCH {
        return Err((
            ErrorCode::INVALID_REQUEST,
            Some(format!("MemberEpoch is invalid: {}, allowed are numbers from -2.", request.member_epoch)),
        ));
    }
    if let Some(name) = &request.server_assignor
        && Assignor::named(name.as_str()).is_none()
    {
        let known = ASSIGNORS.map(Assignor::name).join(", ");
        let message = format!("ServerAssignor {name} is not supported. Supported assignors: {known}.");
        return Err((ErrorCode::UNSUPPORTED_ASSIGNOR, Some(message)));
    }
    check_bounds(ctx, request)
}

/// The id of a member that comes: its own, or one that it is given (version 0).
fn new_id(ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Text {
    if request.member_id.is_empty() { Text::from(ctx.uuid()) } else { request.member_id.detached() }
}

/// The gateway's own bounds on what a member may say of itself.
fn check_bounds(ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
    let ids = [Some(&request.member_id), request.instance_id.as_ref(), request.rack_id.as_ref()];
    let longest = ids.into_iter().flatten().map(Text::len).max().unwrap_or_default();
    let names = request.subscribed_topic_names.iter().flatten().map(Text::len).sum::<usize>();
    if longest > MEMBER_ID_BYTES_MAX || names > ctx.config.max_member_blob_bytes {
        ctx.limits_hit.count(Limit::MemberBlob);
        let max = ctx.config.max_member_blob_bytes;
        let message = format!(
            "an id has {longest} bytes and the subscribed topics {names}, allowed are {MEMBER_ID_BYTES_MAX} and {max}"
        );
        return Err((ErrorCode::INVALID_REQUEST, Some(message)));
    }
    Ok(())
}

/// What can be said to the first member of a group that is not there yet, so that who is refused leaves none behind.
/// Also the bytes that it takes.
pub(in crate::coordinator) fn check_first(
    ctx: &mut Ctx,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<usize, Refused> {
    let empty = ConsumerGroup::new(GroupRef { slot: 0, uid: 0 }, Text::EMPTY);
    empty.check_regex(ctx, request)?;
    empty.check_patterns(ctx, None, request)?;
    Ok(empty.wishes_bytes(ctx, None, request))
}

impl ConsumerGroup {
    /// A heartbeat of a member that comes or stays; what leaves goes to [`ConsumerGroup::leave`].
    pub fn heartbeat(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refused> {
        self.check_size(ctx, request)?;
        let speaker = self.find(request)?;
        let known = match speaker {
            Speaker::Known(slot) | Speaker::Returns(slot) => Some(slot),
            Speaker::Newcomer => None,
        };
        self.check_regex(ctx, request)?;
        self.check_patterns(ctx, known, request)?;
        let more = self.wishes_bytes(ctx, known, request);
        if known.is_some() {
            if !ctx.reserve(more) {
                return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, None));
            }
            // It is counted where it is stored.
            ctx.totals.remove_bytes(more);
        }
        let (slot, mut wishes_changed) = match speaker {
            Speaker::Known(slot) => (slot, false),
            Speaker::Returns(slot) => {
                let member_id = new_id(ctx, request);
                (self.replace_by(ctx, slot, member_id), false)
            }
            Speaker::Newcomer => (self.add(ctx, request, more)?, true),
        };
        let updated = self.update(ctx, slot, request);
        wishes_changed |= updated.wishes_changed;
        self.resolve_if_due(ctx, at);
        self.notice_changes(ctx, wishes_changed);
        self.assign_if_due(ctx, at);
        let advanced = self.advance(ctx, at, slot, request.topic_partitions.as_ref(), updated.subscription_changed);
        self.restart_session(ctx, at, slot);
        ctx.stats.heartbeats += 1;

        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        let member = self.member(slot);
        // One that says what it has and lacks something was not told of it: the answer was lost, or went to a connection
        // that it had given up.
        let owned = request.topic_partitions.as_ref();
        let lacks = owned.is_some_and(|owned| !member.holding.assigned.is_subset(owned));
        let tells = request.member_epoch == 0 || is_full || advanced || lacks;
        Ok(ConsumerGroupHeartbeatResponse {
            error_code: ErrorCode::NONE,
            error_message: None,
            member_id: Some(member.member_id.clone()),
            member_epoch: member.holding.epoch,
            heartbeat_interval_ms: i32::try_from(ctx.config.consumer_heartbeat_interval.as_millis())
                .unwrap_or(i32::MAX),
            assignment: tells.then(|| member.holding.assigned.clone()),
        })
    }

    /// Whether the member's pattern is one.
    pub fn check_regex(&self, ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
        let regex = request.subscribed_topic_regex.as_ref().filter(|regex| !regex.is_empty());
        regex.map_or(Ok(()), |regex| self.check_pattern(regex)).map_err(|unfit| {
            if unfit.is_too_large {
                ctx.limits_hit.count(Limit::PatternBytes);
            }
            (ErrorCode::INVALID_REGULAR_EXPRESSION, Some(unfit.message))
        })
    }

    /// Whether the group takes whoever is not in it yet. A static member that comes back is.
    fn check_size(&self, ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
        let max = ctx.config.max_members_per_group;
        let comes_back = || request.instance_id.as_ref().is_some_and(|id| self.instances.contains_key(id));
        if self.members.len() < max || self.ids.contains_key(&request.member_id) || comes_back() {
            return Ok(());
        }
        ctx.limits_hit.count(Limit::MembersPerGroup);
        let message = format!("The consumer group has reached its maximum capacity of {max} members.");
        Err((ErrorCode::GROUP_MAX_SIZE_REACHED, Some(message)))
    }

    /// Who speaks, where that is in order (6.4).
    fn find(&self, request: &ConsumerGroupHeartbeatRequest) -> Result<Speaker, Refused> {
        let code = |code| (code, None);
        let Some(instance_id) = &request.instance_id else {
            return match self.ids.get(&request.member_id).copied() {
                Some(slot) => self.check_epoch(slot, request).map(|()| Speaker::Known(slot)),
                None if request.member_epoch == 0 => Ok(Speaker::Newcomer),
                None => Err(code(ErrorCode::UNKNOWN_MEMBER_ID)),
            };
        };
        let owner = self.instances.get(instance_id).copied();
        // An id is one member's: who joins as a static member must not bring that of another one.
        if request.member_epoch == 0 && self.ids.get(&request.member_id).is_some_and(|slot| Some(*slot) != owner) {
            let message = format!("MemberId {} is that of another member of the group.", request.member_id);
            return Err((ErrorCode::INVALID_REQUEST, Some(message)));
        }
        match owner {
            None if request.member_epoch == 0 => Ok(Speaker::Newcomer),
            None => Err(code(ErrorCode::UNKNOWN_MEMBER_ID)),
            // One that speaks the classic protocol never says that it is away: who starts again with the other takes its
            // place.
            Some(slot)
                if request.member_epoch == 0
                    && (self.member(slot).is_away() || self.member(slot).classic.is_some()) =>
            {
                Ok(Speaker::Returns(slot))
            }
            Some(slot) if request.member_epoch == 0 => {
                let message = format!(
                    "Static member {} with instance id {instance_id} cannot join the group because the instance \
                     id is owned by member {}.",
                    request.member_id,
                    self.member(slot).member_id
                );
                Err((ErrorCode::UNRELEASED_INSTANCE_ID, Some(message)))
            }
            Some(slot) if self.member(slot).member_id != request.member_id => Err(code(ErrorCode::FENCED_INSTANCE_ID)),
            Some(slot) => self.check_epoch(slot, request).map(|()| Speaker::Known(slot)),
        }
    }

    /// Whether the member is where it says it is. One whose answer was lost is one epoch behind and has nothing
    /// that it should not; one that was told to start over comes with 0 (4.2).
    fn check_epoch(&self, slot: u32, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
        let member = self.member(slot);
        let (said, epoch) = (request.member_epoch, member.holding.epoch);
        if said == epoch || said == 0 {
            return Ok(());
        }
        let owned = request.topic_partitions.as_ref();
        let lost_answer = said < epoch
            && said == member.previous_epoch
            && owned.is_some_and(|owned| owned.is_subset(&member.holding.assigned));
        if lost_answer {
            return Ok(());
        }
        let message = format!(
            "The consumer group member has a {} member epoch ({said}) than the one known by the group coordinator \
             ({epoch}). The member must abandon all its partitions and rejoin.",
            if said > epoch { "greater" } else { "smaller" }
        );
        Err((ErrorCode::FENCED_MEMBER_EPOCH, Some(message)))
    }

    fn add(
        &mut self,
        ctx: &mut Ctx,
        request: &ConsumerGroupHeartbeatRequest,
        more_bytes: usize,
    ) -> Result<u32, Refused> {
        let member_id = new_id(ctx, request);
        self.add_reserved(ctx, member_id, request.instance_id.as_ref(), more_bytes).map_err(|code| (code, None))
    }

    /// Adds a member if there is room in the gateway for it and for so many bytes more.
    pub(super) fn add_reserved(
        &mut self,
        ctx: &mut Ctx,
        member_id: Text,
        instance_id: Option<&Text>,
        more_bytes: usize,
    ) -> Result<u32, ErrorCode> {
        if !ctx.totals.try_add_member(ctx.config.max_total_members) {
            ctx.limits_hit.count(Limit::TotalMembers);
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let member = Member::new(ctx.uid(), member_id, instance_id.map(Text::detached));
        let bytes = member.bytes() + more_bytes;
        if !ctx.reserve(bytes) {
            ctx.totals.remove_member();
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        ctx.totals.remove_bytes(bytes);
        ctx.stats.joined += 1;
        Ok(self.insert(ctx, member))
    }

    /// A static member comes back under a new id, with all it had; the group need not know (6.4).
    pub(super) fn replace_by(&mut self, ctx: &mut Ctx, slot: u32, member_id: Text) -> u32 {
        // Between its two ids nobody else may wish for it what it wishes for, and its pattern's topics stay known.
        let (names, regex) = (self.member(slot).names.clone(), self.member(slot).regex.clone());
        self.subscribe(ctx, &names, regex.as_ref());
        let room = self.room;
        let old = *self.remove(ctx, slot);
        ctx.stats.depart(Departure::Replaced);
        ctx.totals.add_member();
        let mut member = Member { uid: ctx.uid(), member_id, classic: None, ..old };
        member.holding.epoch = 0;
        member.holding.state = MemberState::Stable;
        member.holding.revoking = PartitionSet::EMPTY;
        member.previous_epoch = -1;
        (member.armed_ms, member.act_by_ms) = (None, None);
        if self.assigning.is_some() {
            // The targets that are on their way are those of who was there when they were asked for.
            self.bump();
        }
        // The same id again: its tombstone would come behind nothing.
        self.changes.removed.retain(|removed| *removed != member.member_id);
        let slot = self.insert(ctx, member);
        // A sole member keeps the room of what it has.
        ctx.totals.add_bytes((room - self.room) * PARTITION_BYTES);
        self.room = room;
        self.unsubscribe(ctx, &names, regex.as_ref());
        slot
    }

    /// Takes over what the member says.
    fn update(&mut self, ctx: &mut Ctx, slot: u32, request: &ConsumerGroupHeartbeatRequest) -> Updated {
        let max_ms = i32::try_from(ctx.config.max_rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
        let member = self.member(slot);
        let names = request.subscribed_topic_names.as_ref().map(|names| self.shared(names));
        let names = names.filter(|names| *names != member.names);
        let regex = request.subscribed_topic_regex.as_ref().filter(|regex| member.regex.as_ref() != Some(*regex));
        let regex = regex.map(|regex| (!regex.is_empty()).then(|| regex.detached())).filter(|r| *r != member.regex);
        let before = (member.names.clone(), member.regex.clone());
        let bytes = member.bytes();
        let member = &mut self.members[slot as usize];
        if member.update(request, max_ms) {
            ctx.totals.remove_bytes(bytes);
            ctx.totals.add_bytes(member.bytes());
            self.changes.members.insert(slot);
        }
        let assignor_changed = self.ask_for_assignor(ctx, slot, request.server_assignor.as_ref());
        if names.is_none() && regex.is_none() {
            return Updated { wishes_changed: assignor_changed, subscription_changed: false };
        }
        // Only a pattern whose topics are known changes what is wished for already now.
        let wishes_changed = assignor_changed
            || names.is_some()
            || regex.as_ref().is_some_and(|regex| regex.as_ref().is_none_or(|regex| self.is_resolved(regex)));
        let names = names.unwrap_or_else(|| before.0.clone());
        let regex = regex.unwrap_or_else(|| before.1.clone());
        self.subscribe(ctx, &names, regex.as_ref());
        self.unsubscribe(ctx, &before.0, before.1.as_ref());
        self.change(ctx, slot, |member| (member.names, member.regex) = (names, regex));
        Updated { wishes_changed, subscription_changed: true }
    }

    /// Takes over the assignor that a member asks for. Returns whether the group has another by it (4.4).
    fn ask_for_assignor(&mut self, ctx: &mut Ctx, slot: u32, name: Option<&Text>) -> bool {
        let Some(assignor) = name.and_then(|name| Assignor::named(name.as_str())) else { return false };
        if self.member(slot).server_assignor == Some(assignor) {
            return false;
        }
        let before = self.assignor();
        self.change(ctx, slot, |member| member.server_assignor = Some(assignor));
        self.assignor() != before
    }

    /// Brings a member a step nearer to its target. Returns whether its partitions changed by it.
    pub(super) fn advance(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        slot: u32,
        owned: Option<&PartitionSet>,
        has_changed: bool,
    ) -> bool {
        let member = self.member(slot);
        let target = Target { epoch: self.assignment_epoch, partitions: &member.target };
        let subscription = Subscription { has_changed, includes: |topic| self.may_have(&*ctx.topics, member, topic) };
        let is_free = |partition| self.owners.get(&partition).is_none_or(|owner| *owner == slot);
        let Some(next) = reconcile(&member.holding, target, subscription, owned, is_free) else { return false };
        let changed = next.assigned != member.holding.assigned;
        let revokes = next.state == MemberState::UnrevokedPartitions;
        ctx.stats.reconciliations += 1;
        self.change(ctx, slot, |member| member.advance(next));
        match revokes {
            // A classic member has its deadline from its heartbeats, its join and its sync.
            _ if self.member(slot).classic.is_some() => {}
            true => self.arm_deadline(ctx, at, slot),
            false => self.cancel_deadline(ctx, slot),
        }
        changed
    }

    /// The member was heard of.
    pub(super) fn restart_session(&mut self, ctx: &mut Ctx, at: At, slot: u32) {
        let member = &mut self.members[slot as usize];
        member.seen_ms = member.seen_ms.max(at.ms);
        self.arm_session(ctx, slot);
    }

    /// Makes sure that the member's timer is not armed for later than its deadline.
    pub(super) fn arm_session(&mut self, ctx: &mut Ctx, slot: u32) {
        let deadline_ms = self.session_deadline_ms(ctx, slot);
        let group = self.this.slot;
        let member = &mut self.members[slot as usize];
        if member.armed_ms.is_some_and(|armed_ms| armed_ms <= deadline_ms) {
            return;
        }
        member.armed_ms = Some(deadline_ms);
        ctx.arm(TimerKey::Session { group, member: slot, uid: member.uid }, deadline_ms);
    }

    pub(super) fn session_deadline_ms(&self, ctx: &Ctx, slot: u32) -> u64 {
        let timeout_ms = match &self.member(slot).classic {
            Some(classic) => u64::try_from(classic.session_timeout_ms).unwrap_or_default(),
            None => u64::try_from(ctx.config.consumer_session_timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.member(slot).seen_ms.saturating_add(timeout_ms)
    }

    pub(super) fn cancel_timers(&self, ctx: &mut Ctx, slot: u32, member: &Member) {
        let (group, uid) = (self.this.slot, member.uid);
        if member.armed_ms.is_some() {
            ctx.cancel(TimerKey::Session { group, member: slot, uid });
        }
        if member.act_by_ms.is_some() {
            ctx.cancel(TimerKey::Revocation { group, member: slot, uid });
        }
    }
}
