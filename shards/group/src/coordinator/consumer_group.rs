//! A group that is a consumer group (KIP-848): what it takes in, and how a classic group becomes one and back.

use super::Input;
use super::consumer::{self, Assigned, Changes, ConsumerGroup, Description};
use super::ctx::{At, Ctx, GroupRef, Write};
use super::describe;
use super::group::{Group, State};
use super::leave;
use super::responses::{join_error, sync_error};
use super::work::Work;
use crate::limits::MigrationPolicy;
use crate::request::{ConsumerGroupHeartbeatRequest, JoinGroupRequest, SyncGroupRequest};
use crate::{ConnectionId, ErrorCode, Record, ReplyToken, Request, Response, StoreError, Text, TimerKey};

/// What a step changed, on its way to the store.
#[derive(Debug)]
pub(super) struct ConsumerWrite {
    pub group: GroupRef,
    /// [`Group::consumer_ends`] as of then: a group that has become another one since knows nothing of it.
    ends: u64,
    changes: Changes,
    failed: u64,
    /// With the version of its request.
    answer: Option<(ReplyToken, i16, Response)>,
}

/// An answer, or the error in its place when what it tells of could not be kept.
pub(super) fn answer(api_version: i16, response: Response, result: Result<(), StoreError>) -> Response {
    match (response, result) {
        (response, Ok(())) => response,
        (Response::ConsumerGroupHeartbeat(_), Err(error)) => consumer::refused((error.code(), None)),
        (Response::Leave(_), Err(error)) => leave::refused(error.code()),
        (Response::Sync(_), Err(error)) => sync_error(error.code()),
        (Response::Join(joined), Err(error)) => join_error(api_version, error.code(), joined.member_id),
        (other, Err(_)) => unreachable!("no such answer waits for a write: {other:?}"),
    }
}

impl Group {
    /// Takes one thing in.
    pub(super) fn consumer_step(&mut self, ctx: &mut Ctx, at: At, input: Input) {
        match input {
            Input::Request { token, connection, request } => {
                self.consumer_request(ctx, at, token, connection, request);
            }
            Input::Timer(TimerKey::Session { member, uid, .. }) => {
                self.with_consumer(ctx, |consumer, ctx| consumer.session_timer(ctx, at, member, uid));
            }
            Input::Timer(TimerKey::Revocation { member, uid, .. }) => {
                self.with_consumer(ctx, |consumer, ctx| consumer.revocation_timer(ctx, at, member, uid));
            }
            Input::AssignmentComputed { asked, targets } => {
                let assigned = self.consumer.as_mut().and_then(|consumer| consumer.take_assignment(asked, targets));
                self.works.extend(assigned.map(Work::Assigned));
            }
            Input::RegexResolved(resolved) => {
                self.with_consumer(ctx, |consumer, ctx| consumer.resolved(ctx, resolved));
            }
            Input::TopicsDeleted(topics) if self.offset_writes == 0 => self.topics_deleted(ctx, &topics),
            Input::Expire if self.offset_writes == 0 => self.expire(),
            Input::TopicsDeleted(_) | Input::Expire => self.wait_for_offset_writes(at, input),
            // Nothing of it is left in a group that was a classic one.
            Input::Timer(TimerKey::Pending { .. } | TimerKey::Join { .. } | TimerKey::Sync { .. })
            | Input::AssignmentsKept { .. } => {}
            // Nobody's answer waits for other members.
            Input::ConnectionClosed(_) | Input::Shutdown => {}
        }
        self.downgrade_if_due(ctx);
    }

