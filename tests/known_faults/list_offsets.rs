//! ListOffsets.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeGroupsRequest, FetchRequest, FindCoordinatorRequest, GroupId, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{read, reader};
use crate::common::partition::{Partition, create, metadata, versions};
use crate::common::raw::{Raw, string, topic_name};
use crate::common::record_batch::{RecordBatch, record};
use crate::common::{LIVENESS, eventually};

/// Why what finds records by their own times is not held against Iggy.
const BY_APPEND: &str = "Iggy tells when a record was appended, and not the record's own time";

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

fn list_offsets_versions() -> std::ops::RangeInclusive<i16> {
    versions(2)
}

/// A batch with a record at each of these times, in this order.
fn batch_at(times: &[i64]) -> RecordBatch {
    let records: Vec<_> = (0..).zip(times).map(|(nth, time)| record(nth, time - times[0], "v")).collect();
    let max_timestamp = times.iter().copied().max().expect("a time");
    RecordBatch { base_timestamp: times[0], max_timestamp, ..RecordBatch::of_records(&records) }
}

/// What librdkafka finds for a time.
fn offset_for_time(client: &BaseConsumer, partition: &Partition, time: i64) -> Offset {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&partition.topic.name, partition.index, Offset::Offset(time)).expect("time");
    client.offsets_for_times(list, LIVENESS).expect("offsets for times").elements()[0].offset()
}

/// The same records in one batch, in a compressed one, and in a batch each.
fn in_every_way(raw: &mut Raw, times: &[i64]) -> Vec<Partition> {
    let topic = create(raw, "clock", 3, &[]);
    topic.partition(0).append(raw, batch_at(times).bytes());
    topic.partition(1).append(raw, batch_at(times).gzip().bytes());
    for time in times {
        topic.partition(2).append(raw, batch_at(&[*time]).bytes());
    }
    (0..3).map(|index| topic.partition(index)).collect()
}

#[test]
fn k043_a_time_finds_the_first_record_at_or_after_it() {
    // On disk and in memory alike.
    for cache in ["0", "64MiB"] {
        let gateway = Gateway::start(Options::new(2).embedded(BY_APPEND).set("tail-cache-bytes", cache));
        let mut raw = Raw::connect(gateway.bootstrap());
        let client = reader(&gateway, &[]);
        for partition in in_every_way(&mut raw, &[2, 4, 6, 8]) {
            for version in list_offsets_versions() {
                for (time, found) in [
                    (0, (0, 0, 2)),
                    (2, (0, 0, 2)),
                    (3, (0, 1, 4)),
                    (4, (0, 1, 4)),
                    (5, (0, 2, 6)),
                    (7, (0, 3, 8)),
                    (8, (0, 3, 8)),
                    (9, (0, -1, -1)),
                ] {
                    let answered = partition.lookup(&mut raw, version, time);
                    assert_eq!(answered, found, "time {time}, version {version}, partition {}", partition.index);
                }
            }
            for (time, found) in
                [(0, Offset::Offset(0)), (3, Offset::Offset(1)), (8, Offset::Offset(3)), (9, Offset::End)]
            {
                assert_eq!(offset_for_time(&client, &partition, time), found, "time {time}");
            }
        }
    }
}

#[test]
fn k043_records_out_of_the_order_of_time_are_found_by_their_place_in_the_log() {
    let gateway = Gateway::start(Options::new(2).embedded(BY_APPEND));
    let mut raw = Raw::connect(gateway.bootstrap());
    for partition in in_every_way(&mut raw, &[50, 10, 90, 40, 90, 70]) {
        for (time, found) in [(0, (0, 0, 50)), (50, (0, 0, 50)), (51, (0, 2, 90)), (90, (0, 2, 90)), (91, (0, -1, -1))]
        {
            assert_eq!(partition.lookup(&mut raw, 9, time), found, "time {time}, partition {}", partition.index);
        }
        assert_eq!(partition.lookup(&mut raw, 9, MAX_TIMESTAMP), (0, 2, 90), "the first of the largest");
    }
}

