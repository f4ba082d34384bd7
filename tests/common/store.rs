//! Where the gateways of a run keep what they keep.

use std::net::SocketAddr;

/// `--store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A data directory of the gateway's own.
    Embedded,
    /// Apache Iggy: the listener of a second gateway, which the first one brings along and which lives as long.
    Iggy,
    /// An Iggy server that the test has started.
    IggyAt(SocketAddr),
}

impl Store {
    /// That of every test that does not choose its own: `RINGGATE_TEST_STORE` (`embedded` or `iggy`), by default
    /// embedded.
    pub fn of_this_run() -> Store {
        match std::env::var("RINGGATE_TEST_STORE").as_deref() {
            Err(_) | Ok("embedded") => Store::Embedded,
            Ok("iggy") => Store::Iggy,
            Ok(other) => panic!("RINGGATE_TEST_STORE is {other:?}, allowed are embedded and iggy"),
        }
    }
}
