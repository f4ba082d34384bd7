//! Reads of clients, and watches for records to arrive.
//!
//! Consumers at the tail of a partition share one poll that waits on the server: what it brings is kept for a
//! while, and whoever waits is woken.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;

use super::append::Refused;
use super::limits::{READ_BYTES_MIN, READS_AT_ONCE, RETRY_FIRST, TAIL_BYTES, TAIL_LINGER, TAIL_WAIT};
use super::partition::Partition;
use super::reaction::Backoff;
use super::read::{LEADER_EPOCH, Records, read};
use super::shard::{IggyStore, unknown};
use crate::ShardHandle;
use crate::call::{FetchCall, PartitionFetch, PartitionFetched, ReplyTo, TopicPartition, Watch, WatchId};
use crate::partitions::check_leader_epoch;
use crate::store::stored::StoredBatch;

/// Somebody waits for this many bytes in these partitions.
pub(super) struct WatchState {
    partitions: Vec<TopicPartition>,
    missing: usize,
}

impl IggyStore {
    /// Reads from each partition under one byte budget, several at a time; leaves the watch when there is too
    /// little.
    pub(super) async fn fetch(
        self: &Rc<Self>,
        shard: &ShardHandle,
        to: ReplyTo,
        call: FetchCall,
    ) -> Vec<PartitionFetched> {
        let mut left = call.max_bytes;
        let mut nothing_yet = true;
        let mut fetched = Vec::with_capacity(call.partitions.len());
        for wanted in call.partitions.chunks(READS_AT_ONCE) {
            // What is read is memory of its own, so all of them together stay within the budget.
            let share = if left == 0 { 0 } else { (left.min(call.max_disk_bytes) / wanted.len()).max(READ_BYTES_MIN) };
            // The first batch of all comes also where there is no budget (KIP-74).
            let least = usize::from(nothing_yet);
            let bytes_max = |wanted: &PartitionFetch| share.min(wanted.max_bytes).max(least);
            let asked: Vec<_> = wanted.iter().map(|wanted| self.read(shard, wanted, bytes_max(wanted))).collect();
            for (mut part, wanted) in super::together(asked).await.into_iter().zip(wanted) {
                within(&mut part, left.min(wanted.max_bytes), nothing_yet);
                let bytes = part.bytes();
                part.available = bytes.max(part.available.min(wanted.max_bytes));
                left = left.saturating_sub(bytes);
                nothing_yet &= bytes == 0;
                fetched.push(part);
            }
        }
        let bytes: usize = fetched.iter().map(PartitionFetched::bytes).sum();
        let out = &self.counters.bytes_out;
        out.set(out.get() + bytes as u64);
        if let Some(watch) = call.watch {
            self.watch(shard, to.shard, watch, &fetched);
        }
        fetched
    }

    async fn read(&self, shard: &ShardHandle, wanted: &PartitionFetch, bytes_max: usize) -> PartitionFetched {
        let at = wanted.at;
        let read = async {
            check_leader_epoch(wanted.current_leader_epoch, LEADER_EPOCH).map_err(|error| (error, String::new()))?;
            let partition = self.partition(shard, at).ok_or_else(unknown)?;
            let records = self.records(&partition, wanted.fetch_offset, bytes_max).await?;
            Ok::<_, Refused>((partition, records))
        };
        match read.await {
            Ok((partition, records)) => {
                let bytes: usize = records.batches.iter().map(Bytes::len).sum();
                let is_all = records.next >= records.high_watermark;
                PartitionFetched {
                    at,
                    error: ErrorCode::NONE,
                    high_watermark: records.high_watermark,
                    log_start_offset: partition.log_start(),
                    diverging_epoch: None,
                    // There is more than was read.
                    available: if is_all { bytes } else { usize::MAX },
                    records: records.batches.into_iter().map(StoredBatch::Kafka).collect(),
                }
            }
            Err((error, why)) => {
                tracing::debug!(topic = %at.topic, partition = at.partition, code = error.0, why, "records cannot be read");
                let mut failed = PartitionFetched::failed(at, error);
                if error == ErrorCode::OFFSET_OUT_OF_RANGE
                    && let Some(partition) = self.used_partition(at)
                    && let Ok((log_start, high_watermark)) = self.bounds(&partition).await
                {
                    (failed.log_start_offset, failed.high_watermark) = (log_start, high_watermark);
                }
                failed
            }
        }
    }