#[test]
fn k044_ends_never_run_ahead_of_what_can_be_read_while_records_arrive() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "racing", 1, &[]).partition(0);
    let (start, over) = (Barrier::new(gateway.nodes().len() + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let nodes: Vec<_> = gateway.nodes().iter().map(|node| node.addr).collect();
        let readers: Vec<_> = nodes
            .into_iter()
            .map(|address| {
                let (partition, start, over) = (&partition, &start, &over);
                scope.spawn(move || {
                    start.wait();
                    let mut raw = Raw::connect(address);
                    let mut last = 0;
                    loop {
                        let earliest = partition.lookup(&mut raw, 9, EARLIEST).1;
                        let (code, latest, _) = partition.lookup(&mut raw, 9, LATEST);
                        let newest = partition.lookup(&mut raw, 9, MAX_TIMESTAMP);
                        let fetched = partition.fetch(&mut raw, 12, latest);
                        assert_eq!((code, fetched.error_code, newest.0), (0, 0, 0));
                        assert!(earliest <= latest && last <= latest, "{earliest}, {last}, {latest}");
                        assert!(latest <= fetched.high_watermark, "{latest} and {}", fetched.high_watermark);
                        assert!(newest.1 < partition.fetch(&mut raw, 12, latest).high_watermark, "{newest:?}");
                        last = latest;
                        if over.load(Ordering::Relaxed) {
                            return latest;
                        }
                    }
                })
            })
            .collect();
        start.wait();
        for n in 0..1_500 {
            // Not one by one: what is written together becomes visible together.
            let ids: Vec<i32> = (0..4)
                .map(|m| {
                    let records = batch_at(&[10_000 + n * 4 + m, 10_000 + n * 4 + m]).bytes();
                    raw.send(9, &partition.produce_request(9, 1, Some(records)))
                })
                .collect();
            for id in ids {
                let response = raw.receive::<ProduceRequest>(9, id);
                assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
            }
        }
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("reader") <= 12_000);
        }
    });
    assert_eq!(partition.ends(&mut raw), (0, 12_000));
}

