//! Idempotent producers: once means once.

use std::time::Duration;

use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{InitProducerIdRequest, ProducerId};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read_all, unkeyed};
use crate::common::raw::{Raw, Writer, batch, topic_name};
use crate::common::within;

/// An idempotent producer at its first sequence.
pub fn init_producer_id(raw: &mut Raw) -> Writer {
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
