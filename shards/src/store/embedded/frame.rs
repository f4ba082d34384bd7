//! Frames: how every log of the store marks off, names and checks what it holds.
//!
//! `u32 length, u32 crc32c, u8 kind, u8 version, payload`, little-endian. The length counts kind, version
//! and payload; the CRC covers the same bytes. One scanner reads them all and tells a tail that a crash
//! tore from damage to what had been written.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::files::{self, File};
use super::limits::{DISK_BLOCK_BYTES, RESUME_FRAME_BYTES, RESUME_SEARCH_BYTES, SCAN_CHUNK_BYTES};

/// Bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 10;
/// Bytes before those that length and CRC are about.
const UNCOUNTED: usize = 8;
/// Kinds and versions that the search for whole frames behind a broken one takes for real.
const KINDS: std::ops::Range<u8> = 1..64;
const VERSIONS: std::ops::Range<u8> = 0..8;

/// A Kafka record batch.
pub const KIND_BATCH: u8 = 1;
/// A partition's checkpoint.
pub const KIND_CHECKPOINT: u8 = 2;
/// The end of a snapshot: the number of frames before it.
pub const KIND_SNAPSHOT_END: u8 = 3;
/// A message batch of Iggy's.
pub const KIND_IGGY_BATCH: u8 = 4;
/// An offset that a consumer stored, or let go of.
pub const KIND_CONSUMER_OFFSET: u8 = 5;
/// A topic was created.
pub const KIND_TOPIC_CREATED: u8 = 16;
/// A topic was deleted.
pub const KIND_TOPIC_DELETED: u8 = 17;
/// A topic has more partitions.
pub const KIND_PARTITIONS_ADDED: u8 = 18;
/// A topic's settings changed.
pub const KIND_CONFIG_CHANGED: u8 = 19;
/// A stream was created.
pub const KIND_STREAM_CREATED: u8 = 20;
/// A stream was deleted.
pub const KIND_STREAM_DELETED: u8 = 21;
/// A topic's options of Iggy's changed.
pub const KIND_OPTIONS_CHANGED: u8 = 22;
/// A consumer group of a topic was created.
pub const KIND_GROUP_CREATED: u8 = 23;
/// A consumer group of a topic was deleted.
pub const KIND_GROUP_DELETED: u8 = 24;
/// The least id that a topic's consumer groups have not had.
pub const KIND_GROUP_IDS: u8 = 25;
/// The least numbers that streams and topics have not had.
pub const KIND_COUNTERS: u8 = 26;
/// Kinds from here on are the coordinator's: this plus its own number.
pub const KIND_COORDINATOR: u8 = 32;

/// A buffer for a frame with room for a payload of `capacity` bytes; the payload goes behind.
pub fn begin(kind: u8, version: u8, capacity: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + capacity);
    frame.put_u64_le(0);
    frame.put_u8(kind);
    frame.put_u8(version);
    frame
}

/// Fills in length and CRC.
pub fn seal(mut frame: BytesMut) -> Bytes {
    fill_in(&mut frame);
    frame.freeze()
}

fn fill_in(frame: &mut [u8]) {
    let counted = &frame[UNCOUNTED..];
    let (length, crc) = (counted.len() as u32, crc32c::crc32c(counted));
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Adds a whole frame behind what is there.
pub fn put(out: &mut BytesMut, kind: u8, version: u8, payload: &[u8]) {
    let start = out.len();
    out.reserve(HEADER_BYTES + payload.len());
    out.put_u64_le(0);
    out.put_u8(kind);
    out.put_u8(version);
    out.put_slice(payload);
    fill_in(&mut out[start..]);
}

/// A whole frame.
pub fn encode(kind: u8, version: u8, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    put(&mut frame, kind, version, payload);
    frame.freeze()
}

/// A frame that was read and is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it starts in its file.
    pub position: u64,
    /// What it holds.
    pub kind: u8,
    /// In which form.
    pub version: u8,
    /// That itself.
    pub payload: Bytes,
}

