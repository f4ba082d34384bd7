//! Opening a partition: what a stop, orderly or not, left in its files.
//!
//! The checkpoint is trusted up to its end; what follows is read through. A torn tail of the last segment
//! is cut. Anything else that is not as it was written is damage: the partition is not opened, so that
//! what it still holds is not lost by going on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::checkpoint::{self, Checkpoint, SegmentSummary};
use super::epochs::Epochs;
use super::place;
use super::producers::Producers;
use super::segment::{self, ENTRY_BYTES, Index, Segment};
use super::{PartitionConfig, PartitionLog};
use crate::store::embedded::append_files::{AppendFiles, Last};
use crate::store::embedded::files::{self, File, Files, Open, damaged};
use crate::store::embedded::frame::{Scanner, Step, Tail};

/// What opening a partition found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes that were read through because no checkpoint speaks of them.
    pub read_bytes: u64,
    /// Bytes of a torn tail that were cut.
    pub cut_bytes: u64,
}

impl PartitionLog {
    /// Opens the log in `dir`, an existing directory of its own; makes it when nothing is there. What is
    /// appended carries `leader_epoch`, which must be above that of all earlier runs. Blocks.
    pub fn open(
        files: Arc<dyn Files>,
        dir: PathBuf,
        config: PartitionConfig,
        leader_epoch: i32,
        now_ms: i64,
    ) -> io::Result<(PartitionLog, Recovered)> {
        Recovery::new(files, dir, config, now_ms).run(leader_epoch)
    }
}

struct Recovery {
    files: Arc<dyn Files>,
    dir: PathBuf,
    config: PartitionConfig,
    now_ms: i64,
    segments: Vec<Segment>,
    epochs: Epochs,
    producers: Producers,
    log_start_offset: i64,
    checkpointed: Option<(i64, i64)>,
    report: Recovered,
}

impl Recovery {
    fn new(files: Arc<dyn Files>, dir: PathBuf, config: PartitionConfig, now_ms: i64) -> Recovery {
        Recovery {
            files,
            dir,
            config,
            now_ms,
            segments: Vec::new(),
            epochs: Epochs::default(),
            producers: Producers::new(config.producers, config.producer_expiration_ms),
            log_start_offset: 0,
            checkpointed: None,
            report: Recovered::default(),
        }
    }

    fn run(mut self, leader_epoch: i32) -> io::Result<(PartitionLog, Recovered)> {
        let mut bases = self.list()?;
        let checkpoint = checkpoint::read(&*self.files, &self.dir, &mut self.producers)?;
        let known =
            checkpoint.as_ref().map(|c| (c.segments[0].base_offset, c.segments[c.segments.len() - 1].base_offset));
        if !bases.is_empty() && known != bases.first().copied().zip(bases.last().copied()) {
            // A killed process may have made or replaced files whose names are not lasting yet.
            self.files.sync_dir(&self.dir)?;
        }
        let last = match checkpoint {
            Some(checkpoint) => {
                self.remove_before(&mut bases, checkpoint.segments[0].base_offset)?;
                self.trust(checkpoint, &bases)?;
                let known = self.segments.last().map_or(-1, |s| s.base_offset);
                bases.retain(|base| *base > known);
                self.scan_last_of(bases)?
            }
            None => {
                self.producers = Producers::new(self.config.producers, self.config.producer_expiration_ms);
                self.log_start_offset = bases.first().copied().unwrap_or(0);
                if bases.is_empty() {
                    self.create(0)?
                } else {
                    self.segments.push(Segment::new(bases.remove(0)));
                    self.scan_last_of(bases)?
                }
            }
        };
        let end_offset = self.segments.last().map_or(0, |s| s.end_offset);
        self.log_start_offset = self.log_start_offset.min(end_offset);
        self.epochs.forget_before(self.log_start_offset);
        self.epochs.begin(leader_epoch, end_offset);
        let log = PartitionLog {
            appended: AppendFiles::new(self.files.clone(), last, end_offset as u64),
            files: self.files,
            dir: self.dir,
            config: self.config,
            leader_epoch,
            log_start_offset: self.log_start_offset,
            durable_log_start_offset: self.log_start_offset,
            end_offset,
            segments: self.segments,
            starts_file: false,
            epochs: self.epochs,
            producers: self.producers,
            unwritten: Default::default(),
            cache: Default::default(),
            cached_bytes: 0,
            chores: Default::default(),
            chore_out: false,
            since_checkpoint: self.report.read_bytes,
            checkpointed: self.checkpointed.unwrap_or((-1, -1)),
        };
        Ok((log, self.report))
    }

    /// The base offsets of the segments that have a file. Removes what an unfinished replacement left.
    fn list(&self) -> io::Result<Vec<i64>> {
        let mut bases = Vec::new();
        for entry in self.files.list(&self.dir)? {
            if files::is_aside(&entry.name) {
                self.files.remove_file(&self.dir.join(&entry.name))?;
            } else if let Some(base) = segment::base_of(&entry.name, ".log") {
                bases.push(base);
            }
        }
        bases.sort_unstable();
        Ok(bases)
    }

    fn create(&mut self, base_offset: i64) -> io::Result<Last> {
        let file = self.files.open(&segment::log_path(&self.dir, base_offset), Open::Empty)?;
        self.files.sync_dir(&self.dir)?;
        self.segments.push(Segment::new(base_offset));
        Ok(Last { file, end: 0 })
    }

