//! A look through one partition's files that changes nothing: every frame, every batch and record, and
//! whether checkpoint and indexes say what is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ringgate_wire::iggy::IggyWalker;
use ringgate_wire::records::{self, BatchHeader, Walker};

use super::checkpoint::{self, Checkpoint, SegmentSummary};
use super::place::{self, Place};
use super::producers::Producers;
use super::segment::{self, ENTRY_BYTES, IndexEntry};
use crate::store::embedded::consumer_offsets;
use crate::store::embedded::files::{self, File, Files, Open};
use crate::store::embedded::frame::Frame;
use crate::store::embedded::limits::{
    PRODUCER_EXPIRATION_MS, PRODUCERS_PER_PARTITION, VERIFY_INDEX_ENTRIES, VERIFY_WALK_BYTES,
};
use crate::store::embedded::verify::{Expected, Holdings, Report, Walked, walk};
use crate::store::stored::StoredBatch;

/// Reads the partition in `dir`; no leader can have had an epoch above `starts`.
pub(in crate::store::embedded) fn verify(report: &mut Report, files: &dyn Files, dir: &Path, starts: i32) -> Holdings {
    let entries = match files.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.note(dir, None, "it does not exist: the next start makes it, empty");
            return Holdings::default();
        }
        Err(error) => {
            report.damage(dir, None, format!("it cannot be read: {error}"));
            return Holdings::default();
        }
    };
    let (mut bases, mut indexes, mut has_checkpoint) = (Vec::new(), Vec::new(), false);
    for entry in entries {
        if let Some(base) = segment::base_of(&entry.name, ".log") {
            bases.push(base);
        } else if let Some(base) = segment::base_of(&entry.name, ".index") {
            indexes.push(base);
        } else if entry.name == checkpoint::NAME {
            has_checkpoint = true;
        } else if entry.name == consumer_offsets::OFFSETS && entry.is_dir {
            consumer_offsets::verify(report, files, &dir.join(entry.name));
        } else if files::is_aside(&entry.name) {
            report.note(
                &dir.join(&entry.name),
                None,
                "left by a write that was not finished: the next start removes it",
            );
        } else {
            report.note(&dir.join(&entry.name), None, "not a file of ringgate's");
        }
    }
    let checkpoint = if has_checkpoint { read_checkpoint(report, files, dir) } else { None };
    match (&checkpoint, bases.first()) {
        (Some(checkpoint), _) => {
            leftovers(report, dir, &mut bases, checkpoint);
            missing(report, dir, &bases, checkpoint);
        }
        // The first segment is removed only after a checkpoint says so.
        (None, Some(first)) if *first != 0 && !has_checkpoint => {
            report.damage(&segment::log_path(dir, 0), None, format!("it is missing: the first segment is {first}"));
        }
        (None, _) => {}
    }
    for base in indexes.into_iter().filter(|base| !bases.contains(base)) {
        report.note(&segment::index_path(dir, base), None, "the index of a segment that does not exist");
    }
    let mut look = Look {
        files,
        dir,
        starts,
        checkpoint,
        next_offset: bases.first().copied().unwrap_or(0),
        leader_epoch: -1,
        holds: Holdings::default(),
    };
    let last = bases.last().copied();
    for base in bases {
        look.segment(report, base, Some(base) == last);
    }
    look.holds
}

/// Reads the checkpoint, which exists, and looks at whether it can be true.
fn read_checkpoint(report: &mut Report, files: &dyn Files, dir: &Path) -> Option<Checkpoint> {
    let path = dir.join(checkpoint::NAME);
    let mut producers = Producers::new(PRODUCERS_PER_PARTITION, PRODUCER_EXPIRATION_MS);
    let checkpoint = match checkpoint::read(files, dir, &mut producers) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => {
            report.damage(&path, None, "it is not as it was written");
            return None;
        }
        Err(error) => {
            report.damage(&path, None, format!("it cannot be read: {error}"));
            return None;
        }
    };
    let Checkpoint { log_start_offset: start, end_offset: end, segments, .. } = &checkpoint;
    let (first, last) = (segments[0].base_offset, segments[segments.len() - 1].base_offset);
    if first < 0 || !(first..=*end).contains(start) || last > *end {
        let what = format!("log start {start}, segments {first} to {last} and end {end} do not fit");
        report.damage(&path, None, what);
    }
    Some(checkpoint)
}

