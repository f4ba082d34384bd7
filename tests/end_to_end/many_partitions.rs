//! Requests of very many partitions: they are decoded and encoded away from their shard, and handled with
//! pauses for others; clients see nothing of that.

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, BrokerId, DeleteRecordsRequest, ListOffsetsRequest, MetadataRequest, OffsetFetchRequest,
};

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit_codes, commit_request, committed};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, frame, topic_name};

const MANY: i32 = 50_000;

/// Every topic of the tests has one partition: all others do not exist.
fn only_the_first_exists(codes: impl ExactSizeIterator<Item = i16>) {
    assert_eq!(codes.len(), MANY as usize);
    for (partition, code) in codes.enumerate() {
        assert_eq!(code, if partition == 0 { 0 } else { 3 }, "partition {partition}");
    }
}

fn list_offsets() -> ListOffsetsRequest {
    let partition = |index| {
        ListOffsetsPartition::default().with_partition_index(index).with_current_leader_epoch(-1).with_timestamp(-1)
    };
    let topic =
        ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions((0..MANY).map(partition).collect());
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_are_answered_whole_and_in_their_turn() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());

    // Sent in one go: the small ones behind the large one wait for it.
    let large = raw.send(7, &list_offsets());
    let small: Vec<i32> = (0..5).map(|_| raw.send(0, &ApiVersionsRequest::default())).collect();
    let response = raw.receive::<ListOffsetsRequest>(7, large);
    only_the_first_exists(response.topics[0].partitions.iter().map(|partition| partition.error_code));
    for correlation_id in small {
        assert_eq!(raw.receive::<ApiVersionsRequest>(0, correlation_id).error_code, 0);
    }

    let partition = |index| DeleteRecordsPartition::default().with_partition_index(index).with_offset(-1);
    let topic =
        DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions((0..MANY).map(partition).collect());
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let response = raw.call(2, &request);
    only_the_first_exists(response.topics[0].partitions.iter().map(|partition| partition.error_code));

    let offsets: Vec<(i32, i64)> = (0..MANY).map(|partition| (partition, 7)).collect();
    only_the_first_exists(commit_codes(&mut raw, 8, &commit_request("g", "t", &offsets)).into_iter());
    let partitions: Vec<i32> = (0..MANY).collect();
    let found = committed(&mut raw, "g", "t", &partitions);
    assert_eq!((found.len(), found[0]), (MANY as usize, 7));
    assert!(found[1..].iter().all(|offset| *offset == -1));

    let names: Vec<String> = (0..5_000).map(|n| format!("absent-{n}")).chain(["t".to_owned()]).collect();
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    let request = MetadataRequest::default().with_topics(Some(topics.collect()));
    let response = raw.call(12, &request.with_allow_auto_topic_creation(false));
    let told: Vec<(&str, i16)> =
        response.topics.iter().map(|topic| (topic.name.as_ref().expect("a name").as_str(), topic.error_code)).collect();
    let expected: Vec<(&str, i16)> = names.iter().map(|name| (&name[..], if name == "t" { 0 } else { 3 })).collect();
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_that_cannot_be_decoded_closes_its_own_connection() {
    let mut gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    // Its last field is a flag; the names before it are no UTF-8.
    let names = (0..10_000).map(|_| MetadataRequestTopic::default().with_name(Some(topic_name("name"))));
    let request = MetadataRequest::default().with_topics(Some(names.collect()));
    let mut bytes = frame(1, 4, &request).to_vec();
    for at in bytes.len() - 1_000..bytes.len() - 10 {
        if bytes[at..].starts_with(b"name") {
            bytes[at] = 0xff;
        }
    }
    raw.send_bytes(&bytes);
    raw.assert_closed();
    assert!(gateway.is_alive());
    let response = Raw::connect(gateway.bootstrap()).call(8, &OffsetFetchRequest::default());
    assert!(response.groups.is_empty());
}
