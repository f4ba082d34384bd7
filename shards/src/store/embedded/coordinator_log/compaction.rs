//! Snapshots: the last record of each key, copied out of a snapshot and the closed files after it.
//!
//! A snapshot ends with a frame that counts the others, so half of one is never taken for a whole.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::{Describe, LogRecord, log_path, snapshot_path};
use crate::store::embedded::files::{Files, Open, aside, damaged, parent};
use crate::store::embedded::frame::{self, Frame, Scanner, Step};
use crate::store::embedded::limits::SCAN_CHUNK_BYTES;

/// The version of the end's layout.
const VERSION: u8 = 1;

/// Makes a snapshot and removes what it stands for.
pub(super) struct Compaction {
    pub(super) files: Arc<dyn Files>,
    pub(super) dir: PathBuf,
    pub(super) describe: Describe,
    /// The snapshot before, if there is one.
    pub(super) snapshot: Option<u64>,
    /// The closed files after it, in order; at least one.
    pub(super) logs: Vec<u64>,
}

pub(super) struct CompactionDone {
    /// The new snapshot's number.
    pub(super) snapshot: u64,
    pub(super) bytes: u64,
}

impl Compaction {
    pub(super) fn run(self) -> io::Result<CompactionDone> {
        let number = self.logs.last().copied().unwrap_or(0) + 1;
        let mut sources: Vec<PathBuf> = self.snapshot.iter().map(|n| snapshot_path(&self.dir, *n)).collect();
        sources.extend(self.logs.iter().map(|n| log_path(&self.dir, *n)));
        // Only the places of the records are kept in memory, not what is in them.
        let mut live: HashMap<Bytes, (usize, u64)> = HashMap::new();
        for (nth, path) in sources.iter().enumerate() {
            let mut frames = Frames::open(&*self.files, path)?;
            while let Some(frame) = frames.next()? {
                let Some(record) = LogRecord::of(&frame) else { continue };
                let described = (self.describe)(record.kind, record.version, &record.payload);
                let described = described.map_err(|error| damaged(path, error))?;
                if described.is_tombstone {
                    live.remove(&described.key);
                } else {
                    // The key may share the record's memory.
                    let key = Bytes::copy_from_slice(&described.key);
                    live.insert(key, (nth, frame.position));
                }
            }
        }
        let places: std::collections::HashSet<(usize, u64)> = live.into_values().collect();
        let mut copied = Copied { files: &*self.files, sources: &sources, nth: 0, frames: None, places };
        let path = snapshot_path(&self.dir, number);
        let bytes = write_snapshot(&*self.files, &path, std::iter::from_fn(|| copied.next().transpose()))?;
        for path in &sources {
            self.files.remove_file(path)?;
        }
        Ok(CompactionDone { snapshot: number, bytes })
    }
}

/// The frames at some places of some files, in order.
struct Copied<'a> {
    files: &'a dyn Files,
    sources: &'a [PathBuf],
    nth: usize,
    frames: Option<Frames>,
    places: std::collections::HashSet<(usize, u64)>,
}

impl Copied<'_> {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(path) = self.sources.get(self.nth) {
            let frames = match &mut self.frames {
                Some(frames) => frames,
                none => none.insert(Frames::open(self.files, path)?),
            };
            match frames.next()? {
                Some(frame) if self.places.contains(&(self.nth, frame.position)) => {
                    return Ok(Some(frame::encode(frame.kind, frame.version, &frame.payload)));
                }
                Some(_) => {}
                None => {
                    self.nth += 1;
                    self.frames = None;
                }
            }
        }
        Ok(None)
    }
}

/// The frames of a file that must be whole.
struct Frames {
    path: PathBuf,
    scanner: Scanner,
    len: u64,
}

impl Frames {
    fn open(files: &dyn Files, path: &Path) -> io::Result<Frames> {
        let file = files.open(path, Open::Read)?;
        let len = file.len()?;
        Ok(Frames { path: path.to_path_buf(), scanner: Scanner::new(file, 0, len), len })
    }

    fn next(&mut self) -> io::Result<Option<Frame>> {
        match self.scanner.step()? {
            Step::Frame(frame) => Ok(Some(frame)),
            Step::End => Ok(None),
            Step::Broken(at) => Err(damaged(&self.path, format!("no frame at {at}"))),
        }
    }
}

/// Puts a snapshot of these frames in place, on disk; its size in bytes.
pub(super) fn write_snapshot(
    files: &dyn Files,
    path: &Path,
    frames: impl Iterator<Item = io::Result<Bytes>>,
) -> io::Result<u64> {
    let aside = aside(path);
    let file = files.open(&aside, Open::Empty)?;
    let mut buffers = Vec::new();
    let (mut position, mut gathered, mut count) = (0, 0, 0u64);
    for frame in frames {
        let frame = frame?;
        gathered += frame.len();
        count += 1;
        buffers.push(frame);
        if gathered >= SCAN_CHUNK_BYTES {
            file.write_at(position, &buffers)?;
            position += gathered as u64;
            gathered = 0;
            buffers.clear();
        }
    }
    let end = frame::encode(frame::KIND_SNAPSHOT_END, VERSION, &count.to_le_bytes());
    gathered += end.len();
    buffers.push(end);
    file.write_at(position, &buffers)?;
    file.sync()?;
    files.rename(&aside, path)?;
    files.sync_dir(parent(path))?;
    Ok(position + gathered as u64)
}

/// Goes through the frames of a snapshot, the last one excepted; its size in bytes.
pub(super) fn read_snapshot(
    files: &dyn Files,
    path: &Path,
    mut visit: impl FnMut(&Frame) -> io::Result<()>,
) -> io::Result<u64> {
    let mut frames = Frames::open(files, path)?;
    let mut count = 0u64;
    while let Some(frame) = frames.next()? {
        if frame.kind == frame::KIND_SNAPSHOT_END {
            let right = (&frame.payload[..]).try_get_u64_le().ok() == Some(count) && frame.end() == frames.len;
            return if right { Ok(frames.len) } else { Err(damaged(path, "its end does not fit")) };
        }
        visit(&frame)?;
        count += 1;
    }
    Err(damaged(path, "it has no end"))
}
