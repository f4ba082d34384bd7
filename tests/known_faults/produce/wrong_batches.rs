//! Batches that must not be taken: each is refused by its partition's code, on a connection that stays, and
//! nothing of it is stored.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use rdkafka::producer::FutureProducer;
use ringgate_group::ErrorCode;

use super::produce_versions;
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{config, read_all, unkeyed};
use crate::common::partition::{Partition, create, versions};
use crate::common::raw::Raw;
use crate::common::record_batch::{
    CONTROL, GZIP, LZ4, RecordBatch, SNAPPY, ZSTD, message_set, put_varint, record, record_of,
};
use crate::common::within;

const CORRUPT_MESSAGE: i16 = 2;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;

/// A gateway with one partition that holds one record.
struct Stage {
    gateway: Gateway,
    raw: Raw,
    partition: Partition,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(Options::new(2))
    }

    fn with(options: Options) -> Stage {
        let gateway = Gateway::start(options);
        let mut raw = Raw::connect(gateway.bootstrap());
        let partition = create(&mut raw, "guarded", 1, &[]).partition(0);
        assert_eq!(partition.append(&mut raw, RecordBatch::of(&["good"]).bytes()), 0);
        Stage { gateway, raw, partition }
    }

    /// The code that `records` are refused with, the same in each of `versions`.
    fn refused(&mut self, what: &str, versions: impl Iterator<Item = i16>, records: Option<Bytes>, codes: &[i16]) {
        for version in versions {
            let produced = self.partition.produce(&mut self.raw, version, records.clone());
            let code = produced.error_code;
            assert!(codes.contains(&code), "{what}, version {version}: {code}, {:?}", produced.error_message);
            assert_eq!(produced.base_offset, -1, "{what}, version {version}");
            assert_eq!(produced.error_message.is_some(), version >= 8, "{what}, version {version}");
        }
        assert_eq!(self.partition.ends(&mut self.raw), (0, 1), "{what}: nothing was stored");
    }

    fn refused_everywhere(&mut self, what: &str, records: &RecordBatch, codes: &[i16]) {
        self.refused(what, produce_versions(), Some(records.bytes()), codes);
    }

    /// What was there before is all that consumers see, and the next batch follows it.
    fn stays_sound(mut self) {
        let next = self.partition.append(&mut self.raw, RecordBatch::of(&["next"]).gzip().bytes());
        assert_eq!(next, 1);
        assert_eq!(self.partition.batches(&mut self.raw, 0).len(), 2);
        let seen = read_all(&self.gateway, "guarded", 1, 2);
        assert_eq!(seen.iter().map(|record| record.text()).collect::<Vec<_>>(), ["good", "next"]);
    }
}

#[test]
fn k016_a_batch_whose_offsets_do_not_span_its_records_is_refused_87() {
    let mut stage = Stage::new();
    let one = RecordBatch::of(&["v"]);
    for last_offset_delta in [5, 1, -1, i32::MIN, i32::MAX] {
        let batch = RecordBatch { last_offset_delta, ..one.clone() };
        stage.refused_everywhere(&format!("last offset delta {last_offset_delta}"), &batch, &[INVALID_RECORD]);
    }
    let zero_of_two = RecordBatch { last_offset_delta: 0, ..RecordBatch::of(&["a", "b"]) };
    stage.refused_everywhere("last offset delta 0 of two records", &zero_of_two, &[INVALID_RECORD]);
    // The records' own deltas count as well.
    for deltas in [[0, 2], [1, 0], [0, 0], [-1, 0], [0, i64::from(i32::MIN)]] {
        let batch = RecordBatch::of_records(&deltas.map(|delta| record(delta, 0, "v")));
        stage.refused_everywhere(&format!("offset deltas {deltas:?}"), &batch, &[INVALID_RECORD]);
    }
    stage.stays_sound();
}

#[test]
fn k017_a_batch_that_holds_more_or_fewer_records_than_it_counts_is_refused_87() {
    let mut stage = Stage::new();
    for values in [&["a", "b", "c"][..], &["a"]] {
        let batch = RecordBatch { records_count: 2, last_offset_delta: 1, ..RecordBatch::of(values) };
        let what = format!("two of {}", values.len());
        stage.refused_everywhere(&what, &batch, &[INVALID_RECORD]);
        stage.refused_everywhere(&format!("{what} by gzip"), &batch.clone().gzip(), &[INVALID_RECORD]);
        stage.refused_everywhere(&format!("{what} by zstd"), &batch.zstd(), &[INVALID_RECORD, 76]);
    }
    let mut trailing = RecordBatch::of(&["a", "b"]);
    trailing.payload.push(0);
    stage.refused_everywhere("a byte behind the records", &trailing, &[INVALID_RECORD]);
    stage.refused_everywhere("a byte behind the records by gzip", &trailing.gzip(), &[INVALID_RECORD]);
    for records_count in [0, -1, i32::MIN, i32::MAX] {
        let batch = RecordBatch {
            records_count,
            last_offset_delta: records_count.wrapping_sub(1),
            ..RecordBatch::of(&["a", "b"])
        };
        stage.refused_everywhere(&format!("a count of {records_count}"), &batch, &[INVALID_RECORD]);
    }
    stage.stays_sound();
}

