//! Topics of Iggy's that Kafka's clients see, and change.

use std::time::{Duration, Instant};

use iggy::prelude::*;
use rdkafka::admin::AdminOptions;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};
use crate::common::librdkafka::{admin, create_topic, producer, read_all, reader, try_create_topic, unkeyed};
use crate::common::{LIVENESS, within};

/// An SDK client of the server that holds the gateway's records.
pub async fn iggy_client(server: &Gateway) -> IggyClient {
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(server.iggy().to_string())
        .with_auto_sign_in(AutoLogin::Enabled(Credentials::UsernamePassword(
            "iggy".into(),
            IGGY_PASSWORD.to_string().into(),
        )))
        .build()
        .expect("a client");
    within("connect", client.connect()).await.expect("connect");
    client
}

pub fn named(name: &str) -> Identifier {
    Identifier::named(name).expect("a name")
}

/// Partitions of a topic as Kafka's clients see it; 0 when there is none.
fn partitions(gateway: &Gateway, topic: &str) -> usize {
    let consumer = reader(gateway, &[("allow.auto.create.topics", "false")]);
    let metadata = consumer.fetch_metadata(Some(topic), LIVENESS).expect("metadata");
    metadata.topics().iter().find(|it| it.name() == topic).map_or(0, |it| it.partitions().len())
}

fn until_partitions(gateway: &Gateway, topic: &str, count: usize) {
    let deadline = Instant::now() + LIVENESS;
    while partitions(gateway, topic) != count {
        assert!(Instant::now() < deadline, "{topic} has {} partitions, not {count}", partitions(gateway, topic));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_appear_on_both_sides_and_go_on_both() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy().set("iggy-metadata-refresh", "50ms"));
    let client = iggy_client(gateway.server()).await;
    let stream = named("kafka");

    create_topic(&gateway, "from-kafka", 3).await;
    let seen = client.get_topic(&stream, &named("from-kafka")).await.expect("get").expect("there");
    assert_eq!(seen.partitions_count, 3);
    let again = try_create_topic(&gateway, "from-kafka", 1, 1).await;
    assert_eq!(again, Err(RDKafkaErrorCode::TopicAlreadyExists));

    let options = TopicCreateOptions { partitions_count: Some(2), ..TopicCreateOptions::default() };
    client.create_topic(&stream, "from-iggy", &options).await.expect("create");
    tokio::task::block_in_place(|| until_partitions(&gateway, "from-iggy", 2));
    let producer = producer(&gateway, &[]);
    within("send", producer.send(unkeyed("from-iggy", "v").partition(1), Duration::ZERO)).await.expect("delivered");
    tokio::task::block_in_place(|| read_all(&gateway, "from-iggy", 2, 1));

    client.delete_topic(&stream, &named("from-iggy")).await.expect("delete");
    tokio::task::block_in_place(|| until_partitions(&gateway, "from-iggy", 0));
    let deleted = within("delete", admin(&gateway).delete_topics(&["from-kafka"], &AdminOptions::new())).await;
    deleted.expect("DeleteTopics")[0].as_ref().expect("deleted");
    assert!(client.get_topic(&stream, &named("from-kafka")).await.expect("get").is_none());
    let _ = producer.flush(LIVENESS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native_messages_are_read_by_kafkas_clients_at_the_same_offsets() {
    let mut gateway = Gateway::start(Options::new(1).on_iggy().set("iggy-metadata-refresh", "50ms"));
    create_topic(&gateway, "native", 1).await;
    let client = iggy_client(gateway.server()).await;
    let (stream, topic) = (named("kafka"), named("native"));
    for n in 0..3 {
        let mut messages = vec![IggyMessage::from(format!("message {n}"))];
        let sent = client.send_messages(&stream, &topic, &Partitioning::partition_id(0), &mut messages).await;
        sent.expect("sent");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "native", 1, 3));
    for (n, seen) in seen.iter().enumerate() {
        assert_eq!((seen.offset, seen.text(), &seen.key), (n as i64, format!("message {n}").as_str(), &None));
        assert!(seen.timestamp > 0, "the server's time");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_topic_map_shows_topics_of_other_streams_and_hides_their_own_names() {
    let server = Gateway::start(Options::new(1).iggy());
    let client = iggy_client(&server).await;
    let stream = named("shop");
    client.create_stream("shop", &StreamCreateOptions::default()).await.expect("create");
    let options = TopicCreateOptions { partitions_count: Some(2), ..TopicCreateOptions::default() };
    client.create_topic(&stream, "orders v2", &options).await.expect("create");
    let map = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(map.path(), "orders = { stream = \"shop\", topic = \"orders v2\" }\n").expect("written");
    let options = Options::new(2).on_iggy_at(server.iggy()).set("iggy-topics", map.path().display());
    let gateway = Gateway::start(options);

    let producer = producer(&gateway, &[]);
    for partition in 0..2 {
        let record = unkeyed("orders", "an order").partition(partition);
        within("send", producer.send(record, Duration::ZERO)).await.expect("delivered");
    }
    let seen = tokio::task::block_in_place(|| read_all(&gateway, "orders", 2, 2));
    assert_eq!(seen[0].text(), "an order");
    let there = client.get_topic(&stream, &named("orders v2")).await.expect("get").expect("there");
    assert_eq!(there.messages_count, 2);
}