#[test]
fn k044_a_topic_that_is_being_made_is_unknown_and_then_empty() {
    let gateway = Gateway::start(Options::new(3));
    std::thread::scope(|scope| {
        for node in gateway.nodes() {
            let address = node.addr;
            scope.spawn(move || {
                let mut raw = Raw::connect(address);
                for n in 0..20 {
                    let topic = crate::common::partition::unknown(&format!("new-{n}"));
                    let deadline = std::time::Instant::now() + LIVENESS;
                    loop {
                        assert!(std::time::Instant::now() < deadline, "hung: the topic does not come");
                        match (
                            topic.partition(0).lookup(&mut raw, 9, EARLIEST),
                            topic.partition(0).lookup(&mut raw, 9, LATEST),
                        ) {
                            ((0, 0, -1), (0, 0, -1)) => break,
                            // It may come between the two.
                            ((3, -1, -1), (3, -1, -1) | (0, 0, -1)) => {}
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
        let mut raw = Raw::connect(gateway.bootstrap());
        for n in 0..20 {
            let name = format!("new-{n}");
            let deadline = std::time::Instant::now() + LIVENESS;
            while metadata(&mut raw, &name).0 != 0 {
                assert!(std::time::Instant::now() < deadline, "hung: the topic is not made");
            }
            let partition = crate::common::partition::unknown(&name).partition(0);
            assert_eq!(partition.ends(&mut raw), (0, 0), "once it is told of, it is there");
        }
    });
}

#[test]
fn k045_a_time_before_the_log_start_finds_the_first_record_that_is_left() {
    let options = || Options::new(2).embedded(BY_APPEND).set("tail-cache-bytes", 0);
    let mut gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let times: Vec<i64> = (0..100).map(|n| 1_000 + n).collect();
    let partitions = in_every_way(&mut raw, &times);
    for partition in &partitions {
        partition.delete_records(&mut raw, 50);
    }
    for after_a_kill in [false, true] {
        if after_a_kill {
            gateway.kill9();
            gateway.restart(options());
            raw = Raw::connect(gateway.bootstrap());
        }
        for partition in &partitions {
            for time in [0, 1_010, 1_049, 1_050] {
                let found = partition.lookup(&mut raw, 9, time);
                assert_eq!(found, (0, 50, 1_050), "time {time}, partition {}", partition.index);
                assert_eq!(partition.fetch(&mut raw, 12, found.1).error_code, 0, "it can be read");
            }
            assert_eq!(partition.lookup(&mut raw, 9, 1_051), (0, 51, 1_051));
            assert_eq!(partition.ends(&mut raw), (50, 100));
            let client = reader(&gateway, &[("auto.offset.reset", "error")]);
            let Offset::Offset(found) = offset_for_time(&client, partition, 1_010) else { panic!("no offset") };
            let mut list = TopicPartitionList::new();
            list.add_partition_offset("clock", partition.index, Offset::Offset(found)).expect("offset");
            client.assign(&list).expect("assign");
            let seen = read(&client, 50);
            assert_eq!((seen[0].offset, seen[49].offset), (50, 99));
        }
    }
}

#[test]
fn k045_the_largest_time_is_that_of_a_record_that_is_left() {
    let gateway = Gateway::start(Options::new(2).embedded(BY_APPEND));
    let mut raw = Raw::connect(gateway.bootstrap());
    for partition in in_every_way(&mut raw, &[9_000, 1_000, 3_000, 2_000]) {
        assert_eq!(partition.lookup(&mut raw, 9, MAX_TIMESTAMP), (0, 0, 9_000));
        partition.delete_records(&mut raw, 1);
        assert_eq!(partition.lookup(&mut raw, 9, MAX_TIMESTAMP), (0, 2, 3_000), "partition {}", partition.index);
        assert_eq!(partition.lookup(&mut raw, 9, 3_001), (0, -1, -1), "partition {}", partition.index);
        partition.delete_records(&mut raw, 4);
        assert_eq!(partition.lookup(&mut raw, 9, MAX_TIMESTAMP), (0, -1, -1), "nothing is left");
        assert_eq!(partition.lookup(&mut raw, 9, 0), (0, -1, -1), "nothing is left");
        assert_eq!(partition.ends(&mut raw), (4, 4));
    }
}

#[test]
fn k046_the_newest_time_is_found_with_its_record_where_versions_know_it() {
    let gateway = Gateway::start(Options::new(2).embedded(BY_APPEND));
    let mut raw = Raw::connect(gateway.bootstrap());
    let empty = create(&mut raw, "empty", 1, &[]).partition(0);
    let filled = in_every_way(&mut raw, &[5_000, 7_000, 6_000]);
    let unstamped = create(&mut raw, "unstamped", 1, &[]).partition(0);
    unstamped.append(&mut raw, batch_at(&[-1]).bytes());
    for version in 7..=*list_offsets_versions().end() {
        assert_eq!(empty.lookup(&mut raw, version, MAX_TIMESTAMP), (0, -1, -1), "version {version}");
        assert_eq!(unstamped.lookup(&mut raw, version, MAX_TIMESTAMP), (0, -1, -1), "version {version}");
        for partition in &filled {
            assert_eq!(partition.lookup(&mut raw, version, MAX_TIMESTAMP), (0, 1, 7_000), "version {version}");
        }
    }
}

#[test]
fn k047_a_special_time_is_served_from_its_version_on_and_is_35_before() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "clock", 1, &[]).partition(0);
    partition.append(&mut raw, batch_at(&[1_000, 2_000, 3_000]).bytes());
    partition.delete_records(&mut raw, 1);
    for version in list_offsets_versions() {
        for (time, since, found) in [
            (LATEST, 1, (0, 3)),
            (EARLIEST, 1, (0, 1)),
            (MAX_TIMESTAMP, 7, (0, 2)),
            (EARLIEST_LOCAL, 8, (0, 1)),
            (LATEST_TIERED, 9, (0, -1)),
            (-6, i16::MAX, (0, 0)),
            (-99, i16::MAX, (0, 0)),
            (i64::MIN, i16::MAX, (0, 0)),
        ] {
            let expected = if version >= since { found } else { (35, -1) };
            let (code, offset, of_record) = partition.lookup(&mut raw, version, time);
            assert_eq!((code, offset), expected, "{time} in version {version}");
            // Only this one is a record, whose time k046 is about.
            let is_record = time == MAX_TIMESTAMP && version >= since;
            assert_eq!(of_record >= 0, is_record, "{of_record} for {time} in version {version}");
        }
        // One wrong question spoils no other of the request.
        let request = partition.list_offsets_request(&[-99]);
        let mut both = partition.topic.partition(0).list_offsets_request(&[LATEST]);
        both.topics[0].name = topic_name("nowhere");
        both.topics.extend(request.topics);
        let answered: Vec<i16> = raw.call(version, &both).topics.iter().map(|t| t.partitions[0].error_code).collect();
        assert_eq!(answered, [3, 35], "version {version}");
    }
}

#[test]
fn k048_a_time_behind_the_newest_record_finds_nothing_and_that_is_no_error() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let tomorrow = now + 86_400_000;
    let client = reader(&gateway, &[]);
    let empty = create(&mut raw, "empty", 1, &[]).partition(0);
    let filled = in_every_way(&mut raw, &[now - 1, now]);
    for partition in filled.iter().chain([&empty]) {
        for version in list_offsets_versions() {
            for time in [now + 1, tomorrow, i64::MAX] {
                assert_eq!(partition.lookup(&mut raw, version, time), (0, -1, -1), "{time} in version {version}");
            }
        }
        assert_eq!(offset_for_time(&client, partition, tomorrow), Offset::End);
    }
}

#[test]
fn k049_a_partition_named_twice_is_answered_42_and_the_others_are_served() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "t", 2, &[]);
    let codes = |raw: &mut Raw, version, named: &[&[i32]]| -> Vec<i16> {
        let partition = |index: &i32| {
            ListOffsetsPartition::default()
                .with_partition_index(*index)
                .with_current_leader_epoch(-1)
                .with_timestamp(LATEST)
        };
        let topics = named.iter().map(|partitions| {
            let partitions = partitions.iter().map(partition).collect();
            ListOffsetsTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
        });
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(topics.collect());
        let response = raw.call(version, &request);
        response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
    };
    for version in list_offsets_versions() {
        assert_eq!(codes(&mut raw, version, &[&[0, 0, 1]]), [42, 42, 0], "version {version}");
        assert_eq!(codes(&mut raw, version, &[&[0, 1], &[0]]), [42, 0, 42], "version {version}");
    }
}

#[test]
fn k049_naming_something_twice_harms_no_other_request_either() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "t", 2, &[]);
    let records = RecordBatch::of(&["v"]).bytes();

    for version in versions(0) {
        let mut produce: ProduceRequest = topic.partition(0).produce_request(version, -1, Some(records.clone()));
        let other = topic.partition(1).produce_request(version, -1, Some(records.clone()));
        produce.topic_data.push(produce.topic_data[0].clone());
        produce.topic_data.extend(other.topic_data);
        let response = raw.call(version, &produce);
        let codes: Vec<i16> = response.responses.iter().map(|t| t.partition_responses[0].error_code).collect();
        assert_eq!(codes, [0, 42, 0], "Produce version {version}: the first counts");
    }
    let produced = versions(0).count() as i64;
    assert_eq!(topic.partition(0).ends(&mut raw), (0, produced));

    for version in versions(1) {
        let mut fetch: FetchRequest = topic.partition(0).fetch_request(version, 0);
        fetch.topics.push(fetch.topics[0].clone());
        fetch.topics.extend(topic.partition(1).fetch_request(version, 0).topics);
        let response = raw.call(version, &fetch);
        assert_eq!(response.error_code, 0);
        let mut answered = BTreeMap::new();
        for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
            assert_eq!(partition.error_code, 0, "Fetch version {version}");
            answered.insert(partition.partition_index, partition.high_watermark);
        }
        assert_eq!(answered, BTreeMap::from([(0, produced), (1, produced)]), "Fetch version {version}");
    }

    for version in versions(8) {
        let commit =
            |offset| OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default();
        let topic = match version {
            ..10 => topic.with_name(topic_name("t")),
            _ => topic,
        };
        let topic = topic.with_partitions(vec![commit(1), commit(2)]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(string("g")))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic.clone(), topic]);
        let response = raw.call(version, &request);
        let codes: Vec<i16> = response.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
        assert!(codes.len() >= 2 && codes.iter().all(|code| *code == 0), "OffsetCommit version {version}: {codes:?}");
    }

    for version in versions(3) {
        let named = MetadataRequestTopic::default().with_name(Some(topic.name.clone()));
        let request = MetadataRequest::default().with_topics(Some(vec![named.clone(), named]));
        let response = raw.call(version, &request);
        assert!(!response.topics.is_empty(), "Metadata version {version}");
        assert!(response.topics.iter().all(|t| t.error_code == 0 && t.partitions.len() == 2));
    }
}

