//! Malformed requests and denial of service.

mod counts;
mod floods;
mod foreign;
mod order;
mod slow;

use kafka_protocol::messages::MetadataRequest;

use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::raw::Raw;

/// Two shards whose metrics can be read.
fn options() -> Options {
    Options::new(2).set("admin-listen", "127.0.0.1:0")
}

/// A connection that must be served whatever happens on the others.
struct Witness(Raw);

impl Witness {
    fn of(gateway: &Gateway) -> Witness {
        Witness(Raw::connect(gateway.bootstrap()))
    }

    fn is_served(&mut self) {
        assert!(!self.0.call(9, &MetadataRequest::default()).brokers.is_empty());
    }
}

fn assert_no_panic(gateway: &Gateway) {
    assert_eq!(metric(gateway, "ringgate_connection_panics_total", ""), 0);
    assert!(!gateway.written().contains("panicked"), "{}", gateway.written());
}
