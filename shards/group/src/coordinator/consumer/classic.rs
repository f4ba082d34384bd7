//! Members of a consumer group that speak the classic protocol, while a fleet moves from one to the other
//! (6.10): JoinGroup, SyncGroup and Heartbeat over what the coordinator assigns.
//!
//! Such a member never waits for others. Its generation is its member epoch; a heartbeat that is answered 27 sends
//! it to join again, by which it says what it still has, and its sync brings what it may have now.

use bytes::Bytes;

use super::ConsumerGroup;
use super::member::{Classic, Member};
use super::reconcile::MemberState;
use crate::coordinator::ctx::{At, Ctx};
use crate::coordinator::member::cut;
use crate::coordinator::protocol::{ByTopic, encode_assignment, subscription};
use crate::limits::Limit;
use crate::request::{HeartbeatRequest, JoinGroupRequest, Protocol, SyncGroupRequest};
use crate::response::{JoinGroupResponse, SyncGroupResponse};
use crate::text::detached;
use crate::topics::Topics;
use crate::{ErrorCode, PartitionSet, Text, TimerKey};

/// The protocol type of members that the coordinator can assign partitions to.
const CONSUMER: &str = "consumer";
/// The first version of JoinGroup in which a new member is given its id before it may join (KIP-394).
const ID_FIRST_SINCE: i16 = 4;

/// Partitions by name as partitions by id; none that is not there.
pub(in crate::coordinator) fn by_id(topics: &dyn Topics, by_name: &ByTopic) -> PartitionSet {
    let known = by_name.iter().filter_map(|(name, partitions)| Some((topics.topic(name.as_str())?, partitions)));
    let all = known.flat_map(|((id, count), partitions)| {
        let exist = partitions.iter().filter(move |partition| (0..count).contains(*partition));
        exist.map(move |partition| (id, *partition))
    });
    all.collect()
}

/// Partitions by id as the bytes of an assignment; what is of a topic that is not there any more is left out.
pub(in crate::coordinator) fn to_bytes(topics: &dyn Topics, version: i16, partitions: &PartitionSet) -> Bytes {
    let named = |(id, partitions): (u128, _)| Some((topics.name_of(id)?, Iterator::collect(partitions)));
    let by_topic: Vec<(&str, Vec<i32>)> = partitions.by_topic().filter_map(named).collect();
    encode_assignment(version, by_topic.into_iter())
}