    fn consumer_request(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        token: ReplyToken,
        connection: ConnectionId,
        request: Request,
    ) {
        match request {
            Request::ConsumerGroupHeartbeat(request) => self.consumer_heartbeat(ctx, at, token, &request),
            Request::ConsumerGroupDescribe(_) => {
                let description = self.consumer.as_ref().map(|consumer| consumer.describe(token, self.state));
                self.works.extend(description.map(Work::DescribeConsumers));
            }
            Request::Join(_) if self.state == State::Empty && self.offset_writes > 0 => {
                self.wait_for_offset_writes(at, Input::Request { token, connection, request });
            }
            Request::Join(request) if self.state == State::Empty => {
                if !self.consumer_is_kept(ctx) {
                    let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
                    return ctx.reply(token, join_error(request.api_version, error, request.member_id));
                }
                self.become_classic(ctx);
                self.join(ctx, at, token, connection, request);
            }
            Request::Join(request) => self.classic_join(ctx, at, token, &request),
            Request::Sync(request) => {
                self.classic_sync(ctx, at, token, &request);
            }
            Request::Heartbeat(request) => {
                let error = self.with_consumer(ctx, |consumer, ctx| consumer.classic_heartbeat(ctx, at, &request));
                ctx.reply(token, Response::Heartbeat(error.unwrap_or(ErrorCode::UNKNOWN_MEMBER_ID)));
            }
            Request::Leave(request) => {
                let api_version = request.api_version;
                let Some(consumer) = &mut self.consumer else { return };
                let left = consumer.leave_group(ctx, request);
                self.keep_consumer(ctx, Some((token, api_version, leave::response(api_version, left))));
            }
            Request::DescribeGroup(request) => {
                ctx.reply(token, describe::dead(request.api_version, request.group_id));
            }
            Request::OffsetCommit(request) => self.offset_commit(ctx, at, token, request),
            Request::OffsetDelete(request) => self.offset_delete(ctx, token, request),
            Request::DeleteGroup(_) if self.offset_writes == 0 => self.delete_group(ctx, token),
            Request::DeleteGroup(_) => {
                self.wait_for_offset_writes(at, Input::Request { token, connection, request });
            }
            Request::OffsetFetch(_) | Request::ListGroups(_) => {
                debug_assert!(false, "answered without a step of the group");
            }
        }
    }

    /// Changes the group and has the change kept; nobody waits for that.
    fn with_consumer<R>(&mut self, ctx: &mut Ctx, step: impl FnOnce(&mut ConsumerGroup, &mut Ctx) -> R) -> Option<R> {
        let result = step(self.consumer.as_mut()?, ctx);
        self.keep_consumer(ctx, None);
        Some(result)
    }

    /// Has what the step changed kept, and answers when everything that the answer may tell of is.
    pub(super) fn keep_consumer(&mut self, ctx: &mut Ctx, answer: Option<(ReplyToken, i16, Response)>) {
        let Some(consumer) = &mut self.consumer else { return };
        ctx.stats.epochs += consumer.take_bumps();
        let assigned = consumer.assigned_partitions();
        let (state, is_kept, has_changes) = (consumer.state(), consumer.is_kept(), consumer.has_changes());
        self.set_assigned(ctx, assigned);
        if state != self.state {
            self.set_state(ctx, state);
        }
        match answer {
            Some((token, _, response)) if is_kept => return ctx.reply(token, response),
            None if !has_changes => return,
            _ => {}
        }
        let (group, ends, state_timestamp_ms) = (self.this, self.consumer_ends, self.state_timestamp_ms);
        let Some(consumer) = &mut self.consumer else { return };
        let (records, changes, failed) = consumer.write(state_timestamp_ms);
        self.offset_writes += 1;
        ctx.persist(records, Write::Consumer(Box::new(ConsumerWrite { group, ends, changes, failed, answer })));
    }

    /// A write of the group is decided.
    pub(super) fn consumer_kept(&mut self, ctx: &mut Ctx, write: ConsumerWrite, result: Result<(), StoreError>) {
        let ConsumerWrite { ends, changes, failed, answer: waiting, .. } = write;
        let result = match &mut self.consumer {
            Some(consumer) if ends == self.consumer_ends => consumer.written(changes, failed, result),
            _ => result,
        };
        if let Some((token, api_version, response)) = waiting {
            ctx.reply(token, answer(api_version, response, result));
        }
        self.offset_write_done();
    }

