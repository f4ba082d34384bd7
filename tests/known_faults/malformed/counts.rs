//! Counts and lengths that cannot be true, and nulls where none may be.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, GroupId, JoinGroupRequest, LeaveGroupRequest, MetadataRequest,
    OffsetCommitRequest, ProduceRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::Request;

use super::{Witness, assert_no_panic, options};
use crate::common::frames::{NO_TAGS, body, framed, request, tagged_request};
use crate::common::gateway::Gateway;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, string};
use crate::common::record_batch::RecordBatch;

/// What a few rejected requests may leave in memory.
const MEMORY_KIB: u64 = 16 << 10;

/// 2^31 - 1 as a compact length: one more, seven bits a byte.
const LARGEST_COMPACT: [u8; 5] = [0x80, 0x80, 0x80, 0x80, 0x08];

/// One array of a request: the request with it empty, and with one element.
struct Array {
    what: &'static str,
    key: i16,
    version: i16,
    /// The bytes before its count.
    before: Bytes,
    /// The bytes behind the count of an empty one.
    behind: Bytes,
    flexible: bool,
}

impl Array {
    fn of<R: Request>(what: &'static str, version: i16, with: impl Fn(usize) -> R) -> Array {
        let (empty, one) = (body(version, &with(0)), body(version, &with(1)));
        let differ = empty.iter().zip(&one[..]).position(|(a, b)| a != b).expect("the count differs");
        let flexible = R::header_version(version) >= 2;
        // The last byte of the count is where they differ.
        let width = if flexible { 1 } else { 4 };
        let (before, behind) = (empty.slice(..differ + 1 - width), empty.slice(differ + 1..));
        Array { what, key: R::KEY, version, before, behind, flexible }
    }

    /// The request with these bytes for the count, and nothing behind them.
    fn cut_behind(&self, count: &[u8]) -> Bytes {
        request(self.key, self.version, &[&self.before, count].concat())
    }

    fn null(&self) -> Bytes {
        let null: &[u8] = if self.flexible { &[0] } else { &[0xff; 4] };
        request(self.key, self.version, &[&self.before, null, &self.behind].concat())
    }

    fn largest(&self) -> &'static [u8] {
        if self.flexible { &LARGEST_COMPACT } else { &[0x7f, 0xff, 0xff, 0xff] }
    }
}

/// These arrays in every version that has them.
fn arrays() -> Vec<Array> {
    let mut all = Vec::new();
    let group = || GroupId(string("g"));
    for v in versions(0) {
        let with = |n| ProduceRequest::default().with_acks(-1).with_topic_data(vec![TopicProduceData::default(); n]);
        all.push(Array::of("Produce topic_data", v, with));
    }
    for v in versions(1) {
        let with = |n| FetchRequest::default().with_topics(vec![FetchTopic::default(); n]);
        all.push(Array::of("Fetch topics", v, with));
    }
    for v in versions(3) {
        let topic = MetadataRequestTopic::default().with_name(Some(Default::default()));
        let with = |n| MetadataRequest::default().with_topics(Some(vec![topic.clone(); n]));
        all.push(Array::of("Metadata topics", v, with));
    }
    for v in versions(8) {
        let with = |n| {
            let topics = vec![OffsetCommitRequestTopic::default(); n];
            OffsetCommitRequest::default().with_group_id(group()).with_topics(topics)
        };
        all.push(Array::of("OffsetCommit topics", v, with));
    }
    for v in versions(10).filter(|v| *v >= 4) {
        let with = |n| FindCoordinatorRequest::default().with_coordinator_keys(vec![string("g"); n]);
        all.push(Array::of("FindCoordinator keys", v, with));
    }
    for v in versions(11) {
        let with = |n| {
            let protocols = vec![JoinGroupRequestProtocol::default(); n];
            let join = JoinGroupRequest::default().with_group_id(group()).with_session_timeout_ms(10_000);
            join.with_protocol_type(string("consumer")).with_protocols(protocols)
        };
        all.push(Array::of("JoinGroup protocols", v, with));
    }
    for v in versions(13).filter(|v| *v >= 3) {
        let with = |n| {
            let members = vec![MemberIdentity::default(); n];
            LeaveGroupRequest::default().with_group_id(group()).with_members(members)
        };
        all.push(Array::of("LeaveGroup members", v, with));
    }
    for v in versions(14) {
        let with = |n| {
            let assignments = vec![SyncGroupRequestAssignment::default(); n];
            SyncGroupRequest::default().with_group_id(group()).with_assignments(assignments)
        };
        all.push(Array::of("SyncGroup assignments", v, with));
    }
    for v in versions(15) {
        let with = |n| DescribeGroupsRequest::default().with_groups(vec![group(); n]);
        all.push(Array::of("DescribeGroups groups", v, with));
    }
    all
}

