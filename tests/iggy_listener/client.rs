//! Clients of the Iggy SDK, and what tests ask of them.

use std::net::SocketAddr;

use iggy::prelude::*;

use crate::common::gateway::{Gateway, IGGY_PASSWORD};
use crate::common::within;

/// A client that has signed in.
pub async fn client(gateway: &Gateway) -> IggyClient {
    signed_in(gateway.iggy()).await
}

/// A client that has signed in at this address.
pub async fn signed_in(address: SocketAddr) -> IggyClient {
    let client = client_of(address, IGGY_PASSWORD);
    within("connect", client.connect()).await.expect("connect");
    client
}

/// A client of this address with this password, not connected yet.
pub fn client_of(address: SocketAddr, password: &str) -> IggyClient {
    IggyClient::builder()
        .with_tcp()
        .with_server_address(address.to_string())
        .with_auto_sign_in(AutoLogin::Enabled(Credentials::UsernamePassword(
            "iggy".into(),
            password.to_string().into(),
        )))
        .with_reconnection_interval("20ms".parse().expect("a duration"))
        .with_no_delay()
        .build()
        .expect("a client")
}

/// The code of the error that an operation came to.
pub fn code<T: std::fmt::Debug>(outcome: Result<T, IggyError>) -> u32 {
    outcome.expect_err("an error").as_code()
}

/// A name as an identifier.
pub fn id(name: &str) -> Identifier {
    Identifier::named(name).expect("a name")
}

/// A number as an identifier.
pub fn number(id: u32) -> Identifier {
    Identifier::numeric(id).expect("a number")
}

/// Makes a topic of a stream, which is made if it is not there.
pub async fn topic(client: &IggyClient, stream: &str, topic: &str, partitions: u32) {
    let made = within("create stream", client.create_stream(stream, &StreamCreateOptions::default())).await;
    if let Err(error) = made {
        assert_eq!(error.as_code(), 1012, "{error}");
    }
    let options = TopicCreateOptions { partitions_count: Some(partitions), ..Default::default() };
    within("create topic", client.create_topic(&id(stream), topic, &options)).await.expect("create topic");
}

/// Sends one batch of messages with these payloads; the offset of the first.
pub async fn send(client: &IggyClient, stream: &str, topic: &str, partition: u32, payloads: &[&str]) -> u64 {
    let mut messages: Vec<IggyMessage> =
        payloads.iter().map(|payload| IggyMessage::from(payload.to_string())).collect();
    let (stream, topic, to) = (id(stream), id(topic), Partitioning::partition_id(partition));
    within("send", client.send_messages(&stream, &topic, &to, &mut messages)).await.expect("send").confirmations[0]
        .base_offset
}

/// What a poll from here on reads: offset and payload of each message.
pub async fn poll(client: &IggyClient, stream: &str, topic: &str, partition: u32, from: u64) -> Vec<(u64, String)> {
    let options = PollOptions { count: 1_000, ..Default::default() };
    let (stream, topic) = (id(stream), id(topic));
    let (consumer, strategy) = (Consumer::new(number(1)), PollingStrategy::offset(from));
    texts(
        &within("poll", client.poll_messages(&stream, &topic, partition, &consumer, &strategy, options))
            .await
            .expect("poll"),
    )
}

/// Offset and payload of each message that was polled.
pub fn texts(polled: &PolledMessages) -> Vec<(u64, String)> {
    let text = |message: &IggyMessage| String::from_utf8_lossy(&message.payload).into_owned();
    polled.messages.iter().map(|message| (message.header.offset, text(message))).collect()
}
