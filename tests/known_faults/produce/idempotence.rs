//! Idempotent producers: a retry is no second record, and a producer that was forgotten may go on.

use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, FindCoordinatorRequest, InitProducerIdRequest, TransactionalId,
};
use rdkafka::producer::FutureProducer;

use super::produce_versions;
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{config, create_topic, producer, read_all, unkeyed};
use crate::common::partition::{Partition, create, versions};
use crate::common::proxy::Proxy;
use crate::common::raw::{Raw, string};
use crate::common::record_batch::{RecordBatch, TRANSACTIONAL};
use crate::common::{eventually, within};

/// Producer id, epoch.
type Producer = (i64, i16);

fn init_producer_id(raw: &mut Raw, version: i16, transactional_id: Option<&str>) -> (i16, Producer) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(transactional_id.map(|id| TransactionalId(string(id))))
        .with_transaction_timeout_ms(60_000);
    let response = raw.call(version, &request);
    (response.error_code, (response.producer_id.0, response.producer_epoch))
}

fn batch((producer_id, producer_epoch): Producer, base_sequence: i32, values: &[&str]) -> RecordBatch {
    RecordBatch { producer_id, producer_epoch, base_sequence, ..RecordBatch::of(values) }
}

/// Code and base offset.
fn produce(raw: &mut Raw, version: i16, to: &Partition, batch: &RecordBatch) -> (i16, i64) {
    let produced = to.produce(raw, version, Some(batch.bytes()));
    (produced.error_code, produced.base_offset)
}

