//! LZ4 frames, block by block. A frame that lacks its end mark, whose checksums or content size are wrong, or
//! that something follows, is broken: some consumer would refuse it.

use std::hash::Hasher;
use std::io;

use bytes::{Buf, Bytes};
use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::{broken, fruitless};
use crate::limits::DECOMPRESS_INPUT_MAX;

const MAGIC: u32 = 0x184d_2204;
/// How far a linked block may refer back.
const WINDOW: usize = 64 << 10;
/// No byte of a compressed block yields more.
const RATIO_MAX: usize = 255;

pub(crate) struct Lz4 {
    left: Bytes,
    state: State,
    /// The window, and behind it what the current block yielded.
    out: Vec<u8>,
    /// How much of it was used.
    at: usize,
}

enum State {
    /// The header comes next.
    Start,
    Blocks(Frame),
    End,
}

struct Frame {
    linked: bool,
    block_checksums: bool,
    block_size_max: usize,
    /// What the blocks have yet to yield, when the header says how much that is.
    owed: Option<u64>,
    content: Option<XxHash32>,
}

impl Lz4 {
    pub(super) fn new(payload: Bytes) -> Lz4 {
        Lz4 { left: payload, state: State::Start, out: Vec::new(), at: 0 }
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn available(&mut self) -> io::Result<&[u8]> {
        let before = self.left.len();
        while self.at == self.out.len() {
            if before - self.left.len() > DECOMPRESS_INPUT_MAX {
                return Err(fruitless());
            }
            match &mut self.state {
                State::Start => self.state = State::Blocks(header(&mut self.left)?),
                State::Blocks(frame) => {
                    let kept = if frame.linked { self.out.len().min(WINDOW) } else { 0 };
                    self.out.drain(..self.out.len() - kept);
                    self.at = kept;
                    if !frame.block(&mut self.left, &mut self.out)? {
                        self.state = State::End;
                    }
                }
                State::End if self.left.is_empty() => return Ok(&[]),
                State::End => return Err(broken("lz4: bytes behind the frame's end")),
            }
        }
        Ok(&self.out[self.at..])
    }
}

fn cut_off(_: bytes::TryGetError) -> io::Error {
    broken("lz4: the frame is cut off")
}

fn take(left: &mut Bytes, bytes: usize) -> io::Result<Bytes> {
    if bytes > left.len() {
        return Err(broken("lz4: the frame is cut off"));
    }
    Ok(left.split_to(bytes))
}

fn hash(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

/// Reads a frame's header.
fn header(left: &mut Bytes) -> io::Result<Frame> {
    if left.try_get_u32_le().map_err(cut_off)? != MAGIC {
        return Err(broken("lz4: not a frame"));
    }
    let descriptor = left.clone();
    let flags = left.try_get_u8().map_err(cut_off)?;
    let sizes = left.try_get_u8().map_err(cut_off)?;
    let owed = if flags & 8 != 0 { Some(left.try_get_u64_le().map_err(cut_off)?) } else { None };
    if flags >> 6 != 1 || flags & 2 != 0 || sizes & 0x8f != 0 {
        return Err(broken("lz4: a version or flags that are not known"));
    }
    if flags & 1 != 0 {
        return Err(broken("lz4: a dictionary is needed"));
    }
    let block_size_max = match sizes >> 4 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(broken("lz4: a block size that is not known")),
    };
    let described = descriptor.len() - left.len();
    if left.try_get_u8().map_err(cut_off)? != (hash(&descriptor[..described]) >> 8) as u8 {
        return Err(broken("lz4: the header's checksum is wrong"));
    }
    Ok(Frame {
        linked: flags & 0x20 == 0,
        block_checksums: flags & 0x10 != 0,
        block_size_max,
        owed,
        content: (flags & 4 != 0).then(|| XxHash32::with_seed(0)),
    })
}

impl Frame {
    /// Appends what the next block yields to the window; false when the frame is at its end.
    fn block(&mut self, left: &mut Bytes, out: &mut Vec<u8>) -> io::Result<bool> {
        let size = left.try_get_u32_le().map_err(cut_off)?;
        if size == 0 {
            self.end(left)?;
            return Ok(false);
        }
        let (stored, size) = (size >> 31 != 0, (size & !(1 << 31)) as usize);
        if size > self.block_size_max {
            return Err(broken("lz4: a block over the frame's block size"));
        }
        let block = take(left, size)?;
        if self.block_checksums && left.try_get_u32_le().map_err(cut_off)? != hash(&block) {
            return Err(broken("lz4: a block's checksum is wrong"));
        }
        let window = out.len();
        if stored {
            out.extend_from_slice(&block);
        } else {
            out.resize(window + self.block_size_max.min(size.saturating_mul(RATIO_MAX)), 0);
            let (dictionary, room) = out.split_at_mut(window);
            let written = if window == 0 {
                decompress_into(&block, room)
            } else {
                decompress_into_with_dict(&block, room, dictionary)
            };
            out.truncate(window + written.map_err(|error| broken(format!("lz4: {error}")))?);
        }
        let yielded = &out[window..];
        if let Some(owed) = &mut self.owed {
            let left = owed.checked_sub(yielded.len() as u64);
            *owed = left.ok_or_else(|| broken("lz4: more content than the header says"))?;
        }
        if let Some(content) = &mut self.content {
            content.write(yielded);
        }
        Ok(true)
    }

