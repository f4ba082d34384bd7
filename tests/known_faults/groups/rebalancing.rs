//! Rebalances: who is waited for, until when, and what members are told meanwhile.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{committed, state};
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;
use crate::common::peer::{A_MOMENT, Peer, form, members, rejoin, settle};
use crate::common::raw::Raw;

/// Members whose timeouts no test waits for.
fn peers(gateway: &Gateway, group: &str, count: usize) -> Vec<Peer> {
    (0..count).map(|_| Peer::connect(gateway.bootstrap(), group)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k058_a_member_that_leaves_in_the_join_phase_ends_it_for_the_others() {
    let gateway = Gateway::start(Options::new(2));
    for leaver_leads in [false, true] {
        let mut peers = peers(&gateway, if leaver_leads { "leader" } else { "follower" }, 2);
        form(&mut peers);
        if leaver_leads {
            // A follower's join is a rebalance when what it wants has changed.
            peers.reverse();
            peers[0].topics.push("t2".to_owned());
        }
        let sent = peers[0].send_join();
        assert!(peers[0].raw.is_silent(A_MOMENT), "the other has not joined");
        assert_eq!(peers[1].leave(), 0);
        let answer = peers[0].receive_join(sent);
        assert_eq!((answer.error_code, answer.generation_id, answer.members.len()), (0, 3, 1));
        assert!(peers[0].leads());
        peers[0].settle_alone();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k058_a_stock_consumer_that_closes_in_a_rebalance_keeps_nobody_waiting() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 6).await;
    let patient = [("session.timeout.ms", "300000"), ("max.poll.interval.ms", "300000")];
    let stays = Member::join(&gateway, "workers", &["work"], &patient);
    let leaves = Member::join(&gateway, "workers", &["work"], &patient);
    stays.until_assigned(3).await;
    leaves.until_assigned(3).await;
    // The third's join is the rebalance in which the second closes.
    let comes = Member::join(&gateway, "workers", &["work"], &patient);
    leaves.close().await;
    stays.until_assigned(3).await;
    comes.until_assigned(3).await;
    comes.close().await;
    stays.until_assigned(6).await;
    stays.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k059_members_that_died_in_a_rebalance_leave_an_empty_group() {
    let gateway = Gateway::start(Options::new(2).set("min-session-timeout", "1s"));
    let mut witness = Raw::connect(gateway.bootstrap());
    let name = |parked: usize| format!("g-{parked}");
    for parked in 0..=3 {
        let group = name(parked);
        let mut peers: Vec<Peer> =
            (0..3).map(|_| Peer::connect(gateway.bootstrap(), &group).timeouts(4_000, 6_000)).collect();
        form(&mut peers);
        // So many have joined again, the leader first, when all of them die.
        for peer in &mut peers[..parked] {
            peer.send_join();
        }
        if (1..3).contains(&parked) {
            eventually("a rebalance", || state(&mut witness, &group) == "PreparingRebalance").await;
        }
    }
    // After all of them, since their sessions end side by side.
    for group in (0..=3).map(name) {
        eventually("the group is empty", || {
            state(&mut witness, &group) == "Empty" && members(&mut witness, &group) == 0
        })
        .await;
        let mut next = Peer::connect(gateway.bootstrap(), &group);
        form(std::slice::from_mut(&mut next));
        assert_eq!(next.heartbeat(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k059_the_only_parked_joiner_goes_with_its_connection() {
    // The delay, which ends the join phase of a young group, is longer than it takes to see who is there.
    let gateway = Gateway::start(Options::new(2).set("initial-rebalance-delay", "5s"));
    let mut witness = Raw::connect(gateway.bootstrap());
    let mut first = Peer::connect(gateway.bootstrap(), "g");
    first.send_join();
    eventually("it waits for others", || members(&mut witness, "g") == 1).await;
    drop(first);
    eventually("it is gone", || members(&mut witness, "g") == 0).await;
    eventually("the group is empty", || state(&mut witness, "g") == "Empty").await;
    let mut next = Peer::connect(gateway.bootstrap(), "g");
    form(std::slice::from_mut(&mut next));
    assert_eq!((next.heartbeat(), members(&mut witness, "g")), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k064_a_leader_that_heartbeats_and_never_syncs_is_removed() {
    const REBALANCE: Duration = Duration::from_secs(4);
    let gateway = Gateway::start(Options::new(2));
    let mut peers: Vec<Peer> = (0..2)
        .map(|_| Peer::connect(gateway.bootstrap(), "g").timeouts(300_000, REBALANCE.as_millis() as i32))
        .collect();
    form(&mut peers);
    let joining = Instant::now();
    rejoin(&mut peers);
    let [leader, follower] = &mut peers[..] else { panic!("two members") };
    let sent = follower.send_sync(&[]);
    // A lower bound only: that far at least it goes well.
    while follower.raw.is_silent(Duration::from_millis(100)) {
        let code = leader.heartbeat();
        assert!(
            code == 0 || joining.elapsed() + Duration::from_millis(200) >= REBALANCE,
            "{code} after {:?}",
            joining.elapsed()
        );
        assert!(joining.elapsed() < crate::common::LIVENESS, "hung: the follower's sync");
    }
    assert!(joining.elapsed() + Duration::from_millis(200) >= REBALANCE, "given up after {:?}", joining.elapsed());
    assert_eq!(follower.receive_sync(sent), (27, Bytes::new()));
    assert_eq!(leader.heartbeat(), 25, "it is no member any more");
    follower.join();
    assert_eq!((follower.generation, follower.leads()), (4, true));
    follower.settle_alone();
    assert_eq!(members(&mut follower.raw, "g"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k065_followers_wait_for_their_leader_and_who_is_left_out_gets_nothing() {
    let gateway = Gateway::start(Options::new(2));
    let mut peers = peers(&gateway, "g", 3);
    form(&mut peers);
    rejoin(&mut peers);
    let ids: Vec<String> = peers.iter().map(|peer| peer.id.clone()).collect();
    let [leader, given, left_out] = &mut peers[..] else { panic!("three members") };
    let sent = [given.send_sync(&[]), left_out.send_sync(&[])];
    assert!(given.raw.is_silent(Duration::from_secs(2)), "the leader is slow");
    assert!(left_out.raw.is_silent(A_MOMENT));
    assert_eq!(leader.heartbeat(), 0);
    assert_eq!(leader.sync(&[(&ids[0], "mine"), (&ids[1], "yours")]), (0, Bytes::from("mine")));
    assert_eq!(given.receive_sync(sent[0]), (0, Bytes::from("yours")));
    assert_eq!(left_out.receive_sync(sent[1]), (0, Bytes::new()), "nothing, and not what it had before");
    assert_eq!(left_out.heartbeat(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k076_who_is_given_a_partition_finds_the_last_acknowledged_commit() {
    const ROUNDS: i64 = 200;
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "t", 1).await;
    // Each on another door, so that most come from a shard that does not own the group.
    let doors: Vec<_> = gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap()]).collect();
    let mut owner = Peer::connect(doors[0], "g");
    form(std::slice::from_mut(&mut owner));
    for round in 0..ROUNDS {
        // Back and forth: the last counts, not the largest.
        let offset = if round % 2 == 0 { 1_000 + round } else { 1_000 - round };
        let mut next = Peer::connect(doors[round as usize % doors.len()], "g");
        let sent = next.send_join();
        assert_eq!(owner.commit("t", offset), 0, "in whatever state of the rebalance");
        assert_eq!(owner.leave(), 0);
        assert_eq!(next.receive_join(sent).error_code, 0);
        next.settle_alone();
        assert_eq!(committed(&mut next.raw, "g", "t", &[0]), [offset], "round {round}");
        owner = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k079_commits_in_a_rebalance_are_taken_or_refused_at_once() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut peers = peers(&gateway, "g", 2);
    form(&mut peers);
    let sent = peers[0].send_join();
    eventually("the leader joins again", || state(&mut peers[1].raw, "g") == "PreparingRebalance").await;
    assert_eq!(peers[1].commit("t", 5), 0, "PreparingRebalance");
    let old = peers[1].generation;
    let also = peers[1].send_join();
    assert_eq!(peers[0].receive_join(sent).error_code, 0);
    assert_eq!(peers[1].receive_join(also).error_code, 0);
    assert_eq!(state(&mut peers[0].raw, "g"), "CompletingRebalance");
    let new = peers[1].generation;
    for peer in &mut peers {
        assert_eq!(peer.commit("t", 6), 27, "CompletingRebalance");
        peer.generation = old;
        assert_eq!(peer.commit("t", 7), 22, "the old generation");
        peer.generation = new;
    }
    settle(&mut peers);
    for peer in &mut peers {
        peer.generation = old;
        assert_eq!(peer.commit("t", 8), 22, "the old generation");
        peer.generation = new;
    }
    assert_eq!(committed(&mut peers[0].raw, "g", "t", &[0]), [5]);
    assert_eq!(peers[1].commit("t", 9), 0);
    assert_eq!(committed(&mut peers[0].raw, "g", "t", &[0]), [9]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k079_stock_consumers_that_commit_through_rebalances_go_on_consuming() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    let often = [("enable.auto.commit", "true"), ("auto.commit.interval.ms", "100")];
    let stays = Member::join(&gateway, "workers", &["work"], &often);
    stays.until_assigned(2).await;
    let producer = crate::common::librdkafka::producer(&gateway, &[("linger.ms", "1")]);
    let produce = async |from: i32| {
        for n in from..from + 10 {
            let value = n.to_string();
            let record = crate::common::librdkafka::unkeyed("work", &value).partition(n % 2);
            crate::common::within("delivery", producer.send(record, Duration::from_secs(30))).await.expect("delivered");
        }
    };
    for round in 0..5 {
        let comes = Member::join(&gateway, "workers", &["work"], &often);
        produce(round * 20).await;
        comes.until_assigned(1).await;
        produce(round * 20 + 10).await;
        comes.close().await;
        stays.until_assigned(2).await;
    }
    let before = stays.seen().len();
    produce(100).await;
    stays.until_seen(before + 10).await;
    let mut list = TopicPartitionList::new();
    list.add_partition_range("work", 0, 1);
    let deadline = Instant::now() + crate::common::LIVENESS;
    loop {
        let offsets = stays.committed(list.clone()).await;
        if offsets.elements().iter().all(|element| element.offset() == Offset::Offset(55)) {
            break;
        }
        assert!(Instant::now() < deadline, "hung: {offsets:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stays.close().await;
}
