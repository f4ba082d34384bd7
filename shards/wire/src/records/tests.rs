//! Batches written here, walked and read again; wrong records one by one; and bounds on memory.

use bytes::{BufMut, Bytes, BytesMut};

use super::varint::put;
use super::*;
use crate::peak;

const MOST: usize = 64 << 20;

type Header<'a> = (&'a [u8], Option<&'a [u8]>);

fn walk_by(batch: &Bytes, slice: usize) -> Result<BatchInfo, RecordError> {
    let mut walker = Walker::new(batch.clone(), MOST);
    loop {
        if let Some(walked) = walker.step(slice) {
            return walked;
        }
    }
}

/// The same verdict whether records are seen whole or in the smallest pieces.
fn walk(batch: &Bytes) -> Result<BatchInfo, RecordError> {
    let walked = walk_by(batch, 1 << 20);
    assert_eq!(walk_by(batch, 1), walked);
    walked
}

/// A batch of one record with this body behind its length, under every codec.
fn batches_of(body: &[u8]) -> Vec<Bytes> {
    let mut records = BytesMut::new();
    put(&mut records, body.len() as i64);
    records.put_slice(body);
    [0, 1, 4].map(|codec| batch_of(&records, codec, 1)).to_vec()
}

/// A batch around these records.
fn batch_of(records: &[u8], codec: u8, count: i32) -> Bytes {
    use std::io::Write;
    let payload = match codec {
        1 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(records).unwrap();
            gzip.finish().unwrap()
        }
        4 => zstd::encode_all(records, 1).unwrap(),
        _ => records.to_vec(),
    };
    sealed(&payload, codec, count)
}

fn sealed(payload: &[u8], codec: u8, count: i32) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 20);
    builder.push(1000, None, None, &[]).unwrap();
    let mut batch = BytesMut::from(&builder.finish(0, 0).unwrap()[..HEADER_BYTES]);
    batch.put_slice(payload);
    let length = (batch.len() - BEFORE_LENGTH) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = codec;
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    set_crc(&mut batch);
    batch.freeze()
}

#[test]
fn every_kind_of_record_is_written_walked_and_read_again() {
    let long = vec![b'l'; 1000];
    let many: Vec<Header> = vec![(b"n", Some(b"v")); 500];
    let values = [None, Some(&b""[..]), Some(&b"x"[..]), Some(&long[..])];
    let headers: [&[Header]; 4] =
        [&[], &[(b"a", None), (b"a", Some(b"")), (b"a", Some(b"1"))], &[(b"", Some(b"empty name"))], &many];
    let mut expected = Vec::new();
    let mut builder = BatchBuilder::new(1 << 20).producer(7, 1, 40);
    for (nth, key) in values.iter().enumerate() {
        for value in values {
            for headers in headers {
                let timestamp = 5000 - nth as i64;
                builder.push(timestamp, *key, value, headers).unwrap();
                expected.push((timestamp, *key, value, headers));
            }
        }
    }
    let size = builder.size();
    let batch = builder.finish(100, 3).unwrap();
    assert_eq!(batch.len(), size);
    let info = walk(&batch).unwrap();
    let header = info.header;
    assert_eq!((header.base_offset, header.partition_leader_epoch, info.records), (100, 3, 64));
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 1, 40));
    assert_eq!((header.max_timestamp, info.max_timestamp_found, info.offset_of_max_timestamp), (5000, 5000, 0));
    assert!(header.crc_is_right(&batch));

    let open = OpenBatch::open(&batch, MOST).unwrap();
    assert_eq!(open.bytes().as_ptr(), batch[HEADER_BYTES..].as_ptr(), "what is not compressed is not copied");
    let read: Vec<Record> = open.records().map(|record| record.unwrap()).collect();
    assert_eq!(read.len(), expected.len());
    for (nth, (record, (timestamp, key, value, headers))) in read.iter().zip(expected).enumerate() {
        assert_eq!((record.offset_delta, record.timestamp), (nth as i32, timestamp));
        assert_eq!((record.key, record.value), (key, value));
        assert_eq!(record.headers.len(), headers.len());
        assert!(record.headers.clone().eq(headers.iter().copied()));
    }
}

