//! The walker against batches that the codec writes, against broken ones, and against bombs.

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;
use ringgate_wire::records::*;

const MOST: usize = 64 << 20;

fn record(nth: usize, timestamp: i64, key: Option<Bytes>, value: Option<Bytes>, headers: usize) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: nth as i64,
        sequence: nth as i32,
        timestamp,
        key,
        value,
        headers: (0..headers)
            .map(|h| (StrBytes::from_string(format!("h{h}")), (h % 2 == 0).then(|| Bytes::from_static(b"v"))))
            .collect::<IndexMap<_, _>>(),
    }
}

fn batch(records: &[Record], compression: Compression) -> BytesMut {
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, records, &RecordEncodeOptions { version: 2, compression }).unwrap();
    bytes
}

fn plain(n: usize) -> Vec<Record> {
    (0..n).map(|i| record(i, 1000 + i as i64, None, Some(Bytes::from(vec![b'x'; 10])), 0)).collect()
}

fn walk(bytes: &[u8]) -> Result<BatchInfo, RecordError> {
    walk_in(bytes, MOST, 1 << 20)
}

fn walk_in(bytes: &[u8], most: usize, slice: usize) -> Result<BatchInfo, RecordError> {
    let mut walker = Walker::new(Bytes::copy_from_slice(bytes), most);
    loop {
        if let Some(walked) = walker.step(slice) {
            return walked;
        }
    }
}

/// After a change that the CRC covers.
fn resealed(mut bytes: BytesMut) -> BytesMut {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

#[test]
fn a_batch_of_every_codec_is_found_right() {
    for codec in CODECS {
        let bytes = batch(&plain(500), codec);
        let info = walk(&bytes).unwrap();
        assert_eq!((info.records, info.header.last_offset_delta), (500, 499), "{codec:?}");
        assert_eq!((info.max_timestamp_found, info.offset_of_max_timestamp), (1499, 499));
        assert!(!info.transactional && !info.control);
        assert_eq!(first_at_or_after(&bytes.clone().freeze(), 1200), Ok(Some((200, 1200))));
        assert_eq!(first_at_or_after(&bytes.freeze(), 1500), Ok(None));
    }
}

#[test]
fn snappy_without_xerial_framing_is_read_too() {
    let framed = batch(&plain(50), Compression::None);
    let raw = snap::raw::Encoder::new().compress_vec(&framed[HEADER_BYTES..]).unwrap();
    let mut bytes = BytesMut::from(&framed[..HEADER_BYTES]);
    bytes.extend_from_slice(&raw);
    let length = (bytes.len() - 12) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[22] |= 2;
    assert_eq!(walk(&resealed(bytes)).unwrap().records, 50);
}

#[test]
fn a_flipped_bit_under_the_crc_is_corrupt() {
    let good = batch(&plain(3), Compression::None);
    for at in [21, 40, HEADER_BYTES, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let error = walk(&bytes).unwrap_err();
        assert_eq!(error.code(), if at == 22 { 76 } else { 2 }, "at {at}: {error}");
    }
}

#[test]
fn counts_that_do_not_match_are_invalid() {
    for codec in [Compression::None, Compression::Gzip] {
        for (records, last_delta) in [(1, 5), (1, -1), (2, 1), (4, 3), (0, -1), (-1, -2), (i32::MAX, i32::MAX - 1)] {
            let mut bytes = batch(&plain(3), codec);
            bytes[23..27].copy_from_slice(&i32::to_be_bytes(last_delta));
            bytes[57..61].copy_from_slice(&i32::to_be_bytes(records));
            assert_eq!(walk(&resealed(bytes)).unwrap_err().code(), 87, "{records} {last_delta}");
        }
    }
}

#[test]
fn old_formats_unknown_codecs_and_foreign_lengths_have_their_own_codes() {
    let good = batch(&plain(1), Compression::None);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        walk(&resealed(bytes)).unwrap_err().code()
    };
    assert_eq!(with(16, 1), 87);
    assert_eq!(with(16, 3), 87);
    assert_eq!(with(22, 5), 76);
    assert_eq!(with(22, 8), 32, "LogAppendTime is the broker's");
    assert_eq!(walk(&[]).unwrap_err().code(), 87);
    assert_eq!(walk(&good[..good.len() - 1]).unwrap_err().code(), 87);
    let two = [&good[..], &good[..]].concat();
    assert_eq!(walk(&two).unwrap_err().code(), 87);
}

#[test]
fn random_bytes_under_a_codec_are_corrupt_or_invalid() {
    for codec in 1u8..=4 {
        let mut bytes = batch(&plain(20), Compression::None);
        bytes[22] = codec;
        let code = walk(&resealed(bytes)).unwrap_err().code();
        assert!(code == 2 || code == 87, "codec {codec}: {code}");
    }
}

#[test]
fn a_bomb_stops_at_its_bound() {
    for codec in [Compression::Gzip, Compression::Zstd, Compression::Lz4, Compression::Snappy] {
        let bomb = record(0, 0, None, Some(Bytes::from(vec![0; 8 << 20])), 0);
        let bytes = batch(&[bomb], codec);
        assert_eq!(walk_in(&bytes, 1 << 20, 1 << 16), Err(RecordError::TooLarge(1 << 20)), "{codec:?}");
    }
}

