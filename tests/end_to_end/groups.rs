//! Consumer groups through stock clients: sharing, dying, leaving, and who notices.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use rdkafka::admin::AdminOptions;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{admin, create_topic, producer, unkeyed};
use crate::common::member::{Change, Member, Partition};
use crate::common::{eventually, within};
use crate::member_process::MemberProcess;

/// Values `from..to` over the partitions of a topic, in turn.
pub async fn produce_numbers(gateway: &Gateway, topic: &str, partitions: i32, numbers: std::ops::Range<i32>) {
    let producer = producer(gateway, &[("acks", "all"), ("linger.ms", "5")]);
    let deliveries: Vec<_> = numbers
        .map(|n| {
            let value = n.to_string();
            let record = unkeyed(topic, &value).partition(n % partitions);
            producer.send_result(record).map_err(|(error, _)| error).expect("queued")
        })
        .collect();
    for delivery in deliveries {
        within("delivery", delivery).await.expect("reported").expect("delivered");
    }
}

/// The numbers that a member saw, in order of arrival.
pub fn numbers(member: &Member) -> Vec<i32> {
    member.seen().iter().map(|record| record.text().parse().expect("a number")).collect()
}

fn all_of(topic: &str, partitions: i32) -> BTreeSet<Partition> {
    (0..partitions).map(|partition| (topic.to_owned(), partition)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_consumers_share_a_topic_and_the_survivor_takes_over_from_the_killed() {
    join_all([Advertise::Shards, Advertise::Gateway].map(takes_over)).await;
}

async fn takes_over(advertise: Advertise) {
    let gateway = Gateway::start(Options::new(2).advertise(advertise));
    create_topic(&gateway, "work", 4).await;
    let survivor = Member::join(&gateway, "workers", &["work"], &[]);
    survivor.until_assigned(4).await;
    let victim = MemberProcess::join(&gateway, "workers", "work");
    victim.until_assigned(2).await;
    survivor.until_assigned(2).await;

    victim.kill9();
    survivor.until_assigned(4).await;
    assert_eq!(survivor.assignment(), all_of("work", 4));
    produce_numbers(&gateway, "work", 4, 0..40).await;
    eventually("the survivor sees every record", || {
        numbers(&survivor).into_iter().collect::<BTreeSet<_>>() == (0..40).collect()
    })
    .await;
    survivor.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_gives_its_partitions_up_before_any_session_ends() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 4).await;
    // Sessions far longer than any wait of this test: only a leave can free the partitions.
    let patient = [("session.timeout.ms", "300000"), ("max.poll.interval.ms", "300000")];
    let stays = Member::join(&gateway, "workers", &["work"], &patient);
    stays.until_assigned(4).await;
    let leaves = Member::join(&gateway, "workers", &["work"], &patient);
    leaves.until_assigned(2).await;
    stays.until_assigned(2).await;
    leaves.close().await;
    stays.until_assigned(4).await;
    stays.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_members_sees_its_half_and_both_halves_make_the_whole() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "work", 6).await;
    let one = Member::join(&gateway, "workers", &["work"], &[]);
    let two = Member::join(&gateway, "workers", &["work"], &[]);
    one.until_assigned(3).await;
    two.until_assigned(3).await;
    produce_numbers(&gateway, "work", 6, 0..60).await;
    one.until_seen(30).await;
    two.until_seen(30).await;
    let (one_saw, two_saw) = (numbers(&one), numbers(&two));
    assert_eq!((one_saw.len(), two_saw.len()), (30, 30), "nobody sees a record twice");
    assert_eq!(one_saw.into_iter().chain(two_saw).collect::<BTreeSet<_>>(), (0..60).collect());
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cooperative_member_keeps_what_it_keeps_through_a_rebalance() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 4).await;
    let cooperative = [("partition.assignment.strategy", "cooperative-sticky")];
    let first = Member::join(&gateway, "workers", &["work"], &cooperative);
    first.until_assigned(4).await;
    let second = Member::join(&gateway, "workers", &["work"], &cooperative);
    second.until_assigned(2).await;
    first.until_assigned(2).await;

    let kept = first.assignment();
    let given = second.assignment();
    assert!(kept.is_disjoint(&given));
    assert_eq!(kept.union(&given).cloned().collect::<BTreeSet<_>>(), all_of("work", 4));
    for change in first.changes() {
        if let Change::Revoked(revoked) = change {
            assert!(revoked.is_disjoint(&kept), "a partition that stayed was taken away: {revoked:?}");
        }
    }

    second.close().await;
    first.until_assigned(4).await;
    for change in first.changes() {
        if let Change::Revoked(revoked) = change {
            assert!(revoked.is_disjoint(&kept), "a partition that stayed was taken away: {revoked:?}");
        }
    }
    first.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_restarts_without_a_rebalance() {
    join_all([Advertise::Shards, Advertise::Gateway].map(static_restart)).await;
}

