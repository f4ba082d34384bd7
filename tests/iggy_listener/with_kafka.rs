//! Kafka's and Iggy's clients on the same topics.

use iggy::prelude::*;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use crate::client::{client, id, number, poll, send};
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka;
use crate::common::{LIVENESS, within};

async fn polled(client: &IggyClient, topic: &str) -> PolledMessages {
    let (kafka, topic, consumer) = (id("kafka"), id(topic), Consumer::new(number(1)));
    let options = PollOptions { count: 100, ..Default::default() };
    within("poll", client.poll_messages(&kafka, &topic, 0, &consumer, &PollingStrategy::offset(0), options))
        .await
        .expect("poll")
}

fn header(message: &IggyMessage, name: &str) -> Option<Vec<u8>> {
    let headers = message.user_headers_map().expect("headers")?;
    let value = headers.get(&name.try_into().expect("a key"))?;
    Some(value.as_raw().expect("raw").to_vec())
}

#[tokio::test]
async fn what_kafka_produces_is_polled_with_key_headers_null_empty_value_and_time() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let producer = librdkafka::producer(&gateway, &[]);
    let headers = OwnedHeaders::new().insert(Header { key: "h", value: Some("v") });
    let record = FutureRecord::to("t").key("k").payload("a").headers(headers).timestamp(1_700_000_000_123);
    within("produce", producer.send(record, None)).await.expect("produce");
    let null: FutureRecord<'_, str, str> = FutureRecord::to("t").key("k");
    within("produce", producer.send(null, None)).await.expect("produce");
    within("produce", producer.send(FutureRecord::to("t").key("k").payload(""), None)).await.expect("produce");
    let client = client(&gateway).await;
    let read = polled(&client, "t").await;
    let offsets: Vec<u64> = read.messages.iter().map(|message| message.header.offset).collect();
    assert_eq!(offsets, [0, 1, 2]);
    let first = &read.messages[0];
    assert_eq!(&first.payload[..], b"a");
    assert_eq!(first.header.origin_timestamp, 1_700_000_000_123_000);
    assert_eq!(header(first, "kafka.key").as_deref(), Some(&b"k"[..]));
    assert_eq!(header(first, "kafka.h.h").as_deref(), Some(&b"v"[..]));
    assert_eq!(header(&read.messages[1], "kafka.value").as_deref(), Some(&b"null"[..]));
    assert_eq!(header(&read.messages[2], "kafka.value").as_deref(), Some(&b"empty"[..]));
}

#[tokio::test]
async fn what_iggy_sends_is_consumed_by_kafka_at_the_same_offsets_in_one_row_with_kafkas() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let client = client(&gateway).await;
    let options = TopicCreateOptions { partitions_count: Some(1), ..Default::default() };
    within("topic", client.create_topic(&id("kafka"), "t", &options)).await.expect("topic");
    let headers = [("n".try_into().expect("a key"), "v".try_into().expect("a value"))];
    let message = IggyMessage::builder().payload("a".into()).user_headers(headers.into()).build().expect("a message");
    let (kafka, t) = (id("kafka"), id("t"));
    within("send", client.send_messages(&kafka, &t, &Partitioning::partition_id(0), &mut [message]))
        .await
        .expect("send");
    let producer = librdkafka::producer(&gateway, &[]);
    within("produce", producer.send(librdkafka::unkeyed("t", "b"), None)).await.expect("produce");
    assert_eq!(send(&client, "kafka", "t", 0, &["c", "d"]).await, 2);
    let seen = librdkafka::read_all(&gateway, "t", 1, 4);
    let texts: Vec<(i64, &str)> = seen.iter().map(|record| (record.offset, record.text())).collect();
    assert_eq!(texts, [(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    assert_eq!(seen[0].headers, [("n".to_owned(), Some(b"v".to_vec()))]);
    assert_eq!(seen[0].key, None);
    let polled: Vec<(u64, String)> = poll(&client, "kafka", "t", 0, 1).await;
    assert_eq!(
        polled.iter().map(|(offset, text)| (*offset, text.as_str())).collect::<Vec<_>>(),
        [(1, "b"), (2, "c"), (3, "d")]
    );
}

#[tokio::test]
async fn topics_of_other_streams_are_no_topics_of_kafkas() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    crate::client::topic(&client, "s", "of_iggy", 1).await;
    send(&client, "s", "of_iggy", 0, &["a"]).await;
    let metadata = librdkafka::reader(&gateway, &[]).fetch_metadata(None, LIVENESS).expect("metadata");
    assert!(metadata.topics().iter().all(|topic| topic.name() != "of_iggy"));
}