impl Frame {
    /// Where the next one starts.
    pub fn end(&self) -> u64 {
        self.position + (HEADER_BYTES + self.payload.len()) as u64
    }
}

/// The length in bytes of the whole frame that starts here, as it claims; `None` when it cannot be one.
fn claimed(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
    (length >= HEADER_BYTES - UNCOUNTED).then_some(UNCOUNTED + length)
}

/// Whether a whole frame is as it was written.
fn is_sound(frame: &[u8]) -> bool {
    match frame.get(4..8) {
        Some(crc) => crc == crc32c::crc32c(&frame[UNCOUNTED..]).to_le_bytes(),
        None => false,
    }
}

/// Reads the frame at the start of `bytes`, which must be there whole; `None` when it is not one.
pub fn decode(bytes: &Bytes) -> Option<Frame> {
    let len = claimed(bytes).filter(|len| *len <= bytes.len())?;
    let frame = bytes.slice(..len);
    is_sound(&frame).then(|| unwrapped(0, frame))
}

fn unwrapped(position: u64, frame: Bytes) -> Frame {
    Frame { position, kind: frame[8], version: frame[9], payload: frame.slice(HEADER_BYTES..) }
}

/// What the scanner came upon.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame.
    Frame(Frame),
    /// The end, right behind the last frame.
    End,
    /// Something else, where the next frame should start.
    Broken(u64),
}

/// What lies behind the last frame that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing but what one unfinished write leaves: it was never acknowledged as durable.
    Torn,
    /// Whole frames follow at this position: the break is in what was written before them.
    Damaged {
        /// Where the first of them starts.
        resumes_at: u64,
    },
}

/// Reads the frames of a file one after the other.
pub struct Scanner {
    file: Arc<dyn File>,
    position: u64,
    end: u64,
    buffer: Bytes,
    buffer_at: u64,
    chunk: usize,
}

impl Scanner {
    /// Reads `file` from `position`, where a frame starts, to `end`.
    pub fn new(file: Arc<dyn File>, position: u64, end: u64) -> Scanner {
        Scanner { file, position, end, buffer: Bytes::new(), buffer_at: position, chunk: SCAN_CHUNK_BYTES }
    }

    /// Reads this many bytes at once instead: at least what one frame header takes.
    pub fn with_chunk(mut self, bytes: usize) -> Scanner {
        self.chunk = bytes.max(HEADER_BYTES);
        self
    }

    /// Where the next frame starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next frame. `Err` only when the file cannot be read.
    pub fn step(&mut self) -> io::Result<Step> {
        if self.position >= self.end {
            return Ok(Step::End);
        }
        let broken = Step::Broken(self.position);
        let Some(header) = self.peek(HEADER_BYTES)? else { return Ok(broken) };
        let Some(len) = claimed(&header) else { return Ok(broken) };
        let Some(frame) = self.peek(len)? else { return Ok(broken) };
        if !is_sound(&frame) {
            return Ok(broken);
        }
        let frame = unwrapped(self.position, frame);
        self.position = frame.end();
        Ok(Step::Frame(frame))
    }

    /// The bytes that the next frame claims to have, its header included; `None` when none can start here.
    pub fn next_len(&mut self) -> io::Result<Option<usize>> {
        if self.position >= self.end {
            return Ok(None);
        }
        Ok(self.peek(HEADER_BYTES)?.and_then(|header| claimed(&header)))
    }

    /// Goes back to a frame that was read.
    pub(crate) fn go_back(&mut self, position: u64) {
        debug_assert!(position <= self.position);
        self.position = position;
        if position < self.buffer_at {
            (self.buffer, self.buffer_at) = (Bytes::new(), position);
        }
    }

    /// The bytes from the position on; `None` when there are fewer before the end.
    fn peek(&mut self, len: usize) -> io::Result<Option<Bytes>> {
        if len as u64 > self.end - self.position {
            return Ok(None);
        }
        let skip = (self.position - self.buffer_at) as usize;
        if skip + len > self.buffer.len() {
            let most = (self.end - self.position).min(self.chunk.max(len) as u64);
            self.buffer = files::read(&*self.file, self.position, most as usize)?;
            self.buffer_at = self.position;
            if self.buffer.len() < len {
                return Ok(None);
            }
            return Ok(Some(self.buffer.slice(..len)));
        }
        Ok(Some(self.buffer.slice(skip..skip + len)))
    }

