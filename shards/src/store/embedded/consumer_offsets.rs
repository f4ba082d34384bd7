//! The offsets that Iggy's consumers of one kind keep in one partition: a file of records in a directory of its own,
//! `offsets/<kind>/offsets.log`, and what it comes to in memory.
//!
//! A value without I/O, like the other logs. At most one job is out: it writes what has gathered and, when somebody
//! asked for it, syncs it, so that many stores share one sync. What must stay true: a value is kept as it was sent
//! and compared with nothing; memory never runs ahead of the file; a file that is mostly of the past is replaced
//! whole; a failed write or sync closes the log until a start. No file is open between two jobs: a partition counts
//! as one open file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::files::{self, Files, Open, damaged, is_aside, parent};
use super::frame::{self, Frame, Scanner, Step, Tail};
use super::limits::{CONSUMER_OFFSETS_MAX, CONSUMER_OFFSETS_PAST};
use super::verify::{Expected, Report, walk};
use crate::call::ConsumerKind;
use crate::file_times::{JobKind, LogKind};
use crate::log_driver::JobLog;

/// The directory of a partition's offsets.
pub(crate) const OFFSETS: &str = "offsets";
const FILE: &str = "offsets.log";
const VERSION: u8 = 1;

/// Every kind, with the name of its directory.
pub(crate) const KINDS: [(ConsumerKind, &str); 3] = [
    (ConsumerKind::Consumer, "consumers"),
    (ConsumerKind::Group, "groups"),
    (ConsumerKind::ExternalGroup, "external_groups"),
];

/// Why nothing was stored or deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffsetsError {
    /// There are as many consumers as a partition keeps.
    #[error("a partition keeps the offsets of at most {CONSUMER_OFFSETS_MAX} consumers of a kind")]
    Full,
    /// There is nothing to delete.
    #[error("the consumer has no offset stored")]
    NotFound,
    /// A write failed, or the file is damaged.
    #[error("the log of these offsets is closed until a restart: {0}")]
    Closed(String),
}

/// A change: a value, or its end.
type Change = (u32, Option<u64>);

/// See the module's documentation. Positions count changes of this run.
pub struct OffsetsLog {
    files: Arc<dyn Files>,
    dir: PathBuf,
    stored: HashMap<u32, u64>,
    /// Changes that are not stored yet: the newest of each key, with its position.
    pending: HashMap<u32, (Option<u64>, u64)>,
    /// Keys that there are once all that is pending is stored.
    keys: usize,
    gathered: Vec<Change>,
    changed: u64,
    written: u64,
    durable: u64,
    sync_wanted: u64,
    /// Bytes and records of the file.
    end: u64,
    records: usize,
    /// The directory and the file have lasting names, as far as this run has seen to it.
    is_made: bool,
    is_out: bool,
    is_unreadable: bool,
    failure: Option<String>,
}

/// Blocking work on the file.
pub struct Job {
    files: Arc<dyn Files>,
    dir: PathBuf,
    what: What,
    makes: bool,
    syncs: bool,
    changes: Vec<Change>,
    /// The position that is reached when it is done.
    position: u64,
}

enum What {
    Append { at: u64, frames: Bytes },
    Replace { content: Bytes, records: usize },
}

/// How a [`Job`] went.
pub struct JobDone {
    result: io::Result<()>,
    job: Job,
}

impl OffsetsLog {
    /// Where nothing was stored yet. `dir` is made with the first value, and with it the one above.
    pub(super) fn empty(files: Arc<dyn Files>, dir: PathBuf) -> OffsetsLog {
        OffsetsLog {
            files,
            dir,
            stored: HashMap::new(),
            pending: HashMap::new(),
            keys: 0,
            gathered: Vec::new(),
            changed: 0,
            written: 0,
            durable: 0,
            sync_wanted: 0,
            end: 0,
            records: 0,
            is_made: false,
            is_out: false,
            is_unreadable: false,
            failure: None,
        }
    }

    /// One that takes and says nothing, since its file cannot be read.
    pub(super) fn closed(files: Arc<dyn Files>, dir: PathBuf, why: String) -> OffsetsLog {
        OffsetsLog { failure: Some(why), is_unreadable: true, ..OffsetsLog::empty(files, dir) }
    }

