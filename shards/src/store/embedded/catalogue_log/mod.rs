//! The log of the catalogue: what streams, topics and consumer groups of topics there are. One file of frames,
//! replayed at start and written anew then when most of it is of the past; so it is when an older format's topics get their numbers.

mod record;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::append_files::{AppendFiles, Chunk, FileDone, FileJob, Last};
use super::files::{Files, Open, damaged, parent};
use super::frame::{Scanner, Step, Tail};
use crate::catalogue::Catalogue;
use crate::file_times::{JobKind, LogKind};
use crate::log_driver::JobLog;
pub use record::CatalogueRecord;

/// What a replay found.
pub(super) struct Replayed {
    pub(super) log: CatalogueLog,
    /// What there is.
    pub(super) catalogue: Catalogue,
    /// Records in the file.
    pub(super) records: usize,
}

/// The log of the catalogue. Positions count records.
pub struct CatalogueLog {
    appended: AppendFiles,
}

/// Blocking work on the catalogue's file.
pub struct Job(FileJob);

/// How a [`Job`] went.
pub struct JobDone(FileDone);

impl CatalogueLog {
    /// Replays the file, which exists. A torn tail is cut; damage is an error. Blocks.
    pub(super) fn open(files: Arc<dyn Files>, path: &Path) -> io::Result<Replayed> {
        let file = files.open(path, Open::Write)?;
        let len = file.len()?;
        let mut scanner = Scanner::new(file.clone(), 0, len);
        let mut catalogue = Catalogue::default();
        let mut records = 0;
        loop {
            match scanner.step()? {
                Step::End => break,
                Step::Frame(frame) => {
                    let record = CatalogueRecord::decode(&frame);
                    let record = record.ok_or_else(|| damaged(path, format!("no record at {}", frame.position)))?;
                    catalogue.apply(record);
                    records += 1;
                }
                Step::Broken(at) => {
                    if let Tail::Damaged { resumes_at } = scanner.tail()? {
                        return Err(damaged(path, format!("no frame at {at}, and whole ones from {resumes_at} on")));
                    }
                    tracing::warn!(path = %path.display(), at, bytes = len - at, "cut a torn tail");
                    file.truncate(at)?;
                    break;
                }
            }
        }
        // What a killed process wrote may not be on disk.
        file.sync()?;
        files.sync_dir(parent(path))?;
        let last = Last { file, end: scanner.position() };
        let log = CatalogueLog { appended: AppendFiles::new(files, last, records as u64).syncing_with_writes() };
        Ok(Replayed { log, catalogue, records })
    }

    /// Writes a file that says what there is. It is on disk when this returns. Blocks.
    pub(super) fn write(files: &dyn Files, path: &Path, catalogue: &Catalogue) -> io::Result<()> {
        let file = files.open(path, Open::Empty)?;
        let frames: Vec<Bytes> = catalogue.records().iter().map(CatalogueRecord::encode).collect();
        file.write_at(0, &frames)?;
        file.sync()?;
        files.sync_dir(parent(path))
    }

    /// Appends records; the position at which they are all durable. `Err` when the log is closed.
    pub fn append(&mut self, records: Vec<CatalogueRecord>) -> Result<u64, String> {
        if let Some(why) = self.appended.failure() {
            return Err(format!("the catalogue's log is closed until a restart: {why}"));
        }
        let mut end = self.appended.pushed();
        for record in records {
            end += 1;
            self.appended.push(Chunk { bytes: record.encode(), starts: None }, end);
        }
        Ok(end)
    }
}

impl JobLog for CatalogueLog {
    type Job = Job;
    type Done = JobDone;
    const KIND: LogKind = LogKind::Catalogue;

    fn kind(job: &Job) -> JobKind {
        job.0.kind()
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.appended.poll_job().map(Job)
    }

    fn run(job: Job) -> JobDone {
        JobDone(job.0.run())
    }

    fn wrote_for(done: &JobDone) -> Option<Duration> {
        done.0.wrote_for()
    }

    fn handle_done(&mut self, done: JobDone) {
        self.appended.handle_done(done.0);
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
