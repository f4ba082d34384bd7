//! Metadata.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::{
    ApiKey, DescribeClusterRequest, FindCoordinatorRequest, MetadataResponse, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use rdkafka::consumer::Consumer;

use crate::common::LIVENESS;
use crate::common::fetch::{fetch_request, only_partition, records};
use crate::common::gateway::{Advertise, Gateway, Options, another_address};
use crate::common::librdkafka::reader;
use crate::common::partition::{Topic, create, metadata, versions};
use crate::common::raw::{Raw, Writer, batch, string, topic_name};

use super::fetch::topic_ids::delete;

fn all() -> MetadataRequest {
    MetadataRequest::default().with_topics(None)
}

fn named(name: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    MetadataRequest::default().with_topics(Some(vec![topic]))
}

/// The names of every topic, in order.
fn topics(raw: &mut Raw) -> Vec<String> {
    names(&raw.call(12, &all()))
}

fn names(response: &MetadataResponse) -> Vec<String> {
    let mut names: Vec<_> =
        response.topics.iter().map(|topic| topic.name.as_ref().expect("a name").to_string()).collect();
    names.sort();
    names
}

#[test]
fn k051_a_missing_topic_is_made_by_asking_only_where_the_request_allows_it() {
    let gateway = Gateway::start(Options::new(2).set("num-partitions", 2));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(3) {
        let name = format!("asked-for-{version}");
        if version >= 4 {
            for _ in 0..3 {
                let response = raw.call(version, &named(&name).with_allow_auto_topic_creation(false));
                assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (3, 0));
                assert_eq!(response.topics[0].name, Some(topic_name(&name)));
                assert!(!topics(&mut raw).contains(&name), "version {version}");
            }
        }
        // Before version 4 the request cannot forbid it.
        let response = raw.call(version, &named(&name).with_allow_auto_topic_creation(true));
        assert!([0, 5].contains(&response.topics[0].error_code), "version {version}");
        let response = raw.call(version, &named(&name).with_allow_auto_topic_creation(version < 4));
        assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (0, 2), "version {version}");
    }
    let before = topics(&mut raw);
    let consumer = reader(&gateway, &[("allow.auto.create.topics", "false")]);
    let told = consumer.fetch_metadata(Some("nope"), LIVENESS).expect("metadata");
    assert!(told.topics()[0].error().is_some(), "a stock client is told that there is no such topic");
    assert_eq!(topics(&mut raw), before);
}

#[test]
fn k051_where_the_gateway_makes_no_topics_no_request_does() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(3) {
        let response = raw.call(version, &named("nope").with_allow_auto_topic_creation(true));
        assert_eq!(response.topics[0].error_code, 3, "version {version}");
    }
    assert!(topics(&mut raw).is_empty());
}

