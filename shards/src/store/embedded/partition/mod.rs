//! The log of one partition: segments of frames, each with one batch. Kafka's are as received except for base
//! offset, leader epoch and, where wrong or LogAppendTime, timestamps with a new CRC; Iggy's except for
//! partition, base offset, the server's time and the checksum.
//!
//! A value without I/O: `append` and `read` run at once on the shard, file work is given out by
//! `poll_job`, done anywhere by [`Job::run`] and taken back by `handle_done`. What must stay true: offsets
//! are dense; `log start <= durable end <= high watermark <= end`; nothing behind the high watermark (the
//! end of what is written) is ever read; a failed write, sync or checkpoint closes the log until it is
//! opened again.

mod checkpoint;
mod chores;
mod epochs;
mod lookup;
mod place;
mod producers;
mod read;
mod recovery;
mod segment;
pub(super) mod verify;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{self, IggyBatchHeader, IggyBatchInfo};
use ringgate_wire::records::{self, BatchInfo};

use super::append_files::{AppendFiles, Chunk, FileDone, FileJob};
use super::files::Files;
use super::frame;
use super::limits::{CHECKPOINT_BYTES, PRODUCER_EXPIRATION_MS, PRODUCERS_PER_PARTITION, SEGMENT_MS};
use crate::call::ActiveProducer;
use crate::file_times::LogKind;
use crate::iggy_code::IggyCode;
use crate::log_driver::JobLog;
use crate::store::stored::StoredBatch;
use chores::{Chore, ChoreDone};
use epochs::Epochs;
use place::{Claim, Place, US_PER_MS};
use producers::Producers;
use segment::{Index, Segment};

pub(crate) use checkpoint::NAME as CHECKPOINT;
pub use lookup::{Found, Lookup, LookupJob};
pub use read::{Read, ReadJob};
pub use recovery::Recovered;

/// The version of a batch's frame.
const BATCH_VERSION: u8 = 1;

/// Settings of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionConfig {
    /// `segment.bytes`: a segment is closed before it grows past this.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is closed by the first append that comes so many milliseconds after its own first.
    /// The clock counts and not, as in Kafka, what records say of their time: whose times jump could else have a
    /// file for every batch.
    pub segment_ms: i64,
    /// Idempotent producers that are remembered.
    pub producers: usize,
    /// Idle ones are forgotten after this many milliseconds.
    pub producer_expiration_ms: i64,
    /// Bytes appended between two checkpoints.
    pub checkpoint_bytes: u64,
}

impl PartitionConfig {
    /// The defaults, with this `segment.bytes`.
    pub fn with_segment_bytes(segment_bytes: u64) -> PartitionConfig {
        PartitionConfig {
            segment_bytes,
            segment_ms: SEGMENT_MS,
            producers: PRODUCERS_PER_PARTITION,
            producer_expiration_ms: PRODUCER_EXPIRATION_MS,
            checkpoint_bytes: CHECKPOINT_BYTES,
        }
    }
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Append {
    /// The offset of its first record.
    pub base_offset: i64,
    /// The offset of its last record.
    pub last_offset: i64,
    /// The broker's stamp in ms under LogAppendTime, otherwise -1.
    pub log_append_time_ms: i64,
    /// The batch was there already: these are the offsets of the first time, which may not be written yet.
    pub duplicate: bool,
}

/// Why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// `OUT_OF_ORDER_SEQUENCE_NUMBER(45)`.
    #[error("producer {producer_id} sent sequence {got}, expected is {expected}")]
    OutOfOrderSequence {
        /// Whose batch.
        producer_id: i64,
        /// Its first sequence.
        got: i32,
        /// What would have followed.
        expected: i32,
    },
    /// `UNKNOWN_PRODUCER_ID(59)`: of Iggy's producers alone.
    #[error("producer {producer_id} is not known and sent sequence {got}, expected is 0")]
    UnknownProducer {
        /// Whose batch.
        producer_id: i64,
        /// Its first sequence.
        got: i32,
    },
    /// `INVALID_PRODUCER_EPOCH(47)`.
    #[error("producer {producer_id} sent epoch {got}, its current one is {current}")]
    InvalidProducerEpoch {
        /// Whose batch.
        producer_id: i64,
        /// Its epoch.
        got: i16,
        /// The newest epoch seen.
        current: i16,
    },
    /// `KAFKA_STORAGE_ERROR(56)`.
    #[error("the partition's log is closed until a restart: {0}")]
    Closed(String),
}

