//! Offsets of consumer groups that somebody else coordinates (consumer kind 3).

use iggy::prelude::*;

use crate::client::{client, code, id, number, send, topic};
use crate::common::gateway::{Gateway, Options};
use crate::common::within;

const GROUP: &str = "kafka.cg.g";

fn external() -> Consumer {
    Consumer::external_group(id(GROUP))
}

/// A gateway with topic `t` of stream `s` and the group.
async fn start(options: Options) -> (Gateway, IggyClient) {
    let gateway = Gateway::start(options);
    let client = client(&gateway).await;
    topic(&client, "s", "t", 2).await;
    group(&client).await;
    (gateway, client)
}

async fn group(client: &IggyClient) -> u32 {
    within("group", client.create_consumer_group(&id("s"), &id("t"), GROUP)).await.expect("group").id
}

async fn store(client: &IggyClient, consumer: &Consumer, partition: u32, offset: u64) -> Result<(), IggyError> {
    within("store", client.store_consumer_offset(consumer, &id("s"), &id("t"), Some(partition), offset)).await
}

async fn get(client: &IggyClient, consumer: &Consumer, partition: u32) -> Option<u64> {
    within("get", client.get_consumer_offset(consumer, &id("s"), &id("t"), Some(partition)))
        .await
        .expect("get")
        .map(|found| found.stored_offset)
}

async fn delete(client: &IggyClient, consumer: &Consumer, partition: u32) -> Result<(), IggyError> {
    within("delete", client.delete_consumer_offset(consumer, &id("s"), &id("t"), Some(partition))).await
}

#[tokio::test]
async fn anybody_stores_and_deletes_for_a_group_that_exists_without_being_a_member() {
    let (gateway, one) = start(Options::new(2).iggy()).await;
    let other = client(&gateway).await;
    store(&one, &external(), 0, 7).await.expect("store");
    assert_eq!(get(&other, &external(), 0).await, Some(7));
    delete(&other, &external(), 0).await.expect("delete");
    assert_eq!(get(&one, &external(), 0).await, None);
    let told = within("group", one.get_consumer_group(&id("s"), &id("t"), &id(GROUP))).await.expect("group");
    assert_eq!(told.expect("a group").members_count, 0);
}

#[tokio::test]
async fn the_value_is_kept_as_sent_whatever_the_partition_holds_also_over_a_crash() {
    let (mut gateway, before) = start(Options::new(3).iggy()).await;
    send(&before, "s", "t", 0, &["a", "b"]).await;
    // On an empty partition; one past the last; far past it.
    let values = [(1, 0), (0, 2), (0, 1 << 40), (0, u64::MAX)];
    for (partition, value) in values {
        store(&before, &external(), partition, value).await.expect("store");
        assert_eq!(get(&before, &external(), partition).await, Some(value));
    }
    for crash in [true, false] {
        if crash {
            gateway.kill9();
        } else {
            assert!(gateway.sigterm().success());
        }
        gateway.restart(gateway.options().clone());
        let after = client(&gateway).await;
        assert_eq!(get(&after, &external(), 0).await, Some(u64::MAX));
        assert_eq!(get(&after, &external(), 1).await, Some(0));
    }
}

#[tokio::test]
async fn a_poll_or_fetch_with_it_is_refused() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    let (s, t, strategy) = (id("s"), id("t"), PollingStrategy::offset(0));
    assert_eq!(
        code(within("poll", client.poll_messages(&s, &t, 0, &external(), &strategy, PollOptions::default())).await),
        IggyError::FeatureUnavailable.as_code()
    );
}

