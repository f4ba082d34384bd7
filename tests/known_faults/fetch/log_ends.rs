//! The ends of a log as Fetch tells them: log start offset, high watermark, and offsets outside of both.

use std::time::Duration;

use kafka_protocol::messages::fetch_response::PartitionData;
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::common::LIVENESS;
use crate::common::fetch::{
    FOR_EVER_MS, fetch_request, offsets, only_partition, partitions, records, size, with_partition_max_bytes,
};
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{read, reader};
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, Writer, batch};

/// High watermark, last stable offset and log start offset; versions before 5 do not say the last.
fn ends(version: i16, partition: &PartitionData) -> (i64, i64, i64) {
    let start = if version >= 5 { partition.log_start_offset } else { 0 };
    (partition.high_watermark, partition.last_stable_offset, start)
}

#[test]
fn k036_an_offset_out_of_range_is_answered_at_once_and_the_other_partitions_are_served() {
    let gateway = Gateway::start(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "cut", 3, &[]);
    for index in 0..3 {
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["a", "b"]));
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["c", "d"]));
    }
    topic.partition(1).delete_records(&mut raw, 2);
    for version in versions(1) {
        for offset in [14, 5, 1, 0, -5, i64::MIN, i64::MAX] {
            // More than there is, and for ever: only the error can end it.
            let request = fetch_request(version, &[(&topic, &[(0, 2), (1, offset), (2, 4)])]);
            let response = raw.call(version, &request.with_min_bytes(1 << 20).with_max_wait_ms(FOR_EVER_MS));
            assert_eq!(response.error_code, 0);
            let all = partitions(&response);
            assert_eq!(all.iter().map(|p| p.error_code).collect::<Vec<_>>(), [0, 1, 0], "{offset}, version {version}");
            assert_eq!((offsets(all[0]), size(all[1]), size(all[2])), (vec![2, 3], 0, 0), "version {version}");
            // Kafka has nothing to say of the log here; the truth would do as well, zeros would not.
            let told = ends(version, all[1]);
            let nothing = (-1, -1, if version >= 5 { -1 } else { 0 });
            let truth = (4, 4, if version >= 5 { 2 } else { 0 });
            assert!([nothing, truth].contains(&told), "{told:?}, version {version}");
        }
    }
}

#[test]
fn k036_a_stock_consumer_resets_or_fails_as_it_is_told_to() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "cut", 1, &[]);
    for values in [["a", "b"], ["c", "d"]] {
        topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &values));
    }
    topic.partition(0).delete_records(&mut raw, 2);
    for offset in [0, 1_000] {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("cut", 0, Offset::Offset(offset)).expect("offset");
        let resets = reader(&gateway, &[("auto.offset.reset", "earliest")]);
        resets.assign(&list).expect("assign");
        let seen = read(&resets, 2);
        assert_eq!(seen.iter().map(|seen| (seen.offset, seen.text())).collect::<Vec<_>>(), [(2, "c"), (3, "d")]);

        let fails = reader(&gateway, &[("auto.offset.reset", "error")]);
        fails.assign(&list).expect("assign");
        let deadline = std::time::Instant::now() + LIVENESS;
        let error = loop {
            assert!(std::time::Instant::now() < deadline, "hung: the consumer's error");
            if let Some(polled) = fails.poll(Duration::from_millis(100)) {
                break polled.map(|message| message.offset()).expect_err("no record is to come");
            }
        };
        assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::AutoOffsetReset), "{error}");
    }
}

#[test]
fn k037_the_high_watermark_is_the_offset_of_the_next_record_and_can_be_fetched() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(1) {
        let topic = create(&mut raw, &format!("idle-{version}"), 1, &[]);
        for next in 0..3 {
            let at_the_end = fetch_request(version, &[(&topic, &[(0, next)])]);
            for max_wait_ms in [0, 10] {
                let response = raw.call(version, &at_the_end.clone().with_max_wait_ms(max_wait_ms));
                let partition = only_partition(&response);
                assert_eq!((partition.error_code, size(partition)), (0, 0), "version {version}");
                assert_eq!(ends(version, partition), (next, next, 0), "version {version}");
                assert!(partition.records.is_some(), "no records are an empty set, not null");
            }
            let appended = topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["v"]));
            assert_eq!(appended, next);
            let response = raw.call(version, &at_the_end);
            assert_eq!(records(only_partition(&response)), [(next, "v".to_owned())], "version {version}");
            assert_eq!(ends(version, only_partition(&response)), (next + 1, next + 1, 0));
        }
    }
}

#[test]
fn k038_a_full_fetch_lists_every_partition_with_the_real_ends_of_its_log() {
    let gateway = Gateway::start(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "tails", 4, &[]);
    for index in [1, 2] {
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["a", "b", "c"]));
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["d"]));
    }
    topic.partition(2).delete_records(&mut raw, 3);
    let real = [(0, 0, 0), (4, 4, 0), (4, 4, 3), (0, 0, 0)];
    for version in versions(1) {
        // At the end of each, and where all but the first batch of all are over the budget.
        let at_the_ends = fetch_request(version, &[(&topic, &[(0, 0), (1, 4), (2, 4), (3, 0)])]);
        let over_budget = fetch_request(version, &[(&topic, &[(0, 0), (1, 0), (2, 3), (3, 0)])]).with_max_bytes(1);
        let over_budget = with_partition_max_bytes(over_budget, 1);
        for request in [at_the_ends, over_budget] {
            let sessions: &[i32] = if version >= 7 { &[-1, 0] } else { &[-1] };
            for epoch in sessions {
                let response = raw.call(version, &request.clone().with_session_epoch(*epoch));
                let all = partitions(&response);
                assert_eq!(all.iter().map(|p| p.partition_index).collect::<Vec<_>>(), [0, 1, 2, 3]);
                assert!(all.iter().all(|p| p.error_code == 0), "version {version}");
                let told: Vec<_> = all.iter().map(|p| ends(version, p)).collect();
                let start = |start| if version >= 5 { start } else { 0 };
                assert_eq!(told, real.map(|(high, stable, low)| (high, stable, start(low))), "version {version}");
            }
        }
    }
}

#[test]
fn k040_the_first_record_has_offset_0_and_nothing_hidden_takes_an_offset() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "dense", 1, &[]);
    let partition = topic.partition(0);
    assert_eq!(partition.ends(&mut raw), (0, 0));
    assert_eq!(partition.append(&mut raw, batch(Writer::NOBODY, 1, &["first"])), 0);
    for version in versions(2) {
        assert_eq!(partition.lookup(&mut raw, version, -2).1, 0, "version {version}");
        assert_eq!(partition.lookup(&mut raw, version, -1).1, 1, "version {version}");
    }
    let reader = reader(&gateway, &[]);
    assert_eq!(reader.fetch_watermarks("dense", 0, LIVENESS).expect("watermarks"), (0, 1));
    for next in 1..20 {
        assert_eq!(partition.append(&mut raw, batch(Writer::NOBODY, 1, &["next"])), next);
    }
    assert_eq!(offsets(&partition.fetch(&mut raw, 12, 0)), (0..20).collect::<Vec<_>>());
    assert_eq!(reader.fetch_watermarks("dense", 0, LIVENESS).expect("watermarks"), (0, 20));
}
