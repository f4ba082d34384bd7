//! A look through a data directory that no gateway uses: whether everything in it is as it was written.
//!
//! [`verify`] reads MANIFEST, the catalogue, every log of groups and offsets and every partition from end to
//! end. What must stay true: it changes nothing (LOCK excepted, which then says who is there); what a start
//! would take for damage is damage here, and what a start would mend by itself (the torn tail of a crash,
//! leftovers) is a note; memory depends on neither the size of the directory nor on what damaged lengths
//! claim.

mod catalogue;
mod frames;
mod report;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringgate_group::route::Route;

pub(super) use frames::{Expected, Walked, walk};
pub use report::{CoordinatorReport, Finding, Findings, Holdings, ManifestReport, Report, TopicReport};

use super::coordinator_log::{self, Describe};
use super::data_dir::{DataDir, IGGY_ROOT_PASSWORD, MANIFEST, Manifest, OpenError, TOPICS};
use super::files::{self, Files, is_aside};
use super::{partition, shard_dir};
use crate::catalogue::{Catalogue, Topic};

/// Why a directory was not looked through.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is no such directory, or it cannot be listed.
    #[error("{} cannot be looked through: {error}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is nothing of ringgate's in it, or a first start did not get far enough to keep anything.
    #[error("{} has no MANIFEST: nothing of ringgate's is stored there", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// A gateway uses it, or a newer one wrote it.
    #[error(transparent)]
    Refused(#[from] OpenError),
}

/// Looks through the data directory at `path`. Blocks for as long as it takes to read all of it.
///
/// # Errors
/// It was not looked through; damage is no error but in the report.
pub fn verify(files: &dyn Files, path: &Path, describe: Describe) -> Result<Report, VerifyError> {
    let entries = files.list(path).map_err(|error| VerifyError::Unreadable { path: path.to_path_buf(), error })?;
    let has = |is: &dyn Fn(&str) -> bool| entries.iter().any(|entry| is(&entry.name));
    let is_ours = has(&|name| name == TOPICS || numbered(name).is_some());
    if !has(&|name| name == MANIFEST) && (!is_ours || DataDir::check_is_new(files, path).is_ok()) {
        return Err(VerifyError::NoStore { path: path.to_path_buf() });
    }
    let holder = format!("process {}, which verifies it", std::process::id());
    let _lock = match DataDir::lock(files, path, &holder) {
        // Nobody can write there, so nobody uses it.
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => None,
        other => Some(other?),
    };
    let mut report = Report::default();
    let manifest = match DataDir::manifest(files, path) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            report.damage(&path.join(MANIFEST), None, "it is missing, so nothing says what is current");
            return Ok(report);
        }
        Err(OpenError::Io(error)) => {
            report.damage(&path.join(MANIFEST), None, error.to_string());
            return Ok(report);
        }
        Err(refused) => return Err(refused.into()),
    };
    report.manifest = Some(ManifestReport {
        cluster_id: manifest.cluster_id.clone(),
        starts: manifest.starts,
        shards: manifest.shards,
    });
    let mut look = Look { files, path, manifest, report };
    look.top(&entries);
    let catalogue = look.catalogue();
    let catalogue = catalogue::verify(&mut look.report, files, &catalogue);
    look.coordinators(describe);
    look.topics(&catalogue);
    Ok(look.report)
}

/// The number in the name of a layout or a catalogue file.
fn numbered(name: &str) -> Option<u64> {
    let digits = match name.strip_prefix("layout-") {
        Some(digits) => digits,
        None => name.strip_prefix("catalogue-")?.strip_suffix(".log")?,
    };
    digits.parse().ok()
}

struct Look<'a> {
    files: &'a dyn Files,
    path: &'a Path,
    manifest: Manifest,
    report: Report,
}

