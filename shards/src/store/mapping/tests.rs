use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{
    self, HEADER_KIND_RAW, HEADER_KIND_STRING, IggyBatchBuilder, IggyBatchHeader, IggyProducer, IggyWalker, UserHeader,
    put_user_header,
};
use ringgate_wire::records::{BatchBuilder, OpenBatch};

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

const SERVER_MS: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;
const SIZE_MAX: usize = 1 << 20;
const PRODUCER: IggyProducer = IggyProducer { id: 5, epoch: 0, base_sequence: 0 };

/// Bytes of the lengths at which the mapping changes its mind.
fn blob() -> impl Strategy<Value = Vec<u8>> {
    let of = |lengths: std::ops::RangeInclusive<usize>| vec(any::<u8>(), lengths);
    prop_oneof![3 => of(0..=3), 1 => of(246..=248), 1 => of(254..=257)]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-c]{0,2}".prop_map(String::into_bytes),
        1 => "kafka\\.(v|key|value|h\\.a)".prop_map(String::into_bytes),
        1 => blob(),
    ]
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-1), Just(0), SERVER_MS - 2 * HOUR_MS..SERVER_MS, 1i64..i64::MAX / 1000,]
}

fn given() -> impl Strategy<Value = Given> {
    let headers =
        prop_oneof![40 => vec((name(), option::of(blob())), 0..5), 1 => vec((name(), option::of(blob())), 380..420)];
    (timestamp(), option::of(blob()), option::of(blob()), headers).prop_map(|(timestamp, key, value, headers)| Given {
        timestamp,
        key,
        value,
        headers,
    })
}

fn kafka(all: &[Given]) -> Bytes {
    let mut builder = BatchBuilder::new(usize::MAX);
    for one in all {
        let headers: Vec<_> = one.headers.iter().map(|(name, value)| (&name[..], value.as_deref())).collect();
        builder.push(one.timestamp, one.key.as_deref(), one.value.as_deref(), &headers).unwrap();
    }
    builder.finish(0, 0).unwrap()
}

fn open(batch: &Bytes) -> OpenBatch {
    OpenBatch::open(batch, usize::MAX).unwrap()
}

/// What Iggy's server does to batches that come one after the other.
fn stored(batches: Vec<Bytes>, mut offset: u64) -> Vec<Bytes> {
    let stamp = |batch: Bytes| {
        let walked = IggyWalker::new(batch.clone()).step(usize::MAX).unwrap();
        let mut batch = BytesMut::from(&batch[..]);
        iggy::stamp(&mut batch, 0, offset, SERVER_MS as u64 * 1000).unwrap();
        offset += u64::from(walked.unwrap().header.messages);
        batch.freeze()
    };
    batches.into_iter().map(stamp).collect()
}

fn read_back(batches: &[Bytes]) -> Vec<(i64, Given)> {
    let mut read = Vec::new();
    for batch in batches {
        let converted = to_kafka(batch, 7, OnUnknown::Stop).unwrap();
        assert_eq!(converted.stopped_at, None);
        for batch in converted.batches {
            let open = open(&batch);
            for record in open.records() {
                let record = record.unwrap();
                let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
                let headers = record.headers.clone().map(|(name, value)| (name.to_vec(), owned(value))).collect();
                let (timestamp, key, value) = (record.timestamp, owned(record.key), owned(record.value));
                let offset = open.header().base_offset + i64::from(record.offset_delta);
                read.push((offset, Given { timestamp, key, value, headers }));
            }
        }
    }
    read
}

