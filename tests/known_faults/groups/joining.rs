//! Joins: ids that are given and never used, joins whose clients go, timeouts that a version lacks, and the
//! first generation of a group.

use std::time::Duration;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{group_id, state, subscription};
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;
use crate::common::metrics::metric;
use crate::common::partition::versions;
use crate::common::peer::{A_MOMENT, JOIN, Peer, SYNC, form, members, settle};
use crate::common::raw::{Raw, string};

const JOIN_GROUP: i16 = 11;
/// The first version with a rebalance timeout.
const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// The first version that gives a member its id before it joins (KIP-394).
const TWO_STEPS_SINCE: i16 = 4;
/// The first version whose answer names protocol type and, where there is none, no protocol.
const PROTOCOL_TYPE_SINCE: i16 = 7;

/// A join as `version` has it, with one protocol.
fn join_of(version: i16, group: &str, member: &str, session_ms: i32, rebalance_ms: i32) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata(subscription(&["t"]));
    let request = JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(session_ms)
        .with_member_id(string(member))
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol]);
    if version >= REBALANCE_TIMEOUT_SINCE { request.with_rebalance_timeout_ms(rebalance_ms) } else { request }
}

/// Sends the join of somebody new, in one step or two; member id (where there are two) and what to receive
/// the answer by.
fn send_first_join(raw: &mut Raw, version: i16, group: &str, session_ms: i32, rebalance_ms: i32) -> (String, i32) {
    let mut id = String::new();
    if version >= TWO_STEPS_SINCE {
        let answer = raw.call(version, &join_of(version, group, "", session_ms, rebalance_ms));
        assert_eq!(answer.error_code, 79, "version {version}");
        id = answer.member_id.to_string();
    }
    let sent = raw.send(version, &join_of(version, group, &id, session_ms, rebalance_ms));
    (id, sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k060_an_id_that_was_abandoned_holds_nobody_up() {
    let gateway = Gateway::start(Options::new(2).set("min-session-timeout", "1s"));
    let mut raw = Raw::connect(gateway.bootstrap());
    // Two ids on one connection; only the second is used.
    let first = raw.call(TWO_STEPS_SINCE, &join_of(TWO_STEPS_SINCE, "g", "", 45_000, 45_000));
    let second = raw.call(TWO_STEPS_SINCE, &join_of(TWO_STEPS_SINCE, "g", "", 45_000, 45_000));
    assert_eq!((first.error_code, second.error_code), (79, 79));
    assert_ne!(first.member_id, second.member_id);
    assert_eq!(members(&mut raw, "g"), 0, "an id is no member");
    let joined = raw.call(TWO_STEPS_SINCE, &join_of(TWO_STEPS_SINCE, "g", &second.member_id, 45_000, 45_000));
    assert_eq!((joined.error_code, joined.members.len()), (0, 1), "a founder does not wait for the other id");
    assert_eq!(members(&mut raw, "g"), 1);

    // In a rebalance an id that may still join is waited for, as long as its connection or its session lasts.
    for closes in [true, false] {
        let group = if closes { "closes" } else { "expires" };
        let mut member = Peer::connect(gateway.bootstrap(), group);
        form(std::slice::from_mut(&mut member));
        let mut phantom = Peer::connect(gateway.bootstrap(), group);
        phantom.session_ms = if closes { 300_000 } else { 1_000 };
        phantom.ask_for_id();
        let sent = member.send_join();
        if closes {
            assert!(member.raw.is_silent(A_MOMENT), "the id may join yet");
            drop(phantom);
            assert_eq!(member.receive_join(sent).members.len(), 1, "at once, and not after five minutes");
        } else {
            assert_eq!(member.receive_join(sent).members.len(), 1, "after its session");
            assert_eq!(phantom.raw.call(JOIN, &phantom.join_request()).error_code, 25, "an id that is gone");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k061_joins_whose_clients_went_leave_no_ghosts() {
    const VERSION: i16 = TWO_STEPS_SINCE - 1;
    const JOINS: usize = 500;
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let mut witness = Raw::connect(gateway.bootstrap());
    let mut old = Peer::connect(gateway.bootstrap(), "g");
    form(std::slice::from_mut(&mut old));
    let mut after_some = 0;
    for nth in 0..JOINS {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send(VERSION, &join_of(VERSION, "g", "", 300_000, 300_000));
        eventually("the join is parked", || state(&mut witness, "g") == "PreparingRebalance").await;
        drop(raw);
        if nth == JOINS / 5 {
            after_some = gateway.rss();
        }
    }
    eventually("only the old member is left", || members(&mut witness, "g") == 1).await;
    assert_eq!(metric(&gateway, "ringgate_group_members", ""), 1);
    let grown = gateway.rss().saturating_sub(after_some);
    assert!(grown < 16 << 10, "{grown} KiB more");
    old.join();
    assert_eq!(old.generation, 2, "one rebalance of one member");
    old.settle_alone();
    assert_eq!(old.heartbeat(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k063_a_newcomer_that_gives_up_does_not_keep_the_others_from_their_generation() {
    // That one whose connection stays is given up after five minutes is shown with simulated time, in the
    // tests of the coordinator.
    let gateway = Gateway::start(Options::new(2));
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(gateway.bootstrap(), "g")).collect();
    form(&mut peers);
    let mut newcomer = Raw::connect(gateway.bootstrap());
    newcomer.send(3, &join_of(3, "g", "", 300_000, 300_000));
    eventually("it waits for the others", || members(&mut peers[0].raw, "g") == 4).await;
    assert!(newcomer.is_silent(A_MOMENT), "the others are slow");
    let (early, late) = peers.split_at_mut(2);
    let mut sent: Vec<i32> = early.iter_mut().map(Peer::send_join).collect();
    drop(newcomer);
    eventually("the newcomer is gone", || members(&mut late[0].raw, "g") == 3).await;
    assert!(early[0].raw.is_silent(A_MOMENT), "one is to come");
    sent.push(late[0].send_join());
    for (peer, sent) in peers.iter_mut().zip(sent) {
        let answer = peer.receive_join(sent);
        assert_eq!((answer.error_code, answer.generation_id), (0, 3));
    }
    settle(&mut peers);
    assert_eq!(state(&mut peers[0].raw, "g"), "Stable");
    assert!(peers.iter_mut().all(|peer| peer.heartbeat() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k066_without_a_rebalance_timeout_members_have_their_session_to_come_back() {
    const SESSION_MS: i32 = 60_000;
    let gateway = Gateway::start(Options::new(2));
    for version in versions(JOIN_GROUP) {
        for rebalance_ms in [-1, 0] {
            let group = format!("g-{version}-{rebalance_ms}");
            let [mut one, mut two] = [(); 2].map(|()| Raw::connect(gateway.bootstrap()));
            let (_, sent) = send_first_join(&mut one, version, &group, SESSION_MS, rebalance_ms);
            let joined = one.receive::<JoinGroupRequest>(version, sent);
            assert_eq!((joined.error_code, joined.generation_id), (0, 1), "version {version}");
            let sync = SyncGroupRequest::default()
                .with_group_id(group_id(&group))
                .with_generation_id(1)
                .with_member_id(joined.member_id.clone());
            assert_eq!(one.call(0, &sync).error_code, 0);

            let (_, sent) = send_first_join(&mut two, version, &group, SESSION_MS, rebalance_ms);
            eventually("a rebalance", || state(&mut one, &group) == "PreparingRebalance").await;
            assert!(two.is_silent(Duration::from_millis(100)), "version {version}: the second waits for the first");
            let beat = HeartbeatRequest::default()
                .with_group_id(group_id(&group))
                .with_generation_id(1)
                .with_member_id(joined.member_id.clone());
            assert_eq!(one.call(0, &beat).error_code, 27, "version {version}: it is told, and still a member");
            let again = join_of(version, &group, &joined.member_id, SESSION_MS, rebalance_ms);
            let answers = [one.call(version, &again), two.receive::<JoinGroupRequest>(version, sent)];
            assert_eq!(answers.map(|answer| (answer.error_code, answer.generation_id)), [(0, 2); 2]);
            assert_eq!(members(&mut one, &group), 2, "version {version}");
            if version < REBALANCE_TIMEOUT_SINCE {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k067_joins_and_syncs_name_protocol_type_and_protocol() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(JOIN_GROUP) {
        let group = format!("g-{version}");
        let named = |answer: &JoinGroupResponse| {
            let text = |text: &Option<kafka_protocol::protocol::StrBytes>| text.as_ref().map(|text| text.to_string());
            (text(&answer.protocol_type), text(&answer.protocol_name))
        };
        let type_name = (version >= PROTOCOL_TYPE_SINCE).then(|| "consumer".to_owned());
        let refused = raw.call(version, &join_of(version, &group, "nobody", 60_000, 60_000));
        let none = if version >= PROTOCOL_TYPE_SINCE { None } else { Some(String::new()) };
        assert_eq!((refused.error_code, named(&refused)), (25, (None, none)), "version {version}");
        let (_, sent) = send_first_join(&mut raw, version, &group, 60_000, 60_000);
        let joined = raw.receive::<JoinGroupRequest>(version, sent);
        assert_eq!(
            (joined.error_code, named(&joined)),
            (0, (type_name, Some("range".to_owned()))),
            "version {version}"
        );

        let sync = |protocol_type: Option<&str>, protocol: Option<&str>| {
            SyncGroupRequest::default()
                .with_group_id(group_id(&group))
                .with_generation_id(1)
                .with_member_id(joined.member_id.clone())
                .with_protocol_type(protocol_type.map(string))
                .with_protocol_name(protocol.map(string))
        };
        // The report wants null to be taken; Kafka refuses it in a version that has the fields.
        for (protocol_type, protocol) in
            [(Some("consumer"), Some("roundrobin")), (Some("connect"), Some("range")), (None, Some("range"))]
                .into_iter()
                .chain([(Some("consumer"), None), (None, None)])
        {
            let answer = raw.call(SYNC, &sync(protocol_type, protocol));
            assert_eq!(answer.error_code, 23, "{protocol_type:?}, {protocol:?}");
            assert_eq!((answer.protocol_type, answer.protocol_name), (None, None));
        }
        for sync_version in versions(14) {
            let given = if sync_version >= SYNC { sync(Some("consumer"), Some("range")) } else { sync(None, None) };
            let answer = raw.call(sync_version, &given);
            assert_eq!(answer.error_code, 0, "version {sync_version}");
            let names = [answer.protocol_type, answer.protocol_name].map(|name| name.map(|name| name.to_string()));
            let expected =
                if sync_version >= SYNC { ["consumer", "range"].map(|n| Some(n.to_owned())) } else { [None, None] };
            assert_eq!(names, expected, "version {sync_version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k068_a_group_that_was_empty_waits_for_its_members_like_a_young_one() {
    let gateway = Gateway::start(Options::new(2).set("initial-rebalance-delay", "4s"));
    let mut generation = 0;
    for round in 0..2 {
        // Members that come in time have it wait once more, until the rebalance timeout is over.
        let mut peers: Vec<Peer> =
            (0..4).map(|_| Peer::connect(gateway.bootstrap(), "g").timeouts(300_000, 5_000)).collect();
        // The ids first, so that the joins follow each other at once.
        peers.iter_mut().for_each(Peer::ask_for_id);
        let sent: Vec<i32> = peers.iter_mut().map(Peer::send_join).collect();
        for (peer, sent) in peers.iter_mut().zip(sent) {
            assert_eq!(peer.receive_join(sent).error_code, 0);
        }
        let generations: Vec<i32> = peers.iter().map(|peer| peer.generation).collect();
        assert!(generations.iter().all(|one| *one == generations[0]), "round {round}: {generations:?}");
        assert_eq!(generations[0], generation + 1, "round {round}");
        settle(&mut peers);
        assert!(peers.iter_mut().all(|peer| peer.leave() == 0));
        assert_eq!(state(&mut peers[0].raw, "g"), "Empty");
        // One more for becoming empty.
        generation += 2;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k072_session_timeouts_of_all_clients_are_taken_and_others_are_26() {
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let mut refused = 0;
    for version in versions(JOIN_GROUP) {
        for (session_ms, is_fine) in [
            (6_000, true),
            (10_000, true),
            (45_000, true),
            (1_800_000, true),
            (5_999, false),
            (1_800_001, false),
            (0, false),
            (-1, false),
            (i32::MIN, false),
        ] {
            let mut raw = Raw::connect(gateway.bootstrap());
            let group = format!("g-{version}-{session_ms}");
            let answer = raw.call(version, &join_of(version, &group, "", session_ms, 60_000));
            let fine = if version >= TWO_STEPS_SINCE { 79 } else { 0 };
            assert_eq!(answer.error_code, if is_fine { fine } else { 26 }, "version {version}, {session_ms} ms");
            refused += u64::from(!is_fine);
        }
    }
    assert_eq!(metric(&gateway, "ringgate_limit_hit_total", "limit=\"session_timeout\""), refused);

    create_topic(&gateway, "t", 1).await;
    for session in ["10000", "45000"] {
        let more = [("session.timeout.ms", session), ("max.poll.interval.ms", "300000")];
        let member = Member::join(&gateway, &format!("stock-{session}"), &["t"], &more);
        member.until_assigned(1).await;
        member.close().await;
    }
}
