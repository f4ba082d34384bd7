//! The embedded engine: one copy on one disk, crash-safe.
//!
//! [`Engine::open`] takes a data directory to the point where shards can start: it locks it, counts the
//! start (which is the leader epoch of every partition in this run), replays the catalogue, and brings
//! groups and offsets into a layout for the number of shards at hand. Logs are values without I/O: they
//! give out blocking work as jobs, which the shard has done on file threads. What must stay true: what is
//! reported durable is on disk and found after any crash; nothing that was cut off by a crash is taken for
//! whole; a log whose write or sync failed takes nothing until it is opened again, and others go on.

mod append_files;
pub mod catalogue_log;
pub mod consumer_offsets;
pub mod coordinator_log;
pub mod data_dir;
pub mod files;
pub mod frame;
pub mod group_commit;
pub mod limits;
pub mod partition;
mod tail_cache;
pub mod verify;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ringgate_group::route::Route;
use uuid::Uuid;

use crate::call::{ConsumerKind, TopicPartition};
use crate::catalogue::{Catalogue, TopicGroups, kafka_since};
use crate::topic_config::TopicConfig;
use catalogue_log::CatalogueLog;
use consumer_offsets::{KINDS, OffsetsLog};
use coordinator_log::{CoordinatorLog, CoordinatorLogConfig, Describe, LogRecord};
use data_dir::{DataDir, FORMAT, FORMAT_OF_STREAMS, Manifest, OpenError, TOPICS};
use files::Files;
use limits::{CATALOGUE_RECORDS, SEGMENT_BYTES};
use partition::{PartitionConfig, PartitionLog};

pub use tail_cache::TailCache;

/// How a data directory is opened.
#[derive(Clone, Copy)]
pub struct EngineConfig {
    /// The number of shards of this run, at least 1.
    pub shards: u16,
    /// Looks into the records of groups and offsets.
    pub describe: Describe,
    /// What partitions have where their topic says nothing; `segment_bytes` and `segment_ms` are the topic's.
    pub partition: PartitionConfig,
    /// Sizes of the files of groups and offsets.
    pub coordinator: CoordinatorLogConfig,
}

impl EngineConfig {
    /// For this many shards, with the defaults of everything else.
    pub fn new(shards: u16, describe: Describe) -> EngineConfig {
        EngineConfig {
            shards,
            describe,
            partition: PartitionConfig::with_segment_bytes(SEGMENT_BYTES),
            coordinator: CoordinatorLogConfig::default(),
        }
    }
}

/// A data directory that is open and what is in it.
pub struct Opened {
    /// For all shards.
    pub engine: Engine,
    /// What each shard owns, in order.
    pub stores: Vec<ShardStore>,
    /// What the start changed.
    pub report: StartReport,
}

/// What a start changed, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReport {
    /// The directory was made.
    pub is_new: bool,
    /// Groups and offsets were brought from this many shards to the present number.
    pub switched_from_shards: Option<u16>,
    /// How many records of groups and offsets there are.
    pub coordinator_records: usize,
}

/// What one shard takes with it.
pub struct ShardStore {
    coordinator: CoordinatorLog,
    /// The controller's.
    catalogue: Option<CatalogueLog>,
}

impl ShardStore {
    /// The log of its groups and offsets, and on shard 0 the catalogue's.
    pub fn into_parts(self) -> (CoordinatorLog, Option<CatalogueLog>) {
        (self.coordinator, self.catalogue)
    }
}

/// An open data directory. Clones share it; it is unlocked when the last one goes.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    files: Arc<dyn Files>,
    dir: DataDir,
    cluster_id: String,
    leader_epoch: i32,
    catalogue: Arc<Catalogue>,
    partition: PartitionConfig,
    /// Topics whose directory has a lasting name, as far as this run has seen to it. Only file threads look.
    lasting: Mutex<HashSet<Uuid>>,
}