/// Segments that a start removes, or does not know what to do with.
fn leftovers(report: &mut Report, dir: &Path, bases: &mut Vec<i64>, checkpoint: &Checkpoint) {
    let known = &checkpoint.segments;
    let (first, last) = (known[0].base_offset, known[known.len() - 1].base_offset);
    for base in bases.extract_if(.., |base| *base < first) {
        let what = "before the first segment of the checkpoint: the next start removes it";
        report.note(&segment::log_path(dir, base), None, what);
    }
    for base in bases.extract_if(.., |base| *base < last && known.iter().all(|s| s.base_offset != *base)) {
        report.damage(&segment::log_path(dir, base), None, "the checkpoint does not know this segment");
    }
}

/// Segments that should be there.
fn missing(report: &mut Report, dir: &Path, bases: &[i64], checkpoint: &Checkpoint) {
    for known in checkpoint.segments.iter().filter(|s| !bases.contains(&s.base_offset)) {
        let what = format!("it is missing, with {} bytes", known.size);
        report.damage(&segment::log_path(dir, known.base_offset), None, what);
    }
}

struct Look<'a> {
    files: &'a dyn Files,
    dir: &'a Path,
    starts: i32,
    checkpoint: Option<Checkpoint>,
    /// The offset that should come next.
    next_offset: i64,
    /// The leader epoch of the last batch.
    leader_epoch: i32,
    holds: Holdings,
}

/// What the checkpoint says of one segment.
#[derive(Clone, Copy)]
struct Known<'a> {
    summary: &'a SegmentSummary,
    end_offset: i64,
    is_last: bool,
}

/// Where the look at a segment is.
struct InSegment<'a> {
    path: PathBuf,
    base_offset: i64,
    known: Option<Known<'a>>,
    index: IndexCursor,
    max_timestamp: i64,
    /// Where the last frame ended.
    end: u64,
    /// Frames are missing, which has been said: what follows from that is not said again.
    has_gap: bool,
    /// A frame ended where the checkpoint says that the segment did.
    met_checkpoint: bool,
}