impl AppendError {
    /// Kafka's code for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            AppendError::UnknownProducer { .. } => ErrorCode::UNKNOWN_PRODUCER_ID,
            AppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
            AppendError::Closed(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        }
    }

    /// Iggy's code for it.
    pub fn iggy_code(&self) -> IggyCode {
        match self {
            AppendError::OutOfOrderSequence { .. } => IggyCode::PRODUCER_SEQUENCE_OUT_OF_ORDER,
            AppendError::UnknownProducer { .. } => IggyCode::PRODUCER_UNKNOWN,
            AppendError::InvalidProducerEpoch { .. } => IggyCode::PRODUCER_EPOCH_FENCED,
            AppendError::Closed(_) => IggyCode::CANNOT_APPEND_MESSAGE,
        }
    }
}

/// An offset that is not between log start and high watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset} is not from {log_start_offset} to {high_watermark}")]
pub struct OffsetOutOfRange {
    /// What was asked for.
    pub offset: i64,
    /// The least that is allowed.
    pub log_start_offset: i64,
    /// The most.
    pub high_watermark: i64,
}

/// An append that is not written yet.
struct Unwritten {
    end_offset: i64,
    segment: i64,
    /// What the segment has when this is written.
    size: u64,
    max_timestamp: i64,
}

/// A batch in memory.
struct Cached {
    base_offset: i64,
    last_offset: i64,
    batch: StoredBatch,
}

/// See the module's documentation.
pub struct PartitionLog {
    files: Arc<dyn Files>,
    dir: PathBuf,
    config: PartitionConfig,
    leader_epoch: i32,
    log_start_offset: i64,
    /// The log start offset that a start would find.
    durable_log_start_offset: i64,
    /// The first offset that has not been given out.
    end_offset: i64,
    /// Never empty; the last one is appended to.
    segments: Vec<Segment>,
    /// The last segment was begun by retention: the next append is the one that starts its file.
    starts_file: bool,
    epochs: Epochs,
    producers: Producers,
    appended: AppendFiles,
    unwritten: VecDeque<Unwritten>,
    /// The newest batches without a gap up to the end.
    cache: VecDeque<Cached>,
    cached_bytes: usize,
    chores: VecDeque<Chore>,
    chore_out: bool,
    since_checkpoint: u64,
    checkpointed: (i64, i64),
}

/// Blocking work on the partition's files.
pub struct Job(JobKind);

enum JobKind {
    File(FileJob),
    Chore(Chore),
}

/// How a [`Job`] went.
pub struct JobDone(DoneKind);

enum DoneKind {
    File(FileDone),
    Chore(ChoreDone),
}

impl Job {
    /// Does it. May block for long.
    pub fn run(self) -> JobDone {
        JobDone(match self.0 {
            JobKind::File(job) => DoneKind::File(job.run()),
            JobKind::Chore(chore) => DoneKind::Chore(chore.run()),
        })
    }
}

impl PartitionLog {
    /// The first offset that is still there.
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// The log start offset that is on disk: a start would find it.
    pub fn durable_log_start_offset(&self) -> i64 {
        self.durable_log_start_offset
    }

    /// The end of what is written, which is the end of what can be read.
    pub fn high_watermark(&self) -> i64 {
        self.appended.written() as i64
    }

    /// The end of what is on disk.
    pub fn durable_end(&self) -> i64 {
        self.appended.synced() as i64
    }

    /// The offset that the next record gets.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Whether something was written that is not synced.
    pub fn is_dirty(&self) -> bool {
        self.appended.synced() < self.appended.pushed()
    }

    /// Whether a write or sync has failed: nothing is appended any more.
    pub fn is_closed(&self) -> bool {
        self.appended.is_closed()
    }

    /// The next append closes the last segment when it would grow past this size, or has come to this age.
    pub fn set_segment_bounds(&mut self, segment_bytes: u64, segment_ms: i64) {
        (self.config.segment_bytes, self.config.segment_ms) = (segment_bytes, segment_ms);
    }

