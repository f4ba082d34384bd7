//! What a shard knows of one of its partitions, and the batches on their way into it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::{ShardId, hash};
use ringgate_runtime::{TimedOut, oneshot};

use super::append::{Append, append};
use super::arriving::{Arriving, Queue};
use super::limits::SEND_SHARE;
use super::read::Place;
use super::shard::IggyStore;
use super::tail::Tail;
use crate::ShardHandle;
use crate::call::{PartitionProduced, ProduceCall, Reply, ReplyTo, TopicPartition, WatchId};

/// One partition.
pub(crate) struct Partition {
    pub(super) at: TopicPartition,
    pub(super) place: Place,
    hash: u64,
    arriving: RefCell<Queue>,
    sending: Cell<bool>,
    /// The end of what is known to be there, which others may have moved on.
    high_watermark: Cell<i64>,
    log_start: Cell<i64>,
    /// The newest records, as the server told of them.
    pub(super) tail: RefCell<Tail>,
    /// A poll waits on the server at the high watermark.
    pub(super) parked: Cell<bool>,
    pub(super) watched_by: RefCell<Vec<(ShardId, WatchId)>>,
    closed: Cell<bool>,
}

impl Partition {
    pub(super) fn new(at: TopicPartition, place: Place) -> Rc<Partition> {
        let hash = hash(place.topic.to_string().as_bytes()).wrapping_add(u64::from(place.partition));
        Rc::new(Partition {
            at,
            place,
            hash,
            arriving: RefCell::default(),
            sending: Cell::new(false),
            high_watermark: Cell::new(0),
            log_start: Cell::new(0),
            tail: RefCell::default(),
            parked: Cell::new(false),
            watched_by: RefCell::default(),
            closed: Cell::new(false),
        })
    }

    /// The end of what is known to be there.
    pub(super) fn high_watermark(&self) -> i64 {
        self.high_watermark.get()
    }

    /// Records up to this offset are there.
    pub(super) fn reaches(&self, high_watermark: i64) {
        self.high_watermark.set(self.high_watermark.get().max(high_watermark));
    }

    /// A read that began when `before` was the end has found this one. Whether records are gone that were there: a server
    /// may have lost what it had not written yet.
    pub(super) fn found(&self, before: i64, high_watermark: i64) -> bool {
        let lost = high_watermark < before && self.high_watermark() == before;
        match lost {
            true => self.ends_at(high_watermark),
            false => self.reaches(high_watermark),
        }
        lost
    }

    /// Here it ends, also when it was longer before: a server may have lost what it had not written yet.
    pub(super) fn ends_at(&self, high_watermark: i64) {
        self.high_watermark.set(high_watermark);
    }

    /// The first offset that is served.
    pub(super) fn log_start(&self) -> i64 {
        self.log_start.get()
    }

    /// Records below this offset are gone.
    pub(super) fn starts_at(&self, log_start: i64) {
        self.log_start.set(self.log_start.get().max(log_start));
    }

    /// Until this is done, refuses batches that have waited for as long as they may, which is `longest_wait`.
    async fn refuse_late_until<T>(&self, done: impl Future<Output = T>, longest_wait: Duration) -> T {
        let mut done = pin!(done);
        loop {
            let now = ringgate_runtime::now();
            // Those that come meanwhile may wait for longer than until then.
            let late_at = self.arriving.borrow().waits_until().unwrap_or(now + longest_wait);
            match ringgate_runtime::timeout(late_at.saturating_duration_since(now), done.as_mut()).await {
                Ok(done) => return done,
                Err(TimedOut) => self.arriving.borrow_mut().refuse_late(ringgate_runtime::now()),
            }
        }
    }