    fn end(&self, left: &mut Bytes) -> io::Result<()> {
        if self.owed.is_some_and(|owed| owed > 0) {
            return Err(broken("lz4: less content than the header says"));
        }
        if let Some(content) = &self.content
            && left.try_get_u32_le().map_err(cut_off)? != content.finish() as u32
        {
            return Err(broken("lz4: the content's checksum is wrong"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peak;
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use proptest::prelude::*;
    use std::io::Write;

    fn all(payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut source = Lz4::new(Bytes::copy_from_slice(payload));
        let mut all = Vec::new();
        loop {
            let piece = source.available()?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(piece);
            let n = piece.len();
            source.consume(n);
        }
    }

    fn framed(info: FrameInfo, bytes: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text(size: usize) -> Vec<u8> {
        (0..size as u64).map(|i| (i * i / 7 + i % 64 * (i / 1000)) as u8).collect()
    }

    fn infos() -> Vec<FrameInfo> {
        let mut infos = Vec::new();
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for checks in [false, true] {
                let sizes = [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB];
                infos.extend(sizes.map(|size| {
                    let info = FrameInfo::new().block_mode(mode).block_size(size);
                    info.block_checksums(checks).content_checksum(checks)
                }));
            }
        }
        infos
    }

    #[test]
    fn frames_of_every_kind_are_read() {
        for info in infos() {
            for size in [0, 1, 1000, 300_000] {
                let text = text(size);
                assert_eq!(all(&framed(info.clone(), &text)).unwrap(), text, "{info:?}, {size}");
            }
        }
        let sized = framed(FrameInfo::new().content_size(Some(1000)), &text(1000));
        assert_eq!(all(&sized).unwrap(), text(1000));
    }

    #[test]
    fn a_frame_cut_off_anywhere_or_followed_by_something_is_refused() {
        for info in infos() {
            let good = framed(info, &text(1000));
            for end in 0..good.len() {
                assert!(all(&good[..end]).is_err(), "cut off at {end}");
            }
            assert!(all(&[&good[..], &[0]].concat()).is_err());
            assert!(all(&[&good[..], &good[..]].concat()).is_err());
        }
    }

    #[test]
    fn every_checksum_counts() {
        let info = FrameInfo::new().block_checksums(true).content_checksum(true);
        let good = framed(info.content_size(Some(300)), &text(300));
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(all(&bytes).is_err(), "at {at}");
        }
    }

    #[test]
    fn a_small_block_does_not_get_the_room_that_its_frame_allows() {
        let payload = framed(FrameInfo::new().block_size(BlockSize::Max4MB), b"small");
        let (read, peak) = peak::of(|| all(&payload).unwrap());
        assert_eq!(read, b"small");
        assert!(peak < 64 << 10, "{peak}");
    }

    #[test]
    fn empty_blocks_without_end_are_refused() {
        let mut payload = framed(FrameInfo::new(), b"");
        payload.truncate(7);
        // A token that says: no literals, and the block ends.
        (0..DECOMPRESS_INPUT_MAX / 4 + 9).for_each(|_| payload.extend([1, 0, 0, 0, 0]));
        assert!(all(&payload).unwrap_err().to_string().contains("hold nothing"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            kind in 0usize..16, size in 0usize..300,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = framed(infos()[kind].clone(), &text(size));
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = all(&bytes);
            let _ = all(&bytes[7..]);
        }
    }
}