    /// How many segments there are, at least 1.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Bytes in all segments.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|s| s.size).sum()
    }

    /// Appends one batch of Kafka's that was found to be right. `stamp`: it gets the broker's time (LogAppendTime).
    /// The batch is copied. `poll_job` then has work.
    pub fn append(
        &mut self,
        now_ms: i64,
        records: &[u8],
        info: &BatchInfo,
        stamp: bool,
    ) -> Result<Append, AppendError> {
        let header = &info.header;
        let claim = Claim::of_kafka(header);
        if let Some(known) = self.admit(claim.as_ref(), now_ms)? {
            return Ok(known);
        }
        let base_offset = self.end_offset;
        let mut buffer = frame::begin(frame::KIND_BATCH, BATCH_VERSION, records.len());
        buffer.put_slice(records);
        let batch = &mut buffer[frame::HEADER_BYTES..];
        records::set_place(batch, base_offset, self.leader_epoch);
        let max_timestamp = if stamp { now_ms } else { info.max_timestamp_found };
        if stamp {
            records::set_log_append_time(batch, now_ms);
        } else if max_timestamp != header.max_timestamp {
            // Some clients leave it unset; look-ups by time rely on it.
            records::set_max_timestamp(batch, max_timestamp);
        }
        let bytes = frame::seal(buffer);
        let batch = StoredBatch::Kafka(bytes.slice(frame::HEADER_BYTES..));
        let place = Place {
            base_offset,
            last_offset: base_offset + i64::from(header.last_offset_delta),
            max_timestamp,
            leader_epoch: self.leader_epoch,
            records: info.records,
            claim,
            log_append_time_ms: if stamp { now_ms } else { -1 },
        };
        Ok(self.push(now_ms, bytes, place, batch))
    }

    /// Appends one batch of Iggy's that was found to be right and gives it this number of its partition, its place
    /// and the server's time. The batch is copied. `poll_job` then has work.
    pub fn append_iggy(
        &mut self,
        now_us: u64,
        batch: &[u8],
        info: &IggyBatchInfo,
        partition: u32,
    ) -> Result<Append, AppendError> {
        let now_ms = i64::try_from(now_us / US_PER_MS).unwrap_or(i64::MAX);
        let header = &info.header;
        let claim = header.producer.and_then(|producer| Claim::of_iggy(producer, header.messages));
        if let Some(known) = self.admit(claim.as_ref(), now_ms)? {
            return Ok(known);
        }
        let base_offset = self.end_offset;
        let stamped = IggyBatchHeader { base_timestamp_us: now_us, ..*header };
        let max_timestamp = place::iggy_max_timestamp_ms(&IggyBatchInfo { header: stamped, ..*info });
        let mut buffer = place::begin_iggy(self.leader_epoch, max_timestamp, batch.len());
        buffer.put_slice(batch);
        let stamped =
            iggy::stamp(&mut buffer[place::IGGY_BATCH_AT..], partition.into(), base_offset.unsigned_abs(), now_us);
        debug_assert!(stamped.is_ok(), "a batch that was walked: {stamped:?}");
        let bytes = frame::seal(buffer);
        let batch = bytes.slice(place::IGGY_BATCH_AT..);
        let place = Place {
            base_offset,
            last_offset: base_offset + i64::from(header.messages) - 1,
            max_timestamp,
            leader_epoch: self.leader_epoch,
            records: header.messages,
            claim,
            log_append_time_ms: -1,
        };
        let batch = StoredBatch::Iggy { batch, leader_epoch: self.leader_epoch };
        Ok(self.push(now_ms, bytes, place, batch))
    }

    /// Whether a batch may be appended; if it was before, where.
    fn admit(&mut self, claim: Option<&Claim>, now_ms: i64) -> Result<Option<Append>, AppendError> {
        if let Some(why) = self.appended.failure() {
            return Err(AppendError::Closed(why.to_string()));
        }
        let Some(claim) = claim else { return Ok(None) };
        let known = self.producers.check(claim, now_ms)?;
        Ok(known.map(|known| Append {
            base_offset: known.base_offset,
            last_offset: known.last_offset,
            log_append_time_ms: known.log_append_time_ms,
            duplicate: true,
        }))
    }

    /// Takes in the frame of a batch that goes to the end.
    fn push(&mut self, now_ms: i64, bytes: Bytes, place: Place, batch: StoredBatch) -> Append {
        let Place { base_offset, last_offset, log_append_time_ms, .. } = place;
        let starts = self.roll_for(now_ms, bytes.len() as u64, last_offset);
        self.epochs.begin(self.leader_epoch, base_offset);
        if let Some(claim) = &place.claim {
            self.producers.record(claim, base_offset, log_append_time_ms, now_ms);
        }
        self.end_offset = last_offset + 1;
        let segment = self.segments.last_mut().expect("a log has a segment");
        segment.add(base_offset, last_offset, bytes.len() as u64, place.max_timestamp, now_ms);
        self.unwritten.push_back(Unwritten {
            end_offset: self.end_offset,
            segment: segment.base_offset,
            size: segment.size,
            max_timestamp: segment.max_timestamp,
        });
        self.cached_bytes += batch.len();
        self.cache.push_back(Cached { base_offset, last_offset, batch });
        self.since_checkpoint += bytes.len() as u64;
        self.appended.push(Chunk { bytes, starts }, self.end_offset as u64);
        if self.since_checkpoint >= self.config.checkpoint_bytes {
            self.capture_checkpoint();
        }
        Append { base_offset, last_offset, log_append_time_ms, duplicate: false }
    }

    /// Begins another segment when the last one has no room or is too old; its path then.
    fn roll_for(&mut self, now_ms: i64, bytes: u64, last_offset: i64) -> Option<PathBuf> {
        let last = self.segments.last().expect("a log has a segment");
        let fits = last.size + bytes <= self.config.segment_bytes
            && last_offset - last.base_offset <= i64::from(i32::MAX)
            && now_ms.saturating_sub(last.first_append_ms) < self.config.segment_ms;
        if std::mem::take(&mut self.starts_file) {
            return Some(segment::log_path(&self.dir, last.base_offset));
        }
        if fits || last.size == 0 {
            return None;
        }
        self.segments.push(Segment::new(self.end_offset));
        // What it says holds once the segment's first frame is written, for then its file exists.
        self.capture_checkpoint();
        if let Some(chore) = self.chores.back_mut() {
            chore.written = self.end_offset + 1;
        }
        Some(segment::log_path(&self.dir, self.end_offset))
    }

    /// How many producers were forgotten, since there were too many, after this was last asked.
    pub fn take_forgotten_producers(&mut self) -> u64 {
        self.producers.take_forgotten()
    }

    /// Asks for everything appended so far to be synced.
    pub fn request_sync(&mut self) {
        self.appended.request_sync();
    }

    /// Asks for a checkpoint, so that the next start reads nothing twice. Meant for an orderly stop.
    pub fn request_checkpoint(&mut self) {
        if self.checkpointed != (self.end_offset, self.log_start_offset) && !self.is_closed() {
            self.capture_checkpoint();
        }
    }

    /// The next piece of work that may be done now. At most one write, one sync and one checkpoint are out
    /// at a time.
    pub fn poll_job(&mut self) -> Option<Job> {
        if let Some(job) = self.appended.poll_job() {
            return Some(Job(JobKind::File(job)));
        }
        let (written, synced) = (self.high_watermark(), self.durable_end());
        let due = self.chores.front().is_some_and(|c| c.written <= written && c.synced <= synced);
        if self.chore_out || !due || self.is_closed() {
            return None;
        }
        let chore = self.chores.pop_front()?;
        self.chore_out = true;
        Some(Job(JobKind::Chore(chore)))
    }

    /// Takes in how a job went.
    pub fn handle_done(&mut self, done: JobDone) {
        match done.0 {
            DoneKind::File(done) => {
                self.appended.handle_done(done);
                self.settle_written();
            }
            DoneKind::Chore(done) => {
                self.chore_out = false;
                match done.result {
                    Ok(()) => self.durable_log_start_offset = self.durable_log_start_offset.max(done.log_start_offset),
                    Err(error) => self.appended.close(format!("a checkpoint failed: {error}")),
                }
                if self.chores.is_empty() && !self.is_closed() {
                    self.drop_flushed_indexes();
                }
            }
        }
        if self.is_closed() {
            self.chores.clear();
        }
    }

    fn settle_written(&mut self) {
        let high_watermark = self.high_watermark();
        while let Some(first) = self.unwritten.front().filter(|u| u.end_offset <= high_watermark) {
            let nth = self.segments.partition_point(|s| s.base_offset < first.segment);
            if let Some(segment) = self.segments.get_mut(nth).filter(|s| s.base_offset == first.segment) {
                segment.written = first.size;
                segment.written_max_timestamp = first.max_timestamp;
            }
            self.unwritten.pop_front();
        }
    }

    /// Closed segments are looked up in their files.
    fn drop_flushed_indexes(&mut self) {
        let closed = self.segments.len() - 1;
        for segment in &mut self.segments[..closed] {
            if let Index::Memory { entries, flushed } = &segment.index
                && entries.len() == *flushed
            {
                segment.index = Index::File(entries.len() as u32);
            }
        }
    }

    /// Bytes of batches kept in memory.
    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    /// Lets go of the oldest cached batches, at least `bytes` of them if there are as many; says how many
    /// bytes that was.
    pub fn trim_cache(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        while freed < bytes {
            let Some(cached) = self.cache.pop_front() else { break };
            freed += cached.batch.len();
        }
        self.cached_bytes -= freed;
        freed
    }

    /// Bytes of the batches that begin from `from` on and before `to`: what a reader who has waited at
    /// `from` can read now. More than there are when that is not known, so that the reader looks.
    pub fn bytes_between(&self, from: i64, to: i64) -> usize {
        let begin = self.cache.front().map_or(self.end_offset, |c| c.base_offset);
        if from < begin && from < to {
            return usize::MAX;
        }
        let first = self.cache.partition_point(|c| c.base_offset < from);
        self.cache.range(first..).take_while(|c| c.base_offset < to).map(|c| c.batch.len()).sum()
    }

    /// Where the records of the largest epoch up to `leader_epoch` end (Kafka's OffsetForLeaderEpoch):
    /// (that epoch, end offset), or `None` when `leader_epoch` is above all.
    pub fn offset_for_leader_epoch(&self, leader_epoch: i32) -> Option<(i32, i64)> {
        self.epochs.end_of(leader_epoch, self.high_watermark())
    }

    /// The idempotent producers that are remembered, by id.
    pub fn active_producers(&self) -> Vec<ActiveProducer> {
        self.producers.active()
    }

    /// (epoch, end offset) from where on this log differs from that of a client whose last record is of
    /// `last_fetched_epoch` and before `fetch_offset` (KIP-595); `None` when it does not.
    pub fn divergence(&self, last_fetched_epoch: i32, fetch_offset: i64) -> Option<(i32, i64)> {
        let high_watermark = self.high_watermark();
        let (epoch, end) = match self.epochs.end_of(last_fetched_epoch, high_watermark) {
            Some(end) => end,
            None => (self.epochs.latest(), high_watermark),
        };
        (epoch < last_fetched_epoch || end < fetch_offset).then_some((epoch, end))
    }
}

impl JobLog for PartitionLog {
    type Job = Job;
    type Done = JobDone;
    const KIND: LogKind = LogKind::Partition;

    fn kind(job: &Job) -> crate::file_times::JobKind {
        match &job.0 {
            JobKind::File(job) => job.kind(),
            JobKind::Chore(_) => crate::file_times::JobKind::Chore,
        }
    }

    fn poll_job(&mut self) -> Option<Job> {
        PartitionLog::poll_job(self)
    }

    fn run(job: Job) -> JobDone {
        job.run()
    }

    fn handle_done(&mut self, done: JobDone) {
        PartitionLog::handle_done(self, done);
    }

    fn request_sync(&mut self) {
        PartitionLog::request_sync(self);
    }

    fn written(&self) -> u64 {
        self.appended.written()
    }

    fn durable(&self) -> u64 {
        self.appended.synced()
    }

    fn is_closed(&self) -> bool {
        PartitionLog::is_closed(self)
    }
}
