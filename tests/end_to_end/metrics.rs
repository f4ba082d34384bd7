//! What `/metrics` says of what clients did, line by line as Prometheus reads it.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{DescribeGroupsRequest, HeartbeatRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit_request, group_id};
use crate::common::partition::{create, unknown};
use crate::common::raw::{Raw, Writer, batch, string};
use crate::common::scrape::Scrape;

fn watched(shards: u16) -> Options {
    Options::new(shards.into()).set("admin-listen", "127.0.0.1:0")
}

fn heartbeat(group: &str) -> HeartbeatRequest {
    HeartbeatRequest::default().with_group_id(group_id(group)).with_member_id(string("nobody")).with_generation_id(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_timed_and_their_errors_counted_by_api() {
    let gateway = Gateway::start(watched(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "log", 1, &[]);
    for _ in 0..3 {
        assert_eq!(raw.call(4, &heartbeat("none")).error_code, 25);
    }
    assert_eq!(unknown("gone").partition(0).produce(&mut raw, 9, Some(batch(Writer::NOBODY, 1, &["a"]))).error_code, 3);
    let partition = topic.partition(0);
    partition.append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    // Without an answer; what follows it is answered after it.
    raw.send(9, &partition.produce_request(9, 0, Some(batch(Writer::NOBODY, 1, &["b"]))));
    let wait = Duration::from_millis(300);
    let fetch = partition.fetch_request(11, 2).with_min_bytes(1).with_max_wait_ms(wait.as_millis() as i32);
    raw.call(11, &fetch);
    let partitions: Vec<(i32, i64)> = (0..5).map(|partition| (partition, 1)).collect();
    raw.call(8, &commit_request("g", "gone", &partitions));

    let mut refused = Raw::connect(gateway.bootstrap());
    let mut frame = BytesMut::new();
    for value in [10, 7777 << 16, 1] {
        frame.put_i32(value);
    }
    frame.put_i16(-1);
    refused.send_bytes(&frame);
    refused.assert_closed();

    let scrape = Scrape::of(&gateway);
    let count = |family, api| scrape.sum(family, &[("api", api)]);
    assert_eq!(count("ringgate_requests_total", "Heartbeat"), 3.0);
    assert_eq!(count("ringgate_requests_total", "Produce"), 3.0);
    assert_eq!(count("ringgate_requests_total", "unknown"), 1.0);
    assert_eq!(count("ringgate_requests_closed_total", "unknown"), 1.0);
    assert_eq!(count("ringgate_requests_closed_total", "Heartbeat"), 0.0);
    let errors = |api, error| scrape.sum("ringgate_errors_total", &[("api", api), ("error", error)]);
    assert_eq!(errors("Heartbeat", "UNKNOWN_MEMBER_ID"), 3.0);
    assert_eq!(errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), 1.0);
    assert_eq!(errors("OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION"), 5.0, "one for each partition");
    assert_eq!(count("ringgate_errors_total", "Fetch"), 0.0);
    let took = |api| scrape.histogram("ringgate_request_seconds", &[("api", api)]);
    assert_eq!((took("Heartbeat").0, took("Produce").0), (3, 3));
    let (fetches, seconds) = took("Fetch");
    assert_eq!(fetches, 1);
    assert!((0.9 * wait.as_secs_f64()..60.0).contains(&seconds), "{seconds}: it waited for records");
    assert!(took("Heartbeat").1 > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shards_ask_of_each_other_is_timed_where_it_is_taken_up() {
    let gateway = Gateway::start(watched(2));
    let asked = || -> Vec<(u64, f64)> {
        let scrape = Scrape::of(&gateway);
        ["0", "1"].map(|shard| scrape.histogram("ringgate_hop_seconds", &[("shard", shard)])).into()
    };
    let before = asked();
    // One connection lives on one shard, so that the groups of the other are a hop away.
    let mut raw = Raw::connect(gateway.bootstrap());
    for nth in 0..40 {
        assert_eq!(raw.call(4, &heartbeat(&format!("group-{nth}"))).error_code, 25);
    }
    let hops: Vec<u64> = asked().iter().zip(&before).map(|(now, before)| now.0 - before.0).collect();
    assert!(hops.iter().any(|hops| (1..=40).contains(hops)), "{hops:?}");
    assert!(hops.contains(&0), "no more than one shard was asked: {hops:?}");
    let scrape = Scrape::of(&gateway);
    assert_eq!(scrape.0["ringgate_mailbox_full_total"].values.len(), 2);
    assert_eq!(scrape.sum("ringgate_mailbox_full_total", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_mailbox_is_counted_at_its_owner() {
    let gateway = Gateway::start(watched(2).set("mailbox-capacity", 16));
    let mut raw = Raw::connect(gateway.bootstrap());
    // Half of the groups belong to the other shard, which is asked for each at once.
    let groups = (0..3_000).map(|n| group_id(&format!("group-{n}"))).collect();
    let describe = DescribeGroupsRequest::default().with_groups(groups);
    let full = |shard| Scrape::of(&gateway).sum("ringgate_mailbox_full_total", &[("shard", shard)]);
    eventually("a mailbox is full at some moment", || {
        raw.call(5, &describe);
        full("0") + full("1") > 0.0
    })
    .await;
    assert_eq!(full("0").min(full("1")), 0.0, "nobody asked this shard for anything");
}