    async fn records(&self, partition: &Partition, from: i64, bytes_max: usize) -> Result<Records, Refused> {
        if from < partition.log_start() {
            return Err((ErrorCode::OFFSET_OUT_OF_RANGE, format!("offset {from} is before the log start")));
        }
        let high_watermark = partition.high_watermark();
        if let Some((batches, next)) = partition.tail.borrow().read(from, bytes_max, true) {
            self.tails.borrow_mut().used(partition.at, partition.tail.borrow().bytes());
            return Ok(Records { batches, high_watermark, next, log_start: None });
        }
        // Its budget has gone to the partitions before it.
        if bytes_max == 0 && high_watermark > 0 {
            return Ok(Records { high_watermark: high_watermark.max(from), next: from, ..Records::default() });
        }
        // The server tells when there is more.
        if partition.parked.get() && from == high_watermark {
            return Ok(Records { high_watermark, next: from, ..Records::default() });
        }
        let (place, deadline) = (partition.place.clone(), self.deadline());
        let records = self
            .ask(move |clients| async move { read(&clients, place, from, bytes_max, Duration::ZERO, deadline).await })
            .await?;
        // Else whoever waits at the end that is there now would ask again without a pause.
        if partition.found(high_watermark, records.high_watermark) {
            self.forget_tail(partition, i64::MAX);
        }
        if let Some(log_start) = records.log_start {
            partition.starts_at(log_start);
        }
        Ok(records)
    }

    fn watch(self: &Rc<Self>, shard: &ShardHandle, origin: ShardId, watch: Watch, fetched: &[PartitionFetched]) {
        let have: usize = fetched.iter().map(|part| part.available).fold(0, usize::saturating_add);
        if have >= watch.min_bytes || fetched.iter().any(|part| part.error.is_err()) {
            return;
        }
        let partitions: Vec<Rc<Partition>> = fetched.iter().filter_map(|part| self.used_partition(part.at)).collect();
        // What arrived while the others were read was not counted, so the caller looks again.
        let moved = partitions.iter().zip(fetched).any(|(now, then)| now.high_watermark() != then.high_watermark);
        if moved || partitions.len() < fetched.len() {
            return shard.wake(origin, watch.id);
        }
        let key = (origin, watch.id);
        let state = WatchState {
            partitions: partitions.iter().map(|partition| partition.at).collect(),
            missing: watch.min_bytes - have,
        };
        self.watches.borrow_mut().insert(key, state);
        for partition in partitions {
            partition.watched_by.borrow_mut().push(key);
            self.park(shard, &partition);
        }
    }

    /// Withdraws a watch; one that has been satisfied is gone already.
    pub(super) fn unwatch(&self, origin: ShardId, id: WatchId) {
        let key = (origin, id);
        if let Some(state) = self.watches.borrow_mut().remove(&key) {
            self.forget(key, &state);
        }
    }

    fn forget(&self, key: (ShardId, WatchId), state: &WatchState) {
        for at in &state.partitions {
            if let Some(partition) = self.used_partition(*at) {
                partition.watched_by.borrow_mut().retain(|k| *k != key);
            }
        }
    }

