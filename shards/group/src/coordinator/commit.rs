//! OffsetCommit of a group that may: its partitions are taken in some at a time, and written as several writes where
//! there are many, so that ten thousand of them hold nobody up. It is answered when the last write is decided.

use super::ctx::{At, Ctx, GroupRef, Write};
use super::group::Group;
use super::work::Work;
use crate::limits::{COMMIT_SLICE_PARTITIONS, Limit, OFFSET_BYTES, RECORDS_PER_WRITE};
use crate::record::{OffsetKey, OffsetValue};
use crate::request::{CommitPartition, CommitTopic, OffsetCommitRequest};
use crate::response::{CommittedTopic, OffsetCommitResponse};
use crate::{ErrorCode, Record, ReplyToken, Response, StoreError, Text};

/// An offset on its way, with its place in the answer.
#[derive(Debug)]
pub(super) struct Committed {
    topic_at: u32,
    partition_at: u32,
    topic: Text,
    partition: i32,
    value: OffsetValue,
}

/// A commit that is answered when all its writes are decided.
#[derive(Debug)]
pub(super) struct OpenCommit {
    token: ReplyToken,
    response: OffsetCommitResponse,
    undecided: usize,
}

/// Some of a commit's offsets, being written.
#[derive(Debug)]
pub(super) struct CommitWrite {
    pub group: GroupRef,
    /// In [`Ctx::commits`].
    commit: usize,
    offsets: Vec<Committed>,
}

/// A commit whose partitions are being taken in or handed to the store.
#[derive(Debug)]
pub(super) enum Committing {
    Taking(Box<Taking>),
    Writing { commit: usize, offsets: std::vec::IntoIter<Committed> },
}

#[derive(Debug)]
pub(super) struct Taking {
    token: ReplyToken,
    topics: std::vec::IntoIter<CommitTopic>,
    topic: Text,
    topic_id: u128,
    partitions: std::vec::IntoIter<CommitPartition>,
    response: OffsetCommitResponse,
    offsets: Vec<Committed>,
    bytes: usize,
    expire_timestamp_ms: i64,
}

impl Group {
    /// A commit that was found to be in order.
    pub(super) fn commit(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: OffsetCommitRequest) {
        let has_retention = (2..=4).contains(&request.api_version) && request.retention_time_ms >= 0;
        let partitions = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let taking = Taking {
            token,
            response: OffsetCommitResponse { topics: Vec::with_capacity(request.topics.len()) },
            topics: request.topics.into_iter(),
            topic: Text::EMPTY,
            topic_id: 0,
            partitions: Vec::new().into_iter(),
            offsets: Vec::with_capacity(partitions),
            bytes: 0,
            expire_timestamp_ms: if has_retention { at.wall_ms.saturating_add(request.retention_time_ms) } else { -1 },
        };
        // What a member commits as a rule is taken in and written at once.
        let mut left = Some(Committing::Taking(Box::new(taking)));
        while let Some(committing) = left.take() {
            left = self.advance_committing(ctx, committing);
            if partitions > COMMIT_SLICE_PARTITIONS {
                break;
            }
        }
        self.works.extend(left.map(Work::Commit));
    }

    /// A slice of it; what is left, if anything.
    pub(super) fn advance_committing(&mut self, ctx: &mut Ctx, committing: Committing) -> Option<Committing> {
        match committing {
            Committing::Taking(mut taking) => {
                for _ in 0..COMMIT_SLICE_PARTITIONS {
                    if !self.take_commit(ctx, &mut taking) {
                        return self.open_commit(ctx, *taking);
                    }
                }
                Some(Committing::Taking(taking))
            }
            Committing::Writing { commit, mut offsets } => {
                self.write_commit(ctx, commit, offsets.by_ref().take(RECORDS_PER_WRITE).collect());
                (offsets.len() > 0).then_some(Committing::Writing { commit, offsets })
            }
        }
    }

