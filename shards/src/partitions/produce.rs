//! Appends: look a batch through, append it, answer when it is as safe as was asked for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_wire::records::{BatchHeader, BatchInfo, Compression, RecordError, Walker};

use super::{Partition, Partitions};
use crate::call::{PartitionProduced, ProduceCall, Reply, ReplyTo};
use crate::limits::{TIMESTAMP_AFTER_MAX_MS, WALK_SLICE};
use crate::log_driver::Reach;
use crate::settings::Fsync;
use crate::store::embedded::partition::{AppendError, PartitionLog};
use crate::topic_config::TimestampType;
use crate::{Shard, ShardHandle};

/// A Produce whose partitions are answered one by one, and the call when all are.
struct Collecting {
    to: ReplyTo,
    parts: RefCell<Vec<Option<PartitionProduced>>>,
    missing: Cell<usize>,
    /// What the batches of this call may still decompress to.
    decompress_left: Cell<usize>,
    /// Whether its version knows zstd.
    zstd: bool,
}

impl Collecting {
    /// A batch was looked through, right or wrong.
    fn charge(&self, decompressed_bytes: usize) {
        self.decompress_left.set(self.decompress_left.get().saturating_sub(decompressed_bytes));
    }

    fn settle(&self, shard: &Rc<Shard>, index: usize, part: PartitionProduced) {
        if part.error.is_err() {
            let refused = &shard.partitions.counters.batches_refused;
            refused.set(refused.get() + 1);
        }
        let before = self.parts.borrow_mut()[index].replace(part);
        debug_assert!(before.is_none(), "a partition of a Produce was answered twice");
        self.missing.set(self.missing.get() - 1);
        if self.missing.get() == 0 {
            let parts = self.parts.take().into_iter().flatten().collect();
            shard.reply(self.to, Reply::Produced(parts));
        }
    }
}

/// A batch that waits for its turn to be looked through.
pub(super) struct Arriving {
    records: Bytes,
    reach: Reach,
    index: usize,
    call: Rc<Collecting>,
}

/// An append that is not as safe yet as was asked for.
pub(super) struct AwaitingAck {
    /// Everything below this offset must have come `reach` far.
    end: u64,
    reach: Reach,
    part: PartitionProduced,
    index: usize,
    call: Rc<Collecting>,
}

impl Partitions {
    /// Appends; answers through `to` when every partition is done.
    pub(crate) fn produce(&self, shard: &ShardHandle, call: ProduceCall, to: ReplyTo) {
        let reach = match (call.acks, shard.settings.fsync) {
            (-1, Fsync::Always) => Reach::Durable,
            _ => Reach::Written,
        };
        let collecting = Rc::new(Collecting {
            to,
            parts: RefCell::new(call.partitions.iter().map(|_| None).collect()),
            missing: Cell::new(call.partitions.len()),
            decompress_left: Cell::new(shard.settings.max_decompressed_bytes),
            zstd: call.zstd,
        });
        if call.partitions.is_empty() {
            return shard.reply(to, Reply::Produced(Vec::new()));
        }
        for (index, part) in call.partitions.into_iter().enumerate() {
            let Some(partition) = self.get(part.at) else {
                let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                collecting.settle(shard, index, PartitionProduced::refused(part.at, unknown, None));
                continue;
            };
            let arriving = Arriving { records: part.records, reach, index, call: collecting.clone() };
            partition.arriving.borrow_mut().push_back(arriving);
            partition.take_in(shard);
        }
    }
}

impl Partition {
    /// Looks arrived batches through and appends them, oldest first. Goes on in a task when a batch
    /// takes more than a slice.
    fn take_in(self: &Rc<Self>, shard: &ShardHandle) {
        if self.walking.get() {
            return;
        }
        loop {
            let Some(next) = self.arriving.borrow_mut().pop_front() else { break };
            if !next.call.zstd && says_zstd(&next.records) {
                next.call.settle(shard, next.index, self.without_zstd());
                continue;
            }
            let mut walker = Walker::new(next.records.clone(), next.call.decompress_left.get());
            match walker.step(WALK_SLICE) {
                Some(walked) => {
                    next.call.charge(walker.decompressed_bytes());
                    self.append(shard, next, walked);
                }
                None => {
                    self.walking.set(true);
                    let (this, shard) = (self.clone(), shard.clone());
                    ringgate_runtime::spawn_as("record_walk", async move {
                        let walked = loop {
                            ringgate_runtime::yield_now().await;
                            if let Some(walked) = walker.step(WALK_SLICE) {
                                break walked;
                            }
                        };
                        next.call.charge(walker.decompressed_bytes());
                        this.append(&shard, next, walked);
                        this.walking.set(false);
                        this.take_in(&shard);
                    })
                    .detach();
                    break;
                }
            }
        }
        if let Some(log) = &self.log {
            log.kick(shard);
            shard.partitions.used(self);
        }
    }

    fn without_zstd(&self) -> PartitionProduced {
        let message = "zstd needs Produce version 7 (KIP-110)".to_string();
        PartitionProduced::refused(self.at, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, Some(message))
    }