    /// Opens the one in `dir`; `None` when nothing was stored there. Keys that are not `wanted` go, on disk. A torn
    /// tail is cut; damage is an error. Blocks.
    pub(super) fn open(
        files: &Arc<dyn Files>,
        dir: &Path,
        wanted: impl Fn(u32) -> bool,
    ) -> io::Result<Option<OffsetsLog>> {
        let entries = files::list_if_there(&**files, dir)?;
        for entry in entries.iter().filter(|entry| is_aside(&entry.name)) {
            files.remove_file(&dir.join(&entry.name))?;
        }
        if !entries.iter().any(|entry| entry.name == FILE) {
            return Ok(None);
        }
        let mut log = OffsetsLog::empty(files.clone(), dir.to_path_buf());
        let path = dir.join(FILE);
        let file = files.open(&path, Open::Write)?;
        let len = file.len()?;
        let mut scanner = Scanner::new(file.clone(), 0, len);
        loop {
            match scanner.step()? {
                Step::End => break,
                Step::Frame(frame) => {
                    let change = decode(&frame);
                    let change = change.ok_or_else(|| damaged(&path, format!("no offset at {}", frame.position)))?;
                    log.apply(change);
                    log.records += 1;
                }
                Step::Broken(at) => {
                    if let Tail::Damaged { resumes_at } = scanner.tail()? {
                        return Err(damaged(&path, format!("no frame at {at}, and whole ones from {resumes_at} on")));
                    }
                    tracing::warn!(path = %path.display(), at, bytes = len - at, "cut a torn tail");
                    file.truncate(at)?;
                    break;
                }
            }
        }
        log.end = scanner.position();
        let before = log.stored.len();
        log.stored.retain(|id, _| wanted(*id));
        log.keys = log.stored.len();
        // What a killed process wrote may not be on disk, nor the file's name.
        if log.keys < before {
            let content = encode(log.stored.iter().map(|(id, value)| (*id, Some(*value))));
            (log.end, log.records) = (content.len() as u64, log.keys);
            files::replace(&**files, &path, content)?;
        } else {
            file.sync()?;
        }
        make(&**files, dir)?;
        log.is_made = true;
        Ok(Some(log))
    }

    /// What is stored, also after a write has failed.
    ///
    /// # Errors
    /// [`OffsetsError::Closed`]: what is stored cannot be read.
    pub fn get(&self, id: u32) -> Result<Option<u64>, OffsetsError> {
        if self.is_unreadable {
            self.check_open()?;
        }
        Ok(self.stored.get(&id).copied())
    }

    /// Whether there is a value once all that is pending is stored.
    fn will_be_there(&self, id: u32) -> bool {
        self.pending.get(&id).map_or_else(|| self.stored.contains_key(&id), |(value, _)| value.is_some())
    }

    /// Stores a value; the position at which it is.
    pub fn store(&mut self, id: u32, value: u64) -> Result<u64, OffsetsError> {
        self.check_open()?;
        if !self.will_be_there(id) {
            if self.keys >= CONSUMER_OFFSETS_MAX {
                return Err(OffsetsError::Full);
            }
            self.keys += 1;
        }
        Ok(self.push(id, Some(value)))
    }

    /// Deletes a value; the position at which it is gone.
    pub fn delete(&mut self, id: u32) -> Result<u64, OffsetsError> {
        self.check_open()?;
        if !self.will_be_there(id) {
            return Err(OffsetsError::NotFound);
        }
        self.keys -= 1;
        Ok(self.push(id, None))
    }

    fn check_open(&self) -> Result<(), OffsetsError> {
        self.failure.as_ref().map_or(Ok(()), |why| Err(OffsetsError::Closed(why.clone())))
    }

    fn push(&mut self, id: u32, value: Option<u64>) -> u64 {
        self.changed += 1;
        self.gathered.push((id, value));
        self.pending.insert(id, (value, self.changed));
        self.changed
    }

    fn apply(&mut self, (id, value): Change) {
        match value {
            Some(value) => self.stored.insert(id, value),
            None => self.stored.remove(&id),
        };
    }

    fn job(&mut self) -> Option<Job> {
        let syncs = self.sync_wanted > self.durable;
        if self.is_out
            || self.failure.is_some()
            || (self.gathered.is_empty() && !(syncs && self.durable < self.written))
        {
            return None;
        }
        let changes = std::mem::take(&mut self.gathered);
        let records = self.records + changes.len();
        let what = if records > CONSUMER_OFFSETS_PAST + 2 * self.keys {
            // With what has gathered: the newest of each key is pending.
            let kept = self.stored.iter().filter(|(id, _)| !self.pending.contains_key(id));
            let kept = kept.map(|(id, value)| (*id, Some(*value)));
            let new =
                self.pending.iter().filter(|(_, (value, _))| value.is_some()).map(|(id, (value, _))| (*id, *value));
            What::Replace { content: encode(kept.chain(new)), records: self.keys }
        } else {
            What::Append { at: self.end, frames: encode(changes.iter().copied()) }
        };
        self.is_out = true;
        let (files, dir, makes, position) = (self.files.clone(), self.dir.clone(), !self.is_made, self.changed);
        Some(Job { files, dir, what, makes, syncs, changes, position })
    }

