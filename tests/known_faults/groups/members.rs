//! Members: how long they are taken for alive, and what is left to one that is not.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{committed, state};
use crate::common::librdkafka::create_topic;
use crate::common::partition::create;
use crate::common::peer::{A_MOMENT, HEARTBEAT, Peer, form, members, rejoin};
use crate::common::raw::Raw;

/// Shorter than the waits below, and longer than a test or a gateway may be kept from running between two steps.
const SESSION: Duration = Duration::from_secs(4);

/// One that reads as many requests ahead as a test may send.
fn gateway() -> Gateway {
    Gateway::start(Options::new(2).set("min-session-timeout", "1s").set("max-requests-in-flight", 1_024))
}

/// The first has a short session, the others do not expire.
fn one_with_a_short_session(gateway: &Gateway, count: usize) -> Vec<Peer> {
    (0..count)
        .map(|nth| {
            let session_ms = if nth == 0 { SESSION.as_millis() as i32 } else { 300_000 };
            Peer::connect(gateway.bootstrap(), "g").timeouts(session_ms, 60_000)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k062_a_member_that_waits_for_others_is_alive_and_after_that_must_say_so() {
    let gateway = gateway();
    let mut peers = one_with_a_short_session(&gateway, 2);
    form(&mut peers);

    // A join that waits longer than a session for the other.
    let sent = peers[0].send_join();
    assert!(peers[0].raw.is_silent(SESSION + Duration::from_secs(1)), "the other member is slow");
    assert_eq!(members(&mut peers[1].raw, "g"), 2, "it is not expired");
    let also = peers[1].send_join();
    let answer = peers[0].receive_join(sent);
    assert_eq!((answer.error_code, answer.generation_id, answer.members.len()), (0, 3, 2));
    assert_eq!(peers[1].receive_join(also).error_code, 0);
    assert_eq!(peers[0].heartbeat(), 0, "a session begins with the answer");
    crate::common::peer::settle(&mut peers);

    // A sync that waits as long for the leader. The one with the short session does not lead.
    assert_eq!(peers[0].leave(), 0);
    peers[0].id.clear();
    peers[0].generation = -1;
    peers.reverse();
    peers[0].join();
    peers[0].settle_alone();
    rejoin(&mut peers);
    let sent = peers[1].send_sync(&[]);
    assert!(peers[1].raw.is_silent(SESSION + Duration::from_secs(1)), "the leader is slow");
    let id = peers[1].id.clone();
    assert_eq!(peers[0].sync(&[(&id, "yours")]).0, 0);
    assert_eq!(peers[1].receive_sync(sent), (0, Bytes::from("yours")));
    let last = Instant::now();
    assert_eq!(peers[1].heartbeat(), 0, "a session begins with the answer");

    // Silent from now on.
    eventually("the silent member expires", || members(&mut peers[0].raw, "g") == 1).await;
    assert!(last.elapsed() + A_MOMENT >= SESSION, "expired after {:?}", last.elapsed());
    assert_eq!(peers[1].heartbeat(), 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k078_a_member_that_was_evicted_commits_nothing() {
    let gateway = gateway();
    create_topic(&gateway, "t", 1).await;
    let mut peers = one_with_a_short_session(&gateway, 2);
    form(&mut peers);
    let [paused, takes_over] = &mut peers[..] else { panic!("two members") };
    assert_eq!(paused.commit("t", 10), 0);
    // Not a word from it for its session.
    eventually("it is evicted", || state(&mut takes_over.raw, "g") == "PreparingRebalance").await;
    let old = takes_over.generation;
    takes_over.join();
    takes_over.settle_alone();
    assert_eq!(takes_over.commit("t", 20), 0);

    assert_eq!((paused.heartbeat(), paused.commit("t", 11), paused.sync(&[]).0), (25, 25, 25));
    paused.generation = takes_over.generation;
    assert_eq!((paused.heartbeat(), paused.commit("t", 11)), (25, 25), "whatever generation it says");
    let new = takes_over.generation;
    takes_over.generation = old;
    assert_eq!((takes_over.heartbeat(), takes_over.commit("t", 11), takes_over.sync(&[]).0), (22, 22, 22));
    takes_over.generation = new;
    assert_eq!(committed(&mut paused.raw, "g", "t", &[0]), [20], "what was committed stays");
    let sent = paused.raw.call(9, &paused.join_request());
    assert_eq!(sent.error_code, 25, "its id is used up");
    assert_eq!(takes_over.heartbeat(), 0, "and it disturbs nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k080_heartbeats_behind_a_long_fetch_are_answered_in_turn_and_refresh_their_session() {
    let gateway = gateway();
    let mut admin = Raw::connect(gateway.bootstrap());
    let quiet = create(&mut admin, "quiet", 1, &[]);
    let mut peers = one_with_a_short_session(&gateway, 1);
    let peer = &mut peers[0];
    form(std::slice::from_mut(peer));
    let fetch = crate::common::fetch::fetch_request(12, &[(&quiet, &[(0, 0)])])
        .with_max_wait_ms(2 * SESSION.as_millis() as i32);
    let began = Instant::now();
    let fetching = peer.raw.send(12, &fetch);
    let beat = kafka_protocol::messages::HeartbeatRequest::default()
        .with_group_id(crate::common::group::group_id("g"))
        .with_member_id(crate::common::raw::string(&peer.id))
        .with_generation_id(peer.generation);
    let mut beats = Vec::new();
    // The pace of a client: each pause is much shorter than the session, all together are longer.
    while peer.raw.is_silent(SESSION / 8) {
        beats.push(peer.raw.send(HEARTBEAT, &beat));
    }
    assert!(began.elapsed() > SESSION, "the Fetch waited {:?}", began.elapsed());
    peer.raw.receive::<kafka_protocol::messages::FetchRequest>(12, fetching);
    for sent in beats {
        assert_eq!(peer.raw.receive::<kafka_protocol::messages::HeartbeatRequest>(HEARTBEAT, sent).error_code, 0);
    }
    assert_eq!(peer.heartbeat(), 0);
}