    fn append(&self, shard: &ShardHandle, arriving: Arriving, walked: Result<BatchInfo, RecordError>) {
        let Arriving { records, reach, index, call } = arriving;
        let refuse = |error: ErrorCode, message: String| {
            call.settle(shard, index, PartitionProduced::refused(self.at, error, Some(message)));
        };
        let info = match walked {
            Ok(info) => info,
            Err(error) => {
                if matches!(error, RecordError::TooLarge(_)) {
                    count(&shard.partitions.counters.over_decompressed_bytes);
                }
                return refuse(ErrorCode(error.code()), error.to_string());
            }
        };
        if info.control {
            return refuse(ErrorCode::INVALID_RECORD, "a control batch, which only a broker may write".into());
        }
        if info.transactional {
            return refuse(ErrorCode::INVALID_REQUEST, "transactions are not supported".into());
        }
        let config = self.config.get();
        if records.len() > config.max_message_bytes {
            count(&shard.partitions.counters.over_message_bytes);
            let most = config.max_message_bytes;
            let message = format!("a record batch of {} bytes is over max.message.bytes = {most}", records.len());
            return refuse(ErrorCode::MESSAGE_TOO_LARGE, message);
        }
        if self.deleted.get() {
            return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "the topic has been deleted".into());
        }
        let Some(log) = &self.log else {
            return refuse(ErrorCode::KAFKA_STORAGE_ERROR, "the partition's files could not be opened".into());
        };
        let stamp = config.timestamp_type == TimestampType::LogAppendTime;
        let now_ms = shard.now_ms();
        if !stamp && info.max_timestamp_found > now_ms.saturating_add(TIMESTAMP_AFTER_MAX_MS) {
            let (found, most) = (info.max_timestamp_found, TIMESTAMP_AFTER_MAX_MS);
            let message = format!(
                "a record's timestamp of {found} ms is over message.timestamp.after.max.ms = {most} ahead of {now_ms} ms"
            );
            return refuse(ErrorCode::INVALID_TIMESTAMP, message);
        }
        let appended = log.with(|log| {
            let appended = log.append(now_ms, &records, &info, stamp)?;
            if reach == Reach::Durable {
                log.request_sync();
            }
            Ok::<_, AppendError>((appended, log.log_start_offset()))
        });
        let (appended, log_start_offset) = match appended {
            Ok(it) => it,
            Err(error) => return refuse(error.code(), error.to_string()),
        };
        if !appended.duplicate {
            let counters = &shard.partitions.counters;
            counters.records_in.set(counters.records_in.get() + u64::from(info.records));
            counters.bytes_in.set(counters.bytes_in.get() + records.len() as u64);
        }
        let part = PartitionProduced {
            at: self.at,
            error: ErrorCode::NONE,
            message: None,
            base_offset: appended.base_offset,
            log_append_time_ms: if stamp { appended.log_append_time_ms } else { -1 },
            log_start_offset,
        };
        let end = (appended.last_offset + 1) as u64;
        // A duplicate may be safe already.
        if end <= log.with(|log| reached_by(log, reach)) {
            return call.settle(shard, index, part);
        }
        self.acks.borrow_mut().push_back(AwaitingAck { end, reach, part, index, call });
    }

    pub(super) fn settle_acks(&self, shard: &Rc<Shard>) {
        let Some(log) = &self.log else { return };
        let (written, durable, closed) =
            log.with(|l| (reached_by(l, Reach::Written), reached_by(l, Reach::Durable), l.is_closed()));
        let reached = |ack: &AwaitingAck| ack.end <= if ack.reach == Reach::Durable { durable } else { written };
        // An acks=1 append may be done while an acks=all one before it still waits for its sync.
        let mut done = Vec::new();
        self.acks.borrow_mut().retain_mut(|ack| {
            let over = closed || reached(ack);
            if over {
                done.push((reached(ack), ack.index, ack.part.clone(), ack.call.clone()));
            }
            !over
        });
        for (reached, index, part, call) in done {
            let part = if reached {
                part
            } else {
                let message = Some("writing the log failed; it takes no more until a restart".to_string());
                PartitionProduced::refused(part.at, ErrorCode::KAFKA_STORAGE_ERROR, message)
            };
            call.settle(shard, index, part);
        }
    }

    pub(super) fn fail_acks(&self, shard: &Rc<Shard>, error: ErrorCode) {
        for ack in self.acks.take() {
            ack.call.settle(shard, ack.index, PartitionProduced::refused(self.at, error, None));
        }
    }
}

/// As in Kafka, the header alone decides: what is in a batch of a codec that its version lacks is not looked at.
fn says_zstd(records: &[u8]) -> bool {
    BatchHeader::parse(records).is_some_and(|header| header.compression() == Some(Compression::Zstd))
}

/// The offset below which every record has come that far.
fn reached_by(log: &PartitionLog, reach: Reach) -> u64 {
    match reach {
        Reach::Written => log.high_watermark() as u64,
        Reach::Durable => log.durable_end() as u64,
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}
