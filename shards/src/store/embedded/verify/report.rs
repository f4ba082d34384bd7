//! What a look through a data directory says.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::store::embedded::limits::VERIFY_FINDINGS;

/// Something that is not as it should be, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// The byte in it where it is, if it is at one.
    pub position: Option<u64>,
    /// What it is.
    pub what: String,
}

/// Findings in the order in which they were made. The first [`VERIFY_FINDINGS`] are kept, all are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    kept: Vec<Finding>,
    count: u64,
}

impl Findings {
    fn push(&mut self, path: &Path, position: Option<u64>, what: String) {
        self.count += 1;
        if self.kept.len() < VERIFY_FINDINGS {
            self.kept.push(Finding { path: path.to_path_buf(), position, what });
        }
    }

    /// Those that are kept.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// How many there are, kept or not.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// What a partition's log holds, as far as it can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Files of records.
    pub segments: u64,
    /// Batches that are whole.
    pub batches: u64,
    /// Records in those.
    pub records: u64,
    /// Bytes in the files of records.
    pub bytes: u64,
}

impl Holdings {
    pub(super) fn add(&mut self, other: Holdings) {
        self.segments += other.segments;
        self.batches += other.batches;
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicReport {
    /// Its name; of a topic outside of stream `kafka`, `stream/name`.
    pub name: String,
    /// Its id, which is the name of its directory.
    pub id: Uuid,
    /// How many partitions the catalogue says it has.
    pub partitions: i32,
    /// All of them together.
    pub holds: Holdings,
    /// How much damage there is in it.
    pub damage: u64,
}

/// The groups and committed offsets of one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoordinatorReport {
    /// The shard.
    pub shard: u16,
    /// Files that count: a snapshot and those after it.
    pub files: u64,
    /// Records in them, those included that later ones replace.
    pub records: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// How much damage there is in them.
    pub damage: u64,
}

/// What MANIFEST says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestReport {
    /// Kafka's form of the cluster's id.
    pub cluster_id: String,
    /// How often the directory was opened, which is the newest leader epoch.
    pub starts: i32,
    /// The number of shards of the last start.
    pub shards: u16,
}

/// What a data directory holds and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// `None` when it cannot be read; then nothing else was looked at.
    pub manifest: Option<ManifestReport>,
    /// Records in the catalogue's log.
    pub catalogue_records: u64,
    /// The topics, oldest first.
    pub topics: Vec<TopicReport>,
    /// One for each shard of the last start.
    pub coordinators: Vec<CoordinatorReport>,
    /// What was written and is no more as it was written.
    pub damage: Findings,
    /// What a crash or a person left and the store gets along with.
    pub notes: Findings,
}

impl Report {
    /// Whether everything is as it was written.
    pub fn is_clean(&self) -> bool {
        self.damage.count == 0
    }

    pub(in crate::store::embedded) fn damage(&mut self, path: &Path, position: Option<u64>, what: impl Into<String>) {
        self.damage.push(path, position, what.into());
    }

    pub(in crate::store::embedded) fn note(&mut self, path: &Path, position: Option<u64>, what: impl Into<String>) {
        self.notes.push(path, position, what.into());
    }
}
