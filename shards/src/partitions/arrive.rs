//! How batches enter a partition, whichever protocol they came by: in the order in which they were submitted, each
//! looked through in slices, and answered when it is as safe as was asked for.

use std::rc::Rc;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{IggyBatchError, IggyBatchInfo, IggyWalker};
use ringgate_wire::records::{BatchInfo, RecordError, Walker};

use super::Partition;
use super::produce::Collecting;
use crate::call::{Attempt, IggyRefusal, PartitionProduced, ReplyTo};
use crate::iggy_code::IggyCode;
use crate::limits::WALK_SLICE;
use crate::log_driver::{LogDriver, Reach};
use crate::store::embedded::partition::{Append, AppendError, PartitionLog};
use crate::{Shard, ShardHandle};

/// A batch that waits for its turn to be looked through.
pub(super) struct Arriving {
    pub(super) batch: Bytes,
    pub(super) reach: Reach,
    pub(super) asked: Asked,
}

/// Who gets the answer.
pub(super) enum Asked {
    /// A Produce, for the batch of this index.
    Produce {
        /// The call.
        call: Rc<Collecting>,
        /// Which of its batches.
        index: usize,
    },
    /// Iggy's SendMessages.
    Send(ReplyTo, Attempt),
}

/// A batch that went into the log, or was there.
#[derive(Clone, Copy)]
pub(super) struct Appended {
    pub(super) append: Append,
    pub(super) records: u32,
    pub(super) log_start_offset: i64,
}

/// Why a batch went nowhere.
#[derive(Clone)]
pub(super) enum Refused {
    /// Said by Kafka's rules.
    Kafka(ErrorCode, Option<String>),
    /// Said by Iggy's.
    Iggy(IggyRefusal),
    /// Said by the log.
    Append(AppendError),
    /// The topic is gone.
    Deleted,
    /// The partition's files could not be opened.
    NotOpen,
    /// The log was closed before the batch was safe.
    Closed,
}

/// An append that is not as safe yet as was asked for.
pub(super) struct AwaitingAck {
    /// Everything below this offset must have come `reach` far.
    end: u64,
    reach: Reach,
    appended: Appended,
    asked: Asked,
}

/// A batch that is being looked through.
enum Walk {
    Kafka(Walker),
    Iggy(Box<IggyWalker>),
}

/// What that came to.
enum Walked {
    Kafka(Result<BatchInfo, RecordError>),
    Iggy(Result<IggyBatchInfo, IggyBatchError>),
}

impl Walk {
    fn of(arriving: &Arriving) -> Walk {
        let batch = arriving.batch.clone();
        match &arriving.asked {
            Asked::Produce { call, .. } => Walk::Kafka(Walker::new(batch, call.decompress_left())),
            Asked::Send(..) => Walk::Iggy(Box::new(IggyWalker::new(batch))),
        }
    }

    /// Goes on for a slice; `Some` at the end.
    fn step(&mut self, asked: &Asked) -> Option<Walked> {
        match self {
            Walk::Iggy(walker) => walker.step(WALK_SLICE).map(Walked::Iggy),
            Walk::Kafka(walker) => {
                let walked = walker.step(WALK_SLICE)?;
                if let Asked::Produce { call, .. } = asked {
                    call.charge(walker.decompressed_bytes());
                }
                Some(Walked::Kafka(walked))
            }
        }
    }
}

impl Asked {
    fn settle(self, partition: &Partition, shard: &Rc<Shard>, outcome: Result<Appended, Refused>) {
        match self {
            Asked::Send(to, attempt) => partition.settle_send(shard, to, attempt, outcome),
            Asked::Produce { call, index } => {
                let at = partition.at;
                let part = match outcome {
                    Ok(Appended { append, log_start_offset, .. }) => PartitionProduced {
                        at,
                        error: ErrorCode::NONE,
                        message: None,
                        base_offset: append.base_offset,
                        log_append_time_ms: append.log_append_time_ms,
                        log_start_offset,
                    },
                    Err(refused) => {
                        let (error, message) = refused.for_kafka();
                        PartitionProduced::refused(at, error, message)
                    }
                };
                call.settle(shard, index, part);
            }
        }
    }
}

const CLOSED: &str = "writing the log failed; it takes no more until a restart";
const NOT_OPEN: &str = "the partition's files could not be opened";

impl Refused {
    fn for_kafka(self) -> (ErrorCode, Option<String>) {
        match self {
            Refused::Kafka(error, message) => (error, message),
            Refused::Append(error) => (error.code(), Some(error.to_string())),
            Refused::Deleted => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some("the topic has been deleted".into())),
            Refused::NotOpen => (ErrorCode::KAFKA_STORAGE_ERROR, Some(NOT_OPEN.into())),
            Refused::Closed => (ErrorCode::KAFKA_STORAGE_ERROR, Some(CLOSED.into())),
            // No batch of Kafka's is looked through by Iggy's rules.
            Refused::Iggy(refusal) => (ErrorCode::UNKNOWN_SERVER_ERROR, Some(refusal.message)),
        }
    }

    pub(super) fn for_iggy(self) -> IggyRefusal {
        match self {
            Refused::Iggy(refusal) => refusal,
            Refused::Append(error) => IggyRefusal::new(error.iggy_code(), error.to_string()),
            Refused::Deleted => IggyRefusal::new(IggyCode::TOPIC_ID_NOT_FOUND, "the topic has been deleted"),
            Refused::NotOpen => IggyRefusal::new(IggyCode::CANNOT_APPEND_MESSAGE, NOT_OPEN),
            Refused::Closed => IggyRefusal::new(IggyCode::CANNOT_APPEND_MESSAGE, CLOSED),
            // Nor the other way round.
            Refused::Kafka(_, message) => IggyRefusal::new(IggyCode::ERROR, message.unwrap_or_default()),
        }
    }
}

