//! The log of one shard's groups and committed offsets: numbered files of frames, and a snapshot that
//! stands for all files before its number.
//!
//! The log knows of a record only its key, whether it says that the key is gone, and whose group it is
//! ([`Describe`]). What must stay true: the last record of a key wins; a snapshot is made from closed
//! files alone, by a job, and put in place before they are removed; so whatever a crash leaves, one
//! snapshot and an unbroken row of files after it are there.

mod compaction;
pub(super) mod verify;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ringgate_group::Text;

use super::append_files::{AppendFiles, Chunk, FileDone, FileJob, Last};
use super::files::{self, Files, Open, damaged};
use super::frame::{self, Frame, Scanner, Step, Tail};
use super::limits::{COORDINATOR_FILE_BYTES, COORDINATOR_FILES};
use crate::file_times::LogKind;
use crate::log_driver::JobLog;
use compaction::{Compaction, CompactionDone};

/// A record as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// What it is about, 0 to 31.
    pub kind: u8,
    /// The version of its layout.
    pub version: u8,
    /// The record itself.
    pub payload: Bytes,
}

/// Records as they lie in the log, made by whatever thread: that copies and sums all their bytes.
#[derive(Debug, Clone, Default)]
pub struct FramedRecords {
    bytes: Bytes,
    count: u64,
}

impl From<Vec<LogRecord>> for FramedRecords {
    fn from(records: Vec<LogRecord>) -> FramedRecords {
        let mut bytes = BytesMut::with_capacity(records.iter().map(|r| r.payload.len() + frame::HEADER_BYTES).sum());
        for record in &records {
            frame::put(&mut bytes, record.frame_kind(), record.version, &record.payload);
        }
        FramedRecords { bytes: bytes.freeze(), count: records.len() as u64 }
    }
}

/// What the log must know of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordKey {
    /// Records with the same key replace each other.
    pub key: Bytes,
    /// The record says that what had this key is gone.
    pub is_tombstone: bool,
    /// The group it belongs to, whose owner keeps it.
    pub group: Text,
}

/// Looks into a record (kind, version, payload); `Err` says what is wrong with it.
pub type Describe = fn(u8, u8, &[u8]) -> Result<RecordKey, String>;

/// Sizes of the log's files.
#[derive(Debug, Clone, Copy)]
pub struct CoordinatorLogConfig {
    /// Bytes after which the log goes on in another file.
    pub file_bytes: u64,
    /// Closed files that make a snapshot worth while; their bytes must also be as many as the last
    /// snapshot's.
    pub files: usize,
}

impl Default for CoordinatorLogConfig {
    fn default() -> Self {
        CoordinatorLogConfig { file_bytes: COORDINATOR_FILE_BYTES, files: COORDINATOR_FILES }
    }
}

/// A file that is appended to no more.
struct Closed {
    number: u64,
    bytes: u64,
    /// It is whole and on disk once everything up to this position is written.
    after: u64,
}

/// The log. Positions count records.
pub struct CoordinatorLog {
    files: Arc<dyn Files>,
    dir: PathBuf,
    config: CoordinatorLogConfig,
    describe: Describe,
    appended: AppendFiles,
    number: u64,
    /// Bytes of the file with that number, written or not.
    bytes: u64,
    snapshot: Option<u64>,
    snapshot_bytes: u64,
    closed: Vec<Closed>,
    compacting: bool,
    recovered: Vec<LogRecord>,
}

/// Blocking work on the log's files.
pub struct Job(JobKind);

enum JobKind {
    File(FileJob),
    Compaction(Compaction),
}

/// How a [`Job`] went.
pub struct JobDone(DoneKind);

enum DoneKind {
    File(FileDone),
    Compaction(io::Result<CompactionDone>),
}

