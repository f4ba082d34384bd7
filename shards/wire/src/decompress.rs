//! The bytes of a batch's records, decompressed through a bounded buffer.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

use crate::limits::DECOMPRESS_CHUNK;

/// A batch's compression, from the low bits of its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// Any number of gzip members.
    Gzip,
    /// Xerial's blocks, as Java clients write them, or one raw block, as librdkafka does.
    Snappy,
    /// An LZ4 frame.
    Lz4,
    /// A zstd frame.
    Zstd,
}

impl Compression {
    /// The codec that these attributes name, if there is one.
    pub fn of(attributes: i16) -> Option<Compression> {
        match attributes & 7 {
            0 => Some(Compression::None),
            1 => Some(Compression::Gzip),
            2 => Some(Compression::Snappy),
            3 => Some(Compression::Lz4),
            4 => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// A stream of decompressed bytes.
pub(crate) enum Source {
    /// Not compressed: the bytes themselves.
    Plain(Bytes),
    /// A decompressor and what it has put out last.
    Stream { from: Box<dyn Read + Send>, chunk: Vec<u8>, at: usize },
}

impl Source {
    pub(crate) fn new(compression: Compression, payload: Bytes) -> io::Result<Source> {
        let from: Box<dyn Read + Send> = match compression {
            Compression::None => return Ok(Source::Plain(payload)),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(payload.reader())),
            Compression::Snappy => Box::new(Snappy::new(payload)),
            Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(payload.reader())),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(payload.reader())?),
        };
        Ok(Source::Stream { from, chunk: Vec::new(), at: 0 })
    }

    /// What can be had without more work; empty at the end.
    pub(crate) fn available(&mut self) -> io::Result<&[u8]> {
        match self {
            Source::Plain(bytes) => Ok(bytes),
            Source::Stream { from, chunk, at } => {
                if *at == chunk.len() {
                    chunk.resize(DECOMPRESS_CHUNK, 0);
                    let read = loop {
                        match from.read(chunk) {
                            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                            other => break other?,
                        }
                    };
                    chunk.truncate(read);
                    *at = 0;
                }
                Ok(&chunk[*at..])
            }
        }
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Source::Plain(left) => left.advance(bytes),
            Source::Stream { at, .. } => *at += bytes,
        }
    }
}

/// What Xerial's stream begins with; a version and a compatible version of 4 bytes each follow.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER: usize = 16;

/// A snappy copy element of 3 bytes yields at most 64: a block that claims to be larger is broken, and its
/// claim must not size a buffer.
const SNAPPY_RATIO_MAX: usize = 64;

struct Snappy {
    left: Bytes,
    xerial: bool,
    block: Vec<u8>,
    at: usize,
}

impl Snappy {
    fn new(mut payload: Bytes) -> Snappy {
        let xerial = payload.len() >= XERIAL_HEADER && payload.starts_with(&XERIAL_MAGIC);
        if xerial {
            payload.advance(XERIAL_HEADER);
        }
        Snappy { left: payload, xerial, block: Vec::new(), at: 0 }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("snappy: {what}"));
        let compressed = if self.xerial {
            let size = self.left.try_get_u32().map_err(|_| broken("a block's size is cut off"))? as usize;
            if size > self.left.len() {
                return Err(broken("a block is cut off"));
            }
            self.left.split_to(size)
        } else {
            std::mem::take(&mut self.left)
        };
        let size = snap::raw::decompress_len(&compressed).map_err(|_| broken("a block without a size"))?;
        if size > compressed.len().saturating_mul(SNAPPY_RATIO_MAX) {
            return Err(broken("a block claims an impossible size"));
        }
        self.block.resize(size, 0);
        self.at = 0;
        let written = snap::raw::Decoder::new()
            .decompress(&compressed, &mut self.block)
            .map_err(|error| broken(&error.to_string()))?;
        self.block.truncate(written);
        Ok(())
    }
}

impl Read for Snappy {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if self.left.is_empty() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let n = out.len().min(self.block.len() - self.at);
        out[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
