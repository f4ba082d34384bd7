//! Starts that must not succeed, and what a start tells its surroundings.

use kafka_protocol::messages::MetadataRequest;

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::raw::Raw;

#[test]
fn a_second_gateway_on_the_same_data_or_address_does_not_start_and_harms_nothing() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let mut gateway = Gateway::start(Options::new(2).advertise(advertise));
        let (status, wrote) = gateway.start_beside_on_the_same_data();
        assert_eq!(status.code(), Some(1), "{wrote}");
        assert!(wrote.contains("data"), "it says what is taken: {wrote}");
        let (status, wrote) = gateway.start_beside_at_the_same_address();
        assert_eq!(status.code(), Some(1), "{wrote}");
        assert!(wrote.contains(&gateway.servers()), "it says what is taken: {wrote}");

        assert!(gateway.is_alive());
        let response = Raw::connect(gateway.bootstrap()).call(12, &MetadataRequest::default());
        assert_eq!(response.brokers.len(), gateway.ready().nodes.len());
    }
}

#[test]
fn the_banner_shows_where_the_gateway_serves_and_how_to_try_it() {
    let gateway = Gateway::start(Options::new(2));
    let wrote = gateway.written();
    assert!(wrote.contains(&gateway.servers()), "{wrote}");
    assert!(wrote.contains("kcat"), "{wrote}");
}

#[test]
fn an_advertised_host_is_what_clients_are_told() {
    let gateway = Gateway::start(Options::new(2).set("advertised-host", "gateway.example"));
    let response = Raw::connect(gateway.bootstrap()).call(12, &MetadataRequest::default());
    let told: Vec<_> = response.brokers.iter().map(|broker| (broker.host.to_string(), broker.port)).collect();
    let base = i32::from(gateway.bootstrap().port());
    assert_eq!(told, [("gateway.example".to_owned(), base + 1), ("gateway.example".to_owned(), base + 2)]);
}

#[test]
fn node_ids_carry_the_gateways_id() {
    let gateway = Gateway::start(Options::new(2).set("gateway-id", 7));
    let response = Raw::connect(gateway.bootstrap()).call(12, &MetadataRequest::default());
    assert_eq!(response.brokers.iter().map(|broker| broker.node_id.0).collect::<Vec<_>>(), [7_000, 7_001]);
}
