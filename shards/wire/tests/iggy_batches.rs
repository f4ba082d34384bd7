//! Batches written here are what the protocol's own crate reads, and the other way round.

use bytes::{Buf, Bytes, BytesMut};
use iggy_binary_protocol::batch::{BatchProducer, decode_batch_slice};
use iggy_binary_protocol::requests::messages::{RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::{WireIdentifier, WirePartitioning};
use proptest::collection::vec;
use proptest::prelude::*;
use ringgate_wire::iggy::{
    HEADER_KIND_RAW, HEADER_KIND_STRING, IggyBatchBuilder, IggyProducer, IggyWalker, UserHeader, put_user_header, stamp,
};

/// Payload, origin time in us, name and value of a header.
type Given = (Vec<u8>, u64, (Vec<u8>, Vec<u8>));

fn given() -> impl Strategy<Value = Vec<Given>> {
    let part = || vec(any::<u8>(), 1..20);
    vec((vec(any::<u8>(), 0..50), 1_000_000u64..5_000_000, (part(), part())), 1..12)
}

fn headers((name, value): &(Vec<u8>, Vec<u8>)) -> Bytes {
    let mut out = BytesMut::new();
    let header = UserHeader { name_kind: HEADER_KIND_STRING, name, value_kind: HEADER_KIND_RAW, value };
    put_user_header(&mut out, &header);
    out.freeze()
}

const PRODUCER: IggyProducer = IggyProducer { id: 1 << 40, epoch: 2, base_sequence: 9 };

/// The batch of a whole request body, as the SDK writes it.
fn by_the_protocol_crate(given: &[Given], producer: Option<IggyProducer>) -> Bytes {
    let headers: Vec<Bytes> = given.iter().map(|(_, _, header)| headers(header)).collect();
    let messages: Vec<RawMessage<'_>> = given
        .iter()
        .zip(&headers)
        .enumerate()
        .map(|(nth, ((payload, origin_timestamp, _), headers))| RawMessage {
            id: nth as u128,
            origin_timestamp: *origin_timestamp,
            headers: Some(headers),
            payload,
        })
        .collect();
    let producer = producer.map(|p| BatchProducer::new(p.id, p.epoch, p.base_sequence).unwrap());
    let (stream, topic) = (WireIdentifier::numeric(1), WireIdentifier::numeric(2));
    let partitioning = WirePartitioning::PartitionId(0);
    let mut body = BytesMut::new();
    SendMessagesEncoder::encode_with_producer(&mut body, &stream, &topic, &partitioning, producer, &messages).unwrap();
    let metadata = body.get_u32_le() as usize;
    body.advance(metadata);
    body.freeze()
}

fn by_us(given: &[Given], producer: Option<IggyProducer>) -> Bytes {
    let mut builder = IggyBatchBuilder::new(usize::MAX).producer(producer);
    for (nth, (payload, origin, header)) in given.iter().enumerate() {
        builder.push(nth as u128, *origin, payload, &headers(header)).unwrap();
    }
    builder.finish(0, 0, 0).unwrap()
}

proptest! {
    #[test]
    fn both_write_the_same_bytes(given in given(), with_producer: bool) {
        let producer = Some(PRODUCER).filter(|_| with_producer);
        let theirs = by_the_protocol_crate(&given, producer);
        prop_assert_eq!(&by_us(&given, producer), &theirs);
        prop_assert!(IggyWalker::new(theirs).step(usize::MAX).is_some_and(|walked| walked.is_ok()));
    }

    #[test]
    fn what_a_server_stamps_here_is_right_there(given in given(), base in 0u64..1 << 50) {
        let mut batch = BytesMut::from(&by_the_protocol_crate(&given, Some(PRODUCER))[..]);
        stamp(&mut batch, 3, base, 1234).unwrap();
        let read = decode_batch_slice(&batch).unwrap();
        prop_assert_eq!((read.header.partition_id, read.header.base_offset), (3, base));
        prop_assert_eq!(read.header.base_timestamp, 1234);
        prop_assert_eq!(read.message_count() as usize, given.len());
    }
}
