//! Requests whose reply was lost: the SDK sends them once more, and they must not be carried out twice.

use iggy::prelude::*;
use iggy_binary_protocol::Operation;

use crate::client::{client, id, number, poll, send, signed_in, topic};
use crate::common::gateway::{Gateway, Options};
use crate::common::within;
use crate::proxy::Proxy;

#[tokio::test]
async fn a_batch_is_in_the_log_once() {
    let gateway = Gateway::start(Options::new(3).iggy());
    topic(&client(&gateway).await, "s", "t", 4).await;
    let proxy = Proxy::to(gateway.iggy()).await;
    // The SDK waits longer each time that a link breaks soon, so each partition has a client of its own.
    for partition in 0..4 {
        let client = signed_in(proxy.address()).await;
        for round in 0..3 {
            let before = proxy.passed(Operation::SendMessages);
            proxy.lose_the_next_reply_to(Operation::SendMessages);
            let offset = send(&client, "s", "t", partition, &["a", "b"]).await;
            assert_eq!(offset, 2 * round, "the offset of the first time");
            assert!(proxy.passed(Operation::SendMessages) >= before + 2, "it was sent again");
        }
        assert_eq!(poll(&client, "s", "t", partition, 0).await.len(), 6);
    }
}

#[tokio::test]
async fn a_change_of_metadata_is_made_once_and_answered_as_the_first_time() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let proxy = Proxy::to(gateway.iggy()).await;
    let client = signed_in(proxy.address()).await;
    proxy.lose_the_next_reply_to(Operation::CreateStream);
    let stream = within("stream", client.create_stream("s", &StreamCreateOptions::default())).await;
    assert_eq!(stream.expect("it is not said to exist").name, "s");
    proxy.lose_the_next_reply_to(Operation::CreateTopic);
    topic(&client, "s", "t", 2).await;
    proxy.lose_the_next_reply_to(Operation::CreateConsumerGroup);
    within("group", client.create_consumer_group(&id("s"), &id("t"), "g")).await.expect("group");
    proxy.lose_the_next_reply_to(Operation::DeleteTopic);
    within("delete", client.delete_topic(&id("s"), &id("t"))).await.expect("it is not said to be missing");
    for operation in [Operation::CreateStream, Operation::CreateTopic, Operation::DeleteTopic] {
        assert!(proxy.passed(operation) >= 2, "{operation:?} was sent again");
    }
}

#[tokio::test]
async fn an_offset_that_was_deleted_is_not_said_to_be_missing() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let proxy = Proxy::to(gateway.iggy()).await;
    let client = signed_in(proxy.address()).await;
    topic(&client, "s", "t", 1).await;
    send(&client, "s", "t", 0, &["a"]).await;
    let (s, t, consumer) = (id("s"), id("t"), Consumer::new(number(4)));
    proxy.lose_the_next_reply_to(Operation::StoreConsumerOffset);
    within("store", client.store_consumer_offset(&consumer, &s, &t, Some(0), 0)).await.expect("store");
    proxy.lose_the_next_reply_to(Operation::DeleteConsumerOffset);
    within("delete", client.delete_consumer_offset(&consumer, &s, &t, Some(0))).await.expect("delete");
    assert!(proxy.passed(Operation::DeleteConsumerOffset) >= 2, "it was sent again");
}
