//! Reading the messages of a batch.

use super::user_headers::UserHeaders;
use super::{BATCH_HEADER_BYTES, FRAME_HEADER_BYTES, IggyBatchError, IggyBatchHeader, malformed, u32_at, u64_at};

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeader {
    pub(super) checksum: u64,
    pub(super) id: u128,
    pub(super) offset_delta: u32,
    pub(super) timestamp_delta_us: u32,
    pub(super) user_headers: usize,
    pub(super) payload: usize,
}

impl FrameHeader {
    /// The header of the frame at the start of `bytes`; `None` when it is cut off or what must be zero is not.
    pub(super) fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        let header: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        if u64_at(header, 40) != 0 {
            return None;
        }
        Some(FrameHeader {
            checksum: u64_at(header, 0),
            id: u128::from(u64_at(header, 8)) | u128::from(u64_at(header, 16)) << 64,
            offset_delta: u32_at(header, 24),
            timestamp_delta_us: u32_at(header, 28),
            user_headers: u32_at(header, 32) as usize,
            payload: u32_at(header, 36) as usize,
        })
    }

    /// Bytes of the whole frame, as it claims.
    pub(super) fn size(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload + self.user_headers
    }
}

/// The frame at the start of `bytes` and what follows it.
pub(super) fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(FrameHeader::parse(bytes)?.size())
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IggyMessage<'a> {
    /// Its id, 0 for none.
    pub id: u128,
    /// Its offset.
    pub offset: u64,
    /// When the producer made it, in us; 0 when it did not say.
    pub origin_timestamp_us: u64,
    /// What it says.
    pub payload: &'a [u8],
    /// Its user headers.
    pub user_headers: UserHeaders<'a>,
}

/// The messages of a batch, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct IggyMessages<'a> {
    header: IggyBatchHeader,
    left: &'a [u8],
    seen: u32,
}

/// The messages of the batch at the start of `batch`, which may go on behind it. Checksums are not looked at:
/// meant for what was walked before it was stored, or came from a server.
///
/// # Errors
/// [`IggyBatchError::Malformed`]: it is no whole batch.
pub fn messages(batch: &[u8]) -> Result<IggyMessages<'_>, IggyBatchError> {
    let header = IggyBatchHeader::parse(batch)?;
    let left = batch
        .get(BATCH_HEADER_BYTES..header.size)
        .ok_or_else(|| malformed(format!("{} of its {} bytes are there", batch.len(), header.size)))?;
    Ok(IggyMessages { header, left, seen: 0 })
}

impl<'a> IggyMessages<'a> {
    /// The batch's header.
    pub fn header(&self) -> &IggyBatchHeader {
        &self.header
    }

    fn take_one(&mut self) -> Result<IggyMessage<'a>, IggyBatchError> {
        let nth = self.seen;
        let frame = FrameHeader::parse(self.left);
        let Some((frame, (bytes, rest))) = frame.zip(split_frame(self.left)) else {
            return Err(malformed(format!("message {nth} is cut off")));
        };
        let (payload, user_headers) = bytes[FRAME_HEADER_BYTES..].split_at(frame.payload);
        let user_headers = UserHeaders::new(user_headers);
        user_headers.check().map_err(|what| malformed(format!("message {nth} has {what}")))?;
        self.left = rest;
        let (offset, origin) = (self.header.base_offset, self.header.origin_timestamp_us);
        Ok(IggyMessage {
            id: frame.id,
            offset: offset.saturating_add(frame.offset_delta.into()),
            origin_timestamp_us: origin.saturating_add(frame.timestamp_delta_us.into()),
            payload,
            user_headers,
        })
    }
}

impl<'a> Iterator for IggyMessages<'a> {
    type Item = Result<IggyMessage<'a>, IggyBatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let message = match (self.seen >= self.header.messages, self.left.is_empty()) {
            (true, true) => return None,
            (true, false) => Err(malformed(format!("bytes follow its {} messages", self.seen))),
            (false, _) => self.take_one(),
        };
        self.seen = self.seen.saturating_add(1);
        if message.is_err() {
            (self.seen, self.left) = (u32::MAX, &[]);
        }
        Some(message)
    }
}
