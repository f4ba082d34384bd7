//! Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete (4.1 to 4.6).
//!
//! Memory has what the store has said that it keeps, and no more. Writes of a key are decided in the order
//! in which they were asked for, so whatever was decided last is what the store has.

use std::collections::{BTreeMap, HashMap};

use super::ctx::{At, Ctx, GroupRef, Write};
use super::group::{Group, Hold, State, Subscriptions};
use crate::limits::OFFSET_BYTES;
use crate::record::{OffsetKey, OffsetValue};
use crate::request::{FetchTopic, OffsetCommitRequest, OffsetDeleteRequest};
use crate::response::{
    CommittedTopic, FetchedOffset, FetchedTopic, OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse,
};
use crate::{ErrorCode, Record, ReplyToken, Response, StoreError, Text};

/// What a group has committed.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    pub topics: HashMap<Text, HashMap<i32, OffsetValue>>,
    /// Changes whenever a key comes or goes, and the order of the maps with it.
    pub keys_changed: u64,
}

/// Offsets whose tombstones are being written.
#[derive(Debug)]
pub(super) struct DeleteWrite {
    pub group: GroupRef,
    token: ReplyToken,
    response: OffsetDeleteResponse,
    keys: Vec<(Text, i32)>,
}

impl Offsets {
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub fn get(&self, topic: &Text, partition: i32) -> Option<&OffsetValue> {
        self.topics.get(topic)?.get(&partition)
    }

    /// The topic's name as it is stored already, or a copy.
    pub fn name(&self, topic: &Text) -> Text {
        self.topics.get_key_value(topic).map_or_else(|| topic.detached(), |(name, _)| name.clone())
    }

    pub fn insert(&mut self, ctx: &mut Ctx, topic: Text, partition: i32, value: OffsetValue) {
        ctx.totals.add_bytes(OFFSET_BYTES + value.metadata.len());
        if let Some(old) = self.topics.entry(topic).or_default().insert(partition, value) {
            ctx.totals.remove_bytes(OFFSET_BYTES + old.metadata.len());
        } else {
            self.keys_changed += 1;
            ctx.stats.offsets += 1;
        }
    }

    pub fn remove(&mut self, ctx: &mut Ctx, topic: &Text, partition: i32) {
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        if let Some(old) = partitions.remove(&partition) {
            self.keys_changed += 1;
            ctx.stats.offsets -= 1;
            ctx.totals.remove_bytes(OFFSET_BYTES + old.metadata.len());
        }
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
    }

    pub fn clear(&mut self, ctx: &mut Ctx) {
        self.keys_changed += 1;
        for value in std::mem::take(&mut self.topics).into_values().flat_map(HashMap::into_values) {
            ctx.stats.offsets -= 1;
            ctx.totals.remove_bytes(OFFSET_BYTES + value.metadata.len());
        }
    }
}

/// The answer to a commit that fails as a whole: the error on every partition.
pub(super) fn commit_refused(request: &OffsetCommitRequest, error: ErrorCode) -> Response {
    let partitions =
        |topic: &crate::request::CommitTopic| topic.partitions.iter().map(|p| (p.partition_index, error)).collect();
    let topics = request.topics.iter();
    let topics =
        topics.map(|t| CommittedTopic { name: t.name.clone(), topic_id: t.topic_id, partitions: partitions(t) });
    Response::OffsetCommit(OffsetCommitResponse { topics: topics.collect() })
}

pub(super) fn delete_refused(error_code: ErrorCode) -> Response {
    Response::OffsetDelete(OffsetDeleteResponse { error_code, topics: Vec::new() })
}

/// The offsets that a group has, or that none has where there is no group.
pub(super) fn fetch(offsets: Option<&Offsets>, group_id: Text, topics: Option<Vec<FetchTopic>>) -> Response {
    let topics = match topics {
        Some(topics) => topics.into_iter().map(|topic| fetch_topic(offsets, topic)).collect(),
        None => offsets.map(fetch_all).unwrap_or_default(),
    };
    Response::OffsetFetch(OffsetFetchResponse { group_id, error_code: ErrorCode::NONE, topics })
}

fn fetch_topic(offsets: Option<&Offsets>, topic: FetchTopic) -> FetchedTopic {
    let known = offsets.and_then(|offsets| offsets.topics.get(&topic.name));
    let is_same = |value: &&OffsetValue| value.topic_id == 0 || topic.topic_id == 0 || value.topic_id == topic.topic_id;
    let find = |partition| known.and_then(|known| known.get(&partition)).filter(is_same);
    let partitions = topic.partition_indexes.iter().map(|p| fetched(*p, find(*p))).collect();
    FetchedTopic { name: topic.name, topic_id: topic.topic_id, partitions }
}