impl ConsumerGroup {
    /// A classic member joins or joins again: answered at once, without the other members.
    pub fn classic_join(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        request: &JoinGroupRequest,
    ) -> Result<JoinGroupResponse, (ErrorCode, Text)> {
        let is_new = request.member_id.is_empty();
        let echo = || if is_new { Text::EMPTY } else { request.member_id.clone() };
        let known = match &request.group_instance_id {
            Some(instance_id) => self.instances.get(instance_id).copied(),
            None => self.ids.get(&request.member_id).copied(),
        };
        if self.members.len() >= ctx.config.max_members_per_group && known.is_none() {
            ctx.limits_hit.count(Limit::MembersPerGroup);
            return Err((ErrorCode::GROUP_MAX_SIZE_REACHED, Text::EMPTY));
        }
        let first = request.protocols.first().filter(|_| self.supports(request, known));
        let Some(wishes) = first.and_then(|protocol| subscription(&protocol.metadata)) else {
            return Err((ErrorCode::INCONSISTENT_GROUP_PROTOCOL, echo()));
        };
        if is_new && request.group_instance_id.is_none() && request.api_version >= ID_FIRST_SINCE {
            // The group need not remember it: whoever comes with an id of its own may join.
            let member_id = new_member_id(ctx, &cut(&request.client_id));
            return Err((ErrorCode::MEMBER_ID_REQUIRED, member_id));
        }
        let more = request_bytes(request) + self.names_bytes(ctx, &wishes.topics);
        if let Some(slot) = known {
            let more = more.saturating_sub(self.member(slot).bytes());
            if !ctx.reserve(more) {
                return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, echo()));
            }
            // It is counted where the member is.
            ctx.totals.remove_bytes(more);
        }
        let slot = self.find_or_add_classic(ctx, request, known, more).map_err(|error| (error, echo()))?;
        let topics = self.shared(&wishes.topics);
        let wishes_changed = self.member(slot).names != topics || self.member(slot).regex.is_some();
        let (before, regex) = (self.member(slot).names.clone(), self.member(slot).regex.clone());
        self.subscribe(ctx, &topics, None);
        self.unsubscribe(ctx, &before, regex.as_ref());
        let classic = Classic {
            session_timeout_ms: request.session_timeout_ms,
            version: wishes.version,
            protocols: protocols(request, self.member(slot)),
        };
        let max_ms = i32::try_from(ctx.config.max_rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
        let rebalance_timeout_ms = match request.rebalance_timeout_ms {
            ms if request.api_version == 0 || ms <= 0 => request.session_timeout_ms,
            ms => ms.min(max_ms),
        };
        self.change(ctx, slot, |member| {
            (member.names, member.regex, member.server_assignor) = (topics, None, None);
            member.rebalance_timeout_ms = rebalance_timeout_ms;
            (member.client_id, member.client_host) = (cut(&request.client_id), cut(&request.client_host));
            member.classic = Some(classic);
        });
        // Known without an id it is by its instance.
        self.succeeded = is_new && known.is_some() && !wishes_changed;
        self.notice_changes(ctx, wishes_changed || known.is_none());
        self.assign_if_due(ctx, at);
        let owned = by_id(&*ctx.topics, &wishes.owned);
        self.advance(ctx, at, slot, Some(&owned), wishes_changed);
        self.restart_session(ctx, at, slot);
        // Until its sync.
        self.arm_deadline(ctx, at, slot);
        let member = self.member(slot);
        Ok(JoinGroupResponse {
            error_code: ErrorCode::NONE,
            generation_id: member.holding.epoch,
            protocol_type: Some(Text::from_static(CONSUMER)),
            protocol_name: first.map(|protocol| protocol.name.clone()),
            leader: Text::EMPTY,
            skip_assignment: false,
            member_id: member.member_id.clone(),
            members: Vec::new(),
        })
    }

    /// Whether all classic members would have a protocol in common.
    fn supports(&self, request: &JoinGroupRequest, known: Option<u32>) -> bool {
        let own = known.and_then(|slot| self.member(slot).classic.as_ref());
        let others = self.classic_members - usize::from(own.is_some());
        let of_others = |name: &Text| {
            let all = self.support.get(name).copied().unwrap_or_default();
            all - usize::from(own.is_some_and(|own| own.names().any(|own| own == name)))
        };
        request.protocol_type == CONSUMER
            && (others == 0 && !request.protocols.is_empty()
                || request.protocols.iter().any(|protocol| of_others(&protocol.name) == others))
    }

    fn find_or_add_classic(
        &mut self,
        ctx: &mut Ctx,
        request: &JoinGroupRequest,
        known: Option<u32>,
        more_bytes: usize,
    ) -> Result<u32, ErrorCode> {
        let is_new = request.member_id.is_empty();
        match (&request.group_instance_id, known) {
            (Some(_), None) if !is_new => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            (Some(_), Some(slot)) if !is_new && self.member(slot).member_id != request.member_id => {
                Err(ErrorCode::FENCED_INSTANCE_ID)
            }
            // A static member that starts again takes the place of what it was, whichever protocol that spoke.
            (Some(instance_id), Some(slot)) if is_new => {
                let member_id = new_member_id(ctx, instance_id);
                Ok(self.replace_by(ctx, slot, member_id))
            }
            (_, Some(slot)) => Ok(slot),
            (instance_id, None) => {
                let prefix = instance_id.clone().unwrap_or_else(|| cut(&request.client_id));
                let member_id = if is_new { new_member_id(ctx, &prefix) } else { request.member_id.detached() };
                self.add_reserved(ctx, member_id, instance_id.as_ref(), more_bytes)
            }
        }
    }

    /// A classic member fetches what it may have.
    pub fn classic_sync(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        request: &SyncGroupRequest,
    ) -> Result<SyncGroupResponse, ErrorCode> {
        let slot = self.identify_classic(&request.member_id, request.group_instance_id.as_ref())?;
        let member = self.member(slot);
        let Some(classic) = &member.classic else { return Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        if request.generation_id != member.holding.epoch {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let name = classic.protocols.first().map(|protocol| protocol.name.clone()).unwrap_or_default();
        let differs = request.protocol_type.as_ref().is_some_and(|kind| *kind != CONSUMER)
            || request.protocol_name.as_ref().is_some_and(|said| *said != name);
        if differs {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let is_behind = member.holding.epoch < self.assignment_epoch;
        if is_behind && member.holding.state != MemberState::UnrevokedPartitions {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        let assignment = to_bytes(&*ctx.topics, classic.version, &member.holding.assigned);
        self.cancel_deadline(ctx, slot);
        self.restart_session(ctx, at, slot);
        Ok(SyncGroupResponse {
            error_code: ErrorCode::NONE,
            protocol_type: Some(Text::from_static(CONSUMER)),
            protocol_name: Some(name),
            assignment,
        })
    }

    /// A classic member lives; 27 tells it that there is something to give back or to get.
    pub fn classic_heartbeat(&mut self, ctx: &mut Ctx, at: At, request: &HeartbeatRequest) -> ErrorCode {
        let slot = match self.check_classic_heartbeat(request) {
            Ok(slot) => slot,
            Err(error) => return error,
        };
        self.restart_session(ctx, at, slot);
        ctx.stats.heartbeats += 1;
        // Where all members are classic ones, nobody else notices what has changed.
        self.resolve_if_due(ctx, at);
        self.notice_changes(ctx, false);
        self.assign_if_due(ctx, at);
        let member = self.member(slot);
        let is_free = |partition| self.owners.get(&partition).is_none_or(|owner| *owner == slot);
        let may_go_on = match member.holding.state {
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => member.target.iter().all(is_free),
            MemberState::Stable => false,
        };
        if member.holding.epoch == self.assignment_epoch && !may_go_on {
            return ErrorCode::NONE;
        }
        if member.act_by_ms.is_none() {
            self.arm_deadline(ctx, at, slot);
        }
        ErrorCode::REBALANCE_IN_PROGRESS
    }

    /// A classic heartbeat was read that is answered later.
    pub fn classic_heartbeat_seen(&mut self, ctx: &mut Ctx, at: At, request: &HeartbeatRequest) {
        if let Ok(slot) = self.check_classic_heartbeat(request) {
            self.restart_session(ctx, at, slot);
        }
    }

    /// The member that a classic heartbeat speaks for.
    fn check_classic_heartbeat(&self, request: &HeartbeatRequest) -> Result<u32, ErrorCode> {
        let slot = self.identify_classic(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.member(slot).holding.epoch {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(slot)
    }

    fn identify_classic(&self, member_id: &Text, instance_id: Option<&Text>) -> Result<u32, ErrorCode> {
        let slot = self.identify(member_id, instance_id)?;
        if self.member(slot).classic.is_some() { Ok(slot) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    /// The member has to join or to sync within its rebalance timeout.
    pub(super) fn arm_deadline(&mut self, ctx: &mut Ctx, at: At, slot: u32) {
        let group = self.this.slot;
        let member = &mut self.members[slot as usize];
        let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or_default();
        let deadline_ms = at.ms.saturating_add(timeout_ms);
        member.act_by_ms = Some(deadline_ms);
        ctx.arm(TimerKey::Revocation { group, member: slot, uid: member.uid }, deadline_ms);
    }

    pub(super) fn cancel_deadline(&mut self, ctx: &mut Ctx, slot: u32) {
        let group = self.this.slot;
        let member = &mut self.members[slot as usize];
        if member.act_by_ms.take().is_some() {
            ctx.cancel(TimerKey::Revocation { group, member: slot, uid: member.uid });
        }
    }
}

/// `<prefix>-<uuid>`, as in a classic group.
fn new_member_id(ctx: &mut Ctx, prefix: &Text) -> Text {
    Text::from(format!("{prefix}-{}", ctx.uuid()))
}

/// What the group will keep of the request beside the topics that it names.
fn request_bytes(request: &JoinGroupRequest) -> usize {
    request.protocols.iter().map(|p| size_of::<Protocol>() + p.name.len() + p.metadata.len()).sum()
}

/// Copies what is kept out of the request's buffer, but not what is known already.
fn protocols(request: &JoinGroupRequest, known: &Member) -> std::sync::Arc<[Protocol]> {
    match &known.classic {
        Some(classic) if *classic.protocols == *request.protocols => classic.protocols.clone(),
        _ => request
            .protocols
            .iter()
            .map(|p| Protocol { name: p.name.detached(), metadata: detached(&p.metadata) })
            .collect(),
    }
}
