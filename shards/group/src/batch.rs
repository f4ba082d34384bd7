//! Gathers the writes of one shard into batches: while one is being written, the next fills.
//!
//! Call [`Batcher::push`] for each [`Effect::Persist`](crate::Effect::Persist), then
//! [`Batcher::poll_batch`] until it gives nothing; report each batch with [`Batcher::handle_written`],
//! which says which writes that decided. At most one batch is out at a time, so the writes of a key reach
//! the store in order. Inside a batch only the last record of a key is kept; every write that it replaces
//! is decided by the batch too.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::limits::BATCH_BYTES_MAX;
use crate::record::{ConsumerGroupMetadata, GroupMetadata, OffsetKey, Record};
use crate::{PersistId, StoreError, Text};

/// One write to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What to write; each key at most once.
    pub records: Vec<Record>,
}

/// What a batch decided.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The writes that were in it, in order of their ids.
    pub ids: Vec<PersistId>,
    /// How it went, for each of them.
    pub result: Result<(), StoreError>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Group(Text),
    Offset(OffsetKey),
    Member(Text, Text),
}

#[derive(Debug, Default)]
struct Filling {
    records: Vec<Record>,
    at: HashMap<Key, usize>,
    ids: Vec<PersistId>,
    bytes: usize,
    /// When the first write came in.
    since_us: u64,
}

/// Gathers writes into batches.
#[derive(Debug)]
pub struct Batcher {
    linger_us: u64,
    bytes_max: usize,
    full: VecDeque<Filling>,
    filling: Filling,
    in_flight: Option<Vec<PersistId>>,
}

impl Batcher {
    /// A batch that is not full gathers at least for `linger` (zero: goes out when the one before it is
    /// written).
    pub fn new(linger: Duration) -> Batcher {
        Batcher::with_bytes_max(linger, BATCH_BYTES_MAX)
    }

    /// As [`Batcher::new`], with another bound on the bytes of a batch. One write is never split, so a
    /// batch may hold a single larger one.
    pub fn with_bytes_max(linger: Duration, bytes_max: usize) -> Batcher {
        Batcher {
            linger_us: linger.as_micros() as u64,
            bytes_max,
            full: VecDeque::new(),
            filling: Filling::default(),
            in_flight: None,
        }
    }

    /// Takes a write. Ids must grow.
    pub fn push(&mut self, now_us: u64, id: PersistId, records: Vec<Record>) {
        debug_assert!(self.filling.ids.last().is_none_or(|last| *last < id));
        let bytes: usize = records.iter().map(Record::size_hint).sum();
        if !self.filling.ids.is_empty() && self.filling.bytes + bytes > self.bytes_max {
            self.full.push_back(std::mem::take(&mut self.filling));
        }
        let filling = &mut self.filling;
        if filling.ids.is_empty() {
            filling.since_us = now_us;
        }
        filling.ids.push(id);
        filling.bytes += bytes;
        for record in records {
            let end = filling.records.len();
            match *filling.at.entry(key_of(&record)).or_insert(end) {
                at if at == end => filling.records.push(record),
                at => filling.records[at] = record,
            }
        }
    }

    /// The next batch to write, if one may be.
    pub fn poll_batch(&mut self, now_us: u64) -> Option<Batch> {
        if self.in_flight.is_some() {
            return None;
        }
        let batch = match self.full.pop_front() {
            Some(full) => full,
            None if self.filling.ids.is_empty() => return None,
            None if self.linger_us > 0 && now_us < self.filling.since_us.saturating_add(self.linger_us) => return None,
            None => std::mem::take(&mut self.filling),
        };
        self.in_flight = Some(batch.ids);
        Some(Batch { records: batch.records })
    }

    /// When [`Batcher::poll_batch`] will give a batch by the passing of time alone, in us.
    pub fn next_deadline_us(&self) -> Option<u64> {
        let waits = self.in_flight.is_none() && self.full.is_empty() && !self.filling.ids.is_empty();
        waits.then(|| self.filling.since_us.saturating_add(self.linger_us))
    }

    /// Takes in how the batch that is out went. `None` where none is out.
    pub fn handle_written(&mut self, result: Result<(), StoreError>) -> Option<Written> {
        let ids = self.in_flight.take()?;
        Some(Written { ids, result })
    }

    /// Whether nothing is out and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.full.is_empty() && self.filling.ids.is_empty()
    }

    /// Writes that wait for their batch to go out.
    pub fn waiting(&self) -> usize {
        self.filling.ids.len() + self.full.iter().map(|full| full.ids.len()).sum::<usize>()
    }
}

fn key_of(record: &Record) -> Key {
    match record {
        Record::Group(GroupMetadata { group_id, .. })
        | Record::ConsumerGroup(ConsumerGroupMetadata { group_id, .. })
        | Record::GroupTombstone { group_id } => Key::Group(group_id.clone()),
        Record::Offset { key, .. } | Record::OffsetTombstone { key } => Key::Offset(key.clone()),
        Record::ConsumerMember { group_id, member } => Key::Member(group_id.clone(), member.member_id.clone()),
        Record::ConsumerMemberTombstone { group_id, member_id } => Key::Member(group_id.clone(), member_id.clone()),
    }
}
