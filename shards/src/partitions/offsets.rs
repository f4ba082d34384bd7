//! Offsets by time and by special timestamp (Kafka's ListOffsets).

use ringgate_group::ErrorCode;

use super::Partitions;
use super::fetch::check_leader_epoch;
use crate::ShardHandle;
use crate::call::{ListOffsetsCall, PartitionListOffsets, PartitionOffset};
use crate::store::embedded::partition::Lookup;
use crate::turn::Turn;

impl Partitions {
    /// Looks each of them up.
    pub(crate) async fn list_offsets(&self, shard: &ShardHandle, call: ListOffsetsCall) -> Vec<PartitionOffset> {
        let mut turn = Turn::default();
        let mut found = Vec::with_capacity(call.partitions.len());
        for wanted in &call.partitions {
            turn.partition().await;
            found.push(self.list_offset(shard, wanted).await);
        }
        found
    }

    async fn list_offset(&self, shard: &ShardHandle, wanted: &PartitionListOffsets) -> PartitionOffset {
        let answer = |error, timestamp, offset, leader_epoch| PartitionOffset {
            at: wanted.at,
            error,
            timestamp,
            offset,
            leader_epoch,
        };
        let failed = |error| answer(error, -1, -1, -1);
        let Some(partition) = self.get(wanted.at) else {
            return failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        let Some(log) = &partition.log else {
            return failed(ErrorCode::KAFKA_STORAGE_ERROR);
        };
        if let Err(error) = check_leader_epoch(wanted.current_leader_epoch, shard.leader_epoch()) {
            return failed(error);
        }
        let found = loop {
            let (log_start_offset, lookup) = log.with(|log| (log.log_start_offset(), log.lookup(wanted.timestamp)));
            let job = match lookup {
                Lookup::Found(found) => break found,
                Lookup::Disk(job) => job,
            };
            match shard.files.run(move || job.run()).await {
                Ok(Ok(found)) => break found,
                // A segment was removed between the look at the log and the read of it.
                Ok(Err(_)) if log.with(|log| log.log_start_offset()) > log_start_offset => {}
                Ok(Err(error)) => {
                    tracing::error!(topic = %partition.topic.name, partition = wanted.at.partition, %error, "an offset cannot be looked up");
                    return failed(ErrorCode::KAFKA_STORAGE_ERROR);
                }
                Err(panic) => {
                    tracing::error!(?panic, "looking an offset up panicked");
                    return failed(ErrorCode::UNKNOWN_SERVER_ERROR);
                }
            }
        };
        answer(ErrorCode::NONE, found.timestamp, found.offset, found.leader_epoch)
    }
}