    /// Nobody waits for its records any more.
    pub(super) fn close(&self) {
        self.closed.set(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

impl IggyStore {
    /// Appends; answers when every partition has.
    pub(super) fn produce(self: &Rc<Self>, shard: &ShardHandle, call: ProduceCall, to: ReplyTo) {
        let decompress_left = Arc::new(AtomicUsize::new(shard.settings.max_decompressed_bytes));
        let asker = (call.acks != 0).then_some(call.asker);
        let now = ringgate_runtime::now();
        let (waits_until, deadline) = (now + self.longest_wait(), now + self.settings.timeout);
        let mut answers = Vec::with_capacity(call.partitions.len());
        for part in call.partitions {
            let (tell, answer) = oneshot();
            answers.push((part.at, answer));
            let refusal = match self.partition(shard, part.at) {
                None => Some((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None)),
                Some(_) if !call.zstd && crate::partitions::says_zstd(&part.records) => {
                    let why = "zstd needs Produce version 7 (KIP-110)".to_string();
                    Some((ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, Some(why)))
                }
                Some(partition) => {
                    partition.arriving.borrow_mut().push(Arriving {
                        at: part.at,
                        records: part.records,
                        decompress_left: decompress_left.clone(),
                        asker: asker.clone(),
                        waits_until,
                        deadline,
                        tell,
                    });
                    self.send_on(shard, &partition);
                    continue;
                }
            };
            if let Some((error, why)) = refusal {
                drop(tell.send(PartitionProduced::refused(part.at, error, why)));
            }
        }
        let this = self.clone();
        shard.answer_with(to, async move {
            let mut parts = Vec::with_capacity(answers.len());
            for (at, answer) in answers {
                let part = answer.await.unwrap_or_else(|_| {
                    let why = Some("the gateway is stopping".to_string());
                    PartitionProduced::refused(at, ErrorCode::NOT_LEADER_OR_FOLLOWER, why)
                });
                let counters = &this.counters;
                if part.error.is_err() {
                    counters.batches_refused.set(counters.batches_refused.get() + 1);
                }
                parts.push(part);
            }
            Reply::Produced(parts)
        });
    }

    /// How long a batch may wait for those before it.
    fn longest_wait(&self) -> Duration {
        self.settings.timeout - self.settings.timeout / SEND_SHARE
    }

    /// Has the lane append what has arrived, one batch after the other.
    fn send_on(self: &Rc<Self>, shard: &ShardHandle, partition: &Rc<Partition>) {
        if partition.sending.replace(true) {
            return;
        }
        let (this, shard, partition) = (self.clone(), shard.clone(), partition.clone());
        ringgate_runtime::spawn_as("iggy_appends", async move {
            loop {
                let next = partition.arriving.borrow_mut().next(ringgate_runtime::now());
                let Some(Arriving { records, decompress_left, deadline, tell, .. }) = next else { break };
                let appending = this.append(&shard, &partition, records, decompress_left, deadline);
                let produced = partition.refuse_late_until(appending, this.longest_wait()).await;
                // Its connection may be gone.
                drop(tell.send(produced));
            }
            partition.sending.set(false);
        })
        .detach();
    }

    async fn append(
        &self,
        shard: &ShardHandle,
        partition: &Partition,
        records: Bytes,
        decompress_left: Arc<AtomicUsize>,
        deadline: Instant,
    ) -> PartitionProduced {
        let at = partition.at;
        if partition.is_closed() {
            let why = "the topic has been deleted".to_string();
            return PartitionProduced::refused(at, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(why));
        }
        let bytes = records.len() as u64;
        let what = Append {
            topic: partition.place.topic.clone(),
            partition: partition.place.partition,
            hash: partition.hash,
            records,
            decompress_left,
            max_message_bytes: shard.settings.topic_defaults.max_message_bytes,
            now_ms: shard.now_ms(),
            deadline,
        };
        match self.change(move |clients| async move { append(&clients, what).await }).await {
            Ok(appended) => {
                let counters = &self.counters;
                counters.records_in.set(counters.records_in.get() + u64::from(appended.records));
                counters.bytes_in.set(counters.bytes_in.get() + bytes);
                let base_offset = appended.base_offset.and_then(|offset| i64::try_from(offset).ok());
                PartitionProduced {
                    at,
                    error: ErrorCode::NONE,
                    message: None,
                    base_offset: base_offset.unwrap_or(-1),
                    log_append_time_ms: -1,
                    log_start_offset: partition.log_start(),
                }
            }
            Err((error, why)) => {
                let refused = PartitionProduced::refused(at, error, Some(why));
                match error {
                    // Without it Java's client sends the batch again, and nothing else, until it gives it up.
                    ErrorCode::UNKNOWN_PRODUCER_ID => {
                        PartitionProduced { log_start_offset: partition.log_start(), ..refused }
                    }
                    _ => refused,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::IggyTopic;
    use super::*;

    fn partition() -> Rc<Partition> {
        let at = TopicPartition { topic: uuid::Uuid::from_u128(1), partition: 0 };
        let topic = IggyTopic { stream: "kafka".into(), topic: "t".into() };
        Partition::new(at, Place { topic, partition: 0 })
    }

    #[test]
    fn a_server_that_has_lost_records_moves_the_end_back() {
        let partition = partition();
        partition.reaches(7);
        assert!(partition.found(7, 5));
        assert_eq!(partition.high_watermark(), 5);
    }

    #[test]
    fn a_read_that_began_before_others_moves_nothing_back() {
        let partition = partition();
        partition.reaches(9);
        assert!(!partition.found(7, 7), "two came meanwhile");
        assert!(!partition.found(7, 5), "nor is it known what those who read later have seen");
        assert!(!partition.found(9, 12));
        assert_eq!(partition.high_watermark(), 12);
    }
}
