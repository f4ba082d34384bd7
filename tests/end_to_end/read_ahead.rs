//! Requests that are read ahead of their turn: sessions behind long waits stay alive, answers keep their
//! order, a closed peer is noticed, and a stop answers what waits.

use std::time::{Duration, Instant};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use kafka_protocol::messages::{
    BrokerId, DescribeGroupsRequest, GroupId, HeartbeatRequest, JoinGroupRequest, MetadataRequest,
};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, string, topic_name};
use crate::common::{LIVENESS, eventually};
use crate::connections::found_group_with_session;
use crate::routing::{ask_for_member_id, join_request};

/// Shorter than the wait below, so that a session which nothing refreshes is over before it is; and longer than a test
/// may be kept from sending the next heartbeat.
const SESSION_MS: i32 = 4_000;
/// For how long a join waits.
const REBALANCE_MS: i32 = 6_000;

/// One that reads as many requests ahead as a test may send.
fn gateway() -> Gateway {
    Gateway::start(Options::new(3).set("min-session-timeout", "1s").set("max-requests-in-flight", 1_024))
}

fn heartbeat(group: &str, member: &str) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(GroupId(string(group)))
        .with_member_id(string(member))
        .with_generation_id(1)
}

fn waiting_fetch(topic: &str, partition: i32, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default().with_partition(partition).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// Sends a heartbeat every 200 ms, the pace of a client, until something is answered; what to expect the answers by.
fn heartbeats_until_an_answer(raw: &mut Raw, group: &str, member: &str) -> Vec<i32> {
    let (mut sent, deadline) = (Vec::new(), Instant::now() + LIVENESS);
    while raw.is_silent(Duration::from_millis(200)) {
        assert!(Instant::now() < deadline, "hung: no answer");
        sent.push(raw.send(4, &heartbeat(group, member)));
    }
    sent
}

fn fetches_read(gateway: &Gateway) -> u64 {
    metric(gateway, "ringgate_requests_total", "api=\"Fetch\"")
}

fn all_fine(raw: &mut Raw, heartbeats: Vec<i32>) {
    for correlation_id in heartbeats {
        assert_eq!(raw.receive::<HeartbeatRequest>(4, correlation_id).error_code, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_behind_a_parked_join_keep_their_session() {
    let gateway = gateway();
    // A member that will not rejoin for as long as its rebalance timeout.
    let mut slow = Raw::connect(gateway.bootstrap());
    let member_id = ask_for_member_id(&mut slow, "slow");
    let join = join_request("slow", &member_id).with_rebalance_timeout_ms(REBALANCE_MS);
    assert_eq!(slow.call(9, &join).error_code, 0);

    let mut raw = Raw::connect(gateway.bootstrap());
    let member = found_group_with_session(&mut raw, "steady", SESSION_MS);
    let waiting = ask_for_member_id(&mut raw, "slow");
    let parked = raw.send(9, &join_request("slow", &waiting).with_rebalance_timeout_ms(REBALANCE_MS));
    let began = Instant::now();
    let heartbeats = heartbeats_until_an_answer(&mut raw, "steady", &member);
    assert!(began.elapsed() > Duration::from_millis(SESSION_MS as u64), "the join waited {:?}", began.elapsed());
    let joined = raw.receive::<JoinGroupRequest>(9, parked);
    assert_eq!((joined.error_code, joined.generation_id), (0, 2));
    all_fine(&mut raw, heartbeats);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_closes_while_reading_is_paused_is_noticed() {
    let gateway = Gateway::start(Options::new(2).set("max-requests-in-flight", 2));
    create_topic(&gateway, "quiet", 1).await;
    let mut first = Raw::connect(gateway.bootstrap());
    let member = found_group_with_session(&mut first, "workers", 60_000);

    // The parked join and what stands behind it fill the pipeline; more is sent than is read.
    let mut second = Raw::connect(gateway.bootstrap());
    let waiting = ask_for_member_id(&mut second, "workers");
    second.send(9, &join_request("workers", &waiting));
    for _ in 0..20 {
        second.send(9, &MetadataRequest::default());
    }
    let members = |raw: &mut Raw| {
        let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(string("workers"))]);
        raw.call(5, &describe).groups[0].members.len()
    };
    eventually("the second member waits", || members(&mut first) == 2).await;
    drop(second);
    eventually("the member whose connection closed is gone", || members(&mut first) == 1).await;
    let joined = first.call(9, &join_request("workers", &member));
    assert_eq!((joined.error_code, joined.members.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_a_waiting_fetch_and_is_not_held_up_by_who_does_not_read() {
    let mut gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    create_topic(&gateway, "quiet", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let fetch = raw.send(11, &waiting_fetch("quiet", 0, 60_000));
    eventually("the fetch is read", || fetches_read(&gateway) == 1).await;
    let mut stalled = Raw::connect(gateway.bootstrap());
    for _ in 0..2_000 {
        stalled.send(9, &MetadataRequest::default());
    }
    assert!(raw.is_silent(Duration::from_millis(300)), "the fetch waits");
    let began = Instant::now();
    let status = tokio::task::block_in_place(|| gateway.sigterm());
    let fetched = raw.receive::<FetchRequest>(11, fetch);
    assert_eq!((fetched.error_code, fetched.responses[0].partitions[0].high_watermark), (0, 0));
    raw.assert_closed();
    assert!(status.success(), "{status}");
    // Shorter than the fetch would have waited.
    assert!(began.elapsed() < Duration::from_secs(50));
}

/// Each Fetch is a question to the other shard, and one is asked when the one before it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_what_was_read_though_its_owner_has_no_connection_left() {
    const FETCHES: usize = 100;
    for (owner, elsewhere) in [(0, 1), (1, 0)] {
        let options = Options::new(2).advertise(Advertise::Shards).set("max-requests-in-flight", FETCHES + 1);
        let mut gateway = Gateway::start(options.set("admin-listen", "127.0.0.1:0"));
        // The only connection.
        let mut raw = Raw::connect(gateway.node_of_shard(elsewhere).addr);
        create(&mut raw, "quiet", 2, &[]);
        let metadata = raw.call(9, &MetadataRequest::default().with_topics(None));
        let leader = BrokerId(gateway.node_of_shard(owner).id);
        let partition = metadata.topics[0].partitions.iter().find(|partition| partition.leader_id == leader);
        let partition = partition.expect("of two partitions each shard has one").partition_index;
        let fetches: Vec<i32> =
            (0..FETCHES).map(|_| raw.send(11, &waiting_fetch("quiet", partition, 60_000))).collect();
        eventually("all are read", || fetches_read(&gateway) == FETCHES as u64).await;
        assert!(raw.is_silent(Duration::from_millis(300)), "the first waits, and the others for it");
        let status = tokio::task::block_in_place(|| gateway.sigterm());
        for fetch in fetches {
            let fetched = raw.receive::<FetchRequest>(11, fetch);
            assert_eq!((fetched.error_code, fetched.responses[0].partitions[0].high_watermark), (0, 0));
        }
        raw.assert_closed();
        assert!(status.success(), "{status}");
    }
}