/// As it comes back: what had no time has the server's.
fn expected(all: &[Given], base: i64, without_time: i64) -> Vec<(i64, Given)> {
    let timed = |one: &Given| match one.timestamp {
        -1 => Given { timestamp: without_time, ..one.clone() },
        _ => one.clone(),
    };
    all.iter().enumerate().map(|(nth, one)| (base + nth as i64, timed(one))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_record_survives_the_way_there_and_back(all in vec(given(), 1..8), base in 0i64..1 << 40) {
        let sent = to_send(&open(&kafka(&all)), Stamps::OfRecords, None, SIZE_MAX).unwrap();
        let read = read_back(&stored(sent, base as u64));
        prop_assert_eq!(read, expected(&all, base, SERVER_MS));
    }

    #[test]
    fn a_polled_kafka_batch_comes_back_as_it_was(all in vec(given(), 1..8)) {
        let batch = kafka(&all);
        let latest = all.iter().map(|one| one.timestamp).max().unwrap();
        let answered = to_answer(&batch, 3, usize::MAX).unwrap();
        prop_assert!(answered.iter().all(|b| IggyBatchHeader::parse(b).unwrap().partition_id == 3));
        // A server's time of 0 is none.
        let without_time = if latest == 0 { -1 } else { latest };
        prop_assert_eq!(read_back(&answered), expected(&all, 0, without_time));
    }

    #[test]
    fn a_producers_batch_goes_whole_or_not_at_all(all in vec(given(), 1..8)) {
        let batch = open(&kafka(&all));
        let parts = to_send(&batch, Stamps::OfRecords, None, SIZE_MAX).unwrap().len();
        match to_send(&batch, Stamps::OfRecords, Some(PRODUCER), SIZE_MAX) {
            Ok(sent) => {
                prop_assert_eq!((sent.len(), parts), (1, 1));
                prop_assert_eq!(IggyBatchHeader::parse(&sent[0]).unwrap().producer, Some(PRODUCER));
            }
            Err(refusal) => {
                prop_assert!(parts > 1);
                prop_assert_eq!(refusal, Refusal::SplitByTime);
            }
        }
    }

    #[test]
    fn nothing_panics_on_any_message(
        payload in vec(any::<u8>(), 0..40),
        headers in vec((name(), blob()), 0..4),
        version: Option<u8>,
        envelope: Option<u8>,
    ) {
        let mut written = BytesMut::new();
        let own = [(HEADER_VERSION, version), (HEADER_ENVELOPE, envelope)];
        for (name, value) in own {
            if let Some(value) = value {
                put_raw(&mut written, name, &[value % 3]);
            }
        }
        for (name, value) in headers.iter().filter(|(n, v)| (1..=255).contains(&n.len()) && (1..=255).contains(&v.len())) {
            put_raw(&mut written, name, value);
        }
        let _ = to_kafka(&message(&payload, 0, &written), 0, OnUnknown::Skip);
    }
}

fn put_raw(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    put_user_header(out, &UserHeader { name_kind: HEADER_KIND_STRING, name, value_kind: HEADER_KIND_RAW, value });
}

fn message(payload: &[u8], origin_us: u64, headers: &[u8]) -> Bytes {
    let mut builder = IggyBatchBuilder::new(usize::MAX);
    builder.push(0, origin_us, payload, headers).unwrap();
    builder.finish(0, 10, SERVER_MS as u64 * 1000).unwrap()
}

fn headers(all: &[(&[u8], &[u8])]) -> Bytes {
    let mut out = BytesMut::new();
    all.iter().for_each(|(name, value)| put_raw(&mut out, name, value));
    out.freeze()
}

fn one(value: &[u8]) -> Given {
    Given { timestamp: SERVER_MS, key: None, value: Some(value.to_vec()), headers: Vec::new() }
}

/// Names and values of user headers.
type Named = Vec<(Vec<u8>, Vec<u8>)>;

/// Names and values of the only message's headers, and its payload.
fn sent(given: Given) -> (Named, Vec<u8>) {
    let sent = to_send(&open(&kafka(&[given])), Stamps::OfRecords, None, SIZE_MAX).unwrap();
    let message = iggy::messages(&sent[0]).unwrap().next().unwrap().unwrap();
    (message.user_headers.map(|h| (h.name.to_vec(), h.value.to_vec())).collect(), message.payload.to_vec())
}

fn named(all: &[(&str, &[u8])]) -> Named {
    all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect()
}

#[test]
fn a_plain_record_is_payload_and_headers_of_its_own_names() {
    let header = (b"trace".to_vec(), Some(b"abc".to_vec()));
    let given = Given { key: Some(b"k".to_vec()), headers: vec![header], ..one(b"hello") };
    let expected = named(&[("kafka.v", &[1]), ("kafka.key", b"k"), ("kafka.h.trace", b"abc")]);
    assert_eq!(sent(given), (expected, b"hello".to_vec()));
}

#[test]
fn a_value_without_bytes_is_one_zero_byte_and_a_marker() {
    let expected = |marker: &[u8]| (named(&[("kafka.v", &[1]), ("kafka.value", marker)]), vec![0]);
    assert_eq!(sent(Given { value: None, ..one(b"") }), expected(b"null"));
    assert_eq!(sent(one(b"")), expected(b"empty"));
}

#[test]
fn a_record_of_1970_says_so_and_one_without_a_time_does_not() {
    let epoch = named(&[("kafka.v", &[1]), ("kafka.ts", b"epoch")]);
    assert_eq!(sent(Given { timestamp: 0, ..one(b"x") }).0, epoch);
    assert_eq!(sent(Given { timestamp: -1, ..one(b"x") }).0, named(&[("kafka.v", &[1])]));
}

#[test]
fn what_fits_no_header_goes_in_an_envelope() {
    let given = Given { key: Some(Vec::new()), headers: vec![(b"a".to_vec(), None)], ..one(b"v") };
    let payload =
        [&[3u8][..], &[0; 4], &[1, 0, 0, 0], b"v", &[1, 0, 0, 0], &[1, 0, 0, 0], b"a", &[0], &[0; 4]].concat();
    assert_eq!(sent(given), (named(&[("kafka.v", &[1]), ("kafka.envelope", &[1])]), payload));
}

#[test]
fn a_native_message_keeps_its_headers_and_has_no_key() {
    let batch = message(b"payload", 0, &headers(&[(b"kafka.key", b"not ours"), (b"x", b"1")]));
    let read = read_back(&[batch]);
    let headers = vec![(b"kafka.key".to_vec(), Some(b"not ours".to_vec())), (b"x".to_vec(), Some(b"1".to_vec()))];
    let expected = Given { timestamp: SERVER_MS, key: None, value: Some(b"payload".to_vec()), headers };
    assert_eq!(read, vec![(10, expected)]);
}

#[test]
fn what_is_not_understood_stops_or_is_skipped_and_is_never_guessed() {
    let cases: [&[(&[u8], &[u8])]; 6] = [
        &[(b"kafka.v", &[2])],
        &[(b"kafka.v", &[1]), (b"kafka.envelope", &[2])],
        &[(b"kafka.v", &[1]), (b"kafka.value", b"zero")],
        &[(b"kafka.v", &[1]), (b"kafka.new", b"1")],
        &[(b"kafka.v", &[1]), (b"kafka.envelope", &[1]), (b"kafka.key", b"k")],
        &[(b"kafka.v", &[1]), (b"kafka.key", b"k"), (b"kafka.key", b"k")],
    ];
    for case in cases {
        let batch = message(&[0], 5, &headers(case));
        let stopped = to_kafka(&batch, 0, OnUnknown::Stop).unwrap();
        assert_eq!((stopped.batches.len(), stopped.stopped_at.unwrap().offset), (0, 10), "{case:?}");
        let skipped = to_kafka(&batch, 0, OnUnknown::Skip).unwrap();
        assert_eq!((skipped.batches.len(), skipped.skipped.len()), (0, 1), "{case:?}");
    }
}

#[test]
fn records_behind_a_skipped_one_keep_their_offsets() {
    let mut builder = IggyBatchBuilder::new(usize::MAX);
    for version in [&[1], &[9], &[1]] {
        builder.push(0, 1000, b"x", &headers(&[(b"kafka.v", version)])).unwrap();
    }
    let batch = builder.finish(0, 100, 1).unwrap();
    let skipped = to_kafka(&batch, 4, OnUnknown::Skip).unwrap();
    let offsets: Vec<i64> = skipped.batches.iter().map(|batch| open(batch).header().base_offset).collect();
    assert_eq!((offsets, skipped.skipped[0].offset), (vec![100, 102], 101));
    let stopped = to_kafka(&batch, 4, OnUnknown::Stop).unwrap();
    assert_eq!((stopped.batches.len(), stopped.stopped_at.unwrap().offset), (1, 101));
}

#[test]
fn times_that_iggy_cannot_keep_are_refused_by_name() {
    for timestamp in [-2, i64::MIN, i64::MAX / 1000 + 1, i64::MAX] {
        let batch = kafka(&[Given { timestamp, ..one(b"x") }]);
        let refused = to_send(&open(&batch), Stamps::OfRecords, None, SIZE_MAX).unwrap_err();
        assert_eq!((refused.code(), refused), (ErrorCode::INVALID_TIMESTAMP, Refusal::Timestamp(timestamp)));
        // Nothing is read of them when the server's time counts, and what is stored is answered without.
        assert!(to_send(&open(&batch), Stamps::OfServer, None, SIZE_MAX).is_ok());
        assert!(to_answer(&batch, 0, usize::MAX).is_ok());
    }
}

#[test]
fn what_is_larger_than_a_batch_is_refused_and_what_does_not_fit_beside_others_is_split() {
    let large = kafka(&[one(&[7; 2000])]);
    let refused = to_send(&open(&large), Stamps::OfRecords, None, 1000).unwrap_err();
    assert_eq!((refused.code(), &refused), (ErrorCode::MESSAGE_TOO_LARGE, &Refusal::TooLarge(2000, 1000)));
    let three = kafka(&[one(&[7; 500]), one(&[8; 500]), one(&[9; 500])]);
    let parts = to_send(&open(&three), Stamps::OfRecords, None, 1000).unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(read_back(&stored(parts, 0)).len(), 3);
    let refused = to_send(&open(&three), Stamps::OfRecords, Some(PRODUCER), 1000).unwrap_err();
    assert_eq!((refused.code(), refused), (ErrorCode::MESSAGE_TOO_LARGE, Refusal::SplitBySize(1000)));
}