    /// Has one poll wait on the server for as long as somebody waits here, and a little longer: who was just woken
    /// comes back, and then neither has to ask what there is nor to begin a wait of its own.
    fn park(self: &Rc<Self>, shard: &ShardHandle, partition: &Rc<Partition>) {
        if partition.parked.replace(true) {
            return;
        }
        let (this, shard, partition) = (self.clone(), shard.clone(), partition.clone());
        ringgate_runtime::spawn_as("iggy_tail", async move {
            let mut backoff = Backoff::from(RETRY_FIRST);
            let mut watched_at = Instant::now();
            while !partition.is_closed() && !shard.is_stopping() {
                if !partition.watched_by.borrow().is_empty() {
                    watched_at = Instant::now();
                } else if watched_at.elapsed() > TAIL_LINGER {
                    break;
                }
                match this.await_records(&partition).await {
                    Ok(arrived) => {
                        backoff = Backoff::from(RETRY_FIRST);
                        this.arrived(&shard, &partition, arrived);
                    }
                    // It is slow to come back; whoever waits goes on waiting.
                    Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, _)) => ringgate_runtime::sleep(backoff.next()).await,
                    // Whoever waits asks again, and is told.
                    Err((error, why)) => {
                        tracing::debug!(topic = %partition.place.topic, code = error.0, why, "cannot wait for records");
                        partition.parked.set(false);
                        this.wake_watches(&shard, &partition);
                        return;
                    }
                }
            }
            partition.parked.set(false);
        })
        .detach();
    }

    /// Where it waited, and what came.
    async fn await_records(&self, partition: &Partition) -> Result<(i64, Records), Refused> {
        let (place, from) = (partition.place.clone(), partition.high_watermark());
        let deadline = Instant::now() + TAIL_WAIT + self.settings.timeout;
        let read =
            self.ask(move |clients| async move { read(&clients, place, from, TAIL_BYTES, TAIL_WAIT, deadline).await });
        Ok((from, read.await?))
    }

    fn arrived(&self, shard: &ShardHandle, partition: &Partition, (from, records): (i64, Records)) {
        let bytes: usize = records.batches.iter().map(Bytes::len).sum();
        if records.next <= from {
            return;
        }
        partition.tail.borrow_mut().push(from, records.next, &records.batches);
        // Up to where it was read: the next poll brings what is behind that.
        partition.reaches(records.next);
        self.used(partition);
        let mut enough = Vec::new();
        for key in partition.watched_by.borrow().iter() {
            if let Some(state) = self.watches.borrow_mut().get_mut(key) {
                state.missing = state.missing.saturating_sub(bytes);
                if state.missing == 0 {
                    enough.push(*key);
                }
            }
        }
        for key in enough {
            self.wake_watch(shard, key);
        }
    }

    /// Partitions that were not used for longest let go of their tails when all together hold too much.
    fn used(&self, partition: &Partition) {
        let mut tails = self.tails.borrow_mut();
        tails.used(partition.at, partition.tail.borrow().bytes());
        while let Some((victim, bytes)) = tails.victim() {
            match self.used_partition(victim) {
                Some(partition) => {
                    let mut tail = partition.tail.borrow_mut();
                    tail.trim(bytes);
                    tails.trimmed(victim, tail.bytes());
                }
                None => tails.forget(victim),
            }
        }
    }

    /// What lies below an offset is not read from memory either.
    pub(super) fn forget_tail(&self, partition: &Partition, below: i64) {
        let mut tail = partition.tail.borrow_mut();
        tail.starts_at(below);
        self.tails.borrow_mut().trimmed(partition.at, tail.bytes());
    }

    /// Whoever waits here looks again.
    pub(super) fn wake_watches(&self, shard: &ShardHandle, partition: &Partition) {
        for key in partition.watched_by.take() {
            self.wake_watch(shard, key);
        }
    }

    fn wake_watch(&self, shard: &ShardHandle, key: (ShardId, WatchId)) {
        let state = self.watches.borrow_mut().remove(&key);
        if let Some(state) = state {
            self.forget(key, &state);
            shard.wake(key.0, key.1);
        }
    }
}

/// Whole batches over the budget go; the first of the answer stays, however large it is (KIP-74).
fn within(part: &mut PartitionFetched, bytes_max: usize, nothing_yet: bool) {
    let mut bytes = 0;
    let mut keep = 0;
    for batch in &part.records {
        bytes += batch.len();
        if bytes > bytes_max && !(nothing_yet && keep == 0) {
            break;
        }
        keep += 1;
    }
    if keep < part.records.len() {
        part.records.truncate(keep);
        part.available = usize::MAX;
    }
}
