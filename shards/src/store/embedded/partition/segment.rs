//! A segment: a file of frames that begins at a base offset, with a sparse index beside it.
//!
//! The index is a help and no more: whoever follows it checks the frame that it finds there, and reads the
//! segment from its start when that is not the one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::store::embedded::files::{self, File, Files, Open};
use crate::store::embedded::limits::INDEX_INTERVAL_BYTES;

/// A frame of a segment: `u32 offset less base, u32 position, i64 largest timestamp before it`,
/// little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) relative_offset: u32,
    pub(crate) position: u32,
    /// The largest timestamp of the frames before this one; -1 for none.
    pub(crate) max_timestamp_before: i64,
}

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Where the entries are.
#[derive(Debug)]
pub(crate) enum Index {
    /// In memory; the first `flushed` also in the file.
    Memory { entries: Vec<IndexEntry>, flushed: usize },
    /// In the file, this many.
    File(u32),
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    /// Behind the last offset that was given out.
    pub(crate) end_offset: i64,
    /// Bytes of the frames that were appended, written or not.
    pub(crate) size: u64,
    /// The largest timestamp of those; -1 for none.
    pub(crate) max_timestamp: i64,
    /// Bytes that are written.
    pub(crate) written: u64,
    /// The largest timestamp of those.
    pub(crate) written_max_timestamp: i64,
    /// When the first frame was appended, in ms since 1970; after a start, when the file was made.
    pub(crate) first_append_ms: i64,
    /// When a frame was last appended, in ms since 1970; after a start, when the file was last written.
    pub(crate) last_append_ms: i64,
    pub(crate) index: Index,
}

impl Segment {
    pub(crate) fn new(base_offset: i64) -> Segment {
        Segment {
            base_offset,
            end_offset: base_offset,
            size: 0,
            max_timestamp: -1,
            written: 0,
            written_max_timestamp: -1,
            first_append_ms: -1,
            last_append_ms: -1,
            index: Index::Memory { entries: Vec::new(), flushed: 0 },
        }
    }

    /// Takes in a frame at the end.
    pub(crate) fn add(&mut self, base_offset: i64, last_offset: i64, len: u64, max_timestamp: i64, appended_ms: i64) {
        if let Index::Memory { entries, .. } = &mut self.index
            && let (Ok(position), Ok(relative_offset)) =
                (u32::try_from(self.size), u32::try_from(base_offset - self.base_offset))
            && entries.last().is_none_or(|e| self.size - u64::from(e.position) >= INDEX_INTERVAL_BYTES)
        {
            entries.push(IndexEntry { relative_offset, position, max_timestamp_before: self.max_timestamp });
        }
        if self.size == 0 {
            self.first_append_ms = appended_ms;
        }
        self.size += len;
        self.end_offset = last_offset + 1;
        self.max_timestamp = self.max_timestamp.max(max_timestamp);
        self.last_append_ms = appended_ms;
    }

    /// What the segment's age counts from, in ms since 1970: its newest record's timestamp; when none has
    /// one, the last append (Kafka takes the file's time of modification, as a start does here).
    pub(crate) fn newest_ms(&self) -> i64 {
        if self.max_timestamp >= 0 { self.max_timestamp } else { self.last_append_ms }
    }

    /// Everything that was added is in the file.
    pub(crate) fn all_written(&mut self) {
        self.written = self.size;
        self.written_max_timestamp = self.max_timestamp;
    }

    pub(crate) fn index_len(&self) -> u32 {
        match &self.index {
            Index::Memory { entries, .. } => entries.len() as u32,
            Index::File(count) => *count,
        }
    }

    /// How to find a frame from which on to read.
    pub(crate) fn start(&self, dir: &Path, goal: Goal) -> Start {
        match &self.index {
            Index::Memory { entries, .. } => {
                let before = entries.partition_point(|e| goal.is_behind(e, self.base_offset));
                Start::At(before.checked_sub(1).map_or(0, |nth| u64::from(entries[nth].position)))
            }
            Index::File(count) => Start::Index {
                path: index_path(dir, self.base_offset),
                count: *count,
                base_offset: self.base_offset,
                goal,
            },
        }
    }
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// The frame that holds this offset.
    Offset(i64),
    /// The first frame with a record that is at least this old.
    Timestamp(i64),
}

