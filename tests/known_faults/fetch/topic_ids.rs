//! Topic ids, and what a consumer sees of a topic that is deleted and made again.

use std::time::Duration;

use kafka_protocol::messages::delete_topics_request::DeleteTopicsRequest;
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::{FetchRequest, TopicName};
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;
use uuid::Uuid;

use crate::common::LIVENESS;
use crate::common::fetch::{FOR_EVER_MS, fetch_request, only_partition, records};
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{read, reader};
use crate::common::partition::{Topic, create, metadata, versions};
use crate::common::raw::{Raw, Writer, batch, topic_name};

/// Long enough to see that something waits. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(200);

/// Deletes a topic, which must be there.
pub fn delete(raw: &mut Raw, name: &str) {
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name(name)]).with_timeout_ms(30_000);
    assert_eq!(raw.call(5, &request).responses[0].error_code, 0);
}

/// The id that Metadata has for a topic in this version.
fn id_in_metadata(raw: &mut Raw, version: i16, name: &str) -> Uuid {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let response = raw.call(version, &MetadataRequest::default().with_topics(Some(vec![topic])));
    assert_eq!(response.topics[0].error_code, 0);
    response.topics[0].topic_id
}

#[test]
fn k031_topic_ids_are_never_zero_the_same_everywhere_and_after_a_restart_and_new_after_deletion() {
    let mut gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let created = create(&mut raw, "named", 1, &[]);
    let (code, made_by_asking) = metadata(&mut raw, "spontaneous");
    assert_eq!(code, 0);
    assert!(!created.id.is_nil() && !made_by_asking.is_nil() && created.id != made_by_asking);
    created.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    let same_everywhere = |gateway: &Gateway| {
        let nodes = gateway.nodes().iter().map(|node| node.addr);
        for address in nodes.chain([gateway.bootstrap()]) {
            let mut raw = Raw::connect(address);
            for version in versions(3).filter(|version| *version >= 10) {
                assert_eq!(id_in_metadata(&mut raw, version, "named"), created.id, "version {version}");
                assert_eq!(id_in_metadata(&mut raw, version, "spontaneous"), made_by_asking, "version {version}");
                if version < 12 {
                    continue;
                }
                let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(created.id);
                let told = raw.call(version, &MetadataRequest::default().with_topics(Some(vec![by_id])));
                assert_eq!(told.topics[0].name, Some(topic_name("named")), "version {version}");
            }
            for version in versions(1).filter(|version| *version >= 13) {
                let response = raw.call(version, &fetch_request(version, &[(&created, &[(0, 0)])]));
                assert_eq!(response.responses[0].topic_id, created.id);
                assert_eq!(records(only_partition(&response)), [(0, "a".to_owned())], "version {version}");
            }
        }
    };
    same_everywhere(&gateway);
    gateway.kill9();
    gateway.restart(Options::new(3));
    same_everywhere(&gateway);

    let mut raw = Raw::connect(gateway.bootstrap());
    delete(&mut raw, "named");
    let again = create(&mut raw, "named", 1, &[]);
    assert!(!again.id.is_nil() && again.id != created.id);
    assert_eq!(id_in_metadata(&mut raw, 12, "named"), again.id);
}

/// Parks a Fetch at the end of a partition, deletes the topic, and returns the Fetch's code.
fn code_of_a_fetch_parked_over_a_deletion(gateway: &Gateway, version: i16, topic: &Topic, end: i64) -> i16 {
    let mut parked = Raw::connect(gateway.bootstrap());
    let request = fetch_request(version, &[(topic, &[(0, end)])]).with_max_wait_ms(FOR_EVER_MS);
    let correlation_id = parked.send(version, &request);
    assert!(parked.is_silent(A_MOMENT), "there is nothing to read");
    delete(&mut Raw::connect(gateway.bootstrap()), topic.name.as_str());
    only_partition(&parked.receive::<FetchRequest>(version, correlation_id)).error_code
}

#[test]
fn k039_a_fetch_that_waits_is_answered_at_once_when_its_topic_is_deleted() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in [4, 11, 12, 13, 18] {
        let old = create(&mut raw, "phoenix", 1, &[]);
        old.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["x", "y", "z"]));
        let code = code_of_a_fetch_parked_over_a_deletion(&gateway, version, &old, 3);
        let allowed: &[i16] = if version < 13 { &[3] } else { &[3, 100] };
        assert!(allowed.contains(&code), "code {code}, version {version}");
        assert_eq!(metadata(&mut raw, "phoenix").0, 3, "until it is made again");

        let new = create(&mut raw, "phoenix", 1, &[]);
        new.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["new"]));
        // The offset that the consumer had; by id, it cannot even mistake the one for the other.
        let stale = raw.call(version, &fetch_request(version, &[(&old, &[(0, 3)])]).with_max_wait_ms(FOR_EVER_MS));
        assert_eq!(only_partition(&stale).error_code, if version < 13 { 1 } else { 100 }, "version {version}");
        let found = raw.call(version, &fetch_request(version, &[(&new, &[(0, 0)])]));
        assert_eq!(records(only_partition(&found)), [(0, "new".to_owned())], "version {version}");
        delete(&mut raw, "phoenix");
    }
}

/// A consumer at the first offset of a partition.
fn consumer_of(gateway: &Gateway, topic: &TopicName) -> BaseConsumer {
    let consumer = reader(gateway, &[("auto.offset.reset", "earliest"), ("topic.metadata.refresh.interval.ms", "200")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic.as_str(), 0, Offset::Beginning).expect("offset");
    consumer.assign(&list).expect("assign");
    consumer
}

#[test]
fn k039_a_stock_consumer_reads_on_when_its_topic_is_deleted_and_made_again() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", false));
    let mut raw = Raw::connect(gateway.bootstrap());
    let old = create(&mut raw, "phoenix", 1, &[]);
    old.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["x", "y", "z"]));
    let consumer = consumer_of(&gateway, &old.name);
    assert_eq!(read(&consumer, 3).len(), 3);
    delete(&mut raw, "phoenix");
    let new = create(&mut raw, "phoenix", 1, &[]);
    new.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["new"]));
    let deadline = std::time::Instant::now() + LIVENESS;
    let seen = loop {
        assert!(std::time::Instant::now() < deadline, "hung: the record of the topic made again");
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            break crate::common::librdkafka::Seen::from(&message);
        }
    };
    assert_eq!((seen.text(), seen.offset), ("new", 0));
}