#[test]
fn k052_asking_for_all_topics_makes_none_also_while_one_is_deleted() {
    const DELETIONS: usize = 15;
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "kept", 1, &[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in gateway.nodes() {
            scope.spawn(|| {
                let mut asking = Raw::connect(node.addr);
                let mut version = 0;
                while !stop.load(Ordering::Relaxed) {
                    // Version 0 says "all" by an empty list.
                    let every =
                        if version == 0 { MetadataRequest::default().with_topics(Some(Vec::new())) } else { all() };
                    let response = asking.call(version, &every.with_allow_auto_topic_creation(true));
                    assert!(response.topics.iter().all(|topic| topic.error_code == 0));
                    version = (version + 1) % (versions(3).end() + 1);
                }
            });
        }
        for nth in 0..DELETIONS {
            let name = format!("going-{nth}");
            create(&mut raw, &name, 2, &[]);
            delete(&mut raw, &name);
            for node in gateway.nodes() {
                assert_eq!(topics(&mut Raw::connect(node.addr)), ["kept"], "{name} is gone when that is answered");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(topics(&mut raw), ["kept"]);
}

#[test]
fn k053_null_is_every_topic_and_an_empty_list_none_but_in_version_0() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let nodes = gateway.nodes().len();
    create(&mut raw, "a", 1, &[]);
    create(&mut raw, "b", 1, &[]);
    for version in versions(3) {
        let empty = raw.call(version, &MetadataRequest::default().with_topics(Some(Vec::new())));
        assert_eq!(empty.brokers.len(), nodes, "nodes are told in any case, version {version}");
        let expected: &[&str] = if version == 0 { &["a", "b"] } else { &[] };
        assert_eq!(names(&empty), expected, "an empty list, version {version}");
        if version > 0 {
            let every = raw.call(version, &all());
            assert_eq!(
                (names(&every), every.brokers.len()),
                (vec!["a".into(), "b".into()], nodes),
                "version {version}"
            );
        }
    }
    // The same as bytes: count 0, count -1, compact 0 (null) and compact 1 (empty).
    for (version, body, expected) in [
        (0, &[0, 0, 0, 0][..], 2),
        (1, &[0, 0, 0, 0], 0),
        (1, &[255, 255, 255, 255], 2),
        (9, &[0, 1, 0, 0, 0], 2),
        (9, &[1, 1, 0, 0, 0], 0),
    ] {
        let mut frame = Vec::new();
        RequestHeader::default()
            .with_request_api_key(ApiKey::Metadata as i16)
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(Some(string("raw")))
            .encode(&mut frame, ApiKey::Metadata.request_header_version(version))
            .expect("encodable header");
        frame.extend_from_slice(body);
        raw.send_bytes(&(frame.len() as u32).to_be_bytes());
        raw.send_bytes(&frame);
        let mut answer = raw.receive_frame();
        let header = if version >= 9 { 5 } else { 4 };
        assert_eq!(answer.split_to(header)[..4], [0, 0, 0, 7]);
        let response = MetadataResponse::decode(&mut answer, version).expect("decodable response");
        assert_eq!((response.topics.len(), response.brokers.len()), (expected, nodes), "{body:?}, version {version}");
    }
}

/// Host and port of each node that a client at `address` is told of, by Metadata, FindCoordinator and
/// DescribeCluster: of a node the same by each.
fn told(address: SocketAddr) -> BTreeSet<(String, i32)> {
    let mut raw = Raw::connect(address);
    let response = raw.call(12, &MetadataRequest::default());
    let nodes: Vec<_> = response.brokers.iter().map(|node| (node.node_id, node.host.to_string(), node.port)).collect();
    for version in versions(10) {
        for group in ["a", "b", "c", "d"] {
            let request = FindCoordinatorRequest::default();
            let found = if version < 4 {
                let found = raw.call(version, &request.with_key(string(group)));
                (found.node_id, found.host.to_string(), found.port)
            } else {
                let found = raw.call(version, &request.with_coordinator_keys(vec![string(group)]));
                let found = &found.coordinators[0];
                (found.node_id, found.host.to_string(), found.port)
            };
            assert!(nodes.contains(&found), "{found:?} is not one of {nodes:?}, version {version}");
        }
    }
    for version in versions(60) {
        let response = raw.call(version, &DescribeClusterRequest::default());
        let described: Vec<_> =
            response.brokers.iter().map(|node| (node.broker_id, node.host.to_string(), node.port)).collect();
        assert_eq!(described, nodes, "version {version}");
        assert!(nodes.iter().any(|(id, ..)| *id == response.controller_id), "version {version}");
    }
    nodes.into_iter().map(|(_, host, port)| (host, port)).collect()
}

/// Whether this machine has an IPv6 loopback address.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

#[test]
fn k054_a_wildcard_listener_tells_each_client_the_address_that_it_reached() {
    let mut wildcards = vec![("0.0.0.0:0", vec!["127.0.0.1", "127.9.8.7"])];
    if has_ipv6() {
        // An IPv6 wildcard takes IPv4 clients as well, and tells them an IPv4 address.
        wildcards.push(("[::]:0", vec!["::1", "127.0.0.1"]));
    }
    for (listen, reached) in wildcards {
        for advertise in [Advertise::Shards, Advertise::Gateway] {
            let gateway = Gateway::start(Options::new(2).advertise(advertise).listen(listen));
            for ip in reached.clone() {
                let doors = gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap()]);
                let expected: BTreeSet<_> =
                    gateway.nodes().iter().map(|node| (ip.to_owned(), i32::from(node.addr.port()))).collect();
                for door in doors {
                    assert_eq!(told(SocketAddr::new(ip.parse().expect("an address"), door.port())), expected);
                }
            }
        }
    }
}

#[test]
fn k054_an_advertised_host_is_told_by_every_api_that_names_nodes() {
    let gateway = Gateway::start(Options::new(2).listen("0.0.0.0:0").set("advertised-host", "gateway.example"));
    let expected: BTreeSet<_> =
        gateway.nodes().iter().map(|node| ("gateway.example".to_owned(), i32::from(node.addr.port()))).collect();
    assert_eq!(told(SocketAddr::new([127, 0, 0, 1].into(), gateway.bootstrap().port())), expected);
}

