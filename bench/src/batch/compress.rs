//! Compressing a batch's records, as Kafka's own producer does.

use std::io::Write;

use bytes::{BufMut, Bytes, BytesMut};
use ringgate_wire::records::{BatchHeader, Compression, HEADER_BYTES};

/// Where the CRC is, and from where on it covers the batch.
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
/// Bytes of a batch that its length field does not count.
const BEFORE_LENGTH: usize = 12;
/// `snappy-java`'s stream: magic, version 1, readable since version 1.
const XERIAL_HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Its blocks' size before compression.
const XERIAL_BLOCK: usize = 32 << 10;
/// The levels that Kafka's own producer has by default.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// A codec by its name in Kafka's `compression.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec(pub Compression);

impl std::str::FromStr for Codec {
    type Err = String;

    fn from_str(name: &str) -> Result<Codec, String> {
        Ok(Codec(match name {
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => return Err("none, gzip, snappy, lz4 or zstd".into()),
        }))
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

/// Compresses batches; keeps a codec's state between them, which costs more to make than a small batch to compress.
pub struct Compressor {
    codec: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// For one producer.
    pub fn new(codec: Codec) -> Compressor {
        let zstd = match codec.0 {
            Compression::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            _ => None,
        };
        Compressor { codec: codec.0, zstd }
    }

    /// The batch with its records compressed and a new CRC. `batch` is one as
    /// [`BatchBuilder`](ringgate_wire::records::BatchBuilder) makes it, not compressed.
    ///
    /// # Errors
    /// The codec's, such as no memory; or `batch` is no batch.
    pub fn compress(&mut self, batch: Bytes) -> std::io::Result<Bytes> {
        if self.codec == Compression::None {
            return Ok(batch);
        }
        let header = BatchHeader::parse(&batch).filter(|header| header.size == batch.len());
        let header = header.ok_or_else(|| std::io::Error::other("not one batch of format 2"))?;
        let mut out = BytesMut::with_capacity(HEADER_BYTES + batch.len() / 2);
        out.put_slice(&batch[..HEADER_BYTES]);
        self.put(&mut out, &batch[HEADER_BYTES..])?;
        let length = i32::try_from(out.len() - BEFORE_LENGTH).map_err(std::io::Error::other)?;
        out[8..12].copy_from_slice(&length.to_be_bytes());
        out[21..23].copy_from_slice(&(header.attributes | self.codec as i16).to_be_bytes());
        let crc = crc32c::crc32c(&out[CRC_FROM..]);
        out[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        Ok(out.freeze())
    }

    fn put(&mut self, out: &mut BytesMut, records: &[u8]) -> std::io::Result<()> {
        match self.codec {
            Compression::None => out.put_slice(records),
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let mut encoder = flate2::write::GzEncoder::new(out.writer(), level);
                encoder.write_all(records)?;
                encoder.finish()?;
            }
            Compression::Snappy => put_xerial(out, records)?,
            Compression::Lz4 => {
                // As Kafka's: blocks of 64 KiB that stand alone, no checksums.
                let info = lz4_flex::frame::FrameInfo::new()
                    .block_size(lz4_flex::frame::BlockSize::Max64KB)
                    .block_mode(lz4_flex::frame::BlockMode::Independent);
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out.writer());
                encoder.write_all(records)?;
                encoder.finish().map_err(std::io::Error::other)?;
            }
            Compression::Zstd => match &mut self.zstd {
                Some(zstd) => out.put_slice(&zstd.compress(records)?),
                None => out.put_slice(&zstd::bulk::compress(records, ZSTD_LEVEL)?),
            },
        }
        Ok(())
    }
}

fn put_xerial(out: &mut BytesMut, records: &[u8]) -> std::io::Result<()> {
    out.put_slice(&XERIAL_HEADER);
    let mut encoder = snap::raw::Encoder::new();
    for block in records.chunks(XERIAL_BLOCK) {
        let compressed = encoder.compress_vec(block).map_err(std::io::Error::other)?;
        out.put_u32(compressed.len() as u32);
        out.put_slice(&compressed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ringgate_wire::records::{BatchBuilder, OpenBatch, Walker};

    const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

    fn batch(values: &[Vec<u8>]) -> Bytes {
        let mut batch = BatchBuilder::new(usize::MAX).producer(4, 1, 9);
        for (at, value) in values.iter().enumerate() {
            batch.push(1_000 + at as i64, Some(b"key"), Some(value), &[]).unwrap();
        }
        batch.finish(0, -1).unwrap()
    }

    #[test]
    fn codecs_go_by_kafkas_names() {
        for name in CODECS {
            assert_eq!(name.parse::<Codec>().unwrap().to_string(), name);
        }
        assert!("brotli".parse::<Codec>().unwrap_err().contains("zstd"));
    }

    #[test]
    fn compressible_records_become_fewer_bytes() {
        let plain = batch(&vec![vec![b'a'; 1_000]; 100]);
        for name in &CODECS[1..] {
            let compressed = Compressor::new(name.parse().unwrap()).compress(plain.clone()).unwrap();
            assert!(compressed.len() < plain.len() / 10, "{name}: {}", compressed.len());
        }
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        let mut compressor = Compressor::new("gzip".parse().unwrap());
        assert!(compressor.compress(Bytes::from_static(b"none")).is_err());
    }

    proptest! {
        #[test]
        fn every_codecs_batch_passes_the_servers_walk_and_has_the_same_records(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3_000), 1..40),
        ) {
            let plain = batch(&values);
            for name in CODECS {
                let mut compressor = Compressor::new(name.parse().unwrap());
                // Twice, since what is kept between batches must not show.
                compressor.compress(plain.clone()).unwrap();
                let compressed = compressor.compress(plain.clone()).unwrap();
                let info = Walker::new(compressed.clone(), usize::MAX).step(usize::MAX).unwrap().unwrap();
                prop_assert_eq!(info.records as usize, values.len());
                prop_assert_eq!((info.header.producer_id, info.header.base_sequence), (4, 9));
                let open = OpenBatch::open(&compressed, usize::MAX).unwrap();
                for (record, value) in open.records().zip(&values) {
                    prop_assert_eq!(record.unwrap().value, Some(&value[..]));
                }
            }
        }
    }
}
