//! Consumer groups of KIP-848 through librdkafka: `group.protocol=consumer`.

use std::collections::BTreeSet;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatResponse, DescribeGroupsRequest, GroupId, ListGroupsRequest,
};
use rdkafka::admin::AdminOptions;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use uuid::Uuid;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::consumer_joins;
use crate::common::librdkafka::{admin, create_topic};
use crate::common::member::Member;
use crate::common::partition::create;
use crate::common::raw::{Raw, string, topic_name};
use crate::groups::{numbers, produce_numbers};

/// A gateway that tells members to heartbeat so often that no test waits for it.
fn options() -> Options {
    Options::new(2).set("consumer-heartbeat-interval", "100ms").set("consumer-assignment-interval", 0)
}

fn join(gateway: &Gateway, group: &str, topics: &[&str], more: &[(&str, &str)]) -> Member {
    let protocol = [("group.protocol", "consumer")];
    Member::join(gateway, group, topics, &[&protocol, more].concat())
}

/// A group as ListGroups shows it, by its type and state, to who asks for consumer groups only.
fn listed(raw: &mut Raw) -> Vec<(String, String, String)> {
    let response = raw.call(5, &ListGroupsRequest::default().with_types_filter(vec![string("Consumer")]));
    let text = |group: &kafka_protocol::messages::list_groups_response::ListedGroup| {
        (group.group_id.to_string(), group.group_type.to_string(), group.group_state.to_string())
    };
    response.groups.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_share_a_topic_and_read_every_record_once() {
    let gateway = Gateway::start(options());
    create_topic(&gateway, "work", 6).await;
    let first = join(&gateway, "workers", &["work"], &[]);
    first.until_assigned(6).await;
    produce_numbers(&gateway, "work", 6, 0..60).await;
    first.until_seen(60).await;
    first.commit().await.expect("a member commits with its epoch");

    let second = join(&gateway, "workers", &["work"], &[]);
    let third = join(&gateway, "workers", &["work"], &[]);
    for member in [&first, &second, &third] {
        member.until_assigned(2).await;
    }
    let shares: BTreeSet<_> = [&first, &second, &third].iter().flat_map(|member| member.assignment()).collect();
    assert_eq!(shares.len(), 6, "no partition is with two members");
    produce_numbers(&gateway, "work", 6, 60..120).await;
    eventually("all records are read", || {
        [&first, &second, &third].iter().map(|member| member.seen().len()).sum::<usize>() >= 120
    })
    .await;
    let mut all: Vec<i32> = [&first, &second, &third].iter().flat_map(|member| numbers(member)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..120).collect::<Vec<_>>(), "each once");

    second.close().await;
    third.close().await;
    first.until_assigned(6).await;
    first.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_is_invisible_to_the_members_and_keeps_their_offsets() {
    let mut gateway = Gateway::start(options());
    create_topic(&gateway, "work", 4).await;
    let first = join(&gateway, "workers", &["work"], &[]);
    let second = join(&gateway, "workers", &["work"], &[]);
    first.until_assigned(2).await;
    second.until_assigned(2).await;
    produce_numbers(&gateway, "work", 4, 0..40).await;
    eventually("all is read", || first.seen().len() + second.seen().len() >= 40).await;
    first.commit().await.expect("commit");
    second.commit().await.expect("commit");
    let before = (first.changes(), second.changes());

    gateway.kill9();
    gateway.restart(options());
    produce_numbers(&gateway, "work", 4, 40..80).await;
    eventually("all is read", || first.seen().len() + second.seen().len() >= 80).await;
    assert_eq!((first.changes(), second.changes()), before, "nobody lost or got a partition");
    let mut list = TopicPartitionList::new();
    for partition in 0..4 {
        list.add_partition("work", partition);
    }
    let committed = first.committed(list).await;
    assert!(committed.elements().iter().all(|element| element.offset() == Offset::Offset(10)), "{committed:?}");
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_takes_up_topics_that_come_later() {
    let gateway = Gateway::start(options());
    create_topic(&gateway, "orders-eu", 2).await;
    create_topic(&gateway, "other", 1).await;
    let member = join(&gateway, "readers", &["^orders-.*"], &[]);
    member.until_assigned(2).await;
    create_topic(&gateway, "orders-us", 3).await;
    member.until_assigned(5).await;
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_comes_back_to_its_partitions_without_a_rebalance() {
    let gateway = Gateway::start(options());
    create_topic(&gateway, "work", 4).await;
    let stays = join(&gateway, "workers", &["work"], &[("group.instance.id", "a")]);
    let returns = join(&gateway, "workers", &["work"], &[("group.instance.id", "b")]);
    stays.until_assigned(2).await;
    returns.until_assigned(2).await;
    let (before, had) = (stays.changes(), returns.assignment());
    returns.close().await;
    let back = join(&gateway, "workers", &["work"], &[("group.instance.id", "b")]);
    back.until_assigned(2).await;
    assert_eq!(back.assignment(), had);
    assert_eq!(stays.changes(), before, "the other was not asked for anything");
    back.close().await;
    stays.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_listed_and_described_while_it_lives_and_deleted_when_it_is_empty() {
    let gateway = Gateway::start(options());
    create_topic(&gateway, "work", 3).await;
    let member = join(&gateway, "workers", &["work"], &[("client.id", "worker")]);
    member.until_assigned(3).await;
    produce_numbers(&gateway, "work", 3, 0..3).await;
    member.until_seen(3).await;
    member.commit().await.expect("commit");

    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(listed(&mut raw), [("workers".into(), "consumer".into(), "Stable".into())]);
    for version in 0..=1 {
        let groups = ["workers", "absent"].map(|name| GroupId(string(name))).to_vec();
        let response = raw.call(version, &ConsumerGroupDescribeRequest::default().with_group_ids(groups));
        let [group, absent] = &response.groups[..] else { panic!("{response:?}") };
        assert_eq!((group.error_code, absent.error_code), (0, 69));
        assert_eq!((group.group_state.as_str(), group.assignor_name.as_str()), ("Stable", "uniform"));
        let described = &group.members[0];
        assert_eq!(described.client_id.as_str(), "worker");
        let topics = &described.assignment.topic_partitions;
        assert_eq!((topics[0].topic_name.as_str(), &topics[0].partitions), ("work", &vec![0, 1, 2]));
    }
    let classic = DescribeGroupsRequest::default().with_groups(vec![GroupId(string("workers"))]);
    assert_eq!(raw.call(6, &classic).groups[0].error_code, 69, "it is no classic group");

    let delete = || async {
        let results = admin(&gateway).delete_groups(&["workers"], &AdminOptions::new()).await.expect("answered");
        results.into_iter().next().expect("a result").map_err(|(_, code)| code)
    };
    assert!(delete().await.is_err(), "it has a member");
    member.close().await;
    delete().await.expect("an empty group is deleted");
    assert_eq!(listed(&mut raw), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_moves_from_the_classic_protocol_to_the_consumer_protocol_and_back_while_it_reads() {
    let gateway = Gateway::start(options());
    create_topic(&gateway, "work", 4).await;
    let classic = Member::join(&gateway, "workers", &["work"], &[]);
    classic.until_assigned(4).await;
    produce_numbers(&gateway, "work", 4, 0..40).await;
    classic.until_seen(40).await;
    classic.commit().await.expect("commit");

    let first = join(&gateway, "workers", &["work"], &[]);
    first.until_assigned(2).await;
    classic.until_assigned(2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(listed(&mut raw).len(), 1, "it is a consumer group now");
    produce_numbers(&gateway, "work", 4, 40..80).await;
    eventually("both read", || classic.seen().len() + first.seen().len() >= 80).await;
    classic.commit().await.expect("a classic member commits with its generation");
    first.commit().await.expect("commit");
    let mut all: Vec<i32> = [&classic, &first].iter().flat_map(|member| numbers(member)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..80).collect::<Vec<_>>(), "each once");

    first.close().await;
    classic.until_assigned(4).await;
    assert_eq!(listed(&mut raw), [], "it is a classic group again");
    produce_numbers(&gateway, "work", 4, 80..120).await;
    eventually("all is read", || numbers(&classic).into_iter().filter(|n| *n >= 80).count() >= 40).await;
    classic.close().await;
}

/// What a heartbeat's answer gives, by topic.
fn given(answer: &ConsumerGroupHeartbeatResponse) -> Option<Vec<(Uuid, Vec<i32>)>> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().map(|topic| (topic.topic_id, topic.partitions.clone())).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_no_longer_subscribes_to_is_taken_from_it_at_once_and_given_to_others_when_it_let_go() {
    // Targets are made once, for the first member: nothing here waits for the next ones, but for the last step. The
    // interval is longer than all before it takes.
    let gateway = Gateway::start(options().set("consumer-assignment-interval", "5s"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let keeps = create(&mut raw, "keeps", 2, &[]).id;
    let drops = create(&mut raw, "drops", 1, &[]).id;
    let joining = consumer_joins("workers", "m", &["keeps", "drops"]);
    let joined = raw.call(1, &joining);
    assert_eq!((joined.error_code, joined.member_epoch), (0, 1));
    let mut all = vec![(keeps, vec![0, 1]), (drops, vec![0])];
    all.sort();
    assert_eq!(given(&joined), Some(all));

    let beating = joining.with_member_epoch(1).with_rebalance_timeout_ms(-1).with_topic_partitions(None);
    let less = beating.clone().with_subscribed_topic_names(Some(vec![topic_name("keeps")]));
    let answer = raw.call(1, &less);
    assert_eq!((answer.error_code, answer.member_epoch), (0, 1), "the group's next epoch has no targets yet");
    assert_eq!(given(&answer), Some(vec![(keeps, vec![0, 1])]));

    // The one that wants it gets it when the first says that it has not got it any more.
    let wants = consumer_joins("workers", "n", &["drops"]);
    let mut answer = raw.call(1, &wants);
    let owned = |partitions: &[(Uuid, Vec<i32>)]| {
        let owned = partitions
            .iter()
            .map(|(id, partitions)| TopicPartitions::default().with_topic_id(*id).with_partitions(partitions.clone()));
        Some(owned.collect::<Vec<_>>())
    };
    let beating_n = |epoch| {
        let request = wants.clone().with_member_epoch(epoch).with_rebalance_timeout_ms(-1);
        request.with_subscribed_topic_names(None).with_topic_partitions(None)
    };
    eventually("it has the targets of its epoch", || {
        answer = raw.call(1, &beating_n(answer.member_epoch));
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        answer.member_epoch >= 2
    })
    .await;
    assert_eq!(given(&answer).unwrap_or_default(), [], "the first has not let go");
    let let_go = beating.with_subscribed_topic_names(None).with_topic_partitions(owned(&[(keeps, vec![0, 1])]));
    assert_eq!(raw.call(1, &let_go).error_code, 0);
    let answer = raw.call(1, &beating_n(answer.member_epoch));
    assert_eq!(given(&answer), Some(vec![(drops, vec![0])]));
}
