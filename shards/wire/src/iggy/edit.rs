//! What a server does to a batch: it gives it a place when it arrives, and cuts it to what was asked for when
//! it leaves. Frames are never rewritten.

use bytes::{BufMut, Bytes, BytesMut};

use super::read::{FrameHeader, split_frame};
use super::{BATCH_HEADER_BYTES, IggyBatchError, IggyBatchHeader, malformed};

/// Gives a walked batch its place and time, with a new checksum. `batch` is exactly one.
///
/// # Errors
/// It is no batch: never for one that was walked.
pub fn stamp(
    batch: &mut [u8],
    partition_id: u64,
    base_offset: u64,
    base_timestamp_us: u64,
) -> Result<(), IggyBatchError> {
    let mut header = IggyBatchHeader::parse(batch)?;
    (header.partition_id, header.base_offset, header.base_timestamp_us) =
        (partition_id, base_offset, base_timestamp_us);
    header.checksum = header.checksum_over(&batch[BATCH_HEADER_BYTES..]);
    batch[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
    Ok(())
}

/// The messages of a stored batch from `from_offset` on, at most `messages_max` of them and, behind the first,
/// at most `bytes_max` in all. The batch itself when that is all of it; `None` when nothing is left. Its base
/// offset stays, so the first message's offset delta may be above 0.
///
/// # Errors
/// [`IggyBatchError::Malformed`]: it is no whole batch.
pub fn cut(
    batch: &Bytes,
    from_offset: u64,
    messages_max: u32,
    bytes_max: usize,
) -> Result<Option<Bytes>, IggyBatchError> {
    let mut header = IggyBatchHeader::parse(batch)?;
    let frames = batch
        .get(BATCH_HEADER_BYTES..header.size)
        .ok_or_else(|| malformed(format!("{} of its {} bytes are there", batch.len(), header.size)))?;
    // Most are wanted whole, and what was stored has its messages numbered from 0 on.
    let starts_there = header.base_offset >= from_offset;
    if starts_there && header.messages > 0 && header.messages <= messages_max && header.size <= bytes_max {
        return Ok(Some(batch.slice(..header.size)));
    }
    let is_before = |frame: &FrameHeader| header.base_offset.saturating_add(frame.offset_delta.into()) < from_offset;
    let mut left = frames;
    while FrameHeader::parse(left).is_some_and(|frame| is_before(&frame)) {
        let (_, rest) = split_frame(left).ok_or_else(|| malformed("a message is cut off"))?;
        left = rest;
    }
    let (start, mut kept) = (frames.len() - left.len(), 0);
    let room = bytes_max.saturating_sub(BATCH_HEADER_BYTES);
    while kept < messages_max
        && let Some((frame, rest)) = split_frame(left)
    {
        let size = frames.len() - start - rest.len();
        if kept > 0 && size > room {
            break;
        }
        debug_assert!(!frame.is_empty());
        left = rest;
        kept += 1;
    }
    let end = frames.len() - left.len();
    if kept == 0 {
        return Ok(None);
    }
    if (start, end) == (0, frames.len()) {
        return Ok(Some(batch.slice(..header.size)));
    }
    let frames = &frames[start..end];
    (header.size, header.messages) = (BATCH_HEADER_BYTES + frames.len(), kept);
    header.checksum = header.checksum_over(frames);
    let mut out = BytesMut::with_capacity(header.size);
    out.put_slice(&header.encode());
    out.put_slice(frames);
    Ok(Some(out.freeze()))
}