fn fetch_all(offsets: &Offsets) -> Vec<FetchedTopic> {
    let mut topics = Vec::with_capacity(offsets.topics.len());
    for (name, known) in &offsets.topics {
        let mut by_id: BTreeMap<u128, Vec<FetchedOffset>> = BTreeMap::new();
        for (partition, value) in known {
            by_id.entry(value.topic_id).or_default().push(fetched(*partition, Some(value)));
        }
        topics.extend(by_id.into_iter().map(|(topic_id, partitions)| FetchedTopic {
            name: name.clone(),
            topic_id,
            partitions,
        }));
    }
    topics
}

fn fetched(partition_index: i32, value: Option<&OffsetValue>) -> FetchedOffset {
    FetchedOffset {
        partition_index,
        committed_offset: value.map_or(-1, |value| value.offset),
        committed_leader_epoch: value.map_or(-1, |value| value.leader_epoch),
        metadata: value.map_or(Text::EMPTY, |value| value.metadata.clone()),
        error_code: ErrorCode::NONE,
    }
}

impl Group {
    pub(super) fn offset_commit(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: OffsetCommitRequest) {
        let checked = match &self.consumer {
            Some(consumer) => consumer.check_commit(&request).map(|()| None),
            None => self.check_commit(&request),
        };
        match checked {
            Ok(None) => {}
            Ok(Some(slot)) => self.restart_session(ctx, at, slot),
            Err(error) => return ctx.reply(token, commit_refused(&request, error)),
        }
        self.commit(ctx, at, token, request);
    }

    /// 4.2. The member whose session the commit restarts, if it speaks for one.
    fn check_commit(&self, request: &OffsetCommitRequest) -> Result<Option<u32>, ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        if self.state == State::Empty && generation < 0 {
            return Ok(None);
        }
        if generation < 0 && request.member_id.is_empty() && request.group_instance_id.is_none() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        let slot = self.identify(&request.member_id, request.group_instance_id.as_ref())?;
        if generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        if self.state == State::CompletingRebalance {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(Some(slot))
    }

    pub(super) fn offset_write_done(&mut self) {
        self.offset_writes -= 1;
        if self.offset_writes == 0 && self.hold == Hold::OffsetWrites {
            self.hold = Hold::None;
        }
    }

    /// 4.6. Subscriptions must be known where the group is not empty.
    pub(super) fn offset_delete(&mut self, ctx: &mut Ctx, token: ReplyToken, request: OffsetDeleteRequest) {
        let is_subscribed = |topic: &Text| match (&self.state, &self.subscriptions) {
            (State::Empty, _) => false,
            _ if self.consumer.is_some() => self.consumer.as_ref().is_some_and(|group| group.is_subscribed(topic)),
            (_, Some((_, Subscriptions::Topics(topics)))) => topics.contains(topic),
            (_, Some((_, Subscriptions::Unknown)) | None) => true,
        };
        let mut keys = Vec::new();
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let error = if is_subscribed(&topic.name) { ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC } else { ErrorCode::NONE };
            if error == ErrorCode::NONE {
                let name = self.offsets.name(&topic.name);
                // One that is being written for the first time is in the store before its tombstone.
                let may_exist = |p: &&i32| self.offset_writes > 0 || self.offsets.get(&name, **p).is_some();
                keys.extend(topic.partition_indexes.iter().filter(may_exist).map(|p| (name.clone(), *p)));
            }
            topics.push((topic.name, topic.partition_indexes.iter().map(|p| (*p, error)).collect()));
        }
        let response = OffsetDeleteResponse { error_code: ErrorCode::NONE, topics };
        if keys.is_empty() {
            return ctx.reply(token, Response::OffsetDelete(response));
        }
        let tombstone = |(topic, partition): &(Text, i32)| Record::OffsetTombstone {
            key: OffsetKey { group_id: self.id.clone(), topic: topic.clone(), partition: *partition },
        };
        let records = keys.iter().map(tombstone).collect();
        self.offset_writes += 1;
        ctx.persist(records, Write::DeleteOffsets(DeleteWrite { group: self.this, token, response, keys }));
    }

    pub(super) fn offsets_deleted(&mut self, ctx: &mut Ctx, write: DeleteWrite, result: Result<(), StoreError>) {
        let response = match result {
            Ok(()) => {
                for (topic, partition) in &write.keys {
                    self.offsets.remove(ctx, topic, *partition);
                }
                Response::OffsetDelete(write.response)
            }
            Err(error) => delete_refused(error.code()),
        };
        ctx.reply(write.token, response);
        self.offset_write_done();
    }
}
