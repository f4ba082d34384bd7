//! Null and empty are two things, and headers are a list: what goes in comes out.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use ringgate_wire::records::{BatchBuilder, OpenBatch};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read_all};
use crate::common::partition::create;
use crate::common::raw::Raw;
use crate::common::within;

/// Keys and values: null, empty, and with bytes that are no text.
const SHAPES: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"\x00\xffx")];

/// Lists of headers, names repeated among them.
fn header_lists() -> Vec<Vec<(String, Option<Vec<u8>>)>> {
    let named = |name: &str, value: Option<&[u8]>| (name.to_string(), value.map(<[u8]>::to_vec));
    vec![
        vec![],
        vec![named("null", None), named("empty", Some(b"")), named("some", Some(b"\x00v"))],
        vec![named("twice", Some(b"1")), named("other", None), named("twice", None), named("twice", Some(b"1"))],
        (0..500).map(|n| named(&format!("h{}", n % 7), (n % 3 > 0).then_some(b"v"))).collect(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k025_null_and_empty_keys_values_and_headers_round_trip_in_order() {
    let gateway = Gateway::start(Options::new(2));
    for codec in ["none", "zstd"] {
        let topic = format!("shapes-{codec}");
        create_topic(&gateway, &topic, 1).await;
        let producer = producer(&gateway, &[("compression.type", codec), ("linger.ms", "20")]);
        let mut sent = Vec::new();
        let mut deliveries = Vec::new();
        for key in SHAPES {
            for value in SHAPES {
                for headers in header_lists() {
                    let mut list = OwnedHeaders::new();
                    for (name, value) in &headers {
                        list = list.insert(Header { key: name, value: value.as_deref() });
                    }
                    let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&topic).partition(0).headers(list);
                    record.key = key;
                    record.payload = value;
                    deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
                    sent.push((key, value, headers));
                }
            }
        }
        for delivery in deliveries {
            within("delivery", delivery).await.expect("reported").expect("delivered");
        }
        let seen = tokio::task::block_in_place(|| read_all(&gateway, &topic, 1, sent.len()));
        for (record, (key, value, headers)) in seen.iter().zip(&sent) {
            assert_eq!((record.key.as_deref(), record.value.as_deref()), (*key, *value), "{codec}, {}", record.offset);
            assert_eq!(&record.headers, headers, "{codec}, {}", record.offset);
        }
    }
}

#[test]
fn k025_the_bytes_of_records_are_stored_as_they_were_sent() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "bytes", 1, &[]).partition(0);
    let mut builder = BatchBuilder::new(1 << 20);
    for key in SHAPES {
        for value in SHAPES {
            for headers in header_lists() {
                let headers: Vec<_> = headers.iter().map(|(name, v)| (name.as_bytes(), v.as_deref())).collect();
                builder.push(1_000, key, value, &headers).expect("room");
            }
        }
    }
    // A header without a name is odd, and Kafka takes it.
    builder.push(1_000, None, None, &[(b"", None), (b"", Some(b""))]).expect("room");
    let sent = builder.finish(0, -1).expect("records");
    partition.append(&mut raw, sent.clone());
    let (_, stored) = partition.batches(&mut raw, 0).remove(0);
    let open = |batch| OpenBatch::open(batch, 1 << 20).expect("a batch").bytes().clone();
    assert!(open(&sent) == open(&stored), "the records differ");
}
