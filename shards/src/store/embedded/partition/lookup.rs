//! Offsets by time and by special timestamp (Kafka's ListOffsets).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ringgate_wire::iggy;
use ringgate_wire::records::{self, OpenBatch, RecordError};

use super::PartitionLog;
use super::place::{Place, US_PER_MS};
use super::read::Part;
use super::segment::{self, Goal, Start};
use crate::store::embedded::files::{Files, damaged};
use crate::store::embedded::limits::{LOOKUP_DECOMPRESSED_BYTES, SCAN_CHUNK_BYTES};
use crate::store::stored::StoredBatch;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;

/// What was looked for, or a job that finds it.
pub enum Lookup {
    /// This is it.
    Found(Found),
    /// To be looked for in the files.
    Disk(LookupJob),
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its time in ms; -1 when there is none, or when it was not looked for by time.
    pub timestamp: i64,
    /// Its offset; -1 when there is none.
    pub offset: i64,
    /// The epoch of the leader that appended it; -1 when not known.
    pub leader_epoch: i32,
}

impl Found {
    /// There is no such record.
    pub const NOTHING: Found = Found { timestamp: -1, offset: -1, leader_epoch: -1 };
}

/// Looks for a record by time.
pub struct LookupJob {
    files: Arc<dyn Files>,
    parts: Vec<Part>,
    wanted: Wanted,
    log_start_offset: i64,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// The first record that is at least this old.
    AtOrAfter(i64),
    /// The first of those with the largest timestamp, which is at least this (that of the segments behind
    /// the first).
    Largest(i64),
}

impl PartitionLog {
    /// Looks up the first record whose timestamp is at least `timestamp`, or what a special timestamp
    /// stands for: -1 the high watermark, -2 and -4 the log start, -3 the first record with the largest
    /// timestamp, -5 nothing (no tier is behind this log). Nothing also for what Kafka does not define.
    pub fn lookup(&self, timestamp: i64) -> Lookup {
        let place = |offset| Found { timestamp: -1, offset, leader_epoch: self.epochs.at(offset) };
        match timestamp {
            LATEST => {
                let leader_epoch = self.epochs.latest();
                Lookup::Found(Found { leader_epoch, ..place(self.high_watermark()) })
            }
            EARLIEST | EARLIEST_LOCAL => Lookup::Found(place(self.log_start_offset)),
            MAX_TIMESTAMP => self.lookup_largest(),
            0.. => {
                let first = self.segments.iter().position(|s| s.written_max_timestamp >= timestamp);
                match first {
                    Some(first) => self.lookup_from(first, Wanted::AtOrAfter(timestamp)),
                    None => Lookup::Found(Found::NOTHING),
                }
            }
            _ => Lookup::Found(Found::NOTHING),
        }
    }

    fn lookup_largest(&self) -> Lookup {
        let largest = self.segments.iter().map(|s| s.written_max_timestamp).max().unwrap_or(-1);
        let Some(first) = self.segments.iter().position(|s| s.written_max_timestamp == largest) else {
            return Lookup::Found(Found::NOTHING);
        };
        if largest < 0 {
            return Lookup::Found(Found::NOTHING);
        }
        if first == 0 && self.log_start_offset > self.segments[0].base_offset {
            // The largest may be among the records that were deleted.
            let others = self.segments[1..].iter().map(|s| s.written_max_timestamp).max().unwrap_or(-1);
            return self.lookup_from(0, Wanted::Largest(others));
        }
        self.lookup_from(first, Wanted::AtOrAfter(largest))
    }

    fn lookup_from(&self, first: usize, wanted: Wanted) -> Lookup {
        let mut parts = Vec::new();
        for segment in self.segments[first..].iter().take_while(|s| s.written > 0) {
            let start = match wanted {
                Wanted::AtOrAfter(timestamp) if parts.is_empty() => {
                    segment.start(&self.dir, Goal::Timestamp(timestamp))
                }
                _ => Start::At(0),
            };
            parts.push(Part { path: segment::log_path(&self.dir, segment.base_offset), start, end: segment.written });
        }
        let (files, log_start_offset) = (self.files.clone(), self.log_start_offset);
        Lookup::Disk(LookupJob { files, parts, wanted, log_start_offset })
    }
}

