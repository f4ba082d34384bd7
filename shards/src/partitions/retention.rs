//! Retention by time and size: old segments go, and the log start with them. Idempotent producers that have
//! not been heard of for too long go, too.

use super::Partitions;
use crate::ShardHandle;
use crate::call::TopicPartition;
use crate::limits::RETENTION_SLICE;
use crate::timers::Sleep;

impl Partitions {
    /// Looks at every partition once per `retention_check_interval`, for as long as the shard lives. Everything
    /// else gets its turn after some of them, and after each that something went of.
    pub(crate) async fn retain(shard: ShardHandle) {
        loop {
            Sleep::new(&shard, shard.settings.retention_check_interval).await;
            let all: Vec<_> = shard.partitions().open.borrow().keys().copied().collect();
            let mut looked_at = 0;
            for at in all {
                looked_at += 1;
                if shard.partitions().retain_one(&shard, at) || looked_at % RETENTION_SLICE == 0 {
                    ringgate_runtime::yield_now().await;
                }
            }
        }
    }

    /// Whether something went.
    fn retain_one(&self, shard: &ShardHandle, at: TopicPartition) -> bool {
        let Some(partition) = self.get(at) else { return false };
        let Some(log) = &partition.log else { return false };
        let (config, now_ms) = (partition.config.get(), shard.now_ms());
        let producers = log.with(|log| log.expire_producers(now_ms));
        let (segments, log_start_offset) = log.with(|log| {
            let gone = log.apply_retention(now_ms, config.retention_ms, config.retention_bytes);
            (gone, log.log_start_offset())
        });
        if segments > 0 {
            tracing::info!(
                topic = %partition.topic.name,
                partition = at.partition,
                segments,
                log_start_offset,
                "segments were removed by retention"
            );
            log.kick(shard);
            self.used_less(&partition);
        }
        producers > 0 || segments > 0
    }
}
