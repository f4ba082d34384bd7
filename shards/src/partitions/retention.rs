//! Retention by time and size: old segments go, and the log start with them.

use super::Partitions;
use crate::ShardHandle;
use crate::limits::RETENTION_SLICE;
use crate::timers::Sleep;

impl Partitions {
    /// Looks at every partition once per `retention_check_interval`, some at a time, for as long as the
    /// shard lives.
    pub(crate) async fn retain(shard: ShardHandle) {
        loop {
            Sleep::new(&shard, shard.settings.retention_check_interval).await;
            let all: Vec<_> = shard.partitions.open.borrow().keys().copied().collect();
            for some in all.chunks(RETENTION_SLICE) {
                for at in some {
                    shard.partitions.retain_one(&shard, *at);
                }
                ringgate_runtime::yield_now().await;
            }
        }
    }

    fn retain_one(&self, shard: &ShardHandle, at: crate::call::TopicPartition) {
        let Some(partition) = self.get(at) else { return };
        let Some(log) = &partition.log else { return };
        let config = &partition.config;
        let (segments, log_start_offset) = log.with(|log| {
            let gone = log.apply_retention(shard.now_ms(), config.retention_ms, config.retention_bytes);
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
    }
}
