//! Snappy, element by element, so that one block of any size is read in pieces and in bounded memory.

use std::io;

use bytes::{Buf, Bytes};

use super::{broken, fruitless};
use crate::limits::{DECOMPRESS_CHUNK, DECOMPRESS_INPUT_MAX, SNAPPY_WINDOW};

/// What Xerial's stream begins with; a version and a compatible version of 4 bytes each follow.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER: usize = 16;

pub(crate) struct Snappy {
    /// Compressed bytes behind the current block.
    left: Bytes,
    /// Whether blocks with a length in front follow each other; else all is one block.
    xerial: bool,
    block: Bytes,
    /// Bytes that the block has yet to yield.
    owed: usize,
    /// Bytes of a literal that have yet to be copied.
    literal: usize,
    /// The last of what the block yielded, [`SNAPPY_WINDOW`] bytes at least, for its copies to refer to.
    out: Vec<u8>,
    /// How much of it was used.
    at: usize,
}

impl Snappy {
    pub(super) fn new(mut payload: Bytes) -> Snappy {
        let xerial = payload.len() >= XERIAL_HEADER && payload.starts_with(&XERIAL_MAGIC);
        if xerial {
            payload.advance(XERIAL_HEADER);
        }
        Snappy { left: payload, xerial, block: Bytes::new(), owed: 0, literal: 0, out: Vec::new(), at: 0 }
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn available(&mut self) -> io::Result<&[u8]> {
        if self.at == self.out.len() {
            let before = self.left.len();
            while self.owed == 0 {
                if !self.block.is_empty() {
                    return Err(broken("snappy: bytes behind a block's end"));
                }
                if self.left.is_empty() {
                    return Ok(&[]);
                }
                if before - self.left.len() > DECOMPRESS_INPUT_MAX {
                    return Err(fruitless());
                }
                self.next_block()?;
            }
            self.more()?;
        }
        Ok(&self.out[self.at..])
    }

    fn next_block(&mut self) -> io::Result<()> {
        self.block = if self.xerial {
            let size = self.left.try_get_u32().map_err(|_| broken("snappy: a block's size is cut off"))? as usize;
            if size > self.left.len() {
                return Err(broken("snappy: a block is cut off"));
            }
            self.left.split_to(size)
        } else {
            std::mem::take(&mut self.left)
        };
        let owed = crate::frame::uvarint(&mut self.block).ok_or_else(|| broken("snappy: a block without a size"))?;
        self.owed = owed as usize;
        self.out.clear();
        self.at = 0;
        Ok(())
    }

    /// Yields a piece of the block: about a chunk, less at its end.
    fn more(&mut self) -> io::Result<()> {
        if self.out.len() >= 2 * SNAPPY_WINDOW {
            self.out.drain(..self.out.len() - SNAPPY_WINDOW);
        }
        self.at = self.out.len();
        let goal = self.out.len() + DECOMPRESS_CHUNK.min(self.owed);
        // A copy may go past the goal, never past what the block owes.
        let end = self.out.len() + self.owed;
        let mut input = &self.block[..];
        let step = fill(&mut self.out, &mut input, &mut self.literal, goal, end);
        let used = self.block.len() - input.len();
        self.block.advance(used);
        self.owed = end - self.out.len();
        step
    }
}

/// Decodes elements until `out` has at least `goal` bytes. `literal` is what is left of a literal.
fn fill(out: &mut Vec<u8>, input: &mut &[u8], literal: &mut usize, goal: usize, end: usize) -> io::Result<()> {
    let cut_off = || broken("snappy: a block ends too early");
    while out.len() < goal {
        if *literal > 0 {
            let n = (*literal).min(goal - out.len());
            let (bytes, rest) = input.split_at_checked(n).ok_or_else(cut_off)?;
            out.extend_from_slice(bytes);
            (*input, *literal) = (rest, *literal - n);
            continue;
        }
        let tag = input.try_get_u8().map_err(|_| cut_off())?;
        let high = usize::from(tag >> 2);
        let (length, offset) = match tag & 3 {
            0 => {
                *literal = 1 + match high {
                    0..60 => high,
                    // One to four bytes of length, little-endian.
                    _ => input.try_get_uint_le(high - 59).map_err(|_| cut_off())? as usize,
                };
                if *literal > end - out.len() {
                    return Err(broken("snappy: a literal past the block's end"));
                }
                continue;
            }
            1 => {
                let low = usize::from(input.try_get_u8().map_err(|_| cut_off())?);
                (4 + (high & 7), (high >> 3) << 8 | low)
            }
            2 => (1 + high, usize::from(input.try_get_u16_le().map_err(|_| cut_off())?)),
            _ => (1 + high, input.try_get_u32_le().map_err(|_| cut_off())? as usize),
        };
        if offset == 0 || offset > out.len() {
            return Err(broken(format!("snappy: a copy from {offset} bytes back")));
        }
        if length > end - out.len() {
            return Err(broken("snappy: a copy past the block's end"));
        }
        let from = out.len() - offset;
        if offset >= length {
            out.extend_from_within(from..from + length);
        } else {
            // The copy overlaps what it makes: it repeats the last `offset` bytes.
            for at in from..from + length {
                out.push(out[at]);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peak;
    use proptest::prelude::*;

    fn all(payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut source = Snappy::new(Bytes::copy_from_slice(payload));
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

    fn raw(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    /// Text with repetitions near and far.
    fn text(size: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut out: Vec<u8> = Vec::with_capacity(size);
        while out.len() < size {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (pick, length) = ((state >> 33) as usize, (state >> 20) as usize % 70 + 1);
            if pick % 3 == 0 || out.is_empty() {
                out.extend((0..length).map(|i| (state >> (i % 8 * 8)) as u8));
            } else {
                let from = out.len() - 1 - pick % out.len().min(60_000);
                (0..length).for_each(|i| out.push(out[from + i]));
            }
        }
        out.truncate(size);
        out
    }

    #[test]
    fn raw_blocks_and_xerial_streams_of_any_size_are_read() {
        for size in [0, 1, 59, 60, 61, 300, 65_536, 100_000, 3 << 20] {
            let text = text(size, size as u64);
            assert_eq!(all(&raw(&text)).unwrap(), text, "raw, {size}");
            let mut xerial = [&XERIAL_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
            for block in text.chunks(32 << 10) {
                let block = raw(block);
                xerial.extend((block.len() as u32).to_be_bytes());
                xerial.extend(block);
            }
            assert_eq!(all(&xerial).unwrap(), text, "xerial, {size}");
        }
    }

    #[test]
    fn a_block_that_claims_four_gigabytes_allocates_nothing_for_them() {
        let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, b'a'];
        let (read, peak) = peak::of(|| all(&claim));
        assert!(read.is_err() && peak < 1 << 10, "{peak}");
    }

    #[test]
    fn a_large_block_is_held_in_a_window() {
        let payload = raw(&vec![7; 16 << 20]);
        let mut source = Snappy::new(payload.into());
        let (total, peak) = peak::of(|| {
            let mut total = 0;
            loop {
                let n = source.available().unwrap().len();
                if n == 0 {
                    return total;
                }
                assert!(n <= DECOMPRESS_CHUNK + 64);
                source.consume(n);
                total += n;
            }
        });
        assert_eq!(total, 16 << 20);
        assert!(peak <= 8 * SNAPPY_WINDOW, "{peak}");
    }

    #[test]
    fn empty_blocks_without_end_are_refused() {
        let mut payload = [&XERIAL_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        (0..DECOMPRESS_INPUT_MAX / 4 + 9).for_each(|_| payload.extend([0, 0, 0, 1, 0]));
        assert!(all(&payload).unwrap_err().to_string().contains("hold nothing"));
    }

    proptest! {
        #[test]
        fn damaged_blocks_are_judged_as_the_snap_crate_does(
            size in 0usize..5000, seed in any::<u64>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut block = raw(&text(size, seed));
            for (at, byte) in changes {
                let at = at.index(block.len());
                block[at] = byte;
            }
            // A block may claim to be large; what it is held against must not allocate for that.
            prop_assume!(snap::raw::decompress_len(&block).is_ok_and(|claim| claim < 1 << 20) );
            match snap::raw::Decoder::new().decompress_vec(&block) {
                Ok(expected) => prop_assert_eq!(all(&block).unwrap(), expected),
                Err(_) => prop_assert!(all(&block).is_err()),
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), xerial in any::<bool>()) {
            let head: &[u8] = if xerial { &XERIAL_MAGIC } else { &[] };
            let _ = all(&[head, &bytes].concat());
        }
    }
}
