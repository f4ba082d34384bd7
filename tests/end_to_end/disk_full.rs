//! Writes that fail because there is no more room: the log that they were for closes, the others go on, and
//! after a restart with room again everything acknowledged is there.
//!
//! A limit on the size of the process's files stands for the full disk: the kernel refuses the write.

use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use rdkafka::topic_partition_list::Offset;

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit, commit_codes, commit_request, committed};
use crate::common::librdkafka::{create_topic, read_from};
use crate::common::raw::{Raw, Writer, batch, topic_name};
use crate::connections::found_group_with_session;
use crate::routing::heartbeat;

const ROOM: u64 = 1 << 20;

fn produce(raw: &mut Raw, topic: &str, value: &str) -> i16 {
    let records = batch(Writer::NOBODY, 1_000, &[value]);
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let data = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![data]);
    raw.call(9, &request).responses[0].partition_responses[0].error_code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_room_closes_alone_and_takes_records_again_after_a_restart() {
    let options = || Options::new(2).embedded("the logs that have no room are the gateway's own");
    let mut gateway = Gateway::start(options());
    create_topic(&gateway, "filling", 1).await;
    create_topic(&gateway, "small", 1).await;
    gateway.limit_files(Some(ROOM));
    let mut raw = Raw::connect(gateway.bootstrap());
    let value = "x".repeat(50_000);
    let mut acknowledged = 0;
    let code = loop {
        match produce(&mut raw, "filling", &format!("{acknowledged}-{value}")) {
            0 => acknowledged += 1,
            code => break code,
        }
        assert!(acknowledged < 100, "the limit holds");
    };
    assert_eq!(code, 56, "KAFKA_STORAGE_ERROR");
    assert_eq!(produce(&mut raw, "filling", "one that would fit"), 56, "it stays closed");
    assert_eq!(produce(&mut raw, "small", "elsewhere"), 0, "other logs go on");
    let member = found_group_with_session(&mut raw, "workers", 30_000);
    assert_eq!(heartbeat(&gateway, "workers", &member, 1), 0, "and so do groups");
    let kept = |gateway: &Gateway, count: usize| {
        tokio::task::block_in_place(|| read_from(gateway, "filling", &[(0, Offset::Beginning)], count))
    };
    assert_eq!(kept(&gateway, acknowledged).len(), acknowledged, "what is there can be read");
    drop(raw);

    assert!(tokio::task::block_in_place(|| gateway.sigterm()).success());
    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(produce(&mut raw, "filling", "after"), 0);
    let seen = kept(&gateway, acknowledged + 1);
    for (nth, record) in seen.iter().take(acknowledged).enumerate() {
        assert!(record.text().starts_with(&format!("{nth}-")), "record {nth}");
    }
    assert_eq!(seen[acknowledged].text(), "after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_groups_without_room_is_told_once_however_often_it_refuses() {
    let options = || Options::new(1).embedded("the logs that have no room are the gateway's own");
    let mut gateway = Gateway::start(options());
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "workers", "t", &[(0, 7)]);
    gateway.limit_files(Some(1));
    for attempt in 0..50 {
        let codes = commit_codes(&mut raw, 8, &commit_request("workers", "t", &[(0, 8 + attempt)]));
        assert_eq!(codes, [15], "COORDINATOR_NOT_AVAILABLE");
    }
    gateway.until_logged(&["groups and offsets cannot be kept"]);
    drop(raw);
    gateway.ask_to_stop();
    let (_, written) = tokio::task::block_in_place(|| gateway.end());
    assert_eq!(written.matches("groups and offsets cannot be kept").count(), 1, "{written}");

    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(committed(&mut raw, "workers", "t", &[0]), [7], "what was acknowledged is there, and no more");
}
