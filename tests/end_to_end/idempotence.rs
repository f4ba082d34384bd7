//! Idempotent producers: once means once.

use std::time::Duration;

use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{InitProducerIdRequest, ProducerId};
use rdkafka::producer::FutureProducer;

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{config, create_topic, producer, read_all, unkeyed};
use crate::common::proxy::Proxy;
use crate::common::raw::{Raw, Writer, batch, string, topic_name};
use crate::common::{eventually, within};

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
async fn a_repeated_batch_is_answered_with_its_first_offset_also_after_a_kill() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "once", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let writer = init_producer_id(&mut raw);
    let other = init_producer_id(&mut raw);
    assert_ne!(writer.producer_id, other.producer_id);
    assert_eq!(produce(&mut raw, writer, 0, &["a", "b"]), (0, 0));
    assert_eq!(produce(&mut raw, writer, 2, &["c"]), (0, 2));
    assert_eq!(produce(&mut raw, other, 0, &["x"]), (0, 3), "producers do not disturb each other");
    assert_eq!(produce(&mut raw, writer, 0, &["a", "b"]), (0, 0), "a duplicate");
    assert_eq!(produce(&mut raw, writer, 2, &["c"]), (0, 2), "a duplicate");

    gateway.kill9();
    gateway.restart(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(produce(&mut raw, writer, 2, &["c"]), (0, 2), "a duplicate from before the kill");
    assert_eq!(produce(&mut raw, writer, 3, &["d"]), (0, 4), "the sequence goes on");
    let late = init_producer_id(&mut raw);
    assert!(![writer.producer_id, other.producer_id].contains(&late.producer_id), "ids are never given again");
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "once", 1, 5));
    let values: Vec<_> = seen.iter().map(|record| record.text()).collect();
    assert_eq!(values, ["a", "b", "c", "x", "d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_an_old_epoch_and_a_late_duplicate_are_refused() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "once", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let writer = init_producer_id(&mut raw);
    for n in 0..7 {
        assert_eq!(produce(&mut raw, writer, n, &["v"]), (0, i64::from(n)));
    }
    assert_eq!(produce(&mut raw, writer, 9, &["v"]).0, 45, "a gap");
    assert_eq!(produce(&mut raw, writer, 2, &["v"]), (0, 2), "five batches are remembered");
    assert_eq!(produce(&mut raw, writer, 0, &["v"]).0, 45, "and no more than five");
    let next = Writer { epoch: writer.epoch + 1, ..writer };
    assert_eq!(produce(&mut raw, next, 3, &["v"]).0, 45, "a new epoch starts at 0");
    assert_eq!(produce(&mut raw, next, 0, &["v"]), (0, 7));
    assert_eq!(produce(&mut raw, writer, 7, &["v"]).0, 47, "the old epoch is fenced");
    tokio::task::block_in_place(|| read_all(&gateway, "once", 1, 8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_librdkafka_producer_writes_each_record_once_across_a_kill() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "once", 2).await;
    let producer = producer(&gateway, &[("enable.idempotence", "true"), ("linger.ms", "1")]);
    let mut deliveries = Vec::new();
    for n in 0..2_000 {
        let value = n.to_string();
        let record = unkeyed("once", &value).partition(n % 2);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
        if n == 1_000 {
            // Some are delivered, the rest is under way or still with the client.
            within("delivery", deliveries.swap_remove(0)).await.expect("reported").expect("delivered");
            gateway.kill9();
            gateway.restart(Options::new(2));
        }
    }
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "once", 2, 2_000));
    for partition in 0..2 {
        let values: Vec<i32> = seen
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| record.text().parse().expect("a number"))
            .collect();
        assert_eq!(values, (partition..2_000).step_by(2).collect::<Vec<_>>(), "once each, in order");
    }
    // The producer is still the same one: nothing fatal happened to it.
    let record = unkeyed("once", "last").partition(0);
    within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_unheard_of_for_too_long_is_forgotten_and_may_go_on_anywhere() {
    let gateway = Gateway::start(Options::new(2).set("producer-id-expiration", "1s"));
    create_topic(&gateway, "once", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let writer = init_producer_id(&mut raw);
    assert_eq!(produce(&mut raw, writer, 0, &["a"]), (0, 0));
    // What is refused keeps nobody remembered.
    eventually("forgotten", || match produce(&mut raw, writer, 77, &["b"]) {
        (45, -1) => false,
        answer => answer == (0, 1),
    })
    .await;
    assert_eq!(produce(&mut raw, writer, 78, &["c"]), (0, 2));
    assert_eq!(produce(&mut raw, writer, 77, &["b"]), (0, 1), "known again, and a duplicate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_librdkafka_producer_writes_each_record_once_though_answers_are_lost() {
    let mut proxy = Proxy::reserve();
    let gateway = Gateway::start(Options::new(2).set("advertised-host", proxy.address()));
    let bootstrap = gateway.bootstrap();
    let ports: Vec<u16> = gateway.nodes().iter().map(|node| node.addr.port()).chain([bootstrap.port()]).collect();
    proxy.serve(bootstrap.ip(), &ports);
    create_topic(&gateway, "once", 2).await;
    let more = [("enable.idempotence", "true"), ("linger.ms", "1"), ("batch.num.messages", "20")];
    let servers = format!("{}:{}", proxy.address(), bootstrap.port());
    let producer: FutureProducer = config(&servers, &more).create().expect("producer");
    proxy.lose_one_answer_in(7);
    let mut deliveries = Vec::new();
    for n in 0..2_000 {
        let value = n.to_string();
        let record = unkeyed("once", &value).partition(n % 2);
        deliveries.push(producer.send_result(record).map_err(|(error, _)| error).expect("queued"));
    }
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
    proxy.lose_one_answer_in(0);
    assert!(proxy.lost() > 3, "{} answers were lost", proxy.lost());
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "once", 2, 2_000));
    for partition in 0..2 {
        let values: Vec<i32> = seen
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| record.text().parse().expect("a number"))
            .collect();
        assert_eq!(values, (partition..2_000).step_by(2).collect::<Vec<_>>(), "once each, in order");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_refused_by_name() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(kafka_protocol::messages::TransactionalId(string("tx"))))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    assert_eq!(raw.call(4, &request).error_code, 42);
}