#[test]
fn k055_every_leader_replica_and_coordinator_is_one_of_the_nodes_on_every_listener() {
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let (one, _one) = another_address();
        let mut options = Options::new(3).advertise(advertise).listen(one).listen("0.0.0.0:0");
        if has_ipv6() {
            options = options.listen("[::1]:0");
        }
        let gateway = Gateway::start(options);
        create(&mut Raw::connect(gateway.bootstrap()), "spread", 9, &[]);
        for listener in &gateway.ready().listeners {
            let doors = listener.nodes.iter().map(|node| node.addr).chain([listener.bootstrap]);
            for mut door in doors {
                if door.ip().is_unspecified() {
                    door.set_ip([127, 0, 0, 1].into());
                }
                for (host, _) in told(door) {
                    assert_eq!(host, door.ip().to_string(), "an address as it is written, without brackets");
                }
                let mut raw = Raw::connect(door);
                for version in versions(3) {
                    let response = raw.call(version, &named("spread"));
                    let nodes: BTreeSet<_> = response.brokers.iter().map(|node| node.node_id).collect();
                    assert!(version < 1 || nodes.contains(&response.controller_id), "version {version}");
                    assert_eq!(response.topics[0].partitions.len(), 9);
                    for partition in &response.topics[0].partitions {
                        assert!(nodes.contains(&partition.leader_id), "version {version}");
                        assert_eq!(partition.replica_nodes, [partition.leader_id]);
                        assert_eq!(partition.isr_nodes, [partition.leader_id]);
                        assert!(partition.offline_replicas.is_empty());
                    }
                }
            }
        }
    }
}

#[test]
fn k055_a_stock_client_over_ipv6_writes_and_reads() {
    if !has_ipv6() {
        return;
    }
    let gateway = Gateway::start(Options::new(2).listen("[::1]:0"));
    let topic = create(&mut Raw::connect(gateway.bootstrap()), "six", 2, &[]);
    for index in 0..2 {
        topic.partition(index).append(&mut Raw::connect(gateway.bootstrap()), batch(Writer::NOBODY, 1, &["v"]));
    }
    assert_eq!(crate::common::librdkafka::read_all(&gateway, "six", 2, 2).len(), 2);
}

#[test]
fn k056_a_topic_is_served_by_every_shard_as_soon_as_its_creation_is_answered() {
    const TOPICS: usize = 60;
    let gateway = Gateway::start(Options::new(3).set("auto-create-topics", false));
    let mut creating = Raw::connect(gateway.bootstrap());
    let mut others: Vec<Raw> = gateway.nodes().iter().map(|node| Raw::connect(node.addr)).collect();
    others.push(Raw::connect(gateway.bootstrap()));
    for nth in 0..TOPICS {
        let name = format!("fresh-{nth}");
        let topic: Topic = create(&mut creating, &name, 1, &[]);
        let partition = topic.partition(0);
        for (written, other) in others.iter_mut().enumerate() {
            assert_eq!(metadata(other, &name), (0, topic.id), "{name}");
            assert_eq!(partition.lookup(other, 9, -1).1, written as i64, "{name}");
            let produced = partition.produce(other, 13, Some(batch(Writer::NOBODY, 1, &["v"])));
            assert_eq!((produced.error_code, produced.base_offset), (0, written as i64), "{name}");
            let response = other.call(13, &fetch_request(13, &[(&topic, &[(0, 0)])]));
            assert_eq!(records(only_partition(&response)).len(), written + 1, "{name}");
        }
    }
}

#[test]
fn k056_of_many_topics_made_by_one_request_each_is_served_at_once() {
    let gateway = Gateway::start(Options::new(3).set("auto-create-topics", false));
    let made: Vec<String> = (0..100).map(|nth| format!("many-{nth}")).collect();
    let topics = made.iter().map(|name| {
        CreatableTopic::default().with_name(topic_name(name)).with_num_partitions(2).with_replication_factor(1)
    });
    let request = CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(30_000);
    let created = Raw::connect(gateway.bootstrap()).call(7, &request);
    assert!(created.topics.iter().all(|topic| topic.error_code == 0));
    for node in gateway.nodes() {
        let mut raw = Raw::connect(node.addr);
        for topic in &created.topics {
            let topic = Topic { name: topic.name.clone(), id: topic.topic_id };
            for index in 0..2 {
                let produced = topic.partition(index).produce(&mut raw, 13, Some(batch(Writer::NOBODY, 1, &["v"])));
                assert_eq!(produced.error_code, 0, "{}", topic.name.as_str());
            }
        }
    }
}