    /// Segments that were about to be removed.
    fn remove_before(&self, bases: &mut Vec<i64>, first: i64) -> io::Result<()> {
        for base in bases.extract_if(.., |base| *base < first) {
            self.files.remove_file(&segment::log_path(&self.dir, base))?;
            match self.files.remove_file(&segment::index_path(&self.dir, base)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes over what a checkpoint says, after a look at whether the files are there.
    fn trust(&mut self, checkpoint: Checkpoint, bases: &[i64]) -> io::Result<()> {
        let last = checkpoint.segments.len() - 1;
        for (nth, summary) in checkpoint.segments.iter().enumerate() {
            let path = segment::log_path(&self.dir, summary.base_offset);
            if !bases.contains(&summary.base_offset) {
                return Err(damaged(&path, "it is missing"));
            }
            let file = self.files.open(&path, Open::Read)?;
            let len = file.len()?;
            let right = if nth == last { len >= summary.size } else { len == summary.size };
            if !right {
                return Err(damaged(&path, format!("it has {len} bytes, {} are known", summary.size)));
            }
            let end_offset = match checkpoint.segments.get(nth + 1) {
                Some(next) => next.base_offset,
                None => checkpoint.end_offset,
            };
            let mut segment = self.known(summary, end_offset, nth == last);
            segment.last_append_ms = file.modified_ms()?;
            self.segments.push(segment);
        }
        self.log_start_offset = checkpoint.log_start_offset;
        self.epochs = checkpoint.epochs;
        self.checkpointed = Some((checkpoint.end_offset, checkpoint.log_start_offset));
        Ok(())
    }

    fn known(&self, summary: &SegmentSummary, end_offset: i64, is_last: bool) -> Segment {
        let path = segment::index_path(&self.dir, summary.base_offset);
        let index = if is_last {
            // Without its beginning the index still leads right, to a start further ahead.
            let entries = segment::read_entries(&*self.files, &path, summary.index_entries).unwrap_or_default();
            let flushed = entries.len();
            Index::Memory { entries, flushed }
        } else {
            Index::File(summary.index_entries)
        };
        let mut segment = Segment::new(summary.base_offset);
        segment.end_offset = end_offset;
        segment.size = summary.size;
        segment.max_timestamp = summary.max_timestamp;
        segment.index = index;
        segment.all_written();
        segment
    }

    /// Reads the last known segment on, and those that follow it.
    fn scan_last_of(&mut self, following: Vec<i64>) -> io::Result<Last> {
        let mut following = following.into_iter().peekable();
        loop {
            let is_last = following.peek().is_none();
            let last = self.scan(is_last)?;
            let Some(base) = following.next() else { return Ok(last) };
            let segment = self.segments.last().expect("one was scanned");
            if segment.end_offset != base {
                let path = segment::log_path(&self.dir, segment.base_offset);
                return Err(damaged(
                    &path,
                    format!("it ends at offset {}, the next begins at {base}", segment.end_offset),
                ));
            }
            self.keep_index()?;
            self.segments.push(Segment::new(base));
        }
    }

    fn scan(&mut self, is_last: bool) -> io::Result<Last> {
        let segment = self.segments.last_mut().expect("there is one to scan");
        let path = segment::log_path(&self.dir, segment.base_offset);
        let file = self.files.open(&path, Open::Write)?;
        let (from, len, modified_ms) = (segment.size, file.len()?, file.modified_ms()?);
        let mut scanner = Scanner::new(file.clone(), from, len);
        loop {
            match scanner.step()? {
                Step::End => break,
                Step::Frame(frame) => {
                    let found = place::of_frame(&frame).map(|(place, _)| place);
                    let Some(place) = found.filter(|place| place.base_offset == segment.end_offset) else {
                        return Err(damaged(
                            &path,
                            format!("offset {} is not at {}", segment.end_offset, frame.position),
                        ));
                    };
                    let bytes = frame.end() - frame.position;
                    segment.add(place.base_offset, place.last_offset, bytes, place.max_timestamp, modified_ms);
                    self.epochs.begin(place.leader_epoch, place.base_offset);
                    if let Some(claim) = &place.claim {
                        self.producers.record(claim, place.base_offset, place.log_append_time_ms, self.now_ms);
                    }
                }
                Step::Broken(at) => {
                    match (is_last, scanner.tail()?) {
                        (true, Tail::Torn) => {}
                        (true, Tail::Damaged { resumes_at }) => {
                            return Err(damaged(
                                &path,
                                format!("no frame at {at}, and whole ones from {resumes_at} on"),
                            ));
                        }
                        (false, _) => return Err(damaged(&path, format!("no frame at {at}"))),
                    }
                    self.report.cut_bytes += len - at;
                    tracing::warn!(path = %path.display(), at, bytes = len - at, "cut a torn tail");
                    file.truncate(at)?;
                    break;
                }
            }
        }
        let end = segment.size;
        segment.first_append_ms = file.created_ms()?;
        segment.all_written();
        self.report.read_bytes += len - from;
        if len > from {
            // It may have been written and never synced; what is served from now on is on disk.
            file.sync()?;
        }
        Ok(Last { file, end })
    }

    /// The last segment is closed: its index belongs in a file.
    fn keep_index(&mut self) -> io::Result<()> {
        let segment = self.segments.last_mut().expect("one was scanned");
        let Index::Memory { entries, flushed } = &mut segment.index else { return Ok(()) };
        let path = segment::index_path(&self.dir, segment.base_offset);
        let file: Arc<dyn File> = self.files.open(&path, if *flushed == 0 { Open::Empty } else { Open::Create })?;
        file.write_at((*flushed * ENTRY_BYTES) as u64, &[segment::encode_entries(&entries[*flushed..])])?;
        file.sync()?;
        segment.index = Index::File(entries.len() as u32);
        Ok(())
    }
}