    /// Takes in the next partition, or the next topic's name. Returns whether there was any.
    fn take_commit(&self, ctx: &mut Ctx, taking: &mut Taking) -> bool {
        let Some(partition) = taking.partitions.next() else {
            let Some(topic) = taking.topics.next() else { return false };
            taking.topic = self.offsets.name(&topic.name);
            taking.topic_id = topic.topic_id;
            let partitions = Vec::with_capacity(topic.partitions.len());
            taking.response.topics.push(CommittedTopic { name: topic.name, topic_id: topic.topic_id, partitions });
            taking.partitions = topic.partitions.into_iter();
            return true;
        };
        let max = ctx.config.offset_metadata_max;
        // Kafka counts UTF-16 units, of which there are never more than bytes.
        let too_long = |text: &Text| text.len() > max && text.as_str().encode_utf16().count() > max;
        let is_refused = partition.committed_metadata.as_ref().is_some_and(too_long);
        let error = if is_refused { ErrorCode::OFFSET_METADATA_TOO_LARGE } else { ErrorCode::NONE };
        let topic_at = taking.response.topics.len() - 1;
        let answered = &mut taking.response.topics[topic_at].partitions;
        answered.push((partition.partition_index, error));
        if is_refused {
            ctx.limits_hit.count(Limit::OffsetMetadata);
            return true;
        }
        let metadata = partition.committed_metadata.as_ref().map(Text::detached).unwrap_or_default();
        let is_known = self.offsets.get(&taking.topic, partition.partition_index).is_some();
        taking.bytes += metadata.len() + if is_known { 0 } else { OFFSET_BYTES };
        taking.offsets.push(Committed {
            topic_at: topic_at as u32,
            partition_at: answered.len() as u32 - 1,
            topic: taking.topic.clone(),
            partition: partition.partition_index,
            value: OffsetValue {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata,
                commit_timestamp_ms: self.at.wall_ms,
                topic_id: taking.topic_id,
                expire_timestamp_ms: taking.expire_timestamp_ms,
            },
        });
        true
    }

    /// All of it is taken in: it is written if there is room for it.
    fn open_commit(&mut self, ctx: &mut Ctx, taking: Taking) -> Option<Committing> {
        let Taking { token, mut response, offsets, bytes, .. } = taking;
        if offsets.is_empty() {
            ctx.reply(token, Response::OffsetCommit(response));
            return None;
        }
        // What it takes is counted when it is stored; asking here keeps the excess to what is being written.
        if bytes > 0 && ctx.totals.bytes().saturating_add(bytes) > ctx.config.max_group_memory {
            ctx.limits_hit.count(Limit::GroupMemory);
            let codes = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            codes.for_each(|(_, code)| *code = ErrorCode::COORDINATOR_NOT_AVAILABLE);
            ctx.reply(token, Response::OffsetCommit(response));
            return None;
        }
        let undecided = offsets.len().div_ceil(RECORDS_PER_WRITE);
        let commit = ctx.commits.insert(OpenCommit { token, response, undecided });
        Some(Committing::Writing { commit, offsets: offsets.into_iter() })
    }

    fn write_commit(&mut self, ctx: &mut Ctx, commit: usize, offsets: Vec<Committed>) {
        let record = |committed: &Committed| Record::Offset {
            key: OffsetKey {
                group_id: self.id.clone(),
                topic: committed.topic.clone(),
                partition: committed.partition,
            },
            value: committed.value.clone(),
        };
        let records = offsets.iter().map(record).collect();
        self.offset_writes += 1;
        ctx.persist(records, Write::Commit(CommitWrite { group: self.this, commit, offsets }));
    }

    /// A write of a commit is decided: what it held is in force, or fails.
    pub(super) fn commit_kept(&mut self, ctx: &mut Ctx, write: CommitWrite, result: Result<(), StoreError>) {
        let CommitWrite { commit, offsets, .. } = write;
        for Committed { topic_at, partition_at, topic, partition, value } in offsets {
            match result {
                Ok(()) => {
                    ctx.stats.offsets_committed += 1;
                    self.offsets.insert(ctx, topic, partition, value);
                }
                Err(error) => {
                    let answered = &mut ctx.commits[commit].response.topics[topic_at as usize].partitions;
                    answered[partition_at as usize].1 = error.code();
                }
            }
        }
        ctx.commits[commit].undecided -= 1;
        if ctx.commits[commit].undecided == 0 {
            let OpenCommit { token, response, .. } = ctx.commits.remove(commit);
            ctx.reply(token, Response::OffsetCommit(response));
        }
        self.offset_write_done();
    }
}