    /// Looks at what follows a broken frame. A block of zeros before the next whole frame means that
    /// unsynced writes reached the disk out of order, which is a torn tail too.
    pub fn tail(&mut self) -> io::Result<Tail> {
        let most = (self.end - self.position).min(RESUME_SEARCH_BYTES as u64) as usize;
        let bytes = files::read(&*self.file, self.position, most)?;
        let Some(resumes) = (1..bytes.len()).find(|at| starts_frame(&bytes[*at..])) else {
            return Ok(Tail::Torn);
        };
        let to_block = (DISK_BLOCK_BYTES as u64 - self.position % DISK_BLOCK_BYTES as u64) as usize % DISK_BLOCK_BYTES;
        let blocks = bytes.get(to_block..resumes).unwrap_or_default().chunks_exact(DISK_BLOCK_BYTES);
        for block in blocks {
            if block.iter().all(|b| *b == 0) {
                return Ok(Tail::Torn);
            }
        }
        Ok(Tail::Damaged { resumes_at: self.position + resumes as u64 })
    }
}

fn starts_frame(bytes: &[u8]) -> bool {
    let Some(len) = claimed(bytes).filter(|len| *len <= RESUME_FRAME_BYTES && *len <= bytes.len()) else {
        return false;
    };
    KINDS.contains(&bytes[8]) && VERSIONS.contains(&bytes[9]) && is_sound(&bytes[..len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::files::{Files, MemFiles, Open};
    use std::path::Path;

    fn file(content: &[u8]) -> Arc<dyn File> {
        let file = MemFiles::new().open(Path::new("/f"), Open::Create).unwrap();
        file.write_at(0, &[Bytes::copy_from_slice(content)]).unwrap();
        file
    }

    fn scan(content: &[u8]) -> (usize, Option<Tail>) {
        let mut scanner = Scanner::new(file(content), 0, content.len() as u64).with_chunk(16);
        let mut frames = 0;
        loop {
            match scanner.step().unwrap() {
                Step::Frame(_) => frames += 1,
                Step::End => return (frames, None),
                Step::Broken(_) => return (frames, Some(scanner.tail().unwrap())),
            }
        }
    }

    #[test]
    fn the_format_is_what_the_manual_says() {
        // length 5 = kind + version + "abc"; CRC-32C over 07 01 61 62 63.
        let golden = [5, 0, 0, 0, 0x04, 0x4e, 0x6e, 0x66, 7, 1, b'a', b'b', b'c'];
        assert_eq!(&encode(7, 1, b"abc")[..], &golden);
    }

    #[test]
    fn every_cut_of_the_last_frame_is_a_torn_tail() {
        let whole = [encode(1, 1, b"first"), encode(1, 1, &[9; 100])].concat();
        let first = HEADER_BYTES + 5;
        for cut in first..whole.len() {
            let expected = (cut > first).then_some(Tail::Torn);
            assert_eq!(scan(&whole[..cut]), (1, expected), "cut at {cut}");
        }
        assert_eq!(scan(&whole), (2, None));
    }

    #[test]
    fn any_changed_byte_before_the_last_frame_is_damage() {
        let first = encode(1, 1, b"first");
        let whole = [first.clone(), encode(1, 1, b"second")].concat();
        for at in 0..first.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            let resumes_at = first.len() as u64;
            assert_eq!(scan(&changed), (0, Some(Tail::Damaged { resumes_at })), "byte {at}");
        }
    }

    #[test]
    fn a_block_that_never_reached_the_disk_is_a_torn_tail() {
        let mut content = encode(1, 1, &[7; 2000]).to_vec();
        content[1024..1536].fill(0);
        content.extend_from_slice(&encode(1, 1, b"written before it"));
        assert_eq!(scan(&content), (0, Some(Tail::Torn)));
    }
}
