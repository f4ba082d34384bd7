//! The walk over a batch that has arrived.

use std::hash::Hasher;

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::read::FrameHeader;
use super::user_headers::UserHeaders;
use super::{
    BATCH_HEADER_BYTES, FRAME_HEADER_BYTES, IggyBatchError, IggyBatchHeader, IggyBatchInfo, PAYLOAD_BYTES_MAX,
    USER_HEADERS_BYTES_MAX, malformed,
};

/// Looks one batch of a client through: its length, each message's shape, place and checksum, and its own
/// checksum. Works in slices and holds nothing.
pub struct IggyWalker {
    batch: Bytes,
    /// Where the next frame starts; 0 before the header was read.
    at: usize,
    header: Option<IggyBatchHeader>,
    fields: XxHash3_64,
    seen: u32,
    max_delta_us: u32,
}

impl IggyWalker {
    /// A walk over exactly one batch, as a client sends it.
    pub fn new(batch: Bytes) -> IggyWalker {
        IggyWalker { batch, at: 0, header: None, fields: XxHash3_64::new(), seen: 0, max_delta_us: 0 }
    }

    /// Goes on for about `budget` bytes, at least a message. `None`: there is more to do. Not to be called
    /// after the end.
    pub fn step(&mut self, budget: usize) -> Option<Result<IggyBatchInfo, IggyBatchError>> {
        let header = match self.header {
            Some(header) => header,
            None => match self.begin() {
                Ok(header) => header,
                Err(error) => return Some(Err(error)),
            },
        };
        let end = self.at.saturating_add(budget.max(1));
        while self.at < self.batch.len() {
            if self.at >= end {
                return None;
            }
            if let Err(error) = self.frame() {
                return Some(Err(error));
            }
        }
        Some(self.finish(header))
    }

    fn begin(&mut self) -> Result<IggyBatchHeader, IggyBatchError> {
        let header = IggyBatchHeader::parse(&self.batch)?;
        if header.size != self.batch.len() {
            return Err(malformed(format!("its length is {}, {} bytes came", header.size, self.batch.len())));
        }
        if header.messages == 0 {
            return Err(malformed("it has no messages"));
        }
        self.header = Some(header);
        self.fields = header.checksum_of_fields();
        self.at = BATCH_HEADER_BYTES;
        Ok(header)
    }

    fn frame(&mut self) -> Result<(), IggyBatchError> {
        let (nth, left) = (self.seen, &self.batch[self.at..]);
        let frame = FrameHeader::parse(left).ok_or_else(|| malformed(format!("message {nth} has no whole header")))?;
        if frame.payload > PAYLOAD_BYTES_MAX {
            return Err(IggyBatchError::PayloadTooLarge(nth, frame.payload));
        }
        if frame.user_headers > USER_HEADERS_BYTES_MAX {
            return Err(IggyBatchError::HeadersTooLarge(nth, frame.user_headers));
        }
        let bytes = left
            .get(..frame.size())
            .ok_or_else(|| malformed(format!("message {nth} is longer than what is left of the batch")))?;
        if frame.offset_delta != nth {
            return Err(malformed(format!("message {nth} says that it is number {}", frame.offset_delta)));
        }
        let right = XxHash3_64::oneshot(&bytes[8..]);
        if frame.checksum != right {
            let what = format!("message {nth}");
            return Err(IggyBatchError::Checksum { what, claimed: frame.checksum, right });
        }
        UserHeaders::new(&bytes[FRAME_HEADER_BYTES + frame.payload..])
            .check()
            .map_err(|what| malformed(format!("message {nth} has {what}")))?;
        self.fields.write(&bytes[..8]);
        self.max_delta_us = self.max_delta_us.max(frame.timestamp_delta_us);
        self.at += bytes.len();
        self.seen += 1;
        Ok(())
    }

    fn finish(&self, header: IggyBatchHeader) -> Result<IggyBatchInfo, IggyBatchError> {
        if self.seen != header.messages {
            return Err(malformed(format!("it has {} messages and says {}", self.seen, header.messages)));
        }
        let right = self.fields.finish();
        if header.checksum != right {
            return Err(IggyBatchError::Checksum { what: "the batch".into(), claimed: header.checksum, right });
        }
        let max_origin_timestamp_us = header.origin_timestamp_us.saturating_add(self.max_delta_us.into());
        Ok(IggyBatchInfo { header, max_origin_timestamp_us })
    }
}
