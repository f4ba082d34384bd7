//! The bounds of the group coordinator through a socket: at the limit, one past it, how often that was met,
//! and that whoever fills one keeps nobody out for longer than its sessions last.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ListGroupsRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{
    self, commit, commit_codes, commit_request, committed, delete_groups, join_request, state, subscription,
};
use crate::common::librdkafka::create_topic;
use crate::common::metrics::metric;
use crate::common::peer::{JOIN, Peer, SYNC, form, members, rejoin, settle};
use crate::common::raw::{Raw, string};

/// The answer to a sound first join: come again with this id.
const COME_AGAIN: i16 = 79;

/// How often a limit was met.
fn hits(gateway: &Gateway, limit: &str) -> u64 {
    metric(gateway, "ringgate_limit_hit_total", &format!("limit=\"{limit}\""))
}

fn options() -> Options {
    Options::new(2).set("admin-listen", "127.0.0.1:0")
}

fn first_join(group: &str) -> JoinGroupRequest {
    join_request(group, "", "consumer", subscription(&["t"]))
}

fn protocol(name: &str, bytes: usize) -> JoinGroupRequestProtocol {
    JoinGroupRequestProtocol::default().with_name(string(name)).with_metadata(Bytes::from(vec![1; bytes]))
}

/// The code of a join without an id of version 9.
fn join_code(raw: &mut Raw, request: &JoinGroupRequest) -> i16 {
    raw.call(JOIN, request).error_code
}