impl Look<'_> {
    fn segment(&mut self, report: &mut Report, base_offset: i64, is_last: bool) {
        let path = segment::log_path(self.dir, base_offset);
        if base_offset != self.next_offset {
            let expected = self.next_offset;
            report.damage(&path, None, format!("it begins at offset {base_offset}, the one before ends at {expected}"));
            self.next_offset = base_offset;
        }
        let checkpoint = self.checkpoint.take();
        let known = checkpoint.as_ref().and_then(|checkpoint| known(checkpoint, base_offset));
        let mut at = InSegment {
            path: path.clone(),
            base_offset,
            known,
            index: IndexCursor::open(report, self.files, self.dir, base_offset, known.map(|k| k.summary.index_entries)),
            max_timestamp: -1,
            end: 0,
            has_gap: false,
            met_checkpoint: known.is_none_or(|known| known.summary.size == 0),
        };
        let expected = Expected { lasting: known.map_or(0, |known| known.summary.size), is_last };
        let walked = walk(report, self.files, &path, expected, |report, frame| {
            self.frame(report, &mut at, checkpoint.as_ref(), frame);
        });
        self.holds.segments += 1;
        self.holds.bytes += walked.len;
        at.index.finish(report, walked);
        if let Some(known) = known {
            let SegmentSummary { size, .. } = *known.summary;
            let right = if known.is_last { walked.len >= size } else { walked.len == size };
            if !right {
                let what = format!("it has {} bytes, the checkpoint knows {size}", walked.len);
                report.damage(&path, Some(walked.len.min(size)), what);
            } else if !at.met_checkpoint && !walked.is_broken {
                report.damage(&path, Some(size), "no frame ends here, the checkpoint says one does");
            }
        }
        self.checkpoint = checkpoint;
    }

    fn frame(&mut self, report: &mut Report, at: &mut InSegment<'_>, checkpoint: Option<&Checkpoint>, frame: &Frame) {
        let position = Some(frame.position);
        let is_behind_gap = frame.position != at.end;
        at.has_gap |= is_behind_gap;
        at.end = frame.end();
        let Some((place, batch)) = place::of_frame(frame) else {
            report.damage(&at.path, position, "the frame holds no record batch");
            at.has_gap = true;
            return;
        };
        let is_right = match is_behind_gap {
            true => place.base_offset >= self.next_offset,
            false => place.base_offset == self.next_offset,
        };
        if !is_right {
            let (found, expected) = (place.base_offset, self.next_offset);
            report.damage(&at.path, position, format!("offset {found} where {expected} comes next"));
        }
        let epoch = place.leader_epoch;
        if epoch < self.leader_epoch || epoch > self.starts {
            let (before, starts) = (self.leader_epoch, self.starts);
            let what = format!("leader epoch {epoch} after {before}, of {starts} that there were");
            report.damage(&at.path, position, what);
        }
        let looked_through = match &batch {
            StoredBatch::Kafka(batch) => look_through(batch),
            StoredBatch::Iggy { batch, .. } => look_through_iggys(&place, batch),
        };
        if let Err(why) = looked_through {
            report.damage(&at.path, position, why);
        } else {
            self.holds.batches += 1;
            self.holds.records += u64::from(place.records);
        }
        let timestamp_before = if at.has_gap { None } else { Some(at.max_timestamp) };
        at.index.frame(report, frame.position, place.base_offset.wrapping_sub(at.base_offset), timestamp_before);
        self.next_offset = place.last_offset.saturating_add(1);
        self.leader_epoch = self.leader_epoch.max(epoch);
        at.max_timestamp = at.max_timestamp.max(place.max_timestamp);
        if let (Some(known), Some(checkpoint)) = (at.known, checkpoint) {
            self.against_checkpoint(report, at, known, checkpoint, frame, &place);
        }
    }

    /// Whether the checkpoint says of this frame's place and leader what is there.
    fn against_checkpoint(
        &self,
        report: &mut Report,
        at: &mut InSegment<'_>,
        known: Known<'_>,
        checkpoint: &Checkpoint,
        frame: &Frame,
        place: &Place,
    ) {
        if frame.end() > known.summary.size {
            return;
        }
        let epoch = checkpoint.epochs.at(place.base_offset.max(checkpoint.log_start_offset));
        // Epochs from before the log start are forgotten.
        if place.last_offset >= checkpoint.log_start_offset && epoch != place.leader_epoch {
            let what = format!(
                "offset {} is of leader epoch {}, the checkpoint says {epoch}",
                place.base_offset, place.leader_epoch
            );
            report.damage(&at.path, Some(frame.position), what);
        }
        if frame.end() == known.summary.size {
            at.met_checkpoint = true;
            let found = (self.next_offset, at.max_timestamp);
            let says = (known.end_offset, known.summary.max_timestamp);
            if found != says && !at.has_gap {
                let what = format!("(end offset, largest timestamp) are {found:?}, the checkpoint says {says:?}");
                report.damage(&at.path, Some(frame.end()), what);
            }
        }
    }
}

fn known(checkpoint: &Checkpoint, base_offset: i64) -> Option<Known<'_>> {
    let nth = checkpoint.segments.iter().position(|s| s.base_offset == base_offset)?;
    let next = checkpoint.segments.get(nth + 1);
    Some(Known {
        summary: &checkpoint.segments[nth],
        end_offset: next.map_or(checkpoint.end_offset, |next| next.base_offset),
        is_last: next.is_none(),
    })
}

/// Walks every message of a batch of Iggy's.
fn look_through_iggys(place: &Place, batch: &Bytes) -> Result<(), String> {
    let mut walker = IggyWalker::new(batch.clone());
    let info = loop {
        if let Some(walked) = walker.step(VERIFY_WALK_BYTES) {
            break walked.map_err(|error| error.to_string())?;
        }
    };
    let found = place::iggy_max_timestamp_ms(&info);
    if found != place.max_timestamp {
        let says = place.max_timestamp;
        return Err(format!("the largest timestamp of its messages is {found}, its frame says {says}"));
    }
    Ok(())
}

