//! Whose clock stamped a record, and what the batch says of its largest time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::message::Timestamp;

use super::produce_versions;
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{producer, read_all, unkeyed};
use crate::common::partition::create;
use crate::common::raw::Raw;
use crate::common::record_batch::{LOG_APPEND_TIME, RecordBatch, record};
use crate::common::within;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

/// Why what the type of a topic's timestamps changes is not held against Iggy.
const NO_TYPE: &str = "Iggy keeps no message.timestamp.type of a topic";

#[test]
fn k022_the_append_time_is_told_for_log_append_time_only_in_every_version() {
    let gateway = Gateway::start(Options::new(2).embedded(NO_TYPE));
    let mut raw = Raw::connect(gateway.bootstrap());
    let stamped = create(&mut raw, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]).partition(0);
    let plain = create(&mut raw, "plain", 1, &[("message.timestamp.type", "CreateTime")]).partition(0);
    for (offset, version) in (0..).zip(produce_versions()) {
        let batch = RecordBatch::of(&["v"]);
        let before = now_ms();
        let produced = stamped.produce(&mut raw, version, Some(batch.bytes()));
        assert_eq!(produced.error_code, 0);
        let told = produced.log_append_time_ms;
        assert!((before..=now_ms()).contains(&told), "version {version}: {told}");
        let (header, _) = stamped.batches(&mut raw, offset)[0];
        assert_eq!((header.attributes & LOG_APPEND_TIME, header.max_timestamp), (LOG_APPEND_TIME, told));
        assert_eq!(stamped.lookup(&mut raw, 9, told).0, 0);

        let produced = plain.produce(&mut raw, version, Some(batch.bytes()));
        assert_eq!((produced.error_code, produced.log_append_time_ms), (0, -1), "version {version}");
        let (header, _) = plain.batches(&mut raw, offset)[0];
        assert_eq!((header.attributes & LOG_APPEND_TIME, header.max_timestamp), (0, 1_000));
    }
    // The broker's own mark is nothing that a producer may set.
    let forged = RecordBatch { attributes: LOG_APPEND_TIME, ..RecordBatch::of(&["v"]) };
    for partition in [&stamped, &plain] {
        assert_eq!(partition.produce(&mut raw, 9, Some(forged.bytes())).error_code, 32);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k022_librdkafka_reports_the_type_of_timestamp_that_the_topic_has() {
    let gateway = Gateway::start(Options::new(2).embedded(NO_TYPE));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    create(&mut raw, "plain", 1, &[]);
    let producer = producer(&gateway, &[]);
    for topic in ["stamped", "plain"] {
        let before = now_ms();
        let sent = producer.send(unkeyed(topic, "v").timestamp(1_234), Duration::ZERO);
        let delivered = within("delivery", sent).await.expect("delivered");
        let read = tokio::task::block_in_place(|| read_all(&gateway, topic, 1, 1)[0].timestamp);
        match delivered.timestamp {
            Timestamp::LogAppendTime(time) if topic == "stamped" => {
                assert!((before..=now_ms()).contains(&time), "{time}");
                assert_eq!(read, time);
            }
            Timestamp::CreateTime(time) if topic == "plain" => assert_eq!((time, read), (1_234, 1_234)),
            other => panic!("{topic}: {other:?}"),
        }
    }
}

#[test]
fn a_record_from_the_future_is_refused_for_it_would_never_be_old() {
    let gateway = Gateway::start(Options::new(2).embedded(NO_TYPE));
    let mut raw = Raw::connect(gateway.bootstrap());
    let plain = create(&mut raw, "plain", 1, &[]).partition(0);
    let stamped = create(&mut raw, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]).partition(0);
    let hour = 3_600_000;
    let at = |time: i64| RecordBatch { base_timestamp: time, max_timestamp: time, ..RecordBatch::of(&["v"]) }.bytes();
    for version in produce_versions() {
        // A clock that is a little ahead is everybody's; microseconds taken for milliseconds are a mistake.
        for (time, code) in [(now_ms() + hour / 2, 0), (now_ms() + 2 * hour, 32), (now_ms() * 1_000, 32)] {
            let produced = plain.produce(&mut raw, version, Some(at(time)));
            assert_eq!(produced.error_code, code, "version {version}, {time}");
            assert_eq!(stamped.produce(&mut raw, version, Some(at(time))).error_code, 0, "its time is not kept");
        }
        // Whatever the header says, the records count.
        let hidden = RecordBatch { max_timestamp: -1, base_timestamp: now_ms(), ..RecordBatch::of(&["v"]) };
        let hidden = RecordBatch { payload: record(0, 2 * hour, "v"), ..hidden };
        assert_eq!(plain.produce(&mut raw, version, Some(hidden.bytes())).error_code, 32, "version {version}");
    }
    assert_eq!(plain.ends(&mut raw).1, produce_versions().count() as i64);
}

#[test]
fn k023_a_largest_time_that_the_producer_left_unset_is_made_right_before_it_is_stored() {
    let options = || {
        Options::new(2)
            .embedded("Iggy tells when a record was appended, and not the record's own time")
            .set("tail-cache-bytes", 0)
    };
    let mut gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "unset", 1, &[]).partition(0);
    let base = 1_600_000_000_000;
    let records: Vec<_> = [0, 7, 3].iter().zip(0..).map(|(time, nth)| record(nth, *time, "v")).collect();
    let mut wanted = Vec::new();
    // Unset, zero, too small, and too large: what is true is found in the records.
    for (nth, max_timestamp) in (0..).zip([-1, 0, base, base + 1_000_000, i64::MAX]) {
        let base_timestamp = base + nth * 1_000;
        let batch = RecordBatch { base_timestamp, max_timestamp, ..RecordBatch::of_records(&records) };
        let batch = if nth % 2 == 0 { batch } else { batch.gzip() };
        let offset = partition.append(&mut raw, batch.bytes());
        wanted.push((offset, base_timestamp));
    }
    for after_a_kill in [false, true] {
        if after_a_kill {
            gateway.kill9();
            gateway.restart(options());
            raw = Raw::connect(gateway.bootstrap());
        }
        for &(offset, base_timestamp) in &wanted {
            let (header, _) = partition.batches(&mut raw, offset)[0];
            assert_eq!(header.max_timestamp, base_timestamp + 7);
            assert_eq!(partition.lookup(&mut raw, 9, base_timestamp), (0, offset, base_timestamp));
            assert_eq!(partition.lookup(&mut raw, 9, base_timestamp + 4), (0, offset + 1, base_timestamp + 7));
        }
        let (last_offset, last_time) = wanted[wanted.len() - 1];
        assert_eq!(partition.lookup(&mut raw, 9, -3), (0, last_offset + 1, last_time + 7));
        assert_eq!(partition.lookup(&mut raw, 9, last_time + 8), (0, -1, -1), "none that late");
    }
}
