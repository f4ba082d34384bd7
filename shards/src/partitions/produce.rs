//! Batches of Kafka's: what may enter a partition, and the answer to a Produce.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_wire::records::{BatchHeader, BatchInfo, Compression, RecordError};

use super::arrive::{Appended, Arriving, Asked, Refused};
use super::{Partition, Partitions, count};
use crate::call::{PartitionProduced, ProduceCall, Reply, ReplyTo};
use crate::limits::TIMESTAMP_AFTER_MAX_MS;
use crate::log_driver::Reach;
use crate::settings::Fsync;
use crate::store::embedded::partition::AppendError;
use crate::topic_config::TimestampType;
use crate::{Shard, ShardHandle};

/// A Produce whose partitions are answered one by one, and the call when all are.
pub(super) struct Collecting {
    to: ReplyTo,
    parts: RefCell<Vec<Option<PartitionProduced>>>,
    missing: Cell<usize>,
    /// What the batches of this call may still decompress to.
    decompress_left: Cell<usize>,
    /// Whether its version knows zstd.
    zstd: bool,
}

impl Collecting {
    /// What a batch of this call may decompress to.
    pub(super) fn decompress_left(&self) -> usize {
        self.decompress_left.get()
    }

    /// A batch was looked through, right or wrong.
    pub(super) fn charge(&self, decompressed_bytes: usize) {
        self.decompress_left.set(self.decompress_left.get().saturating_sub(decompressed_bytes));
    }

    pub(super) fn settle(&self, shard: &Rc<Shard>, index: usize, part: PartitionProduced) {
        if part.error.is_err() {
            count(&shard.partitions().counters.batches_refused);
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
            let asked = Asked::Produce { call: collecting.clone(), index };
            partition.arrive(shard, Arriving { batch: part.records, reach, asked });
        }
    }
}

impl Collecting {
    /// Whether a batch is of a codec that this call's version lacks.
    pub(super) fn lacks_codec_of(&self, records: &[u8]) -> bool {
        !self.zstd && says_zstd(records)
    }
}

/// As in Kafka, the header alone decides: what is in a batch of a codec that its version lacks is not looked at.
pub(crate) fn says_zstd(records: &[u8]) -> bool {
    BatchHeader::parse(records).is_some_and(|header| header.compression() == Some(Compression::Zstd))
}

impl Partition {
    /// Appends a batch of Kafka's that was looked through.
    pub(super) fn append_kafkas(
        &self,
        shard: &ShardHandle,
        records: &Bytes,
        walked: Result<BatchInfo, RecordError>,
    ) -> Result<Appended, Refused> {
        let refuse = |error: ErrorCode, message: String| Err(Refused::Kafka(error, Some(message)));
        let info = match walked {
            Ok(info) => info,
            Err(error) => {
                if matches!(error, RecordError::TooLarge(_)) {
                    count(&shard.partitions().counters.over_decompressed_bytes);
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
            count(&shard.partitions().counters.over_message_bytes);
            let most = config.max_message_bytes;
            let message = format!("a record batch of {} bytes is over max.message.bytes = {most}", records.len());
            return refuse(ErrorCode::MESSAGE_TOO_LARGE, message);
        }
        let log = self.writable()?;
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
            let append = log.append(now_ms, records, &info, stamp)?;
            Ok::<_, AppendError>(Appended { append, records: info.records, log_start_offset: log.log_start_offset() })
        });
        appended.map_err(Refused::Append)
    }
}