/// Walks every record of a batch of Kafka's.
fn look_through(batch: &Bytes) -> Result<(), String> {
    let header = &BatchHeader::parse(batch).ok_or("the batch has no header")?;
    if !header.crc_is_right(batch) {
        return Err("the batch's CRC does not fit".into());
    }
    // The walk is made for what producers send, who must not claim the broker's stamp.
    let batch = match header.is_log_append_time() {
        true => as_sent(header, batch),
        false => batch.clone(),
    };
    let mut walker = Walker::new(batch, usize::MAX);
    let info = loop {
        if let Some(walked) = walker.step(VERIFY_WALK_BYTES) {
            break walked.map_err(|error| error.to_string())?;
        }
    };
    if !header.is_log_append_time() && info.max_timestamp_found != header.max_timestamp {
        let (found, says) = (info.max_timestamp_found, header.max_timestamp);
        return Err(format!("the largest timestamp of its records is {found}, the batch says {says}"));
    }
    Ok(())
}

fn as_sent(header: &BatchHeader, batch: &Bytes) -> Bytes {
    const ATTRIBUTES_AT: usize = 21;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    let mut sent = BytesMut::from(&batch[..]);
    let attributes = header.attributes & !LOG_APPEND_TIME;
    sent[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
    records::set_max_timestamp(&mut sent, header.max_timestamp);
    sent.freeze()
}

/// The entries of an index file, held against the frames as they go by.
struct IndexCursor {
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    /// Entries that the checkpoint counts.
    count: usize,
    /// The number of the next entry, and those that were read from there on, in reverse.
    nth: usize,
    ahead: Vec<IndexEntry>,
}

impl IndexCursor {
    /// `count`: what the checkpoint says; what an index has beyond that, or without, nobody looks at.
    fn open(report: &mut Report, files: &dyn Files, dir: &Path, base_offset: i64, count: Option<u32>) -> IndexCursor {
        let path = segment::index_path(dir, base_offset);
        let count = count.unwrap_or(0) as usize;
        let mut cursor = IndexCursor { path, file: None, count, nth: 0, ahead: Vec::new() };
        if count > 0 {
            match files.open(&cursor.path, Open::Read) {
                Ok(file) => cursor.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    report.damage(&cursor.path, None, format!("it is missing, with {count} entries"));
                }
                Err(error) => report.damage(&cursor.path, None, format!("it cannot be read: {error}")),
            }
        }
        cursor
    }

    fn position(&self) -> u64 {
        (self.nth * ENTRY_BYTES) as u64
    }

    /// The next entry. Nothing more is looked at after the first thing that is wrong.
    fn peek(&mut self, report: &mut Report) -> Option<IndexEntry> {
        if self.ahead.is_empty() && self.nth < self.count {
            let file = self.file.as_ref()?;
            let some = (self.count - self.nth).min(VERIFY_INDEX_ENTRIES);
            match files::read(&**file, self.position(), some * ENTRY_BYTES) {
                Ok(bytes) => {
                    let entries = bytes.chunks_exact(ENTRY_BYTES).map_while(|mut e| segment::decode_entry(&mut e));
                    self.ahead = entries.collect();
                    self.ahead.reverse();
                    if self.ahead.is_empty() {
                        self.wrong(report, format!("it ends here, the checkpoint counts {} entries", self.count));
                    }
                }
                Err(error) => self.wrong(report, format!("it cannot be read: {error}")),
            }
        }
        self.ahead.last().copied()
    }

    fn wrong(&mut self, report: &mut Report, what: String) {
        report.damage(&self.path, Some(self.position()), what);
        self.file = None;
        self.ahead.clear();
    }

    /// A frame at `position`, with the largest timestamp of those before it; `None` when some are missing.
    fn frame(&mut self, report: &mut Report, position: u64, relative_offset: i64, timestamp_before: Option<i64>) {
        while let Some(entry) = self.peek(report).filter(|entry| u64::from(entry.position) <= position) {
            let is_missing = timestamp_before.is_none() && u64::from(entry.position) < position;
            let before = timestamp_before.unwrap_or(entry.max_timestamp_before);
            let right = (position, relative_offset, before);
            let says = (u64::from(entry.position), i64::from(entry.relative_offset), entry.max_timestamp_before);
            if says != right && !is_missing {
                let what =
                    format!("(position, relative offset, timestamp before) are {right:?}, the entry says {says:?}");
                self.wrong(report, what);
                return;
            }
            self.nth += 1;
            self.ahead.pop();
        }
    }

    /// All frames went by.
    fn finish(mut self, report: &mut Report, walked: Walked) {
        // An entry for a frame that is broken leads to what has been reported.
        if !walked.is_broken && self.peek(report).is_some() {
            self.wrong(report, format!("the entry leads past the segment's {} bytes", walked.len));
        }
    }
}
