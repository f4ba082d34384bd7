//! Reads: from memory at the tail, otherwise by a job.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::PartitionLog;
use super::place::{self, Place};
use super::segment::{self, Goal, Start};
use crate::store::embedded::files::{Files, Open, damaged};
use crate::store::embedded::frame::{self, Scanner, Step};
use crate::store::embedded::limits::SCAN_CHUNK_BYTES;
use crate::store::stored::StoredBatch;

/// What a read comes to.
pub enum Read {
    /// Whole batches, the first of which holds the offset; nothing was copied.
    Cached(Vec<StoredBatch>),
    /// To be read from the files.
    Disk(ReadJob),
    /// Nothing can be read there yet, or the first batch is over the budget.
    Empty,
    /// The offset is before the log start or behind the end.
    OutOfRange,
}

/// A part of a segment that is to be read.
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) start: Start,
    pub(super) end: u64,
}

/// Reads batches from the files.
pub struct ReadJob {
    files: Arc<dyn Files>,
    parts: Vec<Part>,
    offset: i64,
    max_bytes: usize,
    at_least_one: bool,
}

impl PartitionLog {
    /// Reads whole batches from the one that holds `offset` on, up to the high watermark and `max_bytes`;
    /// with `at_least_one` the first one comes even when it is larger (KIP-74).
    pub fn read(&self, offset: i64, max_bytes: usize, at_least_one: bool) -> Read {
        let high_watermark = self.high_watermark();
        if offset < self.log_start_offset || offset > self.end_offset {
            return Read::OutOfRange;
        }
        if offset >= high_watermark || (max_bytes == 0 && !at_least_one) {
            return Read::Empty;
        }
        if self.cache.front().is_some_and(|c| c.base_offset <= offset) {
            let first = self.cache.partition_point(|c| c.last_offset < offset);
            let mut batches = Vec::new();
            let mut left = max_bytes;
            for cached in self.cache.range(first..).take_while(|c| c.base_offset < high_watermark) {
                let forced = at_least_one && batches.is_empty();
                if cached.batch.len() > left && !forced {
                    break;
                }
                left = left.saturating_sub(cached.batch.len());
                batches.push(cached.batch.clone());
            }
            return if batches.is_empty() { Read::Empty } else { Read::Cached(batches) };
        }
        let first = self.segments.partition_point(|s| s.base_offset <= offset).saturating_sub(1);
        let mut parts = Vec::new();
        let mut bytes = 0;
        for segment in self.segments[first..].iter().take_while(|s| s.written > 0) {
            let start = if parts.is_empty() { segment.start(&self.dir, Goal::Offset(offset)) } else { Start::At(0) };
            parts.push(Part { path: segment::log_path(&self.dir, segment.base_offset), start, end: segment.written });
            if parts.len() > 1 {
                bytes += segment.written;
            }
            if bytes >= max_bytes as u64 {
                break;
            }
        }
        Read::Disk(ReadJob { files: self.files.clone(), parts, offset, max_bytes, at_least_one })
    }
}

impl ReadJob {
    /// Reads whole batches without their frames, each found to be as it was written. Blocks.
    pub fn run(self) -> io::Result<Vec<StoredBatch>> {
        let mut batches = Vec::new();
        let mut left = self.max_bytes;
        for part in &self.parts {
            let mut scanner = part.open(&*self.files, Some(self.offset), left)?;
            loop {
                let forced = self.at_least_one && batches.is_empty();
                if scanner.next_len()?.is_some_and(|len| !batches.is_empty() && len > left + frame::HEADER_BYTES) {
                    return Ok(batches);
                }
                let Some((place, batch)) = part.next(&mut scanner)? else { break };
                if place.last_offset < self.offset {
                    continue;
                }
                if batches.is_empty() && place.base_offset > self.offset {
                    return Err(damaged(&part.path, format!("offset {} is missing", self.offset)));
                }
                if batch.len() > left && !forced {
                    return Ok(batches);
                }
                left = left.saturating_sub(batch.len());
                batches.push(batch);
            }
        }
        if batches.is_empty() {
            let path = self.parts.first().map(|p| p.path.clone()).unwrap_or_default();
            return Err(damaged(&path, format!("offset {} is missing", self.offset)));
        }
        Ok(batches)
    }
}

impl Part {
    /// A scanner at a frame that is not behind the goal: where the index says, if that is a frame (and,
    /// for an offset, not one behind it), otherwise the start.
    pub(super) fn open(&self, files: &dyn Files, offset: Option<i64>, budget: usize) -> io::Result<Scanner> {
        let file = files.open(&self.path, Open::Read)?;
        let chunk = budget.clamp(64 << 10, SCAN_CHUNK_BYTES);
        let scanner = |at| Scanner::new(file.clone(), at, self.end).with_chunk(chunk);
        let at = self.start.find(files);
        if at == 0 {
            return Ok(scanner(0));
        }
        let mut found = scanner(at);
        let right = match found.step()? {
            Step::Frame(frame) => match (place::of_frame(&frame), offset) {
                (Some((place, _)), Some(offset)) => place.base_offset <= offset,
                (found, _) => found.is_some(),
            },
            Step::End | Step::Broken(_) => false,
        };
        if right {
            found.go_back(at);
            return Ok(found);
        }
        tracing::warn!(path = %self.path.display(), at, "an index is wrong; reading the whole segment");
        Ok(scanner(0))
    }

    /// The next batch; `None` at the end.
    pub(super) fn next(&self, scanner: &mut Scanner) -> io::Result<Option<(Place, StoredBatch)>> {
        match scanner.step()? {
            Step::End => Ok(None),
            Step::Broken(at) => Err(damaged(&self.path, format!("no frame at {at}"))),
            Step::Frame(frame) => match place::of_frame(&frame) {
                Some(found) => Ok(Some(found)),
                None => Err(damaged(&self.path, format!("no batch at {}", frame.position))),
            },
        }
    }
}