impl CoordinatorLog {
    /// Opens the log in `dir`, an existing directory of its own; makes it when nothing is there. A torn
    /// tail is cut; damage is an error. Blocks.
    pub(super) fn open(
        files: Arc<dyn Files>,
        dir: PathBuf,
        describe: Describe,
        config: CoordinatorLogConfig,
    ) -> io::Result<CoordinatorLog> {
        let mut numbers = Vec::new();
        let mut snapshot = None;
        for entry in files.list(&dir)? {
            let path = dir.join(&entry.name);
            if files::is_aside(&entry.name) {
                files.remove_file(&path)?;
            } else if let Some(number) = number_of(&entry.name, ".log") {
                numbers.push(number);
            } else if let Some(number) = number_of(&entry.name, ".snapshot") {
                // They are listed in order, and a newer one stands for all before it.
                if let Some(older) = snapshot.replace(number) {
                    files.remove_file(&snapshot_path(&dir, older))?;
                }
            }
        }
        let first = snapshot.unwrap_or(0);
        for number in numbers.extract_if(.., |n| *n < first) {
            files.remove_file(&log_path(&dir, number))?;
        }
        let mut live = Live::new(describe);
        let mut snapshot_bytes = 0;
        if let Some(number) = snapshot {
            snapshot_bytes = live.read_snapshot(&*files, &snapshot_path(&dir, number))?;
        }
        if numbers.is_empty() {
            numbers.push(first);
            files.open(&log_path(&dir, first), Open::Empty)?;
        }
        if let Some((nth, _)) = numbers.iter().enumerate().find(|(nth, n)| **n != first + *nth as u64) {
            return Err(damaged(&log_path(&dir, first + nth as u64), "it is missing"));
        }
        // A file that a killed process made may not have a lasting name.
        files.sync_dir(&dir)?;
        let number = first + numbers.len() as u64 - 1;
        let mut closed = Vec::new();
        for number in first..number {
            let path = log_path(&dir, number);
            let (_, bytes) = live.read(&*files, &path, false)?;
            closed.push(Closed { number, bytes, after: 0 });
        }
        let (file, bytes) = live.read(&*files, &log_path(&dir, number), true)?;
        file.sync()?;
        Ok(CoordinatorLog {
            appended: AppendFiles::new(files.clone(), Last { file, end: bytes }, 0).syncing_with_writes(),
            files,
            dir,
            config,
            describe,
            number,
            bytes,
            snapshot,
            snapshot_bytes,
            closed,
            compacting: false,
            recovered: live.into_records(),
        })
    }

    /// Writes a log that holds these records into an empty directory. It is on disk when this returns.
    /// Blocks.
    pub(super) fn write<'a>(
        files: &dyn Files,
        dir: &Path,
        records: impl Iterator<Item = &'a LogRecord>,
    ) -> io::Result<()> {
        compaction::write_snapshot(files, &snapshot_path(dir, 0), records.map(|r| Ok(r.frame())))?;
        Ok(())
    }

    /// What was found when the log was opened: the last record of each key that is not gone, oldest first.
    /// They are given away once.
    pub fn take_recovered(&mut self) -> Vec<LogRecord> {
        std::mem::take(&mut self.recovered)
    }

    /// How many [`CoordinatorLog::take_recovered`] would give.
    pub fn recovered_len(&self) -> usize {
        self.recovered.len()
    }

    /// Appends records; the position at which they are all durable. `Err` when the log is closed.
    pub fn append(&mut self, records: impl Into<FramedRecords>) -> Result<u64, String> {
        let FramedRecords { bytes, count } = records.into();
        if let Some(why) = self.appended.failure() {
            return Err(format!("the log of groups and offsets is closed until a restart: {why}"));
        }
        if count == 0 {
            return Ok(self.appended.pushed());
        }
        let end = self.appended.pushed() + count;
        let len = bytes.len() as u64;
        let mut starts = None;
        if self.bytes > 0 && self.bytes + len > self.config.file_bytes {
            // Once the first write to the next file is done this one is synced.
            self.closed.push(Closed { number: self.number, bytes: self.bytes, after: self.appended.pushed() + 1 });
            (self.number, self.bytes) = (self.number + 1, 0);
            starts = Some(log_path(&self.dir, self.number));
        }
        self.bytes += len;
        self.appended.push(Chunk { bytes, starts }, end);
        Ok(end)
    }

    /// A snapshot of the files that are closed, when that is worth while.
    fn compaction(&mut self) -> Option<Compaction> {
        if self.compacting || self.is_closed() {
            return None;
        }
        let written = self.appended.written();
        let ready = self.closed.iter().take_while(|c| c.after <= written).count();
        let bytes: u64 = self.closed[..ready].iter().map(|c| c.bytes).sum();
        if ready < self.config.files.max(1) || bytes < self.snapshot_bytes {
            return None;
        }
        self.compacting = true;
        Some(Compaction {
            files: self.files.clone(),
            dir: self.dir.clone(),
            describe: self.describe,
            snapshot: self.snapshot,
            logs: self.closed[..ready].iter().map(|c| c.number).collect(),
        })
    }
}

impl JobLog for CoordinatorLog {
    type Job = Job;
    type Done = JobDone;
    const KIND: LogKind = LogKind::Group;

    fn kind(job: &Job) -> crate::file_times::JobKind {
        match &job.0 {
            JobKind::File(job) => job.kind(),
            JobKind::Compaction(_) => crate::file_times::JobKind::Chore,
        }
    }