#[tokio::test]
async fn it_holds_back_no_segments() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    let segment = "1 MiB".parse().expect("a size");
    let options = TopicCreateOptions { partitions_count: Some(1), segment_size: Some(segment), ..Default::default() };
    within("topic", client.create_topic(&id("s"), "small", &options)).await.expect("topic");
    within("group", client.create_consumer_group(&id("s"), &id("small"), GROUP)).await.expect("group");
    let large = "x".repeat(400 << 10);
    for _ in 0..7 {
        send(&client, "s", "small", 0, &[&large]).await;
    }
    let (s, t) = (id("s"), id("small"));
    within("store", client.store_consumer_offset(&external(), &s, &t, Some(0), 1)).await.expect("store");
    within("delete segments", client.delete_segments(&s, &t, 0, 1)).await.expect("delete segments");
    let (consumer, first) = (Consumer::new(number(1)), PollingStrategy::first());
    let options = PollOptions { count: 1, ..Default::default() };
    let polled = within("poll", client.poll_messages(&s, &t, 0, &consumer, &first, options)).await.expect("poll");
    assert!(polled.messages[0].header.offset > 1, "what the group has not read is gone");
    let kept = within("get", client.get_consumer_offset(&external(), &s, &t, Some(0))).await.expect("get");
    assert_eq!(kept.map(|kept| kept.stored_offset), Some(1));
}

#[tokio::test]
async fn it_holds_back_no_retention() {
    let options = Options::new(2).iggy().set("retention-check-interval", "50ms");
    let gateway = Gateway::start(options);
    let client = client(&gateway).await;
    within("stream", client.create_stream("s", &StreamCreateOptions::default())).await.expect("stream");
    let options = TopicCreateOptions {
        partitions_count: Some(1),
        segment_size: Some("1 MiB".parse().expect("a size")),
        max_topic_size: Some(MaxTopicSize::Custom("2 MiB".parse().expect("a size"))),
        ..Default::default()
    };
    within("topic", client.create_topic(&id("s"), "t", &options)).await.expect("topic");
    group(&client).await;
    let large = "x".repeat(400 << 10);
    send(&client, "s", "t", 0, &[&large]).await;
    store(&client, &external(), 0, 0).await.expect("store");
    for _ in 0..12 {
        send(&client, "s", "t", 0, &[&large]).await;
    }
    let (consumer, first) = (Consumer::new(number(1)), PollingStrategy::first());
    let first_kept = async || {
        let options = PollOptions { count: 1, ..Default::default() };
        let polled = client.poll_messages(&id("s"), &id("t"), 0, &consumer, &first, options).await;
        polled.expect("poll").messages[0].header.offset
    };
    within("the oldest segments go", async { while first_kept().await == 0 {} }).await;
    assert_eq!(get(&client, &external(), 0).await, Some(0));
}

#[tokio::test]
async fn its_directory_is_made_for_data_that_an_older_build_wrote() {
    let (mut gateway, before) = start(Options::new(2).iggy()).await;
    send(&before, "s", "t", 0, &["a"]).await;
    assert!(gateway.sigterm().success());
    // As it was when nobody kept offsets there.
    for topic in std::fs::read_dir(gateway.data().join("topics")).expect("topics") {
        for partition in std::fs::read_dir(topic.expect("a topic").path()).expect("partitions") {
            let offsets = partition.expect("a partition").path().join("offsets");
            if offsets.exists() {
                std::fs::remove_dir_all(offsets).expect("remove");
            }
        }
    }
    gateway.restart(gateway.options().clone());
    let after = client(&gateway).await;
    assert_eq!(get(&after, &external(), 0).await, None);
    store(&after, &external(), 0, 9).await.expect("store");
    gateway.kill9();
    gateway.restart(gateway.options().clone());
    assert_eq!(get(&client(&gateway).await, &external(), 0).await, Some(9));
}

#[tokio::test]
async fn a_request_without_a_partition_is_refused() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    let found = within("get", client.get_consumer_offset(&external(), &id("s"), &id("t"), None)).await;
    assert_eq!(code(found), IggyError::InvalidIdentifier.as_code());
}

#[tokio::test]
async fn offsets_are_gone_with_their_group_and_a_group_of_the_same_name_has_none_of_them() {
    let (mut gateway, before) = start(Options::new(2).iggy()).await;
    for partition in [0, 1] {
        store(&before, &external(), partition, 7).await.expect("store");
    }
    let (s, t) = (id("s"), id("t"));
    within("delete group", before.delete_consumer_group(&s, &t, &id(GROUP))).await.expect("delete group");
    // Whatever the process had left to do.
    gateway.kill9();
    gateway.restart(gateway.options().clone());
    let after = client(&gateway).await;
    assert_eq!(code(store(&after, &external(), 0, 1).await), 5003);
    group(&after).await;
    for partition in [0, 1] {
        assert_eq!(get(&after, &external(), partition).await, None);
    }
}

