//! What one connection may send, in which order it is answered, and what gets it closed.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use kafka_protocol::messages::{ApiVersionsRequest, GroupId, MetadataRequest};

use crate::common::gateway::{Gateway, Options};
use crate::common::group::state;
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, frame, string, topic_name};
use crate::common::scrape::Scrape;
use crate::common::{eventually, librdkafka};
use crate::routing::{ask_for_member_id, heartbeat, join_request};

/// Long enough to see that something is parked. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(300);

fn produce_request(topic: &str, partition: i32, acks: i16, value: &str) -> ProduceRequest {
    let records = batch(Writer::NOBODY, 1_000, &[value]);
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

/// As a client of version 3 or later sends it: with the name of its software.
fn api_versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest::default().with_client_software_name(string("raw")).with_client_software_version(string("1.0"))
}

/// Whether this kernel's Linux is as new.
fn kernel_is_at_least(wanted: (u32, u32)) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= wanted
}

#[test]
fn with_incoming_cpu_connections_go_to_the_shard_of_the_cpu_that_they_come_in_on() {
    let cpus = ringgate_runtime::allowed_cpus().expect("CPUs");
    let (&[first, second, ..], true) = (cpus.as_slice(), kernel_is_at_least((6, 2))) else {
        eprintln!("skipped: it takes two CPUs and Linux 6.2");
        return;
    };
    let options = Options::new(2).set("cpus", format!("{first},{second}")).set("incoming-cpu", true);
    let gateway = Gateway::start(options.set("admin-listen", "127.0.0.1:0"));
    // What is sent over loopback comes in on the CPU that sent it.
    for (shard, cpu, count) in [("1", second, 24), ("0", first, 17)] {
        let address = gateway.bootstrap();
        let connected = std::thread::spawn(move || {
            let mut one = rustix::thread::CpuSet::new();
            one.set(cpu);
            rustix::thread::sched_setaffinity(None, &one).expect("a CPU that is allowed");
            (0..count).map(|_| std::net::TcpStream::connect(address).expect("connected")).collect::<Vec<_>>()
        });
        let _open = connected.join().expect("connections");
        let here = || Scrape::of(&gateway).sum("ringgate_connections", &[("shard", shard)]);
        let deadline = std::time::Instant::now() + crate::common::LIVENESS;
        while here() < f64::from(count) {
            assert!(std::time::Instant::now() < deadline, "shard {shard} has {} of {count} connections", here());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_produces_are_answered_in_order_and_enter_each_partition_in_order() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 5).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in [3, 9, 11] {
        let before = i64::from([3, 9, 11].iter().position(|v| *v == version).expect("listed") as i32) * 8;
        let sent: Vec<_> =
            (0..40).map(|n| raw.send(version, &produce_request("orders", n % 5, -1, &n.to_string()))).collect();
        for (n, correlation_id) in (0..40).zip(sent) {
            let response = raw.receive::<ProduceRequest>(version, correlation_id);
            let partition = &response.responses[0].partition_responses[0];
            assert_eq!((partition.index, partition.error_code), (n % 5, 0), "request {n}");
            assert_eq!(partition.base_offset, before + i64::from(n / 5), "request {n}");
        }
    }
    let seen = tokio::task::block_in_place(|| librdkafka::read_all(&gateway, "orders", 5, 120));
    for partition in 0..5 {
        let values: Vec<i32> = seen
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| record.text().parse().expect("a number"))
            .collect();
        let once: Vec<_> = (partition..40).step_by(5).collect();
        assert_eq!(values, [&once[..], &once, &once].concat());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_requests_of_one_connection_are_answered_in_order() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 3).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let produced = raw.send(9, &produce_request("orders", 2, -1, "v"));
    let described = raw.send(12, &MetadataRequest::default());
    let versions = raw.send(3, &api_versions_request());
    let silent = produce_request("orders", 2, 0, "no answer");
    raw.send(9, &silent);
    let again = raw.send(9, &produce_request("orders", 2, 1, "v"));
    let response = raw.receive::<ProduceRequest>(9, produced);
    assert_eq!(response.responses[0].partition_responses[0].base_offset, 0);
    raw.receive::<MetadataRequest>(12, described);
    raw.receive::<ApiVersionsRequest>(3, versions);
    let response = raw.receive::<ProduceRequest>(9, again);
    assert_eq!(response.responses[0].partition_responses[0].base_offset, 2, "acks=0 was written, unanswered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_sent_with_acks_0_are_written_though_the_sender_hangs_up() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 3).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let burst: Vec<u8> =
        (0..300).flat_map(|n| frame(n, 9, &produce_request("orders", n % 3, 0, &n.to_string()))).collect();
    raw.send_bytes(&burst);
    drop(raw);
    let from = [0, 1, 2].map(|partition| (partition, rdkafka::Offset::Beginning));
    let seen = tokio::task::block_in_place(|| librdkafka::read_from(&gateway, "orders", &from, 300));
    for partition in 0..3 {
        let values: Vec<i32> = seen
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| record.text().parse().expect("a number"))
            .collect();
        assert_eq!(values, (partition..300).step_by(3).collect::<Vec<_>>());
    }
}

