//! Which shard answers what: FindCoordinator and Metadata point at the owner, and a request that
//! arrives elsewhere is answered all the same.

use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::heartbeat_request::HeartbeatRequest;
use kafka_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use kafka_protocol::messages::{GroupId, ListGroupsRequest};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, string, topic_name};

/// XXH3-64 with seed 0, computed apart from the gateway's own code.
fn hash(text: &str) -> u64 {
    twox_hash::XxHash3_64::oneshot(text.as_bytes())
}

fn group_id(group: &str) -> GroupId {
    GroupId(string(group))
}

/// A Heartbeat to the bootstrap port; its error code.
pub fn heartbeat(gateway: &Gateway, group: &str, member: &str, generation: i32) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(string(member))
        .with_generation_id(generation);
    Raw::connect(gateway.bootstrap()).call(4, &request).error_code
}

/// A first JoinGroup as version 9 has it: protocol type `consumer`, one protocol `range`.
pub fn join_request(group: &str, member: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(string("range"))
        .with_metadata(bytes::Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(string(member))
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol])
}

/// The member id that a dynamic member is given before it joins.
pub fn ask_for_member_id(raw: &mut Raw, group: &str) -> String {
    let response = raw.call(9, &join_request(group, ""));
    assert_eq!(response.error_code, 79, "a dynamic member is told its id first");
    assert!(response.member_id.starts_with("raw-"), "{:?}", response.member_id);
    response.member_id.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_coordinator_names_the_shard_that_owns_the_group() {
    let gateway = Gateway::start(Options::new(3));
    let groups: Vec<String> = (0..32).map(|n| format!("group-{n}")).collect();
    let mut raw = Raw::connect(gateway.bootstrap());
    for group in &groups {
        let owner = gateway.node_of_shard((hash(group) % 3) as usize);
        let response = raw.call(3, &FindCoordinatorRequest::default().with_key(string(group)));
        assert_eq!((response.error_code, response.node_id.0), (0, owner.id), "{group}");
        assert_eq!((response.host.to_string(), response.port), (owner.addr.ip().to_string(), owner.addr.port().into()));
    }
    let keys = groups.iter().map(|group| string(group)).collect();
    let response = raw.call(4, &FindCoordinatorRequest::default().with_coordinator_keys(keys));
    let named: Vec<_> = response.coordinators.iter().map(|found| (found.key.to_string(), found.node_id.0)).collect();
    let expected: Vec<_> =
        groups.iter().map(|group| (group.clone(), gateway.node_of_shard((hash(group) % 3) as usize).id)).collect();
    assert_eq!(named, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_coordinator_names_the_one_node_in_gateway_mode() {
    let gateway = Gateway::start(Options::new(3).advertise(Advertise::Gateway));
    assert_eq!(gateway.nodes().len(), 1);
    let node = gateway.nodes()[0];
    assert_eq!(node.addr, gateway.bootstrap());
    let mut raw = Raw::connect(gateway.bootstrap());
    for n in 0..8 {
        let response = raw.call(3, &FindCoordinatorRequest::default().with_key(string(&format!("group-{n}"))));
        assert_eq!((response.error_code, response.node_id.0), (0, node.id));
        assert_eq!(response.port, i32::from(node.addr.port()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_names_the_shard_that_owns_the_partition() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 7).await;
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name("orders")));
    let request = MetadataRequest::default().with_topics(Some(vec![topic]));
    let response = Raw::connect(gateway.bootstrap()).call(12, &request);
    assert_eq!(response.controller_id.0, gateway.node_of_shard(0).id, "shard 0 is the controller");
    for partition in &response.topics[0].partitions {
        let shard = hash("orders").wrapping_add(partition.partition_index as u64) % 3;
        assert_eq!(partition.leader_id.0, gateway.node_of_shard(shard as usize).id);
        assert!(partition.leader_epoch >= 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_port_answers_for_every_group_and_partition() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 3).await;
    let mut ports: Vec<_> = gateway.nodes().iter().map(|node| node.addr).collect();
    ports.push(gateway.bootstrap());
    for (n, port) in ports.into_iter().enumerate() {
        let mut raw = Raw::connect(port);
        for partition in 0..3 {
            let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch(
                Writer::NOBODY,
                1,
                &["a record"],
            )));
            let topic = TopicProduceData::default().with_name(topic_name("orders")).with_partition_data(vec![data]);
            let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
            let response = raw.call(9, &request);
            let produced = &response.responses[0].partition_responses[0];
            assert_eq!((produced.error_code, produced.base_offset), (0, n as i64), "{port}/{partition}");
        }
        // Among a few groups each shard owns some, so most of these are on another shard's port.
        for m in 0..5 {
            let group = format!("group-{n}-{m}");
            group_life(&mut raw, &group);
        }
    }
}

/// Join, sync, heartbeat, commit and fetch of the only member of `group`, all on one connection.
fn group_life(raw: &mut Raw, group: &str) {
    let member = ask_for_member_id(raw, group);
    let joined = raw.call(9, &join_request(group, &member));
    assert_eq!((joined.error_code, joined.generation_id), (0, 1), "{group}");
    assert_eq!(joined.leader, joined.member_id);
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(string(&member))
        .with_assignment(bytes::Bytes::from_static(b"mine"));
    let sync = SyncGroupRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(1)
        .with_member_id(string(&member))
        .with_protocol_type(Some(string("consumer")))
        .with_protocol_name(Some(string("range")))
        .with_assignments(vec![assignment]);
    let synced = raw.call(5, &sync);
    assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"mine"[..]), "{group}");

    let heartbeat = HeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(1)
        .with_member_id(string(&member));
    assert_eq!(raw.call(4, &heartbeat).error_code, 0, "{group}");

    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(42)
        .with_committed_metadata(Some(string("a note")));
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name("orders")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(1)
        .with_member_id(string(&member))
        .with_topics(vec![topic]);
    assert_eq!(raw.call(8, &commit).topics[0].partitions[0].error_code, 0, "{group}");

    let topic = OffsetFetchRequestTopics::default().with_name(topic_name("orders")).with_partition_indexes(vec![0, 1]);
    let fetch = OffsetFetchRequest::default().with_groups(vec![
        OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(Some(vec![topic])),
    ]);
    let fetched = raw.call(8, &fetch);
    let found: Vec<_> = fetched.groups[0].topics[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, partition.committed_offset, partition.error_code))
        .collect();
    assert_eq!(found, [(0, -1, 0), (1, 42, 0)], "{group}");
    let note = fetched.groups[0].topics[0].partitions[1].metadata.as_ref().map(ToString::to_string);
    assert_eq!(note.as_deref(), Some("a note"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shards_port_lists_its_own_groups_and_the_bootstrap_port_lists_all() {
    let gateway = Gateway::start(Options::new(3).advertise(Advertise::Shards));
    create_topic(&gateway, "orders", 3).await;
    let groups: Vec<String> = (0..9).map(|n| format!("group-{n}")).collect();
    let mut bootstrap = Raw::connect(gateway.bootstrap());
    for group in &groups {
        group_life(&mut bootstrap, group);
    }
    let listed = |raw: &mut Raw| -> Vec<String> {
        let response = raw.call(4, &ListGroupsRequest::default());
        assert_eq!(response.error_code, 0);
        let mut names: Vec<_> = response.groups.iter().map(|group| group.group_id.0.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(listed(&mut bootstrap), groups);
    for shard in 0..3 {
        let own: Vec<_> = groups.iter().filter(|group| hash(group) % 3 == shard as u64).cloned().collect();
        assert_eq!(listed(&mut Raw::connect(gateway.node_of_shard(shard).addr)), own, "shard {shard}");
    }
}