#[test]
fn a_builder_that_is_full_says_so_and_stays_as_it_was() {
    let mut builder = BatchBuilder::new(HEADER_BYTES + 20);
    builder.push(1, None, Some(b"first"), &[]).unwrap();
    let size = builder.size();
    assert!(builder.push(2, None, Some(&[0; 20]), &[]).is_err());
    assert_eq!((builder.size(), builder.records()), (size, 1));
    assert_eq!(walk(&builder.finish(0, 0).unwrap()).unwrap().records, 1);
    assert_eq!(BatchBuilder::new(1000).finish(0, 0), None);
}

#[test]
fn records_with_one_thing_wrong_are_invalid() {
    // attributes, timestamp delta, offset delta, key length, value length, header count
    let good: &[u8] = &[0, 0, 0, 1, 1, 0];
    for batch in batches_of(good) {
        walk(&batch).unwrap();
    }
    let wrong: [(&str, &[u8]); 19] = [
        ("offset delta 1", &[0, 0, 2, 1, 1, 0]),
        ("key length -2", &[0, 0, 0, 3, 1, 0]),
        ("key length past the record", &[0, 0, 0, 10, 1, 0]),
        ("value length -2", &[0, 0, 0, 1, 3, 0]),
        ("value length past the record", &[0, 0, 0, 1, 4, 0]),
        ("header count -5", &[0, 0, 0, 1, 1, 9]),
        ("header count past the record", &[0, 0, 0, 1, 1, 4]),
        ("header count 2^31-1", &[0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
        ("header name null", &[0, 0, 0, 1, 1, 2, 1, 1]),
        ("header value length -2", &[0, 0, 0, 1, 1, 2, 0, 3]),
        ("header value past the record", &[0, 0, 0, 1, 1, 2, 0, 8]),
        ("a byte behind the headers", &[0, 0, 0, 1, 1, 0, 0]),
        ("no header count", &[0, 0, 0, 1, 1]),
        ("only attributes", &[0]),
        ("nothing at all", &[]),
        ("offset delta in six bytes", &[0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0]),
        ("key length of 33 bits", &[0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0]),
        ("timestamp delta of 65 bits", &[0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 3, 0, 1, 1, 0]),
        ("a varint without end", &[0, 0, 0x80, 0x80, 0x80, 0x80]),
    ];
    for (what, body) in wrong {
        for batch in batches_of(body) {
            let error = walk(&batch).expect_err(what);
            assert_eq!(error.code(), 87, "{what}: {error}");
            let open = OpenBatch::open(&batch, MOST).unwrap();
            let read: Result<Vec<_>, _> = open.records().collect();
            // A reader takes offset deltas as they are.
            assert_eq!(read.is_err(), !what.starts_with("offset delta 1"), "{what}");
        }
    }
    // A varint may be longer than it need be, up to Kafka's limit.
    for batch in batches_of(&[0, 0x80, 0x80, 0, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0]) {
        walk(&batch).unwrap();
    }
}

#[test]
fn reading_ends_at_the_first_error() {
    let batch = batch_of(&[12, 0, 0, 0, 1, 1, 0, 99], 0, 3);
    let open = OpenBatch::open(&batch, MOST).unwrap();
    let read: Vec<bool> = open.records().map(|record| record.is_ok()).collect();
    assert_eq!(read, [true, false]);
}

#[test]
fn damage_is_told_from_nonsense_by_the_crc() {
    let good = BytesMut::from(&batch_of(&[12, 0, 0, 0, 1, 1, 0], 0, 1)[..]);
    // Attributes, counts, timestamps, records: a bit that fell over on the way is worth another try.
    for at in CRC_FROM..good.len() {
        let mut batch = good.clone();
        batch[at] ^= 5;
        assert_eq!(walk(&batch.freeze()).unwrap_err().code(), 2, "at {at}");
    }
}

#[test]
fn a_batch_that_is_refused_at_its_end_says_how_much_it_cost() {
    let records = [12, 0, 0, 0, 1, 1, 0].repeat(1000); // All say that they are the first.
    for (records, count) in [(&records[..], 1000), (&records[..7], 2)] {
        for codec in [0, 1, 4] {
            let mut walker = Walker::new(batch_of(records, codec, count), MOST);
            let walked = loop {
                if let Some(walked) = walker.step(100) {
                    break walked;
                }
            };
            assert_eq!(walked.unwrap_err().code(), 87);
            let cost = walker.decompressed_bytes();
            assert!((7..=107).contains(&cost), "{cost}");
        }
    }
}

#[test]
fn a_claimed_count_allocates_nothing() {
    for codec in [0, 1, 4] {
        let batch = batch_of(&[12, 0, 0, 0, 1, 1, 0], codec, i32::MAX);
        let (walked, peak) = peak::of(|| walk_by(&batch, 1 << 20));
        assert_eq!(walked.unwrap_err().code(), 87);
        let (read, peak_read) = peak::of(|| OpenBatch::open(&batch, MOST).unwrap().records().count());
        assert_eq!(read, 2, "one record and one error");
        assert!(peak.max(peak_read) < 256 << 10, "codec {codec}: {peak}, {peak_read}");
    }
}

#[test]
fn a_bomb_is_walked_in_little_memory_and_its_opening_stops_at_the_bound() {
    let mut records = BytesMut::new();
    let zeros = vec![0; 8 << 20];
    let mut body = BytesMut::from(&[0, 0, 0, 1][..]);
    put(&mut body, zeros.len() as i64);
    body.put_slice(&zeros);
    body.put_u8(0);
    put(&mut records, body.len() as i64);
    records.put_slice(&body);
    for codec in [1, 4] {
        let batch = batch_of(&records, codec, 1);
        assert!(batch.len() < 64 << 10);
        let (walked, peak) = peak::of(|| walk_by(&batch, 64 << 10));
        assert_eq!(walked.unwrap().decompressed_bytes, records.len());
        // What the decompressors keep is theirs: gzip 32 KiB, zstd is not counted here.
        assert!(peak < 256 << 10, "codec {codec}: {peak}");
        let (opened, peak) = peak::of(|| OpenBatch::open(&batch, 1 << 20).map(|_| ()));
        assert_eq!(opened, Err(RecordError::TooLarge(1 << 20)));
        assert!(peak < 4 << 20, "codec {codec}: {peak}");
    }
}

#[test]
fn members_and_frames_that_hold_nothing_are_refused_in_the_end() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"").unwrap();
    for (codec, empty) in [(1, gzip.finish().unwrap()), (4, zstd::encode_all(&b""[..], 1).unwrap())] {
        let few = sealed(&empty.repeat(3), codec, 1);
        assert_eq!(walk_by(&few, 1 << 20).unwrap_err().code(), 87, "they are no records");
        let many = sealed(&empty.repeat((300 << 10) / empty.len()), codec, 1);
        let error = walk_by(&many, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("hold nothing"), "codec {codec}: {error}");
    }
}

