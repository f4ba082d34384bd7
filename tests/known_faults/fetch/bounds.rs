//! How much a Fetch is answered with.

use std::collections::BTreeSet;

use kafka_protocol::messages::FetchRequest;
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::common::fetch::{
    fetch_request, offsets, only_partition, partitions, records, size, with_partition_max_bytes,
};
use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{read, reader};
use crate::common::partition::{Topic, create, versions};
use crate::common::raw::{Raw, Writer, batch};

const KIB: usize = 1 << 10;

/// A topic with `batches` of about `bytes` each in every partition.
fn filled(raw: &mut Raw, name: &str, count: i32, batches: usize, bytes: usize) -> Topic {
    let topic = create(raw, name, count, &[]);
    let value = "x".repeat(bytes);
    for index in 0..count {
        for _ in 0..batches {
            topic.partition(index).append(raw, batch(Writer::NOBODY, 1, &[&value]));
        }
    }
    topic
}

fn from_the_start(partitions: i32) -> Vec<(i32, i64)> {
    (0..partitions).map(|index| (index, 0)).collect()
}

#[test]
fn k032_an_answer_over_many_full_partitions_stays_within_the_requests_bytes() {
    const PARTITIONS: i32 = 40;
    const CLIENTS: usize = 20;
    let gateway = Gateway::start(Options::new(2).set("tail-cache-bytes", "1MiB"));
    let mut raw = Raw::connect(gateway.bootstrap());
    // 24 MiB in all; each client asks for no more than 2 MiB at a time, but 10 MiB per partition.
    let topic = filled(&mut raw, "full", PARTITIONS, 3, 200 * KIB);
    let request = fetch_request(12, &[(&topic, &from_the_start(PARTITIONS))]).with_max_bytes(2 << 20);
    let request = with_partition_max_bytes(request, 10 << 20).with_session_epoch(0);
    let before = gateway.rss();
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = Raw::connect(gateway.bootstrap());
            let sent = client.send(12, &request);
            (client, sent)
        })
        .collect();
    for (client, sent) in &mut clients {
        let response = client.receive::<FetchRequest>(12, *sent);
        let mut answer = response.clone();
        let mut served = BTreeSet::new();
        // A session begins with those that had nothing last time.
        for epoch in 1.. {
            let bytes: usize = partitions(&answer).iter().map(|p| size(p)).sum();
            assert!((1..=2 << 20).contains(&bytes), "{bytes} bytes of records");
            assert!(partitions(&answer).iter().all(|p| p.error_code == 0), "without records, not with an error");
            served.extend(partitions(&answer).iter().filter(|p| size(p) > 0).map(|p| p.partition_index));
            if served.len() == PARTITIONS as usize {
                break;
            }
            assert!(epoch <= PARTITIONS, "each gets its turn, these did: {served:?}");
            let next = fetch_request(12, &[]).with_max_bytes(2 << 20).with_session_id(response.session_id);
            answer = client.call(12, &next.with_session_epoch(epoch));
        }
    }
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 300 * KIB as u64, "{grown} KiB more for {CLIENTS} clients of 2 MiB each");
}

#[test]
fn k032_answers_that_are_gathered_from_every_shard_take_no_more_memory_than_they_have() {
    const SHARDS: i32 = 8;
    const CLIENTS: usize = 20;
    let options = Options::new(SHARDS as usize).advertise(Advertise::Gateway).set("tail-cache-bytes", 0);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = filled(&mut raw, "full", SHARDS, 16, 900 * KIB);
    // 14 MiB on each shard, of which each client is to get as much in all.
    let most = 14 << 20;
    let request = fetch_request(12, &[(&topic, &from_the_start(SHARDS))]).with_max_bytes(most);
    let request = with_partition_max_bytes(request, most);
    let before = gateway.rss();
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = Raw::connect(gateway.bootstrap());
            let sent = client.send(12, &request);
            (client, sent)
        })
        .collect();
    for (client, sent) in &mut clients {
        let response = client.receive::<FetchRequest>(12, *sent);
        let bytes: usize = partitions(&response).iter().map(|p| size(p)).sum();
        assert!((1..=most as usize).contains(&bytes), "{bytes} bytes of records");
    }
    let grown = gateway.rss_max().saturating_sub(before);
    // All of every answer, and a batch of each shard that is dropped; read in full, it would be 2 GiB.
    assert!(grown < 500 * KIB as u64, "{grown} KiB more at most");
}