impl Goal {
    /// Whether the goal is in the frame of this entry or in a later one.
    fn is_behind(self, entry: &IndexEntry, base_offset: i64) -> bool {
        match self {
            Goal::Offset(offset) => base_offset + i64::from(entry.relative_offset) <= offset,
            Goal::Timestamp(timestamp) => entry.max_timestamp_before < timestamp,
        }
    }
}

/// How to find a frame from which on to read.
#[derive(Debug)]
pub(crate) enum Start {
    At(u64),
    Index { path: PathBuf, count: u32, base_offset: i64, goal: Goal },
}

impl Start {
    /// A position where a frame starts that is not behind the goal. Reads the index file if need be; the
    /// start of the segment when that cannot be read.
    pub(crate) fn find(&self, files: &dyn Files) -> u64 {
        match self {
            Start::At(position) => *position,
            Start::Index { path, count, base_offset, goal } => {
                let found = files.open(path, Open::Read).and_then(|file| search(&*file, *count, *base_offset, *goal));
                found.unwrap_or_else(|error| {
                    tracing::warn!(path = %path.display(), %error, "an index cannot be read; reading the whole segment");
                    0
                })
            }
        }
    }
}

fn search(file: &dyn File, count: u32, base_offset: i64, goal: Goal) -> io::Result<u64> {
    let entry = |nth: u32| -> io::Result<IndexEntry> {
        let bytes = files::read(file, u64::from(nth) * ENTRY_BYTES as u64, ENTRY_BYTES)?;
        decode_entry(&mut &bytes[..]).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    };
    let (mut from, mut to, mut position) = (0, count, 0);
    while from < to {
        let middle = from + (to - from) / 2;
        let found = entry(middle)?;
        if goal.is_behind(&found, base_offset) {
            (from, position) = (middle + 1, u64::from(found.position));
        } else {
            to = middle;
        }
    }
    Ok(position)
}

pub(crate) fn encode_entries(entries: &[IndexEntry]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        bytes.put_u32_le(entry.relative_offset);
        bytes.put_u32_le(entry.position);
        bytes.put_i64_le(entry.max_timestamp_before);
    }
    bytes.freeze()
}

pub(super) fn decode_entry(from: &mut impl Buf) -> Option<IndexEntry> {
    Some(IndexEntry {
        relative_offset: from.try_get_u32_le().ok()?,
        position: from.try_get_u32_le().ok()?,
        max_timestamp_before: from.try_get_i64_le().ok()?,
    })
}

/// Reads the first `count` entries; `None` when they are not all there or do not grow.
pub(crate) fn read_entries(files: &dyn Files, path: &Path, count: u32) -> Option<Vec<IndexEntry>> {
    let file: Arc<dyn File> = files.open(path, Open::Read).ok()?;
    let len = count as usize * ENTRY_BYTES;
    if file.len().ok()? < len as u64 {
        return None;
    }
    let bytes = files::read(&*file, 0, len).ok()?;
    let mut bytes = &bytes[..];
    let entries: Vec<IndexEntry> = (0..count).map(|_| decode_entry(&mut bytes)).collect::<Option<_>>()?;
    let grows = entries.is_sorted_by(|a, b| a.relative_offset < b.relative_offset && a.position < b.position);
    grows.then_some(entries)
}

pub(crate) fn log_path(dir: &Path, base_offset: i64) -> PathBuf {
    dir.join(format!("{base_offset:020}.log"))
}

pub(crate) fn index_path(dir: &Path, base_offset: i64) -> PathBuf {
    dir.join(format!("{base_offset:020}.index"))
}

/// The base offset in a file's name, if it has this ending.
pub(crate) fn base_of(name: &str, ending: &str) -> Option<i64> {
    let digits = name.strip_suffix(ending)?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}
