//! Every limit that closes or turns away a client is counted in `ringgate_limit_hit_total`.

use kafka_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{GroupId, MetadataRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, compressed, string, topic_name};

/// How often this limit was met, over all shards.
pub fn hits(gateway: &Gateway, limit: &str) -> u64 {
    metric(gateway, "ringgate_limit_hit_total", &format!("limit=\"{limit}\""))
}

pub fn join(group: &str, metadata: usize) -> JoinGroupRequest {
    let metadata = vec![0; metadata].into();
    let protocol = JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata(metadata);
    JoinGroupRequest::default()
        .with_group_id(GroupId(string(group)))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_close_a_connection_are_counted() {
    let options = Options::new(2)
        .set("admin-listen", "127.0.0.1:0")
        .set("frame-timeout", "300ms")
        .set("idle-timeout", "1s")
        .set("max-connections-per-ip", 2);
    let gateway = Gateway::start(options);
    for limit in ["max_frame_size", "frame_timeout", "idle_timeout", "max_connections_per_ip"] {
        assert_eq!(hits(&gateway, limit), 0, "{limit}");
    }

    let mut large = Raw::connect(gateway.bootstrap());
    large.send_bytes(&i32::MAX.to_be_bytes());
    large.assert_closed();
    eventually("max_frame_size is counted", || hits(&gateway, "max_frame_size") == 1).await;

    let mut slow = Raw::connect(gateway.bootstrap());
    slow.send_bytes(&[0, 0, 1, 0, 0, 3]);
    slow.assert_closed();
    eventually("frame_timeout is counted", || hits(&gateway, "frame_timeout") == 1).await;

    let mut idle = Raw::connect(gateway.bootstrap());
    idle.call(9, &MetadataRequest::default());
    idle.assert_closed();
    eventually("idle_timeout is counted", || hits(&gateway, "idle_timeout") == 1).await;

    let mut held: Vec<Raw> = (0..2).map(|_| Raw::connect(gateway.bootstrap())).collect();
    for raw in &mut held {
        raw.call(9, &MetadataRequest::default());
    }
    Raw::connect(gateway.bootstrap()).assert_closed();
    eventually("max_connections_per_ip is counted", || hits(&gateway, "max_connections_per_ip") == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_groups_are_counted() {
    let options = Options::new(2).set("admin-listen", "127.0.0.1:0").set("max-groups", 1);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(raw.call(9, &join("one", 10)).error_code, 79);
    assert_eq!(hits(&gateway, "max_groups"), 0, "at the limit");
    assert_eq!(raw.call(9, &join("two", 10)).error_code, 15);
    assert_eq!(hits(&gateway, "max_groups"), 1, "one past it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_groups_may_hold_in_memory_is_bounded_over_the_gateway() {
    let options = Options::new(2)
        .set("admin-listen", "127.0.0.1:0")
        .set("max-member-blob-bytes", "512KiB")
        .set("max-group-memory", "1MiB");
    let gateway = Gateway::start(options);
    // Version 3 makes a member of who joins first, so that its metadata is kept; each on a connection that
    // stays.
    let mut members = Vec::new();
    let refused = (0..8).find(|n| {
        let mut raw = Raw::connect(gateway.bootstrap());
        let code = raw.call(3, &join(&format!("group-{n}"), 300_000)).error_code;
        members.push(raw);
        assert!([0, 15].contains(&code), "{code}");
        code == 15
    });
    // Three times 300,000 bytes and what goes with them fit at most.
    assert!(matches!(refused, Some(1..=3)), "{refused:?}");
    assert!(hits(&gateway, "max_group_memory") >= 1);
    assert_eq!(Raw::connect(gateway.bootstrap()).call(9, &MetadataRequest::default()).brokers.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_requests_and_records_are_counted() {
    let options = Options::new(1)
        .set("admin-listen", "127.0.0.1:0")
        .set("max-decoded-bytes", "16KiB")
        .set("message-max-bytes", "2KiB")
        .set("max-decompressed-bytes", "8KiB");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "small", 1, &[]).partition(0);
    let code = |raw: &mut Raw, records| partition.produce(raw, 9, Some(records)).error_code;
    assert_eq!(code(&mut raw, batch(Writer::NOBODY, 1, &[&"x".repeat(1_500)])), 0);
    assert_eq!(hits(&gateway, "message_max_bytes"), 0);
    assert_eq!(code(&mut raw, batch(Writer::NOBODY, 1, &[&"x".repeat(2_500)])), 10);
    assert_eq!(hits(&gateway, "message_max_bytes"), 1);
    assert_eq!(code(&mut raw, compressed(&[&"0".repeat(7_000)])), 0);
    assert_eq!(hits(&gateway, "max_decompressed_bytes"), 0);
    assert_eq!(code(&mut raw, compressed(&[&"0".repeat(9_000)])), 10);
    assert_eq!(hits(&gateway, "max_decompressed_bytes"), 1);

    let named = |count: usize| {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
        MetadataRequest::default().with_topics(Some(vec![topic; count])).with_allow_auto_topic_creation(false)
    };
    // 128 bytes are counted for each name.
    raw.call(9, &named(128));
    assert_eq!(hits(&gateway, "max_decoded_bytes"), 0);
    raw.send(9, &named(129));
    raw.assert_closed();
    eventually("max_decoded_bytes is counted", || hits(&gateway, "max_decoded_bytes") == 1).await;
}
