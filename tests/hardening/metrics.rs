//! Every limit that closes or turns away a client is counted in `ringgate_limit_hit_total`.

use kafka_protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
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
        .set("max-connections-per-ip", 2);
    let gateway = Gateway::start(options);
    for limit in ["max_frame_size", "frame_timeout", "idle_timeout", "max_connections_per_ip"] {
        assert_eq!(hits(&gateway, limit), 0, "{limit}");
    }

    let [mut large, mut slow] = [Raw::connect(gateway.bootstrap()), Raw::connect(gateway.bootstrap())];
    for raw in [&mut large, &mut slow] {
        raw.call(9, &MetadataRequest::default());
    }
    Raw::connect(gateway.bootstrap()).assert_closed();
    eventually("max_connections_per_ip is counted", || hits(&gateway, "max_connections_per_ip") == 1).await;

    large.send_bytes(&i32::MAX.to_be_bytes());
    large.assert_closed();
    eventually("max_frame_size is counted", || hits(&gateway, "max_frame_size") == 1).await;

    slow.send_bytes(&[0, 0, 1, 0, 0, 3]);
    slow.assert_closed();
    eventually("frame_timeout is counted", || hits(&gateway, "frame_timeout") == 1).await;
    assert_eq!(hits(&gateway, "idle_timeout"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_closed_for_its_silence_is_counted() {
    // Longer than it may take to ask for something first.
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0").set("idle-timeout", "5s"));
    assert_eq!(hits(&gateway, "idle_timeout"), 0);
    let mut idle = Raw::connect(gateway.bootstrap());
    idle.call(9, &MetadataRequest::default());
    idle.assert_closed();
    eventually("idle_timeout is counted", || hits(&gateway, "idle_timeout") == 1).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_topics_fetches_and_producers_are_counted() {
    let options = Options::new(1)
        .set("admin-listen", "127.0.0.1:0")
        .set("max-partitions-per-topic", 4)
        .set("max-partitions", 6)
        .set("max-fetch-bytes", "64KiB")
        .set("max-fetch-wait", "50ms")
        .set("max-producers-per-partition", 16)
        .embedded("Iggy has its own limits of topics, and nothing remembers producers there");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "most", 4, &[]);
    let refused = |raw: &mut Raw, name: &str, partitions| {
        let topic = CreatableTopic::default().with_name(topic_name(name)).with_num_partitions(partitions);
        let topic = topic.with_replication_factor(1);
        raw.call(5, &CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000)).topics[0]
            .error_code
    };
    assert_eq!((refused(&mut raw, "large", 5), refused(&mut raw, "more", 4)), (37, 37));
    assert_eq!((hits(&gateway, "max_partitions_per_topic"), hits(&gateway, "max_partitions")), (1, 1));

    let partition = topic.partition(0);
    let within = partition.fetch_request(11, 0).with_max_bytes(64 << 10).with_max_wait_ms(50);
    raw.call(11, &within);
    assert_eq!((hits(&gateway, "max_fetch_bytes"), hits(&gateway, "max_fetch_wait")), (0, 0), "at the limits");
    raw.call(11, &within.with_max_bytes((64 << 10) + 1).with_max_wait_ms(51).with_min_bytes(1));
    assert_eq!((hits(&gateway, "max_fetch_bytes"), hits(&gateway, "max_fetch_wait")), (1, 1));

    for producer_id in 0..17 {
        assert_eq!(hits(&gateway, "max_producers_per_partition"), 0, "{producer_id} producers");
        partition.append(&mut raw, batch(Writer { producer_id, epoch: 0, sequence: 0 }, 1, &["a"]));
    }
    assert_eq!(hits(&gateway, "max_producers_per_partition"), 1);

    let config =
        |nth: usize| AlterableConfig::default().with_name(string(&nth.to_string())).with_value(Some(string("1")));
    let mut altered = |settings: usize| {
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(string("most"))
            .with_configs((0..settings).map(config).collect());
        raw.call(1, &AlterConfigsRequest::default().with_resources(vec![resource])).responses[0].error_code
    };
    assert_ne!(altered(1_000), 0, "no setting has these names");
    assert_eq!(hits(&gateway, "altered_settings"), 0);
    assert_eq!(altered(1_001), 42);
    assert_eq!(hits(&gateway, "altered_settings"), 1);
}