/// A member of a consumer group (KIP-848) that joins for the topic `t`.
fn consumer_joins(group: &str, member: &str) -> ConsumerGroupHeartbeatRequest {
    group::consumer_joins(group, member, &["t"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_are_bounded_by_session_timeout_protocols_metadata_and_group_id() {
    const MIB: usize = 1 << 20;
    let gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    for (timeout_ms, code) in [(5_999, 26), (6_000, COME_AGAIN), (1_800_000, COME_AGAIN), (1_800_001, 26)] {
        let request = first_join("timeouts").with_session_timeout_ms(timeout_ms);
        assert_eq!(join_code(&mut raw, &request), code, "{timeout_ms} ms");
    }
    for (count, code) in [(16, COME_AGAIN), (17, 42)] {
        let protocols = (0..count).map(|n| protocol(&format!("p{n}"), 1)).collect();
        assert_eq!(join_code(&mut raw, &first_join("many").with_protocols(protocols)), code, "{count} protocols");
    }
    // The metadata of all protocols together.
    for (bytes, code) in [(&[MIB][..], COME_AGAIN), (&[MIB + 1], 42), (&[MIB - 5, 5], COME_AGAIN), (&[MIB - 5, 6], 42)]
    {
        let protocols = bytes.iter().enumerate().map(|(n, bytes)| protocol(&format!("p{n}"), *bytes)).collect();
        assert_eq!(join_code(&mut raw, &first_join("large").with_protocols(protocols)), code, "{bytes:?} bytes");
    }
    let long = |bytes: usize| "g".repeat(bytes);
    let euros = format!("{}{}", "\u{20ac}".repeat(82), "g");
    for (group, code) in [(long(246), COME_AGAIN), (long(247), 24), ("\u{20ac}".repeat(82), COME_AGAIN), (euros, 24)] {
        assert_eq!(join_code(&mut raw, &first_join(&group)), code, "{} bytes of group id", group.len());
    }
    let long = long(247);
    assert_eq!(commit_codes(&mut raw, 8, &commit_request(&long, "t", &[(0, 1)])), [3], "the topic comes first");
    create_topic(&gateway, "t", 1).await;
    assert_eq!(commit_codes(&mut raw, 8, &commit_request(&long, "t", &[(0, 1)])), [24]);
    assert_eq!(raw.call(1, &consumer_joins(&long, "m")).error_code, 24);
    for (limit, count) in
        [("session_timeout", 2), ("protocols_per_member", 1), ("max_member_blob_bytes", 2), ("group_id_bytes", 4)]
    {
        assert_eq!(hits(&gateway, limit), count, "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assignment_is_bounded() {
    let gateway = Gateway::start(options().set("max-member-blob-bytes", "1KiB"));
    let mut peer = Peer::connect(gateway.bootstrap(), "g");
    peer.join();
    let id = peer.id.clone();
    let request = peer.sync_request(&[(&id, &"x".repeat(1_025))]);
    assert_eq!(peer.raw.call(SYNC, &request).error_code, 42);
    assert_eq!(hits(&gateway, "max_member_blob_bytes"), 1);
    assert_eq!(state(&mut peer.raw, "g"), "CompletingRebalance", "it may try again");
    let fits = "x".repeat(1_024);
    assert_eq!(peer.sync(&[(&id, &fits)]), (0, Bytes::from(fits)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_timeout_over_the_limit_is_cut_and_not_refused() {
    // Longer than the members need to come together.
    const MOST: Duration = Duration::from_secs(4);
    let gateway = Gateway::start(options().set("max-rebalance-timeout", "4s"));
    let mut peers: Vec<Peer> =
        (0..2).map(|_| Peer::connect(gateway.bootstrap(), "g").timeouts(300_000, 600_000)).collect();
    form(&mut peers);
    assert!(hits(&gateway, "max_rebalance_timeout") > 0);
    // The other does not come: the join phase ends without it, and not after ten minutes.
    let asked = Instant::now();
    let joined = peers[0].join();
    assert_eq!(joined.members.len(), 1);
    assert!(asked.elapsed() + Duration::from_millis(200) >= MOST, "after {:?}", asked.elapsed());
    let before = hits(&gateway, "max_rebalance_timeout");
    let mut fits = Peer::connect(gateway.bootstrap(), "h").timeouts(300_000, MOST.as_millis() as i32);
    form(std::slice::from_mut(&mut fits));
    assert_eq!(hits(&gateway, "max_rebalance_timeout"), before, "at the limit nothing is cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_group_takes_no_more_members_of_either_protocol() {
    let gateway = Gateway::start(options().set("max-members-per-group", 3));
    create_topic(&gateway, "t", 1).await;
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(gateway.bootstrap(), "g")).collect();
    form(&mut peers);
    let mut more = Peer::connect(gateway.bootstrap(), "g");
    assert_eq!(more.raw.call(JOIN, &more.join_request()).error_code, 81);
    let mut request = more.join_request();
    request.group_instance_id = None;
    assert_eq!(more.raw.call(3, &request).error_code, 81, "in one step, too");
    let mut fixed = Peer::connect(gateway.bootstrap(), "g").instance("x");
    assert_eq!(fixed.raw.call(JOIN, &fixed.join_request()).error_code, 81, "and with an instance id");
    assert_eq!(hits(&gateway, "max_members_per_group"), 3);
    assert!(peers.iter_mut().all(|peer| peer.heartbeat() == 0), "nobody was disturbed");
    assert_eq!(peers[2].leave(), 0);
    peers.pop();
    rejoin(&mut peers);
    settle(&mut peers);
    more.ask_for_id();

    for (member, code) in [("a", 0), ("b", 0), ("c", 0), ("d", 81), ("c", 0)] {
        let answer = more.raw.call(1, &consumer_joins("consumers", member));
        assert_eq!(answer.error_code, code, "{member}: {:?}", answer.error_message);
    }
    assert_eq!(hits(&gateway, "max_members_per_group"), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_counted_over_the_whole_gateway() {
    let gateway = Gateway::start(options().set("max-groups", 8));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    // Of each kind some, on both shards.
    for n in 0..4 {
        commit(&mut raw, &format!("simple-{n}"), "t", &[(0, 7)]);
    }
    for n in 0..3 {
        assert_eq!(join_code(&mut raw, &first_join(&format!("classic-{n}"))), COME_AGAIN);
    }
    assert_eq!(raw.call(1, &consumer_joins("consumer-0", "m")).error_code, 0);
    assert_eq!(hits(&gateway, "max_groups"), 0);
    for n in 0..4 {
        let group = format!("more-{n}");
        assert_eq!(join_code(&mut raw, &first_join(&group)), 15);
        assert_eq!(commit_codes(&mut raw, 8, &commit_request(&group, "t", &[(0, 7)])), [15]);
        assert_eq!(raw.call(1, &consumer_joins(&group, "m")).error_code, 15);
        assert_eq!(state(&mut raw, &group), "Dead", "nothing of it is kept");
    }
    assert_eq!(hits(&gateway, "max_groups"), 12);
    // Those that are there go on.
    commit(&mut raw, "simple-0", "t", &[(0, 8)]);
    assert_eq!(join_code(&mut raw, &first_join("classic-0")), COME_AGAIN);
    // One that goes makes room for one, whichever shard it was on.
    for n in 0..4 {
        let group = format!("simple-{n}");
        assert_eq!(delete_groups(&mut raw, 2, &[&group]), [(group.clone(), 0)]);
        assert_eq!(join_code(&mut raw, &first_join(&format!("late-{n}"))), COME_AGAIN);
        assert_eq!(join_code(&mut raw, &first_join("too-late")), 15);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_groups_without_offsets_make_room_for_others_on_every_shard() {
    let gateway = Gateway::start(options().set("max-groups", 9));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "kept", "t", &[(0, 7)]);
    let mut gone = Raw::connect(gateway.bootstrap());
    for n in 0..8 {
        assert_eq!(join_code(&mut gone, &first_join(&format!("gone-{n}"))), COME_AGAIN);
    }
    // Ids that were given out hold their groups as long as their connection is there.
    assert_eq!(join_code(&mut raw, &first_join("come-0")), 15);
    drop(gone);
    for n in 0..8 {
        let request = first_join(&format!("come-{n}"));
        eventually("room", || {
            let code = join_code(&mut raw, &request);
            assert!([15, COME_AGAIN].contains(&code), "{code}");
            code == COME_AGAIN
        })
        .await;
    }
    assert_eq!(join_code(&mut raw, &first_join("come-8")), 15);
    assert_eq!(state(&mut raw, "gone-0"), "Dead");
    assert_eq!(committed(&mut raw, "kept", "t", &[0]), [7]);
    assert_eq!(metric(&gateway, "ringgate_groups", ""), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_ids_that_were_given_out_are_counted_over_the_whole_gateway() {
    let gateway = Gateway::start(options().set("max-total-members", 6));
    create_topic(&gateway, "t", 1).await;
    let mut peers: Vec<Peer> = (0..2).map(|_| Peer::connect(gateway.bootstrap(), "g")).collect();
    form(&mut peers);
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(raw.call(1, &consumer_joins("consumers", "m")).error_code, 0);
    let mut given = Raw::connect(gateway.bootstrap());
    for n in 0..3 {
        assert_eq!(join_code(&mut given, &first_join(&format!("given-{n}"))), COME_AGAIN);
    }
    assert_eq!(hits(&gateway, "max_total_members"), 0);
    assert_eq!(join_code(&mut raw, &first_join("h")), 15);
    assert_eq!(raw.call(3, &first_join("h")).error_code, 15, "in one step, too");
    assert_eq!(join_code(&mut raw, &first_join("h").with_group_instance_id(Some(string("x")))), 15);
    assert_eq!(raw.call(1, &consumer_joins("consumers", "n")).error_code, 15);
    assert_eq!(raw.call(1, &consumer_joins("h", "n")).error_code, 15);
    assert_eq!(hits(&gateway, "max_total_members"), 5);
    assert_eq!(state(&mut raw, "h"), "Dead", "who is refused leaves no group behind");
    // Who is there may go through rebalances.
    rejoin(&mut peers);
    settle(&mut peers);
    // Ids go with their connection, and make room.
    drop(given);
    eventually("room for a member", || join_code(&mut raw, &first_join("h")) == COME_AGAIN).await;
    eventually("room for two", || raw.call(1, &consumer_joins("consumers", "n")).error_code == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_groups_is_counted_over_the_whole_gateway() {
    const BLOB: usize = 300_000;
    let gateway = Gateway::start(options().set("max-group-memory", "1MiB").set("max-member-blob-bytes", BLOB));
    create_topic(&gateway, "t", 1).await;
    let with_blob = |peer: &Peer| peer.join_request().with_protocols(vec![protocol("range", BLOB)]);
    let mut peers: Vec<Peer> = (0..4).map(|n| Peer::connect(gateway.bootstrap(), &format!("g-{n}"))).collect();
    for (nth, peer) in peers.iter_mut().enumerate() {
        peer.ask_for_id();
        let request = with_blob(peer);
        let sent = peer.raw.send(JOIN, &request);
        let answer = peer.receive_join(sent);
        assert_eq!(answer.error_code, if nth < 3 { 0 } else { 15 }, "member {nth}");
        if nth < 3 {
            // An assignment is held, too; one of nothing takes nothing.
            assert_eq!(peer.sync(&[]), (0, Bytes::new()));
        }
    }
    assert_eq!(hits(&gateway, "max_group_memory"), 1);
    // Offsets and what is noted with them count.
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut taken = 0;
    let code = loop {
        let mut request = commit_request(&format!("notes-{taken}"), "t", &[(0, 7)]);
        request.topics[0].partitions[0].committed_metadata = Some(string(&"x".repeat(4_096)));
        match commit_codes(&mut raw, 8, &request)[0] {
            0 => taken += 1,
            code => break code,
        }
        assert!(taken < 200, "the limit holds");
    };
    assert_eq!(code, 15);
    assert!(taken > 10, "{taken} fitted beside 900,000 bytes");
    assert!(hits(&gateway, "max_group_memory") > 1);
    // What is there can be used: heartbeats, the same commit again, and a join that changes nothing.
    assert_eq!(peers[0].heartbeat(), 0);
    commit(&mut raw, "notes-0", "t", &[(0, 8)]);
    assert_eq!(committed(&mut raw, "notes-0", "t", &[0]), [8]);
    // One that leaves makes room for one like it.
    assert_eq!(peers[0].leave(), 0);
    let peer = &mut peers[3];
    let request = with_blob(peer);
    let sent = peer.raw.send(JOIN, &request);
    assert_eq!(peer.receive_join(sent).error_code, 0);
}

/// A member of a consumer group that joins for topics by a pattern.
fn pattern_joins(group: &str, member: &str, regex: &str) -> ConsumerGroupHeartbeatRequest {
    consumer_joins(group, member).with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(string(regex)))
}

/// The heartbeat of a member at an epoch that has nothing to say; of -1: that it leaves.
fn consumer_beats(joined: &ConsumerGroupHeartbeatRequest, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    joined
        .clone()
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(-1)
        .with_subscribed_topic_names(None)
        .with_subscribed_topic_regex(None)
        .with_topic_partitions(None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_are_counted_in_a_group_and_over_the_whole_gateway() {
    let gateway = Gateway::start(options().set("max-total-patterns", 18));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for n in 0..=16 {
        let answer = raw.call(1, &pattern_joins("g", &format!("m{n}"), &format!("t{{{n}}}")));
        assert_eq!(answer.error_code, if n < 16 { 0 } else { 42 }, "pattern {n}: {:?}", answer.error_message);
    }
    assert_eq!(raw.call(1, &pattern_joins("g", "one-more", "t{3}")).error_code, 0, "one that the group has");
    assert_eq!(hits(&gateway, "patterns_per_group"), 1);
    for (group, code) in [("h", 0), ("i", 0), ("j", 15)] {
        assert_eq!(raw.call(1, &pattern_joins(group, "m", "t")).error_code, code, "{group}");
    }
    assert_eq!(hits(&gateway, "max_total_patterns"), 1);
    assert_eq!(state(&mut raw, "j"), "Dead", "who is refused leaves no group behind");
    assert_eq!(raw.call(1, &consumer_beats(&pattern_joins("h", "m", "t"), -1)).error_code, 0);
    assert_eq!(raw.call(1, &pattern_joins("j", "m", "t")).error_code, 0, "one that goes makes room for one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partitions_of_consumer_groups_are_counted_in_their_memory() {
    const PARTITIONS: usize = 200;
    // Far below what one takes, and far above what all else of these groups does.
    const LEAST_BYTES: usize = 150;
    let gateway = Gateway::start(options().set("max-group-memory", "1MiB"));
    create_topic(&gateway, "t", PARTITIONS as i32).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut taken = 0;
    loop {
        let answer = raw.call(1, &consumer_joins(&format!("g-{taken}"), "m"));
        match answer.error_code {
            0 => taken += 1,
            code => break assert_eq!(code, 15),
        }
        let given: usize = answer.assignment.iter().flat_map(|a| &a.topic_partitions).map(|t| t.partitions.len()).sum();
        assert_eq!(given, PARTITIONS);
        assert!(taken * PARTITIONS * LEAST_BYTES < 1 << 20, "the limit holds");
    }
    assert!(taken > 10, "{taken}");
    assert_eq!(hits(&gateway, "max_group_memory"), 1);
    assert_eq!(state(&mut raw, &format!("g-{taken}")), "Dead", "who is refused leaves no group behind");
    // By a pattern a member may come, and has nothing until there is room.
    let late = pattern_joins("late", "m", "t");
    let mut answer = raw.call(1, &late);
    assert_eq!(answer.error_code, 0);
    eventually("the limit is met again", || {
        answer = raw.call(1, &consumer_beats(&late, answer.member_epoch));
        assert_eq!((answer.error_code, answer.assignment.as_ref().map_or(0, |a| a.topic_partitions.len())), (0, 0));
        hits(&gateway, "max_group_memory") > 1
    })
    .await;
    assert_eq!(raw.call(1, &consumer_beats(&consumer_joins("g-0", "m"), 1)).error_code, 0, "who is there goes on");
    assert_eq!(raw.call(1, &consumer_beats(&consumer_joins("g-0", "m"), -1)).error_code, 0);
    eventually("it has what the other had", || {
        answer = raw.call(1, &consumer_beats(&late, answer.member_epoch));
        assert_eq!(answer.error_code, 0);
        answer.assignment.as_ref().is_some_and(|a| a.topic_partitions.iter().any(|t| t.partitions.len() == PARTITIONS))
    })
    .await;
}

/// A client that takes all that it is given, until it is given no more, and then says nothing.
struct Hostile {
    _open: Vec<Raw>,
}

impl Hostile {
    /// Shorter than the test, longer than it takes to see that there is no room.
    const SESSION_MS: i32 = 3_000;

    /// Sends joins, of `bytes` of metadata each, and groups named by `group`, until one is refused; each is
    /// of version 3, which makes a member of whom it comes from, or asks for an id only.
    fn fill(gateway: &Gateway, version: i16, bytes: usize, group: impl Fn(usize) -> String) -> Hostile {
        let mut open = Vec::new();
        for nth in 0.. {
            assert!(nth < 500, "the limit holds");
            let mut raw = Raw::connect(gateway.bootstrap());
            let request = first_join(&group(nth))
                .with_session_timeout_ms(Hostile::SESSION_MS)
                .with_rebalance_timeout_ms(Hostile::SESSION_MS)
                .with_protocols(vec![protocol("range", bytes)]);
            let code = raw.call(version, &request).error_code;
            open.push(raw);
            match code {
                0 | COME_AGAIN => {}
                15 => break,
                code => panic!("{code}"),
            }
        }
        Hostile { _open: open }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_fills_a_limit_keeps_others_out_for_no_longer_than_its_sessions() {
    let gateway = Gateway::start(
        options()
            .set("min-session-timeout", "1s")
            .set("offsets-retention-check-interval", "50ms")
            .set("max-groups", 20)
            .set("max-total-members", 30)
            .set("max-group-memory", "1MiB")
            .set("max-member-blob-bytes", "200KiB"),
    );
    create_topic(&gateway, "t", 1).await;
    let mut good: Vec<Peer> = (0..2).map(|_| Peer::connect(gateway.bootstrap(), "good")).collect();
    form(&mut good);
    assert_eq!(good[0].commit("t", 1), 0);
    for limit in ["max_groups", "max_total_members", "max_group_memory"] {
        let hostile: Vec<Hostile> = match limit {
            "max_groups" => vec![Hostile::fill(&gateway, JOIN, 1, |n| format!("group-{n}"))],
            "max_total_members" => vec![Hostile::fill(&gateway, JOIN, 1, |_| "members".to_owned())],
            // Ever smaller ones into what the larger leave over.
            _ => [200_000, 20_000, 2_000, 1]
                .map(|bytes| Hostile::fill(&gateway, 3, bytes, |n| format!("memory-{bytes}-{}", n % 2_000)))
                .into(),
        };
        assert!(hits(&gateway, limit) > 0, "{limit}");
        // Those who are there go on.
        for (offset, peer) in good.iter_mut().enumerate() {
            assert_eq!((peer.heartbeat(), peer.commit("t", offset as i64)), (0, 0), "{limit}");
        }
        rejoin(&mut good);
        settle(&mut good);
        // One who comes is told to try again, does, and is a member when the sessions are over.
        let mut late = Peer::connect(gateway.bootstrap(), &format!("late-{limit}"));
        eventually("room", || {
            let answer = late.raw.call(JOIN, &late.join_request());
            let code = answer.error_code;
            assert!([15, COME_AGAIN].contains(&code), "{code}");
            late.id = answer.member_id.to_string();
            code == COME_AGAIN
        })
        .await;
        eventually("a member", || {
            let sent = late.send_join();
            late.receive_join(sent).error_code == 0
        })
        .await;
        late.settle_alone();
        assert_eq!((late.heartbeat(), late.commit("t", 7)), (0, 0), "{limit}");
        assert_eq!(late.leave(), 0);
        assert_eq!(delete_groups(&mut late.raw, 2, &[&late.group]), [(late.group.clone(), 0)]);
        // Its connections were open all the time.
        drop(hostile);
        eventually("nobody else is left", || {
            metric(&gateway, "ringgate_group_members", "") == 2 && members(&mut good[0].raw, "good") == 2
        })
        .await;
    }
}

/// A member of a consumer group that heartbeats as often as it is let.
struct Consumer {
    raw: Raw,
    joins: ConsumerGroupHeartbeatRequest,
    epoch: i32,
}

impl Consumer {
    fn new(gateway: &Gateway, joins: ConsumerGroupHeartbeatRequest) -> Consumer {
        Consumer { raw: Raw::connect(gateway.bootstrap()), joins, epoch: 0 }
    }

    /// Joins, or heartbeats when it has; the code.
    fn beat(&mut self) -> i16 {
        let request = if self.epoch == 0 { self.joins.clone() } else { consumer_beats(&self.joins, self.epoch) };
        let answer = self.raw.call(1, &request);
        if answer.error_code == 0 {
            self.epoch = answer.member_epoch;
        }
        answer.error_code
    }

    fn leave(&mut self) -> i16 {
        self.raw.call(1, &consumer_beats(&self.joins, -1)).error_code
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_consumer_groups_that_fill_a_limit_keep_others_out_for_no_longer_than_their_sessions() {
    let gateway = Gateway::start(
        options()
            // Shorter than the test, longer than it takes to see that there is no room.
            .set("consumer-session-timeout", "5s")
            .set("consumer-heartbeat-interval", "100ms")
            .set("min-session-timeout", "1s")
            .set("initial-rebalance-delay", 0)
            .set("offsets-retention-check-interval", "50ms")
            .set("max-groups", 20)
            .set("max-total-members", 30)
            .set("max-total-patterns", 8)
            .set("max-group-memory", "1MiB"),
    );
    create_topic(&gateway, "t", 300).await;
    create_topic(&gateway, "small", 1).await;
    let small = |group: &str, member: &str| group::consumer_joins(group, member, &["small"]);
    let mut good = Consumer::new(&gateway, small("good", "m"));
    assert_eq!(good.beat(), 0);
    let fills: [(&str, &dyn Fn(usize) -> ConsumerGroupHeartbeatRequest); 4] = [
        ("max_groups", &|n| small(&format!("group-{n}"), "m")),
        ("max_total_members", &|n| small("members", &format!("m-{n}"))),
        ("max_total_patterns", &|n| pattern_joins(&format!("pattern-{n}"), "m", "small")),
        ("max_group_memory", &|n| consumer_joins(&format!("memory-{n}"), "m")),
    ];
    for (limit, fill) in fills {
        let mut raw = Raw::connect(gateway.bootstrap());
        // All at once, so that the first are still there when the last come, however busy the machine is.
        let sent: Vec<i32> = (0..100).map(|nth| raw.send(1, &fill(nth))).collect();
        let mut join = |(nth, sent)| {
            if nth % 10 == 0 {
                assert_eq!(good.beat(), 0, "who is there goes on");
            }
            raw.receive::<ConsumerGroupHeartbeatRequest>(1, sent).error_code
        };
        let codes: Vec<i16> = sent.into_iter().enumerate().map(&mut join).collect();
        assert!(codes.iter().all(|code| [0, 15].contains(code)), "{limit}: {codes:?}");
        assert_eq!((codes[0], codes[99]), (0, 15), "{limit} holds: {codes:?}");
        assert!(hits(&gateway, limit) > 0, "{limit}");
        // Who comes for the same is told to try again, does, and is a member when the sessions are over.
        let mut late = Consumer::new(&gateway, fill(1_000));
        assert_eq!(late.beat(), 15, "{limit}");
        eventually("a member", || {
            assert_eq!(good.beat(), 0, "{limit}");
            let code = late.beat();
            assert!([0, 15].contains(&code), "{code}");
            code == 0
        })
        .await;
        let mut classic = Peer::connect(gateway.bootstrap(), &format!("classic-{limit}"));
        // Those who fill the limit came one after the other, and so do their sessions end.
        eventually("an id", || {
            assert_eq!((good.beat(), late.beat()), (0, 0), "{limit}");
            let code = classic.try_for_id();
            assert!([15, 79].contains(&code), "{limit}: {code}");
            code == 79
        })
        .await;
        let sent = classic.send_join();
        assert_eq!(classic.receive_join(sent).error_code, 0, "and so is one of the classic protocol");
        assert_eq!((late.beat(), late.leave(), classic.leave()), (0, 0, 0), "{limit}");
        // The connection was open all the time.
        drop(raw);
        let mut admin = Raw::connect(gateway.bootstrap());
        eventually("nothing else is left", || {
            assert_eq!(good.beat(), 0);
            metric(&gateway, "ringgate_group_members", "") == 1 && listed_groups(&mut admin) == ["good"]
        })
        .await;
    }
}

fn listed_groups(raw: &mut Raw) -> Vec<String> {
    let answer = raw.call(5, &ListGroupsRequest::default());
    answer.groups.iter().map(|group| group.group_id.to_string()).collect()
}
