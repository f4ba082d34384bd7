//! What no honest client sends: requests cut short, numbers out of all proportion, foreign protocols and
//! floods. The process lives, stays within its memory, and goes on serving everybody else.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, MetadataRequest, RequestHeader};
use kafka_protocol::protocol::Encodable;
use ringgate_wire::counts::testing::full_request;
use ringgate_wire::versions::{SERVED, Served};

use crate::common::gateway::{Gateway, Options};
use crate::common::raw::{Raw, string};

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

/// A frame of this API and version around `body`, whatever that is.
fn framed(api: &Served, version: i16, body: &[u8]) -> Bytes {
    let key = ApiKey::try_from(api.api_key).expect("a served API");
    let header = RequestHeader::default()
        .with_request_api_key(api.api_key)
        .with_request_api_version(version)
        .with_correlation_id(1)
        .with_client_id(Some(string("hostile")));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, key.request_header_version(version)).expect("encodable header");
    frame.put_slice(body);
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// Sends bytes on a connection of their own and takes whatever comes back within a moment.
fn throw(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("read timeout");
    // The gateway may close while it is still being sent to.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 1024]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_number_at_every_place_of_every_request_harms_nobody() {
    let gateway = Gateway::start(Options::new(2).set("max-partitions-per-topic", 100).set("max-partitions", 200));
    let mut witness = Witness::of(&gateway);
    let before = gateway.rss();
    for api in &SERVED {
        for version in api.versions.clone() {
            let mut body = BytesMut::new();
            full_request(api.api_key, version, &mut body);
            for at in 0..body.len() {
                let mut wrong = body.clone();
                let hostile = [0x7f, 0xff, 0xff, 0xff, 0x07];
                let end = (at + hostile.len()).min(wrong.len());
                wrong[at..end].copy_from_slice(&hostile[..end - at]);
                throw(gateway.bootstrap(), &framed(api, version, &wrong));
            }
            for end in 0..body.len() {
                throw(gateway.bootstrap(), &framed(api, version, &body[..end]));
            }
            witness.is_served();
        }
    }
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 200 << 10, "{grown} KiB more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_pipelined_requests_and_resets_disturbs_nobody() {
    let gateway = Gateway::start(Options::new(2).set("send-timeout", "500ms"));
    let mut witness = Witness::of(&gateway);
    let request = crate::common::raw::frame(7, 9, &MetadataRequest::default());
    let flood: Bytes = request.repeat(2_000).into();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
        stream.set_write_timeout(Some(Duration::from_secs(2))).expect("write timeout");
        let _ = stream.write_all(&flood);
        // Unread answers make the close a reset.
        drop(stream);
        witness.is_served();
    }
    assert!(gateway.rss() < 300 << 10);
}