impl LookupJob {
    /// Looks. Blocks, for as long as reading up to the record and decompressing its batch takes.
    pub fn run(self) -> io::Result<Found> {
        match self.wanted {
            Wanted::AtOrAfter(timestamp) => self.at_or_after(timestamp),
            Wanted::Largest(others) => {
                let largest = self.largest_of_first()?.max(others);
                if largest < 0 { Ok(Found::NOTHING) } else { self.at_or_after(largest) }
            }
        }
    }

    fn largest_of_first(&self) -> io::Result<i64> {
        let mut largest = -1;
        let Some(part) = self.parts.first() else { return Ok(largest) };
        let mut scanner = part.open(&*self.files, None, SCAN_CHUNK_BYTES)?;
        while let Some((place, batch)) = part.next(&mut scanner)? {
            if place.base_offset >= self.log_start_offset {
                largest = largest.max(place.max_timestamp);
            } else if place.last_offset >= self.log_start_offset {
                let times = self.kept(&place, &batch).map_err(|error| damaged(&part.path, error))?;
                largest = times.into_iter().map(|(_, timestamp)| timestamp).fold(largest, i64::max);
            }
        }
        Ok(largest)
    }

    fn at_or_after(&self, timestamp: i64) -> io::Result<Found> {
        for part in &self.parts {
            let mut scanner = part.open(&*self.files, None, 0)?;
            while let Some((place, batch)) = part.next(&mut scanner)? {
                if place.max_timestamp < timestamp || place.last_offset < self.log_start_offset {
                    continue;
                }
                let found = match &batch {
                    StoredBatch::Kafka(batch) if place.base_offset >= self.log_start_offset => {
                        records::first_at_or_after(batch, timestamp)
                            .map(|found| found.map(|(delta, t)| (place.base_offset + i64::from(delta), t)))
                            .map_err(|error| error.to_string())
                    }
                    _ => self.kept(&place, &batch).map(|times| times.into_iter().find(|(_, t)| *t >= timestamp)),
                };
                if let Some((offset, timestamp)) = found.map_err(|error| damaged(&part.path, error))? {
                    return Ok(Found { timestamp, offset, leader_epoch: place.leader_epoch });
                }
            }
        }
        Ok(Found::NOTHING)
    }

    /// Offset and timestamp of the records that the log start leaves of a batch.
    fn kept(&self, place: &Place, batch: &StoredBatch) -> Result<Vec<(i64, i64)>, String> {
        let mut times = match batch {
            StoredBatch::Kafka(batch) => kafka_times(place, batch).map_err(|error| error.to_string())?,
            StoredBatch::Iggy { batch, .. } => iggy_times(batch)?,
        };
        times.retain(|(offset, _)| *offset >= self.log_start_offset);
        Ok(times)
    }
}

fn kafka_times(place: &Place, batch: &Bytes) -> Result<Vec<(i64, i64)>, RecordError> {
    let batch = OpenBatch::open(batch, LOOKUP_DECOMPRESSED_BYTES)?;
    let time = |record: records::Record| (place.base_offset + i64::from(record.offset_delta), record.timestamp);
    batch.records().map(|record| record.map(time)).collect()
}

/// The time of a message is its producer's; the server's when it has none.
fn iggy_times(batch: &Bytes) -> Result<Vec<(i64, i64)>, String> {
    let messages = iggy::messages(batch).map_err(|error| error.to_string())?;
    let server_us = messages.header().base_timestamp_us;
    messages
        .map(|message| {
            let message = message.map_err(|error| error.to_string())?;
            let us = if message.origin_timestamp_us == 0 { server_us } else { message.origin_timestamp_us };
            let ms = i64::try_from(us / US_PER_MS).unwrap_or(i64::MAX);
            Ok((i64::try_from(message.offset).unwrap_or(i64::MAX), ms))
        })
        .collect()
}
