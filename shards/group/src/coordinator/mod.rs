//! One shard's groups as a state machine: no I/O, no clock, no runtime.
//!
//! In order: [`Coordinator::new`], [`Coordinator::load`] for every record of the store,
//! [`Coordinator::finish_loading`]; from then on any `handle_*` as things happen, and after each of them
//! [`Coordinator::poll_effect`] until it gives nothing. Effects are carried out in the order in which they
//! come; the caller may pause between any two, and may call `handle_*` meanwhile. Getters may be called at
//! any time.
//!
//! What must stay true: every request is answered exactly once. A step takes time that does not depend on
//! the size of the group or on the number of groups: what would, is a `work` done in slices by
//! `poll_effect`, while further inputs of that group queue behind it and other groups go on. Nothing is
//! answered as kept before its write was reported as done.

mod commit;
mod consumer;
mod consumer_group;
mod ctx;
mod describe;
mod expiry;
mod group;
mod join;
mod later;
mod leave;
mod load;
mod member;
mod members;
mod migration;
mod offsets;
mod protocol;
mod rebalance;
mod responses;
mod session;
mod spare;
mod static_member;
mod stats;
mod subscription;
mod survey;
mod sweep;
mod sync;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;

use crate::limits::{GROUP_ID_BYTES_MAX, GroupConfig, LIST_SLICE_GROUPS, Limit, LimitsHit, Totals};
use crate::pieced::PiecedMap;
use crate::request::{
    ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, ListGroupsRequest, OffsetCommitRequest,
};
use crate::response::ListGroupsResponse;
use crate::topics::Topics;
use crate::{
    ConnectionId, Effect, ErrorCode, Now, PartitionSet, PersistId, Record, ReplyToken, Request, Response, StoreError,
    Text, TimerKey,
};
pub use consumer::{MemberState, ResolvedRegex, TopicNames, resolve_regexes};
use ctx::{At, Ctx, GroupRef, Phase, Wait, Write};
pub use expiry::DeletedTopic;
pub use group::State;
use group::{Group, Hold};
pub use members::member_visits;
pub use protocol::assigned_partitions;
use spare::Spare;
pub use stats::{Departure, GroupStats, Rebalances};
pub use survey::{SurveyCursor, SurveyPage, SurveyedGroup, SurveyedOffset};
use sweep::Sweep;

/// What a group takes in, one after the other.
#[derive(Debug)]
enum Input {
    Request { token: ReplyToken, connection: ConnectionId, request: Request },
    Timer(TimerKey),
    ConnectionClosed(ConnectionId),
    AssignmentsKept { epoch: u64, result: Result<(), StoreError> },
    AssignmentComputed { asked: Vec<(u32, u64)>, targets: Vec<PartitionSet> },
    RegexResolved(Vec<ResolvedRegex>),
    TopicsDeleted(Arc<[DeletedTopic]>),
    Expire,
    Shutdown,
}

/// The coordinator of the groups that one shard owns.
#[derive(Debug)]
pub struct Coordinator {
    ctx: Ctx,
    /// Boxed, so that more of them are made room for without moving them all in one go.
    groups: Slab<Box<Group>>,
    by_id: PiecedMap<Text, u32>,
    /// Groups that have something left to do.
    ready: VecDeque<u32>,
    sweeps: VecDeque<Sweep>,
    spare: Spare,
}

impl Coordinator {
    /// A coordinator without groups, which loads. `totals` is shared by all shards of a gateway; `random`
    /// gives 128 random bits for each member id.
    pub fn new(config: GroupConfig, totals: Arc<Totals>, random: impl FnMut() -> u128 + 'static) -> Coordinator {
        Coordinator {
            ctx: Ctx::new(config, totals, Box::new(random)),
            groups: Slab::new(),
            by_id: PiecedMap::new(),
            ready: VecDeque::new(),
            sweeps: VecDeque::new(),
            spare: Spare::new(),
        }
    }

