//! Scenarios of the group protocol that take the whole gateway, by hand-written frames: `sNNN_<sentence>`, as in
//! `docs/conformance.md`, which lists all of them. Most are shown in `shards/group/tests/coordinator`.

use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    ApiVersionsRequest, DescribeGroupsRequest, FindCoordinatorRequest, InitProducerIdRequest, JoinGroupRequest,
    MetadataRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest, TransactionalId, TxnOffsetCommitRequest,
};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{
    ASSIGNMENT, Member, ask_for_member_id, commit, commit_codes, commit_request, committed, delete_groups, group_id,
    join_request, state, subscription,
};
use crate::common::partition::{Partition, create, versions};
use crate::common::raw::{Raw, Writer, batch, string, topic_name};

/// A gateway of two shards with topic `t` of two partitions, and a connection.
fn gateway_with_t() -> (Gateway, Raw) {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "t", 2, &[]);
    (gateway, raw)
}

/// OffsetFetch of some partitions of `t`, or of all topics, from version 8 on.
fn fetch_group(group: &str, partitions: Option<&[i32]>) -> OffsetFetchRequestGroup {
    let topic = |partitions: &[i32]| {
        OffsetFetchRequestTopics::default().with_name(topic_name("t")).with_partition_indexes(partitions.to_vec())
    };
    OffsetFetchRequestGroup::default()
        .with_group_id(group_id(group))
        .with_topics(partitions.map(|partitions| vec![topic(partitions)]))
}

#[test]
fn s097_an_unknown_topic_or_partition_is_answered_3_and_the_others_are_kept() {
    let (_gateway, mut raw) = gateway_with_t();
    for version in versions(8) {
        let group = format!("g{version}");
        let mut request = commit_request(&group, "t", &[(0, 5), (7, 6), (1, 7)]);
        request.topics.extend(commit_request(&group, "nowhere", &[(0, 8)]).topics);
        assert_eq!(commit_codes(&mut raw, version, &request), [0, 3, 0, 3], "version {version}");
        assert_eq!(committed(&mut raw, &group, "t", &[0, 1, 7]), [5, 7, -1], "version {version}");
        assert_eq!(committed(&mut raw, &group, "nowhere", &[0]), [-1], "version {version}");
    }
}

#[test]
fn s099_groups_of_one_fetch_are_answered_in_order_each_with_its_own() {
    let (_gateway, mut raw) = gateway_with_t();
    commit(&mut raw, "one", "t", &[(0, 5)]);
    commit(&mut raw, "two", "t", &[(1, 6)]);
    for version in 8..=9 {
        let named = ["two", "unknown", "one"].iter();
        let mut groups: Vec<_> = named.map(|name| fetch_group(name, Some(&[0, 1]))).collect();
        groups.push(fetch_group("unknown-2", None));
        let response = raw.call(version, &OffsetFetchRequest::default().with_groups(groups));
        let told: Vec<_> = response
            .groups
            .iter()
            .map(|group| {
                let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
                let told: Vec<_> = partitions.map(|p| (p.error_code, p.partition_index, p.committed_offset)).collect();
                (group.group_id.to_string(), group.error_code, told)
            })
            .collect();
        let expected = [
            ("two".to_owned(), 0, vec![(0, 0, -1), (0, 1, 6)]),
            ("unknown".to_owned(), 0, vec![(0, 0, -1), (0, 1, -1)]),
            ("one".to_owned(), 0, vec![(0, 0, 5), (0, 1, -1)]),
            ("unknown-2".to_owned(), 0, vec![]),
        ];
        assert_eq!(told, expected, "version {version}");
    }
}

/// DESIGN has no transactions: whatever would begin one is refused by name, so no offset is ever pending, and
/// `require_stable` changes nothing.
#[test]
fn s101_transactions_are_refused_and_no_offset_is_ever_unstable() {
    let (gateway, mut raw) = gateway_with_t();
    commit(&mut raw, "g", "t", &[(0, 5)]);
    let find = FindCoordinatorRequest::default().with_key(string("x")).with_key_type(1);
    assert_eq!(raw.call(3, &find).error_code, 42);
    let init = InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(string("x"))))
        .with_transaction_timeout_ms(60_000);
    assert_eq!(raw.call(4, &init).error_code, 42);
    let mut hostile = Raw::connect(gateway.bootstrap());
    hostile.send(3, &TxnOffsetCommitRequest::default().with_group_id(group_id("g")));
    hostile.assert_closed();
    for require_stable in [false, true] {
        let request = OffsetFetchRequest::default()
            .with_groups(vec![fetch_group("g", Some(&[0]))])
            .with_require_stable(require_stable);
        let response = raw.call(8, &request);
        let partition = &response.groups[0].topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.committed_offset), (0, 5));
    }
}

