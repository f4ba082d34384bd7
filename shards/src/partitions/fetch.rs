//! Reads, and watches for records to arrive.

use std::rc::Rc;

use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_runtime::Panicked;

use super::{Partition, Partitions, count};
use crate::call::{FetchCall, PartitionFetch, PartitionFetched, ReplyTo, TopicPartition, Watch, WatchId};
use crate::limits::{DISK_READ_BYTES_MAX, UNREADABLE_SAID_MS};
use crate::store::embedded::partition::{Read, ReadJob};
use crate::store::stored::StoredBatch;
use crate::turn::Turn;
use crate::{Shard, ShardHandle};

/// Somebody waits for this many bytes in these partitions.
pub(super) struct WatchState {
    /// Each partition and the offset from which on bytes count.
    partitions: Vec<(TopicPartition, i64)>,
    /// Bytes that must still arrive.
    missing: usize,
    /// How far each partition's bytes have been counted.
    counted: Vec<i64>,
}

/// What is left of a Fetch's budget.
struct Left {
    bytes: usize,
    /// Of which may be read from disk.
    disk_bytes: usize,
}

impl Partitions {
    /// Reads from each partition in turn under one byte budget; leaves the watch when there is too
    /// little.
    pub(crate) async fn fetch(&self, shard: &ShardHandle, to: ReplyTo, call: FetchCall) -> Vec<PartitionFetched> {
        let mut left = Left { bytes: call.max_bytes, disk_bytes: call.max_disk_bytes };
        let mut nothing_yet = true;
        let mut fetched = Vec::with_capacity(call.partitions.len());
        let mut turn = Turn::default();
        for wanted in &call.partitions {
            let read = match self.get(wanted.at) {
                Some(partition) => partition.read(shard, wanted, &mut left, nothing_yet).await,
                None => PartitionFetched::failed(wanted.at, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            let bytes = read.bytes();
            nothing_yet &= bytes == 0;
            fetched.push(read);
            turn.partition().await;
        }
        let out = &self.counters.bytes_out;
        let bytes: usize = fetched.iter().map(PartitionFetched::bytes).sum();
        out.set(out.get() + bytes as u64);
        if let Some(watch) = call.watch {
            let available = fetched.iter().map(|f| f.available).sum();
            self.watch(shard, to.shard, watch, available, &fetched);
        }
        fetched
    }

    fn watch(&self, shard: &ShardHandle, origin: ShardId, watch: Watch, have: usize, fetched: &[PartitionFetched]) {
        if have >= watch.min_bytes || fetched.iter().any(|f| f.error.is_err() || f.diverging_epoch.is_some()) {
            return;
        }
        // Reads from disk take time: what arrived meanwhile was not counted, so the caller looks again.
        let moved = fetched.iter().any(|f| match self.get(f.at) {
            Some(partition) => partition.high_watermark() != f.high_watermark,
            None => true,
        });
        if moved {
            return shard.wake(origin, watch.id);
        }
        let key = (origin, watch.id);
        for f in fetched {
            if let Some(partition) = self.get(f.at) {
                partition.watched_by.borrow_mut().push(key);
            }
        }
        let state = WatchState {
            partitions: fetched.iter().map(|f| (f.at, f.high_watermark)).collect(),
            missing: watch.min_bytes - have,
            counted: fetched.iter().map(|f| f.high_watermark).collect(),
        };
        self.watches.borrow_mut().insert(key, state);
    }

    /// Withdraws a watch; one that has been satisfied is gone already.
    pub(crate) fn unwatch(&self, origin: ShardId, id: WatchId) {
        let key = (origin, id);
        if let Some(state) = self.watches.borrow_mut().remove(&key) {
            self.forget(key, &state);
        }
    }

    fn forget(&self, key: (ShardId, WatchId), state: &WatchState) {
        for (at, _) in &state.partitions {
            if let Some(partition) = self.get(*at) {
                partition.watched_by.borrow_mut().retain(|k| *k != key);
            }
        }
    }
}

impl Partition {
    fn high_watermark(&self) -> i64 {
        self.log.as_ref().map_or(-1, |log| log.with(|l| l.high_watermark()))
    }

    async fn read(
        &self,
        shard: &ShardHandle,
        wanted: &PartitionFetch,
        left: &mut Left,
        nothing_yet: bool,
    ) -> PartitionFetched {
        let Some(log) = &self.log else {
            return PartitionFetched::failed(wanted.at, ErrorCode::KAFKA_STORAGE_ERROR);
        };
        if let Err(error) = check_leader_epoch(wanted.current_leader_epoch, shard.leader_epoch()) {
            return PartitionFetched::failed(wanted.at, error);
        }
        let reading = &shard.partitions().reading;
        let mut budget = wanted.max_bytes.min(left.bytes);
        let (mut fetched, read) = log.with(|log| {
            let mut fetched = PartitionFetched::failed(wanted.at, ErrorCode::NONE);
            fetched.high_watermark = log.high_watermark();
            fetched.log_start_offset = log.log_start_offset();
            if wanted.last_fetched_epoch >= 0 {
                fetched.diverging_epoch = log.divergence(wanted.last_fetched_epoch, wanted.fetch_offset);
            }
            let read = match fetched.diverging_epoch {
                Some(_) => Read::Empty,
                None => match log.read(wanted.fetch_offset, budget, nothing_yet) {
                    Read::Disk(job) => {
                        // Enough is being read already: one batch, so that everybody goes on and memory holds.
                        let enough = reading.get() >= DISK_READ_BYTES_MAX;
                        if enough {
                            count(&shard.partitions().counters().disk_reads_cut);
                        }
                        let most = if enough { 1 } else { left.disk_bytes };
                        if budget <= most {
                            Read::Disk(job)
                        } else {
                            budget = most;
                            log.read(wanted.fetch_offset, budget, nothing_yet)
                        }
                    }
                    read => read,
                },
            };
            (fetched, read)
        });
        let from_disk = matches!(read, Read::Disk(_));
        let counters = shard.partitions().counters();
        match read {
            Read::Cached(_) => count(&counters.cached_reads),
            Read::Disk(_) => count(&counters.disk_reads),
            Read::Empty | Read::OutOfRange => {}
        }
        match read {
            Read::Empty => {}
            Read::Cached(records) => {
                fetched.records = records;
                shard.partitions().used(self);
            }
            Read::OutOfRange => fetched.error = ErrorCode::OFFSET_OUT_OF_RANGE,
            Read::Disk(job) => match self.read_disk(shard, job, budget).await {
                Ok(Ok(records)) => fetched.records = records,
                // Its segment was removed between the look at the log and the read.
                Ok(Err(_)) if log.with(|log| log.log_start_offset()) > wanted.fetch_offset => {
                    fetched.error = ErrorCode::OFFSET_OUT_OF_RANGE;
                }
                Ok(Err(error)) => {
                    self.say_unreadable(shard.now_ms(), wanted.fetch_offset, &error);
                    fetched.error = ErrorCode::KAFKA_STORAGE_ERROR;
                }
                Err(panic) => {
                    tracing::error!(?panic, "reading records panicked");
                    fetched.error = ErrorCode::UNKNOWN_SERVER_ERROR;
                }
            },
        }
        let bytes = fetched.bytes();
        fetched.available = if is_all(&fetched, wanted.fetch_offset) { bytes } else { bytes.max(wanted.max_bytes) };
        left.bytes = left.bytes.saturating_sub(bytes);
        if from_disk {
            left.disk_bytes = left.disk_bytes.saturating_sub(bytes);
        }
        fetched
    }

    /// Says that records cannot be read, now and then: clients ask again at once.
    fn say_unreadable(&self, now_ms: i64, offset: i64, error: &std::io::Error) {
        if now_ms.saturating_sub(self.unreadable_said_ms.get()) < UNREADABLE_SAID_MS {
            return;
        }
        self.unreadable_said_ms.set(now_ms);
        tracing::error!(
            topic = %self.topic.name,
            partition = self.at.partition,
            offset,
            %error,
            "records cannot be read"
        );
    }

    /// Reads on a file thread; its budget counts meanwhile.
    async fn read_disk(
        &self,
        shard: &ShardHandle,
        job: ReadJob,
        budget: usize,
    ) -> Result<std::io::Result<Vec<StoredBatch>>, Panicked> {
        let reading = &shard.partitions().reading;
        reading.set(reading.get() + budget);
        let read = shard.files.run(move || job.run()).await;
        reading.set(reading.get() - budget);
        read
    }

    /// Counts what has arrived for each watch and wakes those that have enough.
    pub(super) fn settle_watches(&self, shard: &Rc<Shard>) {
        if self.watched_by.borrow().is_empty() {
            return;
        }
        let Some(log) = &self.log else { return };
        let high_watermark = self.high_watermark();
        let watches = &shard.partitions().watches;
        let mut enough = Vec::new();
        for key in self.watched_by.borrow().iter() {
            if let Some(state) = watches.borrow_mut().get_mut(key)
                && let Some(nth) = state.partitions.iter().position(|(at, _)| *at == self.at)
            {
                let arrived = log.with(|l| l.bytes_between(state.counted[nth], high_watermark));
                state.counted[nth] = high_watermark;
                state.missing = state.missing.saturating_sub(arrived);
                if state.missing == 0 {
                    enough.push(*key);
                }
            }
        }
        for key in enough {
            self.wake_watch(shard, key);
        }
    }

    /// Whoever waits here looks again.
    pub(super) fn wake_watches(&self, shard: &Rc<Shard>) {
        for key in self.watched_by.take() {
            self.wake_watch(shard, key);
        }
    }

    fn wake_watch(&self, shard: &Rc<Shard>, key: (ShardId, WatchId)) {
        let state = shard.partitions().watches.borrow_mut().remove(&key);
        if let Some(state) = state {
            shard.partitions().forget(key, &state);
            self.watched_by.borrow_mut().retain(|k| *k != key);
            shard.wake(key.0, key.1);
        }
    }
}

/// Whether nothing more can be read than was.
fn is_all(fetched: &PartitionFetched, fetch_offset: i64) -> bool {
    let next = match fetched.records.last() {
        Some(last) => last.offsets().map_or(fetched.high_watermark, |(_, last)| last + 1),
        None if fetched.error.is_err() || fetched.diverging_epoch.is_some() => return true,
        None => fetch_offset,
    };
    next >= fetched.high_watermark
}

/// KIP-320: a client that believes in an older leader epoch has missed something, one that believes in a
/// newer one knows more than this shard.
pub(crate) fn check_leader_epoch(claimed: i32, current: i32) -> Result<(), ErrorCode> {
    match claimed {
        -1 => Ok(()),
        c if c < current => Err(ErrorCode::FENCED_LEADER_EPOCH),
        c if c > current => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => Ok(()),
    }
}
