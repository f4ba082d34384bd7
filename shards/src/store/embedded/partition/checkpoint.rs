//! A partition's checkpoint: what its files hold up to a position below which all is on disk, so that a
//! start reads only what follows.
//!
//! One frame in one file, put in place at once. It holds the log start offset, the segments, the leader
//! epochs and the producers.

use std::io;
use std::path::Path;

use bytes::{Buf, BufMut, Bytes};

use super::epochs::Epochs;
use super::producers::Producers;
use super::segment::Segment;
use crate::store::embedded::files::{self, Files};
use crate::store::embedded::frame;

/// The file's name.
pub(crate) const NAME: &str = "checkpoint";
const VERSION: u8 = 1;

/// What is known of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentSummary {
    pub(crate) base_offset: i64,
    /// Bytes that are on disk and good.
    pub(crate) size: u64,
    pub(crate) max_timestamp: i64,
    pub(crate) index_entries: u32,
}

/// What a checkpoint says, besides the producers.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) log_start_offset: i64,
    pub(crate) end_offset: i64,
    /// At least one; recovery goes on in the last.
    pub(crate) segments: Vec<SegmentSummary>,
    pub(crate) epochs: Epochs,
}

/// Writes the state of a log.
pub(crate) fn encode(log_start_offset: i64, segments: &[Segment], epochs: &Epochs, producers: &Producers) -> Bytes {
    let mut out = frame::begin(frame::KIND_CHECKPOINT, VERSION, 64 + segments.len() * 28 + producers.len() * 180);
    out.put_i64_le(log_start_offset);
    out.put_i64_le(segments.last().map_or(log_start_offset, |s| s.end_offset));
    out.put_u32_le(segments.len() as u32);
    for segment in segments {
        out.put_i64_le(segment.base_offset);
        out.put_u64_le(segment.size);
        out.put_i64_le(segment.max_timestamp);
        out.put_u32_le(segment.index_len());
    }
    out.put_u32_le(epochs.entries().len() as u32);
    for (epoch, start) in epochs.entries() {
        out.put_i32_le(*epoch);
        out.put_i64_le(*start);
    }
    producers.encode(&mut out);
    frame::seal(out)
}

/// Reads the newest checkpoint and its producers; `None` when there is none that can be trusted.
pub(crate) fn read(files: &dyn Files, dir: &Path, producers: &mut Producers) -> io::Result<Option<Checkpoint>> {
    let bytes = match files::read_whole(files, &dir.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let frame = frame::decode(&bytes).filter(|f| f.kind == frame::KIND_CHECKPOINT && f.version == VERSION);
    let found = frame.and_then(|frame| decode(&mut &frame.payload[..], producers));
    if found.is_none() {
        tracing::warn!(dir = %dir.display(), "a checkpoint is damaged; reading the whole partition");
    }
    Ok(found)
}

fn decode(from: &mut &[u8], producers: &mut Producers) -> Option<Checkpoint> {
    let log_start_offset = from.try_get_i64_le().ok()?;
    let end_offset = from.try_get_i64_le().ok()?;
    let mut segments = Vec::new();
    for _ in 0..from.try_get_u32_le().ok()? {
        segments.push(SegmentSummary {
            base_offset: from.try_get_i64_le().ok()?,
            size: from.try_get_u64_le().ok()?,
            max_timestamp: from.try_get_i64_le().ok()?,
            index_entries: from.try_get_u32_le().ok()?,
        });
    }
    let mut epochs = Vec::new();
    for _ in 0..from.try_get_u32_le().ok()? {
        epochs.push((from.try_get_i32_le().ok()?, from.try_get_i64_le().ok()?));
    }
    let epochs = Epochs::from_entries(epochs)?;
    producers.decode(from)?;
    let grows = segments.is_sorted_by(|a, b| a.base_offset < b.base_offset);
    (grows && !segments.is_empty() && from.is_empty()).then_some(Checkpoint {
        log_start_offset,
        end_offset,
        segments,
        epochs,
    })
}
