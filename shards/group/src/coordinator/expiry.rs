//! Giving up offsets and groups: DeleteGroups, deleted topics, retention (4.7, 5).
//!
//! All of it waits until no offset of the group is being written, so that nothing comes back.

use std::sync::Arc;

use super::ctx::{At, Ctx, Write};
use super::group::{Group, Hold, State, Subscriptions};
use super::work::Work;
use crate::record::{OffsetKey, OffsetValue};
use crate::{ErrorCode, Record, ReplyToken, Response, StoreError, Text};

/// A topic that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name, which a later topic may have again.
    pub name: Text,
    /// Its id, which none will.
    pub topic_id: u128,
}

/// The tombstones of a whole group on their way.
#[derive(Debug)]
pub(super) struct Forgetting {
    token: Option<ReplyToken>,
    topics: std::vec::IntoIter<Text>,
    records: Vec<Record>,
}

/// Expired offsets on their way out.
#[derive(Debug)]
pub(super) struct Expiry {
    topics: std::vec::IntoIter<Text>,
    records: Vec<Record>,
}

impl Group {
    fn tombstone(&self, topic: &Text, partition: i32) -> Record {
        Record::OffsetTombstone { key: OffsetKey { group_id: self.id.clone(), topic: topic.clone(), partition } }
    }

    fn topic_names(&self) -> std::vec::IntoIter<Text> {
        self.offsets.topics.keys().cloned().collect::<Vec<_>>().into_iter()
    }

    /// 4.7. No offset is being written.
    pub(super) fn delete_group(&mut self, ctx: &mut Ctx, token: ReplyToken) {
        if self.state != State::Empty {
            return ctx.reply(token, Response::DeleteGroup(ErrorCode::NON_EMPTY_GROUP));
        }
        // A member whose end was not kept would come back without its group.
        if !self.consumer_is_kept(ctx) {
            return ctx.reply(token, Response::DeleteGroup(ErrorCode::COORDINATOR_NOT_AVAILABLE));
        }
        self.forget(Some(token), Vec::new());
    }

    fn forget(&mut self, token: Option<ReplyToken>, records: Vec<Record>) {
        self.works.push_back(Work::Forget(Forgetting { token, topics: self.topic_names(), records }));
    }

    pub(super) fn advance_forgetting(&mut self, ctx: &mut Ctx, mut forgetting: Forgetting) -> Option<Forgetting> {
        if let Some(topic) = forgetting.topics.next() {
            let partitions = self.offsets.topics.get(&topic).into_iter().flat_map(|it| it.keys());
            forgetting.records.extend(partitions.map(|partition| self.tombstone(&topic, *partition)));
            return Some(forgetting);
        }
        forgetting.records.push(Record::GroupTombstone { group_id: self.id.clone() });
        let write = Write::DeleteGroup { group: self.this, token: forgetting.token };
        self.hold = Hold::Write(ctx.persist(forgetting.records, write));
        None
    }

    pub(super) fn group_deleted(&mut self, ctx: &mut Ctx, token: Option<ReplyToken>, result: Result<(), StoreError>) {
        self.hold = Hold::None;
        self.is_removed = result.is_ok();
        if let Some(token) = token {
            let error = result.err().map_or(ErrorCode::NONE, StoreError::code);
            ctx.reply(token, Response::DeleteGroup(error));
        }
    }

    /// Offsets of topics that are gone are none at once; their tombstones only save the store some room.
    pub(super) fn topics_deleted(&mut self, ctx: &mut Ctx, topics: &Arc<[DeletedTopic]>) {
        let mut records = Vec::new();
        for gone in topics.iter() {
            let Some(partitions) = self.offsets.topics.get(&gone.name) else { continue };
            let is_of_it = |value: &OffsetValue| value.topic_id == gone.topic_id || value.topic_id == 0;
            let keys: Vec<i32> = partitions.iter().filter(|(_, value)| is_of_it(value)).map(|(key, _)| *key).collect();
            for partition in keys {
                records.push(self.tombstone(&gone.name, partition));
                self.offsets.remove(ctx, &gone.name, partition);
            }
        }
        if !records.is_empty() {
            ctx.persist(records, Write::Unwatched);
        }
    }

    /// Whether the members' subscriptions decide what expires.
    pub(super) fn expires_by_subscription(&self) -> bool {
        self.consumer.is_none() && self.state == State::Stable && self.protocol_type == "consumer"
    }

    /// No offset is being written, and subscriptions are known where they decide.
    pub(super) fn expire(&mut self) {
        self.works.push_back(Work::Expire(Expiry { topics: self.topic_names(), records: Vec::new() }));
    }

    pub(super) fn advance_expiry(&mut self, ctx: &mut Ctx, mut expiry: Expiry) -> Option<Expiry> {
        if let Some(topic) = expiry.topics.next() {
            let retention_ms = i64::try_from(ctx.config.offsets_retention.as_millis()).unwrap_or(i64::MAX);
            let at = self.at;
            let known = self.offsets.topics.get(&topic).into_iter().flatten();
            let expired: Vec<i32> = known
                .filter(|(_, value)| self.is_expired(at, retention_ms, &topic, value))
                .map(|(key, _)| *key)
                .collect();
            for partition in expired {
                ctx.stats.offsets_expired += 1;
                expiry.records.push(self.tombstone(&topic, partition));
                self.offsets.remove(ctx, &topic, partition);
            }
            return Some(expiry);
        }
        let is_empty = self.state == State::Empty && self.offsets.is_empty() && self.pending.is_empty();
        if is_empty && self.consumer_is_kept(ctx) {
            self.forget(None, expiry.records);
        } else if !expiry.records.is_empty() {
            ctx.persist(expiry.records, Write::Unwatched);
        }
        None
    }

    fn is_expired(&self, at: At, retention_ms: i64, topic: &Text, value: &OffsetValue) -> bool {
        let since_ms = match self.state {
            _ if let Some(consumer) = &self.consumer => {
                if consumer.is_subscribed(topic) {
                    return false;
                }
                value.commit_timestamp_ms
            }
            State::Empty if self.protocol_type.is_empty() => value.commit_timestamp_ms,
            State::Empty => self.state_timestamp_ms,
            State::Stable if self.protocol_type == "consumer" => match &self.subscriptions {
                Some((_, Subscriptions::Topics(topics))) if !topics.contains(topic) => value.commit_timestamp_ms,
                _ => return false,
            },
            State::PreparingRebalance
            | State::CompletingRebalance
            | State::Stable
            | State::Assigning
            | State::Reconciling => return false,
        };
        if value.expire_timestamp_ms >= 0 {
            return at.wall_ms >= value.expire_timestamp_ms;
        }
        retention_ms > 0 && at.wall_ms.saturating_sub(since_ms) >= retention_ms
    }
}