impl Look<'_> {
    fn catalogue(&self) -> PathBuf {
        self.path.join(format!("catalogue-{}.log", self.manifest.catalogue))
    }

    fn layout(&self) -> PathBuf {
        self.path.join(format!("layout-{}", self.manifest.layout))
    }

    /// The names in the directory itself.
    fn top(&mut self, entries: &[files::Entry]) {
        let (catalogue, layout) = (self.catalogue(), self.layout());
        for entry in entries {
            let path = self.path.join(&entry.name);
            let is_known =
                matches!(entry.name.as_str(), "LOCK" | MANIFEST | TOPICS | IGGY_ROOT_PASSWORD | "lost+found");
            if is_known || path == catalogue || path == layout {
                continue;
            }
            let what = if numbered(&entry.name).is_some() {
                "MANIFEST does not name it: the next start removes it"
            } else if is_aside(&entry.name) {
                "left by a write that was not finished: the next start removes it"
            } else {
                "not a file of ringgate's"
            };
            self.report.note(&path, None, what);
        }
        if !entries.iter().any(|entry| entry.name == TOPICS) {
            self.report.damage(&self.path.join(TOPICS), None, "it is missing");
        }
    }

    /// Groups and offsets.
    fn coordinators(&mut self, describe: Describe) {
        let layout = self.layout();
        let route = Route::new(self.manifest.shards.max(1));
        for shard in 0..self.manifest.shards {
            let before = self.report.damage.count();
            let dir = shard_dir(&layout, shard);
            let belongs = |group: &str| route.group(group).0 == shard;
            let mut found = coordinator_log::verify::verify(&mut self.report, self.files, &dir, describe, belongs);
            found.shard = shard;
            found.damage = self.report.damage.count() - before;
            self.report.coordinators.push(found);
        }
        for entry in files::list_if_there(self.files, &layout).unwrap_or_default() {
            let path = layout.join(&entry.name);
            let is_shard = (0..self.manifest.shards).any(|shard| path == shard_dir(&layout, shard));
            if !is_shard {
                self.report.note(&path, None, "not a file of ringgate's");
            }
        }
    }

    /// Every partition of every topic, and directories that belong to none.
    fn topics(&mut self, catalogue: &Catalogue) {
        let dir = self.path.join(TOPICS);
        let topics = catalogue.in_order();
        let mut by_dir: HashMap<String, &Arc<Topic>> = topics.iter().map(|t| (t.id.to_string(), *t)).collect();
        for topic in topics {
            let before = self.report.damage.count();
            let mut holds = Holdings::default();
            let topic_dir = dir.join(topic.id.to_string());
            for partition in 0..topic.partitions {
                let dir = topic_dir.join(partition.to_string());
                let starts = self.manifest.starts;
                holds.add(partition::verify::verify(&mut self.report, self.files, &dir, starts));
            }
            self.strangers(topic, &topic_dir);
            self.report.topics.push(TopicReport {
                name: topic.routed_by.to_string(),
                id: topic.id,
                partitions: topic.partitions,
                holds,
                damage: self.report.damage.count() - before,
            });
        }
        for entry in files::list_if_there(self.files, &dir).unwrap_or_default() {
            if by_dir.remove(&entry.name).is_none() {
                let what = match entry.is_dir {
                    true => "of no topic in the catalogue: the next start removes it",
                    false => "not a file of ringgate's",
                };
                self.report.note(&dir.join(&entry.name), None, what);
            }
        }
    }

    /// What a topic's directory holds besides its partitions.
    fn strangers(&mut self, topic: &Topic, dir: &Path) {
        let entries = match files::list_if_there(self.files, dir) {
            Ok(entries) => entries,
            // Said of each of its partitions.
            Err(_) => return,
        };
        for entry in entries {
            let partition = entry.name.parse::<i32>().ok().filter(|p| p.to_string() == entry.name);
            if !entry.is_dir || partition.is_none_or(|p| topic.partition(p).is_none()) {
                self.report.note(&dir.join(&entry.name), None, "not a partition of its topic");
            }
        }
    }
}