    fn done(&mut self, done: JobDone) {
        self.is_out = false;
        let job = done.job;
        if let Err(error) = done.result {
            self.failure.get_or_insert(format!("a write failed: {error}"));
            (self.pending, self.gathered) = (HashMap::new(), Vec::new());
            return;
        }
        match &job.what {
            What::Append { frames, .. } => {
                self.end += frames.len() as u64;
                self.records += job.changes.len();
            }
            What::Replace { content, records } => (self.end, self.records) = (content.len() as u64, *records),
        }
        self.is_made = true;
        job.changes.iter().for_each(|change| self.apply(*change));
        self.pending.retain(|_, (_, position)| *position > job.position);
        self.written = job.position;
        if job.syncs || matches!(job.what, What::Replace { .. }) {
            self.durable = job.position;
        }
    }
}

impl JobLog for OffsetsLog {
    type Job = Job;
    type Done = JobDone;
    const KIND: LogKind = LogKind::ConsumerOffset;

    fn kind(job: &Job) -> JobKind {
        match &job.what {
            What::Append { .. } if !job.syncs => JobKind::Append(job.changes.len()),
            What::Append { .. } => JobKind::Sync,
            What::Replace { .. } => JobKind::Chore,
        }
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.job()
    }

    fn run(job: Job) -> JobDone {
        JobDone { result: job.carry_out(), job }
    }

    fn handle_done(&mut self, done: JobDone) {
        self.done(done);
    }

    fn request_sync(&mut self) {
        self.sync_wanted = self.changed;
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn durable(&self) -> u64 {
        self.durable
    }

    fn is_closed(&self) -> bool {
        self.failure.is_some()
    }
}

impl Job {
    fn carry_out(&self) -> io::Result<()> {
        if self.makes {
            self.files.create_dir(parent(&self.dir))?;
            self.files.create_dir(&self.dir)?;
        }
        let path = self.dir.join(FILE);
        match &self.what {
            What::Replace { content, .. } => files::replace(&*self.files, &path, content.clone())?,
            What::Append { at, frames } => {
                let file = self.files.open(&path, Open::Create)?;
                if !frames.is_empty() {
                    file.write_at(*at, std::slice::from_ref(frames))?;
                }
                if self.syncs {
                    file.sync()?;
                }
            }
        }
        if self.makes { make(&*self.files, &self.dir) } else { Ok(()) }
    }
}

/// Makes the names of a file, of its directory and of the one above lasting.
fn make(files: &dyn Files, dir: &Path) -> io::Result<()> {
    files.sync_dir(dir)?;
    files.sync_dir(parent(dir))?;
    files.sync_dir(parent(parent(dir)))
}

fn encode(changes: impl Iterator<Item = Change>) -> Bytes {
    let mut out = BytesMut::new();
    for (id, value) in changes {
        let mut payload = [0; 13];
        let mut rest = &mut payload[..];
        rest.put_u32_le(id);
        rest.put_u8(u8::from(value.is_some()));
        rest.put_u64_le(value.unwrap_or(0));
        frame::put(&mut out, frame::KIND_CONSUMER_OFFSET, VERSION, &payload);
    }
    out.freeze()
}

fn decode(frame: &Frame) -> Option<Change> {
    if frame.kind != frame::KIND_CONSUMER_OFFSET || frame.version != VERSION {
        return None;
    }
    let mut from = &frame.payload[..];
    let (id, is_there, value) = (from.try_get_u32_le().ok()?, from.try_get_u8().ok()?, from.try_get_u64_le().ok()?);
    let change = match (is_there, value) {
        (1, value) => (id, Some(value)),
        (0, 0) => (id, None),
        _ => return None,
    };
    from.is_empty().then_some(change)
}

/// A look through a partition's directory of offsets that changes nothing.
pub(super) fn verify(report: &mut Report, files: &dyn Files, dir: &Path) {
    for entry in files::list_if_there(files, dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if !entry.is_dir || KINDS.iter().all(|(_, name)| *name != entry.name) {
            report.note(&path, None, "not a file of ringgate's");
            continue;
        }
        for entry in files::list_if_there(files, &path).unwrap_or_default() {
            let path = path.join(&entry.name);
            match entry.name.as_str() {
                FILE => {
                    walk(report, files, &path, Expected { lasting: 0, is_last: true }, |report, frame| {
                        if decode(frame).is_none() {
                            report.damage(&path, Some(frame.position), "not an offset of a consumer");
                        }
                    });
                }
                name if is_aside(name) => {
                    let what = "left by a write that was not finished: the next start removes it";
                    report.note(&path, None, what);
                }
                _ => report.note(&path, None, "not a file of ringgate's"),
            }
        }
    }
}
