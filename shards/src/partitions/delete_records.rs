//! Records before an offset go (Kafka's DeleteRecords).

use std::rc::Rc;

use ringgate_group::ErrorCode;

use super::{Partition, Partitions};
use crate::ShardHandle;
use crate::call::{DeleteRecordsCall, PartitionDeleteRecords, PartitionRecordsDeleted};
use crate::log_driver::LogDriver;
use crate::store::embedded::partition::PartitionLog;
use crate::turn::Turn;

/// The high watermark, as a client asks for it.
const HIGH_WATERMARK: i64 = -1;

/// A log start that was moved and may not be on disk yet.
pub(super) struct Moved {
    pub(super) partition: Rc<Partition>,
    pub(super) log: Rc<LogDriver<PartitionLog>>,
    pub(super) log_start_offset: i64,
}

impl Partitions {
    /// Moves the log starts; answers when all are on disk, whatever the gateway's `fsync` setting is: a
    /// record that was said to be gone does not come back.
    pub(crate) async fn delete_records(
        &self,
        shard: &ShardHandle,
        call: DeleteRecordsCall,
    ) -> Vec<PartitionRecordsDeleted> {
        let mut turn = Turn::default();
        let mut moved = Vec::with_capacity(call.partitions.len());
        for wanted in &call.partitions {
            turn.partition().await;
            moved.push(self.move_log_start(shard, wanted));
        }
        let mut answers = Vec::with_capacity(moved.len());
        for (moved, wanted) in moved.into_iter().zip(call.partitions) {
            let low_watermark = match moved {
                Ok(moved) => moved.settled(shard).await,
                Err(error) => Err(error),
            };
            answers.push(match low_watermark {
                Ok(low_watermark) => PartitionRecordsDeleted { at: wanted.at, error: ErrorCode::NONE, low_watermark },
                Err(error) => PartitionRecordsDeleted { at: wanted.at, error, low_watermark: -1 },
            });
        }
        answers
    }

    fn move_log_start(&self, shard: &ShardHandle, wanted: &PartitionDeleteRecords) -> Result<Moved, ErrorCode> {
        let partition = self.get(wanted.at).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let log = partition.log.clone().ok_or(ErrorCode::KAFKA_STORAGE_ERROR)?;
        let log_start_offset = log.with(|log| {
            let offset = match wanted.offset {
                HIGH_WATERMARK => log.high_watermark(),
                offset @ 0.. => offset,
                _ => return Err(ErrorCode::OFFSET_OUT_OF_RANGE),
            };
            log.advance_log_start(offset).map_err(|_| ErrorCode::OFFSET_OUT_OF_RANGE)?;
            if log.is_closed() { Err(ErrorCode::KAFKA_STORAGE_ERROR) } else { Ok(log.log_start_offset()) }
        })?;
        log.kick(shard);
        self.used_less(&partition);
        Ok(Moved { partition, log, log_start_offset })
    }
}

impl Moved {
    /// The log start when it is on disk.
    pub(super) async fn settled(self, shard: &ShardHandle) -> Result<i64, ErrorCode> {
        let Moved { partition, log, log_start_offset } = self;
        log.until(shard, |log| {
            if partition.deleted.get() {
                Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
            } else if log.durable_log_start_offset() >= log_start_offset {
                Some(Ok(log_start_offset))
            } else {
                log.is_closed().then_some(Err(ErrorCode::KAFKA_STORAGE_ERROR))
            }
        })
        .await
    }
}
