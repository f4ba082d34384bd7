//! How long a Fetch waits.

use std::time::{Duration, Instant};

use kafka_protocol::messages::{FetchRequest, MetadataRequest};
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::common::LIVENESS;
use crate::common::fetch::{
    FOR_EVER_MS, fetch_request, offsets, only_partition, partitions, records, size, with_partition_max_bytes,
};
use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::reader;
use crate::common::metrics::metric;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, Writer, batch};

/// Long enough to see that something waits. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(200);

#[test]
fn k034_a_fetch_at_the_end_is_held_for_its_time_and_then_answered_without_records() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "idle", 2, &[]);
    for version in versions(1) {
        // On one shard, and on both.
        for from in [&[(0, 0)][..], &[(0, 0), (1, 0)]] {
            let began = Instant::now();
            let response = raw.call(version, &fetch_request(version, &[(&topic, from)]).with_max_wait_ms(150));
            assert!(began.elapsed() >= Duration::from_millis(150), "{:?}, version {version}", began.elapsed());
            let all = partitions(&response);
            assert_eq!(all.len(), from.len());
            assert!(all.iter().all(|p| (p.error_code, size(p)) == (0, 0)), "version {version}");
        }
    }
}

#[test]
fn k034_a_fetch_is_held_until_there_are_min_bytes_and_no_longer() {
    let gateway = Gateway::start(Options::new(2));
    let mut writer = Raw::connect(gateway.bootstrap());
    let topic = create(&mut writer, "growing", 2, &[]);
    let mut raw = Raw::connect(gateway.bootstrap());
    let sent = batch(Writer::NOBODY, 1, &["0123456789"]);
    let request = fetch_request(12, &[(&topic, &[(0, 0), (1, 0)])]).with_max_wait_ms(FOR_EVER_MS);
    let correlation_id = raw.send(12, &request.with_min_bytes(3 * sent.len() as i32));
    for (index, offset) in [(0, 0), (1, 0)] {
        assert_eq!(topic.partition(index).append(&mut writer, sent.clone()), offset);
        assert!(raw.is_silent(A_MOMENT), "there is less than was asked for");
    }
    topic.partition(1).append(&mut writer, sent.clone());
    let response = raw.receive::<FetchRequest>(12, correlation_id);
    let all = partitions(&response);
    assert_eq!((offsets(all[0]), offsets(all[1])), (vec![0], vec![0, 1]));
}