impl Engine {
    /// Opens a data directory, which is made if it does not exist. Blocks.
    pub fn open(files: Arc<dyn Files>, path: &Path, config: EngineConfig) -> Result<Opened, OpenError> {
        let (dir, old) = DataDir::open(&*files, path)?;
        let is_new = old.starts == 0;
        make_lasting(&*files, &dir.path().join(TOPICS))?;

        let mut manifest = Manifest { starts: old.starts.saturating_add(1), ..old.clone() };
        let (mut catalogue_log, catalogue) = replay_catalogue(&files, &dir, &mut manifest)?;
        let coordinators = if old.shards == config.shards {
            open_layout(&files, &dir.layout(old.layout), config.shards, &config)?
        } else {
            manifest.shards = config.shards;
            manifest.layout = old.layout + 1;
            write_layout(&files, &dir, &old, &manifest, &config)?;
            Vec::new()
        };
        dir.switch(&*files, &manifest)?;
        dir.sweep(&*files, &manifest)?;
        remove_deleted_topics(&*files, &dir, &catalogue)?;
        let coordinators = if coordinators.is_empty() {
            open_layout(&files, &dir.layout(manifest.layout), config.shards, &config)?
        } else {
            coordinators
        };

        let report = StartReport {
            is_new,
            switched_from_shards: (!is_new && old.shards != config.shards).then_some(old.shards),
            coordinator_records: coordinators.iter().map(CoordinatorLog::recovered_len).sum(),
        };
        let stores = coordinators
            .into_iter()
            .map(|coordinator| ShardStore { coordinator, catalogue: catalogue_log.take() })
            .collect();
        let engine = Engine {
            shared: Arc::new(Shared {
                files,
                dir,
                cluster_id: manifest.cluster_id,
                leader_epoch: manifest.starts,
                catalogue: Arc::new(catalogue.at_version(1)),
                partition: config.partition,
                lasting: Mutex::default(),
            }),
        };
        Ok(Opened { engine, stores, report })
    }

    /// Kafka's form of the cluster's id; the directory keeps it for ever.
    pub fn cluster_id(&self) -> &str {
        &self.shared.cluster_id
    }

    /// The epoch of every partition's leader in this run: how often the directory was opened. It is on
    /// disk.
    pub fn leader_epoch(&self) -> i32 {
        self.shared.leader_epoch
    }

    /// What there is as the start found it.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.shared.catalogue.clone()
    }

    fn lasting(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.shared.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partition_dir(&self, at: TopicPartition) -> (PathBuf, PathBuf) {
        let topic = self.shared.dir.path().join(TOPICS).join(at.topic.to_string());
        let partition = topic.join(at.partition.to_string());
        (topic, partition)
    }

    /// Blocking work: opens a partition's log, which is made if it does not exist.
    pub fn open_partition(
        &self,
        at: TopicPartition,
        config: &TopicConfig,
    ) -> impl FnOnce() -> io::Result<PartitionLog> + Send + use<> {
        let this = self.clone();
        let TopicConfig { segment_bytes, segment_ms, .. } = *config;
        let config = PartitionConfig { segment_bytes, segment_ms, ..self.shared.partition };
        move || {
            let files = &this.shared.files;
            let (topic, dir) = this.partition_dir(at);
            // Whoever put a checkpoint there had made the names of its directories lasting before.
            let is_lasting = files::list_if_there(&**files, &dir)?.iter().any(|e| e.name == partition::CHECKPOINT);
            if !is_lasting {
                if !this.lasting().contains(&at.topic) {
                    make_lasting(&**files, &topic)?;
                    this.lasting().insert(at.topic);
                }
                make_lasting(&**files, &dir)?;
            }
            let (log, found) = PartitionLog::open(files.clone(), dir, config, this.leader_epoch(), now_ms())?;
            if found.cut_bytes > 0 {
                tracing::warn!(topic = %at.topic, partition = at.partition, ?found, "the partition lost an unfinished write");
            }
            Ok(log)
        }
    }

    fn offsets_dir(&self, at: TopicPartition, kind: ConsumerKind) -> PathBuf {
        let name = KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, name)| name);
        self.partition_dir(at).1.join(consumer_offsets::OFFSETS).join(name)
    }

    /// The log of a partition's offsets of a kind in which nothing was stored yet.
    pub fn new_offsets(&self, at: TopicPartition, kind: ConsumerKind) -> OffsetsLog {
        OffsetsLog::empty(self.shared.files.clone(), self.offsets_dir(at, kind))
    }

    /// Blocking work: opens the logs of a partition's offsets that there are, by kind. Offsets of groups that are no
    /// more go. A log that cannot be opened takes nothing; the others go on.
    pub fn open_offsets(
        &self,
        at: TopicPartition,
        groups: &TopicGroups,
    ) -> impl FnOnce() -> [Option<OffsetsLog>; 3] + Send + use<> {
        let (this, groups) = (self.clone(), groups.clone());
        move || {
            KINDS.map(|(kind, _)| {
                let dir = this.offsets_dir(at, kind);
                let wanted = |id| kind == ConsumerKind::Consumer || groups.get(id).is_some();
                OffsetsLog::open(&this.shared.files, &dir, wanted).unwrap_or_else(|error| {
                    tracing::error!(topic = %at.topic, partition = at.partition, ?kind, %error, "offsets of consumers cannot be read");
                    Some(OffsetsLog::closed(this.shared.files.clone(), dir, error.to_string()))
                })
            })
        }
    }

    /// Blocking work: removes the files of a partition whose topic the catalogue's log has no more. What a
    /// crash leaves of them goes at the next start.
    pub fn remove_partition(&self, at: TopicPartition) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let this = self.clone();
        move || {
            let files = &*this.shared.files;
            let (topic, dir) = this.partition_dir(at);
            let away = topic.join(format!("{}.deleted", at.partition));
            match files.rename(&dir, &away) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            files::remove_tree(files, &away)?;
            // The last one takes the topic's directory along.
            this.lasting().remove(&at.topic);
            match files.remove_dir(&topic) {
                Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                    Err(error)
                }
                _ => Ok(()),
            }
        }
    }
}