/// As there are no transactions, every commit is a plain one.
#[test]
fn s102_the_last_plain_commit_is_what_every_fetch_sees() {
    let (_gateway, mut raw) = gateway_with_t();
    for offset in [5, 9, 7] {
        commit(&mut raw, "g", "t", &[(0, offset)]);
        for require_stable in [false, true] {
            let request = OffsetFetchRequest::default()
                .with_groups(vec![fetch_group("g", Some(&[0]))])
                .with_require_stable(require_stable);
            assert_eq!(raw.call(9, &request).groups[0].topics[0].partitions[0].committed_offset, offset);
        }
    }
}

#[test]
fn s104_an_active_an_empty_and_a_missing_group_are_answered_68_0_and_69() {
    let (gateway, mut raw) = gateway_with_t();
    for version in versions(42) {
        let mut other = Raw::connect(gateway.bootstrap());
        let [active, empty, missing] = ["active", "empty", "missing"].map(|name| format!("{name}-{version}"));
        let member = Member::consumer(&mut other, &active, &["t"]);
        let gone = Member::consumer(&mut raw, &empty, &["t"]);
        assert_eq!(gone.commit(&mut raw, "t", &[(0, 5)]), [0]);
        gone.leave(&mut raw);
        let results = delete_groups(&mut raw, version, &[&active, &empty, &missing]);
        let codes: Vec<_> = results.iter().map(|(group, code)| (group.as_str(), *code)).collect();
        assert_eq!(codes, [(active.as_str(), 68), (empty.as_str(), 0), (missing.as_str(), 69)]);
        assert_eq!(committed(&mut raw, &empty, "t", &[0]), [-1]);
        assert_eq!(member.heartbeat(&mut other), 0, "it was not touched");
        let again = Member::consumer(&mut raw, &empty, &["t"]);
        assert_eq!(again.generation, 1, "it is a new group");
        again.leave(&mut raw);
    }
}

#[test]
fn s109_operations_are_a_bit_field_for_who_asks_and_unknown_for_who_does_not() {
    let (_gateway, mut raw) = gateway_with_t();
    commit(&mut raw, "g", "t", &[(0, 5)]);
    for version in versions(15).filter(|version| *version >= 3) {
        for (asked, expected) in [(false, i32::MIN), (true, 3400)] {
            let request = DescribeGroupsRequest::default()
                .with_groups(vec![group_id("g")])
                .with_include_authorized_operations(asked);
            let group = &raw.call(version, &request).groups[0];
            assert_eq!((group.error_code, group.authorized_operations), (0, expected), "version {version}");
        }
    }
}

#[test]
fn s110_one_key_or_several_are_found_and_an_unknown_kind_is_42() {
    let (_gateway, mut raw) = gateway_with_t();
    let nodes = raw.call(12, &MetadataRequest::default().with_topics(None)).brokers;
    let is_node = |id: i32, port: i32| nodes.iter().any(|node| (node.node_id.0, node.port) == (id, port));
    let one = raw.call(3, &FindCoordinatorRequest::default().with_key(string("g")));
    assert_eq!((one.error_code, one.error_message.as_deref()), (0, Some("NONE")));
    assert!(is_node(one.node_id.0, one.port), "{one:?}");
    let keys: Vec<_> = ["g", "h", ""].map(string).to_vec();
    let several = raw.call(4, &FindCoordinatorRequest::default().with_coordinator_keys(keys.clone()));
    let told: Vec<_> = several.coordinators.iter().map(|found| found.key.clone()).collect();
    assert_eq!(told, keys);
    for found in &several.coordinators {
        assert_eq!((found.error_code, found.error_message.as_deref()), (0, Some("")));
        assert!(is_node(found.node_id.0, found.port), "{found:?}");
    }
    assert_eq!(several.coordinators[0].node_id, one.node_id, "both forms name the same");
    for version in versions(10).filter(|version| *version >= 1) {
        let request = FindCoordinatorRequest::default().with_key_type(9);
        if version >= 4 {
            let response = raw.call(version, &request.with_coordinator_keys(vec![string("g")]));
            let found = &response.coordinators[0];
            assert_eq!((found.error_code, found.node_id.0, found.port), (42, -1, -1), "version {version}");
        } else {
            let found = raw.call(version, &request.with_key(string("g")));
            assert_eq!((found.error_code, found.node_id.0, found.port), (42, -1, -1), "version {version}");
        }
    }
}