async fn static_restart(advertise: Advertise) {
    let gateway = Gateway::start(Options::new(2).advertise(advertise));
    create_topic(&gateway, "work", 4).await;
    let instance =
        |id| [("group.instance.id", id), ("session.timeout.ms", "120000"), ("max.poll.interval.ms", "120000")];
    let stays = Member::join(&gateway, "workers", &["work"], &instance("stays"));
    let restarts = Member::join(&gateway, "workers", &["work"], &instance("restarts"));
    stays.until_assigned(2).await;
    restarts.until_assigned(2).await;
    let before = restarts.assignment();
    let undisturbed = stays.changes();

    restarts.close().await;
    let restarted = Member::join(&gateway, "workers", &["work"], &instance("restarts"));
    restarted.until_assigned(2).await;
    assert_eq!(restarted.assignment(), before, "the same instance gets the same partitions");

    // Both serve on: the group is stable, and the member that stayed was told nothing.
    produce_numbers(&gateway, "work", 4, 0..40).await;
    stays.until_seen(20).await;
    restarted.until_seen(20).await;
    stays.commit().await.expect("the generation of the member that stayed is still good");
    restarted.commit().await.expect("commit");
    assert_eq!(stays.changes(), undisturbed);
    stays.close().await;
    restarted.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_group_reads_the_same_records_on_its_own() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    produce_numbers(&gateway, "work", 2, 0..20).await;
    for group in ["first", "second"] {
        let member = Member::join(&gateway, group, &["work"], &[]);
        member.until_seen(20).await;
        member.commit().await.expect("commit");
        member.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_subscribed_to_two_topics_gets_both_and_a_pattern_finds_its_topics() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "alpha-1", 2).await;
    create_topic(&gateway, "alpha-2", 2).await;
    create_topic(&gateway, "beta", 2).await;
    let both = Member::join(&gateway, "both", &["alpha-1", "beta"], &[]);
    both.until_assigned(4).await;
    let pattern = Member::join(&gateway, "pattern", &["^alpha-.*"], &[]);
    pattern.until_assigned(4).await;
    let topics: BTreeSet<_> = pattern.assignment().into_iter().map(|(topic, _)| topic).collect();
    assert_eq!(topics, BTreeSet::from(["alpha-1".to_owned(), "alpha-2".to_owned()]));
    both.close().await;
    pattern.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_member_resumes_behind_the_last_commit() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    produce_numbers(&gateway, "work", 2, 0..20).await;
    let first = Member::join(&gateway, "workers", &["work"], &[]);
    first.until_seen(20).await;
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("work", 0, Offset::Offset(4)).expect("offset");
    offsets.add_partition_offset("work", 1, Offset::Offset(9)).expect("offset");
    first.commit_offsets(offsets).await.expect("commit");
    first.close().await;

    let second = Member::join(&gateway, "workers", &["work"], &[]);
    second.until_seen(7).await;
    let seen: BTreeSet<_> = numbers(&second).into_iter().collect();
    assert_eq!(seen, BTreeSet::from([8, 10, 12, 14, 16, 18, 19]));
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_commits_are_kept_when_the_consumer_closes() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    produce_numbers(&gateway, "work", 2, 0..20).await;
    let automatic = [("enable.auto.commit", "true"), ("auto.commit.interval.ms", "600000")];
    let first = Member::join(&gateway, "workers", &["work"], &automatic);
    first.until_seen(20).await;
    first.close().await;
    let second = Member::join(&gateway, "workers", &["work"], &[]);
    second.until_assigned(2).await;
    produce_numbers(&gateway, "work", 2, 20..22).await;
    second.until_seen(2).await;
    assert_eq!(numbers(&second).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([20, 21]));
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_members_are_listed_and_described() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "work", 3).await;
    let names: BTreeSet<String> = (0..6).map(|n| format!("group-{n}")).collect();
    let mut members = Vec::new();
    for name in &names {
        let member = Member::join(&gateway, name, &["work"], &[("client.id", "described")]);
        member.until_assigned(3).await;
        members.push(member);
    }
    let reader = crate::common::librdkafka::reader(&gateway, &[]);
    let groups = tokio::task::block_in_place(|| {
        use rdkafka::consumer::Consumer;
        reader.fetch_group_list(None, Duration::from_secs(30)).expect("groups")
    });
    let listed: Vec<_> = groups.groups().iter().map(|group| group.name().to_owned()).collect();
    assert_eq!(listed.len(), 6, "each group is listed once, by the node that owns it: {listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    for group in groups.groups() {
        assert_eq!((group.state(), group.protocol_type()), ("Stable", "consumer"), "{}", group.name());
        assert_eq!(group.members().len(), 1, "{}", group.name());
        assert_eq!(group.members()[0].client_id(), "described");
    }
    for member in members {
        member.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_group_can_be_deleted_with_its_offsets_and_an_active_one_cannot() {
    let mut gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "orders", 1).await;
    let admin = admin(&gateway);
    let options = AdminOptions::new();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Offset(7)).expect("offset");

    let member = Member::join(&gateway, "workers", &["orders"], &[]);
    member.until_assigned(1).await;
    member.commit_offsets(list.clone()).await.expect("commit");
    let names = ["workers", "nobody"];
    let deleted = within("delete", admin.delete_groups(&names, &options)).await.expect("an answer");
    let active = Err(("workers".to_owned(), RDKafkaErrorCode::NonEmptyGroup));
    assert_eq!(deleted, [active, Err(("nobody".to_owned(), RDKafkaErrorCode::GroupIdNotFound))]);
    member.close().await;

    let deleted = within("delete", admin.delete_groups(&["workers"], &options)).await.expect("an answer");
    assert_eq!(deleted, [Ok("workers".to_owned())]);
    // It is durable when it is answered.
    tokio::task::block_in_place(|| {
        gateway.kill9();
        gateway.restart(Options::new(2));
    });
    let member = Member::join(&gateway, "workers", &["orders"], &[]);
    member.until_assigned(1).await;
    let committed = member.committed(list).await;
    assert_eq!(committed.elements()[0].offset(), Offset::Invalid, "no offset is left");
    member.close().await;
}
