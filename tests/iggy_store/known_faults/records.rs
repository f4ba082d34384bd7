//! Records that Iggy's own clients would not write, and positions of several partitions.

use std::time::Duration;

use iggy::prelude::{Consumer, Identifier, MessageClient as _, PollOptions, PollingStrategy};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{Seen, create_topic, producer, read, read_all, reader, unkeyed};
use crate::common::within;
use crate::topics::{iggy_client, named};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k128_every_partition_of_a_fetch_has_its_own_position() {
    const LENGTHS: [usize; 3] = [40, 3, 170];
    let gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "t", 3).await;
    let producer = producer(&gateway, &[("linger.ms", "1")]);
    // One session over all three, in steps far smaller than any of them.
    let consumer = reader(&gateway, &[("max.partition.fetch.bytes", "512")]);
    let mut partitions = TopicPartitionList::new();
    for partition in 0..3 {
        partitions.add_partition_offset("t", partition, Offset::Beginning).expect("offset");
    }
    rdkafka::consumer::Consumer::assign(&consumer, &partitions).expect("assign");
    let mut seen: Vec<Seen> = Vec::new();
    for part in 0..2 {
        let mut deliveries = Vec::new();
        for (partition, length) in LENGTHS.iter().enumerate() {
            for n in (part..*length).step_by(2) {
                let value = format!("{partition} {n}");
                let record = unkeyed("t", &value).partition(partition as i32);
                deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
            }
        }
        let count = deliveries.len();
        for delivery in deliveries {
            within("delivery", delivery).await.expect("reported").expect("delivered");
        }
        seen.extend(tokio::task::block_in_place(|| read(&consumer, count)));
    }
    for (partition, length) in LENGTHS.iter().enumerate() {
        let records = seen.iter().filter(|record| record.partition == partition as i32);
        let records: Vec<_> = records.map(|record| (record.offset, record.text().to_owned())).collect();
        let order = (0..*length).step_by(2).chain((1..*length).step_by(2));
        let expected: Vec<_> = (0..).zip(order).map(|(at, n)| (at, format!("{partition} {n}"))).collect();
        assert_eq!(records, expected, "partition {partition}");
    }
}

type Sent = (Option<&'static str>, Option<String>, Vec<(String, Option<String>)>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k131_records_without_a_form_of_their_own_in_iggy_come_back_as_they_were() {
    let mut gateway = Gateway::start(Options::new(1).on_iggy());
    create_topic(&gateway, "t", 1).await;
    let value = || Some("v".to_owned());
    let header = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let records: Vec<(&str, Sent)> = vec![
        ("a null value", (Some("k"), None, vec![])),
        ("an empty value", (Some("k"), Some(String::new()), vec![])),
        ("a null key", (None, value(), vec![])),
        ("an empty key", (Some(""), value(), vec![])),
        ("neither", (None, None, vec![])),
        ("a header name of 300 bytes", (None, value(), vec![header(&"n".repeat(300), Some("x"))])),
        (
            "a header twice",
            (None, value(), vec![header("h", Some("1")), header("h", Some("2")), header("h", Some("1"))]),
        ),
        ("a header of 10 KB", (None, value(), vec![header("h", Some(&"x".repeat(10 << 10)))])),
        ("null and empty headers", (None, value(), vec![header("null", None), header("empty", Some(""))])),
        ("200 headers", (None, value(), (0..200).map(|n| header(&format!("h{n}"), Some("x"))).collect())),
        ("a null value and headers", (Some("k"), None, vec![header("h", Some("x"))])),
        ("a value that is Iggy's placeholder", (None, Some("\0".to_owned()), vec![])),
        ("a name like the mapping's own", (None, value(), vec![header("kafka.value", Some("null"))])),
    ];
    let producer = producer(&gateway, &[]);
    for (_, (key, value, headers)) in &records {
        let mut owned = OwnedHeaders::new();
        for (name, value) in headers {
            owned = owned.insert(Header { key: name, value: value.as_deref() });
        }
        let mut record: FutureRecord<'_, str, str> = FutureRecord::to("t").headers(owned);
        record.key = *key;
        record.payload = value.as_deref();
        within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "t", 1, records.len()));
    let bytes = |text: &str| text.as_bytes().to_vec();
    for (seen, (what, (key, value, headers))) in seen.iter().zip(&records) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.clone(), value.as_deref().map(bytes))).collect();
        assert_eq!((&seen.key, &seen.value), (&key.map(bytes), &value.as_deref().map(bytes)), "{what}");
        assert_eq!(seen.headers, headers, "{what}");
    }

    // The same to Iggy's clients: one message each, and nothing that looks like a value where there is none.
    let client = iggy_client(gateway.server()).await;
    let (stream, topic) = (named("kafka"), named("t"));
    let consumer = Consumer::new(Identifier::numeric(1).expect("a number"));
    let options = PollOptions { count: 100, ..PollOptions::default() };
    let beginning = PollingStrategy::offset(0);
    let polled = client.poll_messages(&stream, &topic, 0, &consumer, &beginning, options);
    let messages = within("poll", polled).await.expect("poll").messages;
    assert_eq!(messages.len(), records.len());
    let marker = |nth: usize, name: &str| {
        let headers = messages[nth].user_headers_map().expect("headers").expect("headers");
        headers.get(&name.try_into().expect("a key")).map(|value| value.as_raw().expect("raw").to_vec())
    };
    for (nth, (what, (key, value, _))) in records.iter().enumerate() {
        assert_eq!(marker(nth, "kafka.v"), Some(vec![1]), "{what}");
        let none = match value.as_deref() {
            None => Some(bytes("null")),
            Some("") => Some(bytes("empty")),
            Some(_) => None,
        };
        if marker(nth, "kafka.envelope").is_none() {
            assert_eq!(marker(nth, "kafka.value"), none, "{what}");
            assert_eq!(marker(nth, "kafka.key"), key.map(bytes), "{what}");
            let payload = value.as_deref().filter(|value| !value.is_empty()).unwrap_or("\0");
            assert_eq!(&messages[nth].payload[..], payload.as_bytes(), "{what}");
        }
    }
}
