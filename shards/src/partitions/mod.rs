//! The partitions that a shard owns: their logs, those who wait for appends to be safe, and those who
//! wait for records to arrive.
//!
//! Batches enter a partition in the order in which they were submitted, however long it takes to look
//! each of them through. What is written is readable (the high watermark is the end of what is written);
//! what asks for durability is answered when it is synced.

mod arrive;
mod attempts;
mod consumer_offsets;
mod delete_records;
mod describe;
mod fetch;
mod offsets;
mod produce;
mod retention;
mod send;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use ringgate_group::route::ShardId;

use crate::call::{TopicPartition, WatchId};
use crate::catalogue::{Catalogue, Topic};
use crate::log_driver::LogDriver;
use crate::store::embedded::Engine;
use crate::store::embedded::TailCache;
use crate::store::embedded::partition::PartitionLog;
use crate::topic_config::TopicConfig;
use crate::{Shard, ShardHandle};
pub(crate) use attempts::Attempts;
use consumer_offsets::Offsets;

pub(crate) use fetch::check_leader_epoch;
pub(crate) use produce::says_zstd;

/// The partitions of one shard.
pub(crate) struct Partitions {
    engine: Engine,
    open: RefCell<HashMap<TopicPartition, Rc<Partition>>>,
    watches: RefCell<HashMap<(ShardId, WatchId), fetch::WatchState>>,
    cache: RefCell<TailCache<TopicPartition>>,
    /// Bytes that reads from disk may bring which are under way.
    reading: Cell<usize>,
    /// Requests of Iggy's clients that may come again.
    pub(crate) attempts: attempts::Attempts,
    counters: Counters,
}

/// What has happened so far, for the metrics.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) records_in: Cell<u64>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    pub(crate) batches_refused: Cell<u64>,
    /// Reads that found their records in memory, and those that had to go to the disk.
    pub(crate) cached_reads: Cell<u64>,
    pub(crate) disk_reads: Cell<u64>,
    /// Of those, the ones over their topic's `max.message.bytes`.
    pub(crate) over_message_bytes: Cell<u64>,
    /// Of those, the ones over the decompression bound of their request.
    pub(crate) over_decompressed_bytes: Cell<u64>,
    /// Producers that partitions have forgotten since they had too many.
    pub(crate) producers: Cell<u64>,
    /// Reads that were cut to one batch since there were too many bytes on their way from disk.
    pub(crate) disk_reads_cut: Cell<u64>,
    /// Offsets of Iggy's consumers that were not stored, since a partition keeps no more.
    pub(crate) consumer_offsets: Cell<u64>,
}