#[test]
fn k034_records_that_come_while_a_fetch_asks_one_shard_after_the_other_are_not_missed() {
    // An append is to be as quick as a question.
    let gateway = Gateway::start(Options::new(2).set("fsync", "never"));
    let mut writer = Raw::connect(gateway.bootstrap());
    let topic = create(&mut writer, "growing", 2, &[]);
    let (one, other) = (topic.partition(0), topic.partition(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let sent = batch(Writer::NOBODY, 1, &["0123456789"]);
    for turn in 0..400 {
        let request = fetch_request(12, &[(&topic, &[(0, turn), (1, 2 * turn)])]);
        let request = request.with_max_wait_ms(FOR_EVER_MS).with_min_bytes(3 * sent.len() as i32);
        one.append(&mut writer, sent.clone());
        let asked = raw.send(12, &request);
        for _ in 0..turn % 50 * 20 {
            std::hint::spin_loop();
        }
        for _ in 0..2 {
            other.append(&mut writer, sent.clone());
        }
        let response = raw.receive::<FetchRequest>(12, asked);
        let sizes: Vec<usize> = partitions(&response).iter().map(|p| size(p)).collect();
        assert_eq!(sizes, [sent.len(), 2 * sent.len()], "turn {turn}");
    }
}

#[test]
fn k034_a_fetch_that_whole_batches_cannot_fill_does_not_wait_for_more() {
    for tail_cache in ["64MiB", "0"] {
        let gateway = Gateway::start(Options::new(2).set("tail-cache-bytes", tail_cache));
        let mut raw = Raw::connect(gateway.bootstrap());
        let topic = create(&mut raw, "thirds", 2, &[]);
        let value = "x".repeat(540);
        let third = batch(Writer::NOBODY, 1, &[&value]);
        assert!((500..1_000).contains(&third.len()), "one fits into the limits below, two do not");
        for index in [0, 1] {
            for _ in 0..3 {
                topic.partition(index).append(&mut raw, third.clone());
            }
        }
        // As much is there as the client wants of each partition, or of all: what it gets ends before.
        for (from, min_bytes, partition_max_bytes, max_bytes) in [
            (&[(0, 0)][..], 1_000, 1_000, 1 << 20),
            (&[(0, 0)], 1_000, 1 << 20, 1_000),
            (&[(0, 0), (1, 0)], 2_000, 1_000, 1 << 20),
            (&[(0, 0), (1, 0)], 1_000, 1 << 20, 1_000),
        ] {
            let request = fetch_request(12, &[(&topic, from)]).with_min_bytes(min_bytes).with_max_bytes(max_bytes);
            let request = with_partition_max_bytes(request, partition_max_bytes).with_max_wait_ms(FOR_EVER_MS);
            let response = raw.call(12, &request);
            let bytes: usize = partitions(&response).iter().map(|p| size(p)).sum();
            assert!((third.len()..min_bytes as usize).contains(&bytes), "{bytes} bytes of {min_bytes}");
        }
        // Here the limits of the partitions together are less than what is waited for.
        let request = fetch_request(12, &[(&topic, &[(0, 0), (1, 0)])]).with_min_bytes(2_001);
        raw.send(12, &with_partition_max_bytes(request, 1_000).with_max_wait_ms(FOR_EVER_MS));
        assert!(raw.is_silent(A_MOMENT), "cache {tail_cache}");
    }
}

#[test]
fn k034_an_idle_stock_consumer_asks_seldom() {
    let gateway = Gateway::start(Options::new(1).set("admin-listen", "127.0.0.1:0"));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "idle", 1, &[]);
    let consumer = reader(&gateway, &[("fetch.wait.max.ms", "500")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("idle", 0, Offset::Beginning).expect("offset");
    consumer.assign(&list).expect("assign");
    let fetches = || metric(&gateway, "ringgate_requests_total", "api=\"Fetch\"");
    let deadline = Instant::now() + LIVENESS;
    while fetches() == 0 {
        assert!(Instant::now() < deadline, "hung: the first Fetch");
        assert!(consumer.poll(Duration::from_millis(10)).is_none());
    }
    let (began, before) = (Instant::now(), fetches());
    // The time over which requests are counted, not a wait for anything.
    while began.elapsed() < Duration::from_secs(2) {
        assert!(consumer.poll(Duration::from_millis(100)).is_none());
    }
    let (asked, seconds) = (fetches() - before, began.elapsed().as_secs());
    assert!(asked <= 2 * seconds + 4, "{asked} fetches in {seconds} s");
}

#[test]
fn k035_a_fetch_that_need_not_wait_is_answered_at_once() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "empty", 2, &[]);
    let mut other = Raw::connect(gateway.bootstrap());
    for version in versions(1) {
        for (min_bytes, max_wait_ms) in [(0, FOR_EVER_MS), (-1, FOR_EVER_MS), (1, 0), (1, -1), (1 << 20, i32::MIN)] {
            let request = fetch_request(version, &[(&topic, &[(0, 0), (1, 0)])]);
            let response = raw.call(version, &request.with_min_bytes(min_bytes).with_max_wait_ms(max_wait_ms));
            assert_eq!(response.error_code, 0);
            let all = partitions(&response);
            assert_eq!(all.len(), 2);
            assert!(all.iter().all(|p| (p.error_code, size(p)) == (0, 0)), "version {version}");
        }
    }
    // Who asks without a pause keeps nobody else from being served.
    let nothing = fetch_request(12, &[(&topic, &[(0, 0)])]).with_min_bytes(0).with_max_wait_ms(FOR_EVER_MS);
    for _ in 0..100 {
        let asked: Vec<i32> = (0..16).map(|_| raw.send(12, &nothing)).collect();
        assert!(!other.call(9, &MetadataRequest::default()).brokers.is_empty());
        for correlation_id in asked {
            assert_eq!(raw.receive::<FetchRequest>(12, correlation_id).error_code, 0);
        }
    }
}

#[test]
fn k041_every_fetch_at_the_end_is_answered_within_its_time() {
    const CLIENTS: usize = 50;
    const ROUNDS: usize = 10;
    for advertise in [Advertise::Shards, Advertise::Gateway] {
        let gateway = Gateway::start(Options::new(2).advertise(advertise));
        let topic = create(&mut Raw::connect(gateway.bootstrap()), "idle", 4, &[]);
        let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(gateway.bootstrap())).collect();
        for round in 0..ROUNDS {
            let asked: Vec<i32> = clients
                .iter_mut()
                .enumerate()
                .map(|(nth, client)| {
                    // Of one partition, some, or all.
                    let from: Vec<_> = (0..=(nth as i32 + round as i32) % 4).map(|index| (index, 0)).collect();
                    client.send(12, &fetch_request(12, &[(&topic, &from)]).with_max_wait_ms(100 + nth as i32))
                })
                .collect();
            // `receive` fails when an answer does not come.
            for (client, correlation_id) in clients.iter_mut().zip(asked) {
                let response = client.receive::<FetchRequest>(12, correlation_id);
                assert!(partitions(&response).iter().all(|p| (p.error_code, size(p)) == (0, 0)));
            }
        }
        // The record that comes later is delivered to all of them.
        let asked: Vec<i32> = clients
            .iter_mut()
            .map(|client| client.send(12, &fetch_request(12, &[(&topic, &[(3, 0)])]).with_max_wait_ms(FOR_EVER_MS)))
            .collect();
        topic.partition(3).append(&mut Raw::connect(gateway.bootstrap()), batch(Writer::NOBODY, 1, &["later"]));
        for (client, correlation_id) in clients.iter_mut().zip(asked) {
            let response = client.receive::<FetchRequest>(12, correlation_id);
            assert_eq!(records(only_partition(&response)), [(0, "later".to_owned())]);
        }
    }
}

#[test]
fn k041_a_stock_consumer_at_the_latest_offset_gets_the_record_that_comes_later() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "idle", 1, &[]);
    topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["before"]));
    let consumer = reader(&gateway, &[("enable.partition.eof", "true")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("idle", 0, Offset::End).expect("offset");
    consumer.assign(&list).expect("assign");
    let deadline = Instant::now() + LIVENESS;
    let mut at_the_end = false;
    let (offset, value) = loop {
        assert!(Instant::now() < deadline, "hung: {}", if at_the_end { "the record" } else { "the end" });
        match consumer.poll(Duration::from_millis(100)) {
            Some(Err(KafkaError::PartitionEOF(_))) if !at_the_end => {
                at_the_end = true;
                topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["later"]));
            }
            Some(Ok(message)) => break (message.offset(), message.payload().map(<[u8]>::to_vec)),
            Some(Err(_)) | None => {}
        }
    };
    assert_eq!((offset, value.as_deref()), (1, Some(&b"later"[..])));
}
