//! What goes back when the producer wants no answer: nothing, or the end of its connection.

use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};

use super::produce_versions;
use crate::common::gateway::{Gateway, Options};
use crate::common::partition::{create, unknown};
use crate::common::raw::{Raw, frame};
use crate::common::record_batch::RecordBatch;

/// What two more bursts may leave in memory: their records in the tail cache, and what the allocator keeps.
const MEMORY_KIB: u64 = 64 << 10;

#[test]
fn k011_a_produce_with_acks_0_is_answered_with_nothing_at_all_in_every_version() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "quiet", 1, &[]).partition(0);
    for version in produce_versions() {
        let records = Some(RecordBatch::of(&["v"]).bytes());
        raw.send(version, &partition.produce_request(version, 0, records));
        // The next frame that arrives is this request's.
        assert_eq!(raw.call(0, &ApiVersionsRequest::default()).error_code, 0, "version {version}");
    }
    let count = produce_versions().count() as i64;
    assert_eq!(partition.ends(&mut raw), (0, count), "all of them were written");
}

#[test]
fn k012_ten_thousand_unanswered_produces_hold_up_no_answer_and_no_memory() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "burst", 1, &[]).partition(0);
    let request = partition.produce_request(9, 0, Some(RecordBatch::of(&["v"]).bytes()));
    let burst: Vec<u8> = (0..10_000).flat_map(|n| frame(n, 9, &request)).collect();
    let mut after_first = 0;
    for round in 1..=3 {
        raw.send_bytes(&burst);
        assert!(!raw.call(9, &MetadataRequest::default()).brokers.is_empty());
        assert_eq!(partition.ends(&mut raw).1, 10_000 * round, "behind the burst on its connection");
        if round == 1 {
            after_first = gateway.rss();
        }
    }
    let grown = gateway.rss().saturating_sub(after_first);
    assert!(grown < MEMORY_KIB, "{grown} KiB more");
}

#[test]
fn k013_a_failed_produce_with_acks_0_closes_its_connection_alone_and_the_log_says_where_and_why() {
    let gateway = Gateway::start(Options::new(2).set("auto-create-topics", "false"));
    let mut other = Raw::connect(gateway.bootstrap());
    let known = create(&mut other, "known", 1, &[]);
    let records = || Some(RecordBatch::of(&["v"]).bytes());
    for version in produce_versions() {
        let by_id = version >= 13;
        for (partition, why) in [(unknown("missing").partition(0), "missing-0"), (known.partition(999), "known-999")] {
            let mut raw = Raw::connect(gateway.bootstrap());
            raw.send(version, &partition.produce_request(version, 0, records()));
            raw.assert_closed();
            let said = if by_id { format!("{}-{}", partition.topic.id, partition.index) } else { why.to_string() };
            let code =
                if by_id && why == "missing-0" { "UNKNOWN_TOPIC_ID(100)" } else { "UNKNOWN_TOPIC_OR_PARTITION(3)" };
            wait_for_line(&gateway, &[&said, code]);
        }
        assert_eq!(other.call(0, &ApiVersionsRequest::default()).error_code, 0, "the other connection is served");
    }
    // The same for what is wrong with the records, and for what nobody may: a transaction.
    let mut broken = records().expect("records").to_vec();
    *broken.last_mut().expect("bytes") ^= 1;
    let transactional = kafka_protocol::messages::TransactionalId("t".to_string().into());
    let sound = known.partition(0).produce_request(9, 0, records());
    for (request, code) in [
        (known.partition(0).produce_request(9, 0, Some(broken.into())), "CORRUPT_MESSAGE(2)"),
        (sound.with_transactional_id(Some(transactional)), "INVALID_REQUEST(42)"),
    ] {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send(9, &request);
        raw.assert_closed();
        wait_for_line(&gateway, &["known-0", code]);
    }
    assert_eq!(known.partition(0).ends(&mut other), (0, 0));
}

/// Waits until the gateway has logged a line with all of `parts`: it logs through a thread of its own.
fn wait_for_line(gateway: &Gateway, parts: &[&str]) {
    let deadline = std::time::Instant::now() + crate::common::LIVENESS;
    while !gateway.written().lines().any(|line| parts.iter().all(|part| line.contains(part))) {
        assert!(std::time::Instant::now() < deadline, "no line with {parts:?}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