impl Counters {
    /// Limits, by their settings, and how often each was met.
    pub(crate) fn limits_hit(&self) -> [(&'static str, u64); 5] {
        [
            ("message_max_bytes", self.over_message_bytes.get()),
            ("max_decompressed_bytes", self.over_decompressed_bytes.get()),
            ("iggy_consumer_offsets_max", self.consumer_offsets.get()),
            ("max_producers_per_partition", self.producers.get()),
            ("disk_read_bytes", self.disk_reads_cut.get()),
        ]
    }
}

/// One partition.
pub(crate) struct Partition {
    at: TopicPartition,
    topic: Arc<Topic>,
    /// Changes when the topic's settings do.
    config: Cell<TopicConfig>,
    /// `None`: its files could not be opened; it answers `KAFKA_STORAGE_ERROR(56)`.
    log: Option<Rc<LogDriver<PartitionLog>>>,
    offsets: consumer_offsets::Offsets,
    arriving: RefCell<VecDeque<arrive::Arriving>>,
    /// A batch is being looked through, in slices; those that arrive meanwhile queue behind it.
    walking: Cell<bool>,
    /// When the log last said that records cannot be read, in ms since the epoch.
    unreadable_said_ms: Cell<i64>,
    acks: RefCell<Vec<arrive::AwaitingAck>>,
    deleted: Cell<bool>,
    /// The log has been closed by a failed write, and that was said.
    said_closed: Cell<bool>,
    watched_by: RefCell<Vec<(ShardId, WatchId)>>,
}

impl Partitions {
    pub(crate) fn new(engine: Engine, tail_cache_bytes: usize) -> Partitions {
        Partitions {
            engine,
            open: RefCell::default(),
            watches: RefCell::default(),
            cache: RefCell::new(TailCache::new(tail_cache_bytes)),
            reading: Cell::new(0),
            attempts: attempts::Attempts::default(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes of batches that are held in memory.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.borrow().total()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// A partition was appended to or read from: those that were not used for longest let go of cached
    /// batches when all together hold too many.
    fn used(&self, partition: &Partition) {
        let Some(log) = &partition.log else { return };
        let mut cache = self.cache.borrow_mut();
        cache.used(partition.at, log.with(|log| log.cached_bytes()));
        while let Some((victim, bytes)) = cache.victim() {
            match self.get(victim).and_then(|p| p.log.clone()) {
                Some(log) => {
                    let left = log.with(|log| {
                        log.trim_cache(bytes);
                        log.cached_bytes()
                    });
                    cache.trimmed(victim, left);
                }
                None => cache.forget(victim),
            }
        }
    }

    /// Old records of a partition went, and what was cached of them with them.
    fn used_less(&self, partition: &Partition) {
        if let Some(log) = &partition.log {
            self.cache.borrow_mut().trimmed(partition.at, log.with(|log| log.cached_bytes()));
        }
    }

    fn get(&self, at: TopicPartition) -> Option<Rc<Partition>> {
        self.open.borrow().get(&at).cloned()
    }

    /// Opens what this shard owns of a catalogue and has not open yet. A partition whose files cannot be
    /// opened is there all the same and answers with an error, so that the others go on.
    pub(crate) async fn open_missing(&self, shard: &ShardHandle, catalogue: &Catalogue) {
        for topic in catalogue.all_topics() {
            // Read when something is missing: most changes concern one topic of many.
            let mut config = None;
            for partition in topic.owned_by(shard.route(), shard.id()) {
                let at = TopicPartition { topic: topic.id, partition };
                if self.open.borrow().contains_key(&at) {
                    continue;
                }
                let config = *config.get_or_insert_with(|| config_of(shard, topic));
                let opening = self.engine.open_partition(at, &config);
                let offsets = self.engine.open_offsets(at, catalogue.groups(topic.id));
                let mut found = Default::default();
                let log = match shard.files.run(move || opening().map(|log| (log, offsets()))).await {
                    Ok(Ok((log, offsets))) => {
                        found = offsets;
                        Some(log)
                    }
                    Ok(Err(error)) => {
                        tracing::error!(topic = %topic.name, partition, %error, "the partition cannot be opened");
                        None
                    }
                    Err(panic) => {
                        tracing::error!(topic = %topic.name, partition, ?panic, "opening the partition panicked");
                        None
                    }
                };
                self.insert(at, topic.clone(), config, log, Offsets::new(found));
            }
        }
    }

    fn insert(
        &self,
        at: TopicPartition,
        topic: Arc<Topic>,
        config: TopicConfig,
        log: Option<PartitionLog>,
        offsets: Offsets,
    ) {
        let partition = Rc::new(Partition {
            at,
            topic,
            config: Cell::new(config),
            log: log.map(|log| Rc::new(LogDriver::new(log))),
            offsets,
            arriving: RefCell::default(),
            walking: Cell::new(false),
            unreadable_said_ms: Cell::new(i64::MIN),
            acks: RefCell::default(),
            deleted: Cell::new(false),
            said_closed: Cell::new(false),
            watched_by: RefCell::default(),
        });
        if let Some(log) = &partition.log {
            let weak = Rc::downgrade(&partition);
            log.on_progress(move |shard| {
                if let Some(partition) = weak.upgrade() {
                    partition.settle(shard);
                }
            });
        }
        self.open.borrow_mut().insert(at, partition);
    }

    /// Shows a catalogue to clients, puts changed settings in force, and lets go of partitions that are not in it.
    pub(crate) async fn publish(&self, shard: &ShardHandle, catalogue: Arc<Catalogue>) {
        let before = shard.catalogue();
        crate::store::show(shard, &catalogue);
        for topic in catalogue.all_topics() {
            if before.any_topic(topic.id).is_some_and(|old| !Arc::ptr_eq(old, topic) && old.config != topic.config) {
                self.reconfigure(shard, topic);
            }
        }
        let gone: Vec<Rc<Partition>> =
            self.open.borrow().values().filter(|p| catalogue.any_topic(p.at.topic).is_none()).cloned().collect();
        if gone.is_empty() {
            return;
        }
        for partition in gone {
            self.open.borrow_mut().remove(&partition.at);
            self.cache.borrow_mut().forget(partition.at);
            partition.deleted.set(true);
            partition.fail_all(shard);
            if let Some(log) = &partition.log {
                log.idle(shard).await;
            }
            partition.offsets_idle(shard).await;
            let removing = self.engine.remove_partition(partition.at);
            if let Ok(Err(error)) = shard.files.run(removing).await {
                // The next start removes what no topic owns.
                tracing::warn!(topic = %partition.topic.name, partition = partition.at.partition, %error, "files of a deleted partition are left");
            }
        }
    }

    /// A topic's settings have changed: what comes from now on is held against these.
    fn reconfigure(&self, shard: &ShardHandle, topic: &Topic) {
        let config = config_of(shard, topic);
        for partition in topic.owned_by(shard.route(), shard.id()) {
            let Some(partition) = self.get(TopicPartition { topic: topic.id, partition }) else { continue };
            partition.config.set(config);
            if let Some(log) = &partition.log {
                log.with(|log| log.set_segment_bounds(config.segment_bytes, config.segment_ms));
            }
        }
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(&self, shard: &ShardHandle) {
        for partition in self.open.borrow().values() {
            partition.sync_offsets(shard);
            if let Some(log) = partition.log.as_ref().filter(|log| log.with(|log| log.is_dirty())) {
                log.with(PartitionLog::request_sync);
                log.kick(shard);
            }
        }
    }

    /// Finishes the writes that have started and puts everything on disk.
    pub(crate) async fn finish(&self, shard: &ShardHandle) {
        self.sync_written(shard);
        let all: Vec<_> = self.open.borrow().values().cloned().collect();
        for partition in &all {
            if let Some(log) = &partition.log {
                log.with(PartitionLog::request_checkpoint);
                log.kick(shard);
            }
        }
        for partition in &all {
            if let Some(log) = &partition.log {
                log.idle(shard).await;
            }
            partition.offsets_idle(shard).await;
        }
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

fn config_of(shard: &ShardHandle, topic: &Topic) -> TopicConfig {
    TopicConfig::parse(&topic.config, shard.settings.topic_defaults).unwrap_or_else(|why| {
        // It was checked when it was set; a newer ringgate may have known more.
        tracing::error!(topic = %topic.name, why, "the topic's settings are not understood; it has the defaults");
        TopicConfig::defaults(shard.settings.topic_defaults)
    })
}

impl Partition {
    /// After a job: answers those whose append has come far enough and wakes those who wait for records.
    fn settle(&self, shard: &Rc<Shard>) {
        if let Some(log) = &self.log
            && log.with(|log| log.is_closed())
            && !self.said_closed.replace(true)
        {
            tracing::error!(
                topic = %self.topic.name,
                partition = self.at.partition,
                "a write or sync failed (disk full?): the partition takes nothing more until a restart"
            );
        }
        self.settle_acks(shard);
        self.settle_watches(shard);
    }

    /// The partition is gone: nobody waits for it any longer.
    fn fail_all(&self, shard: &Rc<Shard>) {
        self.fail_acks(shard);
        self.wake_watches(shard);
    }
}
