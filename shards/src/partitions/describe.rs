//! What partitions know of their past: where leader epochs end (Kafka's OffsetForLeaderEpoch), and which
//! idempotent producers are remembered (DescribeProducers); and what they hold (Iggy's metadata).

use ringgate_group::ErrorCode;

use super::Partitions;
use super::fetch::check_leader_epoch;
use super::send::no_partition;
use crate::call::{
    ActiveProducer, DescribeProducersCall, IggyRefusal, OffsetForLeaderEpochCall, PartitionEpochEnd,
    PartitionLeaderEpoch, PartitionProducers, PartitionStats, PartitionStatsCall, TopicPartition,
};
use crate::log_driver::LogDriver;
use crate::store::embedded::partition::PartitionLog;
use crate::turn::Turn;
use crate::watching::PartitionSeen;

/// Both numbers where no epoch fits (Kafka's UNDEFINED_EPOCH and UNDEFINED_EPOCH_OFFSET).
const UNDEFINED: i32 = -1;

impl Partitions {
    /// Where the epochs that are asked for end; `leader_epoch` is the one that writes now.
    pub(crate) async fn epoch_ends(&self, leader_epoch: i32, call: OffsetForLeaderEpochCall) -> Vec<PartitionEpochEnd> {
        let mut ends = Vec::with_capacity(call.partitions.len());
        let mut turn = Turn::default();
        for wanted in &call.partitions {
            turn.partition().await;
            ends.push(self.epoch_end(leader_epoch, wanted));
        }
        ends
    }

    fn epoch_end(&self, current: i32, wanted: &PartitionLeaderEpoch) -> PartitionEpochEnd {
        let end = check_leader_epoch(wanted.current_leader_epoch, current).and_then(|()| {
            self.with_log(wanted.at, |log| match log.offset_for_leader_epoch(wanted.leader_epoch) {
                Some(end) => end,
                // It leads already, and has not written yet.
                None if wanted.leader_epoch == current => (current, log.high_watermark()),
                None => (UNDEFINED, i64::from(UNDEFINED)),
            })
        });
        let (error, (leader_epoch, end_offset)) = match end {
            Ok(end) => (ErrorCode::NONE, end),
            Err(error) => (error, (UNDEFINED, i64::from(UNDEFINED))),
        };
        PartitionEpochEnd { at: wanted.at, error, leader_epoch, end_offset }
    }

    /// The producers that are remembered.
    pub(crate) async fn producers(&self, call: DescribeProducersCall) -> Vec<PartitionProducers> {
        let describe = |&at: &TopicPartition| match self.with_log(at, |log| log.active_producers()) {
            Ok(producers) => PartitionProducers { at, error: ErrorCode::NONE, producers },
            Err(error) => PartitionProducers { at, error, producers: Vec::<ActiveProducer>::new() },
        };
        let mut described = Vec::with_capacity(call.partitions.len());
        // Each may have thousands, so the clock is looked at after each.
        let mut budget = ringgate_runtime::Budget::new();
        for at in &call.partitions {
            described.push(describe(at));
            budget.turn().await;
        }
        described
    }

    /// What partitions hold, in the order of the call.
    pub(crate) async fn stats(&self, call: PartitionStatsCall) -> Vec<Result<PartitionStats, IggyRefusal>> {
        let mut stats = Vec::with_capacity(call.partitions.len());
        let mut turn = Turn::default();
        for at in call.partitions {
            turn.partition().await;
            let measured = self.with_log(at, |log| PartitionStats {
                log_start_offset: log.log_start_offset().unsigned_abs(),
                high_watermark: log.high_watermark().unsigned_abs(),
                bytes: log.size(),
                segments: log.segment_count(),
            });
            stats.push(measured.map_err(|_| no_partition()));
        }
        stats
    }

    /// As [`Partitions::stats`], for whoever watches.
    pub(crate) async fn measure(&self, partitions: Vec<TopicPartition>) -> Vec<Option<PartitionSeen>> {
        let mut seen = Vec::with_capacity(partitions.len());
        let mut turn = Turn::default();
        for at in partitions {
            turn.partition().await;
            let measured = self.with_log(at, |log| PartitionSeen {
                log_start_offset: Some(log.log_start_offset()),
                high_watermark: log.high_watermark(),
                bytes: Some(log.size()),
                is_closed: log.is_closed(),
            });
            seen.push(measured.ok());
        }
        seen
    }

    /// Looks at a partition's log, or says with Kafka's code why there is none.
    fn with_log<T>(&self, at: TopicPartition, look: impl FnOnce(&mut PartitionLog) -> T) -> Result<T, ErrorCode> {
        let partition = self.get(at).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let log: &LogDriver<PartitionLog> = partition.log.as_deref().ok_or(ErrorCode::KAFKA_STORAGE_ERROR)?;
        Ok(log.with(look))
    }
}