#[test]
fn k109_a_count_that_cannot_be_true_closes_the_connection_and_costs_no_memory() {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    witness.is_served();
    let before = gateway.rss();
    for array in arrays() {
        // Counts of bytes that are not there, by none, by some and by more than an address space.
        for count in [array.largest(), if array.flexible { &[0xff, 0xff, 0xff, 0xff, 0x07] } else { &[0, 0, 1, 0] }] {
            let mut raw = Raw::connect(gateway.bootstrap());
            raw.send_bytes(&array.cut_behind(count));
            raw.assert_closed();
        }
        let line = gateway.until_logged(&[array.what.split(' ').next().expect("an API"), "does not fit"]);
        assert!(line.contains("version"), "{line}");
    }
    // The row's own: sixteen at a time.
    let metadata = request(3, 0, &[0x7f, 0xff, 0xff, 0xff]);
    let mut sixteen: Vec<_> = (0..16).map(|_| Raw::connect(gateway.bootstrap())).collect();
    for raw in &mut sixteen {
        raw.send_bytes(&metadata);
    }
    sixteen.iter_mut().for_each(Raw::assert_closed);
    witness.is_served();
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB more");
    assert_no_panic(&gateway);
}

#[test]
fn k110_a_length_past_the_end_of_its_frame_closes_the_connection_and_costs_no_memory() {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    witness.is_served();
    let before = gateway.rss();
    let named = ApiVersionsRequest::default()
        .with_client_software_name(string("raw"))
        .with_client_software_version(string("1"));
    let api_versions = body(3, &named);
    let long_tag = [&[1, 200, 1][..], &LARGEST_COMPACT].concat();
    let many_tags = LARGEST_COMPACT.to_vec();
    let many_empty_structs = {
        // Two bytes each: an empty name and no tagged fields. Decoded, they would take 64 times as much.
        let mut body = BytesMut::new();
        body.put_slice(&[0xc1, 0x84, 0x3d]);
        (0..1_000_000).for_each(|_| body.put_slice(&[1, 0]));
        body.put_slice(&[0, 0, 0, 0]);
        body.freeze()
    };
    for (what, frame) in [
        ("the size of a tagged field in the header", tagged_request(18, 3, &long_tag, &api_versions)),
        ("the number of tagged fields in the header", tagged_request(18, 3, &many_tags, &api_versions)),
        ("a tag of the header cut short", tagged_request(3, 9, &[1, 0xff], &[])),
        ("the software name of ApiVersions", tagged_request(18, 3, NO_TAGS, &LARGEST_COMPACT)),
        ("the size of a tagged field in the body", {
            let fields = &api_versions[..api_versions.len() - 1];
            request(18, 3, &[fields, &long_tag].concat())
        }),
        ("the number of tagged fields in the body", {
            let fields = &api_versions[..api_versions.len() - 1];
            request(18, 3, &[fields, &many_tags].concat())
        }),
        // DESIGN: SASL is not served yet, so its request closes the connection before it is looked at.
        ("the bytes of SaslAuthenticate", request(36, 2, &LARGEST_COMPACT)),
        ("an array of a million empty structs", request(3, 9, &many_empty_structs)),
    ] {
        eprintln!("sending {what}");
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send_bytes(&frame);
        raw.assert_closed();
        witness.is_served();
    }
    gateway.until_logged(&["Metadata version 9", "max_decoded_bytes"]);
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB more");
    assert_no_panic(&gateway);
}

