//! ApiVersions, request and response headers.

use bytes::{Buf, Bytes};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, DescribeGroupsRequest, FetchRequest, GroupId, ProduceRequest};
use rdkafka::consumer::Consumer;

use crate::common::fetch::{about, fetch_request, offsets, only_partition, partitions};
use crate::common::frames::{CORRELATION_ID, UNKNOWN_TAG, body, request, tagged_request};
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, reader, unkeyed};
use crate::common::member::Member;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, string};
use crate::common::record_batch::{GZIP, LZ4, RecordBatch, SNAPPY, ZSTD};
use crate::common::served::apis;
use crate::common::{LIVENESS, blocking, within};

const API_VERSIONS: i16 = 18;
/// The first version in which clients name their software.
const SOFTWARE_SINCE: i16 = 3;

fn named(name: &str, version: &str) -> ApiVersionsRequest {
    ApiVersionsRequest::default().with_client_software_name(string(name)).with_client_software_version(string(version))
}

/// What the gateway offers.
fn offered(raw: &mut Raw) -> Vec<ApiVersion> {
    raw.call(0, &ApiVersionsRequest::default()).api_keys
}

#[test]
fn k001_a_newer_api_versions_is_answered_35_with_the_versions_to_use_and_the_connection_stays() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let (first, last) = (*versions(API_VERSIONS).start(), *versions(API_VERSIONS).end());
    let bodies = [&[][..], &[1, 2, 3], &[0xff; 64], &body(3, &named("raw", "1"))];
    for version in [last + 1, 99, i16::MAX] {
        for body in bodies {
            raw.send_bytes(&request(API_VERSIONS, version, body));
            let mut answer = raw.receive_frame();
            assert_eq!(answer.get_i32(), CORRELATION_ID);
            assert_eq!(answer.get_i16(), 35, "UNSUPPORTED_VERSION");
            assert_eq!(answer.get_i32(), 1, "ApiVersions alone");
            let itself = [answer.get_i16(), answer.get_i16(), answer.get_i16()];
            assert_eq!(itself, [API_VERSIONS, first, last]);
            assert!(!answer.has_remaining(), "version 0 has nothing else");
            assert_eq!(raw.call(last, &named("raw", "1")).error_code, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k002_the_answer_to_api_versions_has_the_oldest_header_in_every_version() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(API_VERSIONS) {
        let asked = if version < SOFTWARE_SINCE { ApiVersionsRequest::default() } else { named("raw", "1") };
        raw.send_bytes(&request(API_VERSIONS, version, &body(version, &asked)));
        let mut answer = raw.receive_frame();
        assert_eq!(answer.get_i32(), CORRELATION_ID);
        assert_eq!(answer.get_i16(), 0, "version {version}: the code comes right behind the correlation id");
        let count = if version < SOFTWARE_SINCE { answer.get_i32() } else { i32::from(answer.get_u8()) - 1 };
        assert_eq!(count as usize, apis().len(), "version {version}");
        // And all that follows is where it belongs.
        assert_eq!(raw.call(version, &asked).error_code, 0);
    }
    let reader = reader(&gateway, &[]);
    let metadata = blocking("metadata", move || reader.fetch_metadata(None, LIVENESS).map(|m| m.brokers().len()));
    assert_eq!(metadata.await.expect("librdkafka shakes hands"), gateway.nodes().len());
}

#[test]
fn k003_a_software_name_against_kafkas_pattern_is_answered_42_and_the_connection_stays() {
    let gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let long = "n".repeat(300);
    let wrong = [("My App", "1"), ("a b", "1"), ("_x", "1"), ("x-", "1"), ("", "1"), ("raw", ""), ("raw", "1 0")];
    let right = [("apache-kafka-java", "4.1.0"), (long.as_str(), "1")];
    for version in SOFTWARE_SINCE..=*versions(API_VERSIONS).end() {
        for (named, code) in wrong.map(|w| (w, 42)).into_iter().chain(right.map(|r| (r, 0))) {
            let answer = raw.call(version, &self::named(named.0, named.1));
            assert_eq!(answer.error_code, code, "version {version}: {named:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k004_an_unknown_api_or_version_closes_its_connection_alone_without_a_byte_and_is_logged() {
    let gateway = Gateway::start(Options::new(2));
    let reader = std::sync::Arc::new(reader(&gateway, &[]));
    let mut witness = Raw::connect(gateway.bootstrap());
    let everybody_else_is_served = async |witness: &mut Raw| {
        assert_eq!(witness.call(3, &named("raw", "1")).error_code, 0);
        let reader = reader.clone();
        let told = blocking("metadata", move || reader.fetch_metadata(None, LIVENESS).map(|m| m.brokers().len()));
        assert_eq!(told.await.expect("metadata"), gateway.nodes().len());
    };
    everybody_else_is_served(&mut witness).await;
    // Keys that no Kafka has, keys that it has and the gateway does not serve, versions on either side of
    // those that are served.
    let mut refused = vec![(9_999, 0), (-1, 0), (i16::MAX, 0), (4, 0), (45, 0), (3, 99), (3, -1)];
    for api in apis() {
        refused.push((api.served.api_key, api.served.versions.start() - 1));
        refused.push((api.served.api_key, api.served.versions.end() + 1));
    }
    // It answers, whatever the version; that is K001.
    refused.retain(|(key, _)| *key != API_VERSIONS);
    // DESIGN: these are offered, for librdkafka's sake, and close the connection all the same.
    refused.extend((0..3).map(|version| (0, version)));
    for (key, version) in refused {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send_bytes(&request(key, version, &[0; 16]));
        raw.assert_closed();
        let api = apis().into_iter().find(|api| api.served.api_key == key);
        let what = api.map_or_else(|| format!("API {key}"), |api| api.served.name.to_string());
        let line = [&format!("{what} version {version}"), "is not served", &raw.address().to_string()];
        gateway.until_logged(&line.map(|part: &str| part));
    }
    everybody_else_is_served(&mut witness).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k005_produce_is_offered_from_0_and_librdkafka_compresses() {
    let gateway = Gateway::start(Options::new(2).embedded("Iggy stores records uncompressed"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let produce = offered(&mut raw).into_iter().find(|api| api.api_key == 0).expect("Produce");
    assert_eq!((produce.min_version, produce.max_version), (0, *versions(0).end()));
    let value = "again and ".repeat(200);
    for (codec, number) in [("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)] {
        let partition = create(&mut raw, codec, 1, &[]).partition(0);
        let producer = producer(&gateway, &[("compression.codec", codec)]);
        let sent = producer.send(unkeyed(codec, &value), LIVENESS);
        within("a delivery", sent).await.expect("delivered");
        let batches = partition.batches(&mut raw, 0);
        // The low three bits of the attributes, which are bytes 21 and 22 of a batch.
        let codecs: Vec<_> = batches.iter().map(|(_, batch)| i16::from(batch[22] & 0b111)).collect();
        assert_eq!(codecs, [number], "{codec}");
        assert!(batches[0].1.len() < value.len(), "{codec}");
    }
}

#[test]
fn k006_every_version_that_is_offered_is_answered_in_that_version() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let offered = offered(&mut raw);
    let all = apis();
    assert_eq!(
        offered.iter().map(|api| api.api_key).collect::<Vec<_>>(),
        all.iter().map(|api| api.served.api_key).collect::<Vec<_>>()
    );
    for (api, offered) in all.iter().zip(offered) {
        // DESIGN: Produce is offered from 0, as Kafka 4 does, though versions 0 to 2 close the connection.
        let first = if offered.api_key == 0 { 3 } else { offered.min_version };
        for version in first..=offered.max_version {
            raw.send_bytes(&request(api.served.api_key, version, &(api.body)(version)));
            (api.receive)(&mut raw, version);
        }
    }
}

#[test]
fn k007_a_failing_store_is_answered_per_partition_in_the_requests_version_and_the_connection_stays() {
    // DESIGN: a log whose file failed answers KAFKA_STORAGE_ERROR(56).
    const STORAGE_ERROR: i16 = 56;
    let options =
        || Options::new(2).embedded("the segment that is damaged is the gateway's own").set("tail-cache-bytes", 0);
    let gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let broken = create(&mut raw, "broken", 1, &[]);
    let sound = create(&mut raw, "sound", 1, &[]);
    broken.partition(0).append(&mut raw, RecordBatch::of(&["lost"]).bytes());
    sound.partition(0).append(&mut raw, RecordBatch::of(&["kept"]).bytes());

    // What was written can be read no more.
    let segment = gateway.data().join(format!("topics/{}/0/{:020}.log", broken.id, 0));
    let length = std::fs::metadata(&segment).expect("a segment").len();
    std::fs::write(&segment, vec![0xee; length as usize]).expect("damage");
    for version in versions(1) {
        let request = fetch_request(version, &[(&broken, &[(0, 0)]), (&sound, &[(0, 0)])]);
        let response = raw.call::<FetchRequest>(version, &request);
        assert_eq!((response.error_code, response.responses.len()), (0, 2), "version {version}");
        let part = |topic| only_of(about(version, &response, topic));
        assert_eq!(part(&broken).error_code, STORAGE_ERROR, "version {version}");
        assert_eq!((part(&sound).error_code, offsets(part(&sound))), (0, vec![0]), "version {version}");
    }

    // And nothing more can be written.
    gateway.limit_files(Some(length + 200));
    while broken.partition(0).produce(&mut raw, 9, Some(RecordBatch::of(&["more"]).bytes())).error_code == 0 {}
    for version in versions(0) {
        let records = || Some(RecordBatch::of(&["v"]).bytes());
        let mut request = broken.partition(0).produce_request(version, -1, records());
        request.topic_data.extend(sound.partition(9).produce_request(version, -1, records()).topic_data);
        let response = raw.call::<ProduceRequest>(version, &request);
        let codes: Vec<_> = response.responses.iter().map(|t| t.partition_responses[0].error_code).collect();
        assert_eq!(codes, [STORAGE_ERROR, 3], "version {version}");
    }
}

fn only_of(
    topic: Option<&kafka_protocol::messages::fetch_response::FetchableTopicResponse>,
) -> &kafka_protocol::messages::fetch_response::PartitionData {
    let topic = topic.expect("every topic that was asked for");
    assert_eq!(topic.partitions.len(), 1);
    &topic.partitions[0]
}

#[test]
fn k008_every_field_of_a_fetch_answer_is_where_its_version_has_it() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "few", 1, &[]);
    let batch = RecordBatch::of(&["one", "two", "three"]).bytes();
    topic.partition(0).append(&mut raw, batch.clone());
    // The versions before flexible ones, by hand.
    for version in 4..12 {
        let asked = fetch_request(version, &[(&topic, &[(0, 0)])]);
        raw.send_bytes(&request(1, version, &body(version, &asked)));
        let mut answer = raw.receive_frame();
        assert_eq!((answer.get_i32(), answer.get_i32()), (CORRELATION_ID, 0), "correlation id, throttle time");
        if version >= 7 {
            assert_eq!((answer.get_i16(), answer.get_i32()), (0, 0), "code, session");
        }
        assert_eq!((answer.get_i32(), answer.get_i16()), (1, 3), "topics, length of the name");
        assert_eq!(answer.split_to(3), "few");
        assert_eq!((answer.get_i32(), answer.get_i32(), answer.get_i16()), (1, 0, 0), "partitions, index, code");
        assert_eq!((answer.get_i64(), answer.get_i64()), (3, 3), "high watermark, last stable offset");
        if version >= 5 {
            assert_eq!(answer.get_i64(), 0, "log start offset");
        }
        assert!([-1, 0].contains(&answer.get_i32()), "no aborted transactions");
        if version >= 11 {
            assert_eq!(answer.get_i32(), -1, "no replica is preferred");
        }
        let length = answer.get_i32() as usize;
        assert_eq!(length, answer.remaining(), "version {version}: nothing is behind the records");
        // Only the leader epoch is the gateway's own: bytes 12 to 15.
        assert_eq!((&answer[..12], &answer[16..]), (&batch[..12], &batch[16..]), "version {version}");
    }
    // All of them by the codec, which must take each byte.
    for version in versions(1) {
        let response = raw.call(version, &fetch_request(version, &[(&topic, &[(0, 0)])]));
        let partition = only_partition(&response);
        assert_eq!(offsets(partition), [0, 1, 2], "version {version}");
        assert_eq!(partition.preferred_read_replica.0, -1, "version {version}");
        assert!(partition.aborted_transactions.as_ref().is_none_or(Vec::is_empty), "version {version}");
        assert_eq!(partitions(&response).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k009_static_members_are_offered_whole_and_join() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "orders", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let offered = offered(&mut raw);
    // JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup (KIP-345).
    for (key, since) in [(11, 5), (14, 3), (12, 3), (8, 7), (13, 3)] {
        let api = offered.iter().find(|api| api.api_key == key).expect("offered");
        assert!(api.max_version >= since, "API {key} up to {}", api.max_version);
    }
    let member = Member::join(&gateway, "workers", &["orders"], &[("group.instance.id", "one")]);
    member.until_assigned(2).await;
    let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(string("workers"))]);
    let described = raw.call(5, &describe).groups.remove(0);
    let instances: Vec<_> =
        described.members.iter().map(|member| member.group_instance_id.as_ref().map(|id| id.to_string())).collect();
    assert_eq!(instances, [Some("one".to_string())]);
    member.close().await;
}

#[test]
fn k010_tagged_fields_that_nobody_knows_are_skipped_in_header_and_body() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut answer = |frame: &Bytes| {
        raw.send_bytes(frame);
        raw.receive_frame()
    };
    let mut seen = 0;
    for api in apis() {
        for version in api.served.versions.clone().filter(|version| (api.is_flexible)(*version)) {
            let body = (api.body)(version);
            let (last, fields) = body.split_last().expect("tagged fields");
            assert_eq!(*last, 0, "a body ends with how many tagged fields it has");
            let tagged_body = [fields, UNKNOWN_TAG].concat();
            let plain = answer(&request(api.served.api_key, version, &body));
            for frame in [
                tagged_request(api.served.api_key, version, UNKNOWN_TAG, &body),
                tagged_request(api.served.api_key, version, UNKNOWN_TAG, &tagged_body),
                request(api.served.api_key, version, &tagged_body),
            ] {
                assert_eq!(answer(&frame), plain, "{} version {version}", api.served.name);
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} flexible versions");
    // Never flexible: what is read of it has no tagged fields, and K006 sends it without.
    let delete = apis().into_iter().find(|api| api.served.api_key == 47).expect("OffsetDelete");
    assert!(delete.served.versions.clone().all(|version| !(delete.is_flexible)(version)));
}