#[test]
fn k018_what_cannot_be_decompressed_is_refused_2_or_87_and_no_consumer_sees_it() {
    let mut stage = Stage::new();
    // Bytes that no codec wrote; a stream of gzip and of zstd cut short; nothing at all.
    let noise: Vec<u8> = (1..200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let gzip = RecordBatch::of(&["some", "records"]).gzip().payload;
    let zstd = RecordBatch::of(&["some", "records"]).zstd().payload;
    let cut = |whole: &[u8]| whole[..whole.len() - 3].to_vec();
    for (codec, whole) in [(GZIP, &gzip), (SNAPPY, &noise), (LZ4, &noise), (ZSTD, &zstd)] {
        for payload in [noise.clone(), cut(whole), Vec::new(), whole[..1].to_vec()] {
            let batch = RecordBatch { attributes: codec, payload, ..RecordBatch::of(&["v"]) };
            let what = format!("codec {codec}, {} bytes", batch.payload.len());
            // Below version 7 zstd is no codec at all, whatever is in it.
            let (zstd_less, rest): (Vec<i16>, Vec<i16>) = produce_versions().partition(|v| codec == ZSTD && *v < 7);
            stage.refused(&what, zstd_less.into_iter(), Some(batch.bytes()), &[UNSUPPORTED_COMPRESSION_TYPE]);
            stage.refused(&what, rest.into_iter(), Some(batch.bytes()), &[CORRUPT_MESSAGE, INVALID_RECORD]);
        }
    }
    stage.stays_sound();
}

#[test]
fn k019_a_record_with_an_impossible_header_count_or_length_is_refused_87() {
    let mut stage = Stage::new();
    // Attributes, timestamp delta, offset delta, a null key and value; then the headers.
    let with_headers = |numbers: &[i64]| {
        let mut body = vec![0, 0, 0, 1, 1];
        numbers.iter().for_each(|number| put_varint(&mut body, *number));
        RecordBatch::of_records(&[record_of(&body)])
    };
    for numbers in [
        &[-5][..],
        &[-1],
        &[i64::from(i32::MAX)],
        &[1],
        &[1, -1, -1],
        &[1, -2, -1],
        &[1, 0, -2],
        &[1, 0, 5],
        &[1, i64::from(i32::MAX), -1],
        &[2, 0, -1],
        &[0, 0],
    ] {
        let batch = with_headers(numbers);
        stage.refused_everywhere(&format!("headers {numbers:?}"), &batch, &[INVALID_RECORD]);
        stage.refused_everywhere(&format!("headers {numbers:?} by gzip"), &batch.gzip(), &[INVALID_RECORD]);
    }
    stage.stays_sound();
}

#[test]
fn k020_message_sets_of_old_formats_are_refused_87_and_never_stored() {
    let mut stage = Stage::new();
    for magic in [0, 1] {
        let set = message_set(magic, "old");
        stage.refused(&format!("magic {magic}"), produce_versions(), Some(set.clone()), &[INVALID_RECORD]);
        // Behind a batch of today's format, too.
        let mixed = [&RecordBatch::of(&["v"]).bytes()[..], &set[..]].concat();
        stage.refused(&format!("mixed, magic {magic}"), produce_versions(), Some(mixed.into()), &[INVALID_RECORD]);
    }
    for magic in [3, -1, 127] {
        let batch = RecordBatch { magic, ..RecordBatch::of(&["v"]) };
        stage.refused_everywhere(&format!("magic {magic}"), &batch, &[INVALID_RECORD, CORRUPT_MESSAGE]);
    }
    stage.stays_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k020_a_client_that_speaks_only_old_formats_gets_an_error_and_nothing_is_stored() {
    let stage = tokio::task::block_in_place(Stage::new);
    // DESIGN: Produce 0 to 2 close the connection, which such a client reports as a delivery that failed.
    let more =
        [("api.version.request", "false"), ("broker.version.fallback", "0.9.0.1"), ("message.timeout.ms", "1500")];
    let producer: FutureProducer = config(&stage.gateway.servers(), &more).create().expect("producer");
    let sent = producer.send(unkeyed("guarded", "old").partition(0), Duration::ZERO);
    within("delivery", sent).await.expect_err("there is no way to take it");
    drop(producer);
    tokio::task::block_in_place(|| stage.stays_sound());
}

#[test]
fn k021_an_unknown_codec_and_zstd_before_version_7_are_refused_76() {
    let mut stage = Stage::new();
    for codec in [5, 6, 7] {
        let batch = RecordBatch { attributes: codec, ..RecordBatch::of(&["v"]) };
        stage.refused_everywhere(&format!("codec {codec}"), &batch, &[UNSUPPORTED_COMPRESSION_TYPE]);
    }
    let zstd = RecordBatch::of(&["v"]).zstd();
    stage.refused("zstd", 3..7, Some(zstd.bytes()), &[UNSUPPORTED_COMPRESSION_TYPE]);
    let Stage { mut raw, partition, gateway: _serving } = stage;
    for (offset, version) in (1..).zip(7..=*produce_versions().end()) {
        let produced = partition.produce(&mut raw, version, Some(zstd.bytes()));
        assert_eq!((produced.error_code, produced.base_offset), (0, offset), "version {version}");
    }
}

#[test]
fn k021_a_fetch_before_version_10_gets_no_zstd_but_76() {
    let options = Options::new(2).embedded("Iggy stores records uncompressed");
    let Stage { mut raw, partition, gateway: _serving } = Stage::with(options);
    let zstd = partition.append(&mut raw, RecordBatch::of(&["a", "b"]).zstd().bytes());
    let behind = partition.append(&mut raw, RecordBatch::of(&["c"]).gzip().bytes());
    for version in versions(1) {
        let from_zstd = partition.fetch(&mut raw, version, zstd);
        let no_bytes = from_zstd.records.as_ref().is_none_or(Bytes::is_empty);
        if version < 10 {
            assert_eq!((from_zstd.error_code, no_bytes), (UNSUPPORTED_COMPRESSION_TYPE, true), "version {version}");
        } else {
            assert_eq!((from_zstd.error_code, no_bytes), (0, false), "version {version}");
        }
        // What comes before and behind is for everybody; the client then learns why it cannot go on.
        for offset in [0, behind] {
            let around = partition.fetch(&mut raw, version, offset);
            assert_eq!(around.error_code, 0, "version {version}, offset {offset}");
            assert!(around.records.is_some_and(|records| !records.is_empty()), "version {version}, offset {offset}");
        }
    }
}

#[test]
fn k021_every_error_code_has_kafkas_number_and_name() {
    let mut named = 0;
    for code in (-1..=200).map(ErrorCode).filter(|code| code.name() != "UNKNOWN" && code.is_err()) {
        let kafkas = ResponseError::try_from_code(code.0).expect("a code of Kafka's");
        let name: String = code.name().split('_').map(str::to_lowercase).collect();
        assert_eq!(name, format!("{kafkas:?}").to_lowercase(), "{code:?}");
        named += 1;
    }
    assert!(named > 40, "{named} codes");
}

#[test]
fn k026_control_batches_and_other_than_one_batch_are_refused_87() {
    let mut stage = Stage::new();
    let one = RecordBatch::of(&["v"]);
    stage.refused_everywhere("a control batch", &RecordBatch { attributes: CONTROL, ..one.clone() }, &[INVALID_RECORD]);
    let two = [&one.bytes()[..], &one.bytes()[..]].concat();
    stage.refused("two batches", produce_versions(), Some(two.into()), &[INVALID_RECORD]);
    stage.refused("no batch", produce_versions(), Some(Bytes::new()), &[INVALID_RECORD]);
    stage.refused("null", produce_versions(), None, &[INVALID_RECORD]);
    let whole = one.bytes();
    for length in 1..whole.len() {
        let cut = whole.slice(..length);
        stage.refused(&format!("{length} bytes of it"), [3, 9, 13].into_iter(), Some(cut), &[INVALID_RECORD, 2]);
    }
    stage.stays_sound();
}

#[test]
fn k026_a_base_offset_that_the_producer_chose_is_replaced() {
    let Stage { mut raw, partition, gateway: _serving } = Stage::new();
    for (offset, base_offset) in (1..).zip([7, -1, i64::MAX, i64::MIN]) {
        let batch = RecordBatch { base_offset, ..RecordBatch::of(&["v"]) };
        assert_eq!(partition.append(&mut raw, batch.bytes()), offset, "sent as {base_offset}");
    }
    let stored: Vec<i64> = partition.batches(&mut raw, 0).iter().map(|(header, _)| header.base_offset).collect();
    assert_eq!(stored, [0, 1, 2, 3, 4]);
}
