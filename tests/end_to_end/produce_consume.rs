//! Producing and consuming: what goes in comes out, whoever wrote it and whoever reads it.

use std::sync::Arc;
use std::time::Duration;

use krafka::Record;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{Seen, create_topic, producer, read_all, read_from, reader, unkeyed};
use crate::common::{LIVENESS, blocking, within};
use crate::krafka_client;

const NO_WAIT: Duration = Duration::ZERO;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acks_and_compression_round_trips_with_librdkafka() {
    let gateway = Gateway::start(Options::new(2));
    for acks in ["0", "1", "all"] {
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            let topic = format!("librdkafka-{acks}-{codec}");
            create_topic(&gateway, &topic, 2).await;
            let settings = [("acks", acks), ("compression.type", codec), ("linger.ms", "5")];
            let producer = producer(&gateway, &settings);
            let deliveries: Vec<_> = (0..20)
                .map(|n| {
                    // Compressible, or the library sends the batch as it is.
                    let (key, value) = (format!("key {n}"), format!("value {n} {}", "z".repeat(200)));
                    let record = FutureRecord::to(&topic).key(&key).payload(&value).partition(n % 2);
                    producer.send_result(record).map_err(|(error, _)| error).expect("queued")
                })
                .collect();
            for delivery in deliveries {
                within("delivery", delivery).await.expect("reported").expect("delivered");
            }
            // With acks=0 a delivery means sent: these are read once they are there.
            let from = [(0, Offset::Beginning), (1, Offset::Beginning)];
            let seen = tokio::task::block_in_place(|| read_from(&gateway, &topic, &from, 20));
            for partition in 0..2 {
                let mut records = seen.iter().filter(|record| record.partition == partition);
                for (offset, n) in (partition..20).step_by(2).enumerate() {
                    let record = records.next().expect("a record");
                    assert_eq!(record.offset, offset as i64, "{topic}/{partition}");
                    assert_eq!(record.key.as_deref(), Some(format!("key {n}").as_bytes()));
                    assert!(record.text().starts_with(&format!("value {n} ")), "{topic}/{partition}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_repeated_headers_nulls_and_times_arrive_as_librdkafka_sent_them() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "shapes", 1).await;
    let producer = producer(&gateway, &[]);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "trace", value: Some("first") })
        .insert(Header { key: "other", value: Some("") })
        .insert(Header { key: "trace", value: Some("second") })
        .insert(Header::<&str> { key: "null", value: None });
    let full = FutureRecord::to("shapes")
        .key(&[0u8, 255, 7][..])
        .payload("full")
        .headers(headers)
        .timestamp(1_600_000_000_123);
    let tombstone: FutureRecord<'_, str, [u8]> = FutureRecord::to("shapes").key("gone").timestamp(1);
    let keyless = unkeyed("shapes", "");
    within("send", producer.send(full, NO_WAIT)).await.expect("delivered");
    within("send", producer.send(tombstone, NO_WAIT)).await.expect("delivered");
    within("send", producer.send(keyless, NO_WAIT)).await.expect("delivered");

    let seen = tokio::task::block_in_place(|| read_all(&gateway, "shapes", 1, 3));
    assert_eq!(seen[0].key.as_deref(), Some(&[0, 255, 7][..]));
    assert_eq!(seen[0].timestamp, 1_600_000_000_123);
    let expected: [(&str, Option<&[u8]>); 4] =
        [("trace", Some(b"first")), ("other", Some(b"")), ("trace", Some(b"second")), ("null", None)];
    let headers: Vec<_> = seen[0].headers.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
    assert_eq!(headers, expected);
    assert_eq!((seen[1].key.as_deref(), &seen[1].value), (Some(&b"gone"[..]), &None));
    assert_eq!(seen[1].timestamp, 1);
    assert_eq!(seen[2].value.as_deref(), Some(&b""[..]), "an empty value is no tombstone");

    let kafka = krafka_client::connect(&gateway).await;
    let consumer = krafka_client::reader(&kafka, "shapes", 1).await;
    let records = krafka_client::read(&consumer, 3).await;
    let traces: Vec<_> =
        records[0].headers_by_key("trace").into_iter().map(|value| value.map(|bytes| &bytes[..])).collect();
    assert_eq!(traces, [Some(&b"first"[..]), Some(b"second")], "krafka reads the same");
    assert!(records[1].is_tombstone());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_krafka_wrote_librdkafka_reads() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "shapes", 1).await;
    let kafka = krafka_client::connect(&gateway).await;
    let producer = kafka.producer().build().await.expect("producer");
    let full = Record::new("shapes", "full")
        .key("k")
        .header("trace", "first")
        .header("trace", "second")
        .null_header("null")
        .timestamp(1_600_000_000_123);
    krafka_client::acknowledged(producer.send(full)).await;
    krafka_client::acknowledged(producer.send(Record::tombstone("shapes", "gone"))).await;

    let seen = tokio::task::block_in_place(|| read_all(&gateway, "shapes", 1, 2));
    assert_eq!(seen[0].text(), "full");
    assert_eq!(seen[0].timestamp, 1_600_000_000_123);
    let names: Vec<_> = seen[0].headers.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["trace", "trace", "null"]);
    assert_eq!(seen[0].headers[2].1, None);
    assert_eq!((seen[1].key.as_deref(), &seen[1].value), (Some(&b"gone"[..]), &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_near_the_limit_round_trips_and_one_over_it_is_refused() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "large", 1).await;
    let producer = producer(&gateway, &[("message.max.bytes", "4000000")]);
    let large: Vec<u8> = (0..1_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let record: FutureRecord<'_, str, [u8]> = FutureRecord::to("large").payload(&large);
    within("send", producer.send(record, NO_WAIT)).await.expect("delivered");

    let too_large = vec![b'x'; 1_100_000];
    let record: FutureRecord<'_, str, [u8]> = FutureRecord::to("large").payload(&too_large);
    let (error, _) = within("send", producer.send(record, NO_WAIT)).await.expect_err("refused");
    assert_eq!(error, KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge));

    let seen = tokio::task::block_in_place(|| read_all(&gateway, "large", 1, 1));
    assert!(seen[0].value.as_deref() == Some(&large[..]), "the bytes as they were sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_starts_at_the_earliest_the_latest_an_offset_or_a_time() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let gateway = Gateway::start(Options::new(3).advertise(advertise));
        create_topic(&gateway, "clock", 3).await;
        let producer = producer(&gateway, &[]);
        for n in 0..10 {
            let value = n.to_string();
            let record = unkeyed("clock", &value).partition(1).timestamp(1_000 + 1_000 * n);
            within("send", producer.send(record, NO_WAIT)).await.expect("delivered");
        }
        let read_one =
            |from: Offset| tokio::task::block_in_place(|| read_from(&gateway, "clock", &[(1, from)], 1)[0].clone());
        assert_eq!(read_one(Offset::Beginning).text(), "0");
        assert_eq!(read_one(Offset::Offset(7)).text(), "7");
        assert_eq!(read_one(Offset::OffsetTail(2)).text(), "8");

        // From the end: only what came after the consumer did. Which record that is depends on when it
        // looked, so records are sent until one arrives.
        let tail = reader(&gateway, &[]);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("clock", 1, Offset::End).expect("offset");
        tail.assign(&list).expect("assign");
        let tail = Arc::new(tail);
        let first = loop {
            let record = unkeyed("clock", "late").partition(1).timestamp(500);
            within("send", producer.send(record, NO_WAIT)).await.expect("delivered");
            let tail = Arc::clone(&tail);
            let polled = blocking("poll", move || {
                tail.poll(Duration::from_millis(100)).and_then(Result::ok).map(|message| Seen::from(&message))
            });
            if let Some(seen) = polled.await {
                break seen;
            }
        };
        assert_eq!(first.text(), "late");
        assert!(first.offset >= 10, "offset {} was there before", first.offset);

        let times = reader(&gateway, &[]);
        let offset_for = |time: i64| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset("clock", 1, Offset::Offset(time)).expect("time");
            let found =
                tokio::task::block_in_place(|| times.offsets_for_times(list, LIVENESS)).expect("offsets for times");
            found.elements()[0].offset()
        };
        assert_eq!(offset_for(0), Offset::Offset(0));
        assert_eq!(offset_for(4_000), Offset::Offset(3));
        assert_eq!(offset_for(4_001), Offset::Offset(4), "the first record at or after the time");
        assert_eq!(offset_for(10_001), Offset::End, "no record that late");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_consumer_reads_partitions_of_every_shard() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let gateway = Gateway::start(Options::new(3).advertise(advertise));
        create_topic(&gateway, "wide", 9).await;
        let producer = producer(&gateway, &[("linger.ms", "5")]);
        let deliveries: Vec<_> = (0..450)
            .map(|n| {
                let value = n.to_string();
                let record = unkeyed("wide", &value).partition(n % 9);
                producer.send_result(record).map_err(|(error, _)| error).expect("queued")
            })
            .collect();
        for delivery in deliveries {
            within("delivery", delivery).await.expect("reported").expect("delivered");
        }
        let seen = tokio::task::block_in_place(|| read_all(&gateway, "wide", 9, 450));
        for partition in 0..9 {
            let values: Vec<i32> = seen
                .iter()
                .filter(|record| record.partition == partition)
                .map(|record| record.text().parse().expect("a number"))
                .collect();
            assert_eq!(values, (partition..450).step_by(9).collect::<Vec<_>>(), "partition {partition}");
        }
    }
}
