//! Batches that we write are those that the protocol's own crate reads, and the other way round; see also
//! `tests/iggy_batches.rs`.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Payload, origin time in us, user headers.
type Given = (Vec<u8>, u64, Vec<(Vec<u8>, Vec<u8>)>);

fn given() -> impl Strategy<Value = Vec<Given>> {
    let part = || vec(any::<u8>(), 1..20);
    let message =
        (vec(any::<u8>(), 0..50), 1_000_000u64..1_000_000 + TIMESTAMP_DELTA_US_MAX, vec((part(), part()), 0..4));
    vec(message, 1..12)
}

fn headers_of(pairs: &[(Vec<u8>, Vec<u8>)]) -> Bytes {
    let mut out = BytesMut::new();
    for (name, value) in pairs {
        let header = UserHeader { name_kind: HEADER_KIND_STRING, name, value_kind: HEADER_KIND_RAW, value };
        put_user_header(&mut out, &header);
    }
    out.freeze()
}

fn build(given: &[Given], producer: Option<IggyProducer>) -> Bytes {
    let mut builder = IggyBatchBuilder::new(1 << 20).producer(producer);
    for (nth, (payload, origin, headers)) in given.iter().enumerate() {
        builder.push(nth as u128, *origin, payload, &headers_of(headers)).unwrap();
    }
    builder.finish(0, 0, 0).unwrap()
}

fn walk(batch: &Bytes, budget: usize) -> Result<IggyBatchInfo, IggyBatchError> {
    let mut walker = IggyWalker::new(batch.clone());
    loop {
        if let Some(result) = walker.step(budget) {
            return result;
        }
    }
}

fn producer() -> Option<IggyProducer> {
    Some(IggyProducer { id: 7 << 20, epoch: 3, base_sequence: PRODUCER_SEQUENCE_MAX })
}

proptest! {
    #[test]
    fn what_is_written_is_walked_and_read_back(given in given(), with_producer: bool, budget in 1usize..400) {
        let batch = build(&given, producer().filter(|_| with_producer));
        let info = walk(&batch, budget).unwrap();
        prop_assert_eq!(info.header.messages as usize, given.len());
        prop_assert_eq!(info.header.producer.is_some(), with_producer);
        prop_assert_eq!(info.max_origin_timestamp_us, given.iter().map(|(_, origin, _)| *origin).max().unwrap());
        let read: Vec<Given> = messages(&batch)
            .unwrap()
            .map(|message| {
                let message = message.unwrap();
                let headers = message.user_headers.map(|h| (h.name.to_vec(), h.value.to_vec())).collect();
                (message.payload.to_vec(), message.origin_timestamp_us, headers)
            })
            .collect();
        prop_assert_eq!(read, given);
    }

    #[test]
    fn no_changed_byte_of_a_batch_goes_unnoticed(given in given(), at: prop::sample::Index, to: u8) {
        let batch = build(&given, producer());
        let mut changed = BytesMut::from(&batch[..]);
        let at = at.index(changed.len());
        prop_assume!(changed[at] != to);
        changed[at] = to;
        prop_assert!(walk(&changed.freeze(), 1 << 20).is_err());
    }

    #[test]
    fn a_stamped_batch_is_whole_and_has_its_place(given in given(), partition in 0u64..1 << 20, base in 0u64..1 << 40) {
        let mut batch = BytesMut::from(&build(&given, producer())[..]);
        stamp(&mut batch, partition, base, 77).unwrap();
        let info = walk(&batch.freeze(), 1 << 20).unwrap();
        let header = info.header;
        prop_assert_eq!((header.partition_id, header.base_offset, header.base_timestamp_us), (partition, base, 77));
    }

    #[test]
    fn a_cut_has_the_wanted_messages_and_a_right_checksum(
        given in given(), base in 0u64..1000, from in 0u64..1020, most in 1u32..14, bytes_max in 300usize..1500,
    ) {
        let mut batch = BytesMut::from(&build(&given, None)[..]);
        stamp(&mut batch, 1, base, 5).unwrap();
        let batch = batch.freeze();
        let wanted: Vec<_> = messages(&batch).unwrap().map(Result::unwrap).filter(|m| m.offset >= from).collect();
        match cut(&batch, from, most, bytes_max).unwrap() {
            None => prop_assert!(wanted.is_empty()),
            Some(kept) => {
                let header = IggyBatchHeader::parse(&kept).unwrap();
                prop_assert_eq!(header.checksum, header.checksum_over(&kept[BATCH_HEADER_BYTES..]));
                let read: Vec<_> = messages(&kept).unwrap().map(Result::unwrap).collect();
                prop_assert!(!read.is_empty() && read.len() <= most as usize);
                prop_assert!(read.len() == 1 || kept.len() <= bytes_max);
                prop_assert_eq!(&read[..], &wanted[..read.len()]);
            }
        }
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in vec(any::<u8>(), 0..600)) {
        let bytes = Bytes::from(bytes);
        let _ = walk(&bytes, 10);
        let _ = cut(&bytes, 0, 10, 1000);
        let _ = messages(&bytes).map(Iterator::count);
    }

    #[test]
    fn nothing_panics_behind_a_header_that_is_right(frames in vec(any::<u8>(), 0..300), count: u32) {
        let header = IggyBatchHeader {
            partition_id: 0, base_offset: u64::MAX - 1, base_timestamp_us: 0, origin_timestamp_us: u64::MAX,
            size: BATCH_HEADER_BYTES + frames.len(), checksum: 0, messages: count, producer: None,
        };
        let mut batch = header.encode().to_vec();
        batch.extend(frames);
        let batch = Bytes::from(batch);
        let _ = walk(&batch, 10);
        let _ = cut(&batch, 0, 10, 1000);
        let _ = messages(&batch).map(Iterator::count);
    }
}

#[test]
fn messages_whose_times_are_too_far_apart_do_not_share_a_batch() {
    let mut builder = IggyBatchBuilder::new(1 << 20);
    builder.push(0, 10, b"a", b"").unwrap();
    assert_eq!(builder.push(0, 11 + TIMESTAMP_DELTA_US_MAX, b"b", b""), Err(IggyBatchFull::Time));
    builder.push(0, 10 + TIMESTAMP_DELTA_US_MAX, b"b", b"").unwrap();
    assert_eq!(builder.push(0, 9, b"c", b""), Err(IggyBatchFull::Time));
}

#[test]
fn a_message_without_a_time_stands_apart_from_those_with_one() {
    for (first, second) in [(0, 5), (5, 0)] {
        let mut builder = IggyBatchBuilder::new(1 << 20);
        builder.push(0, first, b"a", b"").unwrap();
        assert_eq!(builder.push(0, second, b"b", b""), Err(IggyBatchFull::Time));
        builder.push(0, first, b"b", b"").unwrap();
    }
}

#[test]
fn a_batch_over_its_size_is_full_and_a_message_over_iggys_bound_never_fits() {
    let mut builder = IggyBatchBuilder::new(BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + 3);
    assert_eq!(builder.push(0, 0, b"abcd", b""), Err(IggyBatchFull::Size(BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + 3)));
    assert!(builder.push(0, 0, b"abc", b"").is_ok());
    let headers = vec![0; USER_HEADERS_BYTES_MAX + 1];
    assert_eq!(IggyBatchBuilder::new(usize::MAX).push(0, 0, b"x", &headers), Err(IggyBatchFull::TooLarge));
    assert!(IggyBatchBuilder::new(1 << 20).finish(0, 0, 0).is_none());
}
