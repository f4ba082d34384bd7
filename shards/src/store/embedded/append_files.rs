//! Appending to a row of files through [`GroupCommit`]: one write and one sync out at a time, as jobs; or both as one job,
//! where nobody waits for the write alone ([`AppendFiles::syncing_with_writes`]).
//!
//! What must stay true: a file is synced before anything is written to its successor. So every file but
//! the last is whole, and what is missing there is damage and not the trace of a crash. And a file is never
//! synced twice at once: the kernel tells of a failure only once, and the other one would be told that
//! all is well.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::files::{File, Files, Open, parent};
use super::group_commit::GroupCommit;
use super::limits::UNSYNCED_BYTES;
use crate::file_times::JobKind;

/// What is appended at once.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Whole frames.
    pub(crate) bytes: Bytes,
    /// The file that begins with this chunk, if one does.
    pub(crate) starts: Option<PathBuf>,
}

/// The file that is written to.
#[derive(Clone)]
pub(crate) struct Last {
    pub(crate) file: Arc<dyn File>,
    pub(crate) end: u64,
}

/// See the module's documentation.
pub(crate) struct AppendFiles {
    files: Arc<dyn Files>,
    commit: GroupCommit<Chunk>,
    last: Last,
    /// The next write goes on in another file.
    gathered_start: bool,
    writing_start: bool,
    sync_out: bool,
    /// A write whose sync is wanted takes it along.
    syncs_with_writes: bool,
    /// The write that is out syncs, too.
    writing_syncs: bool,
    unsynced: u64,
    /// What `unsynced` was when the sync began that is out.
    syncing: u64,
    failure: Option<String>,
}

/// Work on the files of one log.
pub(crate) enum FileJob {
    /// Writes.
    Write(WriteJob),
    /// Syncs.
    Sync(SyncJob),
}

pub(crate) struct WriteJob {
    files: Arc<dyn Files>,
    last: Last,
    chunks: Vec<Chunk>,
    syncs: bool,
}

pub(crate) struct SyncJob {
    file: Arc<dyn File>,
}

/// How it went.
pub(crate) enum FileDone {
    Written(io::Result<Written>),
    Synced(io::Result<()>),
}

/// A write that went well.
pub(crate) struct Written {
    /// The file that is written to now.
    last: Last,
    bytes: u64,
    took: Duration,
    /// How the sync went that it took along.
    synced: Option<io::Result<()>>,
}

impl AppendFiles {
    /// Goes on behind `last`, all of which is on disk; `end` is that of the last item in it.
    pub(crate) fn new(files: Arc<dyn Files>, last: Last, end: u64) -> AppendFiles {
        AppendFiles {
            files,
            commit: GroupCommit::new(end),
            last,
            gathered_start: false,
            writing_start: false,
            sync_out: false,
            syncs_with_writes: false,
            writing_syncs: false,
            unsynced: 0,
            syncing: 0,
            failure: None,
        }
    }

    /// Writes and syncs in one job where a sync is wanted, which spares a shard's turn and a thread's wake-up between the
    /// two. For logs whose appends all wait for the disk: one that waits for the write alone would wait for the sync
    /// before its own.
    pub(crate) fn syncing_with_writes(self) -> AppendFiles {
        AppendFiles { syncs_with_writes: true, ..self }
    }

    pub(crate) fn push(&mut self, chunk: Chunk, end: u64) {
        self.gathered_start |= chunk.starts.is_some();
        self.commit.push(chunk, end);
    }

    pub(crate) fn request_sync(&mut self) {
        self.commit.request_sync();
    }

    pub(crate) fn pushed(&self) -> u64 {
        self.commit.pushed()
    }

    pub(crate) fn written(&self) -> u64 {
        self.commit.written()
    }

