//! What was there before: the one file that `--revert` goes by.
//!
//! It is replaced as a whole, by a rename, so that it is the one before or the one after at any moment. A lock beside
//! it keeps two doctors apart. Whoever may write it decides what root writes into the kernel; so as root it is read
//! only when nobody else could have written it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Outcome, Refused, Step, value};
use crate::open::own_file;

/// Where it is unless one says otherwise. Not in the gateway's own directory, which the gateway may write.
pub const DEFAULT_PATH: &str = "/var/lib/ringgate-doctor/journal.json";

/// The most bytes that are read: some thousand files.
const BYTES_MAX: u64 = 4 << 20;

const VERSION: u32 = 1;

/// The journal of one host, locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    lock: File,
    /// One for each file, in the order in which they were first changed.
    pub changes: Vec<Change>,
}

/// One file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Of the host.
    pub path: PathBuf,
    /// What it held before the first change.
    pub old: String,
    /// What a doctor last wrote or was about to write.
    pub new: String,
    /// All that doctors wrote or were about to write, and what the kernel made of it: whoever finds another value
    /// knows that somebody else was there.
    pub written: Vec<String>,
    /// When it was last written, in ms since the epoch.
    pub at_ms: u64,
    /// Which start of the kernel it was: the next one has forgotten it all.
    pub boot_id: String,
}

#[derive(Serialize, Deserialize)]
struct Content<C> {
    version: u32,
    changes: C,
}

impl Journal {
    /// Locks and reads it. One that is not there yet is empty; its directory is made, for root alone.
    ///
    /// # Errors
    /// Another process has it; it cannot be read, is not what a doctor wrote, or others may write it.
    pub fn open(path: &Path) -> Result<Journal, Refused> {
        let refused = |why: String| Refused::Journal { path: path.to_owned(), why };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
                refused(format!("cannot be kept: {}: {error}{}", directory.display(), hint(&error)))
            })?;
        }
        let lock_path = beside(path, ".lock");
        let lock =
            own_file().create(true).truncate(false).write(true).mode(0o600).open(&lock_path).map_err(|error| {
                refused(format!("cannot be locked: {}: {error}{}", lock_path.display(), hint(&error)))
            })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Refused::Locked(lock_path)),
            Err(TryLockError::Error(error)) => return Err(refused(format!("cannot be locked: {error}"))),
        }
        let changes = read(path).map_err(refused)?;
        Ok(Journal { path: path.to_owned(), lock, changes })
    }

    /// Takes down a step that is about to be made.
    pub(super) fn note(&mut self, step: &Step, boot_id: &str, now_ms: u64) {
        let Some(from) = &step.from else { return };
        match self.changes.iter_mut().find(|change| change.path == step.path) {
            // Still what a doctor left: the host's own value is the one that was there first.
            Some(change) if change.knows(from) => {
                change.add(&step.to);
                change.new = step.to.clone();
                change.at_ms = now_ms;
            }
            // Somebody else's by now, and that is what is to be given back.
            Some(change) => *change = Change::new(step, from, boot_id, now_ms),
            None => self.changes.push(Change::new(step, from, boot_id, now_ms)),
        }
    }

    /// Takes down what the kernel shows now that a step has been tried.
    pub(super) fn note_outcome(&mut self, step: &Step, shown: Option<&str>) {
        let (Outcome::Changed | Outcome::Failed(_), Some(shown)) = (&step.outcome, shown) else { return };
        let Some(at) = self.changes.iter().position(|change| change.path == step.path) else { return };
        let change = &mut self.changes[at];
        if value::same(shown, &change.old) {
            self.changes.remove(at);
        } else {
            change.add(shown);
        }
    }

    /// Puts it on disk; one without a change goes away.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self) -> Result<(), Refused> {
        self.put()
            .map_err(|error| Refused::Journal { path: self.path.clone(), why: format!("cannot be kept: {error}") })
    }

    fn put(&self) -> io::Result<()> {
        if self.changes.is_empty() {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        } else {
            let next = beside(&self.path, ".next");
            let mut file = own_file().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
            serde_json::to_writer_pretty(&mut file, &Content { version: VERSION, changes: &self.changes })?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&next, &self.path)?;
        }
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Told to the kernel, since closing is not enough: a child that another thread was just starting has the descriptor, too, until
/// it becomes the other program, and the lock lives as long.
impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Change {
    fn new(step: &Step, old: &str, boot_id: &str, now_ms: u64) -> Change {
        Change {
            path: step.path.clone(),
            old: old.to_owned(),
            new: step.to.clone(),
            written: vec![step.to.clone()],
            at_ms: now_ms,
            boot_id: boot_id.to_owned(),
        }
    }

    /// Whether a value is the one that was there first or one that a doctor wrote.
    pub(super) fn knows(&self, current: &str) -> bool {
        value::same(current, &self.old) || self.written.iter().any(|written| value::same(current, written))
    }

    fn add(&mut self, written: &str) {
        if !self.written.iter().any(|known| known == written) {
            self.written.push(written.to_owned());
        }
    }
}

fn read(path: &Path) -> Result<Vec<Change>, String> {
    let file = match own_file().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let metadata = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err("is not what a doctor wrote: move it away".into());
    }
    if rustix::process::geteuid().is_root() && (metadata.uid() != 0 || metadata.mode() & 0o022 != 0) {
        return Err("may have been written by somebody else than root: look at it, then `chown root` and `chmod 600` \
                    it, or move it away"
            .into());
    }
    let content: Content<Vec<Change>> = serde_json::from_reader(io::BufReader::new(file))
        .map_err(|error| format!("is not what a doctor wrote ({error}): move it away"))?;
    match content.version {
        VERSION => Ok(content.changes),
        version => Err(format!("has version {version}; this program knows {VERSION}")),
    }
}

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { " (run as root)" } else { "" }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_ends_with_the_journal_also_where_a_child_has_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.json");
        let journal = Journal::open(&path).unwrap();
        let of_the_child = journal.lock.try_clone().unwrap();
        assert!(matches!(Journal::open(&path), Err(Refused::Locked(_))));
        drop(journal);
        assert!(Journal::open(&path).is_ok());
        drop(of_the_child);
    }
}