#[test]
fn a_search_by_time_goes_in_slices_and_finds_the_first() {
    let mut builder = BatchBuilder::new(4 << 20);
    for n in 0..2000i64 {
        builder.push(10_000 + (n * 7919) % 2000, None, Some(&[0; 100]), &[]).unwrap();
    }
    let plain = builder.finish(0, 0).unwrap();
    for codec in [0, 1, 4] {
        let mut batch = BytesMut::from(&batch_of(&plain[HEADER_BYTES..], codec, 2000)[..]);
        batch[27..35].copy_from_slice(&10_000i64.to_be_bytes());
        let batch = batch.freeze();
        for wanted in [0, 10_000, 10_001, 11_500, 11_999] {
            let expected = (0..2000i64).map(|n| (n as i32, 10_000 + (n * 7919) % 2000)).find(|r| r.1 >= wanted);
            let mut search = TimeSearch::new(&batch, wanted);
            let mut steps = 1;
            let found = loop {
                match search.step(1000) {
                    Some(found) => break found.unwrap(),
                    None => steps += 1,
                }
            };
            assert_eq!(found, expected, "{wanted}");
            assert!(steps >= expected.unwrap().0 / 20, "{steps} steps");
            assert_eq!(first_at_or_after(&batch, wanted), Ok(expected));
        }
        assert_eq!(first_at_or_after(&batch, 12_000), Ok(None));
    }
    assert!(first_at_or_after(&plain.slice(..plain.len() - 1), 99_999).is_err());
    assert!(first_at_or_after(&Bytes::new(), 0).is_err());
}

#[test]
fn batches_are_taken_off_one_by_one_up_to_a_cut_one() {
    let one = batch_of(&[12, 0, 0, 0, 1, 1, 0], 0, 1);
    let mut all = Bytes::from([&one[..], &one[..], &one[..one.len() - 1]].concat());
    assert_eq!(next_batch(&mut all), Some(one.clone()));
    assert_eq!(next_batch(&mut all), Some(one.clone()));
    assert_eq!((next_batch(&mut all), all.len()), (None, one.len() - 1));
}