    fn poll_job(&mut self) -> Option<Job> {
        if let Some(job) = self.appended.poll_job() {
            return Some(Job(JobKind::File(job)));
        }
        self.compaction().map(|job| Job(JobKind::Compaction(job)))
    }

    fn run(job: Job) -> JobDone {
        JobDone(match job.0 {
            JobKind::File(job) => DoneKind::File(job.run()),
            JobKind::Compaction(job) => DoneKind::Compaction(job.run()),
        })
    }

    fn wrote_for(done: &JobDone) -> Option<Duration> {
        match &done.0 {
            DoneKind::File(done) => done.wrote_for(),
            DoneKind::Compaction(_) => None,
        }
    }

    fn handle_done(&mut self, done: JobDone) {
        match done.0 {
            DoneKind::File(done) => self.appended.handle_done(done),
            DoneKind::Compaction(result) => {
                self.compacting = false;
                match result {
                    Ok(done) => {
                        self.closed.retain(|c| c.number >= done.snapshot);
                        (self.snapshot, self.snapshot_bytes) = (Some(done.snapshot), done.bytes);
                    }
                    Err(error) => self.appended.close(format!("a snapshot failed: {error}")),
                }
            }
        }
    }

    fn request_sync(&mut self) {
        self.appended.request_sync();
    }

    fn written(&self) -> u64 {
        self.appended.written()
    }

    fn durable(&self) -> u64 {
        self.appended.synced()
    }

    fn is_closed(&self) -> bool {
        self.appended.is_closed()
    }
}

impl LogRecord {
    fn frame_kind(&self) -> u8 {
        debug_assert!(self.kind < frame::KIND_COORDINATOR, "coordinator records have few kinds");
        frame::KIND_COORDINATOR + self.kind
    }

    fn frame(&self) -> Bytes {
        frame::encode(self.frame_kind(), self.version, &self.payload)
    }

    fn of(frame: &Frame) -> Option<LogRecord> {
        let kind = frame.kind.checked_sub(frame::KIND_COORDINATOR)?;
        // The buffer that was scanned is much larger and goes.
        Some(LogRecord { kind, version: frame.version, payload: Bytes::copy_from_slice(&frame.payload) })
    }
}

/// The last record of each key.
struct Live {
    describe: Describe,
    /// `None`: replaced or gone.
    records: Vec<Option<LogRecord>>,
    by_key: HashMap<Bytes, usize>,
}

impl Live {
    fn new(describe: Describe) -> Live {
        Live { describe, records: Vec::new(), by_key: HashMap::new() }
    }

    fn apply(&mut self, path: &Path, frame: &Frame) -> io::Result<()> {
        let at = frame.position;
        let record = LogRecord::of(frame).ok_or_else(|| damaged(path, format!("no record at {at}")))?;
        let described = (self.describe)(record.kind, record.version, &record.payload);
        let described = described.map_err(|error| damaged(path, format!("the record at {at}: {error}")))?;
        let before = if described.is_tombstone {
            self.by_key.remove(&described.key)
        } else {
            self.records.push(Some(record));
            self.by_key.insert(described.key, self.records.len() - 1)
        };
        if let Some(before) = before {
            self.records[before] = None;
        }
        Ok(())
    }

    fn read_snapshot(&mut self, files: &dyn Files, path: &Path) -> io::Result<u64> {
        compaction::read_snapshot(files, path, |frame| self.apply(path, frame))
    }

    /// The bytes of the file that are good.
    fn read(&mut self, files: &dyn Files, path: &Path, is_last: bool) -> io::Result<(Arc<dyn files::File>, u64)> {
        let file = files.open(path, Open::Write)?;
        let len = file.len()?;
        let mut scanner = Scanner::new(file.clone(), 0, len);
        loop {
            match scanner.step()? {
                Step::End => return Ok((file, len)),
                Step::Frame(frame) => self.apply(path, &frame)?,
                Step::Broken(at) => {
                    match (is_last, scanner.tail()?) {
                        (true, Tail::Torn) => {}
                        (true, Tail::Damaged { resumes_at }) => {
                            return Err(damaged(
                                path,
                                format!("no frame at {at}, and whole ones from {resumes_at} on"),
                            ));
                        }
                        (false, _) => return Err(damaged(path, format!("no frame at {at}"))),
                    }
                    tracing::warn!(path = %path.display(), at, bytes = len - at, "cut a torn tail");
                    file.truncate(at)?;
                    return Ok((file, at));
                }
            }
        }
    }

    fn into_records(self) -> Vec<LogRecord> {
        self.records.into_iter().flatten().collect()
    }
}

fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.log"))
}

fn snapshot_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.snapshot"))
}

fn number_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}