    /// Whether nothing of the group's members is left to be written. What is, is on its way then.
    pub(super) fn consumer_is_kept(&mut self, ctx: &mut Ctx) -> bool {
        debug_assert_eq!(self.offset_writes, 0);
        let is_kept = self.consumer.as_ref().is_none_or(|consumer| consumer.is_kept());
        self.keep_consumer(ctx, None);
        is_kept
    }

    pub(super) fn consumer_heartbeat(
        &mut self,
        ctx: &mut Ctx,
        at: At,
        token: ReplyToken,
        request: &ConsumerGroupHeartbeatRequest,
    ) {
        let Some(consumer) = &mut self.consumer else { return };
        let result = match request.member_epoch {
            ..0 => consumer.leave(ctx, request),
            _ => consumer.heartbeat(ctx, at, request),
        };
        match result {
            Ok(response) => {
                let response = Response::ConsumerGroupHeartbeat(response);
                self.keep_consumer(ctx, Some((token, request.api_version, response)));
            }
            Err(why) => {
                ctx.reply(token, consumer::refused(why));
                self.keep_consumer(ctx, None);
            }
        }
    }

    /// A member that speaks the classic protocol joins among those that may not.
    fn classic_join(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: &JoinGroupRequest) {
        let Some(consumer) = &mut self.consumer else { return };
        let joined = match ctx.config.consumer_migration_policy {
            MigrationPolicy::Disabled => Err((ErrorCode::INCONSISTENT_GROUP_PROTOCOL, request.member_id.clone())),
            _ => consumer.classic_join(ctx, at, request),
        };
        match joined {
            Ok(joined) => self.keep_consumer(ctx, Some((token, request.api_version, Response::Join(joined)))),
            Err((error, member_id)) => {
                ctx.reply(token, join_error(request.api_version, error, member_id));
                self.keep_consumer(ctx, None);
            }
        }
    }

    /// As [`Group::classic_join`].
    fn classic_sync(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: &SyncGroupRequest) {
        let Some(consumer) = &mut self.consumer else { return };
        match consumer.classic_sync(ctx, at, request) {
            Ok(synced) => self.keep_consumer(ctx, Some((token, request.api_version, Response::Sync(synced)))),
            Err(error) => {
                ctx.reply(token, sync_error(error));
                self.keep_consumer(ctx, None);
            }
        }
    }

    pub(super) fn advance_consumer_description(
        &mut self,
        ctx: &mut Ctx,
        description: Description,
    ) -> Option<Description> {
        self.consumer.as_ref()?.advance_description(ctx, description)
    }

    pub(super) fn advance_assigned(&mut self, ctx: &mut Ctx, assigned: Assigned) -> Option<Assigned> {
        self.with_consumer(ctx, |consumer, ctx| consumer.advance_assigned(ctx, assigned)).flatten()
    }

    /// All records are taken in.
    pub(super) fn consumer_loaded(&mut self, ctx: &mut Ctx, at: At) {
        let Some(consumer) = &mut self.consumer else { return };
        consumer.loaded(ctx);
        let (state, has_members) = (consumer.state(), consumer.has_members());
        let assigned = consumer.assigned_partitions();
        let state_timestamp_ms = self.state_timestamp_ms;
        self.at = at;
        self.set_assigned(ctx, assigned);
        self.set_state(ctx, state);
        // When an empty group became that is what its offsets expire by.
        self.state_timestamp_ms = state_timestamp_ms;
        if has_members {
            self.works.push_back(Work::ArmConsumers { at: 0 });
        }
    }

    pub(super) fn advance_arming(&mut self, ctx: &mut Ctx, from: usize) -> Option<usize> {
        let at = self.at;
        self.with_consumer(ctx, |consumer, ctx| consumer.arm_restored(ctx, at, from)).flatten()
    }

    /// A member that speaks the classic protocol comes to a consumer group without members (1.3, row 6c).
    fn become_classic(&mut self, ctx: &mut Ctx) {
        self.consumer = None;
        self.generation = 0;
        // Known by the generation, and generations begin anew.
        self.subscriptions = None;
        self.protocol_type = Text::EMPTY;
        ctx.persist(vec![Record::Group(self.metadata())], Write::Unwatched);
    }
}
