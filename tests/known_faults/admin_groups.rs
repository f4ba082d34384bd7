//! Admin APIs: groups and their offsets.

use bytes::Bytes;
use kafka_protocol::messages::ListGroupsRequest;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use rdkafka::admin::AdminOptions;
use rdkafka::error::RDKafkaErrorCode;

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{
    ASSIGNMENT, Member, ask_for_member_id, commit, committed, delete_groups, delete_offsets, describe_groups,
    join_request, state, subscription,
};
use crate::common::librdkafka::{admin, create_topic};
use crate::common::partition::versions;
use crate::common::raw::Raw;
use crate::common::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k099_single_offsets_are_deleted_unless_a_member_reads_the_topic() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 2).await;
    create_topic(&gateway, "t2", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = Member::consumer(&mut raw, "active", &["t"]);
    for topic in ["t", "t2"] {
        assert_eq!(member.commit(&mut raw, topic, &[(0, 10), (1, 11)]), [0, 0]);
        commit(&mut raw, "empty", topic, &[(0, 20), (1, 21)]);
    }

    let both: &[(&str, &[i32])] = &[("t", &[0, 9]), ("t2", &[1, 2]), ("nowhere", &[0])];
    assert_eq!(delete_offsets(&mut raw, "active", both), (0, vec![86, 3, 0, 3, 3]), "t is subscribed to");
    assert_eq!(delete_offsets(&mut raw, "active", both), (0, vec![86, 3, 0, 3, 3]), "also where there is no offset");
    assert_eq!(delete_offsets(&mut raw, "empty", both), (0, vec![0, 3, 0, 3, 3]), "nobody reads t there");
    assert_eq!(member.heartbeat(&mut raw), 0, "its member notices nothing");

    gateway.kill9();
    gateway.restart(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let offsets = |raw: &mut Raw, group| [committed(raw, group, "t", &[0, 1]), committed(raw, group, "t2", &[0, 1])];
    assert_eq!(offsets(&mut raw, "active"), [[10, 11], [10, -1]]);
    assert_eq!(offsets(&mut raw, "empty"), [[-1, 21], [20, -1]]);
    assert_eq!(delete_offsets(&mut raw, "active", both).1[0], 86, "the subscription is known after a restart, too");
    member.leave(&mut raw);
    assert_eq!(delete_offsets(&mut raw, "active", &[("t", &[0])]), (0, vec![0]), "nobody reads t any more");
    assert_eq!(offsets(&mut raw, "active"), [[-1, 11], [10, -1]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k099_a_group_whose_subscriptions_are_not_known_keeps_its_offsets_while_it_is_active() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let worker = Member::alone(&mut raw, "connect", "connect", Bytes::from_static(b"a worker's own"));
    assert_eq!(worker.commit(&mut raw, "t", &[(0, 7)]), [0]);
    assert_eq!(delete_offsets(&mut raw, "connect", &[("t", &[0])]), (68, vec![]), "not a consumer's group, and active");
    let garbled = Member::alone(&mut raw, "garbled", "consumer", Bytes::from_static(b"\x00"));
    assert_eq!(garbled.commit(&mut raw, "t", &[(0, 7)]), [0]);
    assert_eq!(delete_offsets(&mut raw, "garbled", &[("t", &[0])]), (0, vec![86]), "it may be reading anything");
    for group in ["connect", "garbled"] {
        assert_eq!(committed(&mut raw, group, "t", &[0]), [7]);
    }
    worker.leave(&mut raw);
    garbled.leave(&mut raw);
    for group in ["connect", "garbled"] {
        assert_eq!(delete_offsets(&mut raw, group, &[("t", &[0])]), (0, vec![0]));
        assert_eq!(committed(&mut raw, group, "t", &[0]), [-1]);
    }
    assert_eq!(delete_offsets(&mut raw, "absent", &[("t", &[0])]), (69, vec![]));
    assert_eq!(delete_offsets(&mut raw, "", &[("t", &[0])]).0, 24);
}

fn listed(raw: &mut Raw) -> Vec<String> {
    let mut names: Vec<_> =
        raw.call(4, &ListGroupsRequest::default()).groups.iter().map(|group| group.group_id.to_string()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k101_empty_groups_are_deleted_with_or_without_offsets_and_others_are_refused() {
    let mut gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    Member::consumer(&mut raw, "active", &["t"]);
    let mut left = vec!["active".to_owned()];
    for version in versions(42) {
        let [without, with, simple] = ["without", "with", "simple"].map(|kind| format!("{kind}-{version}"));
        Member::consumer(&mut raw, &without, &["t"]).leave(&mut raw);
        let member = Member::consumer(&mut raw, &with, &["t"]);
        assert_eq!(member.commit(&mut raw, "t", &[(0, 5)]), [0]);
        member.leave(&mut raw);
        commit(&mut raw, &simple, "t", &[(0, 5)]);
        let named = [&without[..], "active", &with, "absent", &simple, &without, "absent", ""];
        let answered = delete_groups(&mut raw, version, &named);
        let expected = [("", 69), ("absent", 69), ("active", 68), (&simple[..], 0), (&with, 0), (&without, 0)];
        assert_eq!(answered, expected.map(|(group, code)| (group.to_owned(), code)), "version {version}");
        assert_eq!(listed(&mut raw), left, "version {version}");
        for group in [&without, &with, &simple] {
            assert_eq!(state(&mut raw, group), "Dead");
            assert_eq!(committed(&mut raw, group, "t", &[0]), [-1], "{group}");
        }
        // A name is free again at once.
        commit(&mut raw, &simple, "t", &[(0, 6)]);
        left.push(simple);
        left.sort();
    }
    gateway.kill9();
    gateway.restart(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(listed(&mut raw), left, "what was answered is durable");
    assert_eq!(committed(&mut raw, "with-1", "t", &[0]), [-1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k101_a_stock_client_deletes_a_group_that_never_committed() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    Member::consumer(&mut raw, "idle", &["t"]).leave(&mut raw);
    let active = Member::consumer(&mut raw, "active", &["t"]);
    let admin = admin(&gateway);
    let delete = async |group: &str| {
        let results = within("delete a group", admin.delete_groups(&[group], &AdminOptions::new())).await;
        results.expect("DeleteGroups").remove(0).map_err(|(_, code)| code)
    };
    assert_eq!(delete("idle").await, Ok("idle".to_owned()));
    assert_eq!(delete("idle").await, Err(RDKafkaErrorCode::GroupIdNotFound));
    assert_eq!(delete("active").await, Err(RDKafkaErrorCode::NonEmptyGroup));
    assert_eq!(active.heartbeat(&mut raw), 0);
}

/// State, protocol type, protocol and number of members.
fn shown(group: &DescribedGroup) -> (&str, &str, &str, usize) {
    (&group.group_state, &group.protocol_type, &group.protocol_data, group.members.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k102_groups_are_described_alike_on_every_connection() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "simple", "t", &[(0, 5)]);
    let member = Member::consumer(&mut raw, "emptied", &["t"]);
    assert_eq!(member.commit(&mut raw, "t", &[(0, 5)]), [0]);
    member.leave(&mut raw);
    // Names enough that every shard owns one.
    let active: Vec<String> = (0..16).map(|n| format!("active-{n}")).collect();
    let members: Vec<Member> = active.iter().map(|group| Member::consumer(&mut raw, group, &["t"])).collect();
    let names: Vec<&str> =
        ["simple", "absent", "emptied"].into_iter().chain(active.iter().map(String::as_str)).collect();

    let doors = gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap()]);
    for mut raw in doors.map(Raw::connect) {
        for version in versions(15) {
            let described = describe_groups(&mut raw, version, &names);
            let [simple, absent, emptied, active @ ..] = &described[..] else { panic!("{described:?}") };
            assert_eq!((simple.error_code, shown(simple)), (0, ("Empty", "", "", 0)), "version {version}");
            assert_eq!((emptied.error_code, shown(emptied)), (0, ("Empty", "consumer", "", 0)), "version {version}");
            // From version 6 a group that is not there is an error (KIP-1043).
            let code = if version >= 6 { 69 } else { 0 };
            assert_eq!((absent.error_code, shown(absent)), (code, ("Dead", "", "", 0)), "version {version}");
            for (group, member) in active.iter().zip(&members) {
                assert_eq!((group.error_code, shown(group)), (0, ("Stable", "consumer", "range", 1)));
                let told = &group.members[0];
                assert_eq!((told.member_id.as_str(), told.client_id.as_str()), (&member.id[..], "raw"));
                assert_eq!((&told.member_metadata, &told.member_assignment[..]), (&subscription(&["t"]), ASSIGNMENT));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k102_what_members_offer_is_not_told_while_they_rebalance() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let first = ask_for_member_id(&mut raw, "g", "consumer");
    assert_eq!(raw.call(9, &join_request("g", &first, "consumer", subscription(&["t"]))).error_code, 0);
    let mut other = Raw::connect(gateway.bootstrap());
    for version in versions(15) {
        let group = describe_groups(&mut other, version, &["g"]).remove(0);
        assert_eq!(shown(&group), ("CompletingRebalance", "consumer", "", 1), "version {version}");
        let told = &group.members[0];
        assert_eq!(
            (told.member_id.as_str(), told.member_metadata.len(), told.member_assignment.len()),
            (&first[..], 0, 0)
        );
    }

    let mut raw = Raw::connect(gateway.bootstrap());
    let stays = Member::consumer(&mut raw, "h", &["t"]);
    let joins = ask_for_member_id(&mut raw, "h", "consumer");
    raw.send(9, &join_request("h", &joins, "consumer", subscription(&["t"])));
    eventually("the join waits for the other member", || state(&mut other, "h") == "PreparingRebalance").await;
    for version in versions(15) {
        let group = describe_groups(&mut other, version, &["h"]).remove(0);
        assert_eq!(shown(&group), ("PreparingRebalance", "consumer", "", 2), "version {version}");
        for told in &group.members {
            assert_eq!(told.member_metadata.len(), 0);
            // Where the report wants none, Kafka 4 tells what the member was given last, and so does the gateway.
            let assignment: &[u8] = if told.member_id.as_str() == stays.id { ASSIGNMENT } else { b"" };
            assert_eq!(&told.member_assignment[..], assignment);
        }
    }
}
