//! More requests, or more answers, than anybody has room for.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::{Witness, assert_no_panic, options};
use crate::common::fetch::fetch_request;
use crate::common::gateway::Gateway;
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, frame, topic_name};
use crate::common::{LIVENESS, eventually};

const MIB: usize = 1 << 20;

#[test]
fn k117_produces_that_nobody_waits_for_are_read_no_faster_than_they_are_written() {
    const REQUESTS: usize = 300;
    let options = options()
        .set("max-frame-size", "2MiB")
        .set("max-in-flight-bytes", "4MiB")
        .set("message-max-bytes", "2MiB")
        .set("max-member-blob-bytes", "1MiB")
        .set("tail-cache-bytes", "1MiB");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "firehose", 1, &[]).partition(0);
    let records = batch(Writer::NOBODY, 1, &[&"x".repeat(MIB)]);
    let produce = frame(7, 9, &partition.produce_request(9, -1, Some(records)));
    let before = gateway.rss();
    let done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let (done, produce) = (&done, &produce);
        let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
        stream.set_write_timeout(Some(LIVENESS)).expect("write timeout");
        scope.spawn(move || {
            for _ in 0..REQUESTS {
                stream.write_all(produce).expect("send");
            }
            done.store(true, Ordering::Relaxed);
            stream
        });
        // Everybody else is served meanwhile.
        let mut most = 0;
        while !done.load(Ordering::Relaxed) {
            Witness::of(&gateway).is_served();
            most = most.max(gateway.rss());
        }
        most
    });
    let grown = most.saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more at some moment, for {REQUESTS} MiB");
    assert_no_panic(&gateway);
}

/// Sends a request again and again and reads nothing, until the gateway closes.
fn flood(gateway: &Gateway, request: &[u8]) {
    let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
    stream.set_write_timeout(Some(LIVENESS)).expect("write timeout");
    let closed = (0..1_000_000).any(|_| stream.write_all(request).is_err());
    assert!(closed, "a client that reads nothing is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k118_answers_that_nobody_reads_are_not_gathered_and_their_client_is_closed() {
    const CLIENTS: usize = 8;
    let options = options().set("send-timeout", "2s").set("tail-cache-bytes", "1MiB");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "large", 1, &[]);
    let records = batch(Writer::NOBODY, 1, &[&"x".repeat(MIB - 1_000)]);
    for _ in 0..8 {
        topic.partition(0).append(&mut raw, records.clone());
    }
    let fetch = frame(7, 12, &fetch_request(12, &[(&topic, &[(0, 0)])]));
    // Answers of 400 names of 200 bytes each.
    let names = (0..400).map(|n| {
        let name = format!("{}-{n}", "long".repeat(50));
        MetadataRequestTopic::default().with_name(Some(topic_name(&name)))
    });
    let metadata = MetadataRequest::default().with_topics(Some(names.collect()));
    let metadata = frame(7, 9, &metadata.with_allow_auto_topic_creation(false));
    for (what, request) in [("Fetch", fetch), ("Metadata", metadata)] {
        let before = gateway.rss();
        let closed_before = metric(&gateway, "ringgate_limit_hit_total", "limit=\"send_timeout\"");
        let most = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let floods: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| flood(&gateway, &request))).collect();
                let mut most = 0;
                while floods.iter().any(|flood| !flood.is_finished()) {
                    Witness::of(&gateway).is_served();
                    most = most.max(gateway.rss());
                    std::thread::sleep(Duration::from_millis(20));
                }
                most
            })
        });
        let grown = most.saturating_sub(before);
        // A request of each is answered at a time: 8 MiB of records.
        assert!(grown < 200 << 10, "{what}: {grown} KiB more at some moment for {CLIENTS} clients");
        eventually("each of them met send_timeout", || {
            let closed = metric(&gateway, "ringgate_limit_hit_total", "limit=\"send_timeout\"") - closed_before;
            closed == CLIENTS as u64
        })
        .await;
    }
    assert_no_panic(&gateway);
}
