//! The bytes of a batch's records, decompressed piece by piece.
//!
//! A [`Source`] holds one piece at a time. It allocates by what was decompressed, by the compressed bytes
//! that are there, or by a constant, never by a size that the stream claims (zstd reserves its window, see
//! [`ZSTD_WINDOW_LOG_MAX`]). Each call to
//! [`Source::available`] does a bounded amount of work: a stream that goes on for long without putting out a
//! byte is refused.

mod lz4;
mod snappy;

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes};

use crate::limits::{DECOMPRESS_CHUNK, DECOMPRESS_INPUT_MAX, ZSTD_WINDOW_LOG_MAX};
use lz4::Lz4;
use snappy::Snappy;

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
    /// Zstd frames.
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
    Gzip(Chunked<flate2::bufread::MultiGzDecoder<Input>>),
    Snappy(Snappy),
    Lz4(Lz4),
    Zstd(Chunked<zstd::stream::read::Decoder<'static, Input>>),
}

impl Source {
    pub(crate) fn new(compression: Compression, payload: Bytes) -> io::Result<Source> {
        Ok(match compression {
            Compression::None => Source::Plain(payload),
            Compression::Gzip => Source::Gzip(Chunked::new(flate2::bufread::MultiGzDecoder::new(Input::new(payload)))),
            Compression::Snappy => Source::Snappy(Snappy::new(payload)),
            Compression::Lz4 => Source::Lz4(Lz4::new(payload)),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(Input::new(payload))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Source::Zstd(Chunked::new(decoder))
            }
        })
    }

    /// What comes next, decompressed if need be; empty at the end.
    pub(crate) fn available(&mut self) -> io::Result<&[u8]> {
        match self {
            Source::Plain(bytes) => Ok(bytes),
            Source::Gzip(stream) => stream.available(|decoder| decoder.get_mut()),
            Source::Snappy(stream) => stream.available(),
            Source::Lz4(stream) => stream.available(),
            Source::Zstd(stream) => stream.available(|decoder| decoder.get_mut()),
        }
    }

    /// Passes over what was used; at most what was available.
    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Source::Plain(left) => left.advance(bytes),
            Source::Gzip(stream) => stream.at += bytes,
            Source::Snappy(stream) => stream.consume(bytes),
            Source::Lz4(stream) => stream.consume(bytes),
            Source::Zstd(stream) => stream.at += bytes,
        }
    }
}

/// A decompressor and what it has put out last.
pub(crate) struct Chunked<R> {
    from: R,
    chunk: Vec<u8>,
    at: usize,
}

impl<R: Read> Chunked<R> {
    fn new(from: R) -> Chunked<R> {
        Chunked { from, chunk: Vec::new(), at: 0 }
    }

    fn available(&mut self, input: impl FnOnce(&mut R) -> &mut Input) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            input(&mut self.from).allowed = DECOMPRESS_INPUT_MAX;
            self.chunk.resize(DECOMPRESS_CHUNK, 0);
            let read = self.from.read(&mut self.chunk);
            self.chunk.truncate(*read.as_ref().unwrap_or(&0));
            self.at = 0;
            read?;
        }
        Ok(&self.chunk[self.at..])
    }
}

/// Compressed bytes, of which a decompressor may take only so many for one piece.
pub(crate) struct Input {
    left: Bytes,
    allowed: usize,
}

impl Input {
    fn new(left: Bytes) -> Input {
        Input { left, allowed: DECOMPRESS_INPUT_MAX }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.allowed == 0 && !self.left.is_empty() {
            return Err(fruitless());
        }
        Ok(&self.left[..self.left.len().min(self.allowed)])
    }

    fn consume(&mut self, bytes: usize) {
        self.left.advance(bytes);
        self.allowed -= bytes;
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(out)?;
        self.consume(n);
        Ok(n)
    }
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// For a stream that only costs time.
fn fruitless() -> io::Error {
    broken(format!("{DECOMPRESS_INPUT_MAX} compressed bytes hold nothing"))
}
