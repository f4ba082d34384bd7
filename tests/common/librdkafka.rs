//! librdkafka's producer, consumer and admin client on a gateway, set to retry fast: the tests restart
//! gateways, and the library's own back-off goes to ten seconds.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::gateway::Gateway;
use super::{LIVENESS, within};

/// A header: its name, and its value unless that is null.
pub type Header = (String, Option<Vec<u8>>);

/// A record as a consumer saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds; -1 when the record has none.
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

impl Seen {
    /// The value, which must be text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.value.as_deref().expect("a value")).expect("text")
    }
}

impl From<&BorrowedMessage<'_>> for Seen {
    fn from(message: &BorrowedMessage<'_>) -> Seen {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
        });
        Seen {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis().unwrap_or(-1),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
        }
    }
}

/// The settings that all clients share, and `more`.
pub fn config(servers: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers)
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200")
        .set("retry.backoff.ms", "20")
        .set("topic.metadata.refresh.fast.interval.ms", "50");
    for (name, value) in more {
        config.set(*name, *value);
    }
    config
}

pub fn producer(gateway: &Gateway, more: &[(&str, &str)]) -> FutureProducer {
    config(&gateway.servers(), more).create().expect("producer")
}

/// A record without a key.
pub fn unkeyed<'a>(topic: &'a str, value: &'a str) -> FutureRecord<'a, str, str> {
    FutureRecord::to(topic).payload(value)
}

pub fn admin(gateway: &Gateway) -> AdminClient<DefaultClientContext> {
    config(&gateway.servers(), &[]).create().expect("admin client")
}

/// A consumer that is in no group and starts where it is told.
pub fn reader(gateway: &Gateway, more: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(&gateway.servers(), &[("fetch.wait.max.ms", "100"), ("group.id", "reader")]);
    config.set("enable.auto.commit", "false").set("enable.partition.eof", "false");
    for (name, value) in more {
        config.set(*name, *value);
    }
    config.create().expect("consumer")
}

/// Creates a topic; the answer says that it exists on every shard.
pub async fn create_topic(gateway: &Gateway, name: &str, partitions: i32) {
    try_create_topic(gateway, name, partitions, 1).await.expect("create topic");
}

pub async fn try_create_topic(
    gateway: &Gateway,
    name: &str,
    partitions: i32,
    replication: i32,
) -> Result<(), RDKafkaErrorCode> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replication));
    let admin = admin(gateway);
    let results =
        within("create topic", admin.create_topics([&topic], &AdminOptions::new())).await.expect("CreateTopics");
    results.into_iter().next().expect("a result per topic").map(|_| ()).map_err(|(_, code)| code)
}

/// Reads `count` records of the given partitions, each from its offset on. Blocks.
pub fn read_from(gateway: &Gateway, topic: &str, from: &[(i32, Offset)], count: usize) -> Vec<Seen> {
    let reader = reader(gateway, &[]);
    let mut partitions = TopicPartitionList::new();
    for (partition, offset) in from {
        partitions.add_partition_offset(topic, *partition, *offset).expect("offset");
    }
    reader.assign(&partitions).expect("assign");
    read(&reader, count)
}

/// The next `count` records of what `reader` is assigned. Blocks.
pub fn read(reader: &BaseConsumer, count: usize) -> Vec<Seen> {
    let deadline = std::time::Instant::now() + LIVENESS;
    let mut seen = Vec::new();
    while seen.len() < count {
        assert!(std::time::Instant::now() < deadline, "hung: {} of {count} records", seen.len());
        match reader.poll(Duration::from_millis(100)) {
            // Brokers that go and come back are reported and then reached again.
            None | Some(Err(_)) => {}
            Some(Ok(message)) => seen.push(Seen::from(&message)),
        }
    }
    seen
}

/// Reads the whole of partitions `0..partitions`, `count` records, and sees that there is no other.
pub fn read_all(gateway: &Gateway, topic: &str, partitions: i32, count: usize) -> Vec<Seen> {
    let reader = reader(gateway, &[]);
    let mut list = TopicPartitionList::new();
    let mut held = 0;
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("offset");
        let (low, high) = reader.fetch_watermarks(topic, partition, LIVENESS).expect("watermarks");
        held += (high - low) as usize;
    }
    assert_eq!(held, count, "records in {topic}");
    reader.assign(&list).expect("assign");
    read(&reader, count)
}