#[test]
fn a_slice_of_the_walk_is_about_as_long_as_asked() {
    let bytes = batch(&plain(5000), Compression::Zstd).freeze();
    let mut walker = Walker::new(bytes, MOST);
    let mut steps = 1;
    while walker.step(1000).is_none() {
        steps += 1;
    }
    assert!(steps > 50, "{steps} steps");
}

#[test]
fn the_logs_changes_leave_a_right_batch() {
    let mut bytes = batch(&plain(3), Compression::Lz4);
    set_place(&mut bytes, 12345, 7);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert_eq!((header.base_offset, header.partition_leader_epoch, header.last_offset()), (12345, 7, 12347));
    walk(&bytes).unwrap();
    set_max_timestamp(&mut bytes, 99);
    assert_eq!(walk(&bytes).unwrap().header.max_timestamp, 99);
    set_log_append_time(&mut bytes, 5000);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert!(header.is_log_append_time());
    assert_eq!(header.crc, crc32c::crc32c(&bytes[21..]));
    assert_eq!(first_at_or_after(&bytes.freeze(), 4000), Ok(Some((0, 5000))));
}

prop_compose! {
    fn some_record()(timestamp in 0i64..1 << 45, key in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..3000)), headers in 0usize..5) -> Record {
        record(0, timestamp, key.map(Bytes::from), value.map(Bytes::from), headers)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_codec_writes_is_right_whatever_the_slices(
        records in prop::collection::vec(some_record(), 1..40), codec in 0usize..5, slice in 1usize..5000,
    ) {
        let records: Vec<Record> = records.into_iter().enumerate()
            .map(|(i, r)| Record { offset: i as i64, sequence: i as i32, ..r }).collect();
        let bytes = batch(&records, CODECS[codec]);
        let info = walk_in(&bytes, MOST, slice).unwrap();
        let newest = records.iter().map(|r| r.timestamp).max().unwrap();
        prop_assert_eq!(info.records as usize, records.len());
        prop_assert_eq!(info.max_timestamp_found, newest);
        prop_assert_eq!(records[info.offset_of_max_timestamp as usize].timestamp, newest);

        let open = OpenBatch::open(&bytes.freeze(), MOST).unwrap();
        for (read, record) in open.records().zip(&records) {
            let read = read.unwrap();
            prop_assert_eq!(i64::from(read.offset_delta), record.offset);
            prop_assert_eq!(read.timestamp, record.timestamp);
            prop_assert_eq!((read.key, read.value), (record.key.as_deref(), record.value.as_deref()));
            let headers = record.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
            prop_assert!(read.headers.eq(headers));
        }
        prop_assert_eq!(open.records().count(), records.len());
    }

    #[test]
    fn the_codec_reads_what_the_builder_writes(records in prop::collection::vec(some_record(), 1..40)) {
        let mut builder = BatchBuilder::new(1 << 20).producer(9, 2, 5);
        for record in &records {
            let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref())).collect();
            builder.push(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers).unwrap();
        }
        let mut bytes = builder.finish(70, 4).unwrap();
        let read = RecordBatchDecoder::decode(&mut bytes).unwrap().records;
        prop_assert_eq!(read.len(), records.len());
        for (nth, (read, record)) in read.iter().zip(&records).enumerate() {
            prop_assert_eq!((read.offset, read.sequence), (70 + nth as i64, 5 + nth as i32));
            prop_assert_eq!((read.producer_id, read.producer_epoch, read.partition_leader_epoch), (9, 2, 4));
            prop_assert_eq!((read.timestamp, &read.key, &read.value), (record.timestamp, &record.key, &record.value));
            prop_assert_eq!(&read.headers, &record.headers);
        }
    }

    #[test]
    fn no_bytes_panic_and_what_is_broken_is_never_found_right(
        flips in prop::collection::vec((0usize..2000, any::<u8>()), 1..6), codec in 0usize..5, reseal in any::<bool>(),
    ) {
        let good = batch(&plain(30), CODECS[codec]);
        let mut bytes = good.clone();
        for (at, byte) in flips {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let changed = bytes[21..] != good[21..];
        let bytes = if reseal { resealed(bytes) } else { bytes };
        let walked = walk(&bytes);
        if !reseal && changed {
            prop_assert!(walked.is_err());
        }
        // What the walk lets in, a reader reads to its end.
        let open = OpenBatch::open(&bytes.freeze(), MOST);
        if let Ok(info) = walked {
            prop_assert_eq!(open.unwrap().records().filter(|record| record.is_ok()).count(), info.records as usize);
        } else if let Ok(open) = open {
            let _ = open.records().count();
        }
    }

    #[test]
    fn no_garbage_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = walk(&bytes);
        let _ = BatchHeader::parse(&bytes);
        let bytes = Bytes::from(bytes);
        let _ = first_at_or_after(&bytes, 0);
        let _ = next_batch(&mut bytes.clone());
        if let Ok(open) = OpenBatch::open(&bytes, MOST) {
            let _ = open.records().count();
        }
    }
}
