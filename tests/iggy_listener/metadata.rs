use iggy::prelude::*;

use crate::client::{client, code, id, number, send, topic};
use crate::common::gateway::{Gateway, Options};
use crate::common::within;

#[tokio::test]
async fn streams_topics_and_groups_are_made_told_of_and_deleted() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 3).await;
    let streams = within("streams", client.get_streams()).await.expect("streams");
    assert_eq!(streams.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["kafka", "s"]);
    assert_eq!(streams[0].id, 0, "stream kafka is always there");
    send(&client, "s", "t", 1, &["a", "b"]).await;
    let told = within("topic", client.get_topic(&id("s"), &id("t"))).await.expect("topic").expect("a topic");
    assert_eq!((told.name.as_str(), told.partitions_count, told.messages_count), ("t", 3, 2));
    assert_eq!(told.partitions[1].messages_count, 2);
    assert!(told.partitions[1].size.as_bytes_u64() > 2 * 48);
    let by_number = within("topic", client.get_topic(&number(streams[1].id), &number(told.id))).await;
    assert_eq!(by_number.expect("topic").map(|topic| topic.name), Some("t".to_owned()));
    let made = within("group", client.create_consumer_group(&id("s"), &id("t"), "g")).await.expect("group");
    let groups = within("groups", client.get_consumer_groups(&id("s"), &id("t"))).await.expect("groups");
    assert_eq!(groups.iter().map(|g| (g.id, g.name.as_str())).collect::<Vec<_>>(), [(made.id, "g")]);
    within("more partitions", client.create_partitions(&id("s"), &id("t"), 2)).await.expect("more partitions");
    let told = within("topics", client.get_topics(&id("s"))).await.expect("topics");
    assert_eq!(told[0].partitions_count, 5);
    within("delete group", client.delete_consumer_group(&id("s"), &id("t"), &id("g"))).await.expect("delete group");
    within("delete topic", client.delete_topic(&id("s"), &id("t"))).await.expect("delete topic");
    within("delete stream", client.delete_stream(&id("s"))).await.expect("delete stream");
    assert!(within("stream", client.get_stream(&id("s"))).await.expect("stream").is_none());
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_iggys_codes() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    let options = StreamCreateOptions::default();
    assert_eq!(code(within("again", client.create_stream("s", &options)).await), 1012);
    let options = TopicCreateOptions { partitions_count: Some(1), ..Default::default() };
    assert_eq!(code(within("again", client.create_topic(&id("s"), "t", &options)).await), 2013);
    assert_eq!(code(within("no stream", client.create_topic(&id("x"), "t", &options)).await), 1010);
    assert_eq!(code(within("no name of Kafka's", client.create_topic(&id("kafka"), "a b", &options)).await), 2014);
    assert_eq!(code(within("Kafka's", client.delete_stream(&id("kafka"))).await), 5);
    assert_eq!(code(within("no topic", client.delete_topic(&id("s"), &id("x"))).await), 2011);
    within("group", client.create_consumer_group(&id("s"), &id("t"), "g")).await.expect("group");
    assert_eq!(code(within("again", client.create_consumer_group(&id("s"), &id("t"), "g")).await), 5004);
    assert_eq!(code(within("no group", client.delete_consumer_group(&id("s"), &id("t"), &id("x"))).await), 5003);
    assert_eq!(
        code(within("join", client.join_consumer_group(&id("s"), &id("t"), &id("g"))).await),
        IggyError::FeatureUnavailable.as_code()
    );
}

#[tokio::test]
async fn options_that_mean_something_are_in_force_and_told() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    within("stream", client.create_stream("s", &StreamCreateOptions::default())).await.expect("stream");
    let expiry = IggyExpiry::ExpireDuration("7 days".parse().expect("a duration"));
    let options = TopicCreateOptions { partitions_count: Some(1), message_expiry: Some(expiry), ..Default::default() };
    within("topic", client.create_topic(&id("s"), "t", &options)).await.expect("topic");
    let told = within("topic", client.get_topic(&id("s"), &id("t"))).await.expect("topic").expect("a topic");
    assert_eq!(told.resolved_options().message_expiry, expiry);
    let shorter = IggyExpiry::ExpireDuration("1 hour".parse().expect("a duration"));
    let update = TopicUpdateOptions { message_expiry: Some(shorter), ..Default::default() };
    within("update", client.update_topic(&id("s"), &id("t"), &update)).await.expect("update");
    let told = within("topic", client.get_topic(&id("s"), &id("t"))).await.expect("topic").expect("a topic");
    assert_eq!(told.resolved_options().message_expiry, shorter);
}

#[tokio::test]
async fn what_was_made_is_there_after_a_crash_with_the_same_numbers_and_numbers_are_never_used_again() {
    let mut gateway = Gateway::start(Options::new(2).iggy());
    let before = client(&gateway).await;
    topic(&before, "s", "t", 1).await;
    topic(&before, "s", "gone", 1).await;
    let gone = within("topic", before.get_topic(&id("s"), &id("gone"))).await.expect("topic").expect("a topic").id;
    let kept = within("topic", before.get_topic(&id("s"), &id("t"))).await.expect("topic").expect("a topic").id;
    within("delete topic", before.delete_topic(&id("s"), &id("gone"))).await.expect("delete topic");
    gateway.kill9();
    gateway.restart(gateway.options().clone());
    let after = client(&gateway).await;
    let again = within("topic", after.get_topic(&id("s"), &id("t"))).await.expect("topic").expect("a topic").id;
    assert_eq!(again, kept);
    topic(&after, "s", "gone", 1).await;
    let new = within("topic", after.get_topic(&id("s"), &id("gone"))).await.expect("topic").expect("a topic").id;
    assert_ne!(new, gone);
}
