//! Where records, offsets and group metadata are kept, and the one place that chooses between stores.
//!
//! A shard has one `Store` for its topics and their records, and one `GroupLog` for its groups and what they have
//! committed. The embedded store keeps both in files; the Iggy store keeps both in an Iggy server.

pub mod embedded;
pub mod iggy;
pub mod mapping;
pub mod stored;

use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use ringgate_group::{DeletedTopic, Record, Text};

use crate::ShardHandle;
use crate::catalogue::Catalogue;
use crate::controller::Controller;
use crate::limits::{ENCODE_HERE_BYTES, ENCODE_HERE_MEMBERS, IDLE_LOOK};
use crate::log_driver::LogDriver;
use crate::partitions::{Counters, Partitions};
use embedded::coordinator_log::{CoordinatorLog, FramedRecords, LogRecord};
use iggy::{IggyStore, LaneReport};

/// Topics and records.
#[expect(clippy::large_enum_variant, reason = "one for each shard")]
pub(crate) enum Store {
    /// In files of this gateway's.
    Embedded {
        /// Those that the shard owns.
        partitions: Partitions,
        /// Shard 0's.
        controller: Option<Rc<Controller>>,
    },
    /// In Iggy.
    Iggy(Rc<IggyStore>),
}

impl Store {
    pub(crate) fn counters(&self) -> &Counters {
        match self {
            Store::Embedded { partitions, .. } => partitions.counters(),
            Store::Iggy(iggy) => iggy.counters(),
        }
    }

    /// Partitions that the shard has open.
    pub(crate) fn open_partitions(&self) -> usize {
        match self {
            Store::Embedded { partitions, .. } => partitions.len(),
            Store::Iggy(iggy) => iggy.len(),
        }
    }

    /// Bytes of batches that are held in memory.
    pub(crate) fn cached_bytes(&self) -> usize {
        match self {
            Store::Embedded { partitions, .. } => partitions.cached_bytes(),
            Store::Iggy(_) => 0,
        }
    }

    pub(crate) fn lane(&self) -> Option<LaneReport> {
        match self {
            Store::Embedded { .. } => None,
            Store::Iggy(iggy) => Some(iggy.lane_report()),
        }
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(&self, shard: &ShardHandle) {
        if let Store::Embedded { partitions, controller } = self {
            partitions.sync_written(shard);
            if let Some(controller) = controller {
                controller.sync_written(shard);
            }
        }
    }

    /// The gateway stops.
    pub(crate) fn stop(&self) {
        if let Store::Iggy(iggy) = self {
            iggy.stop();
        }
    }

    /// Finishes the writes that have started and puts everything on disk.
    pub(crate) async fn finish(&self, shard: &ShardHandle) {
        match self {
            Store::Embedded { partitions, controller } => {
                partitions.finish(shard).await;
                if let Some(controller) = controller {
                    controller.finish(shard).await;
                }
            }
            Store::Iggy(iggy) => iggy.finish().await,
        }
    }
}

/// Groups and what they have committed.
pub(crate) enum GroupLog {
    /// In files of this gateway's.
    Embedded(Rc<LogDriver<CoordinatorLog>>),
    /// In Iggy.
    Iggy(Box<iggy::GroupLog>),
}

impl GroupLog {
    /// What an earlier run has left; nothing is written before.
    pub(crate) async fn load(&self, shard: &ShardHandle) -> Vec<Record> {
        let log = match self {
            GroupLog::Embedded(log) => log,
            GroupLog::Iggy(log) => return log.take_records(),
        };
        let mut records = Vec::new();
        for (nth, record) in log.with(CoordinatorLog::take_recovered).into_iter().enumerate() {
            match Record::decode(record.kind, record.version, &record.payload) {
                Ok(record) => records.push(record),
                // The log has checked the bytes, so this was written by somebody who knew more.
                Err(error) => tracing::error!(shard = shard.id().0, %error, "a record of a group is not understood"),
            }
            if nth % crate::limits::EFFECTS_SLICE == 0 {
                ringgate_runtime::yield_now().await;
            }
        }
        records
    }

    /// Whether groups may be answered.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            GroupLog::Embedded(_) => true,
            GroupLog::Iggy(log) => log.is_held(),
        }
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(&self, shard: &ShardHandle) {
        if let GroupLog::Embedded(log) = self {
            log.sync_written(shard);
        }
    }

    /// Waits until nothing is being written.
    pub(crate) async fn idle(&self, shard: &ShardHandle) {
        match self {
            GroupLog::Embedded(log) => log.idle(shard).await,
            GroupLog::Iggy(log) => {
                while !log.is_idle() {
                    ringgate_runtime::sleep(IDLE_LOOK).await;
                }
            }
        }
    }
}

/// The records as they lie in the log. What takes long, the metadata of a large group, is done elsewhere.
pub(crate) async fn encoded(shard: &ShardHandle, records: Vec<Record>) -> FramedRecords {
    let all = |records: &[Record]| FramedRecords::from(records.iter().map(to_log).collect::<Vec<_>>());
    let few_members = records.iter().all(|record| record.members() <= ENCODE_HERE_MEMBERS);
    if few_members && records.iter().map(Record::size_hint).sum::<usize>() <= ENCODE_HERE_BYTES {
        return all(&records);
    }
    match shard.files.run(move || all(&records)).await {
        Ok(records) => records,
        Err(panic) => panic!("records of groups could not be encoded: {panic}"),
    }
}

fn to_log(record: &Record) -> LogRecord {
    let mut payload = BytesMut::with_capacity(record.size_hint());
    record.encode(&mut payload);
    LogRecord { kind: record.kind(), version: record.version(), payload: payload.freeze() }
}

/// Shows a catalogue to clients. Offsets that were committed for topics which it no longer has go.
pub(crate) fn show(shard: &ShardHandle, catalogue: &Arc<Catalogue>) {
    let before = shard.catalogue();
    shard.show(catalogue.clone());
    let deleted: Vec<DeletedTopic> = before
        .topics()
        .filter(|topic| catalogue.topic_by_id(topic.id).is_none())
        .map(|topic| DeletedTopic { name: Text::from(&*topic.name), topic_id: topic.id.as_u128() })
        .collect();
    if !deleted.is_empty() {
        shard.groups.topics_deleted(shard, deleted);
    }
}