#[test]
fn k112_an_impossible_record_count_is_refused_87_and_costs_no_memory() {
    refuses_counts(&[(i32::MAX, i32::MAX - 1), (i32::MAX, 0), (1 << 24, (1 << 24) - 1)]);
}

#[test]
fn k113_a_record_count_that_is_negative_or_none_is_refused_87() {
    refuses_counts(&[(-1, -2), (-1, 0), (0, -1), (0, 0), (i32::MIN, i32::MAX), (i32::MIN, -1)]);
}

/// Batches with these numbers of records and last offset deltas, whose CRC is right.
fn refuses_counts(counts: &[(i32, i32)]) {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "counted", 1, &[]).partition(0);
    let before = gateway.rss();
    for version in versions(0) {
        for (records_count, last_offset_delta) in counts {
            let batch = RecordBatch {
                records_count: *records_count,
                last_offset_delta: *last_offset_delta,
                ..RecordBatch::of(&["v"])
            };
            for batch in [batch.clone(), batch.gzip()] {
                let produced = partition.produce(&mut raw, version, Some(batch.bytes()));
                assert_eq!(produced.error_code, 87, "version {version}: {records_count} {last_offset_delta}");
            }
        }
    }
    witness.is_served();
    assert_eq!(partition.ends(&mut raw), (0, 0));
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB more");
    assert_no_panic(&gateway);
}

#[test]
fn k119_a_null_array_is_malformed_or_empty_and_never_a_panic() {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    for array in arrays() {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send_bytes(&array.null());
        let may_be_null = array.what == "Metadata topics" && array.version >= 1;
        if may_be_null {
            // All topics.
            assert!(!raw.receive_frame().is_empty());
        } else {
            raw.assert_closed();
            let api = array.what.split(' ').next().expect("an API");
            gateway.until_logged(&[&format!("{api} version {}", array.version), "must not be null"]);
        }
        witness.is_served();
    }
    assert_no_panic(&gateway);
}

#[test]
fn k115_a_header_that_cannot_be_true_closes_the_connection_with_one_line_that_names_the_peer() {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    let header = |key: i16, client_id_length: i16, behind: &[u8]| {
        let mut payload = BytesMut::new();
        payload.put_i16(key);
        payload.put_i16(0);
        payload.put_i32(1);
        payload.put_i16(client_id_length);
        payload.put_slice(behind);
        framed(&payload)
    };
    for (what, frame) in [
        ("client_id", header(18, -2, &[])),
        ("client_id", header(18, -7_530, b"raw")),
        ("client_id", header(18, i16::MAX, b"raw")),
        ("client_id", header(18, i16::MIN, &[0; 64])),
        ("API -1", header(-1, -1, &[])),
        ("too short", framed(&[0, 18, 0])),
    ] {
        let mut raw = Raw::connect(gateway.bootstrap());
        let peer = raw.address().to_string();
        raw.send_bytes(&frame);
        raw.assert_closed();
        gateway.until_logged(&[&peer, what]);
        let written = gateway.written();
        let lines: Vec<_> = written.lines().filter(|line| line.contains(&format!("{peer} "))).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        witness.is_served();
    }
    assert_no_panic(&gateway);
}

#[test]
fn k115_bytes_behind_a_request_are_ignored_in_every_version() {
    let gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    for api in crate::common::served::apis() {
        for version in api.served.versions.clone() {
            let body = (api.body)(version);
            for behind in [&[0][..], &[0xff; 100]] {
                raw.send_bytes(&request(api.served.api_key, version, &[&body, behind].concat()));
                (api.receive)(&mut raw, version);
            }
        }
    }
    assert_no_panic(&gateway);
}