#[test]
fn k014_a_batch_that_is_sent_again_is_answered_with_its_first_offset_and_stored_once() {
    let mut gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "once", 1, &[]).partition(0);
    let (_, other) = init_producer_id(&mut raw, 4, None);
    assert_eq!(produce(&mut raw, 9, &partition, &batch(other, 0, &["x"])), (0, 0));
    let (_, producer) = init_producer_id(&mut raw, 4, None);
    assert_ne!(producer.0, other.0);
    let three = batch(producer, 0, &["a", "b", "c"]);
    assert_eq!(produce(&mut raw, 9, &partition, &three), (0, 1));
    for version in produce_versions() {
        let mut again = Raw::connect(gateway.bootstrap());
        assert_eq!(produce(&mut again, version, &partition, &three), (0, 1), "version {version}");
    }
    assert_eq!(partition.ends(&mut raw), (0, 4), "producers do not disturb each other");
    assert_eq!(produce(&mut raw, 9, &partition, &batch(producer, 3, &["d"])), (0, 4));
    assert_eq!(produce(&mut raw, 9, &partition, &three), (0, 1), "also behind a later one");

    gateway.kill9();
    gateway.restart(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(produce(&mut raw, 9, &partition, &batch(producer, 3, &["d"])), (0, 4), "from before the kill");
    assert_eq!(produce(&mut raw, 9, &partition, &batch(producer, 4, &["e"])), (0, 5), "the sequence goes on");
    let (_, late) = init_producer_id(&mut raw, 4, None);
    assert!(![producer.0, other.0].contains(&late.0), "ids are never given again");
    let seen = read_all(&gateway, "once", 1, 6);
    assert_eq!(seen.iter().map(|record| record.text()).collect::<Vec<_>>(), ["x", "a", "b", "c", "d", "e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k014_an_idempotent_librdkafka_producer_writes_each_record_once_though_answers_are_lost() {
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
async fn k015_a_producer_that_was_idle_until_it_was_forgotten_goes_on_with_any_sequence() {
    let gateway = Gateway::start(
        Options::new(2)
            .embedded("Iggy lets a producer that it has forgotten begin at sequence 0 only")
            .set("producer-id-expiration", "1s"),
    );
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "once", 1, &[]).partition(0);
    let librdkafka = producer(&gateway, &[("enable.idempotence", "true")]);
    for n in 0..7 {
        let value = n.to_string();
        let sent = librdkafka.send(unkeyed("once", &value), Duration::ZERO);
        within("delivery", sent).await.expect("delivered");
    }
    let (_, producer) = init_producer_id(&mut raw, 4, None);
    assert_eq!(produce(&mut raw, 9, &partition, &batch(producer, 0, &["a"])), (0, 7));
    // What is refused keeps nobody remembered.
    eventually("forgotten", || match produce(&mut raw, 9, &partition, &batch(producer, 77, &["b"])) {
        (45, -1) => false,
        answer => answer == (0, 8),
    })
    .await;
    // The library's own producer has been idle for longer than that one.
    let sent = librdkafka.send(unkeyed("once", "7"), Duration::ZERO);
    within("delivery", sent).await.expect("delivered");
    assert!(rdkafka::producer::Producer::client(&librdkafka).fatal_error().is_none());
    tokio::task::block_in_place(|| read_all(&gateway, "once", 1, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k015_an_idempotent_librdkafka_producer_goes_on_over_restarts() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "once", 1).await;
    let librdkafka = producer(&gateway, &[("enable.idempotence", "true")]);
    for (nth, value) in ["a", "b", "c"].into_iter().enumerate() {
        let sent = librdkafka.send(unkeyed("once", value), Duration::ZERO);
        assert_eq!(within("delivery", sent).await.expect("delivered").offset, nth as i64);
        if nth % 2 == 0 {
            gateway.kill9();
        } else {
            assert!(gateway.sigterm().success());
        }
        gateway.restart(Options::new(2));
    }
    assert!(rdkafka::producer::Producer::client(&librdkafka).fatal_error().is_none());
    tokio::task::block_in_place(|| read_all(&gateway, "once", 1, 3));
}

#[test]
fn k024_producer_ids_are_offered_and_handed_out_and_transactions_are_refused_by_name() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let offered = raw.call(2, &ApiVersionsRequest::default()).api_keys;
    let key = ApiKey::InitProducerId as i16;
    let offered = offered.iter().find(|api| api.api_key == key).expect("InitProducerId is offered");
    assert_eq!(offered.min_version..=offered.max_version, versions(key));
    let mut ids = std::collections::HashSet::new();
    for node in gateway.nodes() {
        let mut raw = Raw::connect(node.addr);
        for version in versions(key) {
            let (code, (id, epoch)) = init_producer_id(&mut raw, version, None);
            assert_eq!((code, epoch), (0, 0), "version {version}");
            assert!(id >= 0 && ids.insert(id), "version {version}: {id}");
            for transactional_id in ["t", ""] {
                let refused = init_producer_id(&mut raw, version, Some(transactional_id));
                assert_eq!(refused, (42, (-1, -1)), "version {version}");
            }
        }
    }
    // DESIGN: who looks for a transaction coordinator is told so as well, and who writes as if in a transaction.
    let request = FindCoordinatorRequest::default().with_key_type(1).with_key(string("t"));
    assert_eq!(raw.call(3, &request).error_code, 42);
    let partition = create(&mut raw, "once", 1, &[]).partition(0);
    let (_, producer) = init_producer_id(&mut raw, 4, None);
    let batch = batch(producer, 0, &["v"]);
    let in_transaction = RecordBatch { attributes: TRANSACTIONAL, ..batch.clone() };
    for version in produce_versions() {
        let by_its_bit = partition.produce(&mut raw, version, Some(in_transaction.bytes()));
        assert_eq!(by_its_bit.error_code, 42, "version {version}");
        let request = partition.produce_request(version, -1, Some(batch.bytes()));
        let request = request.with_transactional_id(Some(TransactionalId(string("t"))));
        let by_its_id = &raw.call(version, &request).responses[0].partition_responses[0];
        assert_eq!(by_its_id.error_code, 42, "version {version}");
    }
    assert_eq!(partition.ends(&mut raw), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k024_a_producer_with_idempotence_delivers() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "once", 3).await;
    let librdkafka = producer(&gateway, &[("enable.idempotence", "true"), ("acks", "all")]);
    for partition in [0, 1, 2, 0, 1, 2] {
        let sent = librdkafka.send(unkeyed("once", "v").partition(partition), Duration::ZERO);
        within("delivery", sent).await.expect("delivered");
    }
    tokio::task::block_in_place(|| read_all(&gateway, "once", 3, 6));
}
