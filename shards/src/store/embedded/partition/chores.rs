//! Work beside the appends: checkpoints, the index files of segments, and the removal of segments before
//! the log start.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::segment::{self, ENTRY_BYTES, Index, Segment};
use super::{OffsetOutOfRange, PartitionLog, checkpoint};
use crate::store::embedded::files::{self, Files, Open};

/// Puts a checkpoint in place.
pub(super) struct Chore {
    /// May be done once everything before this offset is written,
    pub(super) written: i64,
    /// and everything before this one is on disk: so that what the checkpoint says is true. It does not
    /// sync by itself, since a sync that failed before would not be noticed.
    pub(super) synced: i64,
    files: Arc<dyn Files>,
    dir: PathBuf,
    indexes: Vec<IndexWrite>,
    checkpoint: Bytes,
    log_start_offset: i64,
    /// The file of a segment that nothing was appended to yet: a start expects all that the checkpoint names.
    begins: Option<PathBuf>,
    /// Base offsets of segments that the checkpoint has no more.
    remove: Vec<i64>,
}

/// Entries that go into an index file.
struct IndexWrite {
    base_offset: i64,
    position: u64,
    entries: Bytes,
}

/// How it went.
pub(super) struct ChoreDone {
    pub(super) result: io::Result<()>,
    pub(super) log_start_offset: i64,
}

impl Chore {
    pub(super) fn run(self) -> ChoreDone {
        ChoreDone { log_start_offset: self.log_start_offset, result: self.carry_out() }
    }

    fn carry_out(self) -> io::Result<()> {
        for index in self.indexes {
            write_index(
                &*self.files,
                &segment::index_path(&self.dir, index.base_offset),
                index.position,
                index.entries,
            )?;
        }
        if let Some(path) = &self.begins {
            // An append may have made it meanwhile, and keeps what it wrote.
            self.files.open(path, Open::Create)?;
            self.files.sync_dir(&self.dir)?;
        }
        files::replace(&*self.files, &self.dir.join(checkpoint::NAME), self.checkpoint)?;
        for base_offset in self.remove {
            for path in [segment::log_path(&self.dir, base_offset), segment::index_path(&self.dir, base_offset)] {
                match self.files.remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn write_index(files: &dyn Files, path: &std::path::Path, position: u64, entries: Bytes) -> io::Result<()> {
    let file = files.open(path, if position == 0 { Open::Empty } else { Open::Create })?;
    file.write_at(position, &[entries])?;
    file.sync()
}

impl PartitionLog {
    /// Notes a checkpoint of the log as it is now, to be put in place once all of it is written.
    pub(super) fn capture_checkpoint(&mut self) {
        let mut indexes = Vec::new();
        for segment in &mut self.segments {
            let base_offset = segment.base_offset;
            if let Index::Memory { entries, flushed } = &mut segment.index
                && entries.len() > *flushed
            {
                let position = (*flushed * ENTRY_BYTES) as u64;
                indexes.push(IndexWrite {
                    base_offset,
                    position,
                    entries: segment::encode_entries(&entries[*flushed..]),
                });
                *flushed = entries.len();
            }
        }
        self.chores.push_back(Chore {
            written: self.end_offset,
            synced: self.end_offset,
            files: self.files.clone(),
            dir: self.dir.clone(),
            indexes,
            checkpoint: checkpoint::encode(self.log_start_offset, &self.segments, &self.epochs, &self.producers),
            log_start_offset: self.log_start_offset,
            begins: None,
            remove: Vec::new(),
        });
        self.appended.request_sync();
        self.since_checkpoint = 0;
        self.checkpointed = (self.end_offset, self.log_start_offset);
    }

    /// Records before `offset` are gone (Kafka's DeleteRecords); segments wholly before it are removed.
    /// It is on disk when [`PartitionLog::durable_log_start_offset`] has come that far.
    pub fn advance_log_start(&mut self, offset: i64) -> Result<(), OffsetOutOfRange> {
        let (log_start_offset, high_watermark) = (self.log_start_offset, self.high_watermark());
        if offset > high_watermark {
            return Err(OffsetOutOfRange { offset, log_start_offset, high_watermark });
        }
        if offset <= log_start_offset || self.is_closed() {
            return Ok(());
        }
        self.advance_to(offset, None);
        Ok(())
    }

    /// Moves the log start to an offset that is written. `begins` is the file of a segment that was begun
    /// without an append.
    fn advance_to(&mut self, offset: i64, begins: Option<PathBuf>) {
        self.log_start_offset = offset;
        self.epochs.forget_before(offset);
        let gone = self.segments[..self.segments.len() - 1].partition_point(|s| s.end_offset <= offset);
        let remove = self.segments.drain(..gone).map(|s: Segment| s.base_offset).collect();
        self.capture_checkpoint();
        if let Some(chore) = self.chores.back_mut() {
            chore.remove = remove;
            chore.begins = begins;
        }
        let stale = self.cache.partition_point(|c| c.last_offset < offset);
        let bytes = self.cache.range(..stale).map(|c| c.batch.len()).sum();
        self.trim_cache(bytes);
    }

    /// Removes the oldest segments, at most so many and never the one that is appended to nor one that is not
    /// written whole (Iggy's DeleteSegments). The log start then.
    pub fn delete_segments(&mut self, count: usize) -> i64 {
        if !self.is_closed() {
            let closed = &self.segments[..self.segments.len() - 1];
            let whole = closed.iter().take(count).take_while(|segment| segment.written == segment.size);
            if let Some(end) = whole.last().map(|segment| segment.end_offset) {
                self.advance_to(end.max(self.log_start_offset), None);
            }
        }
        self.log_start_offset
    }

    /// Forgets idempotent producers that were idle for too long, which else happens at the next append of one;
    /// says how many.
    pub fn expire_producers(&mut self, now_ms: i64) -> usize {
        self.producers.expire(now_ms)
    }

    /// Removes the oldest segments as long as their newest record is older than `retention_ms`, or as those
    /// behind them have `retention_bytes` or more; -1 means no bound. The last segment goes as well when all
    /// of it has to: appends then begin another (Kafka's rule). The age of a segment without a single timestamp
    /// is that of its last append. Says how many went.
    pub fn apply_retention(&mut self, now_ms: i64, retention_ms: i64, retention_bytes: i64) -> usize {
        if self.is_closed() {
            return 0;
        }
        let mut excess = match u64::try_from(retention_bytes) {
            Ok(most) => self.size().saturating_sub(most),
            Err(_) => 0,
        };
        let mut gone = 0;
        for segment in &self.segments {
            let over = excess >= segment.size && excess > 0;
            let oldest = now_ms.saturating_sub(retention_ms);
            let old = retention_ms >= 0 && segment.newest_ms() < oldest;
            if segment.size == 0 || segment.written < segment.size || !(over || old) {
                break;
            }
            excess = excess.saturating_sub(segment.size);
            gone += 1;
        }
        if gone == 0 {
            return 0;
        }
        let begins = (gone == self.segments.len()).then(|| {
            self.segments.push(Segment::new(self.end_offset));
            self.starts_file = true;
            segment::log_path(&self.dir, self.end_offset)
        });
        let start = self.segments[gone].base_offset;
        self.advance_to(start, begins);
        gone
    }
}