#[test]
fn k032_whatever_a_request_allows_the_gateway_keeps_to_its_own_bound() {
    let gateway = Gateway::start(Options::new(2).set("max-fetch-bytes", "1MiB"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = filled(&mut raw, "full", 8, 3, 200 * KIB);
    for version in versions(1) {
        let request = fetch_request(version, &[(&topic, &from_the_start(8))]).with_max_bytes(i32::MAX);
        let response = raw.call(version, &with_partition_max_bytes(request, i32::MAX));
        let bytes: usize = partitions(&response).iter().map(|p| size(p)).sum();
        assert!((1..=1 << 20).contains(&bytes), "{bytes} bytes of records, version {version}");
        assert_eq!(partitions(&response).len(), 8, "the others without records, version {version}");
    }
}

#[test]
fn k032_without_a_session_every_partition_gets_its_turn_also_when_the_client_takes_turns_itself() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    for count in [2, 3, 4, 8] {
        let topic = filled(&mut raw, &format!("turns-{count}"), count, 1, 100);
        for step in 0..count as usize {
            // Stock clients begin each Fetch one partition further, or always at the same.
            let mut order = from_the_start(count);
            let mut served = BTreeSet::new();
            let mut client = Raw::connect(gateway.bootstrap());
            for _ in 0..count {
                let request = fetch_request(11, &[(&topic, &order)]).with_max_bytes(1);
                let response = client.call(11, &request);
                served.extend(partitions(&response).iter().filter(|p| size(p) > 0).map(|p| p.partition_index));
                order.rotate_left(step);
            }
            assert_eq!(served.len(), count as usize, "of {count} partitions, {step} further each time: {served:?}");
        }
    }
}

#[test]
fn k032_a_partition_whose_next_batch_is_large_gets_its_turn_among_others_with_small_ones() {
    let gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = filled(&mut raw, "mixed", 3, 1, 100);
    topic.partition(1).append(&mut raw, batch(Writer::NOBODY, 1, &[&"x".repeat(100 * KIB)]));
    let large = &[(0, 0), (1, 1), (2, 0)][..];
    for session_epoch in [-1, 0] {
        // Both small batches fit beside each other at any time, the large one only when it comes first.
        let request = fetch_request(11, &[(&topic, large)]).with_max_bytes(50 * KIB as i32);
        let first = raw.call(11, &request.clone().with_session_epoch(session_epoch));
        assert_eq!(partitions(&first).iter().map(|p| size(p) > 0).collect::<Vec<_>>(), [true, false, true]);
        let second = match session_epoch {
            -1 => raw.call(11, &request),
            _ => raw.call(11, &fetch_request(11, &[]).with_session_id(first.session_id).with_session_epoch(1)),
        };
        let found = partitions(&second).into_iter().find(|p| p.partition_index == 1).expect("its turn");
        assert!(size(found) > 100 * KIB, "{} bytes", size(found));
    }
}

#[test]
fn k033_a_record_larger_than_every_limit_of_the_request_is_returned_whole() {
    let gateway = Gateway::start(Options::new(3).set("message-max-bytes", "4MiB"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "large", 4, &[]);
    let value = "x".repeat(2_000 * KIB);
    topic.partition(2).append(&mut raw, batch(Writer::NOBODY, 1, &[&value]));
    topic.partition(2).append(&mut raw, batch(Writer::NOBODY, 1, &["next"]));
    for version in versions(1) {
        for max_bytes in [1, 0, -1] {
            // The first partition that has anything, wherever it is in the request.
            let request = fetch_request(version, &[(&topic, &from_the_start(4))]).with_max_bytes(max_bytes);
            let response = raw.call(version, &with_partition_max_bytes(request, max_bytes));
            let all = partitions(&response);
            assert!(all.iter().all(|p| p.error_code == 0), "version {version}");
            let found = all.iter().find(|p| p.partition_index == 2).expect("the partition");
            assert_eq!(records(found), [(0, value.clone())], "version {version}, max_bytes {max_bytes}");
        }
    }
    let reader = reader(
        &gateway,
        &[
            ("fetch.message.max.bytes", "1000"),
            ("message.max.bytes", "1000"),
            ("fetch.max.bytes", "1000"),
            ("receive.message.max.bytes", "10000000"),
        ],
    );
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("large", 2, Offset::Beginning).expect("offset");
    reader.assign(&list).expect("assign");
    let seen = read(&reader, 2);
    assert_eq!((seen[0].text().len(), seen[1].text()), (value.len(), "next"));
}

#[test]
fn k042_batches_are_returned_whole_up_to_the_limit_and_offsets_go_on() {
    let gateway = Gateway::start(Options::new(1).embedded("Iggy counts its own bytes, of which a batch has more"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "thirds", 1, &[]);
    let empty = batch(Writer::NOBODY, 1, &[""]).len();
    // A value of that size has a length of two bytes, as has the record, instead of one each.
    let value = "x".repeat(600 - empty - 2);
    let third = batch(Writer::NOBODY, 1, &[&value]);
    assert_eq!(third.len(), 600);
    for _ in 0..3 {
        topic.partition(0).append(&mut raw, third.clone());
    }
    for version in versions(1) {
        for (bytes, expected) in [(1_000, 1), (1_199, 1), (1_200, 2), (1_799, 2), (1_800, 3)] {
            let mut offset = 0;
            while offset < 3 {
                let request = fetch_request(version, &[(&topic, &[(0, offset)])]);
                let response = raw.call(version, &with_partition_max_bytes(request, bytes));
                let found = offsets(only_partition(&response));
                let whole: Vec<i64> = (offset..3.min(offset + expected)).collect();
                assert_eq!(found, whole, "{bytes} bytes, version {version}");
                assert_eq!(size(only_partition(&response)), 600 * found.len(), "nothing behind whole batches");
                offset += found.len() as i64;
            }
        }
    }
    let reader = reader(&gateway, &[("max.partition.fetch.bytes", "1000")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("thirds", 0, Offset::Beginning).expect("offset");
    reader.assign(&list).expect("assign");
    assert_eq!(read(&reader, 3).iter().map(|seen| seen.offset).collect::<Vec<_>>(), [0, 1, 2]);
}