#[test]
fn k049_naming_something_twice_harms_no_admin_request() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "t", 2, &[]);
    topic.partition(0).append(&mut raw, RecordBatch::of(&["v"]).bytes());

    let partition = |offset| DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let named =
        DeleteRecordsTopic::default().with_name(topic.name.clone()).with_partitions(vec![partition(1), partition(1)]);
    let request = DeleteRecordsRequest::default().with_topics(vec![named.clone(), named]).with_timeout_ms(30_000);
    let deleted = raw.call(2, &request);
    let codes: Vec<i16> = deleted.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == 0), "DeleteRecords: {codes:?}");

    let named = OffsetFetchRequestTopics::default().with_name(topic.name.clone()).with_partition_indexes(vec![0, 0, 1]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(string("g")))
        .with_topics(Some(vec![named.clone(), named]));
    let fetched = raw.call(8, &OffsetFetchRequest::default().with_groups(vec![group]));
    assert_eq!(fetched.groups[0].error_code, 0);
    let partitions = fetched.groups[0].topics.iter().flat_map(|topic| &topic.partitions);
    assert!(partitions.clone().count() >= 2, "OffsetFetch");
    assert!(partitions.into_iter().all(|p| (p.error_code, p.committed_offset) == (0, -1)), "OffsetFetch");

    let named = OffsetForLeaderTopic::default().with_topic(topic.name.clone()).with_partitions(
        [0, 0].map(|index| OffsetForLeaderPartition::default().with_partition(index).with_leader_epoch(1)).to_vec(),
    );
    let request =
        OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![named.clone(), named]);
    let epochs = raw.call(4, &request);
    assert!(epochs.topics.iter().flat_map(|t| &t.partitions).all(|p| p.error_code == 0), "OffsetForLeaderEpoch");

    let groups = vec![GroupId(string("g")), GroupId(string("g"))];
    let described = raw.call(4, &DescribeGroupsRequest::default().with_groups(groups.clone()));
    assert!(!described.groups.is_empty() && described.groups.iter().all(|group| group.group_id == groups[0]));
    let keys = vec![string("g"), string("g")];
    let found = raw.call(4, &FindCoordinatorRequest::default().with_coordinator_keys(keys));
    assert!(!found.coordinators.is_empty() && found.coordinators.iter().all(|c| c.error_code == 0));
    let deleted = raw.call(2, &DeleteGroupsRequest::default().with_groups_names(groups));
    assert!(deleted.results.iter().all(|group| group.error_code == 69), "DeleteGroups: there is none");

    // What makes and takes topics is refused by Kafka when it names one twice, and nothing happens.
    let twice =
        CreatableTopic::default().with_name(topic_name("new")).with_num_partitions(1).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![twice.clone(), twice]).with_timeout_ms(30_000);
    assert!(raw.call(7, &request).topics.iter().all(|topic| topic.error_code == 42), "CreateTopics");
    let twice = DeleteTopicState::default().with_name(Some(topic.name.clone()));
    let request = DeleteTopicsRequest::default().with_topics(vec![twice.clone(), twice]).with_timeout_ms(30_000);
    assert!(raw.call(6, &request).responses.iter().all(|topic| topic.error_code == 42), "DeleteTopics");
    assert_eq!(topic.partition(0).ends(&mut raw), (1, 1), "it is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k050_the_earliest_offset_is_the_first_that_can_be_read_after_segments_went() {
    let gateway = Gateway::start(
        Options::new(2).embedded(BY_APPEND).set("retention-check-interval", "50ms").set("log-retention", 0),
    );
    let mut raw = Raw::connect(gateway.bootstrap());
    let settings = [("segment.bytes", "1048576"), ("retention.bytes", "1048576")];
    let partition = create(&mut raw, "small", 1, &settings).partition(0);
    let large = "x".repeat(900_000);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    for n in 0..4 {
        let records = RecordBatch::of_records(&[record(0, 0, &large)]);
        let at = now - 4_000 + n * 1_000;
        partition.append(&mut raw, RecordBatch { base_timestamp: at, max_timestamp: at, ..records }.bytes());
    }
    // A segment each; without the third there would be less than a mebibyte.
    eventually("two segments are gone", || partition.lookup(&mut raw, 9, EARLIEST).1 == 2).await;
    for version in list_offsets_versions() {
        assert_eq!(partition.lookup(&mut raw, version, EARLIEST), (0, 2, -1), "version {version}");
        // The wall clock counts in milliseconds.
        assert_eq!(partition.lookup(&mut raw, version, now - 4_000), (0, 2, now - 2_000), "version {version}");
        assert_eq!(partition.lookup(&mut raw, version, now - 1_500), (0, 3, now - 1_000), "version {version}");
        assert_eq!(partition.lookup(&mut raw, version, now * 1_000), (0, -1, -1), "version {version}");
    }
    assert_eq!(partition.fetch(&mut raw, 12, 2).error_code, 0);
    assert_eq!(partition.fetch(&mut raw, 12, 1).error_code, 1);
    tokio::task::block_in_place(|| {
        let client = reader(&gateway, &[("auto.offset.reset", "earliest")]);
        let mut list = TopicPartitionList::new();
        // Where a group that was away for long would go on.
        list.add_partition_offset("small", 0, Offset::Offset(0)).expect("offset");
        client.assign(&list).expect("assign");
        let seen = read(&client, 2);
        assert_eq!(seen.iter().map(|record| record.offset).collect::<Vec<_>>(), [2, 3]);
    });
}