impl Partition {
    /// Takes a batch in behind those that arrived before it.
    pub(super) fn arrive(self: &Rc<Self>, shard: &ShardHandle, arriving: Arriving) {
        self.arriving.borrow_mut().push_back(arriving);
        self.take_in(shard);
    }

    /// Looks arrived batches through and appends them, oldest first. Goes on in a task when a batch
    /// takes more than a slice.
    fn take_in(self: &Rc<Self>, shard: &ShardHandle) {
        if self.walking.get() {
            return;
        }
        loop {
            let Some(next) = self.arriving.borrow_mut().pop_front() else { break };
            if let Asked::Produce { call, .. } = &next.asked
                && call.lacks_codec_of(&next.batch)
            {
                let message = "zstd needs Produce version 7 (KIP-110)".to_string();
                let refused = Refused::Kafka(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, Some(message));
                next.asked.settle(self, shard, Err(refused));
                continue;
            }
            let mut walk = Walk::of(&next);
            match walk.step(&next.asked) {
                Some(walked) => self.append(shard, next, walked),
                None => {
                    self.walking.set(true);
                    let (this, shard) = (self.clone(), shard.clone());
                    ringgate_runtime::spawn_as("record_walk", async move {
                        let walked = loop {
                            ringgate_runtime::yield_now().await;
                            if let Some(walked) = walk.step(&next.asked) {
                                break walked;
                            }
                        };
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
            shard.partitions().used(self);
        }
    }

    fn append(&self, shard: &ShardHandle, arriving: Arriving, walked: Walked) {
        let Arriving { batch, reach, asked } = arriving;
        let appended = match walked {
            Walked::Kafka(walked) => self.append_kafkas(shard, &batch, walked),
            Walked::Iggy(walked) => self.append_iggys(shard, &batch, walked),
        };
        let (appended, log) = match appended.and_then(|appended| Ok((appended, self.writable()?))) {
            Ok(it) => it,
            Err(refused) => return asked.settle(self, shard, Err(refused)),
        };
        if reach == Reach::Durable {
            log.with(PartitionLog::request_sync);
        }
        if !appended.append.duplicate {
            let counters = &shard.partitions().counters;
            counters.records_in.set(counters.records_in.get() + u64::from(appended.records));
            counters.bytes_in.set(counters.bytes_in.get() + batch.len() as u64);
            let forgotten = log.with(PartitionLog::take_forgotten_producers);
            counters.producers.set(counters.producers.get() + forgotten);
        }
        let end = (appended.append.last_offset + 1) as u64;
        // A duplicate may be safe already.
        if end <= log.with(|log| reached_by(log, reach)) {
            return asked.settle(self, shard, Ok(appended));
        }
        self.acks.borrow_mut().push(AwaitingAck { end, reach, appended, asked });
    }

    /// The log, if anything may be appended.
    pub(super) fn writable(&self) -> Result<&Rc<LogDriver<PartitionLog>>, Refused> {
        if self.deleted.get() {
            return Err(Refused::Deleted);
        }
        self.log.as_ref().ok_or(Refused::NotOpen)
    }

    pub(super) fn settle_acks(&self, shard: &Rc<Shard>) {
        let Some(log) = &self.log else { return };
        let (written, durable, closed) =
            log.with(|l| (reached_by(l, Reach::Written), reached_by(l, Reach::Durable), l.is_closed()));
        let reached = |ack: &AwaitingAck| ack.end <= if ack.reach == Reach::Durable { durable } else { written };
        // An acks=1 append may be done while an acks=all one before it still waits for its sync.
        let done: Vec<AwaitingAck> = self.acks.borrow_mut().extract_if(.., |ack| closed || reached(ack)).collect();
        for ack in done {
            let outcome = if reached(&ack) { Ok(ack.appended) } else { Err(Refused::Closed) };
            ack.asked.settle(self, shard, outcome);
        }
    }

    /// The partition is gone: whoever waits for an append is told so.
    pub(super) fn fail_acks(&self, shard: &Rc<Shard>) {
        for ack in self.acks.take() {
            ack.asked.settle(self, shard, Err(Refused::Deleted));
        }
    }
}

/// The offset below which every record has come that far.
fn reached_by(log: &PartitionLog, reach: Reach) -> u64 {
    match reach {
        Reach::Written => log.high_watermark() as u64,
        Reach::Durable => log.durable_end() as u64,
    }
}
