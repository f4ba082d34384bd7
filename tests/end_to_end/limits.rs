//! Every limit that has a setting, through a socket: at the limit, and one past it. Those of groups are in
//! `group_limits`.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{GroupId, MetadataRequest};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::raw::{Raw, Writer, batch, frame, string, topic_name};
use crate::common::{LIVENESS, eventually};

fn is_alive(gateway: &Gateway) {
    let response = Raw::connect(gateway.bootstrap()).call(9, &MetadataRequest::default());
    assert_eq!(response.brokers.len(), gateway.nodes().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offset_metadata_and_partitions_are_bounded() {
    let options = Options::new(2)
        .set("offset-metadata-max-bytes", 10)
        .set("max-partitions-per-topic", 4)
        .set("max-partitions", 6);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut create = |name: &str, partitions: i32| {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        raw.call(5, &request).topics[0].error_code
    };
    assert_eq!(create("five", 5), 37);
    assert_eq!(create("four", 4), 0);
    assert_eq!(create("three", 3), 37, "seven in all");
    assert_eq!(create("two", 2), 0);
    let commit = |note: &str| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(1)
            .with_committed_metadata(Some(string(note)));
        let topic = OffsetCommitRequestTopic::default().with_name(topic_name("four")).with_partitions(vec![partition]);
        OffsetCommitRequest::default()
            .with_group_id(GroupId(string("notes")))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic])
    };
    let mut code = |note: &str| raw.call(8, &commit(note)).topics[0].partitions[0].error_code;
    assert_eq!((code("0123456789"), code("0123456789a")), (0, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_bounded_by_size_and_by_what_they_decompress_to() {
    let options = Options::new(2).set("message-max-bytes", "2KiB").set("max-decompressed-bytes", "4KiB");
    let gateway = Gateway::start(options);
    create_topic(&gateway, "bounded", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut produce = |records: Bytes| {
        let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
        let topic = TopicProduceData::default().with_name(topic_name("bounded")).with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
        raw.call(9, &request).responses[0].partition_responses[0].error_code
    };
    let of_size = |size: usize| {
        let empty = batch(Writer::NOBODY, 1, &[&"x".repeat(1_000)]).len() - 1_000;
        batch(Writer::NOBODY, 1, &[&"x".repeat(size - empty)])
    };
    let (fits, over) = (of_size(2_048), of_size(2_049));
    assert_eq!((fits.len(), over.len()), (2_048, 2_049));
    assert_eq!((produce(fits), produce(over)), (0, 10));
    let zeros = "0".repeat(10_000);
    let bomb = crate::common::raw::compressed(&[&zeros]);
    assert!(bomb.len() < 2_048);
    assert_eq!(produce(bomb), 10, "10,000 bytes in a few compressed ones");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_and_counts_are_bounded() {
    let options = Options::new(1)
        .set("max-frame-size", "64KiB")
        .set("max-decoded-bytes", "16KiB")
        .set("max-in-flight-bytes", "1MiB")
        .set("message-max-bytes", "16KiB")
        .set("max-member-blob-bytes", "16KiB");
    let gateway = Gateway::start(options);
    let padded = |bytes: usize| {
        let mut whole = BytesMut::from(&frame(7, 9, &MetadataRequest::default())[..]);
        // Bytes behind a request are ignored.
        whole.put_bytes(0, bytes + 4 - whole.len());
        whole[..4].copy_from_slice(&(bytes as u32).to_be_bytes());
        whole.freeze()
    };
    let mut raw = Raw::connect(gateway.bootstrap());
    raw.send_bytes(&padded(65_536));
    raw.receive_frame();
    raw.send_bytes(&padded(65_537)[..8]);
    raw.assert_closed();

    // 128 bytes are counted for each name.
    let named = |count: usize| {
        let topics = (0..count).map(|n| {
            kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
                .with_name(Some(topic_name(&format!("t{n}"))))
        });
        MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false)
    };
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(raw.call(9, &named(100)).topics.len(), 100);
    raw.send(9, &named(200));
    raw.assert_closed();
    is_alive(&gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_counted_in_all_and_by_address() {
    for (setting, most) in [("max-connections", 3), ("max-connections-per-ip", 3)] {
        let gateway = Gateway::start(Options::new(2).set(setting, most));
        let served = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
            let asked = stream.write_all(&frame(7, 9, &MetadataRequest::default()));
            asked.is_ok() && stream.read_exact(&mut [0; 4]).is_ok()
        };
        let mut open: Vec<TcpStream> = (0..most)
            .map(|_| {
                let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
                assert!(served(&mut stream));
                stream
            })
            .collect();
        let mut turned_away = TcpStream::connect(gateway.bootstrap()).expect("connect");
        assert!(!served(&mut turned_away), "{setting}: one more");
        open.pop();
        eventually("a place for one more", || served(&mut TcpStream::connect(gateway.bootstrap()).expect("connect")))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_idle_clients_are_let_go() {
    let options = Options::new(1).set("frame-timeout", "200ms").set("idle-timeout", "4s").set("send-timeout", "500ms");
    let gateway = Gateway::start(options);
    let mut half_a_frame = Raw::connect(gateway.bootstrap());
    half_a_frame.send_bytes(&[0, 0, 1, 0, 0, 3]);
    half_a_frame.assert_closed();
    let mut silent = Raw::connect(gateway.bootstrap());
    silent.assert_closed();

    // Answers that nobody reads: the gateway stops reading, and closes when a send makes no way.
    create_topic(&gateway, "full", 1).await;
    let mut reader = TcpStream::connect(gateway.bootstrap()).expect("connect");
    reader.set_write_timeout(Some(LIVENESS)).expect("write timeout");
    let names: Vec<_> = (0..400).map(|n| format!("{}-{n}", "long".repeat(50))).collect();
    let topics = names.iter().map(|name| {
        kafka_protocol::messages::metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)))
    });
    let request = MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
    let request = frame(7, 9, &request);
    let closed = (0..10_000).any(|_| reader.write_all(&request).is_err());
    assert!(closed, "a client that reads nothing is closed");
    is_alive(&gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_read_ahead_up_to_their_limit_and_no_further() {
    let gateway = Gateway::start(Options::new(1).set("max-requests-in-flight", 2));
    create_topic(&gateway, "quiet", 1).await;
    create_topic(&gateway, "loud", 1).await;
    let produce = |topic: &str| {
        let records = batch(Writer::NOBODY, 1, &["x"]);
        let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
        let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
        ProduceRequest::default().with_acks(1).with_timeout_ms(30_000).with_topic_data(vec![topic])
    };
    let partition = FetchPartition::default().with_partition(0).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic_name("quiet")).with_partitions(vec![partition]);
    let fetch = FetchRequest::default()
        .with_max_wait_ms(60_000)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let end_of_loud = |raw: &mut Raw| crate::offsets::list_offsets(raw, 9, "loud", 0, -1).2;
    let mut other = Raw::connect(gateway.bootstrap());

    // The waiting Fetch is one, the first Produce the second; the next is not read while both are open.
    let mut raw = Raw::connect(gateway.bootstrap());
    let waiting = raw.send(11, &fetch);
    let produced = [raw.send(9, &produce("loud")), raw.send(9, &produce("loud"))];
    eventually("the first record behind the Fetch", || end_of_loud(&mut other) == 1).await;
    assert!(raw.is_silent(std::time::Duration::from_millis(300)), "the Fetch waits");
    assert_eq!(end_of_loud(&mut other), 1, "the second is past the limit");
    other.call(9, &produce("quiet"));
    raw.receive::<FetchRequest>(11, waiting);
    for correlation_id in produced {
        let answer = raw.receive::<ProduceRequest>(9, correlation_id);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
    assert_eq!(end_of_loud(&mut other), 2);
}