#[test]
fn k050_ten_thousand_topics_in_one_request_are_each_answered_and_hold_up_nobody() {
    let gateway = Gateway::start(Options::new(2).embedded(BY_APPEND));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "real", 1, &[]).partition(0);
    partition.append(&mut raw, batch_at(&[1_000, 2_000]).bytes());
    for time in [EARLIEST, 1_500] {
        let mut request = partition.list_offsets_request(&[time]);
        let real = request.topics.remove(0);
        request.topics = (0..10_000)
            .map(|n| real.clone().with_name(topic_name(&format!("no-such-topic-{n}"))))
            .chain([real.clone()])
            .collect();
        let id = raw.send(9, &request);
        let mut other = Raw::connect(gateway.bootstrap());
        assert_eq!(partition.lookup(&mut other, 9, LATEST), (0, 2, -1), "others are served meanwhile");
        let response = raw.receive::<ListOffsetsRequest>(9, id);
        assert_eq!(response.topics.len(), 10_001);
        let (last, missing) = response.topics.split_last().expect("topics");
        assert!(missing.iter().all(|topic| topic.partitions[0].error_code == 3));
        let found = &last.partitions[0];
        let expected = if time == EARLIEST { (0, 0, -1) } else { (0, 1, 2_000) };
        assert_eq!((found.error_code, found.offset, found.timestamp), expected);
    }
}