#[test]
fn s111_members_of_a_stable_group_go_on_after_a_restart() {
    let (mut gateway, mut raw) = gateway_with_t();
    let member = Member::consumer(&mut raw, "g", &["t"]);
    assert_eq!(member.commit(&mut raw, "t", &[(0, 5)]), [0]);
    for shards in [2, 3] {
        gateway.kill9();
        gateway.restart(Options::new(shards));
        raw = Raw::connect(gateway.bootstrap());
        assert_eq!(member.heartbeat(&mut raw), 0);
        let sync = raw.call(5, &sync_request(&member));
        assert_eq!((sync.error_code, &sync.assignment[..]), (0, ASSIGNMENT));
        assert_eq!(committed(&mut raw, "g", "t", &[0]), [5]);
    }
    member.leave(&mut raw);
}

fn sync_request(member: &Member) -> SyncGroupRequest {
    SyncGroupRequest::default()
        .with_group_id(group_id(&member.group))
        .with_generation_id(member.generation)
        .with_member_id(string(&member.id))
        .with_protocol_type(Some(string("consumer")))
        .with_protocol_name(Some(string("range")))
}

/// What starts at once behind a parked request.
fn produce(log: &Partition) -> ProduceRequest {
    log.produce_request(9, -1, Some(batch(Writer::NOBODY, 1_000, &["x"])))
}

/// The partition of a group never moves away from its gateway; what can go is the gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s113_a_parked_join_and_a_parked_sync_are_answered_16_when_the_gateway_stops() {
    // One shard, so that a request has begun when one behind it on its connection has been served.
    let mut gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let log = create(&mut raw, "t", 1, &[]).partition(0);
    let join = |group: &str, id: &str| join_request(group, id, "consumer", subscription(&["t"]));

    let _member = Member::consumer(&mut raw, "joining", &["t"]);
    let mut joins = Raw::connect(gateway.bootstrap());
    let id = ask_for_member_id(&mut joins, "joining", "consumer");
    let parked_join = joins.send(9, &join("joining", &id));
    joins.send(9, &produce(&log));

    let mut leads = Raw::connect(gateway.bootstrap());
    let mut follows = Raw::connect(gateway.bootstrap());
    let leader = ask_for_member_id(&mut leads, "syncing", "consumer");
    assert_eq!(leads.call(9, &join("syncing", &leader)).error_code, 0);
    let follower = ask_for_member_id(&mut follows, "syncing", "consumer");
    let joined = follows.send(9, &join("syncing", &follower));
    eventually("a rebalance", || state(&mut raw, "syncing") == "PreparingRebalance").await;
    assert_eq!(leads.call(9, &join("syncing", &leader)).generation_id, 2);
    let generation = follows.receive::<JoinGroupRequest>(9, joined).generation_id;
    let member = Member { group: "syncing".into(), id: follower, generation };
    let parked_sync = follows.send(5, &sync_request(&member));
    follows.send(9, &produce(&log));
    eventually("what was sent behind the parked requests is served", || log.ends(&mut raw).1 >= 2).await;

    gateway.ask_to_stop();
    assert_eq!(joins.receive::<JoinGroupRequest>(9, parked_join).error_code, 16);
    assert_eq!(follows.receive::<SyncGroupRequest>(5, parked_sync).error_code, 16);
}

/// What librdkafka looks for before it serves groups, static members, and groups of KIP-848.
#[test]
fn the_versions_by_which_librdkafka_decides_what_a_broker_can_do_are_offered() {
    let (_gateway, mut raw) = gateway_with_t();
    let response = raw.call(0, &ApiVersionsRequest::default());
    // Of OffsetCommit it takes 1 or 2; Kafka 4 has only the latter.
    let classic = [(10, 0), (8, 2), (9, 1), (11, 0), (14, 0), (12, 0), (13, 0), (18, 0)];
    let static_members = [(11, 5), (14, 3), (12, 3)];
    let consumer = [(68, 1), (69, 0), (8, 9), (9, 9)];
    for (key, version) in classic.into_iter().chain(static_members).chain(consumer) {
        let api = response.api_keys.iter().find(|api| api.api_key == key).expect("an API that is served");
        assert!((api.min_version..=api.max_version).contains(&version), "{api:?}, version {version}");
    }
}