/// A stable group of one, joined on `raw`; its member id. Its generation is 1.
fn found_group(raw: &mut Raw, group: &str) -> String {
    found_group_with_session(raw, group, 30_000)
}

/// As [`found_group`], with a session timeout.
pub fn found_group_with_session(raw: &mut Raw, group: &str, session_timeout_ms: i32) -> String {
    let member = ask_for_member_id(raw, group);
    let join = join_request(group, &member).with_session_timeout_ms(session_timeout_ms);
    let joined = raw.call(9, &join);
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    sync(raw, group, &member, 1);
    member
}

fn sync(raw: &mut Raw, group: &str, member: &str, generation: i32) {
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(string(member))
        .with_assignment(Bytes::from_static(b"all of it"));
    let request = SyncGroupRequest::default()
        .with_group_id(GroupId(string(group)))
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_protocol_type(Some(string("consumer")))
        .with_protocol_name(Some(string("range")))
        .with_assignments(vec![assignment]);
    let response = raw.call(5, &request);
    assert_eq!((response.error_code, &response.assignment[..]), (0, &b"all of it"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_join_that_is_parked_goes_with_its_connection() {
    let gateway = Gateway::start(Options::new(2));
    let mut first = Raw::connect(gateway.bootstrap());
    let member = found_group(&mut first, "workers");

    let mut second = Raw::connect(gateway.bootstrap());
    let gone = ask_for_member_id(&mut second, "workers");
    second.send(9, &join_request("workers", &gone));
    eventually("the join waits for the other member", || state(&mut first, "workers") == "PreparingRebalance").await;
    assert_eq!(heartbeat(&gateway, "workers", &member, 1), 27, "which is told to join again");
    assert!(second.is_silent(A_MOMENT));
    drop(second);

    let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(string("workers"))]);
    eventually("the member whose connection closed is gone", || {
        let group = first.call(5, &describe).groups.swap_remove(0);
        let members: Vec<_> = group.members.iter().map(|member| member.member_id.to_string()).collect();
        members == [member.as_str()]
    })
    .await;
    let joined = first.call(9, &join_request("workers", &member));
    assert_eq!((joined.error_code, joined.generation_id, joined.members.len()), (0, 2, 1));
    sync(&mut first, "workers", &member, 2);
    assert_eq!(heartbeat(&gateway, "workers", &member, 2), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_id_that_was_asked_for_holds_a_rebalance_up_until_its_connection_closes() {
    let gateway = Gateway::start(Options::new(2));
    let mut first = Raw::connect(gateway.bootstrap());
    let member = found_group(&mut first, "workers");

    let mut second = Raw::connect(gateway.bootstrap());
    ask_for_member_id(&mut second, "workers");
    assert_eq!(heartbeat(&gateway, "workers", &member, 1), 0, "asking for an id is no rebalance yet");
    let rejoin = first.send(9, &join_request("workers", &member));
    assert!(first.is_silent(A_MOMENT), "the leader's join waits for the one who has only an id");
    drop(second);
    let joined = first.receive::<kafka_protocol::messages::JoinGroupRequest>(9, rejoin);
    assert_eq!((joined.error_code, joined.generation_id, joined.members.len()), (0, 2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_join_is_answered_when_the_last_other_member_leaves() {
    let gateway = Gateway::start(Options::new(2));
    let mut first = Raw::connect(gateway.bootstrap());
    let member = found_group(&mut first, "workers");
    let mut second = Raw::connect(gateway.bootstrap());
    let waiting = ask_for_member_id(&mut second, "workers");
    let join = second.send(9, &join_request("workers", &waiting));
    eventually("the join waits for the other member", || state(&mut first, "workers") == "PreparingRebalance").await;
    assert!(second.is_silent(A_MOMENT));
    let leave = LeaveGroupRequest::default()
        .with_group_id(GroupId(string("workers")))
        .with_members(vec![MemberIdentity::default().with_member_id(string(&member))]);
    let left = first.call(5, &leave);
    assert_eq!((left.error_code, left.members[0].error_code), (0, 0));
    let joined = second.receive::<kafka_protocol::messages::JoinGroupRequest>(9, join);
    assert_eq!((joined.error_code, joined.generation_id, joined.members.len()), (0, 2, 1));
    assert_eq!(joined.leader.to_string(), waiting);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_a_parked_join_with_not_coordinator() {
    let mut gateway = Gateway::start(Options::new(2));
    let mut first = Raw::connect(gateway.bootstrap());
    found_group(&mut first, "workers");
    let mut second = Raw::connect(gateway.bootstrap());
    let waiting = ask_for_member_id(&mut second, "workers");
    let join = second.send(9, &join_request("workers", &waiting));
    eventually("the join waits for the other member", || state(&mut first, "workers") == "PreparingRebalance").await;
    assert!(second.is_silent(A_MOMENT));
    let status = tokio::task::block_in_place(|| gateway.sigterm());
    let joined = second.receive::<kafka_protocol::messages::JoinGroupRequest>(9, join);
    assert_eq!(joined.error_code, 16);
    second.assert_closed();
    assert!(status.success(), "{status}");
}