#[tokio::test]
async fn offsets_are_gone_with_their_topic_also_when_one_of_its_name_is_made_again() {
    let (mut gateway, before) = start(Options::new(2).iggy()).await;
    store(&before, &external(), 0, 7).await.expect("store");
    within("delete topic", before.delete_topic(&id("s"), &id("t"))).await.expect("delete topic");
    gateway.kill9();
    gateway.restart(gateway.options().clone());
    let after = client(&gateway).await;
    topic(&after, "s", "t", 2).await;
    group(&after).await;
    assert_eq!(get(&after, &external(), 0).await, None);
}

#[tokio::test]
async fn its_keys_are_apart_from_those_of_consumers_and_go_by_name_and_number_alike() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    send(&client, "s", "t", 0, &["a", "b", "c"]).await;
    let told = within("group", client.get_consumer_group(&id("s"), &id("t"), &id(GROUP))).await.expect("group");
    let number = number(told.expect("a group").id);
    store(&client, &Consumer::new(number.clone()), 0, 1).await.expect("store of a consumer");
    assert_eq!(get(&client, &external(), 0).await, None);
    store(&client, &Consumer::external_group(number.clone()), 0, 900).await.expect("store of the group");
    assert_eq!(get(&client, &external(), 0).await, Some(900), "by name");
    assert_eq!(get(&client, &Consumer::new(number.clone()), 0).await, Some(1));
    assert_eq!(get(&client, &Consumer::group(number.clone()), 0).await, None);
    delete(&client, &Consumer::new(number), 0).await.expect("delete of the consumer's");
    assert_eq!(get(&client, &external(), 0).await, Some(900));
}

#[tokio::test]
async fn a_group_that_is_not_there_is_said_by_number_and_by_name() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    for (consumer, expected) in
        [(Consumer::external_group(number(900)), 5000), (Consumer::external_group(id("nobody")), 5003)]
    {
        assert_eq!(code(store(&client, &consumer, 0, 1).await), expected);
        assert_eq!(code(delete(&client, &consumer, 0).await), expected);
        assert_eq!(
            code(within("get", client.get_consumer_offset(&consumer, &id("s"), &id("t"), Some(0))).await),
            expected
        );
    }
}

#[tokio::test]
async fn to_delete_what_is_not_there_is_an_error() {
    let (_gateway, client) = start(Options::new(2).iggy()).await;
    assert_eq!(code(delete(&client, &external(), 0).await), 3021);
    store(&client, &external(), 0, 1).await.expect("store");
    delete(&client, &external(), 0).await.expect("delete");
    assert_eq!(code(delete(&client, &external(), 0).await), 3021);
}

#[tokio::test]
async fn a_partition_keeps_4096_offsets_of_groups_and_refuses_more() {
    // What is asked for is not how safe they are, and there are thousands.
    let (gateway, one) = start(Options::new(2).iggy().set("fsync", "never")).await;
    let mut clients = vec![one];
    for _ in 0..7 {
        clients.push(client(&gateway).await);
    }
    // One group is there already.
    let shares = clients.iter().enumerate().map(async |(nth, client)| {
        for group in (nth..4096).step_by(8) {
            let name = format!("g{group}");
            within("group", client.create_consumer_group(&id("s"), &id("t"), &name)).await.expect("group");
            let stored = store(client, &Consumer::external_group(id(&name)), 0, 1).await;
            stored.unwrap_or_else(|error| panic!("group {group}: {error}"));
        }
    });
    futures::future::join_all(shares).await;
    let client = &clients[0];
    assert_eq!(code(store(client, &external(), 0, 1).await), 3024);
    store(client, &Consumer::external_group(id("g17")), 0, 2).await.expect("one that is there takes another value");
    store(client, &external(), 1, 1).await.expect("another partition has room");
    delete(client, &Consumer::external_group(id("g17")), 0).await.expect("delete");
    store(client, &external(), 0, 1).await.expect("there is room again");
}
