//! Records of Kafka's clients that lie in Iggy.

use std::time::{Duration, Instant};

use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{InitProducerIdRequest, ProducerId};
use rdkafka::admin::AdminOptions;
use rdkafka::consumer::Consumer;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{admin, create_topic, producer, read, read_all, read_from, reader, unkeyed};
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, topic_name};
use crate::common::{LIVENESS, within};

const UNKNOWN_PRODUCER_ID: i16 = 59;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_come_back_as_they_were_sent_with_every_acks_and_compression() {
    let gateway = Gateway::start(Options::new(2).on_iggy());
    for acks in ["0", "1", "all"] {
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            let topic = format!("t-{acks}-{codec}");
            create_topic(&gateway, &topic, 2).await;
            let producer = producer(&gateway, &[("acks", acks), ("compression.type", codec), ("linger.ms", "5")]);
            let mut deliveries = Vec::new();
            for n in 0..20 {
                let (key, value) = (format!("key {n}"), format!("value {n} {}", "z".repeat(200)));
                let record = FutureRecord::to(&topic).key(&key).payload(&value).partition(n % 2);
                deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
            }
            for delivery in deliveries {
                within("delivery", delivery).await.expect("reported").expect("delivered");
            }
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
async fn keys_repeated_headers_nulls_and_times_come_back_as_they_were_sent() {
    let gateway = Gateway::start(Options::new(1).on_iggy());
    create_topic(&gateway, "shapes", 1).await;
    let producer = producer(&gateway, &[]);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "again", value: Some("one") })
        .insert(Header { key: "again", value: Some("two") })
        .insert(Header { key: "null", value: None::<&str> });
    let full = FutureRecord::to("shapes").key("k").payload("v").headers(headers).timestamp(1_700_000_000_123);
    let tombstone: FutureRecord<'_, str, str> = FutureRecord::to("shapes").key("gone");
    for record in [full, tombstone] {
        within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "shapes", 1, 2));
    let header = |name: &str, value: Option<&str>| (name.to_string(), value.map(|value| value.as_bytes().to_vec()));
    assert_eq!(seen[0].headers, [header("again", Some("one")), header("again", Some("two")), header("null", None)]);
    assert_eq!((seen[0].key.as_deref(), seen[0].text(), seen[0].timestamp), (Some(&b"k"[..]), "v", 1_700_000_000_123));
    assert_eq!((seen[1].key.as_deref(), &seen[1].value), (Some(&b"gone"[..]), &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_at_the_tail_is_woken_by_the_next_record() {
    let gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "live", 1).await;
    // Longer than the test may take: only a wake-up brings the record.
    let consumer = reader(&gateway, &[("fetch.wait.max.ms", "200000"), ("socket.timeout.ms", "250000")]);
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset("live", 0, Offset::Beginning).expect("offset");
    consumer.assign(&partitions).expect("assign");
    let producer = producer(&gateway, &[("linger.ms", "0")]);
    for n in 0..5 {
        let value = format!("record {n}");
        within("send", producer.send(unkeyed("live", &value), Duration::ZERO)).await.expect("delivered");
        let seen = tokio::task::block_in_place(|| read(&consumer, 1));
        assert_eq!((seen[0].text(), seen[0].offset), (value.as_str(), n));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_looked_up_and_one_that_is_not_there_is_out_of_range() {
    let gateway = Gateway::start(Options::new(1).on_iggy());
    create_topic(&gateway, "bounds", 1).await;
    let consumer = reader(&gateway, &[("auto.offset.reset", "error")]);
    let watermarks = || tokio::task::block_in_place(|| consumer.fetch_watermarks("bounds", 0, LIVENESS));
    assert_eq!(watermarks().expect("watermarks"), (0, 0));
    let producer = producer(&gateway, &[]);
    for n in 0..3 {
        within("send", producer.send(unkeyed("bounds", &n.to_string()), Duration::ZERO)).await.expect("delivered");
        assert_eq!(watermarks().expect("watermarks"), (0, n + 1));
    }
    for beyond in [4, 100] {
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_offset("bounds", 0, Offset::Offset(beyond)).expect("offset");
        consumer.assign(&partitions).expect("assign");
        let deadline = Instant::now() + LIVENESS;
        let code = loop {
            assert!(Instant::now() < deadline, "offset {beyond} is not refused");
            match tokio::task::block_in_place(|| consumer.poll(Duration::from_millis(100))) {
                Some(Err(error)) => break error.rdkafka_error_code(),
                Some(Ok(message)) => panic!("a record at {}", rdkafka::Message::offset(&message)),
                None => {}
            }
        };
        assert_eq!(code, Some(rdkafka::error::RDKafkaErrorCode::AutoOffsetReset), "offset {beyond}");
    }
}

/// An idempotent producer at its first sequence.
fn init_producer_id(raw: &mut Raw) -> Writer {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let response = raw.call(4, &request);
    assert_eq!(response.error_code, 0);
    Writer { producer_id: response.producer_id.0, epoch: response.producer_epoch, sequence: 0 }
}

/// Error code and base offset of one batch.
fn produce(raw: &mut Raw, writer: Writer, sequence: i32, values: &[&str]) -> (i16, i64) {
    let records = batch(Writer { sequence, ..writer }, 1_000, values);
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name("once")).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
    let response = raw.call(9, &request);
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_batches_are_written_once_and_gaps_and_strangers_have_kafkas_codes() {
    let gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "once", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let writer = init_producer_id(&mut raw);
    assert_ne!(init_producer_id(&mut raw).producer_id, writer.producer_id);
    for n in 0..7 {
        assert_eq!(produce(&mut raw, writer, n, &["v"]), (0, i64::from(n)));
    }
    assert_eq!(produce(&mut raw, writer, 9, &["v"]).0, 45, "a gap");
    assert_eq!(produce(&mut raw, writer, 6, &["v"]), (0, 6), "a duplicate has the first offset");
    let stranger = Writer { producer_id: writer.producer_id + 1000, ..writer };
    assert_eq!(produce(&mut raw, stranger, 3, &["v"]).0, 59, "unknown, and not at the beginning");
    let next = Writer { epoch: writer.epoch + 1, ..writer };
    assert_eq!(produce(&mut raw, next, 0, &["v"]), (0, 7));
    assert_eq!(produce(&mut raw, writer, 7, &["v"]).0, 47, "the old epoch is fenced");
    tokio::task::block_in_place(|| read_all(&gateway, "once", 1, 8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_comes_back_loses_nothing_and_doubles_nothing_idempotent() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "once", 2).await;
    let producer = producer(&gateway, &[("enable.idempotence", "true"), ("linger.ms", "1")]);
    let mut deliveries = Vec::new();
    let mut queue = |from: i32, to: i32| {
        for n in from..to {
            let value = n.to_string();
            let record: FutureRecord<'_, str, str> = FutureRecord::to("once").payload(value.as_str()).partition(n % 2);
            deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
        }
    };
    queue(0, 200);
    gateway.server().kill9();
    queue(200, 400);
    gateway.server().restart(Options::new(1).iggy());
    queue(400, 600);
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "once", 2, 600));
    for partition in 0..2 {
        let values = seen.iter().filter(|seen| seen.partition == partition);
        let values: Vec<i32> = values.map(|seen| seen.text().parse().expect("a number")).collect();
        assert_eq!(values, (partition..600).step_by(2).collect::<Vec<_>>(), "in order, each once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_records_are_not_served_and_the_log_begins_behind_them() {
    let gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "trimmed", 1).await;
    let producer = producer(&gateway, &[]);
    for n in 0..5 {
        within("send", producer.send(unkeyed("trimmed", &n.to_string()), Duration::ZERO)).await.expect("delivered");
    }
    let mut before = TopicPartitionList::new();
    before.add_partition_offset("trimmed", 0, Offset::Offset(3)).expect("offset");
    let deleted = within("delete", admin(&gateway).delete_records(&before, &AdminOptions::new())).await;
    let deleted = deleted.expect("DeleteRecords");
    assert_eq!(deleted.elements()[0].offset(), Offset::Offset(3));
    let consumer = reader(&gateway, &[]);
    let watermarks = tokio::task::block_in_place(|| consumer.fetch_watermarks("trimmed", 0, LIVENESS));
    assert_eq!(watermarks.expect("watermarks"), (3, 5));
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "trimmed", 1, 2));
    assert_eq!(seen.iter().map(|seen| seen.text()).collect::<Vec<_>>(), ["3", "4"]);
}

#[test]
fn a_producer_that_iggy_does_not_know_any_more_is_told_where_the_log_begins() {
    let gateway = Gateway::start(Options::new(2).on_iggy());
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "t", 1, &[]).partition(0);
    partition.append(&mut raw, batch(Writer::NOBODY, 1, &["a", "b", "c"]));
    partition.delete_records(&mut raw, 2);
    let in_the_middle = Writer { producer_id: 1 << 61, epoch: 0, sequence: 7 };
    let produced = partition.produce(&mut raw, 9, Some(batch(in_the_middle, 1, &["d"])));
    // With -1 Java's client would repeat the batch until it gives it up.
    assert_eq!((produced.error_code, produced.log_start_offset), (UNKNOWN_PRODUCER_ID, 2));
    let anew = Writer { sequence: 0, epoch: 1, ..in_the_middle };
    assert_eq!(partition.append(&mut raw, batch(anew, 1, &["d"])), 3);
}