    /// Groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Groups by state.
    pub fn groups_by_state(&self) -> impl Iterator<Item = (State, usize)> + '_ {
        State::ALL.into_iter().map(|state| (state, self.ctx.states[state as usize]))
    }

    /// What the groups have done since the start.
    pub fn stats(&self) -> &GroupStats {
        &self.ctx.stats
    }

    /// What a group's rebalances came to; `None` where there is no such group.
    pub fn rebalances(&self, group_id: &Text) -> Option<Rebalances> {
        self.by_id.get(group_id).map(|slot| self.groups[*slot as usize].rebalances)
    }

    /// Members of all groups.
    pub fn member_count(&self) -> usize {
        self.ctx.members
    }

    /// Bounds that were met here.
    pub fn limits_hit(&self) -> &LimitsHit {
        &self.ctx.limits_hit
    }

    /// Writes that were asked for and are not reported yet.
    pub fn writes_in_flight(&self) -> usize {
        self.ctx.writes.len()
    }

    /// Takes a request. The token must not be that of another one that is not answered yet; it comes back
    /// in one [`Effect::Reply`], perhaps after long.
    pub fn handle_request(&mut self, now: Now, token: ReplyToken, connection: ConnectionId, request: Request) {
        let at = self.ctx.at(now);
        self.ctx.asked(token);
        if let Request::Join(join) = &request
            && let Some(response) = self.refused_join(join)
        {
            return self.ctx.reply(token, response);
        }
        self.dispatch(at, token, connection, request);
    }

    /// Refreshes a session for a heartbeat that was read and waits behind another request of its connection.
    /// Its answer comes at its turn, from [`Coordinator::handle_request`].
    pub fn handle_heartbeat_seen(&mut self, now: Now, request: &HeartbeatRequest) {
        let at = self.ctx.at(now);
        let Some(slot) = self.by_id.get(&request.group_id) else { return };
        let group = &mut self.groups[*slot as usize];
        if let Some(consumer) = &mut group.consumer {
            return consumer.classic_heartbeat_seen(&mut self.ctx, at, request);
        }
        if let Ok(member) = group.check_heartbeat(request) {
            group.restart_session(&mut self.ctx, at, member);
        }
    }

    /// A timer's time has come. One that was cancelled or armed anew meanwhile does no harm.
    pub fn handle_timer(&mut self, now: Now, key: TimerKey) {
        if self.ctx.phase != Phase::Active {
            return;
        }
        let at = self.ctx.at(now);
        let (TimerKey::Session { group: slot, .. }
        | TimerKey::Pending { group: slot, .. }
        | TimerKey::Revocation { group: slot, .. }
        | TimerKey::Join { group: slot, .. }
        | TimerKey::Sync { group: slot, .. }) = key;
        if self.groups.contains(slot as usize) {
            self.submit(at, slot, Input::Timer(key));
        }
    }

    /// A write was done or failed. Each id once; those of a key in their order.
    pub fn handle_persisted(&mut self, now: Now, id: PersistId, result: Result<(), StoreError>) {
        let at = self.ctx.at(now);
        let Some(write) = self.ctx.writes.remove(&id) else {
            debug_assert!(false, "{id:?} was reported twice or never asked for");
            return;
        };
        let this = match &write {
            Write::Unwatched => return,
            Write::Sync { group, .. } | Write::Replacement { group, .. } | Write::DeleteGroup { group, .. } => *group,
            Write::Commit(write) => write.group,
            Write::DeleteOffsets(write) => write.group,
            Write::Consumer(write) => write.group,
        };
        // A group with a write that somebody waits for is not removed, but for one that only syncs.
        let Some(group) = self.groups.get_mut(this.slot as usize).filter(|group| group.this == this) else {
            debug_assert!(matches!(write, Write::Sync { .. }));
            return;
        };
        match write {
            Write::Unwatched => {}
            Write::Sync { epoch, .. } => {
                return self.submit(at, this.slot, Input::AssignmentsKept { epoch, result });
            }
            Write::Replacement { replacement, .. } => {
                group.at = at;
                group.replacement_kept(&mut self.ctx, at, *replacement, result);
            }
            Write::Commit(write) => group.commit_kept(&mut self.ctx, write, result),
            Write::DeleteOffsets(write) => group.offsets_deleted(&mut self.ctx, write, result),
            Write::Consumer(write) => group.consumer_kept(&mut self.ctx, *write, result),
            Write::DeleteGroup { token, .. } => group.group_deleted(&mut self.ctx, token, result),
        }
        self.settle(this.slot);
    }

    /// What topics there are from now on. Consumer groups take it up with their members' next heartbeats.
    pub fn handle_topics(&mut self, topics: Arc<dyn Topics>) {
        self.ctx.topics = topics;
    }

    /// What [`Effect::ComputeAssignment`] asked for was computed.
    pub fn handle_assignment_computed(
        &mut self,
        now: Now,
        group: u32,
        uid: u64,
        asked: Vec<(u32, u64)>,
        targets: Vec<PartitionSet>,
    ) {
        self.submit_to(now, GroupRef { slot: group, uid }, Input::AssignmentComputed { asked, targets });
    }

    /// What [`Effect::ResolveRegex`] asked for was found.
    pub fn handle_regex_resolved(&mut self, now: Now, group: u32, uid: u64, resolved: Vec<ResolvedRegex>) {
        self.submit_to(now, GroupRef { slot: group, uid }, Input::RegexResolved(resolved));
    }

    fn submit_to(&mut self, now: Now, this: GroupRef, input: Input) {
        let at = self.ctx.at(now);
        if self.groups.get(this.slot as usize).is_some_and(|group| group.this == this) {
            self.submit(at, this.slot, input);
        }
    }

    /// A connection is closed: what it has parked is withdrawn (and answered, to nobody).
    pub fn handle_connection_closed(&mut self, now: Now, connection: ConnectionId) {
        let at = self.ctx.at(now);
        self.close(at, connection);
    }

    fn close(&mut self, at: At, connection: ConnectionId) {
        let waits = self.ctx.waits.range((connection, 0, Wait::FIRST)..).take_while(|(c, ..)| *c == connection);
        let mut slots: Vec<u32> = waits.map(|(_, slot, _)| *slot).collect();
        slots.dedup();
        for slot in slots {
            self.submit(at, slot, Input::ConnectionClosed(connection));
        }
    }

    /// The shard stood still for so long that its clients could not be heard: everybody gets that time again.
    pub fn handle_stall(&mut self, extend_ms: u64) {
        self.ctx.stall_ms = self.ctx.stall_ms.saturating_add(extend_ms);
    }

    /// What is to be done next, if anything.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            if let Some(effect) = self.ctx.effects.pop_front() {
                return Some(effect);
            }
            let worked = match self.ready.pop_front() {
                Some(slot) => self.go_on(slot),
                None => self.sweep()?,
            };
            if worked && self.ctx.effects.is_empty() {
                return Some(Effect::Worked);
            }
        }
    }

    /// The answer to a join where one can be given without its group (1.3, rows 2 to 5).
    fn refused_join(&mut self, request: &JoinGroupRequest) -> Option<Response> {
        let refused = |error, member_id| Some(responses::join_error(request.api_version, error, member_id));
        let echo = || request.member_id.clone();
        if self.ctx.phase == Phase::Stopped {
            return refused(ErrorCode::COORDINATOR_NOT_AVAILABLE, echo());
        }
        if let Phase::Refusing(error) = self.ctx.phase {
            return refused(error, echo());
        }
        if let Err(error) = join::check(&mut self.ctx, request) {
            return refused(error, echo());
        }
        if self.ctx.phase == Phase::Loading {
            return refused(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, Text::EMPTY);
        }
        let error = join::check_bounds(&mut self.ctx, request).err()?;
        refused(error, echo())
    }

    /// The group that a request is for: `Ok(None)` where there is none.
    fn find(&self, group_id: &Text, takes_empty_id: bool) -> Result<Option<u32>, ErrorCode> {
        match self.ctx.phase {
            Phase::Stopped => Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            _ if group_id.is_empty() && !takes_empty_id => Err(ErrorCode::INVALID_GROUP_ID),
            Phase::Loading => Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            Phase::Refusing(error) => Err(error),
            Phase::Active => Ok(self.by_id.get(group_id).copied()),
        }
    }

    /// Brings a request to its group, or says what there is to say without one.
    fn dispatch(&mut self, at: At, token: ReplyToken, connection: ConnectionId, request: Request) {
        let answer = match &request {
            Request::Join(join) => match self.find(&join.group_id, false) {
                Ok(Some(slot)) => Ok(slot),
                Ok(None) if join.member_id.is_empty() => {
                    let metadata = join.protocols.iter().map(|protocol| protocol.metadata.len()).sum();
                    let created =
                        self.has_room_for_member(metadata).and_then(|()| self.create_group(at, &join.group_id, true));
                    created.map_err(|error| responses::join_error(join.api_version, error, Text::EMPTY))
                }
                Ok(None) => {
                    let error = ErrorCode::UNKNOWN_MEMBER_ID;
                    Err(responses::join_error(join.api_version, error, join.member_id.clone()))
                }
                Err(error) => Err(responses::join_error(join.api_version, error, join.member_id.clone())),
            },
            Request::Sync(sync) => match sync::check(sync).and_then(|()| self.find(&sync.group_id, false)) {
                Ok(slot) => slot.ok_or_else(|| responses::sync_error(ErrorCode::UNKNOWN_MEMBER_ID)),
                Err(error) => Err(responses::sync_error(error)),
            },
            Request::Heartbeat(heartbeat) => match self.find(&heartbeat.group_id, false) {
                Ok(slot) => slot.ok_or(Response::Heartbeat(ErrorCode::UNKNOWN_MEMBER_ID)),
                // A member that is told nothing keeps calm until its group is loaded.
                Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => Err(Response::Heartbeat(ErrorCode::NONE)),
                Err(error) => Err(Response::Heartbeat(error)),
            },
            Request::Leave(leave) => match self.find(&leave.group_id, false) {
                Ok(slot) => slot.ok_or_else(|| leave::unknown_group(leave.clone())),
                Err(error) => Err(leave::refused(error)),
            },
            Request::OffsetCommit(commit) => {
                self.find_to_commit(at, commit).map_err(|error| offsets::commit_refused(commit, error))
            }
            Request::OffsetFetch(fetch) => Err(match self.find(&fetch.group_id, true) {
                Ok(slot) => {
                    let group = slot.map(|slot| &self.groups[slot as usize]);
                    let consumer = group.and_then(|group| group.consumer.as_ref());
                    match consumer.map_or(Ok(()), |consumer| consumer.check_fetch(fetch)) {
                        Ok(()) => {
                            let offsets = group.map(|group| &group.offsets);
                            offsets::fetch(offsets, fetch.group_id.clone(), fetch.topics.clone())
                        }
                        Err(error) => responses::offset_fetch_error(fetch.group_id.clone(), error),
                    }
                }
                // Older clients do not try again after 15 here.
                Err(ErrorCode::COORDINATOR_NOT_AVAILABLE) => {
                    responses::offset_fetch_error(fetch.group_id.clone(), ErrorCode::NOT_COORDINATOR)
                }
                Err(error) => responses::offset_fetch_error(fetch.group_id.clone(), error),
            }),
            Request::DescribeGroup(describe) => match self.find(&describe.group_id, true) {
                Ok(slot) => slot.ok_or_else(|| describe::dead(describe.api_version, describe.group_id.clone())),
                Err(error) => Err(describe::refused(describe.group_id.clone(), error)),
            },
            Request::ListGroups(list) => Err(Response::ListGroups(self.list_groups(list))),
            Request::DeleteGroup(delete) => match self.find(&delete.group_id, true) {
                Ok(slot) => slot.ok_or(Response::DeleteGroup(ErrorCode::GROUP_ID_NOT_FOUND)),
                Err(error) => Err(Response::DeleteGroup(error)),
            },
            Request::ConsumerGroupHeartbeat(heartbeat) => {
                self.find_to_heartbeat(at, heartbeat).map_err(consumer::refused)
            }
            Request::ConsumerGroupDescribe(group_id) => match self.find(group_id, false) {
                Ok(slot) => slot.ok_or_else(|| consumer::not_found(group_id.clone())),
                Err(error) => Err(consumer::not_described(group_id.clone(), error, None)),
            },
            Request::OffsetDelete(delete) => match self.find(&delete.group_id, false) {
                Ok(slot) => slot.ok_or_else(|| offsets::delete_refused(ErrorCode::GROUP_ID_NOT_FOUND)),
                Err(error) => Err(offsets::delete_refused(error)),
            },
        };
        match answer {
            Ok(slot) => self.submit(at, slot, Input::Request { token, connection, request }),
            Err(response) => self.ctx.reply(token, response),
        }
    }

    /// 4.2, rows 1 and 2: a commit of no generation makes a group that only commits.
    fn find_to_commit(&mut self, at: At, commit: &OffsetCommitRequest) -> Result<u32, ErrorCode> {
        if let Some(slot) = self.find(&commit.group_id, true)? {
            return Ok(slot);
        }
        if commit.generation_id_or_member_epoch < 0 {
            // Metadata that is too long fails alone, and is not stored.
            let most = self.ctx.config.offset_metadata_max;
            let partitions = commit.topics.iter().flat_map(|topic| &topic.partitions);
            let bytes = partitions.map(|partition| {
                let metadata = partition.committed_metadata.as_ref().map_or(0, Text::len);
                crate::limits::OFFSET_BYTES + if metadata <= most { metadata } else { 0 }
            });
            self.has_room_for_group(bytes.sum())?;
            return self.create_group(at, &commit.group_id, false);
        }
        Err(if commit.api_version >= 9 { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::ILLEGAL_GENERATION })
    }

    /// The group that a consumer-protocol heartbeat is for; one that does not exist is made for a member that
    /// joins.
    fn find_to_heartbeat(
        &mut self,
        at: At,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<u32, (ErrorCode, Option<String>)> {
        if self.ctx.phase == Phase::Stopped {
            return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, None));
        }
        consumer::check(&mut self.ctx, request)?;
        match self.find(&request.group_id, false).map_err(|code| (code, None))? {
            Some(slot) => Ok(slot),
            None if request.member_epoch == 0 => {
                let bytes = consumer::check_first(&mut self.ctx, request)?;
                let created =
                    self.has_room_for_member(bytes).and_then(|()| self.create_group(at, &request.group_id, false));
                created.map_err(|code| (code, None))
            }
            None => {
                let message = format!("Consumer group {} not found.", request.group_id);
                Err((ErrorCode::GROUP_ID_NOT_FOUND, Some(message)))
            }
        }
    }

    /// Whether the gateway takes one more member, with this many bytes of metadata: asked before a group is made
    /// for it, so that who is refused leaves no group behind.
    fn has_room_for_member(&mut self, metadata: usize) -> Result<(), ErrorCode> {
        let ctx = &mut self.ctx;
        if ctx.totals.members() >= ctx.config.max_total_members {
            ctx.limits_hit.count(Limit::TotalMembers);
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        self.has_room_for_group(crate::limits::MEMBER_BYTES + metadata)
    }

    /// Whether a group with so many bytes in it fits into what is left.
    fn has_room_for_group(&mut self, bytes: usize) -> Result<(), ErrorCode> {
        let ctx = &mut self.ctx;
        let bytes = crate::limits::GROUP_BYTES.saturating_add(bytes);
        if ctx.totals.bytes().saturating_add(bytes) > ctx.config.max_group_memory {
            ctx.limits_hit.count(Limit::GroupMemory);
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        Ok(())
    }

    /// Makes an empty group. One that begins with a commit is kept by its offsets alone.
    fn create_group(&mut self, at: At, group_id: &Text, keep: bool) -> Result<u32, ErrorCode> {
        let ctx = &mut self.ctx;
        if group_id.len() > GROUP_ID_BYTES_MAX {
            ctx.limits_hit.count(Limit::GroupId);
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        self.take_place()?;
        let ctx = &mut self.ctx;
        let bytes = crate::limits::GROUP_BYTES + group_id.len();
        if !ctx.reserve(bytes) {
            ctx.totals.remove_group();
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        ctx.totals.remove_bytes(bytes);
        let slot = self.insert_group(at, group_id.detached());
        if keep {
            let record = Record::Group(self.groups[slot as usize].metadata());
            self.ctx.persist(vec![record], Write::Unwatched);
        }
        Ok(slot)
    }

    /// Puts in a group that is counted already; its bytes are counted here.
    fn insert_group(&mut self, at: At, group_id: Text) -> u32 {
        let entry = self.groups.vacant_entry();
        let this = GroupRef { slot: entry.key() as u32, uid: self.ctx.uid() };
        let group = entry.insert(Box::new(Group::new(this, group_id.clone(), at)));
        self.ctx.totals.add_bytes(group.bytes());
        self.ctx.states[group.state as usize] += 1;
        self.by_id.insert(group_id, this.slot);
        this.slot
    }

    /// Takes out a group with all it has. What has queued behind its last step comes to nothing, or to the
    /// group that takes its name.
    fn remove_group(&mut self, slot: u32) {
        let mut group = self.groups.remove(slot as usize);
        if let Some(since_ms) = group.spare_since_ms {
            self.spare.remove(&(since_ms, slot));
        }
        let mut at = 0;
        while let Some(member) = group.next_member(&mut at) {
            group.remove_member(&mut self.ctx, member);
        }
        if let Some(mut consumer) = group.consumer.take() {
            consumer.clear(&mut self.ctx);
        }
        for member_id in group.pending.keys().cloned().collect::<Vec<_>>() {
            group.remove_pending(&mut self.ctx, &member_id);
        }
        group.offsets.clear(&mut self.ctx);
        group.set_assigned(&mut self.ctx, 0);
        self.ctx.states[group.state as usize] -= 1;
        self.ctx.totals.remove_group();
        self.ctx.totals.remove_bytes(group.bytes());
        self.by_id.remove(&group.id);
        for (at, input) in std::mem::take(&mut group.inbox) {
            match input {
                Input::Request { token, connection, request } => {
                    self.ctx.waits.remove(&(connection, slot, Wait::Queued(token)));
                    self.dispatch(at, token, connection, request);
                }
                Input::ConnectionClosed(connection) => self.close(at, connection),
                Input::Timer(_)
                | Input::AssignmentsKept { .. }
                | Input::AssignmentComputed { .. }
                | Input::RegexResolved(_)
                | Input::TopicsDeleted(_)
                | Input::Expire
                | Input::Shutdown => {}
            }
        }
    }

    fn list_groups(&self, request: &ListGroupsRequest) -> ListGroupsResponse {
        let refused = |error_code| ListGroupsResponse { error_code, groups: Vec::new(), next: None };
        match self.ctx.phase {
            Phase::Loading => return refused(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            Phase::Refusing(error) => return refused(error),
            Phase::Stopped => return refused(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            Phase::Active => {}
        }
        let end = request.cursor.saturating_add(LIST_SLICE_GROUPS);
        let slice = (request.cursor..end).filter_map(|slot| self.groups.get(slot));
        ListGroupsResponse {
            error_code: ErrorCode::NONE,
            groups: slice.filter_map(|group| group.listed(request)).collect(),
            next: (end < self.groups.capacity()).then_some(end),
        }
    }

    /// Lets a group take something in, now or behind what it has to do.
    fn submit(&mut self, at: At, slot: u32, input: Input) {
        let group = &mut self.groups[slot as usize];
        if group.is_busy() {
            if let Input::Request { token, connection, request: Request::Join(_) | Request::Sync(_) } = &input {
                self.ctx.waits.insert((*connection, slot, Wait::Queued(*token)));
            }
            group.inbox.push_back((at, input));
        } else {
            group.step(&mut self.ctx, at, input);
        }
        self.settle(slot);
    }

    /// After a step: takes the group out, or puts it in line for the rest of what it has to do.
    fn settle(&mut self, slot: u32) {
        let group = &mut self.groups[slot as usize];
        #[cfg(debug_assertions)]
        group.check();
        if group.is_removed {
            return self.remove_group(slot);
        }
        let has_more = !group.works.is_empty() || group.hold == Hold::None && !group.inbox.is_empty();
        if has_more && !group.is_ready {
            group.is_ready = true;
            self.ready.push_back(slot);
        }
        self.note_spare(slot);
    }

    /// A slice of what a group has to do. Returns whether there was any.
    fn go_on(&mut self, slot: u32) -> bool {
        let Some(group) = self.groups.get_mut(slot as usize).filter(|group| group.is_ready) else {
            return false;
        };
        group.is_ready = false;
        let worked = group.go_on(&mut self.ctx);
        self.settle(slot);
        worked
    }
}

impl Group {
    fn go_on(&mut self, ctx: &mut Ctx) -> bool {
        if let Some(work) = self.works.pop_front() {
            if let Some(rest) = work.run(self, ctx) {
                self.works.push_front(rest);
            }
            return true;
        }
        if self.hold != Hold::None {
            return false;
        }
        let Some((at, input)) = self.inbox.pop_front() else { return false };
        if let Input::Request { token, connection, .. } = &input {
            ctx.waits.remove(&(*connection, self.this.slot, Wait::Queued(*token)));
        }
        self.step(ctx, at, input);
        true
    }

    /// Takes one thing in.
    fn step(&mut self, ctx: &mut Ctx, at: At, input: Input) {
        self.at = at;
        if self.consumer.is_some() {
            return self.consumer_step(ctx, at, input);
        }
        match input {
            Input::Request { token, connection, request } => self.request(ctx, at, token, connection, request),
            Input::Timer(TimerKey::Session { member, uid, .. }) => self.session_timer(ctx, at, member, uid),
            Input::Timer(TimerKey::Pending { uid, .. }) => self.pending_timer(ctx, at, uid),
            Input::Timer(TimerKey::Join { uid, .. }) if uid == self.this.uid => self.join_timer(ctx, at),
            Input::Timer(TimerKey::Sync { uid, .. }) if uid == self.this.uid => self.sync_timer(ctx, at),
            Input::Timer(TimerKey::Join { .. } | TimerKey::Sync { .. } | TimerKey::Revocation { .. }) => {}
            Input::AssignmentComputed { .. } | Input::RegexResolved(_) => {}
            Input::ConnectionClosed(connection) => self.connection_closed(ctx, at, connection),
            Input::AssignmentsKept { epoch, result } => self.assignments_kept(ctx, epoch, result),
            Input::TopicsDeleted(topics) if self.offset_writes == 0 => self.topics_deleted(ctx, &topics),
            Input::Expire if self.offset_writes == 0 => {
                if !self.expires_by_subscription() || self.knows_subscriptions() {
                    self.expire();
                } else {
                    self.inbox.push_front((at, input));
                }
            }
            Input::TopicsDeleted(_) | Input::Expire => self.wait_for_offset_writes(at, input),
            Input::Shutdown => self.works.push_back(work::Work::Shutdown { at: 0 }),
        }
    }

    fn request(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, connection: ConnectionId, request: Request) {
        match request {
            Request::Join(request) => self.join(ctx, at, token, connection, request),
            Request::Sync(request) => self.sync(ctx, token, connection, request),
            Request::Heartbeat(request) => {
                let error = self.heartbeat(ctx, at, &request);
                ctx.reply(token, Response::Heartbeat(error));
            }
            Request::Leave(request) => self.leave(ctx, at, token, request),
            Request::OffsetCommit(request) => self.offset_commit(ctx, at, token, request),
            Request::DescribeGroup(_) => self.describe(token),
            Request::DeleteGroup(_) if self.offset_writes == 0 => self.delete_group(ctx, token),
            Request::DeleteGroup(_) => {
                self.wait_for_offset_writes(at, Input::Request { token, connection, request });
            }
            Request::OffsetDelete(request) => {
                let is_active = self.state != State::Empty;
                if is_active && self.protocol_type != "consumer" {
                    ctx.reply(token, offsets::delete_refused(ErrorCode::NON_EMPTY_GROUP));
                } else if !is_active || self.knows_subscriptions() {
                    self.offset_delete(ctx, token, request);
                } else {
                    let request = Request::OffsetDelete(request);
                    self.inbox.push_front((at, Input::Request { token, connection, request }));
                }
            }
            Request::ConsumerGroupHeartbeat(request) => self.become_consumer(ctx, at, token, request),
            Request::ConsumerGroupDescribe(group_id) => ctx.reply(token, consumer::not_found(group_id)),
            Request::OffsetFetch(_) | Request::ListGroups(_) => {
                debug_assert!(false, "answered without a step of the group");
            }
        }
    }

    /// Takes this up again when no offset of the group is being written; everything else waits behind it.
    fn wait_for_offset_writes(&mut self, at: At, input: Input) {
        self.hold = Hold::OffsetWrites;
        self.inbox.push_front((at, input));
    }
}
