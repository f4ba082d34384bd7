//! A group that is a consumer group (KIP-848): what it takes in, and how a classic group becomes one and back.

use super::Input;
use super::consumer::{self, Assigned, ConsumerGroup, Description};
use super::ctx::{At, Ctx, Write};
use super::describe;
use super::group::{Group, State};
use super::leave;
use super::responses::{join_error, sync_error};
use super::work::Work;
use crate::limits::MigrationPolicy;
use crate::request::{ConsumerGroupHeartbeatRequest, JoinGroupRequest};
use crate::{ConnectionId, ErrorCode, Record, ReplyToken, Request, Response, StoreError, Text, TimerKey};

/// An answer, or the error in its place when what it tells of could not be kept.
pub(super) fn answer(api_version: i16, response: Response, result: Result<(), StoreError>) -> Response {
    match (response, result) {
        (response, Ok(())) => response,
        (Response::ConsumerGroupHeartbeat(_), Err(error)) => consumer::refused((error.code(), None)),
        (Response::Leave(_), Err(error)) => leave::refused(error.code()),
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
            Request::Join(request) if self.state == State::Empty => {
                self.become_classic(ctx);
                self.join(ctx, at, token, connection, request);
            }
            Request::Join(request) => self.classic_join(ctx, at, token, &request),
            Request::Sync(request) => {
                let synced = self.with_consumer(ctx, |consumer, ctx| consumer.classic_sync(ctx, at, &request));
                let synced = synced.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID));
                ctx.reply(token, synced.map_or_else(sync_error, Response::Sync));
            }
            Request::Heartbeat(request) => {
                let error = self.with_consumer(ctx, |consumer, ctx| consumer.classic_heartbeat(ctx, at, &request));
                ctx.reply(token, Response::Heartbeat(error.unwrap_or(ErrorCode::UNKNOWN_MEMBER_ID)));
            }
            Request::Leave(request) => {
                let api_version = request.api_version;
                let left = self.consumer.as_mut().map(|consumer| consumer.leave_group(ctx, request));
                let response = leave::response(api_version, left.unwrap_or_default());
                self.answer_when_kept(ctx, token, api_version, response);
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
        let records = self.consumer_records(ctx);
        if !records.is_empty() {
            ctx.persist(records, Write::Unwatched);
        }
        Some(result)
    }

    /// What the step changed, to be kept; the group's state follows it.
    fn consumer_records(&mut self, ctx: &mut Ctx) -> Vec<Record> {
        let Some(consumer) = &self.consumer else { return Vec::new() };
        let state = consumer.state();
        if state != self.state {
            self.set_state(ctx, state);
        }
        let state_timestamp_ms = self.state_timestamp_ms;
        self.consumer.as_mut().map(|consumer| consumer.take_records(state_timestamp_ms)).unwrap_or_default()
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
        let response = match result {
            Ok(response) => Response::ConsumerGroupHeartbeat(response),
            Err(why) => consumer::refused(why),
        };
        self.answer_when_kept(ctx, token, request.api_version, response);
    }

    /// A member that speaks the classic protocol joins among those that may not.
    fn classic_join(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: &JoinGroupRequest) {
        let Some(consumer) = &mut self.consumer else { return };
        let joined = match ctx.config.consumer_migration_policy {
            MigrationPolicy::Disabled => Err((ErrorCode::INCONSISTENT_GROUP_PROTOCOL, request.member_id.clone())),
            _ => consumer.classic_join(ctx, at, request),
        };
        let response = match joined {
            Ok(joined) => Response::Join(joined),
            Err((error, member_id)) => join_error(request.api_version, error, member_id),
        };
        self.answer_when_kept(ctx, token, request.api_version, response);
    }

    /// Answers at once where nothing has changed.
    fn answer_when_kept(&mut self, ctx: &mut Ctx, token: ReplyToken, api_version: i16, response: Response) {
        let records = self.consumer_records(ctx);
        if records.is_empty() {
            ctx.reply(token, response);
        } else {
            ctx.persist(records, Write::Answer { token, api_version, response: Box::new(response) });
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
        consumer.loaded();
        let (state, has_members) = (consumer.state(), consumer.has_members());
        let state_timestamp_ms = self.state_timestamp_ms;
        self.at = at;
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
        self.protocol_type = Text::EMPTY;
        ctx.persist(vec![Record::Group(self.metadata())], Write::Unwatched);
    }
}
