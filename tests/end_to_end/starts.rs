//! Starts that must not succeed, and what a start tells its surroundings.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::MetadataRequest;

use crate::common::gateway::{Advertise, Gateway, Options, another_address};
use crate::common::librdkafka::{create_topic, producer, read_all, unkeyed};
use crate::common::raw::Raw;
use crate::common::{eventually, within};

#[test]
fn a_second_gateway_on_the_same_data_or_address_does_not_start_and_harms_nothing() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let options = Options::new(2).advertise(advertise).embedded("what is taken is its data directory");
        let mut gateway = Gateway::start(options);
        let (status, wrote) = gateway.start_beside_on_the_same_data();
        assert_eq!(status.code(), Some(1), "{wrote}");
        assert!(wrote.contains("data"), "it says what is taken: {wrote}");
        let (status, wrote) = gateway.start_beside_at_the_same_address();
        assert_eq!(status.code(), Some(1), "{wrote}");
        assert!(wrote.contains(&gateway.servers()), "it says what is taken: {wrote}");

        assert!(gateway.is_alive());
        let response = Raw::connect(gateway.bootstrap()).call(12, &MetadataRequest::default());
        assert_eq!(response.brokers.len(), gateway.nodes().len());
    }
}

#[tokio::test]
async fn the_banner_shows_where_the_gateway_serves_and_how_to_try_it() {
    let gateway = Gateway::start(Options::new(2));
    // It was written before the gateway was ready, and is on its way through a pipe.
    eventually("the banner", || {
        let wrote = gateway.written();
        wrote.contains(&gateway.servers()) && wrote.contains("kcat -b")
    })
    .await;
}

#[test]
fn node_ids_carry_the_gateways_id() {
    let gateway = Gateway::start(Options::new(2).advertise(Advertise::Shards).set("gateway-id", 7));
    let response = Raw::connect(gateway.bootstrap()).call(12, &MetadataRequest::default());
    assert_eq!(response.brokers.iter().map(|broker| broker.node_id.0).collect::<Vec<_>>(), [7_000, 7_001]);
}

/// What a client at `address` is told: host and port of each node.
fn told(address: SocketAddr) -> Vec<String> {
    let response = Raw::connect(address).call(12, &MetadataRequest::default());
    response.brokers.iter().map(|broker| format!("{}:{}", broker.host.as_str(), broker.port)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_several_listeners_tells_its_clients_of_its_own_ports() {
    let (one, _one) = another_address();
    let (two, _two) = another_address();
    let gateway = Gateway::start(Options::new(2).advertise(Advertise::Shards).listen(one).listen(two));
    let listeners = &gateway.ready().listeners;
    assert_eq!(listeners.iter().map(|listener| listener.bootstrap).collect::<Vec<_>>(), [one, two]);
    for listener in listeners {
        let nodes: Vec<_> = listener.nodes.iter().map(|node| node.addr.to_string()).collect();
        assert_eq!(told(listener.bootstrap), nodes);
        assert!(listener.nodes.iter().all(|node| node.addr.ip() == listener.bootstrap.ip()));
        // On a shard's port it is the same.
        assert_eq!(told(listener.nodes[1].addr), nodes);
    }

    // One gateway, whichever door is taken: what is written through one is read through the other.
    create_topic(&gateway, "orders", 2).await;
    let through_two = crate::common::librdkafka::config(&two.to_string(), &[]);
    let through_two: rdkafka::producer::FutureProducer = through_two.create().expect("producer");
    for partition in 0..2 {
        let record = unkeyed("orders", "v").partition(partition);
        within("send", through_two.send(record, Duration::ZERO)).await.expect("delivered");
    }
    let through_one = producer(&gateway, &[]);
    within("send", through_one.send(unkeyed("orders", "v").partition(0), Duration::ZERO)).await.expect("delivered");
    tokio::task::block_in_place(|| read_all(&gateway, "orders", 2, 3));
}