/// Makes a directory whose parent exists, with a lasting name.
fn make_lasting(files: &dyn Files, dir: &Path) -> io::Result<()> {
    files.create_dir(dir)?;
    files.sync_dir(files::parent(dir))
}

/// Replays the catalogue's file; writes it anew when there is none, or most of it is of the past, or an older format
/// wrote it, which counts from the switch of the manifest on.
fn replay_catalogue(
    files: &Arc<dyn Files>,
    dir: &DataDir,
    manifest: &mut Manifest,
) -> io::Result<(Option<CatalogueLog>, Catalogue)> {
    let mut catalogue = Catalogue::default();
    if manifest.catalogue > 0 {
        let replayed = CatalogueLog::open(files.clone(), &dir.catalogue(manifest.catalogue))?;
        catalogue = replayed.catalogue;
        let is_short = replayed.records <= CATALOGUE_RECORDS || replayed.records <= 2 * catalogue.records().len();
        if is_short && manifest.format == FORMAT {
            return Ok((Some(replayed.log), catalogue));
        }
    }
    if manifest.catalogue == 0 || manifest.format < FORMAT_OF_STREAMS {
        let first_topic_ms = catalogue.in_order().first().map(|topic| topic.created_at_ms);
        catalogue.apply(kafka_since(first_topic_ms.unwrap_or_else(now_ms)));
    }
    manifest.format = FORMAT;
    manifest.catalogue += 1;
    let path = dir.catalogue(manifest.catalogue);
    CatalogueLog::write(&**files, &path, &catalogue)?;
    let replayed = CatalogueLog::open(files.clone(), &path)?;
    Ok((Some(replayed.log), catalogue))
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

fn shard_dir(layout: &Path, shard: u16) -> PathBuf {
    layout.join(format!("shard-{shard}"))
}

fn open_layout(
    files: &Arc<dyn Files>,
    layout: &Path,
    shards: u16,
    config: &EngineConfig,
) -> io::Result<Vec<CoordinatorLog>> {
    let open =
        |shard| CoordinatorLog::open(files.clone(), shard_dir(layout, shard), config.describe, config.coordinator);
    (0..shards).map(open).collect()
}

/// Writes the whole of the new layout, on disk. The old one stays as it is.
fn write_layout(
    files: &Arc<dyn Files>,
    dir: &DataDir,
    old: &Manifest,
    new: &Manifest,
    config: &EngineConfig,
) -> io::Result<()> {
    let route = Route::new(new.shards);
    let mut by_shard: Vec<Vec<LogRecord>> = (0..new.shards).map(|_| Vec::new()).collect();
    for mut log in open_layout(files, &dir.layout(old.layout), old.shards, config)? {
        for record in log.take_recovered() {
            let described = (config.describe)(record.kind, record.version, &record.payload);
            let described = described.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            by_shard[usize::from(route.group(described.group.as_str()).0)].push(record);
        }
    }
    let layout = dir.layout(new.layout);
    // What a start left that did not get as far as the switch.
    files::remove_tree(&**files, &layout)?;
    make_lasting(&**files, &layout)?;
    for (shard, records) in by_shard.iter().enumerate() {
        let dir = shard_dir(&layout, shard as u16);
        files.create_dir(&dir)?;
        CoordinatorLog::write(&**files, &dir, records.iter())?;
    }
    files.sync_dir(&layout)
}

/// Removes the partitions of topics that are no more.
fn remove_deleted_topics(files: &dyn Files, dir: &DataDir, catalogue: &Catalogue) -> io::Result<()> {
    let topics_dir = dir.path().join(TOPICS);
    let known: HashSet<String> = catalogue.all_topics().map(|t| t.id.to_string()).collect();
    for entry in files.list(&topics_dir)? {
        if entry.is_dir && !known.contains(&entry.name) {
            tracing::info!(topic = entry.name, "removing what is left of a deleted topic");
            files::remove_tree(files, &topics_dir.join(&entry.name))?;
        }
    }
    Ok(())
}