    pub(crate) fn synced(&self) -> u64 {
        self.commit.synced()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why it is closed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Something else failed that this log depends on.
    pub(crate) fn close(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    pub(crate) fn poll_job(&mut self) -> Option<FileJob> {
        if self.failure.is_some() {
            return None;
        }
        let must_wait = self.gathered_start && self.sync_out;
        if !must_wait && let Some(chunks) = self.commit.start_write() {
            self.writing_start = std::mem::take(&mut self.gathered_start);
            let syncs = self.syncs_with_writes && !self.sync_out && self.commit.is_sync_wanted();
            self.writing_syncs = syncs;
            return Some(FileJob::Write(WriteJob {
                files: self.files.clone(),
                last: self.last.clone(),
                chunks,
                syncs,
            }));
        }
        if self.unsynced > UNSYNCED_BYTES {
            self.commit.request_sync();
        }
        if !self.writing_start && !self.writing_syncs && self.commit.start_sync() {
            self.sync_out = true;
            self.syncing = self.unsynced;
            return Some(FileJob::Sync(SyncJob { file: self.last.file.clone() }));
        }
        None
    }

    pub(crate) fn handle_done(&mut self, done: FileDone) {
        match done {
            FileDone::Written(result) => {
                (self.writing_start, self.writing_syncs) = (false, false);
                self.commit.handle_written(result.is_ok() && self.failure.is_none());
                match result {
                    Ok(written) => {
                        self.last = written.last;
                        self.unsynced += written.bytes;
                        if let Some(synced) = written.synced {
                            self.syncing = self.unsynced;
                            // It began when the write was done. A closed log gives out none.
                            if self.commit.start_sync() {
                                self.handle_synced(synced);
                            }
                        }
                    }
                    Err(error) => self.close(format!("a write failed: {error}")),
                }
            }
            FileDone::Synced(result) => {
                self.sync_out = false;
                self.handle_synced(result);
            }
        }
    }

    fn handle_synced(&mut self, result: io::Result<()>) {
        self.commit.handle_synced(result.is_ok() && self.failure.is_none());
        match result {
            Ok(()) => self.unsynced -= std::mem::take(&mut self.syncing),
            Err(error) => self.close(format!("a sync failed: {error}")),
        }
    }
}

impl FileDone {
    /// How long the write took of a job that also synced.
    pub(crate) fn wrote_for(&self) -> Option<Duration> {
        match self {
            FileDone::Written(Ok(written)) if written.synced.is_some() => Some(written.took),
            _ => None,
        }
    }
}

impl FileJob {
    pub(crate) fn kind(&self) -> JobKind {
        match self {
            FileJob::Write(job) => JobKind::Append(job.chunks.len()),
            FileJob::Sync(_) => JobKind::Sync,
        }
    }

    pub(crate) fn run(self) -> FileDone {
        match self {
            FileJob::Write(job) => FileDone::Written(job.run()),
            FileJob::Sync(job) => FileDone::Synced(job.file.sync()),
        }
    }
}

impl WriteJob {
    fn run(self) -> io::Result<Written> {
        let WriteJob { files, mut last, chunks, syncs } = self;
        let began = Instant::now();
        let mut written = 0;
        let mut buffers = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            if let Some(path) = chunk.starts {
                written += flush(&mut last, &mut buffers)?;
                last.file.sync()?;
                last = Last { file: files.open(&path, Open::Empty)?, end: 0 };
                files.sync_dir(parent(&path))?;
            }
            buffers.push(chunk.bytes);
        }
        written += flush(&mut last, &mut buffers)?;
        let took = began.elapsed();
        let synced = syncs.then(|| last.file.sync());
        Ok(Written { last, bytes: written, took, synced })
    }
}

fn flush(last: &mut Last, buffers: &mut Vec<Bytes>) -> io::Result<u64> {
    let bytes: u64 = buffers.iter().map(|b| b.len() as u64).sum();
    if bytes > 0 {
        last.file.write_at(last.end, buffers)?;
        last.end += bytes;
    }
    buffers.clear();
    Ok(bytes)
}
