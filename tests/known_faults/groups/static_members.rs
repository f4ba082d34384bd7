//! Static members (KIP-345): one instance is one member, and its newest process is the one.

use kafka_protocol::messages::join_group_request::JoinGroupRequest;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{HeartbeatRequest, LeaveGroupRequest, SyncGroupRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit_codes, commit_request, committed, group_id, state};
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;
use crate::common::partition::versions;
use crate::common::peer::{A_MOMENT, JOIN, Peer, form, members};
use crate::common::raw::{Raw, string};

/// The first versions with instance ids.
const JOIN_SINCE: i16 = 5;
const SYNC_SINCE: i16 = 3;
const HEARTBEAT_SINCE: i16 = 3;
const COMMIT_SINCE: i16 = 7;
const LEAVE_SINCE: i16 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k069_the_newest_process_of_an_instance_is_the_member_and_the_one_before_is_fenced() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    for version in JOIN_SINCE..=JOIN {
        let group = format!("g-{version}");
        let mut peers: Vec<Peer> =
            (0..2).map(|n| Peer::connect(gateway.bootstrap(), &group).instance(&format!("x-{n}"))).collect();
        form(&mut peers);
        let [other, old] = &mut peers[..] else { panic!("two members") };
        assert_eq!(old.commit("t", 7), 0);

        let mut new = Peer::connect(gateway.bootstrap(), &group).instance("x-1");
        let request = new.join_request();
        let answer = new.raw.call(version, &request);
        assert_eq!((answer.error_code, answer.generation_id), (0, old.generation), "version {version}: no rebalance");
        assert_ne!(answer.member_id.as_str(), old.id);
        assert_eq!(state(&mut new.raw, &group), "Stable");
        assert_eq!(members(&mut new.raw, &group), 2);
        (new.id, new.generation) = (answer.member_id.to_string(), answer.generation_id);
        assert_eq!(new.sync(&[]), (0, "1".into()), "it has what its process before had");
        assert_eq!((new.heartbeat(), other.heartbeat()), (0, 0));

        for heartbeat in HEARTBEAT_SINCE..=*versions(12).end() {
            let request = HeartbeatRequest::default()
                .with_group_id(group_id(&group))
                .with_member_id(string(&old.id))
                .with_group_instance_id(Some(string("x-1")))
                .with_generation_id(old.generation);
            assert_eq!(old.raw.call(heartbeat, &request).error_code, 82, "Heartbeat {heartbeat}");
        }
        for sync in SYNC_SINCE..=*versions(14).end() {
            let mut request = old.sync_request(&[]);
            if sync < 5 {
                (request.protocol_type, request.protocol_name) = (None, None);
            }
            assert_eq!(old.raw.call::<SyncGroupRequest>(sync, &request).error_code, 82, "SyncGroup {sync}");
        }
        for commit in COMMIT_SINCE..=*versions(8).end() {
            let request = commit_request(&group, "t", &[(0, 1)])
                .with_generation_id_or_member_epoch(old.generation)
                .with_member_id(string(&old.id))
                .with_group_instance_id(Some(string("x-1")));
            assert_eq!(commit_codes(&mut old.raw, commit, &request), [82], "OffsetCommit {commit}");
        }
        for leave in LEAVE_SINCE..=*versions(13).end() {
            let member =
                MemberIdentity::default().with_member_id(string(&old.id)).with_group_instance_id(Some(string("x-1")));
            let request = LeaveGroupRequest::default().with_group_id(group_id(&group)).with_members(vec![member]);
            let answer = old.raw.call(leave, &request);
            assert_eq!((answer.error_code, answer.members[0].error_code), (0, 82), "LeaveGroup {leave}");
        }
        for join in JOIN_SINCE..=JOIN {
            let answer = old.raw.call::<JoinGroupRequest>(join, &old.join_request());
            assert_eq!(answer.error_code, 82, "JoinGroup {join}");
        }
        assert_eq!(committed(&mut new.raw, &group, "t", &[0]), [7]);
        assert_eq!((new.heartbeat(), other.heartbeat()), (0, 0), "nothing of that disturbed anybody");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k069_of_two_stock_consumers_with_one_instance_id_the_first_is_told_that_it_is_fenced() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    let instance = [("group.instance.id", "x"), ("session.timeout.ms", "60000")];
    let first = Member::join(&gateway, "workers", &["work"], &instance);
    first.until_assigned(2).await;
    let second = Member::join(&gateway, "workers", &["work"], &instance);
    second.until_assigned(2).await;
    eventually("the first is told", || {
        first.errors().iter().any(|error| error.to_ascii_lowercase().contains("fenced") || error.contains("Fatal"))
    })
    .await;
    assert_eq!(second.assignment().len(), 2);
    assert_eq!(second.errors(), Vec::<String>::new());
    second.close().await;
    first.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k070_a_static_member_that_restarts_is_judged_by_its_new_timeouts() {
    /// Longer than a step of this may take; each case has a group of its own, so that all wait at once.
    const SHORT_MS: i32 = 4_000;
    const LONG_MS: i32 = 300_000;
    let gateway = Gateway::start(Options::new(2).set("min-session-timeout", "1s"));
    let peer = |group: &str, instance: &str, session_ms, rebalance_ms| {
        Peer::connect(gateway.bootstrap(), group).instance(instance).timeouts(session_ms, rebalance_ms)
    };
    // Where the old rebalance timeout held, a rebalance would end without a slow member.
    let mut pair = ["x", "y"].map(|instance| peer("rebalance", instance, LONG_MS, SHORT_MS));
    form(&mut pair);
    let mut again = peer("rebalance", "y", LONG_MS, LONG_MS);
    again.join();
    let sent = pair[0].send_join();

    let mut old = peer("longer", "x", SHORT_MS, LONG_MS);
    form(std::slice::from_mut(&mut old));
    let mut new = peer("longer", "x", LONG_MS, LONG_MS);
    new.join();
    assert_eq!(new.generation, old.generation);

    let mut old = peer("shorter", "x", LONG_MS, LONG_MS);
    form(std::slice::from_mut(&mut old));
    let mut short = peer("shorter", "x", SHORT_MS, LONG_MS);
    short.join();

    // A member of the same short timeout, which shows when that is over for all of them.
    let mut hand = peer("hand", "x", SHORT_MS, LONG_MS);
    form(std::slice::from_mut(&mut hand));
    eventually("the old timeouts are over", || members(&mut hand.raw, "hand") == 0).await;
    assert_eq!(new.heartbeat(), 0, "the longer session is not");
    eventually("the shorter session is over", || members(&mut hand.raw, "shorter") == 0).await;
    assert!(pair[0].raw.is_silent(A_MOMENT), "the slow member has five minutes");
    let also = again.send_join();
    assert_eq!(pair[0].receive_join(sent).error_code, 0);
    assert_eq!(again.receive_join(also).error_code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k071_an_instance_is_removed_by_its_name_with_and_without_a_reason() {
    let gateway = Gateway::start(Options::new(2));
    for version in LEAVE_SINCE..=*versions(13).end() {
        for reason in [None, Some("scaled down")] {
            if version < 5 && reason.is_some() {
                continue;
            }
            let group = format!("g-{version}-{}", reason.is_some());
            let mut peers: Vec<Peer> =
                (0..2).map(|n| Peer::connect(gateway.bootstrap(), &group).instance(&format!("x-{n}"))).collect();
            form(&mut peers);
            let named = |instance: &str| {
                MemberIdentity::default().with_group_instance_id(Some(string(instance))).with_reason(reason.map(string))
            };
            let remove = |raw: &mut Raw, instances: &[&str]| {
                let request = LeaveGroupRequest::default()
                    .with_group_id(group_id(&group))
                    .with_members(instances.iter().map(|instance| named(instance)).collect());
                let answer = raw.call(version, &request);
                assert_eq!(answer.error_code, 0, "version {version}");
                let told = answer.members.iter();
                told.map(|member| (member.group_instance_id.as_ref().expect("its name").to_string(), member.error_code))
                    .collect::<Vec<_>>()
            };
            let mut admin = Raw::connect(gateway.bootstrap());
            let codes = remove(&mut admin, &["unknown", "x-1"]);
            assert_eq!(codes, [("unknown".to_owned(), 25), ("x-1".to_owned(), 0)], "version {version}");
            assert_eq!(state(&mut admin, &group), "PreparingRebalance");
            assert_eq!((peers[0].heartbeat(), peers[1].heartbeat()), (27, 25));
            assert_eq!(peers[0].join().members.len(), 1);
            peers[0].settle_alone();
            assert_eq!(remove(&mut admin, &["x-1"]), [("x-1".to_owned(), 25)]);
            assert_eq!(peers[0].heartbeat(), 0, "removing nobody is no rebalance");
            assert_eq!(remove(&mut admin, &["x-0"]), [("x-0".to_owned(), 0)]);
            assert_eq!(state(&mut admin, &group), "Empty");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k069_a_parked_join_of_the_process_before_is_fenced_at_once() {
    let gateway = Gateway::start(Options::new(2));
    let mut peers = [Peer::connect(gateway.bootstrap(), "g"), Peer::connect(gateway.bootstrap(), "g").instance("x")];
    form(&mut peers);
    let [other, old] = &mut peers;
    // What it wants has changed, so that its join waits for the other.
    old.topics.push("t2".to_owned());
    let sent = old.send_join();
    eventually("it waits", || state(&mut other.raw, "g") == "PreparingRebalance").await;
    assert!(old.raw.is_silent(A_MOMENT));
    let mut new = Peer::connect(gateway.bootstrap(), "g").instance("x");
    let newest = new.send_join();
    assert_eq!(old.receive_join(sent).error_code, 82);
    other.join();
    let answer = new.receive_join(newest);
    assert_eq!((answer.error_code, answer.generation_id), (0, other.generation));
    assert_eq!(members(&mut other.raw, "g"), 2);
}
